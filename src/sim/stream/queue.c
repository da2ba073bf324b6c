// SPDX-License-Identifier: Apache-2.0
/* queue.c -- the work of streams, the workers that do it, and waiting.
 *
 * How it works. A worker sleeps on its stream's own condition while the queue is empty, and on the
 * common condition while the oldest work may not start. Either the simulated GPU is held, or a
 * point before the work is not reached. Work stays in the queue until done. The head is therefore
 * the running work, and its ticket is the stream's oldest unfinished ticket. Work gives up all its
 * references before its ticket counts as finished: after a wait for the work the ledger is settled.
 *
 * Work of a faulted context is passed over, host functions included.
 *
 * A stream remembers how far it has waited for a few other streams. After a wait for this stream
 * the driver knows that their work is done too.
 *
 * Trade-offs. A thread for each stream, not a pool: a kernel may wait for a kernel of another
 * stream. With a pool, enough streams would make this wait endless. Every finished work wakes
 * everyone who waits. */
#include <stdlib.h>

#include "sim/stream/event.h"
#include "sim/stream/guard.h"
#include "sim/graph/op.h"
#include "sim/stream/clock.h"
#include "sim/stream/stream.h"

struct tn_sim_work {
    struct tn_sim_work *next;
    uint64_t ticket;
    struct tn_sim_op *op;    /* referenced; or NULL */
    struct tn_sim_part part; /* referenced; its executable graph is NULL without a part */
    uint64_t seen;           /* by which search of tn_sim_queue_follows */
    size_t point_count;
    struct tn_sim_point points[]; /* to be reached before the work starts */
};

static uint64_t last_ticket;

void tn_sim_point_clear(struct tn_sim_point *point)
{
    if (point->stream != NULL)
        tn_sim_stream_release(point->stream);
    *point = (struct tn_sim_point){0};
}

bool tn_sim_point_reached(const struct tn_sim_point *point)
{
    return point->stream == NULL || point->stream->finished >= point->ticket;
}

static struct tn_sim_point present(struct tn_sim_stream *stream)
{
    stream->references++;
    return (struct tn_sim_point){.stream = stream, .ticket = stream->queued};
}

/* Asks whether new work of a stream must wait for the queued work of another (SQ2). */
static bool comes_after(const struct tn_sim_stream *stream, const struct tn_sim_stream *other)
{
    return other != stream && other->object.context == stream->object.context &&
           other->finished < other->queued &&
           ((stream->legacy && other->blocking) || (stream->blocking && other->legacy));
}

static size_t count_implicit(const struct tn_sim_stream *stream)
{
    size_t count = 0;
    if (!stream->blocking)
        return 0;
    for (const struct tn_sim_stream *other = tn_sim_all_streams; other != NULL; other = other->next)
        count += comes_after(stream, other);
    return count;
}

static void perform(const struct tn_sim_work *work)
{
    if (work->part.exec != NULL)
        tn_sim_stream_calls()->part_run(&work->part);
    else if (work->op != NULL)
        tn_sim_stream_calls()->op_run(work->op);
}

static bool may_start(const struct tn_sim_work *work)
{
    if (tn_sim.held > 0 || (tn_sim.pace == TN_SIM_AWAITED && tn_sim.waits == 0))
        return false;
    for (size_t i = 0; i < work->point_count; i++) {
        if (!tn_sim_point_reached(&work->points[i]))
            return false;
    }
    return true;
}

/* Frees work that is done or will never run. */
static void dispose(struct tn_sim_work *work)
{
    for (size_t i = 0; i < work->point_count; i++)
        tn_sim_point_clear(&work->points[i]);
    if (work->op != NULL)
        tn_sim_op_release(work->op);
    if (work->part.exec != NULL)
        tn_sim_stream_calls()->part_release(&work->part);
    free(work);
}

static void *worker(void *argument)
{
    struct tn_sim_stream *stream = argument;
    pthread_mutex_lock(&tn_sim.lock);
    while (!tn_sim.stopping) {
        struct tn_sim_work *work = stream->head;
        if (work == NULL && stream->closed)
            break;
        if (work == NULL) {
            pthread_cond_wait(&stream->wake, &tn_sim.lock);
        } else if (!may_start(work)) {
            tn_sim_wait();
        } else {
            tn_sim_clock_enter(stream, work->ticket);
            perform(work);
            stream->head = work->next;
            if (stream->head == NULL)
                stream->tail = NULL;
            uint64_t ticket = work->ticket;
            dispose(work);
            stream->finished = ticket; /* SQ1: tickets of a stream rise */
            tn_sim_events_reached(stream);
            pthread_cond_broadcast(&tn_sim.changed);
        }
    }
    stream->has_worker = false;
    tn_sim_stream_release(stream);
    tn_sim_thread_ends();
    pthread_mutex_unlock(&tn_sim.lock);
    return NULL;
}

