// SPDX-License-Identifier: Apache-2.0
#include "nodes/seen_node.h"
#include "support/nodes.h"
#include "unit/unit.h"

#define LONG                                                                                        \
    "unit_seen_node_whose_name_is_a_long_one_as_those_of_templates_are_that_go_on_and_on_for_some_" \
    "hundreds_of_letters"

static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
                          ".visible .entry unit_seen_node()\n{ ret; }\n"
                          ".visible .entry " LONG "()\n{ ret; }\n";

static struct tn_gpu gpu;
static tn_cu_stream stream;
static tn_cu_stream side;
static tn_cu_function kernel;
static tn_cu_function long_kernel;
static uint32_t *memory;

static void open_gpu(void)
{
    unit_gpu(&gpu);
    stream = test_stream();
    side = test_stream();
    kernel = test_kernel(ptx, "unit_seen_node");
    long_kernel = test_kernel(ptx, LONG);
    memory = test_linear_alloc(4096);
}

static void begin(void)
{
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
}

static void set(tn_cu_stream on)
{
    test_set_words(on, memory, 1, 1);
}

static void launch(tn_cu_stream on, tn_cu_function function)
{
    test_launch_kernel(on, function, NULL, NULL);
}

static void expect_none(void)
{
    ck_assert_uint_eq(tn_loose_end_find(&gpu, stream).number, 0);
}

static void expect_end(size_t number, size_t node_count, tn_cu_graphnode_type type,
                       const char *name)
{
    struct tn_seen_node end = tn_loose_end_find(&gpu, stream);

    ck_assert_uint_eq(end.number, number);
    ck_assert_uint_eq(end.node_count, node_count);
    ck_assert_int_eq(end.type, type);
    ck_assert_str_eq(end.kernel, name);
}

SUITE("seen nodes")
GROUP(nodes, open_gpu, .name = "seen nodes")

TEST(nodes, a_capture_of_one_stream_has_none)
{
    expect_none(); /* not captured at all */
    begin();
    expect_none();
    set(stream);
    launch(stream, kernel);
    expect_none();
    test_destroy_graph(test_end_capture(stream));
    expect_none();
}

