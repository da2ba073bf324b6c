// SPDX-License-Identifier: Apache-2.0
/* The devices of the process: one record for each ordinal, counted among its users.
 *
 * Opening makes everything or nothing: driver, address table, context, first region, default pool.
 *
 * Trade-offs: the record of a closed device is recycled. Its magic number reveals a stale handle,
 * unless the same record has been opened again. */
#include "pools/opening.h"

#include <stddef.h>
#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/host.h"
#include "driver/idle.h"
#include "driver/mapping.h"
#include "driver/open.h"
#include "driver/sanitizer.h"
#include "driver/tool.h"
#include "heap/sequence.h"
#include "pools/await.h"
#include "pools/captures.h"
#include "pools/end.h"
#include "pools/histories.h"
#include "pools/host_default.h"
#include "pools/janitor.h"
#include "pools/pieces.h"
#include "pools/route.h"
#include "pools/staging.h"
#include "pools/trackers.h"
#include "pools/visit.h"
#include "vmm/address_table.h"

enum { FIRST_PAGES = 128 }; /* of a history, 512 KiB */

static const uint64_t history_bytes_default = 16 * TN_MIB;

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

/* Once in a process. */
static void note_private(const struct tn_ring_file *file)
{
    static atomic_flag noted = ATOMIC_FLAG_INIT;

    TN_ASSERT(file->head != NULL);
    if (file->error != 0 && !atomic_flag_test_and_set(&noted))
        tn_note("a history ends with the process, since it has no file: %s", strerror(file->error));
}

static tarn_status init_history(struct tn_history *history, const tarn_device_options *options)
{
    const enum tn_stack_level level = (enum tn_stack_level)options->history_stacks;
    const uint64_t sample_bytes = tn_max(options->history_sample_bytes, 1);
    const uint64_t bytes = tn_cache_bytes(options->history_bytes, history_bytes_default);
    struct tn_ring_plan plan = {
        .page_count = bytes / TN_RING_PAGE_BYTES,
    };
    char folder[TN_RING_FOLDER_MAX];

    *history = (struct tn_history){.file = {.fd = -1}};
    if (plan.page_count == 0)
        return TARN_OK;
    if (options->history_bytes == 0) { /* what nobody asked for takes little from others */
        plan.first_pages = FIRST_PAGES;
        plan.spare_bytes = 2 * history_bytes_default;
    }
    tn_stacking_plan(&plan, level, sample_bytes);
    tn_ranges_plan(&plan);
    if (!tn_ring_file_make(&history->file, tn_ring_folder(folder, sizeof folder) ? folder : NULL,
                           &plan))
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a history of %llu bytes",
                       (unsigned long long)bytes);
    note_private(&history->file);
    history->replays = options->history_bytes != 0;
    history->tables.file = &history->file;
    if (!tn_ring_init(&history->ring, tn_ring_file_pages(&history->file), plan.page_count,
                      tn_sequence_counter()))
        goto remove_file;
    if (plan.first_pages != 0)
        tn_ring_reserve_by(&history->ring, plan.first_pages, tn_ring_file_reserve, &history->file);
    if (!tn_ranges_init(&history->ranges, &history->file))
        goto drop_ring;
    if (tn_stacking_init(&history->stacking, &history->file, level, sample_bytes))
        return TARN_OK;
    tn_ranges_fini(&history->ranges);
drop_ring:
    tn_ring_drop(&history->ring);
remove_file:
    tn_ring_file_remove(&history->file);
    return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for the pages of a history");
}

static void fini_history(struct tn_history *history)
{
    if (history->file.head == NULL)
        return;
    tn_stacking_fini(&history->stacking);
    tn_ranges_fini(&history->ranges);
    tn_ring_drop(&history->ring);
    tn_ring_file_remove(&history->file);
}

