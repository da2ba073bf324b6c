// SPDX-License-Identifier: Apache-2.0
/* test_graph_memory.c -- graphs that allocate, and what keeps their memory. */
#include <stdatomic.h>
#include <stdlib.h>

#include "sim_test.h"

#define CHUNK (32 * MIB)

static tn_cu_stream stream;

static void make_things(void)
{
    start_context();
    stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
}

static uint64_t memory_of_graphs(tn_cu_graph_mem_attribute attribute)
{
    uint64_t bytes;
    OK(cu.cuDeviceGetGraphMemAttribute(0, attribute, &bytes));
    return bytes;
}

static tn_cu_alloc_node_params alloc_params(size_t bytes)
{
    return (tn_cu_alloc_node_params){
        .pool_props = {.type = TN_CU_MEM_ALLOCATION_TYPE_PINNED,
                       .location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
        .bytes = bytes,
    };
}

/* A graph that allocates, sets every byte to 7, and may free. */
struct allocating {
    tn_cu_graph graph;
    tn_cu_graphexec exec;
    tn_cu_deviceptr address;
};

static struct allocating new_allocating(size_t bytes, bool frees, unsigned long long flags)
{
    struct allocating made;
    tn_cu_graphnode node;
    tn_cu_context context;
    tn_cu_alloc_node_params params = alloc_params(bytes);
    OK(cu.cuCtxGetCurrent(&context));
    OK(cu.cuGraphCreate(&made.graph, 0));
    OK(cu.cuGraphAddMemAllocNode(&node, made.graph, NULL, 0, &params));
    made.address = params.address;
    tn_cu_node_params set = {
        .type = TN_CU_NODE_MEMSET,
        .memset = {.set = {.dst = made.address,
                           .value = 7,
                           .element_bytes = 1,
                           .width = bytes,
                           .height = 1},
                   .ctx = context},
    };
    OK(cu.cuGraphAddNode(&node, made.graph, &node, NULL, 1, &set));
    if (frees)
        OK(cu.cuGraphAddMemFreeNode(&node, made.graph, &node, 1, made.address));
    OK(cu.cuGraphInstantiateWithFlags(&made.exec, made.graph, flags));
    return made;
}

static void end_allocating(struct allocating made)
{
    OK(cu.cuGraphExecDestroy(made.exec));
    OK(cu.cuGraphDestroy(made.graph));
}

GROUP(memory, make_things)

TEST(memory, memory_comes_with_the_first_launch_and_goes_with_a_trim)
{
    tarn_sim_ledger before = ledger();
    struct allocating made = new_allocating(1000, true, 0);
    ck_assert_uint_eq(memory_of_graphs(TN_CU_GRAPH_MEM_RESERVED_CURRENT), 0);
    for (int i = 0; i < 2; i++) {
        OK(cu.cuGraphLaunch(made.exec, stream));
        OK(cu.cuStreamSynchronize(stream));
        ck_assert_uint_eq(memory_of_graphs(TN_CU_GRAPH_MEM_RESERVED_CURRENT), CHUNK);
        OK(cu.cuDeviceGraphMemTrim(0));
        ck_assert_uint_eq(memory_of_graphs(TN_CU_GRAPH_MEM_RESERVED_CURRENT), 0);
    }
    ck_assert_uint_eq(memory_of_graphs(TN_CU_GRAPH_MEM_RESERVED_HIGH), CHUNK);
    end_allocating(made);
    tarn_sim_ledger after = ledger();
    same_ledger(&before, &after);
}

/* SB1 */
TEST(memory, graphs_share_memory_that_only_one_uses_at_a_time)
{
    struct allocating first = new_allocating(MIB, true, 0);
    struct allocating second = new_allocating(MIB, true, 0);
    OK(cu.cuGraphLaunch(first.exec, stream));
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuGraphLaunch(second.exec, stream));
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(memory_of_graphs(TN_CU_GRAPH_MEM_RESERVED_CURRENT), CHUNK);
    sim.tarn_sim_hold_work();
    OK(cu.cuGraphLaunch(first.exec, stream));
    OK(cu.cuGraphLaunch(second.exec, stream)); /* one after the other */
    ck_assert_uint_eq(memory_of_graphs(TN_CU_GRAPH_MEM_RESERVED_CURRENT), CHUNK);
    struct allocating third = new_allocating(MIB, true, 0);
    OK(cu.cuGraphLaunch(third.exec, new_stream(TN_CU_STREAM_NON_BLOCKING)));
    ck_assert_uint_eq(memory_of_graphs(TN_CU_GRAPH_MEM_RESERVED_CURRENT), 2 * CHUNK);
    struct allocating keeping = new_allocating(MIB, false, 0);
    OK(cu.cuGraphLaunch(keeping.exec, stream));
    ck_assert_uint_eq(memory_of_graphs(TN_CU_GRAPH_MEM_RESERVED_CURRENT), 3 * CHUNK);
    sim.tarn_sim_resume_work();
    OK(cu.cuStreamSynchronize(stream));
}

