// SPDX-License-Identifier: Apache-2.0
/* exec.h -- executable graphs.
 *
 * An executable graph is a copy of what its graph was when instantiated: the operations, in an
 * order of execution, and references to the user objects. Its handle and each of its queued
 * launches refer to it, so it and what it holds go with the last of them.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_EXEC_H
#define TARN_SIM_EXEC_H

#include "sim/stream.h"

struct tn_sim_exec {
    struct tn_sim_object object;
    unsigned int references;
    size_t op_count;
    struct tn_sim_op **ops; /* referenced */
    struct tn_sim_holdings holdings;
    struct tn_sim_point last; /* where its newest launch ends; the next one comes after it */
};

struct tn_sim_exec *tn_sim_exec_acquire(struct tn_sim_exec *exec);
void tn_sim_exec_release(struct tn_sim_exec *exec);

/* Runs a launch, on a worker. */
void tn_sim_exec_run(const struct tn_sim_exec *exec);

#endif
