// SPDX-License-Identifier: Apache-2.0
/* graph_memory.c -- memory that a graph allocates and frees itself. */
#include "contract/graph_tools.h"

#include <string.h>

#define BYTES ((size_t)4096)

static void trim(void)
{
    SET_UP(cuCtxSynchronize());
    SET_UP(cuDeviceGraphMemTrim(0));
}

static uint64_t attribute(tn_cu_graph_mem_attribute which)
{
    uint64_t value = 99;
    SET_UP(cuDeviceGetGraphMemAttribute(0, which, &value));
    return value;
}

static tn_cu_graphnode add_free(tn_cu_graph graph, tn_cu_graphnode after, tn_cu_deviceptr address)
{
    tn_cu_graphnode node;
    SET_UP(cuGraphAddMemFreeNode(&node, graph, &after, after == NULL ? 0 : 1, address));
    return node;
}

/* -- Adding nodes -- */

CASE_BODY(add)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graphnode node = NULL;
    tn_cu_alloc_node_params got;
    tn_cu_deviceptr freed = 0;
    tn_cu_alloc_node_params params = graph_alloc_params(BYTES);
    GIVES(SUCCESS, cuGraphAddMemAllocNode(&node, bench.graph, NULL, 0, &params));
    HOLDS(params.address != 0, "the address is known at once");
    HOLDS(graph_type(node) == TN_CU_NODE_MEM_ALLOC, "a node of type 10");
    memset(&got, 0xAB, sizeof got);
    GIVES(SUCCESS, cuGraphMemAllocNodeGetParams(node, &got));
    HOLDS(got.address == params.address, "the address");
    STATE("%zu bytes, type %d, handle types %d, location %d of type %d, %zu accesses", got.bytes,
          got.pool_props.type, got.pool_props.handle_types, got.pool_props.location.id,
          got.pool_props.location.type, got.access_count);
    GIVES(SUCCESS, cuGraphAddMemFreeNode(&node, bench.graph, &node, 1, params.address));
    HOLDS(graph_type(node) == TN_CU_NODE_MEM_FREE, "a node of type 11");
    GIVES(SUCCESS, cuGraphMemFreeNodeGetParams(node, &freed));
    HOLDS(freed == params.address, "the address");
    graph_bench_end(&bench);
}

CASE_BODY(add_by_node)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graphnode node = NULL;
    tn_cu_node_params params = {.type = TN_CU_NODE_MEM_ALLOC, .alloc = graph_alloc_params(BYTES)};
    GIVES(SUCCESS, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &params));
    HOLDS(params.alloc.address != 0, "the address is known at once");
    tn_cu_node_params free_params = {
        .type = TN_CU_NODE_MEM_FREE,
        .free = params.alloc.address,
    };
    GIVES(SUCCESS, cuGraphAddNode(&node, bench.graph, &node, NULL, 1, &free_params));
    STATE("%zu nodes", graph_node_count(bench.graph));
    graph_bench_end(&bench);
}

CASE_BODY(add_errors)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graphnode node = NULL;
    tn_cu_alloc_node_params good = graph_alloc_params(BYTES);
    tn_cu_alloc_node_params bad = good;
    bad.bytes = 0;
    GIVES(INVALID_VALUE, cuGraphAddMemAllocNode(&node, bench.graph, NULL, 0, &bad));
    bad = good;
    bad.pool_props.type = 0;
    GIVES(INVALID_VALUE, cuGraphAddMemAllocNode(&node, bench.graph, NULL, 0, &bad));
    bad = good;
    bad.pool_props.location.type = 0;
    GIVES(INVALID_VALUE, cuGraphAddMemAllocNode(&node, bench.graph, NULL, 0, &bad));
    bad = good;
    bad.pool_props.location.id = 99;
    GIVES(INVALID_VALUE, cuGraphAddMemAllocNode(&node, bench.graph, NULL, 0, &bad));
    bad = good;
    bad.pool_props.handle_types = TN_CU_MEM_HANDLE_TYPE_POSIX_FD;
    GIVES(NOT_SUPPORTED, cuGraphAddMemAllocNode(&node, bench.graph, NULL, 0, &bad));
    GIVES(INVALID_VALUE, cuGraphAddMemAllocNode(&node, bench.graph, NULL, 0, NULL));
    GIVES(INVALID_VALUE, cuGraphAddMemAllocNode(NULL, bench.graph, NULL, 0, &good));
    GIVES(INVALID_VALUE, cuGraphAddMemAllocNode(&node, NULL, NULL, 0, &good));
    STATE("%zu nodes", graph_node_count(bench.graph));
    graph_bench_end(&bench);
}

