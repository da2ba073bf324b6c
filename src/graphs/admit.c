// SPDX-License-Identifier: Apache-2.0
/* How a pool learns of captures that the user began, and of a tarn_capture that allocates from
 * another pool.
 *
 * The first allocation in the pool gives the capture its hold. A free names no stream: before a
 * free, a pool with routes looks at the streams of its routes. Frees that this look misses are held
 * when the graph is adopted. */
#include "graphs/admit.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "driver/exec.h"
#include "graphs/former.h"
#include "pools/captures.h"
#include "pools/device.h"
#include "pools/pending.h"
#include "pools/route.h"
#include "pools/series.h"
#include "pools/sweep.h"

tarn_status tn_capture_open_hold(tarn_pool *pool, const struct tn_stream_state *state, bool owned,
                                 tn_cu_graph keeper, struct tn_hold **hold)
{
    struct tn_hold *made;
    bool will_be_told;
    tarn_status status = tn_hold_open(pool, state->order, owned, &made);

    TN_ASSERT(tn_pool_is_locked(pool));
    TN_ASSERT(state->order.capture_id != 0);
    if (status != TARN_OK)
        return status;
    tn_hold_set_graph(made, state->capture_graph);
    tn_hold_keep_by(made, keeper);
    status = tn_driver_graph_attach(&pool->device->gpu, keeper, tn_hold_gone, made, &made->object,
                                    &will_be_told); /* G2 */
    if (status == TARN_OK) {
        TN_ASSERT(made->open && !made->owner_gone);
        tn_hold_take_note(made);
        *hold = made;
        return TARN_OK;
    }
    tn_hold_set_graph(made, NULL); /* the graph has no hold */
    if (will_be_told)
        tn_hold_close(made); /* dropped by the next reap */
    else
        tn_hold_drop(made);
    return status;
}

/* Opens the pool's first hold for a capture, unless another call was first. The ROUTES lock is
 * held: no tarn_capture ends meanwhile. */
static tarn_status admit_first(tarn_pool *pool, tarn_stream stream, struct tn_order order,
                               uint64_t route_id)
{
    struct tn_stream_state state;
    struct tn_hold *hold;
    tn_cu_event event = NULL;
    tarn_status status = tn_stream_look(&pool->device->gpu, stream, TN_STREAM_GRAPH, &state);

    TN_ASSERT(tn_lock_is_held(&pool->device->routes.lock));
    TN_ASSERT(order.capture_id != 0);
    if (status != TARN_OK)
        return status;
    if (state.broken || !tn_order_equal(state.order, order) ||
        tn_route_is_shut(pool->device, order.capture_id))
        return tn_fail(TARN_ERR_CAPTURE_BROKEN, "the capture of this stream ended during the call");
    if (tn_device_has_body(pool->device, order.capture_id))
        return tn_fail(TARN_ERR_WRONG_STATE,
                       "the stream is captured into a body, whose memory is kept apart in its own "
                       "pool alone: pool '%s' does not serve it",
                       pool->name);
    status = tn_driver_capture_event(&pool->device->gpu, stream, &event);
    if (status != TARN_OK)
        return status;
    tn_former_forget(pool->device, order.capture_id, state.capture_graph, TN_SIGHT_RAW);
    tn_pool_lock(pool);
    if (tn_hold_find(&pool->holds, order.capture_id) == NULL) {
        status = tn_capture_open_hold(pool, &state, false, state.capture_graph, &hold);
        if (status == TARN_OK) {
            hold->route_id = route_id;
            hold->event = event;
            event = NULL;
        }
    }
    tn_pool_unlock(pool);
    if (event != NULL)
        tn_event_destroy(&pool->device->gpu, event);
    if (status == TARN_OK)
        tn_replays_merge_pools(pool, order.capture_id, state.capture_graph);
    return status;
}

