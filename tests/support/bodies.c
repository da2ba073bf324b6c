// SPDX-License-Identifier: Apache-2.0
#include "support/bodies.h"

struct test_node test_add_conditional(tn_cu_stream stream, tn_cu_conditional_type type,
                                      unsigned int size, unsigned int value)
{
    struct test_node made = {{NULL}};
    tn_cu_capture_status status = TN_CU_CAPTURE_STATUS_NONE;
    const tn_cu_graphnode *nodes = NULL;
    const tn_cu_edge_data *edges = NULL;
    tn_cu_node_params params = {.type = TN_CU_NODE_CONDITIONAL};
    tn_cu_graph graph = NULL;
    tn_cu_graphnode node;
    size_t count = 0;

    ck_assert_uint_le(size, TEST_BODIES_MAX);
    CU_OK(cu.cuStreamGetCaptureInfo(stream, &status, NULL, &graph, &nodes, &edges, &count));
    ck_assert_int_eq(status, TN_CU_CAPTURE_STATUS_ACTIVE);
    CU_OK(cu.cuCtxGetCurrent(&params.conditional.ctx));
    CU_OK(cu.cuGraphConditionalHandleCreate(&params.conditional.handle, graph,
                                            params.conditional.ctx, value,
                                            TN_CU_GRAPH_COND_ASSIGN_DEFAULT));
    params.conditional.type = type;
    params.conditional.size = size;
    CU_OK(cu.cuGraphAddNode(&node, graph, nodes, NULL, count, &params));
    for (unsigned int i = 0; i < size; i++)
        made.bodies[i] = params.conditional.bodies[i];
    CU_OK(cu.cuStreamUpdateCaptureDependencies(stream, &node, NULL, 1, 1)); /* set */
    return made;
}

tn_cu_graph test_graph(void)
{
    tn_cu_graph graph = NULL;

    CU_OK(cu.cuGraphCreate(&graph, 0));
    return graph;
}

void test_add_child(tn_cu_graph graph, tn_cu_graph child)
{
    tn_cu_graphnode node = NULL;

    CU_OK(cu.cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
}
