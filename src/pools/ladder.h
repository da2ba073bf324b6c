// SPDX-License-Identifier: Apache-2.0
/* ladder.h -- what is tried before an allocation fails for want of memory.
 *
 * Locking: no lock may be held. */
#ifndef TARN_POOLS_LADDER_H
#define TARN_POOLS_LADDER_H

#include "pools/pool.h"

/* One try, with the pool's lock held. frugal: it maps no more than it needs. DEVICE_MEMORY and LIMIT
 * mean that more memory would help, ADDRESS_SPACE that more addresses would. */
typedef tarn_status (*tn_ladder_attempt)(tarn_pool *pool, const void *request, bool frugal,
                                         void **result);

/* Runs the attempt, going down the ladder while the device is out of memory. bytes: what was asked
 * for, for the sentence. Statuses are those of the attempt, and DEVICE_LOST. */
TARN_MUST_CHECK tarn_status tn_ladder_run(tarn_pool *pool, tn_ladder_attempt attempt,
                                          const void *request, uint64_t bytes, void **result);

/* The out-of-memory sentence: what was asked, what the driver has free, and which pools hold what.
 * Returns DEVICE_MEMORY. */
tarn_status tn_ladder_failed(const tarn_pool *pool, uint64_t bytes);

#endif
