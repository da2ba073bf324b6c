// SPDX-License-Identifier: Apache-2.0
/* graph_add.c -- nodes and edges added by hand, and taken out.
 *
 * How it works. Every call that adds a node becomes a description of the node and a list of its
 * dependencies. Both are checked before the graph changes. A stream may be capturing into the
 * graph.
 *
 * Trade-offs. No node is taken out of a graph during a capture into the graph: streams and events
 * may stand for the node. */
#include <stdlib.h>

#include "sim/heap/graph_memory.h"
#include "sim/exec/node_params.h"

/* The dependencies of a new node, as the program gives them. */
struct dependencies {
    const tn_cu_graphnode *handles;
    const tn_cu_edge_data *edges; /* or NULL */
    size_t count;
};

/* The kinds of edges with data: a kernel starts when another kernel triggers this, or is
 * launched. */
#define EDGE_PROGRAMMATIC 1
#define LAST_KERNEL_PORT 2

/* Asks whether an edge makes sense for its ends; `to` is the type of the node that depends. */
static bool makes_sense(const tn_cu_edge_data *edge, const struct tn_sim_node *from,
                        tn_cu_graphnode_type to)
{
    if (edge == NULL || tn_sim_edge_is_default(edge))
        return true;
    for (size_t i = 0; i < sizeof edge->reserved; i++) {
        if (edge->reserved[i] != 0)
            return false;
    }
    return edge->type == EDGE_PROGRAMMATIC && edge->to_port == 0 && edge->from_port > 0 &&
           edge->from_port <= LAST_KERNEL_PORT && from->op->type == TN_CU_NODE_KERNEL &&
           to == TN_CU_NODE_KERNEL;
}

static tn_cu_edge_data edge_at(const tn_cu_edge_data *edges, size_t place)
{
    return edges == NULL ? (tn_cu_edge_data){0} : edges[place];
}

/* Finds a node of a graph, on which another node shall depend. */
static tn_cu_result find_in(const struct tn_sim_graph *graph, tn_cu_graphnode handle,
                            struct tn_sim_node **node)
{
    tn_cu_result result = tn_sim_node_find(handle, node);
    if (result != TN_CUDA_SUCCESS)
        return result;
    return (*node)->graph == graph ? TN_CUDA_SUCCESS : TN_CUDA_ERROR_INVALID_VALUE;
}

static tn_cu_result check_dependencies(const struct tn_sim_graph *graph,
                                       const struct dependencies *dependencies,
                                       tn_cu_graphnode_type type)
{
    struct tn_sim_node *node;
    if (dependencies->count > 0 && dependencies->handles == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < dependencies->count; i++) {
        tn_cu_result result = find_in(graph, dependencies->handles[i], &node);
        if (result != TN_CUDA_SUCCESS)
            return result;
        const tn_cu_edge_data *edge = dependencies->edges == NULL ? NULL : &dependencies->edges[i];
        if (!makes_sense(edge, node, type))
            return TN_CUDA_ERROR_INVALID_VALUE;
        for (size_t j = 0; j < i; j++) {
            if (dependencies->handles[j] == dependencies->handles[i])
                return TN_CUDA_ERROR_INVALID_VALUE;
        }
    }
    return TN_CUDA_SUCCESS;
}

/* Gives a new node its edges. Returns false when memory ran out. */
static bool connect(struct tn_sim_node *node, const struct dependencies *dependencies)
{
    struct tn_sim_node *on;
    for (size_t i = 0; i < dependencies->count; i++) {
        if (tn_sim_node_find(dependencies->handles[i], &on) != TN_CUDA_SUCCESS ||
            !tn_sim_node_depend(node, on, edge_at(dependencies->edges, i)))
            return false;
    }
    return true;
}

/* Gives a new node of a child graph or a condition its graphs. Returns false when memory ran
 * out. */
