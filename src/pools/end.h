// SPDX-License-Identifier: Apache-2.0
/* end.h -- when a pool may go, and how it does.
 *
 * Locking: as each function says. */
#ifndef TARN_POOLS_END_H
#define TARN_POOLS_END_H

#include "pools/pool.h"

/* Whether all free memory of the pool is proven idle. The lock is held. */
bool tn_pool_is_idle(tarn_pool *pool);

/* Destroys an unclaimed pool. Waits for the device where free memory is not proven idle, but not
 * for newly destroyed graphs (pools/await.h). No lock may be held.
 *   BUSY, DRIVER, INVALID_HANDLE: another thread destroys it; nothing has changed */
TARN_MUST_CHECK tarn_status tn_pool_destroy(tarn_pool *pool);

/* Ends the pools of which trackers were to hear first (pools/trackers.h). all: waits for threads that
 * are telling of their memory; else such pools stay for a later call. No lock may be held. */
void tn_pools_end_told(tarn_device *device, bool all);

/* The same as tn_pool_destroy for the thread that has set the pool's ending to NOW: nobody else destroys the pool. */
TARN_MUST_CHECK tarn_status tn_pool_end_now(tarn_pool *pool);

#endif
