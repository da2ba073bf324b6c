// SPDX-License-Identifier: Apache-2.0
/* guard.h -- runs device work so that touching memory that is not there is survived.
 *
 * Locking: none needed; tn_sim_guard_install once, with the lock held. */
#ifndef TARN_SIM_GUARD_H
#define TARN_SIM_GUARD_H

#include <stdbool.h>

/* Puts the handlers in place, once. They act only inside tn_sim_guard_run and otherwise do what
 * the handlers before them did. */
void tn_sim_guard_install(void);

/* Runs work, without the lock. Returns false when it faulted, half done. */
bool tn_sim_guard_run(void (*work)(void *), void *argument);

#endif
