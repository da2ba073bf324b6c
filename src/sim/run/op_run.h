// SPDX-License-Identifier: Apache-2.0
/* op_run.h -- judges an operation by the memory it names, and does its work.
 *
 * Locking: the lock of core.h, which tn_sim_op_run gives up while the work is done. */
#ifndef TARN_SIM_OP_RUN_H
#define TARN_SIM_OP_RUN_H

#include "sim/graph/op.h"

/* Asks whether a device may use the memory of its copy, set or write in this way now. Kernels and
 * host functions name no memory. */
bool tn_sim_op_valid(const struct tn_sim_op *op);

/* The same for an operation of a new node: memory of graphs counts although it does not exist
 * yet. */
bool tn_sim_op_valid_in_graph(const struct tn_sim_op *op);

/* Does the work, on a thread of the simulator, unless its context is dead. A fault kills the
 * context. Returns false when the context is dead afterwards. */
bool tn_sim_op_run(struct tn_sim_op *op);

#endif
