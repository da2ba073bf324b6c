// SPDX-License-Identifier: Apache-2.0
/* All counts of one pool or of a device, in the form for programs. Counters of pools are copied.
 * The rest is a walk over chunks, segments and free blocks, where the caller asks. */
#include "observe/stats.h"

#include <stddef.h>
#include <string.h>

#include "base/checked.h"
#include "base/host.h"
#include "observe/history_info.h"
#include "pools/pool.h"
#include "pools/staging.h"
#include "pools/totals.h"
#include "pools/visit.h"

static const size_t sets[TN_METRICS] = {
    offsetof(tarn_stats, live_blocks),     offsetof(tarn_stats, live_bytes),
    offsetof(tarn_stats, requested_bytes), offsetof(tarn_stats, active_blocks),
    offsetof(tarn_stats, active_bytes),    offsetof(tarn_stats, pending_blocks),
    offsetof(tarn_stats, pending_bytes),   offsetof(tarn_stats, discarded_blocks),
    offsetof(tarn_stats, discarded_bytes), offsetof(tarn_stats, chunks),
    offsetof(tarn_stats, mapped_bytes),    offsetof(tarn_stats, segments),
    offsetof(tarn_stats, segment_bytes),   offsetof(tarn_stats, own_segments),
};

static const size_t event_counts[TN_EVENTS] = {
    offsetof(tarn_stats, growth_count),   offsetof(tarn_stats, map_calls),
    offsetof(tarn_stats, unmap_calls),    offsetof(tarn_stats, create_calls),
    offsetof(tarn_stats, release_calls),  offsetof(tarn_stats, cache_hits),
    offsetof(tarn_stats, ladder_retries), offsetof(tarn_stats, out_of_memory_count),
    offsetof(tarn_stats, trim_count),
};

_Static_assert(offsetof(tarn_stats, inactive_blocks) - offsetof(tarn_stats, live_blocks) ==
                   TN_METRICS * sizeof(tarn_stat_set),
               "a set for each metric, and nothing between them");

static tarn_stat_set *set_of(tarn_stats *stats, int id)
{
    return (tarn_stat_set *)(void *)((char *)stats + sets[id]);
}

static void write_events(const struct tn_event *events, tarn_stats *stats)
{
    for (int id = 0; id < TN_EVENTS; id++)
        *(uint64_t *)(void *)((char *)stats + event_counts[id]) =
            events[id].count - events[id].base;
}

static tarn_stat stat_of(const struct tn_metric *metric, enum tn_heap_kind kind)
{
    return (tarn_stat){
        .current = tn_metric_current(metric, kind),
        .peak = tn_max(metric->peak[kind], tn_metric_current(metric, kind)),
        .allocated = metric->allocated[kind] - metric->allocated_base[kind],
        .freed = metric->freed[kind] - metric->freed_base[kind],
    };
}

static void write_metrics(const struct tn_metric *metrics, tarn_stats *stats)
{
    for (int id = 0; id < TN_METRICS; id++) {
        const struct tn_metric *metric = &metrics[id];
        tarn_stat_set *set = set_of(stats, id);

        set->small = stat_of(metric, TN_HEAP_SMALL);
        set->large = stat_of(metric, TN_HEAP_LARGE);
        set->all = (tarn_stat){
            .current = set->small.current + set->large.current,
            .peak = tn_max(metric->peak[TN_ALL_KINDS], tn_metric_all(metric)),
            .allocated = set->small.allocated + set->large.allocated,
            .freed = set->small.freed + set->large.freed,
        };
    }
    stats->map_count = tn_metric_added(&metrics[TN_CHUNKS]);
    stats->unmap_count = tn_metric_removed(&metrics[TN_CHUNKS]);
}

static void count(tarn_count_set *set, int kind, uint64_t amount)
{
    *(kind == TN_HEAP_SMALL ? &set->small : &set->large) += amount;
    set->all += amount;
}

/* A chunk under the FREE block with other blocks in it; NULL: none. */
static const struct tn_chunk *find_shared_chunk(const struct tn_block *block)
{
    const struct tn_chunk *chunk;

    for (uint64_t at = block->offset; at < tn_block_end(block); at = tn_chunk_end(chunk)) {
        chunk = tn_block_chunk_at(block, at);
        if (chunk->used_bytes > 0)
            return chunk;
    }
    return NULL;
}

static void add_inactive(const struct tn_arena *arena, tarn_stats *stats)
{
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
        const struct tn_bins *bins = &arena->heaps[kind]->bins;
        const struct tn_block *block = tn_bins_find(bins, TN_BLOCK_BYTES_MIN);

        for (; block != NULL; block = tn_bins_next(bins, block, TN_BLOCK_BYTES_MIN)) {
            const struct tn_chunk *chunk = find_shared_chunk(block);

            if (chunk != NULL)
                count(&stats->inactive_blocks, chunk->kind, 1);
        }
    }
}

static void add_free(const tarn_pool *pool, tarn_stats *stats)
{
    for (size_t id = 0; id < pool->chunks.ids; id++) {
        const struct tn_chunk *chunk = pool->chunks.by_id[id];

        if (chunk != NULL && chunk->used_bytes > 0)
            count(&stats->inactive_bytes, chunk->kind, chunk->bytes - chunk->used_bytes);
        else if (chunk != NULL)
            count(&stats->unused_bytes, chunk->kind, chunk->bytes);
    }
    add_inactive(&pool->idle, stats);
    for (const struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_ALL]; arena != NULL;
         arena = tn_arena_next(arena))
        add_inactive(arena, stats);
}

