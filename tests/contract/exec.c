// SPDX-License-Identifier: Apache-2.0
/* exec.c -- executable graphs: made, launched, changed node by node, destroyed. */
#include "contract/graph_tools.h"

#include <string.h>

/* -- Instantiating -- */

CASE_BODY(instantiate_errors)
{
    tn_cu_graph graph = graph_new();
    tn_cu_graphexec exec = NULL;
    GIVES(INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, NULL, 0));
    GIVES(INVALID_VALUE, cuGraphInstantiateWithFlags(NULL, graph, 0));
    GIVES(INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph, 16));
    GIVES(INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph, 1u << 20));
    HOLDS(exec == NULL, "nothing was made");
    GIVES(INVALID_VALUE, cuGraphExecDestroy(NULL));
    graph_end(graph, NULL);
}

CASE_BODY(instantiate_upload_flag)
{
    tn_cu_graph graph = graph_new();
    tn_cu_graphexec exec = NULL;
    GIVES(INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph, TN_CU_GRAPH_INSTANTIATE_UPLOAD));
    graph_end(graph, NULL);
}

static void flags(const void *argument)
{
    const uint64_t *wanted = argument;
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graphexec exec = NULL;
    uint64_t got = 99;
    graph_add(bench.graph, NULL, bench.memory.address, 1);
    GIVES(SUCCESS, cuGraphInstantiateWithFlags(&exec, bench.graph, *wanted));
    GIVES(SUCCESS, cuGraphExecGetFlags(exec, &got));
    STATE("flags %u", (unsigned int)got);
    graph_run(exec, bench.stream);
    STATE("the word is %u", contract_word(bench.memory.address, 0));
    graph_end(NULL, exec);
    graph_bench_end(&bench);
}

CASE_BODY(flags_errors)
{
    tn_cu_graph graph = graph_new();
    tn_cu_graphexec exec = graph_exec(graph);
    uint64_t got;
    GIVES(INVALID_VALUE, cuGraphExecGetFlags(NULL, &got));
    GIVES(INVALID_VALUE, cuGraphExecGetFlags(exec, NULL));
    graph_end(graph, exec);
}

CASE_BODY(with_params)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graphexec exec = NULL;
    uint64_t got = 99;
    graph_add(bench.graph, NULL, bench.memory.address, 1);
    tn_cu_instantiate_params params = {.failed_node = (tn_cu_graphnode)&got, .result = 77};
    GIVES(SUCCESS, cuGraphInstantiateWithParams(&exec, bench.graph, &params));
    STATE("result %d", params.result);
    HOLDS(params.failed_node == NULL, "no node failed");
    graph_end(NULL, exec);
    params = (tn_cu_instantiate_params){
        .flags = TN_CU_GRAPH_INSTANTIATE_UPLOAD,
        .upload_stream = bench.stream,
        .result = 77,
    };
    GIVES(SUCCESS, cuGraphInstantiateWithParams(&exec, bench.graph, &params));
    STATE("result %d", params.result);
    GIVES(SUCCESS, cuGraphExecGetFlags(exec, &got));
    STATE("flags %u", (unsigned int)got);
    graph_run(exec, bench.stream);
    STATE("the word is %u", contract_word(bench.memory.address, 0));
    graph_end(NULL, exec);
    GIVES(INVALID_VALUE, cuGraphInstantiateWithParams(&exec, bench.graph, NULL));
    GIVES(INVALID_VALUE, cuGraphInstantiateWithParams(NULL, bench.graph, &params));
    GIVES(INVALID_VALUE, cuGraphInstantiateWithParams(&exec, NULL, &params));
    params = (tn_cu_instantiate_params){.flags = 64};
    GIVES(INVALID_VALUE, cuGraphInstantiateWithParams(&exec, bench.graph, &params));
    graph_bench_end(&bench);
}

CASE_BODY(with_params_failing)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graphexec exec = NULL;
    tn_cu_deviceptr word = bench.memory.address;
    graph_add(bench.graph, NULL, word, 1);
    tn_cu_graphnode set = graph_set(bench.graph, NULL, word, 1, 1);
    SET_UP(cuMemUnmap(word, bench.memory.bytes));
    tn_cu_instantiate_params params = {.result = 77};
    GIVES(INVALID_VALUE, cuGraphInstantiateWithParams(&exec, bench.graph, &params));
    STATE("result %d, %s", params.result,
          params.failed_node == set    ? "the set failed"
          : params.failed_node == NULL ? "no node is named"
                                       : "another node failed");
    SET_UP(cuMemMap(word, bench.memory.bytes, 0, bench.memory.handle, 0));
    graph_bench_end(&bench);
}

