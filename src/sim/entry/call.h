// SPDX-License-Identifier: Apache-2.0
/* call.h -- the way in and out of a driver call.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_CALL_H
#define TARN_SIM_CALL_H

#include "sim/core/core.h"

/* Begins a call. Returns true with the lock held; or false, without it, when the call is to return
 * *result and do nothing. */
bool tn_sim_enter(enum tn_sim_function function, tn_cu_result *result);

/* Ends a call that tn_sim_enter began, and passes its result on. */
tn_cu_result tn_sim_finish(tn_cu_result result);

/* Reads the settings, unless an earlier call did, and takes the lock as tn_sim_enter_control does. */
bool tn_sim_enter_settings(void);

/* Ends the driver, at the end of the process; later calls change nothing. */
void tn_sim_end(void);

#endif
