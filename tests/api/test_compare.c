// SPDX-License-Identifier: Apache-2.0
/* Two graphs compared: a section that is captured again after a restore, one whose parameter is another, one on other
 * blocks; graphs of the driver's; reports; and what is refused. */
#include <stdlib.h>

#include "support/bodies.h"
#include "support/nodes.h"
#include "support/world.h"

enum { WORDS = 2000, BYTES = WORDS * 4 };

/* What a training step works on: allocated before it is captured. */
static void *weights;
static void *input;
static void *loss;
static tarn_graph_diff *diff;

static void open_training(void)
{
    test_world_open();
    weights = test_filled(WORDS, 5);
    input = test_filled(WORDS, 1);
    loss = test_filled(1, 0);
    diff = NULL;
}

static void close_training(void)
{
    tarn_graph_diff_destroy(diff);
    OK(tarn_free(weights));
    OK(tarn_free(input));
    OK(tarn_free(loss));
    test_world_close();
}

/* A step: activations and gradients in between, which it frees. */
static tarn_graph *capture_step(uint32_t rate)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *activations = test_malloc(BYTES);
    void *gradients = test_malloc(3 * BYTES);

    test_copy(world.stream, activations, input, BYTES);
    test_add(world.stream, activations, 2, WORDS);
    test_fill(world.stream, gradients, 1, WORDS);
    OK(tarn_free(activations));
    test_add(world.stream, weights, rate, WORDS);
    test_copy(world.stream, loss, gradients, 4);
    OK(tarn_free(gradients));
    return test_capture_end(capture);
}

static void compare(tarn_graph *a, tarn_graph *b, size_t differences)
{
    tarn_graph_diff_destroy(diff);
    OK(tarn_graph_compare(a, b, &diff));
    ck_assert_uint_eq(diff->difference_count, differences);
    ck_assert(diff->same_structure && diff->complete);
    ck_assert(diff->equal == (differences == 0));
    ck_assert_uint_eq(diff->node_count, 5);
}

GROUP(steps, open_training, close_training)

/* As samples/demo.c does. */
TEST(steps, a_step_that_is_captured_again_after_a_restore_is_the_same_graph)
{
    tarn_graph *before = capture_step(3);
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_DEVICE);
    tarn_graph *after;
    tarn_graph *faster;

    OK(tarn_graph_replay(before, world.stream));
    (void)test_filled(WORDS, 9); /* left behind */
    OK(tarn_free(input));
    (void)test_filled(WORDS / 2, 9); /* where the input was */
    tarn_delta_destroy(test_restore(checkpoint, 2, 1));
    after = capture_step(3);
    compare(before, after, 0);
    ck_assert(diff->corresponds);
    faster = capture_step(4);
    compare(before, faster, 1);
    ck_assert(!diff->corresponds);
    ck_assert_int_eq(diff->differences[0].kind, TARN_GRAPH_DIFFERENCE_PARAMETER);
    ck_assert_uint_eq(diff->differences[0].node, 3);
    ck_assert_uint_eq(diff->differences[0].index, 1);
    ck_assert_uint_eq(diff->differences[0].offset, 0);
    ck_assert_uint_eq(diff->differences[0].bytes, 4);
    ck_assert_uint_eq(diff->differences[0].values[0], 3);
    ck_assert_uint_eq(diff->differences[0].values[1], 4);
    ck_assert_uint_eq(diff->nodes[3].ordinal, 3);
    ck_assert_ptr_nonnull(strstr(diff->nodes[3].kernels[1], "add"));
    OK(tarn_graph_destroy(before));
    OK(tarn_graph_destroy(after));
    OK(tarn_graph_destroy(faster));
    OK(tarn_checkpoint_destroy(checkpoint));
}

/* The first capture, too, began at the checkpoint. */
TEST(steps, two_branches_of_one_checkpoint_are_the_same_graph)
{
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_NONE);
    tarn_graph *first = capture_step(3);
    tarn_graph *second;

    tarn_delta_destroy(test_restore(checkpoint, 0, 0));
    second = capture_step(3);
    compare(first, second, 0);
    OK(tarn_graph_destroy(first));
    OK(tarn_graph_destroy(second));
    OK(tarn_checkpoint_destroy(checkpoint));
}

