// SPDX-License-Identifier: Apache-2.0
/* Functions of the program's that do not return: the process ends, with a sentence. Each case is a process of its own,
 * whose standard error is read. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>

#include "support/world.h"

static const size_t too_much = (size_t)8191 << 20;
static jmp_buf back;

enum way { BY_JUMP, BY_THREAD_END, BY_CANCELLATION, BY_UNWINDING, WAYS };
enum function { FREE_CALLBACK, OBSERVER, FILTER, FUNCTIONS };

static enum way way;

/* As a C++ exception with a handler further up does it: the cleanups of each frame run on its way there. */
static _Unwind_Reason_Code never_stop(int version, _Unwind_Action actions,
                                      _Unwind_Exception_Class kind,
                                      struct _Unwind_Exception *exception,
                                      struct _Unwind_Context *context, void *user)
{
    (void)version;
    (void)actions;
    (void)kind;
    (void)exception;
    (void)context;
    (void)user;
    return _URC_NO_REASON;
}

static void leave(void)
{
    static struct _Unwind_Exception exception;
    int state;

    switch (way) {
    case BY_JUMP:
        longjmp(back, 1);
    case BY_THREAD_END:
        pthread_exit(NULL);
    case BY_CANCELLATION:
        (void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
        (void)pthread_cancel(pthread_self());
        pthread_testcancel();
        break;
    default:
        (void)_Unwind_ForcedUnwind(&exception, never_stop, NULL);
    }
}

static bool leave_callback(tarn_device *device, size_t wanted_bytes, void *user)
{
    (void)device;
    (void)wanted_bytes;
    (void)user;
    leave();
    return false;
}

static void leave_observer(tarn_device *device, const tarn_out_of_memory *what, void *user)
{
    (void)device;
    (void)what;
    (void)user;
    leave();
}

static bool leave_filter(tarn_stream stream, void *user)
{
    (void)stream;
    (void)user;
    leave();
    return false;
}

static void call(void)
{
    void *address;
    tarn_status status = tarn_malloc(world.device, too_much, world.stream, &address);

    (void)status;
}

/* Deeper than the call that was left was, over what it left there. */
static __attribute__((noinline, no_sanitize("address"))) void call_deeper(int depth)
{
    volatile char room[512];

    for (size_t i = 0; i < sizeof room; i++)
        room[i] = (char)depth;
    if (depth > 0)
        call_deeper(depth - 1);
    else
        call();
    room[0] = room[1];
}

static void *do_it(void *deeper)
{
    if (setjmp(back) == 0)
        call();
    else if (deeper != NULL)
        call_deeper(12);
    else
        call(); /* the next one after the jump */
    return NULL;
}

/* What the process writes before it ends by SIGABRT. */
static void expect_end(enum function function, bool elsewhere, bool deeper, const char *sentence)
{
    char text[4096] = "";
    size_t length = 0;
    ssize_t more;
    int pipes[2];
    int status;
    pid_t child;

    ck_assert_int_eq(pipe(pipes), 0);
    child = fork();
    if (child == 0) {
        pthread_t thread;

        (void)dup2(pipes[1], STDERR_FILENO);
        (void)close(pipes[1]);
        (void)alarm(20);
        (void)signal(SIGALRM, SIG_DFL);
        (void)signal(SIGABRT, SIG_DFL);
        test_world_open();
        if (function == FREE_CALLBACK)
            OK(tarn_device_add_free_callback(world.device, leave_callback, NULL));
        else if (function == OBSERVER)
            OK(tarn_device_add_oom_observer(world.device, leave_observer, NULL));
        else
            OK(tarn_begin_allocate_to_pool(world.device, world.pool, leave_filter, NULL));
        if (elsewhere) {
            (void)pthread_create(&thread, NULL, do_it, deeper ? &back : NULL);
            (void)pthread_join(thread, NULL);
        } else {
            (void)do_it(deeper ? &back : NULL);
        }
        _exit(0);
    }
    (void)close(pipes[1]);
    while ((more = read(pipes[0], text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)more;
    (void)close(pipes[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
                  "the process did not end by SIGABRT but with status %x; it wrote '%s'", status,
                  text);
    ck_assert_msg(strstr(text, sentence) != NULL, "no '%s' in '%s'", sentence, text);
}

static const char *const names[FUNCTIONS] = {"a free-memory callback", "an out-of-memory observer",
                                             "a route's filter"};

START_TEST(a_function_that_is_left_by_unwinding_ends_the_process)
{
    way = (enum way)(1 + _i / FUNCTIONS);
    expect_end((enum function)(_i % FUNCTIONS), true, false, names[_i % FUNCTIONS]);
}
END_TEST

START_TEST(a_call_after_a_jump_out_of_a_function_ends_the_process)
{
    way = BY_JUMP;
    expect_end((enum function)(_i % FUNCTIONS), _i >= FUNCTIONS, false, "longjmp");
}
END_TEST

START_TEST(a_call_from_deeper_after_a_jump_ends_the_process)
{
    way = BY_JUMP;
    expect_end((enum function)(_i % FUNCTIONS), _i >= FUNCTIONS, true, "longjmp");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("functions that are left");
    TCase *tcase = tcase_create("left");

    suite_add_tcase(suite, tcase);
    tcase_add_loop_test(tcase, a_function_that_is_left_by_unwinding_ends_the_process, 0,
                        (WAYS - 1) * FUNCTIONS);
    tcase_add_loop_test(tcase, a_call_after_a_jump_out_of_a_function_ends_the_process, 0,
                        2 * FUNCTIONS);
    tcase_add_loop_test(tcase, a_call_from_deeper_after_a_jump_ends_the_process, 0, 2 * FUNCTIONS);
    return test_main(suite);
}
