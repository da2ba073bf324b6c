// SPDX-License-Identifier: Apache-2.0
/* A restore writes blocks that graphs of other pools refer to under a guard. The restore takes a
 * turn in the replay order of each of these pools, as if it were a replay (tn_replays_visit). A
 * pool's only graph is ordered for the restore's sake, until the next replay has come behind the
 * restore. A restore keeps several pools from replaying at a time, and has the lock of none of them
 * meanwhile: it takes no lock out of turn. Whoever launches, or merges two orders, waits until a
 * record has no visitor. A visitor waits for nobody: it goes and comes again. */
#include "graphs/replay_visits.h"

#include <stddef.h>

#include "base/barrier.h"
#include "base/contract.h"
#include "pools/device.h"

void tn_replays_enter_series(tarn_pool *pool, struct tn_replays *replays, uint64_t series)
{
    TN_ASSERT(tn_lock_held(TN_RANK_REPLAY));
    TN_ASSERT(replays->seen_series != series && replays->next_id == 0);
    replays->seen_series = series;
    atomic_store(&replays->stream_id, 0);
    atomic_store(&pool->replay_stream_id, 0);
    atomic_store(&replays->stamp, 0);
    replays->recorded = false;
}

/* Orders replays, though the pool may have one graph. The record is locked. */
static void borrow(struct tn_replays *replays)
{
    TN_ASSERT(tn_lock_held(TN_RANK_REPLAY));
    if (atomic_load(&replays->serialized))
        return;
    replays->lent = true;
    atomic_store(&replays->serialized, true);
    tn_barrier_heavy(); /* its light side: begin_alone in graphs/replay.c */
}

tarn_status tn_replays_visit(tarn_pool *pool, const struct tn_visit *visit, bool *needs_wait)
{
    struct tn_gpu *gpu = &pool->device->gpu;
    struct tn_replays *replays = tn_replays_lock(&pool->replays);
    uint64_t series = atomic_load(&replays->series);
    enum tn_turn turn;
    tarn_status status = TARN_OK;

    TN_ASSERT(visit->visitor != NULL);
    *needs_wait = replays->visitor != NULL && replays->visitor != visit->visitor;
    if (replays->visitor != NULL)
        goto unlock; /* the pools have one record: it is visited once */
    borrow(replays);
    TN_ASSERT(atomic_load(&replays->serialized));
    if (replays->seen_series != series)
        tn_replays_enter_series(pool, replays, series);
    turn = tn_replays_find_turn(gpu, replays, visit->stream_id);
    *needs_wait = turn == TN_TURN_UNKNOWN || (turn == TN_TURN_BY_EVENT && !visit->by_events) ||
                  atomic_load(&replays->launching_alone);
    if (!*needs_wait && turn == TN_TURN_BY_EVENT)
        status = tn_stream_wait(gpu, visit->stream, replays->event);
    if (!*needs_wait && status == TARN_OK) {
        replays->visitor = visit->visitor;
        replays->is_visited = true;
        replays->visited_id = atomic_load(&replays->stream_id);
        atomic_store(&replays->stream_id, 0);
        tn_replays_forget_next(replays);
    }
unlock:
    tn_replays_unlock(replays);
    return status;
}

void tn_replays_await_visit(tarn_pool *pool)
{
    struct tn_replays *replays = tn_replays_lock(&pool->replays);

    borrow(replays);
    tn_replays_forget_next(replays);
    replays->crosses = true;
    replays->awaited = true;
    tn_replays_unlock(replays);
}

bool tn_replays_are_launching(const tarn_pool *pool)
{
    return atomic_load(&atomic_load(&pool->replays)->launching_alone);
}

void tn_replays_end_awaited(tarn_device *device)
{
    tn_lock_acquire(&device->lock);
    /* No visit: the record of replays has a lock of its own. */
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        struct tn_replays *replays = tn_replays_lock(&pool->replays);

        replays->awaited = false;
        tn_replays_unlock(replays);
    }
    tn_lock_release(&device->lock);
}

void tn_replays_leave_visit(tarn_pool *pool, const struct tn_visit *visit, bool worked)
{
    struct tn_gpu *gpu = &pool->device->gpu;
    struct tn_replays *replays = tn_replays_lock(&pool->replays);

    TN_ASSERT(visit->visitor != NULL);
    if (replays->visitor != visit->visitor)
        goto unlock; /* the record was left already, as another pool's */
    replays->visitor = NULL;
    replays->is_visited = false;
    if (!worked) {
        atomic_store(&replays->stream_id, replays->visited_id);
        goto unlock;
    }
    atomic_store(&replays->stream_id, visit->stream_id);
    atomic_store(&replays->stamp, tn_gpu_epoch(gpu));
    replays->visited = true;
    replays->recorded = tn_event_renew(gpu, &replays->event, visit->stream);
unlock:
    tn_replays_unlock(replays);
}

void tn_replays_follow(tarn_pool *pool, const struct tn_visit *visit)
{
    const struct tn_gpu *gpu = &pool->device->gpu;
    struct tn_replays *replays;
    bool needs_wait = true;
    tarn_status status = tn_replays_visit(pool, visit, &needs_wait);

    TN_ASSERT(tn_pool_is_locked(pool));
    TN_ASSERT(visit->visitor != NULL);
    if (status == TARN_OK && !needs_wait) {
        tn_replays_leave_visit(pool, visit, true);
        return;
    }
    replays = tn_replays_lock(&pool->replays);
    borrow(replays);
    tn_replays_forget_next(replays);
    atomic_store(&replays->alone_stamp, tn_gpu_epoch(gpu)); /* the next one waits for the device */
    atomic_store(&replays->stamp, tn_gpu_epoch(gpu));
    replays->visited = true;
    tn_replays_unlock(replays);
}

bool tn_replays_precede(const tarn_pool *pool, uint64_t stream_id)
{
    const struct tn_replays *replays = atomic_load(&pool->replays);

    return tn_gpu_is_proven(&pool->device->gpu, atomic_load(&replays->alone_stamp)) &&
           (atomic_load(&replays->stream_id) == stream_id ||
            tn_gpu_is_proven(&pool->device->gpu, atomic_load(&replays->stamp)));
}
