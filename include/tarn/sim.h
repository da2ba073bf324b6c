// SPDX-License-Identifier: Apache-2.0
/* sim.h -- the control interface of the simulated CUDA driver, libtarn_sim.so.
 *
 * The simulator exports the driver's own functions. This header adds what no driver has: kernels
 * written in C, a ledger of everything outstanding, and a plan of faults. Programs do not link the
 * simulator. They load it, as they load libcuda.so.1, and find these functions with dlsym under
 * their own names.
 *
 * Settings are environment variables, read once, by the first call of any driver function. A value
 * that cannot be used is reported on stderr, and the default stands. docs/simulator.md says more.
 *   TARN_SIM_DEVICES         The number of devices, 1 to 16; default 1.
 *   TARN_SIM_MEMORY_MIB      The memory of each device in MiB; default 8192.
 *   TARN_SIM_STRICT          1 (default): wrong programs that the real driver lets pass get an
 *                            error.
 *                            0: they get the real driver's answer.
 *   TARN_SIM_CHECK           1: mistakes of wrong programs are reported on stderr and counted.
 *                            2: the first report aborts. Default 0.
 *   TARN_SIM_POISON          1 (default): fresh memory has a pattern in it. 0: it reads as zeros.
 *   TARN_SIM_COSTS           The costs of driver calls: a file, or the name of a file that comes
 *                            with the simulator, such as h200. Default: calls cost nothing.
 *   TARN_SIM_COSTS_SLEEP     1: calls take the time that they cost. 0 (default): it is only
 *                            counted.
 *   TARN_SIM_FAULT           Planned faults, FUNCTION:NTH:RESULT[:always] with commas between.
 *   TARN_SIM_HINTS           Address hints: driver (default), moved, or refused[:MIB], which
 *                            refuses hints for more than MIB MiB.
 *   TARN_SIM_DRIVER_VERSION  The version that the driver reports, 12000 to 13000; default 13000.
 *                            Newer functions are not found.
 *   TARN_SIM_MISSING         Functions that are not found, with commas between.
 *   TARN_SIM_VMM             0: devices report no virtual memory management. Default 1.
 *   TARN_SIM_DESTRUCTOR_US   How late destructors of user objects run, in microseconds, 0 to
 *                            10000000; default 0. See tarn_sim_delay_destructors.
 *   TARN_SIM_WORK            When queued work is done.
 *                            beside (default): beside the program, by threads.
 *                            awaited: all of it while a call waits for some, and none otherwise.
 *                            at-once: before the call that queued it returns.
 *                            With awaited and at-once the driver's answers depend on the program's
 *                            calls alone. Destructors of user objects that are not late then run
 *                            before the call that lets the objects go returns.
 *   TARN_SIM_LEDGER          1: everything outstanding at the exit of the process is printed on
 *                            stderr.
 *   TARN_SIM_EXEC_MEMORY     1: executable graphs take device memory, as the driver's do. They take
 *                            it in steps of 2 MiB. A destroyed executable's memory is kept for the
 *                            next one, and given up when other memory is needed.
 *                            0 (default): they take none, and programs can account for every byte.
 *   TARN_SIM_ACCOUNT         A file that the account is written to when the process exits.
 *   TARN_SIM_GONE            1: at exit the driver is gone for handlers that were registered before
 *                            the first driver call. 0 (default): only after all handlers.
 *
 * Thread safety: every function may be called from any thread. */
#ifndef TARN_SIM_H
#define TARN_SIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TARN_SIM_API __attribute__((visibility("default")))
#else
#define TARN_SIM_API
#endif

/* One launch, as a kernel twin sees it. */
typedef struct tarn_sim_launch {
    /* Blocks in x, y, z. */
    unsigned int grid[3];
    /* Threads of a block in x, y, z. */
    unsigned int block[3];
    /* Dynamic shared memory asked for. */
    unsigned int shared_bytes;
} tarn_sim_launch;

/* The C twin of a PTX kernel. The simulator calls the twin once for each launch, on a worker
 * thread; it does the work of the whole grid. params[i] points to a copy of the i-th parameter. The
 * twin may follow device addresses in parameters as they are. It must not call driver functions,
 * and of the functions here only tarn_sim_set_conditional. */
typedef void (*tarn_sim_kernel)(const tarn_sim_launch *launch, void *const *params);

