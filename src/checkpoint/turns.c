// SPDX-License-Identifier: Apache-2.0
/* Copies of another restore go into blocks that keep their numbers, and may come after the wait: an
 * event puts the stream behind them. Another event puts the stream behind the last take's copies
 * out of the pool, which read bytes that the restore is about to write.
 *
 * Guarded graphs of other pools refer to blocks of this pool, and this pool's order of replays does
 * not hold for them. The plan lists the pools whose replays use memory that the restore changes,
 * and the restore takes a turn among these replays. Replays that may still use a block of a guard
 * that ended are behind a stamp. */
#include "checkpoint/turns.h"

#include "base/contract.h"
#include "base/host.h"
#include "claims/watch.h"
#include "graphs/replay_visits.h"
#include "pools/device.h"

bool tn_plan_can_wait(const struct tn_plan *plan)
{
    return !(tn_stream_is_legacy(plan->stream) &&
             tn_stream_is_closed(&plan->pool->device->gpu, plan->stream));
}

/* Whether an event can stand for the last work on a checkpoint's contents. The event goes with the
 * contents; NULL: they have gone. */
static bool can_follow(const struct tn_plan *plan, const tarn_checkpoint *checkpoint)
{
    return checkpoint != NULL && checkpoint->used != NULL && tn_plan_can_wait(plan);
}

/* Whether copies of this order, enqueued before this epoch, may still run, unordered with the
 * stream. */
static bool may_run(const struct tn_plan *plan, struct tn_order order, uint64_t stamp)
{
    TN_ASSERT(tn_pool_is_locked(plan->pool));
    return !tn_order_equal(order, plan->order) &&
           !tn_gpu_is_proven(&plan->pool->device->gpu, stamp);
}

/* Puts the stream behind the checkpoint's copies: contents.c does this for the plan's own
 * checkpoint when it copies. Where no event stands for the copies, the restore waits for the
 * device. */
static void follow(struct tn_plan *plan, const tarn_checkpoint *checkpoint, bool *follows)
{
    if (can_follow(plan, checkpoint))
        *follows = checkpoint != plan->checkpoint;
    else
        plan->needs_wait = true;
}

void tn_plan_follow_copies(struct tn_plan *plan)
{
    const struct tn_copies *copies = &plan->pool->copies;

    if (may_run(plan, copies->restored_order, copies->restored_stamp))
        follow(plan, copies->restored, &plan->follows);
    if (may_run(plan, copies->saved_order, copies->saved_stamp))
        follow(plan, copies->saver, &plan->follows_save);
}

static bool has_visit(const struct tn_plan *plan, const tarn_pool *pool)
{
    size_t i = 0;

    while (i < plan->visit_count && plan->visits[i] != pool)
        i++;
    return i < plan->visit_count;
}

static bool add_visit(struct tn_plan *plan, tarn_pool *pool)
{
    TN_ASSERT(plan->visit_count <= plan->visit_capacity);
    if (has_visit(plan, pool))
        return true;
    if (!tn_host_grow((void **)&plan->visits, &plan->visit_capacity, plan->visit_count + 1,
                      sizeof(tarn_pool *)))
        return false;
    plan->visits[plan->visit_count] = pool; /* C7 */
    plan->visit_count += 1;
    return true;
}

bool tn_plan_visit_watchers(struct tn_plan *plan, const struct tn_block *block, bool keepers)
{
    bool added = true;

    for (const struct tn_watched *watched = tn_block_watches(block); watched != NULL && added;
         watched = watched->next) {
        if (keepers || !watched->watch->keeps)
            added = add_visit(plan, watched->watch->replayer);
    }
    return added;
}

static struct tn_visit visit_of(const struct tn_plan *plan)
{
    return (struct tn_visit){
        .visitor = plan,
        .stream = plan->stream,
        .stream_id = plan->order.stream_id,
        .by_events = tn_plan_can_wait(plan),
    };
}

static void leave_visits(const struct tn_plan *plan, size_t count, bool worked)
{
    const struct tn_visit visit = visit_of(plan);

    for (size_t i = 0; i < count; i++)
        tn_replays_leave_visit(plan->visits[i], &visit, worked);
}

tarn_status tn_plan_visit(struct tn_plan *plan)
{
    const struct tn_visit visit = visit_of(plan);
    tarn_status status = TARN_OK;
    size_t count = 0;

    TN_ASSERT(tn_pool_is_locked(plan->pool));
    while (count < plan->visit_count && status == TARN_OK && !plan->needs_wait) {
        status = tn_replays_visit(plan->visits[count], &visit, &plan->needs_wait);
        plan->meets_launch = plan->needs_wait && tn_replays_are_launching(plan->visits[count]);
        count += status == TARN_OK && !plan->needs_wait;
    }
    if (count < plan->visit_count)
        leave_visits(plan, count, false);
    plan->awaits = plan->awaits || (plan->needs_wait && plan->idle_sequence != 0);
    for (size_t i = 0; plan->needs_wait && plan->awaits && i < plan->visit_count; i++)
        tn_replays_await_visit(
            plan->visits[i]); /* all at once: each would need a wait of its own */
    return status;
}

void tn_plan_leave_visits(const struct tn_plan *plan, bool worked)
{
    TN_ASSERT(tn_pool_is_locked(plan->pool));
    leave_visits(plan, plan->visit_count, worked);
}
