// SPDX-License-Identifier: Apache-2.0
/* Offers are in a list, the newest first. So those whose time is over are the last ones, since all
 * have the same time.
 *
 * Trade-offs. A token is found by a walk over the offers, which are few: a token is for a process
 * that is not connected yet. 16 random bytes are guessed by nobody, so no comparison hides its time. */
#include "share/token.h"

#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"

void tn_offers_init(struct tn_offers *offers, uint64_t time_ns)
{
    TN_ASSERT(time_ns > 0);
    tn_lock_init(&offers->lock, TN_RANK_OFFERS);
    offers->first = NULL;
    offers->count = 0;
    offers->time_ns = time_ns;
}

static void free_all(struct tn_offer *offer)
{
    while (offer != NULL) {
        struct tn_offer *next = offer->next;

        tn_host_free(offer);
        offer = next;
    }
}

void tn_offers_fini(struct tn_offers *offers)
{
    free_all(offers->first);
    tn_lock_fini(&offers->lock);
}

static bool is_over(const struct tn_offer *offer, uint64_t now)
{
    return now >= offer->deadline_ns;
}

/* Takes the offers whose time is over out of the list. */
static struct tn_offer *cut(struct tn_offers *offers, uint64_t now)
{
    struct tn_offer **link = &offers->first;
    struct tn_offer *over;

    TN_ASSERT(tn_lock_is_held(&offers->lock));
    while (*link != NULL && !is_over(*link, now))
        link = &(*link)->next;
    over = *link;
    *link = NULL;
    for (const struct tn_offer *offer = over; offer != NULL; offer = offer->next)
        offers->count -= 1;
    return over;
}

static bool make_token(uint8_t token[TN_TOKEN_BYTES])
{
    return getrandom(token, TN_TOKEN_BYTES, 0) == TN_TOKEN_BYTES;
}

tarn_status tn_offer_add(struct tn_offers *offers, uint64_t address, uint64_t sequence,
                         struct tn_share *share)
{
    struct tn_offer *made = tn_host_alloc(1, sizeof *made);
    struct tn_offer *over;
    uint64_t now;
    bool has_room;

    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for an offer");
    if (!make_token(made->token)) {
        tn_host_free(made);
        return tn_fail(TARN_ERR_HOST_MEMORY, "the system has no random bytes for a token");
    }
    made->address = address;
    made->sequence = sequence;
    memcpy(share->token, made->token, sizeof made->token);
    tn_lock_acquire(&offers->lock);
    now = tn_clock_nanoseconds(CLOCK_MONOTONIC);
    made->deadline_ns = offers->time_ns < UINT64_MAX - now ? now + offers->time_ns : UINT64_MAX;
    over = cut(offers, now);
    has_room = offers->count < TN_OFFERS_MAX;
    if (has_room) {
        made->next = offers->first;
        offers->first = made;
        offers->count += 1;
    }
    tn_lock_release(&offers->lock);
    free_all(over);
    if (has_room)
        return TARN_OK;
    tn_host_free(made);
    return tn_fail(TARN_ERR_LIMIT,
                   "%d shares of the listener wait for a process, and their time is "
                   "not over",
                   (int)TN_OFFERS_MAX);
}

bool tn_offer_take(struct tn_offers *offers, const uint8_t token[TN_TOKEN_BYTES], uint64_t *address,
                   uint64_t *sequence)
{
    struct tn_offer **link = &offers->first;
    struct tn_offer *found;
    struct tn_offer *over;

    tn_lock_acquire(&offers->lock);
    over = cut(offers, tn_clock_nanoseconds(CLOCK_MONOTONIC)); /* L8 */
    while (*link != NULL && memcmp((*link)->token, token, TN_TOKEN_BYTES) != 0)
        link = &(*link)->next;
    found = *link;
    if (found != NULL) {
        *link = found->next;
        offers->count -= 1;
    }
    tn_lock_release(&offers->lock);
    free_all(over);
    if (found == NULL)
        return false;
    *address = found->address;
    *sequence = found->sequence;
    tn_host_free(found);
    return true;
}

struct tn_bid *tn_bid_find(struct tn_bids *bids, const uint8_t token[TN_TOKEN_BYTES])
{
    for (size_t i = 0; i < TN_BIDS_MAX; i++) {
        if (bids->bids[i].state != TN_BID_NONE &&
            memcmp(bids->bids[i].token, token, TN_TOKEN_BYTES) == 0)
            return &bids->bids[i];
    }
    return NULL;
}

struct tn_bid *tn_bid_add(struct tn_bids *bids, const uint8_t token[TN_TOKEN_BYTES])
{
    TN_ASSERT(tn_bid_find(bids, token) == NULL);
    for (size_t i = 0; i < TN_BIDS_MAX; i++) {
        struct tn_bid *claim = &bids->bids[i];

        if (claim->state != TN_BID_NONE)
            continue;
        claim->state = TN_BID_SENT;
        memcpy(claim->token, token, TN_TOKEN_BYTES);
        return claim;
    }
    return NULL;
}

bool tn_bid_answer(struct tn_bids *bids, const struct tn_message *message)
{
    struct tn_bid *claim = tn_bid_find(bids, message->token);

    TN_ASSERT(message->kind == TN_MESSAGE_GRANT || message->kind == TN_MESSAGE_REFUSAL);
    if (claim == NULL || claim->state != TN_BID_SENT)
        return false;
    claim->state = message->kind == TN_MESSAGE_GRANT ? TN_BID_GRANTED : TN_BID_REFUSED;
    claim->refusal = (enum tn_refusal)message->refusal;
    claim->slot = message->slot;
    claim->generation = message->generation;
    return true;
}

tarn_status tn_bid_read(struct tn_bid *claim, struct tn_share *share)
{
    TN_ASSERT(claim->state != TN_BID_NONE);
    if (claim->state == TN_BID_SENT)
        return tn_fail(TARN_ERR_BUSY, "the producer has not answered to the token yet");
    if (claim->state == TN_BID_GRANTED) {
        share->has_token = 0;
        share->slot = claim->slot;
        share->generation = claim->generation;
        return TARN_OK;
    }
    claim->state = TN_BID_NONE;
    if (claim->refusal == TN_REFUSAL_LIMIT)
        return tn_fail(TARN_ERR_LIMIT, "the producer has no lease or chunk left for this process");
    return tn_fail(TARN_ERR_STALE, claim->refusal == TN_REFUSAL_GONE
                                       ? "the block was freed before its token was claimed"
                                       : "the token was taken, or its time is over");
}
