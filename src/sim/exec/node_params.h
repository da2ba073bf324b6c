// SPDX-License-Identifier: Apache-2.0
/* node_params.h -- operations of nodes, made from the descriptions of programs.
 *
 * Each of these functions checks a description and makes the operation of a node from it. All
 * answer INVALID_VALUE to a description without sense, and OUT_OF_MEMORY. INVALID_CONTEXT: a
 * context is needed, and none is named or current.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_NODE_PARAMS_H
#define TARN_SIM_NODE_PARAMS_H

#include "sim/graph/graph.h"
#include "sim/graph/op.h"

/* For any type of node. The driver's answers about the new node are stored in *params. */
tn_cu_result tn_sim_make_node(struct tn_sim_graph *graph, tn_cu_node_params *params,
                              struct tn_sim_op **op);

tn_cu_result tn_sim_make_kernel(const tn_cu_kernel_node_params *params, struct tn_sim_op **op);
tn_cu_result tn_sim_make_copy(const tn_cu_memcpy3d *copy, tn_cu_context context,
                              struct tn_sim_op **op);
tn_cu_result tn_sim_make_set(const tn_cu_memset_node_params *set, tn_cu_context context,
                             struct tn_sim_op **op);

tn_cu_result tn_sim_make_batch(const tn_cu_batch_node_params *batch, struct tn_sim_op **op);

/* For a condition: uses its handle up. */
tn_cu_result tn_sim_make_condition(const struct tn_sim_graph *graph,
                                   const tn_cu_conditional_node_params *params,
                                   struct tn_sim_op **op);

/* Notes that a conditional handle has its node. */
void tn_sim_condition_take(tn_cu_conditional handle);

#endif
