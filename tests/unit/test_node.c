// SPDX-License-Identifier: Apache-2.0
#include "nodes/node.h"
#include "support/bodies.h"
#include "support/nodes.h"
#include "unit/unit.h"

static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
                          ".visible .entry unit_node_mixed(.param .u8 small, .param .u64 address,\n"
                          "    .param .align 8 .b8 block[40])\n{ ret; }\n"
                          ".visible .entry unit_node_bare()\n{ ret; }\n";

/* unit_node_mixed's parameters, packed. */
struct mixed {
    uint8_t small;
    uint64_t address;
    uint64_t block[5];
};

static struct tn_gpu gpu;
static tn_cu_stream stream;
static tn_cu_function mixed_kernel;
static tn_cu_function bare_kernel;
static char *memory;
static tarn_sim_ledger before;

static void open_gpu(void)
{
    unit_gpu(&gpu);
    stream = test_stream();
    memory = test_linear_alloc(4096);
    mixed_kernel = test_kernel(ptx, "unit_node_mixed");
    bare_kernel = test_kernel(ptx, "unit_node_bare");
    before = test_ledger();
}

static void begin(void)
{
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
}

static tn_cu_graph end(void)
{
    return test_end_capture(stream);
}

/* The graph's node, of which it has count. */
static struct tn_node read_node(tn_cu_graph graph, size_t index, size_t count)
{
    tn_cu_graphnode *nodes = NULL;
    size_t found = 0;
    tn_cu_graphnode_type type;
    struct tn_node node;

    OK(tn_driver_graph_read_nodes(&gpu, graph, &nodes, &found));
    ck_assert_uint_eq(found, count);
    OK(tn_node_type(&gpu, nodes[index], &type));
    OK(tn_node_read(&gpu, nodes[index], type, &node));
    tn_host_free(nodes);
    return node;
}

static void drop(tn_cu_graph graph)
{
    test_destroy_graph(graph);
    test_same_ledger(&before);
    ck_assert_int_eq(tn_host_outstanding(), 0);
}

GROUP(others, open_gpu)

TEST(others, a_graph_without_nodes_has_none)
{
    tn_cu_graphnode *nodes = (tn_cu_graphnode *)memory;
    size_t count = 7;
    tn_cu_graph graph = test_graph();

    OK(tn_driver_graph_read_nodes(&gpu, graph, &nodes, &count));
    ck_assert_ptr_null(nodes);
    ck_assert_uint_eq(count, 0);
    drop(graph);
}

GROUP(kernels, open_gpu)

TEST(kernels, a_kernels_parameters_come_as_an_array)
{
    struct mixed mixed = {3, (uint64_t)(uintptr_t)memory, {1, 2, 3, 4, 5}};
    void *values[] = {&mixed.small, &mixed.address, mixed.block};
    struct tn_node node;
    tn_cu_graph graph;

    begin();
    test_launch_kernel(stream, mixed_kernel, values, NULL);
    graph = end();
    node = read_node(graph, 0, 1);
    ck_assert_int_eq(node.type, TN_CU_NODE_KERNEL);
    ck_assert_ptr_eq(node.kernel.function, mixed_kernel);
    ck_assert_ptr_null(node.kernel.buffer);
    ck_assert_mem_eq(node.kernel.values[1], &mixed.address, sizeof mixed.address);
    ck_assert_mem_eq(node.kernel.values[2], mixed.block, sizeof mixed.block);
    drop(graph);
}

TEST(kernels, a_kernels_launch_shape_is_read)
{
    static const uint32_t shape[7] = {2, 3, 4, 5, 6, 7, 512};
    struct tn_node node;
    tn_cu_graph graph;

    begin();
    test_launch_shaped(stream, bare_kernel, shape, NULL);
    graph = end();
    node = read_node(graph, 0, 1);
    ck_assert_uint_eq(sizeof node.kernel.shape, sizeof shape);
    ck_assert_mem_eq(&node.kernel.shape, shape, sizeof shape);
    drop(graph);
}

