// SPDX-License-Identifier: Apache-2.0
/* token.h -- shares for whoever comes first: offers of a listener, and bids of a consumer.
 *
 *   L8  a token leads to one lease at most, and to none behind its time
 *
 * An offer has no lease: the block goes with a free. The first connection of the listener that
 * claims the token gets a lease, if the block is there still. docs/sharing.md has the messages.
 *
 * Locking: offers have a lock of their own, of rank OFFERS. Bids are guarded by the connection's
 * lock. */
#ifndef TARN_SHARE_TOKEN_H
#define TARN_SHARE_TOKEN_H

#include <stdbool.h>

#include "base/lock.h"
#include "share/message.h"

enum { TN_OFFERS_MAX = 4096, TN_BIDS_MAX = 64 };

struct tn_offer {
    struct tn_offer *next; /* the older one */
    uint64_t address;
    uint64_t sequence; /* of the block, which tells it from the next one there */
    uint64_t deadline_ns;
    uint8_t token[TN_TOKEN_BYTES];
};

struct tn_offers {
    struct tn_lock lock;
    struct tn_offer *first; /* guarded by lock, as is count */
    uint32_t count;
    uint64_t time_ns; /* of each offer; immutable */
};

void tn_offers_init(struct tn_offers *offers, uint64_t time_ns);
void tn_offers_fini(struct tn_offers *offers);

/* Offers a block, under a new token, which goes into the share. LIMIT: TN_OFFERS_MAX are out;
 * HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_offer_add(struct tn_offers *offers, uint64_t address,
                                         uint64_t sequence, struct tn_share *share);

/* Takes the offer of the token away. False: there is none, or its time is over. */
bool tn_offer_take(struct tn_offers *offers, const uint8_t token[TN_TOKEN_BYTES], uint64_t *address,
                   uint64_t *sequence);

enum tn_bid_state { TN_BID_NONE, TN_BID_SENT, TN_BID_GRANTED, TN_BID_REFUSED };

/* A token that a consumer has sent. */
struct tn_bid {
    enum tn_bid_state state;
    enum tn_refusal refusal;
    uint32_t slot;
    uint32_t generation;
    uint8_t token[TN_TOKEN_BYTES];
};

struct tn_bids {
    struct tn_bid bids[TN_BIDS_MAX];
};

/* The bid for a token; NULL: none. */
struct tn_bid *tn_bid_find(struct tn_bids *bids, const uint8_t token[TN_TOKEN_BYTES]);

/* A new bid, SENT. NULL: TN_BIDS_MAX are there. */
struct tn_bid *tn_bid_add(struct tn_bids *bids, const uint8_t token[TN_TOKEN_BYTES]);

/* The producer's answer, a GRANT or a REFUSAL. False: nobody has asked. */
bool tn_bid_answer(struct tn_bids *bids, const struct tn_message *message);

/* OK: the share leads to a lease then. BUSY: no answer has come; else why the producer refuses. An
 * answered bid that is refused is gone.
 *   STALE: the token was taken, its time is over, or its block was freed; LIMIT: no lease is left */
TARN_MUST_CHECK tarn_status tn_bid_read(struct tn_bid *claim, struct tn_share *share);

#endif
