// SPDX-License-Identifier: Apache-2.0
/* graph.c -- graphs: their parts, copies and orders.
 *
 * How it works. A graph lists its nodes in the order they were added, and each node lists its
 * dependencies. graph_query.c answers questions about a graph, node_params.c has the parameters of
 * nodes, and graph_add.c adds nodes by hand. A graph, its clones and its executable graphs share
 * operations; graphs inside graphs are copied.
 *
 * Trade-offs. A set of nodes is an array, searched from end to end: frontiers are short. An order
 * is found by repeated passes over the list. A single pass is enough when nodes were added in their
 * order, as captures do. */
#include "sim/graph/graph.h"

#include <stdlib.h>
#include <string.h>

#include "sim/core/cost.h"
#include "sim/graph/op.h"

#define FIRST_CAPACITY 4

bool tn_sim_node_set_append(struct tn_sim_node_set *set, struct tn_sim_node *node)
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

/* The place of a node in a set; the set's count when the node is not in. */
static size_t place_of(const struct tn_sim_node_set *set, const struct tn_sim_node *node)
{
    size_t i = 0;
    while (i < set->count && set->items[i] != node)
        i++;
    return i;
}

bool tn_sim_node_set_add(struct tn_sim_node_set *set, struct tn_sim_node *node)
{
    return place_of(set, node) < set->count || tn_sim_node_set_append(set, node);
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

/* Makes an empty graph, with a handle unless the graph is private. */
static struct tn_sim_graph *create(bool is_private)
{
    struct tn_sim_graph *graph = calloc(1, sizeof *graph);
    if (graph == NULL || is_private)
        return graph;
    if (!tn_sim_register(&graph->object, TN_SIM_KIND_GRAPH, NULL)) {
        free(graph);
        return NULL;
    }
    tn_sim.ledger.graphs++;
    return graph;
}

struct tn_sim_graph *tn_sim_graph_create(void)
{
    return create(false);
}

static void destroy_node(struct tn_sim_node *node)
{
    for (size_t i = 0; i < node->body_count; i++)
        tn_sim_graph_destroy(node->bodies[i]);
    free(node->bodies);
    free(node->body_handles);
    tn_sim_unregister(&node->object);
    tn_sim_node_set_fini(&node->before);
    free(node->edges);
    tn_sim_op_release(node->op);
    free(node);
}

static void destroy_conditionals(struct tn_sim_graph *graph)
{
    while (graph->conditionals != NULL) {
        struct tn_sim_conditional *conditional = graph->conditionals;
        graph->conditionals = conditional->next;
        tn_sim_unregister(&conditional->object);
        free(conditional);
    }
}

void tn_sim_graph_memory_release(struct tn_sim_graph_memory *memory)
{
    if (--memory->references > 0)
        return;
    memory->fini(memory);
    free(memory);
}

void tn_sim_graph_destroy(struct tn_sim_graph *graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++)
        destroy_node(graph->nodes.items[i]);
    tn_sim_node_set_fini(&graph->nodes);
    tn_sim_node_set_fini(&graph->order);
    destroy_conditionals(graph);
    tn_sim_holdings_fini(&graph->holdings);
    if (graph->memory != NULL)
        tn_sim_graph_memory_release(graph->memory);
    if (graph->object.handle != 0)
        tn_sim.ledger.graphs--;
    tn_sim_unregister(&graph->object);
    free(graph);
}

/* Adds a node without edges. */
static struct tn_sim_node *add(struct tn_sim_graph *graph, struct tn_sim_op *op, bool is_private)
{
    struct tn_sim_node *node = calloc(1, sizeof *node);
    if (node == NULL)
        return NULL;
    node->op = tn_sim_op_acquire(op);
    node->graph = graph;
    node->index = graph->nodes.count;
    if ((!is_private && !tn_sim_register(&node->object, TN_SIM_KIND_NODE, NULL)) ||
        !tn_sim_node_set_append(&graph->nodes, node)) {
        destroy_node(node);
        return NULL;
    }
    return node;
}

struct tn_sim_node *tn_sim_graph_add(struct tn_sim_graph *graph, struct tn_sim_op *op,
                                     const struct tn_sim_node_set *before)
{
    struct tn_sim_node *node = add(graph, op, false);
    for (size_t i = 0; node != NULL && i < before->count; i++) {
        if (!tn_sim_node_depend(node, before->items[i], (tn_cu_edge_data){0})) {
            tn_sim_node_remove(node);
            return NULL;
        }
    }
    return node;
}

