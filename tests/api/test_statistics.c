// SPDX-License-Identifier: Apache-2.0
/* Every number of tarn/stats.h beside one that was reckoned by hand. */
#include <pthread.h>
#include <stdatomic.h>

#include "support/world.h"

static tarn_stats of_pool(tarn_pool *pool)
{
    tarn_stats stats = {.size = sizeof stats, .walk = true};

    OK(tarn_pool_stats(pool, &stats));
    OK(tarn_pool_validate(pool));
    return stats;
}

static tarn_stats of_device(void)
{
    tarn_stats stats = {.size = sizeof stats, .walk = true};

    OK(tarn_device_stats(world.device, &stats));
    return stats;
}

static void expect(const char *what, tarn_stat stat, uint64_t current, uint64_t peak,
                   uint64_t allocated, uint64_t freed)
{
    ck_assert_msg(stat.current == current && stat.peak == peak && stat.allocated == allocated &&
                      stat.freed == freed,
                  "%s: %llu, peak %llu, %llu - %llu, and not %llu, peak %llu, %llu - %llu", what,
                  (unsigned long long)stat.current, (unsigned long long)stat.peak,
                  (unsigned long long)stat.allocated, (unsigned long long)stat.freed,
                  (unsigned long long)current, (unsigned long long)peak,
                  (unsigned long long)allocated, (unsigned long long)freed);
}

