// SPDX-License-Identifier: Apache-2.0
/* test_graph_life.c -- what goes while something else still refers to it. */
#include <stdatomic.h>

#include "capture_things.h"

#define CHAIN_NODES 60000

/* Adds a condition's node to a graph and returns its body. */
static tn_cu_graph add_body(tn_cu_graph graph, tn_cu_graphnode *node)
{
    tn_cu_node_params condition = {
        .type = TN_CU_NODE_CONDITIONAL,
        .conditional = {.type = TN_CU_GRAPH_COND_IF, .size = 1},
    };
    OK(cu.cuGraphConditionalHandleCreate(&condition.conditional.handle, graph, there.context, 1,
                                         1));
    OK(cu.cuGraphAddNode(node, graph, NULL, NULL, 0, &condition));
    return condition.conditional.bodies[0];
}

static void begin_to(tn_cu_stream stream, tn_cu_graph graph)
{
    OK(cu.cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, TN_CU_CAPTURE_MODE_GLOBAL));
    OK(cu.cuMemsetD8Async(there.linear, 0, 4, stream));
}

SUITE("graph life")
GROUP(life, make_capture_things)

TEST(life, nothing_with_a_body_that_a_capture_writes_to_is_destroyed)
{
    tn_cu_graphnode node;
    tn_cu_graph body = add_body(there.graph, &node);
    tn_cu_graphnode inner_node;
    tn_cu_graph inner = add_body(body, &inner_node);
    begin_to(there.stream, inner);
    ANSWERS(TN_CUDA_ERROR_ILLEGAL_STATE, cu.cuGraphDestroy(there.graph)); /* SG2 */
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuGraphDestroyNode(node));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuGraphDestroyNode(inner_node));
    OK(cu.cuMemsetD8Async(there.linear, 0, 4, there.stream));
    ck_assert_ptr_eq(end_capture(there.stream, TN_CUDA_SUCCESS), inner);
    OK(cu.cuGraphDestroyNode(node));
    OK(cu.cuGraphDestroy(there.graph));
}

TEST_LOOP(life, a_body_stays_its_nodes_when_the_capture_to_it_ends_badly, 0, 2)
{
    tn_cu_graphnode node;
    tarn_sim_ledger before = ledger();
    tn_cu_graph graph;
    OK(cu.cuGraphCreate(&graph, 0));
    tn_cu_graph body = add_body(graph, &node);
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    begin_to(stream, body);
    if (_i == 0) {
        ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, alloc_linear());
        end_capture(stream, TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    OK(cu.cuStreamDestroy(stream));
    ck_assert_uint_eq(node_count(body), 1);
    OK(cu.cuGraphDestroy(graph));
    tarn_sim_ledger after = ledger();
    same_ledger(&before, &after);
}

GROUP(two, load_two_devices, .name = "two devices")

TEST(two, an_event_recorded_by_another_device_may_lose_its_context_meanwhile)
{
    tn_cu_context second;
    tn_cu_event event;
    tn_cu_graph graph;
    tn_cu_graphnode node;
    tn_cu_graphexec exec;
    OK(cu.cuDevicePrimaryCtxRetain(&second, 1));
    OK(cu.cuCtxPushCurrent(second));
    OK(cu.cuEventCreate(&event, 0));
    OK(cu.cuCtxPopCurrent(&second));
    tn_cu_node_params record = {.type = TN_CU_NODE_EVENT_RECORD, .event = event};
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    OK(cu.cuGraphCreate(&graph, 0));
    OK(cu.cuGraphAddNode(&node, graph, NULL, NULL, 0, &record));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    sim.tarn_sim_hold_work();
    OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuDevicePrimaryCtxRelease(1));
    OK(cu.cuGraphLaunch(exec, stream));
    ANSWERS(TN_CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuEventDestroy(event));
    OK(cu.cuGraphExecDestroy(exec));
    OK(cu.cuGraphDestroy(graph));
    sim.tarn_sim_resume_work();
    OK(cu.cuStreamSynchronize(stream));
}

static tn_cu_graph chain(void)
{
    tn_cu_graph graph;
    tn_cu_graphnode node = NULL;
    OK(cu.cuGraphCreate(&graph, 0));
    for (int i = 0; i < CHAIN_NODES; i++)
        OK(cu.cuGraphAddEmptyNode(&node, graph, &node, i == 0 ? 0 : 1));
    return graph;
}

