// SPDX-License-Identifier: Apache-2.0
/* A walk over each segment cuts free blocks at the edges of chunks: a chunk to be unmapped joins
 * the gaps beside the chunk, and a chunk to be idle memory joins its neighbours there. */
#include "pools/outlook.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "pools/arena_table.h"
#include "pools/handover.h"
#include "pools/loans.h"
#include "pools/moves.h"
#include "pools/proofs.h"
#include "pools/vacated.h"

/* Where a walk over a segment is. */
struct stretch {
    const struct tn_segment *segment;
    bool grows;  /* the heap may grow in the segment */
    uint64_t at; /* the bytes so far */
    uint64_t gap_bytes;
    uint64_t have;
    struct tn_stock extended;
    const struct tn_heap *idle; /* heap of the idle run; NULL: there is none */
    uint64_t idle_bytes;
    const struct tn_block *lent; /* whose first bytes may be borrowed; NULL: none */
    uint64_t lent_bytes;
    uint64_t small_bytes;
};

/* A part of a FREE block, inside one chunk. */
struct piece {
    const struct tn_block *block;
    const struct tn_chunk *chunk;
    uint64_t bytes;
    bool whole; /* the chunk */
    bool idle;  /* anyone may take it */
    bool given; /* as soon as it is idle memory */
};

static unsigned size_of(const struct tn_chunk *chunk)
{
    return tn_log2_floor(chunk->bytes / TN_PAGE_BYTES);
}

/* Whether the segment's memory returns to the order's arena, which is to come. */
static bool is_returning(const struct tn_outlook *outlook, const struct tn_segment *segment)
{
    return segment->dormant != NULL && outlook->arena == NULL &&
           segment->dormant->by_stream.key == outlook->stream_id;
}

static bool is_own(const struct tn_outlook *outlook, const struct tn_segment *segment,
                   const struct tn_heap *heap)
{
    return outlook->arena != NULL ? heap->arena == outlook->arena : is_returning(outlook, segment);
}

/* Whether the vacated place would still be there. */
static bool stays_vacated(const struct tn_outlook *outlook, const struct tn_chunk *place)
{
    const tarn_pool *pool = outlook->pool;
    const struct tn_heap *from = place->vacated_from;
    uint64_t growths = pool->counters.events[TN_GROWTHS].count;
    bool is_old = place->vacated_at + TN_VACATED_GROWTHS < growths;

    TN_ASSERT(tn_pool_is_locked(pool));
    return !((is_old || outlook->unmapped) &&
             tn_pool_has_proven(pool, from != NULL ? from->arena : NULL, place->freed_stamp));
}

/* The bytes that may be mapped in a gap. */
static uint64_t room_in(const struct tn_outlook *outlook, const struct tn_segment *segment,
                        uint64_t offset, uint64_t bytes)
{
    const struct tn_chunk *place = segment->vacated_count > 0 ? outlook->pool->vacated.first : NULL;

    for (; place != NULL && bytes > 0; place = place->next) {
        if (atomic_load(&place->segment) == segment && place->offset < offset + bytes &&
            tn_chunk_end(place) > offset && stays_vacated(outlook, place))
            bytes = place->offset - tn_min(place->offset, offset);
    }
    return bytes;
}

static void end_gap(struct tn_outlook *outlook, struct stretch *stretch)
{
    const struct tn_segment *segment = stretch->segment;
    struct tn_gap *gap = &outlook->gaps[outlook->gap_count];
    bool is_bare =
        stretch->gap_bytes == segment->bytes && outlook->unmapped && segment->checkpoint_count == 0;

    TN_ASSERT(stretch->gap_bytes <= stretch->at);
    if (stretch->gap_bytes > 0 && stretch->grows && !is_bare) {
        gap->segment = segment;
        gap->offset = stretch->at - stretch->gap_bytes;
        gap->have = stretch->have;
        gap->extended = stretch->extended;
        gap->room = room_in(outlook, segment, gap->offset, stretch->gap_bytes);
        outlook->gap_count += 1;
    }
    if (stretch->gap_bytes > 0) {
        stretch->have = 0;
        stretch->extended = (struct tn_stock){{0}};
    }
    stretch->gap_bytes = 0;
}

static void end_idle(struct tn_outlook *outlook, struct stretch *stretch)
{
    outlook->found_bytes = tn_max(outlook->found_bytes, stretch->idle_bytes);
    stretch->idle = NULL;
    stretch->idle_bytes = 0;
}

