// SPDX-License-Identifier: Apache-2.0
/* graph_nodes.c -- the parameters of nodes: given, read back, and what later changes to the
 * program's own copies do to them (graph_nothing). */
#include "contract/graph_tools.h"

#include <string.h>

static void begin(const struct graph_bench *bench)
{
    SET_UP(cuStreamBeginCapture(bench->stream, TN_CU_CAPTURE_MODE_RELAXED));
}

/* Ends a capture, whose graph takes the place of the bench's. */
static void end(struct graph_bench *bench)
{
    SET_UP(cuGraphDestroy(bench->graph));
    bench->graph = NULL;
    SET_UP(cuStreamEndCapture(bench->stream, &bench->graph));
}

/* -- Kernels -- */

CASE_BODY(kernel)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_kernel_node_params params;
    uint32_t value = 5;
    uint32_t count = 9;
    void *arguments[] = {&bench.memory.address, &value, &count};
    begin(&bench);
    GIVES(SUCCESS, cuLaunchKernel(contract_kernels()->fill, 2, 1, 1, 64, 1, 1, 16, bench.stream,
                                  arguments, NULL));
    end(&bench);
    memset(&params, 0xAB, sizeof params);
    GIVES(SUCCESS, cuGraphKernelNodeGetParams(graph_node(bench.graph, 0), &params));
    HOLDS(params.func == contract_kernels()->fill, "the function");
    HOLDS(params.kern == NULL, "no CUkernel");
    HOLDS(params.ctx == contract_current(), "the context");
    STATE("grid %u %u %u, block %u %u %u, %u bytes shared", params.grid_x, params.grid_y,
          params.grid_z, params.block_x, params.block_y, params.block_z, params.shared_bytes);
    HOLDS(params.extra == NULL && params.kernel_params != NULL, "separate parameters");
    HOLDS(memcmp(params.kernel_params[0], &bench.memory.address, 8) == 0 &&
              *(uint32_t *)params.kernel_params[1] == 5 &&
              *(uint32_t *)params.kernel_params[2] == 9,
          "their values");
    HOLDS(params.kernel_params[1] != (void *)&value, "in memory of the node's own");
    graph_bench_end(&bench);
}

/* fill's arguments packed. */
struct packed_fill {
    tn_cu_deviceptr address;
    uint32_t value;
    uint32_t count;
};

CASE_BODY(kernel_extra)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_kernel_node_params params;
    struct packed_fill packed = {bench.memory.address, 5, 9};
    struct packed_fill got;
    size_t bytes = sizeof packed;
    void *extra[] = {TN_CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, TN_CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, TN_CU_LAUNCH_PARAM_END};
    begin(&bench);
    GIVES(SUCCESS, cuLaunchKernel(contract_kernels()->fill, 1, 1, 1, 32, 1, 1, 0, bench.stream,
                                  NULL, extra));
    end(&bench);
    GIVES(SUCCESS, cuGraphKernelNodeGetParams(graph_node(bench.graph, 0), &params));
    if (params.extra == NULL)
        contract_give_up("no packed parameters");
    HOLDS(params.kernel_params == NULL, "packed parameters");
    HOLDS(params.extra[0] == TN_CU_LAUNCH_PARAM_BUFFER_SIZE &&
              params.extra[2] == TN_CU_LAUNCH_PARAM_BUFFER_POINTER &&
              params.extra[4] == TN_CU_LAUNCH_PARAM_END,
          "size, buffer, end");
    STATE("%zu bytes", *(size_t *)params.extra[1]);
    memcpy(&got, params.extra[3], sizeof got);
    HOLDS(params.extra[3] != (void *)&packed, "in memory of the node's own");
    HOLDS(memcmp(&got, &packed, sizeof got) == 0, "their values");
    graph_bench_end(&bench);
}

