// SPDX-License-Identifier: Apache-2.0
/* record.c -- libtarn_record.so: a driver that writes down what is asked of another.
 *
 * How it works. A program that is told to load this library as its CUDA driver finds every function
 * of abi/functions.h, by cuGetProcAddress or by its exported name. Each is a generated wrapper that
 * calls the driver behind it and appends one line to a file: the function's base name and the
 * result's name, such as `cuMemCreate SUCCESS`. One line is one write to a file opened for
 * appending, so lines of several threads and processes do not mix; lines of one thread are in the
 * order in which its calls returned. Asking for functions and for the names of errors is not
 * recorded.
 *
 *   TARN_RECORD_DRIVER  `cuda` for libcuda.so.1 (the default), or the path of a driver
 *   TARN_RECORD_FILE    the file to append to; without it nothing is recorded
 *
 * The control functions of the simulated driver are there too, and do what they do when that is the
 * driver behind; otherwise they do nothing and answer 0: a real driver needs no twins.
 *
 * Locking: the driver behind and the file are opened once; nothing changes afterwards.
 *
 * Trade-offs. Functions that the list does not have are handed through without a record. A call is
 * recorded when it has returned: one that never does, or that another call overtakes, stands
 * accordingly. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi/cuda.h"
#include "abi/functions.h"
#include "tarn/sim.h"

#define EXPORTED __attribute__((visibility("default")))

#define CONTROLS(X)                                                                                \
    X(tarn_sim_register_kernel)                                                                    \
    X(tarn_sim_read_ledger)                                                                        \
    X(tarn_sim_plan_fault)                                                                         \
    X(tarn_sim_clear_fault)                                                                        \
    X(tarn_sim_call_count)                                                                         \
    X(tarn_sim_set_hints)                                                                          \
    X(tarn_sim_hold_work)                                                                          \
    X(tarn_sim_resume_work)

/* The driver behind: its functions and controls, NULL where it has none. */
static struct {
#define FUNCTION_MEMBER(name, symbol, version, parameters, names) tn_pfn_##name name;
    TN_CUDA_SIMULATED_FUNCTIONS(FUNCTION_MEMBER)
#undef FUNCTION_MEMBER
#define CONTROL_MEMBER(name) __typeof__(&name) name;
    CONTROLS(CONTROL_MEMBER)
#undef CONTROL_MEMBER
} behind;

static tn_pfn_cuGetProcAddress resolve; /* the driver's own; in the table stands look_up */
static int record_file = -1;
static pthread_once_t once = PTHREAD_ONCE_INIT;

_Static_assert(sizeof(void *) == sizeof(tn_pfn_cuInit), "functions do not fit in void *");

static tn_cu_result look_up(const char *symbol, void **function, int version, uint64_t flags,
                            tn_cu_proc_status *status);

static void open_record(void)
{
    const char *path = getenv("TARN_RECORD_FILE");
    if (path == NULL || *path == '\0')
        return;
    record_file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (record_file < 0)
        perror("tarn_record: cannot open TARN_RECORD_FILE");
}

