// SPDX-License-Identifier: Apache-2.0
#include "support/bodies.h"
#include "support/liar.h"
#include "unit/compared.h"

static void host_function(void *user)
{
    (void)user;
}

/* A node of each type that can be inspected. */
static void capture_all(void)
{
    char *allocated;

    touch(block);
    test_launch_kernel(stream, bare, NULL, NULL);
    test_copy(stream, memory, block, 64);
    test_set_words(stream, block, 1, 16);
    test_call_host(stream, host_function, memory);
    test_record_node(stream, event);
    test_wait_node(stream, event);
    test_write_value(stream, memory, 3);
    allocated = test_allocate_node(stream, BYTES);
    test_free_node(stream, allocated);
}

GROUP(nodes, open_device)

TEST(nodes, a_graph_is_equal_to_itself)
{
    tn_cu_graph inner;
    tn_cu_graph graph = test_graph();

    begin();
    touch(block);
    inner = end();
    test_add_empty(graph);
    test_add_child(graph, inner);
    compare(graph, graph, 0);
    ck_assert(diff->same_structure && diff->complete && diff->corresponds);
    ck_assert_uint_eq(diff->node_count, 3);
    drop(graph, graph);
    test_destroy_graph(inner);
    begin();
    capture_all();
    graph = end();
    compare(graph, graph, 0);
    ck_assert_uint_eq(diff->node_count, 10);
    drop(graph, graph);
}

TEST(nodes, empty_graphs_are_equal)
{
    tn_cu_graph a = test_graph();
    tn_cu_graph b = test_graph();

    compare(a, b, 0);
    ck_assert_uint_eq(diff->node_count, 0);
    ck_assert_ptr_null(diff->nodes);
    ck_assert_ptr_null(diff->differences);
    drop(a, b);
}

TEST(nodes, the_same_calls_make_the_same_graph)
{
    tn_cu_graph graphs[2];

    for (int i = 0; i < 2; i++) {
        begin();
        touch(block);
        test_order(stream, side);
        test_copy(side, memory, second, 64);
        launch_packed(&usual, PARAM_BYTES);
        test_order(side, stream);
        test_set_words(stream, third, 1, 16);
        graphs[i] = end();
    }
    compare(graphs[0], graphs[1], 0);
    ck_assert_uint_eq(diff->node_count, 4);
    ck_assert_ptr_ne(diff->nodes[0].handles[0], diff->nodes[0].handles[1]);
    ck_assert_str_eq(diff->nodes[0].kernels[0], "unit_compare");
    ck_assert_ptr_null(diff->nodes[1].kernels[0]);
    ck_assert_int_eq(diff->nodes[1].types[1], TN_CU_NODE_MEMCPY);
    ck_assert_uint_eq(diff->nodes[3].ordinal, 3);
    ck_assert_uint_eq(diff->nodes[3].parent, TARN_NO_NODE);
    drop(graphs[0], graphs[1]);
}

TEST(nodes, fields_of_other_nodes_are_named)
{
    tn_cu_event another = test_event();
    char *allocated[2];
    tn_cu_graph a;
    tn_cu_graph b;

    outstanding = tn_host_outstanding();
    begin();
    test_copy(stream, memory, block, 64);
    test_set_words(stream, memory, 1, 16);
    test_call_host(stream, host_function, memory);
    test_record_node(stream, event);
    test_wait_node(stream, event);
    test_write_value(stream, memory, 3);
    allocated[0] = test_allocate_node(stream, BYTES);
    test_free_node(stream, allocated[0]);
    a = end();
    begin();
    test_copy(stream, memory, block, 96);
    test_set_words(stream, memory + 4, 1, 16);
    test_call_host(stream, host_function, block);
    test_record_node(stream, another);
    test_wait_node(stream, another);
    test_write_value(stream, memory, 4);
    allocated[1] = test_allocate_node(stream, 2 * BYTES);
    test_free_node(stream, allocated[1]);
    b = end();
    OK(tn_graphs_compare(&device->regions, a, b, &diff));
    ck_assert(diff->same_structure && !diff->corresponds && !diff->equal);
    expect_field(0, TARN_GRAPH_DIFFERENCE_FIELD, 0, "width", 64, 96);
    expect_field(1, TARN_GRAPH_DIFFERENCE_FIELD, 1, "destination", word_of(memory),
                 word_of(memory + 4));
    expect_field(2, TARN_GRAPH_DIFFERENCE_FIELD, 2, "argument", word_of(memory), word_of(block));
    expect_field(3, TARN_GRAPH_DIFFERENCE_FIELD, 3, "event", word_of(event), word_of(another));
    expect_field(4, TARN_GRAPH_DIFFERENCE_FIELD, 4, "event", word_of(event), word_of(another));
    expect_field(5, TARN_GRAPH_DIFFERENCE_FIELD, 5, "value", 3, 4);
    ck_assert_uint_eq(diff->differences[5].index, 0); /* of the operation */
    ck_assert_uint_eq(diff->differences[diff->difference_count - 1].node,
                      allocated[0] == allocated[1] ? 6 : 7);
    drop(a, b);
}

