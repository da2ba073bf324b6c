// SPDX-License-Identifier: Apache-2.0
#include "pools/awake.h"

#include <stddef.h>

#include "base/contract.h"
#include "heap/arena_lock.h"
#include "heap/steady.h"
#include "pools/device.h"

enum { UNUSED_LOCKS_MAX = 32 };

/* The functions up to tn_awake_next have the list's lock. */

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
    if (pool->arenas.first[TN_ARENAS_AWAKE] == NULL)
        note_awake(pool, true);
    tn_arena_link(pool, arena, TN_ARENAS_AWAKE);
    TN_ASSERT(tn_arena_is_locked(arena) && arena->allocates == TN_NOT_STEADY); /* P30 */
}

void tn_arena_sleep(tarn_pool *pool, struct tn_arena *arena)
{
    TN_ASSERT(tn_pool_is_locked(pool) && arena->awake && tn_arena_is_locked(arena));
    tn_arena_unlink(pool, arena, TN_ARENAS_AWAKE);
    if (pool->arenas.first[TN_ARENAS_AWAKE] == NULL)
        note_awake(pool, false);
    arena->awake = false;
    arena->allocates = TN_NOT_STEADY; /* P30 */
    arena->frees = TN_NOT_STEADY;
    arena->captured = NULL;
    tn_blocks_move(&arena->store, &pool->store, arena->store.spare_count);
    tn_arena_unlock(arena);
}

bool tn_arena_is_tired(const struct tn_arena *arena)
{
    TN_ASSERT(arena->awake);
    return arena->unused_locks > UNUSED_LOCKS_MAX;
}
