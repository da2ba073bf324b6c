// SPDX-License-Identifier: Apache-2.0
/* Captures.
 *
 * Begin opens the route before the driver's capture, so nothing of the section slips past the
 * route. Begin also gives the capturing graph its user object at once. Whatever becomes of the
 * capture, the hold goes exactly when the driver has dropped everything that could touch the
 * memory.
 *
 * End checks the calling thread before the driver hears of the call: the driver takes an end by the
 * wrong thread as the end of the capture, and the graph is lost.
 *
 * End and abort first shut the capture's route: no other thread then joins the capture with a graph
 * that is about to go. They also take over the claims of the hold, which the hold would end if the
 * driver dropped the graph meanwhile. The pool then stays until the call is done.
 *
 * The driver refuses to destroy a graph while a body in the graph is being captured. An abort
 * cannot end a body's capture on another thread's own stream. The capture around such a body goes
 * on until the body's handle is ended or aborted on its thread.
 *
 * Trade-offs: a user may end a capture of their own while another thread makes the first allocation
 * in that capture. The thread then gets a graph that is gone; only the driver could see this. */
#include "graphs/capture.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "claims/body.h"
#include "graphs/admit.h"
#include "graphs/former.h"
#include "graphs/stop.h"
#include "pools/captures.h"
#include "pools/route.h"
#include "pools/series.h"
#include "pools/sweep.h"

static struct tn_records capture_records = TN_RECORDS_INIT(struct tarn_capture);

static tarn_status check_stream(tarn_pool *pool, tarn_stream stream)
{
    struct tn_stream_state state;
    tarn_status status;

    if (tn_stream_is_legacy(stream))
        return tn_fail(TARN_ERR_INVALID_ARGUMENT, "the legacy default stream cannot be captured; "
                                                  "create a stream");
    if (pool->is_default)
        return tn_fail(TARN_ERR_WRONG_STATE, "a capture needs a private pool, not the default one");
    if (pool->in_host)
        return tn_fail(
            TARN_ERR_WRONG_STATE,
            "pool '%s' has memory of the host, which captures use without a route: begin "
            "into a pool of the device",
            pool->name);
    status = tn_stream_look(&pool->device->gpu, stream, TN_STREAM_GRAPH, &state);
    if (status != TARN_OK)
        return status;
    if (state.order.capture_id != 0 || state.broken)
        return tn_fail(TARN_ERR_WRONG_STATE, "the stream is already being captured");
    return tn_stream_meet(&pool->device->gpu, stream); /* where replays run, most likely */
}

/* Opens the hold of a body's capture, and makes the body known. The user object is on the outer
 * graph, which has the body for its whole life: the driver's treatment of bodies' objects is
 * irrelevant. */
static tarn_status open_body(tarn_capture *capture, const tarn_capture_options *options,
                             const struct tn_stream_state *state, struct tn_hold **hold)
{
    tarn_pool *pool = capture->pool;
    const struct tn_hold *outer = tn_hold_find(&pool->holds, options->outer->capture_id);
    const struct tn_body body = {.capture_id = state->order.capture_id,
                                 .outer_id = options->outer->capture_id,
                                 .group = options->group,
                                 .stream = capture->stream,
                                 .thread_id = capture->thread_id};
    const struct tn_hold *keeper = outer;
    tarn_status status;

    TN_ASSERT(tn_pool_is_locked(pool));
    TN_ASSERT(options->outer->pool == pool);
    TN_ASSERT(state->order.capture_id != 0);
    if (outer == NULL || outer->left.capture_id != 0) /* outer, or a capture around outer */
        return tn_fail(TARN_ERR_WRONG_STATE, "the outer capture is over");
    /* The outermost graph has all bodies. */
    for (const struct tn_body *up = tn_body_find(&pool->bodies, body.outer_id);
         up != NULL && keeper != NULL; up = tn_body_find(&pool->bodies, up->outer_id))
        keeper = tn_hold_find(&pool->holds, up->outer_id);
    status = tn_body_open(pool, &body);
    if (status != TARN_OK)
        return status;
    status = tn_capture_open_hold(pool, state, true, keeper != NULL ? keeper->graph : outer->graph,
                                  hold);
    if (status != TARN_OK)
        tn_body_drop(&pool->bodies, body.capture_id);
    return status;
}

