// SPDX-License-Identifier: Apache-2.0
/* The devices of the process: one record for each ordinal, counted among its users.
 *
 * Opening makes everything or nothing: driver, address table, context, first region, default pool.
 *
 * Trade-offs: the record of a closed device is recycled; a stale handle is seen by its magic number
 * unless the same record has been opened again. */
#include "pools/device.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "vmm/address_table.h"

static struct tn_records device_records = TN_RECORDS_INIT(struct tarn_device);
static struct tn_lock process_lock = TN_LOCK_INIT(TN_RANK_PROCESS);
static tarn_device *open_devices; /* guarded by process_lock */

static tarn_status check_granularity(struct tn_gpu *gpu)
{
    uint64_t granularity = 0;
    tarn_status status = tn_gpu_granularity(gpu, &granularity);

    if (status == TARN_OK && (granularity == 0 || TN_PAGE_BYTES % granularity != 0))
        status = tn_fail(TARN_ERR_NOT_SUPPORTED,
                         "device %d maps memory in steps of %llu bytes; Tarn needs a divisor of "
                         "2 MiB",
                         gpu->ordinal, (unsigned long long)granularity);
    return status;
}

static tarn_status init_device(tarn_device *device, const struct tn_driver *driver, int ordinal,
                               uint64_t region_bytes)
{
    tarn_status status = tn_gpu_open(&device->gpu, driver, ordinal);

    if (status != TARN_OK)
        return status;
    status = check_granularity(&device->gpu);
    if (status != TARN_OK)
        goto close_gpu;
    status = tn_regions_init(&device->regions, &device->gpu, region_bytes);
    if (status != TARN_OK)
        goto close_gpu;
    tn_lock_init(&device->lock, TN_RANK_DEVICE);
    tn_routes_init(&device->routes);
    status = tn_pool_create(device, "default", 0, true, &device->default_pool);
    if (status == TARN_OK)
        return TARN_OK;
    tn_routes_fini(&device->routes);
    tn_lock_fini(&device->lock);
    tn_regions_fini(&device->regions);
close_gpu:
    tn_gpu_close(&device->gpu);
    return status;
}

/* The open device of that ordinal, or a new one; process_lock is held. */
static tarn_status open_locked(int ordinal, uint64_t region_bytes, uint64_t limit_bytes,
                               tarn_device **result)
{
    const struct tn_driver *driver;
    tarn_device *device;
    tarn_status status = tn_driver_load(&driver);

    if (status == TARN_OK)
        status = tn_address_table_init();
    if (status != TARN_OK)
        return status;
    for (device = open_devices; device != NULL; device = device->next) {
        if (device->gpu.ordinal == ordinal) {
            device->user_count += 1;
            *result = device;
            return TARN_OK;
        }
    }
    device = tn_records_take(&device_records);
    if (device == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a device");
    device->limit_bytes = limit_bytes;
    status = init_device(device, driver, ordinal, region_bytes);
    if (status != TARN_OK) {
        tn_records_give(&device_records, device);
        return status;
    }
    device->user_count = 1;
    device->next = open_devices;
    open_devices = device;
    atomic_store(&device->magic, TN_DEVICE_MAGIC);
    *result = device;
    return TARN_OK;
}

tarn_status tn_device_open(int ordinal, uint64_t region_bytes, uint64_t limit_bytes,
                           tarn_device **device)
{
    tarn_status status;

    tn_lock_acquire(&process_lock);
    status = open_locked(ordinal, region_bytes, limit_bytes, device);
    tn_lock_release(&process_lock);
    return status;
}

/* BUSY while anything but the default pool's free memory is there. */
static tarn_status check_unused(tarn_device *device)
{
    uint64_t pool_count = 0;
    tarn_status status = TARN_OK;

    tn_lock_acquire(&device->lock);
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next)
        pool_count += !pool->is_default;
    if (pool_count > 0) {
        status = tn_fail(TARN_ERR_BUSY,
                         "device %d is in use: %llu private pools exist; destroy or release them "
                         "and what they hold",
                         device->gpu.ordinal, (unsigned long long)pool_count);
    } else {
        tn_lock_acquire(&device->default_pool->lock);
        status = tn_pool_check_unclaimed(device->default_pool);
        tn_lock_release(&device->default_pool->lock);
    }
    tn_lock_release(&device->lock);
    return status;
}

/* Off the list of open devices when this was the last use; *last says whether it was. */
static tarn_status give_up_use(tarn_device *device, bool *last)
{
    tarn_device **link = &open_devices;
    tarn_status status = TARN_OK;

    tn_lock_acquire(&process_lock);
    *last = device->user_count == 1;
    if (*last)
        status = check_unused(device);
    if (status == TARN_OK) {
        device->user_count -= 1;
        while (*last && *link != device)
            link = &(*link)->next;
        if (*last) {
            *link = device->next;
            atomic_store(&device->magic, 0);
        }
    }
    tn_lock_release(&process_lock);
    return status;
}

/* Whether this is the last use, and a released pool is there for holds alone. */
static bool awaits_destructors(void *subject)
{
    tarn_device *device = subject;
    bool awaits = false;
    bool last;

    tn_device_reap(device);
    tn_lock_acquire(&process_lock);
    last = device->user_count == 1;
    tn_lock_release(&process_lock);
    if (!last)
        return false;
    tn_lock_acquire(&device->lock);
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        tn_lock_acquire(&pool->lock);
        awaits = awaits || (atomic_load(&pool->released) && pool->hold_count > 0 &&
                            tn_pool_is_only_held(pool));
        tn_lock_release(&pool->lock);
    }
    tn_lock_release(&device->lock);
    return awaits;
}