TEST(nodes, another_type_of_node_is_another_structure)
{
    tn_cu_graph a;
    tn_cu_graph b;

    begin();
    touch(block);
    test_set_words(stream, block, 1, 16);
    a = end();
    begin();
    test_copy(stream, memory, block, 64);
    test_set_words(stream, block, 2, 16);
    b = end();
    compare(a, b, 2);
    expect(0, TARN_GRAPH_DIFFERENCE_NODE_TYPE, 0, TN_CU_NODE_KERNEL, TN_CU_NODE_MEMCPY);
    expect_field(1, TARN_GRAPH_DIFFERENCE_FIELD, 1, "value", 1, 2);
    ck_assert(!diff->same_structure && diff->complete && !diff->corresponds);
    drop(a, b);
}

TEST(nodes, a_node_more_is_another_structure)
{
    tn_cu_graph graphs[2];

    for (int i = 0; i < 2; i++) {
        begin();
        touch(block);
        touch(i == 0 ? second : third);
        if (i == 1)
            touch(block);
        graphs[i] = end();
    }
    compare(graphs[0], graphs[1], 2);
    expect(0, TARN_GRAPH_DIFFERENCE_NODE_COUNT, TARN_NO_NODE, 2, 3);
    expect_word(1, 1, 1, 0, 8, word_of(second), word_of(third));
    ck_assert(diff->differences[1].corresponds);
    ck_assert(!diff->same_structure && !diff->corresponds);
    ck_assert_uint_eq(diff->node_count, 2);
    tn_graph_diff_destroy(diff);
    compare(graphs[1], graphs[0], 2);
    expect(0, TARN_GRAPH_DIFFERENCE_NODE_COUNT, TARN_NO_NODE, 3, 2);
    drop(graphs[0], graphs[1]);
}

/* Six nodes: 0, then 1 and 2 beside each other, 3 behind 1 or behind both, 4 behind all of it, and 5 behind 4. */
static tn_cu_graph fork_and_join(bool both)
{
    begin();
    touch(block);
    test_order(stream, side);
    test_set_words(stream, memory, 1, 1);
    test_set_words(side, memory, 1, 1);
    if (both)
        test_order(side, stream);
    touch(block);
    if (!both)
        test_order(side, stream);
    touch(block);
    touch(block);
    return end();
}

TEST(nodes, other_edges_are_another_structure)
{
    tn_cu_graph straight = fork_and_join(false);
    tn_cu_graph joined = fork_and_join(true);

    compare(straight, joined, 2);
    expect(0, TARN_GRAPH_DIFFERENCE_EDGES, 3, TARN_NO_NODE, 2); /* 1 before both */
    expect(1, TARN_GRAPH_DIFFERENCE_EDGES, 4, 2, 3);
    ck_assert(!diff->same_structure && diff->complete && !diff->corresponds);
    tn_graph_diff_destroy(diff);
    compare(joined, straight, 2);
    expect(0, TARN_GRAPH_DIFFERENCE_EDGES, 3, 2, TARN_NO_NODE);
    drop(straight, joined);
}

