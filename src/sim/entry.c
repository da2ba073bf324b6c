// SPDX-License-Identifier: Apache-2.0
/* entry.c -- the exported functions, and how programs find them.
 *
 * How it works. Exports and the table behind cuGetProcAddress are made from the one list of
 * functions in abi/functions.h, so none can be missing or differ from what the library calls.
 *
 * Trade-offs. Each function exists in one version, the one that the list pins; a program that asks
 * for a later version gets the same function, since no later one has another signature yet. The
 * per-thread flavour of cuGetProcAddress gets the same functions too: NULL stays the legacy
 * stream. */
#include <string.h>

#include "sim/core.h"

#define EXPORTED __attribute__((visibility("default")))

#define EXPORT(name, symbol, version, parameters, names)                                           \
    EXPORTED tn_cu_result symbol parameters;                                                       \
    tn_cu_result symbol parameters                                                                 \
    {                                                                                              \
        tn_cu_result result;                                                                       \
        if (tn_sim_enter(TN_SIM_FN_##name, &result)) {                                             \
            result = tn_sim_##name names;                                                          \
            tn_sim_leave();                                                                        \
        }                                                                                          \
        return result;                                                                             \
    }
TN_CUDA_SIMULATED_FUNCTIONS(EXPORT)
#undef EXPORT

typedef void (*any_function)(void);

static const struct {
    const char *name;
    any_function function;
    int version;
} rows[] = {
#define ROW(name, symbol, version, parameters, names) {#name, (any_function)symbol, version},
    TN_CUDA_SIMULATED_FUNCTIONS(ROW)
#undef ROW
};

/* POSIX makes object and function pointers one size; ISO C has no cast from one to the other. */
_Static_assert(sizeof(void *) == sizeof(any_function), "functions do not fit in void *");

static void report(tn_cu_proc_status *status, tn_cu_proc_status value)
{
    if (status != NULL)
        *status = value;
}

tn_cu_result tn_sim_cuGetProcAddress(const char *symbol, void **function, int version,
                                     uint64_t flags, tn_cu_proc_status *status)
{
    if (symbol == NULL || function == NULL || version > TN_SIM_DRIVER_VERSION ||
        flags > TN_CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        return TN_CUDA_ERROR_INVALID_VALUE;
    *function = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, symbol) != 0)
            continue;
        if (version < rows[i].version) {
            report(status, TN_CU_PROC_VERSION_NOT_SUFFICIENT);
            return TN_CUDA_SUCCESS;
        }
        memcpy(function, &rows[i].function, sizeof *function);
        report(status, TN_CU_PROC_FOUND);
        return TN_CUDA_SUCCESS;
    }
    report(status, TN_CU_PROC_SYMBOL_NOT_FOUND);
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuGetErrorName(tn_cu_result error, const char **name)
{
    if (name == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    switch (error) {
#define NAME_CASE(suffix, number)                                                                  \
    case TN_CUDA_##suffix:                                                                         \
        *name = "CUDA_" #suffix;                                                                   \
        return TN_CUDA_SUCCESS;
        TN_CUDA_RESULTS(NAME_CASE)
#undef NAME_CASE
    }
    *name = NULL;
    return TN_CUDA_ERROR_INVALID_VALUE;
}

tn_cu_result tn_sim_cuGetErrorString(tn_cu_result error, const char **text)
{
    if (text == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    switch (error) {
#define TEXT_CASE(suffix, number)                                                                  \
    case TN_CUDA_##suffix:                                                                         \
        *text = "simulated driver: " #suffix;                                                      \
        return TN_CUDA_SUCCESS;
        TN_CUDA_RESULTS(TEXT_CASE)
#undef TEXT_CASE
    }
    *text = NULL;
    return TN_CUDA_ERROR_INVALID_VALUE;
}
