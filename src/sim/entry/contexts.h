// SPDX-License-Identifier: Apache-2.0
/* contexts.h -- the ends of contexts.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_CONTEXTS_H
#define TARN_SIM_CONTEXTS_H

#include "sim/core/context.h"

/* Destroys the objects of a context that has just ceased to be alive, when its work is done. Gives
 * up the lock for this work. Does nothing when the context is alive again by then. */
void tn_sim_context_clear(struct tn_sim_context *context);

#endif
