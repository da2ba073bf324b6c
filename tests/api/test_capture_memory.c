// SPDX-License-Identifier: Apache-2.0
/* Memory inside captures: addresses that last, reuse, forks, growth. */
#include "support/world.h"

SUITE("memory of captures")
GROUP(memory, test_world_open, test_world_close)

TEST(memory, addresses_of_a_capture_stay_valid_across_replays)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *block = test_malloc(5 * MIB);
    tarn_graph *graph;

    test_add(world.stream, block, 1, MIB);
    graph = test_capture_end(capture);
    test_set_words(world.stream, block, 100, MIB);
    for (uint32_t replay = 1; replay <= 20; replay++) {
        void *disturbance = test_alloc(world.default_pool, 5 * MIB, world.stream);

        test_fill(world.stream, disturbance, 0xdead, MIB);
        OK(tarn_graph_replay(graph, world.stream));
        test_expect_words(world.stream, block, 100 + replay, MIB);
        OK(tarn_free(disturbance));
    }
    OK(tarn_free(block));
    OK(tarn_graph_destroy(graph));
}

TEST(memory, a_capture_reuses_memory_that_it_freed)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *first = test_malloc(8 * MIB);
    void *second;

    test_fill(world.stream, first, 1, 4);
    OK(tarn_free(first));
    second = test_malloc(8 * MIB);
    ck_assert_ptr_eq(second, first);
    test_fill(world.stream, second, 2, 4);
    OK(tarn_free(second));
    OK(tarn_graph_destroy(test_capture_end(capture)));
}

TEST(memory, memory_of_a_graph_is_given_to_nobody_outside_captures)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    char *block = test_malloc(8 * MIB);
    tarn_graph *graph;

    test_fill(world.stream, block, 1, 4);
    OK(tarn_free(block));
    graph = test_capture_end(capture);
    OK(tarn_free(test_alloc(world.default_pool, MIB, world.side)));
    OK(tarn_pool_trim(world.default_pool, NULL)); /* a wait: now nothing but the graph keeps it */
    for (int i = 0; i < 16; i++) {
        char *other = test_alloc(world.pool, 4 * MIB, world.stream);

        ck_assert(other + 4 * MIB <= block || other >= block + 8 * MIB);
        test_fill(world.stream, other, 0xdead, MIB);
    }
    OK(tarn_graph_replay(graph, world.stream));
    ck_assert_uint_eq(test_read(world.stream, block), 1);
    ck_assert_uint_ge(test_stats(world.pool).captured_bytes, 8 * MIB);
    OK(tarn_graph_destroy(graph));
    OK(tarn_pool_validate(world.pool));
    ck_assert_uint_eq(test_stats(world.pool).live_count, 16);
    {
        tarn_layout *layout = NULL;

        OK(tarn_pool_layout(world.pool, &layout));
        for (size_t i = 0; i < layout->extent_count; i++) {
            if (layout->extents[i].state == TARN_EXTENT_LIVE)
                OK(tarn_free(layout->extents[i].address));
        }
        tarn_layout_destroy(layout);
    }
}

/* A pool that shares what is captured, and a graph whose section took and freed 8 MiB of it. */
static tarn_pool *sharing_pool(tarn_graph **graph, char **scratch)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_capture *capture;
    tarn_pool *pool;

    options.share_captured = true;
    pool = test_pool_with(&options);
    capture = test_capture_on(pool, world.stream, TARN_CAPTURE_GLOBAL);
    *scratch = test_malloc(8 * MIB);
    test_fill(world.stream, *scratch, 1, 4);
    OK(tarn_free(*scratch));
    *graph = test_capture_end(capture);
    return pool;
}

TEST(memory, a_pool_made_to_share_lends_graphs_free_memory_between_replays)
{
    char *scratch;
    char *eager;
    tarn_graph *graph;
    tarn_pool *pool = sharing_pool(&graph, &scratch);

    OK(tarn_graph_replay(graph, world.stream));
    eager = test_alloc(pool, 8 * MIB, world.stream); /* the replay may still run: other memory */
    ck_assert(eager + 8 * MIB <= scratch || eager >= scratch + 8 * MIB);
    OK(tarn_free(eager));
    OK(tarn_pool_trim(pool, NULL)); /* a wait: now it is over */
    eager = test_alloc(pool, 8 * MIB, world.stream);
    ck_assert_ptr_eq(eager, scratch);
    OK(tarn_pool_validate(pool));
    OK(tarn_free(eager));
    OK(tarn_graph_replay(graph, world.stream)); /* the memory is there for the graph as ever */
    ck_assert_uint_eq(test_read(world.stream, scratch), 1);
    OK(tarn_graph_destroy(graph));
    OK(tarn_pool_destroy(pool));
}

TEST(memory, a_running_replay_of_the_only_graph_keeps_what_it_shares)
{
    char *scratch;
    char *eager;
    tarn_graph *graph;
    tarn_pool *pool = sharing_pool(&graph, &scratch);

    OK(tarn_free(test_alloc(pool, 8 * MIB, world.stream)));
    OK(tarn_pool_trim(pool, NULL)); /* a wait: what was freed in the capture is proven idle */
    OK(tarn_graph_replay(graph, world.stream));
    eager = test_alloc(pool, 8 * MIB, world.stream); /* but the replay may still run */
    ck_assert(eager + 8 * MIB <= scratch || eager >= scratch + 8 * MIB);
    OK(tarn_free(eager));
    OK(tarn_graph_destroy(graph));
    OK(tarn_pool_destroy(pool));
}