static void cancel_stream(struct tn_gpu *gpu, tn_cu_stream stream, bool keep_graph)
{
    if (keep_graph)
        tn_driver_capture_cancel_body(gpu, stream);
    else
        tn_driver_capture_cancel(gpu, stream);
}

static void cancel_driver_capture(tarn_capture *capture)
{
    cancel_stream(&capture->device->gpu, capture->stream, capture->target != NULL);
}

/* The driver's part of begin: a capture with a hold. */
static tarn_status start(tarn_capture *capture, const tarn_capture_options *options)
{
    tarn_pool *pool = capture->pool;
    struct tn_gpu *gpu = &pool->device->gpu;
    tn_cu_capture_mode mode = (tn_cu_capture_mode)capture->mode;
    struct tn_stream_state state;
    struct tn_hold *hold;
    tarn_status status =
        options->driver_graph != NULL
            ? tn_driver_capture_start_body(gpu, capture->stream, options->driver_graph, mode)
            : tn_driver_capture_start(gpu, capture->stream, mode);

    TN_ASSERT(tn_lock_none_held());
    TN_ASSERT(capture->capture_id == 0);
    if (status != TARN_OK)
        return status;
    status = tn_stream_look(gpu, capture->stream, TN_STREAM_GRAPH, &state);
    if (status == TARN_OK && state.order.capture_id == 0)
        status = tn_fail(TARN_ERR_DRIVER, "the driver began a capture and does not know it");
    if (status == TARN_OK) {
        if (options->driver_graph == NULL)
            tn_former_forget(capture->device, 0, state.capture_graph, TN_SIGHT_NEW);
        tn_pool_lock(pool);
        status = options->outer != NULL
                     ? open_body(capture, options, &state, &hold)
                     : tn_capture_open_hold(pool, &state, true, state.capture_graph, &hold);
        if (status == TARN_OK) {
            pool->claims.capture_count += 1;
            hold->owner_gone = &capture->gone;
        }
        tn_pool_unlock(pool);
    }
    if (status != TARN_OK) {
        cancel_driver_capture(capture);
        return status;
    }
    capture->capture_id = state.order.capture_id;
    tn_route_set_capture(pool->device, capture->route_id, capture->capture_id);
    tn_pool_note(pool, TN_NOTE_CAPTURE_BEGUN,
                 TN_OPERANDS(capture->capture_id, state.order.stream_id));
    return TARN_OK;
}

static tarn_status check_outer(const tarn_pool *pool, const tarn_capture *outer)
{
    if (outer == NULL)
        return TARN_OK;
    if (outer->pool != pool)
        return tn_fail(TARN_ERR_INVALID_ARGUMENT,
                       "the outer capture is of another pool: a body shares its pool");
    if (outer->stage != TN_CAPTURE_OPEN || atomic_load(&outer->gone))
        return tn_fail(TARN_ERR_WRONG_STATE, "the outer capture is over");
    return TARN_OK;
}

/* Whether the pool has a hold of a capture into the graph; *open: whether that is not over. */
static bool has_section_in(tarn_pool *pool, tn_cu_graph graph, bool *open)
{
    const struct tn_hold *hold;

    tn_pool_lock(pool);
    hold = tn_hold_find_graph(&pool->holds, graph);
    *open = hold != NULL && hold->open;
    tn_pool_unlock(pool);
    return hold != NULL;
}

/* Sections behind no node may run at once, in the same memory: a graph therefore has one section of
 * a pool. But no section runs in a graph without nodes. */
