// SPDX-License-Identifier: Apache-2.0
/* graph_tools.c -- nodes by hand, read back, and run.
 *
 * How it works. All nodes but empty ones are added by cuGraphAddNode, whose parameters name the
 * context where the driver asks for one. */
#include "contract/graph_tools.h"

#include <time.h>

#define FILL_BLOCKS 4
#define FILL_THREADS 128
#define PATIENCE_MS 2000                  /* for a destructor or a host function that is to run */
#define FLAG_LIMIT_NS UINT64_C(500000000) /* how long a held node runs at most */

tn_cu_graph graph_new(void)
{
    tn_cu_graph graph;
    SET_UP(cuGraphCreate(&graph, 0));
    return graph;
}

/* -- Parameters -- */

tn_cu_kernel_node_params graph_fill_params(struct graph_words *words, tn_cu_deviceptr address,
                                           uint32_t value, uint32_t count)
{
    *words = (struct graph_words){.address = address, .value = value, .count = count};
    words->params[0] = &words->address;
    words->params[1] = &words->value;
    words->params[2] = &words->count;
    return (tn_cu_kernel_node_params){
        .func = contract_kernels()->fill,
        .grid_x = FILL_BLOCKS,
        .grid_y = 1,
        .grid_z = 1,
        .block_x = FILL_THREADS,
        .block_y = 1,
        .block_z = 1,
        .kernel_params = words->params,
    };
}

tn_cu_kernel_node_params graph_add_params(struct graph_words *words, tn_cu_deviceptr address,
                                          uint32_t amount)
{
    tn_cu_kernel_node_params params = graph_fill_params(words, address, amount, 0);
    params.func = contract_kernels()->add;
    params.grid_x = 1;
    params.block_x = 1;
    return params;
}

tn_cu_memset_node_params graph_set_params(tn_cu_deviceptr address, uint32_t value, size_t count)
{
    return (tn_cu_memset_node_params){
        .dst = address,
        .value = value,
        .element_bytes = sizeof(uint32_t),
        .width = count,
        .height = 1,
    };
}

tn_cu_memcpy3d graph_copy_params(tn_cu_deviceptr to, tn_cu_deviceptr from, size_t count)
{
    return (tn_cu_memcpy3d){
        .src_type = TN_CU_MEMORYTYPE_DEVICE,
        .src_device = from,
        .dst_type = TN_CU_MEMORYTYPE_DEVICE,
        .dst_device = to,
        .width = count * sizeof(uint32_t),
        .height = 1,
        .depth = 1,
    };
}

tn_cu_alloc_node_params graph_alloc_params(size_t bytes)
{
    return (tn_cu_alloc_node_params){
        .pool_props =
            {
                .type = TN_CU_MEM_ALLOCATION_TYPE_PINNED,
                .location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
            },
        .bytes = bytes,
    };
}

/* -- Nodes -- */

static tn_cu_graphnode add_node(tn_cu_graph graph, tn_cu_graphnode after, tn_cu_node_params *params)
{
    tn_cu_graphnode node;
    SET_UP(cuGraphAddNode(&node, graph, &after, NULL, after == NULL ? 0 : 1, params));
    return node;
}

static tn_cu_graphnode add_kernel(tn_cu_graph graph, tn_cu_graphnode after,
                                  tn_cu_kernel_node_params kernel)
{
    tn_cu_node_params params = {.type = TN_CU_NODE_KERNEL, .kernel = kernel};
    return add_node(graph, after, &params);
}

tn_cu_graphnode graph_empty(tn_cu_graph graph, tn_cu_graphnode after)
{
    tn_cu_graphnode node;
    SET_UP(cuGraphAddEmptyNode(&node, graph, &after, after == NULL ? 0 : 1));
    return node;
}

tn_cu_graphnode graph_fill(tn_cu_graph graph, tn_cu_graphnode after, tn_cu_deviceptr address,
                           uint32_t value, uint32_t count)
{
    struct graph_words words;
    return add_kernel(graph, after, graph_fill_params(&words, address, value, count));
}

tn_cu_graphnode graph_add(tn_cu_graph graph, tn_cu_graphnode after, tn_cu_deviceptr address,
                          uint32_t amount)
{
    struct graph_words words;
    return add_kernel(graph, after, graph_add_params(&words, address, amount));
}

tn_cu_graphnode graph_hold(tn_cu_graph graph, tn_cu_graphnode after, uint32_t *flag)
{
    struct graph_words words;
    uint64_t limit = FLAG_LIMIT_NS;
    void *params[] = {(void *)&flag, &limit};
    tn_cu_kernel_node_params kernel = graph_add_params(&words, 0, 0);
    kernel.func = contract_kernels()->hold;
    kernel.kernel_params = params;
    return add_kernel(graph, after, kernel);
}