TEST(memory, later_captures_reuse_what_earlier_ones_freed)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *first = test_malloc(8 * MIB);
    tarn_graph *one;
    tarn_graph *two;
    uint64_t mapped;

    OK(tarn_free(first));
    one = test_capture_end(capture);
    mapped = test_stats(world.pool).mapped_bytes;
    capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    ck_assert_ptr_eq(test_malloc(8 * MIB), first);
    OK(tarn_free(first));
    two = test_capture_end(capture);
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, mapped);
    OK(tarn_graph_destroy(one));
    OK(tarn_graph_destroy(two));
}

TEST(memory, forked_streams_are_served_and_joined)
{
    void *output = test_malloc(8);
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *mine = test_malloc(MIB);
    void *forked = NULL;
    tarn_graph *graph;
    tarn_block block;

    test_fill(world.stream, mine, 3, 1);
    test_order(world.stream, world.side);
    OK(tarn_malloc(world.device, MIB, world.side, &forked));
    OK(tarn_block_at(forked, &block));
    ck_assert_ptr_eq(block.pool, world.pool);
    test_copy(world.side, forked, mine, 4);
    test_add(world.side, forked, 4, 1);
    test_order(world.side, world.stream);
    test_copy(world.stream, output, forked, 4);
    OK(tarn_free_on(forked, world.stream));
    OK(tarn_free(mine));
    graph = test_capture_end(capture);
    for (int i = 0; i < 5; i++) {
        test_fill(world.stream, output, 0, 1);
        OK(tarn_graph_replay(graph, world.stream));
        ck_assert_uint_eq(test_read(world.stream, output), 7);
    }
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(output));
}

TEST(memory, a_block_freed_on_another_stream_of_the_capture_is_not_reused_by_its_own)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *forked = NULL;
    void *next = NULL;

    test_order(world.stream, world.side);
    OK(tarn_malloc(world.device, MIB, world.side, &forked));
    test_fill(world.side, forked, 1, 1);
    OK(tarn_free_on(forked, world.stream));
    OK(tarn_malloc(world.device, MIB, world.side, &next));
    ck_assert_ptr_ne(next, forked);
    OK(tarn_free(next));
    test_order(world.side, world.stream);
    OK(tarn_graph_destroy(test_capture_end(capture)));
}

TEST(memory, blocks_of_a_capture_may_be_freed_after_it)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *block = test_malloc(MIB);
    tarn_graph *graph;

    test_fill(world.stream, block, 1, 1);
    graph = test_capture_end(capture);
    ck_assert_uint_eq(test_stats(world.pool).live_count, 1);
    OK(tarn_free(block));
    OK(tarn_graph_replay(graph, world.stream));
    ck_assert_uint_eq(test_read(world.stream, block), 1); /* still the graph's */
    OK(tarn_graph_destroy(graph));
}

TEST(memory, blocks_from_before_may_be_used_and_freed_in_a_capture)
{
    void *before = test_alloc(world.pool, MIB, world.stream);
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    tarn_graph *graph;

    test_add(world.stream, before, 1, 1);
    OK(tarn_free(before));
    graph = test_capture_end(capture);
    for (int i = 0; i < 8; i++) {
        void *other = test_alloc(world.pool, 512, world.stream);

        ck_assert_ptr_ne(other, before); /* the graph writes there */
        OK(tarn_free(other));
    }
    test_set_words(world.stream, before, 4, 1);
    OK(tarn_graph_replay(graph, world.stream));
    ck_assert_uint_eq(test_read(world.stream, before), 5);
    OK(tarn_pool_validate(world.pool));
    OK(tarn_graph_destroy(graph));
}

TEST(memory, growth_and_trim_in_a_capture_break_nothing)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    struct test_stats stats = test_stats(world.pool);
    void *big = test_malloc(100 * MIB);
    tarn_graph *graph;

    ck_assert_uint_gt(test_stats(world.pool).map_count, stats.map_count);
    test_fill(world.stream, big, 9, 25 * MIB);
    OK(tarn_pool_trim(world.default_pool, NULL));
    OK(tarn_pool_trim(world.pool, NULL));
    OK(tarn_pool_reserve(world.pool, 16 * MIB, world.stream));
    OK(tarn_pool_validate(world.pool));
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    graph = test_capture_end(capture);
    OK(tarn_graph_replay(graph, world.stream));
    test_expect_words(world.stream, big, 9, 25 * MIB);
    OK(tarn_free(big));
    OK(tarn_graph_destroy(graph));
}

TEST(memory, an_empty_capture_is_a_graph_too)
{
    tarn_graph *graph = test_capture_end(test_capture_begin(TARN_CAPTURE_RELAXED));

    OK(tarn_graph_replay(graph, world.stream));
    OK(tarn_graph_destroy(graph));
}

TEST(memory, a_capture_counts_while_it_is_open)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);

    ck_assert_uint_eq(test_stats(world.pool).capture_count, 1);
    ck_assert_uint_eq(test_stats(world.pool).graph_count, 0);
    ck_assert_uint_eq(test_device_stats().route_count, 1);
    OK(tarn_graph_destroy(test_capture_end(capture)));
    ck_assert_uint_eq(test_stats(world.pool).capture_count, 0);
    ck_assert_uint_eq(test_device_stats().route_count, 0);
}
