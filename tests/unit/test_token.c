// SPDX-License-Identifier: Apache-2.0
/* Tokens: offers that are taken once and in time, and what their takers have asked for. */
#include "share/token.h"
#include "unit/unit.h"

#define HOUR_NS UINT64_C(3600000000000)

static struct tn_offers offers;
static struct tn_share share;
static uint64_t address;
static uint64_t sequence;

SUITE("tokens")
GROUP(tokens, NULL)

static void begin(uint64_t time_ns)
{
    tn_offers_init(&offers, time_ns);
}

/* L8 */
TEST(tokens, a_token_serves_once)
{
    struct tn_share other = {.magic = 0};

    begin(HOUR_NS);
    OK(tn_offer_add(&offers, 4096, 7, &share));
    OK(tn_offer_add(&offers, 8192, 9, &other));
    ck_assert_mem_ne(share.token, other.token, sizeof other.token);
    ck_assert(tn_offer_take(&offers, share.token, &address, &sequence));
    ck_assert_uint_eq(address, 4096);
    ck_assert_uint_eq(sequence, 7);
    ck_assert(!tn_offer_take(&offers, share.token, &address, &sequence));
    ck_assert_uint_eq(address, 4096);
    ck_assert_uint_eq(offers.count, 1);
    tn_offers_fini(&offers);
}

TEST(tokens, a_token_nobody_gave_leads_nowhere)
{
    begin(UINT64_MAX); /* for ever */
    OK(tn_offer_add(&offers, 4096, 7, &share));
    share.token[0] ^= 1;
    ck_assert(!tn_offer_take(&offers, share.token, &address, &sequence));
    share.token[0] ^= 1;
    ck_assert(tn_offer_take(&offers, share.token, &address, &sequence));
    tn_offers_fini(&offers);
}

TEST(tokens, a_token_does_not_serve_behind_its_time)
{
    begin(1);
    OK(tn_offer_add(&offers, 4096, 7, &share));
    while (test_pause(INT64_MAX) && tn_offer_take(&offers, share.token, &address, &sequence))
        OK(tn_offer_add(&offers, 4096, 7, &share));
    ck_assert_uint_eq(offers.count, 0);
    ck_assert_ptr_null(offers.first);
    tn_offers_fini(&offers);
}

TEST(tokens, offers_have_a_limit_and_those_that_are_over_make_room)
{
    begin(HOUR_NS);
    for (uint32_t i = 0; i < TN_OFFERS_MAX; i++)
        OK(tn_offer_add(&offers, 4096, 1 + i, &share));
    STATUS(TARN_ERR_LIMIT, tn_offer_add(&offers, 4096, 7, &share));
    offers.first->next->deadline_ns = 0; /* and all behind */
    OK(tn_offer_add(&offers, 4096, 7, &share));
    ck_assert_uint_eq(offers.count, 2);
    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, tn_offer_add(&offers, 4096, 7, &share));
    (void)tn_host_plan_fault(0, false);
    ck_assert_uint_eq(offers.count, 2);
    tn_offers_fini(&offers);
}

static const uint8_t first[TN_TOKEN_BYTES] = {1};
static const uint8_t second[TN_TOKEN_BYTES] = {2};

static struct tn_message answer(const uint8_t token[TN_TOKEN_BYTES], enum tn_message_kind kind)
{
    struct tn_message message = {.kind = (uint16_t)kind, .slot = 5, .generation = 6};

    message.refusal = kind == TN_MESSAGE_REFUSAL ? TN_REFUSAL_GONE : TN_REFUSAL_NONE;
    memcpy(message.token, token, sizeof message.token);
    return message;
}

TEST(tokens, an_answer_goes_to_its_bid)
{
    static struct tn_bids bids;
    const struct tn_message granted = answer(second, TN_MESSAGE_GRANT);
    const struct tn_message refused = answer(first, TN_MESSAGE_REFUSAL);
    struct tn_bid *bid = tn_bid_add(&bids, first);

    ck_assert(!tn_bid_answer(&bids, &granted)); /* nobody has asked */
    STATUS(TARN_ERR_BUSY, tn_bid_read(bid, &share));
    (void)tn_bid_add(&bids, second);
    ck_assert(tn_bid_answer(&bids, &granted));
    ck_assert(!tn_bid_answer(&bids, &granted));
    share.has_token = 1;
    OK(tn_bid_read(tn_bid_find(&bids, second), &share));
    ck_assert_uint_eq(share.slot, 5);
    ck_assert_uint_eq(share.generation, 6);
    ck_assert_uint_eq(share.has_token, 0);
    ck_assert(tn_bid_answer(&bids, &refused));
    STATUS(TARN_ERR_STALE, tn_bid_read(bid, &share));
    ck_assert_ptr_null(tn_bid_find(&bids, first)); /* it may be claimed again */
}

TEST(tokens, bids_have_a_limit)
{
    static struct tn_bids bids;
    uint8_t token[TN_TOKEN_BYTES] = {0};

    for (uint8_t i = 0; i < TN_BIDS_MAX; i++) {
        token[1] = i;
        ck_assert_ptr_nonnull(tn_bid_add(&bids, token));
    }
    token[1] = TN_BIDS_MAX;
    ck_assert_ptr_null(tn_bid_add(&bids, token));
}
