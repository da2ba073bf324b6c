// SPDX-License-Identifier: Apache-2.0
/* launch.h -- operations that launch kernels.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_LAUNCH_H
#define TARN_SIM_LAUNCH_H

#include "sim/graph/op.h"

/* Asks whether a grid and a block of that shape can be launched. */
bool tn_sim_launch_possible(const tarn_sim_launch *launch);

/* Makes the operation of a kernel's launch, of a shape that is possible; copies the parameters.
 * INVALID_VALUE: both forms of parameters, or none where some are needed. NOT_SUPPORTED: no C
 * function stands in for the kernel. OUT_OF_MEMORY. */
tn_cu_result tn_sim_launch_make(struct tn_sim_code *code, const tarn_sim_launch *launch,
                                void **params, void **extra, struct tn_sim_op **op);

#endif
