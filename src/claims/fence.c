// SPDX-License-Identifier: Apache-2.0
/* Known streams and their fences.
 *
 * A stream's fences are in the order of its work. A poll therefore asks only after the oldest
 * recorded fence. When a fence is done, all older ones are, too, including fences whose event the
 * driver refused.
 *
 * Frees of one epoch enter one fence. A wait for the device that began later then ends all of them.
 * Some fences cannot be recorded, because the stream's thread is gone or its capture never ends:
 * later frees do not keep them from ending.
 *
 * A call on a stream, except cuStreamIsCapturing, crashes the driver in one situation:
 *
 *     the stream's own thread                 another thread
 *     begins or ends a capture of it          any call on the stream at this moment
 *
 * A fence is therefore recorded only on the thread that named the stream last, which cannot be
 * capturing at this moment. On other threads the fence stays open. A program may still use the
 * stream on two threads. After the recording the stream is therefore looked at again: the event may
 * belong to a capture, and a query of it would break the capture. For the legacy stream nothing can
 * be done: a program which captures a blocking stream while it uses the legacy stream breaks the
 * capture by its own calls.
 *
 * A stream of a context which the program made may lose the context after its retirement, and its
 * events with it. The driver then reports a destroyed context: the work before these events has
 * ended.
 *
 * Trade-offs: events are made and given back when a stream's last use ends. */
#include "claims/fence.h"

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "base/note.h"
#include "base/thread.h"
#include "driver/foreign.h"

/* The most frees which a single event covers: memory comes back in portions. */
enum { USES_MAX = 64 };

void tn_streams_init(struct tn_streams *streams, struct tn_gpu *gpu)
{
    *streams = (struct tn_streams){.gpu = gpu};
    tn_lock_init(&streams->lock, TN_RANK_STREAMS);
}

void tn_streams_fini(struct tn_streams *streams)
{
    TN_ASSERT(streams->known_count == 0);
    tn_stream_table_fini(&streams->table);
    tn_lock_fini(&streams->lock);
}

static void set_state(struct tn_fence *fence, enum tn_fence_state state)
{
    atomic_store_explicit(&fence->state, (int)state, memory_order_release);
}

bool tn_fence_is_done(const struct tn_streams *streams, const struct tn_fence *fence)
{
    return tn_fence_state_of(fence) == TN_FENCE_DONE ||
           tn_gpu_is_proven(streams->gpu, atomic_load(&fence->stamp));
}

/* From here on the lock is held, except in the functions of the header. */

static tarn_status make_fence(struct tn_streams *streams, struct tn_known_stream *stream,
                              struct tn_fence **fence)
{
    struct tn_fence *made = tn_host_alloc(1, sizeof *made);
    tarn_status status;

    TN_ASSERT(tn_lock_is_held(&streams->lock));
    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to record a stream's use");
    status = tn_context_create_event(streams->gpu, stream->context, &made->event);
    if (status != TARN_OK) {
        tn_host_free(made);
        return status;
    }
    made->stream = stream;
    *fence = made;
    return TARN_OK;
}

static void end_event(struct tn_streams *streams, struct tn_fence *fence)
{
    TN_ASSERT(tn_lock_is_held(&streams->lock));
    if (fence->event != NULL)
        tn_event_destroy(streams->gpu, fence->event);
    fence->event = NULL;
}

static void end_fence(struct tn_streams *streams, struct tn_fence *fence)
{
    TN_ASSERT(fence->ref_count == 0);
    end_event(streams, fence);
    tn_host_free(fence);
}

static void set_aside(struct tn_fence *fence)
{
    struct tn_known_stream *stream = fence->stream;

    TN_ASSERT(fence->ref_count == 0 && fence->event != NULL); /* P11 */
    fence->next = stream->reserve;
    stream->reserve = fence;
    stream->reserve_count += 1;
}

static struct tn_fence *take_reserve(struct tn_known_stream *stream)
{
    struct tn_fence *fence = stream->reserve;

