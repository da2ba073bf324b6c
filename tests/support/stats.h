// SPDX-License-Identifier: Apache-2.0
/* stats.h -- the few numbers of tarn_stats that most suites look at, by short names. */
#ifndef TARN_TESTS_SUPPORT_STATS_H
#define TARN_TESTS_SUPPORT_STATS_H

#include "tarn/stats.h"

/* Of a pool. */
struct test_stats {
    uint64_t mapped_bytes;
    uint64_t mapped_peak_bytes;
    uint64_t live_bytes;
    uint64_t live_peak_bytes;
    uint64_t requested_bytes;
    uint64_t pending_bytes;
    uint64_t captured_bytes;
    uint64_t live_count; /* blocks */
    uint64_t pending_count;
    uint64_t alloc_count;
    uint64_t free_count;
    uint64_t segment_count;
    uint64_t chunk_count;
    uint64_t arena_count;
    uint64_t capture_count;
    uint64_t graph_count;
    uint64_t checkpoint_count;
    uint64_t map_count;
    uint64_t unmap_count;
    uint64_t held_graph_count;
};

/* Of a device. */
struct test_device_stats {
    uint64_t reserved_bytes;
    uint64_t mapped_bytes;
    uint64_t mapped_peak_bytes;
    uint64_t live_bytes;
    uint64_t requested_bytes;
    uint64_t pool_count;
    uint64_t route_count;
    uint64_t idle_waits;
    uint64_t ladder_retries;
    uint64_t out_of_memory_count;
    uint64_t adopted_count;
    uint64_t unrouted_count;
    uint64_t cached_bytes;
    uint64_t cached_count;
    uint64_t limit_bytes;
};

/* walk was set. */
static inline struct test_stats test_stats_in(const tarn_stats *stats)
{
    return (struct test_stats){
        .mapped_bytes = stats->mapped_bytes.all.current,
        .mapped_peak_bytes = stats->mapped_bytes.all.peak,
        .live_bytes = stats->live_bytes.all.current,
        .live_peak_bytes = stats->live_bytes.all.peak,
        .requested_bytes = stats->requested_bytes.all.current,
        .pending_bytes = stats->pending_bytes.all.current,
        .captured_bytes = stats->captured_bytes,
        .live_count = stats->live_blocks.all.current,
        .pending_count = stats->pending_blocks.all.current,
        .alloc_count = stats->alloc_count,
        .free_count = stats->free_count,
        .segment_count = stats->segments.all.current,
        .chunk_count = stats->chunks.all.current,
        .arena_count = stats->arena_count,
        .capture_count = stats->capture_count,
        .graph_count = stats->graph_count,
        .checkpoint_count = stats->checkpoint_count,
        .map_count = stats->map_count,
        .unmap_count = stats->unmap_count,
        .held_graph_count = stats->held_graph_count,
    };
}

static inline struct test_device_stats test_device_stats_in(const tarn_stats *stats)
{
    return (struct test_device_stats){
        .reserved_bytes = stats->reserved_bytes,
        .mapped_bytes = stats->mapped_bytes.all.current,
        .mapped_peak_bytes = stats->mapped_bytes.all.peak,
        .live_bytes = stats->live_bytes.all.current,
        .requested_bytes = stats->requested_bytes.all.current,
        .pool_count = stats->pool_count,
        .route_count = stats->route_count,
        .idle_waits = stats->idle_waits,
        .ladder_retries = stats->ladder_retries,
        .out_of_memory_count = stats->out_of_memory_count,
        .adopted_count = stats->adopted_count,
        .unrouted_count = stats->unrouted_count,
        .cached_bytes = stats->cached_bytes,
        .cached_count = stats->cached_count,
        .limit_bytes = stats->limit_bytes,
    };
}

#endif