static void open_driver(void)
{
    const char *path = getenv("TARN_RECORD_DRIVER");
    if (path == NULL || *path == '\0' || strcmp(path, "cuda") == 0)
        path = "libcuda.so.1";
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *found = library == NULL ? NULL : dlsym(library, "cuGetProcAddress_v2");
    if (found == NULL) {
        const char *why = dlerror();
        fprintf(stderr, "tarn_record: no driver to record: %s\n", why == NULL ? path : why);
        return;
    }
    memcpy(&resolve, &found, sizeof found);
#define RESOLVE(name, symbol, version, parameters, names)                                          \
    if (resolve(#name, &found, version, TN_CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL) ==             \
            TN_CUDA_SUCCESS &&                                                                     \
        found != NULL)                                                                             \
        memcpy(&behind.name, &found, sizeof found);
    TN_CUDA_SIMULATED_FUNCTIONS(RESOLVE)
#undef RESOLVE
    behind.cuGetProcAddress = look_up;
#define CONTROL(name)                                                                              \
    found = dlsym(library, #name);                                                                 \
    memcpy(&behind.name, &found, sizeof found);
    CONTROLS(CONTROL)
#undef CONTROL
}

static void open_all(void)
{
    open_record();
    open_driver();
}

/* Appends the line of one call. */
static void record(const char *function, tn_cu_result result)
{
    const char *name = NULL;
    char line[128];
    if (record_file < 0)
        return;
    switch (result) {
#define NAME_CASE(suffix, number)                                                                  \
    case TN_CUDA_##suffix:                                                                         \
        name = #suffix;                                                                            \
        break;
        TN_CUDA_RESULTS(NAME_CASE)
#undef NAME_CASE
    }
    int length = name != NULL ? snprintf(line, sizeof line, "%s %s\n", function, name)
                              : snprintf(line, sizeof line, "%s %d\n", function, (int)result);
    /* A full disk must not change what the program sees. */
    ssize_t written = write(record_file, line, (size_t)length);
    (void)written;
}

/* Whether calls of a function are written down. */
static int recorded(const char *function)
{
    return strcmp(function, "cuGetErrorName") != 0 && strcmp(function, "cuGetErrorString") != 0 &&
           strcmp(function, "cuGetProcAddress") != 0;
}

/* The exported wrappers. */
#define WRAPPER(name, symbol, version, parameters, names)                                          \
    EXPORTED tn_cu_result symbol parameters;                                                       \
    tn_cu_result symbol parameters                                                                 \
    {                                                                                              \
        pthread_once(&once, open_all);                                                             \
        if (behind.name == NULL)                                                                   \
            return TN_CUDA_ERROR_NOT_FOUND;                                                        \
        tn_cu_result result = behind.name names;                                                   \
        if (recorded(#name))                                                                       \
            record(#name, result);                                                                 \
        return result;                                                                             \
    }
TN_CUDA_SIMULATED_FUNCTIONS(WRAPPER)
#undef WRAPPER

typedef void (*any_function)(void);

/* Where each wrapped function is kept, and what wraps it. */
static const struct {
    const char *name;
    const void *kept;
    any_function wrapper;
} rows[] = {
#define ROW(name, symbol, version, parameters, names) {#name, &behind.name, (any_function)symbol},
    TN_CUDA_SIMULATED_FUNCTIONS(ROW)
#undef ROW
};

/* cuGetProcAddress, as its wrapper calls it: asks the driver behind, and puts the wrapper in the
 * place of the very function that it wraps. Another version of that function is handed through:
 * its signature may be another one. */
static tn_cu_result look_up(const char *symbol, void **function, int version, uint64_t flags,
                            tn_cu_proc_status *status)
{
    tn_cu_result result = resolve(symbol, function, version, flags, status);
    if (result != TN_CUDA_SUCCESS || *function == NULL)
        return result;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, symbol) != 0)
            continue;
        if (strcmp(symbol, "cuGetProcAddress") == 0 ||
            memcmp(function, rows[i].kept, sizeof *function) == 0)
            memcpy(function, &rows[i].wrapper, sizeof *function);
    }
    return result;
}

int tarn_sim_register_kernel(const char *entry, tarn_sim_kernel function)
{
    pthread_once(&once, open_all);
    return behind.tarn_sim_register_kernel == NULL
               ? 0
               : behind.tarn_sim_register_kernel(entry, function);
}

void tarn_sim_read_ledger(tarn_sim_ledger *ledger)
{
    pthread_once(&once, open_all);
    memset(ledger, 0, sizeof *ledger);
    if (behind.tarn_sim_read_ledger != NULL)
        behind.tarn_sim_read_ledger(ledger);
}

void tarn_sim_plan_fault(const char *function, uint64_t nth, int for_good, int result)
{
    pthread_once(&once, open_all);
    if (behind.tarn_sim_plan_fault != NULL)
        behind.tarn_sim_plan_fault(function, nth, for_good, result);
}

uint64_t tarn_sim_clear_fault(const char **last)
{
    pthread_once(&once, open_all);
    if (last != NULL)
        *last = NULL;
    return behind.tarn_sim_clear_fault == NULL ? 0 : behind.tarn_sim_clear_fault(last);
}

uint64_t tarn_sim_call_count(const char *function)
{
    pthread_once(&once, open_all);
    return behind.tarn_sim_call_count == NULL ? 0 : behind.tarn_sim_call_count(function);
}

void tarn_sim_set_hints(int how, size_t max_bytes)
{
    pthread_once(&once, open_all);
    if (behind.tarn_sim_set_hints != NULL)
        behind.tarn_sim_set_hints(how, max_bytes);
}

void tarn_sim_hold_work(void)
{
    pthread_once(&once, open_all);
    if (behind.tarn_sim_hold_work != NULL)
        behind.tarn_sim_hold_work();
}

void tarn_sim_resume_work(void)
{
    pthread_once(&once, open_all);
    if (behind.tarn_sim_resume_work != NULL)
        behind.tarn_sim_resume_work();
}