CASE_BODY(empty)
{
    tn_cu_graph graph = graph_new();
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_graphexec exec = NULL;
    GIVES(SUCCESS, cuGraphInstantiateWithFlags(&exec, graph, 0));
    GIVES(SUCCESS, cuGraphLaunch(exec, stream));
    GIVES(SUCCESS, cuStreamSynchronize(stream));
    graph_end(graph, exec);
    SET_UP(cuStreamDestroy(stream));
}

CASE_BODY(snapshot)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_deviceptr word = bench.memory.address;
    tn_cu_graphnode node = graph_fill(bench.graph, NULL, word, 5, 1);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    graph_add(bench.graph, node, word, 1);
    graph_run(exec, bench.stream);
    STATE("the word is %u", contract_word(word, 0));
    SET_UP(cuGraphDestroyNode(node));
    graph_run(exec, bench.stream);
    STATE("the word is %u", contract_word(word, 0));
    graph_end(bench.graph, NULL);
    bench.graph = NULL;
    SET_UP(cuMemsetD32Async(word, 0, 1, bench.stream));
    graph_run(exec, bench.stream);
    STATE("without the template %u", contract_word(word, 0));
    graph_end(NULL, exec);
    graph_bench_end(&bench);
}

/* -- Launching -- */

CASE_BODY(launch_errors)
{
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    GIVES(INVALID_VALUE, cuGraphLaunch(NULL, stream));
    GIVES(INVALID_VALUE, cuGraphUpload(NULL, stream));
    SET_UP(cuStreamDestroy(stream));
}

CASE_BODY(special_streams)
{
    struct graph_bench bench = graph_bench_begin();
    graph_add(bench.graph, NULL, bench.memory.address, 1);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    GIVES(SUCCESS, cuGraphLaunch(exec, NULL));
    GIVES(SUCCESS, cuGraphLaunch(exec, TN_CU_STREAM_LEGACY));
    GIVES(SUCCESS, cuGraphLaunch(exec, TN_CU_STREAM_PER_THREAD));
    GIVES(SUCCESS, cuCtxSynchronize());
    STATE("the word is %u", contract_word(bench.memory.address, 0));
    graph_end(NULL, exec);
    graph_bench_end(&bench);
}

CASE_BODY(upload)
{
    struct graph_bench bench = graph_bench_begin();
    graph_add(bench.graph, NULL, bench.memory.address, 1);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    GIVES(SUCCESS, cuGraphUpload(exec, bench.stream));
    GIVES(SUCCESS, cuStreamSynchronize(bench.stream));
    STATE("the word is %u", contract_word(bench.memory.address, 0));
    GIVES(SUCCESS, cuGraphLaunch(exec, bench.stream));
    GIVES(SUCCESS, cuStreamSynchronize(bench.stream));
    STATE("the word is %u", contract_word(bench.memory.address, 0));
    graph_end(NULL, exec);
    graph_bench_end(&bench);
}

CASE_BODY(order)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_deviceptr word = bench.memory.address;
    tn_cu_graphnode last = graph_copy(bench.graph, NULL, word + 64, word, 1);
    tn_cu_graphnode add = graph_add(bench.graph, NULL, word, 2);
    tn_cu_graphnode set = graph_set(bench.graph, NULL, word, 5, 1);
    SET_UP(cuGraphAddDependencies(bench.graph, &set, &add, NULL, 1));
    SET_UP(cuGraphAddDependencies(bench.graph, &add, &last, NULL, 1));
    tn_cu_graphexec exec = graph_exec(bench.graph);
    graph_run(exec, bench.stream);
    STATE("the copy is %u", contract_word(word + 64, 0));
    graph_end(NULL, exec);
    graph_bench_end(&bench);
}

