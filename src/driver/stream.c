// SPDX-License-Identifier: Apache-2.0
/* Streams as orders, events, copies.
 *
 * Calls that name an existing stream need no current context. Calls on the default streams need a
 * current context, and here mean the streams of the device's primary context. The calls here make
 * this context current. The legacy stream cannot be captured, and any question about it is an error
 * while a blocking stream is being captured. A look therefore never asks the driver: the legacy
 * stream's id is a constant of ours.
 *
 * Trade-offs: events are created and destroyed for each use; a cache of them would save about a
 * microsecond. */
#include "driver/stream.h"

#include <stddef.h>

#include "base/error.h"
#include "base/thread.h"
#include "driver/foreign.h"

/* The driver counts ids upwards from small numbers. */
static const uint64_t legacy_stream_id = UINT64_MAX;

bool tn_stream_is_elsewhere(tn_cu_stream stream, uint64_t thread_id)
{
    return stream == TN_CU_STREAM_PER_THREAD && thread_id != tn_thread_id();
}

bool tn_stream_is_same(tn_cu_stream a, tn_cu_stream b)
{
    return a == b || (tn_stream_is_legacy(a) && tn_stream_is_legacy(b));
}

tarn_status tn_stream_enter(struct tn_gpu *gpu, tn_cu_stream stream, bool *pushed)
{
    *pushed = false;
    if (!tn_stream_is_default(stream))
        return TARN_OK;
    return tn_gpu_enter(gpu, gpu->context, pushed);
}

