// SPDX-License-Identifier: Apache-2.0
#include "pools/awake.h"

#include <stddef.h>

#include "base/contract.h"
#include "heap/arena_lock.h"
#include "heap/steady.h"

enum { UNUSED_LOCKS_MAX = 32 };

void tn_arena_wake(tarn_pool *pool, struct tn_arena *arena)
{
    TN_ASSERT(tn_pool_is_locked(pool) && arena->pool == pool && arena != &pool->idle);
    arena->unused_locks = 0;
    if (arena->awake)
        return;
    tn_arena_lock(arena);
    arena->awake = true;
    tn_arena_link(pool, arena, TN_ARENAS_AWAKE);
    TN_ASSERT(tn_arena_is_locked(arena) && arena->allocates == TN_NOT_STEADY); /* P30 */
}

void tn_arena_sleep(tarn_pool *pool, struct tn_arena *arena)
{
    TN_ASSERT(tn_pool_is_locked(pool) && arena->awake && tn_arena_is_locked(arena));
    tn_arena_unlink(pool, arena, TN_ARENAS_AWAKE);
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
