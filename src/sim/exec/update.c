// SPDX-License-Identifier: Apache-2.0
/* update.c -- cuGraphExecUpdate.
 *
 * How it works. Nodes of the executable graph's plan and of the other graph are paired: first the
 * nodes on which nothing depends, the newest first, then backwards along the edges, in the order of
 * the edges. The first forbidden difference ends the update, and nothing has changed. Otherwise a
 * plan is made of the other graph. Its nodes take the names and the switches of the nodes whose
 * place they take. The references to user objects go with the old plan.
 *
 * Trade-offs. The only attribute of nodes that is kept is the cooperative launch. */
#include "sim/exec/update.h"

#include <string.h>

#include "sim/exec/exec.h"
#include "sim/heap/graph_memory.h"
#include "sim/memory/space.h"
#include "sim/run/op_run.h"

/* -- Operations -- */

/* Rows of a copy: a single row, or a shape that may not change. */
static size_t rows_of(const struct tn_sim_copy_op *copy)
{
    return copy->shape.width == 0 ? 1 : copy->shape.height * copy->shape.depth;
}

/* The context with which memory goes; NULL for memory that belongs to no context. */
static const struct tn_sim_context *owner_of(uintptr_t address)
{
    const struct tn_sim_linear *linear = tn_sim_index_find(&tn_sim_linears, address);
    const struct tn_sim_host *host = tn_sim_index_find(&tn_sim_hosts, address);
    if (linear != NULL)
        return linear->context;
    return host == NULL ? NULL : host->context;
}

static tn_cu_update_result copy_change(const struct tn_sim_copy_op *from,
                                       const struct tn_sim_copy_op *to)
{
    bool same = from->to_device == to->to_device && from->from_device == to->from_device &&
                rows_of(from) == 1 && rows_of(to) == 1 && owner_of(from->to) == owner_of(to->to) &&
                owner_of(from->from) == owner_of(to->from);
    return same ? TN_CU_GRAPH_UPDATE_SUCCESS : TN_CU_GRAPH_UPDATE_PARAMETERS_CHANGED;
}

static tn_cu_update_result set_change(const struct tn_sim_set_op *from,
                                      const struct tn_sim_set_op *to)
{
    if (from->rows <= 1 && to->rows <= 1)
        return TN_CU_GRAPH_UPDATE_SUCCESS;
    bool same = from->rows == to->rows && from->count == to->count && from->width == to->width &&
                from->pitch == to->pitch;
    return same ? TN_CU_GRAPH_UPDATE_SUCCESS : TN_CU_GRAPH_UPDATE_PARAMETERS_CHANGED;
}

/* Addresses, values and comparisons may change; the rest of a batch stays. */
static tn_cu_update_result batch_change(const struct tn_sim_batch_op *from,
                                        const struct tn_sim_batch_op *to)
{
    bool same = from->count == to->count && from->flags == to->flags;
    for (unsigned int i = 0; same && i < from->count; i++)
        same = from->ops[i].operation == to->ops[i].operation &&
               (from->ops[i].operation != TN_CU_STREAM_MEM_OP_BARRIER ||
                from->ops[i].barrier.flags == to->ops[i].barrier.flags);
    return same ? TN_CU_GRAPH_UPDATE_SUCCESS : TN_CU_GRAPH_UPDATE_PARAMETERS_CHANGED;
}

tn_cu_update_result tn_sim_op_change(const struct tn_sim_op *from, const struct tn_sim_op *to)
{
    if (from->type != to->type)
        return TN_CU_GRAPH_UPDATE_NODE_TYPE_CHANGED;
    switch (from->type) {
    case TN_CU_NODE_KERNEL:
        if (from->kernel.together != to->kernel.together)
            return TN_CU_GRAPH_UPDATE_ATTRIBUTES_CHANGED;
        return from->context == to->context ? TN_CU_GRAPH_UPDATE_SUCCESS
                                            : TN_CU_GRAPH_UPDATE_FUNCTION_CHANGED;
    case TN_CU_NODE_MEMCPY:
        return copy_change(&from->copy, &to->copy);
    case TN_CU_NODE_MEMSET:
        return set_change(&from->set, &to->set);
    case TN_CU_NODE_BATCH_MEM_OP:
        return batch_change(&from->batch, &to->batch);
    case TN_CU_NODE_MEM_ALLOC:
    case TN_CU_NODE_MEM_FREE:
        /* Any other allocation will do; the executable graph has the other graph's memory then. */
        return TN_CU_GRAPH_UPDATE_SUCCESS;
    case TN_CU_NODE_CONDITIONAL:
        return from->conditional.type == to->conditional.type ? TN_CU_GRAPH_UPDATE_SUCCESS
                                                              : TN_CU_GRAPH_UPDATE_NOT_SUPPORTED;
    default:
        return TN_CU_GRAPH_UPDATE_SUCCESS;
    }
}