TEST(kernels, a_kernels_parameters_come_as_a_buffer)
{
    struct mixed mixed = {3, (uint64_t)(uintptr_t)memory, {1, 2, 3, 4, 5}};
    size_t bytes = sizeof mixed;
    void *extra[] = {TN_CU_LAUNCH_PARAM_BUFFER_POINTER, &mixed, TN_CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, TN_CU_LAUNCH_PARAM_END};
    struct tn_node node;
    tn_cu_graph graph;

    begin();
    test_launch_kernel(stream, mixed_kernel, NULL, extra);
    graph = end();
    node = read_node(graph, 0, 1);
    ck_assert_int_eq(node.type, TN_CU_NODE_KERNEL);
    ck_assert_ptr_null(node.kernel.values);
    ck_assert_uint_eq(node.kernel.buffer_bytes, sizeof mixed);
    ck_assert_mem_eq(node.kernel.buffer + 8, &mixed.address, sizeof mixed.address);
    ck_assert_mem_eq(node.kernel.buffer + 16, mixed.block, sizeof mixed.block);
    drop(graph);
}

TEST(kernels, a_kernel_without_parameters_has_neither)
{
    struct tn_node node;
    tn_cu_graph graph;

    begin();
    test_launch_kernel(stream, bare_kernel, NULL, NULL);
    graph = end();
    node = read_node(graph, 0, 1);
    ck_assert_ptr_null(node.kernel.values);
    ck_assert_ptr_null(node.kernel.buffer);
    ck_assert_uint_eq(node.kernel.buffer_bytes, 0);
    drop(graph);
}

TEST(others, copies_and_sets_have_their_addresses)
{
    tn_cu_deviceptr address = (tn_cu_deviceptr)(uintptr_t)memory;
    uint32_t word = 0;
    struct tn_node node;
    tn_cu_graph graph;

    begin();
    test_set_words(stream, memory + 64, 5, 16);
    test_copy_down(stream, &word, memory + 128, sizeof word);
    graph = end();
    node = read_node(graph, 0, 2);
    ck_assert_int_eq(node.type, TN_CU_NODE_MEMSET);
    ck_assert_uint_eq(node.memset.dst, address + 64);
    ck_assert_uint_eq(node.memset.width * node.memset.element_bytes * node.memset.height, 64);
    node = read_node(graph, 1, 2);
    ck_assert_int_eq(node.type, TN_CU_NODE_MEMCPY);
    ck_assert_uint_eq(node.memcpy.src_device, address + 128);
    ck_assert_uint_eq(node.memcpy.width, sizeof word);
    drop(graph);
}

static void host_function(void *user)
{
    (void)user;
}

TEST(others, a_host_function_has_its_argument)
{
    struct tn_node node;
    tn_cu_graph graph;

    begin();
    test_call_host(stream, host_function, &gpu);
    graph = end();
    node = read_node(graph, 0, 1);
    ck_assert_int_eq(node.type, TN_CU_NODE_HOST);
    ck_assert(node.host.function == host_function);
    ck_assert_ptr_eq(node.host.user, &gpu);
    drop(graph);
}

TEST(others, events_are_those_that_were_given)
{
    tn_cu_event event = test_event();
    tn_cu_graph graph;

    begin();
    test_record_node(stream, event);
    test_wait_node(stream, event);
    graph = end();
    ck_assert_int_eq(read_node(graph, 0, 2).type, TN_CU_NODE_EVENT_RECORD);
    ck_assert_ptr_eq(read_node(graph, 0, 2).event, event);
    ck_assert_int_eq(read_node(graph, 1, 2).type, TN_CU_NODE_WAIT_EVENT);
    ck_assert_ptr_eq(read_node(graph, 1, 2).event, event);
    test_event_destroy(event);
    drop(graph);
}

TEST(others, memory_nodes_have_the_address_that_they_give_and_take)
{
    void *address;
    tn_cu_graph graph;

    begin();
    address = test_allocate_node(stream, 8192);
    test_free_node(stream, address);
    graph = end();
    ck_assert_int_eq(read_node(graph, 0, 2).type, TN_CU_NODE_MEM_ALLOC);
    ck_assert_uint_eq(read_node(graph, 0, 2).alloc.address, (uintptr_t)address);
    ck_assert_uint_eq(read_node(graph, 0, 2).alloc.bytes, 8192);
    ck_assert_int_eq(read_node(graph, 1, 2).type, TN_CU_NODE_MEM_FREE);
    ck_assert_uint_eq(read_node(graph, 1, 2).freed, (uintptr_t)address);
    drop(graph);
}