CASE_BODY(branches)
{
    struct graph_bench bench = graph_bench_begin();
    uint32_t *flag = graph_flag();
    tn_cu_deviceptr word = bench.memory.address;
    /* One branch waits until the other has run, which it does only beside it. */
    tn_cu_graphnode hold = graph_hold(bench.graph, NULL, flag);
    tn_cu_graphnode seen = graph_copy(bench.graph, hold, word, word + 64, 1);
    (void)seen;
    graph_fill(bench.graph, NULL, word + 64, 5, 1);
    graph_fill(bench.graph, graph_node(bench.graph, 2), (uintptr_t)flag, 1, 1);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    graph_run(exec, bench.stream);
    STATE("the first branch saw %u", contract_word(word, 0));
    graph_end(NULL, exec);
    SET_UP(cuMemFreeHost(flag));
    graph_bench_end(&bench);
}

CASE_BODY(host_each_time)
{
    struct graph_bench bench = graph_bench_begin();
    int calls = 0;
    graph_host(bench.graph, NULL, graph_count_up, &calls);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    HOLDS(calls == 0, "not when it is instantiated");
    for (int i = 0; i < 3; i++)
        graph_run(exec, bench.stream);
    STATE("%d calls", calls);
    graph_end(NULL, exec);
    graph_bench_end(&bench);
}

CASE_BODY(event_nodes)
{
    struct graph_bench bench = graph_bench_begin();
    uint32_t *flag = graph_flag();
    tn_cu_event event = contract_event();
    tn_cu_graphnode node = graph_hold(bench.graph, NULL, flag);
    tn_cu_node_params params = {.type = TN_CU_NODE_EVENT_RECORD, .event = event};
    SET_UP(cuGraphAddNode(&node, bench.graph, &node, NULL, 1, &params));
    tn_cu_graphexec exec = graph_exec(bench.graph);
    GIVES(SUCCESS, cuEventQuery(event));
    SET_UP(cuGraphLaunch(exec, bench.stream));
    GIVES(NOT_READY, cuEventQuery(event));
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    GIVES(SUCCESS, cuEventSynchronize(event));
    SET_UP(cuStreamSynchronize(bench.stream));
    GIVES(SUCCESS, cuEventDestroy(event));
    GIVES(SUCCESS, cuGraphLaunch(exec, bench.stream));
    GIVES(SUCCESS, cuStreamSynchronize(bench.stream));
    graph_end(NULL, exec);
    SET_UP(cuMemFreeHost(flag));
    graph_bench_end(&bench);
}

/* A copy behind the held kernel shows whether the second launch ran beside the first. */
CASE_BODY(serial)
{
    contract_races_on_purpose();
    struct graph_bench bench = graph_bench_begin();
    tn_cu_stream other = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    uint32_t *flag = graph_flag();
    tn_cu_deviceptr word = bench.memory.address;
    tn_cu_graphnode node = graph_add(bench.graph, NULL, word, 1);
    graph_hold(bench.graph, node, flag);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    tn_cu_event done = contract_event();
    GIVES(SUCCESS, cuGraphLaunch(exec, bench.stream));
    GIVES(SUCCESS, cuGraphLaunch(exec, other));
    SET_UP(cuEventRecord(done, other));
    uint32_t meanwhile = 0;
    SET_UP(cuMemcpyDtoHAsync(&meanwhile, word, 4, NULL));
    SET_UP(cuStreamSynchronize(NULL));
    HOLDS(meanwhile <= 1, "the second launch waits for the first");
    GIVES(NOT_READY, cuEventQuery(done));
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    GIVES(SUCCESS, cuEventSynchronize(done));
    STATE("the word is %u", contract_word(word, 0));
    graph_end(NULL, exec);
    SET_UP(cuEventDestroy(done));
    SET_UP(cuStreamDestroy(other));
    SET_UP(cuMemFreeHost(flag));
    graph_bench_end(&bench);
}

/* -- Destroying -- */

