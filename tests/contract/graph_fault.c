// SPDX-License-Identifier: Apache-2.0
/* graph_fault.c -- graphs in a context that a graph has lost: what is skipped, what is still done,
 * and what answers with the fault. Each case ends its process. */
#include "contract/graph_tools.h"

/* Loses the context by the bench's graph, whose memory it takes away. */
static tn_cu_graphexec lose(struct graph_bench *bench)
{
    tn_cu_graphexec exec = graph_exec(bench->graph);
    SET_UP(cuMemUnmap(bench->memory.address, bench->memory.bytes));
    SET_UP(cuGraphLaunch(exec, bench->stream));
    GIVES(ILLEGAL_ADDRESS, cuStreamSynchronize(bench->stream));
    return exec;
}

/* Host functions behind the fault: in the graph, and behind it on the stream. */
CASE_BODY(host_functions)
{
    static int calls[3];
    struct graph_bench bench = graph_bench_begin();
    uint32_t *flag = graph_flag(); /* holds the graph until all is queued */
    tn_cu_graphnode node = graph_hold(bench.graph, NULL, flag);
    node = graph_host(bench.graph, node, graph_count_up, &calls[0]);
    node = graph_fill(bench.graph, node, bench.memory.address, 5, 1);
    graph_host(bench.graph, node, graph_count_up, &calls[1]);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    SET_UP(cuMemUnmap(bench.memory.address, bench.memory.bytes));
    GIVES(SUCCESS, cuGraphLaunch(exec, bench.stream));
    SET_UP(cuLaunchHostFunc(bench.stream, graph_count_up, &calls[2]));
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    GIVES(ILLEGAL_ADDRESS, cuStreamSynchronize(bench.stream));
    STATE("calls before the fault %d, in the graph behind it %d", graph_count(&calls[0]),
          graph_count(&calls[1]));
    STATE("on the stream behind it %d", graph_count(&calls[2]));
}

/* What the graph held is given up when the graph and what was instantiated go. */
CASE_BODY(user_objects)
{
    static int ended;
    struct graph_bench bench = graph_bench_begin();
    tn_cu_userobject object;
    SET_UP(cuUserObjectCreate(&object, &ended, graph_count_up, 1, 1));
    SET_UP(cuGraphRetainUserObject(bench.graph, object, 1, TN_CU_GRAPH_USER_OBJECT_MOVE));
    graph_fill(bench.graph, NULL, bench.memory.address, 5, 1);
    tn_cu_graphexec exec = lose(&bench);
    GIVES(SUCCESS, cuGraphDestroy(bench.graph));
    HOLDS(graph_count(&ended) == 0, "what was instantiated holds it");
    GIVES(SUCCESS, cuGraphExecDestroy(exec));
    HOLDS(graph_count_await(&ended) == 1, "it ends with it");
}

CASE_BODY(user_object_alone)
{
    static int ended;
    struct graph_bench bench = graph_bench_begin();
    tn_cu_userobject object = NULL;
    graph_fill(bench.graph, NULL, bench.memory.address, 5, 1);
    lose(&bench);
    GIVES(SUCCESS, cuUserObjectCreate(&object, &ended, graph_count_up, 1, 1));
    GIVES(SUCCESS, cuUserObjectRelease(object, 1));
    HOLDS(graph_count_await(&ended) == 1, "it ends");
}

/* Making and reading graphs does not touch the context. */
CASE_BODY(templates)
{
    struct graph_bench bench = graph_bench_begin();
    struct graph_words words;
    tn_cu_kernel_node_params params = graph_fill_params(&words, bench.memory.address, 5, 1);
    tn_cu_graph graph = NULL;
    tn_cu_graph copy = NULL;
    tn_cu_graphnode node = NULL;
    size_t count = 0;
    tn_cu_graphnode kernel = graph_fill(bench.graph, NULL, bench.memory.address, 5, 1);
    lose(&bench);
    GIVES(SUCCESS, cuGraphCreate(&graph, 0));
    GIVES(SUCCESS, cuGraphAddEmptyNode(&node, graph, NULL, 0));
    GIVES(SUCCESS, cuGraphClone(&copy, bench.graph));
    GIVES(SUCCESS, cuGraphGetNodes(copy, NULL, &count));
    GIVES(SUCCESS, cuGraphKernelNodeGetParams(kernel, &params));
    GIVES(SUCCESS, cuGraphDestroy(copy));
    GIVES(SUCCESS, cuGraphDestroy(graph));
}