TEST(others, a_batch_has_its_operations)
{
    struct tn_node node;
    tn_cu_graph graph;

    begin();
    test_write_value(stream, memory + 32, 9);
    graph = end();
    node = read_node(graph, 0, 1);
    ck_assert_int_eq(node.type, TN_CU_NODE_BATCH_MEM_OP);
    ck_assert_uint_eq(node.batch.count, 1);
    ck_assert_uint_eq(node.batch.ops[0].value.address, (uintptr_t)memory + 32);
    drop(graph);
}

TEST(others, a_child_graph_can_be_read_in_its_turn)
{
    tn_cu_graph child;
    tn_cu_graph graph = test_graph();
    struct tn_node node;

    begin();
    test_fill(stream, memory, 1, 16);
    child = end();
    test_add_empty(graph);
    test_add_child(graph, child);
    test_destroy_graph(child);
    ck_assert_int_eq(read_node(graph, 0, 2).type, TN_CU_NODE_EMPTY);
    node = read_node(graph, 1, 2);
    ck_assert_int_eq(node.type, TN_CU_NODE_GRAPH);
    node = read_node(node.child, 0, 1);
    ck_assert_int_eq(node.type, TN_CU_NODE_KERNEL);
    ck_assert_mem_eq(node.kernel.values[0], &memory, sizeof memory);
    drop(graph);
}

TEST(others, of_a_conditional_node_its_type_is_known)
{
    tn_cu_graph graph;

    begin();
    (void)test_add_conditional(stream, TN_CU_GRAPH_COND_IF, 1, 1);
    graph = end();
    ck_assert_int_eq(read_node(graph, 0, 1).type, TN_CU_NODE_CONDITIONAL);
    drop(graph);
}

TEST(kernels, a_graph_is_read_while_it_is_captured)
{
    tn_cu_graph graph;

    begin();
    test_fill(stream, memory, 1, 16);
    ck_assert_int_eq(read_node(test_graph_of_capture(stream), 0, 1).type, TN_CU_NODE_KERNEL);
    test_fill(stream, memory, 2, 16);
    graph = end();
    ck_assert_int_eq(read_node(graph, 1, 2).type, TN_CU_NODE_KERNEL);
    drop(graph);
}

TEST(others, without_memory_for_the_nodes_nothing_is_read)
{
    tn_cu_graphnode *nodes = NULL;
    size_t count;
    tn_cu_graph graph;

    begin();
    test_fill(stream, memory, 1, 16);
    graph = end();
    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, tn_driver_graph_read_nodes(&gpu, graph, &nodes, &count));
    unit_expect_sentence("1 nodes");
    ck_assert_ptr_null(nodes);
    drop(graph);
}

/* Each call that reads a node, refused in its turn: the sentence names it. */
TEST(others, what_the_driver_refuses_is_named)
{
    static const char *const calls[] = {"cuGraphGetNodes", "cuGraphNodeGetType",
                                        "cuGraphKernelNodeGetParams", "cuGraphMemsetNodeGetParams"};
    tn_cu_graph graph;

    begin();
    test_fill(stream, memory, 1, 16);
    test_set_words(stream, memory, 5, 16);
    graph = end();
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        tn_cu_graphnode *nodes = NULL;
        struct tn_node node;
        size_t count;
        tarn_status status;

        sim.plan_fault(calls[i], 1, 1, TN_CUDA_ERROR_UNKNOWN);
        status = tn_driver_graph_read_nodes(&gpu, graph, &nodes, &count);
        for (size_t at = 0; status == TARN_OK && at < count; at++) {
            tn_cu_graphnode_type type;

            status = tn_node_type(&gpu, nodes[at], &type);
            if (status == TARN_OK)
                status = tn_node_read(&gpu, nodes[at], type, &node);
        }
        ck_assert_int_eq(status, TARN_ERR_DRIVER);
        unit_expect_sentence(calls[i]);
        ck_assert_uint_gt(sim.clear_fault(NULL), 0);
        tn_host_free(nodes);
    }
    drop(graph);
}

TEST(others, every_type_of_node_has_a_name_of_its_own)
{
    for (int type = TN_CU_NODE_KERNEL; type <= TN_CU_NODE_CONDITIONAL; type++) {
        ck_assert_str_ne(tn_node_type_name(type), "unknown");
        for (int other = TN_CU_NODE_KERNEL; other < type; other++)
            ck_assert_str_ne(tn_node_type_name(type), tn_node_type_name(other));
    }
    ck_assert_str_eq(tn_node_type_name(TN_CU_NODE_CONDITIONAL + 1), "unknown");
    ck_assert_str_eq(tn_node_type_name(-1), "unknown");
}