CASE_BODY(destroy_in_flight)
{
    struct graph_bench bench = graph_bench_begin();
    uint32_t *flag = graph_flag();
    tn_cu_deviceptr word = bench.memory.address;
    tn_cu_graphnode node = graph_hold(bench.graph, NULL, flag);
    graph_fill(bench.graph, node, word, 5, 1);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    tn_cu_event done = contract_event();
    SET_UP(cuGraphLaunch(exec, bench.stream));
    SET_UP(cuEventRecord(done, bench.stream));
    GIVES(SUCCESS, cuGraphExecDestroy(exec));
    GIVES(SUCCESS, cuGraphDestroy(bench.graph));
    bench.graph = NULL;
    GIVES(NOT_READY, cuEventQuery(done));
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    GIVES(SUCCESS, cuStreamSynchronize(bench.stream));
    STATE("the word is %u", contract_word(word, 0));
    SET_UP(cuEventDestroy(done));
    SET_UP(cuMemFreeHost(flag));
    graph_bench_end(&bench);
}

CASE_BODY(destroy_unmapped)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_deviceptr word = bench.memory.address;
    graph_set(bench.graph, NULL, word, 5, 1);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    SET_UP(cuMemUnmap(word, bench.memory.bytes));
    GIVES(SUCCESS, cuGraphExecDestroy(exec));
    GIVES(SUCCESS, cuGraphDestroy(bench.graph));
    bench.graph = NULL;
    SET_UP(cuMemMap(word, bench.memory.bytes, 0, bench.memory.handle, 0));
    graph_bench_end(&bench);
}

/* -- Changing nodes of an executable graph -- */

CASE_BODY(set_kernel)
{
    struct graph_bench bench = graph_bench_begin();
    struct graph_words words;
    tn_cu_deviceptr word = bench.memory.address;
    tn_cu_graphnode node = graph_fill(bench.graph, NULL, word, 5, 1);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    tn_cu_kernel_node_params params = graph_fill_params(&words, word, 6, 2);
    GIVES(SUCCESS, cuGraphExecKernelNodeSetParams(exec, node, &params));
    words.value = 77;
    graph_run(exec, bench.stream);
    STATE("the words are %u %u", contract_word(word, 0), contract_word(word, 1));
    GIVES(SUCCESS, cuGraphKernelNodeGetParams(node, &params));
    HOLDS(*(uint32_t *)params.kernel_params[1] == 5, "the template is as it was");
    params = graph_add_params(&words, word, 3);
    GIVES(SUCCESS, cuGraphExecKernelNodeSetParams(exec, node, &params));
    graph_run(exec, bench.stream);
    STATE("with another function %u", contract_word(word, 0));
    params.block_x = 4096;
    GIVES(INVALID_VALUE, cuGraphExecKernelNodeSetParams(exec, node, &params));
    GIVES(INVALID_VALUE, cuGraphExecKernelNodeSetParams(NULL, node, &params));
    GIVES(INVALID_VALUE, cuGraphExecKernelNodeSetParams(exec, node, NULL));
    params.block_x = 1;
    GIVES(INVALID_VALUE, cuGraphExecKernelNodeSetParams(exec, NULL, &params));
    graph_run(exec, bench.stream);
    STATE("still %u", contract_word(word, 0));
    graph_end(NULL, exec);
    graph_bench_end(&bench);
}

CASE_BODY(set_later_node)
{
    struct graph_bench bench = graph_bench_begin();
    struct graph_words words;
    tn_cu_kernel_node_params params = graph_fill_params(&words, bench.memory.address, 6, 2);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    tn_cu_graphnode late = graph_fill(bench.graph, NULL, bench.memory.address, 5, 1);
    tn_cu_graph other = graph_new();
    tn_cu_graphnode stranger = graph_fill(other, NULL, bench.memory.address, 5, 1);
    GIVES(INVALID_VALUE, cuGraphExecKernelNodeSetParams(exec, late, &params));
    GIVES(INVALID_VALUE, cuGraphExecKernelNodeSetParams(exec, stranger, &params));
    graph_end(other, exec);
    graph_bench_end(&bench);
}

