// SPDX-License-Identifier: Apache-2.0
/* sim.h -- the control interface of the simulated CUDA driver, libtarn_sim.so.
 *
 * The simulator exports the driver's own functions; this header adds what no driver has: kernels
 * written in C, a ledger of everything outstanding, and a plan of faults. Programs do not link the
 * simulator: they load it, as they load libcuda.so.1, and find these functions with dlsym under
 * their own names.
 *
 * Settings are environment variables, read once, by the first call of any driver function; a value
 * that cannot be used is reported on stderr and the default stands. docs/simulator.md says more.
 *   TARN_SIM_DEVICES         number of devices, 1 to 16; default 1
 *   TARN_SIM_MEMORY_MIB      memory of each device in MiB; default 8192
 *   TARN_SIM_STRICT          1 (default): wrong programs that the real driver lets pass get an
 *                            error; 0: they get the real driver's answer
 *   TARN_SIM_CHECK           1: what wrong programs do is reported on stderr and counted; 2: the
 *                            first report aborts; default 0
 *   TARN_SIM_POISON          1 (default): fresh memory has a pattern in it; 0: it reads as zeros
 *   TARN_SIM_COSTS           what driver calls cost: a file, or the name of one that comes with the
 *                            simulator, such as h200; default: nothing
 *   TARN_SIM_COSTS_SLEEP     1: calls take the time that they cost; default 0: it is only counted
 *   TARN_SIM_FAULT           planned faults, FUNCTION:NTH:RESULT[:always] with commas between
 *   TARN_SIM_HINTS           of addresses: driver (default), moved, or refused[:MIB], which refuses
 *                            hints for more than so many MiB
 *   TARN_SIM_DRIVER_VERSION  that the driver reports, 12000 to 13000; functions that are newer are
 *                            not found; default 13000
 *   TARN_SIM_MISSING         functions that are not found, with commas between
 *   TARN_SIM_VMM             0: devices say that they have no virtual memory management; default 1
 *   TARN_SIM_DESTRUCTOR_US   how many microseconds late destructors of user objects run, 0 to 10000000;
 *                            default 0; see tarn_sim_delay_destructors
 *   TARN_SIM_WORK            when queued work is done: beside (default) the program, by threads; awaited: all
 *                            of it while a call waits for some, and else none; at-once: before the
 *                            call that queued it returns. With these two, destructors of user objects
 *                            that are not late run before the call returns that let them go, and what
 *                            the driver answers depends on the program's calls alone
 *   TARN_SIM_LEDGER          1: what is outstanding when the process exits is printed on stderr
 *   TARN_SIM_EXEC_MEMORY     1: executable graphs take device memory, as the driver's do: by the 2 MiB,
 *                            kept for the next one when they are destroyed, and given up for what
 *                            needs it; default 0: they take none, so that programs can account for
 *                            every byte
 *   TARN_SIM_ACCOUNT         a file that the account is written to when the process exits
 *   TARN_SIM_GONE            1: at exit the driver is gone for handlers that were registered before
 *                            the first driver call; default 0: only after all handlers
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
    unsigned int grid[3];      /* blocks in x, y, z */
    unsigned int block[3];     /* threads of a block in x, y, z */
    unsigned int shared_bytes; /* dynamic shared memory asked for */
} tarn_sim_launch;

/* The C twin of a PTX kernel. It is called once for each launch, on a worker thread, and does the
 * work of the whole grid. params[i] points to a copy of the i-th parameter. Device addresses in
 * parameters may be followed as they are. It must not call driver functions; of the functions here
 * it may call tarn_sim_set_conditional. */
typedef void (*tarn_sim_kernel)(const tarn_sim_launch *launch, void *const *params);

/* Binds the kernel entry of that name, in every PTX module loaded before or after, to a twin.
 * A second registration replaces the first. Returns 0, or -1 when name or function is NULL or
 * memory ran out. */
TARN_SIM_API int tarn_sim_register_kernel(const char *entry, tarn_sim_kernel function);

/* A range of memory that a kernel touches. */
#define TARN_SIM_READS 1u
#define TARN_SIM_WRITES 2u
typedef struct tarn_sim_range {
    uint64_t address;
    uint64_t bytes;
    unsigned int use; /* TARN_SIM_READS, TARN_SIM_WRITES or both: it reads before it writes */
} tarn_sim_range;

/* Tells the checker (TARN_SIM_CHECK) what one launch will touch: stores up to most ranges and
 * returns how many there are; more than most, or a kernel without such a function, means that it
 * may have written anything. Called with the driver's lock held: it must not call driver functions
 * nor follow device addresses. */
typedef size_t (*tarn_sim_kernel_ranges)(const tarn_sim_launch *launch, void *const *params,
                                         tarn_sim_range *ranges, size_t most);

/* Declares the ranges of the kernel entry of that name, as tarn_sim_register_kernel binds its twin,
 * before or after it. Returns 0, or -1 when name or function is NULL or memory ran out. */
TARN_SIM_API int tarn_sim_register_kernel_ranges(const char *entry,
                                                 tarn_sim_kernel_ranges function);

/* Gives a setting a value, as its environment variable would; name is the variable's, with or
 * without "TARN_SIM_". Overrides the environment. Returns 0; or -1, having said why on stderr, when
 * there is no such setting, the value cannot be used, or cuInit has succeeded already. */
TARN_SIM_API int tarn_sim_configure(const char *name, const char *value);

/* Everything outstanding in the simulated driver, of all devices. Two equal ledgers before and
 * after a piece of work prove that it left nothing behind. */