static bool ensure_worker(struct tn_sim_stream *stream)
{
    if (stream->has_worker)
        return true;
    tn_sim_guard_install();
    if (!tn_sim_thread_start(worker, stream))
        return false;
    stream->references++;
    stream->has_worker = true;
    return true;
}

static void add_point(struct tn_sim_work *work, struct tn_sim_stream *stream, uint64_t ticket)
{
    stream->references++;
    work->points[work->point_count++] = (struct tn_sim_point){.stream = stream, .ticket = ticket};
}

tn_cu_result tn_sim_queue_push(struct tn_sim_stream *stream, struct tn_sim_op *op,
                               const struct tn_sim_part *part, const struct tn_sim_point *after)
{
    struct tn_sim_point *launch = part == NULL ? NULL : part->last;
    size_t most = count_implicit(stream) + 2;
    struct tn_sim_work *work = calloc(1, sizeof *work + most * sizeof work->points[0]);
    if (work == NULL || !ensure_worker(stream)) {
        free(work);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (after != NULL && !tn_sim_point_reached(after))
        add_point(work, after->stream, after->ticket);
    /* An executable graph runs a single launch at a time. */
    if (launch != NULL && !tn_sim_point_reached(launch))
        add_point(work, launch->stream, launch->ticket);
    if (stream->blocking) {
        for (struct tn_sim_stream *other = tn_sim_all_streams; other != NULL; other = other->next) {
            if (comes_after(stream, other))
                add_point(work, other, other->queued);
        }
    }
    work->ticket = ++last_ticket;
    work->op = op == NULL ? NULL : tn_sim_op_acquire(op);
    if (part != NULL)
        work->part = tn_sim_stream_calls()->part_acquire(part);
    if (stream->tail != NULL)
        stream->tail->next = work;
    else
        stream->head = work;
    stream->tail = work;
    stream->queued = work->ticket;
    tn_sim_clock_push(stream, after, launch);
    if (launch != NULL) {
        tn_sim_point_clear(launch);
        *launch = present(stream);
    }
    pthread_cond_signal(&stream->wake);
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_queue_point(struct tn_sim_stream *stream, struct tn_sim_point *point)
{
    /* The waits that the stream needs now belong to its present moment, and only work can wait. */
    if (count_implicit(stream) > 0) {
        tn_cu_result result = tn_sim_queue_push(stream, NULL, NULL, NULL);
        if (result != TN_CUDA_SUCCESS)
            return result;
    }
    tn_sim_clock_record(stream);
    tn_sim_point_clear(point);
    *point = present(stream);
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_queue_step(struct tn_sim_stream *stream, struct tn_sim_point *point)
{
    if (tn_sim_queue_idle(stream)) {
        stream->queued = ++last_ticket;
        stream->finished = stream->queued; /* SQ1 */
    } else {
        tn_cu_result result = tn_sim_queue_push(stream, NULL, NULL, NULL);
        if (result != TN_CUDA_SUCCESS)
            return result;
    }
    tn_sim_point_clear(point);
    *point = present(stream);
    return TN_CUDA_SUCCESS;
}

bool tn_sim_queue_idle(const struct tn_sim_stream *stream)
{
    return stream->finished == stream->queued && count_implicit(stream) == 0;
}

/* Looks at a stream's work up to a ticket. Work older than the point cannot wait for the point.
 * Work seen by this search is not looked at again. */
static bool waits_for(const struct tn_sim_stream *stream, uint64_t last,
                      const struct tn_sim_point *point, uint64_t search)
{
    for (struct tn_sim_work *work = stream->head; work != NULL && work->ticket <= last;
         work = work->next) {
        if (work->ticket <= point->ticket || work->seen == search)
            continue;
        work->seen = search;
        for (size_t i = 0; i < work->point_count; i++) {
            const struct tn_sim_point *other = &work->points[i];
            if (other->ticket < point->ticket)
                continue;
            if (other->stream == point->stream ||
                waits_for(other->stream, other->ticket, point, search))
                return true;
        }
    }
    return false;
}

bool tn_sim_queue_follows(const struct tn_sim_stream *stream, const struct tn_sim_point *point)
{
    static uint64_t last_search;
    return stream == point->stream || waits_for(stream, UINT64_MAX, point, ++last_search);
}

static void hear(struct tn_sim_stream *stream, unsigned long long id, uint64_t ticket)
{
    struct tn_sim_heard *entry = NULL;
    for (size_t i = 0; entry == NULL && i < TN_SIM_HEARD_COUNT; i++) {
        if (stream->heard[i].id == id)
            entry = &stream->heard[i];
    }
    if (entry == NULL) {
        entry = &stream->heard[stream->heard_next++ % TN_SIM_HEARD_COUNT];
        *entry = (struct tn_sim_heard){.id = id};
    }
    if (ticket > entry->ticket)
        entry->ticket = ticket;
}

void tn_sim_queue_hear(struct tn_sim_stream *stream, const struct tn_sim_point *point)
{
    const struct tn_sim_stream *other = point->stream;
    if (other == NULL || other == stream)
        return;
    for (size_t i = 0; i < TN_SIM_HEARD_COUNT; i++) {
        if (other->heard[i].id != 0 && other->heard[i].id != stream->id)
            hear(stream, other->heard[i].id, other->heard[i].ticket);
    }
    hear(stream, other->id, point->ticket);
}

bool tn_sim_queue_covers(const struct tn_sim_point *moment, const struct tn_sim_point *point)
{
    const struct tn_sim_stream *waited = moment->stream;
    if (waited == point->stream)
        return point->ticket <= moment->ticket;
    /* The legacy stream's moment comes after the moments of the blocking streams, and theirs after
     * its own. */
    if (waited->object.context == point->stream->object.context &&
        ((waited->legacy && point->stream->blocking) ||
         (waited->blocking && point->stream->legacy)))
        return tn_sim_point_reached(point);
    for (size_t i = 0; i < TN_SIM_HEARD_COUNT; i++) {
        if (waited->heard[i].id == point->stream->id)
            return point->ticket <= waited->heard[i].ticket && tn_sim_point_reached(point);
    }
    return false;
}

static bool any_work(void)
{
    const struct tn_sim_stream *stream = tn_sim_all_streams;
    while (stream != NULL && stream->head == NULL)
        stream = stream->next;
    return stream != NULL;
}

void tn_sim_queues_empty(void)
{
    tn_sim.waits++;
    pthread_cond_broadcast(&tn_sim.changed);
    while (any_work() && tn_sim_wait())
        continue;
    tn_sim.waits--;
}

void tn_sim_point_wait(const struct tn_sim_point *point)
{
    if (tn_sim.pace == TN_SIM_AWAITED && !tn_sim_point_reached(point))
        tn_sim_queues_empty();
    while (!tn_sim_point_reached(point) && tn_sim_wait())
        continue;
    tn_sim_clock_known(point);
}

/* Waits for all work queued now on the streams of a context, or for NULL, of a device. */
static void wait_for_streams(const struct tn_sim_context *context, int device)
{
    uint64_t target = last_ticket;
    if (tn_sim.pace == TN_SIM_AWAITED)
        tn_sim_queues_empty();
    const struct tn_sim_stream *stream = tn_sim_all_streams;
    while (stream != NULL) {
        const struct tn_sim_context *theirs = stream->object.context;
        if ((context != NULL ? theirs != context : theirs->device != device) ||
            stream->head == NULL || stream->head->ticket > target) {
            stream = stream->next;
            continue;
        }
        if (!tn_sim_wait())
            return;
        stream = tn_sim_all_streams; /* the list may have changed during a wait */
    }
    for (struct tn_sim_stream *done = tn_sim_all_streams; done != NULL; done = done->next) {
        if (context != NULL ? done->object.context == context
                            : done->object.context->device == device)
            tn_sim_clock_known(&(struct tn_sim_point){.stream = done, .ticket = done->finished});
    }
}

void tn_sim_streams_wait_all(const struct tn_sim_context *context)
{
    wait_for_streams(context, context->device);
}

void tn_sim_streams_wait_device(int device)
{
    wait_for_streams(NULL, device);
}