CASE_BODY(set_set)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_deviceptr word = bench.memory.address;
    tn_cu_memset_node_params got;
    tn_cu_graphnode node = graph_set(bench.graph, NULL, word, 5, 4);
    tn_cu_graphnode kernel = graph_fill(bench.graph, node, word + 1024, 9, 1);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    tn_cu_memset_node_params set = graph_set_params(word + 64, 6, 4);
    GIVES(SUCCESS, cuGraphExecMemsetNodeSetParams(exec, node, &set, contract_current()));
    graph_run(exec, bench.stream);
    STATE("the words are %u and %u", contract_word(word, 0), contract_word(word, 16));
    GIVES(SUCCESS, cuGraphMemsetNodeGetParams(node, &got));
    HOLDS(got.dst == word, "the template is as it was");
    set = graph_set_params(word, 8, 2);
    GIVES(SUCCESS, cuGraphExecMemsetNodeSetParams(exec, node, &set, contract_current()));
    graph_run(exec, bench.stream);
    STATE("shorter: %u %u %u", contract_word(word, 0), contract_word(word, 1),
          contract_word(word, 2));
    set.element_bytes = 1;
    GIVES(SUCCESS, cuGraphExecMemsetNodeSetParams(exec, node, &set, contract_current()));
    set.element_bytes = 3;
    GIVES(INVALID_VALUE, cuGraphExecMemsetNodeSetParams(exec, node, &set, contract_current()));
    set = graph_set_params(word, 8, 2);
    set.height = 2;
    set.pitch = 512;
    GIVES(INVALID_VALUE, cuGraphExecMemsetNodeSetParams(exec, node, &set, contract_current()));
    set = graph_set_params(word, 8, 2);
    GIVES(INVALID_VALUE, cuGraphExecMemsetNodeSetParams(exec, kernel, &set, contract_current()));
    GIVES(INVALID_VALUE, cuGraphExecMemsetNodeSetParams(exec, node, NULL, contract_current()));
    GIVES(INVALID_VALUE, cuGraphExecMemsetNodeSetParams(NULL, node, &set, contract_current()));
    graph_end(NULL, exec);
    graph_bench_end(&bench);
}

CASE_BODY(set_copy)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_deviceptr word = bench.memory.address;
    tn_cu_memcpy3d got;
    tn_cu_graphnode node = graph_copy(bench.graph, NULL, word + 64, word, 4);
    tn_cu_graphnode kernel = graph_fill(bench.graph, NULL, word + 1024, 9, 1);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    tn_cu_memcpy3d copy = graph_copy_params(word + 128, word, 2);
    SET_UP(cuMemsetD32Async(word, 5, 4, bench.stream));
    GIVES(SUCCESS, cuGraphExecMemcpyNodeSetParams(exec, node, &copy, contract_current()));
    graph_run(exec, bench.stream);
    STATE("the words are %u and %u %u %u", contract_word(word, 16), contract_word(word, 32),
          contract_word(word, 33), contract_word(word, 34));
    GIVES(SUCCESS, cuGraphMemcpyNodeGetParams(node, &got));
    HOLDS(got.dst_device == word + 64, "the template is as it was");
    copy.height = 2;
    copy.src_pitch = copy.dst_pitch = 64;
    GIVES(INVALID_VALUE, cuGraphExecMemcpyNodeSetParams(exec, node, &copy, contract_current()));
    copy = graph_copy_params(word + 128, word, 2);
    GIVES(INVALID_VALUE, cuGraphExecMemcpyNodeSetParams(exec, kernel, &copy, contract_current()));
    GIVES(INVALID_VALUE, cuGraphExecMemcpyNodeSetParams(exec, node, NULL, contract_current()));
    GIVES(INVALID_VALUE, cuGraphExecMemcpyNodeSetParams(NULL, node, &copy, contract_current()));
    graph_end(NULL, exec);
    graph_bench_end(&bench);
}

CASE_BODY(set_in_child)
{
    struct graph_bench bench = graph_bench_begin();
    struct graph_words words;
    tn_cu_graph inner = graph_new();
    tn_cu_graph embedded = NULL;
    tn_cu_graphnode node = NULL;
    tn_cu_deviceptr word = bench.memory.address;
    tn_cu_graphnode original = graph_fill(inner, NULL, word, 5, 1);
    SET_UP(cuGraphAddChildGraphNode(&node, bench.graph, NULL, 0, inner));
    SET_UP(cuGraphChildGraphNodeGetGraph(node, &embedded));
    tn_cu_graphexec exec = graph_exec(bench.graph);
    tn_cu_kernel_node_params params = graph_fill_params(&words, word, 6, 1);
    GIVES(SUCCESS, cuGraphExecKernelNodeSetParams(exec, graph_node(embedded, 0), &params));
    graph_run(exec, bench.stream);
    STATE("the word is %u", contract_word(word, 0));
    GIVES(INVALID_VALUE, cuGraphExecKernelNodeSetParams(exec, original, &params));
    graph_end(inner, exec);
    graph_bench_end(&bench);
}