    TN_ASSERT(fence != NULL); /* P11 */
    stream->reserve = fence->next;
    stream->reserve_count -= 1;
    return fence;
}

static void trim_reserve(struct tn_streams *streams, struct tn_known_stream *stream, uint64_t left)
{
    TN_ASSERT(tn_lock_is_held(&streams->lock));
    TN_ASSERT(stream->retired || left >= stream->noted_count || stream->ref_count == 0); /* P11 */
    while (stream->reserve_count > left)
        end_fence(streams, take_reserve(stream));
}

/* The calling thread names the stream: from here on only this thread uses the handle. Called after
 * the last step that can fail: a thread whose call fails may never call again. */
static void name(struct tn_known_stream *stream)
{
    stream->thread = tn_stream_is_legacy(stream->handle) ? 0 : tn_thread_id();
}

static tarn_status get(struct tn_streams *streams, tn_cu_stream handle, uint64_t id,
                       struct tn_known_stream **stream)
{
    struct tn_known_stream *found = tn_stream_table_find(&streams->table, id);
    tarn_status status;

    TN_ASSERT(tn_lock_is_held(&streams->lock));
    if (found == NULL) {
        found = tn_host_alloc(1, sizeof *found);
        if (found == NULL)
            return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to record a stream's use");
        found->id = id;
        found->handle = handle;
        status = tn_stream_context(streams->gpu, handle, &found->context);
        if (status == TARN_OK)
            status = tn_gpu_meet_context(streams->gpu, found->context);
        if (status != TARN_OK) {
            tn_host_free(found);
            return status;
        }
        name(found);
        streams->known_count += 1;
        tn_stream_table_enter(&streams->table, found, streams->known_count);
    }
    found->ref_count += 1;
    *stream = found;
    return TARN_OK;
}

/* Ends a reference; the last reference ends the stream's record. */
static void put(struct tn_streams *streams, struct tn_known_stream *stream)
{
    TN_ASSERT(stream->ref_count > 0);
    stream->ref_count -= 1;
    if (stream->ref_count > 0)
        return;
    TN_ASSERT(stream->noted_count == 0);
    trim_reserve(streams, stream, 0);
    if (stream->retire_fence != NULL)
        end_fence(streams, stream->retire_fence);
    tn_stream_table_leave(&streams->table, stream);
    streams->known_count -= 1;
    tn_host_free(stream);
}

static void acquire(struct tn_fence *fence)
{
    TN_ASSERT(fence->stream->ref_count > 0);
    fence->ref_count += 1;
    fence->stream->ref_count += 1;
}

static void append(struct tn_streams *streams, struct tn_fence *fence)
{
    struct tn_known_stream *stream = fence->stream;

    TN_ASSERT(tn_fence_state_of(fence) == TN_FENCE_OPEN); /* P12 */
    fence->next = NULL;
    fence->previous = stream->last;
    if (stream->last != NULL)
        stream->last->next = fence;
    else
        stream->first = fence;
    stream->last = fence;
    if (stream->first_open == NULL)
        stream->first_open = fence;
    tn_stream_table_note_waiting(&streams->table, stream);
}

/* Takes a fence out of the stream's list. One that was not appended yet, or is DONE, is not there. */
static void unlink_fence(struct tn_streams *streams, struct tn_fence *fence)
{
    struct tn_known_stream *stream = fence->stream;

    if (fence->previous == NULL && stream->first != fence)
        return;
    if (fence->previous != NULL)
        fence->previous->next = fence->next;
    else
        stream->first = fence->next;
    if (fence->next != NULL)
        fence->next->previous = fence->previous;
    else
        stream->last = fence->previous;
    if (stream->first_open == fence)
        stream->first_open = fence->next;
    fence->next = NULL;
    fence->previous = NULL;
    tn_stream_table_note_waiting(&streams->table, stream);
}

