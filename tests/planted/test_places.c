// SPDX-License-Identifier: Apache-2.0
/* Graphs without a mistake, in which a live block lies where a larger one was that the same capture had freed. */
#include "planted/correct.h"

/* Sets all of a new block on the stream, behind the capture's first node. */
static void *take_and_set(tn_cu_stream stream, size_t bytes)
{
    void *block = NULL;

    OK(tarn_malloc(world.device, bytes, stream, &block));
    test_set_words(stream, block, 1, bytes / 4);
    return block;
}

/* What is freed joins its neighbours: a smaller block comes to be at the same address. */
static void free_joined(void *block)
{
    tarn_pool *pool = test_pool_of(block);

    OK(tarn_free(block));
    (void)test_stats(pool);
}

static void close_world(void)
{
    test_await_destructors(0);
    planted_close();
}

GROUP(places, planted_open_for_tarn, close_world)

/* The training step of a resnet18 has it so. */
TEST(places, a_smaller_output_lies_where_a_temporary_was)
{
    tarn_capture *capture = begin();
    void *temporary = take_and_set(world.stream, LARGE_BYTES);
    tarn_graph *graph;
    void *output;

    free_joined(temporary);
    output = take_and_set(world.stream, SMALL_BYTES);
    ck_assert_ptr_eq(output, temporary);
    graph = test_capture_end(capture);
    expect(graph, COUNTS([TARN_POINTER_REUSED] = 1, [TARN_POINTER_LIVE] = 1));
    destroy(graph);
    OK(tarn_free(output));
}

TEST(places, temporaries_of_many_sizes_lie_where_an_output_is)
{
    static const size_t sizes[] = {LARGE_BYTES, 512, 4096, LARGE_BYTES, 512, BYTES, 2048};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    tarn_capture *capture = begin();
    void *first = NULL;
    tarn_graph *graph;
    void *output;

    for (size_t i = 0; i < SIZES; i++) {
        void *temporary = take_and_set(world.stream, sizes[i]);

        if (i == 0)
            first = temporary;
        ck_assert_ptr_eq(temporary, first);
        set(world.outputs[0]);
        free_joined(temporary);
    }
    output = take_and_set(world.stream, SMALL_BYTES);
    ck_assert_ptr_eq(output, first);
    graph = test_capture_end(capture);
    /* Two of the temporaries are within the output. */
    expect(graph, COUNTS([TARN_POINTER_REUSED] = 5, [TARN_POINTER_LIVE] = 3,
                         [TARN_POINTER_EXTERNAL] = SIZES));
    destroy(graph);
    OK(tarn_free(output));
}

TEST(places, a_smaller_output_lies_in_the_pool_of_a_capture_without_a_route)
{
    void *input = test_malloc(BYTES);
    void *temporary;
    void *output;
    tn_cu_graph graph;

    test_begin_capture(world.side, TN_CU_CAPTURE_MODE_RELAXED);
    use_on(world.side, input, NULL);
    temporary = take_and_set(world.side, LARGE_BYTES);
    OK(tarn_free(temporary));
    output = take_and_set(world.side, SMALL_BYTES);
    ck_assert_ptr_eq(output, temporary);
    graph = test_end_capture(world.side);
    expect_unknown(
        graph,
        COUNTS([TARN_POINTER_EXTERNAL] = 1, [TARN_POINTER_REUSED] = 1, [TARN_POINTER_LIVE] = 1));
    test_destroy_graph(graph);
    OK(tarn_free(output));
    OK(tarn_free(input));
}

/* Joined again before the output is allocated: all that came before is before it. */
TEST(places, a_temporary_is_used_by_a_forked_stream)
{
    tarn_capture *capture = begin();
    void *temporary = take_and_set(world.stream, LARGE_BYTES);
    tarn_graph *graph;
    void *output;

    test_order(world.stream, world.side);
    test_set_words(world.side, temporary, 2, LARGE_BYTES / 4);
    set(world.outputs[0]);
    test_order(world.side, world.stream);
    free_joined(temporary);
    output = take_and_set(world.stream, SMALL_BYTES);
    ck_assert_ptr_eq(output, temporary);
    graph = test_capture_end(capture);
    expect(graph,
           COUNTS([TARN_POINTER_REUSED] = 2, [TARN_POINTER_LIVE] = 1, [TARN_POINTER_EXTERNAL] = 1));
    destroy(graph);
    OK(tarn_free(output));
}