/* Two launches wait behind a held kernel; what is changed between them is the second one's. */
CASE_BODY(set_between_launches)
{
    struct graph_bench bench = graph_bench_begin();
    struct graph_words words;
    tn_cu_deviceptr word = bench.memory.address;
    tn_cu_graphnode add = graph_add(bench.graph, NULL, word, 1);
    tn_cu_graphnode set = graph_set(bench.graph, add, word + 64, 5, 1);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    struct contract_busy busy = contract_busy_begin();
    SET_UP(cuStreamWaitEvent(bench.stream, busy.done, 0));
    GIVES(SUCCESS, cuGraphLaunch(exec, bench.stream));
    tn_cu_kernel_node_params params = graph_add_params(&words, word, 10);
    GIVES(SUCCESS, cuGraphExecKernelNodeSetParams(exec, add, &params));
    GIVES(SUCCESS, cuGraphNodeSetEnabled(exec, set, 0));
    GIVES(SUCCESS, cuGraphLaunch(exec, bench.stream));
    HOLDS(contract_busy_runs(&busy), "nothing waited");
    contract_busy_end(&busy);
    GIVES(SUCCESS, cuStreamSynchronize(bench.stream));
    STATE("the words are %u and %u", contract_word(word, 0), contract_word(word + 64, 0));
    graph_end(NULL, exec);
    graph_bench_end(&bench);
}

/* A node between host and device cannot become one between device and device. */
CASE_BODY(set_copy_kind)
{
    struct graph_bench bench = graph_bench_begin();
    uint32_t *host = graph_flag();
    tn_cu_deviceptr word = bench.memory.address;
    tn_cu_graphnode node = graph_copy(bench.graph, NULL, word + 64, word, 1);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    tn_cu_memcpy3d copy = graph_copy_params(word + 64, 0, 1);
    copy.src_type = TN_CU_MEMORYTYPE_HOST;
    copy.src_host = host;
    GIVES(INVALID_VALUE, cuGraphExecMemcpyNodeSetParams(exec, node, &copy, contract_current()));
    graph_end(NULL, exec);
    SET_UP(cuMemFreeHost(host));
    graph_bench_end(&bench);
}

/* -- Switching nodes off -- */

CASE_BODY(enabled)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_deviceptr word = bench.memory.address;
    unsigned int on = 9;
    tn_cu_graphnode set = graph_set(bench.graph, NULL, word, 5, 1);
    tn_cu_graphnode add = graph_add(bench.graph, set, word, 1);
    tn_cu_graphnode copy = graph_copy(bench.graph, add, word + 64, word, 1);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    GIVES(SUCCESS, cuGraphNodeGetEnabled(exec, add, &on));
    HOLDS(on == 1, "nodes begin enabled");
    GIVES(SUCCESS, cuGraphNodeSetEnabled(exec, add, 0));
    GIVES(SUCCESS, cuGraphNodeGetEnabled(exec, add, &on));
    HOLDS(on == 0, "it is disabled");
    graph_run(exec, bench.stream);
    STATE("without the add %u", contract_word(word + 64, 0));
    GIVES(SUCCESS, cuGraphNodeSetEnabled(exec, add, 1));
    GIVES(SUCCESS, cuGraphNodeSetEnabled(exec, set, 0));
    graph_run(exec, bench.stream);
    STATE("without the set %u", contract_word(word + 64, 0));
    GIVES(SUCCESS, cuGraphNodeSetEnabled(exec, copy, 0));
    graph_run(exec, bench.stream);
    STATE("without the copy %u", contract_word(word + 64, 0));
    GIVES(SUCCESS, cuGraphNodeSetEnabled(exec, copy, 7));
    GIVES(SUCCESS, cuGraphNodeGetEnabled(exec, copy, &on));
    STATE("enabled by 7: %u", on);
    graph_end(NULL, exec);
    graph_bench_end(&bench);
}

