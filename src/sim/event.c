// SPDX-License-Identifier: Apache-2.0
/* event.c -- recording, asking and waiting; and with that fork and join of captures.
 *
 * How it works. A record outside captures takes the stream's present moment; nothing is queued for
 * it, except on the legacy stream and those ordered with it, where the moment includes other
 * streams' work. A record in a capture copies the stream's frontier. A wait in a capture adds the
 * event's frontier to the stream's own, and brings a stream that did not capture into the capture.
 *
 * Trade-offs. Timing is not simulated: there is no cuEventElapsedTime. Events external to a capture
 * (flag 1 of cuStreamWaitEvent) are NOT_SUPPORTED in one. */
#include "sim/event.h"

#include <stdlib.h>

#include "sim/capture.h"

#define WAIT_EXTERNAL 1u

static void destroy(struct tn_sim_event *event)
{
    tn_sim_point_clear(&event->point);
    tn_sim_node_set_fini(&event->frontier);
    tn_sim_unregister(&event->object);
    tn_sim.ledger.events--;
    free(event);
}

void tn_sim_events_destroy_all(const struct tn_sim_context *context)
{
    struct tn_sim_event *event;
    while ((event = tn_sim_find_owned(TN_SIM_KIND_EVENT, context)) != NULL)
        destroy(event);
}

