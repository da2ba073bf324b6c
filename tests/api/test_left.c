// SPDX-License-Identifier: Apache-2.0
/* Functions of the program's that do not return: the process ends, with a sentence. Each case is a process of its own,
 * whose standard error is read. */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>

#include "support/world.h"

static const size_t too_much = (size_t)8191 << 20;
static jmp_buf back;

/* What the thread does behind a jump. */
enum then {
    CALLS_AGAIN,
    CALLS_DEEPER,
    FAR_DEEPER,
    ALLOCATES,
    FREES,
    REPLAYS,
    IS_REFUSED,
    ALLOCATES_NOTHING,
    FREES_NOTHING,
    ENDS_NOTHING,
    ENDS_A_LIST,
    ENDS
};

enum way { BY_JUMP, BY_THREAD_END, BY_CANCELLATION, BY_UNWINDING, WAYS };
enum function { FREE_CALLBACK, OBSERVER, FILTER, WRITER, TRACKER, FUNCTIONS };

static enum way way;
static bool on_another_device;
static sem_t jumped;

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

static void leave_tracker(tarn_device *device, const tarn_tracked *what, void *user)
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

static tarn_status leave_writer(const void *bytes, size_t count, void *user)
{
    (void)bytes;
    (void)count;
    (void)user;
    leave();
    return TARN_OK;
}

/* What the writer is called for; NULL: another function is left. */
static tarn_snapshot *snapshot;

/* Gives the device or the pool the function that will be left. */
static void add_leaving(enum function function)
{
    if (function == FREE_CALLBACK)
        OK(tarn_device_add_free_callback(world.device, leave_callback, NULL));
    else if (function == OBSERVER)
        OK(tarn_device_add_oom_observer(world.device, leave_observer, NULL));
    else if (function == TRACKER)
        OK(tarn_device_add_tracker(world.device, leave_tracker, NULL, TARN_TRACKED_OUT_OF_MEMORY));
    else if (function == FILTER)
        (void)test_route(world.pool, leave_filter, NULL);
    else
        OK(tarn_snapshot_take(world.device, NULL, &snapshot));
}

static void call(void)
{
    void *address;
    tarn_status status = snapshot != NULL
                             ? tarn_snapshot_write_pytorch(snapshot, leave_writer, NULL)
                             : tarn_malloc(world.device, too_much, world.stream, &address);

    /* The function was not left, or that was not seen. */
    (void)fprintf(stderr, "the call returned: %s\n", tarn_status_name(status));
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

/* Far deeper, and over nothing that the call left there. */
static __attribute__((noinline, no_sanitize("address"))) void call_far_deeper(void)
{
    volatile char room[65536];

    room[0] = 1;
    call();
    room[1] = room[0];
}

static tarn_graph *graph;
static void *block;

/* Where steady calls go: to the device that has called the function, or to another one. */
static struct {
    tarn_device *device;
    tarn_pool *pool;
    tn_cu_stream stream;
} aim;

static void take_aim(bool elsewhere)
{
    aim.device = world.device;
    aim.pool = world.pool;
    aim.stream = world.stream;
    if (!elsewhere)
        return;
    OK(tarn_device_open(1, NULL, &aim.device));
    OK(tarn_pool_create(aim.device, NULL, &aim.pool));
    test_set_context(test_retain(1));
    aim.stream = test_stream();
}

/* What the steady state serves, and needs no function of the program's for. */
static void call_steadily(enum then then)
{
    void *address;
    tarn_status status = TARN_OK;

    if (then == ALLOCATES)
        status = tarn_malloc(aim.device, 4096, aim.stream, &address);
    else if (then == FREES)
        status = tarn_free(block);
    else if (then == REPLAYS)
        status = tarn_graph_replay(graph, aim.stream);
    else if (then == ALLOCATES_NOTHING)
        status = tarn_malloc(aim.device, 0, aim.stream, &address);
    else if (then == FREES_NOTHING)
        status = tarn_free_on(NULL, aim.stream);
    else if (then == ENDS_NOTHING)
        status = tarn_graph_destroy(NULL);
    else if (then == ENDS_A_LIST)
        tarn_pool_list_destroy(NULL);
    else
        status = tarn_pool_malloc(NULL, 4096, 0, aim.stream, &address);
    (void)status;
}

static void *do_it(void *argument)
{
    const enum then then = *(const enum then *)argument;

    if (setjmp(back) == 0)
        call();
    else if (then == CALLS_DEEPER)
        call_deeper(12);
    else if (then == FAR_DEEPER)
        call_far_deeper();
    else if (then == CALLS_AGAIN)
        call();
    else if (then != ENDS)
        call_steadily(then);
    return NULL;
}

/* Twice each, so that the steady state serves what comes next. */
static void make_steady(void)
{
    tarn_capture *capture = test_capture_on(aim.pool, aim.stream, TARN_CAPTURE_GLOBAL);

    OK(tarn_free(test_alloc(aim.pool, 4096, aim.stream)));
    graph = test_capture_end(capture);
    for (int i = 0; i < 2; i++) {
        OK(tarn_graph_replay(graph, aim.stream));
        OK(tarn_malloc(aim.device, 4096, aim.stream, &block));
        OK(tarn_free(block));
    }
    OK(tarn_malloc(aim.device, 4096, aim.stream, &block));
}

/* What the child has written until its end; its status. enough: it is ended when it has written that; NULL: it ends. */
static int collect(pid_t child, const int pipes[2], char *text, size_t text_bytes,
                   const char *enough)
{
    size_t length = 0;
    ssize_t more;
    int status;

    (void)close(pipes[1]);
    while ((more = read(pipes[0], text + length, text_bytes - 1 - length)) > 0) {
        length += (size_t)more;
        if (enough != NULL && strstr(text, enough) != NULL)
            (void)kill(child, SIGALRM);
    }
    (void)close(pipes[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return status;
}

/* What the process writes before it ends by SIGABRT. */
static void expect_end(enum function function, bool elsewhere, enum then then, const char *sentence)
{
    char text[4096] = "";
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
        if (on_another_device)
            (void)setenv("TARN_SIM_DEVICES", "2", 1);
        test_world_open();
        take_aim(on_another_device);
        make_steady();
        add_leaving(function);
        if (elsewhere) {
            (void)pthread_create(&thread, NULL, do_it, &then);
            (void)pthread_join(thread, NULL);
        } else {
            (void)do_it(&then);
        }
        _exit(0);
    }
    status = collect(child, pipes, text, sizeof text, NULL);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
                  "the process did not end by SIGABRT but with status %x; it wrote '%s'", status,
                  text);
    ck_assert_msg(strstr(text, sentence) != NULL, "no '%s' in '%s'", sentence, text);
}

/* The thread that has left the function calls no more; the other one waits for the function. */
static void *jump_and_stay(void *unused)
{
    (void)unused;
    if (setjmp(back) == 0)
        call();
    (void)sem_post(&jumped);
    while (pause() != 0)
        continue;
    return NULL;
}

static _Noreturn void wait_for_it(enum function function)
{
    pthread_t thread;

    (void)alarm(30);
    (void)signal(SIGALRM, SIG_DFL);
    test_world_open();
    (void)sem_init(&jumped, 0, 0);
    add_leaving(function);
    (void)pthread_create(&thread, NULL, jump_and_stay, NULL);
    (void)sem_wait(&jumped);
    if (function == FREE_CALLBACK)
        OK(tarn_device_remove_free_callback(world.device, leave_callback, NULL));
    else if (function == OBSERVER)
        OK(tarn_device_remove_oom_observer(world.device, leave_observer, NULL));
    else
        (void)test_malloc(512);
    _exit(0);
}

SUITE("functions that are left")
GROUP(left, NULL)

/* Nothing tells a function that was left from one that takes long: the wait goes on, and says so. Nobody waits for
 * a writer. */
TEST_LOOP(left, a_long_wait_for_a_function_on_another_thread_says_so, 0, WRITER)
{
    static const char *const sentences[WRITER] = {"has waited 5 s for its call",
                                                  "has waited 5 s for its call",
                                                  "has waited 5 s for a route's filter"};
    char text[4096] = "";
    int pipes[2];
    int status;
    pid_t child;

    way = BY_JUMP;
    ck_assert_int_eq(pipe(pipes), 0);
    child = fork();
    if (child == 0) {
        (void)dup2(pipes[1], STDERR_FILENO);
        (void)close(pipes[1]);
        wait_for_it((enum function)_i);
    }
    status = collect(child, pipes, text, sizeof text, sentences[_i]);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM,
                  "the process did not wait but ended with status %x; it wrote '%s'", status, text);
    ck_assert_msg(strstr(text, sentences[_i]) != NULL, "no '%s' in '%s'", sentences[_i], text);
}

