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
 *   TARN_RECORD_FILE    the file to append to; without it no call is written down
 *   TARN_RECORD_TIMES   a file to write when the process exits: for each function its name, how
 *                       often it returned, and the nanoseconds spent in it
 *
 * The control functions of the simulated driver are there too, and do what they do when that is the
 * driver behind; otherwise they do nothing and answer 0: a real driver needs no twins. The account is
 * an exception: a real driver's is what was measured here, by a clock read before and after each
 * call, less what reading the clock takes. So one program compares the simulator's account with a
 * GPU's driver.
 *
 * Locking: the driver behind and the file are opened once; nothing changes afterwards but the sums
 * of the account, which are atomic.
 *
 * Trade-offs. Functions that the list does not have are handed through without a record. A call is
 * recorded when it has returned: one that never does, or that another call overtakes, stands
 * accordingly. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "abi/cuda.h"
#include "abi/functions.h"
#include "base/environment.h"
#include "tarn/sim.h"

#define EXPORTED __attribute__((visibility("default")))

#define CONTROLS(X)                                                                                \
    X(tarn_sim_register_kernel)                                                                    \
    X(tarn_sim_register_kernel_ranges)                                                             \
    X(tarn_sim_configure)                                                                          \
    X(tarn_sim_read_account)                                                                       \
    X(tarn_sim_thread_ns)                                                                          \
    X(tarn_sim_longest_stall_ns)                                                                   \
    X(tarn_sim_reset_account)                                                                      \
    X(tarn_sim_check_count)                                                                        \
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
#define VERSION_MEMBER(own, name, symbol, version, parameters, names) tn_pfn_##own own;
    TN_CUDA_LIBRARY_VERSIONS(VERSION_MEMBER)
#undef VERSION_MEMBER
#define CONTROL_MEMBER(name) __typeof__(&name) name;
    CONTROLS(CONTROL_MEMBER)
#undef CONTROL_MEMBER
} behind;

static tn_pfn_cuGetProcAddress resolve; /* the driver's own; in the table stands look_up */
static int record_file = -1;

/* One number for each function. */
enum function {
#define FUNCTION_NUMBER(name, symbol, version, parameters, names) FN_##name,
    TN_CUDA_SIMULATED_FUNCTIONS(FUNCTION_NUMBER)
#undef FUNCTION_NUMBER
        FUNCTION_COUNT
};

static const char *const function_names[FUNCTION_COUNT] = {
#define FUNCTION_NAME(name, symbol, version, parameters, names) [FN_##name] = #name,
    TN_CUDA_SIMULATED_FUNCTIONS(FUNCTION_NAME)
#undef FUNCTION_NAME
};

/* What was measured: calls that returned, and the time spent in them. */
static struct {
    atomic_uint_fast64_t calls;
    atomic_uint_fast64_t ns;
} spent[FUNCTION_COUNT];
static uint64_t clock_ns; /* what reading the clock twice shows when nothing is between */
static _Thread_local uint64_t thread_ns;
static pthread_once_t once = PTHREAD_ONCE_INIT;

_Static_assert(sizeof(void *) == sizeof(tn_pfn_cuInit), "functions do not fit in void *");

static tn_cu_result look_up(const char *symbol, void **function, int version, uint64_t flags,
                            tn_cu_proc_status *status);

static void open_record(void)
{
    const char *path = tn_environment("TARN_RECORD_FILE");
    if (path == NULL || *path == '\0')
        return;
    record_file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (record_file < 0)
        perror("tarn_record: cannot open TARN_RECORD_FILE");
}

