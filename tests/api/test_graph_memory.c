// SPDX-License-Identifier: Apache-2.0
/* What graphs cost, to the byte: beside what was reckoned by hand, and beside what the driver says. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "support/bodies.h"
#include "support/nodes.h"
#include "support/world.h"

enum { FIELDS = 13, WORDS = 16, STEP_BYTES = 512 };

static const char *const fields[FIELDS] = {
    "graph_count",      "own_pool_bytes",      "shared_pool_bytes", "other_pool_bytes",
    "external_bytes",   "external_count",      "exec_bytes",        "node_bytes",
    "allocation_count", "node_reserved_bytes", "node_count",        "kernel_count",
    "uninspected_count"};

typedef tarn_graph_memory_info info_of;

/* All fields; those that a test does not name are 0. */
static void expect(tarn_graph_memory_info is, tarn_graph_memory_info wanted)
{
    uint64_t found[FIELDS];
    uint64_t expected[FIELDS];

    ck_assert_uint_eq(sizeof is, sizeof is.size + sizeof found);
    ck_assert_uint_eq(is.size, sizeof is);
    memcpy(found, &is.graph_count, sizeof found);
    memcpy(expected, &wanted.graph_count, sizeof expected);
    for (int i = 0; i < FIELDS; i++)
        ck_assert_msg(found[i] == expected[i], "%s is %llu, and not %llu", fields[i],
                      (unsigned long long)found[i], (unsigned long long)expected[i]);
}

/* Graphs that have kernels alone, and name nothing that they do not hold. */
static info_of of_kernels(uint64_t graphs, uint64_t kernels, uint64_t own, uint64_t shared)
{
    return (info_of){.graph_count = graphs,
                     .own_pool_bytes = own,
                     .shared_pool_bytes = shared,
                     .node_count = kernels,
                     .kernel_count = kernels};
}

static info_of and_external(info_of memory, uint64_t bytes, uint64_t count)
{
    memory.external_bytes = bytes;
    memory.external_count = count;
    return memory;
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

/* A temporary block of the capture that the stream is in; bytes: of one chunk, a power of two. */
static void *temporary(tarn_pool *pool, size_t bytes)
{
    void *block = test_alloc(pool, bytes, world.stream);

    test_fill(world.stream, block, 1, WORDS);
    return block;
}

/* A graph of one kernel, with a temporary block of that size. */
static tarn_graph *graph_in(tarn_pool *pool, size_t bytes)
{
    tarn_capture *capture = test_capture_on(pool, world.stream, TARN_CAPTURE_RELAXED);

    OK(tarn_free(temporary(pool, bytes)));
    return test_capture_end(capture);
}

/* left: the holds of other graphs. */
static void destroy_but(tarn_graph *graph, uint64_t left)
{
    OK(tarn_graph_destroy(graph));
    test_await_destructors(left);
}

static void destroy(tarn_graph *graph)
{
    destroy_but(graph, 0);
}

GROUP(held, test_world_open, test_world_close)

TEST(held, without_graphs_there_is_nothing)
{
    expect(of_device(), (info_of){.graph_count = 0});
}

TEST(held, a_graph_alone_costs_its_chunks)
{
    tarn_graph *graph = graph_in(world.pool, 4 * MIB);
    info_of wanted = of_kernels(1, 1, 4 * MIB, 0);

    expect(of_graph(graph), wanted);
    expect(of_device(), wanted);
    OK(tarn_graph_replay(graph, world.stream));
    test_synchronize(world.stream);
    expect(of_graph(graph), wanted);
    destroy(graph);
    expect(of_device(), (info_of){.graph_count = 0});
}

/* What a chunk has beside its blocks is held with it. */
TEST(held, whole_chunks_are_held)
{
    tarn_graph *graph = graph_in(world.pool, STEP_BYTES);

    expect(of_graph(graph), of_kernels(1, 1, 2 * MIB, 0));
    destroy(graph);
}

TEST(held, graphs_of_one_pool_share_what_both_use)
{
    tarn_graph *first = graph_in(world.pool, 4 * MIB);
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    void *blocks[2] = {temporary(world.pool, 4 * MIB), temporary(world.pool, 8 * MIB)};
    tarn_graph *second;

    OK(tarn_free(blocks[0]));
    OK(tarn_free(blocks[1]));
    second = test_capture_end(capture);
    expect(of_graph(first), of_kernels(1, 1, 0, 4 * MIB));
    expect(of_graph(second), of_kernels(1, 2, 8 * MIB, 4 * MIB));
    expect(of_device(), of_kernels(2, 3, 8 * MIB, 4 * MIB));
    destroy_but(first, 1);
    expect(of_graph(second), of_kernels(1, 2, 12 * MIB, 0));
    destroy(second);
    expect(of_device(), (info_of){.graph_count = 0});
}

TEST(held, a_graph_has_its_memory_in_every_pool_that_its_capture_allocated_from)
{
    tarn_pool *other = test_pool("other");
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    void *blocks[2] = {temporary(world.pool, 4 * MIB), temporary(other, 16 * MIB)};
    tarn_graph *graph;
    info_of wanted = of_kernels(1, 2, 20 * MIB, 0);

    OK(tarn_free(blocks[0]));
    OK(tarn_free(blocks[1]));
    graph = test_capture_end(capture);
    expect(of_graph(graph), wanted);
    expect(of_device(), wanted);
    destroy(graph);
    OK(tarn_pool_destroy(other));
}

/* Bodies' memory is the outer graph's. */
TEST(held, a_body_costs_the_graph_around_it_and_is_not_looked_into)
{
    tarn_capture *outer = test_capture_begin(TARN_CAPTURE_RELAXED);
    void *block = temporary(world.pool, 4 * MIB);
    struct test_node node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1);
    tarn_capture *body = test_begin_body(outer, 1, node.bodies[0]);
    void *inner = test_alloc(world.pool, 8 * MIB, world.side);
    tarn_graph *graph;

    test_fill(world.side, inner, 1, WORDS);
    OK(tarn_free(inner));
    OK(tarn_capture_end(body, NULL));
    OK(tarn_free(block));
    graph = test_capture_end(outer);
    expect(of_graph(graph), (info_of){.graph_count = 1,
                                      .own_pool_bytes = 12 * MIB,
                                      .node_count = 2,
                                      .kernel_count = 1,
                                      .uninspected_count = 1});
    destroy(graph);
}