bool tn_sim_node_depend(struct tn_sim_node *node, struct tn_sim_node *on, tn_cu_edge_data edge)
{
    size_t place = place_of(&node->before, on);
    if (place == node->before.count) {
        tn_cu_edge_data *edges = realloc(node->edges, (place + 1) * sizeof *edges);
        if (edges == NULL)
            return false;
        node->edges = edges;
        if (!tn_sim_node_set_append(&node->before, on))
            return false;
    }
    node->edges[place] = edge; /* SG3 */
    return true;
}

void tn_sim_node_forget(struct tn_sim_node *node, const struct tn_sim_node *gone)
{
    size_t place = place_of(&node->before, gone);
    if (place == node->before.count)
        return;
    size_t rest = --node->before.count - place;
    memmove(&node->before.items[place], &node->before.items[place + 1],
            rest * sizeof node->before.items[0]);
    memmove(&node->edges[place], &node->edges[place + 1], rest * sizeof node->edges[0]);
}

void tn_sim_node_remove(struct tn_sim_node *node)
{
    struct tn_sim_node_set *nodes = &node->graph->nodes;
    nodes->count--;
    for (size_t i = node->index; i < nodes->count; i++) {
        nodes->items[i] = nodes->items[i + 1];
        nodes->items[i]->index = i;
    }
    for (size_t i = 0; i < nodes->count; i++)
        tn_sim_node_forget(nodes->items[i], node);
    destroy_node(node);
}

bool tn_sim_edge_is_default(const tn_cu_edge_data *edge)
{
    const tn_cu_edge_data ordinary = {0};
    return memcmp(edge, &ordinary, sizeof ordinary) == 0;
}

/* Makes a graph, private or not, the next body of a node. */
static bool adopt(struct tn_sim_node *node, struct tn_sim_graph *body)
{
    struct tn_sim_graph **bodies =
        body == NULL
            ? NULL
            : realloc(node->bodies, (node->body_count + 1) * sizeof(struct tn_sim_graph *));
    if (bodies == NULL) {
        if (body != NULL)
            tn_sim_graph_destroy(body);
        return false;
    }
    node->bodies = bodies;
    node->bodies[node->body_count++] = body;
    body->owner = node;
    return true;
}

bool tn_sim_node_add_body(struct tn_sim_node *node, const struct tn_sim_graph *original)
{
    return adopt(node, original == NULL ? create(false) : tn_sim_graph_copy(original, false));
}

/* Copies a node into a copy of its graph, with its bodies and without its edges. */
static bool copy_node(struct tn_sim_graph *copy, const struct tn_sim_node *original,
                      bool is_private)
{
    struct tn_sim_node *node = add(copy, original->op, is_private);
    if (node == NULL)
        return false;
    node->origin = original->object.handle != 0 ? original->object.handle : original->origin;
    node->disabled = original->disabled;
    node->condition = original->condition;
    for (size_t i = 0; i < original->body_count; i++) {
        if (!adopt(node, tn_sim_graph_copy(original->bodies[i], is_private)))
            return false;
    }
    return true;
}

static bool copy_edges(const struct tn_sim_graph *copy, const struct tn_sim_node *original)
{
    struct tn_sim_node *node = copy->nodes.items[original->index];
    for (size_t i = 0; i < original->before.count; i++) {
        struct tn_sim_node *on = copy->nodes.items[original->before.items[i]->index];
        if (!tn_sim_node_depend(node, on, original->edges[i]))
            return false;
    }
    return true;
}

struct tn_sim_graph *tn_sim_graph_copy(const struct tn_sim_graph *original, bool is_private)
{
    struct tn_sim_graph *copy = create(is_private);
    if (copy == NULL)
        return NULL;
    bool ok = tn_sim_holdings_copy(&copy->holdings, &original->holdings);
    for (size_t i = 0; ok && i < original->nodes.count; i++)
        ok = copy_node(copy, original->nodes.items[i], is_private);
    for (size_t i = 0; ok && i < original->nodes.count; i++)
        ok = copy_edges(copy, original->nodes.items[i]);
    if (!ok) {
        tn_sim_graph_destroy(copy);
        return NULL;
    }
    if (original->memory != NULL) {
        original->memory->references++;
        copy->memory = original->memory;
    }
    return copy;
}

static void unreach_all(const struct tn_sim_graph *graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++)
        graph->nodes.items[i]->reached = false;
}

/* Marks all nodes before marked nodes. */
static void reach_back(const struct tn_sim_graph *graph)
{
    bool again = true;
    while (again) {
        again = false;
        for (size_t i = graph->nodes.count; i > 0; i--) {
            const struct tn_sim_node *node = graph->nodes.items[i - 1];
            for (size_t j = 0; node->reached && j < node->before.count; j++) {
                struct tn_sim_node *before = node->before.items[j];
                /* A node that this pass has already gone by is left for the next pass. */
                again = again || (!before->reached && before->index > node->index);
                before->reached = true;
            }
        }
    }
}