bool tn_stream_is_closed(struct tn_gpu *gpu, tn_cu_stream stream)
{
    tn_cu_capture_status capturing = TN_CU_CAPTURE_STATUS_NONE;
    tn_cu_result result;
    bool pushed;

    if (tn_stream_enter(gpu, stream, &pushed) != TARN_OK)
        return false; /* nothing will be recorded then either */
    result = gpu->driver->cuStreamIsCapturing(stream, &capturing);
    tn_gpu_leave(gpu, pushed);
    if (result != TN_CUDA_SUCCESS && result != TN_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
        (void)tn_gpu_failed(gpu, result, "looking at a stream", "cuStreamIsCapturing");
    return result == TN_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
           capturing != TN_CU_CAPTURE_STATUS_NONE;
}

bool tn_stream_is_broken(struct tn_gpu *gpu, tn_cu_stream stream)
{
    tn_cu_capture_status capturing = TN_CU_CAPTURE_STATUS_NONE;
    tn_cu_result result;
    bool pushed = false;

    if (tn_stream_is_legacy(stream))
        return false; /* the legacy stream is never captured, and the question may be an error */
    if (tn_stream_is_default(stream) &&
        tn_gpu_try_enter(gpu, gpu->context, &pushed) != TN_CUDA_SUCCESS)
        return false;
    result = gpu->driver->cuStreamIsCapturing(stream, &capturing);
    tn_gpu_leave(gpu, pushed);
    return result == TN_CUDA_SUCCESS && capturing == TN_CU_CAPTURE_STATUS_INVALIDATED;
}

tarn_status tn_stream_context(struct tn_gpu *gpu, tn_cu_stream stream, tn_cu_context *context)
{
    tn_cu_result result;

    *context = gpu->context;
    if (tn_stream_is_default(stream))
        return TARN_OK;
    result = gpu->driver->cuStreamGetCtx(stream, context);
    return tn_gpu_answered(gpu, result, "looking at a stream", "cuStreamGetCtx");
}

tarn_status tn_stream_meet(struct tn_gpu *gpu, tn_cu_stream stream)
{
    tn_cu_context context = NULL;
    tarn_status status = tn_stream_context(gpu, stream, &context);

    return status == TARN_OK ? tn_gpu_meet_context(gpu, context) : status;
}

tarn_status tn_stream_enter_own(struct tn_gpu *gpu, tn_cu_stream stream, bool *pushed)
{
    tn_cu_context context = NULL;
    tarn_status status = tn_stream_context(gpu, stream, &context);

    return status == TARN_OK ? tn_gpu_enter(gpu, context, pushed) : status;
}

uint64_t tn_stream_id_of_thread(void)
{
    return tn_thread_id() << 1 | 1;
}

static tarn_status refused(struct tn_gpu *gpu, tn_cu_result result, const char *call)
{
    return tn_gpu_failed(gpu, result, "looking at a stream", call);
}

tarn_status tn_stream_refuse_id(struct tn_gpu *gpu, tn_cu_result result)
{
    if (result == TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        return tn_fail(TARN_ERR_WRONG_STATE, "the stream is being captured, which does not go with "
                                             "this call, and the capture is now invalidated");
    return refused(gpu, result, "cuStreamGetId");
}

static void set_capturing(struct tn_stream_state *state, tn_cu_capture_status capturing)
{
    state->captured = capturing != TN_CU_CAPTURE_STATUS_NONE;
    state->broken = capturing == TN_CU_CAPTURE_STATUS_INVALIDATED;
}

/* For a stream that was not being captured a moment ago: a refusal says nothing of a capture. */
static tarn_status ask_id(struct tn_gpu *gpu, tn_cu_stream stream, struct tn_stream_state *state)
{
    tn_cu_result result = tn_stream_try_id(gpu, stream, &state->order.stream_id);

    return result == TN_CUDA_SUCCESS ? TARN_OK : refused(gpu, result, "cuStreamGetId");
}

static tarn_status ask_status(struct tn_gpu *gpu, tn_cu_stream stream,
                              struct tn_stream_state *state)
{
    tn_cu_capture_status capturing = TN_CU_CAPTURE_STATUS_NONE;
    tn_cu_result result = gpu->driver->cuStreamIsCapturing(stream, &capturing);

    set_capturing(state, capturing);
    return result == TN_CUDA_SUCCESS ? TARN_OK : refused(gpu, result, "cuStreamIsCapturing");
}

static tarn_status ask_graph(struct tn_gpu *gpu, tn_cu_stream stream, struct tn_stream_state *state)
{
    tn_cu_capture_status capturing = TN_CU_CAPTURE_STATUS_NONE;
    tn_cu_result result;

    state->order.stream_id = tn_stream_captured_id(stream);
    result = gpu->driver->cuStreamGetCaptureInfo(stream, &capturing, &state->order.capture_id,
                                                 &state->capture_graph, NULL, NULL, NULL);
    set_capturing(state, capturing);
    return result == TN_CUDA_SUCCESS ? TARN_OK : refused(gpu, result, "cuStreamGetCaptureInfo");
}

static tarn_status look_for_graph(struct tn_gpu *gpu, tn_cu_stream stream,
                                  struct tn_stream_state *state)
{
    tarn_status status = ask_status(gpu, stream, state);

    if (status != TARN_OK)
        return status;
    return state->captured ? ask_graph(gpu, stream, state) : ask_id(gpu, stream, state);
}

static tarn_status look_for_capture(struct tn_gpu *gpu, tn_cu_stream stream,
                                    struct tn_stream_state *state)
{
    struct tn_stream_answer answer;

    if (tn_stream_ask(gpu, stream, &answer))
        state->order.capture_id = answer.capture_id;
    set_capturing(state, answer.capturing);
    return answer.result == TN_CUDA_SUCCESS ? TARN_OK
                                            : refused(gpu, answer.result, "cuStreamGetCaptureInfo");
}

tarn_status tn_stream_finish_look(struct tn_gpu *gpu, tn_cu_stream stream,
                                  const struct tn_stream_answer *answer,
                                  struct tn_stream_state *state)
{
    *state = (struct tn_stream_state){0};
    if (answer->result != TN_CUDA_SUCCESS)
        return refused(gpu, answer->result, "cuStreamGetCaptureInfo");
    if (answer->capturing == TN_CU_CAPTURE_STATUS_NONE)
        return ask_id(gpu, stream, state);
    state->order = (struct tn_order){tn_stream_captured_id(stream), answer->capture_id};
    set_capturing(state, answer->capturing);
    return TARN_OK;
}

/* For a stream whose context is current, or that needs no current context. */
static tarn_status look(struct tn_gpu *gpu, tn_cu_stream stream, enum tn_stream_want want,
                        struct tn_stream_state *state)
{
    struct tn_stream_answer answer;
    tn_cu_result result;

    switch (want) {
    case TN_STREAM_STATUS:
        return ask_status(gpu, stream, state);
    case TN_STREAM_CAPTURE:
        return look_for_capture(gpu, stream, state);
    case TN_STREAM_ID:
        result = tn_stream_try_id(gpu, stream, &state->order.stream_id);
        return result == TN_CUDA_SUCCESS ? TARN_OK : tn_stream_refuse_id(gpu, result);
    case TN_STREAM_ORDER:
        (void)tn_stream_ask(gpu, stream, &answer);
        return tn_stream_finish_look(gpu, stream, &answer, state);
    case TN_STREAM_GRAPH:
        break;
    }
    return look_for_graph(gpu, stream, state);
}

/* Looks in the context whose stream the handle means. An order is looked for by the cheapest
 * questions, since most calls on a default stream are outside captures. */
static tarn_status look_at_default(struct tn_gpu *gpu, tn_cu_stream stream,
                                   enum tn_stream_want want, struct tn_stream_state *state)
{
    bool pushed;
    tarn_status status = tn_stream_enter(gpu, stream, &pushed);

    if (status != TARN_OK)
        return status;
    status = look(gpu, stream, want == TN_STREAM_ORDER ? TN_STREAM_GRAPH : want, state);
    tn_gpu_leave(gpu, pushed);
    return status;
}

tarn_status tn_stream_look(struct tn_gpu *gpu, tn_cu_stream stream, enum tn_stream_want want,
                           struct tn_stream_state *state)
{
    *state = (struct tn_stream_state){0};
    if (tn_stream_is_legacy(stream)) {
        state->order.stream_id = legacy_stream_id;
        return TARN_OK;
    }
    return stream == TN_CU_STREAM_PER_THREAD ? look_at_default(gpu, stream, want, state)
                                             : look(gpu, stream, want, state);
}

tarn_status tn_event_create(struct tn_gpu *gpu, tn_cu_stream stream, tn_cu_event *event)
{
    tn_cu_context context = NULL;
    tarn_status status = tn_stream_context(gpu, stream, &context);

    return status == TARN_OK ? tn_context_create_event(gpu, context, event) : status;
}

tarn_status tn_context_create_event(struct tn_gpu *gpu, tn_cu_context context, tn_cu_event *event)
{
    tn_cu_result result;
    bool pushed;
    tarn_status status = tn_gpu_enter(gpu, context, &pushed);

    if (status != TARN_OK)
        return status;
    result = gpu->driver->cuEventCreate(event, TN_CU_EVENT_DISABLE_TIMING);
    tn_gpu_leave(gpu, pushed);
    return tn_gpu_answered(gpu, result, "recording a stream's use", "cuEventCreate");
}

void tn_event_destroy(struct tn_gpu *gpu, tn_cu_event event)
{
    tn_cu_result result = gpu->driver->cuEventDestroy(event);

    if (result != TN_CUDA_ERROR_CONTEXT_IS_DESTROYED) /* the event is gone then */
        tn_gpu_teardown(gpu, result, "cuEventDestroy");
}

bool tn_event_record(struct tn_gpu *gpu, tn_cu_event event, tn_cu_stream stream)
{
    tn_cu_result result;
    bool pushed;

    if (tn_stream_enter(gpu, stream, &pushed) != TARN_OK)
        return false;
    tn_gpu_count(gpu, TN_CALL_RECORD);
    result = gpu->driver->cuEventRecord(event, stream);
    tn_gpu_leave(gpu, pushed);
    if (result != TN_CUDA_SUCCESS)
        (void)tn_gpu_failed(gpu, result, "recording a stream's use", "cuEventRecord");
    return result == TN_CUDA_SUCCESS;
}

bool tn_event_renew(struct tn_gpu *gpu, tn_cu_event *event, tn_cu_stream stream)
{
    for (int tries = 0; tries < 2; tries++) {
        if (*event == NULL && tn_event_create(gpu, stream, event) != TARN_OK)
            return false;
        if (tn_event_record(gpu, *event, stream))
            return true;
        tn_event_destroy(gpu, *event);
        *event = NULL;
    }
    return false;
}

enum tn_event_answer tn_event_query(struct tn_gpu *gpu, tn_cu_event event)
{
    tn_cu_result result;
    int before;

    if (tn_gpu_is_lost(gpu))
        return TN_EVENT_DONE;
    before = tn_gpu_relax(gpu);
    if (before < 0)
        return tn_gpu_is_lost(gpu) ? TN_EVENT_DONE : TN_EVENT_UNKNOWN;
    tn_gpu_count(gpu, TN_CALL_QUERY);
    result = gpu->driver->cuEventQuery(event);
    tn_gpu_unrelax(gpu, before);
    if (result == TN_CUDA_SUCCESS || result == TN_CUDA_ERROR_CONTEXT_IS_DESTROYED)
        return TN_EVENT_DONE; /* no work outlives its context */
    if (result == TN_CUDA_ERROR_NOT_READY)
        return TN_EVENT_NOT_YET;
    (void)tn_gpu_failed(gpu, result, "asking after a stream's use", "cuEventQuery");
    return tn_gpu_is_lost(gpu) ? TN_EVENT_DONE : TN_EVENT_UNKNOWN;
}

tarn_status tn_stream_wait(struct tn_gpu *gpu, tn_cu_stream stream, tn_cu_event event)
{
    tn_cu_result result;
    bool pushed;
    tarn_status status = tn_stream_enter(gpu, stream, &pushed);

    if (status != TARN_OK)
        return status;
    result = gpu->driver->cuStreamWaitEvent(stream, event, 0);
    tn_gpu_leave(gpu, pushed);
    return result == TN_CUDA_SUCCESS || result == TN_CUDA_ERROR_CONTEXT_IS_DESTROYED
               ? TARN_OK /* no work outlives its context */
               : tn_gpu_failed(gpu, result, "ordering a stream", "cuStreamWaitEvent");
}

enum tn_event_answer tn_event_wait(struct tn_gpu *gpu, tn_cu_event event)
{
    tn_cu_result result;
    int before = tn_gpu_relax(gpu);

    if (before < 0)
        return TN_EVENT_UNKNOWN;
    result = gpu->driver->cuEventSynchronize(event);
    tn_gpu_unrelax(gpu, before);
    if (result == TN_CUDA_SUCCESS || result == TN_CUDA_ERROR_CONTEXT_IS_DESTROYED)
        return TN_EVENT_DONE; /* no work outlives its context */
    (void)tn_gpu_failed(gpu, result, "waiting for a stream", "cuEventSynchronize");
    return TN_EVENT_UNKNOWN;
}

tarn_status tn_stream_download(struct tn_gpu *gpu, void *destination, uint64_t source,
                               uint64_t bytes, tn_cu_stream stream)
{
    tn_cu_result result;
    bool pushed;
    tarn_status status = tn_stream_enter_own(gpu, stream, &pushed);

    if (status != TARN_OK)
        return status;
    result = gpu->driver->cuMemcpyDtoHAsync(destination, source, bytes, stream);
    tn_gpu_leave(gpu, pushed);
    return tn_gpu_answered(gpu, result, "copying contents", "cuMemcpyDtoHAsync");
}

tarn_status tn_stream_zero(struct tn_gpu *gpu, uint64_t address, uint64_t bytes,
                           tn_cu_stream stream)
{
    tn_cu_result result;
    bool pushed;
    tarn_status status = tn_stream_enter_own(gpu, stream, &pushed);

    if (status != TARN_OK)
        return status;
    result = gpu->driver->cuMemsetD8Async(address, 0, bytes, stream);
    tn_gpu_leave(gpu, pushed);
    return tn_gpu_answered(gpu, result, "zeroing memory", "cuMemsetD8Async");
}