#define EXPECT(stat, current, peak, allocated, freed)                                              \
    expect(#stat, stat, current, peak, allocated, freed)

#define EXPECT_COUNTS(counts, all_of_them, small_ones, large_ones)                                 \
    do {                                                                                           \
        ck_assert_uint_eq((counts).all, all_of_them);                                              \
        ck_assert_uint_eq((counts).small, small_ones);                                             \
        ck_assert_uint_eq((counts).large, large_ones);                                             \
    } while (0)

/* The sets of one structure, in its order. */
enum { SETS = 14 };
static const tarn_stat_set *sets_of(const tarn_stats *stats)
{
    ck_assert_uint_eq(offsetof(tarn_stats, inactive_blocks) - offsetof(tarn_stats, live_blocks),
                      SETS * sizeof(tarn_stat_set));
    return &stats->live_blocks;
}

/* What holds of every reading between resets of the totals. */
static void expect_consistent(const tarn_stats *stats)
{
    const tarn_stat_set *sets = sets_of(stats);

    for (int i = 0; i < SETS; i++) {
        const tarn_stat *parts[] = {&sets[i].all, &sets[i].small, &sets[i].large};

        for (int k = 0; k < 3; k++)
            ck_assert_uint_ge(parts[k]->peak, parts[k]->current);
        ck_assert_uint_eq(sets[i].all.current, sets[i].small.current + sets[i].large.current);
        ck_assert_uint_eq(sets[i].all.allocated, sets[i].small.allocated + sets[i].large.allocated);
        ck_assert_uint_eq(sets[i].all.freed, sets[i].small.freed + sets[i].large.freed);
        ck_assert_uint_le(sets[i].all.peak, sets[i].small.peak + sets[i].large.peak);
    }
    ck_assert_uint_eq(stats->active_blocks.all.current, stats->live_blocks.all.current +
                                                            stats->pending_blocks.all.current +
                                                            stats->discarded_blocks.all.current);
    ck_assert_uint_eq(stats->active_bytes.all.current, stats->live_bytes.all.current +
                                                           stats->pending_bytes.all.current +
                                                           stats->discarded_bytes.all.current);
    ck_assert_uint_eq(stats->mapped_bytes.all.current, stats->active_bytes.all.current +
                                                           stats->inactive_bytes.all +
                                                           stats->unused_bytes.all);
}

static void expect_totals(const tarn_stats *stats)
{
    const tarn_stat_set *sets = sets_of(stats);

    for (int i = 0; i < SETS; i++) {
        ck_assert_uint_eq(sets[i].small.current, sets[i].small.allocated - sets[i].small.freed);
        ck_assert_uint_eq(sets[i].large.current, sets[i].large.allocated - sets[i].large.freed);
    }
}

GROUP(counts, test_world_open, test_world_close)

TEST(counts, what_is_allocated_and_mapped_is_counted_by_size)
{
    void *small = test_alloc(world.pool, 1000, world.stream);
    void *large = test_alloc(world.pool, 3 * MIB, world.stream);
    void *aside = test_alloc(world.pool, 600, world.side);
    tarn_stats stats = of_pool(world.pool);

    EXPECT(stats.live_blocks.all, 3, 3, 3, 0);
    EXPECT(stats.live_blocks.small, 2, 2, 2, 0);
    EXPECT(stats.live_blocks.large, 1, 1, 1, 0);
    EXPECT(stats.live_bytes.small, 2048, 2048, 2048, 0);
    EXPECT(stats.live_bytes.large, 3 * MIB, 3 * MIB, 3 * MIB, 0);
    EXPECT(stats.requested_bytes.small, 1600, 1600, 1600, 0);
    EXPECT(stats.active_bytes.all, 2048 + 3 * MIB, 2048 + 3 * MIB, 2048 + 3 * MIB, 0);
    EXPECT(stats.chunks.small, 2, 2, 2, 0);
    EXPECT(stats.chunks.large, 1, 1, 1, 0);
    EXPECT(stats.mapped_bytes.small, 4 * MIB, 4 * MIB, 4 * MIB, 0);
    EXPECT(stats.mapped_bytes.large, 4 * MIB, 4 * MIB, 4 * MIB, 0);
    EXPECT(stats.segments.all, 3, 3, 3, 0);
    EXPECT(stats.segment_bytes.large, 32 * MIB, 32 * MIB, 32 * MIB, 0);
    EXPECT(stats.own_segments.all, 0, 0, 0, 0);
    EXPECT_COUNTS(stats.inactive_blocks, 3, 2, 1);
    EXPECT_COUNTS(stats.inactive_bytes, 5 * MIB - 2048, 4 * MIB - 2048, MIB);
    EXPECT_COUNTS(stats.unused_bytes, 0, 0, 0);
    ck_assert_uint_eq(stats.growth_count, 3);
    ck_assert_uint_eq(stats.create_calls, 3);
    ck_assert_uint_eq(stats.map_calls, 3);
    ck_assert_uint_eq(stats.arena_count, 2);
    OK(tarn_free(large));
    stats = of_pool(world.pool);
    EXPECT(stats.live_bytes.large, 0, 3 * MIB, 3 * MIB, 3 * MIB);
    EXPECT(stats.live_blocks.all, 2, 3, 3, 1);
    EXPECT_COUNTS(stats.unused_bytes, 4 * MIB, 0, 4 * MIB);
    EXPECT_COUNTS(stats.inactive_blocks, 2, 2, 0);
    OK(tarn_free(small));
    OK(tarn_free(aside));
}

TEST(counts, a_segment_for_one_block_is_told_apart)
{
    void *block = test_alloc(world.pool, 3 * GIB, world.stream);
    tarn_stats stats = of_pool(world.pool);

    EXPECT(stats.own_segments.large, 1, 1, 1, 0);
    EXPECT(stats.segments.all, 1, 1, 1, 0);
    OK(tarn_free(block));
    OK(tarn_pool_trim(world.pool, NULL));
    stats = of_pool(world.pool);
    EXPECT(stats.own_segments.all, 0, 1, 1, 1);
}

TEST(counts, memory_that_waits_for_a_stream_is_pending_until_a_trim_finds_it_done)
{
    void *block = test_alloc(world.pool, 1000, world.stream);
    void *other = test_alloc(world.pool, 600, world.side);
    tarn_stats before;
    tarn_stats stats;

    sim.hold_work();
    test_fill(world.side, block, 1, 16);
    OK(tarn_free_on(block, world.side));
    stats = of_pool(world.pool);
    before = of_device();
    sim.resume_work();
    EXPECT(stats.live_blocks.small, 1, 2, 2, 1);
    EXPECT(stats.live_bytes.small, 1024, 2048, 2048, 1024);
    EXPECT(stats.pending_blocks.small, 1, 1, 1, 0);
    EXPECT(stats.pending_bytes.all, 1024, 1024, 1024, 0);
    EXPECT(stats.active_blocks.small, 2, 2, 2, 0);
    EXPECT(stats.active_bytes.all, 2048, 2048, 2048, 0);
    ck_assert_uint_ge(before.event_records, 1);
    test_synchronize(world.side);
    OK(tarn_pool_trim(world.pool, NULL));
    stats = of_pool(world.pool);
    EXPECT(stats.pending_blocks.small, 0, 1, 1, 1);
    EXPECT(stats.active_bytes.small, 1024, 2048, 2048, 1024);
    EXPECT(stats.chunks.all, 1, 2, 2, 1);
    EXPECT(stats.mapped_bytes.all, 2 * MIB, 4 * MIB, 4 * MIB, 2 * MIB);
    EXPECT(stats.segments.all, 1, 2, 2, 1);
    ck_assert_uint_eq(stats.trim_count, 1);
    ck_assert_uint_eq(stats.unmap_calls, 1);
    ck_assert_uint_eq(stats.release_calls, 1);
    stats = of_device();
    ck_assert_uint_eq(stats.trim_count, 1);
    ck_assert_uint_eq(stats.idle_waits, test_device_stats().idle_waits);
    ck_assert_uint_eq(stats.unmap_calls, before.unmap_calls + 1);
    ck_assert_uint_eq(stats.release_calls, before.release_calls + 1);
    ck_assert_uint_ge(stats.event_queries, before.event_queries + 1);
    ck_assert_uint_ge(stats.access_calls, 2);
    ck_assert_uint_ge(stats.reserve_calls, 1);
    OK(tarn_free(other));
}

/* On one stream, so that nothing but that stream's own memory is locked: small and large alternate, what is
 * freed is at once allocated again, and nothing but the highest values are seen in the end. */
TEST(counts, peaks_of_one_stream_are_exact)
{
    void *blocks[8];
    void *small;
    void *large;
    tarn_stats stats;

    for (int i = 0; i < 8; i++)
        blocks[i] = test_alloc(world.pool, i < 4 ? 4096 : 2 * MIB, world.stream);
    for (int i = 0; i < 8; i++)
        OK(tarn_free(blocks[i]));
    OK(tarn_pool_reset_peaks(world.pool));
    for (int round = 0; round < 3; round++) {
        small = test_alloc(world.pool, 4096, world.stream);
        OK(tarn_free(small));
        large = test_alloc(world.pool, 2 * MIB, world.stream);
        OK(tarn_free(large));
    }
    small = test_alloc(world.pool, 1000, world.stream);
    OK(tarn_free(small));
    small = test_alloc(world.pool, 1024,
                       world.stream); /* the very block, and more of it is asked for */
    OK(tarn_free(small));
    stats = of_pool(world.pool);
    EXPECT(stats.live_bytes.small, 0, 4096, 4 * 4096 + 3 * 4096 + 2048, 4 * 4096 + 3 * 4096 + 2048);
    EXPECT(stats.live_bytes.large, 0, 2 * MIB, 14 * MIB, 14 * MIB);
    ck_assert_uint_eq(stats.live_bytes.all.peak, 2 * MIB);
    ck_assert_uint_eq(stats.live_blocks.small.peak, 1);
    ck_assert_uint_eq(stats.live_blocks.large.peak, 1);
    ck_assert_uint_le(stats.live_blocks.all.peak, 2);
    ck_assert_uint_eq(stats.requested_bytes.small.peak, 4096);
    OK(tarn_pool_reset_peaks(world.pool));
    for (int i = 0; i < 8; i++) /* up and down: the top is in the middle */
        blocks[i] = test_alloc(world.pool, i % 2 == 0 ? 4096 : 2 * MIB, world.stream);
    for (int i = 0; i < 8; i++)
        OK(tarn_free(blocks[i]));
    stats = of_pool(world.pool);
    ck_assert_uint_eq(stats.live_bytes.all.peak, 4 * 4096 + 8 * MIB);
    ck_assert_uint_eq(stats.live_bytes.small.peak, 4 * 4096);
    ck_assert_uint_eq(stats.live_blocks.all.peak, 8);
    ck_assert_uint_eq(stats.live_blocks.large.peak, 4);
}

TEST(counts, memory_of_captures_graphs_and_aborted_captures_is_told_apart)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    void *block = test_alloc(world.pool, 62 * MIB, world.stream);
    tarn_stats stats = of_pool(world.pool);
    tarn_graph *graph;

    ck_assert_uint_eq(stats.capture_count, 1);
    ck_assert_uint_eq(stats.capture_bytes, 64 * MIB);
    ck_assert_uint_eq(stats.graph_bytes, 0);
    OK(tarn_free(block));
    graph = test_capture_end(capture);
    stats = of_pool(world.pool);
    ck_assert_uint_eq(stats.capture_count, 0);
    ck_assert_uint_eq(stats.capture_bytes, 0);
    ck_assert_uint_eq(stats.graph_count, 1);
    ck_assert_uint_eq(stats.graph_bytes, 64 * MIB);
    capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    block = test_alloc(world.pool, 1000, world.stream);
    OK(tarn_capture_abort(capture));
    stats = of_pool(world.pool);
    EXPECT(stats.live_blocks.small, 0, 1, 1, 1);
    EXPECT(stats.requested_bytes.small, 0, 1000, 1000, 1000);
    EXPECT(stats.discarded_blocks.small, 1, 1, 1, 0);
    EXPECT(stats.discarded_bytes.all, 1024, 1024, 1024, 0);
    EXPECT(stats.active_blocks.small, 1, 1, 1, 0);
    expect_consistent(&stats);
    OK(tarn_free(block));
    stats = of_pool(world.pool);
    EXPECT(stats.discarded_blocks.small, 0, 1, 1, 1);
    EXPECT(stats.discarded_bytes.small, 0, 1024, 1024, 1024);
    expect_consistent(&stats);
    OK(tarn_graph_destroy(graph));
}

