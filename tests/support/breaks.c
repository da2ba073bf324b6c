// SPDX-License-Identifier: Apache-2.0
#include "support/breaks.h"

#include "support/world.h"

#define ANSWERS(expected, call) ck_assert_int_eq((int)(call), (int)TN_CUDA_ERROR_##expected)

static tn_cu_event new_event(void)
{
    tn_cu_event event = NULL;

    CU_OK(cu.cuEventCreate(&event, TN_CU_EVENT_DISABLE_TIMING));
    return event;
}

static void allocate(tn_cu_stream stream)
{
    (void)stream;
    test_break_capture();
}

static void ask_stream(tn_cu_stream stream)
{
    ANSWERS(STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamQuery(stream));
}

static void synchronize_stream(tn_cu_stream stream)
{
    ANSWERS(STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamSynchronize(stream));
}

static void synchronize_context(tn_cu_stream stream)
{
    (void)stream;
    ANSWERS(STREAM_CAPTURE_UNSUPPORTED, cu.cuCtxSynchronize());
}

static void ask_for_id(tn_cu_stream stream)
{
    unsigned long long id;

    ANSWERS(STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamGetId(stream, &id));
}

static void use_legacy_stream(tn_cu_stream stream)
{
    tn_cu_event event = new_event();

    (void)stream;
    ANSWERS(STREAM_CAPTURE_IMPLICIT, cu.cuEventRecord(event, NULL));
    CU_OK(cu.cuEventDestroy(event));
}

static void ask_captured_event(tn_cu_stream stream)
{
    tn_cu_event event = new_event();

    CU_OK(cu.cuEventRecord(event, stream));
    ANSWERS(CAPTURED_EVENT, cu.cuEventQuery(event));
    CU_OK(cu.cuEventDestroy(event));
}

static void end_on_fork(tn_cu_stream stream)
{
    tn_cu_stream fork = test_stream();

    test_order(stream, fork);
    test_end_on_fork(fork);
    test_destroy_stream(fork);
}

static void merge(tn_cu_stream stream)
{
    tn_cu_stream other = test_stream();

    test_begin_capture(other, TN_CU_CAPTURE_MODE_RELAXED);
    test_merge_captures(other, stream);
    test_end_broken_capture(other);
    test_destroy_stream(other);
}

void test_wait_outside(tn_cu_stream stream)
{
    tn_cu_stream outside = test_stream();
    tn_cu_event event = new_event();

    CU_OK(cu.cuEventRecord(event, outside));
    ANSWERS(STREAM_CAPTURE_ISOLATION, cu.cuStreamWaitEvent(stream, event, 0));
    CU_OK(cu.cuEventDestroy(event));
    test_destroy_stream(outside);
}

const struct test_break test_breaks[TEST_BREAKS] = {
    {"an unsafe call", allocate},
    {"a question about the stream", ask_stream},
    {"a wait for the stream", synchronize_stream},
    {"a wait for the context", synchronize_context},
    {"a question for the stream's id", ask_for_id},
    {"work on the legacy stream", use_legacy_stream},
    {"a question about a captured event", ask_captured_event},
    {"an end on a forked stream", end_on_fork},
    {"a wait for another capture", merge},
    {"a wait for an event from outside", test_wait_outside},
};

void test_merge_captures(tn_cu_stream first, tn_cu_stream then)
{
    tn_cu_event event = new_event();

    CU_OK(cu.cuEventRecord(event, first));
    ANSWERS(STREAM_CAPTURE_MERGE, cu.cuStreamWaitEvent(then, event, 0));
    CU_OK(cu.cuEventDestroy(event));
}

void test_end_on_fork(tn_cu_stream fork)
{
    tn_cu_graph graph = NULL;

    ANSWERS(STREAM_CAPTURE_UNMATCHED, cu.cuStreamEndCapture(fork, &graph));
    ck_assert_ptr_null(graph);
}

void test_launch_into_capture(tn_cu_graphexec exec, tn_cu_stream stream)
{
    ANSWERS(STREAM_CAPTURE_UNSUPPORTED, cu.cuGraphLaunch(exec, stream));
}
