// SPDX-License-Identifier: Apache-2.0
/* books.h -- which blocks are live, and how many.
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_BOOKS_H
#define TARN_POOLS_BOOKS_H

#include "pools/pool.h"

/* Makes a block that was just carved LIVE, or one that is LIVE not so: table and counters. */
void tn_pool_enter_live(tarn_pool *pool, struct tn_block *block);
void tn_pool_leave_live(tarn_pool *pool, struct tn_block *block);

/* Makes a LIVE block a DISCARDED one, which is not counted among the live ones. */
void tn_pool_discard_live(tarn_pool *pool, struct tn_block *block);

/* Makes a FREE block LIVE as it is, for many in a row: it is of its heap's kind and of its arena's order, without uses.
 * It begins in the chunk, in whose index there is room for it. Counts it in the tally of its kind; tn_pool_count_live
 * adds those to the pool's counters, in the end. */
void tn_pool_revive(struct tn_chunk *chunk, struct tn_block *block, uint64_t requested,
                    uint64_t sequence, struct tn_tally *tally);
void tn_pool_count_live(tarn_pool *pool, const struct tn_tally tallies[TN_HEAP_KINDS]);

#endif