TEST(nodes, edges_of_another_kind_are_another_structure)
{
    tn_cu_graph graphs[2];

    for (int i = 0; i < 2; i++) {
        begin();
        touch(block);
        touch(block);
        test_set_past(stream, test_last_node(stream), i == 0);
        touch(block);
        graphs[i] = end();
    }
    compare(graphs[0], graphs[1], 1);
    expect(0, TARN_GRAPH_DIFFERENCE_EDGES, 2, 1, 1);
    ck_assert(!diff->same_structure);
    drop(graphs[0], graphs[1]);
}

/* An outer graph of an empty node, and of two more whose graphs hold a kernel each, the second one deeper. */
static tn_cu_graph nest(const void *address, bool more)
{
    tn_cu_graph graph = test_graph();
    tn_cu_graph middle = test_graph();
    tn_cu_graph inner[2];

    for (int i = 0; i < 2; i++) {
        begin();
        touch(i == 0 ? block : address);
        inner[i] = end();
    }
    test_add_child(middle, inner[1]);
    if (more)
        test_add_empty(middle);
    test_add_empty(graph);
    test_add_child(graph, inner[0]);
    test_add_child(graph, middle);
    test_destroy_graph(inner[0]);
    test_destroy_graph(inner[1]);
    test_destroy_graph(middle);
    return graph;
}

TEST(nodes, child_graphs_are_compared)
{
    tn_cu_graph a = nest(second, false);
    tn_cu_graph b = nest(memory, false);
    tn_cu_graph c = nest(second, true);

    compare(a, b, 1);
    ck_assert(diff->same_structure);
    ck_assert_uint_eq(diff->node_count, 6);
    expect_word(0, 5, 1, 0, 8, word_of(second), word_of(memory));
    ck_assert_uint_eq(diff->nodes[5].parent, 4);
    ck_assert_uint_eq(diff->nodes[5].ordinal, 0);
    ck_assert_uint_eq(diff->nodes[4].parent, 2);
    ck_assert_uint_eq(diff->nodes[3].parent, 1);
    ck_assert_uint_eq(diff->nodes[2].parent, TARN_NO_NODE);
    ck_assert_uint_eq(diff->nodes[2].ordinal, 2);
    tn_graph_diff_destroy(diff);
    compare(a, c, 1);
    ck_assert(!diff->same_structure);
    expect(0, TARN_GRAPH_DIFFERENCE_NODE_COUNT, 2, 1, 2);
    test_destroy_graph(b);
    drop(a, c);
}

TEST(nodes, without_memory_no_other_structure_is_left)
{
    tn_cu_graph straight = fork_and_join(false);
    tn_cu_graph joined = fork_and_join(true);
    tn_cu_graph a = nest(second, false);
    tn_cu_graph b = nest(second, true);

    expect_no_leak(straight, joined, 10);
    expect_no_leak(a, b, 10);
    expect_no_leak(a, joined, 10);
    test_destroy_graph(straight);
    test_destroy_graph(joined);
    test_destroy_graph(a);
    test_destroy_graph(b);
}

/* As an external semaphore's, or of a driver that is newer than Tarn. */
TEST(nodes, nodes_of_other_types_cannot_be_inspected)
{
    tn_cu_graph graph = test_graph();
    struct tn_driver liar = test_naming_types(device->gpu.driver, (tn_cu_graphnode_type)8);

    test_add_empty(graph);
    device->gpu.driver = &liar;
    compare(graph, graph, 1);
    ck_assert(diff->same_structure && !diff->complete && !diff->corresponds);
    expect_field(0, TARN_GRAPH_DIFFERENCE_UNINSPECTED, 0, "all", 0, 0);
    ck_assert_int_eq(diff->nodes[0].types[0], 8);
    drop(graph, graph);
}

TEST(nodes, operations_that_nobody_knows_cannot_be_inspected)
{
    struct tn_driver liar = test_inventing_operations(device->gpu.driver);
    tn_cu_graph graph;

    begin();
    test_write_value(stream, memory, 3);
    graph = end();
    device->gpu.driver = &liar;
    compare(graph, graph, 1);
    expect_field(0, TARN_GRAPH_DIFFERENCE_UNINSPECTED, 0, "operation", 0, 0);
    drop(graph, graph);
}
