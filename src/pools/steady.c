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
#include "base/hot.h"
#include "pools/arena_table.h"
#include "pools/device.h"
#include "pools/hold.h"

enum {
    RECORDS_FOR_CUT = 2,
    RECORDS_SET_ASIDE = 32, /* a slab's part; so threads rarely write to the same cache line */
    SEQUENCES = 256,        /* numbers for blocks, taken at a time */
    /* 4 MiB: what stays loose whatever else is free. Larger blocks are few, so their best place is worth more than
     * the time: a program that asks for a little more each time, and takes the last one first, would
     * keep holes apart. */
    LOOSE_UNITS_MAX = (4 << 20) >> TN_BLOCK_BITS,
};

void tn_steady_take_sequences(struct tn_arena *arena)
{
    arena->sequence = tn_next_sequences(SEQUENCES);
    arena->sequences_end = arena->sequence + SEQUENCES;
}

static void count_free(struct tn_arena *arena, struct tn_heap *heap, const struct tn_block *block)
{
    TN_ASSERT(tn_kind_of(tn_block_bytes(block)) == heap->kind); /* P20 */
    heap->counters.freed.count += 1;
    heap->counters.freed.bytes += tn_block_bytes(block);
    heap->counters.freed.requested += block->requested;
    arena->counters.live_bytes -= (int64_t)tn_block_bytes(block);
}

/* Enters the block in the books of the chunk that it begins in, and of those that it reaches into. */
static void enter(struct tn_chunk *chunk, struct tn_block *block)
{
    tn_live_insert_in(chunk, block, true);
    if (tn_block_end(block) <= tn_chunk_end(chunk))
        chunk->used_bytes += tn_block_bytes(block);
    else
        tn_block_count_used(block);
}

/* Takes a loose block out of the books, with the epoch of its free. */
static void leave(struct tn_block *block, uint64_t epoch)
{
    struct tn_chunk *chunk = tn_block_chunk_at(block, block->offset);

    tn_live_remove_in(chunk, block);
    if (tn_block_end(block) <= tn_chunk_end(chunk)) {
        TN_ASSERT(chunk->used_bytes >= tn_block_bytes(block)); /* P6 */
        chunk->used_bytes -= tn_block_bytes(block);
        chunk->freed_stamp = tn_max(chunk->freed_stamp, epoch);
    } else {
        tn_block_count_freed(block, epoch);
    }
}

static TN_APART void join_loose(struct tn_arena *arena, struct tn_heap *heap)
{
    struct tn_block *block = heap->loose;

    heap->loose = NULL; /* P19 */
    leave(block, heap->loose_stamp);
    tn_arena_put(arena, block);
}

/* What is loose in the heap joins its neighbours. */
static inline void settle(struct tn_arena *arena, struct tn_heap *heap)
{
    if (heap->loose != NULL)
        join_loose(arena, heap);
}

struct tn_block *tn_steady_cut(struct tn_arena *arena, struct tn_heap *heap,
                               const struct tn_request *request, uint64_t bytes)
{
    struct tn_block *block;
    struct tn_chunk *chunk;
    uint64_t offset;

    settle(arena, heap);
    if (arena->store.spare_count < RECORDS_FOR_CUT)
        return NULL;
    block = tn_bins_find_inner(&heap->bins, bytes + request->alignment - TN_BLOCK_BYTES_MIN);
    if (block == NULL || tn_run_is_wedged(block, block, arena))
        return NULL;
    TN_ASSERT(block->segment->base % request->alignment == 0);
    offset = tn_round_up(block->offset, request->alignment);
    if (arena->hold != NULL && !tn_hold_has(arena->hold, block->segment, offset, bytes))
        return NULL;
    chunk = tn_block_chunk_at(block, offset);
    if (!tn_live_has_room(chunk))
        return NULL;
    block = tn_arena_carve(arena, block, offset, bytes);
    block->own_order = true;
    block->tangled = false;   /* P18 */
    block->misplaced = false; /* P20 */
    enter(chunk, block);
    if (tn_heap_counters_rise(&heap->counters, bytes))
        tn_heap_counters_raise(&heap->counters, bytes, request->requested);
    return block;
}