/* Chunks of holds, of both kinds and together: a chunk may be in several. */
static void add_held(const tarn_pool *pool, tarn_stats *stats)
{
    for (size_t word = 0; 64 * word < pool->chunks.ids; word++) {
        uint64_t open = 0;
        uint64_t closed = 0;

        for (const struct tn_hold *hold = pool->holds.first; hold != NULL; hold = hold->next) {
            *(hold->open ? &open : &closed) |= tn_chunk_set_word(&hold->chunks, word);
        }
        stats->capture_bytes += tn_holds_bytes_in(&pool->holds, word, open);
        stats->graph_bytes += tn_holds_bytes_in(&pool->holds, word, closed);
        stats->captured_bytes += tn_holds_bytes_in(&pool->holds, word, open | closed);
    }
}

static void add_walk(const tarn_pool *pool, tarn_stats *stats)
{
    add_free(pool, stats);
    add_held(pool, stats);
    for (const struct tn_segment *segment = pool->segments.first; segment != NULL;
         segment = segment->next) {
        if (segment->checkpoint_count > 0)
            stats->checkpoint_addresses += segment->bytes;
    }
}

/* The pool is locked. */
static void add_users(const tarn_pool *pool, tarn_stats *stats)
{
    stats->capture_count += pool->holds.open_count;
    stats->graph_count += pool->claims.graph_count;
    stats->held_graph_count += tn_holds_count_graphs(&pool->holds);
    stats->checkpoint_count += pool->claims.checkpoint_count;
    stats->arena_count += pool->arenas.count;
    if (stats->walk)
        add_walk(pool, stats);
}

/* The sets are written whole; every field behind them begins at 0. */
static void clear(tarn_stats *stats, bool walk)
{
    const size_t first = offsetof(tarn_stats, inactive_blocks);

    stats->size = sizeof *stats;
    stats->walk = walk;
    memset((char *)stats + first, 0, sizeof *stats - first);
}

void tn_pool_read_stats(tarn_pool *pool, bool walk, tarn_stats *stats)
{
    clear(stats, walk);
    tn_totals_lock(pool);
    write_metrics(pool->counters.metrics, stats);
    write_events(pool->counters.events, stats);
    stats->alloc_count = pool->counters.alloc_count;
    stats->free_count = pool->counters.free_count;
    add_users(pool, stats);
    stats->limit_bytes = pool->limit.bytes;
    tn_pool_unlock(pool);
}

static void read_calls(tarn_device *device, tarn_stats *stats)
{
    uint64_t calls[TN_GPU_CALLS];

    for (int call = 0; call < TN_GPU_CALLS; call++)
        calls[call] = atomic_load(&device->gpu.calls[call]) - device->counters.call_bases[call];
    stats->create_calls = calls[TN_CALL_CREATE];
    stats->release_calls = calls[TN_CALL_RELEASE];
    stats->map_calls = calls[TN_CALL_MAP];
    stats->unmap_calls = calls[TN_CALL_UNMAP];
    stats->access_calls = calls[TN_CALL_SET_ACCESS];
    stats->reserve_calls = calls[TN_CALL_RESERVE];
    stats->event_records = calls[TN_CALL_RECORD];
    stats->event_queries = calls[TN_CALL_QUERY];
    stats->idle_waits = calls[TN_CALL_WAIT];
}

static tarn_stat host_bytes(void)
{
    struct tn_host_usage usage = tn_host_usage();

    return (tarn_stat){usage.current_bytes, usage.peak_bytes, usage.allocated_bytes,
                       usage.allocated_bytes - usage.current_bytes};
}

/* What the visit of a device's pools adds up. */
struct sums {
    struct tn_totals totals;
    tarn_stats *stats;
    bool host;
};

static bool add_pool(tarn_pool *pool, void *context)
{
    struct sums *sums = context;

    if (pool->in_host != sums->host)
        return false;
    tn_totals_add(&sums->totals, pool);
    add_users(pool, sums->stats);
    return false;
}

void tn_device_read_stats(tarn_device *device, bool host, bool walk, tarn_stats *stats)
{
    struct tn_memory_cache *cache = host ? &device->host.cache : &device->cache;
    const struct tn_budget *budget = host ? &device->host.budget : &device->budget;
    struct sums sums = {.stats = stats, .host = host};

    clear(stats, walk);
    tn_lock_acquire(&device->lock);
    tn_totals_begin(device, host, &sums.totals);
    (void)tn_device_walk(device, add_pool, &sums);
    tn_totals_end(device, host, &sums.totals);
    write_metrics(sums.totals.metrics, stats);
    write_events(sums.totals.events, stats);
    stats->alloc_count = sums.totals.alloc_count;
    stats->free_count = sums.totals.free_count;
    stats->pool_count = sums.totals.pool_count;
    read_calls(device, stats);
    tn_lock_release(&device->lock);
    tn_staging_usage(device, &stats->pinned_bytes, &stats->pinned_cached_bytes);
    tn_memory_cache_usage(cache, &stats->cached_bytes, &stats->cached_count,
                          &stats->cache_limit_bytes);
    if (host) {
        stats->cached_bytes += tn_memory_cache_bytes(&device->host.ready);
        stats->cached_count += atomic_load(&device->host.ready.count);
    }
    stats->route_count = atomic_load(&device->routes.open_count);
    stats->adopted_count = atomic_load(&device->adopted_count);
    stats->unrouted_count = atomic_load(&device->unrouted_count);
    stats->contents_bytes = atomic_load(&device->contents_bytes);
    stats->limit_bytes = tn_budget_stated_limit(budget);
    stats->reserved_bytes = atomic_load(&device->regions.reserved_bytes);
    stats->total_bytes = device->gpu.total_bytes;
    stats->host_bytes = host_bytes();
    stats->history_bytes = tn_history_bytes(device);
    if (!host)
        tn_imports_usage(&device->imports, &stats->import_count, &stats->import_bytes,
                         &stats->import_unused_bytes);
}
