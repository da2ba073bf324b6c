// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/syscall.h>

#include "base/barrier.h"
#include "unit/unit.h"

enum { ROUNDS = 20000, LOOKS = 2000, DELAYS = 200 };

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

static int asked;         /* calls of membarrier */
static int refused_after; /* so many are answered, and none from there on */

long __wrap_syscall(long number, ...)
{
    va_list rest;
    int command;

    va_start(rest, number);
    command = va_arg(rest, int);
    va_end(rest);
    ck_assert_int_eq(number, SYS_membarrier);
    asked += 1;
    if (asked <= refused_after)
        return __real_syscall(number, command, 0, 0);
    errno = ENOSYS;
    return -1;
}

/* The two sides of Dekker's exclusion, over and over: how often both have read what was there before. */
static atomic_uint round_begun, round_ended;
static _Alignas(64) atomic_uint light_word;
static _Alignas(64) atomic_uint heavy_word;
static unsigned light_read; /* guarded by the rounds */

/* The threads may share a processor. */
static void await(const atomic_uint *word, unsigned round)
{
    for (int looks = 1; atomic_load_explicit(word, memory_order_acquire) != round; looks++) {
        if (looks % LOOKS == 0)
            (void)sched_yield();
    }
}

static void *be_light(void *unused)
{
    (void)unused;
    for (unsigned round = 1; round <= ROUNDS; round++) {
        await(&round_begun, round);
        atomic_store_explicit(&light_word, round, memory_order_relaxed);
        tn_barrier_light();
        light_read = atomic_load_explicit(&heavy_word, memory_order_relaxed);
        atomic_store_explicit(&round_ended, round, memory_order_release);
    }
    return NULL;
}

static unsigned both_missed(void)
{
    pthread_t thread;
    unsigned missed = 0;

    ck_assert_int_eq(pthread_create(&thread, NULL, be_light, NULL), 0);
    for (unsigned round = 1; round <= ROUNDS; round++) {
        unsigned heavy_read;

        atomic_store_explicit(&round_begun, round, memory_order_release);
        for (unsigned delay = 0; delay < round % DELAYS; delay++)
            atomic_signal_fence(memory_order_seq_cst); /* till the other has begun, more or less */
        atomic_store_explicit(&heavy_word, round, memory_order_relaxed);
        tn_barrier_heavy();
        heavy_read = atomic_load_explicit(&light_word, memory_order_relaxed);
        await(&round_ended, round);
        missed += heavy_read != round && light_read != round;
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    return missed;
}

GROUP(barrier, NULL)

TEST(barrier, one_side_at_least_sees_the_other)
{
    refused_after = INT32_MAX;
    ck_assert_uint_eq(both_missed(), 0);
    if (atomic_load(&tn_barrier_is_asymmetric))
        ck_assert_int_eq(asked, 1 + ROUNDS);
}

TEST(barrier, the_light_side_does_its_part_where_the_kernel_refuses)
{
    ck_assert_uint_eq(both_missed(), 0);
    ck_assert(!atomic_load(&tn_barrier_is_asymmetric));
    ck_assert_int_eq(asked, 1);
}

TEST(barrier, the_kernel_is_told_once)
{
    refused_after = INT32_MAX;
    tn_barrier_prepare();
    tn_barrier_prepare();
    ck_assert_int_eq(asked, 1);
}

TEST(barrier, a_kernel_that_refuses_later_is_not_asked_again)
{
    refused_after = 1;
    tn_barrier_prepare();
    if (!atomic_load(&tn_barrier_is_asymmetric))
        return; /* it has refused already */
    errno = 0;
    tn_barrier_heavy();
    ck_assert_int_eq(errno, 0);
    ck_assert_int_eq(asked, 2);
    ck_assert(!atomic_load(&tn_barrier_is_asymmetric));
    tn_barrier_heavy();
    ck_assert_int_eq(asked, 2);
}
