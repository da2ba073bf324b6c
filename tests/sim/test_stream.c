// SPDX-License-Identifier: Apache-2.0
/* test_stream.c -- order of work, events, what waits for what, callbacks. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "sim_test.h"

static void write_one(void *user)
{
    atomic_store((atomic_int *)user, 1);
}

/* Long enough for a worker that does not wait to show that it does not. */
static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
}

/* Appends to a list that only the device writes: the order of work. */
static int sequence[8];
static atomic_int sequence_length;

static void append(void *user)
{
    sequence[atomic_fetch_add(&sequence_length, 1)] = (int)(intptr_t)user;
}

static void append_late(void *user)
{
    nap();
    append(user);
}

static tn_cu_result own_stream_id(void *argument)
{
    tn_cu_context context;
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxSetCurrent(context));
    return cu.cuStreamGetId(TN_CU_STREAM_PER_THREAD, argument);
}

GROUP(order, start_context)

TEST(order, stream_ids_name_streams_for_good)
{
    unsigned long long legacy[2];
    unsigned long long own[2];
    unsigned long long first;
    unsigned long long second;
    OK(cu.cuStreamGetId(NULL, &legacy[0]));
    OK(cu.cuStreamGetId(TN_CU_STREAM_LEGACY, &legacy[1]));
    ck_assert_uint_eq(legacy[0], legacy[1]);
    OK(cu.cuStreamGetId(TN_CU_STREAM_PER_THREAD, &own[0]));
    OK(elsewhere(own_stream_id, &own[1]));
    ck_assert_uint_ne(own[0], own[1]);
    ck_assert_uint_ne(own[0], legacy[0]);
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    OK(cu.cuStreamGetId(stream, &first));
    OK(cu.cuStreamDestroy(stream));
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE, cu.cuStreamGetId(stream, &second));
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE, cu.cuStreamDestroy(stream));
    OK(cu.cuStreamGetId(new_stream(TN_CU_STREAM_NON_BLOCKING), &second));
    ck_assert_uint_ne(first, second);
}

/* SQ1: finished stays behind queued until the work is done. */
TEST(order, work_waits_while_held_and_runs_when_resumed)
{
    atomic_int done = 0;
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event event = new_event();
    sim.tarn_sim_hold_work();
    sim.tarn_sim_hold_work();
    OK(cu.cuLaunchHostFunc(stream, write_one, &done));
    OK(cu.cuEventRecord(event, stream));
    ANSWERS(TN_CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
    ANSWERS(TN_CUDA_ERROR_NOT_READY, cu.cuEventQuery(event));
    sim.tarn_sim_resume_work();
    nap();
    ck_assert_int_eq(atomic_load(&done), 0);
    sim.tarn_sim_resume_work();
    OK(cu.cuEventSynchronize(event));
    ck_assert_int_eq(atomic_load(&done), 1);
    OK(cu.cuEventQuery(event));
    OK(cu.cuStreamQuery(stream));
}

/* SQ3: the wait keeps the first stream, whose owner gave it up. */
TEST(order, a_stream_waits_for_an_event_of_another)
{
    tn_cu_stream first = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_stream second = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event event = new_event();
    OK(cu.cuStreamWaitEvent(second, event, 0)); /* never recorded: no dependency */
    sim.tarn_sim_hold_work();
    OK(cu.cuLaunchHostFunc(first, append_late, (void *)1));
    OK(cu.cuEventRecord(event, first));
    OK(cu.cuStreamWaitEvent(second, event, 0));
    OK(cu.cuLaunchHostFunc(second, append, (void *)2));
    OK(cu.cuStreamDestroy(first)); /* busy: its work still runs */
    OK(cu.cuEventDestroy(event));  /* the wait stands */
    sim.tarn_sim_resume_work();
    OK(cu.cuStreamSynchronize(second));
    ck_assert_int_eq(atomic_load(&sequence_length), 2);
    ck_assert_int_eq(sequence[0], 1);
    ck_assert_int_eq(sequence[1], 2);
}

/* SQ2 */
TEST(order, the_legacy_stream_is_ordered_with_blocking_streams)
{
    tn_cu_stream blocking = new_stream(TN_CU_STREAM_DEFAULT);
    tn_cu_stream after = new_stream(TN_CU_STREAM_DEFAULT);
    sim.tarn_sim_hold_work();
    OK(cu.cuLaunchHostFunc(blocking, append_late, (void *)1));
    OK(cu.cuLaunchHostFunc(NULL, append_late, (void *)2));
    OK(cu.cuLaunchHostFunc(after, append, (void *)3));
    sim.tarn_sim_resume_work();
    OK(cu.cuStreamSynchronize(after));
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(sequence[i], i + 1);
}

TEST(order, an_event_on_the_legacy_stream_covers_blocking_streams)
{
    tn_cu_stream blocking = new_stream(TN_CU_STREAM_DEFAULT);
    tn_cu_event event = new_event();
    sim.tarn_sim_hold_work();
    OK(cu.cuLaunchHostFunc(blocking, append, (void *)1));
    OK(cu.cuEventRecord(event, NULL));
    ANSWERS(TN_CUDA_ERROR_NOT_READY, cu.cuEventQuery(event));
    ANSWERS(TN_CUDA_ERROR_NOT_READY, cu.cuStreamQuery(NULL));
    sim.tarn_sim_resume_work();
    OK(cu.cuEventSynchronize(event));
    ck_assert_int_eq(atomic_load(&sequence_length), 1);
}

/* A waiting call, made on a thread while the device is held. */
struct waiter {
    tn_cu_context context;
    tn_cu_result (*call)(void *);
    void *argument;
    atomic_int returned;
};

static void *wait_on_thread(void *argument)
{
    struct waiter *waiter = argument;
    OK(cu.cuCtxSetCurrent(waiter->context));
    OK(waiter->call(waiter->argument));
    atomic_store(&waiter->returned, 1);
    return NULL;
}

static tn_cu_deviceptr a_linear;
static void *a_host;
static tn_cu_module a_module;

static tn_cu_result free_linear(void *unused)
{
    (void)unused;
    return cu.cuMemFree(a_linear);
}

static tn_cu_result free_host(void *unused)
{
    (void)unused;
    return cu.cuMemFreeHost(a_host);
}

static tn_cu_result unload(void *unused)
{
    (void)unused;
    return cu.cuModuleUnload(a_module);
}

static tn_cu_result load(void *unused)
{
    (void)unused;
    return cu.cuModuleLoadData(&a_module, ".version 7.0\n.target sm_52\n");
}

static tn_cu_result synchronize(void *unused)
{
    (void)unused;
    return cu.cuCtxSynchronize();
}

static tn_cu_result (*const waiting_calls[])(void *) = {free_linear, free_host, unload, load,
                                                        synchronize};

TEST_LOOP(order, freeing_and_modules_wait_for_the_device, 0,
          (int)(sizeof waiting_calls / sizeof waiting_calls[0]))
{
    atomic_int done = 0;
    struct waiter waiter = {.call = waiting_calls[_i]};
    pthread_t thread;
    OK(cu.cuCtxGetCurrent(&waiter.context));
    OK(cu.cuMemAlloc(&a_linear, 100));
    OK(cu.cuMemHostAlloc(&a_host, 100, 0));
    OK(load(NULL));
    sim.tarn_sim_hold_work();
    OK(cu.cuLaunchHostFunc(new_stream(TN_CU_STREAM_NON_BLOCKING), write_one, &done));
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_on_thread, &waiter), 0);
    nap();
    ck_assert_int_eq(atomic_load(&waiter.returned), 0);
    sim.tarn_sim_resume_work();
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(atomic_load(&done), 1);
}

