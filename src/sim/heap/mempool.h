// SPDX-License-Identifier: Apache-2.0
/* mempool.h -- the driver's pools: memory that is allocated and freed in the order of streams.
 *
 * A pool has memory of a single device, taken in chunks of 32 MiB. The pool keeps free memory until
 * somebody waits for the stream that freed the memory, and the pool then has more than its
 * threshold.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_MEMPOOL_H
#define TARN_SIM_MEMPOOL_H

#include "sim/heap/linear.h"

struct tn_sim_pool {
    struct tn_sim_object object; /* without a handle once destroyed */
    tn_cu_mempool name; /* its handle, which its memory shows even when the pool is destroyed */
    struct tn_sim_pool *next;
    int device;
    bool is_default; /* its device's own, which nobody destroys */
    struct tn_sim_heap *heap;
    uint64_t release_threshold;
    int internal_dependencies; /* an allocation may be made to wait for memory */
    uint64_t live;             /* allocations not freed */
    uint64_t reserved_high;
    uint64_t used; /* bytes of live allocations, as asked for */
    uint64_t used_high;
};

/* The pool of a handle, or NULL. */
struct tn_sim_pool *tn_sim_pool_find(tn_cu_mempool handle);

/* The pool that cuMemAllocAsync takes from on a device; NULL when memory ran out. */
struct tn_sim_pool *tn_sim_pool_current(int device);

/* Frees an allocation of a pool: from a moment on, or at once for NULL. */
void tn_sim_pool_drop(struct tn_sim_linear *linear, const struct tn_sim_point *from);

/* Ends a wait: memory freed in the order of the moment's stream, up to the moment, is free for
 * everyone. Pools give up the memory above their thresholds. */
void tn_sim_pools_waited(const struct tn_sim_point *moment);

/* The same when a stream is destroyed, as far as its work is done. */
void tn_sim_pools_forget(struct tn_sim_stream *stream);

/* The same after a wait for everything on a device. */
void tn_sim_pools_waited_all(int device);

/* Gives back all unused memory of a device's pools. Returns whether they had any. */
bool tn_sim_pools_reclaim(int device);

/* Ends destroyed pools whose last memory has become free. */
void tn_sim_pools_bury(void);

#endif
