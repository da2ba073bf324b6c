// SPDX-License-Identifier: Apache-2.0
/* A block is checked in constant time by its two ends: the chunks under its first and its last
 * byte, its place in the bin or in the index, and its links. All blocks are checked in turn, and
 * their statements about neighbours together prove the lists. A neighbour in another heap may be
 * passing to this heap, and the chunk under it may have passed already. Only such a neighbour's
 * place is checked.
 *
 * Trade-offs: with only the arena's lock, mixed segments are not walked: blocks of other arenas
 * in them may change. The pool's check walks them. */
#include "heap/check.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/error.h"
#include "heap/live_index.h"

tarn_status tn_corrupt(const char *invariant, const char *what, uint64_t stored, uint64_t computed)
{
    return tn_fail(TARN_ERR_CORRUPT, "invariant %s does not hold: %s is %llu and should be %llu",
                   invariant, what, (unsigned long long)stored, (unsigned long long)computed);
}

/* The number of the chunk's bytes under the block. */
static uint64_t covered_bytes(const struct tn_chunk *chunk, const struct tn_block *block)
{
    return tn_min(tn_block_end(block), tn_chunk_end(chunk)) - tn_max(block->offset, chunk->offset);
}

/* Checks the block against the chunk at an offset inside it. */
static tarn_status check_chunk_at(const struct tn_block *block, uint64_t offset)
{
    const struct tn_chunk *chunk = tn_segment_chunk_at(block->segment, offset);
    uint64_t used;

    TN_EXPECT_EQUAL("P2", "whether a chunk is under a block", chunk != NULL, 1);
    if (offset < chunk->offset || offset >= tn_chunk_end(chunk))
        return tn_corrupt("V4", "the offset of the chunk at an offset", chunk->offset, offset);
    TN_EXPECT_EQUAL("P2", "whether a block has the heap of a chunk under it, or may have its own",
                    chunk->heap != NULL && tn_block_may_be_of(block, chunk->heap), 1);
    TN_EXPECT_EQUAL("P2", "the arena of a chunk under a block", (uintptr_t)chunk->arena,
                    (uintptr_t)tn_block_owner(block)->arena);
    used = chunk->used_bytes;
    if (block->state == TN_BLOCK_FREE)
        TN_EXPECT_EQUAL("P6", "a chunk's used bytes, of those beside a FREE block", used,
                        tn_min(used, chunk->bytes - covered_bytes(chunk, block)));
    else
        TN_EXPECT_EQUAL("P6", "a chunk's used bytes, with a block that is not FREE", used,
                        tn_max(tn_min(used, chunk->bytes), covered_bytes(chunk, block)));
    return TARN_OK;
}

static tarn_status check_in_state(const struct tn_block *block)
{
    const struct tn_chunk *chunk = tn_segment_chunk_at(block->segment, block->offset);

    switch (block->state) {
    case TN_BLOCK_FREE:
        TN_EXPECT_EQUAL("P4", "whether a FREE block is in its bin",
                        tn_bins_has_linked(&block->heap->bins, block), 1);
        TN_EXPECT_EQUAL("P4", "whether a FREE block says that UNMAPPED ones follow", block->extends,
                        tn_block_is_at_unmapped(block));
        break;
    case TN_BLOCK_LIVE:
    case TN_BLOCK_DISCARDED:
    case TN_BLOCK_LOOSE: /* P19: in the books as if it were live */
        TN_EXPECT_EQUAL("P5", "the index's entry for an address",
                        (uintptr_t)tn_live_at(chunk, block->offset), (uintptr_t)block);
        TN_EXPECT_EQUAL("P5", "the blocks in a chunk's index, for which there is room",
                        tn_max(chunk->live_count, 1), tn_min(chunk->live_count, chunk->live_room));
        break;
    default:
        break;
    }
    if (block->state == TN_BLOCK_LIVE || block->state == TN_BLOCK_PENDING)
        TN_EXPECT_EQUAL("P20", "whether a block is in the other kind's heap", block->in_other_heap,
                        block->heap->kind != tn_kind_of(tn_block_bytes(block)));
    return TARN_OK;
}