/* Binds the kernel entry of this name, in every PTX module loaded before or after, to a twin. A
 * second registration replaces the first. Returns 0. Returns -1 when name or function is NULL, or
 * memory ran out. */
TARN_SIM_API int tarn_sim_register_kernel(const char *entry, tarn_sim_kernel function);

/* A range of memory that a kernel touches. */
#define TARN_SIM_READS 1u
#define TARN_SIM_WRITES 2u
typedef struct tarn_sim_range {
    uint64_t address;
    uint64_t bytes;
    /* TARN_SIM_READS, TARN_SIM_WRITES or both: the kernel reads before it writes. */
    unsigned int use;
} tarn_sim_range;

/* Tells the checker (TARN_SIM_CHECK) which memory a launch will touch. Stores up to most ranges and
 * returns their number. A number above most means that the kernel may have written anywhere, as a
 * kernel without this function may. Called with the driver's lock held: must not call driver
 * functions, nor follow device addresses. */
typedef size_t (*tarn_sim_kernel_ranges)(const tarn_sim_launch *launch, void *const *params,
                                         tarn_sim_range *ranges, size_t most);

/* Declares the ranges of the kernel entry of this name, as tarn_sim_register_kernel binds a twin,
 * before or after it. Returns 0. Returns -1 when name or function is NULL, or memory ran out. */
TARN_SIM_API int tarn_sim_register_kernel_ranges(const char *entry,
                                                 tarn_sim_kernel_ranges function);

/* Gives a setting a value, as its environment variable would. name is the variable's, with or
 * without "TARN_SIM_". The value overrides the environment. Returns 0. Returns -1, with the reason
 * on stderr, when no setting has this name, the value cannot be used, or cuInit has succeeded
 * already. */
TARN_SIM_API int tarn_sim_configure(const char *name, const char *value);

/* Everything outstanding in the simulated driver, of all devices. Two equal ledgers before and
 * after a piece of work prove that nothing was left behind. */
typedef struct tarn_sim_ledger {
    /* Address ranges reserved. */
    uint64_t reservations;
    /* Their bytes. */
    uint64_t reserved_bytes;
    /* Physical allocations (cuMemCreate) not yet given back. */
    uint64_t handles;
    /* Their bytes. */
    uint64_t handle_bytes;
    /* Handles mapped at addresses. */
    uint64_t mappings;
    /* Their bytes. */
    uint64_t mapped_bytes;
    /* Allocations of cuMemAlloc. */
    uint64_t linear_allocations;
    /* Their bytes. */
    uint64_t linear_bytes;
    /* Allocations of cuMemHostAlloc. */
    uint64_t host_allocations;
    /* Their bytes. */
    uint64_t host_bytes;
    /* Created and not destroyed. */
    uint64_t streams;
    /* Created and not destroyed. */
    uint64_t events;
    /* Templates, captures under way and clones included. */
    uint64_t graphs;
    /* Instantiated graphs. */
    uint64_t graph_execs;
    /* User objects whose destructor has not run. */
    uint64_t user_objects;
    /* Loaded modules and libraries. */
    uint64_t modules;
    /* References to primary contexts. */
    uint64_t primary_retains;
    /* Captures under way, invalidated captures included. */
    uint64_t captures;
    /* Allocations of graphs, live or not. */
    uint64_t graph_blocks;
    /* Memory that the driver keeps for them. */
    uint64_t graph_memory_bytes;
    /* Entries of the calling thread. */
    uint64_t context_stack_entries;
    /* Made by cuCtxCreate and not destroyed. */
    uint64_t contexts;
    /* Open allocations of other processes. */
    uint64_t ipc_openings;
    /* Registrations of cuMemHostRegister. */
    uint64_t host_registrations;
    /* Their bytes. */
    uint64_t registered_bytes;
    /* Allocations of cuMemAllocAsync and cuMemAllocFromPoolAsync, not yet freed. */
    uint64_t async_allocations;
    /* Their bytes. */
    uint64_t async_bytes;
    /* Made by cuMemPoolCreate and not destroyed. */
    uint64_t pools;
} tarn_sim_ledger;

/* Fills *ledger. Device work in the queue is counted as it stands. */
TARN_SIM_API void tarn_sim_read_ledger(tarn_sim_ledger *ledger);

