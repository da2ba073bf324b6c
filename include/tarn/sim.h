// SPDX-License-Identifier: Apache-2.0
/* sim.h -- the control interface of the simulated CUDA driver, libtarn_sim.so.
 *
 * The simulator exports the driver's own functions; this header adds what no driver has: kernels
 * written in C, a ledger of everything outstanding, and a plan of faults. Programs do not link the
 * simulator: they load it, as they load libcuda.so.1, and find these functions with dlsym under
 * their own names.
 *
 * Environment, read once, by the first call of any driver function:
 *   TARN_SIM_DEVICES     number of devices, 1 to 16; default 1
 *   TARN_SIM_MEMORY_MIB  memory of each device in MiB; default 8192
 *   TARN_SIM_STRICT      1 (default): wrong programs that the real driver lets pass get an error;
 *                        0: they get the real driver's answer
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
 * parameters may be followed as they are. It must not call driver functions. */
typedef void (*tarn_sim_kernel)(const tarn_sim_launch *launch, void *const *params);

/* Binds the kernel entry of that name, in every PTX module loaded before or after, to a twin.
 * A second registration replaces the first. Returns 0, or -1 when name or function is NULL or
 * memory ran out. */
TARN_SIM_API int tarn_sim_register_kernel(const char *entry, tarn_sim_kernel function);

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
    uint64_t modules;               /* loaded */
    uint64_t primary_retains;       /* references to primary contexts */
    uint64_t captures;              /* captures under way, invalidated ones included */
    uint64_t context_stack_entries; /* of the calling thread */
} tarn_sim_ledger;

/* Fills *ledger. Device work still queued is counted as it stands. */
TARN_SIM_API void tarn_sim_read_ledger(tarn_sim_ledger *ledger);

/* Plans a fault: the nth call (1 is the next one) of the named function, or of any driver function
 * when function is NULL, returns result and does nothing else. With for_good non-zero every later
 * matching call does so too. One plan stands at a time; a new one replaces it. Calls of
 * cuGetErrorName, cuGetErrorString and cuGetProcAddress are neither counted nor failed. */
TARN_SIM_API void tarn_sim_plan_fault(const char *function, uint64_t nth, int for_good, int result);

/* Forgets the plan. Returns how many calls it has failed, and when last is not NULL, stores there
 * the name of the function that failed last (NULL when none did). */
TARN_SIM_API uint64_t tarn_sim_clear_fault(const char **last);

/* Calls of the named function since the process began; of all counted functions when it is NULL. */
TARN_SIM_API uint64_t tarn_sim_call_count(const char *function);

/* How the simulator treats address hints of cuMemAddressReserve: as the driver does (0), places
 * the range elsewhere (1), or refuses with out-of-memory any size above max_bytes (2). */
TARN_SIM_API void tarn_sim_set_hints(int how, size_t max_bytes);

/* Stops and restarts the simulated GPU: while held, queued device work does not run. Calls nest.
 * For tests of what happens while memory is in use; a call that waits for the device waits. */
TARN_SIM_API void tarn_sim_hold_work(void);
TARN_SIM_API void tarn_sim_resume_work(void);

#ifdef __cplusplus
}
#endif
#endif