static tarn_status check_no_section_in(tarn_pool *pool, tn_cu_graph graph)
{
    bool open;
    bool closed;
    size_t node_count = 0;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    tn_pool_lock(pool);
    closed = tn_holds_close_over(pool, 0);
    tn_pool_unlock(pool);
    if (closed)
        (void)tn_device_mark(pool->device);
    if (!has_section_in(pool, graph, &open) || !open)
        tn_former_forget(pool->device, 0, graph, TN_SIGHT_INTO);
    if (!has_section_in(pool, graph, &open))
        return TARN_OK;
    if (open)
        return tn_fail(
            TARN_ERR_WRONG_STATE,
            "a capture of pool '%s' into this graph is not over; end or abort that first",
            pool->name);
    status = tn_driver_graph_count(&pool->device->gpu, graph, &node_count);
    if (status != TARN_OK || node_count == 0)
        return status;
    return tn_fail(
        TARN_ERR_WRONG_STATE,
        "the graph has a section of pool '%s', and nothing would order another one behind "
        "it: capture that into a graph of its own, and add it as a child node behind the "
        "first, or into a body of a conditional node",
        pool->name);
}

tarn_status tn_capture_begin(tarn_pool *pool, tarn_stream stream,
                             const tarn_capture_options *options, tarn_capture **capture)
{
    static const tarn_capture_options defaults = TARN_CAPTURE_OPTIONS_INIT;
    tarn_capture *made;
    tarn_status status;

    if (options == NULL)
        options = &defaults;
    TN_ASSERT(tn_lock_none_held());
    TN_ASSERT(options->outer == NULL || options->driver_graph != NULL);
    stream = tn_device_stream(pool->device, stream);
    status = check_stream(pool, stream);
    tn_device_see_end(pool->device); /* its allocations are behind the ends of others */
    if (status == TARN_OK)
        status = check_outer(pool, options->outer);
    if (status == TARN_OK && options->driver_graph != NULL)
        status = check_no_section_in(pool, options->driver_graph);
    if (status != TARN_OK)
        return status;
    made = tn_records_take(&capture_records);
    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a capture");
    made->pool = pool;
    made->device = pool->device;
    made->stream = stream;
    made->mode = options->mode;
    made->early_count = tn_device_count_early(pool->device);
    made->pool_serial = pool->holds.pool_serial;
    made->thread_id = tn_thread_id();
    made->stage = TN_CAPTURE_OPEN;
    made->target = options->driver_graph;
    made->node_count = TN_NODES_UNKNOWN;
    made->is_body = options->outer != NULL;
    status = tn_route_begin_capture(pool->device, pool, stream, &made->route_id);
    if (status != TARN_OK)
        goto give_record;
    status = start(made, options);
    if (status != TARN_OK) {
        tn_route_end_capture(pool->device, made->route_id);
        goto give_record;
    }
    if (options->driver_graph != NULL && options->outer == NULL)
        tn_replays_merge_pools(pool, made->capture_id, options->driver_graph);
    TN_ASSERT(made->stage == TN_CAPTURE_OPEN && made->capture_id != 0);
    atomic_store(&made->magic, TN_CAPTURE_MAGIC);
    *capture = made;
    return TARN_OK;

give_record:
    tn_records_give(&capture_records, made);
    return status;
}

/* Takes over the claims on the pool that the hold would end if the driver's capture went now, and
 * shuts the route. False: the driver's capture has gone already, and perhaps the pool too.
 * give_back or retire ends the takeover. */
static bool take_over(tarn_capture *capture)
{
    tarn_device *device = capture->device;
    tarn_pool *pool = capture->pool;
    bool taken = false;

    TN_ASSERT(tn_lock_none_held());
    if (atomic_load(&capture->gone))
        return false;
    tn_lock_acquire(&device->lock); /* a pool goes only under this lock */
    if (!atomic_load(&capture->gone)) {
        tn_pool_lock(pool);
        if (!atomic_load(&capture->gone)) {
            struct tn_hold *hold = tn_hold_find_owned(&pool->holds, capture->capture_id);

            TN_ASSERT(hold != NULL && hold->owner_gone == &capture->gone); /* G1 */
            hold->owner_gone = NULL;
            taken = true;
        }
        tn_pool_unlock(pool);
    }
    tn_lock_release(&device->lock);
    if (taken)
        tn_route_shut_capture(device, capture->route_id, true);
    return taken;
}

