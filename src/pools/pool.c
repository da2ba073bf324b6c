// SPDX-License-Identifier: Apache-2.0
/* The record of a pool, and its lock: what arenas may do by themselves is found out when that is given back. */
#include "pools/pool.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/barrier.h"
#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/host.h"
#include "base/hot.h"
#include "heap/arena_lock.h"
#include "heap/steady.h"
#include "pools/device.h"

static struct tn_records pool_records = TN_RECORDS_INIT_KEEPING(struct tarn_pool, name, lock);

static TN_APART void await_owners(const tarn_pool *pool, const struct tn_arena *but)
{
    tn_barrier_heavy(); /* its light side: tn_arena_enter */
    for (const struct tn_arena *arena = pool->arenas; arena != NULL; arena = arena->next) {
        if (arena != but)
            tn_arena_await_owner(arena);
    }
}

void tn_pool_stop_others(tarn_pool *pool, const struct tn_arena *but)
{
    bool owned = false;

    for (struct tn_arena *arena = pool->arenas; arena != NULL; arena = arena->next) {
        if (arena != but)
            owned = tn_arena_begin_lock(arena) || owned;
    }
    if (owned)
        await_owners(pool, but);
    for (struct tn_arena *arena = pool->arenas; arena != NULL; arena = arena->next) {
        if (arena != but)
            tn_steady_end(arena); /* P19 */
    }
    tn_counters_collect(pool);
}

/* Whether captures may be under way that what is freed in the arena must be kept for, but for its own, whose
 * hold has all chunks of its blocks. Where a route is open there may be more of them than are known; that of a
 * tarn_capture leads to no other. hold: of the arena's capture; NULL: none. */
static bool may_have_other_captures(const tarn_pool *pool, const struct tn_hold *hold)
{
    uint64_t own = hold != NULL && hold->owned ? 1 : 0;

    return pool->open_hold_count != own || pool->route_count != own;
}

/* What the arena may do by itself once the pool is unlocked. */
static struct tn_steady_terms terms_of(const tarn_pool *pool, const struct tn_arena *arena)
{
    bool captured = tn_arena_is_captured(arena);
    const struct tn_hold *hold = captured ? tn_hold_find(pool, arena->order.capture_id) : NULL;
    struct tn_steady_terms terms = {
        .joins = pool->checkpoint_count > 0,
        .captured = hold != NULL ? &hold->chunks : NULL,
    };

    TN_ASSERT(arena != &pool->idle);
    terms.allocates =
        arena->met && arena->fence == NULL &&
        atomic_load(&pool->magic) != 0 && /* else it is going: who has its handle is told so */
        (!captured || (hold != NULL && pool->bodies == NULL));
    /* The last free of a released pool, which ends it, is the pool's affair. */
    terms.frees =
        terms.allocates && !may_have_other_captures(pool, hold) && !atomic_load(&pool->released);
    return terms;
}

void tn_pool_resume_others(tarn_pool *pool, const struct tn_arena *but)
{
    for (struct tn_arena *arena = pool->arenas; arena != NULL; arena = arena->next) {
        struct tn_steady_terms terms;

        if (arena == but)
            continue;
        terms = terms_of(pool, arena);
        tn_steady_begin(arena, &terms);
        tn_arena_unlock(arena);
    }
}

void tn_pool_lock(tarn_pool *pool)
{
    tn_lock_acquire(&pool->lock);
    if (tn_is_forked())
        return;
    tn_pool_stop_others(pool, NULL);
}

void tn_pool_unlock(tarn_pool *pool)
{
    if (!tn_is_forked())
        tn_pool_resume_others(pool, NULL);
    tn_lock_release(&pool->lock);
}

void tn_pool_init_arena(tarn_pool *pool, struct tn_arena *arena, struct tn_order order)
{
    tn_arena_init(arena,
                  &(struct tn_arena_owner){.pool = pool,
                                           .rounding = pool->rounding,
                                           .epoch = &pool->device->gpu.epoch,
                                           .store = &pool->store},
                  order);
}

