// SPDX-License-Identifier: Apache-2.0
/* Graphs: replay, several in one pool, the user's own captures, destruction, memory that they hold. */
#include "support/world.h"

/* A graph of the pool that adds value to a block of its own, which it leaves live. */
static tarn_graph *make_graph(tarn_pool *pool, uint32_t value, void **block)
{
    tarn_capture *capture = test_capture_on(pool, world.stream, TARN_CAPTURE_GLOBAL);
    tarn_graph *graph;

    *block = test_malloc(MIB);
    test_add(world.stream, *block, value, MIB / 4);
    graph = test_capture_end(capture);
    test_set_words(world.stream, *block, 0, MIB / 4);
    return graph;
}

/* A graph that fills a temporary block and copies a word of it out. */
static tarn_graph *make_temporary(tarn_pool *pool, uint32_t value, void *output, void **temporary)
{
    tarn_capture *capture = test_capture_on(pool, world.stream, TARN_CAPTURE_GLOBAL);

    *temporary = test_malloc(4 * MIB);
    test_fill(world.stream, *temporary, value, MIB);
    test_copy(world.stream, output, *temporary, 4);
    OK(tarn_free(*temporary));
    return test_capture_end(capture);
}

SUITE("graphs")
GROUP(graphs, test_world_open, test_world_close)

TEST(graphs, bad_arguments_of_graphs_are_refused)
{
    uint64_t zeros[64] = {0};
    tarn_graph *foreign[] = {NULL, (tarn_graph *)(void *)zeros, (tarn_graph *)(void *)world.pool};
    tarn_driver_graph driver_graph = UNTOUCHED;
    tarn_driver_exec exec = UNTOUCHED;
    tarn_graph *graph;
    void *block;

    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        REFUSE(TARN_ERR_INVALID_HANDLE, "graph", tarn_graph_replay(foreign[i], world.stream));
        REFUSE(TARN_ERR_INVALID_HANDLE, "graph",
               tarn_graph_driver_handles(foreign[i], &driver_graph, &exec));
        if (foreign[i] != NULL)
            REFUSE(TARN_ERR_INVALID_HANDLE, "graph", tarn_graph_destroy(foreign[i]));
    }
    graph = make_graph(world.pool, 1, &block);
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "outputs", tarn_graph_driver_handles(graph, NULL, NULL));
    ck_assert_untouched(driver_graph);
    ck_assert_untouched(exec);
    OK(tarn_graph_destroy(graph));
    test_await_destructors(0);
    REFUSE(TARN_ERR_INVALID_HANDLE, "graph", tarn_graph_destroy(graph));
    REFUSE(TARN_ERR_INVALID_HANDLE, "graph", tarn_graph_replay(graph, world.stream));
    OK(tarn_free(block));
}

TEST(graphs, the_drivers_handles_are_given_one_or_both)
{
    tarn_driver_graph driver_graph = NULL;
    tarn_driver_graph again = NULL;
    tarn_driver_exec exec = NULL;
    void *block;
    tarn_graph *graph = make_graph(world.pool, 1, &block);

    OK(tarn_graph_driver_handles(graph, &driver_graph, &exec));
    ck_assert_ptr_nonnull(driver_graph);
    ck_assert_ptr_nonnull(exec);
    ck_assert_uint_eq(test_node_count(driver_graph), 1);
    OK(tarn_graph_driver_handles(graph, &again, NULL));
    ck_assert_ptr_eq(again, driver_graph);
    exec = NULL;
    OK(tarn_graph_driver_handles(graph, NULL, &exec));
    ck_assert_ptr_nonnull(exec);
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(block));
}

TEST(graphs, several_graphs_share_memory_and_give_right_results)
{
    enum { COUNT = 4 };
    void *output = test_malloc(512);
    void *temporary[COUNT];
    tarn_graph *graphs[COUNT];
    uint64_t mapped = 0;

    for (uint32_t i = 0; i < COUNT; i++) {
        graphs[i] = make_temporary(world.pool, 10 + i, output, &temporary[i]);
        ck_assert_ptr_eq(temporary[i], temporary[0]); /* the same memory */
        if (i == 0)
            mapped = test_stats(world.pool).mapped_bytes;
        ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, mapped);
        ck_assert_uint_eq(test_stats(world.pool).graph_count, i + 1);
    }
    for (uint32_t replay = 0; replay < 20; replay++) {
        OK(tarn_graph_replay(graphs[replay % COUNT], world.stream));
        ck_assert_uint_eq(test_read(world.stream, output), 10 + replay % COUNT);
    }
    for (int i = 0; i < COUNT; i++)
        OK(tarn_graph_destroy(graphs[i]));
    OK(tarn_free(output));
}

