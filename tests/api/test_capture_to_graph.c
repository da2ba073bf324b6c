// SPDX-License-Identifier: Apache-2.0
/* Captures into a graph of the caller's that stands alone, and child graphs made of captured ones. */
#include "support/bodies.h"
#include "support/world.h"

enum { WORDS = 1 << 10 };

static tarn_capture *begin(tn_cu_graph graph)
{
    tarn_capture *capture = NULL;

    OK(tarn_capture_begin(world.pool, world.stream,
                          CAPTURE_INTO(NULL, 0, graph, TARN_CAPTURE_THREAD_LOCAL), &capture));
    return capture;
}

static void *section(uint32_t value, void *output)
{
    return test_copy_through(world.pool, world.stream, value, output, WORDS);
}

GROUP(capture_to_graph, test_world_open, test_world_close)

TEST(capture_to_graph, a_graph_of_the_callers_is_captured_into_and_adopted)
{
    void *output = test_malloc(WORDS * 4);
    tn_cu_graph driver_graph = test_graph();
    tarn_capture *capture = begin(driver_graph);
    tarn_graph *graph = NULL;

    (void)section(9, output);
    ck_assert_uint_eq(test_stats(world.pool).capture_count, 1);
    OK(tarn_capture_end(capture, NULL));
    ck_assert_uint_eq(test_stats(world.pool).capture_count, 0);
    ck_assert_uint_eq(test_stats(world.pool).graph_count, 0);
    ck_assert_uint_ge(test_stats(world.pool).captured_bytes, 4 * MIB);
    ck_assert_uint_eq(test_node_count(driver_graph), 2);
    OK(tarn_graph_adopt(world.pool, driver_graph, &graph));
    OK(tarn_graph_replay(graph, world.stream));
    test_expect_words(world.stream, output, 9, WORDS);
    OK(tarn_graph_destroy(graph));
    test_await_destructors(0);
    ck_assert_uint_eq(test_stats(world.pool).captured_bytes, 0);
    OK(tarn_free(output));
}

TEST(capture_to_graph, a_graph_of_the_callers_holds_its_memory_until_it_is_destroyed)
{
    void *output = test_malloc(WORDS * 4);
    tn_cu_graph driver_graph = test_graph();
    tarn_capture *capture = begin(driver_graph);
    void *temporary = section(9, output);
    void *other;

    OK(tarn_capture_end(capture, NULL));
    other = test_alloc(world.pool, 4 * MIB, world.stream);
    ck_assert_ptr_ne(other, temporary);
    test_launch_once(driver_graph, world.stream);
    test_expect_words(world.stream, output, 9, WORDS);
    test_destroy_graph(driver_graph);
    test_await_destructors(0);
    ck_assert_uint_eq(test_stats(world.pool).captured_bytes, 0);
    OK(tarn_free(other));
    OK(tarn_free(output));
}

TEST(capture_to_graph, an_aborted_capture_leaves_the_graph_to_its_caller)
{
    void *output = test_malloc(WORDS * 4);
    tn_cu_graph driver_graph = test_graph();
    tarn_capture *capture = begin(driver_graph);
    void *block = test_malloc(4 * MIB);

    test_fill(world.stream, block, 1, WORDS);
    OK(tarn_capture_abort(capture));
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_NONE);
    ck_assert_int_eq(test_state_of(world.pool, block), TARN_EXTENT_DISCARDED);
    OK(tarn_free(block));
    test_destroy_graph(driver_graph); /* is there still */
    test_await_destructors(0);
    ck_assert_uint_eq(test_stats(world.pool).captured_bytes, 0);
    OK(tarn_free(output));
}

static void end_elsewhere(void *capture)
{
    STATUS(TARN_ERR_WRONG_THREAD, tarn_capture_end(capture, NULL));
}

