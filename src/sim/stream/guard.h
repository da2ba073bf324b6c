// SPDX-License-Identifier: Apache-2.0
/* guard.h -- runs device work, and survives accesses to missing memory.
 *
 * Locking: none needed; tn_sim_guard_install once, with the lock held. */
#ifndef TARN_SIM_GUARD_H
#define TARN_SIM_GUARD_H

#include <stdbool.h>

/* Puts the handlers in place, once. The handlers act only inside tn_sim_guard_run, and otherwise do
 * as the handlers before them did. */
void tn_sim_guard_install(void);

/* Runs work, without the lock. Returns false after a fault, with the work half done. */
bool tn_sim_guard_run(void (*work)(void *), void *argument);

#endif