/* Finishes the stream's oldest fence. */
static void finish_first(struct tn_streams *streams, struct tn_known_stream *stream)
{
    struct tn_fence *fence = stream->first;

    TN_ASSERT(tn_lock_is_held(&streams->lock));
    TN_ASSERT(fence != NULL);
    unlink_fence(streams, fence);
    end_event(streams, fence); /* a block may keep the fence for long */
    set_state(fence, TN_FENCE_DONE);
    streams->done_count += 1;
    tn_note_write(streams->history, TN_NOTE_FENCE_DONE, 0, TN_OPERANDS(stream->id));
}

/* Records an open fence of a stream whose handle may be used. */
static void record(struct tn_streams *streams, struct tn_fence *fence)
{
    tn_cu_stream handle = fence->stream->handle;
    bool recorded = tn_event_record(streams->gpu, fence->event, handle);

    TN_ASSERT(tn_lock_is_held(&streams->lock));
    TN_ASSERT(fence->event != NULL);
    if (recorded && !tn_stream_is_legacy(handle) && tn_stream_is_closed(streams->gpu, handle))
        recorded = false; /* the event may have become part of a capture */
    set_state(fence, recorded ? TN_FENCE_RECORDED : TN_FENCE_UNKNOWN);
    if (recorded)
        tn_note_write(streams->history, TN_NOTE_FENCE_RECORDED, 0, TN_OPERANDS(fence->stream->id));
}

static bool is_open_to_us(struct tn_streams *streams, const struct tn_known_stream *stream)
{
    return !stream->retired && (stream->thread == 0 || stream->thread == tn_thread_id()) &&
           !tn_stream_is_closed(streams->gpu, stream->handle);
}

static void flush(struct tn_streams *streams, struct tn_known_stream *stream)
{
    TN_ASSERT(tn_lock_is_held(&streams->lock));
    if (stream->first_open == NULL || !is_open_to_us(streams, stream))
        return;
    for (struct tn_fence *fence = stream->first_open; fence != NULL; fence = fence->next)
        record(streams, fence);
    stream->first_open = NULL;
}

static void poll_stream(struct tn_streams *streams, struct tn_known_stream *stream)
{
    struct tn_fence *fence;

    TN_ASSERT(tn_lock_is_held(&streams->lock));
    flush(streams, stream);
    while (stream->first != NULL && tn_fence_is_done(streams, stream->first))
        finish_first(streams, stream);
    for (fence = stream->first; fence != NULL;) {
        enum tn_event_answer answer = TN_EVENT_UNKNOWN;

        if (tn_fence_state_of(fence) == TN_FENCE_OPEN)
            return;
        if (tn_fence_state_of(fence) == TN_FENCE_RECORDED)
            answer = tn_event_query(streams->gpu, fence->event);
        if (answer == TN_EVENT_NOT_YET)
            return;
        if (answer == TN_EVENT_DONE) {
            struct tn_fence *next = fence->next;

            while (stream->first != next)
                finish_first(streams, stream);
            fence = next;
        } else {
            set_state(fence, TN_FENCE_UNKNOWN);
            fence = fence->next;
        }
    }
}

/* The fence which a free enters. */
static struct tn_fence *open_fence(struct tn_streams *streams, struct tn_known_stream *stream)
{
    uint64_t epoch = tn_gpu_epoch(streams->gpu);
    struct tn_fence *fence = stream->last;

    TN_ASSERT(tn_lock_is_held(&streams->lock));
    TN_ASSERT(stream->noted_count > 0);
    if (stream->retired)
        return stream->retire_fence;
    if (fence != NULL && tn_fence_state_of(fence) == TN_FENCE_OPEN && fence->use_count < USES_MAX &&
        atomic_load(&fence->stamp) == epoch)
        return fence;
    fence = take_reserve(stream);
    set_state(fence, TN_FENCE_OPEN);
    atomic_store(&fence->stamp, epoch);
    fence->use_count = 0;
    append(streams, fence);
    return fence;
}