TEST(counts, a_restore_frees_and_allocates)
{
    void *kept = test_filled(256, 1); /* 1 KiB */
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_DEVICE);
    void *later = test_alloc(world.pool, 2000, world.stream);
    tarn_stats stats = of_pool(world.pool);
    tarn_stats device = of_device();

    (void)later;
    ck_assert_uint_eq(stats.checkpoint_count, 1);
    ck_assert_uint_eq(stats.checkpoint_addresses, 32 * MIB);
    ck_assert_uint_eq(stats.contents_bytes, 0);
    ck_assert_uint_eq(device.checkpoint_count, 1);
    ck_assert_uint_eq(device.contents_bytes, of_pool(world.default_pool).live_bytes.all.current);
    ck_assert_uint_gt(device.contents_bytes, 1024);
    ck_assert_uint_gt(device.pinned_bytes, 0);
    ck_assert_uint_lt(device.pinned_cached_bytes, device.pinned_bytes);
    OK(tarn_checkpoint_verify(checkpoint, world.stream)); /* with memory of the default pool */
    ck_assert_uint_eq(of_device().contents_bytes, device.contents_bytes);
    OK(tarn_free(kept));
    tarn_delta_destroy(test_restore(checkpoint, 1, 1));
    stats = of_pool(world.pool);
    EXPECT(stats.live_blocks.small, 1, 2, 3, 2);
    EXPECT(stats.live_bytes.small, 1024, 3072, 4096, 3072);
    EXPECT(stats.requested_bytes.small, 1024, 3024, 4048, 3024);
    ck_assert_uint_eq(test_stats(world.pool).alloc_count, 2); /* of the user */
    expect_consistent(&stats);
    OK(tarn_checkpoint_destroy(checkpoint));
    device = of_device();
    ck_assert_uint_eq(device.contents_bytes, 0);
    ck_assert_uint_eq(device.pinned_cached_bytes, device.pinned_bytes);
    OK(tarn_free(kept));
}

