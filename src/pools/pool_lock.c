// SPDX-License-Identifier: Apache-2.0
/* The lock of a pool (pools/pool.h). Its release decides what arenas may do by themselves. */
#include "pools/pool_lock.h"

#include <stddef.h>

#include "base/barrier.h"
#include "base/contract.h"
#include "base/fork.h"
#include "base/hot.h"
#include "heap/arena_lock.h"
#include "heap/check.h"
#include "heap/steady.h"
#include "pools/device.h"
#include "pools/pool.h"

enum { UNUSED_LOCKS_MAX = 32 };

/* The functions up to tn_awake_next have the lock of the list of pools awake. */

static void append(struct tn_awake_pools *pools, tarn_pool *pool)
{
    struct tn_awake_place *place = &pool->arenas.awake;

    place->next = NULL;
    place->previous = pools->last;
    if (place->previous != NULL)
        place->previous->arenas.awake.next = pool;
    else
        pools->first = pool;
    pools->last = pool;
}

static void take_out(struct tn_awake_pools *pools, const tarn_pool *pool)
{
    const struct tn_awake_place *place = &pool->arenas.awake;

    if (place->previous != NULL)
        place->previous->arenas.awake.next = place->next;
    else
        pools->first = place->next;
    if (place->next != NULL)
        place->next->arenas.awake.previous = place->previous;
    else
        pools->last = place->previous;
}

tarn_pool *tn_awake_next(tarn_device *device, uint64_t round)
{
    struct tn_awake_pools *pools = &device->awake;
    tarn_pool *pool;

    TN_ASSERT(tn_lock_is_held(&device->lock));
    tn_lock_acquire_spin(&pools->lock, TN_RANK_AWAKE);
    pool = pools->first;
    if (pool != NULL && pool->arenas.awake.round == round)
        pool = NULL;
    if (pool != NULL) {
        pool->arenas.awake.round = round;
        take_out(pools, pool);
        append(pools, pool);
    }
    tn_lock_release_spin(&pools->lock, TN_RANK_AWAKE);
    return pool;
}

/* The pool's first arena has woken, or its last one sleeps. */
static void note_awake(tarn_pool *pool, bool awake)
{
    struct tn_awake_pools *pools = &pool->device->awake;

    TN_ASSERT(tn_pool_is_locked(pool));
    tn_lock_acquire_spin(&pools->lock, TN_RANK_AWAKE);
    TN_ASSERT(pool->arenas.awake.listed != awake); /* P32 */
    pool->arenas.awake.listed = awake;
    if (awake)
        append(pools, pool);
    else
        take_out(pools, pool);
    tn_lock_release_spin(&pools->lock, TN_RANK_AWAKE);
}

void tn_arena_wake(tarn_pool *pool, struct tn_arena *arena)
{
    TN_ASSERT(tn_pool_is_locked(pool) && arena->pool == pool && arena != &pool->idle);
    arena->unused_locks = 0;
    if (arena->awake)
        return;
    tn_arena_lock(arena);
    arena->awake = true;
    if (pool->arenas.lists.first[TN_ARENAS_AWAKE] == NULL)
        note_awake(pool, true);
    tn_arena_link(&pool->arenas.lists, arena, TN_ARENAS_AWAKE);
    TN_ASSERT(tn_arena_is_locked(arena) && arena->allocates == TN_NOT_STEADY); /* P30 */
}

void tn_arena_sleep(tarn_pool *pool, struct tn_arena *arena)
{
    TN_ASSERT(tn_pool_is_locked(pool) && arena->awake && tn_arena_is_locked(arena));
    tn_arena_unlink(&pool->arenas.lists, arena, TN_ARENAS_AWAKE);
    if (pool->arenas.lists.first[TN_ARENAS_AWAKE] == NULL)
        note_awake(pool, false);
    arena->awake = false;
    arena->allocates = TN_NOT_STEADY; /* P30 */
    arena->frees = TN_NOT_STEADY;
    arena->captured = NULL;
    tn_blocks_move(&arena->store, &pool->store, arena->store.spare_count);
    tn_arena_unlock(arena);
}

/* Whether a stopped arena has gone unused for long. */
static bool is_tired(const struct tn_arena *arena)
{
    TN_ASSERT(arena->awake);
    return arena->unused_locks > UNUSED_LOCKS_MAX;
}