static void fini_device(tarn_device *device)
{
    TN_ASSERT(device->pools == NULL);
    tn_callbacks_fini(&device->trackers.callbacks);
    tn_callbacks_fini(&device->oom_observers);
    tn_callbacks_fini(&device->free_callbacks);
    tn_streams_fini(&device->streams);
    tn_routes_fini(&device->routes);
    tn_lock_fini(&device->graphs_lock);
    tn_lock_fini(&device->growing);
    tn_lock_fini(&device->lock);
    tn_imports_fini(&device->imports);
    tn_lock_fini(&device->host.staging.lock);
    tn_pieces_close(device);
    tn_memory_cache_fini(&device->host.ready);
    tn_memory_cache_fini(&device->host.cache);
    tn_memory_cache_fini(&device->cache);
    tn_regions_fini(&device->regions);
    tn_pool_index_fini(&device->index);
    tn_sanitizer_close(&device->gpu);
    tn_histories_remove(device);
    fini_history(&device->history); /* what was written until here can be read until here */
    tn_gpu_close(&device->gpu);
}

/* Takes no memory of the host: that is made by the first allocation there. */
static void init_host_side(tarn_device *device, const tarn_device_options *options)
{
    struct tn_host_side *host = &device->host;
    const uint64_t kept_bytes =
        tn_cache_bytes(options->pinned_cache_limit_bytes, TN_PINNED_BYTES_DEFAULT);

    host->budget.ordinal = device->gpu.ordinal;
    host->budget.host = true;
    host->registers = options->pinned_use_cuda_host_register;
    host->thread_count = (unsigned)options->pinned_num_register_threads;
    tn_lock_init(&host->staging.lock, TN_RANK_STAGING);
    atomic_store(&host->staging.limit_bytes, kept_bytes);
    tn_memory_cache_init(&host->cache, &device->gpu, &host->budget, kept_bytes, true);
    host->cache.history = tn_device_ring(device);
    tn_memory_cache_init(&host->ready, &device->gpu, &host->budget, UINT64_MAX, true);
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
    status = init_history(&device->history, options);
    if (status != TARN_OK)
        goto close_gpu;
    if (options->sanitizer)
        status = tn_sanitizer_open(&device->gpu);
    if (status == TARN_OK)
        status = tn_regions_init(&device->regions, &device->gpu,
                                 options->sanitizer ? TN_GIB : options->region_bytes);
    if (status != TARN_OK)
        goto close_sanitizer;
    device->regions.takes_turns = device->lone_alignment != 0;
    atomic_store(&device->budget.limit_bytes, options->limit_bytes);
    tn_budget_set_fraction(&device->budget, options->memory_fraction, device->gpu.total_bytes);
    device->budget.ordinal = ordinal;
    tn_memory_cache_init(&device->cache, &device->gpu, &device->budget,
                         tn_cache_bytes(options->cache_limit_bytes, TN_CACHE_BYTES_DEFAULT), false);
    device->cache.history = tn_device_ring(device);
    init_host_side(device, options);
    tn_imports_init(&device->imports, &device->gpu,
                    tn_cache_bytes(options->import_cache_limit_bytes, TN_IMPORTS_BYTES_DEFAULT));
    device->imports.history = tn_device_ring(device);
    tn_lock_init(&device->lock, TN_RANK_DEVICE);
    tn_lock_init(&device->growing, TN_RANK_GROW);
    tn_lock_init(&device->graphs_lock, TN_RANK_GRAPHS);
    tn_routes_init(&device->routes);
    tn_streams_init(&device->streams, &device->gpu);
    device->streams.history = tn_device_ring(device);
    tn_callbacks_init(&device->free_callbacks, &device->lock, false);
    tn_callbacks_init(&device->oom_observers, &device->lock, false);
    tn_callbacks_init(&device->trackers.callbacks, &device->lock, true);
    status = tn_pool_create(device, &default_pool, &device->default_pool);
    TN_ASSERT(status != TARN_OK || device->pools == device->default_pool);
    if (status != TARN_OK)
        fini_device(device);
    else if (device->history.file.head != NULL)
        tn_histories_add(device);
    return status;
close_sanitizer:
    tn_sanitizer_close(&device->gpu);
    fini_history(&device->history);
close_gpu:
    tn_gpu_close(&device->gpu);
    return status;
}

