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
#include "base/fork.h"
#include "base/host.h"
#include "driver/idle.h"
#include "driver/mapping.h"
#include "driver/open.h"
#include "driver/pinned.h"
#include "heap/sequence.h"
#include "pools/arenas.h"
#include "pools/await.h"
#include "pools/end.h"
#include "pools/free.h"
#include "pools/use.h"
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

static void fini_lists(tarn_device *device)
{
    tn_callbacks_fini(&device->oom_observers);
    tn_callbacks_fini(&device->free_callbacks);
    tn_streams_fini(&device->streams);
    tn_routes_fini(&device->routes);
}

static tarn_status init_device(tarn_device *device, const struct tn_driver *driver, int ordinal,
                               const tarn_device_options *options)
{
    const struct tn_pool_settings default_pool = {.name = "default", .is_default = true};
    tarn_status status = tn_gpu_open(&device->gpu, driver, ordinal);

    if (status != TARN_OK)
        return status;
    status = check_granularity(&device->gpu);
    if (status != TARN_OK)
        goto close_gpu;
    status = tn_regions_init(&device->regions, &device->gpu, options->region_bytes);
    if (status != TARN_OK)
        goto close_gpu;
    atomic_store(&device->budget.limit_bytes, options->limit_bytes);
    tn_budget_set_fraction(&device->budget, options->memory_fraction, device->gpu.total_bytes);
    device->budget.ordinal = ordinal;
    tn_memory_cache_init(&device->cache, &device->gpu, &device->budget,
                         options->cache_limit_bytes != TARN_NO_CACHE ? options->cache_limit_bytes
                                                                     : 0);
    tn_pinned_set_limit(&device->gpu, options->pinned_cache_limit_bytes != TARN_NO_CACHE
                                          ? options->pinned_cache_limit_bytes
                                          : 0);
    tn_lock_init(&device->lock, TN_RANK_DEVICE);
    tn_lock_init(&device->growing, TN_RANK_GROW);
    tn_lock_init(&device->graphs_lock, TN_RANK_GRAPHS);
    tn_routes_init(&device->routes);
    tn_streams_init(&device->streams, &device->gpu);
    tn_callbacks_init(&device->free_callbacks, &device->lock);
    tn_callbacks_init(&device->oom_observers, &device->lock);
    status = tn_pool_create(device, &default_pool, &device->default_pool);
    if (status == TARN_OK)
        return TARN_OK;
    fini_lists(device);
    tn_lock_fini(&device->graphs_lock);
    tn_lock_fini(&device->growing);
    tn_lock_fini(&device->lock);
    tn_memory_cache_fini(&device->cache);
    tn_regions_fini(&device->regions);
close_gpu:
    tn_gpu_close(&device->gpu);
    return status;
}

/* The open device of that ordinal, or a new one; process_lock is held. */
static tarn_status open_locked(int ordinal, const tarn_device_options *options,
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
    device->unrouted = options->unrouted;
    device->no_record_stream_reuse = options->no_record_stream_reuse;
    tn_rounding_init(&device->rounding, options->roundup_power2_divisions);
    status = init_device(device, driver, ordinal, options);
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

tarn_status tn_device_open(int ordinal, const tarn_device_options *options, tarn_device **device)
{
    tarn_status status;

    tn_fork_stake();
    tn_lock_acquire(&process_lock);
    status = open_locked(ordinal, options, device);
    tn_lock_release(&process_lock);
    tn_fork_unstake();
    return status;
}

/* BUSY while anything but the default pool's free memory is there; *idle says whether that is proven to
 * be idle. */
static tarn_status check_unused(tarn_device *device, bool *idle)
{
    uint64_t pool_count = 0;
    uint64_t held_graph_count = 0;
    tarn_status status = TARN_OK;

    tn_lock_acquire(&device->lock);
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        pool_count += !pool->is_default;
        tn_pool_lock(pool);
        held_graph_count += tn_holds_count_graphs(pool);
        tn_pool_unlock(pool);
    }
    if (pool_count > 0) {
        status = tn_fail(TARN_ERR_BUSY,
                         "device %d is in use: %llu private pools exist; destroy or release them "
                         "and what they hold; %llu graphs keep memory, destroyed ones included of "
                         "which a launch, or an executable or clone of the program's own, is left",
                         device->gpu.ordinal, (unsigned long long)pool_count,
                         (unsigned long long)held_graph_count);
    } else {
        tn_pool_lock(device->default_pool);
        tn_holds_end_passing(device->default_pool);
        status = tn_pool_check_unclaimed(device->default_pool);
        *idle = tn_pool_is_idle(device->default_pool);
        tn_pool_unlock(device->default_pool);
    }
    tn_lock_release(&device->lock);
    return status;
}

