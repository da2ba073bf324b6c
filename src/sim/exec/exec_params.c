// SPDX-License-Identifier: Apache-2.0
/* exec_params.c -- single nodes of executable graphs, changed.
 *
 * How it works. A program names a node by its handle in the graph that was instantiated. The copy
 * is found by this handle, in child graphs too. A new operation takes the place of the old, in a
 * plan that no queued launch has (SE1). update.c decides which changes are allowed.
 *
 * Trade-offs. The copy is looked for in the whole plan. */
#include "sim/exec/exec.h"
#include "sim/exec/node_params.h"
#include "sim/exec/update.h"
#include "sim/run/op_run.h"

/* The copy of a node in a private graph, or in a graph inside; NULL when neither has it. */
static struct tn_sim_node *find_copy(const struct tn_sim_graph *graph, uintptr_t origin)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        struct tn_sim_node *node = graph->nodes.items[i];
        if (node->origin == origin)
            return node;
        for (size_t j = 0; j < node->body_count; j++) {
            struct tn_sim_node *inside = find_copy(node->bodies[j], origin);
            if (inside != NULL)
                return inside;
        }
    }
    return NULL;
}

/* Finds the copy of a node in an executable graph. The node must still exist: only then is its
 * handle known to name the node that was instantiated. */
static tn_cu_result find(tn_cu_graphexec exec_handle, tn_cu_graphnode handle,
                         struct tn_sim_exec **exec, struct tn_sim_node **copy)
{
    struct tn_sim_node *node;
    tn_cu_result result = tn_sim_exec_find(exec_handle, exec);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_node_find(handle, &node);
    if (result != TN_CUDA_SUCCESS)
        return result;
    *copy = find_copy((*exec)->plan->graph, (uintptr_t)handle);
    return *copy == NULL ? TN_CUDA_ERROR_INVALID_VALUE : TN_CUDA_SUCCESS;
}

/* The same for a change: the copy must be changeable. */
static tn_cu_result find_to_change(tn_cu_graphexec exec_handle, tn_cu_graphnode handle,
                                   struct tn_sim_exec **exec, struct tn_sim_node **copy)
{
    tn_cu_result result = find(exec_handle, handle, exec, copy);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (!tn_sim_exec_own_plan(*exec))
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    *copy = find_copy((*exec)->plan->graph, (uintptr_t)handle);
    return TN_CUDA_SUCCESS;
}

/* Gives the copy of a node a new operation, to which the reference goes, also on failure. */
static tn_cu_result replace(tn_cu_graphexec exec_handle, tn_cu_graphnode handle,
                            struct tn_sim_op *op)
{
    struct tn_sim_exec *exec;
    struct tn_sim_node *copy;
    tn_cu_result result = find(exec_handle, handle, &exec, &copy);
    if (result == TN_CUDA_SUCCESS && op->type == TN_CU_NODE_KERNEL &&
        copy->op->type == TN_CU_NODE_KERNEL)
        op->kernel.together = copy->op->kernel.together; /* which parameters do not say */
    if (result == TN_CUDA_SUCCESS &&
        (tn_sim_op_change(copy->op, op) != TN_CU_GRAPH_UPDATE_SUCCESS ||
         !tn_sim_op_valid_in_graph(op)))
        result = TN_CUDA_ERROR_INVALID_VALUE;
    if (result == TN_CUDA_SUCCESS)
        result = find_to_change(exec_handle, handle, &exec, &copy);
    if (result != TN_CUDA_SUCCESS) {
        tn_sim_op_release(op);
        return result;
    }
    tn_sim_op_release(copy->op);
    copy->op = op;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuGraphExecKernelNodeSetParams(tn_cu_graphexec exec, tn_cu_graphnode node,
                                                   const tn_cu_kernel_node_params *params)
{
    struct tn_sim_op *op;
    if (params == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_make_kernel(params, &op);
    return result == TN_CUDA_SUCCESS ? replace(exec, node, op) : result;
}

tn_cu_result tn_sim_cuGraphExecMemcpyNodeSetParams(tn_cu_graphexec exec, tn_cu_graphnode node,
                                                   const tn_cu_memcpy3d *params,
                                                   tn_cu_context context)
{
    struct tn_sim_op *op;
    if (params == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_make_copy(params, context, &op);
    return result == TN_CUDA_SUCCESS ? replace(exec, node, op) : result;
}

tn_cu_result tn_sim_cuGraphExecMemsetNodeSetParams(tn_cu_graphexec exec, tn_cu_graphnode node,
                                                   const tn_cu_memset_node_params *params,
                                                   tn_cu_context context)
{
    struct tn_sim_op *op;
    if (params == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_make_set(params, context, &op);
    return result == TN_CUDA_SUCCESS ? replace(exec, node, op) : result;
}

tn_cu_result tn_sim_cuGraphExecBatchMemOpNodeSetParams(tn_cu_graphexec exec, tn_cu_graphnode node,
                                                       const tn_cu_batch_node_params *params)
{
    struct tn_sim_op *op;
    if (params == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_make_batch(params, &op);
    return result == TN_CUDA_SUCCESS ? replace(exec, node, op) : result;
}

/* Asks whether nodes of a type can be switched off. */
static bool can_be_disabled(const struct tn_sim_node *node)
{
    tn_cu_graphnode_type type = node->op->type;
    return type == TN_CU_NODE_KERNEL || type == TN_CU_NODE_MEMCPY || type == TN_CU_NODE_MEMSET;
}

tn_cu_result tn_sim_cuGraphNodeSetEnabled(tn_cu_graphexec exec_handle, tn_cu_graphnode handle,
                                          unsigned int enabled)
{
    struct tn_sim_exec *exec;
    struct tn_sim_node *copy;
    tn_cu_result result = find(exec_handle, handle, &exec, &copy);
    if (result == TN_CUDA_SUCCESS && !can_be_disabled(copy))
        result = TN_CUDA_ERROR_INVALID_VALUE;
    if (result == TN_CUDA_SUCCESS)
        result = find_to_change(exec_handle, handle, &exec, &copy);
    if (result == TN_CUDA_SUCCESS)
        copy->disabled = enabled == 0;
    return result;
}

tn_cu_result tn_sim_cuGraphNodeGetEnabled(tn_cu_graphexec exec_handle, tn_cu_graphnode handle,
                                          unsigned int *enabled)
{
    struct tn_sim_exec *exec;
    struct tn_sim_node *copy;
    if (enabled == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = find(exec_handle, handle, &exec, &copy);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (!can_be_disabled(copy))
        return TN_CUDA_ERROR_INVALID_VALUE;
    *enabled = copy->disabled ? 0 : 1;
    return TN_CUDA_SUCCESS;
}
