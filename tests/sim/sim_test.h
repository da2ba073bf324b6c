// SPDX-License-Identifier: Apache-2.0
/* sim_test.h -- what the tests of the simulated driver share.
 *
 * The simulator is loaded as programs load it: from the path in TARN_DRIVER, every function by
 * cuGetProcAddress, the control functions by dlsym. Each test runs in a process of its own, so each
 * meets a fresh driver; nothing is loaded before the fork. */
#ifndef TARN_TESTS_SIM_TEST_H
#define TARN_TESTS_SIM_TEST_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda.h"
#include "abi/functions.h"
#include "support/registry.h"
#include "tarn/sim.h"

#define MIB ((size_t)1 << 20)

/* Every function of the driver, under its base name. */
struct driver {
#define DRIVER_MEMBER(name, symbol, version, parameters, names) tn_pfn_##name name;
    TN_CUDA_SIMULATED_FUNCTIONS(DRIVER_MEMBER)
#undef DRIVER_MEMBER
};
extern struct driver cu;

/* The control functions. */
#define SIM_CONTROLS(X)                                                                            \
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
    X(tarn_sim_set_conditional)                                                                    \
    X(tarn_sim_set_hints)                                                                          \
    X(tarn_sim_hold_work)                                                                          \
    X(tarn_sim_delay_destructors)                                                                  \
    X(tarn_sim_resume_work)
struct controls {
#define CONTROL_MEMBER(name) __typeof__(&name) name;
    SIM_CONTROLS(CONTROL_MEMBER)
#undef CONTROL_MEMBER
};
extern struct controls sim;

/* Asserts what a call of the driver answers. */
#define ANSWERS(expected, call) ck_assert_int_eq((int)(call), (int)(expected))
#define OK(call) ANSWERS(TN_CUDA_SUCCESS, call)

/* Set-ups: the functions loaded; and initialised; and device 0's primary context current. */
void load_driver(void);
void load_lax_driver(void);  /* initialised, with TARN_SIM_STRICT=0 */
void load_two_devices(void); /* initialised, context of device 0 current */
void start_driver(void);
void start_context(void);

/* Memory at addresses: a handle mapped whole, with access for device 0. */
struct mapped {
    tn_cu_deviceptr address;
    size_t bytes;
    tn_cu_memhandle handle;
};
tn_cu_allocation_prop device_prop(int device);
tn_cu_deviceptr reserve(size_t bytes);
tn_cu_memhandle physical(size_t bytes);
tn_cu_result give_access(tn_cu_deviceptr address, size_t bytes, int flags);
struct mapped map_new(size_t bytes);
void unmap_all(struct mapped mapped);

tn_cu_stream new_stream(unsigned int flags);
tn_cu_event new_event(void);

/* The ledger, and the assertion that two of them are equal in every field. */
tarn_sim_ledger ledger(void);
void same_ledger(const tarn_sim_ledger *before, const tarn_sim_ledger *after);

/* From the first to the second, what is printed on stderr is kept; end_hearing returns it, a text
 * that is good until the next one. */
void begin_hearing(void);
const char *end_hearing(void);

/* Writes a text to a new file, whose name is good until the next one. */
const char *file_with(const char *text);

/* Calls body(argument) on another thread and returns what it returned. */
tn_cu_result elsewhere(tn_cu_result (*body)(void *), void *argument);

/* Passes an open file to another process. */
void send_file(int socket, int file);
int receive_file(int socket);

/* Kernels of the tests. */
struct kernels {
    tn_cu_module module;
    tn_cu_function fill; /* (u64 address, u32 value, u32 count) */
    tn_cu_function add;  /* (u64 address, u32 amount): adds to one word */
};
struct kernels load_kernels(void);
tn_cu_result launch_fill(const struct kernels *kernels, tn_cu_stream stream,
                         tn_cu_deviceptr address, uint32_t value, uint32_t count);

#endif
