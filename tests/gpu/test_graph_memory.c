// SPDX-License-Identifier: Apache-2.0
/* What graphs cost on hardware: what is said of them beside what the device has less. */
#include <stdio.h>

#include "support/nodes.h"
#include "support/world.h"

enum { GRAPHS = 24, KERNELS = 400, WORDS = 64 };

static uint64_t free_bytes(void)
{
    size_t free_now = 0;
    size_t total = 0;

    CU_OK(cu.cuMemGetInfo(&free_now, &total));
    return free_now;
}

static tarn_graph_memory_info of_graph(tarn_graph *graph)
{
    tarn_graph_memory_info memory = TARN_GRAPH_MEMORY_INFO_INIT;

    OK(tarn_graph_memory(graph, &memory));
    return memory;
}

static tarn_graph_memory_info of_device(void)
{
    tarn_graph_memory_info memory = TARN_GRAPH_MEMORY_INFO_INIT;

    OK(tarn_device_graph_memory(world.device, &memory));
    return memory;
}

/* Of so many kernels on a temporary block, and one that reads the input. */
static tarn_graph *make_graph(void *input)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *block = test_malloc(4 * MIB);

    for (uint32_t i = 0; i < KERNELS; i++)
        test_fill(world.stream, block, i, WORDS);
    test_add(world.stream, input, 1, WORDS);
    OK(tarn_free(block));
    return test_capture_end(capture);
}

SUITE("graph memory")
GROUP(memory, test_world_open, test_world_close, .name = "graph memory", .timeout = 120)

/* Large and many enough that the driver takes memory for them; and nobody else takes any meanwhile. */
TEST(memory, executables_cost_what_the_device_has_less)
{
    void *input = test_alloc(world.default_pool, MIB, world.stream);
    tarn_graph *graphs[GRAPHS];
    tarn_graph_memory_info one;
    tarn_graph_memory_info all;
    uint64_t exec_bytes;
    uint64_t first;
    uint64_t mapped;
    uint64_t before;
    uint64_t less;

    OK(tarn_graph_destroy(make_graph(input))); /* code is loaded, and the pool has its memory */
    test_await_destructors(0);
    first = of_device().exec_bytes;
    exec_bytes = first;
    mapped = test_stats(world.pool).mapped_bytes;
    before = free_bytes();
    for (int i = 0; i < GRAPHS; i++) {
        graphs[i] = make_graph(input);
        one = of_graph(graphs[i]);
        exec_bytes += one.exec_bytes;
        ck_assert_uint_eq(one.kernel_count, KERNELS + 1);
        ck_assert_uint_eq(one.uninspected_count, 0);
        ck_assert_uint_eq(one.external_bytes, MIB);
        ck_assert_uint_eq(one.external_count, 1);
        ck_assert_uint_eq(one.own_pool_bytes + one.shared_pool_bytes, mapped);
    }
    less = before - free_bytes();
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, mapped); /* all use the same memory */
    all = of_device();
    printf("%d graphs of %d kernels: %llu bytes of executables, and the device has %llu less\n",
           GRAPHS, KERNELS + 1, (unsigned long long)(all.exec_bytes - first),
           (unsigned long long)less);
    ck_assert_uint_eq(all.graph_count, GRAPHS);
    ck_assert_uint_eq(all.exec_bytes, exec_bytes);
    ck_assert_uint_le(all.exec_bytes - first,
                      less); /* the driver takes some when work is first launched */
    ck_assert(test_is_simulated() || all.exec_bytes > first);
    ck_assert_uint_eq(all.own_pool_bytes, 0);
    ck_assert_uint_eq(all.shared_pool_bytes, mapped);
    ck_assert_uint_eq(all.external_bytes, MIB);
    for (int i = 0; i < GRAPHS; i++)
        OK(tarn_graph_destroy(graphs[i]));
    test_await_destructors(0);
    ck_assert_uint_eq(of_device().graph_count, 0);
    OK(tarn_free(input));
}

TEST(memory, memory_of_the_drivers_nodes_is_what_it_has_reserved)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    tarn_graph_memory_info memory;
    tarn_graph *graph;
    void *block = test_allocate_node(world.stream, 8 * MIB);

    test_set_words(world.stream, block, 1, WORDS);
    test_free_node(world.stream, block);
    graph = test_capture_end(capture);
    OK(tarn_graph_replay(graph, world.stream));
    test_synchronize(world.stream);
    memory = of_graph(graph);
    ck_assert_uint_eq(memory.node_bytes, 8 * MIB);
    ck_assert_uint_eq(memory.allocation_count, 1);
    ck_assert_uint_eq(memory.node_count, 3);
    ck_assert_uint_ge(of_device().node_reserved_bytes, 8 * MIB);
    OK(tarn_graph_destroy(graph));
    test_await_destructors(0);
    test_trim_nodes();
    ck_assert_uint_eq(of_device().node_reserved_bytes, 0);
}