/* -- Graphs -- */

/* An obstacle to an update, and its place. */
struct difference {
    tn_cu_update_result result;
    const struct tn_sim_node *node; /* of the other graph; or NULL */
    const struct tn_sim_node *from; /* on which the node depends and should not; or NULL */
};

static struct difference compare(const struct tn_sim_graph *old, const struct tn_sim_graph *new);

/* Asks whether a set does as before, or names memory that the set may use now. */
static bool set_is_there(const struct tn_sim_op *old, const struct tn_sim_op *new)
{
    return new->type != TN_CU_NODE_MEMSET || tn_sim_op_valid_in_graph(new) ||
           memcmp(&old->set, &new->set, sizeof old->set) == 0;
}

/* Compares the work of two nodes. */
static struct difference compare_work(const struct tn_sim_node *old, const struct tn_sim_node *new)
{
    struct difference difference = {.result = tn_sim_op_change(old->op, new->op), .node = new};
    if (difference.result == TN_CU_GRAPH_UPDATE_SUCCESS && !set_is_there(old->op, new->op))
        difference.result = TN_CU_GRAPH_UPDATE_ERROR;
    if (difference.result == TN_CU_GRAPH_UPDATE_SUCCESS && old->body_count != new->body_count)
        difference.result = TN_CU_GRAPH_UPDATE_PARAMETERS_CHANGED;
    for (size_t i = 0; i < old->body_count && difference.result == TN_CU_GRAPH_UPDATE_SUCCESS; i++)
        difference = compare(old->bodies[i], new->bodies[i]);
    return difference;
}

/* Makes two nodes a pair. */
static struct difference pair(struct tn_sim_node *old, struct tn_sim_node *new)
{
    if (old->before.count != new->before.count)
        return (struct difference){TN_CU_GRAPH_UPDATE_TOPOLOGY_CHANGED, new, NULL};
    struct difference difference = compare_work(old, new);
    old->twin = new;
    new->twin = old;
    old->paired = 0;
    return difference;
}

/* Makes two nodes a pair, and then all nodes before them. Not by recursion: chains are long. */
static struct difference pair_back(struct tn_sim_node *old, struct tn_sim_node *new)
{
    struct difference difference = pair(old, new);
    old->behind = NULL;
    while (old != NULL && difference.result == TN_CU_GRAPH_UPDATE_SUCCESS) {
        if (old->paired == old->before.count) {
            old = old->behind;
            continue;
        }
        struct tn_sim_node *one = old->before.items[old->paired];
        struct tn_sim_node *other = old->twin->before.items[old->paired];
        old->paired++;
        if (one->twin == NULL && other->twin == NULL) {
            difference = pair(one, other);
            one->behind = old;
            old = one;
        } else if (one->twin != other) {
            difference = (struct difference){TN_CU_GRAPH_UPDATE_TOPOLOGY_CHANGED, old->twin, other};
        }
    }
    return difference;
}

/* Begins a walk: no node has a twin; `reached` tells the nodes on which others depend. */
static void unpair(const struct tn_sim_graph *graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        graph->nodes.items[i]->twin = NULL;
        graph->nodes.items[i]->reached = false;
    }
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct tn_sim_node *node = graph->nodes.items[i];
        for (size_t j = 0; j < node->before.count; j++)
            node->before.items[j]->reached = true;
    }
}

/* The newest node before a place on which no node depends, or NULL; moves the place there. */
static struct tn_sim_node *next_exit(const struct tn_sim_graph *graph, size_t *place)
{
    while (*place > 0) {
        struct tn_sim_node *node = graph->nodes.items[--*place];
        if (!node->reached)
            return node;
    }
    return NULL;
}