static void open_driver(void)
{
    const char *path = tn_environment("TARN_RECORD_DRIVER");
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
#define RESOLVE_VERSION(own, name, symbol, version, parameters, names)                             \
    if (resolve(#name, &found, version, TN_CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL) ==             \
            TN_CUDA_SUCCESS &&                                                                     \
        found != NULL)                                                                             \
        memcpy(&behind.own, &found, sizeof found);
#define RESOLVE(name, symbol, version, parameters, names)                                          \
    RESOLVE_VERSION(name, name, symbol, version, parameters, names)
    TN_CUDA_SIMULATED_FUNCTIONS(RESOLVE)
    TN_CUDA_LIBRARY_VERSIONS(RESOLVE_VERSION)
#undef RESOLVE
#undef RESOLVE_VERSION
    behind.cuGetProcAddress = look_up;
#define CONTROL(name)                                                                              \
    found = dlsym(library, #name);                                                                 \
    memcpy(&behind.name, &found, sizeof found);
    CONTROLS(CONTROL)
#undef CONTROL
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* The least of many readings: what disturbs one makes it longer. */
static void measure_clock(void)
{
    clock_ns = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
        uint64_t began = now();
        uint64_t took = now() - began;
        if (took < clock_ns)
            clock_ns = took;
    }
}

static void open_all(void)
{
    open_record();
    open_driver();
    measure_clock();
}

/* Enters one call in the account. */
static void spend(enum function function, uint64_t ns)
{
    ns = ns > clock_ns ? ns - clock_ns : 0;
    atomic_fetch_add_explicit(&spent[function].calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&spent[function].ns, ns, memory_order_relaxed);
    thread_ns += ns;
}

__attribute__((destructor)) static void write_times(void)
{
    const char *path = tn_environment("TARN_RECORD_TIMES");
    if (path == NULL || *path == '\0')
        return;
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        perror("tarn_record: cannot open TARN_RECORD_TIMES");
        return;
    }
    for (int i = 0; i < FUNCTION_COUNT; i++) {
        unsigned long long calls = spent[i].calls;
        if (calls > 0)
            fprintf(file, "%s %llu %llu\n", function_names[i], calls,
                    (unsigned long long)spent[i].ns);
    }
    fclose(file);
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

/* The exported wrappers. All versions of a function are recorded as it. */
#define VERSION_WRAPPER(own, name, symbol, version, parameters, names)                             \
    EXPORTED tn_cu_result symbol parameters;                                                       \
    tn_cu_result symbol parameters                                                                 \
    {                                                                                              \
        pthread_once(&once, open_all);                                                             \
        if (behind.own == NULL)                                                                    \
            return TN_CUDA_ERROR_NOT_FOUND;                                                        \
        uint64_t began = now();                                                                    \
        tn_cu_result result = behind.own names;                                                    \
        spend(FN_##name, now() - began);                                                           \
        if (recorded(#name))                                                                       \
            record(#name, result);                                                                 \
        return result;                                                                             \
    }
#define WRAPPER(name, symbol, version, parameters, names)                                          \
    VERSION_WRAPPER(name, name, symbol, version, parameters, names)
TN_CUDA_SIMULATED_FUNCTIONS(WRAPPER)
TN_CUDA_LIBRARY_VERSIONS(VERSION_WRAPPER)
#undef WRAPPER
#undef VERSION_WRAPPER

typedef void (*any_function)(void);

/* Where each wrapped function is kept, and what wraps it. */
static const struct {
    const char *name;
    const void *kept;
    any_function wrapper;
} rows[] = {
#define VERSION_ROW(own, name, symbol, version, parameters, names)                                 \
    {#name, &behind.own, (any_function)symbol},
#define ROW(name, symbol, version, parameters, names)                                              \
    VERSION_ROW(name, name, symbol, version, parameters, names)
    TN_CUDA_SIMULATED_FUNCTIONS(ROW) TN_CUDA_LIBRARY_VERSIONS(VERSION_ROW)
#undef ROW
#undef VERSION_ROW
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

int tarn_sim_register_kernel_ranges(const char *entry, tarn_sim_kernel_ranges function)
{
    pthread_once(&once, open_all);
    return behind.tarn_sim_register_kernel_ranges == NULL
               ? 0
               : behind.tarn_sim_register_kernel_ranges(entry, function);
}

int tarn_sim_configure(const char *name, const char *value)
{
    pthread_once(&once, open_all);
    return behind.tarn_sim_configure == NULL ? 0 : behind.tarn_sim_configure(name, value);
}

void tarn_sim_read_account(const char *function, tarn_sim_cost *cost)
{
    pthread_once(&once, open_all);
    *cost = (tarn_sim_cost){0};
    if (behind.tarn_sim_read_account != NULL) {
        behind.tarn_sim_read_account(function, cost);
        return;
    }
    for (int i = 0; i < FUNCTION_COUNT; i++) {
        if (function == NULL || strcmp(function, function_names[i]) == 0) {
            cost->calls += spent[i].calls;
            cost->ns += spent[i].ns;
        }
    }
}

uint64_t tarn_sim_thread_ns(void)
{
    pthread_once(&once, open_all);
    return behind.tarn_sim_thread_ns == NULL ? thread_ns : behind.tarn_sim_thread_ns();
}

uint64_t tarn_sim_longest_stall_ns(void)
{
    pthread_once(&once, open_all);
    return behind.tarn_sim_longest_stall_ns == NULL ? 0 : behind.tarn_sim_longest_stall_ns();
}

void tarn_sim_reset_account(void)
{
    pthread_once(&once, open_all);
    for (int i = 0; i < FUNCTION_COUNT; i++) {
        spent[i].calls = 0;
        spent[i].ns = 0;
    }
    if (behind.tarn_sim_reset_account != NULL)
        behind.tarn_sim_reset_account();
}

uint64_t tarn_sim_check_count(void)
{
    pthread_once(&once, open_all);
    return behind.tarn_sim_check_count == NULL ? 0 : behind.tarn_sim_check_count();
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
