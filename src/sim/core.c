// SPDX-License-Identifier: Apache-2.0
/* core.c -- settings, threads, the way in and out of a call, and the end of the process.
 *
 * How it works. The settings are read by the first call, whatever it is; devices come into being
 * in cuInit, so that a process may load the simulator, look functions up and fork, and the child
 * still gets devices of its own. A fork after cuInit makes the child's driver useless for good, as
 * CUDA does: the flag is checked before the lock, which a thread that the child lacks might hold.
 *
 * At exit the simulator's threads are told to stop and given a moment. One that is inside a kernel
 * or a host function may be there for ever, so the wait is bounded; such a thread is left alone.
 * Calls that come later still answer CUDA_ERROR_DEINITIALIZED, as from the real driver.
 *
 * Trade-offs. One lock makes every call a short critical section: 16 threads that only query their
 * streams meet on it. A simulator is for being right; nothing is measured on it. */
#include "sim/core.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/fault.h"
#include "sim/stream.h"
#include "sim/user_object.h"

#define EXIT_PATIENCE_S 1 /* how long the end of the process waits for threads that are busy */

struct tn_sim_state tn_sim = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .changed = PTHREAD_COND_INITIALIZER,
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool forked;               /* this is the child of a process that had called cuInit */
static atomic_uint_fast64_t next_thread; /* serials given out */
static _Thread_local struct tn_sim_thread self;

static const char *const function_names[TN_SIM_FUNCTION_COUNT] = {
#define FUNCTION_NAME(name, symbol, version, parameters, names) [TN_SIM_FN_##name] = #name,
    TN_CUDA_SIMULATED_FUNCTIONS(FUNCTION_NAME)
#undef FUNCTION_NAME
};

static void before_fork(void)
{
    pthread_mutex_lock(&tn_sim.lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&tn_sim.lock);
}

static void after_fork_in_child(void)
{
    atomic_store(&forked, tn_sim.initialised);
    pthread_mutex_unlock(&tn_sim.lock);
}

/* Reads a whole number from the environment; what is absent or out of range is the default. */
static long setting(const char *name, long least, long most, long otherwise)
{
    const char *text = getenv(name);
    if (text == NULL || *text == '\0')
        return otherwise;
    char *end = NULL;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || *end != '\0' || value < least || value > most)
        return otherwise;
    return value;
}

