// SPDX-License-Identifier: Apache-2.0
/* Trade-offs: walks the live blocks of the stream's arena, or all of the pool if one of them was ever
 * elsewhere. */
#include "pools/retire.h"

#include <stddef.h>

#include "base/contract.h"
#include "claims/use.h"
#include "pools/arena_table.h"
#include "pools/arenas.h"
#include "pools/device.h"
#include "pools/pool_lock.h"

/* The first or next LIVE block of an order outside captures. Such blocks are in their arena's
 * chunks, unless the pool has ever had one elsewhere. */
struct live_walk {
    struct tn_order order;
    struct tn_block *stray;    /* where all live blocks of the pool are walked */
    struct tn_chunk *chunk;    /* else the chunk, and the entry in its table, to look at next */
    struct tn_chunk *of_large; /* the chunks that come behind those of the small heap */
    uint32_t place;
    bool all;
};

static struct live_walk walk_live(tarn_pool *pool, struct tn_order order)
{
    struct tn_arena *arena = tn_arena_seek(pool, order);
    struct live_walk walk = {.order = order, .all = pool->store.has_strays};

    TN_ASSERT(tn_pool_is_locked(pool) && order.capture_id == 0);
    if (walk.all) {
        walk.stray = tn_live_first(pool->segments.first);
    } else if (arena != NULL) {
        walk.chunk = arena->heaps[TN_HEAP_SMALL]->chunks;
        walk.of_large = arena->heaps[TN_HEAP_LARGE]->chunks;
    }
    return walk;
}

static struct tn_block *next_in_chunks(struct live_walk *walk)
{
    for (;;) {
        if (walk->chunk == NULL) {
            walk->chunk = walk->of_large;
            walk->of_large = NULL;
            if (walk->chunk == NULL)
                return NULL;
        }
        while (walk->chunk->live_count > 0 && walk->place < walk->chunk->live_size) {
            struct tn_block *block = tn_live_block_in(walk->chunk, walk->place++);

            if (block != NULL)
                return block;
        }
        walk->chunk = walk->chunk->heap_next;
        walk->place = 0;
    }
}

static struct tn_block *next_stray(struct live_walk *walk)
{
    struct tn_block *block = walk->stray;

    walk->stray = block != NULL ? tn_live_next(block) : NULL;
    return block;
}

static struct tn_block *next_live(struct live_walk *walk)
{
    struct tn_block *block;

    do {
        block = walk->all ? next_stray(walk) : next_in_chunks(walk);
    } while (block != NULL &&
             (block->state != TN_BLOCK_LIVE || !tn_block_is_of(block, walk->order)));
    return block;
}

bool tn_arenas_prepare_retire(tarn_pool *pool, struct tn_order order)
{
    struct live_walk walk;
    struct tn_block *block;

    if (tn_arena_seek(pool, order) == NULL && tn_dormant_find(pool, order.stream_id) != NULL &&
        tn_arena_get(pool, order) == NULL)
        return false;
    walk = walk_live(pool, order);
    while ((block = next_live(&walk)) != NULL) {
        if (!tn_block_add_cold(block))
            return false;
    }
    return true;
}

static bool may_have_pending(const tarn_pool *pool, const struct tn_arena *arena)
{
    return pool->store.has_strays ||
           (arena != NULL && (arena->heaps[TN_HEAP_SMALL]->pending_count > 0 ||
                              arena->heaps[TN_HEAP_LARGE]->pending_count > 0));
}

void tn_arenas_retire(tarn_pool *pool, struct tn_order order, struct tn_fence *fence)
{
    struct tn_arena *arena;
    struct live_walk walk;
    struct tn_block *block;

    TN_ASSERT(order.capture_id == 0);
    TN_ASSERT(tn_pool_is_locked(pool));
    /* Blocks allocated on the stream since the preparation may lack room for the fence, if host
     * memory is short. Then everything stays as for a stream which vanishes unannounced. */
    if (!tn_arenas_prepare_retire(pool, order))
        return;
    arena = tn_arena_find(pool, order); /* which had ended perhaps, and is back */
    walk = walk_live(pool, order);
    while ((block = next_live(&walk)) != NULL)
        tn_block_retire(&pool->device->streams, block, fence);
    for (block = may_have_pending(pool, arena) ? pool->pending.first : NULL; block != NULL;
         block = tn_block_cold(block)->pending_next) {
        if (tn_block_is_of(block, order))
            tn_block_retire(&pool->device->streams, block, fence);
    }
    if (arena == NULL)
        return;
    tn_arena_wake(pool, arena); /* locked while its order changes */
    tn_fence_acquire(&pool->device->streams, fence);
    tn_arena_table_leave(pool, arena); /* P21 */
    arena->fence = fence;
    arena->order = TN_ORDER_NONE; /* no block has its order any more */
    atomic_store(&arena->stream, 0);
    pool->arenas.retired_count += 1;
    tn_arena_link(&pool->arenas.lists, arena, TN_ARENAS_RETIRED);
    TN_ASSERT(tn_arena_seek(pool, order) == NULL); /* P14 */
}
