// SPDX-License-Identifier: Apache-2.0
#include "pools/totals.h"

#include <string.h>

#include "base/contract.h"
#include "pools/pool.h"
#include "pools/pool_lock.h"
#include "pools/visit.h"

void tn_totals_lock(tarn_pool *pool)
{
    tn_pool_lock(pool);
    tn_counters_complete(&pool->counters);
}

static void add_peaks(struct tn_metric *sums, const struct tn_metric *more)
{
    for (int id = 0; id < TN_CHUNKS; id++) {
        for (int kind = 0; kind <= TN_ALL_KINDS; kind++)
            sums[id].peak[kind] += more[id].peak[kind];
    }
}

static void raise_peaks(struct tn_metric *metrics, const struct tn_metric *least)
{
    for (int id = 0; id < TN_CHUNKS; id++) {
        for (int kind = 0; kind <= TN_ALL_KINDS; kind++)
            tn_metric_raise(&metrics[id], kind, least[id].peak[kind]);
    }
}

void tn_totals_begin(tarn_device *device, bool host, struct tn_totals *totals)
{
    const struct tn_device_counters *kept = tn_device_counters(device, host);

    TN_ASSERT(tn_lock_is_held(&device->lock));
    for (int id = 0; id < TN_CHUNKS; id++) {
        totals->metrics[id] = kept->pools[id];
        for (int kind = 0; kind <= TN_ALL_KINDS; kind++)
            totals->metrics[id].peak[kind] = 0;
    }
    for (int id = 0; id < TN_EVENTS; id++)
        totals->events[id] = kept->events[id];
    totals->alloc_count = kept->alloc_count;
    totals->free_count = kept->free_count;
    totals->pool_count = 0;
}

void tn_totals_add(struct tn_totals *totals, tarn_pool *pool)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    tn_counters_complete(&pool->counters);
    for (int id = 0; id < TN_CHUNKS; id++) {
        const struct tn_metric *own = &pool->counters.metrics[id];

        for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
            totals->metrics[id].allocated[kind] += own->allocated[kind];
            totals->metrics[id].freed[kind] += own->freed[kind];
        }
    }
    add_peaks(totals->metrics, pool->counters.metrics);
    for (int id = 0; id < TN_EVENTS; id++)
        totals->events[id].count += pool->counters.events[id].count;
    totals->alloc_count += pool->counters.alloc_count;
    totals->free_count += pool->counters.free_count;
    totals->pool_count += tn_pool_is_counted(pool);
}

void tn_totals_end(tarn_device *device, bool host, struct tn_totals *totals)
{
    struct tn_device_counters *counters = tn_device_counters(device, host);

    TN_ASSERT(tn_lock_is_held(&device->lock));
    raise_peaks(totals->metrics, counters->pools);
    tn_lock_acquire_spin(&counters->lock, TN_RANK_COUNTS);
    for (int id = TN_CHUNKS; id < TN_METRICS; id++)
        totals->metrics[id] = counters->mapped[id];
    tn_lock_release_spin(&counters->lock, TN_RANK_COUNTS);
}

struct reading {
    struct tn_totals *totals;
    bool host;
};

static bool add_pool(tarn_pool *pool, void *context)
{
    const struct reading *reading = context;

    if (pool->in_host == reading->host)
        tn_totals_add(reading->totals, pool);
    return false;
}

void tn_totals_read(tarn_device *device, bool host, struct tn_totals *totals)
{
    struct reading reading = {totals, host};

    tn_lock_acquire(&device->lock);
    tn_totals_begin(device, host, totals);
    (void)tn_device_walk(device, add_pool, &reading);
    tn_totals_end(device, host, totals);
    tn_lock_release(&device->lock);
}

/* Publishes the peaks of the locked pool: P35. */
static void publish(tarn_pool *pool)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    tn_counters_publish(&pool->counters);
    if (pool->places.listed[TN_POOLS_UNPUBLISHED])
        tn_pool_list(pool, TN_POOLS_UNPUBLISHED, false);
}

