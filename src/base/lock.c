// SPDX-License-Identifier: Apache-2.0
/* The locks of a thread are a bit and an address for each rank, in thread-local storage. A second
 * lock of the same rank is not noted.
 *
 * Trade-offs: plain mutexes; an uncontended pair costs 13 ns, and one of a spin lock 6 ns. */
#include "base/lock.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/contract.h"
#include "base/fork.h"

#if TARN_DEBUG_CHECKS
static _Thread_local unsigned held_ranks;
static _Thread_local const void *held_locks[TN_RANK_COUNT]; /* held locks, by rank */

static void note_acquire(enum tn_rank rank, const void *lock)
{
    TN_ASSERT((held_ranks >> rank) == 0); /* nothing of this rank or above */
    held_ranks |= 1U << rank;
    held_locks[rank] = lock;
}

static void note_release(enum tn_rank rank, const void *lock)
{
    TN_ASSERT((held_ranks & (1U << rank)) != 0);
    TN_ASSERT(held_locks[rank] == lock);
    held_ranks &= ~(1U << rank);
    held_locks[rank] = NULL;
}

bool tn_lock_is_held(const struct tn_lock *lock)
{
    return held_locks[lock->rank] == lock || tn_is_forked();
}

bool tn_lock_held(enum tn_rank rank)
{
    return (held_ranks & (1U << rank)) != 0;
}

bool tn_lock_none_held(void)
{
    return held_ranks == 0 || tn_is_forked();
}
#else
static void note_acquire(enum tn_rank rank, const void *lock)
{
    (void)rank;
    (void)lock;
}

static void note_release(enum tn_rank rank, const void *lock)
{
    (void)rank;
    (void)lock;
}

bool tn_lock_is_held(const struct tn_lock *lock)
{
    (void)lock;
    return true;
}

bool tn_lock_held(enum tn_rank rank)
{
    (void)rank;
    return true;
}

bool tn_lock_none_held(void)
{
    return true;
}
#endif

void tn_lock_init(struct tn_lock *lock, enum tn_rank rank)
{
    int error = pthread_mutex_init(&lock->mutex, NULL);

    TN_ASSERT(error == 0); /* glibc's default mutex needs no resources */
    (void)error;
    lock->rank = rank;
}

void tn_lock_fini(struct tn_lock *lock)
{
    (void)pthread_mutex_destroy(&lock->mutex);
}

/* By the clock of the system, which timed waits of mutexes go by. */
static struct timespec long_from_now(void)
{
    struct timespec until = {0, 0};

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += TN_LONG_WAIT_S;
    return until;
}

static void tell(const char *sentence)
{
    ssize_t written = write(STDERR_FILENO, sentence, strlen(sentence));

    (void)written;
}

/* A filter runs with this lock held. If a jump has left the filter, nobody releases the lock, and
 * the thread that jumped may never call again. */
static void acquire_routes(struct tn_lock *lock)
{
    struct timespec until;

    if (pthread_mutex_trylock(&lock->mutex) == 0)
        return;
    until = long_from_now();
    if (pthread_mutex_timedlock(&lock->mutex, &until) == 0)
        return;
    tell("tarn: a call has waited 5 s for a route's filter on another thread; a filter returns: if "
         "one was left by longjmp, the wait does not end\n");
    (void)pthread_mutex_lock(&lock->mutex);
}

void tn_lock_await(struct tn_lock *lock, pthread_cond_t *changed, const char **late)
{
    struct timespec until;

    TN_ASSERT(tn_lock_is_held(lock));
    if (*late == NULL) {
        (void)pthread_cond_wait(changed, &lock->mutex);
        return;
    }
    until = long_from_now();
    if (pthread_cond_timedwait(changed, &lock->mutex, &until) != ETIMEDOUT)
        return;
    tell(*late);
    *late = NULL;
}

/* In a child of fork() another thread may have left a lock taken for good, and nothing needs
 * guarding. A call there is on its way out, behind a function of the program that has forked. */
void tn_lock_acquire(struct tn_lock *lock)
{
    if (tn_is_forked())
        return;
    note_acquire(lock->rank, lock);
    if (lock->rank == TN_RANK_ROUTES)
        acquire_routes(lock);
    else
        (void)pthread_mutex_lock(&lock->mutex);
}

void tn_lock_release(struct tn_lock *lock)
{
    if (tn_is_forked())
        return;
    note_release(lock->rank, lock); /* first: to unlock a free mutex is undefined */
    (void)pthread_mutex_unlock(&lock->mutex);
}

void tn_lock_acquire_spin(struct tn_spin *lock, enum tn_rank rank)
{
    note_acquire(rank, lock);
    tn_spin_acquire(lock);
}

void tn_lock_release_spin(struct tn_spin *lock, enum tn_rank rank)
{
    note_release(rank, lock);
    tn_spin_release(lock);
}

void tn_lock_acquire_second_spin(struct tn_spin *lock, enum tn_rank rank)
{
    TN_ASSERT(tn_lock_held(rank));
    (void)rank;
    tn_spin_acquire(lock);
}

void tn_lock_release_second_spin(struct tn_spin *lock)
{
    tn_spin_release(lock);
}