TEST(capture_to_graph, each_kind_of_capture_is_ended_in_its_own_way)
{
    void *output = test_malloc(WORDS * 4);
    tn_cu_graph driver_graph = test_graph();
    tarn_capture *capture = begin(driver_graph);
    tarn_graph *graph = UNTOUCHED;
    tarn_graph *made;

    (void)section(9, output);
    REFUSE(TARN_ERR_WRONG_STATE, "with NULL for the graph", tarn_capture_end(capture, &graph));
    ck_assert_untouched(graph);
    REFUSE(TARN_ERR_INVALID_HANDLE, "capture", tarn_capture_end(NULL, NULL));
    test_elsewhere(end_elsewhere, capture);
    OK(tarn_capture_end(capture, NULL));
    REFUSE(TARN_ERR_INVALID_HANDLE, "capture", tarn_capture_end(capture, NULL));
    test_destroy_graph(driver_graph);
    test_await_destructors(0);
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "graph is NULL", tarn_capture_end(capture, NULL));
    (void)section(8, output);
    made = test_capture_end(capture);
    driver_graph = test_graph();
    capture = begin(driver_graph);
    (void)section(7, output);
    REFUSE(TARN_ERR_WRONG_STATE, "with NULL for the graph", tarn_graph_update(made, capture));
    OK(tarn_capture_end(capture, NULL));
    test_destroy_graph(driver_graph);
    OK(tarn_graph_destroy(made));
    OK(tarn_free(output));
}

TEST(capture_to_graph, bad_arguments_of_capture_to_graph_are_refused)
{
    tn_cu_graph driver_graph = test_graph();
    tarn_capture *capture = UNTOUCHED;
    tarn_capture *open;

    REFUSE(TARN_ERR_INVALID_HANDLE, "pool",
           tarn_capture_begin(NULL, world.stream,
                              CAPTURE_INTO(NULL, 0, driver_graph, TARN_CAPTURE_GLOBAL), &capture));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "a group, and no outer",
           tarn_capture_begin(world.pool, world.stream,
                              CAPTURE_INTO(NULL, 1, driver_graph, TARN_CAPTURE_GLOBAL), &capture));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "NULL",
           tarn_capture_begin(world.pool, world.stream,
                              CAPTURE_INTO(NULL, 0, driver_graph, TARN_CAPTURE_GLOBAL), NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "mode",
           tarn_capture_begin(world.pool, world.stream,
                              CAPTURE_INTO(NULL, 0, driver_graph, (tarn_capture_mode)3), &capture));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "legacy",
           tarn_capture_begin(world.pool, NULL,
                              CAPTURE_INTO(NULL, 0, driver_graph, TARN_CAPTURE_GLOBAL), &capture));
    REFUSE(TARN_ERR_WRONG_STATE, "private pool",
           tarn_capture_begin(world.default_pool, world.stream,
                              CAPTURE_INTO(NULL, 0, driver_graph, TARN_CAPTURE_GLOBAL), &capture));
    ck_assert_untouched(capture);
    open = begin(driver_graph);
    REFUSE(TARN_ERR_WRONG_STATE, "already being captured",
           tarn_capture_begin(world.pool, world.stream,
                              CAPTURE_INTO(NULL, 0, driver_graph, TARN_CAPTURE_GLOBAL), &capture));
    OK(tarn_capture_end(open, NULL));
    test_destroy_graph(driver_graph);
}

TEST(capture_to_graph, options_of_a_capture_that_contradict_each_other_are_refused)
{
    tarn_capture *outer = test_capture_begin(TARN_CAPTURE_RELAXED);
    tarn_capture *capture = UNTOUCHED;
    tarn_capture_options options = TARN_CAPTURE_OPTIONS_INIT;

    options.outer = outer;
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "no driver_graph",
           tarn_capture_begin(world.pool, world.side, &options, &capture));
    options.outer = NULL;
    options.group = 1;
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "no outer",
           tarn_capture_begin(world.pool, world.side, &options, &capture));
    ck_assert_untouched(capture);
    OK(tarn_capture_abort(outer));
}

TEST(capture_to_graph, a_refused_begin_or_end_can_be_repeated)
{
    tn_cu_graph driver_graph = test_graph();
    tarn_capture *capture = UNTOUCHED;

    sim.plan_fault("cuStreamBeginCaptureToGraph", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    REFUSE(TARN_ERR_DRIVER, "cuStreamBeginCaptureToGraph",
           tarn_capture_begin(world.pool, world.stream,
                              CAPTURE_INTO(NULL, 0, driver_graph, TARN_CAPTURE_GLOBAL), &capture));
    ck_assert_untouched(capture);
    capture = begin(driver_graph);
    sim.plan_fault("cuStreamEndCapture", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_capture_end(capture, NULL));
    OK(tarn_capture_end(capture, NULL));
    test_destroy_graph(driver_graph);
}

TEST(capture_to_graph, a_broken_capture_to_a_graph_can_only_be_aborted)
{
    tn_cu_graph driver_graph = test_graph();
    tarn_capture *capture = begin(driver_graph);

    test_break_capture();
    STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_capture_end(capture, NULL));
    OK(tarn_capture_abort(capture));
    ck_assert_uint_eq(test_stats(world.pool).capture_count, 0);
    test_await_destructors(0); /* the driver has taken the graph with it */
}

