// SPDX-License-Identifier: Apache-2.0
/* settings.h -- what can be chosen of the simulated driver, by the environment or by a program.
 *
 * Locking: tn_sim_settings_read is called once, by whoever is first. */
#ifndef TARN_SIM_SETTINGS_H
#define TARN_SIM_SETTINGS_H

#include "sim/core/core.h"

/* Gives settings the values that the environment has for them. What cannot be used is reported on
 * stderr and left as it was. */
void tn_sim_settings_read(void);

#endif