static TN_APART void await_owners(const tarn_pool *pool, const struct tn_arena *but)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    tn_barrier_heavy(); /* its light side: tn_arena_enter */
    for (const struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_AWAKE]; arena != NULL;
         arena = arena->in[TN_ARENAS_AWAKE].next) {
        if (arena != but)
            tn_arena_await_owner(arena);
    }
}

void tn_pool_stop_others(tarn_pool *pool, const struct tn_arena *but)
{
    bool owned = false;

    TN_ASSERT(tn_pool_is_locked(pool));
    for (struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_AWAKE]; arena != NULL;
         arena = arena->in[TN_ARENAS_AWAKE].next) {
        if (arena != but)
            owned = tn_arena_request_lock(arena) || owned;
    }
    if (owned)
        await_owners(pool, but);
    for (struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_AWAKE]; arena != NULL;
         arena = arena->in[TN_ARENAS_AWAKE].next) {
        if (arena != but)
            tn_steady_end(arena); /* P19 */
    }
    tn_counters_collect(&pool->counters, pool->arenas.lists.first[TN_ARENAS_AWAKE]);
}

/* Whether frees in the arena may have to be kept for captures under way. The arena's own capture
 * does not count, for its hold has all chunks of its blocks. An open route may stand for more
 * captures than are known, but a tarn_capture's route leads to no other capture. hold: of the
 * arena's capture; NULL: none. */
static bool may_have_other_captures(const tarn_pool *pool, const struct tn_hold *hold)
{
    uint64_t own = hold != NULL && hold->owned ? 1 : 0;

    TN_ASSERT(pool->holds.open_count >= own);
    return pool->holds.open_count != own || pool->claims.route_count != own;
}

/* The permissions of the arena once the pool is unlocked. */
static struct tn_steady_terms terms_of(const tarn_pool *pool, const struct tn_arena *arena)
{
    bool captured = tn_arena_is_captured(arena);
    const struct tn_hold *hold =
        captured ? tn_hold_find(&pool->holds, arena->order.capture_id) : NULL;
    struct tn_steady_terms terms = {
        .coalesces = pool->claims.checkpoint_count > 0,
        .captured = hold != NULL ? &hold->chunks : NULL,
        .asks = pool->arenas.count > 1 && !captured && pool->device->move_limit_bytes != 0,
    };

    TN_ASSERT(arena != &pool->idle);
    /* A pool without its magic number is going, and callers with its handle are told. */
    terms.allocates = arena->met && arena->fence == NULL && atomic_load(&pool->magic) != 0 &&
                      (!captured || (hold != NULL && pool->bodies.first == NULL));
    /* The last free of a released pool ends the pool, and therefore needs its lock. */
    terms.frees =
        terms.allocates && !may_have_other_captures(pool, hold) && !atomic_load(&pool->released);
    return terms;
}

void tn_pool_resume_others(tarn_pool *pool, const struct tn_arena *but)
{
    struct tn_arena *next;

    TN_ASSERT(tn_pool_is_locked(pool));
    for (struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_AWAKE]; arena != NULL;
         arena = next) {
        struct tn_steady_terms terms;

        next = arena->in[TN_ARENAS_AWAKE].next;
        if (arena == but)
            continue;
        if (is_tired(arena)) {
            tn_arena_sleep(pool, arena);
            continue;
        }
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

#if TARN_DEBUG_CHECKS
/* Checks the pool after as many unlocks as the last check looked at things. A pool which is going
 * is not checked, for its parts may be gone. */
static void check_turn(tarn_pool *pool)
{
    if (atomic_load(&pool->magic) == 0)
        return;
    pool->unlock_count += 1;
    if (pool->unlock_count < pool->last_check_count)
        return;
    pool->unlock_count = 0;
    pool->last_check_count =
        pool->holds.count * (1 + pool->chunks.count); /* each hold for each chunk: P7 */
    TN_CHECK_STATUS(pool->device->check_pool(pool, &pool->last_check_count));
}
#else
static void check_turn(tarn_pool *pool)
{
    (void)pool;
}
#endif

void tn_pool_unlock(tarn_pool *pool)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    if (!tn_is_forked()) {
        check_turn(pool);
        tn_pool_resume_others(pool, NULL);
    }
    tn_lock_release(&pool->lock);
}