static void host_function(void *user)
{
    (void)user;
}

GROUP(referred, test_world_open, test_world_close, .name = "referred to")

/* One block named at its beginning, inside and by two nodes; one by a host function alone; one that
 * the capture itself allocated, live; and one that nobody names. */
TEST(referred, blocks_that_are_only_referred_to_count_once)
{
    char *named = test_alloc(world.default_pool, 10000, world.stream);
    char *copied = test_alloc(world.pool, 20000, world.stream);
    char *argument = test_alloc(world.default_pool, 30000, world.stream);
    void *nobodys = test_alloc(world.default_pool, 40000, world.stream);
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    void *output = temporary(world.pool, 4 * MIB);
    info_of wanted = {.graph_count = 1,
                      .own_pool_bytes = 4 * MIB,
                      .external_bytes = 10240 + 20480,
                      .external_count = 2,
                      .node_count = 5,
                      .kernel_count = 2};
    tarn_graph *graph;

    test_fill(world.stream, named, 1, WORDS);
    test_set_words(world.stream, named + 4096, 1, WORDS);
    test_copy(world.stream, copied + 512, named, 512);
    test_call_host(world.stream, host_function, argument);
    graph = test_capture_end(capture);
    expect(of_graph(graph), wanted);
    expect(of_device(), wanted);
    OK(tarn_free(output)); /* held as before */
    expect(of_graph(graph), wanted);
    OK(tarn_free(copied));
    wanted = and_external(wanted, 10240, 1);
    expect(of_graph(graph), wanted);
    expect(of_device(), wanted);
    OK(tarn_free(named));
    wanted = and_external(wanted, 0, 0);
    expect(of_graph(graph), wanted);
    expect(of_device(), wanted);
    destroy(graph);
    OK(tarn_free(argument));
    OK(tarn_free(nobodys));
}

