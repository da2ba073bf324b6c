// SPDX-License-Identifier: Apache-2.0
/* conditional.c -- conditional handles, and the decisions of conditional nodes.
 *
 * How it works. A handle knows its graph, and the value with which each launch begins. The values
 * themselves belong to the executable graphs, one in each conditional node. A kernel's C function
 * sets a value by tarn_sim_set_conditional, which finds the node in the executable graph that the
 * thread is running.
 *
 * Trade-offs. A WHILE whose condition nothing makes 0 runs until the process ends; on a device it
 * would run for ever. */
#include <stdlib.h>

#include "sim/exec/exec.h"
#include "sim/exec/node_params.h"

#define KIND_MOST_BODIES 2 /* of an IF: then and else */

tn_cu_result tn_sim_cuGraphConditionalHandleCreate(tn_cu_conditional *handle,
                                                   tn_cu_graph graph_handle,
                                                   tn_cu_context context_handle,
                                                   unsigned int launch_value, unsigned int flags)
{
    struct tn_sim_graph *graph;
    struct tn_sim_context *context;
    if (handle == NULL || flags > TN_CU_GRAPH_COND_ASSIGN_DEFAULT)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_graph_find(graph_handle, &graph);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_context_find(context_handle, &context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_conditional *conditional = calloc(1, sizeof *conditional);
    if (conditional == NULL ||
        !tn_sim_register(&conditional->object, TN_SIM_KIND_CONDITIONAL, NULL)) {
        free(conditional);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    conditional->runs_in = context;
    conditional->launch_value = launch_value;
    conditional->assigns = flags == TN_CU_GRAPH_COND_ASSIGN_DEFAULT;
    conditional->next = graph->conditionals;
    graph->conditionals = conditional;
    conditional->graph = graph;
    *handle = conditional->object.handle;
    return TN_CUDA_SUCCESS;
}

static bool possible(tn_cu_conditional_type type, unsigned int size)
{
    switch (type) {
    case TN_CU_GRAPH_COND_IF:
        return size >= 1 && size <= KIND_MOST_BODIES;
    case TN_CU_GRAPH_COND_WHILE:
        return size == 1;
    case TN_CU_GRAPH_COND_SWITCH:
        return size >= 1;
    }
    return false;
}

tn_cu_result tn_sim_make_condition(const struct tn_sim_graph *graph,
                                   const tn_cu_conditional_node_params *params,
                                   struct tn_sim_op **op)
{
    struct tn_sim_conditional *conditional =
        tn_sim_find(TN_SIM_KIND_CONDITIONAL, (uintptr_t)params->handle);
    if (conditional == NULL || conditional->graph != graph || conditional->used ||
        !possible(params->type, params->size))
        return TN_CUDA_ERROR_INVALID_VALUE;
    *op = tn_sim_op_create(TN_CU_NODE_CONDITIONAL, conditional->runs_in);
    if (*op == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    (*op)->conditional = (struct tn_sim_conditional_op){
        .handle = params->handle,
        .type = params->type,
        .assigns = conditional->assigns,
        .launch_value = conditional->launch_value,
    };
    return TN_CUDA_SUCCESS;
}

void tn_sim_condition_take(tn_cu_conditional handle)
{
    struct tn_sim_conditional *conditional =
        tn_sim_find(TN_SIM_KIND_CONDITIONAL, (uintptr_t)handle);
    conditional->used = true;
}

/* Visits the conditional nodes of a private graph and of the graphs in it. */
static void each_condition(const struct tn_sim_graph *graph,
                           void (*visit)(struct tn_sim_node *node, const void *argument),
                           const void *argument)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        struct tn_sim_node *node = graph->nodes.items[i];
        if (node->op->type == TN_CU_NODE_CONDITIONAL)
            visit(node, argument);
        for (size_t j = 0; j < node->body_count; j++)
            each_condition(node->bodies[j], visit, argument);
    }
}

static void assign_launch_value(struct tn_sim_node *node, const void *unused)
{
    (void)unused;
    if (node->op->conditional.assigns)
        node->condition = node->op->conditional.launch_value;
}

void tn_sim_conditions_reset(const struct tn_sim_graph *graph)
{
    each_condition(graph, assign_launch_value, NULL);
}

/* A handle and its new value. */
struct assignment {
    tn_cu_conditional handle;
    unsigned int value;
    bool *found;
};

static void assign(struct tn_sim_node *node, const void *argument)
{
    const struct assignment *assignment = argument;
    if (node->op->conditional.handle != assignment->handle)
        return;
    node->condition = assignment->value;
    *assignment->found = true;
}

int tarn_sim_set_conditional(uint64_t handle, unsigned int value)
{
    bool found = false;
    struct assignment assignment = {.handle = handle, .value = value, .found = &found};
    if (!tn_sim_enter_control())
        return -1;
    const struct tn_sim_graph *running = tn_sim_running_graph();
    if (running != NULL)
        each_condition(running, assign, &assignment);
    tn_sim_leave();
    return found ? 0 : -1;
}

/* Runs a single body. Returns false when the context is dead afterwards. */
static bool run_body(const struct tn_sim_node *node, size_t body)
{
    return body >= node->body_count || tn_sim_graph_run(node->bodies[body]);
}

bool tn_sim_condition_run(const struct tn_sim_node *node)
{
    switch (node->op->conditional.type) {
    case TN_CU_GRAPH_COND_IF:
        return run_body(node, node->condition != 0 ? 0 : 1);
    case TN_CU_GRAPH_COND_SWITCH:
        return run_body(node, node->condition);
    case TN_CU_GRAPH_COND_WHILE:
        while (node->condition != 0 && !tn_sim.stopping) {
            if (!run_body(node, 0))
                return false;
        }
        return true;
    }
    return true;
}