bool tn_sim_graph_reaches(const struct tn_sim_graph *graph, const struct tn_sim_node_set *last,
                          const struct tn_sim_node_set *nodes)
{
    unreach_all(graph);
    for (size_t i = 0; i < last->count; i++)
        last->items[i]->reached = true;
    reach_back(graph);
    for (size_t i = 0; i < nodes->count; i++) {
        if (!nodes->items[i]->reached)
            return false;
    }
    return true;
}

bool tn_sim_node_precedes(const struct tn_sim_node *node, struct tn_sim_node *other)
{
    unreach_all(other->graph);
    other->reached = true;
    reach_back(other->graph);
    return node->reached;
}

/* Asks whether all nodes before a node are in the order already, and the node is not. */
static bool is_next(const struct tn_sim_node *node)
{
    if (node->reached)
        return false;
    for (size_t i = 0; i < node->before.count; i++) {
        if (!node->before.items[i]->reached)
            return false;
    }
    return true;
}

bool tn_sim_graph_sort(struct tn_sim_graph *graph)
{
    unreach_all(graph);
    bool moves = true;
    while (moves) {
        moves = false;
        for (size_t i = 0; i < graph->nodes.count; i++) {
            struct tn_sim_node *node = graph->nodes.items[i];
            if (!is_next(node)) /* SG1 */
                continue;
            if (!tn_sim_node_set_append(&graph->order, node))
                return false;
            node->reached = true;
            moves = true;
        }
    }
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct tn_sim_node *node = graph->nodes.items[i];
        for (size_t j = 0; j < node->body_count; j++) {
            if (!tn_sim_graph_sort(node->bodies[j]))
                return false;
        }
    }
    return true;
}

/* Asks whether a graph, or a graph in it, has a node of either type. */
static bool has_node(const struct tn_sim_graph *graph, tn_cu_graphnode_type one,
                     tn_cu_graphnode_type other)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct tn_sim_node *node = graph->nodes.items[i];
        if (node->op->type == one || node->op->type == other)
            return true;
        for (size_t j = 0; j < node->body_count; j++) {
            if (has_node(node->bodies[j], one, other))
                return true;
        }
    }
    return false;
}

bool tn_sim_graph_has_memory(const struct tn_sim_graph *graph)
{
    return has_node(graph, TN_CU_NODE_MEM_ALLOC, TN_CU_NODE_MEM_FREE);
}

bool tn_sim_graph_has_condition(const struct tn_sim_graph *graph)
{
    return has_node(graph, TN_CU_NODE_CONDITIONAL, TN_CU_NODE_CONDITIONAL);
}

/* Asks whether a capture writes to a graph, or to a graph in it. */
static bool captured(const struct tn_sim_graph *graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        if (tn_sim_node_captured(graph->nodes.items[i]))
            return true;
    }
    return graph->capturing;
}

bool tn_sim_node_captured(const struct tn_sim_node *node)
{
    for (size_t i = 0; i < node->body_count; i++) {
        if (captured(node->bodies[i]))
            return true;
    }
    return false;
}

tn_cu_result tn_sim_graph_find(tn_cu_graph handle, struct tn_sim_graph **graph)
{
    if (handle == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    *graph = tn_sim_find(TN_SIM_KIND_GRAPH, (uintptr_t)handle);
    return *graph == NULL ? TN_CUDA_ERROR_INVALID_HANDLE : TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_node_find(tn_cu_graphnode handle, struct tn_sim_node **node)
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
    if (captured(graph)) /* SG2 */
        return TN_CUDA_ERROR_ILLEGAL_STATE;
    if (graph->owner != NULL) /* the graph goes with its node */
        return TN_CUDA_ERROR_INVALID_VALUE;
    uint64_t due = tn_sim_reaper_count();
    tn_sim_charge(graph->nodes.count);
    tn_sim_graph_destroy(graph);
    tn_sim_reaper_await(due);
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuGraphClone(tn_cu_graph *clone, tn_cu_graph original)
{
    struct tn_sim_graph *graph;
    if (clone == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_graph_find(original, &graph);
    if (result != TN_CUDA_SUCCESS)
        return result;
    /* Addresses and conditions belong to a single graph. */
    if (tn_sim_graph_has_memory(graph) || tn_sim_graph_has_condition(graph))
        return TN_CUDA_ERROR_NOT_SUPPORTED;
    const struct tn_sim_graph *copy = tn_sim_graph_copy(graph, false);
    if (copy == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    *clone = (tn_cu_graph)copy->object.handle;
    return TN_CUDA_SUCCESS;
}
