// SPDX-License-Identifier: Apache-2.0
/* core.c -- threads, the way in and out of a call, and the end of the process.
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

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "sim/cost.h"
#include "sim/fault.h"
#include "sim/settings.h"
#include "sim/stream.h"
#include "sim/user_object.h"

#define EXIT_PATIENCE_S 1 /* how long the end of the process waits for threads that are busy */

struct tn_sim_state tn_sim = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .changed = PTHREAD_COND_INITIALIZER,
    .strict = true,
    .poison = true,
    .device_count = 1,
    .driver_version = TN_SIM_DRIVER_VERSION,
    .memory_bytes = 8192 * TN_SIM_MIB,
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

static void configure(void)
{
    tn_sim_settings_read();
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

bool tn_sim_enter_settings(void)
{
    pthread_once(&once, configure);
    return tn_sim_enter_control();
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

enum tn_sim_function tn_sim_function_named(const char *name)
{
    int number = 0;
    while (number < TN_SIM_FUNCTION_COUNT && strcmp(function_names[number], name) != 0)
        number++;
    return (enum tn_sim_function)number;
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

/* Host functions and destructors get NOT_PERMITTED from every cuMem* and cuGraph* call; and from
 * what waits for the device, which they would wait for themselves. */
static bool barred_in_callback(enum tn_sim_function function)
{
    switch (function) {
    case TN_SIM_FN_cuCtxGetCurrent:
    case TN_SIM_FN_cuCtxDestroy:
    case TN_SIM_FN_cuCtxSynchronize:
    case TN_SIM_FN_cuDevicePrimaryCtxRelease:
    case TN_SIM_FN_cuDevicePrimaryCtxReset:
    case TN_SIM_FN_cuIpcCloseMemHandle:
    case TN_SIM_FN_cuLibraryUnload:
    case TN_SIM_FN_cuStreamSynchronize:
    case TN_SIM_FN_cuEventSynchronize:
    case TN_SIM_FN_cuModuleLoadData:
    case TN_SIM_FN_cuModuleUnload:
        return true;
    default:
        return strncmp(function_names[function], "cuMem", 5) == 0 ||
               strncmp(function_names[function], "cuGraph", 7) == 0;
    }
}

bool tn_sim_enter(enum tn_sim_function function, tn_cu_result *result)
{
    pthread_once(&once, configure);
    if (atomic_load_explicit(&forked, memory_order_relaxed) &&
        (function == TN_SIM_FN_cuInit || !works_without_init(function))) {
        *result = TN_CUDA_ERROR_NOT_INITIALIZED;
        return false;
    }
    pthread_mutex_lock(&tn_sim.lock);
    self.function = function;
    self.charged = false;
    self.charge_ns = 0;
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

tn_cu_result tn_sim_finish(tn_cu_result result)
{
    uint64_t ns = tn_sim_cost_enter(&self);
    if (tn_sim.pace != TN_SIM_BESIDE && !self.in_callback) {
        if (tn_sim.pace == TN_SIM_AT_ONCE && tn_sim.held == 0)
            tn_sim_queues_empty();
        tn_sim_reaper_settle(0);
    }
    pthread_mutex_unlock(&tn_sim.lock);
    if (tn_sim.sleep)
        tn_sim_cost_spend(ns);
    return result;
}

/* The way into foreign code (S3). */
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

/* What is outstanding, a line for each kind. */
static void print_ledger(void)
{
    static const struct {
        const char *name;
        size_t offset;
    } fields[] = {
#define FIELD(name) {#name, offsetof(tarn_sim_ledger, name)}
        FIELD(reservations),
        FIELD(reserved_bytes),
        FIELD(handles),
        FIELD(handle_bytes),
        FIELD(mappings),
        FIELD(mapped_bytes),
        FIELD(linear_allocations),
        FIELD(linear_bytes),
        FIELD(host_allocations),
        FIELD(host_bytes),
        FIELD(streams),
        FIELD(events),
        FIELD(graphs),
        FIELD(graph_execs),
        FIELD(user_objects),
        FIELD(modules),
        FIELD(primary_retains),
        FIELD(captures),
#undef FIELD
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        uint64_t value;
        memcpy(&value, (const char *)&tn_sim.ledger + fields[i].offset, sizeof value);
        if (value != 0)
            fprintf(stderr, "tarn_sim: at exit: %s %llu\n", fields[i].name,
                    (unsigned long long)value);
    }
}

void tn_sim_end(void)
{
    if (!tn_sim_enter_control())
        return;
    if (tn_sim.stopping) {
        tn_sim_leave();
        return;
    }
    if (tn_sim.show_ledger)
        print_ledger();
    tn_sim_cost_write();
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

__attribute__((destructor)) static void end_of_process(void)
{
    tn_sim_end();
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
    if (tn_sim.held > 0 && --tn_sim.held == 0) {
        pthread_cond_broadcast(&tn_sim.changed);
        if (tn_sim.pace == TN_SIM_AT_ONCE && !self.in_callback)
            tn_sim_queues_empty();
    }
    tn_sim_leave();
}
