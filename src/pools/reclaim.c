// SPDX-License-Identifier: Apache-2.0
/* Trim and the out-of-memory sentence.
 *
 * Memory may be unmapped when every free in it came before a wait for the device that has ended.
 * What is not proven so stays, or is waited for once when the caller allows it.
 *
 * Trade-offs: the device's list of pools is locked while pools are trimmed, so pools are not created
 * meanwhile; unmapping a chunk costs some 50 to 500 us. */
#include "pools/reclaim.h"

#include <stdio.h>

#include "base/checked.h"
#include "base/error.h"
#include "pools/grow.h"
#include "pools/use.h"

static uint64_t trim_locked(tarn_pool *pool, bool *unproven)
{
    uint64_t freed;

    tn_lock_acquire(&pool->lock);
    tn_pending_poll(pool, false);
    freed = tn_pool_unmap_free(pool, unproven);
    if (pool->pending_first != NULL)
        *unproven = true;
    tn_lock_release(&pool->lock);
    return freed;
}

tarn_status tn_pool_trim(tarn_pool *pool, bool wait, uint64_t *freed_bytes)
{
    bool unproven = false;
    tarn_status status;

    *freed_bytes = trim_locked(pool, &unproven);
    if (!wait || !unproven)
        return TARN_OK;
    status = tn_gpu_wait_idle(&pool->device->gpu);
    if (status == TARN_OK)
        *freed_bytes += trim_locked(pool, &unproven);
    return status;
}

static uint64_t trim_all(tarn_device *device, bool *unproven)
{
    uint64_t freed = 0;

    tn_lock_acquire(&device->lock);
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next)
        freed += trim_locked(pool, unproven);
    tn_lock_release(&device->lock);
    return freed;
}

tarn_status tn_device_trim(tarn_device *device, bool wait, uint64_t *freed_bytes)
{
    bool unproven = false;
    tarn_status status;

    tn_device_reap(device);
    *freed_bytes = trim_all(device, &unproven);
    if (!wait || !unproven)
        return TARN_OK;
    status = tn_gpu_wait_idle(&device->gpu);
    if (status == TARN_OK)
        *freed_bytes += trim_all(device, &unproven);
    return status;
}

tarn_status tn_device_out_of_memory(tarn_device *device, const tarn_pool *pool, uint64_t bytes)
{
    char pools[512] = "";
    size_t used = 0;
    size_t free_bytes;
    size_t total_bytes;

    tn_gpu_memory_info(&device->gpu, &free_bytes, &total_bytes);
    tn_lock_acquire(&device->lock);
    for (tarn_pool *other = device->pools; other != NULL && used < sizeof pools; other = other->next) {
        int length;

        tn_lock_acquire(&other->lock);
        length = snprintf(pools + used, sizeof pools - used, "; pool '%s' maps %llu MiB, %llu live",
                          other->name,
                          (unsigned long long)(other->counters.mapped_bytes / TN_MIB),
                          (unsigned long long)(other->counters.live_bytes / TN_MIB));
        tn_lock_release(&other->lock);
        used += length > 0 ? (size_t)length : 0;
    }
    tn_lock_release(&device->lock);
    return tn_fail(TARN_ERR_DEVICE_MEMORY,
                   "device %d has no %llu bytes for pool '%s': the driver has %llu of %llu MiB "
                   "free, Tarn maps %llu MiB%s",
                   device->gpu.ordinal, (unsigned long long)bytes, pool->name,
                   (unsigned long long)(free_bytes / TN_MIB),
                   (unsigned long long)(total_bytes / TN_MIB),
                   (unsigned long long)(atomic_load(&device->mapped_bytes) / TN_MIB), pools);
}
