// SPDX-License-Identifier: Apache-2.0
#include "pools/proofs.h"

#include <stddef.h>

#include "base/contract.h"

enum { VAIN_ASKS_MAX = 4 }; /* in a row; each doubles the bytes between two */

void tn_proofs_ask(tarn_pool *pool, struct tn_arena *arena, tn_cu_stream stream)
{
    struct tn_gpu *gpu = &pool->device->gpu;

    TN_ASSERT(tn_pool_is_locked(pool) && !tn_arena_is_captured(arena));
    tn_progress_poll(gpu, &arena->progress);
    tn_progress_ask(gpu, &arena->progress, stream);
    arena->unasked_bytes = 0; /* even where the last event is still under way */
    if (arena->vain_asks < VAIN_ASKS_MAX)
        arena->vain_asks += 1;
}

void tn_proofs_poll(tarn_pool *pool)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    for (struct tn_arena *arena = pool->arenas.first; arena != NULL; arena = arena->next) {
        tn_progress_poll(&pool->device->gpu, &arena->progress);
        arena->vain_asks = 0;
    }
}

void tn_proofs_settle(tarn_pool *pool, struct tn_order order)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    for (struct tn_arena *arena = pool->arenas.first; arena != NULL; arena = arena->next) {
        if (!tn_order_equal(arena->order, order))
            arena->settled_stamp = tn_gpu_epoch(&pool->device->gpu);
    }
}