TEST(nodes, a_fork_has_one_until_it_is_joined)
{
    begin();
    set(stream);
    test_order(stream, side);
    expect_none(); /* nothing is there to be joined */
    set(side);
    expect_end(2, 2, TN_CU_NODE_MEMSET, "");
    launch(side, kernel);
    launch(stream, kernel);
    expect_end(3, 4, TN_CU_NODE_KERNEL, "unit_seen_node");
    test_order(side, stream);
    expect_none();
    set(side);
    expect_end(5, 5, TN_CU_NODE_MEMSET, "");
    ck_assert_int_eq(test_capture_status(stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_drop_capture(stream);
}

TEST(nodes, of_two_the_newer_is_found)
{
    tn_cu_stream third = test_stream();

    begin();
    test_order(stream, side);
    test_order(stream, third);
    launch(third, kernel);
    set(side);
    expect_end(2, 2, TN_CU_NODE_MEMSET, "");
    test_order(side, stream);
    expect_end(1, 2, TN_CU_NODE_KERNEL, "unit_seen_node");
    test_drop_capture(stream);
    test_destroy_stream(third);
}

TEST(nodes, a_long_name_is_cut)
{
    struct tn_seen_node end;

    begin();
    test_order(stream, side);
    launch(side, long_kernel);
    end = tn_loose_end_find(&gpu, stream);
    ck_assert_uint_eq(strlen(end.kernel), sizeof end.kernel - 1);
    ck_assert_int_eq(strncmp(end.kernel, LONG, sizeof end.kernel - 1), 0);
    test_drop_capture(stream);
}

TEST(nodes, no_more_than_the_newest_nodes_are_looked_at)
{
    begin();
    test_order(stream, side);
    set(side);
    for (int i = 0; i < TN_LOOSE_END_NODES - 1; i++)
        set(stream);
    expect_end(1, TN_LOOSE_END_NODES, TN_CU_NODE_MEMSET, "");
    set(stream);
    expect_none();
    test_drop_capture(stream);
}

TEST(nodes, a_broken_capture_is_not_looked_into)
{
    uint64_t before;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
    test_order(stream, side);
    set(side);
    test_break_capture();
    before = sim.call_count("cuGraphGetNodes");
    expect_none();
    ck_assert_uint_eq(sim.call_count("cuGraphGetNodes"), before);
    test_drop_capture(stream);
}

TEST(nodes, what_the_driver_does_not_tell_is_not_there)
{
    static const char *const calls[] = {"cuStreamGetCaptureInfo", "cuGraphGetNodes",
                                        "cuGraphNodeGetDependentNodes", "cuGraphNodeGetType"};

    begin();
    test_order(stream, side);
    launch(side, kernel);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
        expect_none();
        ck_assert_uint_eq(sim.clear_fault(NULL), 1);
        expect_end(1, 1, TN_CU_NODE_KERNEL, "unit_seen_node");
    }
    sim.plan_fault("cuFuncGetName", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    expect_end(1, 1, TN_CU_NODE_KERNEL, "");
    sim.plan_fault("cuGraphKernelNodeGetParams", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    expect_end(1, 1, TN_CU_NODE_KERNEL, "");
    (void)tn_host_plan_fault(1, false);
    expect_none();
    (void)tn_host_plan_fault(0, false);
    expect_end(1, 1, TN_CU_NODE_KERNEL, "unit_seen_node");
    test_drop_capture(stream);
}

static void expect_newest(tn_cu_graph graph, size_t number, tn_cu_graphnode_type type,
                          const char *name)
{
    struct tn_seen_node seen = tn_newest_node_find(&gpu, graph);

    ck_assert_uint_eq(seen.number, number);
    ck_assert_uint_eq(seen.node_count, number);
    ck_assert_int_eq(seen.type, type);
    ck_assert_str_eq(seen.kernel, name);
}

static void look_at_newest(void *graph)
{
    /* No context is current here, nor is one left. */
    expect_newest(graph, 2, TN_CU_NODE_KERNEL, "unit_seen_node");
    ck_assert_ptr_null(test_context());
    sim.plan_fault("cuCtxPushCurrent", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    expect_newest(graph, 2, TN_CU_NODE_KERNEL, "");
    ck_assert_ptr_null(test_context());
}

TEST(nodes, the_newest_node_of_a_broken_capture_is_seen)
{
    tn_cu_graph graph;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
    graph = test_graph_of_capture(stream);
    ck_assert_uint_eq(tn_newest_node_find(&gpu, graph).number, 0);
    set(stream);
    expect_newest(graph, 1, TN_CU_NODE_MEMSET, "");
    launch(stream, kernel);
    test_break_capture();
    expect_newest(graph, 2, TN_CU_NODE_KERNEL, "unit_seen_node");
    test_elsewhere(look_at_newest, graph);
    sim.plan_fault("cuGraphGetNodes", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    ck_assert_uint_eq(tn_newest_node_find(&gpu, graph).number, 0);
    sim.plan_fault("cuGraphNodeGetType", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    ck_assert_uint_eq(tn_newest_node_find(&gpu, graph).number, 0);
    (void)tn_host_plan_fault(1, false);
    ck_assert_uint_eq(tn_newest_node_find(&gpu, graph).number, 0);
    (void)tn_host_plan_fault(0, false);
    expect_newest(graph, 2, TN_CU_NODE_KERNEL, "unit_seen_node");
    test_drop_capture(stream);
}

static void look_at_own_stream(void *unused)
{
    struct tn_seen_node end;

    (void)unused; /* no context is current on this thread */
    sim.plan_fault("cuCtxGetCurrent", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    end = tn_loose_end_find(&gpu, TN_CU_STREAM_PER_THREAD);
    ck_assert_uint_eq(end.number, 0);
    end = tn_loose_end_find(&gpu, TN_CU_STREAM_PER_THREAD); /* and it is not captured */
    ck_assert_uint_eq(end.number, 0);
    ck_assert_ptr_null(test_context());
}

TEST(nodes, a_threads_own_stream_is_that_of_the_device)
{
    test_begin_capture(TN_CU_STREAM_PER_THREAD, TN_CU_CAPTURE_MODE_RELAXED);
    test_order(TN_CU_STREAM_PER_THREAD, side);
    set(side);
    ck_assert_uint_eq(tn_loose_end_find(&gpu, TN_CU_STREAM_PER_THREAD).number, 1);
    test_elsewhere(look_at_own_stream, NULL);
    test_drop_capture(TN_CU_STREAM_PER_THREAD);
}
