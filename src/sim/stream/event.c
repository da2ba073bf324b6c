// SPDX-License-Identifier: Apache-2.0
/* event.c -- recording, asking and waiting; and the fork and join of captures by events.
 *
 * How it works. A record outside captures takes the stream's present moment; nothing is queued for
 * it. The legacy stream and the streams ordered with it are an exception: the moment includes other
 * streams' work there. A record in a capture copies the stream's frontier. A wait in a capture adds
 * the event's frontier to the stream's own, and brings a stream without a capture into the capture.
 *
 * An event with timing whose moment is still to come waits in a list of the moment's stream. The
 * stream's worker notes the time when the work before the moment is done, once for all events whose
 * moments come then. This happens under the lock: times rise with every order that a program can
 * know of. With costs (cost.h) the time of a moment is the account's time at the call that records,
 * since device work takes no time of the account.
 *
 * Trade-offs. Times are the simulator's own. They tell an order, and with costs the time of calls,
 * not how long a GPU takes. */
#include "sim/stream/event.h"

#include <stdlib.h>
#include <time.h>

#include "sim/stream/capture.h"
#include "sim/core/cost.h"
#include "sim/graph/op.h"
#include "sim/stream/clock.h"

/* The events for other processes that a process may have at a time, as measured. */
#define MOST_INTERPROCESS 4096

static unsigned int interprocess_events;

/* The same flag for a record and for a wait: the event itself is meant, not its place in a
 * capture. */
#define EXTERNAL TN_CU_EVENT_RECORD_EXTERNAL
_Static_assert(TN_CU_EVENT_RECORD_EXTERNAL == TN_CU_EVENT_WAIT_EXTERNAL, "the same flag");

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Forgets the moment that an event stands for. */
static void forget_point(struct tn_sim_event *event)
{
    if (event->awaits_time) {
        struct tn_sim_event **link = &event->point.stream->timed;
        while (*link != event)
            link = &(*link)->timed_next;
        *link = event->timed_next;
    }
    event->awaits_time = false;
    tn_sim_point_clear(&event->point);
}

/* Lets an event stand for a moment, whose reference it takes over. */
static void take_point(struct tn_sim_event *event, struct tn_sim_point point)
{
    forget_point(event);
    event->point = point;
    if (!event->timing || tn_sim_cost_time(&event->time_ns))
        return;
    event->time_ns = now_ns();
    if (tn_sim_point_reached(&point))
        return;
    event->awaits_time = true;
    event->timed_next = point.stream->timed;
    point.stream->timed = event;
}

void tn_sim_events_reached(struct tn_sim_stream *stream)
{
    struct tn_sim_event **link = &stream->timed;
    uint64_t now = *link == NULL ? 0 : now_ns();
    while (*link != NULL) {
        struct tn_sim_event *event = *link;
        if (tn_sim_point_reached(&event->point)) {
            event->time_ns = now;
            event->awaits_time = false;
            *link = event->timed_next;
        } else {
            link = &event->timed_next;
        }
    }
}

struct tn_sim_event *tn_sim_event_acquire(struct tn_sim_event *event)
{
    event->references++;
    return event;
}

void tn_sim_event_release(struct tn_sim_event *event)
{
    if (--event->references > 0)
        return;
    forget_point(event);
    tn_sim_node_set_fini(&event->frontier);
    free(event);
}

static void give_up(struct tn_sim_op *op)
{
    tn_sim_event_release(op->event);
}

void tn_sim_event_name(struct tn_sim_op *op, struct tn_sim_event *event)
{
    op->event = tn_sim_event_acquire(event);
    op->give_up = give_up;
}

static void destroy(struct tn_sim_event *event)
{
    if (event->object.context != &tn_sim_nowhere)
        interprocess_events -= event->interprocess;
    tn_sim_unregister(&event->object);
    if (event->object.context != &tn_sim_nowhere)
        tn_sim.ledger.events--;
    tn_sim_event_release(event);
}

