// SPDX-License-Identifier: Apache-2.0
/* books.h -- which blocks are live, and how many.
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_BOOKS_H
#define TARN_POOLS_BOOKS_H

#include "pools/pool.h"

/* Enter makes a newly carved block LIVE, in the index and the counters. Leave takes a LIVE or
 * DISCARDED block out of both. */
void tn_pool_enter_live(tarn_pool *pool, struct tn_block *block, bool restored);
void tn_pool_leave_live(tarn_pool *pool, struct tn_block *block);

/* Makes a LIVE block DISCARDED: it no longer counts as live. */
void tn_pool_discard_live(tarn_pool *pool, struct tn_block *block);

/* For many blocks in a row: makes a FREE block LIVE as it is, with its heap's kind and its arena's
 * order, without uses. The block begins in the chunk, whose index has room for it. Counts the block
 * in the tally of its kind. tn_pool_count_live adds these tallies to the pool's counters in the
 * end. */
void tn_pool_revive(struct tn_chunk *chunk, struct tn_block *block, uint64_t requested,
                    uint64_t sequence, struct tn_tally *tally);
void tn_pool_count_live(tarn_pool *pool, const struct tn_tally tallies[TN_HEAP_KINDS]);

#endif
