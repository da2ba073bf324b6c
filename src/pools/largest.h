// SPDX-License-Identifier: Apache-2.0
/* largest.h -- the largest allocation that would succeed now, without a wait for the GPU.
 *
 * Locking: none may be held. */
#ifndef TARN_POOLS_LARGEST_H
#define TARN_POOLS_LARGEST_H

#include "base/order.h"
#include "pools/device.h"

/* The bytes of the largest request that the pool could serve on the stream of the order, which is
 * not captured; 0: none. Callbacks of the program do not count. Polls what is pending, as statistics
 * do, and may ask the stream for a proof, as an allocation does; changes nothing else.
 *   HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_pool_find_largest(tarn_pool *pool, tn_cu_stream stream,
                                                 struct tn_order order, uint64_t *bytes);

#endif