/* Notes another use, and keeps P11. */
static tarn_status note(struct tn_streams *streams, struct tn_known_stream *stream)
{
    struct tn_fence *fence = NULL;

    TN_ASSERT(tn_lock_is_held(&streams->lock));
    TN_ASSERT(!stream->retired);
    if (stream->reserve_count <= stream->noted_count) {
        tarn_status status = make_fence(streams, stream, &fence);

        if (status != TARN_OK)
            return status;
        set_aside(fence);
    }
    stream->noted_count += 1;
    return TARN_OK;
}

tarn_status tn_streams_note(struct tn_streams *streams, tn_cu_stream handle, uint64_t id,
                            struct tn_known_stream **stream)
{
    struct tn_known_stream *found = NULL;
    tarn_status status;

    tn_lock_acquire(&streams->lock);
    status = get(streams, handle, id, &found);
    if (status == TARN_OK) {
        status = note(streams, found);
        if (status == TARN_OK) {
            name(found);
            *stream = found;
        } else {
            put(streams, found);
        }
    }
    tn_lock_release(&streams->lock);
    return status;
}

tarn_status tn_streams_copy_note(struct tn_streams *streams, struct tn_known_stream *stream,
                                 bool *noted)
{
    tarn_status status = TARN_OK;

    tn_lock_acquire(&streams->lock);
    *noted = !stream->retired;
    if (*noted)
        status = note(streams, stream);
    if (*noted && status == TARN_OK)
        stream->ref_count += 1;
    tn_lock_release(&streams->lock);
    return status;
}

/* Ends a noted use. */
static void end_noted(struct tn_streams *streams, struct tn_known_stream *stream)
{
    TN_ASSERT(stream->noted_count > 0);
    stream->noted_count -= 1;
    trim_reserve(streams, stream, stream->retired ? 0 : stream->noted_count);
}

void tn_streams_unnote(struct tn_streams *streams, struct tn_known_stream *stream)
{
    tn_lock_acquire(&streams->lock);
    end_noted(streams, stream);
    put(streams, stream);
    tn_lock_release(&streams->lock);
}

struct tn_fence *tn_streams_enter_fence(struct tn_streams *streams, struct tn_known_stream *stream)
{
    struct tn_fence *fence;

    tn_lock_acquire(&streams->lock);
    fence = open_fence(streams, stream);
    acquire(fence);
    fence->use_count += 1;
    end_noted(streams, stream);
    put(streams, stream); /* the fence's reference keeps it */
    if (stream->first == stream->last || fence->use_count == USES_MAX)
        flush(streams, stream);
    tn_lock_release(&streams->lock);
    return fence;
}

bool tn_streams_name(struct tn_streams *streams, struct tn_known_stream *stream)
{
    bool named;

    tn_lock_acquire(&streams->lock);
    named = !stream->retired;
    if (named)
        name(stream);
    tn_lock_release(&streams->lock);
    return named;
}

void tn_streams_acquire(struct tn_streams *streams, struct tn_known_stream *stream)
{
    tn_lock_acquire(&streams->lock);
    TN_ASSERT(stream->ref_count > 0);
    stream->ref_count += 1;
    tn_lock_release(&streams->lock);
}

void tn_streams_release(struct tn_streams *streams, struct tn_known_stream *stream)
{
    tn_lock_acquire(&streams->lock);
    put(streams, stream);
    tn_lock_release(&streams->lock);
}

void tn_fence_acquire(struct tn_streams *streams, struct tn_fence *fence)
{
    tn_lock_acquire(&streams->lock);
    acquire(fence);
    tn_lock_release(&streams->lock);
}

static void release(struct tn_streams *streams, struct tn_fence *fence)
{
    struct tn_known_stream *stream = fence->stream;

    TN_ASSERT(tn_lock_is_held(&streams->lock));
    TN_ASSERT(fence->ref_count > 0);
    fence->ref_count -= 1;
    if (fence->ref_count == 0 && fence != stream->retire_fence) {
        unlink_fence(streams, fence);
        end_fence(streams, fence);
    }
    put(streams, stream);
}

