// SPDX-License-Identifier: Apache-2.0
/* update.h -- the changes that an executable graph allows.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_UPDATE_H
#define TARN_SIM_UPDATE_H

#include "sim/graph/op.h"

/* Asks whether an operation may take the place of another in an executable graph. Answers
 * TN_CU_GRAPH_UPDATE_SUCCESS, or the obstacle. */
tn_cu_update_result tn_sim_op_change(const struct tn_sim_op *from, const struct tn_sim_op *to);

#endif
