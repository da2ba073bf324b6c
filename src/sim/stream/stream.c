// SPDX-License-Identifier: Apache-2.0
/* stream.c -- stream objects: their owners, names and ends.
 *
 * How it works. A created stream is owned by its handle. The legacy stream is owned by its context,
 * and made when first used. A per-thread stream is owned by the thread that first named the stream.
 * Closing a stream lets its queued work finish: its worker goes on until then.
 *
 * Trade-offs. A per-thread stream whose context was destroyed is replaced when its thread next
 * names it, not before. */
#include "sim/stream/stream.h"

#include <stdlib.h>

#include "sim/stream/capture.h"
#include "sim/graph/op.h"
#include "sim/stream/clock.h"
#include "sim/graph/user_object.h"

struct tn_sim_stream *tn_sim_all_streams;

static unsigned long long last_id;
static pthread_key_t thread_key; /* its destructor ends the thread's own streams */
static bool thread_key_made;

static const struct tn_sim_stream_calls *served_by;

void tn_sim_streams_serve(const struct tn_sim_stream_calls *calls)
{
    served_by = calls;
}

const struct tn_sim_stream_calls *tn_sim_stream_calls(void)
{
    return served_by;
}

static struct tn_sim_stream *create(struct tn_sim_context *context)
{
    struct tn_sim_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL)
        return NULL;
    stream->object.context = context;
    stream->references = 1;
    stream->id = ++last_id;
    stream->blocking = true;
    pthread_cond_init(&stream->wake, NULL);
    stream->next = tn_sim_all_streams;
    if (stream->next != NULL)
        stream->next->previous = stream;
    tn_sim_all_streams = stream;
    return stream;
}

void tn_sim_stream_release(struct tn_sim_stream *stream)
{
    if (--stream->references > 0)
        return; /* SQ3 */
    if (stream->next != NULL)
        stream->next->previous = stream->previous;
    if (stream->previous != NULL)
        stream->previous->next = stream->next;
    else
        tn_sim_all_streams = stream->next;
    pthread_cond_destroy(&stream->wake);
    tn_sim_node_set_fini(&stream->frontier);
    tn_sim_clock_release(stream->order);
    free(stream->edges);
    free(stream->shown_nodes);
    free(stream->shown_edges);
    free(stream);
}

/* Ends a stream's use; its owner's reference remains. */
static void shut(struct tn_sim_stream *stream)
{
    if (stream->closed)
        return;
    stream->closed = true;
    if (stream->object.handle != 0)
        tn_sim.ledger.streams--;
    tn_sim_unregister(&stream->object);
    tn_sim_capture_leave(stream);
    pthread_cond_signal(&stream->wake);
}

/* Runs at the end of a thread with streams of its own. */
static void thread_ends(void *argument)
{
    struct tn_sim_thread *thread = argument;
    if (!tn_sim_enter_control())
        return;
    while (thread->own_streams != NULL) {
        struct tn_sim_stream *stream = thread->own_streams;
        thread->own_streams = stream->own_next;
        shut(stream);
        tn_sim_stream_release(stream);
    }
    tn_sim_leave();
}

static struct tn_sim_stream *legacy_stream(struct tn_sim_context *context)
{
    if (context->legacy == NULL) {
        context->legacy = create(context);
        if (context->legacy != NULL)
            context->legacy->legacy = true;
    }
    return context->legacy;
}

static struct tn_sim_stream *own_stream(struct tn_sim_context *context)
{
    struct tn_sim_thread *self = tn_sim_self();
    struct tn_sim_stream **own = &self->own_streams;
    while (*own != NULL && ((*own)->closed || (*own)->object.context != context)) {
        struct tn_sim_stream *stream = *own;
        if (!stream->closed) {
            own = &stream->own_next;
            continue;
        }
        *own = stream->own_next;
        tn_sim_stream_release(stream);
    }
    if (*own == NULL) {
        if (!thread_key_made && pthread_key_create(&thread_key, thread_ends) != 0)
            return NULL;
        thread_key_made = true;
        if (pthread_setspecific(thread_key, self) != 0)
            return NULL;
        *own = create(context);
    }
    return *own;
}

