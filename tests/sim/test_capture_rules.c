// SPDX-License-Identifier: Apache-2.0
/* test_capture_rules.c -- what a capture allows and forbids, by mode, thread and stream. */
#include "capture_things.h"

static tn_cu_result free_alloc(void)
{
    return cu.cuMemFree(there.linear);
}
static tn_cu_result host_alloc(void)
{
    void *address;
    return cu.cuMemHostAlloc(&address, 100, 0);
}
static tn_cu_result host_free(void)
{
    return cu.cuMemFreeHost(there.host);
}
static tn_cu_result event_query(void)
{
    return cu.cuEventQuery(there.event);
}
static tn_cu_result event_synchronize(void)
{
    return cu.cuEventSynchronize(there.event);
}
static tn_cu_result stream_query(void)
{
    return cu.cuStreamQuery(there.stream);
}
static tn_cu_result stream_synchronize(void)
{
    return cu.cuStreamSynchronize(there.stream);
}
static tn_cu_result legacy_synchronize(void)
{
    return cu.cuStreamSynchronize(NULL);
}
static tn_cu_result instantiate(void)
{
    tn_cu_graphexec exec;
    return cu.cuGraphInstantiateWithFlags(&exec, there.graph, 0);
}
static tn_cu_result exec_destroy(void)
{
    return cu.cuGraphExecDestroy(there.exec);
}
static tn_cu_result unload(void)
{
    return cu.cuModuleUnload(there.kernels.module);
}

static tn_cu_result (*const unsafe_calls[])(void) = {
    alloc_linear,       free_alloc,         host_alloc,   host_free,
    event_query,        event_synchronize,  stream_query, instantiate,
    stream_synchronize, legacy_synchronize, exec_destroy, unload,
};
enum { UNSAFE_CALLS = sizeof unsafe_calls / sizeof unsafe_calls[0] };

/* An unsafe call of a thread in some mode. */
struct unsafe_call {
    tn_cu_capture_mode mode;
    int number;
};

static tn_cu_result make_unsafe_call(void *argument)
{
    const struct unsafe_call *call = argument;
    tn_cu_capture_mode mode = call->mode;
    OK(cu.cuCtxSetCurrent(there.context));
    OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
    tn_cu_result result = unsafe_calls[call->number]();
    OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
    ck_assert_int_eq(mode, call->mode);
    return result;
}

/* The rule of modes: capture mode × thread mode × same or other thread. */
static bool forbidden(tn_cu_capture_mode capture, tn_cu_capture_mode thread, bool same)
{
    if (thread == TN_CU_CAPTURE_MODE_RELAXED || capture == TN_CU_CAPTURE_MODE_RELAXED)
        return false;
    return same || (thread == TN_CU_CAPTURE_MODE_GLOBAL && capture == TN_CU_CAPTURE_MODE_GLOBAL);
}

SUITE("capture rules")
GROUP(rules, make_capture_things)

TEST_LOOP(rules, unsafe_calls_obey_the_modes_of_capture_and_thread, 0, 18 * UNSAFE_CALLS)
{
    int combination = _i / UNSAFE_CALLS;
    tn_cu_capture_mode capture = (tn_cu_capture_mode)(combination % 3);
    struct unsafe_call call = {
        .mode = (tn_cu_capture_mode)(combination / 3 % 3),
        .number = _i % UNSAFE_CALLS,
    };
    bool same = combination / 9 == 0;
    tn_cu_stream stream = capturing(TN_CU_STREAM_NON_BLOCKING, capture);
    tn_cu_result result = same ? make_unsafe_call(&call) : elsewhere(make_unsafe_call, &call);
    if (forbidden(capture, call.mode, same)) {
        ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, result);
        is_invalidated(stream);
        end_capture(stream, TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        is_idle(stream);
    } else {
        OK(result);
        is_active(stream);
        ck_assert_uint_eq(node_count(end_capture(stream, TN_CUDA_SUCCESS)), 0);
    }
}

