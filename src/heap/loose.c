// SPDX-License-Identifier: Apache-2.0
/* Slots are emptied in turn where they have too many blocks: which size comes back next is not
 * known. */
#include "heap/loose.h"

enum {
    LOOSE_MAX = 64, /* blocks in a heap's slots, most of them of a few sizes */
};

/* What coalescing writes is seldom in the cache. */
static inline void expect_neighbours(const struct tn_block *block)
{
    __builtin_prefetch(block->previous, 1);
    __builtin_prefetch(block->next, 1);
}

static inline void expect_coalesce(const struct tn_block *block)
{
    tn_live_prefetch(tn_block_chunk_at(block, block->offset), block->offset);
    expect_neighbours(block);
}

void tn_loose_coalesce(struct tn_arena *arena, struct tn_block *block)
{
    TN_ASSERT(block->state == TN_BLOCK_LOOSE && block->heap->loose != block); /* P19 */
    expect_neighbours(block); /* prefetched while the index is updated */
    tn_block_leave(block, block->loose_stamp);
    block->state = TN_BLOCK_FREE;
    tn_arena_put(arena, block);
}

static void empty_slot(struct tn_arena *arena, struct tn_heap *heap, struct tn_loose_slot *slot)
{
    struct tn_block *block = slot->first;

    slot->first = NULL;
    slot->sizes = 0;
    while (block != NULL) {
        struct tn_block *next = block->loose_next;

        TN_ASSERT(heap->loose_count > 0); /* P19 */
        heap->loose_count -= 1;
        if (next != NULL)
            expect_coalesce(next);
        tn_loose_coalesce(arena, block);
        block = next;
    }
}

void tn_loose_empty_slots(struct tn_arena *arena, struct tn_heap *heap)
{
    for (int i = 0; heap->loose_count > 0; i++)
        empty_slot(arena, heap, &heap->loose_slots[i]);
}

static TN_APART void make_room(struct tn_arena *arena, struct tn_heap *heap)
{
    while (heap->loose_count >= LOOSE_MAX) {
        heap->loose_turn += 1;
        empty_slot(arena, heap, &heap->loose_slots[heap->loose_turn % TN_LOOSE_SLOTS]);
    }
    TN_ASSERT(heap->loose_count < LOOSE_MAX);
}

void tn_loose_shelve(struct tn_arena *arena, struct tn_heap *heap)
{
    struct tn_block *block = heap->loose;
    uint32_t hash = tn_loose_hash(block->units);
    struct tn_loose_slot *slot = tn_loose_slot_of(heap, hash);

    TN_ASSERT(block->state == TN_BLOCK_LOOSE); /* P19 */
    heap->loose = NULL;
    if (block->segment->mixed || tn_loose_is_edge(block)) {
        tn_loose_coalesce(arena, block);
        return;
    }
    block->loose_next = slot->first;
    slot->first = block;
    slot->sizes |= tn_loose_size_bit(hash);
    heap->loose_count += 1;
    if (heap->loose_count >= LOOSE_MAX)
        make_room(arena, heap);
}

void tn_loose_empty(struct tn_arena *arena, struct tn_heap *heap)
{
    struct tn_block *last = heap->loose;

    heap->loose_turn = 0;
    heap->loose = NULL; /* P19 */
    if (last != NULL)
        tn_loose_coalesce(arena, last);
    if (heap->loose_count > 0)
        tn_loose_empty_slots(arena, heap);
    TN_ASSERT(heap->loose == NULL && heap->loose_count == 0); /* P19 */
}

/* Whether the block is at the edge of the mapped memory, and another place for its size may
 * exist. */
static inline bool coalesces_at_edge(const struct tn_heap *heap, const struct tn_block *block)
{
    return tn_loose_is_edge(block) &&
           (heap->loose_count > 0 || tn_bins_may_have(&heap->bins, tn_block_bytes(block)));
}

bool tn_loose_free(struct tn_arena *arena, struct tn_heap *heap, struct tn_block *block)
{
    TN_ASSERT(tn_arena_is_locked(arena));
    TN_ASSERT(block->state == TN_BLOCK_LIVE && block->heap == heap);
    tn_loose_shelve_last(arena, heap);
    if (TN_UNLIKELY(tn_loose_would_enclose(arena, heap, block)))
        return false;
    tn_loose_keep(arena, heap, block);
    if (TN_UNLIKELY(arena->coalesces || coalesces_at_edge(heap, block))) {
        heap->loose = NULL; /* P19 */
        tn_loose_coalesce(arena, block);
    }
    return true;
}