TEST(steps, a_step_on_other_blocks_corresponds)
{
    void *old = weights;
    tarn_graph *before = capture_step(3);
    tarn_graph *after;

    weights = test_filled(WORDS, 5);
    after = capture_step(3);
    compare(before, after, 1);
    ck_assert(diff->corresponds);
    ck_assert(diff->differences[0].corresponds);
    ck_assert_ptr_eq(diff->differences[0].blocks[0].address, old);
    ck_assert_ptr_eq(diff->differences[0].blocks[1].address, weights);
    ck_assert_ptr_eq(diff->differences[0].blocks[1].pool, world.pool);
    OK(tarn_free(
        old)); /* the graph keeps the memory, but nobody knows any more how large the block was */
    compare(before, after, 1);
    ck_assert(!diff->corresponds);
    ck_assert_ptr_null(diff->differences[0].blocks[0].address);
    ck_assert_ptr_eq(diff->differences[0].blocks[0].pool, world.pool);
    OK(tarn_graph_destroy(before));
    OK(tarn_graph_destroy(after));
}

TEST(steps, graphs_of_the_drivers_are_compared_whoever_made_them)
{
    tarn_graph *graph = capture_step(3);
    tarn_driver_graph driver_graph;
    tn_cu_graph empty = test_graph();
    tn_cu_graph clone;

    OK(tarn_graph_driver_handles(graph, &driver_graph, NULL));
    clone = test_clone(driver_graph);
    OK(tarn_driver_graph_compare(world.device, driver_graph, clone, &diff));
    ck_assert(diff->equal);
    ck_assert_ptr_ne(diff->nodes[0].handles[0], diff->nodes[0].handles[1]);
    tarn_graph_diff_destroy(diff);
    OK(tarn_driver_graph_compare(world.device, empty, clone, &diff));
    ck_assert(!diff->equal && !diff->same_structure);
    ck_assert_int_eq(diff->differences[0].kind, TARN_GRAPH_DIFFERENCE_NODE_COUNT);
    ck_assert_uint_eq(diff->differences[0].node, TARN_NO_NODE);
    tarn_graph_diff_destroy(diff);
    OK(tarn_driver_graph_compare(world.device, empty, empty, &diff));
    ck_assert(diff->equal);
    test_destroy_graph(clone);
    test_destroy_graph(empty);
    OK(tarn_graph_destroy(graph));
}

/* Asking changes nothing: the capture goes on. */
TEST(steps, a_graph_that_is_being_captured_is_compared_as_far_as_it_has_come)
{
    tarn_graph *graph = capture_step(3);
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    tarn_driver_graph driver_graph;

    OK(tarn_graph_driver_handles(graph, &driver_graph, NULL));
    test_fill(world.stream, weights, 1, WORDS);
    OK(tarn_driver_graph_compare(world.device, driver_graph, test_graph_of_capture(world.stream),
                                 &diff));
    ck_assert(!diff->same_structure);
    ck_assert_uint_eq(diff->node_count, 1);
    tarn_graph_diff_destroy(diff);
    OK(tarn_graph_compare(graph, graph, &diff));
    ck_assert(diff->equal);
    OK(tarn_graph_destroy(test_capture_end(capture)));
    OK(tarn_graph_destroy(graph));
}

TEST(steps, a_conditional_node_is_never_equal)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    tarn_graph *graph;

    (void)test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1);
    graph = test_capture_end(capture);
    OK(tarn_graph_compare(graph, graph, &diff));
    ck_assert(diff->same_structure && !diff->complete && !diff->equal && !diff->corresponds);
    ck_assert_uint_eq(diff->uninspected_count, 1);
    ck_assert_uint_eq(diff->difference_count, 1);
    ck_assert_str_eq(diff->differences[0].field, "bodies");
    OK(tarn_graph_destroy(graph));
}

/* The diff's report; the caller's to free. */
static char *report_of(tarn_report_format format)
{
    size_t length = 0;
    size_t again = 0;
    char *text;

    OK(tarn_graph_diff_report(diff, format, NULL, 0, &length));
    text = malloc(length + 1);
    OK(tarn_graph_diff_report(diff, format, text, length + 1, &again));
    ck_assert_uint_eq(again, length);
    ck_assert_uint_eq(strlen(text), length);
    return text;
}

static void expect_in(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "'%s' is not in\n%s", part, text);
}