TEST(referred, a_block_that_two_graphs_refer_to_is_once_in_the_devices_sum)
{
    void *weights = test_alloc(world.default_pool, 3 * MIB, world.stream);
    tarn_graph *graphs[2];

    for (int i = 0; i < 2; i++) {
        tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);

        test_fill(world.stream, weights, 1, WORDS);
        graphs[i] = test_capture_end(capture);
        expect(of_graph(graphs[i]), and_external(of_kernels(1, 1, 0, 0), 3 * MIB, 1));
    }
    expect(of_device(), and_external(of_kernels(2, 2, 0, 0), 3 * MIB, 1));
    destroy_but(graphs[0], 1);
    destroy(graphs[1]);
    OK(tarn_free(weights));
}

/* One graph's output is another one's input: in the sum it is memory that a graph holds. */
TEST(referred, what_another_graph_holds_is_external_to_a_graph_and_not_to_the_device)
{
    tarn_pool *other = test_pool("other");
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    void *output = temporary(world.pool, 4 * MIB);
    tarn_graph *maker = test_capture_end(capture);
    tarn_graph *reader;
    tarn_driver_graph inside = NULL;
    tn_cu_graphexec exec;

    capture = test_capture_on(other, world.stream, TARN_CAPTURE_RELAXED);
    test_fill(world.stream, output, 1, WORDS);
    reader = test_capture_end(capture);
    expect(of_graph(maker), of_kernels(1, 1, 4 * MIB, 0));
    expect(of_graph(reader), and_external(of_kernels(1, 1, 0, 0), 4 * MIB, 1));
    expect(of_device(), of_kernels(2, 2, 4 * MIB, 0));
    OK(tarn_graph_driver_handles(maker, &inside, NULL));
    exec = test_instantiate(inside);
    OK(tarn_graph_destroy(maker)); /* the program's executable of it holds the memory */
    expect(of_device(),
           (info_of){
               .graph_count = 1, .other_pool_bytes = 4 * MIB, .node_count = 1, .kernel_count = 1});
    test_destroy_exec(exec);
    test_await_destructors(1); /* the output lives on, and nothing holds its chunk */
    expect(of_device(), and_external(of_kernels(1, 1, 0, 0), 4 * MIB, 1));
    destroy(reader);
    OK(tarn_free(output));
    OK(tarn_pool_destroy(other));
}

/* Two blocks of 1.5 MiB on two chunks of 2 MiB. The capture frees the first, so the first chunk is held. */
TEST(referred, of_a_block_that_is_held_in_part_the_rest_is_external)
{
    void *first = test_alloc(world.pool, 3 * MIB / 2, world.stream);
    char *second = test_alloc(world.pool, 3 * MIB / 2, world.stream);
    tarn_capture *capture;
    tarn_graph *graph;
    info_of wanted = and_external(of_kernels(1, 1, 2 * MIB, 0), MIB, 1);

    ck_assert_ptr_eq(second, (char *)first + 3 * MIB / 2);
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 4 * MIB);
    ck_assert_uint_eq(test_stats(world.pool).chunk_count, 2);
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    OK(tarn_free(first));
    test_fill(world.stream, second + MIB, 1, WORDS);
    graph = test_capture_end(capture);
    expect(of_graph(graph), wanted);
    expect(of_device(), wanted);
    destroy(graph);
    OK(tarn_free(second));
}

TEST(held, a_capture_under_way_holds_beside_the_graphs)
{
    tarn_graph *graph = graph_in(world.pool, 4 * MIB);
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    void *blocks[2] = {temporary(world.pool, 4 * MIB), temporary(world.pool, 8 * MIB)};

    expect(of_graph(graph), of_kernels(1, 1, 0, 4 * MIB));
    expect(of_device(), (info_of){.graph_count = 1,
                                  .shared_pool_bytes = 4 * MIB,
                                  .other_pool_bytes = 8 * MIB,
                                  .node_count = 1,
                                  .kernel_count = 1});
    OK(tarn_capture_abort(capture));
    OK(tarn_free(blocks[0]));
    OK(tarn_free(blocks[1]));
    test_await_destructors(1);
    ck_assert_uint_eq(of_graph(graph).own_pool_bytes, 4 * MIB);
    destroy(graph);
}