CASE_BODY(free_errors)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_deviceptr address;
    tn_cu_deviceptr linear;
    tn_cu_graphnode node = NULL;
    SET_UP(cuMemAlloc(&linear, BYTES));
    tn_cu_graphnode alloc = graph_alloc(bench.graph, NULL, BYTES, &address);
    GIVES(INVALID_VALUE, cuGraphAddMemFreeNode(&node, bench.graph, &alloc, 1, 0));
    GIVES(INVALID_VALUE, cuGraphAddMemFreeNode(&node, bench.graph, &alloc, 1, linear));
    GIVES(INVALID_VALUE,
          cuGraphAddMemFreeNode(&node, bench.graph, &alloc, 1, bench.memory.address));
    GIVES(INVALID_VALUE, cuGraphAddMemFreeNode(NULL, bench.graph, &alloc, 1, address));
    GIVES(INVALID_VALUE, cuGraphAddMemFreeNode(&node, NULL, &alloc, 1, address));
    GIVES(SUCCESS, cuGraphAddMemFreeNode(&node, bench.graph, &alloc, 1, address));
    GIVES(INVALID_VALUE, cuGraphAddMemFreeNode(&node, bench.graph, &alloc, 1, address));
    STATE("%zu nodes", graph_node_count(bench.graph));
    SET_UP(cuMemFree(linear));
    graph_bench_end(&bench);
}

/* A free that is not ordered behind its allocation. */
CASE_BODY(free_unordered)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_deviceptr address;
    tn_cu_graphnode node = NULL;
    tn_cu_graphexec exec = NULL;
    graph_alloc(bench.graph, NULL, BYTES, &address);
    GIVES(SUCCESS, cuGraphAddMemFreeNode(&node, bench.graph, NULL, 0, address));
    GIVES(SUCCESS, cuGraphInstantiateWithFlags(&exec, bench.graph, 0));
    graph_end(NULL, exec);
    graph_bench_end(&bench);
}

/* -- Captured -- */

CASE_BODY(captured)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graph graph = NULL;
    tn_cu_deviceptr address = 0;
    tn_cu_deviceptr freed = 0;
    tn_cu_alloc_node_params got;
    SET_UP(cuStreamBeginCapture(bench.stream, TN_CU_CAPTURE_MODE_RELAXED));
    GIVES(SUCCESS, cuMemAllocAsync(&address, BYTES, bench.stream));
    GIVES(SUCCESS, cuMemsetD32Async(address, 5, BYTES / 4, bench.stream));
    GIVES(SUCCESS, cuMemcpyDtoDAsync(bench.memory.address, address, BYTES, bench.stream));
    GIVES(SUCCESS, cuMemFreeAsync(address, bench.stream));
    GIVES(SUCCESS, cuStreamEndCapture(bench.stream, &graph));
    STATE("types %d %d %d %d", graph_type(graph_node(graph, 0)), graph_type(graph_node(graph, 1)),
          graph_type(graph_node(graph, 2)), graph_type(graph_node(graph, 3)));
    GIVES(SUCCESS, cuGraphMemAllocNodeGetParams(graph_node(graph, 0), &got));
    HOLDS(got.address == address, "the address");
    STATE("%zu bytes, type %d, handle types %d, location %d of type %d, %zu accesses", got.bytes,
          got.pool_props.type, got.pool_props.handle_types, got.pool_props.location.id,
          got.pool_props.location.type, got.access_count);
    GIVES(SUCCESS, cuGraphMemFreeNodeGetParams(graph_node(graph, 3), &freed));
    HOLDS(freed == address, "the address");
    tn_cu_graphexec exec = graph_exec(graph);
    graph_run(exec, bench.stream);
    graph_run(exec, bench.stream);
    STATE("the last word is %u", contract_word(bench.memory.address, BYTES / 4 - 1));
    graph_end(graph, exec);
    graph_bench_end(&bench);
}