tarn_status tn_block_check(const struct tn_block *block)
{
    tarn_status status;

    if (block->state == TN_BLOCK_UNMAPPED) {
        TN_EXPECT_EQUAL("P2", "the heap of an UNMAPPED block", (uintptr_t)block->heap, 0);
        return TARN_OK;
    }
    status = check_chunk_at(block, block->offset);
    if (status == TARN_OK)
        status = check_chunk_at(block, tn_block_end(block) - TN_BLOCK_BYTES_MIN);
    if (status == TARN_OK)
        status = check_in_state(block);
    if (status == TARN_OK && !block->may_have_claims && tn_block_has_cold(block))
        TN_EXPECT_EQUAL("P18", "whether a block without claims has a use, a fence or a watch",
                        tn_block_cold(block)->uses != NULL || tn_block_cold(block)->fence != NULL ||
                            tn_block_cold(block)->watches != NULL,
                        0);
    return status;
}

tarn_status tn_block_check_next(const struct tn_block *block)
{
    const struct tn_block *next = block->next;

    if (next == NULL)
        return TARN_OK;
    TN_EXPECT_EQUAL("P1", "a block's lower neighbour", (uintptr_t)next->previous, (uintptr_t)block);
    TN_EXPECT_EQUAL("P1", "a block's offset", next->offset, tn_block_end(block));
    if (block->state == next->state && block->state == TN_BLOCK_UNMAPPED)
        return tn_corrupt("P3", "the number of UNMAPPED neighbours at an offset", next->offset, 0);
    if (block->state == next->state && block->state == TN_BLOCK_FREE && block->heap == next->heap)
        return tn_corrupt("P3", "the number of FREE neighbours at an offset", next->offset, 0);
    return TARN_OK;
}

tarn_status tn_block_check_chunks(const struct tn_block *block)
{
    const struct tn_heap *owner = tn_block_owner(block);

    if (owner != NULL && !block->segment->mixed)
        TN_EXPECT_EQUAL("P2", "the arena of a block in a segment that is not mixed",
                        (uintptr_t)owner->arena, (uintptr_t)block->segment->first_arena);
    for (uint64_t at = block->offset; at < tn_block_end(block);) {
        const struct tn_chunk *chunk = tn_segment_chunk_at(block->segment, at);

        TN_EXPECT_EQUAL("P2", "whether a chunk is under a block", chunk != NULL,
                        block->state != TN_BLOCK_UNMAPPED);
        if (chunk == NULL) {
            at = tn_round_down(at, TN_PAGE_BYTES) + TN_PAGE_BYTES;
            continue;
        }
        if (at < chunk->offset || at >= tn_chunk_end(chunk))
            return tn_corrupt("V4", "the offset of the chunk at an offset", chunk->offset, at);
        TN_EXPECT_EQUAL("P2", "the heap of a chunk under a block", (uintptr_t)chunk->heap,
                        (uintptr_t)owner);
        at = tn_chunk_end(chunk);
    }
    return TARN_OK;
}

/* Whether the neighbour may be guarded by another arena's lock. */
static bool is_of_another(const struct tn_block *neighbour, const struct tn_block *block)
{
    return neighbour->heap != NULL && neighbour->heap->arena != block->heap->arena;
}

static tarn_status check_below(const struct tn_block *block)
{
    const struct tn_block *previous = block->previous;
    tarn_status status;

    if (previous == NULL) {
        TN_EXPECT_EQUAL("P1", "a segment's first block", (uintptr_t)block->segment->first_block,
                        (uintptr_t)block);
        TN_EXPECT_EQUAL("P1", "the first block's offset", block->offset, 0);
        return TARN_OK;
    }
    TN_EXPECT_EQUAL("P1", "a block's upper neighbour", (uintptr_t)previous->next, (uintptr_t)block);
    if (is_of_another(previous, block))
        return TARN_OK;
    status = tn_block_check_next(previous);
    return status == TARN_OK && previous->heap == block->heap ? tn_block_check(previous) : status;
}

static tarn_status check_above(const struct tn_block *block)
{
    const struct tn_block *next = block->next;
    tarn_status status;

    if (next == NULL) {
        TN_EXPECT_EQUAL("P1", "a segment's last block", (uintptr_t)block->segment->last_block,
                        (uintptr_t)block);
        TN_EXPECT_EQUAL("P1", "the last block's end", tn_block_end(block), block->segment->bytes);
        return TARN_OK;
    }
    TN_EXPECT_EQUAL("P1", "a block's lower neighbour", (uintptr_t)next->previous, (uintptr_t)block);
    if (is_of_another(next, block))
        return TARN_OK;
    status = tn_block_check_next(block);
    return status == TARN_OK && next->heap == block->heap ? tn_block_check(next) : status;
}