TEST(graphs, the_only_graph_of_a_pool_is_replayed_on_any_stream)
{
    void *block;
    tarn_graph *graph = make_graph(world.pool, 1, &block);

    test_synchronize(world.stream);
    OK(tarn_graph_replay(graph, world.stream));
    test_synchronize(world.stream);
    OK(tarn_graph_replay(graph, world.side));
    test_synchronize(world.side);
    OK(tarn_graph_replay(graph, NULL));
    OK(tarn_graph_replay(graph, TN_CU_STREAM_PER_THREAD));
    CU_OK(test_stream_result(TN_CU_STREAM_PER_THREAD));
    CU_OK(test_stream_result(NULL));
    ck_assert_uint_eq(test_read(world.stream, block), 4);
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(block));
}

TEST(graphs, a_second_graph_waits_for_replays_that_nobody_ordered)
{
    void *output = test_malloc(512);
    void *temporary;
    tarn_graph *one = make_temporary(world.pool, 1, output, &temporary);
    tarn_graph *two;
    uint64_t waits;

    OK(tarn_graph_replay(one, world.side));
    two = make_temporary(world.pool, 2, output, &temporary);
    waits = test_device_stats().idle_waits;
    OK(tarn_graph_replay(two, world.stream)); /* the stream of the first is not known */
    ck_assert_uint_eq(test_device_stats().idle_waits, waits + 1);
    OK(tarn_graph_replay(two, world.stream));
    ck_assert_uint_eq(test_device_stats().idle_waits, waits + 1);
    ck_assert_uint_eq(test_read(world.stream, output), 2);
    OK(tarn_graph_destroy(one));
    OK(tarn_graph_destroy(two));
    OK(tarn_free(output));
}

TEST(graphs, a_replay_into_a_capture_is_refused)
{
    void *block;
    tarn_graph *graph = make_graph(world.pool, 1, &block);

    test_begin_capture(world.side, TN_CU_CAPTURE_MODE_RELAXED);
    STATUS(TARN_ERR_WRONG_STATE, tarn_graph_replay(graph, world.side));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "child nodes"));
    ck_assert_uint_eq(test_read(world.stream, block), 0);
    {
        tarn_capture *capture = UNTOUCHED;

        STATUS(TARN_ERR_WRONG_STATE, tarn_capture_begin(world.pool, world.side, NULL, &capture));
        ck_assert_untouched(capture);
    }
    test_end_broken_capture(world.side);
    OK(tarn_graph_replay(graph, world.side));
    test_synchronize(world.side);
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(block));
}

TEST(graphs, a_replay_that_the_driver_refuses_says_why)
{
    void *block;
    tarn_graph *graph = make_graph(world.pool, 1, &block);

    sim.plan_fault("cuGraphLaunch", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    REFUSE(TARN_ERR_DRIVER, "cuGraphLaunch", tarn_graph_replay(graph, world.stream));
    ck_assert_uint_eq(test_read(world.stream, block), 0);
    OK(tarn_graph_replay(graph, world.stream));
    ck_assert_uint_eq(test_read(world.stream, block), 1);
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(block));
}

TEST(graphs, memory_of_a_graph_stays_until_its_running_launch_is_done)
{
    void *output = test_malloc(512);
    void *temporary;
    tarn_graph *graph = make_temporary(world.pool, 77, output, &temporary);
    size_t freed = 77;
    void *other;

    sim.hold_work();
    OK(tarn_graph_replay(graph, world.stream));
    OK(tarn_graph_destroy(graph));
    ck_assert_uint_ge(test_stats(world.pool).captured_bytes, 4 * MIB);
    other = test_alloc(world.pool, 4 * MIB, world.stream);
    ck_assert_ptr_ne(other, temporary);
    OK(tarn_pool_validate(world.pool));
    sim.resume_work();
    ck_assert_uint_eq(test_read(world.stream, output), 77);
    test_await_destructors(0);
    ck_assert_uint_eq(test_stats(world.pool).captured_bytes, 0);
    OK(tarn_free(other));
    OK(tarn_pool_trim(world.pool, &freed));
    ck_assert_uint_ge(freed, 8 * MIB);
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
    OK(tarn_free(output));
}

TEST(graphs, memory_of_a_graph_stays_as_long_as_a_clone)
{
    tarn_driver_graph driver_graph = NULL;
    tn_cu_graph clone;
    void *output = test_malloc(512);
    void *temporary;
    tarn_graph *graph = make_temporary(world.pool, 77, output, &temporary);

    OK(tarn_graph_driver_handles(graph, &driver_graph, NULL));
    clone = test_clone(driver_graph);
    OK(tarn_graph_destroy(graph));
    ck_assert_uint_ge(test_stats(world.pool).captured_bytes, 4 * MIB);
    test_launch_once(clone, world.stream);
    ck_assert_uint_eq(test_read(world.stream, output), 77);
    ck_assert_uint_ge(test_stats(world.pool).captured_bytes, 4 * MIB);
    test_destroy_graph(clone);
    test_await_destructors(0);
    ck_assert_uint_eq(test_stats(world.pool).captured_bytes, 0);
    OK(tarn_free(output));
}