typedef struct tarn_sim_ledger {
    uint64_t reservations;          /* address ranges reserved */
    uint64_t reserved_bytes;        /* their bytes */
    uint64_t handles;               /* physical allocations (cuMemCreate) not yet given back */
    uint64_t handle_bytes;          /* their bytes */
    uint64_t mappings;              /* handles mapped at addresses */
    uint64_t mapped_bytes;          /* their bytes */
    uint64_t linear_allocations;    /* cuMemAlloc */
    uint64_t linear_bytes;          /* their bytes */
    uint64_t host_allocations;      /* cuMemHostAlloc */
    uint64_t host_bytes;            /* their bytes */
    uint64_t streams;               /* created and not destroyed */
    uint64_t events;                /* the same */
    uint64_t graphs;                /* templates, those being captured and clones included */
    uint64_t graph_execs;           /* instantiated graphs */
    uint64_t user_objects;          /* whose destructor has not run */
    uint64_t modules;               /* and libraries loaded */
    uint64_t primary_retains;       /* references to primary contexts */
    uint64_t captures;              /* captures under way, invalidated ones included */
    uint64_t graph_blocks;          /* allocations of graphs, live or not */
    uint64_t graph_memory_bytes;    /* memory that the driver keeps for them */
    uint64_t context_stack_entries; /* of the calling thread */
    uint64_t contexts;              /* made by cuCtxCreate and not destroyed */
    uint64_t ipc_openings;          /* allocations of other processes that are open */
    uint64_t host_registrations;    /* cuMemHostRegister */
    uint64_t registered_bytes;      /* their bytes */
    uint64_t async_allocations;     /* cuMemAllocAsync and cuMemAllocFromPoolAsync, not yet freed */
    uint64_t async_bytes;           /* their bytes */
    uint64_t pools;                 /* made by cuMemPoolCreate and not destroyed */
} tarn_sim_ledger;

/* Fills *ledger. Device work still queued is counted as it stands. */
TARN_SIM_API void tarn_sim_read_ledger(tarn_sim_ledger *ledger);

/* Plans a fault: the nth call (1 is the next one) of the named function, or of any driver function
 * when function is NULL, returns result and does nothing else. With for_good non-zero every later
 * matching call does so too. One plan stands at a time; a new one replaces it. Calls of
 * cuGetErrorName, cuGetErrorString and cuGetProcAddress are neither counted nor failed. */
TARN_SIM_API void tarn_sim_plan_fault(const char *function, uint64_t nth, int for_good, int result);

/* Forgets all plans. Returns how many calls they have failed, and when last is not NULL, stores there
 * the name of the function that failed last (NULL when none did). */
TARN_SIM_API uint64_t tarn_sim_clear_fault(const char **last);

/* Calls of the named function since the process began; of all counted functions when it is NULL. */
TARN_SIM_API uint64_t tarn_sim_call_count(const char *function);

/* The account: what driver calls have cost, by the file of TARN_SIM_COSTS. It is virtual time, which
 * nobody waits for unless TARN_SIM_COSTS_SLEEP says so, and depends on the calls alone. The call
 * recorder, libtarn_record.so, has the same functions: in front of a real driver they tell the time
 * measured inside it. */
typedef struct tarn_sim_cost {
    uint64_t calls; /* that returned, failed ones included, planned faults excluded */
    uint64_t ns;    /* that they took in all */
} tarn_sim_cost;

/* Of the named function, or of all when it is NULL; calls of all threads since the last reset. An
 * unknown name has none. */
TARN_SIM_API void tarn_sim_read_account(const char *function, tarn_sim_cost *cost);

/* Of the calling thread's calls since it began, in nanoseconds; resets do not touch it. */
TARN_SIM_API uint64_t tarn_sim_thread_ns(void);

TARN_SIM_API void tarn_sim_reset_account(void);

/* Wrong programs that TARN_SIM_CHECK has reported so far. */
TARN_SIM_API uint64_t tarn_sim_check_count(void);

/* Sets the value of a conditional handle, as cudaGraphSetConditional does in device code: for the
 * launch of an executable graph that is running the calling kernel twin. Returns 0, or -1 when no
 * node of that graph has the handle, or no graph is running on the thread. */
TARN_SIM_API int tarn_sim_set_conditional(uint64_t handle, unsigned int value);

/* How the simulator treats address hints of cuMemAddressReserve: as the driver does (0), places
 * the range elsewhere (1), or refuses with out-of-memory any size above max_bytes (2). */
TARN_SIM_API void tarn_sim_set_hints(int how, size_t max_bytes);

/* What cuEventQuery says of an event that was recorded outside captures: what is so (0), always
 * CUDA_ERROR_NOT_READY (1), or, as long as work is not held, never that, since it waits for the
 * event first (2). For tests of what depends on when a program happens to ask. */
TARN_SIM_API void tarn_sim_set_queries(int how);

/* Stops and restarts the simulated GPU: while held, queued device work does not run. Calls nest.
 * For tests of what happens while memory is in use; a call that waits for the device waits. */
TARN_SIM_API void tarn_sim_hold_work(void);
TARN_SIM_API void tarn_sim_resume_work(void);

/* How late the destructors of user objects run whose last reference goes from now on, in microseconds, 10 s at
 * most: on the simulator's own thread, as TARN_SIM_DESTRUCTOR_US says at first. On an H200 they run 6 us behind
 * the call in the mean, and 65 at worst. What that driver runs before the call returns is never late: the
 * destructors of a graph that was in no executable, and of a dropped capture. tarn_sim_read_ledger waits for
 * none of the delay: what is due runs at once. */
TARN_SIM_API void tarn_sim_delay_destructors(uint64_t microseconds);

#ifdef __cplusplus
}
#endif
#endif
