// SPDX-License-Identifier: Apache-2.0
/* Chunks are found by the pool's table of chunks. The table has the addresses of all records, and the
 * processor brings the next records near. */
#include "observe/ground.h"

#include <stdio.h>

#include "base/contract.h"
#include "base/host.h"
#include "heap/history.h"
#include "heap/magazine.h"
#include "observe/lists.h"
#include "observe/snapshot_parts.h"
#include "pools/pool.h"

enum { AHEAD = 8 };

static size_t count_writers(const struct tn_arena *arena)
{
    const struct tn_magazines *magazines = tn_arena_magazines(arena);

    return magazines != NULL ? 1 + TN_MAGAZINES : 1;
}

bool tn_ground_count(tarn_pool *pool, struct tn_ground_counts *need)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    need->pools += 1;
    need->chunks += pool->chunks.count;
    need->blocks += (size_t)tn_pool_pending_count(pool);
    need->writers += count_writers(&pool->idle);
    for (const struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_ALL]; arena != NULL;
         arena = arena->in[TN_ARENAS_ALL].next)
        need->writers += count_writers(arena);
    return tn_pool_discarded_count(pool) == 0;
}

bool tn_ground_make(struct tn_ground *ground, const struct tn_ground_counts *room)
{
    *ground = (struct tn_ground){.room = *room};
    ground->pools = tn_host_alloc(room->pools + 1, sizeof *ground->pools);
    ground->heaps = tn_host_alloc(room->chunks + 1, sizeof *ground->heaps);
    ground->chunks = tn_host_alloc(room->chunks + 1, sizeof *ground->chunks);
    ground->blocks = tn_host_alloc(room->blocks + 1, sizeof *ground->blocks);
    if (ground->pools != NULL && ground->heaps != NULL && ground->chunks != NULL &&
        ground->blocks != NULL) {
        tn_host_touch(ground->heaps, (room->chunks + 1) * sizeof *ground->heaps);
        tn_host_touch(ground->chunks, (room->chunks + 1) * sizeof *ground->chunks);
        tn_host_touch(ground->blocks, (room->blocks + 1) * sizeof *ground->blocks);
        return true;
    }
    tn_ground_drop(ground);
    return false;
}

void tn_ground_drop(struct tn_ground *ground)
{
    tn_host_free(ground->pools);
    tn_host_free(ground->heaps);
    tn_host_free(ground->chunks);
    tn_host_free(ground->blocks);
    *ground = (struct tn_ground){.pools = NULL};
}

/* The entry of a heap: the newest one, or a new one. Chunks of a heap mostly follow each other. */
static uint32_t enter_heap(struct tn_ground *ground, const struct tn_heap *heap)
{
    const size_t count = ground->used.heaps;
    tarn_snapshot_segment order = {.address = NULL};

    if (count > 0 && ground->heaps[count - 1].heap == (uintptr_t)heap)
        return (uint32_t)count - 1;
    TN_ASSERT(count < ground->room.chunks);
    tn_snapshot_describe_order(heap->arena, &order);
    ground->heaps[count] = (struct tn_ground_heap){.heap = (uintptr_t)heap,
                                                   .stream = order.stream,
                                                   .stream_id = order.stream_id,
                                                   .capture_id = order.capture_id,
                                                   .pool = (uint32_t)ground->used.pools,
                                                   .is_small = heap->kind == TN_HEAP_SMALL};
    ground->used.heaps += 1;
    return (uint32_t)count;
}

/* A chunk without a heap is of a growth under way. */
static void copy_chunk(struct tn_ground *ground, const struct tn_chunk *chunk)
{
    const struct tn_segment *segment = atomic_load_explicit(&chunk->segment, memory_order_relaxed);
    const struct tn_heap *heap = atomic_load_explicit(&chunk->heap, memory_order_relaxed);

    if (heap == NULL)
        return;
    TN_ASSERT(ground->used.chunks < ground->room.chunks);
    ground->chunks[ground->used.chunks] =
        (struct tn_ground_chunk){.address = segment->base + chunk->offset,
                                 .bytes = chunk->bytes,
                                 .segment = segment->base,
                                 .heap = enter_heap(ground, heap),
                                 .is_held = chunk->hold_count > 0};
    ground->used.chunks += 1;
}

static void copy_chunks(struct tn_ground *ground, const struct tn_chunk_table *chunks)
{
    for (size_t id = 0; id < chunks->ids; id++) {
        if (id + AHEAD < chunks->ids && chunks->by_id[id + AHEAD] != NULL) {
            __builtin_prefetch(chunks->by_id[id + AHEAD]);
            __builtin_prefetch(&chunks->by_id[id + AHEAD]->used_bytes);
        }
        if (chunks->by_id[id] != NULL)
            copy_chunk(ground, chunks->by_id[id]);
    }
}

static void cut_writers(struct tn_recall *recall, const struct tn_arena *arena)
{
    const struct tn_magazines *magazines = tn_arena_magazines(arena);

    tn_recall_cut(recall, &tn_arena_history(arena)->log);
    for (size_t i = 0; magazines != NULL && i < TN_MAGAZINES; i++) {
        const struct tn_magazine *magazine =
            atomic_load_explicit(&magazines->places[i], memory_order_acquire);

        if (magazine != NULL)
            tn_recall_cut(recall, &magazine->history.log);
    }
}

static void copy_pending(struct tn_ground *ground, const tarn_pool *pool)
{
    for (const struct tn_block *block = pool->pending.first; block != NULL;
         block = tn_block_cold(block)->pending_next) {
        if (block->ended)
            continue;
        TN_ASSERT(ground->used.blocks < ground->room.blocks);
        ground->blocks[ground->used.blocks] =
            (struct tn_ground_block){.address = tn_block_address(block),
                                     .bytes = tn_block_bytes(block),
                                     .requested = block->requested,
                                     .sequence = block->sequence,
                                     .tag = tn_block_tag(block),
                                     .stack = tn_snapshot_stack_of_record(block)};
        ground->used.blocks += 1;
    }
}

void tn_ground_copy(struct tn_ground *ground, struct tn_recall *recall, tarn_pool *pool)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    if (!tn_pool_is_listed(pool))
        return;
    cut_writers(recall, &pool->idle);
    for (const struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_ALL]; arena != NULL;
         arena = arena->in[TN_ARENAS_ALL].next)
        cut_writers(recall, arena);
    copy_chunks(ground, &pool->chunks);
    copy_pending(ground, pool);
    TN_ASSERT(ground->used.pools < ground->room.pools);
    tn_snapshot_describe_pool(pool, &ground->pools[ground->used.pools].told);
    ground->pools[ground->used.pools].live_count = tn_pool_live_count(pool);
    ground->pools[ground->used.pools].live_bytes = tn_pool_live_bytes(pool);
    ground->used.pools += 1;
}
