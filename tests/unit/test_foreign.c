// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <time.h>

#include "driver/foreign.h"
#include "driver/idle.h"
#include "driver/open.h"
#include "support/world.h"
#include "unit/unit.h"

static struct tn_gpu gpu;
static tn_cu_context primary;
static tn_cu_context context; /* of the program's own */
static tn_cu_stream stream;   /* in it */
static tarn_sim_ledger before_meeting;

static void make_context(void)
{
    context = test_make_context();
    stream = test_stream();
    test_set_context(primary);
}

static void open_gpu(void)
{
    unit_gpu(&gpu);
    primary = test_context();
    make_context();
    before_meeting = test_ledger();
}

static void *wait_idle(void *argument)
{
    (void)argument;
    OK(tn_gpu_wait_idle(&gpu));
    return NULL;
}

/* Asserts that a wait does not end before the work of the stream has. */
static void expect_covered(void)
{
    void *memory = test_linear_alloc(4096);
    uint64_t stamp = tn_gpu_epoch(&gpu);
    pthread_t thread;

    sim.hold_work();
    test_set_words(stream, memory, 1, 16);
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_idle, NULL), 0);
    (void)nanosleep(&(struct timespec){0, 20000000}, NULL);
    ck_assert(!tn_gpu_is_proven(&gpu, stamp));
    sim.resume_work();
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(tn_gpu_is_proven(&gpu, stamp));
    test_synchronize(stream);
}

GROUP(foreign, open_gpu)

TEST(foreign, a_wait_covers_the_contexts_that_were_met)
{
    OK(tn_stream_meet(&gpu, stream));
    ck_assert_ptr_eq(test_context(), primary);
    expect_covered();
    expect_covered();
    ck_assert_ptr_eq(test_context(), primary);
}

TEST(foreign, a_context_is_met_once_and_the_primary_one_never)
{
    uint64_t calls = sim.call_count("cuMemAlloc");

    OK(tn_stream_meet(&gpu, NULL));
    OK(tn_gpu_meet_context(&gpu, primary));
    ck_assert_uint_eq(sim.call_count("cuMemAlloc"), calls);
    OK(tn_gpu_meet_context(&gpu, context));
    OK(tn_gpu_meet_context(&gpu, context));
    ck_assert_uint_eq(sim.call_count("cuMemAlloc"), calls + 1);
}

TEST(foreign, a_close_gives_back_what_a_living_context_has)
{
    OK(tn_gpu_meet_context(&gpu, context));
    OK(tn_gpu_wait_idle(&gpu));
    ck_assert_uint_eq(test_ledger().linear_allocations, before_meeting.linear_allocations + 1);
    tn_gpu_close(&gpu);
    ck_assert_uint_eq(test_ledger().linear_allocations, before_meeting.linear_allocations - 2);
}

TEST(foreign, a_context_that_is_gone_is_idle_and_dropped)
{
    uint64_t stamp = tn_gpu_epoch(&gpu);

    OK(tn_gpu_meet_context(&gpu, context));
    test_end_context(context);
    OK(tn_gpu_wait_idle(&gpu));
    ck_assert(tn_gpu_is_proven(&gpu, stamp));
    ck_assert_ptr_null(gpu.foreign);
    OK(tn_gpu_check(&gpu));
    make_context();
    OK(tn_stream_meet(&gpu, stream));
    expect_covered();
    test_end_context(context);
    tn_gpu_close(&gpu); /* with one that is gone and not dropped yet */
    OK(tn_gpu_check(&gpu));
}

/* The driver may give a new context the handle of one that is gone: the anchor is not there then. */
TEST(foreign, an_anchor_that_is_gone_is_made_again_and_no_stranger_is_freed)
{
    OK(tn_gpu_meet_context(&gpu, context));
    for (int i = 0; i < 2; i++) {
        uint64_t left = test_ledger().linear_allocations;

        sim.plan_fault("cuPointerGetAttribute", 1, 0, TN_CUDA_ERROR_INVALID_VALUE);
        OK(tn_gpu_wait_idle(&gpu));
        ck_assert_uint_eq(test_ledger().linear_allocations,
                          left + 1); /* the old one was not lost */
    }
    expect_covered();
}

