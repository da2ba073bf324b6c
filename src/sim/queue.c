// SPDX-License-Identifier: Apache-2.0
/* queue.c -- the work of streams, the workers that do it, and waiting.
 *
 * How it works. A worker sleeps on its stream's own condition while the queue is empty, and on the
 * common one while the oldest work may not start: because the simulated GPU is held, or because a
 * point that it comes after is not reached. Work stays in the queue until it is done, so the head
 * is what is running, and a stream's oldest unfinished ticket is its head's. Everything that work
 * referred to is given up before its ticket counts as finished: who waited for it finds the ledger
 * settled.
 *
 * Work of a context that has faulted is passed over, host functions included.
 *
 * Trade-offs. A thread for each stream, not a pool: a kernel may wait for a kernel of another
 * stream, and a pool would have a number of streams at which that never ends. Every finished work
 * wakes everyone who waits. */
#include <stdlib.h>

#include "sim/exec.h"
#include "sim/guard.h"
#include "sim/op.h"
#include "sim/stream.h"

struct tn_sim_work {
    struct tn_sim_work *next;
    uint64_t ticket;
    struct tn_sim_op *op;     /* referenced; or NULL */
    struct tn_sim_exec *exec; /* referenced; or NULL */
    size_t point_count;
    struct tn_sim_point points[]; /* to be reached before it starts */
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

/* Asks whether new work of a stream must wait for what another one has queued (Q2). */
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
    if (work->exec != NULL)
        tn_sim_exec_run(work->exec);
    else if (work->op != NULL)
        tn_sim_op_run(work->op);
}

static bool may_start(const struct tn_sim_work *work)
{
    if (tn_sim.held > 0)
        return false;
    for (size_t i = 0; i < work->point_count; i++) {
        if (!tn_sim_point_reached(&work->points[i]))
            return false;
    }
    return true;
}

/* Frees work that is done or will never be. */
static void dispose(struct tn_sim_work *work)
{
    for (size_t i = 0; i < work->point_count; i++)
        tn_sim_point_clear(&work->points[i]);
    if (work->op != NULL)
        tn_sim_op_release(work->op);
    if (work->exec != NULL)
        tn_sim_exec_release(work->exec);
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
            perform(work);
            stream->head = work->next;
            if (stream->head == NULL)
                stream->tail = NULL;
            uint64_t ticket = work->ticket;
            dispose(work);
            stream->finished = ticket; /* Q1: tickets of a stream rise */
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
                               struct tn_sim_exec *exec, const struct tn_sim_point *after)
{
    const struct tn_sim_point *launch = exec == NULL ? NULL : &exec->last;
    size_t most = count_implicit(stream) + 2;
    struct tn_sim_work *work = calloc(1, sizeof *work + most * sizeof work->points[0]);
    if (work == NULL || !ensure_worker(stream)) {
        free(work);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (after != NULL && !tn_sim_point_reached(after))
        add_point(work, after->stream, after->ticket);
    /* One executable graph runs one launch at a time. */
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
    work->exec = exec == NULL ? NULL : tn_sim_exec_acquire(exec);
    if (stream->tail != NULL)
        stream->tail->next = work;
    else
        stream->head = work;
    stream->tail = work;
    stream->queued = work->ticket;
    if (exec != NULL) {
        tn_sim_point_clear(&exec->last);
        exec->last = present(stream);
    }
    pthread_cond_signal(&stream->wake);
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_queue_mark(struct tn_sim_stream *stream, struct tn_sim_point *point)
{
    /* What the stream must wait for now belongs to its present, and only work can wait for it. */
    if (count_implicit(stream) > 0) {
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

void tn_sim_point_wait(const struct tn_sim_point *point)
{
    while (!tn_sim_point_reached(point) && tn_sim_wait())
        continue;
}

void tn_sim_streams_wait_all(const struct tn_sim_context *context)
{
    uint64_t target = last_ticket;
    const struct tn_sim_stream *stream = tn_sim_all_streams;
    while (stream != NULL) {
        if (stream->object.context != context || stream->head == NULL ||
            stream->head->ticket > target) {
            stream = stream->next;
            continue;
        }
        if (!tn_sim_wait())
            return;
        stream = tn_sim_all_streams; /* the list may be another one after a wait */
    }
}
