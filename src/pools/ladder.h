// SPDX-License-Identifier: Apache-2.0
/* ladder.h -- what is tried before an allocation fails for lack of memory.
 *
 * Locking: no lock may be held. */
#ifndef TARN_POOLS_LADDER_H
#define TARN_POOLS_LADDER_H

#include "pools/pool.h"

/* A single try, with the pool's lock held. frugal: maps no more than needed. DEVICE_MEMORY and
 * LIMIT: more memory would help. ADDRESS_SPACE: more addresses would help. */
typedef tarn_status (*tn_ladder_attempt)(tarn_pool *pool, const void *request, bool frugal,
                                         void **result);

/* Runs the attempt, and goes down the ladder while the device is out of memory. bytes: the request,
 * for the sentence. Returns the statuses of the attempt, and DEVICE_LOST. */
TARN_MUST_CHECK tarn_status tn_ladder_run(tarn_pool *pool, tn_ladder_attempt attempt,
                                          const void *request, uint64_t bytes, void **result);

/* The out-of-memory sentence: the request, the driver's free memory, and the pools with their
 * memory. Returns DEVICE_MEMORY. */
tarn_status tn_ladder_failed(const tarn_pool *pool, uint64_t bytes);

#endif