CASE_BODY(captured_from_pool)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graph graph = NULL;
    tn_cu_mempool pool = NULL;
    tn_cu_deviceptr address = 0;
    tn_cu_alloc_node_params got;
    tn_cu_pool_props props = graph_alloc_params(BYTES).pool_props;
    props.max_bytes = 64 * MIB;
    SET_UP(cuMemPoolCreate(&pool, &props));
    SET_UP(cuStreamBeginCapture(bench.stream, TN_CU_CAPTURE_MODE_RELAXED));
    GIVES(SUCCESS, cuMemAllocFromPoolAsync(&address, BYTES, pool, bench.stream));
    GIVES(SUCCESS, cuMemFreeAsync(address, bench.stream));
    GIVES(SUCCESS, cuStreamEndCapture(bench.stream, &graph));
    GIVES(SUCCESS, cuGraphMemAllocNodeGetParams(graph_node(graph, 0), &got));
    HOLDS(got.address == address, "the address");
    STATE("%zu bytes, type %d, handle types %d, location %d of type %d, %zu accesses, at most %zu",
          got.bytes, got.pool_props.type, got.pool_props.handle_types, got.pool_props.location.id,
          got.pool_props.location.type, got.access_count, got.pool_props.max_bytes);
    SET_UP(cuMemPoolDestroy(pool));
    tn_cu_graphexec exec = NULL;
    GIVES(SUCCESS, cuGraphInstantiateWithFlags(&exec, graph, 0));
    graph_run(exec, bench.stream);
    graph_end(graph, exec);
    graph_bench_end(&bench);
    trim();
}

/* -- Running -- */

/* A graph that allocates, writes and does not free. */
struct keeper {
    struct graph_bench bench;
    tn_cu_deviceptr address;
    tn_cu_graphexec exec;
};

static struct keeper keeper_begin(unsigned long long flags)
{
    struct keeper keeper = {.bench = graph_bench_begin()};
    tn_cu_graphnode node = graph_alloc(keeper.bench.graph, NULL, BYTES, &keeper.address);
    graph_fill(keeper.bench.graph, node, keeper.address, 5, 8);
    SET_UP(cuGraphInstantiateWithFlags(&keeper.exec, keeper.bench.graph, flags));
    return keeper;
}

static void keeper_end(struct keeper *keeper)
{
    graph_end(NULL, keeper->exec);
    graph_bench_end(&keeper->bench);
    trim();
}

CASE_BODY(before_launch)
{
    struct keeper keeper = keeper_begin(0);
    tn_cu_deviceptr base = 0;
    size_t bytes = 0;
    unsigned int type = 0;
    GIVES(INVALID_VALUE, cuPointerGetAttribute(&type, TN_CU_POINTER_MEMORY_TYPE, keeper.address));
    GIVES(NOT_FOUND, cuMemGetAddressRange(&base, &bytes, keeper.address));
    graph_run(keeper.exec, keeper.bench.stream);
    GIVES(SUCCESS, cuPointerGetAttribute(&type, TN_CU_POINTER_MEMORY_TYPE, keeper.address));
    STATE("type %u", type);
    GIVES(SUCCESS, cuPointerGetAttribute(&bytes, TN_CU_POINTER_RANGE_SIZE, keeper.address));
    STATE("%zu bytes", bytes);
    tn_cu_mempool pool = (tn_cu_mempool)&base;
    GIVES(SUCCESS, cuPointerGetAttribute(&pool, TN_CU_POINTER_MEMPOOL_HANDLE, keeper.address));
    HOLDS(pool == NULL, "of no pool");
    GIVES(SUCCESS, cuMemGetAddressRange(&base, &bytes, keeper.address));
    HOLDS(base == keeper.address, "it begins where it should");
    STATE("%zu bytes", bytes);
    GIVES(SUCCESS, cuMemFree(keeper.address));
    GIVES(INVALID_VALUE, cuPointerGetAttribute(&type, TN_CU_POINTER_MEMORY_TYPE, keeper.address));
    keeper_end(&keeper);
}