static bool fill(struct tn_sim_node *node, tn_cu_node_params *params)
{
    if (params->type == TN_CU_NODE_GRAPH) {
        struct tn_sim_graph *child;
        return tn_sim_graph_find(params->child.graph, &child) == TN_CUDA_SUCCESS &&
               tn_sim_node_add_body(node, child);
    }
    if (params->type != TN_CU_NODE_CONDITIONAL)
        return true;
    unsigned int size = params->conditional.size;
    node->body_handles = calloc(size, sizeof(tn_cu_graph));
    if (node->body_handles == NULL)
        return false;
    for (unsigned int i = 0; i < size; i++) {
        if (!tn_sim_node_add_body(node, NULL))
            return false;
        node->body_handles[i] = (tn_cu_graph)node->bodies[i]->object.handle;
    }
    params->conditional.bodies = node->body_handles;
    return true;
}

/* Adds a described node. */
static tn_cu_result add(tn_cu_graphnode *handle, tn_cu_graph graph_handle,
                        struct dependencies dependencies, tn_cu_node_params *params)
{
    struct tn_sim_graph *graph;
    struct tn_sim_op *op;
    const struct tn_sim_node_set none = {0};
    if (handle == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_graph_find(graph_handle, &graph);
    if (result == TN_CUDA_SUCCESS)
        result = check_dependencies(graph, &dependencies, params->type);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_make_node(graph, params, &op);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_node *node = tn_sim_graph_add(graph, op, &none);
    tn_sim_op_release(op);
    if (node == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    if (!connect(node, &dependencies) || !fill(node, params)) {
        tn_sim_node_remove(node);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (params->type == TN_CU_NODE_CONDITIONAL)
        tn_sim_condition_take(params->conditional.handle);
    *handle = (tn_cu_graphnode)node->object.handle;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuGraphAddNode(tn_cu_graphnode *handle, tn_cu_graph graph,
                                   const tn_cu_graphnode *dependencies,
                                   const tn_cu_edge_data *edges, size_t dependency_count,
                                   tn_cu_node_params *params)
{
    if (params == NULL || (edges != NULL && dependencies == NULL))
        return TN_CUDA_ERROR_INVALID_VALUE;
    return add(handle, graph, (struct dependencies){dependencies, edges, dependency_count}, params);
}

tn_cu_result tn_sim_cuGraphAddEmptyNode(tn_cu_graphnode *handle, tn_cu_graph graph,
                                        const tn_cu_graphnode *dependencies,
                                        size_t dependency_count)
{
    tn_cu_node_params params = {.type = TN_CU_NODE_EMPTY};
    return add(handle, graph, (struct dependencies){dependencies, NULL, dependency_count}, &params);
}

tn_cu_result tn_sim_cuGraphAddKernelNode(tn_cu_graphnode *handle, tn_cu_graph graph,
                                         const tn_cu_graphnode *dependencies,
                                         size_t dependency_count,
                                         const tn_cu_kernel_node_params *kernel)
{
    if (kernel == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_node_params params = {.type = TN_CU_NODE_KERNEL, .kernel = *kernel};
    return add(handle, graph, (struct dependencies){dependencies, NULL, dependency_count}, &params);
}

tn_cu_result tn_sim_cuGraphAddChildGraphNode(tn_cu_graphnode *handle, tn_cu_graph graph,
                                             const tn_cu_graphnode *dependencies,
                                             size_t dependency_count, tn_cu_graph child)
{
    tn_cu_node_params params = {.type = TN_CU_NODE_GRAPH, .child = {.graph = child}};
    return add(handle, graph, (struct dependencies){dependencies, NULL, dependency_count}, &params);
}

tn_cu_result tn_sim_cuGraphAddMemAllocNode(tn_cu_graphnode *handle, tn_cu_graph graph,
                                           const tn_cu_graphnode *dependencies,
                                           size_t dependency_count, tn_cu_alloc_node_params *alloc)
{
    if (alloc == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_node_params params = {.type = TN_CU_NODE_MEM_ALLOC, .alloc = *alloc};
    tn_cu_result result =
        add(handle, graph, (struct dependencies){dependencies, NULL, dependency_count}, &params);
    if (result == TN_CUDA_SUCCESS)
        alloc->address = params.alloc.address;
    return result;
}

tn_cu_result tn_sim_cuGraphAddMemFreeNode(tn_cu_graphnode *handle, tn_cu_graph graph,
                                          const tn_cu_graphnode *dependencies,
                                          size_t dependency_count, tn_cu_deviceptr address)
{
    tn_cu_node_params params = {.type = TN_CU_NODE_MEM_FREE, .free = address};
    return add(handle, graph, (struct dependencies){dependencies, NULL, dependency_count}, &params);
}

tn_cu_result tn_sim_cuGraphAddBatchMemOpNode(tn_cu_graphnode *handle, tn_cu_graph graph,
                                             const tn_cu_graphnode *dependencies,
                                             size_t dependency_count,
                                             const tn_cu_batch_node_params *batch)
{
    if (batch == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_node_params params = {.type = TN_CU_NODE_BATCH_MEM_OP, .batch = *batch};
    return add(handle, graph, (struct dependencies){dependencies, NULL, dependency_count}, &params);
}

/* Checks an edge before it is added, and finds its ends. */
static tn_cu_result check_edge(const struct tn_sim_graph *graph, tn_cu_graphnode from_handle,
                               tn_cu_graphnode to_handle, const tn_cu_edge_data *edge,
                               struct tn_sim_node **from, struct tn_sim_node **to)
{
    tn_cu_result result = find_in(graph, from_handle, from);
    if (result == TN_CUDA_SUCCESS)
        result = find_in(graph, to_handle, to);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (*from == *to || !makes_sense(edge, *from, (*to)->op->type))
        return TN_CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < (*to)->before.count; i++) {
        if ((*to)->before.items[i] == *from)
            return TN_CUDA_ERROR_INVALID_VALUE;
    }
    /* The driver notices a cycle when the graph is instantiated. */
    return tn_sim_strict() && tn_sim_node_precedes(*to, *from) ? TN_CUDA_ERROR_INVALID_VALUE
                                                               : TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuGraphAddDependencies(tn_cu_graph handle, const tn_cu_graphnode *from,
                                           const tn_cu_graphnode *to, const tn_cu_edge_data *edges,
                                           size_t count)
{
    struct tn_sim_graph *graph;
    struct tn_sim_node *source;
    struct tn_sim_node *target;
    tn_cu_result result = tn_sim_graph_find(handle, &graph);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (count > 0 && (from == NULL || to == NULL))
        return TN_CUDA_ERROR_INVALID_VALUE;
    size_t added = 0;
    while (result == TN_CUDA_SUCCESS && added < count) {
        const tn_cu_edge_data *edge = edges == NULL ? NULL : &edges[added];
        result = check_edge(graph, from[added], to[added], edge, &source, &target);
        if (result == TN_CUDA_SUCCESS && !tn_sim_node_depend(target, source, edge_at(edges, added)))
            result = TN_CUDA_ERROR_OUT_OF_MEMORY;
        added += result == TN_CUDA_SUCCESS;
    }
    /* All or none: each edge was checked with the edges before it in place. */
    while (result != TN_CUDA_SUCCESS && added > 0) {
        added--;
        if (tn_sim_node_find(from[added], &source) == TN_CUDA_SUCCESS &&
            tn_sim_node_find(to[added], &target) == TN_CUDA_SUCCESS)
            tn_sim_node_forget(target, source);
    }
    return result;
}

tn_cu_result tn_sim_cuGraphDestroyNode(tn_cu_graphnode handle)
{
    struct tn_sim_node *node;
    tn_cu_result result = tn_sim_node_find(handle, &node);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (node->graph->capturing || tn_sim_node_captured(node)) /* SG2 */
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (tn_sim_graph_has_memory(node->graph)) /* its lifetimes are fixed */
        return TN_CUDA_ERROR_NOT_SUPPORTED;
    tn_sim_node_remove(node);
    return TN_CUDA_SUCCESS;
}