tarn_status tn_block_check_near(const struct tn_block *block)
{
    tarn_status status = tn_block_check(block);

    if (status == TARN_OK)
        status = check_below(block);
    return status == TARN_OK ? check_above(block) : status;
}

/* Sums of a walk over a heap. */
struct walk {
    const struct tn_heap *heap;   /* NULL: any */
    const struct tn_chunk *chunk; /* under the last block's end; NULL: no chunk of the heap */
    uint64_t used_bytes;          /* of the chunk, by the blocks walked */
    uint64_t live_count;
    uint64_t free_count; /* in all chunks */
    uint64_t mapped_bytes;
    uint64_t steps;
    bool is_whole; /* no segment was left out */
};

static tarn_status end_chunk(struct walk *walk)
{
    const struct tn_chunk *chunk = walk->chunk;

    if (chunk == NULL)
        return TARN_OK;
    TN_EXPECT_EQUAL("P6", "a chunk's used bytes", chunk->used_bytes, walk->used_bytes);
    TN_EXPECT_EQUAL("P5", "the blocks in a chunk's index", chunk->live_count, walk->live_count);
    walk->chunk = NULL;
    walk->used_bytes = 0;
    walk->live_count = 0;
    return TARN_OK;
}

static tarn_status add_block(struct walk *walk, const struct tn_block *block)
{
    tarn_status status;

    for (uint64_t at = block->offset; at < tn_block_end(block);) {
        const struct tn_chunk *chunk = tn_segment_chunk_at(block->segment, at);

        if (chunk != walk->chunk) {
            status = end_chunk(walk);
            if (status != TARN_OK)
                return status;
            walk->chunk = chunk;
            walk->mapped_bytes += chunk->bytes;
        }
        if (block->state != TN_BLOCK_FREE)
            walk->used_bytes += covered_bytes(chunk, block);
        if (at == block->offset)
            walk->live_count += block->state == TN_BLOCK_LIVE ||
                                block->state == TN_BLOCK_DISCARDED ||
                                block->state == TN_BLOCK_LOOSE;
        at = tn_chunk_end(chunk);
    }
    walk->free_count += block->state == TN_BLOCK_FREE;
    return TARN_OK;
}

tarn_status tn_segment_check(const struct tn_segment *segment)
{
    struct walk walk = {.heap = NULL};
    tarn_status status = TARN_OK;

    for (const struct tn_block *block = segment->first_block; block != NULL && status == TARN_OK;
         block = block->next) {
        if (block->heap != NULL)
            status = add_block(&walk, block);
    }
    return status == TARN_OK ? end_chunk(&walk) : status;
}

static tarn_status walk_segment(struct walk *walk, const struct tn_segment *segment)
{
    tarn_status status = TARN_OK;

    for (const struct tn_block *block = segment->first_block; block != NULL && status == TARN_OK;
         block = block->next) {
        walk->steps += 1;
        status = tn_block_check_next(block);
        if (tn_block_owner(block) != walk->heap || status != TARN_OK)
            continue;
        status = tn_block_check(block);
        if (status == TARN_OK)
            status = tn_block_check_chunks(block);
        if (status == TARN_OK)
            status = add_block(walk, block);
    }
    return status == TARN_OK ? end_chunk(walk) : status;
}

/* Walks the segments that are not mixed: all blocks of such a segment have the same owner, or
 * none. */
static tarn_status walk_segments(struct walk *walk, const struct tn_segment *segments)
{
    tarn_status status = TARN_OK;

    for (const struct tn_segment *segment = segments; segment != NULL && status == TARN_OK;
         segment = segment->next) {
        walk->steps += 1;
        if (segment->mixed)
            walk->is_whole = false;
        else if (segment->first_arena == walk->heap->arena)
            status = walk_segment(walk, segment);
    }
    return status;
}

static tarn_status walk_bins(struct walk *walk, uint64_t *count)
{
    for (unsigned bin = 0; bin < TN_BINS; bin++) {
        for (const struct tn_block *block = walk->heap->bins.heads[bin]; block != NULL;
             block = block->list_next) {
            TN_EXPECT_EQUAL("P4", "the state of a block in a bin", block->state, TN_BLOCK_FREE);
            TN_EXPECT_EQUAL("P4", "the heap of a block in a bin", (uintptr_t)block->heap,
                            (uintptr_t)walk->heap);
            TN_EXPECT_EQUAL("P4", "whether a FREE block is in its bin",
                            tn_bins_has_linked(&walk->heap->bins, block), 1);
            *count += 1;
        }
    }
    walk->steps += *count;
    return TARN_OK;
}

