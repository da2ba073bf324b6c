// SPDX-License-Identifier: Apache-2.0
/* graph.c -- graphs and the questions that can be asked of them.
 *
 * How it works. Only captures and clones make nodes, and both keep the order G1, so no function
 * here sorts. Operations are shared between a graph, its clones and what is instantiated from it.
 *
 * Trade-offs. A set of nodes is an array that is searched from end to end: frontiers are short. */
#include "sim/graph.h"

#include <stdlib.h>

#include "sim/module.h"
#include "sim/op.h"

#define FIRST_CAPACITY 4

static bool append(struct tn_sim_node_set *set, struct tn_sim_node *node)
{
    if (set->count == set->capacity) {
        size_t capacity = set->capacity == 0 ? FIRST_CAPACITY : set->capacity * 2;
        struct tn_sim_node **items = realloc(set->items, capacity * sizeof(struct tn_sim_node *));
        if (items == NULL)
            return false;
        set->items = items;
        set->capacity = capacity;
    }
    set->items[set->count++] = node;
    return true;
}

bool tn_sim_node_set_add(struct tn_sim_node_set *set, struct tn_sim_node *node)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->items[i] == node)
            return true;
    }
    return append(set, node);
}

bool tn_sim_node_set_add_all(struct tn_sim_node_set *set, const struct tn_sim_node_set *other)
{
    for (size_t i = 0; i < other->count; i++) {
        if (!tn_sim_node_set_add(set, other->items[i]))
            return false;
    }
    return true;
}

void tn_sim_node_set_fini(struct tn_sim_node_set *set)
{
    free(set->items);
    *set = (struct tn_sim_node_set){0};
}

struct tn_sim_graph *tn_sim_graph_create(void)
{
    struct tn_sim_graph *graph = calloc(1, sizeof *graph);
    if (graph == NULL || !tn_sim_register(&graph->object, TN_SIM_KIND_GRAPH, NULL)) {
        free(graph);
        return NULL;
    }
    tn_sim.ledger.graphs++;
    return graph;
}

static void destroy_node(struct tn_sim_node *node)
{
    tn_sim_unregister(&node->object);
    tn_sim_node_set_fini(&node->before);
    tn_sim_op_release(node->op);
    free(node);
}

void tn_sim_graph_destroy(struct tn_sim_graph *graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++)
        destroy_node(graph->nodes.items[i]);
    tn_sim_node_set_fini(&graph->nodes);
    tn_sim_holdings_fini(&graph->holdings);
    tn_sim_unregister(&graph->object);
    tn_sim.ledger.graphs--;
    free(graph);
}

struct tn_sim_node *tn_sim_graph_add(struct tn_sim_graph *graph, struct tn_sim_op *op,
                                     const struct tn_sim_node_set *before)
{
    struct tn_sim_node *node = calloc(1, sizeof *node);
    if (node == NULL)
        return NULL;
    node->op = tn_sim_op_acquire(op);
    node->index = graph->nodes.count;
    if (!tn_sim_node_set_add_all(&node->before, before) ||
        !tn_sim_register(&node->object, TN_SIM_KIND_NODE, NULL) || !append(&graph->nodes, node)) {
        destroy_node(node);
        return NULL;
    }
    return node;
}

bool tn_sim_graph_reaches_all(struct tn_sim_graph *graph, const struct tn_sim_node_set *last)
{
    for (size_t i = 0; i < graph->nodes.count; i++)
        graph->nodes.items[i]->reached = false;
    for (size_t i = 0; i < last->count; i++)
        last->items[i]->reached = true;
    /* Backwards, every node is settled before those that it depends on (G1). */
    for (size_t i = graph->nodes.count; i > 0; i--) {
        const struct tn_sim_node *node = graph->nodes.items[i - 1];
        if (!node->reached)
            return false;
        for (size_t j = 0; j < node->before.count; j++)
            node->before.items[j]->reached = true;
    }
    return true;
}

