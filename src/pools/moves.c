// SPDX-License-Identifier: Apache-2.0
/* Large chunks move first, since the driver's cost is per chunk. Of chunks of one size, the chunk
 * in the smallest FREE block goes first: such a block was of the least use. Where only chunks
 * larger than the lack are left, the smallest goes.
 *
 * Trade-offs: a look at most at CANDIDATES_MAX chunks, in the smallest FREE blocks, of the
 * DONORS_MAX arenas that were used last. */
#include "pools/moves.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "pools/ahead.h"
#include "pools/proofs.h"
#include "pools/vacated.h"

enum { CANDIDATES_MAX = 1024, DONORS_MAX = 64, SIZES = TN_CACHE_SIZES };

/* Chunks free to move, by size; each size in order of preference. */
struct candidates {
    const struct tn_want *want;
    struct tn_chunk *chunks[CANDIDATES_MAX];
    uint16_t next[CANDIDATES_MAX]; /* of the same size; CANDIDATES_MAX: none */
    uint16_t first[SIZES];
    uint16_t last[SIZES];
    uint16_t count;
};

static bool is_extended(const struct tn_want *want, const struct tn_segment *segment,
                        uint64_t offset)
{
    return segment == want->extended.segment && offset >= want->extended.begin &&
           offset < want->extended.end;
}

static unsigned size_of(uint64_t bytes)
{
    return tn_log2_floor(bytes / TN_PAGE_BYTES);
}

static bool may_move(const tarn_pool *pool, const struct tn_heap *heap,
                     const struct tn_chunk *chunk)
{
    const struct tn_arena *arena = chunk->heap->arena;

    TN_ASSERT(chunk->used_bytes == 0); /* P6: it is inside a FREE block */
    return chunk->hold_count == 0 && chunk->bytes <= tn_chunk_bytes_max(heap->kind) &&
           (arena == heap->arena || tn_pool_has_proven(pool, arena, chunk->freed_stamp));
}

static void add(struct candidates *candidates, struct tn_chunk *chunk)
{
    unsigned size = size_of(chunk->bytes);
    uint16_t id = candidates->count;

    TN_ASSERT(id < CANDIDATES_MAX && size < SIZES);
    candidates->chunks[id] = chunk;
    candidates->next[id] = CANDIDATES_MAX;
    if (candidates->first[size] == CANDIDATES_MAX)
        candidates->first[size] = id;
    else
        candidates->next[candidates->last[size]] = id;
    candidates->last[size] = id;
    candidates->count += 1;
}

/* Adds the chunks wholly inside the FREE block. */
static void add_inside(const tarn_pool *pool, struct candidates *candidates,
                       const struct tn_block *block)
{
    for (uint64_t at = block->offset;
         at < tn_block_end(block) && candidates->count < CANDIDATES_MAX;) {
        struct tn_chunk *chunk = tn_block_chunk_at(block, at);

        at = tn_chunk_end(chunk);
        if (chunk->offset >= block->offset && at <= tn_block_end(block) &&
            may_move(pool, candidates->want->heap, chunk))
            add(candidates, chunk);
    }
}

static void add_heap(const tarn_pool *pool, struct candidates *candidates,
                     const struct tn_heap *heap)
{
    if (!tn_bins_may_have(&heap->bins, TN_PAGE_BYTES))
        return;
    for (const struct tn_block *block = tn_bins_find(&heap->bins, TN_PAGE_BYTES);
         block != NULL && candidates->count < CANDIDATES_MAX;
         block = tn_bins_next(&heap->bins, block, TN_PAGE_BYTES)) {
        if (!is_extended(candidates->want, block->segment, block->offset))
            add_inside(pool, candidates, block);
    }
}

static void add_arena(const tarn_pool *pool, struct candidates *candidates,
                      const struct tn_arena *arena)
{
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++)
        add_heap(pool, candidates, arena->heaps[kind]);
}

static struct tn_chunk *take(struct candidates *candidates, unsigned size)
{
    uint16_t id = candidates->first[size];

    TN_ASSERT(id < CANDIDATES_MAX);
    candidates->first[size] = candidates->next[id];
    return candidates->chunks[id];
}

/* The next chunk to go where this many bytes are lacking, of whatever size; NULL: none. */
static struct tn_chunk *next_to_go(struct candidates *candidates, uint64_t lacking)
{
    unsigned fitting = size_of(lacking);