/* Plans a fault: the nth call (1 is the next call) of the named function returns result and does
 * nothing else. With function NULL, the nth call of any driver function. With for_good non-zero,
 * every later matching call fails too. Only a single plan stands: a new plan replaces the old.
 * Calls of cuGetErrorName, cuGetErrorString and cuGetProcAddress are neither counted nor failed. */
TARN_SIM_API void tarn_sim_plan_fault(const char *function, uint64_t nth, int for_good, int result);

/* Forgets all plans. Returns the number of calls that they have failed. If last is not NULL, stores
 * there the name of the last function that failed (NULL: none did). */
TARN_SIM_API uint64_t tarn_sim_clear_fault(const char **last);

/* Calls of the named function since the process began; with NULL, of all counted functions. */
TARN_SIM_API uint64_t tarn_sim_call_count(const char *function);

/* The account: the cost of driver calls, by the file of TARN_SIM_COSTS. The cost is virtual time,
 * which depends on the calls alone. Nobody waits for this time unless TARN_SIM_COSTS_SLEEP says
 * otherwise. The call recorder, libtarn_record.so, has the same functions. In front of a real
 * driver they tell the time measured inside the driver. */
typedef struct tarn_sim_cost {
    /* Calls that returned, failed calls included, planned faults excluded. */
    uint64_t calls;
    /* The time of all these calls, in nanoseconds. */
    uint64_t ns;
} tarn_sim_cost;

/* Reads the account of the named function; with NULL, of all functions. Calls of all threads since
 * the last reset count. An unknown name has no calls. */
TARN_SIM_API void tarn_sim_read_account(const char *function, tarn_sim_cost *cost);

/* The time of the calling thread's calls since the thread began, in nanoseconds. Resets do not
 * touch it. */
TARN_SIM_API uint64_t tarn_sim_thread_ns(void);

/* The longest time that one call has stalled other threads' calls since the last reset, in
 * nanoseconds. Calls of functions count whose line in the file of costs says `stalls`. Through the
 * call recorder with a real driver the time is 0. */
TARN_SIM_API uint64_t tarn_sim_longest_stall_ns(void);

TARN_SIM_API void tarn_sim_reset_account(void);

/* The number of mistakes that TARN_SIM_CHECK has reported. */
TARN_SIM_API uint64_t tarn_sim_check_count(void);

/* Sets the value of a conditional handle, as cudaGraphSetConditional does in device code. The value
 * holds for the launch of the executable graph that runs the calling kernel twin. Returns 0.
 * Returns -1 when no node of this graph has the handle, or no graph is running on the thread. */
TARN_SIM_API int tarn_sim_set_conditional(uint64_t handle, unsigned int value);

/* How the simulator treats address hints of cuMemAddressReserve. 0: as the driver does. 1: places
 * the range elsewhere. 2: refuses any size above max_bytes, with out-of-memory. */
TARN_SIM_API void tarn_sim_set_hints(int how, size_t max_bytes);

/* How cuEventQuery answers for an event that was recorded outside captures. 0: truthfully. 1:
 * always CUDA_ERROR_NOT_READY. 2: never CUDA_ERROR_NOT_READY while work is not held, since the
 * query waits for the event first. For tests that depend on when a program happens to ask. */
TARN_SIM_API void tarn_sim_set_queries(int how);

/* Stops and restarts the simulated GPU: while held, queued device work does not run. Calls nest. A
 * call that waits for the device waits until the work is resumed. For tests of programs while their
 * memory is in use. */
TARN_SIM_API void tarn_sim_hold_work(void);
TARN_SIM_API void tarn_sim_resume_work(void);

/* Delays destructors of user objects whose last reference goes from now on, by 10 s at most. They
 * run on the simulator's own thread. TARN_SIM_DESTRUCTOR_US has the first delay. On an H200
 * destructors run 6 us behind the call in the mean, and 65 us at worst. Two kinds are never late,
 * since that driver runs them before the call returns: destructors of a graph that was in no
 * executable, and of a dropped capture. tarn_sim_read_ledger does not wait for the delay: all due
 * destructors run at once. */
TARN_SIM_API void tarn_sim_delay_destructors(uint64_t microseconds);

#ifdef __cplusplus
}
#endif
#endif
