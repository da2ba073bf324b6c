// SPDX-License-Identifier: Apache-2.0
/* Captures.
 *
 * Begin opens the route before the driver's capture, so that nothing of the section slips past it,
 * and gives the capturing graph its user object at once: whatever becomes of the capture, the hold
 * is gone exactly when the driver has dropped everything that could touch the memory.
 *
 * End asks who calls before it asks the driver: to the driver an end by the wrong thread is the end
 * of the capture, and the graph is lost.
 *
 * Trade-offs: a pool has one route, so one tarn_capture at a time. */
#include "graphs/capture.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"

static struct tn_records capture_records = TN_RECORDS_INIT(struct tarn_capture);

/* Opens a hold for the capture and puts its user object on the graph; the pool's lock is held. */
static tarn_status open_hold(tarn_pool *pool, const struct tn_stream_state *state, bool owned,
                             bool routed)
{
    struct tn_hold *made;
    bool will_be_told;
    tarn_status status = tn_hold_open(pool, state->order, owned, &made);

    if (status != TARN_OK)
        return status;
    made->routed = routed;
    made->graph = state->capture_graph;
    status = tn_graph_attach(&pool->device->gpu, state->capture_graph, tn_hold_gone, made,
                             &will_be_told); /* G2 */
    if (status == TARN_OK)
        return TARN_OK;
    if (will_be_told)
        tn_hold_close(made); /* dropped by the next reap */
    else
        tn_hold_drop(made);
    return status;
}

tarn_status tn_capture_admit(tarn_pool *pool, const struct tn_stream_state *state, bool routed)
{
    tarn_status status = TARN_OK;

    tn_lock_acquire(&pool->lock);
    if (tn_hold_find(pool, state->order.capture_id) == NULL) {
        /* The stream is in a new capture, so the one that it was in is over. */
        tn_holds_close_unowned(pool, state->order.stream_id, state->order.capture_id);
        status = open_hold(pool, state, false, routed);
    }
    tn_lock_release(&pool->lock);
    return status;
}

void tn_capture_notice(tarn_pool *pool)
{
    struct tn_stream_state state;
    tarn_stream stream;
    tarn_status status;

    if (!tn_route_stream(pool->device, pool, &stream) ||
        tn_stream_look(&pool->device->gpu, stream, &state) != TARN_OK ||
        state.order.capture_id == 0 || state.broken)
        return;
    status = tn_capture_admit(pool, &state, true);
    (void)status; /* a free does not fail */
}

static tarn_status check_stream(tarn_pool *pool, tarn_stream stream)
{
    struct tn_stream_state state;
    tarn_status status;

    if (tn_stream_is_legacy(stream))
        return tn_fail(TARN_ERR_INVALID_ARGUMENT, "the legacy default stream cannot be captured; "
                                                  "create a stream");
    if (pool->is_default)
        return tn_fail(TARN_ERR_WRONG_STATE, "a capture needs a private pool, not the default one");
    status = tn_stream_look(&pool->device->gpu, stream, &state);
    if (status != TARN_OK)
        return status;
    if (state.order.capture_id != 0 || state.broken)
        return tn_fail(TARN_ERR_WRONG_STATE, "the stream is already being captured");
    return TARN_OK;
}

/* The driver's part of begin: a capture with a hold. */
static tarn_status start(tarn_capture *capture)
{
    tarn_pool *pool = capture->pool;
    struct tn_gpu *gpu = &pool->device->gpu;
    struct tn_stream_state state;
    tarn_status status = tn_capture_start(gpu, capture->stream, (tn_cu_capture_mode)capture->mode);

    if (status != TARN_OK)
        return status;
    status = tn_stream_look(gpu, capture->stream, &state);
    if (status == TARN_OK && state.order.capture_id == 0)
        status = tn_fail(TARN_ERR_DRIVER, "the driver began a capture and does not know it");
    if (status == TARN_OK) {
        tn_lock_acquire(&pool->lock);
        status = open_hold(pool, &state, true, true);
        if (status == TARN_OK)
            pool->capture_count += 1;
        tn_lock_release(&pool->lock);
    }
    if (status != TARN_OK) {
        tn_capture_cancel(gpu, capture->stream);
        return status;
    }
    capture->capture_id = state.order.capture_id;
    tn_route_set_capture(pool->device, pool, capture->capture_id);
    return TARN_OK;
}

/* Ends the route of a capture, which is there. */
static void end_route(tarn_pool *pool)
{
    tarn_status status = tn_route_end_capture(pool->device, pool);

    TN_ASSERT(status == TARN_OK); /* G1 */
    (void)status;
}