tn_cu_result tn_sim_cuEventCreate(tn_cu_event *handle, unsigned int flags)
{
    unsigned int known =
        TN_CU_EVENT_BLOCKING_SYNC | TN_CU_EVENT_DISABLE_TIMING | TN_CU_EVENT_INTERPROCESS;
    if (handle == NULL || (flags & ~known) != 0 ||
        ((flags & TN_CU_EVENT_INTERPROCESS) != 0 && (flags & TN_CU_EVENT_DISABLE_TIMING) == 0))
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_context *context;
    tn_cu_result result = tn_sim_context_current(&context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_event *event = calloc(1, sizeof *event);
    if (event == NULL || !tn_sim_register(&event->object, TN_SIM_KIND_EVENT, context)) {
        free(event);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    tn_sim.ledger.events++;
    *handle = (tn_cu_event)event->object.handle;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuEventDestroy(tn_cu_event handle)
{
    struct tn_sim_event *event = tn_sim_find(TN_SIM_KIND_EVENT, (uintptr_t)handle);
    if (event == NULL)
        return TN_CUDA_ERROR_INVALID_HANDLE;
    tn_cu_result fault = event->object.context->fault;
    destroy(event);
    return fault;
}

/* Finds an event whose context is well. */
static tn_cu_result find(tn_cu_event handle, struct tn_sim_event **event)
{
    *event = tn_sim_find(TN_SIM_KIND_EVENT, (uintptr_t)handle);
    if (*event == NULL)
        return TN_CUDA_ERROR_INVALID_HANDLE;
    return tn_sim_context_health((*event)->object.context);
}

tn_cu_result tn_sim_cuEventRecord(tn_cu_event handle, tn_cu_stream stream_handle)
{
    struct tn_sim_event *event;
    struct tn_sim_stream *stream;
    tn_cu_result result = find(handle, &event);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_stream_admit(stream_handle, &stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (event->object.context != stream->object.context)
        return TN_CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture == NULL) {
        result = tn_sim_queue_mark(stream, &event->point);
        if (result == TN_CUDA_SUCCESS) {
            tn_sim_node_set_fini(&event->frontier);
            event->capture_id = 0;
        }
        return result;
    }
    struct tn_sim_node_set frontier = {0};
    if (!tn_sim_node_set_add_all(&frontier, &stream->frontier)) {
        tn_sim_node_set_fini(&frontier);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    tn_sim_point_clear(&event->point);
    tn_sim_node_set_fini(&event->frontier);
    event->frontier = frontier;
    event->capture_id = stream->capture->id;
    return TN_CUDA_SUCCESS;
}

/* The capture that an event stands in; NULL when it stands in none that is active. */
static struct tn_sim_capture *capture_of(const struct tn_sim_event *event)
{
    struct tn_sim_capture *capture =
        event->capture_id == 0 ? NULL : tn_sim_capture_find(event->capture_id);
    return capture == NULL || tn_sim_capture_invalidated(capture) ? NULL : capture;
}

/* What a query of an event and a wait for it have in common. */
static tn_cu_result ask(tn_cu_event handle, struct tn_sim_event **event)
{
    tn_cu_result result = find(handle, event);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_capture *capture = capture_of(*event);
    if (capture != NULL) {
        tn_sim_capture_invalidate(capture);
        return TN_CUDA_ERROR_CAPTURED_EVENT;
    }
    result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS)
        return result;
    return (*event)->capture_id != 0 ? TN_CUDA_ERROR_INVALID_VALUE : TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuEventQuery(tn_cu_event handle)
{
    struct tn_sim_event *event;
    tn_cu_result result = ask(handle, &event);
    if (result != TN_CUDA_SUCCESS)
        return result;
    return tn_sim_point_reached(&event->point) ? TN_CUDA_SUCCESS : TN_CUDA_ERROR_NOT_READY;
}

tn_cu_result tn_sim_cuEventSynchronize(tn_cu_event handle)
{
    struct tn_sim_event *event;
    tn_cu_result result = ask(handle, &event);
    if (result != TN_CUDA_SUCCESS || event->point.stream == NULL)
        return result;
    const struct tn_sim_context *context = event->object.context;
    /* The event may be recorded anew or destroyed meanwhile: the wait is for this point. */
    struct tn_sim_point point = event->point;
    point.stream->references++;
    tn_sim_point_wait(&point);
    tn_sim_point_clear(&point);
    return tn_sim_context_health(context);
}

/* Waits, outside captures, for an event of an active one: joins it. */
static tn_cu_result join(struct tn_sim_stream *stream, const struct tn_sim_event *event,
                         struct tn_sim_capture *capture)
{
    if (stream->legacy) {
        tn_sim_capture_invalidate(capture);
        return TN_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!tn_sim_node_set_add_all(&stream->frontier, &event->frontier)) {
        tn_sim_node_set_fini(&stream->frontier);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    stream->capture = capture;
    return TN_CUDA_SUCCESS;
}

/* Waits, on a stream of an active capture. */
static tn_cu_result wait_in_capture(struct tn_sim_stream *stream, const struct tn_sim_event *event)
{
    struct tn_sim_capture *theirs = capture_of(event);
    if (theirs == stream->capture)
        return tn_sim_node_set_add_all(&stream->frontier, &event->frontier)
                   ? TN_CUDA_SUCCESS
                   : TN_CUDA_ERROR_OUT_OF_MEMORY;
    if (theirs != NULL) {
        tn_sim_capture_invalidate(theirs);
        tn_sim_capture_invalidate(stream->capture);
        return TN_CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (event->capture_id == 0 && event->point.stream == NULL)
        return TN_CUDA_SUCCESS;
    tn_sim_capture_invalidate(stream->capture);
    return event->capture_id != 0 ? TN_CUDA_ERROR_INVALID_VALUE
                                  : TN_CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
}

tn_cu_result tn_sim_cuStreamWaitEvent(tn_cu_stream stream_handle, tn_cu_event handle,
                                      unsigned int flags)
{
    struct tn_sim_event *event;
    struct tn_sim_stream *stream;
    if ((flags & ~WAIT_EXTERNAL) != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = find(handle, &event);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_stream_admit(stream_handle, &stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if ((flags & WAIT_EXTERNAL) != 0)
        return stream->capture == NULL ? TN_CUDA_ERROR_ILLEGAL_STATE : TN_CUDA_ERROR_NOT_SUPPORTED;
    if (stream->capture != NULL)
        return wait_in_capture(stream, event);
    struct tn_sim_capture *capture = capture_of(event);
    if (capture != NULL)
        return join(stream, event, capture);
    if (event->capture_id != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (tn_sim_point_reached(&event->point))
        return TN_CUDA_SUCCESS;
    return tn_sim_queue_push(stream, NULL, NULL, &event->point);
}
