// SPDX-License-Identifier: Apache-2.0
#include "nodes/edges.h"
#include "nodes/node.h"
#include "support/bodies.h"
#include "support/nodes.h"
#include "unit/ordered.h"
#include "unit/unit.h"

enum { MANY = 300 };

static struct tn_gpu gpu;
static tn_cu_stream stream;
static tn_cu_stream side;
static char *memory;
static tn_cu_graphnode *nodes;
static size_t node_count;
static struct tn_edge *edges;
static size_t count;

static void open_gpu(void)
{
    unit_gpu(&gpu);
    stream = test_stream();
    side = test_stream();
    memory = test_linear_alloc(4096);
}

static void begin(void)
{
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
}

static void work(tn_cu_stream where)
{
    test_set_words(where, memory, 1, 1);
}

static void read_edges(tn_cu_graph graph)
{
    OK(tn_driver_graph_read_nodes(&gpu, graph, &nodes, &node_count));
    OK(tn_driver_graph_read_edges(&gpu, graph, nodes, node_count, &edges, &count));
}

static void expect(size_t at, uint32_t from, uint32_t to)
{
    ck_assert_uint_lt(at, count);
    ck_assert_uint_eq(edges[at].from, from);
    ck_assert_uint_eq(edges[at].to, to);
}

static void drop(tn_cu_graph graph)
{
    tn_host_free(nodes);
    tn_host_free(edges);
    test_destroy_graph(graph);
    ck_assert_int_eq(tn_host_outstanding(), 0);
}

GROUP(edges, open_gpu)

TEST(edges, nodes_that_nothing_connects_have_no_edges)
{
    tn_cu_graph graph = test_graph();

    test_add_empty(graph);
    test_add_empty(graph);
    edges = (struct tn_edge *)(void *)memory;
    count = 7;
    read_edges(graph);
    ck_assert_uint_eq(count, 0);
    ck_assert_ptr_null(edges);
    drop(graph);
}

TEST(edges, edges_are_in_order_of_the_node_behind_them_and_of_the_one_before)
{
    tn_cu_graph graph;

    begin();
    work(stream); /* 0 */
    test_order(stream, side);
    work(stream); /* 1, behind 0 */
    work(side);   /* 2, behind 0 */
    work(stream); /* 3, behind 1 */
    test_order(side, stream);
    work(stream); /* 4, behind 3 and 2 */
    graph = test_end_capture(stream);
    read_edges(graph);
    ck_assert_uint_eq(count, 5);
    expect(0, 0, 1);
    expect(1, 0, 2);
    expect(2, 1, 3);
    expect(3, 2, 4);
    expect(4, 3, 4);
    for (size_t i = 0; i < count; i++)
        ck_assert_uint_eq(edges[i].kind, 0);
    drop(graph);
}

TEST(edges, many_nodes_are_told_apart)
{
    tn_cu_graph graph;

    begin();
    for (int i = 0; i < MANY; i++)
        work(stream);
    graph = test_end_capture(stream);
    read_edges(graph);
    ck_assert_uint_eq(count, MANY - 1);
    for (uint32_t i = 0; i < MANY - 1; i++)
        expect(i, i, i + 1);
    drop(graph);
}

TEST(edges, an_edge_that_does_not_wait_for_the_whole_node_is_of_another_kind)
{
    tn_cu_graph graph;

    begin();
    test_fill(stream, memory, 1, 1);
    test_set_past(stream, test_last_node(stream), false);
    test_fill(stream, memory, 1, 1);
    graph = test_end_capture(stream);
    read_edges(graph);
    ck_assert_uint_eq(count, 1);
    expect(0, 0, 1);
    ck_assert_uint_eq(edges[0].kind, 1 << 16 | 1); /* its port, and its type */
    drop(graph);
}

TEST(edges, what_fails_leaves_nothing)
{
    tarn_status status;
    uint64_t failures = 0;
    tn_cu_graph graph;

    begin();
    work(stream);
    work(stream);
    graph = test_end_capture(stream);
    read_edges(graph);
    tn_host_free(edges);
    edges = NULL;
    for (uint64_t nth = 1; nth <= 2; nth++) {
        sim.plan_fault("cuGraphGetEdges", nth, 0, TN_CUDA_ERROR_UNKNOWN);
        STATUS(TARN_ERR_DRIVER,
               tn_driver_graph_read_edges(&gpu, graph, nodes, node_count, &edges, &count));
        unit_expect_sentence("cuGraphGetEdges");
        ck_assert_ptr_null(edges);
        ck_assert_int_eq(tn_host_outstanding(), 1); /* the nodes */
    }
    do {
        failures += 1;
        (void)tn_host_plan_fault(failures, false);
        status = tn_driver_graph_read_edges(&gpu, graph, nodes, node_count, &edges, &count);
        ck_assert_uint_eq(tn_host_plan_fault(0, false), status == TARN_OK ? 0 : 1);
        ck_assert(status == TARN_OK || status == TARN_ERR_HOST_MEMORY);
        ck_assert_int_eq(tn_host_outstanding(), status == TARN_OK ? 2 : 1);
    } while (status != TARN_OK);
    ck_assert_uint_eq(failures, 6); /* three arrays of the driver's, the table, the edges */
    drop(graph);
}