tarn_status tn_capture_admit(tarn_pool *pool, tarn_stream stream, struct tn_order order,
                             uint64_t route_id)
{
    bool known;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    TN_ASSERT(order.capture_id != 0);
    tn_pool_lock(pool);
    known = tn_hold_find(&pool->holds, order.capture_id) != NULL;
    tn_pool_unlock(pool);
    if (known)
        return TARN_OK;
    tn_device_see_end(pool->device); /* what is allocated here is behind the ends of others */
    tn_lock_acquire(&pool->device->routes.lock);
    status = admit_first(pool, stream, order, route_id);
    tn_lock_release(&pool->device->routes.lock);
    return status;
}

/* True also for a capture that has ended meanwhile, and for a body's, which the pool does not
 * serve: neither needs a hold. */
static bool is_known(tarn_pool *pool, tarn_stream stream)
{
    struct tn_stream_state state;
    tarn_status status = tn_stream_look(&pool->device->gpu, stream, TN_STREAM_GRAPH, &state);

    if (status == TARN_OK && state.order.capture_id != 0 && !state.broken)
        status = tn_capture_admit(pool, stream, state.order, 0);
    return status == TARN_OK || status == TARN_ERR_CAPTURE_BROKEN ||
           status == TARN_ERR_WRONG_STATE || status == TARN_ERR_DEVICE_LOST;
}

bool tn_capture_notice(tarn_pool *pool)
{
    tarn_stream streams[TN_ROUTES_MAX];
    size_t count = tn_route_streams(pool->device, pool, streams);
    bool known = true;
    bool hidden = false;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    for (size_t i = 0; i < count; i++)
        known = is_known(pool, streams[i]) && known;
    if (!known)
        return false;
    status = tn_route_hides_capture(pool->device, pool, &hidden);
    return !hidden && (status == TARN_OK || status == TARN_ERR_DEVICE_LOST);
}

tarn_status tn_capture_find_announced(tarn_pool *pool, bool *announced)
{
    tarn_stream streams[TN_ROUTES_MAX];
    size_t count = tn_route_streams(pool->device, pool, streams);

    TN_ASSERT(tn_lock_none_held());
    *announced = false;
    for (size_t i = 0; i < count && !*announced; i++) {
        struct tn_stream_state state;
        tarn_status status =
            tn_stream_look(&pool->device->gpu, streams[i], TN_STREAM_GRAPH, &state);

        if (status != TARN_OK)
            return status;
        *announced = state.order.capture_id != 0 && !state.broken;
    }
    return *announced ? TARN_OK : tn_route_hides_capture(pool->device, pool, announced);
}

/* The hold belongs to no capture. A closed hold with the graph's handle may be a former graph's,
 * whose end would not be the end of this graph's launches. */
tarn_status tn_capture_hold_graph(tarn_pool *pool, tn_cu_graph graph, struct tn_hold **empty)
{
    const struct tn_stream_state state = {.order = {0, TN_HOLD_NO_CAPTURE}, .capture_graph = graph};
    tarn_status status = TARN_OK;
    const struct tn_hold *known;
    struct tn_hold *hold;
    uint64_t serial;
    bool takes;

    TN_ASSERT(tn_lock_none_held());
    *empty = NULL;
    tn_pool_lock(pool);
    known = tn_hold_find_graph(&pool->holds, graph);
    serial = known != NULL && atomic_load(&known->claim) == TN_CLAIM_HELD ? known->serial : 0;
    takes = tn_pending_count_unheld(pool, serial) > 0;
    if (serial == 0 || !known->open || takes) {
        status = tn_capture_open_hold(pool, &state, false, state.capture_graph, &hold);
        if (status == TARN_OK) {
            if (takes)
                tn_pending_hold(pool, serial, hold);
            tn_hold_close(hold);
            *empty = takes ? NULL : hold;
        }
    }
    TN_ASSERT(status != TARN_OK || tn_hold_find_graph(&pool->holds, graph) != NULL); /* G2 */
    tn_pool_unlock(pool);
    return status;
}

void tn_capture_unhold_graph(tarn_pool *pool, tn_cu_graph graph, struct tn_hold *empty)
{
    TN_ASSERT(tn_lock_none_held());
    if (empty == NULL)
        return;
    TN_ASSERT(empty->magic == TN_HOLD_MAGIC && empty->keeper == graph);
    tn_driver_graph_detach(&pool->device->gpu, graph, empty->object); /* the next reap drops it */
}