TEST(order, virtual_memory_never_waits)
{
    atomic_int done = 0;
    tn_cu_deviceptr address;
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    sim.tarn_sim_hold_work();
    OK(cu.cuLaunchHostFunc(stream, write_one, &done));
    unmap_all(map_new(2 * MIB));
    OK(cu.cuMemAlloc(&address, 100));
    ck_assert_int_eq(atomic_load(&done), 0);
    sim.tarn_sim_resume_work();
    OK(cu.cuStreamSynchronize(stream));
}

static tn_cu_result callback_results[4];

static void call_driver(void *user)
{
    size_t bytes;
    tn_cu_deviceptr address;
    tn_cu_capture_status status;
    callback_results[0] = cu.cuMemGetInfo(&bytes, &bytes);
    callback_results[1] = cu.cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0);
    callback_results[2] = cu.cuEventQuery(user);
    callback_results[3] = cu.cuStreamIsCapturing(TN_CU_STREAM_LEGACY, &status);
}

/* SS3: with the lock held, a call from a host function would never return. */
TEST(order, host_functions_may_not_manage_memory)
{
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    OK(cu.cuLaunchHostFunc(stream, call_driver, new_event()));
    OK(cu.cuStreamSynchronize(stream));
    ANSWERS(TN_CUDA_ERROR_NOT_PERMITTED, callback_results[0]);
    ANSWERS(TN_CUDA_ERROR_NOT_PERMITTED, callback_results[1]);
    OK(callback_results[2]);
    ANSWERS(TN_CUDA_ERROR_INVALID_CONTEXT, callback_results[3]); /* a worker has none current */
    size_t bytes;
    OK(cu.cuMemGetInfo(&bytes, &bytes));
}

TEST(order, events_are_refused_for_what_the_driver_refuses)
{
    tn_cu_event event;
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuEventCreate(&event, TN_CU_EVENT_INTERPROCESS));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuEventCreate(&event, 8));
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE, cu.cuEventQuery(NULL));
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE, cu.cuEventDestroy((tn_cu_event)0x1234));
    event = new_event();
    OK(cu.cuEventQuery(event));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuStreamWaitEvent(NULL, event, 2));
    ANSWERS(TN_CUDA_ERROR_ILLEGAL_STATE, cu.cuStreamWaitEvent(NULL, event, 1));
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE, cu.cuStreamQuery((tn_cu_stream)0x1234));
    OK(cu.cuEventDestroy(event));
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE, cu.cuEventQuery(event));
}
