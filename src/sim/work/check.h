// SPDX-License-Identifier: Apache-2.0
/* check.h -- the checker of programs: tells what a real driver would not.
 *
 * It is off unless TARN_SIM_CHECK is set; then each wrong thing that a program does is
 * reported (report.h). It changes no answer.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_CHECK_H
#define TARN_SIM_CHECK_H

#include "sim/core/core.h"

struct tn_sim_op;

/* Looks at an operation that is about to run: what it reads must have been written, and what it
 * writes is; and what it touches at one address must be ordered with what touched it at another. */
void tn_sim_check_op(struct tn_sim_op *op);

#endif