tarn_status tn_capture_begin(tarn_pool *pool, tarn_stream stream, tarn_capture_mode mode,
                             tarn_capture **capture)
{
    tarn_capture *made;
    tarn_status status = check_stream(pool, stream);

    if (status != TARN_OK)
        return status;
    made = tn_records_take(&capture_records);
    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a capture");
    made->pool = pool;
    made->stream = stream;
    made->mode = mode;
    made->thread = pthread_self();
    made->stage = TN_CAPTURE_OPEN;
    status = tn_route_begin(pool->device, pool, tarn_filter_capture, stream);
    if (status != TARN_OK)
        goto give_record;
    status = start(made);
    if (status != TARN_OK) {
        end_route(pool);
        goto give_record;
    }
    atomic_store(&made->magic, TN_CAPTURE_MAGIC);
    *capture = made;
    return TARN_OK;

give_record:
    tn_records_give(&capture_records, made);
    return status;
}

static tarn_status broken(tarn_capture *capture, const char *why)
{
    return tn_fail(TARN_ERR_CAPTURE_BROKEN,
                   "the capture on pool '%s' cannot be ended: %s; abort it with "
                   "tarn_capture_abort",
                   capture->pool->name, why);
}

/* OPEN to STOPPED, or to BROKEN. */
static tarn_status stop(tarn_capture *capture)
{
    struct tn_gpu *gpu = &capture->pool->device->gpu;
    struct tn_stream_state state;
    tn_cu_result result;
    tarn_status status = tn_stream_look(gpu, capture->stream, &state);

    if (status != TARN_OK)
        return status;
    if (state.broken)
        return broken(capture, "a call in the section invalidated it "
                               "(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)");
    if (state.order.capture_id != capture->capture_id) {
        capture->stage = TN_CAPTURE_BROKEN;
        return broken(capture, "the stream's capture was ended elsewhere");
    }
    tn_capture_stop(gpu, capture->stream, &result, &capture->driver_graph);
    if (result == TN_CUDA_SUCCESS) {
        capture->stage = TN_CAPTURE_STOPPED;
        return TARN_OK;
    }
    status = tn_stream_look(gpu, capture->stream, &state);
    if (status == TARN_OK && state.order.capture_id == capture->capture_id)
        return tn_gpu_failed(gpu, result, "ending a capture", "the driver"); /* it goes on */
    capture->stage = TN_CAPTURE_BROKEN;
    return broken(capture, result == TN_CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                               ? "a forked stream was not joined "
                                 "(CUDA_ERROR_STREAM_CAPTURE_UNJOINED)"
                               : tn_driver_result_name(result));
}

/* What is left of a capture when it is over, in its pool and in others that it allocated from. Its
 * own hold is not there any more where the driver's capture ended early: it was reaped then. */
static void leave_pools(tarn_capture *capture)
{
    tarn_pool *pool = capture->pool;

    tn_device_close_capture(pool->device, capture->capture_id, NULL);
    tn_lock_acquire(&pool->lock);
    pool->capture_count -= 1;
    tn_lock_release(&pool->lock);
}

static void retire(tarn_capture *capture)
{
    end_route(capture->pool);
    atomic_store(&capture->magic, 0);
    tn_records_give(&capture_records, capture);
}

tarn_status tn_capture_end(tarn_capture *capture, tarn_graph **graph)
{
    tarn_pool *pool = capture->pool;
    tarn_graph *made;
    tarn_status status = TARN_OK;

    if (capture->mode != TARN_CAPTURE_RELAXED && !pthread_equal(capture->thread, pthread_self()))
        return tn_fail(TARN_ERR_WRONG_THREAD,
                       "the capture on pool '%s' was begun by another thread, which alone may end "
                       "it; any thread may abort it",
                       pool->name);
    if (capture->stage == TN_CAPTURE_BROKEN)
        return broken(capture, "it failed before");
    if (capture->stage == TN_CAPTURE_OPEN)
        status = stop(capture);
    if (status == TARN_OK)
        status = tn_graph_prepare(pool, capture->driver_graph, &made);
    if (status != TARN_OK)
        return status;
    leave_pools(capture);
    tn_lock_acquire(&pool->lock);
    tn_graph_commit(made);
    tn_lock_release(&pool->lock);
    retire(capture);
    *graph = made;
    return TARN_OK;
}

void tn_capture_abort(tarn_capture *capture)
{
    tarn_pool *pool = capture->pool;
    struct tn_gpu *gpu = &pool->device->gpu;
    struct tn_stream_state state = {.broken = true};

    if (capture->stage == TN_CAPTURE_STOPPED)
        tn_graph_drop(gpu, capture->driver_graph);
    else if (tn_stream_look(gpu, capture->stream, &state) != TARN_OK || state.broken ||
             state.order.capture_id == capture->capture_id)
        tn_capture_cancel(gpu, capture->stream);
    tn_lock_acquire(&pool->lock);
    tn_pool_discard(pool, capture->capture_id);
    tn_lock_release(&pool->lock);
    leave_pools(capture);
    retire(capture);
}
