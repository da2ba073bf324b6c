// SPDX-License-Identifier: Apache-2.0
/* Blocks from before a capture that the user began, freed in it where Tarn cannot give it a hold: because a call of
 * the driver fails, or on a thread that may not ask the capture's stream. The graph has them all the same. */
#include "support/world.h"

enum { WORDS = 64 };

static const size_t bytes = 4 * MIB;
static tarn_route *route;

static void free_it(void *block)
{
    OK(tarn_free(block));
}

/* A block of the side stream, written in the capture that begins here. */
static void *begin(void)
{
    void *block = test_alloc(world.pool, bytes, world.side);

    route = test_route(world.pool, tarn_filter_capture, world.stream);
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    test_fill(world.stream, block, 1, WORDS);
    return block;
}

static tn_cu_graph end(void)
{
    tn_cu_graph graph = test_end_capture(world.stream);

    OK(tarn_end_allocate_to_pool(route));
    return graph;
}

/* Nobody outside captures gets the memory that the graph writes, until that is gone. */
static void expect_kept(tarn_graph *graph, const void *block)
{
    void *eager = test_alloc(world.pool, bytes, world.side);

    ck_assert_ptr_ne(eager, block);
    test_fill(world.side, eager, 2, WORDS);
    test_synchronize(world.side);
    OK(tarn_graph_replay(graph, world.stream));
    test_synchronize(world.stream);
    test_expect_words(world.side, eager, 2, WORDS);
    OK(tarn_pool_validate(world.pool));
    OK(tarn_graph_destroy(graph));
    test_await_destructors(0);
    OK(tarn_free(eager));
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
}

static const char *const calls[] = {"cuUserObjectCreate", "cuGraphRetainUserObject",
                                    "cuEventCreate", "cuEventRecord"};

SUITE("blocks freed in a capture without a hold")
GROUP(unheld, test_world_open, test_world_close)

TEST_LOOP(unheld, a_block_is_kept_for_the_graph_when_a_call_fails, 0,
          sizeof calls / sizeof calls[0])
{
    void *block = begin();
    tarn_graph *graph;

    sim.plan_fault(calls[_i], 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    OK(tarn_free(block));
    ck_assert_uint_eq(sim.clear_fault(NULL), 1);
    ck_assert_uint_eq(test_stats(world.pool).pending_bytes, bytes);
    OK(tarn_graph_adopt(world.pool, end(), &graph));
    expect_kept(graph, block);
}

/* Freed again before the graph is adopted, it would be its stream's at once. */
TEST(unheld, a_block_is_not_revived_before_its_graph_is_adopted)
{
    tarn_checkpoint *checkpoint;
    void *block = test_alloc(world.pool, bytes, world.side);
    tarn_graph *graph;
    tn_cu_graph captured;

    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, world.side, &checkpoint));
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    route = test_route(world.pool, tarn_filter_capture, world.stream);
    test_fill(world.stream, block, 1, WORDS);
    test_elsewhere(free_it, block);
    captured = end();
    REFUSE(TARN_ERR_WRONG_STATE, "adopt the capture's graph first",
           tarn_checkpoint_restore(checkpoint, world.side, NULL));
    OK(tarn_graph_adopt(world.pool, captured, &graph));
    OK(tarn_checkpoint_restore(checkpoint, world.side, NULL));
    OK(tarn_free(block));
    OK(tarn_checkpoint_destroy(checkpoint));
    expect_kept(graph, block);
}

TEST(unheld, a_block_that_another_thread_frees_is_kept_for_the_graph)
{
    void *block = begin();
    tarn_graph *graph;

    test_elsewhere(free_it, block);
    ck_assert_uint_eq(test_stats(world.pool).pending_bytes, bytes);
    OK(tarn_graph_adopt(world.pool, end(), &graph));
    expect_kept(graph, block);
}

TEST(unheld, a_capture_that_has_a_hold_gives_it_to_frees_of_other_threads)
{
    void *block = begin();
    void *own;
    tarn_graph *graph;

    OK(tarn_malloc(world.device, 4096, world.stream, &own));
    test_elsewhere(free_it, block);
    OK(tarn_free(own));
    OK(tarn_graph_adopt(world.pool, end(), &graph));
    ck_assert_uint_eq(test_stats(world.pool).graph_count, 1);
    expect_kept(graph, block);
}

/* The capture that the pool knew is over; of the next one on the stream it knows nothing yet. */
TEST(unheld, the_hold_of_a_capture_before_is_not_enough)
{
    void *block = test_alloc(world.pool, bytes, world.side);
    tn_cu_graph first;
    tarn_graph *graphs[2];
    void *own;

    route = test_route(world.pool, tarn_filter_capture, world.stream);
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tarn_malloc(world.device, 4096, world.stream, &own));
    first = test_end_capture(world.stream);
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    test_fill(world.stream, block, 1, WORDS);
    test_elsewhere(free_it, block);
    OK(tarn_free(own));
    OK(tarn_graph_adopt(world.pool, first, &graphs[0]));
    OK(tarn_graph_destroy(graphs[0]));
    OK(tarn_graph_adopt(world.pool, end(), &graphs[1]));
    expect_kept(graphs[1], block);
}

TEST(unheld, where_the_routes_stream_is_not_captured_memory_is_free_at_once)
{
    void *block = test_alloc(world.pool, bytes, world.side);

    route = test_route(world.pool, tarn_filter_stream, world.stream);
    test_elsewhere(free_it, block);
    ck_assert_uint_eq(test_stats(world.pool).pending_bytes, 0);
    ck_assert_ptr_eq(test_alloc(world.pool, bytes, world.side), block);
    OK(tarn_end_allocate_to_pool(route));
    OK(tarn_free(block));
}

/* Without its handle nobody can adopt the graph. */
TEST(unheld, a_released_pool_does_not_wait_for_an_adoption)
{
    void *block = begin();

    test_elsewhere(free_it, block);
    test_destroy_graph(end());
    ck_assert_uint_eq(test_stats(world.pool).pending_bytes, bytes);
    OK(tarn_pool_release(world.pool));
    world.pool = NULL;
    OK(tarn_device_trim(world.device, 0, NULL)); /* proves that its memory is idle */
    ck_assert_uint_eq(test_device_stats().pool_count, 1);
}

TEST(unheld, an_adoption_that_fails_is_made_again)
{
    void *block = begin();
    tn_cu_graph driver_graph;
    tarn_graph *graph = NULL;

    test_elsewhere(free_it, block);
    driver_graph = end();
    for (int i = 0; i < 2; i++) {
        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
        STATUS(TARN_ERR_DEVICE_MEMORY, tarn_graph_adopt(world.pool, driver_graph, &graph));
        ck_assert_uint_eq(sim.clear_fault(NULL), 1);
        ck_assert_ptr_null(graph);
        ck_assert_uint_eq(test_stats(world.pool).pending_bytes, bytes);
        OK(tarn_pool_validate(world.pool));
    }
    OK(tarn_graph_adopt(world.pool, driver_graph, &graph));
    expect_kept(graph, block);
}

TEST(unheld, a_pool_goes_with_blocks_that_no_graph_was_adopted_for)
{
    void *block = begin();

    test_elsewhere(free_it, block);
    test_destroy_graph(end());
    OK(tarn_pool_destroy(world.pool));
    world.pool = test_pool("next");
}