/* Publishes the peaks of up to so many pools. The DEVICE lock is held. */
static void publish_most(tarn_device *device, uint64_t most)
{
    tarn_pool *pool;

    TN_ASSERT(tn_lock_is_held(&device->lock));
    device->lists.round += 1;
    for (; most > 0 &&
           (pool = tn_pools_next(device, TN_POOLS_UNPUBLISHED, device->lists.round)) != NULL;
         most--) {
        tn_pool_lock(pool);
        publish(pool);
        tn_pool_unlock(pool);
    }
}

void tn_totals_publish_some(tarn_device *device)
{
    enum { SOME = 2 }; /* for each pool that is made */

    TN_ASSERT(tn_lock_none_held());
    tn_lock_acquire(&device->lock);
    publish_most(device, SOME);
    tn_lock_release(&device->lock);
}

/* Keeps the sums of the peaks of all pools in one location, and more, if the sums are the highest so
 * far. Pools with an arena awake are locked first: arenas have counted more by then. The DEVICE lock
 * is held. */
static void keep_peaks(tarn_device *device, bool host, tn_peaks more)
{
    struct tn_device_counters *counters = tn_device_counters(device, host);
    struct tn_peak_sums *sums = &counters->sums;

    TN_ASSERT(tn_lock_is_held(&device->lock));
    tn_device_lock_awake(device);
    publish_most(device, UINT64_MAX);
    tn_lock_acquire_spin(&sums->lock, TN_RANK_COUNTS);
    for (int id = 0; id < TN_CHUNKS; id++) {
        for (int kind = 0; kind <= TN_ALL_KINDS; kind++)
            tn_metric_raise(&counters->pools[id], kind, sums->peaks[id][kind] + more[id][kind]);
    }
    tn_lock_release_spin(&sums->lock, TN_RANK_COUNTS);
}

void tn_totals_keep_peaks(tarn_pool *pool)
{
    tn_peaks none = {{0}};

    TN_ASSERT(tn_lock_is_held(&pool->device->lock) && atomic_load(&pool->magic) == 0);
    tn_pool_lock(pool);
    publish(pool);
    tn_pool_unlock(pool);
    keep_peaks(pool->device, pool->in_host, none);
    tn_pool_lock(pool);
    for (int id = 0; id < TN_CHUNKS; id++) {
        for (int kind = 0; kind <= TN_ALL_KINDS; kind++)
            pool->counters.metrics[id].peak[kind] = 0;
    }
    publish(pool); /* its part of the sums goes */
    pool->counters.sums = NULL;
    tn_pool_unlock(pool);
}

void tn_totals_keep_events(tarn_pool *pool)
{
    struct tn_device_counters *kept = tn_device_counters(pool->device, pool->in_host);

    TN_ASSERT(tn_lock_is_held(&pool->device->lock));
    for (int id = 0; id < TN_EVENTS; id++) {
        kept->events[id].count += pool->counters.events[id].count;
        pool->counters.events[id].count = 0;
    }
}

void tn_totals_keep(tarn_pool *pool)
{
    struct tn_device_counters *counters = tn_device_counters(pool->device, pool->in_host);

    TN_ASSERT(tn_lock_is_held(&pool->device->lock));
    tn_counters_complete(&pool->counters);
    counters->alloc_count += pool->counters.alloc_count;
    counters->free_count += pool->counters.free_count;
    for (int id = 0; id < TN_CHUNKS; id++) {
        struct tn_metric *kept = &counters->pools[id];

        for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
            uint64_t allocated = pool->counters.metrics[id].allocated[kind];

            kept->allocated[kind] += allocated;
            kept->freed[kind] += allocated; /* the rest goes with the pool */
        }
    }
    tn_totals_keep_events(pool);
}

static void reset_peaks(struct tn_metric *metrics, int first)
{
    for (int id = first; id < TN_METRICS; id++)
        tn_metric_reset_peak(&metrics[id]);
}

static void reset_totals(struct tn_metric *metrics, int first)
{
    for (int id = first; id < TN_METRICS; id++)
        tn_metric_reset_totals(&metrics[id]);
}

static void reset_events(struct tn_event *events)
{
    for (int id = 0; id < TN_EVENTS; id++)
        events[id].base = events[id].count;
}