TEST(counts, what_the_ladder_did_and_what_failed_is_the_pools)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool;
    void *address;
    tarn_stats stats;
    tarn_stats device;

    options.name = "small";
    options.limit_bytes = 4 * MIB;
    pool = test_pool_with(&options);
    void *kept = test_alloc(pool, 1000, world.stream);

    STATUS(TARN_ERR_LIMIT, tarn_pool_malloc(pool, 8 * MIB, 0, world.stream, &address));
    stats = of_pool(pool);
    device = of_device();
    ck_assert_uint_eq(stats.limit_bytes, 4 * MIB);
    ck_assert_uint_eq(stats.out_of_memory_count, 1);
    ck_assert_uint_ge(stats.ladder_retries, 1);
    ck_assert_uint_eq(stats.ladder_retries, test_device_stats().ladder_retries);
    ck_assert_uint_eq(device.ladder_retries, stats.ladder_retries);
    ck_assert_uint_eq(device.out_of_memory_count, 1);
    ck_assert_uint_eq(device.idle_waits, test_device_stats().idle_waits);
    ck_assert_uint_eq(of_pool(world.pool).out_of_memory_count, 0);
    EXPECT(stats.live_blocks.all, 1, 1, 1, 0);
    EXPECT(stats.mapped_bytes.all, 2 * MIB, 2 * MIB, 2 * MIB, 0);
    OK(tarn_free(kept));
    OK(tarn_pool_destroy(pool));
    ck_assert_uint_eq(of_device().out_of_memory_count, 1); /* of a pool that is gone */
    ck_assert_uint_eq(of_device().ladder_retries, device.ladder_retries);
}