CASE_BODY(relaunch_unfreed)
{
    struct keeper keeper = keeper_begin(0);
    GIVES(SUCCESS, cuGraphLaunch(keeper.exec, keeper.bench.stream));
    GIVES(INVALID_VALUE, cuGraphLaunch(keeper.exec, keeper.bench.stream));
    SET_UP(cuStreamSynchronize(keeper.bench.stream));
    STATE("the word is %u", contract_word(keeper.address, 7));
    GIVES(INVALID_VALUE, cuGraphLaunch(keeper.exec, keeper.bench.stream));
    GIVES(SUCCESS, cuMemFreeAsync(keeper.address, keeper.bench.stream));
    GIVES(SUCCESS, cuGraphLaunch(keeper.exec, keeper.bench.stream));
    SET_UP(cuStreamSynchronize(keeper.bench.stream));
    STATE("at the same address %u", contract_word(keeper.address, 7));
    GIVES(SUCCESS, cuMemFree(keeper.address));
    GIVES(SUCCESS, cuGraphLaunch(keeper.exec, keeper.bench.stream));
    GIVES(SUCCESS, cuStreamSynchronize(keeper.bench.stream));
    GIVES(SUCCESS, cuMemFree(keeper.address));
    GIVES(INVALID_VALUE, cuMemFree(keeper.address));
    keeper_end(&keeper);
}

CASE_BODY(relaunch_auto_free)
{
    struct keeper keeper = keeper_begin(TN_CU_GRAPH_INSTANTIATE_AUTO_FREE_ON_LAUNCH);
    GIVES(SUCCESS, cuGraphLaunch(keeper.exec, keeper.bench.stream));
    GIVES(SUCCESS, cuGraphLaunch(keeper.exec, keeper.bench.stream));
    GIVES(SUCCESS, cuStreamSynchronize(keeper.bench.stream));
    STATE("the word is %u", contract_word(keeper.address, 7));
    GIVES(SUCCESS, cuMemFree(keeper.address));
    keeper_end(&keeper);
}

/* Memory that a graph did not free stays when the graph goes. */
CASE_BODY(outlives_exec)
{
    struct keeper keeper = keeper_begin(0);
    graph_run(keeper.exec, keeper.bench.stream);
    GIVES(SUCCESS, cuGraphExecDestroy(keeper.exec));
    keeper.exec = NULL;
    GIVES(SUCCESS, cuGraphDestroy(keeper.bench.graph));
    keeper.bench.graph = NULL;
    STATE("the word is %u", contract_word(keeper.address, 7));
    GIVES(SUCCESS, cuMemFree(keeper.address));
    keeper_end(&keeper);
}

CASE_BODY(one_exec)
{
    struct keeper keeper = keeper_begin(0);
    tn_cu_graphexec second = NULL;
    GIVES(NOT_SUPPORTED, cuGraphInstantiateWithFlags(&second, keeper.bench.graph, 0));
    GIVES(SUCCESS, cuGraphExecDestroy(keeper.exec));
    keeper.exec = NULL;
    GIVES(SUCCESS, cuGraphInstantiateWithFlags(&second, keeper.bench.graph, 0));
    graph_run(second, keeper.bench.stream);
    STATE("the word is %u", contract_word(keeper.address, 7));
    GIVES(SUCCESS, cuMemFree(keeper.address));
    graph_end(NULL, second);
    keeper_end(&keeper);
}

