// SPDX-License-Identifier: Apache-2.0
/* Two pools join under the DEVICE lock, so no two joins meet, and with the locks of both records: nobody
 * launches meanwhile, and who comes later finds the record that is shared.
 *
 * A record that its pools have left stays as long as one of them lives, for a thread that replays a graph of
 * theirs may be about to lock it. The record whose oldest pool is the younger one is left: so pools that come
 * and go, as those of adopted captures do, leave nothing behind with one that stays, whichever meets it.
 *
 * Trade-off: pools that have once shared a capture are kept in order until they go, also when that graph is
 * gone. */
#include "pools/replays.h"

#include <sched.h>
#include <stddef.h>
#include <time.h>

#include "base/barrier.h"
#include "base/contract.h"
#include "base/host.h"
#include "driver/stream.h"
#include "pools/device.h"

static struct tn_records replays_records = TN_RECORDS_INIT(struct tn_replays);

struct tn_replays *tn_replays_make(void)
{
    struct tn_replays *made = tn_records_take(&replays_records);

    if (made == NULL)
        return NULL;
    tn_barrier_prepare();
    made->pool_count = 1;
    return made;
}

static void end(struct tn_gpu *gpu, struct tn_replays *replays)
{
    if (replays->event != NULL)
        tn_event_destroy(gpu, replays->event);
    tn_records_give(&replays_records, replays);
}

void tn_replays_leave(tarn_pool *pool)
{
    struct tn_replays *replays = pool->first_replays;

    while (replays != NULL) {
        struct tn_replays *joined = replays->joined;

        replays->pool_count -= 1; /* P17 */
        if (replays->pool_count == 0)
            end(&pool->device->gpu, replays);
        replays = joined;
    }
}

void tn_replays_order(struct tn_replays *replays)
{
    if (atomic_load(&replays->ordered))
        return;
    atomic_store(&replays->ordered, true);
    tn_barrier_heavy(); /* its light side: graphs/replay.c */
}

void tn_replays_await_alone(const struct tn_replays *replays)
{
    const struct timespec pause = {0, 1000};

    while (atomic_load(&replays->launching_alone))
        (void)nanosleep(&pause, NULL);
}

bool tn_replays_are_over(const tarn_pool *pool)
{
    const struct tn_replays *replays = atomic_load(&pool->replays);
    const struct tn_gpu *gpu = &pool->device->gpu;

    return !atomic_load(&replays->launching_alone) &&
           tn_gpu_is_proven(gpu, atomic_load(&replays->alone_stamp)) &&
           tn_gpu_is_proven(gpu, atomic_load(&replays->stamp));
}

/* Locks both records, neither of which a restore visits. A visit ends without the DEVICE lock. */
static void lock_both(struct tn_replays *from, struct tn_replays *to)
{
    for (;;) {
        tn_lock_acquire_spin(&to->lock, TN_RANK_REPLAY);
        tn_lock_acquire_second_spin(&from->lock, TN_RANK_REPLAY);
        if (to->visitor == NULL && from->visitor == NULL)
            return;
        tn_lock_release_second_spin(&from->lock);
        tn_replays_unlock(to);
        (void)sched_yield();
    }
}

/* All pools of one record come to another. The DEVICE lock is held. */
static void merge(tarn_device *device, struct tn_replays *from, struct tn_replays *to)
{
    lock_both(from, to);
    atomic_store(&to->shared, true);
    atomic_store(&to->ordered, true);
    atomic_store(&from->ordered, true);
    tn_barrier_heavy(); /* also where one was: who said so may not have come to it yet */
    tn_replays_await_alone(to);
    tn_replays_await_alone(from);
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        if (atomic_load(&pool->replays) == from)
            atomic_store(&pool->replays, to);
    }
    to->pool_count += from->pool_count; /* P17 */
    from->joined = to;
    to->crosses = true;
    atomic_store(&to->alone_stamp, tn_gpu_epoch(&device->gpu));
    tn_lock_release_second_spin(&from->lock);
    tn_replays_unlock(to);
}

static void share(tarn_pool *pool, tarn_pool *other)
{
    struct tn_replays *one = atomic_load(&pool->replays);
    struct tn_replays *another = atomic_load(&other->replays);
    struct tn_replays *older = one;

    /* Devices list their pools newest first. */
    for (const tarn_pool *any = pool->device->pools; any != NULL; any = any->next) {
        struct tn_replays *replays = atomic_load(&any->replays);

        if (replays == one || replays == another)
            older = replays;
    }
    merge(pool->device, older == one ? another : one, older);
}

static bool has_hold_of(tarn_pool *pool, uint64_t capture_id, tn_cu_graph graph)
{
    bool found = false;

    tn_pool_lock(pool);
    for (const struct tn_hold *hold = pool->holds; hold != NULL; hold = hold->next)
        found = found || hold->capture_id == capture_id || (graph != NULL && hold->graph == graph);
    tn_pool_unlock(pool);
    return found;
}

void tn_replays_join(tarn_pool *pool, uint64_t capture_id, tn_cu_graph graph)
{
    tarn_device *device = pool->device;

    if (pool->is_default) /* it holds nothing for graphs */
        return;
    tn_lock_acquire(&device->lock);
    for (tarn_pool *other = device->pools; other != NULL; other = other->next) {
        if (atomic_load(&pool->replays) != atomic_load(&other->replays) && !other->is_default &&
            has_hold_of(other, capture_id, graph))
            share(pool, other);
    }
    tn_lock_release(&device->lock);
}