TEST(counts, a_chunk_from_the_cache_is_not_created)
{
    tarn_pool *pool = test_pool("first");
    tarn_stats stats;

    OK(tarn_free(test_alloc(pool, 4 * MIB, world.stream)));
    OK(tarn_pool_destroy(pool));
    stats = of_device();
    ck_assert_uint_eq(stats.cached_bytes, 4 * MIB);
    ck_assert_uint_eq(stats.cached_count, 1);
    ck_assert_uint_eq(stats.cache_limit_bytes, 256 * MIB);
    EXPECT(stats.mapped_bytes.large, 0, 4 * MIB, 4 * MIB, 4 * MIB);
    EXPECT(stats.live_bytes.large, 0, 4 * MIB, 4 * MIB, 4 * MIB);
    ck_assert_uint_eq(stats.cache_hits, 0);
    OK(tarn_free(test_alloc(world.pool, 4 * MIB, world.stream)));
    stats = of_pool(world.pool);
    ck_assert_uint_eq(stats.create_calls, 0);
    ck_assert_uint_eq(stats.cache_hits, 1);
    ck_assert_uint_eq(stats.map_calls, 1);
    stats = of_device();
    ck_assert_uint_eq(stats.cache_hits, 1);
    ck_assert_uint_eq(stats.cached_bytes, 0);
    ck_assert_uint_eq(stats.create_calls, 1);
    ck_assert_uint_eq(stats.map_calls, 2);
    EXPECT(stats.mapped_bytes.large, 4 * MIB, 4 * MIB, 8 * MIB, 4 * MIB);
}

static void add_set(tarn_stat_set *sum, const tarn_stat_set *set)
{
    tarn_stat *to[] = {&sum->all, &sum->small, &sum->large};
    const tarn_stat *from[] = {&set->all, &set->small, &set->large};

    for (int k = 0; k < 3; k++) {
        to[k]->current += from[k]->current;
        to[k]->peak += from[k]->peak;
        to[k]->allocated += from[k]->allocated;
        to[k]->freed += from[k]->freed;
    }
}

/* The device's numbers are the sums over its pools, but for the peaks, which are no more than that. */
static void expect_sums(const tarn_stats *device, tarn_pool *const *pools, size_t count)
{
    tarn_stat_set sums[SETS] = {{{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}}};

    for (size_t p = 0; p < count; p++) {
        tarn_stats stats = of_pool(pools[p]);

        for (int i = 0; i < SETS; i++)
            add_set(&sums[i], &sets_of(&stats)[i]);
    }
    for (int i = 0; i < SETS; i++) {
        const tarn_stat_set *set = &sets_of(device)[i];
        const tarn_stat *of[] = {&set->all, &set->small, &set->large};
        const tarn_stat *by[] = {&sums[i].all, &sums[i].small, &sums[i].large};

        for (int k = 0; k < 3; k++) {
            ck_assert_uint_eq(of[k]->current, by[k]->current);
            ck_assert_uint_eq(of[k]->allocated, by[k]->allocated);
            ck_assert_uint_eq(of[k]->freed, by[k]->freed);
            ck_assert_uint_le(of[k]->peak, by[k]->peak);
        }
    }
}