static tn_cu_stream null_stream_of(const tarn_device_options *options)
{
    return options->null_stream == TARN_NULL_STREAM_PER_THREAD ? TN_CU_STREAM_PER_THREAD : NULL;
}

/* Two users of a device with different meanings of NULL would use memory on unordered streams. */
static tarn_status check_null_stream(const tarn_device *device, const tarn_device_options *options)
{
    static const char *const names[] = {
        [TARN_NULL_STREAM_LEGACY] = "TARN_NULL_STREAM_LEGACY",
        [TARN_NULL_STREAM_PER_THREAD] = "TARN_NULL_STREAM_PER_THREAD",
    };
    tarn_null_stream other = options->null_stream == TARN_NULL_STREAM_LEGACY
                                 ? TARN_NULL_STREAM_PER_THREAD
                                 : TARN_NULL_STREAM_LEGACY;

    TN_ASSERT(tn_lock_is_held(&process_lock));
    if (device->null_stream == null_stream_of(options))
        return TARN_OK;
    return tn_fail(TARN_ERR_WRONG_STATE,
                   "device %d was opened with null_stream %s, and the options of this open say %s; "
                   "let all of the program agree, or set null_stream in TARN_CONF",
                   device->gpu.ordinal, names[other], names[options->null_stream]);
}

/* The open device of this ordinal, or a new one; process_lock is held. */
static tarn_status open_locked(int ordinal, const tarn_device_options *options, bool stated,
                               tn_pool_checker check_pool, tarn_device **result)
{
    const struct tn_driver *driver;
    tarn_device *device;
    tarn_status status = tn_driver_load(&driver);

    TN_ASSERT(tn_lock_is_held(&process_lock));
    if (status == TARN_OK)
        status = tn_address_table_init();
    tn_tool_load();
    if (status != TARN_OK)
        return status;
    for (device = open_devices; device != NULL; device = device->next) {
        if (device->gpu.ordinal == ordinal) {
            TN_ASSERT(atomic_load(&device->user_count) > 0);
            status = stated ? check_null_stream(device, options) : TARN_OK;
            if (status != TARN_OK)
                return status;
            atomic_fetch_add(&device->user_count, 1);
            *result = device;
            return TARN_OK;
        }
    }
    device = tn_records_take(&device_records);
    if (device == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a device");
    device->unrouted = options->unrouted;
    device->no_record_stream_reuse = options->no_record_stream_reuse;
    device->move_limit_bytes = options->move_limit_bytes == TARN_NO_MOVES ? 0
                               : options->move_limit_bytes == 0           ? SIZE_MAX
                                                                : options->move_limit_bytes;
    device->lone_alignment = options->overrun_alignment;
    if (device->lone_alignment != 0 || options->sanitizer)
        device->move_limit_bytes = 0; /* memory that moves would leave its page */
    device->check_pool = check_pool;
    device->peer_mask = 0;
    device->null_stream = null_stream_of(options);
    tn_rounding_init(&device->rounding, options->roundup_power2_divisions);
    device->rounding.any = device->rounding.any && device->lone_alignment == 0;
    status = init_device(device, driver, ordinal, options);
    if (status != TARN_OK) {
        tn_records_give(&device_records, device);
        return status;
    }
    atomic_store(&device->user_count, 1);
    device->next = open_devices;
    open_devices = device;
    atomic_store(&device->magic, TN_DEVICE_MAGIC);
    *result = device;
    return TARN_OK;
}

tarn_status tn_device_open(int ordinal, const tarn_device_options *options, bool stated,
                           tn_pool_checker check_pool, tarn_device **device)
{
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    tn_fork_stake();
    tn_lock_acquire(&process_lock);
    status = open_locked(ordinal, options, stated, check_pool, device);
    tn_lock_release(&process_lock);
    tn_fork_unstake();
    return status;
}

struct claims {
    uint64_t pool_count; /* private pools */
    uint64_t graph_count;
};

static bool count_claims(tarn_pool *pool, void *context)
{
    struct claims *claims = context;

    claims->pool_count += !pool->is_default;
    claims->graph_count += tn_holds_count_graphs(&pool->holds);
    return false;
}

/* BUSY if anything except the default pool's free memory is left; *idle is cleared unless this
 * memory is proven idle. pool: NULL: none was made. */
static tarn_status check_default(tarn_pool *pool, bool *idle)
{
    tarn_status status;

    if (pool == NULL)
        return TARN_OK;
    TN_ASSERT(pool->is_default);
    tn_pool_lock(pool);
    tn_holds_end_passing(pool);
    status = tn_pool_check_unclaimed(pool);
    *idle = tn_pool_is_idle(pool) && *idle;
    tn_pool_unlock(pool);
    return status;
}

/* BUSY if anything except the default pools' free memory is left; *idle: whether this memory is
 * proven idle. */
static tarn_status check_unused(tarn_device *device, bool *idle)
{
    struct claims claims = {0, 0};
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_lock_is_held(&process_lock) && tn_device_is_last_use(device));
    tn_lock_acquire(&device->lock);
    (void)tn_device_walk(device, count_claims, &claims);
    if (device->connections != NULL || device->listeners != NULL) {
        status = tn_fail(TARN_ERR_BUSY,
                         "device %d is in use: a listener, or a connection with another process, "
                         "exists; destroy them",
                         device->gpu.ordinal);
    } else if (atomic_load(&device->group_count) > 0) {
        status = tn_fail(TARN_ERR_BUSY,
                         "device %d is in use: a group of processes exists; destroy the group",
                         device->gpu.ordinal);
    } else if (claims.pool_count > 0) {
        status = tn_fail(TARN_ERR_BUSY,
                         "device %d is in use: %llu private pools exist; destroy or release them "
                         "and what they hold; %llu graphs keep memory, destroyed ones included of "
                         "which a launch, or an executable or clone of the program's own, is left",
                         device->gpu.ordinal, (unsigned long long)claims.pool_count,
                         (unsigned long long)claims.graph_count);
    } else {
        *idle = true;
        /* Blocks of the staging pool are those of calls, or wait for work alone. */
        for (int i = 0; i < TN_HOST_STAGING && status == TARN_OK; i++)
            status = check_default(atomic_load(&device->host.pools[i]), idle);
        if (status == TARN_OK)
            status = check_default(device->default_pool, idle);
    }
    tn_lock_release(&device->lock);
    return status;
}