static size_t count_exits(const struct tn_sim_graph *graph)
{
    size_t place = graph->nodes.count;
    size_t count = 0;
    while (next_exit(graph, &place) != NULL)
        count++;
    return count;
}

static struct difference compare(const struct tn_sim_graph *old, const struct tn_sim_graph *new)
{
    struct difference difference = {.result = TN_CU_GRAPH_UPDATE_SUCCESS};
    size_t old_place = old->nodes.count;
    size_t new_place = new->nodes.count;
    if (old_place != new_place)
        return (struct difference){.result = TN_CU_GRAPH_UPDATE_TOPOLOGY_CHANGED};
    unpair(old);
    unpair(new);
    size_t exits = count_exits(old);
    bool same_exits = exits == count_exits(new);
    for (size_t i = 0; i < exits && difference.result == TN_CU_GRAPH_UPDATE_SUCCESS; i++) {
        struct tn_sim_node *new_exit = next_exit(new, &new_place);
        if (same_exits)
            difference = pair_back(next_exit(old, &old_place), new_exit);
    }
    if (!same_exits) /* names the first exit without a partner */
        return (struct difference){TN_CU_GRAPH_UPDATE_TOPOLOGY_CHANGED, next_exit(new, &new_place),
                                   NULL};
    return difference;
}

/* Gives the nodes of a plan, which is a copy of the other graph, the names and switches of their
 * partners. */
static void take_over(const struct tn_sim_graph *plan, const struct tn_sim_graph *graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct tn_sim_node *from = graph->nodes.items[i];
        struct tn_sim_node *node = plan->nodes.items[i];
        node->origin = from->twin->origin;
        node->disabled = from->twin->disabled;
        for (size_t j = 0; j < from->body_count; j++)
            take_over(node->bodies[j], from->bodies[j]);
    }
}

/* Gives an executable graph the memory of the graph from which it is updated. */
static void take_memory(struct tn_sim_exec *exec, struct tn_sim_graph_memory *memory)
{
    if (exec->memory == memory)
        return;
    if (exec->memory != NULL) {
        exec->memory->instantiated = false;
        tn_sim_graph_memory_release(exec->memory);
    }
    exec->memory = memory;
    if (memory != NULL) {
        memory->references++;
        memory->instantiated = true;
    }
}

static tn_cu_result update(struct tn_sim_exec *exec, const struct tn_sim_graph *graph,
                           struct difference *difference)
{
    *difference = compare(exec->plan->graph, graph);
    if (difference->result == TN_CU_GRAPH_UPDATE_SUCCESS && graph->memory != NULL &&
        graph->memory != exec->memory && graph->memory->instantiated) /* SE2 */
        *difference = (struct difference){.result = TN_CU_GRAPH_UPDATE_NOT_SUPPORTED};
    if (difference->result != TN_CU_GRAPH_UPDATE_SUCCESS)
        return TN_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    struct tn_sim_plan *plan = tn_sim_plan_create(graph);
    if (plan == NULL) {
        *difference = (struct difference){.result = TN_CU_GRAPH_UPDATE_ERROR};
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    take_over(plan->graph, graph);
    take_memory(exec, graph->memory);
    tn_sim_plan_release(exec->plan);
    exec->plan = plan;
    difference->node = NULL;
    return TN_CUDA_SUCCESS;
}

static tn_cu_graphnode handle_of(const struct tn_sim_node *node)
{
    return node == NULL ? NULL : (tn_cu_graphnode)node->object.handle;
}

tn_cu_result tn_sim_cuGraphExecUpdate(tn_cu_graphexec handle, tn_cu_graph graph_handle,
                                      tn_cu_update_result_info *info)
{
    struct tn_sim_exec *exec;
    struct tn_sim_graph *graph;
    struct difference difference;
    tn_cu_result result = tn_sim_exec_find(handle, &exec);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_graph_find(graph_handle, &graph);
    if (result != TN_CUDA_SUCCESS)
        return result;
    result = update(exec, graph, &difference);
    if (info != NULL)
        *info = (tn_cu_update_result_info){
            .result = difference.result,
            .node = handle_of(difference.node),
            .from_node = handle_of(difference.from),
        };
    return result;
}