CASE_BODY(kernel_parameterless)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_kernel_node_params params;
    begin(&bench);
    GIVES(SUCCESS,
          cuLaunchKernel(contract_kernels()->empty, 1, 1, 1, 1, 1, 1, 0, bench.stream, NULL, NULL));
    end(&bench);
    GIVES(SUCCESS, cuGraphKernelNodeGetParams(graph_node(bench.graph, 0), &params));
    HOLDS(params.kernel_params == NULL && params.extra == NULL, "no parameters of either form");
    graph_bench_end(&bench);
}

/* What the program does with its variables after the call does not matter. */
CASE_BODY(kernel_values_kept)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_function fill = contract_kernels()->fill;
    tn_cu_deviceptr first = bench.memory.address;
    tn_cu_deviceptr second = bench.memory.address + 4096;
    uint32_t value = 5;
    uint32_t count = 9;
    void *arguments[] = {&first, &value, &count};
    struct packed_fill packed = {second, 6, 9};
    size_t bytes = sizeof packed;
    void *extra[] = {TN_CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, TN_CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, TN_CU_LAUNCH_PARAM_END};
    begin(&bench);
    GIVES(SUCCESS, cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, bench.stream, arguments, NULL));
    GIVES(SUCCESS, cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, bench.stream, NULL, extra));
    first = packed.address = 0;
    value = packed.value = 77;
    count = packed.count = 0;
    bytes = 0;
    end(&bench);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    graph_run(exec, bench.stream);
    STATE("the words are %u and %u", contract_word(bench.memory.address, 8),
          contract_word(second, 8));
    graph_end(NULL, exec);
    graph_bench_end(&bench);
}

CASE_BODY(kernel_set)
{
    struct graph_bench bench = graph_bench_begin();
    struct graph_words words;
    tn_cu_deviceptr word = bench.memory.address;
    tn_cu_graphnode node = graph_fill(bench.graph, NULL, word, 5, 1);
    tn_cu_graphexec before = graph_exec(bench.graph);
    tn_cu_kernel_node_params params = graph_fill_params(&words, word, 6, 1);
    GIVES(SUCCESS, cuGraphKernelNodeSetParams(node, &params));
    words.value = 77;
    tn_cu_graphexec after = graph_exec(bench.graph);
    graph_run(before, bench.stream);
    STATE("instantiated before: %u", contract_word(word, 0));
    graph_run(after, bench.stream);
    STATE("instantiated after: %u", contract_word(word, 0));
    params = graph_add_params(&words, word, 3);
    GIVES(SUCCESS, cuGraphKernelNodeSetParams(node, &params));
    GIVES(SUCCESS, cuGraphKernelNodeGetParams(node, &params));
    HOLDS(params.func == contract_kernels()->add, "another function can take its place");
    GIVES(INVALID_VALUE, cuGraphKernelNodeSetParams(node, NULL));
    GIVES(INVALID_VALUE, cuGraphKernelNodeSetParams(NULL, &params));
    GIVES(INVALID_VALUE, cuGraphKernelNodeSetParams(graph_empty(bench.graph, NULL), &params));
    graph_end(NULL, before);
    graph_end(NULL, after);
    graph_bench_end(&bench);
}

