// SPDX-License-Identifier: Apache-2.0
/* settle.h -- a pool's free memory brought into one form.
 *
 * A section that is captured again after a restore gets the same addresses, whatever blocks polls
 * have found meanwhile. For this purpose a restore frees PENDING blocks without asking whether
 * their uses have ended: it puts its stream behind the uses. Work enqueued later comes behind this
 * stream. A take does the same, for the first capture of the section comes behind the take.
 *
 *   C8  a settled pool has no PENDING block but those that a guard keeps, that wait for a graph to
 *       be adopted or, after a take, that only a wait would free or that are other streams' alone
 *
 * Locking: the pool's lock; no capture is under way in the pool. */
#ifndef TARN_CHECKPOINT_SETTLE_H
#define TARN_CHECKPOINT_SETTLE_H

#include "pools/pending.h"

struct tn_settlement {
    tarn_pool *pool; /* immutable, as the next ones */
    tn_cu_stream stream;
    struct tn_order order;
    bool by_events; /* the stream may wait for events */
    /* Set by a restore: also blocks that are other streams' alone, if need be after a wait. */
    bool all;
    /* LIVE blocks up to this number existed before the last wait. */
    uint64_t idle_sequence;
    /* Found by the plan: */
    /* Carried by the blocks that the settlement is to free. */
    uint8_t walk_id;
    bool needs_wait;      /* only a wait for the device ends some use */
    bool ends_retired;    /* the arenas of retired streams end, too */
    bool serves_captures; /* memory that others still use goes to captures */
    size_t count;         /* of blocks with the walk id */
};

/* Walk ids wrap around: then all blocks get 0. The next count ids come without that: a walk that
 * blocks carry an id of must not lose it to another. The pool is locked. */
void tn_walk_ids_prepare(tarn_pool *pool, uint8_t count);

/* A walk id that no live block of the pool carries; the pool is locked. */
uint8_t tn_next_walk_id(tarn_pool *pool);

/* Finds the blocks to free. Changes walk ids, and records fences. */
void tn_settle_plan(struct tn_settlement *settlement);

/* The same for a LIVE block that the restore is about to free. */
void tn_settle_plan_live(struct tn_settlement *settlement, struct tn_block *block);

/* Puts the stream behind the uses of the planned blocks. DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_settle_prepare(const struct tn_settlement *settlement);

/* Frees the planned blocks. Takes up to two records for each of them. A planned LIVE block has
 * been freed by now. Where the driver refuses to put the stream behind its uses, the block stays
 * PENDING. */
void tn_settle_commit(const struct tn_settlement *settlement);

#endif