void tn_pool_reset_peaks(tarn_pool *pool)
{
    tn_peaks fallen;

    TN_ASSERT(tn_lock_none_held());
    tn_lock_acquire(&pool->device->lock);
    tn_totals_lock(pool);
    for (int id = 0; id < TN_CHUNKS; id++)
        memcpy(fallen[id], pool->counters.metrics[id].peak, sizeof fallen[id]);
    reset_peaks(pool->counters.metrics, 0);
    pool->counters.unpublished = true;
    for (int id = 0; id < TN_CHUNKS; id++) {
        for (int kind = 0; kind <= TN_ALL_KINDS; kind++)
            fallen[id][kind] -= pool->counters.metrics[id].peak[kind];
    }
    tn_pool_unlock(pool);
    keep_peaks(pool->device, pool->in_host, fallen);
    tn_lock_release(&pool->device->lock);
}

void tn_pool_reset_totals(tarn_pool *pool)
{
    TN_ASSERT(tn_lock_none_held());
    tn_totals_lock(pool);
    reset_totals(pool->counters.metrics, 0);
    reset_events(pool->counters.events);
    tn_pool_unlock(pool);
}

static bool reset_pool_peaks(tarn_pool *pool, void *unused)
{
    (void)unused;
    tn_counters_complete(&pool->counters);
    reset_peaks(pool->counters.metrics, 0);
    pool->counters.unpublished = true;
    return false;
}

/* Of the device's pools in one location; they are locked in turn. */
static void restart_peaks(tarn_device *device, bool host)
{
    struct tn_device_counters *counters = tn_device_counters(device, host);

    TN_ASSERT(tn_lock_is_held(&device->lock));
    for (int id = 0; id < TN_CHUNKS; id++) {
        for (int kind = 0; kind <= TN_ALL_KINDS; kind++)
            counters->pools[id].peak[kind] = 0;
    }
    tn_lock_acquire_spin(&counters->lock, TN_RANK_COUNTS);
    reset_peaks(counters->mapped, TN_CHUNKS);
    tn_lock_release_spin(&counters->lock, TN_RANK_COUNTS);
}

void tn_device_reset_peaks(tarn_device *device)
{
    TN_ASSERT(tn_lock_none_held());
    tn_lock_acquire(&device->lock);
    (void)tn_device_walk(device, reset_pool_peaks, NULL);
    restart_peaks(device, false);
    restart_peaks(device, true);
    tn_lock_release(&device->lock);
}

/* Restarts the pool's totals from zero, and the device's from the pool's counts until now. */
static bool reset_totals_of(tarn_pool *pool, void *unused)
{
    struct tn_device_counters *counters = tn_device_counters(pool->device, pool->in_host);

    (void)unused;
    TN_ASSERT(tn_pool_is_locked(pool) && tn_lock_is_held(&pool->device->lock));
    tn_counters_complete(&pool->counters);
    reset_totals(pool->counters.metrics, 0);
    reset_events(pool->counters.events);
    for (int id = 0; id < TN_CHUNKS; id++) {
        for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
            const struct tn_metric *own = &pool->counters.metrics[id];

            counters->pools[id].allocated_base[kind] += own->allocated[kind];
            counters->pools[id].freed_base[kind] += own->freed[kind];
        }
    }
    for (int id = 0; id < TN_EVENTS; id++)
        counters->events[id].base += pool->counters.events[id].count;
    return false;
}

/* What the device itself has counted: of pools that are gone, and mapped memory. */
static void restart_totals(tarn_device *device, bool host)
{
    struct tn_device_counters *counters = tn_device_counters(device, host);

    TN_ASSERT(tn_lock_is_held(&device->lock));
    for (int id = 0; id < TN_CHUNKS; id++)
        tn_metric_reset_totals(&counters->pools[id]);
    reset_events(counters->events);
    for (int call = 0; call < TN_GPU_CALLS; call++)
        counters->call_bases[call] = atomic_load(&device->gpu.calls[call]);
    tn_lock_acquire_spin(&counters->lock, TN_RANK_COUNTS);
    reset_totals(counters->mapped, TN_CHUNKS);
    tn_lock_release_spin(&counters->lock, TN_RANK_COUNTS);
}

void tn_device_reset_totals(tarn_device *device)
{
    TN_ASSERT(tn_lock_none_held());
    tn_lock_acquire(&device->lock);
    restart_totals(device, false);
    restart_totals(device, true);
    (void)tn_device_walk(device, reset_totals_of, NULL);
    tn_lock_release(&device->lock);
}