CASE_BODY(kernel_errors)
{
    struct graph_bench bench = graph_bench_begin();
    struct graph_words words;
    tn_cu_graphnode node = NULL;
    struct packed_fill packed = {bench.memory.address, 7, 1};
    size_t bytes = sizeof packed;
    void *extra[] = {TN_CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, TN_CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, TN_CU_LAUNCH_PARAM_END};
    tn_cu_kernel_node_params good = graph_fill_params(&words, bench.memory.address, 6, 1);
    tn_cu_kernel_node_params bad = good;
    bad.func = NULL;
    GIVES(INVALID_HANDLE, cuGraphAddKernelNode(&node, bench.graph, NULL, 0, &bad));
    bad = good;
    bad.block_x = 4096;
    GIVES(INVALID_VALUE, cuGraphAddKernelNode(&node, bench.graph, NULL, 0, &bad));
    bad = good;
    bad.grid_y = 0;
    GIVES(INVALID_VALUE, cuGraphAddKernelNode(&node, bench.graph, NULL, 0, &bad));
    bad = good;
    bad.extra = extra;
    GIVES(INVALID_VALUE, cuGraphAddKernelNode(&node, bench.graph, NULL, 0, &bad));
    bad = good;
    bad.kernel_params = NULL;
    GIVES(INVALID_VALUE, cuGraphAddKernelNode(&node, bench.graph, NULL, 0, &bad));
    GIVES(INVALID_VALUE, cuGraphAddKernelNode(&node, bench.graph, NULL, 0, NULL));
    GIVES(INVALID_VALUE, cuGraphAddKernelNode(NULL, bench.graph, NULL, 0, &good));
    GIVES(INVALID_VALUE, cuGraphAddKernelNode(&node, NULL, NULL, 0, &good));
    STATE("%zu nodes", graph_node_count(bench.graph));
    graph_bench_end(&bench);
}

/* -- Sets -- */

static void show_set(tn_cu_graph graph, size_t index, tn_cu_deviceptr base)
{
    tn_cu_memset_node_params params;
    memset(&params, 0xAB, sizeof params);
    GIVES(SUCCESS, cuGraphMemsetNodeGetParams(graph_node(graph, index), &params));
    STATE("to +%llu, %u, %u bytes each, width %zu, height %zu, pitch %zu", params.dst - base,
          params.value, params.element_bytes, params.width, params.height, params.pitch);
}

CASE_BODY(set_captured)
{
    struct graph_bench bench = graph_bench_begin();
    begin(&bench);
    GIVES(SUCCESS, cuMemsetD8Async(bench.memory.address + 3, 0xAB, 1000, bench.stream));
    GIVES(SUCCESS, cuMemsetD32Async(bench.memory.address + 4, 70000, 1000, bench.stream));
    GIVES(SUCCESS, cuMemsetD32Async(bench.memory.address, 1, 0, bench.stream));
    end(&bench);
    STATE("%zu nodes", graph_node_count(bench.graph));
    show_set(bench.graph, 0, bench.memory.address);
    show_set(bench.graph, 1, bench.memory.address);
    graph_bench_end(&bench);
}

static tn_cu_node_params set_node(tn_cu_memset_node_params set)
{
    return (tn_cu_node_params){
        .type = TN_CU_NODE_MEMSET,
        .memset = {.set = set, .ctx = contract_current()},
    };
}

CASE_BODY(set_by_hand)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graphnode node = NULL;
    tn_cu_deviceptr base = bench.memory.address;
    tn_cu_memset_node_params set = graph_set_params(base, 7, 3);
    set.pitch = 512;
    set.height = 2;
    tn_cu_node_params params = set_node(set);
    GIVES(SUCCESS, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &params));
    show_set(bench.graph, 0, base);
    set = graph_set_params(base + 1024, 0x1234, 5);
    set.element_bytes = 2;
    params = set_node(set);
    GIVES(SUCCESS, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &params));
    show_set(bench.graph, 1, base);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    graph_run(exec, bench.stream);
    STATE("row 0 is %u %u %u %u, row 1 is %u %u %u %u", contract_word(base, 0),
          contract_word(base, 1), contract_word(base, 2), contract_word(base, 3),
          contract_word(base + 512, 0), contract_word(base + 512, 1), contract_word(base + 512, 2),
          contract_word(base + 512, 3));
    STATE("halves are %x %x", contract_word(base + 1024, 1), contract_word(base + 1024, 2));
    graph_end(NULL, exec);
    graph_bench_end(&bench);
}

