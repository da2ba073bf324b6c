// SPDX-License-Identifier: Apache-2.0
/* fault.c -- the count of calls and the plan of faults.
 *
 * How it works. A plan counts down from its nth at each matching call; the call that reaches zero
 * fails, and a plan for good stays at zero. Names are turned into numbers when the plan is made.
 *
 * Trade-offs. One plan at a time: a test that needs two faults has not yet been met, and one plan
 * makes "which call failed" a question with one answer. */
#include "sim/fault.h"

#include <string.h>

#define ANY_FUNCTION TN_SIM_FUNCTION_COUNT /* a plan that matches every counted function */

static struct {
    bool standing;
    enum tn_sim_function function; /* or ANY_FUNCTION */
    bool known;                    /* the name given is a function's; otherwise nothing matches */
    uint64_t remaining;            /* matching calls until the fault; 0 when it has struck */
    bool for_good;
    tn_cu_result result;
    uint64_t failures;
    const char *last;
} plan;

static uint64_t counts[TN_SIM_FUNCTION_COUNT];

static bool counted(enum tn_sim_function function)
{
    return function != TN_SIM_FN_cuGetErrorName && function != TN_SIM_FN_cuGetErrorString &&
           function != TN_SIM_FN_cuGetProcAddress;
}

/* Finds a function by its name, TN_SIM_FUNCTION_COUNT when there is none. */
static enum tn_sim_function named(const char *name)
{
    int number = 0;
    while (number < TN_SIM_FUNCTION_COUNT &&
           strcmp(tn_sim_function_name((enum tn_sim_function)number), name) != 0)
        number++;
    return (enum tn_sim_function)number;
}

bool tn_sim_fault_strikes(enum tn_sim_function function, tn_cu_result *result)
{
    if (!counted(function))
        return false;
    counts[function]++;
    if (!plan.standing || !plan.known)
        return false;
    if (plan.function != ANY_FUNCTION && plan.function != function)
        return false;
    if (plan.remaining == 0) {
        if (!plan.for_good)
            return false;
    } else if (--plan.remaining > 0) {
        return false;
    }
    plan.failures++;
    plan.last = tn_sim_function_name(function);
    *result = plan.result;
    return true;
}

void tarn_sim_plan_fault(const char *function, uint64_t nth, int for_good, int result)
{
    if (!tn_sim_enter_control())
        return;
    plan.standing = nth > 0;
    plan.function = function == NULL ? ANY_FUNCTION : named(function);
    plan.known = function == NULL || plan.function != TN_SIM_FUNCTION_COUNT;
    plan.remaining = nth;
    plan.for_good = for_good != 0;
    plan.result = (tn_cu_result)result;
    plan.failures = 0;
    plan.last = NULL;
    tn_sim_leave();
}

uint64_t tarn_sim_clear_fault(const char **last)
{
    if (last != NULL)
        *last = NULL;
    if (!tn_sim_enter_control())
        return 0;
    uint64_t failures = plan.failures;
    if (last != NULL)
        *last = plan.last;
    memset(&plan, 0, sizeof plan);
    tn_sim_leave();
    return failures;
}

uint64_t tarn_sim_call_count(const char *function)
{
    if (!tn_sim_enter_control())
        return 0;
    uint64_t count = 0;
    if (function != NULL) {
        enum tn_sim_function number = named(function);
        count = number == TN_SIM_FUNCTION_COUNT ? 0 : counts[number];
    } else {
        for (int number = 0; number < TN_SIM_FUNCTION_COUNT; number++)
            count += counts[number];
    }
    tn_sim_leave();
    return count;
}
