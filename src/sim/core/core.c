// SPDX-License-Identifier: Apache-2.0
/* core.c -- the lock, the simulator's threads, and forks.
 *
 * How it works. Devices come into being in cuInit. A process may therefore load the simulator, look
 * functions up and fork, and the child still gets devices of its own. A fork after cuInit makes the
 * child's driver useless for good, as CUDA does. The flag is checked before the lock: a thread that
 * the child lacks might hold the lock.
 *
 * Trade-offs. One lock makes every call a short critical section: 16 threads that only query their
 * streams meet on it. A simulator is for being right; nothing is measured on it. */
#include "sim/core/core.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>

struct tn_sim_state tn_sim = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .changed = PTHREAD_COND_INITIALIZER,
    .strict = true,
    .poison = true,
    .device_count = 1,
    .driver_version = TN_SIM_DRIVER_VERSION,
    .memory_bytes = 8192 * TN_SIM_MIB,
};

static atomic_bool forked;               /* this process is a fork of one that had called cuInit */
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

void tn_sim_watch_forks(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

bool tn_sim_forked(void)
{
    return atomic_load_explicit(&forked, memory_order_relaxed);
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

/* The way into foreign code (SS3). */
void tn_sim_leave(void)
{
    pthread_mutex_unlock(&tn_sim.lock);
}

bool tn_sim_enter_control(void)
{
    if (tn_sim_forked())
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