CASE_BODY(not_copied)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_deviceptr address;
    tn_cu_graph other = graph_new();
    tn_cu_graph copy = NULL;
    tn_cu_graphnode node = NULL;
    graph_alloc(bench.graph, NULL, BYTES, &address);
    GIVES(NOT_SUPPORTED, cuGraphClone(&copy, bench.graph));
    GIVES(NOT_SUPPORTED, cuGraphAddChildGraphNode(&node, other, NULL, 0, bench.graph));
    graph_end(other, NULL);
    graph_bench_end(&bench);
}

CASE_BODY(frozen)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_deviceptr address;
    tn_cu_graphnode node = NULL;
    tn_cu_graphnode alloc = graph_alloc(bench.graph, NULL, BYTES, &address);
    tn_cu_graphnode fill = graph_fill(bench.graph, NULL, bench.memory.address, 5, 8);
    GIVES(NOT_SUPPORTED, cuGraphDestroyNode(alloc));
    GIVES(NOT_SUPPORTED, cuGraphDestroyNode(fill));
    GIVES(SUCCESS, cuGraphAddEmptyNode(&node, bench.graph, &alloc, 1));
    GIVES(SUCCESS, cuGraphAddDependencies(bench.graph, &alloc, &fill, NULL, 1));
    STATE("%zu nodes, %zu edges", graph_node_count(bench.graph), graph_edge_count(bench.graph));
    graph_bench_end(&bench);
}

/* Allocated by one graph, freed by another. */
CASE_BODY(freed_elsewhere)
{
    struct keeper keeper = keeper_begin(0);
    tn_cu_graph other = graph_new();
    tn_cu_graphnode node = NULL;
    GIVES(SUCCESS, cuGraphAddMemFreeNode(&node, other, NULL, 0, keeper.address));
    tn_cu_graphexec freeing = graph_exec(other);
    for (int i = 0; i < 2; i++) {
        GIVES(SUCCESS, cuGraphLaunch(keeper.exec, keeper.bench.stream));
        GIVES(SUCCESS, cuGraphLaunch(freeing, keeper.bench.stream));
    }
    GIVES(SUCCESS, cuStreamSynchronize(keeper.bench.stream));
    GIVES(INVALID_VALUE, cuMemFree(keeper.address));
    graph_end(other, freeing);
    keeper_end(&keeper);
}

CASE_BODY(two_allocations)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_deviceptr a;
    tn_cu_deviceptr b;
    tn_cu_graphnode node = graph_alloc(bench.graph, NULL, BYTES, &a);
    node = graph_fill(bench.graph, node, a, 5, 8);
    node = graph_alloc(bench.graph, node, BYTES, &b);
    node = graph_copy(bench.graph, node, b, a, 8);
    node = add_free(bench.graph, node, a);
    node = graph_copy(bench.graph, node, bench.memory.address, b, 8);
    add_free(bench.graph, node, b);
    HOLDS(a != b, "they have addresses of their own");
    tn_cu_graphexec exec = graph_exec(bench.graph);
    graph_run(exec, bench.stream);
    graph_run(exec, bench.stream);
    STATE("the word is %u", contract_word(bench.memory.address, 7));
    graph_end(NULL, exec);
    graph_bench_end(&bench);
    trim();
}

/* -- What it costs -- */

static void show_attributes(void)
{
    STATE("used %u KiB, at most %u KiB",
          (unsigned int)(attribute(TN_CU_GRAPH_MEM_USED_CURRENT) >> 10),
          (unsigned int)(attribute(TN_CU_GRAPH_MEM_USED_HIGH) >> 10));
    STATE("reserved %u KiB, at most %u KiB",
          (unsigned int)(attribute(TN_CU_GRAPH_MEM_RESERVED_CURRENT) >> 10),
          (unsigned int)(attribute(TN_CU_GRAPH_MEM_RESERVED_HIGH) >> 10));
}

