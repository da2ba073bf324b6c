// SPDX-License-Identifier: Apache-2.0
/* module.h -- modules, their kernels, and the C functions that stand in for the kernels' code.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_MODULE_H
#define TARN_SIM_MODULE_H

#include "sim/context.h"
#include "sim/ptx.h"

struct tn_sim_twin;

/* One kernel of a module; lives while the module is loaded or an operation refers to it. */
struct tn_sim_code {
    struct tn_sim_object object;
    uintptr_t handle; /* as it was given out; stays readable when the module has gone */
    unsigned int references;
    struct tn_sim_ptx_entry entry;
    struct tn_sim_twin *twin; /* the record of its name, which may have no function yet */
    struct tn_sim_code *next; /* of its module */
};

void tn_sim_code_release(struct tn_sim_code *code);

/* The function that stands in for the kernel now, NULL when none is registered. */
tarn_sim_kernel tn_sim_code_twin(const struct tn_sim_code *code);

/* Unloads every module of a context that is being destroyed. */
void tn_sim_modules_unload_all(const struct tn_sim_context *context);

#endif