static void configure(void)
{
    tn_sim.device_count = (int)setting("TARN_SIM_DEVICES", 1, TN_SIM_MAX_DEVICES, 1);
    /* 16 TiB at most: the file behind a device is 32 times as large, and must fit in a file. */
    tn_sim.memory_bytes = (size_t)setting("TARN_SIM_MEMORY_MIB", 2, 16L << 20, 8192) * TN_SIM_MIB;
    tn_sim.memory_bytes -= tn_sim.memory_bytes % TN_SIM_GRANULE;
    tn_sim.strict = setting("TARN_SIM_STRICT", 0, 1, 1) == 1;
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

struct tn_sim_thread *tn_sim_self(void)
{
    if (self.serial == 0)
        self.serial = atomic_fetch_add(&next_thread, 1) + 1;
    return &self;
}

const char *tn_sim_function_name(enum tn_sim_function function)
{
    return function_names[function];
}

static bool works_without_init(enum tn_sim_function function)
{
    switch (function) {
    case TN_SIM_FN_cuInit:
    case TN_SIM_FN_cuDriverGetVersion:
    case TN_SIM_FN_cuGetErrorName:
    case TN_SIM_FN_cuGetErrorString:
    case TN_SIM_FN_cuGetProcAddress:
        return true;
    default:
        return false;
    }
}

/* Host functions and destructors get NOT_PERMITTED from every cuMem* call; and from what waits for
 * the device, which they would wait for themselves. */
static bool barred_in_callback(enum tn_sim_function function)
{
    switch (function) {
    case TN_SIM_FN_cuCtxSynchronize:
    case TN_SIM_FN_cuStreamSynchronize:
    case TN_SIM_FN_cuEventSynchronize:
    case TN_SIM_FN_cuModuleLoadData:
    case TN_SIM_FN_cuModuleUnload:
        return true;
    default:
        return strncmp(function_names[function], "cuMem", 5) == 0;
    }
}

bool tn_sim_enter(enum tn_sim_function function, tn_cu_result *result)
{
    pthread_once(&once, configure);
    if (atomic_load_explicit(&forked, memory_order_relaxed)) {
        *result = TN_CUDA_ERROR_NOT_INITIALIZED;
        return false;
    }
    pthread_mutex_lock(&tn_sim.lock);
    if (tn_sim_fault_strikes(function, result)) {
        pthread_mutex_unlock(&tn_sim.lock);
        return false;
    }
    *result = TN_CUDA_SUCCESS;
    if (!works_without_init(function)) {
        if (tn_sim.stopping)
            *result = TN_CUDA_ERROR_DEINITIALIZED;
        else if (!tn_sim.initialised)
            *result = TN_CUDA_ERROR_NOT_INITIALIZED;
        else if (self.in_callback && barred_in_callback(function))
            *result = TN_CUDA_ERROR_NOT_PERMITTED;
    }
    if (*result != TN_CUDA_SUCCESS) {
        pthread_mutex_unlock(&tn_sim.lock);
        return false;
    }
    return true;
}

/* The way out of a call, and into foreign code (S3). */
void tn_sim_leave(void)
{
    pthread_mutex_unlock(&tn_sim.lock);
}

bool tn_sim_enter_control(void)
{
    if (atomic_load_explicit(&forked, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&tn_sim.lock);
    return true;
}

bool tn_sim_thread_start(void *(*body)(void *), void *argument)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    /* The program's signals are for the program's threads; faults are always the thread's own. */
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    bool started = pthread_create(&thread, &attributes, body, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (started)
        tn_sim.threads++;
    return started;
}

void tn_sim_thread_ends(void)
{
    tn_sim.threads--;
    pthread_cond_broadcast(&tn_sim.changed);
}

bool tn_sim_wait(void)
{
    if (tn_sim.stopping)
        return false;
    pthread_cond_wait(&tn_sim.changed, &tn_sim.lock);
    return !tn_sim.stopping;
}

__attribute__((destructor)) static void end_of_process(void)
{
    if (!tn_sim_enter_control())
        return;
    tn_sim.stopping = true;
    tn_sim_streams_wake_all();
    tn_sim_reaper_wake();
    pthread_cond_broadcast(&tn_sim.changed);
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += EXIT_PATIENCE_S;
    while (tn_sim.threads > 0) {
        if (pthread_cond_timedwait(&tn_sim.changed, &tn_sim.lock, &deadline) != 0)
            break;
    }
    pthread_mutex_unlock(&tn_sim.lock);
}

void tarn_sim_read_ledger(tarn_sim_ledger *ledger)
{
    memset(ledger, 0, sizeof *ledger);
    if (!tn_sim_enter_control())
        return;
    /* A destructor that is due counts as run: the ledger then depends on calls, not on threads. */
    if (!self.is_reaper)
        tn_sim_reaper_drain();
    *ledger = tn_sim.ledger; /* S2: whoever registers or removes an object counts it there */
    ledger->context_stack_entries = self.depth;
    tn_sim_leave();
}

void tarn_sim_hold_work(void)
{
    if (!tn_sim_enter_control())
        return;
    tn_sim.held++;
    tn_sim_leave();
}

void tarn_sim_resume_work(void)
{
    if (!tn_sim_enter_control())
        return;
    if (tn_sim.held > 0 && --tn_sim.held == 0)
        pthread_cond_broadcast(&tn_sim.changed);
    tn_sim_leave();
}
