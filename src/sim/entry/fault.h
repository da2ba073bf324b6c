// SPDX-License-Identifier: Apache-2.0
/* fault.h -- counts calls and makes them fail to plan.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_FAULT_H
#define TARN_SIM_FAULT_H

#include "sim/core/core.h"

/* Counts one call. Returns true, with the planned result in *result, when it is to fail. */
bool tn_sim_fault_strikes(enum tn_sim_function function, tn_cu_result *result);

/* Replaces all plans by those of a text: FUNCTION:NTH:RESULT[:always], with commas between. Returns
 * false, with nothing changed, when it is not understood. */
bool tn_sim_fault_plan_all(const char *text);

#endif
