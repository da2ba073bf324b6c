// SPDX-License-Identifier: Apache-2.0
#include "pools/proofs.h"

#include <stddef.h>

#include "base/contract.h"

enum {
    /* Events which a call finds not done at most: each costs some 200 ns. */
    UNDONE_MAX = 16,
};

static void poll_arena(tarn_pool *pool, struct tn_arena *arena)
{
    uint64_t proven_stamp = arena->progress.proven_stamp;

    tn_progress_poll(&pool->device->gpu, &arena->progress);
    pool->arenas.proof_count += arena->progress.proven_stamp != proven_stamp;
}

void tn_proofs_ask(tarn_pool *pool, struct tn_arena *arena, tn_cu_stream stream)
{
    struct tn_gpu *gpu = &pool->device->gpu;

    TN_ASSERT(tn_pool_is_locked(pool) && !tn_arena_is_captured(arena));
    poll_arena(pool, arena);
    tn_progress_ask(gpu, &arena->progress, stream);
    arena->fallen_bytes = 0;
    arena->unasked_bytes = 0;
    if (arena->vain_asks < TN_VAIN_ASKS_MAX)
        arena->vain_asks += 1;
    if (!arena->was_asked)
        tn_arena_link(&pool->arenas.lists, arena, TN_ARENAS_ASKED);
    arena->was_asked = true;
}

static void forget(tarn_pool *pool, struct tn_arena *arena)
{
    tn_arena_unlink(&pool->arenas.lists, arena, TN_ARENAS_ASKED);
    arena->was_asked = false;
}

void tn_proofs_end(tarn_pool *pool, struct tn_arena *arena)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    if (arena->was_asked)
        forget(pool, arena);
    tn_progress_fini(&pool->device->gpu, &arena->progress);
}

void tn_proofs_poll(tarn_pool *pool)
{
    struct tn_arena *undone[UNDONE_MAX];
    struct tn_arena *next;
    int count = 0;

    TN_ASSERT(tn_pool_is_locked(pool));
    for (struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_ASKED];
         arena != NULL && count < UNDONE_MAX; arena = next) {
        next = arena->in[TN_ARENAS_ASKED].next;
        poll_arena(pool, arena);
        arena->vain_asks = 0;
        if (arena->progress.asked_stamp == 0)
            forget(pool, arena);
        else
            undone[count++] = arena;
    }
    /* The next call asks after others first. */
    for (int i = 0; i < count && count == UNDONE_MAX; i++)
        tn_arena_put_last(&pool->arenas.lists, undone[i], TN_ARENAS_ASKED);
}

void tn_proofs_settle(tarn_pool *pool, struct tn_order order)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    for (struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_ALL]; arena != NULL;
         arena = tn_arena_next(arena)) {
        if (!tn_order_equal(arena->order, order))
            arena->settled_stamp = tn_gpu_epoch(&pool->device->gpu);
    }
}