/* The capture goes on after a failed end. The hold ends the claims again, or has gone meanwhile. */
static void give_back(tarn_capture *capture)
{
    tarn_device *device = capture->device;
    tarn_pool *pool = capture->pool;
    struct tn_hold *hold;

    TN_ASSERT(tn_lock_none_held());
    TN_ASSERT(!atomic_load(&capture->gone));
    tn_route_shut_capture(device, capture->route_id, false);
    tn_pool_lock(pool);
    hold = tn_hold_find_owned(&pool->holds, capture->capture_id);
    if (hold != NULL) {
        TN_ASSERT(hold->owner_gone == NULL); /* since take_over */
        hold->owner_gone = &capture->gone;
    } else {
        atomic_store(&capture->gone, true);
        TN_ASSERT(pool->claims.capture_count > 0);
        pool->claims.capture_count -= 1;
    }
    tn_pool_unlock(pool);
    if (hold == NULL)
        tn_route_end_capture(device, capture->route_id); /* the pool's last claim */
}

/* The capture is over, in its pool and in other pools with its allocations. If the driver's capture
 * ended early, the capture's own hold was reaped then. */
static void leave_pools(tarn_capture *capture, bool discard)
{
    if (discard)
        tn_device_discard_capture(capture->device, capture->capture_id, capture->early_count);
    else
        tn_device_close_capture(capture->device, capture->capture_id, NULL, capture->node_count);
}

/* The pool may be gone; the device is open. */
static void note_end(tarn_capture *capture, enum tn_note note)
{
    tn_note_write(tn_device_ring(capture->device), note, capture->pool_serial,
                  TN_OPERANDS(capture->capture_id));
}

/* The end of the handle, and of its claims on the pool. */
static void retire(tarn_capture *capture)
{
    tarn_pool *pool = capture->pool;

    TN_ASSERT(tn_lock_none_held());
    tn_pool_lock(pool);
    TN_ASSERT(pool->claims.capture_count > 0);
    pool->claims.capture_count -= 1;
    tn_pool_unlock(pool);
    tn_route_end_capture(capture->device, capture->route_id); /* the last claim */
    atomic_store(&capture->magic, 0);
    tn_records_give(&capture_records, capture);
}

/* The capture's own thread may end the capture; in relaxed mode any thread may. But a per-thread
 * stream means another stream on another thread. */
static tarn_status check_thread(const tarn_capture *capture)
{
    if (capture->thread_id == tn_thread_id() ||
        (capture->mode == TARN_CAPTURE_RELAXED && capture->stream != TN_CU_STREAM_PER_THREAD))
        return TARN_OK;
    return tn_fail(
        TARN_ERR_WRONG_THREAD,
        "the capture was begun by another thread, which alone may end it; any thread may "
        "abort it");
}

static bool has_open_bodies(tarn_capture *capture)
{
    bool has;

    tn_pool_lock(capture->pool);
    has = tn_body_find_open(&capture->pool->bodies, capture->capture_id) != NULL;
    tn_pool_unlock(capture->pool);
    return has;
}

tarn_status tn_capture_seize(tarn_capture *capture, struct tn_section *section)
{
    tarn_status status = check_thread(capture);

    TN_ASSERT(tn_lock_none_held());
    if (status != TARN_OK)
        return status;
    if (!take_over(capture)) /* the device may be closed */
        return tn_capture_refuse_end(capture);
    if (has_open_bodies(capture))
        status = tn_fail(TARN_ERR_WRONG_STATE,
                         "a body of the capture is still being captured; end or abort that first");
    else if (capture->stage == TN_CAPTURE_BROKEN)
        status = tn_capture_refuse_end(capture);
    else if (capture->stage == TN_CAPTURE_OPEN)
        status = tn_capture_take_section(capture);
    if (status != TARN_OK) {
        give_back(capture);
        return status;
    }
    TN_ASSERT(capture->stage == TN_CAPTURE_STOPPED);
    *section = capture->section;
    return TARN_OK;
}

