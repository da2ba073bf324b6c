// SPDX-License-Identifier: Apache-2.0
/* linear.h -- memory of cuMemAlloc and cuMemHostAlloc, which goes with its context.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_LINEAR_H
#define TARN_SIM_LINEAR_H

#include "sim/context.h"

/* Frees all linear and host memory of a context that is being destroyed. */
void tn_sim_linear_free_all(const struct tn_sim_context *context);

#endif
