// SPDX-License-Identifier: Apache-2.0
/* end.h -- when a pool may go, and how it does.
 *
 * Locking: as each function says. */
#ifndef TARN_POOLS_END_H
#define TARN_POOLS_END_H

#include "pools/pool.h"

/* BUSY, with what claims the pool in the sentence, or TARN_OK. The lock is held. */
TARN_MUST_CHECK tarn_status tn_pool_check_unclaimed(const tarn_pool *pool);

bool tn_pool_is_unclaimed(const tarn_pool *pool); /* the same, without a sentence */

/* Whether all free memory of the pool is proven idle. The lock is held. */
bool tn_pool_is_idle(tarn_pool *pool);

/* Whether nothing but holds keeps the pool: those of graphs destroyed just now go by themselves. The
 * lock is held. */
bool tn_pool_is_only_held(const tarn_pool *pool);

/* The call is over: a pool whose handle was given up may go with it. No lock may be held. */
void tn_pool_unpin(tarn_pool *pool);

/* Destroys a pool that nothing claims: waits for graphs destroyed just now, and for the device where
 * free memory is not proven idle. No lock may be held.
 *   BUSY, DRIVER; nothing has changed */
TARN_MUST_CHECK tarn_status tn_pool_destroy(tarn_pool *pool);

#endif