void tn_fence_release(struct tn_streams *streams, struct tn_fence *fence)
{
    tn_lock_acquire(&streams->lock);
    release(streams, fence);
    tn_lock_release(&streams->lock);
}

bool tn_fence_flush(struct tn_streams *streams, struct tn_fence *fence)
{
    enum tn_fence_state state;

    tn_lock_acquire(&streams->lock);
    TN_ASSERT(fence->ref_count > 0);
    flush(streams, fence->stream);
    state = tn_fence_state_of(fence);
    tn_lock_release(&streams->lock);
    return state == TN_FENCE_RECORDED || state == TN_FENCE_DONE;
}

bool tn_streams_can_record(struct tn_streams *streams, const struct tn_known_stream *stream)
{
    bool can;

    tn_lock_acquire(&streams->lock);
    can = is_open_to_us(streams, stream);
    tn_lock_release(&streams->lock);
    return can;
}

bool tn_fence_follow(struct tn_streams *streams, const struct tn_fence *fence, tn_cu_stream stream)
{
    bool follows;

    tn_lock_acquire(&streams->lock);
    TN_ASSERT(fence->ref_count > 0);
    follows = tn_fence_is_done(streams, fence) ||
              (tn_fence_state_of(fence) == TN_FENCE_RECORDED &&
               tn_stream_wait(streams->gpu, stream, fence->event) == TARN_OK);
    tn_lock_release(&streams->lock);
    return follows;
}

void tn_streams_poll(struct tn_streams *streams)
{
    struct tn_known_stream *next;

    tn_lock_acquire(&streams->lock);
    for (struct tn_known_stream *stream = streams->table.waiting; stream != NULL; stream = next) {
        next = stream->waiting_next;
        poll_stream(streams, stream);
    }
    tn_lock_release(&streams->lock);
}

tarn_status tn_streams_retire_prepare(struct tn_streams *streams, tn_cu_stream handle, uint64_t id,
                                      struct tn_fence **fence)
{
    struct tn_known_stream *stream = NULL;
    struct tn_fence *made;
    tarn_status status;

    tn_lock_acquire(&streams->lock);
    status = get(streams, handle, id, &stream);
    if (status == TARN_OK) {
        status = make_fence(streams, stream, &made);
        if (status == TARN_OK) {
            /* No wait proves the fence before it is recorded. */
            atomic_store(&made->stamp, UINT64_MAX);
            acquire(made);
            *fence = made;
        }
        put(streams, stream);
    }
    tn_lock_release(&streams->lock);
    return status;
}

void tn_streams_retire_commit(struct tn_streams *streams, struct tn_fence *fence)
{
    struct tn_known_stream *stream = fence->stream;

    tn_lock_acquire(&streams->lock);
    TN_ASSERT(!stream->retired && stream->retire_fence == NULL);
    name(stream);
    flush(streams, stream);
    /* Otherwise nobody would wait for the fence. */
    if (fence->ref_count > 1 || stream->noted_count > 0) {
        append(streams, fence);
        flush(streams, stream);
        atomic_store(&fence->stamp, tn_gpu_epoch(streams->gpu));
    }
    /* Only a wait proves fences that could not be recorded. */
    for (struct tn_fence *left = stream->first_open; left != NULL; left = left->next)
        set_state(left, TN_FENCE_UNKNOWN);
    stream->first_open = NULL;
    tn_stream_table_retire(&streams->table, stream);
    stream->retired = true;
    stream->retire_fence = fence;
    tn_note_write(streams->history, TN_NOTE_STREAM_RETIRED, 0, TN_OPERANDS(stream->id));
    trim_reserve(streams, stream, 0);
    release(streams, fence);
    tn_lock_release(&streams->lock);
}