CASE_BODY(set_errors)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graphnode node = NULL;
    tn_cu_memset_node_params good = graph_set_params(bench.memory.address, 7, 3);
    tn_cu_memset_node_params bad = good;
    bad.element_bytes = 3;
    tn_cu_node_params params = set_node(bad);
    GIVES(INVALID_VALUE, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &params));
    bad = good;
    bad.height = 2;
    params = set_node(bad); /* rows that overlap */
    GIVES(INVALID_VALUE, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &params));
    bad = good;
    bad.dst += 1;
    params = set_node(bad);
    GIVES(INVALID_VALUE, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &params));
    params = set_node(good);
    params.memset.ctx = NULL;
    GIVES(INVALID_VALUE, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &params));
    STATE("%zu nodes", graph_node_count(bench.graph));
    graph_bench_end(&bench);
}

CASE_BODY(set_empty)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graphnode node = NULL;
    tn_cu_node_params params = set_node(graph_set_params(bench.memory.address, 7, 0));
    GIVES(INVALID_VALUE, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &params));
    STATE("%zu nodes", graph_node_count(bench.graph));
    graph_bench_end(&bench);
}

/* -- Copies -- */

/* Which of a case's addresses this is, in words. */
struct places {
    tn_cu_deviceptr device;
    const void *host;
};

static const char *place(const struct places *places, tn_cu_deviceptr address)
{
    if (address == 0)
        return "none";
    if (address == places->device)
        return "first";
    if (address == places->device + 4096)
        return "second";
    return address == (uintptr_t)places->host ? "host" : "another";
}

static void show_copy(tn_cu_graph graph, size_t index, const struct places *places)
{
    tn_cu_memcpy3d copy;
    memset(&copy, 0xAB, sizeof copy);
    GIVES(SUCCESS, cuGraphMemcpyNodeGetParams(graph_node(graph, index), &copy));
    STATE("from type %d, host %s, device %s", copy.src_type,
          copy.src_type == TN_CU_MEMORYTYPE_HOST ? place(places, (uintptr_t)copy.src_host) : "-",
          copy.src_type != TN_CU_MEMORYTYPE_HOST ? place(places, copy.src_device) : "-");
    STATE("to type %d, host %s, device %s", copy.dst_type,
          copy.dst_type == TN_CU_MEMORYTYPE_HOST ? place(places, (uintptr_t)copy.dst_host) : "-",
          copy.dst_type != TN_CU_MEMORYTYPE_HOST ? place(places, copy.dst_device) : "-");
    STATE("%zu x %zu x %zu at %zu %zu %zu and %zu %zu %zu", copy.width, copy.height, copy.depth,
          copy.src_x, copy.src_y, copy.src_z, copy.dst_x, copy.dst_y, copy.dst_z);
    STATE("pitch %zu and %zu, height %zu and %zu", copy.src_pitch, copy.dst_pitch, copy.src_height,
          copy.dst_height);
}

/* The kinds of calls that capture makes copies of. */
enum copy_call { COPY_HTOD, COPY_DTOH, COPY_DTOD, COPY_ANY_HTOD, COPY_ANY_DTOD };

static void copy_captured(const void *argument)
{
    const enum copy_call *call = argument;
    struct graph_bench bench = graph_bench_begin();
    uint32_t *host = graph_flag();
    struct places places = {bench.memory.address, host};
    tn_cu_deviceptr second = bench.memory.address + 4096;
    begin(&bench);
    switch (*call) {
    case COPY_HTOD:
        GIVES(SUCCESS, cuMemcpyHtoDAsync(places.device, host, 4, bench.stream));
        break;
    case COPY_DTOH:
        GIVES(SUCCESS, cuMemcpyDtoHAsync(host, places.device, 4, bench.stream));
        break;
    case COPY_DTOD:
        GIVES(SUCCESS, cuMemcpyDtoDAsync(second, places.device, 4, bench.stream));
        break;
    case COPY_ANY_HTOD:
        GIVES(SUCCESS, cuMemcpyAsync(places.device, (uintptr_t)host, 4, bench.stream));
        break;
    case COPY_ANY_DTOD:
        GIVES(SUCCESS, cuMemcpyAsync(second, places.device, 4, bench.stream));
        break;
    }
    end(&bench);
    show_copy(bench.graph, 0, &places);
    graph_bench_end(&bench);
    SET_UP(cuMemFreeHost(host));
}