/* The parent is adopted by another pool; its nodes are the child's, and what is held for them is the child's. */
TEST(held, a_child_graphs_nodes_are_counted_and_its_memory_is_its_own)
{
    void *weights = test_alloc(world.default_pool, 4096, world.stream);
    tarn_pool *other = test_pool("other");
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    void *block = temporary(world.pool, 4 * MIB);
    tarn_driver_graph inside = NULL;
    tarn_graph *child;
    tarn_graph *parent = NULL;
    tn_cu_graph outer = test_graph();
    info_of wanted = {.graph_count = 1,
                      .external_bytes = 4096,
                      .external_count = 1,
                      .node_count = 5,
                      .kernel_count = 2};

    test_set_words(world.stream, weights, 1, WORDS);
    OK(tarn_free(block));
    child = test_capture_end(capture);
    OK(tarn_graph_driver_handles(child, &inside, NULL));
    test_add_empty(outer);
    for (int i = 0; i < 2; i++)
        test_add_child(outer, inside);
    wanted.node_count += 2;
    OK(tarn_graph_adopt(other, outer, &parent));
    expect(of_graph(parent), wanted);
    expect(of_graph(child), (info_of){.graph_count = 1,
                                      .own_pool_bytes = 4 * MIB,
                                      .external_bytes = 4096,
                                      .external_count = 1,
                                      .node_count = 2,
                                      .kernel_count = 1});
    expect(of_device(), (info_of){.graph_count = 2,
                                  .own_pool_bytes = 4 * MIB,
                                  .external_bytes = 4096,
                                  .external_count = 1,
                                  .node_count = 9,
                                  .kernel_count = 3});
    OK(tarn_graph_destroy(child)); /* its nodes in the parent keep the memory */
    expect(of_graph(parent), wanted);
    wanted.other_pool_bytes = 4 * MIB;
    expect(of_device(), wanted);
    destroy(parent);
    OK(tarn_free(weights));
    OK(tarn_pool_destroy(other));
}

TEST(held, an_executable_of_the_programs_keeps_memory_that_is_no_graphs)
{
    tarn_graph *graph = graph_in(world.pool, 4 * MIB);
    tarn_driver_graph inside = NULL;
    tn_cu_graphexec exec;

    OK(tarn_graph_driver_handles(graph, &inside, NULL));
    exec = test_instantiate(inside);
    ck_assert_uint_eq(of_graph(graph).own_pool_bytes, 4 * MIB);
    OK(tarn_graph_destroy(graph));
    expect(of_device(), (info_of){.other_pool_bytes = 4 * MIB});
    test_destroy_exec(exec);
    test_await_destructors(0);
    expect(of_device(), (info_of){.graph_count = 0});
}

TEST(held, an_updated_graph_costs_its_new_section)
{
    tarn_pool *other = test_pool("other");
    tarn_graph *graph = graph_in(world.pool, 4 * MIB);
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);

    OK(tarn_free(temporary(other, 16 * MIB)));
    OK(tarn_graph_update(graph, capture));
    test_await_destructors(2); /* of the section's two holds */
    expect(of_graph(graph), of_kernels(1, 1, 16 * MIB, 0));
    destroy(graph);
    OK(tarn_pool_destroy(other));
}

GROUP(driver, test_world_open, test_world_close)

/* The simulator reserves by the 32 MiB, as the driver does, with the first launch. */
TEST(driver, allocation_nodes_are_the_drivers_memory)
{
    tarn_graph *graph = NULL;
    void *blocks[2];
    tn_cu_graph nodes;
    info_of wanted = {
        .graph_count = 1, .node_bytes = 3 * MIB, .allocation_count = 2, .node_count = 4};

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    blocks[0] = test_allocate_node(world.stream, MIB);
    blocks[1] = test_allocate_node(world.stream, 2 * MIB);
    test_free_node(world.stream, blocks[0]);
    test_free_node(world.stream, blocks[1]);
    nodes = test_end_capture(world.stream);
    OK(tarn_graph_adopt(world.pool, nodes, &graph));
    expect(of_graph(graph), wanted);
    OK(tarn_graph_replay(graph, world.stream));
    test_synchronize(world.stream);
    expect(of_graph(graph), wanted);
    wanted.node_reserved_bytes = 32 * MIB;
    expect(of_device(), wanted);
    destroy(graph);
    test_trim_nodes();
    expect(of_device(), (info_of){.graph_count = 0});
}