TEST(counts, two_pools_and_the_default_pool_add_up_to_the_device)
{
    tarn_pool *second = test_pool("second");
    tarn_pool *const pools[] = {world.default_pool, world.pool, second};
    void *blocks[6];
    tarn_stats stats;

    for (int i = 0; i < 3; i++) {
        blocks[2 * i] = test_alloc(pools[i], 1000, world.stream);
        blocks[2 * i + 1] = test_alloc(pools[i], 3 * MIB, world.side);
    }
    OK(tarn_free(blocks[3]));
    stats = of_device();
    expect_consistent(&stats);
    expect_totals(&stats);
    expect_sums(&stats, pools, 3);
    EXPECT(stats.live_blocks.all, 5, 6, 6, 1);
    EXPECT(stats.live_bytes.large, 6 * MIB, 9 * MIB, 9 * MIB, 3 * MIB);
    EXPECT(stats.mapped_bytes.all, 18 * MIB, 18 * MIB, 18 * MIB, 0);
    ck_assert_uint_eq(stats.pool_count, 3);
    ck_assert_uint_eq(stats.arena_count, 6);
    ck_assert_uint_eq(stats.growth_count, 6);
    ck_assert_uint_eq(stats.reserved_bytes, test_device_stats().reserved_bytes);
    ck_assert_uint_gt(stats.total_bytes, stats.mapped_bytes.all.current);
    OK(tarn_free(blocks[4]));
    OK(tarn_free(blocks[5]));
    OK(tarn_pool_destroy(second));
    stats = of_device();
    expect_consistent(&stats);
    expect_totals(&stats); /* what was the pool's is not forgotten */
    EXPECT(stats.live_blocks.all, 3, 6, 6, 3);
    EXPECT(stats.live_bytes.large, 3 * MIB, 9 * MIB, 9 * MIB, 6 * MIB);
    EXPECT(stats.mapped_bytes.all, 12 * MIB, 18 * MIB, 18 * MIB, 6 * MIB);
    ck_assert_uint_eq(stats.growth_count, 6);
    OK(tarn_free(blocks[0]));
    OK(tarn_free(blocks[1]));
    OK(tarn_free(blocks[2]));
}

/* Pools that come and go one after the other: no two of them were there at a time. */
TEST(counts, the_devices_peaks_do_not_add_up_pools_that_were_not_there_together)
{
    tarn_stats stats;

    for (int i = 0; i < 3; i++) {
        tarn_pool *pool = test_pool("passing");

        OK(tarn_free(test_alloc(pool, 1000, world.stream)));
        OK(tarn_pool_destroy(pool));
    }
    stats = of_device();
    EXPECT(stats.live_blocks.small, 0, 1, 3, 3);
    EXPECT(stats.live_bytes.all, 0, 1024, 3072, 3072);
    EXPECT(stats.mapped_bytes.all, 0, 2 * MIB, 6 * MIB, 6 * MIB);
}

GROUP(resets, test_world_open, test_world_close)

TEST(resets, a_pools_resets_are_its_own)
{
    void *kept = test_alloc(world.pool, 1000, world.stream);
    tarn_stats stats;

    OK(tarn_free(test_alloc(world.pool, 2000, world.stream)));
    OK(tarn_pool_reset_peaks(world.pool));
    stats = of_pool(world.pool);
    EXPECT(stats.live_bytes.small, 1024, 1024, 3072, 2048);
    EXPECT(stats.live_blocks.all, 1, 1, 2, 1);
    EXPECT(stats.mapped_bytes.all, 2 * MIB, 2 * MIB, 2 * MIB, 0);
    ck_assert_uint_eq(test_stats(world.pool).live_peak_bytes, 1024);
    OK(tarn_pool_reset_totals(world.pool));
    stats = of_pool(world.pool);
    EXPECT(stats.live_bytes.small, 1024, 1024, 0, 0);
    EXPECT(stats.chunks.small, 1, 1, 0, 0);
    ck_assert_uint_eq(stats.growth_count + stats.map_calls + stats.create_calls, 0);
    ck_assert_uint_eq(test_stats(world.pool).alloc_count, 2);
    OK(tarn_free(test_alloc(world.pool, 600, world.stream)));
    stats = of_pool(world.pool);
    EXPECT(stats.live_bytes.small, 1024, 2048, 1024, 1024);
    stats = of_device(); /* as if nothing had been reset */
    EXPECT(stats.live_blocks.small, 1, 2, 3, 2);
    EXPECT(stats.live_bytes.small, 1024, 3072, 4096, 3072);
    EXPECT(stats.requested_bytes.all, 1000, 3000, 3600, 2600);
    ck_assert_uint_eq(stats.growth_count, 1);
    OK(tarn_free(kept));
}

