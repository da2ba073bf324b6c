// SPDX-License-Identifier: Apache-2.0
/* membarrier(2) returns when every thread of the process has passed a full fence since the call; a
 * thread that does not run counts as passed. If a light side passed its fence before its own store,
 * its load follows the heavy side's store. If a light side passed its fence after its own store,
 * the heavy side's load follows that store.
 *
 * Without this call (before Linux 4.14, in some sandboxes) both sides write tn_barrier_word. The
 * later of two writes reads the value of the earlier: everything before the earlier write happens
 * before everything after the later. The heavy side always writes the word, for light sides that
 * have not yet seen that the kernel does their part.
 *
 * A filter of system calls that is installed later may refuse the call although the kernel agreed
 * before. From then on the light sides do their part again. Light sides already under way relied on
 * the kernel, so the heavy side waits a millisecond for them. No rule of the language makes this
 * wait sufficient: processors do, which publish their stores within microseconds. If the system
 * suspends a thread meanwhile, the switch publishes the thread's stores.
 *
 * Trade-offs: light sides that must do their part all write the same word, whatever their
 * purpose. */
#include "base/barrier.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "base/lock.h"

/* The kernel's numbers of commands, which headers before 4.14 lack. */
enum { PRIVATE_EXPEDITED = 1 << 3, REGISTER_PRIVATE_EXPEDITED = 1 << 4 };

atomic_bool tn_barrier_is_asymmetric;
atomic_uint tn_barrier_word;

/* One heavy side at a time; no other lock is ever taken under this lock. */
static struct tn_lock heavy_lock = TN_LOCK_INIT(TN_RANK_BARRIER);
static bool prepared; /* guarded by heavy_lock */

static bool ask_kernel(int command)
{
#if defined(__linux__) && defined(SYS_membarrier)
    int before = errno;
    bool done = syscall(SYS_membarrier, command, 0, 0) == 0;

    errno = before;
    return done;
#else
    (void)command;
    return false;
#endif
}

/* heavy_lock is held. */
static void prepare(void)
{
    if (prepared)
        return;
    prepared = true;
    atomic_store(&tn_barrier_is_asymmetric, ask_kernel(REGISTER_PRIVATE_EXPEDITED));
}

void tn_barrier_prepare(void)
{
    tn_lock_acquire(&heavy_lock);
    prepare();
    tn_lock_release(&heavy_lock);
}

void tn_barrier_heavy(void)
{
    const struct timespec while_stores_are_seen = {0, 1000000};
    int cancel;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* nanosleep heeds cancels */
    tn_lock_acquire(&heavy_lock);
    prepare();
    (void)atomic_fetch_add(&tn_barrier_word, 0);
    if (atomic_load(&tn_barrier_is_asymmetric) && !ask_kernel(PRIVATE_EXPEDITED)) {
        atomic_store(&tn_barrier_is_asymmetric, false);
        (void)nanosleep(&while_stores_are_seen, NULL);
    }
    tn_lock_release(&heavy_lock);
    (void)pthread_setcancelstate(cancel, NULL);
}