CASE_BODY(add_kernel)
{
    struct graph_bench bench = graph_bench_begin();
    struct graph_words words;
    tn_cu_kernel_node_params params = graph_fill_params(&words, bench.memory.address, 5, 1);
    tn_cu_graphnode node = NULL;
    graph_fill(bench.graph, NULL, bench.memory.address, 5, 1);
    lose(&bench);
    GIVES(ILLEGAL_ADDRESS, cuGraphAddKernelNode(&node, bench.graph, NULL, 0, &params));
}

CASE_BODY(executables)
{
    struct graph_bench bench = graph_bench_begin();
    struct graph_words words;
    tn_cu_kernel_node_params params = graph_fill_params(&words, bench.memory.address, 5, 1);
    tn_cu_memset_node_params set_params = graph_set_params(bench.memory.address, 6, 1);
    tn_cu_update_result_info info = {.result = 99};
    tn_cu_graphexec another = NULL;
    uint64_t flags;
    unsigned int on;
    tn_cu_graphnode kernel = graph_fill(bench.graph, NULL, bench.memory.address, 5, 1);
    tn_cu_graphnode set = graph_set(bench.graph, kernel, bench.memory.address, 5, 1);
    tn_cu_graphexec exec = lose(&bench);
    GIVES(ILLEGAL_ADDRESS, cuGraphInstantiateWithFlags(&another, bench.graph, 0));
    GIVES(ILLEGAL_ADDRESS, cuGraphUpload(exec, bench.stream));
    GIVES(ILLEGAL_ADDRESS, cuGraphExecKernelNodeSetParams(exec, kernel, &params));
    GIVES(ILLEGAL_ADDRESS,
          cuGraphExecMemsetNodeSetParams(exec, set, &set_params, contract_current()));
    GIVES(SUCCESS, cuGraphExecUpdate(exec, bench.graph, &info));
    STATE("update result %d", info.result);
    GIVES(SUCCESS, cuGraphNodeSetEnabled(exec, kernel, 0));
    GIVES(SUCCESS, cuGraphNodeGetEnabled(exec, kernel, &on));
    GIVES(SUCCESS, cuGraphExecGetFlags(exec, &flags));
    GIVES(SUCCESS, cuGraphExecDestroy(exec));
}

CASE_BODY(captures)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_stream capturing = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_graph graph = NULL;
    graph_fill(bench.graph, NULL, bench.memory.address, 5, 1);
    SET_UP(cuStreamBeginCapture(capturing, TN_CU_CAPTURE_MODE_RELAXED));
    lose(&bench);
    contract_gives(TN_CUDA_ERROR_ILLEGAL_ADDRESS, "cuLaunchKernel(",
                   contract_fill(capturing, bench.memory.address, 5, 1));
    GIVES(ILLEGAL_ADDRESS, cuStreamEndCapture(capturing, &graph));
    HOLDS(graph == NULL, "there is no graph");
    GIVES(ILLEGAL_ADDRESS, cuStreamBeginCapture(bench.stream, TN_CU_CAPTURE_MODE_RELAXED));
}

CASE_BODY(graph_memory)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_deviceptr address;
    uint64_t value;
    tn_cu_graphnode node = graph_alloc(bench.graph, NULL, 4096, &address);
    graph_fill(bench.graph, node, bench.memory.address, 5, 1);
    tn_cu_graphexec exec = lose(&bench);
    GIVES(ILLEGAL_ADDRESS, cuMemFree(address));
    GIVES(SUCCESS, cuGraphExecDestroy(exec));
    GIVES(SUCCESS, cuDeviceGraphMemTrim(0));
    GIVES(SUCCESS, cuDeviceGetGraphMemAttribute(0, TN_CU_GRAPH_MEM_RESERVED_CURRENT, &value));
}

static const struct contract_case cases[] = {
    CASE_ALONE("host-functions", "Host functions behind a fault.", host_functions),
    CASE_ALONE("user-objects", "A graph's objects end when it goes, fault or not.", user_objects),
    CASE_ALONE("user-object-alone", "Objects need no working context.", user_object_alone),
    CASE_ALONE("templates", "Graphs need no working context.", templates),
    CASE_ALONE("add-kernel", "A kernel node needs a working context.", add_kernel),
    CASE_ALONE(
        "executables",
        "What is instantiated is updated and switched, but not given parameters or launched.",
        executables),
    CASE_ALONE("captures", "A capture does not outlive its context.", captures),
    CASE_ALONE("graph-memory", "Graph memory after a fault.", graph_memory),
};
const struct contract_group contract_graph_fault =
    CONTRACT_GROUP("graph_fault", START_CONTEXT, cases);
