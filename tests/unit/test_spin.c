// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "base/spin.h"
#include "unit/unit.h"

enum { THREADS = 4, ROUNDS = 20000 };

int __real_nanosleep(const struct timespec *pause, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest);
int __real_sched_yield(void);
int __wrap_sched_yield(void);

static atomic_int yields; /* before the first nap */
static atomic_int naps;   /* of threads that count */
static _Thread_local bool counts;

int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest)
{
    if (counts)
        atomic_fetch_add(&naps, 1);
    return __real_nanosleep(pause, rest);
}

int __wrap_sched_yield(void)
{
    if (counts && atomic_load(&naps) == 0)
        atomic_fetch_add(&yields, 1);
    return __real_sched_yield();
}

static struct tn_spin lock;
static uint64_t counted; /* guarded by lock */

GROUP(lock, NULL)

TEST(lock, a_lock_that_is_taken_is_not_taken_again)
{
    ck_assert(tn_spin_try(&lock));
    ck_assert(!tn_spin_try(&lock));
    tn_spin_release(&lock);
    ck_assert(tn_spin_try(&lock));
    tn_spin_release(&lock);
}

static void *count(void *unused)
{
    (void)unused;
    counts = true;
    for (int i = 0; i < ROUNDS; i++) {
        tn_spin_acquire(&lock);
        counted += 1;
        tn_spin_release(&lock);
    }
    return NULL;
}

TEST(lock, threads_take_turns)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_uint_eq(counted, (uint64_t)THREADS * ROUNDS);
}

TEST(lock, who_waits_lets_others_run_and_then_sleeps)
{
    pthread_t thread;
    int64_t deadline = test_deadline();

    tn_spin_acquire(&lock);
    ck_assert_int_eq(pthread_create(&thread, NULL, count, NULL), 0);
    while (atomic_load(&naps) < 3 && test_pause(deadline))
        continue;
    ck_assert_int_ge(atomic_load(&naps), 3);
    ck_assert_int_ge(atomic_load(&yields), 10);
    ck_assert_uint_eq(counted, 0);
    tn_spin_release(&lock);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(counted, ROUNDS);
}

static void *pause_cancelled(void *returned)
{
    (void)pthread_cancel(pthread_self());
    tn_spin_pause(1000000);
    atomic_store((atomic_bool *)returned, true);
    pthread_testcancel();
    return NULL;
}

/* Whoever waits has locks, or is about to. */
TEST(lock, a_pause_is_no_cancellation_point)
{
    atomic_bool returned = false;
    pthread_t thread;
    void *result;

    ck_assert_int_eq(pthread_create(&thread, NULL, pause_cancelled, &returned), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert(atomic_load(&returned));
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
}

CONTRACT_TEST(lock, giving_back_what_nobody_has_is_a_broken_contract)
{
    tn_spin_release(&lock);
}

TEST(lock, a_lock_is_waited_for_no_longer_than_asked)
{
    struct timespec begun;
    struct timespec ended;

    ck_assert(tn_spin_acquire_for(&lock, 0));
    ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &begun), 0);
    ck_assert(!tn_spin_acquire_for(&lock, 20000000));
    ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &ended), 0);
    ck_assert_int_ge((ended.tv_sec - begun.tv_sec) * 1000000000 + ended.tv_nsec - begun.tv_nsec,
                     20000000);
    tn_spin_release(&lock);
    ck_assert(!tn_spin_is_taken(&lock));
}