void tn_capture_let_go(tarn_capture *capture)
{
    give_back(capture);
}

/* Whether the stream is still in the driver's capture of this id, which the given thread began. The
 * driver does not identify an invalidated capture: any is taken for this capture. (An event
 * recorded in the capture would not help: the driver answers as for a capture that has ended.) */
static bool goes_on(struct tn_gpu *gpu, tn_cu_stream stream, uint64_t thread_id,
                    uint64_t capture_id)
{
    struct tn_stream_state state;

    if (tn_stream_is_elsewhere(stream, thread_id))
        return false;
    return tn_stream_look(gpu, stream, TN_STREAM_GRAPH, &state) != TARN_OK || state.broken ||
           state.order.capture_id == capture_id;
}

/* The driver's capture of a body is over: ends the capture around the body, if its end was left to
 * this body alone. */
static void end_left(tarn_capture *capture)
{
    struct tn_gpu *gpu = &capture->device->gpu;
    struct tn_left_capture left;

    tn_pool_lock(capture->pool);
    left = tn_hold_take_left(&capture->pool->holds, capture->capture_id);
    tn_pool_unlock(capture->pool);
    if (left.capture_id == 0 || !goes_on(gpu, left.stream, left.thread_id, left.capture_id))
        return;
    cancel_stream(gpu, left.stream, left.keeps_graph);
    if (!left.keeps_graph)
        tn_device_forget_capture(capture->device, left.capture_id);
}

void tn_capture_finish(tarn_capture *capture)
{
    TN_ASSERT(capture->stage == TN_CAPTURE_STOPPED);
    end_left(capture);
    leave_pools(capture, false);
    note_end(capture, TN_NOTE_CAPTURE_ENDED);
    retire(capture);
}

tarn_status tn_capture_check_own(const tarn_capture *capture)
{
    return capture->target == NULL
               ? TARN_OK
               : tn_fail(TARN_ERR_WRONG_STATE,
                         "the capture goes into a graph of its caller's, and makes no other; end "
                         "it by tarn_capture_end with NULL for the graph");
}

/* Whether a later graph has the caller's graph's handle shows by its nodes: graphs/former.h. */
static void count_nodes(tarn_capture *capture)
{
    size_t count;

    if (tn_driver_graph_count(&capture->device->gpu, capture->target, &count) == TARN_OK)
        capture->node_count = count;
}

tarn_status tn_capture_end(tarn_capture *capture, tarn_graph **graph)
{
    struct tn_section section;
    tarn_graph *made;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    if (graph == NULL && capture->target == NULL)
        return tn_fail(TARN_ERR_INVALID_ARGUMENT,
                       "graph is NULL: there is nowhere to put the handle of the capture's graph");
    status = graph != NULL ? tn_capture_check_own(capture) : TARN_OK;
    if (status == TARN_OK)
        status = tn_capture_seize(capture, &section);
    if (status != TARN_OK)
        return status;
    if (graph == NULL) { /* the nodes are in the caller's graph */
        count_nodes(capture);
        tn_capture_finish(capture);
        return TARN_OK;
    }
    status = tn_graph_prepare(&section, &made);
    if (status != TARN_OK) {
        tn_capture_let_go(capture);
        return status;
    }
    tn_pool_lock(section.pool);
    tn_graph_commit(made, tn_hold_find_owned(&section.pool->holds, section.capture_id));
    tn_pool_unlock(section.pool);
    tn_capture_finish(capture);
    *graph = made;
    return TARN_OK;
}