TEST(capture_to_graph, with_too_many_routes_none_is_begun)
{
    tn_cu_graph driver_graph = test_graph();
    tarn_capture *capture = UNTOUCHED;
    tarn_route *routes[64];

    for (int i = 0; i < 64; i++)
        routes[i] = test_route(world.pool, tarn_filter_stream, world.side);
    REFUSE(TARN_ERR_LIMIT, "routes",
           tarn_capture_begin(world.pool, world.stream,
                              CAPTURE_INTO(NULL, 0, driver_graph, TARN_CAPTURE_GLOBAL), &capture));
    ck_assert_untouched(capture);
    for (int i = 0; i < 64; i++)
        OK(tarn_end_allocate_to_pool(routes[i]));
    test_destroy_graph(driver_graph);
}

static void expect_no_second_section(tn_cu_graph graph, const char *words)
{
    tarn_capture *capture = UNTOUCHED;

    REFUSE(TARN_ERR_WRONG_STATE, words,
           tarn_capture_begin(world.pool, world.side,
                              CAPTURE_INTO(NULL, 0, graph, TARN_CAPTURE_THREAD_LOCAL), &capture));
    ck_assert_untouched(capture);
    ck_assert_int_eq(test_capture_status(world.side), TN_CU_CAPTURE_STATUS_NONE);
}

/* Nothing would order it behind the first one, whose memory it would get. */
TEST(capture_to_graph, a_second_section_in_one_graph_is_refused)
{
    void *output = test_malloc(WORDS * 4);
    tn_cu_graph driver_graph = test_graph();
    tn_cu_graph other = test_graph();
    tarn_capture *capture = begin(driver_graph);
    void *first = section(9, output);

    expect_no_second_section(driver_graph, "not over");
    OK(tarn_capture_end(capture, NULL));
    expect_no_second_section(driver_graph, "child node");
    sim.plan_fault("cuGraphGetNodes", 2, 0,
                   TN_CUDA_ERROR_UNKNOWN); /* the first one asks whether it is the same */
    REFUSE(TARN_ERR_DRIVER, "cuGraphGetNodes",
           tarn_capture_begin(world.pool, world.stream,
                              CAPTURE_INTO(NULL, 0, driver_graph, TARN_CAPTURE_THREAD_LOCAL),
                              &capture));
    capture = begin(other);
    ck_assert_ptr_eq(section(8, output), first);
    OK(tarn_capture_abort(capture)); /* its nodes stay */
    expect_no_second_section(other, "child node");
    test_destroy_graph(driver_graph);
    test_destroy_graph(other);
    OK(tarn_free(output));
}

/* Handles come again: one that is known from before, of a graph without nodes, says nothing. */
TEST(capture_to_graph, a_section_without_nodes_leaves_its_graph_to_another_one)
{
    void *output = test_malloc(WORDS * 4);
    tn_cu_graph driver_graph = test_graph();
    tarn_capture *capture = begin(driver_graph);

    OK(tarn_free(test_malloc(4 * MIB)));
    OK(tarn_capture_end(capture, NULL));
    capture = begin(driver_graph);
    (void)section(8, output);
    OK(tarn_capture_end(capture, NULL));
    test_launch_once(driver_graph, world.stream);
    test_expect_words(world.stream, output, 8, WORDS);
    test_destroy_graph(driver_graph);
    OK(tarn_free(output));
}

TEST(capture_to_graph, a_graph_has_sections_of_several_pools)
{
    tarn_pool *other = test_pool("other");
    void *output = test_malloc(WORDS * 4);
    tn_cu_graph driver_graph = test_graph();
    tarn_capture *capture = begin(driver_graph);
    void *first = section(9, output);

    OK(tarn_capture_end(capture, NULL));
    OK(tarn_capture_begin(other, world.stream,
                          CAPTURE_INTO(NULL, 0, driver_graph, TARN_CAPTURE_THREAD_LOCAL),
                          &capture));
    ck_assert_ptr_ne(test_copy_through(other, world.stream, 8, output, WORDS), first);
    OK(tarn_capture_end(capture, NULL));
    test_destroy_graph(driver_graph);
    OK(tarn_free(output));
    test_await_destructors(0);
    OK(tarn_pool_destroy(other));
}