static const char *const names[FUNCTIONS] = {"a free-memory callback", "an out-of-memory observer",
                                             "a route's filter", "a snapshot's writer",
                                             "a tracker"};

TEST_LOOP(left, a_function_that_is_left_by_unwinding_ends_the_process, 0, (WAYS - 1) * FUNCTIONS)
{
    way = (enum way)(1 + _i / FUNCTIONS);
    expect_end((enum function)(_i % FUNCTIONS), true, CALLS_AGAIN, names[_i % FUNCTIONS]);
}

TEST_LOOP(left, a_call_after_a_jump_out_of_a_function_ends_the_process, 0, 2 * FUNCTIONS)
{
    way = BY_JUMP;
    expect_end((enum function)(_i % FUNCTIONS), _i >= FUNCTIONS, CALLS_AGAIN, "longjmp");
}

TEST_LOOP(left, a_call_from_deeper_after_a_jump_ends_the_process, 0, 2 * FUNCTIONS)
{
    way = BY_JUMP;
    expect_end((enum function)(_i % FUNCTIONS), _i >= FUNCTIONS, CALLS_DEEPER, "longjmp");
}

TEST_LOOP(left, a_call_from_far_deeper_after_a_jump_ends_the_process, 0, 2 * FUNCTIONS)
{
    way = BY_JUMP;
    expect_end((enum function)(_i % FUNCTIONS), _i >= FUNCTIONS, FAR_DEEPER, "calls again");
}

TEST_LOOP(left, a_steady_call_after_a_jump_ends_the_process, 0, 4 * (ENDS - ALLOCATES))
{
    enum then then = (enum then)(ALLOCATES + _i / 2 % (ENDS - ALLOCATES));

    way = BY_JUMP;
    expect_end(_i / 2 < ENDS - ALLOCATES ? FREE_CALLBACK : OBSERVER, _i % 2 != 0, then, "longjmp");
}

TEST_LOOP(left, a_steady_call_on_another_device_after_a_jump_ends_the_process, 0,
          (ENDS - ALLOCATES) * FUNCTIONS)
{
    enum then then = (enum then)(ALLOCATES + _i % (ENDS - ALLOCATES));

    way = BY_JUMP;
    on_another_device = true;
    expect_end((enum function)(_i / (ENDS - ALLOCATES)), false, then, "longjmp");
}

TEST_LOOP(left, a_thread_that_ends_after_a_jump_ends_the_process, 0, FUNCTIONS)
{
    way = BY_JUMP;
    expect_end((enum function)_i, true, ENDS, "its thread has ended");
}