    for (unsigned size = fitting < SIZES ? fitting + 1 : SIZES; size-- > 0;) {
        if (candidates->first[size] != CANDIDATES_MAX)
            return take(candidates, size);
    }
    for (unsigned size = fitting + 1; size < SIZES; size++) {
        if (candidates->first[size] != CANDIDATES_MAX)
            return take(candidates, size);
    }
    return NULL;
}

static void choose(const tarn_pool *pool, const struct tn_want *want, uint64_t limit,
                   struct tn_moves *moves)
{
    struct candidates candidates;
    const struct tn_arena *arena = want->heap->arena;
    const struct tn_arena *other;
    struct tn_arena_walk walk;

    if (pool->vacated.count + TN_MOVES_MAX > TN_VACATED_MAX || arena == &pool->idle || limit == 0 ||
        pool->memory.properties.shared)
        return;
    candidates.want = want;
    candidates.count = 0;
    for (unsigned size = 0; size < SIZES; size++)
        candidates.first[size] = CANDIDATES_MAX;
    add_arena(pool, &candidates, arena);
    add_arena(pool, &candidates, &pool->idle);
    /* A capture takes nothing of streams. */
    walk =
        tn_arena_walk_begin(tn_arena_is_captured(arena) ? NULL : pool, TN_PAGE_BYTES, DONORS_MAX);
    while ((other = tn_arena_walk_next(&walk)) != NULL) {
        if (other != arena && !tn_arena_is_captured(other))
            add_arena(pool, &candidates, other);
    }
    if (candidates.count == 0)
        return;
    while (moves->bytes < want->bytes && moves->count < TN_MOVES_MAX) {
        struct tn_chunk *chunk = next_to_go(&candidates, want->bytes - moves->bytes);

        if (chunk == NULL)
            return;
        if (chunk->bytes > limit - moves->bytes)
            return;
        moves->lacks_room = chunk->bytes > want->room - moves->bytes;
        if (moves->lacks_room)
            return;
        moves->chunks[moves->count] = chunk;
        moves->count += 1;
        moves->bytes += chunk->bytes;
    }
    TN_ASSERT(moves->bytes <= want->room);
}

/* The bytes which may move at most: not by way of bins, as the choice finds them. */
__attribute__((unused)) static uint64_t bytes_movable(const tarn_pool *pool,
                                                      const struct tn_want *want)
{
    const struct tn_arena *arena = want->heap->arena;
    uint64_t bytes = 0;

    for (size_t id = 0; id < pool->chunks.ids; id++) {
        const struct tn_chunk *chunk = pool->chunks.by_id[id];
        const struct tn_arena *of = chunk != NULL ? atomic_load(&chunk->arena) : NULL;

        if (chunk == NULL || chunk->used_bytes > 0 || of == pool->segments.dormant.arena ||
            !may_move(pool, want->heap, chunk))
            continue;
        if (is_extended(want, atomic_load(&chunk->segment), chunk->offset))
            continue;
        if (of == arena || of == &pool->idle ||
            (!tn_arena_is_captured(arena) && !tn_arena_is_captured(of)))
            bytes += chunk->bytes;
    }
    return bytes;
}

/* Whether something stopped the choice before there was no more to move. */
__attribute__((unused)) static bool is_bounded(const tarn_pool *pool, const struct tn_want *want,
                                               uint64_t limit, const struct tn_moves *moves)
{
    return moves->count == TN_MOVES_MAX || moves->lacks_room || moves->bytes >= want->bytes ||
           pool->vacated.count + TN_MOVES_MAX > TN_VACATED_MAX || limit != UINT64_MAX ||
           want->heap->arena == &pool->idle || pool->memory.properties.shared ||
           pool->chunks.count > CANDIDATES_MAX || pool->arenas.count > DONORS_MAX;
}

void tn_moves_choose(tarn_pool *pool, const struct tn_want *want, struct tn_moves *moves)
{
    /* Looked at first: other threads may prove more at any time. */
    uint64_t movable = TARN_DEBUG_CHECKS ? bytes_movable(pool, want) : 0;
    const uint64_t limit = tn_moves_limit(pool->device); /* trackers may come or go */

    TN_ASSERT(tn_pool_is_locked(pool) && want->bytes <= want->room);
    moves->count = 0;
    moves->bytes = 0;
    moves->lacks_room = false;
    choose(pool, want, limit, moves);
    TN_ASSERT(moves->bytes >= movable || is_bounded(pool, want, limit, moves));
    (void)movable;
}