static const enum copy_call htod = COPY_HTOD;
static const enum copy_call dtoh = COPY_DTOH;
static const enum copy_call dtod = COPY_DTOD;
static const enum copy_call any_htod = COPY_ANY_HTOD;
static const enum copy_call any_dtod = COPY_ANY_DTOD;

static tn_cu_node_params copy_node(tn_cu_memcpy3d copy)
{
    return (tn_cu_node_params){
        .type = TN_CU_NODE_MEMCPY,
        .memcpy = {.ctx = contract_current(), .copy = copy},
    };
}

CASE_BODY(copy_by_hand)
{
    struct graph_bench bench = graph_bench_begin();
    struct places places = {bench.memory.address, NULL};
    tn_cu_graphnode node = NULL;
    tn_cu_deviceptr to = bench.memory.address + 4096;
    tn_cu_memcpy3d copy = graph_copy_params(to, bench.memory.address, 3);
    copy.src_pitch = 64;
    copy.dst_pitch = 32;
    copy.height = 2;
    tn_cu_node_params params = copy_node(copy);
    GIVES(SUCCESS, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &params));
    show_copy(bench.graph, 0, &places);
    SET_UP(cuMemsetD32Async(bench.memory.address, 5, 64, bench.stream));
    tn_cu_graphexec exec = graph_exec(bench.graph);
    graph_run(exec, bench.stream);
    STATE("row 0 is %u %u %u %u, row 1 is %u %u %u %u", contract_word(to, 0), contract_word(to, 1),
          contract_word(to, 2), contract_word(to, 3), contract_word(to, 8), contract_word(to, 9),
          contract_word(to, 10), contract_word(to, 11));
    graph_end(NULL, exec);
    graph_bench_end(&bench);
}

CASE_BODY(copy_errors)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graphnode node = NULL;
    tn_cu_deviceptr to = bench.memory.address + 4096;
    tn_cu_memcpy3d good = graph_copy_params(to, bench.memory.address, 3);
    tn_cu_memcpy3d bad = good;
    bad.height = 0;
    tn_cu_node_params params = copy_node(bad);
    GIVES(INVALID_VALUE, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &params));
    bad = good;
    bad.src_pitch = 4; /* less than a row */
    bad.height = 2;
    params = copy_node(bad);
    GIVES(INVALID_VALUE, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &params));
    params = copy_node(good);
    params.memcpy.ctx = NULL;
    GIVES(SUCCESS, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &params));
    STATE("%zu nodes", graph_node_count(bench.graph));
    graph_bench_end(&bench);
}

/* -- The others -- */

CASE_BODY(host)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_host_node_params params = {0};
    int user = 0;
    begin(&bench);
    GIVES(SUCCESS, cuLaunchHostFunc(bench.stream, graph_nothing, &user));
    end(&bench);
    GIVES(SUCCESS, cuGraphHostNodeGetParams(graph_node(bench.graph, 0), &params));
    HOLDS(params.function == graph_nothing && params.user == &user,
          "the function and its argument");
    graph_bench_end(&bench);
}

CASE_BODY(events)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_event event = contract_event();
    tn_cu_event got = NULL;
    tn_cu_graphnode node = NULL;
    tn_cu_node_params params = {.type = TN_CU_NODE_EVENT_RECORD, .event = event};
    GIVES(SUCCESS, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &params));
    GIVES(SUCCESS, cuGraphEventRecordNodeGetEvent(node, &got));
    HOLDS(got == event, "the event");
    GIVES(INVALID_VALUE, cuGraphEventWaitNodeGetEvent(node, &got));
    params.type = TN_CU_NODE_WAIT_EVENT;
    GIVES(SUCCESS, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &params));
    got = NULL;
    GIVES(SUCCESS, cuGraphEventWaitNodeGetEvent(node, &got));
    HOLDS(got == event, "the event");
    GIVES(INVALID_VALUE, cuGraphEventRecordNodeGetEvent(node, &got));
    params.event = NULL;
    GIVES(INVALID_VALUE, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &params));
    graph_bench_end(&bench);
    SET_UP(cuEventDestroy(event));
}