TEST(steps, a_report_names_what_differs)
{
    tarn_graph *a = capture_step(3);
    tarn_graph *b = capture_step(4);
    char part[11] = "xxxxxxxxxx";
    char *text;

    compare(a, b, 1);
    OK(tarn_graph_destroy(a)); /* the diff has all of it */
    OK(tarn_graph_destroy(b));
    text = report_of(TARN_REPORT_TEXT);
    expect_in(text, "the graphs differ: 5 nodes of the same structure, 1 differences");
    expect_in(text, "node 3, kernel ");
    expect_in(text, ": parameter 1, offset 0: 0x3, and 0x4\n");
    OK(tarn_graph_diff_report(diff, TARN_REPORT_TEXT, part, 10, NULL));
    ck_assert_mem_eq(part, text, 9);
    ck_assert(part[9] == '\0' && part[10] == '\0');
    free(text);
    text = report_of(TARN_REPORT_JSON);
    expect_in(text, "{\"same_structure\": true, \"complete\": true, \"equal\": false, ");
    expect_in(text, "\"kind\": \"parameter\", \"node\": \"3\", ");
    expect_in(text, "\"values\": [3, 4]");
    free(text);
}

GROUP(refused, open_training, close_training)

TEST(refused, wrong_handles_and_arguments_are_refused)
{
    uint64_t zeros[64] = {0};
    tarn_graph *foreign[] = {NULL, (tarn_graph *)(void *)zeros, (tarn_graph *)(void *)world.pool};
    tarn_graph *graph = capture_step(3);
    tarn_graph *gone = capture_step(3);
    tarn_graph_diff *made = UNTOUCHED;
    tarn_driver_graph driver_graph;
    char buffer[8] = "";
    size_t length = 77;

    OK(tarn_graph_driver_handles(graph, &driver_graph, NULL));
    OK(tarn_graph_destroy(gone));
    test_await_destructors(1);
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        REFUSE(TARN_ERR_INVALID_HANDLE, "graph", tarn_graph_compare(foreign[i], graph, &made));
        REFUSE(TARN_ERR_INVALID_HANDLE, "graph", tarn_graph_compare(graph, foreign[i], &made));
    }
    REFUSE(TARN_ERR_INVALID_HANDLE, "graph", tarn_graph_compare(gone, graph, &made));
    REFUSE(TARN_ERR_INVALID_HANDLE, "graph", tarn_graph_compare(graph, gone, &made));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "diff", tarn_graph_compare(graph, graph, NULL));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device",
           tarn_driver_graph_compare(NULL, driver_graph, driver_graph, &made));
    REFUSE(
        TARN_ERR_INVALID_HANDLE, "device",
        tarn_driver_graph_compare((tarn_device *)(void *)graph, driver_graph, driver_graph, &made));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "graph",
           tarn_driver_graph_compare(world.device, NULL, driver_graph, &made));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "graph",
           tarn_driver_graph_compare(world.device, driver_graph, NULL, &made));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "diff",
           tarn_driver_graph_compare(world.device, driver_graph, driver_graph, NULL));
    ck_assert_untouched(made);
    tarn_graph_diff_destroy(NULL);
    OK(tarn_graph_compare(graph, graph, &diff));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "diff",
           tarn_graph_diff_report(NULL, TARN_REPORT_TEXT, buffer, sizeof buffer, &length));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "buffer",
           tarn_graph_diff_report(diff, TARN_REPORT_TEXT, NULL, 8, &length));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "format",
           tarn_graph_diff_report(diff, (tarn_report_format)2, buffer, sizeof buffer, &length));
    ck_assert_uint_eq(length, 77);
    ck_assert_str_eq(buffer, "");
    OK(tarn_graph_destroy(graph));
}

TEST(refused, what_the_driver_refuses_is_told)
{
    static const char *const calls[] = {"cuGraphGetNodes", "cuGraphGetEdges", "cuGraphNodeGetType",
                                        "cuGraphKernelNodeGetParams"};
    tarn_graph *graph = capture_step(3);
    tarn_graph_diff *made = UNTOUCHED;
    tarn_driver_graph driver_graph;

    OK(tarn_graph_driver_handles(graph, &driver_graph, NULL));
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
        REFUSE(TARN_ERR_DRIVER, calls[i], tarn_graph_compare(graph, graph, &made));
        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
        REFUSE(TARN_ERR_DRIVER, calls[i],
               tarn_driver_graph_compare(world.device, driver_graph, driver_graph, &made));
    }
    ck_assert_untouched(made);
    OK(tarn_graph_destroy(graph));
}