static atomic_int checks;
static tn_cu_deviceptr watched[2];

/* Runs between the sets of a graph that shares its memory and its end. */
static void check_sevens(void *address)
{
    ck_assert_uint_eq(*(volatile unsigned char *)*(tn_cu_deviceptr *)address, 7);
    atomic_fetch_add(&checks, 1);
}

/* Two graphs that share, launched by turns into one stream and then into two. */
TEST(memory, graphs_that_share_do_not_meet_on_two_streams)
{
    tn_cu_stream other = new_stream(TN_CU_STREAM_NON_BLOCKING);
    struct allocating graphs[2];
    for (int i = 0; i < 2; i++) {
        tn_cu_graphnode node;
        graphs[i] = new_allocating(MIB, true, 0);
        watched[i] = graphs[i].address;
        tn_cu_node_params params = {.type = TN_CU_NODE_HOST,
                                    .host = {.function = check_sevens, .user = &watched[i]}};
        size_t count = 3;
        tn_cu_graphnode nodes[3];
        OK(cu.cuGraphGetNodes(graphs[i].graph, nodes, &count));
        OK(cu.cuGraphAddNode(&node, graphs[i].graph, &nodes[1], NULL, 1, &params));
        OK(cu.cuGraphAddDependencies(graphs[i].graph, &node, &nodes[2], NULL, 1));
        OK(cu.cuGraphExecDestroy(graphs[i].exec));
        OK(cu.cuGraphInstantiateWithFlags(&graphs[i].exec, graphs[i].graph, 0));
    }
    for (int i = 0; i < 40; i++) {
        OK(cu.cuGraphLaunch(graphs[0].exec, stream));
        OK(cu.cuGraphLaunch(graphs[1].exec, i % 3 == 0 ? other : stream));
    }
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuStreamSynchronize(other));
    ck_assert_int_eq(atomic_load(&checks), 80);
}

/* SB2 */
TEST(memory, a_trim_leaves_what_is_in_use)
{
    struct allocating made = new_allocating(MIB, false, 0);
    sim.tarn_sim_hold_work();
    OK(cu.cuGraphLaunch(made.exec, stream));
    OK(cu.cuDeviceGraphMemTrim(0));
    sim.tarn_sim_resume_work();
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuDeviceGraphMemTrim(0));
    ck_assert_uint_eq(memory_of_graphs(TN_CU_GRAPH_MEM_USED_CURRENT), CHUNK);
    ck_assert_uint_eq(*(volatile unsigned char *)made.address, 7);
    OK(cu.cuMemFree(made.address));
    OK(cu.cuDeviceGraphMemTrim(0));
    ck_assert_uint_eq(memory_of_graphs(TN_CU_GRAPH_MEM_RESERVED_CURRENT), 0);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemFree(made.address));
}

/* SB3 */
TEST(memory, what_a_graph_left_allocated_outlives_it)
{
    tarn_sim_ledger before = ledger();
    struct allocating made = new_allocating(MIB, false, 0);
    OK(cu.cuGraphLaunch(made.exec, stream));
    OK(cu.cuStreamSynchronize(stream));
    end_allocating(made);
    ck_assert_uint_eq(*(volatile unsigned char *)made.address, 7);
    ck_assert_uint_eq(ledger().graph_blocks, 1);
    OK(cu.cuMemFree(made.address));
    OK(cu.cuDeviceGraphMemTrim(0));
    tarn_sim_ledger after = ledger();
    same_ledger(&before, &after);
}

/* SE2 */
TEST(memory, one_executable_graph_at_a_time_has_a_graphs_memory)
{
    tn_cu_graphexec second;
    tn_cu_graph clone;
    struct allocating made = new_allocating(MIB, false, 0);
    ANSWERS(TN_CUDA_ERROR_NOT_SUPPORTED, cu.cuGraphInstantiateWithFlags(&second, made.graph, 0));
    ANSWERS(TN_CUDA_ERROR_NOT_SUPPORTED, cu.cuGraphClone(&clone, made.graph));
    OK(cu.cuGraphExecDestroy(made.exec));
    OK(cu.cuGraphInstantiateWithFlags(&made.exec, made.graph, 0));
}

TEST_LOOP(memory, a_graph_that_left_memory_is_launched_again_when_it_is_free, 0, 2)
{
    bool automatic = _i == 1;
    struct allocating made =
        new_allocating(MIB, false, automatic ? TN_CU_GRAPH_INSTANTIATE_AUTO_FREE_ON_LAUNCH : 0);
    OK(cu.cuGraphLaunch(made.exec, stream));
    ANSWERS(automatic ? TN_CUDA_SUCCESS : TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuGraphLaunch(made.exec, stream));
    OK(cu.cuMemFree(made.address));
    OK(cu.cuGraphLaunch(made.exec, stream));
    OK(cu.cuStreamSynchronize(stream));
}

