// SPDX-License-Identifier: Apache-2.0
/* fault.h -- counts calls and makes them fail to plan.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_FAULT_H
#define TARN_SIM_FAULT_H

#include "sim/core/core.h"

/* Counts a call. Returns true, with the planned result in *result, when the call is to fail. */
bool tn_sim_fault_strikes(enum tn_sim_function function, tn_cu_result *result);

/* Replaces all plans by the plans of a text: FUNCTION:NTH:RESULT[:always], with commas between.
 * Returns false, with nothing changed, for a text with a mistake. */
bool tn_sim_fault_plan_all(const char *text);

#endif