/* Forked where the output is allocated, and perhaps before that: a copy that the program makes sure of itself. */
TEST(places, what_forked_streams_do_beside_an_allocation_is_doubtful)
{
    tarn_capture *capture = begin();
    void *temporary = take_and_set(world.stream, LARGE_BYTES);
    tarn_graph *graph;
    void *output;

    test_order(world.stream, world.side);
    test_set_words(world.side, temporary, 2, LARGE_BYTES / 4);
    free_joined(temporary);
    output = take_and_set(world.stream, SMALL_BYTES);
    ck_assert_ptr_eq(output, temporary);
    test_order(world.side, world.stream);
    set(world.outputs[0]);
    graph = test_capture_end(capture);
    expect(graph, COUNTS([TARN_POINTER_REUSED] = 1, [TARN_POINTER_DOUBTFUL] = 1,
                         [TARN_POINTER_LIVE] = 1, [TARN_POINTER_EXTERNAL] = 1));
    destroy(graph);
    OK(tarn_free(output));
}

/* Nothing says when it was to be. */
TEST(places, a_node_that_was_added_by_hand_is_doubtful)
{
    tarn_capture *capture = begin();
    void *temporary = take_and_set(world.stream, LARGE_BYTES);
    tarn_driver_graph captured;
    tarn_graph *graph;
    void *output;

    free_joined(temporary);
    output = take_and_set(world.stream, SMALL_BYTES);
    graph = test_capture_end(capture);
    OK(tarn_graph_driver_handles(graph, &captured, NULL));
    test_add_set(captured, temporary, LARGE_BYTES / 4);
    expect(graph,
           COUNTS([TARN_POINTER_REUSED] = 1, [TARN_POINTER_DOUBTFUL] = 1, [TARN_POINTER_LIVE] = 1));
    destroy(graph);
    OK(tarn_free(output));
}

TEST(places, a_smaller_output_lies_where_a_temporary_of_a_body_was)
{
    tarn_audit_options options = TARN_AUDIT_OPTIONS_INIT;
    tarn_audit *audit = NULL;
    tarn_capture *capture = begin();
    struct test_node node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1);
    tarn_audit_body body = {test_last_node(world.stream), node.bodies[0]};
    tarn_capture *inner = test_begin_body(capture, 1, node.bodies[0]);
    void *temporary = take_and_set(world.side, LARGE_BYTES);
    tarn_graph *graph;
    void *output;

    free_joined(temporary);
    output = take_and_set(world.side, SMALL_BYTES);
    ck_assert_ptr_eq(output, temporary);
    OK(tarn_capture_end(inner, NULL));
    set(world.outputs[0]);
    graph = test_capture_end(capture);
    options.bodies = &body;
    options.body_count = 1;
    OK(tarn_graph_audit(graph, &options, &audit));
    judge(audit, 0,
          COUNTS([TARN_POINTER_REUSED] = 1, [TARN_POINTER_LIVE] = 1, [TARN_POINTER_EXTERNAL] = 1));
    destroy(graph);
    OK(tarn_free(output));
}

/* A child graph is a copy: its nodes are not those of the capture. */
TEST(places, a_smaller_output_of_a_child_graph_is_doubtful_where_a_temporary_was)
{
    tn_cu_graph outer = test_graph();
    tarn_driver_graph captured;
    tarn_capture *capture = begin();
    void *temporary = take_and_set(world.stream, LARGE_BYTES);
    tarn_graph *inner;
    void *output;

    free_joined(temporary);
    output = take_and_set(world.stream, SMALL_BYTES);
    inner = test_capture_end(capture);
    OK(tarn_graph_driver_handles(inner, &captured, NULL));
    test_add_child(outer, captured);
    expect_driver(outer, world.pool, COUNTS([TARN_POINTER_DOUBTFUL] = 1, [TARN_POINTER_LIVE] = 1));
    test_destroy_graph(outer);
    destroy(inner);
    OK(tarn_free(output));
}