CASE_BODY(enabled_errors)
{
    struct graph_bench bench = graph_bench_begin();
    unsigned int on = 9;
    int calls = 0;
    tn_cu_graphnode empty_node = graph_empty(bench.graph, NULL);
    tn_cu_graphnode host = graph_host(bench.graph, NULL, graph_count_up, &calls);
    tn_cu_graphnode add = graph_add(bench.graph, NULL, bench.memory.address, 1);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    GIVES(INVALID_VALUE, cuGraphNodeSetEnabled(exec, empty_node, 0));
    GIVES(INVALID_VALUE, cuGraphNodeSetEnabled(exec, host, 0));
    GIVES(INVALID_VALUE, cuGraphNodeGetEnabled(exec, host, &on));
    GIVES(INVALID_VALUE, cuGraphNodeSetEnabled(NULL, add, 0));
    GIVES(INVALID_VALUE, cuGraphNodeSetEnabled(exec, NULL, 0));
    GIVES(INVALID_VALUE, cuGraphNodeGetEnabled(exec, add, NULL));
    GIVES(INVALID_VALUE, cuGraphNodeGetEnabled(exec, graph_empty(bench.graph, NULL), &on));
    graph_end(NULL, exec);
    graph_bench_end(&bench);
}

static const uint64_t no_flags = 0;
static const uint64_t auto_free = TN_CU_GRAPH_INSTANTIATE_AUTO_FREE_ON_LAUNCH;
static const uint64_t priority = TN_CU_GRAPH_INSTANTIATE_USE_NODE_PRIORITY;
static const uint64_t device_launch = TN_CU_GRAPH_INSTANTIATE_DEVICE_LAUNCH;

static const struct contract_case cases[] = {
    CASE("instantiate-errors", "Instantiating needs a graph and flags that exist.",
         instantiate_errors),
    CASE("instantiate-upload-flag", "Uploading is no flag of cuGraphInstantiateWithFlags.",
         instantiate_upload_flag),
    {"flags-0", "An executable graph tells its flags.", flags, &no_flags, false},
    {"flags-auto-free", "An executable graph tells its flags.", flags, &auto_free, false},
    {"flags-priority", "An executable graph tells its flags.", flags, &priority, false},
    {"flags-device-launch", "An executable graph tells its flags.", flags, &device_launch, false},
    CASE("flags-errors", "Flags are asked of an executable graph.", flags_errors),
    CASE("with-params", "Instantiating with parameters tells the result and can upload.",
         with_params),
    CASE("with-params-failing", "Instantiating with parameters tells what failed.",
         with_params_failing),
    CASE("empty", "An empty graph is instantiated and launched.", empty),
    CASE("snapshot", "What happens to the template later does not matter.", snapshot),
    CASE("launch-errors", "A launch needs an executable graph.", launch_errors),
    CASE("special-streams", "Graphs are launched on default streams too.", special_streams),
    CASE("upload", "An upload runs nothing.", upload),
    CASE("order", "Nodes run in the order of their edges, not of their making.", order),
    CASE("branches", "Branches of a graph run side by side.", branches),
    CASE("host-each-time", "A host function runs at every launch.", host_each_time),
    CASE("event-nodes", "A node records its event at every launch, even a destroyed one.",
         event_nodes),
    CASE("serial", "Launches of one executable graph never overlap.", serial),
    CASE("destroy-in-flight", "A launch under way outlives its graph.", destroy_in_flight),
    CASE("destroy-unmapped", "Graphs are destroyed while their memory is away.", destroy_unmapped),
    CASE("set-kernel", "A kernel's parameters change in the executable graph alone.", set_kernel),
    CASE("set-later-node", "Only nodes that were instantiated can be changed.", set_later_node),
    CASE("set-set", "A set's parameters change in the executable graph alone.", set_set),
    CASE("set-copy", "A copy's parameters change in the executable graph alone.", set_copy),
    CASE("set-in-child", "A node of a graph in the graph is named by its embedded clone.",
         set_in_child),
    CASE("set-between-launches", "A change is for later launches alone.", set_between_launches),
    CASE("set-copy-kind", "A copy keeps its kinds of memory.", set_copy_kind),
    CASE("enabled", "Kernels, sets and copies can be switched off.", enabled),
    CASE("enabled-errors", "Other nodes cannot be switched off.", enabled_errors),
};
const struct contract_group contract_exec = CONTRACT_GROUP("exec", START_CONTEXT, cases);
