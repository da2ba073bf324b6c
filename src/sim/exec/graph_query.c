// SPDX-License-Identifier: Apache-2.0
/* graph_query.c -- questions about graphs and nodes: nodes and edges.
 *
 * How it works. A list is told through a struct telling. It counts all entries, hands out as many
 * as the program's arrays hold, and clears the rest of the arrays. It also notices when an edge's
 * data would be lost.
 *
 * Trade-offs. The dependents of a node are found by walking its graph. */
#include "sim/graph/graph.h"
#include "sim/graph/op.h"

/* A list on its way to the program; any array may be NULL. */
struct telling {
    tn_cu_graphnode *from;
    tn_cu_graphnode *to;
    tn_cu_edge_data *edges;
    size_t room;  /* of each array that the program gave */
    size_t found; /* so far */
    bool lossy;   /* the program has no place for existing data */
};

static void tell(struct telling *telling, const struct tn_sim_node *from,
                 const struct tn_sim_node *to, const tn_cu_edge_data *edge)
{
    size_t place = telling->found++;
    if (place >= telling->room)
        return;
    if (telling->from != NULL)
        telling->from[place] = (tn_cu_graphnode)from->object.handle;
    if (telling->to != NULL)
        telling->to[place] = (tn_cu_graphnode)to->object.handle;
    if (edge == NULL)
        return;
    if (telling->edges != NULL)
        telling->edges[place] = *edge;
    else if (!tn_sim_edge_is_default(edge))
        telling->lossy = true;
}

/* Clears the rest of the arrays, and gives the count: of all entries when none was handed out. */
static tn_cu_result told(const struct telling *telling, size_t *count)
{
    bool asked = telling->from != NULL || telling->to != NULL;
    for (size_t i = telling->found; i < telling->room; i++) {
        if (telling->from != NULL)
            telling->from[i] = NULL;
        if (telling->to != NULL)
            telling->to[i] = NULL;
        if (telling->edges != NULL)
            telling->edges[i] = (tn_cu_edge_data){0};
    }
    if (telling->lossy)
        return TN_CUDA_ERROR_LOSSY_QUERY;
    *count = asked && telling->found > telling->room ? telling->room : telling->found;
    return TN_CUDA_SUCCESS;
}

/* Tells the nodes of a graph in the order they were added; or the nodes without dependencies, which
 * the driver tells newest first. */
static tn_cu_result tell_nodes(tn_cu_graph handle, tn_cu_graphnode *nodes, size_t *count,
                               bool roots)
{
    struct tn_sim_graph *graph;
    if (count == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_graph_find(handle, &graph);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct telling telling = {.from = nodes, .room = nodes == NULL ? 0 : *count};
    for (size_t i = 0; i < graph->nodes.count; i++) {
        size_t place = roots ? graph->nodes.count - 1 - i : i;
        const struct tn_sim_node *node = graph->nodes.items[place];
        if (!roots || node->before.count == 0)
            tell(&telling, node, NULL, NULL);
    }
    return told(&telling, count);
}

tn_cu_result tn_sim_cuGraphGetNodes(tn_cu_graph handle, tn_cu_graphnode *nodes, size_t *count)
{
    return tell_nodes(handle, nodes, count, false);
}

tn_cu_result tn_sim_cuGraphGetRootNodes(tn_cu_graph handle, tn_cu_graphnode *nodes, size_t *count)
{
    return tell_nodes(handle, nodes, count, true);
}

tn_cu_result tn_sim_cuGraphGetEdges(tn_cu_graph handle, tn_cu_graphnode *from, tn_cu_graphnode *to,
                                    tn_cu_edge_data *edges, size_t *count)
{
    struct tn_sim_graph *graph;
    if (count == NULL || (from == NULL) != (to == NULL) || (from == NULL && edges != NULL))
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_graph_find(handle, &graph);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct telling telling = {from, to, edges, from == NULL ? 0 : *count, 0, false};
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct tn_sim_node *node = graph->nodes.items[i];
        for (size_t j = 0; j < node->before.count; j++)
            tell(&telling, node->before.items[j], node, &node->edges[j]);
    }
    return told(&telling, count);
}

tn_cu_result tn_sim_cuGraphNodeGetType(tn_cu_graphnode handle, tn_cu_graphnode_type *type)
{
    struct tn_sim_node *node;
    if (type == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_node_find(handle, &node);
    if (result == TN_CUDA_SUCCESS)
        *type = node->op->type;
    return result;
}

tn_cu_result tn_sim_cuGraphNodeGetDependencies(tn_cu_graphnode handle,
                                               tn_cu_graphnode *dependencies,
                                               tn_cu_edge_data *edges, size_t *count)
{
    struct tn_sim_node *node;
    if (count == NULL || (dependencies == NULL && edges != NULL))
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_node_find(handle, &node);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct telling telling = {
        .from = dependencies, .edges = edges, .room = dependencies == NULL ? 0 : *count};
    for (size_t i = 0; i < node->before.count; i++)
        tell(&telling, node->before.items[i], node, &node->edges[i]);
    return told(&telling, count);
}

tn_cu_result tn_sim_cuGraphNodeGetDependentNodes(tn_cu_graphnode handle,
                                                 tn_cu_graphnode *dependents,
                                                 tn_cu_edge_data *edges, size_t *count)
{
    struct tn_sim_node *node;
    if (count == NULL || (dependents == NULL && edges != NULL))
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_node_find(handle, &node);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct telling telling = {
        .to = dependents, .edges = edges, .room = dependents == NULL ? 0 : *count};
    for (size_t i = 0; i < node->graph->nodes.count; i++) {
        const struct tn_sim_node *other = node->graph->nodes.items[i];
        for (size_t j = 0; j < other->before.count; j++) {
            if (other->before.items[j] == node)
                tell(&telling, node, other, &other->edges[j]);
        }
    }
    return told(&telling, count);
}
