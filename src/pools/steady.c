// SPDX-License-Identifier: Apache-2.0
/* An arena is found without a lock, and known to be the right one when its lock is held: arenas and
 * chunks are recycled, never freed, so a pointer that is out of date can be followed as far as that.
 *
 * Blocks at the edge of an arena's memory have neighbours of other arenas. Which those are is written
 * in both; so the record at an edge stays, whatever is split or joined there. Memory between two other
 * arenas that is one block would need both edges written: that takes the pool's lock.
 *
 * Trade-offs: a free by another thread takes the arena's lock too, so that its owner may have to look at
 * the lock for as long. */
#include "pools/steady.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "pools/arena_table.h"
#include "pools/device.h"

enum {
    RECORDS_FOR_CUT = 2,
    RECORDS_SET_ASIDE = 32, /* a slab's part; so threads rarely write to the same cache line */
    SEQUENCES = 256,        /* numbers for blocks, taken at a time */
};

static bool is_steady(const struct tn_arena *arena)
{
    const tarn_pool *pool = arena->pool;

    return pool != NULL && arena != &pool->idle && arena->met && !tn_arena_is_captured(arena) &&
           arena->fence == NULL;
}

static uint64_t next_sequence(struct tn_arena *arena)
{
    if (arena->sequences_left == 0) {
        arena->sequence = tn_next_sequences(SEQUENCES);
        arena->sequences_left = SEQUENCES;
    }
    arena->sequences_left -= 1;
    arena->sequence += 1;
    return arena->sequence - 1;
}

static void count_allocation(struct tn_arena_counters *counters, const struct tn_block *block)
{
    counters->alloc_count += 1;
    counters->live_count += 1;
    counters->requested_bytes += (int64_t)block->requested;
    counters->live_bytes += (int64_t)tn_block_bytes(block);
    if (counters->live_bytes > counters->live_peak_bytes)
        counters->live_peak_bytes = counters->live_bytes;
}

static bool allocate(struct tn_arena *arena, const struct tn_request *request, void **address)
{
    uint64_t bytes = tn_round_up(request->requested, TN_BLOCK_BYTES_MIN);
    uint64_t room = bytes + request->alignment - TN_BLOCK_BYTES_MIN;
    struct tn_heap *heap =
        &arena->heaps[bytes <= TN_SMALL_BYTES_MAX ? TN_HEAP_SMALL : TN_HEAP_LARGE];
    struct tn_block *block;
    uint64_t start;

    if (arena->store.spare_count < RECORDS_FOR_CUT)
        return false;
    block = tn_bins_find(&heap->bins, room);
    if (block == NULL || tn_run_is_wedged(block, block, arena))
        return false;
    start = tn_round_up(tn_block_address(block), request->alignment);
    if (!tn_live_has_room(tn_address_table_chunk(start), bytes))
        return false;
    block = tn_arena_carve(arena, block, start - block->segment->base, bytes);
    block->requested = request->requested;
    block->own_order = true;
    block->sequence = next_sequence(arena);
    block->state = TN_BLOCK_LIVE;
    tn_live_insert(block);
    tn_block_count_used(block);
    count_allocation(&arena->counters, block);
    *address = (void *)(uintptr_t)start;
    return true;
}

bool tn_steady_allocate(tarn_pool *pool, const struct tn_request *request, void **address)
{
    struct tn_arena *arena = tn_arena_seek(pool, request->order.stream_id);
    bool done;

    if (arena == NULL)
        return false;
    tn_spin_acquire(&arena->lock);
    done = arena->pool == pool && tn_order_equal(arena->order, request->order) &&
           is_steady(arena) && allocate(arena, request, address);
    tn_spin_release(&arena->lock);
    return done;
}

/* Whether nothing but the arena is concerned by the block's free. */
static bool is_own_affair(const struct tn_arena *arena, const struct tn_block *block)
{
    const tarn_pool *pool = arena->pool;

    return block->state == TN_BLOCK_LIVE && block->own_order && !block->tangled &&
           pool->open_hold_count == 0 && pool->route_count == 0 &&
           !atomic_load_explicit(&pool->released, memory_order_relaxed);
}

static bool is_free_of(const struct tn_block *neighbour, const struct tn_heap *heap)
{
    return neighbour != NULL && neighbour->heap == heap && neighbour->state == TN_BLOCK_FREE;
}

static bool free_in(struct tn_arena *arena, struct tn_block *block)
{
    const struct tn_block *low = is_free_of(block->previous, block->heap) ? block->previous : block;
    const struct tn_block *high = is_free_of(block->next, block->heap) ? block->next : block;

    if (low != high && tn_run_is_wedged(low, high, arena))
        return false;
    arena->counters.free_count += 1;
    arena->counters.live_count -= 1;
    arena->counters.live_bytes -= (int64_t)tn_block_bytes(block);
    arena->counters.requested_bytes -= (int64_t)block->requested;
    tn_live_remove(block);
    tn_block_count_freed(block, tn_gpu_epoch(&arena->pool->device->gpu));
    (void)tn_arena_put(arena, block);
    return true;
}

bool tn_steady_free(uint64_t address)
{
    struct tn_chunk *chunk = tn_address_table_chunk(address);
    struct tn_heap *heap =
        chunk != NULL ? atomic_load_explicit(&chunk->heap, memory_order_acquire) : NULL;
    struct tn_arena *arena = heap != NULL ? heap->arena : NULL;
    bool done = false;

    if (arena == NULL)
        return false;
    tn_spin_acquire(&arena->lock);
    if (tn_address_table_chunk(address) == chunk &&
        atomic_load_explicit(&chunk->heap, memory_order_relaxed) == heap && is_steady(arena)) {
        struct tn_block *block = tn_live_find(arena->pool, address);

        done = block != NULL && is_own_affair(arena, block) && free_in(arena, block);
    }
    tn_spin_release(&arena->lock);
    return done;
}

bool tn_steady_provide(struct tn_arena *arena)
{
    struct tn_block_store *store = &arena->pool->store;

    if (arena->store.spare_count >= RECORDS_FOR_CUT || !is_steady(arena))
        return true;
    if (!tn_blocks_reserve(store, RECORDS_SET_ASIDE))
        return false;
    tn_blocks_move(store, &arena->store, RECORDS_SET_ASIDE);
    return true;
}

void tn_steady_level(struct tn_arena *arena)
{
    size_t count = arena->store.spare_count;

    if (count > 2 * RECORDS_SET_ASIDE)
        tn_blocks_move(&arena->store, &arena->pool->store, count - RECORDS_SET_ASIDE);
}
