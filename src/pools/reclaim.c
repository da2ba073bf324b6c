// SPDX-License-Identifier: Apache-2.0
/* Trim.
 *
 * Memory may be unmapped when every free in it came before a wait for the device that has ended.
 * What is not proven so stays, or is waited for once when the caller allows it.
 *
 * Trade-offs: the device's list of pools is locked while pools are trimmed, so pools are not created
 * meanwhile; unmapping a chunk costs some 50 to 500 us. */
#include "pools/reclaim.h"

#include "driver/pinned.h"
#include "pools/grow.h"
#include "pools/use.h"

/* Unmaps until the pool maps no more than keep_bytes. */
static uint64_t trim_to(tarn_pool *pool, uint64_t keep_bytes, bool *unproven)
{
    bool stays = false;
    uint64_t mapped;
    uint64_t freed;

    tn_pool_lock(pool);
    tn_pending_poll(pool, false);
    mapped = pool->counters.mapped_bytes;
    freed = tn_pool_unmap_free(pool, mapped > keep_bytes ? mapped - keep_bytes : 0,
                               TN_UNMAPPED_TO_DRIVER, &stays);
    tn_arenas_drop_empty(pool); /* their streams may be no more */
    /* What is pending may be proven free by a wait. */
    if (pool->counters.mapped_bytes > keep_bytes && (stays || tn_pool_has_pending(pool)))
        *unproven = true;
    tn_pool_unlock(pool);
    return freed;
}

tarn_status tn_pool_trim(tarn_pool *pool, uint64_t keep_bytes, bool wait, uint64_t *freed_bytes)
{
    bool unproven = false;
    tarn_status status = TARN_OK;

    tn_pool_lock(pool);
    pool->counters.events[TN_TRIMS].count += 1;
    tn_pool_unlock(pool);
    *freed_bytes = trim_to(pool, keep_bytes, &unproven);
    if (wait && unproven)
        status = tn_gpu_wait_idle(&pool->device->gpu);
    if (wait && unproven && status == TARN_OK)
        *freed_bytes += trim_to(pool, keep_bytes, &unproven);
    tn_regions_shrink(&pool->device->regions);
    return status;
}

/* The cache first, then the pools, the newest first. */
static uint64_t trim_all(tarn_device *device, uint64_t keep_bytes, bool *unproven)
{
    uint64_t mapped = atomic_load(&device->mapped_bytes);
    uint64_t freed =
        tn_chunk_cache_release(&device->cache, keep_bytes > mapped ? keep_bytes - mapped : 0);

    tn_lock_acquire(&device->lock);
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        uint64_t excess;
        uint64_t own;

        mapped = atomic_load(&device->mapped_bytes);
        excess = mapped > keep_bytes ? mapped - keep_bytes : 0;
        tn_pool_lock(pool);
        own = pool->counters.mapped_bytes;
        tn_pool_unlock(pool);
        freed += trim_to(pool, own > excess ? own - excess : 0, unproven);
    }
    tn_lock_release(&device->lock);
    return freed;
}

tarn_status tn_device_trim(tarn_device *device, uint64_t keep_bytes, bool wait,
                           uint64_t *freed_bytes)
{
    bool unproven = false;
    tarn_status status = TARN_OK;

    tn_device_reap(device);
    tn_lock_acquire(&device->lock);
    device->counters.events[TN_TRIMS].count += 1;
    tn_lock_release(&device->lock);
    *freed_bytes = trim_all(device, keep_bytes, &unproven);
    if (wait && unproven)
        status = tn_gpu_wait_idle(&device->gpu);
    if (wait && unproven && status == TARN_OK)
        *freed_bytes += trim_all(device, keep_bytes, &unproven);
    if (wait)
        tn_pinned_trim(&device->gpu, keep_bytes);
    tn_regions_shrink(&device->regions);
    return status;
}
