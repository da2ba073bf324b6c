// SPDX-License-Identifier: Apache-2.0
#include "pools/totals.h"

#include <string.h>

void tn_totals_lock(tarn_pool *pool)
{
    tn_pool_lock(pool);
    tn_counters_complete(pool);
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

void tn_totals_begin(const tarn_device *device, struct tn_totals *totals)
{
    const struct tn_device_counters *kept = &device->counters;

    for (int id = 0; id < TN_CHUNKS; id++) {
        totals->metrics[id] = kept->pools[id];
        for (int kind = 0; kind <= TN_ALL_KINDS; kind++)
            totals->metrics[id].peak[kind] = 0;
    }
    for (int id = 0; id < TN_EVENTS; id++)
        totals->events[id] = kept->events[id];
}

void tn_totals_add(struct tn_totals *totals, const tarn_pool *pool)
{
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
}

void tn_totals_end(tarn_device *device, struct tn_totals *totals)
{
    struct tn_device_counters *counters = &device->counters;

    raise_peaks(totals->metrics, counters->pools);
    tn_lock_acquire_spin(&counters->lock, TN_RANK_COUNTS);
    for (int id = TN_CHUNKS; id < TN_METRICS; id++)
        totals->metrics[id] = counters->mapped[id];
    tn_lock_release_spin(&counters->lock, TN_RANK_COUNTS);
}

uint64_t tn_totals_live_bytes(tarn_device *device)
{
    uint64_t bytes = 0;

    tn_lock_acquire(&device->lock);
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        tn_pool_lock(pool);
        bytes += pool->counters.live_bytes;
        tn_pool_unlock(pool);
    }
    tn_lock_release(&device->lock);
    return bytes;
}

/* The peaks that the pool had until now, with those of the others. The lock of the device is held; those of the
 * other pools are taken. */
static void keep_peaks(const tarn_pool *pool, const struct tn_metric *own)
{
    tarn_device *device = pool->device;
    struct tn_metric sums[TN_METRICS];

    memcpy(sums, own, sizeof sums);
    for (tarn_pool *other = device->pools; other != NULL; other = other->next) {
        if (other == pool)
            continue;
        tn_pool_lock(other);
        add_peaks(sums, other->counters.metrics);
        tn_pool_unlock(other);
    }
    raise_peaks(device->counters.pools, sums);
}

void tn_totals_keep_peaks(tarn_pool *pool)
{
    struct tn_metric own[TN_METRICS];

    tn_pool_lock(pool);
    memcpy(own, pool->counters.metrics, sizeof own);
    tn_pool_unlock(pool);
    keep_peaks(pool, own);
}

void tn_totals_keep_events(tarn_pool *pool)
{
    for (int id = 0; id < TN_EVENTS; id++) {
        pool->device->counters.events[id].count += pool->counters.events[id].count;
        pool->counters.events[id].count = 0;
    }
}

void tn_totals_keep(tarn_pool *pool)
{
    tn_counters_complete(pool);
    for (int id = 0; id < TN_CHUNKS; id++) {
        struct tn_metric *kept = &pool->device->counters.pools[id];

        for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
            uint64_t allocated = pool->counters.metrics[id].allocated[kind];

            kept->allocated[kind] += allocated;
            kept->freed[kind] += allocated; /* what is left goes with the pool */
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
    struct tn_metric own[TN_METRICS];

    tn_lock_acquire(&pool->device->lock);
    tn_totals_lock(pool);
    memcpy(own, pool->counters.metrics, sizeof own);
    reset_peaks(pool->counters.metrics, 0);
    tn_pool_unlock(pool);
    keep_peaks(pool, own);
    tn_lock_release(&pool->device->lock);
}

void tn_pool_reset_totals(tarn_pool *pool)
{
    tn_totals_lock(pool);
    reset_totals(pool->counters.metrics, 0);
    reset_events(pool->counters.events);
    tn_pool_unlock(pool);
}

void tn_device_reset_peaks(tarn_device *device)
{
    struct tn_device_counters *counters = &device->counters;

    tn_lock_acquire(&device->lock);
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        tn_totals_lock(pool);
        reset_peaks(pool->counters.metrics, 0);
        tn_pool_unlock(pool);
    }
    for (int id = 0; id < TN_CHUNKS; id++) {
        for (int kind = 0; kind <= TN_ALL_KINDS; kind++)
            counters->pools[id].peak[kind] = 0;
    }
    tn_lock_acquire_spin(&counters->lock, TN_RANK_COUNTS);
    reset_peaks(counters->mapped, TN_CHUNKS);
    tn_lock_release_spin(&counters->lock, TN_RANK_COUNTS);
    tn_lock_release(&device->lock);
}

void tn_device_reset_totals(tarn_device *device)
{
    struct tn_device_counters *counters = &device->counters;

    tn_lock_acquire(&device->lock);
    for (int id = 0; id < TN_CHUNKS; id++)
        tn_metric_reset_totals(&counters->pools[id]);
    reset_events(counters->events);
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        tn_totals_lock(pool);
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
        tn_pool_unlock(pool);
    }
    for (int call = 0; call < TN_GPU_CALLS; call++)
        counters->call_bases[call] = atomic_load(&device->gpu.calls[call]);
    tn_lock_acquire_spin(&counters->lock, TN_RANK_COUNTS);
    reset_totals(counters->mapped, TN_CHUNKS);
    tn_lock_release_spin(&counters->lock, TN_RANK_COUNTS);
    tn_lock_release(&device->lock);
}