/* -- Beside the driver ---------------------------------------------------------------------------- */

/* Three graphs over two pools, with what they share, and blocks of theirs that live on. */
static void make_graphs(tarn_pool *other, tarn_graph *graphs[3], void *outputs[2])
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);

    outputs[0] = temporary(world.pool, 300000);
    OK(tarn_free(temporary(world.pool, 6 * MIB)));
    OK(tarn_free(temporary(other, 16 * MIB)));
    graphs[0] = test_capture_end(capture);
    graphs[1] = graph_in(world.pool, 32 * MIB);
    capture = test_capture_on(other, world.stream, TARN_CAPTURE_RELAXED);
    outputs[1] = temporary(other, 5 * MIB);
    test_fill(world.stream, outputs[0], 1, WORDS);
    graphs[2] = test_capture_end(capture);
}

/* lost: what of the driver's memory is gone with them, once all that is free has gone back. */
static void expect_lost(uint64_t exec_bytes)
{
    tarn_pool *other = test_pool("other");
    size_t before = test_free_bytes();
    tarn_graph *graphs[3];
    void *outputs[2];
    info_of memory;

    make_graphs(other, graphs, outputs);
    OK(tarn_device_trim(world.device, 0, NULL));
    memory = of_device();
    ck_assert_uint_eq(memory.exec_bytes, exec_bytes);
    ck_assert_uint_ge(memory.shared_pool_bytes, 6 * MIB); /* which the second graph extends */
    ck_assert_uint_ge(memory.own_pool_bytes + memory.shared_pool_bytes, 32 * MIB);
    ck_assert_uint_eq(before - test_free_bytes(),
                      memory.own_pool_bytes + memory.shared_pool_bytes + exec_bytes);
    for (int i = 0; i < 3; i++)
        OK(tarn_graph_destroy(graphs[i]));
    test_await_destructors(0);
    OK(tarn_free(outputs[0]));
    OK(tarn_free(outputs[1]));
    OK(tarn_device_trim(world.device, 0, NULL));
    expect(of_device(), (info_of){.exec_bytes = exec_bytes});
    ck_assert_uint_eq(before - test_free_bytes(), exec_bytes); /* which the driver keeps */
    OK(tarn_pool_destroy(other));
}

TEST(driver, the_device_has_less_memory_by_what_graphs_hold)
{
    expect_lost(0);
}

static void open_with_exec_memory(void)
{
    (void)setenv("TARN_SIM_EXEC_MEMORY", "1", 1);
    test_world_open();
}

GROUP(executables, open_with_exec_memory)

TEST(executables, the_device_has_less_memory_by_what_executables_take_too)
{
    expect_lost(2 * MIB);
}

/* The driver gives the memory of one that is gone to the next. */
TEST(executables, an_executable_costs_what_its_instantiation_took)
{
    tarn_graph *first = graph_in(world.pool, 4 * MIB);
    tarn_graph *second = graph_in(world.pool, 4 * MIB);

    ck_assert_uint_eq(of_graph(first).exec_bytes, 2 * MIB);
    ck_assert_uint_eq(of_graph(second).exec_bytes, 0);
    ck_assert_uint_eq(of_device().exec_bytes, 2 * MIB);
    destroy_but(first, 1);
    ck_assert_uint_eq(of_device().exec_bytes, 2 * MIB);
    first = graph_in(world.pool, 4 * MIB);
    ck_assert_uint_eq(of_graph(first).exec_bytes, 0);
    ck_assert_uint_eq(of_device().exec_bytes, 2 * MIB);
    destroy_but(first, 1);
    destroy(second);
}

/* The first of the two questions, or the second. */
TEST_LOOP(executables, where_the_driver_does_not_tell_its_free_memory_a_graph_is_made_all_the_same,
          1, 3)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    tarn_graph *graph = NULL;

    OK(tarn_free(temporary(world.pool, 4 * MIB)));
    sim.plan_fault("cuMemGetInfo", (uint64_t)_i, 0, TN_CUDA_ERROR_UNKNOWN);
    OK(tarn_capture_end(capture, &graph));
    ck_assert_uint_eq(sim.clear_fault(NULL), 1);
    ck_assert_uint_eq(of_graph(graph).exec_bytes, 0);
    ck_assert_uint_eq(of_graph(graph).own_pool_bytes, 4 * MIB);
    ck_assert_uint_eq(of_device().exec_bytes, 0);
    destroy(graph);
}