static tarn_status walk_slots(struct walk *walk)
{
    const struct tn_heap *heap = walk->heap;
    uint64_t count = 0;

    if (heap->loose != NULL)
        TN_EXPECT_EQUAL("P19", "the state of the block that was freed last", heap->loose->state,
                        TN_BLOCK_LOOSE);
    for (int i = 0; i < TN_LOOSE_SLOTS; i++) {
        for (const struct tn_block *block = heap->loose_slots[i].first; block != NULL;
             block = block->loose_next) {
            TN_EXPECT_EQUAL("P19", "the state of a block in a slot", block->state, TN_BLOCK_LOOSE);
            TN_EXPECT_EQUAL("P19", "the heap of a block in a slot", (uintptr_t)block->heap,
                            (uintptr_t)heap);
            count += 1;
        }
    }
    TN_EXPECT_EQUAL("P19", "a heap's count of LOOSE blocks", heap->loose_count, count);
    walk->steps += count;
    return TARN_OK;
}

tarn_status tn_heap_check(const struct tn_heap *heap, const struct tn_segment *segments,
                          uint64_t *steps)
{
    struct walk walk = {.heap = heap, .is_whole = segments != NULL};
    uint64_t bin_count = 0;
    tarn_status status = walk_bins(&walk, &bin_count);

    if (status == TARN_OK)
        status = walk_slots(&walk);
    if (status == TARN_OK)
        status = walk_segments(&walk, segments);
    *steps += walk.steps;
    if (status != TARN_OK)
        return status;
    TN_EXPECT_EQUAL("P4", "whether the maps are those of a heap's bins",
                    tn_bins_is_exact(&heap->bins), 1);
    if (!walk.is_whole)
        return TARN_OK;
    TN_EXPECT_EQUAL("P4", "the number of blocks in bins", bin_count, walk.free_count);
    TN_EXPECT_EQUAL("P8", "a heap's mapped bytes", heap->mapped_bytes, walk.mapped_bytes);
    return TARN_OK;
}

tarn_status tn_chunk_table_check(const struct tn_chunk_table *chunks)
{
    const struct tn_chunk_set *free_ids = &chunks->free_ids;
    size_t count = 0;
    size_t free_count = 0;

    for (size_t id = 0; id < chunks->ids; id++) {
        const struct tn_chunk *chunk = chunks->by_id[id];

        TN_EXPECT_EQUAL("P8", "whether a chunk's id is free", tn_chunk_set_has_id(free_ids, id),
                        chunk == NULL);
        if (chunk == NULL)
            continue;
        TN_EXPECT_EQUAL("V4", "a chunk's id", chunk->id, id);
        count += 1;
    }
    TN_EXPECT_EQUAL("P8", "an owner's count of chunks", chunks->count, count);
    /* By way of the map, which also shows what lies beyond. */
    for (size_t word = tn_chunk_set_next(free_ids, 0); word < free_ids->word_count;
         word = tn_chunk_set_next(free_ids, word + 1))
        free_count += (size_t)__builtin_popcountll(free_ids->words[word]);
    TN_EXPECT_EQUAL("P8", "an owner's count of free ids", free_count, chunks->ids - count);
    return TARN_OK;
}

#if TARN_DEBUG_CHECKS
void tn_check_status(tarn_status status, const char *file, int line)
{
    if (status != TARN_OK)
        tn_contract_failed(file, line, tarn_last_error());
}

void tn_check_touched(const struct tn_block *block, const char *file, int line)
{
    block->heap->turn.mutation_count += 1;
    tn_check_status(tn_block_check_near(block), file, line);
}

void tn_check_turn(struct tn_heap *heap, const char *file, int line)
{
    struct tn_heap_turn *turn = &heap->turn;

    if (turn->mutation_count == 0 || turn->mutation_count < turn->last_check_count)
        return;
    *turn = (struct tn_heap_turn){.segments = turn->segments};
    tn_check_status(tn_heap_check(heap, turn->segments != NULL ? *turn->segments : NULL,
                                  &turn->last_check_count),
                    file, line);
}
#endif