tn_cu_result tn_sim_stream_look_up(tn_cu_stream handle, struct tn_sim_stream **stream)
{
    enum tn_sim_defaults defaults = tn_sim_self()->defaults;
    if ((handle == NULL && defaults != TN_SIM_NULL_IS_LEGACY) ||
        (handle == TN_CU_STREAM_LEGACY && defaults == TN_SIM_LEGACY_IS_OWN))
        handle = TN_CU_STREAM_PER_THREAD;
    if (handle != NULL && handle != TN_CU_STREAM_LEGACY && handle != TN_CU_STREAM_PER_THREAD) {
        *stream = tn_sim_find(TN_SIM_KIND_STREAM, (uintptr_t)handle);
        if (*stream == NULL)
            return TN_CUDA_ERROR_INVALID_HANDLE;
        return tn_sim_context_health((*stream)->object.context);
    }
    struct tn_sim_context *context;
    tn_cu_result result = tn_sim_context_current(&context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    *stream = handle == TN_CU_STREAM_PER_THREAD ? own_stream(context) : legacy_stream(context);
    return *stream == NULL ? TN_CUDA_ERROR_OUT_OF_MEMORY : TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_stream_find(tn_cu_stream handle, struct tn_sim_stream **stream)
{
    tn_cu_result result = tn_sim_stream_look_up(handle, stream);
    if (result == TN_CUDA_SUCCESS && (*stream)->legacy &&
        tn_sim_capture_legacy((*stream)->object.context, true))
        return TN_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return result;
}

tn_cu_result tn_sim_stream_find_idle(tn_cu_stream handle, struct tn_sim_stream **stream)
{
    tn_cu_result result = tn_sim_stream_find(handle, stream);
    if (result != TN_CUDA_SUCCESS || (*stream)->capture == NULL)
        return result;
    tn_sim_capture_invalidate((*stream)->capture);
    return TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

tn_cu_result tn_sim_stream_admit(tn_cu_stream handle, struct tn_sim_stream **stream)
{
    tn_cu_result result = tn_sim_stream_find(handle, stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if ((*stream)->capture != NULL && tn_sim_capture_invalidated((*stream)->capture))
        return TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_stream_submit(struct tn_sim_stream *stream, struct tn_sim_op *op)
{
    tn_cu_result result = stream->capture != NULL ? tn_sim_capture_add(stream, op)
                                                  : tn_sim_queue_push(stream, op, NULL, NULL);
    tn_sim_op_release(op);
    return result;
}

void tn_sim_streams_close_all(struct tn_sim_context *context)
{
    struct tn_sim_stream *stream;
    while ((stream = tn_sim_find_owned(TN_SIM_KIND_STREAM, context)) != NULL) {
        shut(stream);
        tn_sim_stream_release(stream);
    }
    /* Streams of threads, which still hold their references. */
    for (stream = tn_sim_all_streams; stream != NULL; stream = stream->next) {
        if (stream->object.context == context)
            shut(stream);
    }
    if (context->legacy != NULL) {
        tn_sim_stream_release(context->legacy);
        context->legacy = NULL;
    }
}

void tn_sim_streams_wake_all(void)
{
    for (struct tn_sim_stream *stream = tn_sim_all_streams; stream != NULL; stream = stream->next)
        pthread_cond_signal(&stream->wake);
}

tn_cu_result tn_sim_cuStreamCreate(tn_cu_stream *handle, unsigned int flags)
{
    return tn_sim_cuStreamCreateWithPriority(handle, flags, 0);
}

tn_cu_result tn_sim_cuStreamCreateWithPriority(tn_cu_stream *handle, unsigned int flags,
                                               int priority)
{
    if (handle == NULL || flags > TN_CU_STREAM_NON_BLOCKING)
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_context *context;
    tn_cu_result result = tn_sim_context_current(&context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_stream *stream = create(context);
    if (stream == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    stream->blocking = flags != TN_CU_STREAM_NON_BLOCKING;
    /* A priority out of range counts as the nearest in range. */
    stream->priority = priority > 0                         ? 0
                       : priority < TN_SIM_HIGHEST_PRIORITY ? TN_SIM_HIGHEST_PRIORITY
                                                            : priority;
    if (!tn_sim_register(&stream->object, TN_SIM_KIND_STREAM, context)) {
        tn_sim_stream_release(stream);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    tn_sim.ledger.streams++;
    *handle = (tn_cu_stream)stream->object.handle;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuStreamDestroy(tn_cu_stream handle)
{
    struct tn_sim_stream *stream = tn_sim_find(TN_SIM_KIND_STREAM, (uintptr_t)handle);
    if (stream == NULL)
        return TN_CUDA_ERROR_INVALID_HANDLE;
    tn_cu_result fault = stream->object.context->fault;
    uint64_t due = tn_sim_reaper_count();
    shut(stream);
    tn_sim_stream_calls()->forgotten(stream);
    tn_sim_stream_release(stream);
    /* the user objects of a dropped capture's graph are gone on return */
    tn_sim_reaper_await(due);
    return fault;
}

tn_cu_result tn_sim_cuStreamGetCtx(tn_cu_stream handle, tn_cu_context *context)
{
    struct tn_sim_stream *stream;
    if (context == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_stream_find(handle, &stream);
    if (result == TN_CUDA_SUCCESS)
        *context = (tn_cu_context)stream->object.context->object.handle;
    return result;
}

tn_cu_result tn_sim_cuStreamGetPriority(tn_cu_stream handle, int *priority)
{
    struct tn_sim_stream *stream;
    if (priority == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_stream_find(handle, &stream);
    if (result == TN_CUDA_SUCCESS)
        *priority = stream->priority;
    return result;
}

tn_cu_result tn_sim_cuStreamGetFlags(tn_cu_stream handle, unsigned int *flags)
{
    struct tn_sim_stream *stream;
    if (flags == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_stream_find_idle(handle, &stream);
    if (result == TN_CUDA_SUCCESS)
        *flags = stream->blocking ? TN_CU_STREAM_DEFAULT : TN_CU_STREAM_NON_BLOCKING;
    return result;
}

/* The common part of a query of a stream and a wait for it. */
static tn_cu_result ask(tn_cu_stream handle, struct tn_sim_stream **stream)
{
    tn_cu_result result = tn_sim_stream_find_idle(handle, stream);
    return result == TN_CUDA_SUCCESS ? tn_sim_capture_unsafe() : result;
}

tn_cu_result tn_sim_cuStreamGetId(tn_cu_stream handle, unsigned long long *id)
{
    struct tn_sim_stream *stream;
    if (id == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_stream_find_idle(handle, &stream);
    if (result == TN_CUDA_SUCCESS)
        *id = stream->id;
    return result;
}

tn_cu_result tn_sim_cuStreamQuery(tn_cu_stream handle)
{
    struct tn_sim_stream *stream;
    tn_cu_result result = ask(handle, &stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (!tn_sim_queue_idle(stream))
        return TN_CUDA_ERROR_NOT_READY;
    tn_sim_clock_known_all(stream);
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuStreamSynchronize(tn_cu_stream handle)
{
    struct tn_sim_stream *stream;
    tn_cu_result result = ask(handle, &stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_point now = {0};
    result = tn_sim_queue_point(stream, &now);
    if (result != TN_CUDA_SUCCESS)
        return result;
    const struct tn_sim_context *context = stream->object.context;
    tn_sim_point_wait(&now);
    tn_sim_stream_calls()->waited(&now);
    tn_sim_point_clear(&now);
    return tn_sim_context_health(context);
}

tn_cu_result tn_sim_cuCtxSynchronize(void)
{
    struct tn_sim_context *context;
    tn_cu_result result = tn_sim_context_current(&context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (tn_sim_capture_kill_all(context))
        return TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    tn_sim_streams_wait_all(context);
    tn_sim_stream_calls()->waited_all(context->device);
    return tn_sim_context_health(context);
}

tn_cu_result tn_sim_cuLaunchHostFunc(tn_cu_stream handle, tn_cu_hostfn function, void *user)
{
    struct tn_sim_stream *stream;
    if (function == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_stream_admit(handle, &stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_op *op = tn_sim_op_create(TN_CU_NODE_HOST, stream->object.context);
    if (op == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    op->host = (struct tn_sim_host_op){.function = function, .user = user};
    return tn_sim_stream_submit(stream, op);
}

tn_cu_result tn_sim_cuStreamAddCallback(tn_cu_stream handle, tn_cu_stream_callback callback,
                                        void *user, unsigned int flags)
{
    struct tn_sim_stream *stream;
    if (callback == NULL || flags != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_stream_find_idle(handle, &stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_op *op = tn_sim_op_create(TN_CU_NODE_HOST, stream->object.context);
    if (op == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    op->host.callback = callback;
    op->host.stream = handle;
    op->host.user = user;
    return tn_sim_stream_submit(stream, op);
}