/* From here on no call comes in. BUSY: one has, since the device was found unused. */
static tarn_status close_to_calls(tarn_device *device)
{
    return tn_pins_close(&device->default_pool->pins)
               ? TARN_OK
               : tn_fail(TARN_ERR_BUSY, "device %d is in use: a call is under way",
                         device->gpu.ordinal);
}

bool tn_device_try_pin(tarn_device *device)
{
    tarn_pool *pool = device->default_pool;

    if (pool == NULL || !tn_pins_try(&pool->pins))
        return false;
    if (atomic_load(&device->magic) == TN_DEVICE_MAGIC && device->default_pool == pool)
        return true;
    tn_pool_unpin(pool); /* another device has the record by now, or another pool that one's */
    return false;
}

static tarn_status end_released(tarn_device *device, bool closing);

/* Off the list of open devices when this was the last use; *last says whether it was. Until its memory
 * is proven to be idle nothing is done, and *idle is false: what is off the list can go. */
static tarn_status give_up_use(tarn_device *device, bool *last, bool *idle)
{
    tarn_device **link = &open_devices;
    tarn_status status = TARN_OK;

    *idle = true;
    tn_lock_acquire(&process_lock);
    *last = device->user_count == 1;
    if (*last)
        status = check_unused(device, idle);
    if (*last && status == TARN_OK && *idle)
        status = close_to_calls(device);
    if (status == TARN_OK && *idle) {
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

bool tn_device_is_last_use(const tarn_device *device)
{
    bool is_last;

    tn_lock_acquire(&process_lock);
    is_last = device->user_count == 1;
    tn_lock_release(&process_lock);
    return is_last;
}

/* Reaps where a claimant of the default pool has just said that it is gone; false when none has. */
static bool reap_default(tarn_device *device)
{
    tarn_pool *pool = device->default_pool;
    bool any = false;

    tn_pool_lock(pool);
    for (const struct tn_hold *hold = pool->holds; hold != NULL; hold = hold->next)
        any = any || atomic_load(&hold->claim) == TN_CLAIM_GONE;
    tn_pool_unlock(pool);
    if (any)
        tn_device_drop_gone(device);
    return any;
}

/* The device stays on the list, and is opened again by whoever comes meanwhile, for as long as it may
 * have to stay open: while claims on it are left, and until it has been waited for. */
static tarn_status leave_list(tarn_device *device, bool *last)
{
    bool idle = false;
    tarn_status status = TARN_OK;

    while (status == TARN_OK && !idle) {
        status = give_up_use(device, last, &idle);
        if (status == TARN_OK && !idle) {
            status = tn_gpu_wait_idle(&device->gpu);
        } else if (status == TARN_ERR_BUSY && reap_default(device)) {
            status = TARN_OK;
            idle = false;
        }
    }
    return status;
}

tarn_status tn_device_close(tarn_device *device)
{
    bool last;
    tarn_status status = TARN_OK;

    tn_device_end_released(device); /* those too whose end the device could not be waited for */
    tn_await_holds(device, NULL, TN_AWAIT_LAST);
    if (tn_device_is_last_use(device))
        status = end_released(device, true);
    if (status != TARN_OK)
        return status;
    status = leave_list(device, &last);
    if (status != TARN_OK || !last)
        return status;
    status = tn_pool_destroy(device->default_pool);
    TN_ASSERT(status == TARN_OK); /* nothing claims it, and it is idle */
    (void)status;
    TN_ASSERT(device->graphs == NULL); /* they would have kept their pools */
    fini_lists(device);
    tn_lock_fini(&device->graphs_lock);
    tn_lock_fini(&device->growing);
    tn_lock_fini(&device->lock);
    tn_memory_cache_fini(&device->cache);
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
        tn_pool_lock(pool);
        if (tn_pool_is_only_held(pool))
            tn_holds_orphan(pool);
        tn_pool_unlock(pool);
    }
    tn_lock_release(&device->lock);
}

void tn_device_drop_gone(tarn_device *device)
{
    struct tn_hold *hold = tn_is_forked() ? NULL : atomic_exchange(&device->gone_holds, NULL);

    while (hold != NULL) {
        struct tn_hold *next = atomic_load_explicit(&hold->next_gone, memory_order_relaxed);
        tarn_pool *pool = hold->pool;
        uint64_t gone_id;

        tn_pool_lock(pool);
        gone_id = tn_hold_tell_owner(hold);
        tn_hold_drop(hold);
        if (atomic_load(&pool->released)) /* it may go: whoever reaps next looks at it */
            atomic_store(&device->gpu.proof_news, 1);
        tn_pool_unlock(pool);
        if (gone_id != 0)
            tn_route_end_gone(device, gone_id); /* which has claimed the pool until now */
        hold = next;
    }
    if (tn_gpu_is_lost(&device->gpu))
        orphan_holds(device);
}

/* Parked pools are worth a look again when something more is proven, or nothing needs a proof. The DEVICE lock is
 * held. */
static void unpark(tarn_device *device, bool closing)
{
    uint64_t proven = atomic_load(&device->gpu.proven);

    if (proven == device->parked_proven && !closing && !tn_gpu_is_lost(&device->gpu))
        return;
    device->parked_proven = proven;
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        if (pool->ending == TN_ENDING_PARKED)
            pool->ending = TN_ENDING_NOT;
    }
}