/* Each stays known when others come and go. */
TEST(foreign, every_context_that_was_met_is_known_until_it_is_over)
{
    tn_cu_context first = context;
    uint64_t calls;

    OK(tn_gpu_meet_context(&gpu, first));
    make_context();
    OK(tn_gpu_meet_context(&gpu, context));
    calls = sim.call_count("cuMemAlloc");
    OK(tn_gpu_meet_context(&gpu, first));
    OK(tn_gpu_meet_context(&gpu, context));
    ck_assert_uint_eq(sim.call_count("cuMemAlloc"), calls);
    test_end_context(first);
    expect_covered(); /* the other's stream; the wait drops the first */
    ck_assert_ptr_nonnull(gpu.foreign);
    calls = sim.call_count("cuMemAlloc");
    OK(tn_gpu_meet_context(&gpu, context));
    ck_assert_uint_eq(sim.call_count("cuMemAlloc"), calls);
    test_end_context(context);
    OK(tn_gpu_wait_idle(&gpu));
    ck_assert_ptr_null(gpu.foreign);
    OK(tn_gpu_check(&gpu));
}

TEST(foreign, a_meeting_that_fails_changes_nothing)
{
    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, tn_gpu_meet_context(&gpu, context));
    sim.plan_fault("cuMemAlloc", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_gpu_meet_context(&gpu, context));
    sim.plan_fault("cuStreamGetCtx", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_stream_meet(&gpu, stream));
    test_same_ledger(&before_meeting);
    ck_assert_ptr_null(gpu.foreign);
    OK(tn_gpu_meet_context(&gpu, context));
}

/* It may be made with locks held. */
TEST(foreign, a_meeting_waits_for_nothing_whatever_the_driver_refuses)
{
    void *memory = test_linear_alloc(4096);

    sim.hold_work();
    test_set_words(stream, memory, 1, 16);
    sim.plan_fault("cuPointerGetAttribute", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_gpu_meet_context(&gpu, context));
    (void)sim.clear_fault(NULL);
    ck_assert_ptr_null(gpu.foreign);
    STATUS(TARN_ERR_POISONED, tn_gpu_check(&gpu)); /* a few bytes cannot be given back */
    sim.resume_work();
    test_synchronize(stream);
    test_linear_free(memory);
}

/* When a context is met, waited for, or left: _i. */
TEST_LOOP(foreign, a_question_that_is_refused_once_loses_no_anchor, 0, 3)
{
    for (int at = 0; at < 3; at++) {
        if (_i == at)
            sim.plan_fault("cuPointerGetAttribute", 1, 0, TN_CUDA_ERROR_UNKNOWN);
        if (at == 0)
            OK(tn_gpu_meet_context(&gpu, context));
        else if (at == 1)
            OK(tn_gpu_wait_idle(&gpu));
        else
            tn_gpu_close(&gpu);
        ck_assert_uint_eq(sim.clear_fault(NULL), _i == at);
    }
    ck_assert_uint_eq(test_ledger().linear_allocations, before_meeting.linear_allocations - 2);
    OK(tn_gpu_check(&gpu));
}

TEST(foreign, a_wait_that_may_not_ask_for_its_anchor_is_refused_and_makes_no_other)
{
    uint64_t stamp = tn_gpu_epoch(&gpu);
    uint64_t allocations;

    OK(tn_gpu_meet_context(&gpu, context));
    allocations = test_ledger().linear_allocations;
    sim.plan_fault("cuPointerGetAttribute", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_gpu_wait_idle(&gpu));
    (void)sim.clear_fault(NULL);
    ck_assert(!tn_gpu_is_proven(&gpu, stamp));
    ck_assert_uint_eq(test_ledger().linear_allocations, allocations);
    expect_covered();
}

TEST(foreign, a_context_is_met_on_a_full_device)
{
    sim.plan_fault("cuMemAlloc", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    OK(tn_gpu_meet_context(&gpu, context));
    ck_assert_ptr_nonnull(gpu.foreign);
    test_same_ledger(&before_meeting);
    expect_covered();
    expect_covered();
}

TEST(foreign, a_wait_that_a_context_refuses_proves_nothing)
{
    uint64_t stamp = tn_gpu_epoch(&gpu);

    OK(tn_gpu_meet_context(&gpu, context));
    sim.plan_fault("cuMemAlloc", 2, 0, TN_CUDA_ERROR_OUT_OF_MEMORY); /* after the primary one's */
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_gpu_wait_idle(&gpu));
    ck_assert(!tn_gpu_is_proven(&gpu, stamp));
    OK(tn_gpu_wait_idle(&gpu));
    ck_assert(tn_gpu_is_proven(&gpu, stamp));
}

TEST(foreign, a_meeting_and_a_wait_leave_captures_alone)
{
    tn_cu_stream captured = test_stream();

    test_begin_capture(captured, TN_CU_CAPTURE_MODE_GLOBAL);
    OK(tn_stream_meet(&gpu, stream));
    OK(tn_gpu_wait_idle(&gpu));
    ck_assert_int_eq(test_capture_status(captured), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_destroy_graph(test_end_capture(captured));
}
