// SPDX-License-Identifier: Apache-2.0
/* membarrier(2) returns when every thread of the process has passed a full fence since the call, a thread
 * that does not run by not running. Where a light side's fence came before its store, it loads
 * after the heavy side's store; where it came behind it, the heavy side loads after that.
 *
 * Where the kernel has no such call (before Linux 4.14, in some sandboxes), both sides write one word. Of
 * two such writes one reads what the other wrote, which puts everything before the one before
 * everything behind the other. The heavy side always does so, for light sides that have not seen yet that
 * the kernel does their part.
 *
 * A filter of system calls that comes later may refuse what the kernel agreed to. The light sides
 * then do their part again from there on. Those under way have left it to the kernel; that they are given a
 * millisecond rests on no rule of the language but on processors, which make their stores seen within
 * microseconds. A thread that is put aside meanwhile has them seen by that.
 *
 * Trade-offs: where the light side has to do its part, all of them write one word, whatever they are for. */
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

/* One heavy side at a time; nothing else is ever taken inside. */
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

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* nanosleep would heed it */
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