/* One look at a pool; its ending says what comes of it. Whether it waits for a proof. */
static bool look_at_released(tarn_pool *pool, bool closing)
{
    bool waits = false;

    tn_pool_lock(pool);
    if (tn_pool_is_unclaimed(pool) && (closing || pool->counters.discarded_count == 0)) {
        waits = !closing && !tn_pool_is_idle(pool);
        if (!waits)
            pool->ending = TN_ENDING_NOW;
        else if (!tn_pool_has_pending(pool))
            pool->ending = TN_ENDING_PARKED;
    }
    tn_pool_unlock(pool);
    return waits;
}

/* A released pool that nothing claims and no thread is ending; it is marked as being ended. Its
 * DISCARDED blocks keep it: their users will free them. So does memory that is not proven idle: nobody
 * waits for the device to end it. Only the device's end goes before both. A pool that only a proof lets go is
 * parked: until there is one it costs nobody a look, and allocations go on as if it were not there. */
static tarn_pool *pick_released(tarn_device *device, bool closing)
{
    tarn_pool *picked = NULL;
    uint_fast32_t waiting = 0;

    tn_lock_acquire(&device->lock);
    tn_gpu_want_proof(&device->gpu);
    unpark(device, closing);
    for (tarn_pool *pool = device->pools; pool != NULL && picked == NULL; pool = pool->next) {
        if (pool->ending == TN_ENDING_NOT && atomic_load(&pool->released)) {
            waiting += look_at_released(pool, closing);
            picked = pool->ending == TN_ENDING_NOW ? pool : NULL;
        } else {
            waiting += pool->ending == TN_ENDING_PARKED;
        }
    }
    if (picked == NULL)
        atomic_store(&device->unproven_count, waiting);
    if (picked == NULL && waiting == 0)
        tn_gpu_want_no_proof(&device->gpu);
    tn_lock_release(&device->lock);
    return picked;
}

/* What the end of a pool may answer: the device could not be waited for. Where another thread has just claimed
 * the pool, it is looked at again: that claim may have gone while this thread was still ending the pool, and
 * then nobody else ends it. */
static tarn_status end_released(tarn_device *device, bool closing)
{
    tarn_pool *pool = pick_released(device, closing);
    tarn_status status = TARN_OK;

    while (pool != NULL && status == TARN_OK) {
        status = tn_pool_destroy(pool);
        if (status != TARN_OK) {
            tn_lock_acquire(&device->lock);
            pool->ending = TN_ENDING_NOT;
            tn_lock_release(&device->lock);
        }
        if (status == TARN_ERR_BUSY)
            status = TARN_OK;
        if (status == TARN_OK)
            pool = pick_released(device, closing);
    }
    return status;
}

void tn_device_end_released(tarn_device *device)
{
    tarn_status status = tn_is_forked() ? TARN_OK : end_released(device, false);

    (void)status; /* it stays, and is tried again */
}

void tn_device_reap(tarn_device *device)
{
    if (atomic_load_explicit(&device->gone_holds, memory_order_relaxed) == NULL &&
        atomic_load(&device->gpu.proof_news) == 0 && !tn_gpu_is_lost(&device->gpu))
        return;
    tn_device_drop_gone(device);
    tn_device_end_released(device);
}

void tn_device_bound_released(tarn_device *device)
{
    enum { MOST_UNPROVEN = 32 }; /* each is looked at when a pool is made, captured in or ends */

    if (atomic_load(&device->unproven_count) < MOST_UNPROVEN)
        return;
    if (tn_gpu_wait_idle(&device->gpu) == TARN_OK)
        tn_device_reap(device);
}

void tn_device_collect(tarn_device *device)
{
    tn_device_reap(device);
    tn_lock_acquire(&device->lock);
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        tn_pool_lock(pool);
        if (tn_pool_has_pending(pool))
            tn_pending_collect(pool);
        tn_pool_unlock(pool);
    }
    tn_lock_release(&device->lock);
}

void tn_device_close_capture(tarn_device *device, uint64_t capture_id, tn_cu_graph graph,
                             bool discard)
{
    tn_lock_acquire(&device->lock);
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        tn_pool_lock(pool);
        if (discard)
            tn_pool_discard(pool, capture_id);
        tn_holds_close_capture(pool, capture_id, graph);
        tn_pool_unlock(pool);
    }
    tn_lock_release(&device->lock);
}

