// SPDX-License-Identifier: Apache-2.0
/* The arenas of a capture end when its hold closes. Only when a capture outlives its claimant do
 * they end with the hold, before the capture. */
#include "pools/captures.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "pools/arenas.h"
#include "pools/handover.h"
#include "pools/pending.h"
#include "pools/pool.h"

/* From now on any block may be freed and have to wait. */
tarn_status tn_hold_open(tarn_pool *pool, struct tn_order order, bool owned, struct tn_hold **hold)
{
    TN_ASSERT(tn_pool_is_locked(pool) && order.capture_id != 0);
    if (!tn_blocks_add_cold(&pool->store))
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a capture's hold");
    return tn_hold_make(&pool->holds, order, owned, pool->is_default && !pool->in_host, hold);
}

void tn_hold_take_note(struct tn_hold *hold)
{
    const bool of_none = hold->capture_id == TN_HOLD_NO_CAPTURE;

    TN_ASSERT(tn_pool_is_locked(hold->holds->pool) && !hold->noted);
    hold->noted = true;
    tn_pool_note(hold->holds->pool, TN_NOTE_HOLD_TAKEN,
                 TN_OPERANDS(hold->serial, of_none ? 0 : hold->capture_id));
}

static void end_capture(tarn_pool *pool, struct tn_hold *hold)
{
    TN_ASSERT(hold->open && hold->holds->pool == pool);
    tn_hold_shut(hold);
    /* Free memory of both kinds would not coalesce for the next capture. */
    if (tn_arenas_end_capture(pool, hold->capture_id))
        tn_idle_sort(pool);
    TN_ASSERT(!hold->open);
}

static void leave_pool(tarn_pool *pool, struct tn_hold *hold, bool proven)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    if (hold->open)
        end_capture(pool, hold);
    if (hold->noted)
        tn_pool_note(pool, TN_NOTE_HOLD_DROPPED, TN_OPERANDS(hold->serial));
    tn_hold_leave(hold, proven);
    tn_pending_end_captured(pool);
}

static void orphan(tarn_pool *pool, struct tn_hold *hold)
{
    if (!tn_hold_begin_orphan(hold))
        return;
    leave_pool(pool, hold, false);
    tn_hold_end_orphan(hold);
}

void tn_hold_close(struct tn_hold *hold)
{
    tarn_pool *pool = hold->holds->pool;

    TN_ASSERT(tn_pool_is_locked(pool));
    end_capture(pool, hold);
    if (hold->passing)
        orphan(pool, hold);
    tn_pending_end_captured(pool);
}

void tn_hold_drop(struct tn_hold *hold)
{
    TN_ASSERT(tn_pool_is_locked(hold->holds->pool));
    leave_pool(hold->holds->pool, hold, true);
    tn_hold_recycle(hold);
}

bool tn_holds_close_over(tarn_pool *pool, uint64_t route_id)
{
    struct tn_hold *next;
    bool any = false;

    TN_ASSERT(tn_pool_is_locked(pool));
    for (struct tn_hold *hold = pool->holds.open; hold != NULL; hold = next) {
        next = hold->open_next;
        if (hold->owned || (route_id != 0 && hold->route_id != route_id) || !tn_hold_is_over(hold))
            continue;
        tn_hold_close(hold);
        any = true;
    }
    return any;
}

void tn_holds_close_capture(tarn_pool *pool, uint64_t capture_id, tn_cu_graph graph,
                            size_t node_count)
{
    struct tn_hold *next;

    TN_ASSERT(tn_pool_is_locked(pool));
    for (struct tn_hold *hold = pool->holds.open; hold != NULL; hold = next) {
        next = hold->open_next;
        if (hold->capture_id == capture_id || (graph != NULL && hold->graph == graph)) {
            hold->settled = hold->capture_id == capture_id;
            hold->node_count = node_count;
            tn_hold_close(hold);
        }
    }
    TN_ASSERT(tn_hold_find(&pool->holds, capture_id) == NULL);
}

void tn_holds_orphan(tarn_pool *pool)
{
    struct tn_hold *next;

    TN_ASSERT(tn_pool_is_locked(pool));
    for (struct tn_hold *hold = pool->holds.first; hold != NULL; hold = next) {
        next = hold->next;
        orphan(pool, hold);
    }
}

void tn_holds_end_passing(tarn_pool *pool)
{
    struct tn_hold *next;

    TN_ASSERT(tn_pool_is_locked(pool));
    for (struct tn_hold *hold = pool->holds.open; hold != NULL; hold = next) {
        next = hold->open_next;
        if (hold->passing)
            tn_hold_close(hold);
    }
}

tarn_status tn_body_open(tarn_pool *pool, const struct tn_body *body)
{
    TN_ASSERT(tn_pool_is_locked(pool) && body->outer_id != 0);
    if (tn_arena_get(pool, tn_group_order(body)) == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a body's capture");
    return tn_body_enter(&pool->bodies, body);
}
