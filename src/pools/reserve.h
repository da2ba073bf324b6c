// SPDX-License-Identifier: Apache-2.0
/* reserve.h -- memory that is mapped ahead, and who gets it.
 *
 * What is reserved on a stream goes to its arena at once, so that allocations there need the arena alone. It is the
 * pool's all the same: while nothing was allocated in it, it serves whoever in the pool lacks memory, captures above
 * all, before more is mapped. What is reserved in a capture is idle memory. */
#ifndef TARN_POOLS_RESERVE_H
#define TARN_POOLS_RESERVE_H

#include "heap/arena.h"

/* See tarn_pool_reserve; the order is the stream's. No lock may be held. */
TARN_MUST_CHECK tarn_status tn_pool_reserve(tarn_pool *pool, uint64_t bytes, tn_cu_stream stream,
                                            struct tn_order order);

/* Makes idle what was reserved, and never used, in all heaps but that one. False: there was nothing, or no host memory
 * for records. Sets aside what it takes beside the records that the caller has set aside. The pool's lock. */
bool tn_reserved_return(tarn_pool *pool, const struct tn_heap *but);

#endif