CASE_BODY(batch)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_batch_node_params params = {0};
    begin(&bench);
    GIVES(SUCCESS, cuStreamWriteValue32(bench.stream, bench.memory.address + 8, 77, 0));
    end(&bench);
    HOLDS(graph_type(graph_node(bench.graph, 0)) == TN_CU_NODE_BATCH_MEM_OP, "a node of type 12");
    GIVES(SUCCESS, cuGraphBatchMemOpNodeGetParams(graph_node(bench.graph, 0), &params));
    STATE("%u operations, flags %u", params.count, params.flags);
    HOLDS(params.ctx == contract_current(), "the context");
    if (params.count == 1) {
        STATE("operation %d, value %u, flags %u", params.ops[0].operation,
              (unsigned int)params.ops[0].value.value, params.ops[0].value.flags);
        HOLDS(params.ops[0].value.address == bench.memory.address + 8, "the address");
    }
    tn_cu_graphexec exec = graph_exec(bench.graph);
    graph_run(exec, bench.stream);
    STATE("the word is %u", contract_word(bench.memory.address, 2));
    graph_end(NULL, exec);
    graph_bench_end(&bench);
}

/* Asks for every kind of parameters. None is given. */
static void ask_for_all(tn_cu_graphnode node)
{
    tn_cu_kernel_node_params kernel_params;
    tn_cu_memcpy3d copy;
    tn_cu_memset_node_params set;
    tn_cu_host_node_params host_params;
    tn_cu_event event;
    tn_cu_alloc_node_params alloc;
    tn_cu_deviceptr address;
    tn_cu_batch_node_params ops;
    GIVES(INVALID_VALUE, cuGraphKernelNodeGetParams(node, &kernel_params));
    GIVES(INVALID_VALUE, cuGraphMemcpyNodeGetParams(node, &copy));
    GIVES(INVALID_VALUE, cuGraphMemsetNodeGetParams(node, &set));
    GIVES(INVALID_VALUE, cuGraphHostNodeGetParams(node, &host_params));
    GIVES(INVALID_VALUE, cuGraphEventRecordNodeGetEvent(node, &event));
    GIVES(INVALID_VALUE, cuGraphEventWaitNodeGetEvent(node, &event));
    GIVES(INVALID_VALUE, cuGraphMemAllocNodeGetParams(node, &alloc));
    GIVES(INVALID_VALUE, cuGraphMemFreeNodeGetParams(node, &address));
    GIVES(INVALID_VALUE, cuGraphBatchMemOpNodeGetParams(node, &ops));
}

CASE_BODY(wrong_type)
{
    struct graph_bench bench = graph_bench_begin();
    ask_for_all(graph_empty(bench.graph, NULL));
    graph_bench_end(&bench);
}

CASE_BODY(no_node)
{
    ask_for_all(NULL);
}

CASE_BODY(no_answer)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_deviceptr word = bench.memory.address;
    tn_cu_graphnode node = graph_fill(bench.graph, NULL, word, 1, 1);
    GIVES(INVALID_VALUE, cuGraphKernelNodeGetParams(node, NULL));
    node = graph_copy(bench.graph, NULL, word + 64, word, 1);
    GIVES(INVALID_VALUE, cuGraphMemcpyNodeGetParams(node, NULL));
    node = graph_set(bench.graph, NULL, word, 1, 1);
    GIVES(INVALID_VALUE, cuGraphMemsetNodeGetParams(node, NULL));
    node = graph_host(bench.graph, NULL, graph_nothing, NULL);
    GIVES(INVALID_VALUE, cuGraphHostNodeGetParams(node, NULL));
    graph_bench_end(&bench);
}

