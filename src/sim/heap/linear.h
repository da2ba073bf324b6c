// SPDX-License-Identifier: Apache-2.0
/* linear.h -- memory of cuMemAlloc, which goes with its context, and what it shares with memory of
 * pools.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_LINEAR_H
#define TARN_SIM_LINEAR_H

#include "sim/heap/block.h"

/* Frees all memory of cuMemAlloc of a context that is being destroyed. */
void tn_sim_linear_free_all(struct tn_sim_context *context);

/* Records an allocation of bytes at a piece; NULL when memory ran out. */
struct tn_sim_linear *tn_sim_linear_record(struct tn_sim_piece *piece, size_t bytes);

/* The allocation that starts at an address, of whichever kind, or NULL. */
struct tn_sim_linear *tn_sim_linear_at(uintptr_t address);

/* Forgets an allocation; its piece is the caller's to give back. */
void tn_sim_linear_forget(struct tn_sim_linear *linear);

/* Frees memory of cuMemAlloc, from a moment on or, when that is NULL, at once. */
void tn_sim_linear_drop(struct tn_sim_linear *linear, const struct tn_sim_point *from);

#endif