void tn_sim_events_abandon_all(const struct tn_sim_context *context)
{
    struct tn_sim_event *event;
    while ((event = tn_sim_find_owned(TN_SIM_KIND_EVENT, context)) != NULL) {
        event->object.context = &tn_sim_nowhere;
        interprocess_events -= event->interprocess;
        tn_sim.ledger.events--;
        forget_point(event);
    }
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
    if ((flags & TN_CU_EVENT_INTERPROCESS) != 0 && interprocess_events >= MOST_INTERPROCESS)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    struct tn_sim_event *event = calloc(1, sizeof *event);
    if (event == NULL || !tn_sim_register(&event->object, TN_SIM_KIND_EVENT, context)) {
        free(event);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    event->references = 1;
    event->timing = (flags & TN_CU_EVENT_DISABLE_TIMING) == 0;
    event->interprocess = (flags & TN_CU_EVENT_INTERPROCESS) != 0;
    interprocess_events += event->interprocess;
    tn_sim.ledger.events++;
    *handle = (tn_cu_event)event->object.handle;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuEventDestroy(tn_cu_event handle)
{
    struct tn_sim_event *event = tn_sim_find(TN_SIM_KIND_EVENT, (uintptr_t)handle);
    if (event == NULL)
        return TN_CUDA_ERROR_INVALID_HANDLE;
    tn_cu_result fault = tn_sim_context_health(event->object.context);
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

/* Adds the node of an event to the capture of a stream, which must be in one. */
static tn_cu_result add_node(struct tn_sim_stream *stream, struct tn_sim_event *event,
                             tn_cu_graphnode_type type)
{
    if (stream->capture == NULL)
        return TN_CUDA_ERROR_ILLEGAL_STATE;
    struct tn_sim_op *op = tn_sim_op_create(type, stream->object.context);
    if (op == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    tn_sim_event_name(op, event);
    return tn_sim_stream_submit(stream, op);
}

/* Lets an event stand for the present frontier of its stream's capture. STREAM_CAPTURE_UNSUPPORTED:
 * another process could not follow a capture. OUT_OF_MEMORY. */
static tn_cu_result record_in_capture(struct tn_sim_event *event,
                                      const struct tn_sim_stream *stream)
{
    struct tn_sim_node_set frontier = {0};
    if (event->interprocess)
        return TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (!tn_sim_node_set_add_all(&frontier, &stream->frontier)) {
        tn_sim_node_set_fini(&frontier);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    forget_point(event);
    tn_sim_node_set_fini(&event->frontier);
    event->frontier = frontier;
    event->capture_id = stream->capture->id;
    return TN_CUDA_SUCCESS;
}

/* Finds an event and a stream, whose capture is not broken, for a call with flags. */
static tn_cu_result find_both(tn_cu_event handle, tn_cu_stream stream_handle, unsigned int flags,
                              struct tn_sim_event **event, struct tn_sim_stream **stream)
{
    tn_cu_result result = find(handle, event);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_stream_admit(stream_handle, stream);
    if (result == TN_CUDA_SUCCESS && (flags & ~(unsigned int)EXTERNAL) != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    return result;
}

tn_cu_result tn_sim_cuEventRecord(tn_cu_event handle, tn_cu_stream stream)
{
    return tn_sim_cuEventRecordWithFlags(handle, stream, 0);
}

tn_cu_result tn_sim_cuEventRecordWithFlags(tn_cu_event handle, tn_cu_stream stream_handle,
                                           unsigned int flags)
{
    struct tn_sim_event *event;
    struct tn_sim_stream *stream;
    tn_cu_result result = find_both(handle, stream_handle, flags, &event, &stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (flags == TN_CU_EVENT_RECORD_EXTERNAL)
        return add_node(stream, event, TN_CU_NODE_EVENT_RECORD);
    if (event->object.context != stream->object.context)
        return TN_CUDA_ERROR_INVALID_HANDLE;
    return stream->capture == NULL ? tn_sim_event_replayed(event, stream)
                                   : record_in_capture(event, stream);
}

tn_cu_result tn_sim_event_replayed(struct tn_sim_event *event, struct tn_sim_stream *stream)
{
    struct tn_sim_point point = {0};
    tn_cu_result result = tn_sim_queue_point(stream, &point);
    if (result != TN_CUDA_SUCCESS)
        return result;
    take_point(event, point);
    tn_sim_node_set_fini(&event->frontier);
    event->capture_id = 0;
    return TN_CUDA_SUCCESS;
}

/* The active capture in which an event stands, or NULL. */
static struct tn_sim_capture *capture_of(const struct tn_sim_event *event)
{
    struct tn_sim_capture *capture =
        event->capture_id == 0 ? NULL : tn_sim_capture_find(event->capture_id);
    return capture == NULL || tn_sim_capture_invalidated(capture) ? NULL : capture;
}

/* The common part of a query of an event and a wait for it. */
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
    if ((*event)->capture_id != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    return tn_sim_capture_unsafe();
}

/* The answers of queries: see tarn_sim_set_queries. */
static enum { QUERIES_TRUE, QUERIES_NOT_READY, QUERIES_DONE } queries;

void tarn_sim_set_queries(int how)
{
    if (!tn_sim_enter_control())
        return;
    queries = how == 1 ? QUERIES_NOT_READY : how == 2 ? QUERIES_DONE : QUERIES_TRUE;
    tn_sim_leave();
}

tn_cu_result tn_sim_cuEventQuery(tn_cu_event handle)
{
    struct tn_sim_event *event;
    tn_cu_result result = ask(handle, &event);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (queries == QUERIES_DONE && tn_sim.held == 0)
        return tn_sim_cuEventSynchronize(handle);
    if (queries == QUERIES_NOT_READY || !tn_sim_point_reached(&event->point))
        return TN_CUDA_ERROR_NOT_READY;
    tn_sim_clock_known(&event->point);
    return TN_CUDA_SUCCESS;
}

/* Whether an event has a time, or will have a time. */
static tn_cu_result ask_time(const struct tn_sim_event *event)
{
    if (capture_of(event) != NULL)
        return TN_CUDA_ERROR_CAPTURED_EVENT;
    if (event->capture_id != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    return event->timing && event->point.stream != NULL ? TN_CUDA_SUCCESS
                                                        : TN_CUDA_ERROR_INVALID_HANDLE;
}

tn_cu_result tn_sim_cuEventElapsedTime(float *milliseconds, tn_cu_event start_handle,
                                       tn_cu_event end_handle)
{
    struct tn_sim_event *start;
    struct tn_sim_event *end;
    tn_cu_result result = find(start_handle, &start);
    if (result == TN_CUDA_SUCCESS)
        result = find(end_handle, &end);
    if (result == TN_CUDA_SUCCESS && milliseconds == NULL) /* as the driver answers */
        return TN_CUDA_ERROR_INVALID_HANDLE;
    if (result == TN_CUDA_SUCCESS)
        result = ask_time(start);
    if (result == TN_CUDA_SUCCESS)
        result = ask_time(end);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (start->object.context != end->object.context)
        return TN_CUDA_ERROR_INVALID_HANDLE;
    if (!tn_sim_point_reached(&start->point) || !tn_sim_point_reached(&end->point))
        return TN_CUDA_ERROR_NOT_READY;
    *milliseconds = (float)((double)(int64_t)(end->time_ns - start->time_ns) / 1e6);
    return TN_CUDA_SUCCESS;
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
    tn_sim_stream_calls()->waited(&point);
    tn_sim_point_clear(&point);
    return tn_sim_context_health(context);
}

/* Waits, outside captures, for an event of an active capture: joins the capture. */
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
    if (event->interprocess)
        return TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return event->capture_id != 0 ? TN_CUDA_ERROR_INVALID_VALUE
                                  : TN_CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
}

/* Adds a node that waits for an event. No stream can wait for an event whose capture has ended or
 * is invalid. This check comes before the stream's own state, and breaks the stream's capture. */
static tn_cu_result wait_external(struct tn_sim_stream *stream, struct tn_sim_event *event)
{
    if (event->capture_id == 0 || capture_of(event) != NULL)
        return add_node(stream, event, TN_CU_NODE_WAIT_EVENT);
    if (stream->capture != NULL)
        tn_sim_capture_invalidate(stream->capture);
    return TN_CUDA_ERROR_INVALID_VALUE;
}

tn_cu_result tn_sim_cuStreamWaitEvent(tn_cu_stream stream_handle, tn_cu_event handle,
                                      unsigned int flags)
{
    struct tn_sim_event *event;
    struct tn_sim_stream *stream;
    tn_cu_result result = find_both(handle, stream_handle, flags, &event, &stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (flags == TN_CU_EVENT_WAIT_EXTERNAL)
        return wait_external(stream, event);
    if (stream->capture != NULL)
        return wait_in_capture(stream, event);
    struct tn_sim_capture *capture = capture_of(event);
    if (capture != NULL)
        return join(stream, event, capture);
    if (event->capture_id != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_sim_queue_hear(stream, &event->point);
    tn_sim_clock_follow(stream, &event->point);
    if (tn_sim_point_reached(&event->point))
        return TN_CUDA_SUCCESS;
    return tn_sim_queue_push(stream, NULL, NULL, &event->point);
}