/* From here on no call comes in. BUSY: a call has come in since the device was found unused. */
static tarn_status close_to_calls(tarn_device *device)
{
    TN_ASSERT(tn_lock_is_held(&process_lock));
    return tn_pins_close(&device->default_pool->pins)
               ? TARN_OK
               : tn_fail(TARN_ERR_BUSY, "device %d is in use: a call is under way",
                         device->gpu.ordinal);
}

/* Ends a use of the device. The last use, reported in *last, takes the device off the list of open
 * devices, but only when its memory is proven idle. Otherwise *idle is false and nothing is done: a
 * device off the list must be able to go. */
static tarn_status give_up_use(tarn_device *device, bool *last, bool *idle)
{
    tarn_device **link = &open_devices;
    tarn_status status = TARN_OK;

    *idle = true;
    tn_lock_acquire(&process_lock);
    *last = tn_device_is_last_use(device);
    if (*last)
        status = check_unused(device, idle);
    if (*last && status == TARN_OK && *idle)
        status = close_to_calls(device);
    if (status == TARN_OK && *idle) {
        TN_ASSERT(atomic_load(&device->user_count) > 0);
        atomic_fetch_sub(&device->user_count, 1);
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

/* Whether a claimant of the pool has reported its end. pool: NULL: none was made. */
static bool has_gone(tarn_pool *pool)
{
    bool any = false;

    if (pool == NULL)
        return false;
    tn_pool_lock(pool);
    for (const struct tn_hold *hold = pool->holds.first; hold != NULL; hold = hold->next)
        any = any || atomic_load(&hold->claim) == TN_CLAIM_GONE;
    tn_pool_unlock(pool);
    return any;
}

/* Reaps if a claimant of a default pool has just reported its end; false: none has. */
static bool reap_default(tarn_device *device)
{
    bool any;

    TN_ASSERT(tn_lock_none_held());
    any = has_gone(device->default_pool);
    for (int i = 0; i < TN_HOST_POOLS && !any; i++)
        any = has_gone(atomic_load(&device->host.pools[i]));
    if (any)
        tn_device_drop_gone(device);
    return any;
}

/* While the device may have to stay open, it stays on the list, and another thread may open it
 * again. This lasts until the last claim is gone and the device has been waited for. */
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

tarn_status tn_device_host_pool(tarn_device *device, enum tn_host_pool kind, tarn_pool **pool)
{
    tarn_status status = TARN_OK;
    tarn_pool *made = atomic_load(&device->host.pools[kind]);

    TN_ASSERT(tn_lock_none_held());
    if (made != NULL) { /* it stays until the device is closed */
        *pool = made;
        return TARN_OK;
    }
    tn_fork_stake();
    tn_lock_acquire(&process_lock);
    made = atomic_load(&device->host.pools[kind]);
    if (made == NULL)
        status = tn_host_default_make(device, kind, &made);
    if (status == TARN_OK) {
        atomic_store(&device->host.pools[kind], made);
        if (kind == TN_HOST_PIECES && !tn_pool_has_pieces(made))
            atomic_store(&device->host.pools[TN_HOST_MAPPED], made);
    }
    tn_lock_release(&process_lock);
    tn_fork_unstake();
    if (status == TARN_OK)
        *pool = made;
    return status;
}

tarn_status tn_device_open_pieces(tarn_device *device)
{
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    tn_fork_stake();
    tn_lock_acquire(&process_lock);
    status = tn_pieces_open(device);
    tn_lock_release(&process_lock);
    tn_fork_unstake();
    return status;
}

bool tn_devices_contain(uint64_t address)
{
    bool contain = false;

    TN_ASSERT(tn_lock_none_held());
    tn_lock_acquire(&process_lock);
    for (tarn_device *device = open_devices; device != NULL && !contain; device = device->next)
        contain = tn_regions_contain(&device->regions, address);
    tn_lock_release(&process_lock);
    return contain;
}

/* They are unclaimed and idle. */
static void end_host_pools(tarn_device *device)
{
    tarn_pool *_Atomic *pools = device->host.pools;

    tn_staging_end(device);
    if (atomic_load(&pools[TN_HOST_MAPPED]) == atomic_load(&pools[TN_HOST_PIECES]))
        atomic_store(&pools[TN_HOST_PIECES], NULL);
    for (int i = 0; i < TN_HOST_POOLS; i++) {
        tarn_pool *pool = atomic_exchange(&pools[i], NULL);
        tarn_status status = pool != NULL ? tn_pool_destroy(pool) : TARN_OK;

        TN_ASSERT(status == TARN_OK);
        (void)status;
    }
}

tarn_status tn_device_close(tarn_device *device)
{
    bool last;
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_lock_none_held());
    if (tn_trackers_are_deaf(device))
        return tn_fail(TARN_ERR_BUSY, "a tracker closes a device: trackers of the device could not "
                                      "hear of its memory, and no tracker may close any device");
    /* Including pools for whose end the device could not be waited for. */
    tn_device_end_released(device);
    tn_await_holds(device, NULL, TN_AWAIT_LAST);
    if (tn_device_is_last_use(device))
        status = tn_device_clear(device);
    if (status != TARN_OK)
        return status;
    status = leave_list(device, &last);
    if (status != TARN_OK || !last)
        return status;
    end_host_pools(device);
    status = tn_pool_destroy(device->default_pool);
    TN_ASSERT(status == TARN_OK);
    (void)status;
    tn_pools_end_told(device, true);
    if (tn_is_forked())
        return tn_fork_refuse();
    TN_ASSERT(device->graphs == NULL); /* graphs would have kept their pools */
    fini_device(device);
    tn_records_give(&device_records, device);
    return TARN_OK;
}
