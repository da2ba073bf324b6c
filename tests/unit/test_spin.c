// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <time.h>

#include "base/spin.h"
#include "unit/unit.h"

enum { THREADS = 4, ROUNDS = 20000 };

static struct tn_spin lock;
static uint64_t counted; /* guarded by lock */

START_TEST(a_lock_that_is_taken_is_not_taken_again)
{
    ck_assert(tn_spin_try(&lock));
    ck_assert(!tn_spin_try(&lock));
    tn_spin_release(&lock);
    ck_assert(tn_spin_try(&lock));
    tn_spin_release(&lock);
}
END_TEST

static void *count(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        tn_spin_acquire(&lock);
        counted += 1;
        tn_spin_release(&lock);
    }
    return NULL;
}

START_TEST(threads_take_turns)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_uint_eq(counted, (uint64_t)THREADS * ROUNDS);
}
END_TEST

START_TEST(who_waits_long_sleeps)
{
    pthread_t thread;
    struct timespec used;

    tn_spin_acquire(&lock);
    ck_assert_int_eq(pthread_create(&thread, NULL, count, NULL), 0);
    (void)nanosleep(&(struct timespec){0, 200000000}, NULL);
    ck_assert_uint_eq(counted, 0);
    tn_spin_release(&lock);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(counted, ROUNDS);
    ck_assert_int_eq(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used), 0);
    ck_assert_int_lt(used.tv_sec * 1000 + used.tv_nsec / 1000000, 150); /* of 200 ms */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("spin");
    TCase *tcase = tcase_create("lock");

    tcase_add_test(tcase, a_lock_that_is_taken_is_not_taken_again);
    tcase_add_test(tcase, threads_take_turns);
    tcase_add_test(tcase, who_waits_long_sleeps);
    suite_add_tcase(suite, tcase);
    return test_main(suite);
}