TEST_LOOP(rules, virtual_memory_is_free_in_every_mode, 0, 3)
{
    tn_cu_stream stream = capturing(TN_CU_STREAM_NON_BLOCKING, (tn_cu_capture_mode)_i);
    size_t bytes;
    unsigned long long flags;
    tn_cu_location here = {TN_CU_MEM_LOCATION_TYPE_DEVICE, 0};
    struct mapped mapped = map_new(4 * MIB);
    OK(cu.cuMemGetAccess(&flags, &here, mapped.address));
    OK(cu.cuMemGetInfo(&bytes, &bytes));
    OK(cu.cuMemsetD8Async(mapped.address, 3, 64, stream));
    unmap_all(map_new(2 * MIB));
    is_active(stream);
    tn_cu_graph graph = end_capture(stream, TN_CUDA_SUCCESS);
    tn_cu_graphexec exec;
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(*(volatile unsigned char *)(mapped.address + 63), 3);
}

TEST(rules, work_elsewhere_and_making_things_are_free)
{
    tn_cu_stream stream = capturing(TN_CU_STREAM_NON_BLOCKING, TN_CU_CAPTURE_MODE_GLOBAL);
    tn_cu_stream other = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event event = new_event();
    tn_cu_graph graph;
    tn_cu_module module;
    unsigned int mapped;
    uint32_t word = 1;
    OK(cu.cuMemsetD8Async(there.linear, 0, 4, other));
    OK(cu.cuEventRecord(event, other));
    OK(cu.cuStreamWaitEvent(there.stream, event, 0));
    OK(cu.cuGraphLaunch(there.exec, other));
    OK(cu.cuGraphUpload(there.exec, other));
    /* On the legacy stream: s does not block. To other bytes than the other streams' work. */
    OK(cu.cuMemcpyHtoD(there.linear + 64, &word, sizeof word));
    OK(cu.cuPointerGetAttribute(&mapped, TN_CU_POINTER_MAPPED, there.linear));
    OK(cu.cuModuleLoadData(&module, ".version 7.0\n"));
    OK(cu.cuGraphCreate(&graph, 0));
    OK(cu.cuGraphDestroy(graph));
    OK(cu.cuEventDestroy(event));
    OK(cu.cuStreamDestroy(other));
    is_active(stream);
    end_capture(stream, TN_CUDA_SUCCESS);
}

static tn_cu_result synchronize_relaxed(void *unused)
{
    tn_cu_capture_mode mode = TN_CU_CAPTURE_MODE_RELAXED;
    (void)unused;
    OK(cu.cuCtxSetCurrent(there.context));
    OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
    return cu.cuCtxSynchronize();
}

TEST(rules, synchronizing_the_context_kills_every_capture)
{
    tn_cu_stream first = capturing(TN_CU_STREAM_NON_BLOCKING, TN_CU_CAPTURE_MODE_RELAXED);
    tn_cu_stream second = capturing(TN_CU_STREAM_DEFAULT, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, elsewhere(synchronize_relaxed, NULL));
    end_capture(first, TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    end_capture(second, TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cu.cuCtxSynchronize());
}

TEST_LOOP(rules, asking_a_capturing_stream_or_launching_into_it_kills_its_capture, 0, 3)
{
    tn_cu_stream stream = capturing(TN_CU_STREAM_NON_BLOCKING, TN_CU_CAPTURE_MODE_RELAXED);
    tn_cu_result result = _i == 0   ? cu.cuStreamQuery(stream)
                          : _i == 1 ? cu.cuStreamSynchronize(stream)
                                    : cu.cuGraphLaunch(there.exec, stream);
    ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, result);
    is_invalidated(stream);
    ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuEventRecord(there.event, stream));
    ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
            cu.cuMemsetD8Async(there.linear, 0, 4, stream));
    ANSWERS(TN_CUDA_ERROR_ILLEGAL_STATE,
            cu.cuStreamBeginCapture(stream, TN_CU_CAPTURE_MODE_RELAXED));
    end_capture(stream, TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cu.cuStreamSynchronize(stream));
}

static tn_cu_result legacy_set(void)
{
    return cu.cuMemsetD8Async(there.linear, 0, 4, NULL);
}
static tn_cu_result legacy_copy(void)
{
    return cu.cuMemcpyDtoH(&(uint32_t){0}, there.linear, 4);
}
static tn_cu_result legacy_record(void)
{
    return cu.cuEventRecord(there.event, TN_CU_STREAM_LEGACY);
}
static tn_cu_result legacy_query(void)
{
    return cu.cuStreamQuery(NULL);
}
static tn_cu_result legacy_launch(void)
{
    return cu.cuGraphLaunch(there.exec, NULL);
}
static tn_cu_result legacy_wait(void)
{
    return cu.cuStreamWaitEvent(NULL, there.event, 0);
}
static tn_cu_result (*const legacy_calls[])(void) = {legacy_set,   legacy_copy,   legacy_record,
                                                     legacy_query, legacy_launch, legacy_wait};