/* Ends the driver's part of an OPEN capture. False: the driver has no part of the capture here. */
static bool cancel(tarn_capture *capture)
{
    TN_ASSERT(capture->stage == TN_CAPTURE_OPEN);
    if (tn_capture_is_dropped(capture, NULL) ||
        !goes_on(&capture->device->gpu, capture->stream, capture->thread_id, capture->capture_id))
        return false;
    cancel_driver_capture(capture);
    return true;
}

/* Leaves the end of the driver's capture to the end of the body's. */
static void leave_to(tarn_capture *capture, uint64_t body_id)
{
    struct tn_hold *hold;

    TN_ASSERT(body_id != capture->capture_id);
    tn_pool_lock(capture->pool);
    hold = tn_hold_find_owned(&capture->pool->holds, body_id);
    if (hold != NULL)
        hold->left = (struct tn_left_capture){capture->capture_id, capture->stream,
                                              capture->thread_id, capture->target != NULL};
    tn_pool_unlock(capture->pool);
}

/* Ends the driver's open captures of bodies: the graph of the bodies is about to go. Returns
 * whether the end has to wait for a body on another thread's own stream: only the other thread can
 * end this body. The graph of a capture that is a body itself stays with its node. */
static bool cancel_bodies(tarn_capture *capture)
{
    struct tn_gpu *gpu = &capture->device->gpu;
    struct tn_body bodies[TN_ROUTES_MAX];
    size_t count;
    bool waits = false;

    tn_pool_lock(capture->pool);
    count = tn_bodies_close(&capture->pool->bodies, capture->capture_id, bodies, TN_ROUTES_MAX);
    tn_pool_unlock(capture->pool);
    TN_ASSERT(count <= TN_ROUTES_MAX);
    for (size_t i = 0; i < count; i++) {
        const struct tn_body *body = &bodies[i];

        if (goes_on(gpu, body->stream, body->thread_id, body->capture_id)) {
            tn_driver_capture_cancel_body(gpu, body->stream);
        } else if (tn_stream_is_elsewhere(body->stream, body->thread_id) && !capture->is_body &&
                   capture->stage == TN_CAPTURE_OPEN) {
            leave_to(capture, body->capture_id);
            waits = true;
        }
    }
    return waits;
}

/* The capture's graph is about to go, unless the graph is the caller's. */
static void expect_gone(tarn_capture *capture)
{
    const struct tn_hold *hold;
    tn_cu_graph graph = NULL;

    tn_pool_lock(capture->pool);
    hold = tn_hold_find_owned(&capture->pool->holds, capture->capture_id);
    if (hold != NULL && capture->target == NULL)
        graph = hold->graph;
    tn_pool_unlock(capture->pool);
    if (graph != NULL)
        tn_device_expect_gone(capture->device, graph);
}

void tn_capture_abort(tarn_capture *capture)
{
    bool waits;
    bool is_over = false; /* and its own graph is gone */

    TN_ASSERT(tn_lock_none_held());
    if (!take_over(capture)) {
        if (atomic_load(&capture->device->magic) == TN_DEVICE_MAGIC) {
            leave_pools(capture, true);
            note_end(capture, TN_NOTE_CAPTURE_ABORTED);
        }
        atomic_store(&capture->magic, 0);
        tn_records_give(&capture_records, capture);
        return;
    }
    waits = cancel_bodies(capture);
    if (!waits)
        expect_gone(capture);
    if (capture->stage == TN_CAPTURE_STOPPED) {
        tn_driver_graph_drop(&capture->device->gpu, capture->section.graph);
        is_over = true;
    } else if (capture->stage == TN_CAPTURE_OPEN && !waits) {
        is_over = cancel(capture);
    }
    if (is_over && capture->target == NULL)
        tn_device_forget_capture(capture->device, capture->capture_id);
    if (!tn_stream_is_elsewhere(capture->stream, capture->thread_id))
        end_left(capture);
    leave_pools(capture, true);
    note_end(capture, TN_NOTE_CAPTURE_ABORTED);
    retire(capture);
}