/* -- Refused -------------------------------------------------------------------------------------- */

GROUP(refused, test_world_open, test_world_close)

TEST(refused, handles_and_sizes_are_checked)
{
    tarn_graph *graph = graph_in(world.pool, 4 * MIB);
    info_of memory = {.size = sizeof memory, .node_count = 77};
    info_of smaller = {.size = sizeof(uint64_t), .node_count = 77};

    REFUSE(TARN_ERR_INVALID_HANDLE, "graph", tarn_graph_memory(NULL, &memory));
    REFUSE(TARN_ERR_INVALID_HANDLE, "graph",
           tarn_graph_memory((tarn_graph *)(void *)world.pool, &memory));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_device_graph_memory(NULL, &memory));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device",
           tarn_device_graph_memory((tarn_device *)(void *)graph, &memory));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "NULL", tarn_graph_memory(graph, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "size", tarn_graph_memory(graph, &smaller));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "NULL", tarn_device_graph_memory(world.device, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "size", tarn_device_graph_memory(world.device, &smaller));
    ck_assert_uint_eq(smaller.node_count, 77);
    destroy(graph);
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_graph_memory(graph, &memory));
    ck_assert_uint_eq(memory.node_count, 77);
}

TEST(refused, what_the_driver_refuses_changes_nothing)
{
    tarn_graph *graph = graph_in(world.pool, 4 * MIB);
    info_of memory = {.size = sizeof memory, .node_count = 77};

    sim.plan_fault("cuGraphGetNodes", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    REFUSE(TARN_ERR_DRIVER, "cuGraphGetNodes", tarn_graph_memory(graph, &memory));
    sim.plan_fault("cuGraphKernelNodeGetParams", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    REFUSE(TARN_ERR_DRIVER, "cuGraphKernelNodeGetParams",
           tarn_device_graph_memory(world.device, &memory));
    sim.plan_fault("cuDeviceGetGraphMemAttribute", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    REFUSE(TARN_ERR_DRIVER, "cuDeviceGetGraphMemAttribute",
           tarn_device_graph_memory(world.device, &memory));
    ck_assert_uint_eq(memory.node_count, 77);
    destroy(graph);
}

/* -- While others work ----------------------------------------------------------------------------- */

static atomic_bool over;

static void *keep_counting(void *none)
{
    while (!atomic_load(&over)) {
        info_of memory = of_device();

        ck_assert_uint_le(memory.graph_count, 2);
        ck_assert_uint_eq(memory.kernel_count, memory.graph_count);
    }
    return none;
}

/* A graph is not read while it is destroyed, or while an update puts another one in its place. */
TEST(held, graphs_come_change_and_go_while_another_thread_counts)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, keep_counting, NULL), 0);
    for (int i = 0; i < 200; i++) {
        tarn_graph *graphs[2] = {graph_in(world.pool, 4 * MIB), graph_in(world.pool, 4 * MIB)};
        tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);

        OK(tarn_free(temporary(world.pool, 4 * MIB)));
        OK(tarn_graph_update(graphs[i % 2], capture));
        OK(tarn_graph_replay(graphs[0], world.stream));
        OK(tarn_graph_destroy(graphs[0]));
        OK(tarn_graph_destroy(graphs[1]));
    }
    atomic_store(&over, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    test_synchronize(world.stream);
    test_await_destructors(0);
    expect(of_device(), (info_of){.graph_count = 0});
}

/* A capture of the same thread goes on, in the strictest mode. */
TEST(held, counting_disturbs_no_capture)
{
    tarn_graph *graph = graph_in(world.pool, 4 * MIB);
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *block = test_malloc(4 * MIB);
    tn_cu_context context = test_context();

    (void)of_graph(graph);
    (void)of_device();
    test_set_context(NULL);
    (void)of_graph(graph);
    (void)of_device();
    ck_assert_ptr_null(test_context());
    test_set_context(context);
    OK(tarn_free(block));
    destroy_but(test_capture_end(capture), 1);
    destroy(graph);
}