CASE_BODY(attributes)
{
    trim();
    STATE("at first");
    show_attributes();
    struct keeper keeper = keeper_begin(0);
    STATE("instantiated");
    show_attributes();
    graph_run(keeper.exec, keeper.bench.stream);
    STATE("launched");
    show_attributes();
    GIVES(SUCCESS, cuDeviceGraphMemTrim(0));
    STATE("trimmed");
    show_attributes();
    SET_UP(cuMemFree(keeper.address));
    STATE("freed");
    show_attributes();
    GIVES(SUCCESS, cuDeviceGraphMemTrim(0));
    STATE("trimmed");
    show_attributes();
    keeper_end(&keeper);
    STATE("destroyed");
    show_attributes();
}

/* What is freed again in the graph can be another graph's. */
CASE_BODY(shared_by_graphs)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graph graphs[2] = {graph_new(), graph_new()};
    tn_cu_graphexec execs[2];
    trim();
    for (int i = 0; i < 2; i++) {
        tn_cu_deviceptr address;
        tn_cu_graphnode node = graph_alloc(graphs[i], NULL, 20 * MIB, &address);
        node = graph_fill(graphs[i], node, address, 5, 8);
        add_free(graphs[i], node, address);
        execs[i] = graph_exec(graphs[i]);
    }
    for (int i = 0; i < 4; i++)
        SET_UP(cuGraphLaunch(execs[i % 2], bench.stream));
    GIVES(SUCCESS, cuStreamSynchronize(bench.stream));
    STATE("reserved %u KiB", (unsigned int)(attribute(TN_CU_GRAPH_MEM_RESERVED_CURRENT) >> 10));
    STATE("used %u KiB", (unsigned int)(attribute(TN_CU_GRAPH_MEM_USED_CURRENT) >> 10));
    graph_end(graphs[0], execs[0]);
    graph_end(graphs[1], execs[1]);
    STATE("destroyed: reserved %u KiB",
          (unsigned int)(attribute(TN_CU_GRAPH_MEM_RESERVED_CURRENT) >> 10));
    STATE("used %u KiB", (unsigned int)(attribute(TN_CU_GRAPH_MEM_USED_CURRENT) >> 10));
    graph_bench_end(&bench);
    trim();
}

CASE_BODY(upload)
{
    struct keeper keeper = keeper_begin(0);
    unsigned int type = 0;
    GIVES(SUCCESS, cuGraphUpload(keeper.exec, keeper.bench.stream));
    SET_UP(cuStreamSynchronize(keeper.bench.stream));
    STATE("reserved %u KiB", (unsigned int)(attribute(TN_CU_GRAPH_MEM_RESERVED_CURRENT) >> 10));
    GIVES(INVALID_VALUE, cuPointerGetAttribute(&type, TN_CU_POINTER_MEMORY_TYPE, keeper.address));
    keeper_end(&keeper);
}

CASE_BODY(attribute_errors)
{
    uint64_t value;
    GIVES(INVALID_VALUE, cuDeviceGetGraphMemAttribute(0, 9, &value));
    GIVES(INVALID_VALUE, cuDeviceGetGraphMemAttribute(0, TN_CU_GRAPH_MEM_USED_CURRENT, NULL));
    GIVES(INVALID_DEVICE, cuDeviceGetGraphMemAttribute(99, TN_CU_GRAPH_MEM_USED_CURRENT, &value));
    GIVES(INVALID_DEVICE, cuDeviceGraphMemTrim(99));
    GIVES(SUCCESS, cuDeviceGraphMemTrim(0));
}

