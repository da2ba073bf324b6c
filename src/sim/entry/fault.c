// SPDX-License-Identifier: Apache-2.0
/* fault.c -- the count of calls and the plans of faults.
 *
 * How it works. A plan counts down from its nth at each matching call; the call that reaches zero
 * fails, and a plan for good stays at zero. Names are turned into numbers when a plan is made. When
 * several plans strike at one call, the first decides the result and all count as struck.
 *
 * Trade-offs. Several plans can only be made at the start: a program changes its mind about one at
 * a time, which makes "which call failed" a question with one answer. */
#include "sim/entry/fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/entry/call.h"

#define ANY_FUNCTION TN_SIM_FUNCTION_COUNT /* a plan that matches every counted function */
#define MAX_PLANS 16
#define MAX_TEXT 256

struct plan {
    enum tn_sim_function function; /* or ANY_FUNCTION */
    uint64_t remaining;            /* matching calls until the fault; 0: the fault has struck */
    bool for_good;
    tn_cu_result result;
};

static struct plan plans[MAX_PLANS];
static size_t plan_count;
static uint64_t failures;
static const char *last_failed;

static uint64_t counts[TN_SIM_FUNCTION_COUNT];

static bool counted(enum tn_sim_function function)
{
    return function != TN_SIM_FN_cuGetErrorName && function != TN_SIM_FN_cuGetErrorString &&
           function != TN_SIM_FN_cuGetProcAddress;
}

/* Counts a matching call down. Returns whether the plan strikes. */
static bool strikes(struct plan *plan)
{
    if (plan->remaining == 0)
        return plan->for_good;
    return --plan->remaining == 0;
}

bool tn_sim_fault_strikes(enum tn_sim_function function, tn_cu_result *result)
{
    bool struck = false;
    if (!counted(function))
        return false;
    counts[function]++;
    for (size_t i = 0; i < plan_count; i++) {
        if (plans[i].function != ANY_FUNCTION && plans[i].function != function)
            continue;
        if (!strikes(&plans[i]) || struck)
            continue;
        struck = true;
        *result = plans[i].result;
    }
    if (!struck)
        return false;
    failures++;
    last_failed = tn_sim_function_name(function);
    return true;
}

static void forget(void)
{
    plan_count = 0;
    failures = 0;
    last_failed = NULL;
}

/* Reads the name or the number of a result. */
static bool read_result(const char *text, tn_cu_result *result)
{
    static const struct {
        const char *name;
        tn_cu_result result;
    } names[] = {
#define NAME(suffix, number) {"CUDA_" #suffix, TN_CUDA_##suffix},
        TN_CUDA_RESULTS(NAME)
#undef NAME
    };
    static const char prefix[] = "CUDA_ERROR_";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        bool full = strcmp(names[i].name, text) == 0;
        bool short_form = strncmp(names[i].name, prefix, sizeof prefix - 1) == 0 &&
                          strcmp(names[i].name + sizeof prefix - 1, text) == 0;
        if (full || short_form) {
            *result = names[i].result;
            return true;
        }
    }
    char *end;
    long number = strtol(text, &end, 10);
    *result = (tn_cu_result)number;
    return end != text && *end == '\0' && number > 0 && number < 1000;
}

/* Reads the number of a call, which has nothing but digits. */
static bool read_nth(const char *text, uint64_t *nth)
{
    errno = 0;
    *nth = strtoull(text, NULL, 10);
    return errno == 0 && *nth > 0 && text[strspn(text, "0123456789")] == '\0';
}

/* Reads FUNCTION:NTH:RESULT[:always]; a function may be `*`. Changes the text. */
static bool read_plan(char *text, struct plan *plan)
{
    char *rest = NULL;
    const char *function = strtok_r(text, ":", &rest);
    const char *nth = strtok_r(NULL, ":", &rest);
    const char *result = strtok_r(NULL, ":", &rest);
    const char *how = strtok_r(NULL, ":", &rest);
    if (function == NULL || nth == NULL || result == NULL || strtok_r(NULL, ":", &rest) != NULL)
        return false;
    plan->function = strcmp(function, "*") == 0 ? ANY_FUNCTION : tn_sim_function_named(function);
    if (plan->function == TN_SIM_FUNCTION_COUNT && strcmp(function, "*") != 0)
        return false;
    plan->for_good = how != NULL;
    return read_nth(nth, &plan->remaining) && (how == NULL || strcmp(how, "always") == 0) &&
           read_result(result, &plan->result);
}

bool tn_sim_fault_plan_all(const char *text)
{
    struct plan made[MAX_PLANS];
    char list[MAX_PLANS * MAX_TEXT];
    char *rest = NULL;
    size_t count = 0;
    if (strlen(text) >= sizeof list)
        return false;
    memcpy(list, text, strlen(text) + 1);
    for (char *one = strtok_r(list, ", ", &rest); one != NULL; one = strtok_r(NULL, ", ", &rest)) {
        if (count == MAX_PLANS || !read_plan(one, &made[count]))
            return false;
        count++;
    }
    forget();
    memcpy(plans, made, count * sizeof made[0]);
    plan_count = count;
    return true;
}

void tarn_sim_plan_fault(const char *function, uint64_t nth, int for_good, int result)
{
    /* The first driver call must not forget a plan made before the call. */
    if (!tn_sim_enter_settings())
        return;
    enum tn_sim_function number = function == NULL ? ANY_FUNCTION : tn_sim_function_named(function);
    forget();
    /* An unknown name matches nothing. */
    if (nth > 0 && (function == NULL || number != TN_SIM_FUNCTION_COUNT)) {
        plans[plan_count++] = (struct plan){
            .function = number,
            .remaining = nth,
            .for_good = for_good != 0,
            .result = (tn_cu_result)result,
        };
    }
    tn_sim_leave();
}

uint64_t tarn_sim_clear_fault(const char **last)
{
    if (last != NULL)
        *last = NULL;
    if (!tn_sim_enter_control())
        return 0;
    uint64_t failed = failures;
    if (last != NULL)
        *last = last_failed;
    forget();
    tn_sim_leave();
    return failed;
}

uint64_t tarn_sim_call_count(const char *function)
{
    if (!tn_sim_enter_control())
        return 0;
    uint64_t count = 0;
    if (function != NULL) {
        enum tn_sim_function number = tn_sim_function_named(function);
        count = number == TN_SIM_FUNCTION_COUNT ? 0 : counts[number];
    } else {
        for (int number = 0; number < TN_SIM_FUNCTION_COUNT; number++)
            count += counts[number];
    }
    tn_sim_leave();
    return count;
}