tn_cu_graphnode graph_set(tn_cu_graph graph, tn_cu_graphnode after, tn_cu_deviceptr address,
                          uint32_t value, size_t count)
{
    tn_cu_node_params params = {
        .type = TN_CU_NODE_MEMSET,
        .memset = {.set = graph_set_params(address, value, count), .ctx = contract_current()},
    };
    return add_node(graph, after, &params);
}

tn_cu_graphnode graph_copy(tn_cu_graph graph, tn_cu_graphnode after, tn_cu_deviceptr to,
                           tn_cu_deviceptr from, size_t count)
{
    tn_cu_node_params params = {
        .type = TN_CU_NODE_MEMCPY,
        .memcpy = {.ctx = contract_current(), .copy = graph_copy_params(to, from, count)},
    };
    return add_node(graph, after, &params);
}

tn_cu_graphnode graph_host(tn_cu_graph graph, tn_cu_graphnode after, tn_cu_hostfn function,
                           void *user)
{
    tn_cu_node_params params = {
        .type = TN_CU_NODE_HOST,
        .host = {.function = function, .user = user},
    };
    return add_node(graph, after, &params);
}

tn_cu_graphnode graph_alloc(tn_cu_graph graph, tn_cu_graphnode after, size_t bytes,
                            tn_cu_deviceptr *address)
{
    tn_cu_graphnode node;
    tn_cu_alloc_node_params params = graph_alloc_params(bytes);
    SET_UP(cuGraphAddMemAllocNode(&node, graph, &after, after == NULL ? 0 : 1, &params));
    *address = params.address;
    return node;
}

/* -- What there is -- */

size_t graph_node_count(tn_cu_graph graph)
{
    size_t count = 0;
    SET_UP(cuGraphGetNodes(graph, NULL, &count));
    return count;
}

size_t graph_edge_count(tn_cu_graph graph)
{
    size_t count = 0;
    SET_UP(cuGraphGetEdges(graph, NULL, NULL, NULL, &count));
    return count;
}

tn_cu_graphnode graph_node(tn_cu_graph graph, size_t index)
{
    tn_cu_graphnode nodes[GRAPH_MAX_NODES] = {NULL};
    size_t count = GRAPH_MAX_NODES;
    SET_UP(cuGraphGetNodes(graph, nodes, &count));
    if (index >= count)
        contract_give_up("the graph has %zu nodes", count);
    return nodes[index];
}

tn_cu_graphnode_type graph_type(tn_cu_graphnode node)
{
    tn_cu_graphnode_type type;
    SET_UP(cuGraphNodeGetType(node, &type));
    return type;
}

/* -- Running -- */

tn_cu_graphexec graph_exec(tn_cu_graph graph)
{
    tn_cu_graphexec exec;
    SET_UP(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

void graph_run(tn_cu_graphexec exec, tn_cu_stream stream)
{
    SET_UP(cuGraphLaunch(exec, stream));
    SET_UP(cuStreamSynchronize(stream));
}

void graph_end(tn_cu_graph graph, tn_cu_graphexec exec)
{
    if (exec != NULL)
        SET_UP(cuGraphExecDestroy(exec));
    if (graph != NULL)
        SET_UP(cuGraphDestroy(graph));
}

void graph_count_up(void *count)
{
    __atomic_add_fetch((int *)count, 1, __ATOMIC_SEQ_CST);
}

int graph_count(const int *count)
{
    return __atomic_load_n(count, __ATOMIC_SEQ_CST);
}

int graph_count_await(const int *count)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int waited_ms = 0; graph_count(count) == 0 && waited_ms < PATIENCE_MS; waited_ms++)
        nanosleep(&pause, NULL);
    return graph_count(count);
}

void graph_nothing(void *ignored)
{
    (void)ignored;
}

uint32_t *graph_flag(void)
{
    void *flag;
    SET_UP(cuMemHostAlloc(&flag, sizeof(uint32_t), 0));
    *(uint32_t *)flag = 0;
    return flag;
}

struct graph_bench graph_bench_begin(void)
{
    contract_kernels();
    struct graph_bench bench = {
        .memory = contract_map(2 * MIB),
        .stream = contract_stream(TN_CU_STREAM_NON_BLOCKING),
        .graph = graph_new(),
    };
    SET_UP(cuMemsetD8Async(bench.memory.address, 0, bench.memory.bytes, bench.stream));
    SET_UP(cuStreamSynchronize(bench.stream));
    return bench;
}

void graph_bench_end(struct graph_bench *bench)
{
    SET_UP(cuStreamSynchronize(bench->stream));
    if (bench->graph != NULL)
        SET_UP(cuGraphDestroy(bench->graph));
    SET_UP(cuStreamDestroy(bench->stream));
    contract_unmap(bench->memory);
}
