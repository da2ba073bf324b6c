// SPDX-License-Identifier: Apache-2.0
#include "pools/books.h"

#include "base/contract.h"
#include "heap/steady.h"
#include "claims/usable.h"
#include "pools/device.h"

/* Writes the block's new state, and enters it in the books of its chunks. Reads none of these
 * fields back: a load of two bytes which were just written separately waits until they have reached
 * the cache. */
static inline void make_live(struct tn_chunk *chunk, struct tn_block *block, bool own_order,
                             bool may_have_claims)
{
    TN_ASSERT(block->state == TN_BLOCK_FREE);
    block->state = TN_BLOCK_LIVE;
    block->own_order = own_order;
    block->may_have_claims = may_have_claims;
    block->in_other_heap = false; /* P20 */
    tn_block_enter(block, chunk, own_order && !may_have_claims);
    TN_CHECK_TOUCHED(block);
}

static inline void count_live(tarn_pool *pool, enum tn_heap_kind kind, const struct tn_tally *more)
{
    struct tn_pool_counters *counters = &pool->counters;

    TN_ASSERT(tn_pool_is_locked(pool));
    tn_metrics_add_live(counters->metrics, kind, more);
    counters->risen = true;
}

/* The arena is stopped, or asleep. */
static inline void record_live(const struct tn_block *block, bool restored)
{
    const struct tn_arena *arena = block->heap->arena;

    TN_ASSERT(block->state == TN_BLOCK_LIVE);
    if (!tn_arena_is_recorded(arena))
        return;
    if (restored)
        tn_history_restored(tn_arena_history(arena), block);
    else
        tn_history_alloc(tn_arena_history(arena), block);
}

static inline void record_not_live(struct tn_block *block)
{
    const struct tn_arena *arena = block->heap->arena;

    if (!tn_arena_is_recorded(arena))
        return;
    tn_history_free(tn_arena_history(arena), block, block->sequence);
    tn_history_flush(tn_arena_history(arena)); /* the arena may be asleep, and stay so */
}

void tn_pool_enter_live(tarn_pool *pool, struct tn_block *block, bool restored)
{
    uint64_t bytes = tn_block_bytes(block);

    make_live(tn_block_chunk_at(block, block->offset), block, block->own_order,
              block->may_have_claims);
    record_live(block, restored);
    tn_usable_begin(&pool->device->gpu, block);
    count_live(pool, tn_kind_of(bytes), &(struct tn_tally){1, bytes, block->requested});
    TN_ASSERT(tn_live_find(pool, tn_block_address(block)) == block); /* P5 */
}

void tn_pool_revive(struct tn_chunk *chunk, struct tn_block *block, uint64_t requested,
                    uint64_t sequence, struct tn_tally *tally)
{
    TN_ASSERT(chunk->heap == block->heap &&
              tn_kind_of(tn_block_bytes(block)) == block->heap->kind); /* P20 */
    TN_ASSERT(tn_pool_is_locked(chunk->heap->arena->pool));
    tn_bins_remove(&block->heap->bins, block);
    block->requested = requested;
    block->sequence = sequence;
    make_live(chunk, block, true, false); /* P18 */
    record_live(block, true);
    tn_usable_begin(&chunk->heap->arena->pool->device->gpu, block);
    tally->count += 1;
    tally->bytes += tn_block_bytes(block);
    tally->requested += requested;
}

void tn_pool_count_live(tarn_pool *pool, const struct tn_tally tallies[TN_HEAP_KINDS])
{
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
        if (tallies[kind].count > 0)
            count_live(pool, (enum tn_heap_kind)kind, &tallies[kind]);
    }
}

/* Counts a LIVE block as no longer live. */
static void count_not_live(struct tn_metric *metrics, const struct tn_block *block)
{
    uint64_t bytes = tn_block_bytes(block);

    tn_metrics_remove_live(metrics, tn_kind_of(bytes),
                           &(struct tn_tally){1, bytes, block->requested});
}

void tn_pool_leave_live(tarn_pool *pool, struct tn_block *block)
{
    struct tn_metric *metrics = pool->counters.metrics;

    TN_ASSERT(tn_pool_is_locked(pool));
    TN_ASSERT(block->state == TN_BLOCK_LIVE || block->state == TN_BLOCK_DISCARDED);
    if (block->state == TN_BLOCK_DISCARDED)
        tn_metrics_remove_block(metrics, TN_DISCARDED_BLOCKS, tn_block_bytes(block));
    else
        count_not_live(metrics, block);
    if (block->state == TN_BLOCK_LIVE)
        record_not_live(block);
    tn_live_remove(block);
}

void tn_pool_discard_live(tarn_pool *pool, struct tn_block *block)
{
    TN_ASSERT(block->state == TN_BLOCK_LIVE);
    TN_ASSERT(tn_pool_is_locked(pool));
    block->state = TN_BLOCK_DISCARDED;
    record_not_live(block);
    tn_live_update(block); /* P23 */
    count_not_live(pool->counters.metrics, block);
    if (tn_metrics_add_block(pool->counters.metrics, TN_DISCARDED_BLOCKS, tn_block_bytes(block)))
        pool->counters.unpublished = true;
    TN_CHECK_TOUCHED(block);
}
