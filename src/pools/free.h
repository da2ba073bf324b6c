// SPDX-License-Identifier: Apache-2.0
/* free.h -- from an address to its live block, and the free of the block.
 *
 * Locking: the pool's, as each function says. */
#ifndef TARN_POOLS_FREE_H
#define TARN_POOLS_FREE_H

#include "pools/pool.h"

/* Finds the segment that contains an address and locks its pool, which the caller unlocks.
 * NOT_OURS. */
TARN_MUST_CHECK tarn_status tn_pool_lock_segment(uint64_t address, tarn_pool **pool,
                                                 struct tn_segment **segment);

/* Finds the live block that an address lies in, wherever, and locks its pool, which the caller
 * unlocks.
 *   NOT_OURS, DOUBLE_FREE; nothing is locked */
TARN_MUST_CHECK tarn_status tn_pool_lock_around(uint64_t address, tarn_pool **pool,
                                                struct tn_block **block);

/* Finds the live block at an address and locks its pool, which the caller unlocks. live_only: a
 * DISCARDED block counts as not live.
 *   NOT_OURS, INNER_ADDRESS, DOUBLE_FREE; nothing is locked */
TARN_MUST_CHECK tarn_status tn_pool_lock_block(uint64_t address, bool live_only, tarn_pool **pool,
                                               struct tn_block **block);

/* Frees a LIVE or DISCARDED block; the lock is held. Cannot fail. Memory of the block's own order
 * is FREE at once; other memory is PENDING until its uses have ended. told: the caller has named
 * the last use. */
void tn_pool_free_block(tarn_pool *pool, struct tn_block *block, bool told);

/* Frees a block in a capture under way which got no hold: the memory waits for the hold of the
 * capture's graph. */
void tn_pool_free_unheld(tarn_pool *pool, struct tn_block *block);

/* Makes the live blocks of an aborted capture DISCARDED, including blocks of its bodies; the lock
 * is held. */
void tn_pool_discard(tarn_pool *pool, uint64_t capture_id);

#endif