tn_cu_result tn_sim_graph_find(tn_cu_graph handle, struct tn_sim_graph **graph)
{
    if (handle == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    *graph = tn_sim_find(TN_SIM_KIND_GRAPH, (uintptr_t)handle);
    return *graph == NULL ? TN_CUDA_ERROR_INVALID_HANDLE : TN_CUDA_SUCCESS;
}

static tn_cu_result find_node(tn_cu_graphnode handle, struct tn_sim_node **node)
{
    if (handle == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    *node = tn_sim_find(TN_SIM_KIND_NODE, (uintptr_t)handle);
    return *node == NULL ? TN_CUDA_ERROR_INVALID_HANDLE : TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuGraphCreate(tn_cu_graph *handle, unsigned int flags)
{
    if (handle == NULL || flags != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_graph *graph = tn_sim_graph_create();
    if (graph == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    *handle = (tn_cu_graph)graph->object.handle;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuGraphDestroy(tn_cu_graph handle)
{
    struct tn_sim_graph *graph;
    tn_cu_result result = tn_sim_graph_find(handle, &graph);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (graph->capturing) /* G2 */
        return TN_CUDA_ERROR_ILLEGAL_STATE;
    tn_sim_graph_destroy(graph);
    return TN_CUDA_SUCCESS;
}

/* Copies nodes and edges into an empty graph. Returns false when memory ran out. */
static bool copy_nodes(struct tn_sim_graph *copy, const struct tn_sim_graph *original)
{
    for (size_t i = 0; i < original->nodes.count; i++) {
        const struct tn_sim_node *node = original->nodes.items[i];
        struct tn_sim_node_set before = {0};
        bool ok = true;
        for (size_t j = 0; ok && j < node->before.count; j++)
            ok = append(&before, copy->nodes.items[node->before.items[j]->index]);
        ok = ok && tn_sim_graph_add(copy, node->op, &before) != NULL;
        tn_sim_node_set_fini(&before);
        if (!ok)
            return false;
    }
    return true;
}

tn_cu_result tn_sim_cuGraphClone(tn_cu_graph *clone, tn_cu_graph original)
{
    struct tn_sim_graph *graph;
    if (clone == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_graph_find(original, &graph);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_graph *copy = tn_sim_graph_create();
    if (copy == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    if (!copy_nodes(copy, graph) || !tn_sim_holdings_copy(&copy->holdings, &graph->holdings)) {
        tn_sim_graph_destroy(copy);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    *clone = (tn_cu_graph)copy->object.handle;
    return TN_CUDA_SUCCESS;
}

/* Hands the handles of a set out: as many as there is room for, the rest of the room NULL. */
static void list_nodes(const struct tn_sim_node_set *set, tn_cu_graphnode *nodes, size_t *count)
{
    size_t room = nodes == NULL ? 0 : *count;
    size_t given = set->count;
    for (size_t i = 0; i < room; i++)
        nodes[i] = i < set->count ? (tn_cu_graphnode)set->items[i]->object.handle : NULL;
    if (nodes != NULL && given > room)
        given = room;
    *count = given;
}

tn_cu_result tn_sim_cuGraphGetNodes(tn_cu_graph handle, tn_cu_graphnode *nodes, size_t *count)
{
    struct tn_sim_graph *graph;
    if (count == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_graph_find(handle, &graph);
    if (result == TN_CUDA_SUCCESS)
        list_nodes(&graph->nodes, nodes, count);
    return result;
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
    size_t room = from == NULL ? 0 : *count;
    size_t found = 0;
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct tn_sim_node *node = graph->nodes.items[i];
        for (size_t j = 0; j < node->before.count; j++, found++) {
            if (found >= room)
                continue;
            from[found] = (tn_cu_graphnode)node->before.items[j]->object.handle;
            to[found] = (tn_cu_graphnode)node->object.handle;
        }
    }
    for (size_t i = found; i < room; i++) {
        from[i] = NULL;
        to[i] = NULL;
    }
    for (size_t i = 0; edges != NULL && i < room; i++)
        edges[i] = (tn_cu_edge_data){0};
    *count = from != NULL && found > room ? room : found;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuGraphNodeGetType(tn_cu_graphnode handle, tn_cu_graphnode_type *type)
{
    struct tn_sim_node *node;
    if (type == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = find_node(handle, &node);
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
    tn_cu_result result = find_node(handle, &node);
    if (result != TN_CUDA_SUCCESS)
        return result;
    for (size_t i = 0; edges != NULL && i < *count; i++)
        edges[i] = (tn_cu_edge_data){0};
    list_nodes(&node->before, dependencies, count);
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuGraphKernelNodeGetParams(tn_cu_graphnode handle,
                                               tn_cu_kernel_node_params *params)
{
    struct tn_sim_node *node;
    if (params == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = find_node(handle, &node);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (node->op->type != TN_CU_NODE_KERNEL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_kernel_op *kernel = &node->op->kernel;
    *params = (tn_cu_kernel_node_params){
        .func = (tn_cu_function)kernel->code->handle,
        .grid_x = kernel->launch.grid[0],
        .grid_y = kernel->launch.grid[1],
        .grid_z = kernel->launch.grid[2],
        .block_x = kernel->launch.block[0],
        .block_y = kernel->launch.block[1],
        .block_z = kernel->launch.block[2],
        .shared_bytes = kernel->launch.shared_bytes,
        .kernel_params = kernel->packed ? NULL : kernel->params,
        .extra = kernel->packed ? kernel->extra : NULL,
        .ctx = (tn_cu_context)node->op->context->object.handle,
    };
    return TN_CUDA_SUCCESS;
}