TEST(graphs, the_users_own_capture_is_routed_and_adopted)
{
    void *output = test_malloc(512);
    tarn_graph *graph = NULL;
    tn_cu_graph driver_graph;
    void *block;
    tarn_route *route = test_route(world.pool, tarn_filter_capture, world.stream);

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    block = test_malloc(4 * MIB);
    test_fill(world.stream, block, 31, MIB);
    test_copy(world.stream, output, block, 4);
    OK(tarn_free(block));
    ck_assert_uint_eq(test_stats(world.pool).capture_count, 1);
    driver_graph = test_end_capture(world.stream);
    OK(tarn_end_allocate_to_pool(route));
    OK(tarn_graph_adopt(world.pool, driver_graph, &graph));
    ck_assert_uint_eq(test_stats(world.pool).capture_count, 0);
    ck_assert_uint_eq(test_stats(world.pool).graph_count, 1);
    ck_assert_uint_ge(test_stats(world.pool).captured_bytes, 4 * MIB);
    for (int i = 0; i < 5; i++) {
        test_fill(world.stream, output, 0, 1);
        OK(tarn_graph_replay(graph, world.stream));
        ck_assert_uint_eq(test_read(world.stream, output), 31);
    }
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(output));
}

TEST(graphs, a_graph_may_be_adopted_before_the_route_ends)
{
    tarn_graph *graph = NULL;
    void *block;
    tarn_route *route = test_route(world.pool, tarn_filter_thread, NULL);

    for (int round = 0; round < 3; round++) {
        test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
        block = test_malloc(MIB);
        test_fill(world.stream, block, 5, 1);
        OK(tarn_free(block));
        OK(tarn_graph_adopt(world.pool, test_end_capture(world.stream), &graph));
        OK(tarn_graph_replay(graph, world.stream));
        ck_assert_uint_eq(test_read(world.stream, block), 5);
        OK(tarn_graph_destroy(graph));
    }
    OK(tarn_end_allocate_to_pool(route));
}

TEST(graphs, memory_of_a_graph_that_is_not_adopted_goes_with_the_graph)
{
    tn_cu_graph driver_graph;
    void *block;
    tarn_route *route = test_route(world.pool, tarn_filter_capture, world.stream);

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    block = test_malloc(MIB);
    OK(tarn_free(block));
    driver_graph = test_end_capture(world.stream);
    OK(tarn_end_allocate_to_pool(route));
    ck_assert_uint_ge(test_stats(world.pool).captured_bytes, MIB);
    REFUSE(TARN_ERR_BUSY, "1 holds", tarn_pool_destroy(world.pool));
    test_destroy_graph(driver_graph);
    test_await_destructors(0);
    ck_assert_uint_eq(test_stats(world.pool).captured_bytes, 0);
}

TEST(graphs, bad_arguments_of_adopt_are_refused)
{
    tarn_graph *graph = UNTOUCHED;
    tn_cu_graph driver_graph;

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    driver_graph = test_end_capture(world.stream);
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool", tarn_graph_adopt(NULL, driver_graph, &graph));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "NULL", tarn_graph_adopt(world.pool, NULL, &graph));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "NULL", tarn_graph_adopt(world.pool, driver_graph, NULL));
    ck_assert_untouched(graph);
    test_destroy_graph(driver_graph);
}

TEST(graphs, after_a_refused_adoption_the_graph_is_still_the_callers)
{
    tarn_graph *graph = UNTOUCHED;
    tn_cu_graph driver_graph;
    void *block;
    tarn_route *route = test_route(world.pool, tarn_filter_capture, world.stream);

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    block = test_malloc(MIB);
    test_fill(world.stream, block, 5, 1);
    driver_graph = test_end_capture(world.stream);
    OK(tarn_end_allocate_to_pool(route));
    for (size_t i = 0; i < TEST_REFUSALS; i++) {
        sim.plan_fault("cuGraphInstantiateWithFlags", 1, 0, test_refusals[i].result);
        REFUSE(test_refusals[i].status, "cuGraphInstantiateWithFlags",
               tarn_graph_adopt(world.pool, driver_graph, &graph));
        ck_assert_untouched(graph);
    }
    ck_assert_uint_eq(test_node_count(driver_graph), 1);
    OK(tarn_graph_adopt(world.pool, driver_graph, &graph));
    OK(tarn_graph_replay(graph, world.stream));
    ck_assert_uint_eq(test_read(world.stream, block), 5);
    OK(tarn_free(block));
    OK(tarn_graph_destroy(graph));
}

TEST(graphs, one_capture_may_use_two_pools)
{
    tarn_pool *other = test_pool("other");
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    void *mine;
    void *theirs;

    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    mine = test_malloc(MIB);
    theirs = test_alloc(other, MIB, world.stream);
    test_fill(world.stream, mine, 3, 1);
    test_copy(world.stream, theirs, mine, 4);
    OK(tarn_free(mine));
    OK(tarn_free(theirs));
    OK(tarn_capture_end(capture, &graph));
    ck_assert_uint_ge(test_stats(other).captured_bytes, MIB);
    OK(tarn_graph_replay(graph, world.stream));
    ck_assert_uint_eq(test_read(world.stream, theirs), 3);
    OK(tarn_graph_destroy(graph));
    OK(tarn_pool_destroy(other));
}
