// SPDX-License-Identifier: Apache-2.0
/* core.h -- shared by every part of the simulated driver: the lock, the settings, and the calling
 * thread.
 *
 * Every exported function is generated (entry.c) and has one shape: tn_sim_enter (call.h) counts
 * the call, applies the fault plan and the rules for all calls, and takes the lock; the function's
 * body, tn_sim_<name>, runs with the lock held; tn_sim_finish enters the call's cost in the account
 * (cost.h) and gives the lock back.
 *
 * Lock ranks. There is one lock, tn_sim.lock.
 *   protects     everything in src/sim, unless a field says otherwise
 *   allowed      memory allocation and system calls on the simulator's own memory
 *   not allowed  running kernels, host functions or destructors, and copying or setting device
 *                memory: all of them run on the simulator's threads with the lock given up
 * A call that must wait does so on tn_sim.changed, which gives the lock up. After the wait,
 * everything that was looked up before must be looked up again, or be referenced.
 *
 * Invariants
 *   SS1  strict: a handle value is never given out twice, of whatever kind
 *   SS2  the ledger equals what the registry and the space hold
 *   SS3  no lock is held while foreign code runs, but for functions that tell a kernel's ranges */
#ifndef TARN_SIM_CORE_H
#define TARN_SIM_CORE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/cuda.h"
#include "abi/functions.h"
#include "tarn/sim.h"

#define TN_SIM_MIB ((size_t)1 << 20)
#define TN_SIM_GRANULE (2 * TN_SIM_MIB) /* granularity of reservations and physical memory */
#define TN_SIM_DRIVER_VERSION 13000     /* the newest that it can be */
#define TN_SIM_MAX_DEVICES 16
#define TN_SIM_MULTIPROCESSORS 132 /* of a device: an H200's */

struct tn_sim_context;
struct tn_sim_stream;

/* A number for each function, as an index into tables of functions. */
enum tn_sim_function {
#define TN_SIM_FUNCTION_NUMBER(name, symbol, version, parameters, names) TN_SIM_FN_##name,
    TN_CUDA_SIMULATED_FUNCTIONS(TN_SIM_FUNCTION_NUMBER)
#undef TN_SIM_FUNCTION_NUMBER
        TN_SIM_FUNCTION_COUNT
};

/* The bodies of the driver's functions. Each is called with the lock held and returns with the lock
 * held. */
#define TN_SIM_BODY(name, symbol, version, parameters, names) tn_cu_result tn_sim_##name parameters;
TN_CUDA_SIMULATED_FUNCTIONS(TN_SIM_BODY)
#undef TN_SIM_BODY

/* The pace of the simulated GPU. TN_SIM_BESIDE: the GPU works beside the program. TN_SIM_AWAITED:
 * it works while a call waits for some of its work, and then does all of it. TN_SIM_AT_ONCE: it
 * works before the call that asked for work returns. The last two depend on the program's calls
 * alone. */
enum tn_sim_pace { TN_SIM_BESIDE, TN_SIM_AWAITED, TN_SIM_AT_ONCE };

/* The whole driver. Guarded by its own lock, settings excepted. */
struct tn_sim_state {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* work finished, or was released, or a destructor ran */
    bool strict;            /* setting, as the next ones: immutable once cuInit has succeeded */
    bool poison;            /* fresh memory has a pattern */
    bool sleep;             /* calls take as long as they cost */
    bool show_ledger;       /* at exit */
    bool exec_memory;       /* executable graphs take device memory */
    bool without_vmm;       /* devices say that they have no virtual memory management */
    enum tn_sim_pace pace;  /* when work is done, and destructors run */
    int check;              /* 0: no; 1: report wrong programs; 2: and abort (check.h) */
    int device_count;
    int driver_version;
    size_t memory_bytes;                 /* of each device */
    char *account_path;                  /* file for the account at exit; or NULL */
    char *shared_path;                   /* file of the processes that share the devices; or NULL */
    bool missing[TN_SIM_FUNCTION_COUNT]; /* functions that programs do not find */
    bool initialised;                    /* cuInit has succeeded */
    bool stopping;                       /* the process exits: the driver is gone */
    unsigned int held;                   /* depth of tarn_sim_hold_work */
    unsigned int stalls;                 /* calls that take their time, and stall others */
    unsigned int waits;                  /* calls that wait until all work is done */
    int64_t destructor_us;               /* how late destructors of user objects run */
    unsigned int threads;                /* living threads of the simulator's own */
    tarn_sim_ledger ledger;              /* all but context_stack_entries, which is the thread's */
};
extern struct tn_sim_state tn_sim;

/* Which streams mean the calling thread's own default stream in the present call. */
enum tn_sim_defaults {
    TN_SIM_NULL_IS_LEGACY, /* none: not compiled for per-thread default streams */
    TN_SIM_NULL_IS_OWN,
    TN_SIM_LEGACY_IS_OWN, /* NULL and legacy: the call names no stream */
};

/* The driver's state of a thread. Touched by that thread only. */
struct tn_sim_thread {
    uint64_t serial;         /* names the thread for good; 0 until first asked for */
    tn_cu_capture_mode mode; /* its capture mode */
    enum tn_sim_defaults defaults;
    bool in_callback;              /* inside a host function or a destructor */
    bool is_reaper;                /* the thread that runs destructors */
    enum tn_sim_function function; /* the present or the last call */
    bool charged;                  /* the call has said what it cost */
    uint64_t charge_ns;            /* of the call */
    uint64_t driver_ns;            /* of all calls */
    size_t depth;                  /* entries of stack */
    size_t stack_capacity;
    struct tn_sim_context **stack;     /* contexts, the current one last; context.c frees it */
    struct tn_sim_stream *own_streams; /* per-thread default streams, one for each context */
};

/* The calling thread. */
struct tn_sim_thread *tn_sim_self(void);

/* Gives the lock up: into foreign code, or after tn_sim_enter_control. */
void tn_sim_leave(void);

/* Takes the lock for a control function, which no rule stops. Returns false in the child of a fork,
 * where nothing may be touched. */
bool tn_sim_enter_control(void);

/* Makes the simulator notice forks from now on; and asks whether this process is a fork of one that
 * had called cuInit. */
void tn_sim_watch_forks(void);
bool tn_sim_forked(void);

/* Starts a detached thread of the simulator, with the lock held. Returns false when the system has
 * no thread to give. The thread ends by calling tn_sim_thread_ends with the lock held. */
bool tn_sim_thread_start(void *(*body)(void *), void *argument);
void tn_sim_thread_ends(void);

/* Waits for the next change, giving the lock up meanwhile. Returns false when the process exits,
 * in which case nothing will change any more. */
bool tn_sim_wait(void);

/* The name of a function, a constant; and the function of a name, TN_SIM_FUNCTION_COUNT when no
 * function has this name. */
const char *tn_sim_function_name(enum tn_sim_function function);
enum tn_sim_function tn_sim_function_named(const char *name);

/* Asks whether wrong programs get errors that the real driver does not give. */
static inline bool tn_sim_strict(void)
{
    return tn_sim.strict;
}

#endif
