// SPDX-License-Identifier: Apache-2.0
/* Threads that are cancelled: no public function is a cancellation point, so a call ends as if nothing had been. A
 * cancellation that is pending acts at the first such point, whichever that is, so each call is made with one. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/every_call.h"

static void open_all(void)
{
    test_world_open();
    test_subjects_make();
}

struct cancelled {
    const struct test_call *call;
    atomic_bool returned;
};

static void *call_cancelled(void *argument)
{
    struct cancelled *cancelled = argument;

    if (cancelled->call->before != NULL)
        cancelled->call->before();
    (void)pthread_cancel(pthread_self()); /* no assertion behind it: those write */
    (void)cancelled->call->make();
    atomic_store(&cancelled->returned, true);
    pthread_testcancel(); /* it can be cancelled again */
    return NULL;
}

/* What still works: on a thread of its own, since what hangs is to be seen. */
static void expect_well(void)
{
    tarn_pool *pool = test_pool("other");

    OK(tarn_free(test_alloc(pool, 3 * MIB, world.stream)));
    OK(tarn_free(test_malloc(512)));
    OK(tarn_device_trim(world.device, 0, NULL));
    OK(tarn_pool_validate(world.pool));
    OK(tarn_pool_destroy(pool));
}

static void cancel_in(const struct test_call *call)
{
    struct cancelled cancelled = {.call = call};
    pthread_t thread;
    void *result;

    ck_assert_int_eq(pthread_create(&thread, NULL, call_cancelled, &cancelled), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_msg(atomic_load(&cancelled.returned), "%s is a cancellation point", call->name);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
    expect_well();
}

SUITE("cancelled threads")
GROUP(cancelled, open_all)

TEST_LOOP(cancelled, no_call_is_a_cancellation_point, 0, (int)test_call_count)
{
    cancel_in(&test_calls[_i]);
}

/* What says a sentence writes it, where that is asked for. */
TEST_LOOP(cancelled, no_call_that_is_refused_is_a_cancellation_point, 0, (int)test_call_count)
{
    ck_assert_int_eq(setenv("TARN_LOG", "1", 1), 0);
    world.stream = NULL; /* of which some calls know nothing good */
    cancel_in(&test_calls[_i]);
}

/* What is refused before the call is inside of anything. */
static tarn_status refuse_device(void)
{
    void *address;

    return tarn_malloc(NULL, 512, world.stream, &address);
}

static tarn_status refuse_pool(void)
{
    void *address;

    return tarn_pool_malloc(NULL, 512, 0, world.stream, &address);
}

static tarn_status refuse_address(void)
{
    return tarn_malloc(world.device, 512, world.stream, NULL);
}

static tarn_status refuse_alignment(void)
{
    void *address;

    return tarn_pool_malloc(world.pool, 512, 3, world.stream, &address);
}

static tarn_status refuse_size(void)
{
    void *address;

    return tarn_pool_malloc(world.pool, SIZE_MAX, 0, world.stream, &address);
}

static tarn_status refuse_stream(void)
{
    void *address;

    return tarn_malloc(world.device, 512, (tarn_stream)(uintptr_t)0x777770, &address);
}

static tarn_status refuse_free(void)
{
    return tarn_free((void *)(uintptr_t)0x1234);
}

static tarn_status refuse_graph(void)
{
    return tarn_graph_replay(NULL, world.stream);
}

static const struct test_call refused[] = {
    {.name = "tarn_malloc without a device", .make = refuse_device},
    {.name = "tarn_pool_malloc without a pool", .make = refuse_pool},
    {.name = "tarn_malloc to nowhere", .make = refuse_address},
    {.name = "tarn_pool_malloc of an odd alignment", .make = refuse_alignment},
    {.name = "tarn_pool_malloc of too much", .make = refuse_size},
    {.name = "tarn_malloc on no stream", .make = refuse_stream},
    {.name = "tarn_free of what is not Tarn's", .make = refuse_free},
    {.name = "tarn_graph_replay of no graph", .make = refuse_graph},
};

TEST_LOOP(cancelled, a_call_that_is_refused_at_once_is_no_cancellation_point, 0,
          (int)(sizeof refused / sizeof refused[0]))
{
    ck_assert_int_eq(setenv("TARN_LOG", "1", 1), 0);
    cancel_in(&refused[_i]);
}

static atomic_bool inside;
static atomic_bool let_go;

static bool linger(tarn_device *device, size_t wanted_bytes, void *user)
{
    (void)device;
    (void)wanted_bytes;
    (void)user;
    atomic_store(&inside, true);
    while (!atomic_load(&let_go))
        (void)usleep(1000);
    return false;
}

static void *alloc_too_much(void *unused)
{
    void *address;

    (void)unused;
    STATUS(TARN_ERR_DEVICE_MEMORY,
           tarn_pool_malloc(world.pool, 8191 * MIB, 0, world.stream, &address));
    return NULL;
}

static atomic_bool removed;

static void *remove_callback(void *unused)
{
    (void)unused;
    atomic_store(&removed, tarn_device_remove_free_callback(world.device, linger, NULL) == TARN_OK);
    return NULL;
}

/* It waits for the thread inside. */
TEST(cancelled, a_removal_that_waits_is_no_cancellation_point)
{
    pthread_t allocating;
    pthread_t removing;

    OK(tarn_device_add_free_callback(world.device, linger, NULL));
    ck_assert_int_eq(pthread_create(&allocating, NULL, alloc_too_much, NULL), 0);
    while (!atomic_load(&inside))
        continue;
    ck_assert_int_eq(pthread_create(&removing, NULL, remove_callback, NULL), 0);
    (void)usleep(50000);
    ck_assert_int_eq(pthread_cancel(removing), 0);
    (void)usleep(50000);
    (void)test_device_stats(); /* it does not hang */
    atomic_store(&let_go, true);
    ck_assert_int_eq(pthread_join(removing, NULL), 0);
    ck_assert(atomic_load(&removed));
    ck_assert_int_eq(pthread_join(allocating, NULL), 0);
    expect_well();
}

enum function { FREE_CALLBACK, OBSERVER, FILTER, FUNCTIONS };

/* Two of each kind run in a call: the first enables cancellation, and the second comes to a
 * cancellation point. */
static _Thread_local int runs;

static void enable(void)
{
    int state;

    runs += 1;
    if (runs == 1)
        (void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    else
        pthread_testcancel();
}

static bool enable_in_callback(tarn_device *device, size_t wanted_bytes, void *user)
{
    (void)device;
    (void)wanted_bytes;
    (void)user;
    enable();
    return false;
}

static void enable_in_observer(tarn_device *device, const tarn_out_of_memory *what, void *user)
{
    (void)device;
    (void)what;
    (void)user;
    enable();
}

static bool enable_in_filter(tarn_stream stream, void *user)
{
    (void)stream;
    (void)user;
    enable();
    return false;
}

struct disabling {
    int cancel; /* the state of the thread before its call, and behind it */
    int behind;
    int runs;
};

static void *alloc_cancelled(void *argument)
{
    struct disabling *disabling = argument;
    void *address;
    tarn_status status;
    int state;

    (void)pthread_setcancelstate(disabling->cancel, &state);
    (void)pthread_cancel(pthread_self()); /* no assertion behind it: those write */
    status = tarn_malloc(world.device, 8191 * MIB, world.stream, &address);
    (void)status;
    disabling->runs = runs;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &disabling->behind);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    pthread_testcancel();
    return NULL;
}

/* Behind the call the state is the caller's again. */
TEST_LOOP(cancelled, a_call_is_no_cancellation_point_behind_a_function_that_enables_it, 0,
          2 * FUNCTIONS)
{
    const int cancel = _i < FUNCTIONS ? PTHREAD_CANCEL_ENABLE : PTHREAD_CANCEL_DISABLE;
    struct disabling disabling = {.cancel = cancel};
    tarn_route *routes[2] = {NULL, NULL};
    pthread_t thread;
    void *result;

    for (int i = 0; i < 2; i++) {
        void *user = &routes[i]; /* other than the first's */

        if (_i % FUNCTIONS == FREE_CALLBACK)
            OK(tarn_device_add_free_callback(world.device, enable_in_callback, user));
        else if (_i % FUNCTIONS == OBSERVER)
            OK(tarn_device_add_oom_observer(world.device, enable_in_observer, user));
        else
            routes[i] = test_route(world.pool, enable_in_filter, user);
    }
    ck_assert_int_eq(pthread_create(&thread, NULL, alloc_cancelled, &disabling), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
    ck_assert_int_ge(disabling.runs, 2);
    ck_assert_int_eq(disabling.behind, cancel);
    for (int i = 0; i < 2 && routes[i] != NULL; i++)
        OK(tarn_end_allocate_to_pool(routes[i]));
    expect_well();
}

/* Random moments: the thread is cancelled from outside in whatever it is doing. */
static void *make_calls(void *argument)
{
    tn_cu_stream stream = argument;
    int failures = 0;
    int state;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    for (;;) {
        tarn_checkpoint *checkpoint;
        tarn_pool *pool;
        void *address;

        /* The test's own notes are disturbed by nothing; the calls are. */
        pool = test_pool("cancelled");
        address = test_alloc(pool, 5 * MIB, stream);
        (void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
        failures += tarn_pool_reserve(pool, 64 * MIB, stream) != TARN_OK;
        failures += tarn_pool_trim(pool, NULL) != TARN_OK;
        failures += tarn_pool_validate(pool) != TARN_OK;
        failures += tarn_record_stream(address, world.side) != TARN_OK;
        failures += tarn_graph_replay(NULL, stream) != TARN_ERR_INVALID_HANDLE;
        (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
        OK(tarn_checkpoint_take(pool, TARN_CONTENTS_HOST, stream, &checkpoint));
        OK(tarn_free(address));
        (void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
        failures += tarn_checkpoint_restore(checkpoint, stream, NULL) != TARN_OK;
        failures += tarn_checkpoint_verify(checkpoint, stream) != TARN_OK;
        (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
        OK(tarn_checkpoint_destroy(checkpoint));
        OK(tarn_free(address));
        OK(tarn_pool_destroy(pool));
        ck_assert_int_eq(failures, 0);
        (void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
        pthread_testcancel();
        (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    }
    return NULL;
}

GROUP(moments, test_world_open, .name = "cancelled at any moment")

/* Nothing between the calls of make_calls is a cancellation point, so each round ends whole. */
TEST(moments, threads_that_are_cancelled_at_any_moment_leave_a_device_that_works)
{
    enum { ROUNDS = 40, THREADS = 3 };
    struct test_device_stats before = test_device_stats();
    unsigned pause = 17;

    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        void *result;

        for (int i = 0; i < THREADS; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, make_calls, world.stream), 0);
        for (int i = 0; i < THREADS; i++) {
            pause = pause * 1103515245 + 12345;
            (void)usleep(pause % 3000);
            ck_assert_int_eq(pthread_cancel(threads[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            ck_assert_int_eq(pthread_join(threads[i], &result), 0);
            ck_assert_ptr_eq(result, PTHREAD_CANCELED);
        }
    }
    expect_well();
    ck_assert_uint_eq(test_device_stats().live_bytes, before.live_bytes);
}