bool tn_steady_allocate_routed(struct tn_routes *routes, const struct tn_request *request,
                               void **address)
{
    uint64_t stamp = atomic_load_explicit(&routes->stamp, memory_order_acquire);
    struct tn_arena *arena =
        atomic_load_explicit(tn_route_place(routes, request->order), memory_order_acquire);
    bool done;

    if (arena == NULL)
        return false;
    tn_spin_acquire(&arena->lock);
    done = arena->allocates && arena->routes_stamp == stamp &&
           tn_order_equal(arena->order, request->order) &&
           tn_steady_allocate_in(arena, request, address);
    tn_spin_release(&arena->lock);
    return done;
}

/* Whether the block's run of free memory, once it is free, will lie between memory of two other arenas. */
static inline bool will_be_wedged(const struct tn_arena *arena, const struct tn_heap *heap,
                                  const struct tn_block *block)
{
    const struct tn_block *low = block;
    const struct tn_block *high;

    if (!block->segment->divided)
        return false;
    high = tn_block_is_free_of(block->next, heap) ? block->next : block;
    if (!tn_block_is_foreign(high->next, arena))
        return false;
    if (tn_block_is_free_of(block->previous, heap))
        low = block->previous;
    return low != high && tn_block_is_foreign(low->previous, arena);
}

static inline bool free_in(struct tn_arena *arena, struct tn_heap *heap, struct tn_block *block)
{
    settle(arena, heap);
    if (will_be_wedged(arena, heap, block))
        return false;
    count_free(arena, heap, block);
    block->state = TN_BLOCK_FREE;
    heap->loose = block;
    heap->loose_stamp = tn_gpu_epoch(&arena->pool->device->gpu);
    if (block->units > LOOSE_UNITS_MAX && tn_bins_may_have(&heap->bins, tn_block_bytes(block)))
        settle(arena, heap);
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
    if (arena->frees && tn_address_table_chunk(address) == chunk &&
        atomic_load_explicit(&chunk->heap, memory_order_relaxed) == heap &&
        !atomic_load_explicit(&arena->pool->released, memory_order_relaxed)) {
        const struct tn_segment *segment =
            atomic_load_explicit(&chunk->segment, memory_order_relaxed);
        struct tn_block *block = tn_live_open_at(chunk, address - segment->base);

        done = block != NULL && block->state == TN_BLOCK_LIVE && free_in(arena, heap, block);
    }
    tn_spin_release(&arena->lock);
    return done;
}

void tn_steady_end(struct tn_arena *arena)
{
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++)
        settle(arena, &arena->heaps[kind]);
}

/* Whether captures may be under way that what is freed in the arena must be kept for, but for its own, whose
 * hold has all chunks of its blocks. Where a route is open there may be more of them than are known; that of a
 * tarn_capture leads to no other. */
static bool may_have_other_captures(const tarn_pool *pool, const struct tn_arena *arena)
{
    uint64_t own = arena->hold != NULL && arena->hold->owned ? 1 : 0;

    return pool->open_hold_count != own || pool->route_count != own;
}

void tn_steady_begin(struct tn_arena *arena)
{
    const tarn_pool *pool = arena->pool;

    TN_ASSERT(arena != &pool->idle);
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++)
        TN_ASSERT(arena->heaps[kind].loose == NULL); /* P19 */
    arena->hold =
        tn_arena_is_captured(arena) ? tn_hold_find(arena->pool, arena->order.capture_id) : NULL;
    arena->allocates =
        arena->met && arena->fence == NULL &&
        (!tn_arena_is_captured(arena) || (arena->hold != NULL && pool->bodies == NULL));
    arena->frees = arena->allocates && !may_have_other_captures(pool, arena);
}

bool tn_steady_provide(struct tn_arena *arena)
{
    struct tn_block_store *store = &arena->pool->store;

    /* Whoever is here for something else takes them along, so as not to come again for them at once. */
    if (arena->store.spare_count >= RECORDS_SET_ASIDE / 2)
        return true;
    if (!tn_blocks_reserve(store, RECORDS_SET_ASIDE))
        return arena->store.spare_count >= RECORDS_FOR_CUT;
    tn_blocks_move(store, &arena->store, RECORDS_SET_ASIDE);
    return true;
}

void tn_steady_level(struct tn_arena *arena)
{
    size_t count = arena->store.spare_count;

    if (count > 2 * RECORDS_SET_ASIDE)
        tn_blocks_move(&arena->store, &arena->pool->store, count - RECORDS_SET_ASIDE);
}