TEST(memory, a_device_that_has_no_memory_left_launches_nothing)
{
    struct allocating made = new_allocating(MIB, true, 0);
    size_t left;
    size_t total;
    OK(cu.cuMemGetInfo(&left, &total));
    tn_cu_deviceptr linear;
    OK(cu.cuMemAlloc(&linear, left - CHUNK + 2 * MIB));
    ANSWERS(TN_CUDA_ERROR_OUT_OF_MEMORY, cu.cuGraphLaunch(made.exec, stream));
    OK(cu.cuMemFree(linear));
    OK(cu.cuGraphLaunch(made.exec, stream));
    OK(cu.cuStreamSynchronize(stream));
}

/* SE1 */
TEST(memory, a_queued_launch_does_what_was_there_when_it_was_queued)
{
    struct mapped mapped = map_new(2 * MIB);
    struct kernels kernels = load_kernels();
    tn_cu_graph graph;
    tn_cu_graphnode node;
    tn_cu_graphexec exec;
    uint32_t value = 5;
    uint32_t count = 1;
    void *arguments[] = {&mapped.address, &value, &count};
    tn_cu_kernel_node_params params = {.func = kernels.fill,
                                       .grid_x = 1,
                                       .grid_y = 1,
                                       .grid_z = 1,
                                       .block_x = 1,
                                       .block_y = 1,
                                       .block_z = 1,
                                       .kernel_params = arguments};
    OK(cu.cuGraphCreate(&graph, 0));
    OK(cu.cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    sim.tarn_sim_hold_work();
    OK(cu.cuGraphLaunch(exec, stream));
    value = 6;
    OK(cu.cuGraphExecKernelNodeSetParams(exec, node, &params));
    OK(cu.cuGraphNodeSetEnabled(exec, node, 0));
    sim.tarn_sim_resume_work();
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(*(volatile uint32_t *)mapped.address, 5);
    OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(*(volatile uint32_t *)mapped.address, 5);
    OK(cu.cuGraphNodeSetEnabled(exec, node, 1));
    OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(*(volatile uint32_t *)mapped.address, 6);
}

static size_t free_bytes(void)
{
    size_t left;
    size_t total;
    OK(cu.cuMemGetInfo(&left, &total));
    return left;
}

/* A graph of nodes without edges, of which each needs about 110 KiB of the device. */
static tn_cu_graph wide_graph(int nodes)
{
    tn_cu_graph graph;
    tn_cu_graphnode node;
    OK(cu.cuGraphCreate(&graph, 0));
    for (int i = 0; i < nodes; i++)
        OK(cu.cuGraphAddEmptyNode(&node, graph, NULL, 0));
    return graph;
}

GROUP(space, NULL)

TEST(space, executable_graphs_take_memory_when_asked_to)
{
    setenv("TARN_SIM_EXEC_MEMORY", "1", 1);
    start_context();
    tn_cu_graph graph = wide_graph(64);
    tn_cu_graphexec execs[2];
    size_t at_first = free_bytes();
    OK(cu.cuGraphInstantiateWithFlags(&execs[0], graph, 0));
    size_t with_one = free_bytes();
    ck_assert_uint_eq(at_first - with_one, 8 * MIB);
    OK(cu.cuGraphExecDestroy(execs[0]));
    ck_assert_uint_eq(free_bytes(), with_one); /* kept */
    OK(cu.cuGraphInstantiateWithFlags(&execs[0], graph, 0));
    ck_assert_uint_eq(free_bytes(), with_one);
    OK(cu.cuGraphInstantiateWithFlags(&execs[1], graph, 0));
    ck_assert_uint_lt(free_bytes(), with_one);
    OK(cu.cuGraphExecDestroy(execs[0]));
    OK(cu.cuGraphExecDestroy(execs[1]));
    /* Given up for what needs it, and then refused to graphs. */
    tn_cu_deviceptr all;
    OK(cu.cuMemAlloc(&all, at_first));
    ANSWERS(TN_CUDA_ERROR_OUT_OF_MEMORY, cu.cuGraphInstantiateWithFlags(&execs[0], graph, 0));
    OK(cu.cuMemFree(all));
    OK(cu.cuGraphInstantiateWithFlags(&execs[0], graph, 0));
}

TEST(space, executable_graphs_take_nothing_otherwise)
{
    start_context();
    tn_cu_graphexec exec;
    size_t at_first = free_bytes();
    OK(cu.cuGraphInstantiateWithFlags(&exec, wide_graph(64), 0));
    ck_assert_uint_eq(free_bytes(), at_first);
}