TEST(resets, a_devices_resets_are_all_its_pools)
{
    tarn_pool *passing = test_pool("passing");
    void *kept = test_alloc(world.pool, 1000, world.stream);
    tarn_stats stats;
    const tarn_stat_set *sets;

    OK(tarn_free(test_alloc(world.pool, 2 * MIB, world.stream)));
    OK(tarn_free(test_alloc(passing, 3 * MIB, world.stream)));
    OK(tarn_pool_destroy(passing));
    OK(tarn_device_trim(world.device, 0, NULL));
    OK(tarn_device_reset_peaks(world.device));
    stats = of_device();
    EXPECT(stats.live_bytes.all, 1024, 1024, 1024 + 5 * MIB, 5 * MIB);
    EXPECT(stats.mapped_bytes.all, 2 * MIB, 2 * MIB, 8 * MIB, 6 * MIB);
    ck_assert_uint_eq(test_device_stats().mapped_peak_bytes, 2 * MIB);
    ck_assert_uint_eq(of_pool(world.pool).live_bytes.large.peak, 0);
    ck_assert_uint_eq(stats.trim_count, 1);
    OK(tarn_device_reset_totals(world.device));
    stats = of_device();
    sets = sets_of(&stats);
    for (int i = 0; i < SETS; i++) {
        ck_assert_uint_eq(sets[i].all.allocated, 0);
        ck_assert_uint_eq(sets[i].all.freed, 0);
    }
    ck_assert_uint_eq(stats.growth_count + stats.create_calls + stats.release_calls +
                          stats.map_calls + stats.unmap_calls + stats.trim_count +
                          stats.access_calls + stats.event_queries,
                      0);
    EXPECT(stats.live_bytes.all, 1024, 1024, 0, 0);
    EXPECT(of_pool(world.pool).live_bytes.all, 1024, 1024, 0, 0);
    passing = test_pool("passing");
    OK(tarn_free(test_alloc(passing, 600, world.stream)));
    OK(tarn_pool_destroy(passing));
    stats = of_device();
    EXPECT(stats.live_bytes.all, 1024, 2048, 1024, 1024);
    EXPECT(stats.requested_bytes.all, 1000, 1600, 600, 600);
    ck_assert_uint_eq(stats.growth_count, 1);
    OK(tarn_free(kept));
}

TEST(counts, host_memory_of_the_library_is_counted)
{
    enum { BLOCKS = 10000, SLABS_BYTES = BLOCKS * 64 };
    static void *blocks[BLOCKS];
    tarn_stat before = of_device().host_bytes;
    tarn_stat stat;

    ck_assert_uint_gt(before.current, 0);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = test_alloc(world.pool, 512, world.stream);
    stat = of_device().host_bytes;
    ck_assert_uint_ge(stat.current, before.current + SLABS_BYTES);
    ck_assert_uint_ge(stat.peak, stat.current);
    ck_assert_uint_eq(stat.allocated - stat.freed, stat.current);
    for (int i = 0; i < BLOCKS; i++)
        OK(tarn_free(blocks[i]));
    OK(tarn_pool_destroy(world.pool));
    world.pool = NULL;
    ck_assert_uint_lt(of_device().host_bytes.current, stat.current - SLABS_BYTES);
    ck_assert_uint_ge(of_device().host_bytes.peak, stat.peak);
    ck_assert_uint_eq(of_pool(world.default_pool).host_bytes.current, 0);
}

enum { THREADS = 6, ROUNDS = 400, KEPT = 8 };

static tn_cu_context context;
static atomic_bool stopped;