/* Makes ready what the record has kept. */
static void renew(tarn_pool *pool)
{
    if (pool->lock.rank != TN_RANK_POOL) /* a new record */
        tn_lock_init(&pool->lock, TN_RANK_POOL);
    tn_lock_acquire(&pool->lock);
    TN_ASSERT(pool->arenas == NULL);
    pool->counters = (struct tn_pool_counters){0};
    tn_pins_open(&pool->pins);
    tn_arena_lock(&pool->idle);
    tn_pool_init_arena(pool, &pool->idle, (struct tn_order){0, 0});
    tn_arena_unlock(&pool->idle);
    tn_lock_release(&pool->lock);
}

tarn_status tn_pool_create(tarn_device *device, const struct tn_pool_settings *settings,
                           tarn_pool **pool)
{
    struct tn_replays *replays;
    tarn_pool *made;

    tn_device_bound_released(device);
    made = tn_records_take(&pool_records);
    replays = made != NULL ? tn_replays_make() : NULL;
    if (replays == NULL) {
        if (made != NULL)
            tn_records_give(&pool_records, made);
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a pool");
    }
    __atomic_store_n(&made->device, device, __ATOMIC_RELAXED); /* what is kept comes first */
    made->rounding = device->rounding.any ? &device->rounding : NULL;
    TN_ASSERT(atomic_load(&made->arena_table) == NULL);
    atomic_store(&made->replays, replays);
    atomic_store(&made->replay_stream_id, 0);
    made->replay_order = settings->replay_order;
    atomic_store(&made->released, false);
    atomic_store(&made->is_default, settings->is_default);
    made->share_captured = settings->share_captured;
    made->ending = TN_ENDING_NOT;
    made->first_replays = replays;
    (void)snprintf(made->name, sizeof made->name, "%s",
                   settings->name != NULL ? settings->name : "");
    made->limit_bytes = settings->limit_bytes;
    made->guard = settings->guard;
    made->properties = settings->properties;
    made->peer_mask = settings->peer_mask;
    renew(made);
    tn_lock_acquire(&device->lock);
    made->next = device->pools;
    device->pools = made;
    tn_lock_release(&device->lock);
    atomic_store(&made->magic, TN_POOL_MAGIC);
    *pool = made;
    return TARN_OK;
}

bool tn_pool_is_unused(const tarn_pool *pool)
{
    return pool->counters.live_count == 0 && pool->route_count == 0 && pool->capture_count == 0 &&
           pool->graph_count == 0 && pool->checkpoint_count == 0 && pool->kept_count == 0;
}

bool tn_pool_is_only_held(const tarn_pool *pool)
{
    return tn_pool_is_unused(pool) && tn_pins_count(&pool->pins) == 0;
}

bool tn_pool_is_unclaimed(const tarn_pool *pool)
{
    return tn_pool_is_only_held(pool) && pool->hold_count == 0;
}

tarn_status tn_pool_check_unclaimed(const tarn_pool *pool)
{
    if (tn_pool_is_unclaimed(pool))
        return TARN_OK;
    return tn_fail(
        TARN_ERR_BUSY,
        "pool '%s' is in use: %llu live blocks, %llu routes, %llu captures, %llu graphs, "
        "%llu checkpoints, %llu holds of captures and of graphs that are not gone (a launch runs, or the "
        "program has an executable or a clone), %llu blocks that were freed and that graphs keep, "
        "%llu calls under way",
        pool->name, (unsigned long long)pool->counters.live_count,
        (unsigned long long)pool->route_count, (unsigned long long)pool->capture_count,
        (unsigned long long)pool->graph_count, (unsigned long long)pool->checkpoint_count,
        (unsigned long long)pool->hold_count, (unsigned long long)pool->kept_count,
        (unsigned long long)tn_pins_count(&pool->pins));
}

void tn_pool_recycle(tarn_pool *pool)
{
    tn_records_give(&pool_records, pool);
}