CASE_BODY(add_node_errors)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graphnode node = NULL;
    tn_cu_node_params params = {.type = TN_CU_NODE_EMPTY};
    GIVES(SUCCESS, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &params));
    GIVES(INVALID_VALUE, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, NULL));
    GIVES(INVALID_VALUE, cuGraphAddNode(NULL, bench.graph, NULL, NULL, 0, &params));
    GIVES(INVALID_VALUE, cuGraphAddNode(&node, NULL, NULL, NULL, 0, &params));
    GIVES(INVALID_VALUE, cuGraphAddNode(&node, bench.graph, NULL, NULL, 1, &params));
    params.type = 99;
    GIVES(INVALID_VALUE, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &params));
    params = (tn_cu_node_params){.type = TN_CU_NODE_EMPTY, .reserved0 = {1}};
    GIVES(INVALID_VALUE, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &params));
    params = (tn_cu_node_params){.type = TN_CU_NODE_EMPTY, .reserved2 = 1};
    GIVES(INVALID_VALUE, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &params));
    params = (tn_cu_node_params){.type = TN_CU_NODE_HOST};
    GIVES(INVALID_VALUE, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &params));
    STATE("%zu nodes", graph_node_count(bench.graph));
    graph_bench_end(&bench);
}

static const struct contract_case cases[] = {
    CASE("kernel", "A captured kernel is read back with separate parameters.", kernel),
    CASE("kernel-extra", "A kernel launched with packed parameters is read back packed.",
         kernel_extra),
    CASE("kernel-parameterless", "A kernel without parameters has neither form.",
         kernel_parameterless),
    CASE("kernel-values-kept", "Capture takes the values of a kernel's parameters.",
         kernel_values_kept),
    CASE("kernel-set", "A node's parameters can be set; what was instantiated keeps its own.",
         kernel_set),
    CASE("kernel-errors", "A kernel node needs a function, a shape and one form of parameters.",
         kernel_errors),
    CASE("set-captured", "Captured sets are read back in elements.", set_captured),
    CASE("set-by-hand", "A set has rows and a pitch.", set_by_hand),
    CASE("set-errors", "A set's elements, rows and address are checked when it is added.",
         set_errors),
    CASE("set-empty", "A set of no elements is refused.", set_empty),
    {"copy-htod", "cuMemcpyHtoDAsync makes a node from host to device.", copy_captured, &htod,
     false},
    {"copy-dtoh", "cuMemcpyDtoHAsync makes a node from device to host.", copy_captured, &dtoh,
     false},
    {"copy-dtod", "cuMemcpyDtoDAsync makes a node from device to device.", copy_captured, &dtod,
     false},
    {"copy-any-htod", "cuMemcpyAsync makes a node with both addresses as unified.", copy_captured,
     &any_htod, false},
    {"copy-any-dtod", "cuMemcpyAsync between device addresses does so too.", copy_captured,
     &any_dtod, false},
    CASE("copy-by-hand", "A copy has rows and pitches.", copy_by_hand),
    CASE("copy-errors", "A copy's shape is checked when it is added.", copy_errors),
    CASE("host", "A captured host function is read back.", host),
    CASE("events", "Nodes that record and wait tell their event.", events),
    CASE("batch", "A captured write of a value is read back as a batch.", batch),
    CASE("wrong-type", "Parameters of a node are asked for by its type.", wrong_type),
    CASE("no-node", "Parameters are asked of a node.", no_node),
    CASE("no-answer", "Parameters need a place.", no_answer),
    CASE("add-node-errors", "A node's parameters have a known type and zeros where reserved.",
         add_node_errors),
};
const struct contract_group contract_graph_nodes =
    CONTRACT_GROUP("graph_nodes", START_CONTEXT, cases);
