// SPDX-License-Identifier: Apache-2.0
/* call.c -- the way in and out of a call, and the end of the process.
 *
 * How it works. The first call, whichever it is, reads the settings. Then it tells the streams the
 * folder that does their work (stream.h).
 *
 * At exit the simulator's threads are told to stop and given a moment. A thread inside a kernel or
 * a host function may stay there for ever. The wait is therefore bounded, and the thread is then
 * left alone. Later calls still answer CUDA_ERROR_DEINITIALIZED, like the real driver. */
#include "sim/entry/call.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "sim/core/cost.h"
#include "sim/exec/exec.h"
#include "sim/entry/fault.h"
#include "sim/heap/mempool.h"
#include "sim/run/op_run.h"
#include "sim/entry/settings.h"
#include "sim/stream/stream.h"
#include "sim/graph/user_object.h"

#define EXIT_PATIENCE_S 1 /* the longest wait for busy threads at the end of the process */

static pthread_once_t once = PTHREAD_ONCE_INIT;

static const struct tn_sim_stream_calls stream_calls = {
    .op_run = tn_sim_op_run,
    .part_acquire = tn_sim_part_acquire,
    .part_release = tn_sim_part_release,
    .part_run = tn_sim_part_run,
    .waited = tn_sim_pools_waited,
    .waited_all = tn_sim_pools_waited_all,
    .forgotten = tn_sim_pools_forget,
};

static void configure(void)
{
    tn_sim_settings_read();
    tn_sim_streams_serve(&stream_calls);
    tn_sim_watch_forks();
}

bool tn_sim_enter_settings(void)
{
    pthread_once(&once, configure);
    return tn_sim_enter_control();
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

/* Host functions and destructors get NOT_PERMITTED from every cuMem* and cuGraph* call. Calls that
 * wait for the device answer the same: they would wait for their own caller. */
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
        return strncmp(tn_sim_function_name(function), "cuMem", 5) == 0 ||
               strncmp(tn_sim_function_name(function), "cuGraph", 7) == 0;
    }
}

bool tn_sim_enter(enum tn_sim_function function, tn_cu_result *result)
{
    pthread_once(&once, configure);
    if (tn_sim_forked() && (function == TN_SIM_FN_cuInit || !works_without_init(function))) {
        *result = TN_CUDA_ERROR_NOT_INITIALIZED;
        return false;
    }
    struct tn_sim_thread *self = tn_sim_self();
    pthread_mutex_lock(&tn_sim.lock);
    while (tn_sim.stalls > 0 && !works_without_init(function))
        pthread_cond_wait(&tn_sim.changed, &tn_sim.lock);
    self->function = function;
    self->charged = false;
    self->charge_ns = 0;
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
        else if (self->in_callback && barred_in_callback(function))
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
    struct tn_sim_thread *self = tn_sim_self();
    uint64_t ns = tn_sim_cost_enter(self);
    bool stalls = tn_sim.sleep && tn_sim_cost_stalls(self->function);
    if (tn_sim.pace != TN_SIM_BESIDE && !self->in_callback) {
        if (tn_sim.pace == TN_SIM_AT_ONCE && tn_sim.held == 0)
            tn_sim_queues_empty();
        tn_sim_reaper_await(0);
    }
    tn_sim.stalls += stalls;
    pthread_mutex_unlock(&tn_sim.lock);
    if (tn_sim.sleep)
        tn_sim_cost_spend(ns);
    if (stalls) {
        pthread_mutex_lock(&tn_sim.lock);
        tn_sim.stalls--;
        pthread_cond_broadcast(&tn_sim.changed);
        pthread_mutex_unlock(&tn_sim.lock);
    }
    return result;
}

/* Prints the outstanding objects, a line for each kind. */
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
    /* A due destructor counts as run: the ledger then depends on calls, not on threads. */
    if (!tn_sim_self()->is_reaper)
        tn_sim_reaper_drain();
    *ledger = tn_sim.ledger; /* SS2: each registration or removal of an object counts there */
    ledger->context_stack_entries = tn_sim_self()->depth;
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
        if (tn_sim.pace == TN_SIM_AT_ONCE && !tn_sim_self()->in_callback)
            tn_sim_queues_empty();
    }
    tn_sim_leave();
}