/* Allocates ROUNDS blocks of 1,000 bytes and as many of 2 MiB, KEPT of each at a time. */
static void *work(void *stream)
{
    void *blocks[KEPT] = {NULL};

    test_set_context(context);
    for (int round = 0; round < 2 * ROUNDS; round++) {
        void **block = &blocks[round % KEPT];

        OK(tarn_free(*block));
        OK(tarn_pool_malloc(world.pool, round % 2 == 0 ? 1000 : 2 * MIB, 0, stream, block));
    }
    for (int i = 0; i < KEPT; i++)
        OK(tarn_free(blocks[i]));
    return NULL;
}

static void *read_and_reset(void *unused)
{
    tarn_stats stats = {.size = sizeof stats, .walk = true};

    test_set_context(context);
    while (!atomic_load(&stopped)) {
        OK(tarn_pool_stats(world.pool, &stats));
        expect_consistent(&stats);
        expect_totals(&stats);
        OK(tarn_device_stats(world.device, &stats));
        ck_assert_uint_ge(stats.mapped_bytes.all.peak, stats.mapped_bytes.all.current);
        expect_totals(&stats);
        OK(tarn_pool_reset_peaks(world.pool));
        OK(tarn_device_reset_peaks(world.device));
    }
    return unused;
}

GROUP(threads, test_world_open, test_world_close)

TEST(threads, what_threads_do_adds_up_while_others_read_and_reset)
{
    pthread_t threads[THREADS];
    tn_cu_stream streams[THREADS];
    pthread_t reader;
    tarn_stats stats;

    context = test_context();
    atomic_store(&stopped, false);
    for (int i = 0; i < THREADS; i++)
        streams[i] = test_stream();
    ck_assert_int_eq(pthread_create(&reader, NULL, read_and_reset, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, streams[i]), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    atomic_store(&stopped, true);
    ck_assert_int_eq(pthread_join(reader, NULL), 0);
    stats = of_pool(world.pool);
    ck_assert_uint_eq(stats.live_blocks.small.allocated, THREADS * ROUNDS);
    ck_assert_uint_eq(stats.live_blocks.large.allocated, THREADS * ROUNDS);
    ck_assert_uint_eq(stats.live_bytes.small.freed, (uint64_t)THREADS * ROUNDS * 1024);
    ck_assert_uint_eq(stats.requested_bytes.small.freed, (uint64_t)THREADS * ROUNDS * 1000);
    ck_assert_uint_eq(stats.live_bytes.large.freed, (uint64_t)THREADS * ROUNDS * 2 * MIB);
    ck_assert_uint_eq(stats.live_blocks.all.current, 0);
    ck_assert_uint_eq(of_device().live_blocks.all.allocated, 2 * THREADS * ROUNDS);
    for (int i = 0; i < THREADS; i++)
        test_destroy_stream(streams[i]);
}

/* Never below what was, though each thread's peak may have been at another time. */
TEST(threads, peaks_of_several_streams_are_not_too_low)
{
    void *blocks[4];
    void *aside[4];
    tarn_stats stats;

    for (int i = 0; i < 4; i++) {
        blocks[i] = test_alloc(world.pool, 4096, world.stream);
        aside[i] = test_alloc(world.pool, 4096, world.side);
    }
    for (int i = 0; i < 4; i++) {
        OK(tarn_free(blocks[i]));
        OK(tarn_free(aside[i]));
    }
    OK(tarn_pool_reset_peaks(world.pool));
    for (int i = 0; i < 4; i++)
        blocks[i] = test_alloc(world.pool, 4096, world.stream);
    for (int i = 0; i < 4; i++)
        OK(tarn_free(blocks[i]));
    for (int i = 0; i < 3; i++)
        aside[i] = test_alloc(world.pool, 4096, world.side);
    for (int i = 0; i < 3; i++)
        OK(tarn_free(aside[i]));
    stats = of_pool(world.pool);
    ck_assert_uint_ge(stats.live_blocks.small.peak, 4);
    ck_assert_uint_le(stats.live_blocks.small.peak, 7);
    ck_assert_uint_ge(stats.live_bytes.all.peak, 4 * 4096);
    ck_assert_uint_le(stats.live_bytes.all.peak, 7 * 4096);
}