tarn_status tn_device_close(tarn_device *device)
{
    bool last;
    tarn_status status;

    tn_device_end_released(device); /* those too whose end the device could not be waited for */
    tn_await_destructors(&device->gpu, awaits_destructors, device);
    status = give_up_use(device, &last);
    if (status != TARN_OK || !last)
        return status;
    status = tn_pool_destroy(device->default_pool);
    if (status != TARN_OK) { /* the device could not be waited for: it stays open */
        tn_lock_acquire(&process_lock);
        device->user_count = 1;
        device->next = open_devices;
        open_devices = device;
        atomic_store(&device->magic, TN_DEVICE_MAGIC);
        tn_lock_release(&process_lock);
        return status;
    }
    tn_routes_fini(&device->routes);
    tn_lock_fini(&device->lock);
    tn_regions_fini(&device->regions);
    tn_gpu_close(&device->gpu);
    tn_records_give(&device_records, device);
    return TARN_OK;
}

/* A lost device's driver may destroy nothing: pools there go without its word. */
static void orphan_holds(tarn_device *device)
{
    tn_lock_acquire(&device->lock);
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        tn_lock_acquire(&pool->lock);
        if (tn_pool_is_only_held(pool))
            tn_holds_orphan(pool);
        tn_lock_release(&pool->lock);
    }
    tn_lock_release(&device->lock);
}

void tn_device_drop_gone(tarn_device *device)
{
    struct tn_hold *hold = atomic_exchange(&device->gone_holds, NULL);

    while (hold != NULL) {
        struct tn_hold *next = atomic_load_explicit(&hold->next_gone, memory_order_relaxed);
        tarn_pool *pool = hold->pool;

        tn_lock_acquire(&pool->lock);
        tn_hold_drop(hold);
        tn_lock_release(&pool->lock);
        hold = next;
    }
    if (tn_gpu_is_lost(&device->gpu))
        orphan_holds(device);
}

/* A released pool that nothing claims and no thread is ending; it is marked as being ended. */
static tarn_pool *pick_released(tarn_device *device)
{
    tarn_pool *picked = NULL;

    tn_lock_acquire(&device->lock);
    for (tarn_pool *pool = device->pools; pool != NULL && picked == NULL; pool = pool->next) {
        if (pool->ending || !atomic_load(&pool->released))
            continue;
        tn_lock_acquire(&pool->lock);
        if (tn_pool_is_unclaimed(pool))
            picked = pool;
        tn_lock_release(&pool->lock);
    }
    if (picked != NULL)
        picked->ending = true;
    tn_lock_release(&device->lock);
    return picked;
}

void tn_device_end_released(tarn_device *device)
{
    tarn_pool *pool = pick_released(device);

    while (pool != NULL) {
        if (tn_pool_destroy(pool) != TARN_OK) { /* the device could not be waited for */
            tn_lock_acquire(&device->lock);
            pool->ending = false;
            tn_lock_release(&device->lock);
            return;
        }
        pool = pick_released(device);
    }
}

void tn_device_reap(tarn_device *device)
{
    if (atomic_load_explicit(&device->gone_holds, memory_order_relaxed) == NULL &&
        !tn_gpu_is_lost(&device->gpu))
        return;
    tn_device_drop_gone(device);
    tn_device_end_released(device);
}

void tn_device_close_capture(tarn_device *device, uint64_t capture_id, tn_cu_graph graph)
{
    tn_lock_acquire(&device->lock);
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        tn_lock_acquire(&pool->lock);
        tn_holds_close_capture(pool, capture_id, graph);
        tn_lock_release(&pool->lock);
    }
    tn_lock_release(&device->lock);
}

tarn_status tn_device_charge(tarn_device *device, uint64_t bytes)
{
    uint_fast64_t charged = atomic_fetch_add(&device->charged_bytes, bytes) + bytes;

    if (device->limit_bytes == 0 || charged <= device->limit_bytes)
        return TARN_OK;
    atomic_fetch_sub(&device->charged_bytes, bytes);
    return tn_fail(TARN_ERR_LIMIT,
                   "device %d may map %llu MiB and has mapped %llu MiB: %llu MiB more are too much",
                   device->gpu.ordinal, (unsigned long long)(device->limit_bytes / TN_MIB),
                   (unsigned long long)((charged - bytes) / TN_MIB),
                   (unsigned long long)(bytes / TN_MIB));
}

void tn_device_discharge(tarn_device *device, uint64_t bytes)
{
    atomic_fetch_sub(&device->charged_bytes, bytes);
}

void tn_device_count_mapped(tarn_device *device, uint64_t bytes)
{
    uint_fast64_t mapped = atomic_fetch_add(&device->mapped_bytes, bytes) + bytes;
    uint_fast64_t peak = atomic_load(&device->mapped_peak_bytes);

    while (peak < mapped &&
           !atomic_compare_exchange_weak(&device->mapped_peak_bytes, &peak, mapped))
        continue;
}

void tn_device_count_unmapped(tarn_device *device, uint64_t bytes)
{
    atomic_fetch_sub(&device->mapped_bytes, bytes);
}
