// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include "base/user_code.h"
#include "unit/unit.h"

START_TEST(a_function_that_returns_leaves_nothing)
{
    TN_USER_CODE(outer);

    tn_user_code_check();
    ck_assert(!tn_user_code_is_filter());
    tn_user_code_enter(&outer, TN_USER_FILTER);
    ck_assert(tn_user_code_is_filter());
    {
        TN_USER_CODE(inner);

        tn_user_code_enter(&inner, TN_USER_OBSERVER);
        ck_assert(!tn_user_code_is_filter());
        tn_user_code_leave(&inner);
    }
    ck_assert(tn_user_code_is_filter());
    tn_user_code_leave(&outer);
    ck_assert_ptr_null(tn_user_code_innermost);
}
END_TEST

static __attribute__((noinline)) void check_deeper(void)
{
    volatile char room[4096];

    room[0] = 1;
    tn_user_code_check();
    room[1] = room[0];
}

START_TEST(a_call_of_the_functions_is_let_pass)
{
    TN_USER_CODE(code);

    tn_user_code_enter(&code, TN_USER_FREE_CALLBACK);
    check_deeper();
    tn_user_code_leave(&code);
}
END_TEST

static ucontext_t own;
static ucontext_t elsewhere;
static char other_stack[64 << 10];

static void check_elsewhere(void)
{
    tn_user_code_check();
}

/* Places on another stack say nothing. */
START_TEST(a_call_from_a_stack_of_the_functions_own_is_let_pass)
{
    TN_USER_CODE(code);

    tn_user_code_enter(&code, TN_USER_FREE_CALLBACK);
    ck_assert_int_eq(getcontext(&elsewhere), 0);
    elsewhere.uc_stack.ss_sp = other_stack;
    elsewhere.uc_stack.ss_size = sizeof other_stack;
    elsewhere.uc_link = &own;
    makecontext(&elsewhere, check_elsewhere, 0);
    ck_assert_int_eq(swapcontext(&own, &elsewhere), 0);
    tn_user_code_leave(&code);
}
END_TEST

/* A function that returns with cancellation enabled was called in a call, which is no cancellation
 * point. */
START_TEST(cancellation_is_disabled_behind_a_function_that_enables_it)
{
    int state;
    TN_USER_CODE(code);

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    tn_user_code_enter(&code, TN_USER_FREE_CALLBACK);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    tn_user_code_leave(&code);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    ck_assert_int_eq(state, PTHREAD_CANCEL_DISABLE);
}
END_TEST

START_TEST(a_record_that_was_written_over_ends_the_process)
{
    struct tn_user_code code;

    tn_user_code_enter(&code, TN_USER_FREE_CALLBACK);
    code.canaries[5] += 1;
    check_deeper();
}
END_TEST

START_TEST(a_block_that_ends_inside_ends_the_process)
{
    TN_USER_CODE(code);

    tn_user_code_enter(&code, TN_USER_FILTER);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("user code");
    TCase *tcase = tcase_create("user code");

    tcase_add_test(tcase, a_function_that_returns_leaves_nothing);
    tcase_add_test(tcase, a_call_of_the_functions_is_let_pass);
    tcase_add_test(tcase, a_call_from_a_stack_of_the_functions_own_is_let_pass);
    tcase_add_test(tcase, cancellation_is_disabled_behind_a_function_that_enables_it);
    tcase_add_test_raise_signal(tcase, a_record_that_was_written_over_ends_the_process, SIGABRT);
    tcase_add_test_raise_signal(tcase, a_block_that_ends_inside_ends_the_process, SIGABRT);
    suite_add_tcase(suite, tcase);
    return test_main(suite);
}
