// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include <errno.h>
#include <pthread.h>

#include "unit/unit.h"

static bool keys_are_out;
static bool values_are_out;

int __real_pthread_key_create(pthread_key_t *key, void (*end)(void *));
int __wrap_pthread_key_create(pthread_key_t *key, void (*end)(void *));
int __wrap_pthread_key_create(pthread_key_t *key, void (*end)(void *))
{
    return keys_are_out ? EAGAIN : __real_pthread_key_create(key, end);
}

int __real_pthread_setspecific(pthread_key_t key, const void *value);
int __wrap_pthread_setspecific(pthread_key_t key, const void *value);
int __wrap_pthread_setspecific(pthread_key_t key, const void *value)
{
    return values_are_out ? ENOMEM : __real_pthread_setspecific(key, value);
}

static void read_id(void *id)
{
    *(uint64_t *)id = tn_thread_id();
}

START_TEST(a_thread_keeps_its_number_and_no_other_gets_it)
{
    enum { THREADS = 50 };
    uint64_t mine = tn_thread_id();
    uint64_t last = mine;

    ck_assert_uint_ne(mine, 0);
    for (int i = 0; i < THREADS; i++) { /* one after the other: the system reuses their names */
        uint64_t id = 0;

        test_elsewhere(read_id, &id);
        ck_assert_uint_gt(id, last);
        last = id;
    }
    ck_assert_uint_eq(tn_thread_id(), mine);
}
END_TEST

struct taken {
    struct tn_thread_mark *first;
    struct tn_thread_mark *second;
    bool ended;
};

static void take_marks(void *argument)
{
    struct taken *taken = argument;

    taken->first = tn_thread_mark_take();
    taken->second = tn_thread_mark_take();
    taken->ended = tn_thread_has_ended(taken->first);
}

START_TEST(a_mark_tells_that_its_thread_has_ended)
{
    struct taken taken = {NULL, NULL, true};
    struct tn_thread_mark *mine = tn_thread_mark_take();

    test_elsewhere(take_marks, &taken);
    ck_assert_ptr_nonnull(taken.first);
    ck_assert_ptr_eq(taken.first, taken.second);
    ck_assert_ptr_ne(taken.first, mine);
    ck_assert(!taken.ended);
    ck_assert(tn_thread_has_ended(taken.first));
    ck_assert(!tn_thread_has_ended(mine));
    tn_thread_mark_end(taken.first);
    ck_assert(tn_thread_has_ended(taken.second)); /* it is there until its last claim */
    tn_thread_mark_end(taken.second);
    tn_thread_mark_end(mine);
}
END_TEST

START_TEST(a_mark_is_recycled_after_its_last_claim_and_begins_anew)
{
    struct taken taken = {NULL, NULL, true};
    struct tn_thread_mark *before;

    test_elsewhere(take_marks, &taken);
    tn_thread_mark_end(taken.first);
    tn_thread_mark_end(taken.second);
    before = taken.first;
    test_elsewhere(take_marks, &taken);
    ck_assert_ptr_eq(taken.first, before);
    ck_assert(!taken.ended);
    tn_thread_mark_end(taken.first);
    tn_thread_mark_end(taken.second);
}
END_TEST

START_TEST(no_mark_without_host_memory)
{
    struct tn_thread_mark *mark;

    (void)tn_host_plan_fault(1, false);
    ck_assert_ptr_null(tn_thread_mark_take());
    mark = tn_thread_mark_take();
    ck_assert_ptr_nonnull(mark);
    tn_thread_mark_end(mark);
}
END_TEST

static void take_none(void *argument)
{
    (void)argument;
    ck_assert_ptr_null(tn_thread_mark_take());
}

START_TEST(no_mark_where_the_process_has_no_key_left)
{
    static const uint64_t foreign[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint64_t value[8];
    pthread_key_t key;

    memcpy(value, foreign, sizeof value);
    ck_assert_int_eq(pthread_key_create(&key, NULL), 0); /* somebody else's, of the first number */
    ck_assert_int_eq(pthread_setspecific(key, value), 0);
    keys_are_out = true;
    ck_assert_ptr_null(tn_thread_mark_take());
    ck_assert_ptr_null(tn_thread_mark_take());
    ck_assert_ptr_eq(pthread_getspecific(key), value);
    ck_assert_mem_eq(value, foreign, sizeof value);
}
END_TEST

START_TEST(no_mark_where_the_thread_cannot_keep_one)
{
    struct taken taken = {NULL, NULL, true};
    struct tn_thread_mark *free_mark;

    test_elsewhere(take_marks, &taken); /* a record that is free again */
    free_mark = taken.first;
    tn_thread_mark_end(taken.first);
    tn_thread_mark_end(taken.second);
    values_are_out = true;
    test_elsewhere(take_none, NULL);
    values_are_out = false;
    test_elsewhere(take_marks, &taken);
    ck_assert_ptr_eq(taken.first, free_mark); /* it was given back */
    tn_thread_mark_end(taken.first);
    tn_thread_mark_end(taken.second);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("thread");
    TCase *tcase = tcase_create("thread");

    tcase_add_test(tcase, a_thread_keeps_its_number_and_no_other_gets_it);
    tcase_add_test(tcase, a_mark_tells_that_its_thread_has_ended);
    tcase_add_test(tcase, a_mark_is_recycled_after_its_last_claim_and_begins_anew);
    tcase_add_test(tcase, no_mark_without_host_memory);
    tcase_add_test(tcase, no_mark_where_the_process_has_no_key_left);
    tcase_add_test(tcase, no_mark_where_the_thread_cannot_keep_one);
    suite_add_tcase(suite, tcase);
    return test_main(suite);
}
