// SPDX-License-Identifier: Apache-2.0
/* rights.h -- which memory work of a context may use.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_RIGHTS_H
#define TARN_SIM_RIGHTS_H

#include "sim/memory/space.h"

/* Asks whether work of a context may read, or also write, every byte of a range by an address of
 * device or page-locked memory. */
bool tn_sim_space_allows(uintptr_t address, size_t bytes, const struct tn_sim_context *context,
                         bool write);

/* The same for work that has its turn: this work may also use memory that was freed behind it in
 * the order of its stream. */
bool tn_sim_space_allows_work(uintptr_t address, size_t bytes, const struct tn_sim_context *context,
                              bool write);

#endif