TEST(life, a_long_chain_is_updated)
{
    tn_cu_graphexec exec;
    tn_cu_update_result_info info;
    OK(cu.cuGraphInstantiateWithFlags(&exec, chain(), 0));
    OK(cu.cuGraphExecUpdate(exec, chain(), &info));
    ck_assert_int_eq(info.result, TN_CU_GRAPH_UPDATE_SUCCESS);
}

static atomic_int calls;

static void count(void *unused)
{
    (void)unused;
    atomic_fetch_add(&calls, 1);
}

TEST(life, a_host_node_made_without_a_context_is_run)
{
    tn_cu_graphnode node;
    tn_cu_graphexec exec;
    tn_cu_node_params host = {.type = TN_CU_NODE_HOST, .host = {.function = count}};
    OK(cu.cuCtxSetCurrent(NULL));
    OK(cu.cuGraphAddNode(&node, there.graph, NULL, NULL, 0, &host));
    OK(cu.cuCtxSetCurrent(there.context));
    OK(cu.cuGraphInstantiateWithFlags(&exec, there.graph, 0));
    OK(cu.cuGraphLaunch(exec, there.stream));
    OK(cu.cuStreamSynchronize(there.stream));
    ck_assert_int_eq(atomic_load(&calls), 1);
}

TEST(life, an_executable_graph_of_a_context_that_is_gone_is_not_launched)
{
    tn_cu_context context;
    tn_cu_graphexec exec;
    OK(cu.cuCtxCreate(&context, 0, 0));
    OK(cu.cuGraphInstantiateWithFlags(&exec, there.graph, 0));
    OK(cu.cuGraphLaunch(exec, there.stream));
    OK(cu.cuCtxDestroy(context));
    ANSWERS(TN_CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuGraphLaunch(exec, there.stream));
    OK(cu.cuGraphExecDestroy(exec));
}

static void end_contexts(void *context)
{
    ANSWERS(TN_CUDA_ERROR_NOT_PERMITTED, cu.cuCtxDestroy(context));
    ANSWERS(TN_CUDA_ERROR_NOT_PERMITTED, cu.cuDevicePrimaryCtxRelease(0));
    ANSWERS(TN_CUDA_ERROR_NOT_PERMITTED, cu.cuDevicePrimaryCtxReset(0));
    ANSWERS(TN_CUDA_ERROR_NOT_PERMITTED, cu.cuLibraryUnload(context));
    ANSWERS(TN_CUDA_ERROR_NOT_PERMITTED, cu.cuIpcCloseMemHandle(there.linear));
    count(NULL);
}

TEST(life, a_host_function_does_not_wait_for_itself)
{
    tn_cu_context context;
    OK(cu.cuCtxCreate(&context, 0, 0));
    OK(cu.cuLaunchHostFunc(there.stream, end_contexts, context));
    OK(cu.cuStreamSynchronize(there.stream));
    ck_assert_int_eq(atomic_load(&calls), 1);
}

/* SG3 */
TEST(life, edges_stay_with_their_nodes_when_an_earlier_node_goes)
{
    const tn_cu_edge_data programmatic = {.from_port = 1, .type = 1};
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_graphnode nodes[4];
    tn_cu_edge_data edges[4];
    size_t count = 4;
    OK(cu.cuStreamBeginCapture(stream, TN_CU_CAPTURE_MODE_GLOBAL));
    for (int i = 0; i < 4; i++)
        OK(launch_fill(&there.kernels, stream, there.linear, 1, 1));
    tn_cu_graph graph = end_capture(stream, TN_CUDA_SUCCESS);
    OK(cu.cuGraphGetNodes(graph, nodes, &count));
    ck_assert_uint_eq(count, 4);
    /* The last node comes after the third one by an ordinary edge, and after these: */
    OK(cu.cuGraphAddDependencies(graph, &nodes[0], &nodes[3], &programmatic, 1));
    OK(cu.cuGraphAddDependencies(graph, &nodes[1], &nodes[3], NULL, 1));
    OK(cu.cuGraphDestroyNode(nodes[2]));
    tn_cu_graphnode before[4];
    OK(cu.cuGraphNodeGetDependencies(nodes[3], before, edges, &count));
    ck_assert_uint_eq(count, 2);
    ck_assert_ptr_eq(before[0], nodes[0]);
    ck_assert_mem_eq(&edges[0], &programmatic, sizeof programmatic);
    ck_assert_ptr_eq(before[1], nodes[1]);
    ck_assert_int_eq(edges[1].type, 0);
}