enum { LEGACY_CALLS = sizeof legacy_calls / sizeof legacy_calls[0] };

TEST_LOOP(rules, the_legacy_stream_is_out_of_bounds_while_a_blocking_stream_captures, 0,
          LEGACY_CALLS)
{
    tn_cu_capture_status status;
    tn_cu_stream stream = capturing(TN_CU_STREAM_DEFAULT, TN_CU_CAPTURE_MODE_RELAXED);
    ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cu.cuStreamIsCapturing(NULL, &status));
    ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
            cu.cuStreamGetCaptureInfo(NULL, &status, NULL, NULL, NULL, NULL, NULL));
    is_active(stream);
    OK(cu.cuMemsetD8Async(there.linear, 0, 4, new_stream(TN_CU_STREAM_DEFAULT)));
    OK(alloc_linear());
    ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, legacy_calls[_i]());
    is_invalidated(stream);
    end_capture(stream, TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cu.cuCtxSynchronize());
    OK(legacy_calls[_i]());
}

TEST_LOOP(rules, the_legacy_stream_is_free_while_others_capture, 0, LEGACY_CALLS)
{
    tn_cu_stream stream = capturing(TN_CU_STREAM_NON_BLOCKING, TN_CU_CAPTURE_MODE_RELAXED);
    OK(legacy_calls[_i]());
    is_active(stream);
}

TEST(rules, the_legacy_stream_cannot_join)
{
    tn_cu_stream stream = capturing(TN_CU_STREAM_NON_BLOCKING, TN_CU_CAPTURE_MODE_RELAXED);
    OK(cu.cuEventRecord(there.event, stream));
    ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cu.cuStreamWaitEvent(NULL, there.event, 0));
    is_invalidated(stream);
}

TEST(rules, wrong_calls_invalidate_where_the_driver_does)
{
    tn_cu_stream stream = capturing(TN_CU_STREAM_NON_BLOCKING, TN_CU_CAPTURE_MODE_GLOBAL);
    tn_cu_deviceptr nowhere = reserve(2 * MIB);
    void *params[3] = {0};
    unsigned char packed[16] = {0};
    size_t bytes = sizeof packed;
    void *extra[] = {TN_CU_LAUNCH_PARAM_BUFFER_POINTER, packed, TN_CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, TN_CU_LAUNCH_PARAM_END};
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuMemcpyDtoDAsync(nowhere, there.mapped.address, 16, stream));
    is_active(stream);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuLaunchKernel(there.kernels.fill, 1, 1, 1, 1, 1, 1, 0, stream, params, extra));
    is_active(stream);
    OK(cu.cuMemsetD8Async(nowhere, 0, 16, stream)); /* found at instantiation */
    OK(cu.cuMemsetD8Async(nowhere, 0, 0, stream));  /* no node */
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuLaunchKernel(there.kernels.fill, 1, 1, 1, 4096, 1, 1, 0, stream, params, NULL));
    is_invalidated(stream);
}

static tn_cu_result exchange_here(void *mode)
{
    return cu.cuThreadExchangeStreamCaptureMode(mode);
}

TEST(rules, the_mode_of_a_thread_is_its_own_and_begins_global)
{
    tn_cu_capture_mode mode = TN_CU_CAPTURE_MODE_RELAXED;
    tn_cu_capture_mode other = TN_CU_CAPTURE_MODE_THREAD_LOCAL;
    OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
    ck_assert_int_eq(mode, TN_CU_CAPTURE_MODE_GLOBAL);
    OK(elsewhere(exchange_here, &other));
    ck_assert_int_eq(other, TN_CU_CAPTURE_MODE_GLOBAL);
    OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
    ck_assert_int_eq(mode, TN_CU_CAPTURE_MODE_RELAXED);
    mode = (tn_cu_capture_mode)9;
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuThreadExchangeStreamCaptureMode(&mode));
}