static void end_free(struct tn_outlook *outlook, struct stretch *stretch)
{
    end_idle(outlook, stretch);
    outlook->found_small = tn_max(outlook->found_small, stretch->small_bytes);
    stretch->small_bytes = 0;
    stretch->lent = NULL;
    stretch->lent_bytes = 0;
}

/* Addresses without memory. */
static void pass_gap(struct tn_outlook *outlook, struct stretch *stretch, uint64_t bytes)
{
    end_free(outlook, stretch);
    stretch->gap_bytes += bytes;
    stretch->at += bytes;
}

/* A block that is not free. */
static void pass_block(struct tn_outlook *outlook, struct stretch *stretch, uint64_t bytes)
{
    end_gap(outlook, stretch);
    end_free(outlook, stretch);
    stretch->have = 0;
    stretch->extended = (struct tn_stock){{0}};
    stretch->at += bytes;
}

static bool is_proven(const struct tn_outlook *outlook, const struct piece *piece)
{
    const struct tn_arena *arena = piece->given ? &outlook->pool->idle : piece->block->heap->arena;

    return tn_pool_has_proven(outlook->pool, arena, piece->chunk->freed_stamp);
}

/* Whether the memory of the chunk would move to a growth. */
static bool would_move(const struct tn_outlook *outlook, const struct piece *piece)
{
    const struct tn_heap *heap = piece->block->heap;

    if (!piece->whole || piece->chunk->hold_count > 0)
        return false;
    if (!piece->given && is_own(outlook, piece->block->segment, heap))
        return true;
    if (!piece->given &&
        (tn_arena_is_captured(heap->arena) || heap->arena == outlook->pool->segments.dormant.arena))
        return false;
    return is_proven(outlook, piece);
}

/* Adds to the bytes to borrow of another stream: the first ones of a free block. */
static void add_lent(struct tn_outlook *outlook, struct stretch *stretch, const struct piece *piece)
{
    const struct tn_arena *arena = piece->block->heap->arena;
    bool begins = stretch->lent != piece->block;

    if (begins && (tn_arena_is_captured(arena) || arena->fence != NULL ||
                   piece->block->heap->kind != TN_HEAP_LARGE ||
                   arena == outlook->pool->segments.dormant.arena ||
                   outlook->pool->device->move_limit_bytes == 0))
        return;
    if (begins)
        stretch->lent_bytes = 0;
    stretch->lent = piece->block;
    if (piece->chunk->hold_count > 0 || !is_proven(outlook, piece))
        stretch->lent_bytes = UINT64_MAX; /* nor what follows */
    if (stretch->lent_bytes == UINT64_MAX)
        return;
    stretch->lent_bytes += piece->bytes;
    if (stretch->lent_bytes >= TN_LOAN_BYTES_MIN)
        outlook->found_bytes = tn_max(outlook->found_bytes, stretch->lent_bytes);
}

static void pass_free(struct tn_outlook *outlook, struct stretch *stretch,
                      const struct piece *piece)
{
    const struct tn_heap *heap = piece->block->heap;
    bool own = !piece->given && is_own(outlook, piece->block->segment, heap);
    bool moves = would_move(outlook, piece);

    end_gap(outlook, stretch);
    if (!piece->idle || stretch->idle == NULL || stretch->idle->kind != heap->kind)
        end_idle(outlook, stretch);
    if (piece->idle) {
        stretch->idle = heap;
        stretch->idle_bytes += piece->bytes;
    }
    if (own && heap->kind == TN_HEAP_LARGE) {
        stretch->have += piece->bytes;
        stretch->extended.counts[size_of(piece->chunk)] += moves;
        outlook->found_bytes = tn_max(outlook->found_bytes, stretch->have);
    } else {
        stretch->have = 0;
        stretch->extended = (struct tn_stock){{0}};
    }
    stretch->small_bytes =
        own && heap->kind == TN_HEAP_SMALL ? stretch->small_bytes + piece->bytes : 0;
    outlook->found_small = tn_max(outlook->found_small, stretch->small_bytes);
    if (!own && !piece->idle && heap->arena != &outlook->pool->idle)
        add_lent(outlook, stretch, piece);
    else
        stretch->lent = NULL;
    outlook->stock.counts[size_of(piece->chunk)] += moves;
    stretch->at += piece->bytes;
}

/* Whether the FREE part would be unmapped, as pools/grow.c does. */
static bool would_unmap(const struct tn_outlook *outlook, const struct piece *piece)
{
    return outlook->unmapped && piece->whole && piece->chunk->hold_count == 0 &&
           tn_gpu_is_proven(&outlook->pool->device->gpu, piece->chunk->freed_stamp);
}

