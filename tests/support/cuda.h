// SPDX-License-Identifier: Apache-2.0
/* cuda.h -- the tests' own side of the driver: streams, kernels and the simulator's controls.
 *
 * The driver is the one that TARN_DRIVER names, as the library loads it. On the simulator kernels run
 * as C twins, and `sim` has its control functions; on a GPU those are NULL.
 *
 * Each test runs in a process of its own (but for GPU suites, which do not fork): nothing is loaded
 * before test_start. */
#ifndef TARN_TESTS_SUPPORT_CUDA_H
#define TARN_TESTS_SUPPORT_CUDA_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/functions.h"
#include "support/options.h"
#include "support/registry.h"
#include "tarn/sim.h"
#include "tarn/tarn.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* Every function that the simulator has too, under its base name. */
struct test_driver {
#define TEST_DRIVER_FIELD(name, symbol, version, parameters, names) tn_pfn_##name name;
    TN_CUDA_SIMULATED_FUNCTIONS(TEST_DRIVER_FIELD)
#undef TEST_DRIVER_FIELD
};
extern struct test_driver cu;

/* The simulator's controls; all NULL on a GPU. */
struct test_controls {
    int (*register_kernel)(const char *entry, tarn_sim_kernel function);
    void (*read_ledger)(tarn_sim_ledger *ledger);
    void (*plan_fault)(const char *function, uint64_t nth, int for_good, int result);
    uint64_t (*clear_fault)(const char **last);
    uint64_t (*call_count)(const char *function);
    uint64_t (*longest_stall_ns)(void);
    void (*set_hints)(int how, size_t max_bytes);
    void (*set_queries)(int how);
    void (*hold_work)(void);
    void (*resume_work)(void);
    void (*delay_destructors)(uint64_t microseconds);
};
extern struct test_controls sim;

/* Loads the driver, initialises it and makes device 0's primary context current. Any number of
 * times. When there is no driver or no device the process exits with 77, which ctest calls
 * skipped. */
void test_start(void);
bool test_is_simulated(void);

#define CU_OK(call) ck_assert_int_eq((int)(call), (int)TN_CUDA_SUCCESS)

/* Notes that the function which the text of a call begins with has answered that status, with the library's
 * sentence: see support/status.c. The second forgets what an earlier run noted. */
void test_note_status(const char *call, tarn_status status, const char *sentence);
void test_forget_statuses(void);

/* Asserts a status, notes it, and shows the library's sentence when it is another. */
#define STATUS(expected, call)                                                                     \
    do {                                                                                           \
        tarn_status test_status = (call);                                                          \
        ck_assert_msg(test_status == (expected), "%s: %s, expected %s; %s", #call,                 \
                      tarn_status_name(test_status), tarn_status_name(expected),                   \
                      tarn_last_error());                                                          \
        test_note_status(#call, test_status, tarn_last_error());                                   \
    } while (0)
#define OK(call) STATUS(TARN_OK, call)

/* From here on the kernels below are those of the current context, loaded for it the first time.
 * test_start has done so for that of device 0. */
void test_use_kernels_here(void);

tn_cu_stream test_stream(void); /* a new non-blocking stream */
void test_synchronize(tn_cu_stream stream);
bool test_is_at_work(tn_cu_stream stream); /* now, as the driver says */

/* Enqueues a kernel that writes value to count words; one that adds value to each of them; and one
 * that keeps the GPU busy for about that many milliseconds. */
/* A handle of this process's for memory that another has exported: here for its own, by a file that is closed again. */
tn_cu_memhandle test_import_handle(tn_cu_memhandle exported);

void test_fill(tn_cu_stream stream, void *address, uint32_t value, size_t count);
void test_add(tn_cu_stream stream, void *address, uint32_t value, size_t count);
void test_spin(tn_cu_stream stream, uint32_t milliseconds);
tn_cu_result test_try_spin(tn_cu_stream stream, uint32_t milliseconds);

/* Holds the simulated GPU's work until a function of the driver is called that waits for it: so the call to
 * come finds it undone, however late that is. */
void test_hold_until_waited(void);

/* Waiting for what other threads do, for most of a minute: the deadline, and a short pause; false when the
 * deadline has passed. */
int64_t test_deadline(void);
bool test_pause(int64_t deadline_ns);

/* Reads words back, after what is on the stream. */
uint32_t test_read(tn_cu_stream stream, const void *address);
void test_expect_words(tn_cu_stream stream, const void *address, uint32_t value, size_t count);

/* The simulator's ledger, and the assertion that it is as it was; nothing on a GPU. */
tarn_sim_ledger test_ledger(void);
void test_same_ledger(const tarn_sim_ledger *before);

/* Runs body(argument) on another thread and waits for it. */
void test_elsewhere(void (*body)(void *), void *argument);

/* A number in the environment, or that one. */
uint64_t test_setting(const char *name, uint64_t otherwise);

/* The same of a seed. Every run has the same seeds, so that a change is judged by what it changes; with
 * TARN_FRESH_SEED=number, as every night, all are others. The caller prints its own, which repeats the run. */
uint64_t test_seed(const char *name, uint64_t otherwise);

#endif
