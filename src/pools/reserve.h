// SPDX-License-Identifier: Apache-2.0
/* reserve.h -- memory mapped ahead, and who gets it.
 *
 * Memory reserved on a stream goes to the stream's arena at once: allocations on the stream then
 * need only the arena. The pool still owns this memory. Unused, it serves any order in the pool
 * which lacks memory, mainly captures, before more is mapped. Memory reserved in a capture is idle
 * memory. */
#ifndef TARN_POOLS_RESERVE_H
#define TARN_POOLS_RESERVE_H

#include "heap/arena.h"

/* See tarn_pool_reserve; the order is the stream's. No lock may be held. */
TARN_MUST_CHECK tarn_status tn_pool_reserve(tarn_pool *pool, uint64_t bytes, tn_cu_stream stream,
                                            struct tn_order order);

/* Makes reserved, never used memory idle, in all heaps but one. False: nothing was reserved, or no
 * host memory for records. Leaves the records which the caller has set aside, and sets aside its
 * own. Locking: the pool's lock. */
bool tn_reserved_return(tarn_pool *pool, const struct tn_heap *but);

#endif
