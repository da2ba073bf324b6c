// SPDX-License-Identifier: Apache-2.0
/* settings.h -- settings of the simulated driver, by the environment or by a program.
 *
 * Locking: tn_sim_settings_read is called once, by the first call. */
#ifndef TARN_SIM_SETTINGS_H
#define TARN_SIM_SETTINGS_H

#include "sim/core/core.h"

/* Reads settings from the environment. An unusable value is reported on stderr, and its setting
 * stays as before. */
void tn_sim_settings_read(void);

#endif