/* Whether the part would become idle memory. At first, only memory which was reserved and never used
 * does (pools/reserve.c). */
static bool would_give(const struct tn_outlook *outlook, const struct piece *piece)
{
    const struct tn_heap *heap = piece->block->heap;
    bool own = heap->kind == TN_HEAP_LARGE && is_own(outlook, piece->block->segment, heap);

    if (!piece->whole || !tn_chunk_is_takeable(outlook->pool, piece->chunk))
        return false;
    return outlook->given || (heap->has_reserved && !own && piece->chunk->freed_stamp == 0 &&
                              piece->chunk->hold_count == 0);
}

static void pass_free_block(struct tn_outlook *outlook, struct stretch *stretch,
                            const struct tn_block *block)
{
    const tarn_pool *pool = outlook->pool;
    uint64_t end;

    TN_ASSERT(block->state == TN_BLOCK_FREE);
    for (uint64_t at = block->offset; at < tn_block_end(block); at = end) {
        const struct tn_chunk *chunk = tn_block_chunk_at(block, at);
        struct piece piece = {.block = block, .chunk = chunk};

        end = tn_min(tn_chunk_end(chunk), tn_block_end(block));
        piece.bytes = end - at;
        piece.whole = piece.bytes == chunk->bytes;
        piece.given = would_give(outlook, &piece);
        piece.idle = piece.given || (block->heap->arena == &pool->idle && piece.whole &&
                                     tn_chunk_is_takeable(pool, chunk));
        if (would_unmap(outlook, &piece)) {
            pass_gap(outlook, stretch, piece.bytes);
            outlook->unmapped_bytes += piece.bytes;
        } else {
            pass_free(outlook, stretch, &piece);
        }
    }
}

/* Whether the arena, left without memory, would end, and leave its segments to idle memory. */
static bool would_end(const struct tn_outlook *outlook, const struct tn_arena *arena)
{
    if (!outlook->given || arena->order.capture_id != 0 || arena->saved_count > 0)
        return false;
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
        for (const struct tn_chunk *chunk = arena->heaps[kind]->chunks; chunk != NULL;
             chunk = chunk->heap_next) {
            if (!tn_chunk_is_takeable(outlook->pool, chunk))
                return false;
        }
    }
    return true;
}

/* Whether the heap may grow in the segment. */
static bool may_grow_in(const struct tn_outlook *outlook, const struct tn_segment *segment)
{
    const struct tn_heap *grower = segment->grower;
    const struct tn_arena *idle = &outlook->pool->idle;

    if (grower->arena == idle || would_end(outlook, grower->arena))
        return true;
    return grower->kind == TN_HEAP_LARGE && is_own(outlook, segment, grower);
}

static void look_at_segment(struct tn_outlook *outlook, const struct tn_segment *segment)
{
    struct stretch stretch = {.segment = segment, .grows = may_grow_in(outlook, segment)};

    for (const struct tn_block *block = segment->first_block; block != NULL; block = block->next) {
        if (block->state == TN_BLOCK_UNMAPPED)
            pass_gap(outlook, &stretch, tn_block_bytes(block));
        else if (block->state == TN_BLOCK_FREE)
            pass_free_block(outlook, &stretch, block);
        else
            pass_block(outlook, &stretch, tn_block_bytes(block));
    }
    TN_ASSERT(stretch.at == segment->bytes);
    end_gap(outlook, &stretch);
    end_free(outlook, &stretch);
}

void tn_outlook_look(struct tn_outlook *outlook)
{
    const tarn_pool *pool = outlook->pool;

    TN_ASSERT(tn_pool_is_locked(pool));
    outlook->gap_count = 0;
    outlook->stock = (struct tn_stock){{0}};
    outlook->unmapped_bytes = 0;
    for (const struct tn_segment *segment = tn_pool_first_segment(pool); segment != NULL;
         segment = tn_pool_next_segment(pool, segment))
        look_at_segment(outlook, segment);
    if (pool->vacated.count + TN_MOVES_MAX > TN_VACATED_MAX)
        outlook->stock = (struct tn_stock){{0}};
}

size_t tn_outlook_gaps_max(const tarn_pool *pool)
{
    size_t count = pool->chunks.count;

    for (const struct tn_segment *segment = tn_pool_first_segment(pool); segment != NULL;
         segment = tn_pool_next_segment(pool, segment))
        count += segment->unmapped_count;
    return count + 1;
}