/* A free by the program is an unsafe call; it destroys a capture that forbids it. */
CASE_BODY(freed_in_capture)
{
    struct keeper keeper = keeper_begin(0);
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_graph graph = NULL;
    graph_run(keeper.exec, keeper.bench.stream);
    SET_UP(cuStreamBeginCapture(stream, TN_CU_CAPTURE_MODE_GLOBAL));
    GIVES(STREAM_CAPTURE_UNSUPPORTED, cuMemFree(keeper.address));
    GIVES(STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
    SET_UP(cuStreamBeginCapture(stream, TN_CU_CAPTURE_MODE_GLOBAL));
    GIVES(SUCCESS, cuMemFreeAsync(keeper.address, stream));
    GIVES(SUCCESS, cuStreamEndCapture(stream, &graph));
    STATE("%zu nodes", graph_node_count(graph));
    GIVES(SUCCESS, cuMemFree(keeper.address));
    graph_end(graph, NULL);
    SET_UP(cuStreamDestroy(stream));
    keeper_end(&keeper);
}

CASE_BODY(not_vmm)
{
    struct keeper keeper = keeper_begin(0);
    tn_cu_memhandle handle = 0;
    graph_run(keeper.exec, keeper.bench.stream);
    GIVES(INVALID_VALUE, cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)keeper.address));
    GIVES(INVALID_VALUE, cuMemUnmap(keeper.address, 2 * MIB));
    SET_UP(cuMemFree(keeper.address));
    keeper_end(&keeper);
}

CASE_BODY(updated)
{
    struct keeper keeper = keeper_begin(0);
    struct graph_words words;
    tn_cu_update_result_info info = {.result = 99};
    tn_cu_kernel_node_params params = graph_fill_params(&words, keeper.address, 9, 8);
    GIVES(SUCCESS,
          cuGraphExecKernelNodeSetParams(keeper.exec, graph_node(keeper.bench.graph, 1), &params));
    graph_run(keeper.exec, keeper.bench.stream);
    STATE("the word is %u", contract_word(keeper.address, 7));
    SET_UP(cuMemFree(keeper.address));
    GIVES(SUCCESS, cuGraphExecUpdate(keeper.exec, keeper.bench.graph, &info));
    STATE("update result %d", info.result);
    graph_run(keeper.exec, keeper.bench.stream);
    STATE("the word is %u", contract_word(keeper.address, 7));
    SET_UP(cuMemFree(keeper.address));
    keeper_end(&keeper);
}

static const struct contract_case cases[] = {
    CASE("attributes", "The device tells what its graphs use and keep; a trim gives it back.",
         attributes),
    CASE("add", "An allocation node knows its address when it is added.", add),
    CASE("add-by-node", "cuGraphAddNode adds allocations and frees too.", add_by_node),
    CASE("add-errors", "An allocation is pinned memory of a device, of some bytes, not shared.",
         add_errors),
    CASE("free-errors", "A free node frees what a graph allocates, once.", free_errors),
    CASE("free-unordered", "That a free is ordered behind its allocation is not checked.",
         free_unordered),
    CASE("captured", "Captured allocations are nodes.", captured),
    CASE("captured-from-pool", "An allocation captured from a pool has the pool's properties.",
         captured_from_pool),
    CASE("shared-by-graphs", "Graphs share the memory that they free again.", shared_by_graphs),
    CASE("upload", "An upload finds a graph its memory.", upload),
    CASE("before-launch", "The address is nothing before the first launch.", before_launch),
    CASE("relaunch-unfreed", "A graph whose memory is not freed is not launched again.",
         relaunch_unfreed),
    CASE("relaunch-auto-free", "With flag 1 a launch frees what the last one left.",
         relaunch_auto_free),
    CASE("outlives-exec", "Memory that is not freed outlives its graph.", outlives_exec),
    CASE("one-exec", "A graph that allocates has one executable graph at a time.", one_exec),
    CASE("not-copied", "A graph that allocates is neither cloned nor a child.", not_copied),
    CASE("frozen", "A graph that allocates loses no nodes.", frozen),
    CASE("freed-elsewhere", "One graph frees what another allocates.", freed_elsewhere),
    CASE("two-allocations", "Allocations of one graph have addresses of their own.",
         two_allocations),
    CASE("attribute-errors", "Graph memory is asked of a device.", attribute_errors),
    CASE("freed-in-capture", "Graph memory is freed during a capture as other memory is.",
         freed_in_capture),
    CASE("not-vmm", "Graph memory has no handle and is not unmapped.", not_vmm),
    CASE("updated", "A graph that allocates can be updated.", updated),
};
const struct contract_group contract_graph_memory =
    CONTRACT_GROUP("graph_memory", START_CONTEXT, cases);
