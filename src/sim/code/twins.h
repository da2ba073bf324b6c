// SPDX-License-Identifier: Apache-2.0
/* twins.h -- the C twins of the library's own kernels, which are there without being registered.
 *
 * Locking: none; they run as any twin does. */
#ifndef TN_SIM_TWINS_H
#define TN_SIM_TWINS_H

#include "tarn/sim.h"

/* The twins of tarn_contents and tarn_contents_begin: see abi/kernels.h. */
void tn_sim_twin_contents(const tarn_sim_launch *launch, void *const *params);
void tn_sim_twin_contents_begin(const tarn_sim_launch *launch, void *const *params);

#endif