void tn_device_expect_gone(tarn_device *device, tn_cu_graph graph)
{
    tn_lock_acquire(&device->lock);
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        tn_pool_lock(pool);
        tn_holds_expect(pool, graph);
        tn_holds_forget_graph(pool, graph);
        tn_pool_unlock(pool);
    }
    tn_lock_release(&device->lock);
}

void tn_device_close_over(tarn_device *device)
{
    bool closed = false;

    tn_lock_acquire(&device->lock);
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        tn_pool_lock(pool);
        closed = tn_holds_close_over(pool) || closed;
        tn_pool_unlock(pool);
    }
    tn_lock_release(&device->lock);
    if (closed)
        (void)tn_device_mark(device);
}

uint64_t tn_device_end_mark(tarn_device *device, tn_cu_graph graph)
{
    uint64_t mark = 0;
    bool any_open = false;

    tn_lock_acquire(&device->lock);
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        bool open;

        tn_pool_lock(pool);
        mark = tn_max(mark, tn_holds_end_mark(pool, graph, &open));
        any_open = any_open || open;
        tn_pool_unlock(pool);
    }
    tn_lock_release(&device->lock);
    return any_open ? 0 : mark;
}

static tarn_status prepare_retire(tarn_device *device, struct tn_order order)
{
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        bool prepared;

        tn_pool_lock(pool);
        prepared = tn_arenas_prepare_retire(pool, order);
        tn_pool_unlock(pool);
        if (!prepared)
            return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to retire a stream");
    }
    return TARN_OK;
}

/* The fence is recorded last: whatever joins the retired arenas meanwhile is covered by it. The DEVICE
 * lock keeps other threads from retiring. */
tarn_status tn_device_retire_stream(tarn_device *device, tn_cu_stream stream, uint64_t id)
{
    const struct tn_order order = {id, 0};
    struct tn_fence *fence;
    tarn_status status;

    tn_lock_acquire(&device->lock);
    status = prepare_retire(device, order);
    if (status == TARN_OK)
        status = tn_streams_retire_begin(&device->streams, stream, id, &fence);
    if (status == TARN_OK) {
        for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
            tn_pool_lock(pool);
            tn_arenas_retire(pool, order, fence);
            tn_uses_forget(pool, stream);
            tn_pool_unlock(pool);
        }
        tn_streams_retire_commit(&device->streams, fence);
    }
    tn_lock_release(&device->lock);
    return status;
}

uint64_t tn_device_mark(tarn_device *device)
{
    uint64_t mark =
        tn_next_sequence(); /* before numbers are dropped: arenas take higher ones then */

    tn_lock_acquire(&device->lock);
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        tn_pool_lock(pool);
        tn_pool_unlock(pool);
    }
    tn_lock_release(&device->lock);
    return mark;
}

void tn_device_count(tarn_device *device, enum tn_metric_id id, enum tn_heap_kind kind,
                     uint64_t amount, bool more)
{
    struct tn_device_counters *counters = &device->counters;

    TN_ASSERT(id >= TN_CHUNKS);
    tn_lock_acquire_spin(&counters->lock, TN_RANK_COUNTS);
    if (more)
        tn_metric_add(&counters->mapped[id], kind, amount);
    else
        tn_metric_remove(&counters->mapped[id], kind, amount);
    tn_lock_release_spin(&counters->lock, TN_RANK_COUNTS);
}

void tn_device_count_mapped(tarn_device *device, enum tn_heap_kind kind, uint64_t bytes,
                            uint64_t chunk_count)
{
    struct tn_device_counters *counters = &device->counters;

    atomic_fetch_add(&device->mapped_bytes, bytes);
    tn_lock_acquire_spin(&counters->lock, TN_RANK_COUNTS);
    tn_metric_add(&counters->mapped[TN_CHUNKS], kind, chunk_count);
    tn_metric_add(&counters->mapped[TN_CHUNK_BYTES], kind, bytes);
    tn_lock_release_spin(&counters->lock, TN_RANK_COUNTS);
}

void tn_device_count_unmapped(tarn_device *device, enum tn_heap_kind kind, uint64_t bytes)
{
    struct tn_device_counters *counters = &device->counters;

    atomic_fetch_sub(&device->mapped_bytes, bytes);
    tn_lock_acquire_spin(&counters->lock, TN_RANK_COUNTS);
    tn_metric_remove(&counters->mapped[TN_CHUNKS], kind, 1);
    tn_metric_remove(&counters->mapped[TN_CHUNK_BYTES], kind, bytes);
    tn_lock_release_spin(&counters->lock, TN_RANK_COUNTS);
}
