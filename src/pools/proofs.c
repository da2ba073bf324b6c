// SPDX-License-Identifier: Apache-2.0
#include "pools/proofs.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"

enum { ASKED_PART = 16, VAIN_ASKS_MAX = 4 };

#define ASKED_BYTES_MIN (32 * TN_MIB)

uint64_t tn_proofs_bytes_left(const tarn_pool *pool, const struct tn_arena *arena)
{
    uint64_t mapped =
        arena->heaps[TN_HEAP_SMALL].mapped_bytes + arena->heaps[TN_HEAP_LARGE].mapped_bytes;
    uint64_t asked = tn_max(mapped / ASKED_PART, ASKED_BYTES_MIN) << arena->vain_asks;

    TN_ASSERT(arena != &pool->idle);
    if (pool->arenas.count < 2 || tn_arena_is_captured(arena) ||
        pool->device->move_limit_bytes == 0)
        return UINT64_MAX;
    return asked - tn_min(asked, arena->unasked_bytes);
}

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
