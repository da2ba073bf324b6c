// SPDX-License-Identifier: Apache-2.0
/* Reading counters and layout, each pool at one moment under its lock. */
#include "observe/stats.h"

#include <stddef.h>

#include "base/error.h"
#include "base/host.h"
#include "pools/pool.h"
#include "pools/totals.h"

static uint64_t captured_bytes(const tarn_pool *pool)
{
    uint64_t bytes = 0;

    for (size_t id = 0; id < pool->chunks.ids; id++) {
        if (pool->chunks.by_id[id] != NULL && pool->chunks.by_id[id]->hold_count > 0)
            bytes += pool->chunks.by_id[id]->bytes;
    }
    return bytes;
}

void tn_pool_read_stats(tarn_pool *pool, tarn_pool_stats *stats)
{
    const struct tn_pool_counters *counters = &pool->counters;

    tn_pool_lock(pool);
    *stats = (tarn_pool_stats){
        .size = sizeof *stats,
        .mapped_bytes = tn_pool_mapped_bytes(pool),
        .mapped_peak_bytes = counters->metrics[TN_CHUNK_BYTES].peak[TN_ALL_KINDS],
        .live_bytes = tn_pool_live_bytes(pool),
        .live_peak_bytes = counters->metrics[TN_LIVE_BYTES].peak[TN_ALL_KINDS],
        .requested_bytes = tn_pool_requested_bytes(pool),
        .pending_bytes = tn_pool_pending_bytes(pool),
        .captured_bytes = captured_bytes(pool),
        .live_count = tn_pool_live_count(pool),
        .pending_count = tn_pool_pending_count(pool),
        .alloc_count = counters->alloc_count,
        .free_count = counters->free_count,
        .segment_count = tn_pool_segment_count(pool),
        .chunk_count = tn_metric_all(&counters->metrics[TN_CHUNKS]),
        .arena_count = pool->arenas.count,
        .capture_count = pool->holds.open_count,
        .graph_count = pool->claims.graph_count,
        .checkpoint_count = pool->claims.checkpoint_count,
        .map_count = tn_pool_map_count(pool),
        .unmap_count = tn_pool_unmap_count(pool),
        .held_graph_count = tn_holds_count_graphs(&pool->holds),
    };
    tn_pool_unlock(pool);
}

void tn_device_read_stats(tarn_device *device, tarn_device_stats *stats)
{
    struct tn_totals totals;

    tn_totals_read(device, &totals);
    *stats = (tarn_device_stats){
        .size = sizeof *stats,
        .mapped_bytes = tn_metric_all(&totals.metrics[TN_CHUNK_BYTES]),
        .mapped_peak_bytes = totals.metrics[TN_CHUNK_BYTES].peak[TN_ALL_KINDS],
        .live_bytes = tn_metric_all(&totals.metrics[TN_LIVE_BYTES]),
        .requested_bytes = tn_metric_all(&totals.metrics[TN_LIVE_REQUESTED]),
        .reserved_bytes = atomic_load(&device->regions.reserved_bytes),
        .pool_count = totals.pool_count,
        .route_count = atomic_load(&device->routes.open_count),
        .idle_waits = atomic_load(&device->gpu.calls[TN_CALL_WAIT]),
        .ladder_retries = totals.events[TN_LADDER_RETRIES].count,
        .out_of_memory_count = totals.events[TN_OUT_OF_MEMORY].count,
        .adopted_count = atomic_load(&device->adopted_count),
        .unrouted_count = atomic_load(&device->unrouted_count),
        .cached_bytes = tn_memory_cache_bytes(&device->cache),
        .cached_count = atomic_load(&device->cache.count),
        .limit_bytes = tn_budget_stated_limit(&device->budget),
    };
}

static tarn_extent_state extent_state(const struct tn_block *block)
{
    switch (block->state) {
    case TN_BLOCK_LIVE:
        return TARN_EXTENT_LIVE;
    case TN_BLOCK_PENDING:
        return block->ended ? TARN_EXTENT_FREE : TARN_EXTENT_PENDING;
    case TN_BLOCK_DISCARDED:
        return TARN_EXTENT_DISCARDED;
    case TN_BLOCK_UNMAPPED:
        return TARN_EXTENT_UNMAPPED;
    case TN_BLOCK_FREE:
        break;
    }
    return TARN_EXTENT_FREE;
}

static size_t count_blocks(const tarn_pool *pool)
{
    size_t count = 0;

    for (const struct tn_segment *segment = pool->segments.first; segment != NULL;
         segment = segment->next) {
        for (const struct tn_block *block = segment->first_block; block != NULL;
             block = block->next)
            count += 1;
    }
    return count;
}

static void write_extents(const tarn_pool *pool, tarn_extent *extents)
{
    for (const struct tn_segment *segment = pool->segments.first; segment != NULL;
         segment = segment->next) {
        for (const struct tn_block *block = segment->first_block; block != NULL;
             block = block->next) {
            *extents = (tarn_extent){
                .address = (void *)(uintptr_t)tn_block_address(block),
                .bytes = tn_block_bytes(block),
                .segment_index = segment->index,
                .state = extent_state(block),
                .sequence = block->state == TN_BLOCK_LIVE ? block->sequence : 0,
            };
            extents += 1;
        }
    }
}

tarn_status tn_pool_read_layout(tarn_pool *pool, tarn_layout **layout)
{
    tarn_layout *made;
    tarn_extent *extents;
    size_t count;

    tn_pool_lock(pool);
    count = count_blocks(pool);
    made = tn_host_alloc(1, sizeof *made + count * sizeof *extents);
    if (made != NULL) {
        extents = (tarn_extent *)(void *)(made + 1);
        made->extent_count = count;
        made->segment_count = tn_pool_segment_count(pool);
        made->extents = extents;
        write_extents(pool, extents);
    }
    tn_pool_unlock(pool);
    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a layout of %zu extents", count);
    *layout = made;
    return TARN_OK;
}
