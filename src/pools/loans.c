// SPDX-License-Identifier: Apache-2.0
#include "pools/loans.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "pools/device.h"
#include "pools/proofs.h"

enum { CANDIDATES_MAX = 8, LENDERS_MAX = 64 };

/* Whether the first bytes of the FREE block are idle, and in no graph. */
static bool may_be_borrowed(const tarn_pool *pool, const struct tn_block *block, uint64_t bytes)
{
    const struct tn_chunk *chunk;

    TN_ASSERT(block->state == TN_BLOCK_FREE && tn_block_bytes(block) >= bytes);
    for (uint64_t at = block->offset; at < block->offset + bytes; at = tn_chunk_end(chunk)) {
        chunk = tn_block_chunk_at(block, at);
        if (chunk->hold_count > 0 ||
            !tn_pool_has_proven(pool, block->heap->arena, chunk->freed_stamp))
            return false;
    }
    return true;
}

/* A block of the heap to borrow, smaller than best; NULL: none. */
static struct tn_block *find_to_borrow(const tarn_pool *pool, const struct tn_heap *heap,
                                       uint64_t bytes, const struct tn_block *best)
{
    struct tn_block *block = tn_bins_find(&heap->bins, bytes);

    for (int left = CANDIDATES_MAX; block != NULL && left > 0; left--) {
        if (best != NULL && tn_block_bytes(block) >= tn_block_bytes(best))
            return NULL;
        if (may_be_borrowed(pool, block, bytes))
            return block;
        block = tn_bins_next(&heap->bins, block, bytes);
    }
    return NULL;
}

/* A retired stream's arena is none: its memory will soon be anyone's. */
static bool is_lender(const struct tn_arena *arena)
{
    return !tn_arena_is_captured(arena) && arena->fence == NULL;
}

struct tn_block *tn_heap_borrow(tarn_pool *pool, const struct tn_heap *heap, uint64_t bytes)
{
    struct tn_block *best = NULL;
    struct tn_arena_walk walk;
    const struct tn_arena *other;

    TN_ASSERT(tn_pool_is_locked(pool) && !tn_arena_is_captured(heap->arena));
    if (bytes < TN_LOAN_BYTES_MIN || pool->device->move_limit_bytes == 0)
        return NULL;
    walk = tn_arena_walk_begin(pool, bytes, LENDERS_MAX);
    while ((other = tn_arena_walk_next(&walk)) != NULL) {
        const struct tn_heap *lender = other->heaps[heap->kind];
        struct tn_block *found;

        if (!tn_bins_may_have(&lender->bins, bytes) || other == heap->arena || !is_lender(other))
            continue;
        found = find_to_borrow(pool, lender, bytes, best);
        if (found != NULL)
            best = found;
    }
    return best != NULL && tn_blocks_add_cold(&pool->store) ? best : NULL;
}
