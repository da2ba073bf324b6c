// SPDX-License-Identifier: Apache-2.0
/* loose.h -- blocks freed lately, which stay whole.
 *
 * Lately freed blocks of a heap are loose: they stay whole, for programs request the same sizes
 * again. The block freed last stands apart, and a free and an allocation of one size touch nothing
 * else. The next free or allocation moves this block to one of the heap's slots, chosen by its
 * size. An allocation of this very size takes it from there in some thirty instructions; coalescing
 * and a cut take some 450. Loose blocks must not keep holes apart. When an allocation finds nothing
 * else, all loose blocks coalesce and it looks again, before the pool's lock is taken and the heap
 * grows. Large blocks have further rules:
 *
 *   a large block at the edge of the mapped memory is in no slot, and coalesces at once where
 *     another as large may exist: this edge is the last to be cut (heap/bins.c);
 *   when a large request finds only this edge, all loose blocks coalesce, and it looks again;
 *   the largest requests coalesce all loose blocks before they look at all: they are few, and their
 *     best place is worth more than the time.
 *
 * When too many blocks are loose, those of one slot coalesce, each slot in its turn.
 *
 * Coalescing does not look at other arenas. In a mixed segment a slot's block might later lie
 * between two other arenas. There only the block freed last is loose.
 *
 * In a pool with checkpoints no block is loose: the block which an allocation gets must not depend
 * on when the pool was locked. The same calls after the same restore get the same addresses.
 *
 * Source: C. Weinstock and W. Wulf, Quick Fit: an efficient algorithm for heap storage allocation
 * (SIGPLAN Notices 23, 1988), for lists of exact sizes before any other search; and deferred
 * coalescing, P. R. Wilson et al., Dynamic storage allocation: a survey and critical review (IWMM
 * 1995).
 *
 * Locking: the arena's lock, or the pool's with every arena stopped. */
#ifndef TARN_HEAP_LOOSE_H
#define TARN_HEAP_LOOSE_H

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/hot.h"
#include "heap/arena_lock.h"
#include "heap/check.h"
#include "heap/live_index.h"

enum {
    /* 4 MiB: larger blocks are few, and the edge of the mapped memory is worth more than the
     * time. */
    TN_LOOSE_LARGE_UNITS = (4 << 20) >> TN_BLOCK_BITS,
    /* 64 MiB: for larger blocks all loose blocks coalesce first. */
    TN_LOOSE_LARGEST_UNITS = (64 << 20) >> TN_BLOCK_BITS,
    TN_LOOSE_TRIES = 4, /* blocks of a slot which an allocation looks at */
};

static TN_ALWAYS_INLINE bool tn_loose_is_aligned(const struct tn_block *loose, uint64_t alignment)
{
    return TN_LIKELY(alignment == TN_BLOCK_BYTES_MIN) ||
           (tn_block_address(loose) & (alignment - 1)) == 0;
}

/* loose: NULL: none. */
static TN_ALWAYS_INLINE bool tn_loose_fits(const struct tn_block *loose, uint64_t bytes,
                                           uint64_t alignment)
{
    TN_ASSERT(loose == NULL || loose->state == TN_BLOCK_LOOSE);
    return loose != NULL && tn_block_bytes(loose) == bytes && tn_loose_is_aligned(loose, alignment);
}

/* Whether the block is large and at the edge of the mapped memory. */
static TN_ALWAYS_INLINE bool tn_loose_is_edge(const struct tn_block *block)
{
    return TN_UNLIKELY(block->units > TN_LOOSE_LARGE_UNITS) && tn_block_is_at_unmapped(block);
}

/* Coalesces a loose block which is in no slot, and not the one freed last. */
TN_APART void tn_loose_coalesce(struct tn_arena *arena, struct tn_block *block);

/* Coalesces the blocks in the heap's slots. */
TN_APART void tn_loose_empty_slots(struct tn_arena *arena, struct tn_heap *heap);

/* The block freed last goes to a slot, or coalesces. */
TN_APART void tn_loose_shelve(struct tn_arena *arena, struct tn_heap *heap);

static inline void tn_loose_shelve_last(struct tn_arena *arena, struct tn_heap *heap)
{
    if (heap->loose != NULL)
        tn_loose_shelve(arena, heap);
}

static inline uint32_t tn_loose_hash(uint32_t units)
{
    return units * (uint32_t)(TN_GOLDEN >> 32);
}

static inline struct tn_loose_slot *tn_loose_slot_of(struct tn_heap *heap, uint32_t hash)
{
    return &heap->loose_slots[hash >> (32 - TN_LOOSE_SLOT_BITS)];
}

static inline uint64_t tn_loose_size_bit(uint32_t hash)
{
    return (uint64_t)1 << (hash >> (26 - TN_LOOSE_SLOT_BITS) & 63);
}

/* Whether the run of free memory around the block, once freed, will lie between memory of two other
 * arenas. */
static TN_ALWAYS_INLINE bool tn_loose_would_enclose(const struct tn_arena *arena,
                                                    const struct tn_heap *heap,
                                                    const struct tn_block *block)
{
    const struct tn_block *low = block;
    const struct tn_block *high;

    if (!block->segment->mixed)
        return false;
    high = tn_block_is_free_of(block->next, heap) ? block->next : block;
    if (!tn_block_is_foreign(high->next, arena))
        return false;
    if (tn_block_is_free_of(block->previous, heap))
        low = block->previous;
    return low != high && tn_block_is_foreign(low->previous, arena);
}

/* P19: makes the block the one freed last; no other block is. */
static TN_ALWAYS_INLINE void tn_loose_keep(struct tn_arena *arena, struct tn_heap *heap,
                                           struct tn_block *block)
{
    TN_ASSERT(tn_arena_is_locked(arena));
    TN_ASSERT(heap->loose == NULL && block->state == TN_BLOCK_LIVE);
    tn_arena_count_free(arena, heap, block);
    block->loose_stamp = tn_arena_epoch(arena);
    block->state = TN_BLOCK_LOOSE;
    heap->loose = block;
    TN_CHECK_TOUCHED(block);
    TN_CHECK_TURN(heap);
}

/* Frees the LIVE block: it is the one freed last, or coalesces. False, with nothing changed: the free
 * needs the pool's lock. */
bool tn_loose_free(struct tn_arena *arena, struct tn_heap *heap, struct tn_block *block);

/* Coalesces all loose blocks of the heap. */
void tn_loose_empty(struct tn_arena *arena, struct tn_heap *heap);

/* Takes a block of this very size out of the slots; NULL: none found. */
static inline struct tn_block *tn_loose_pick(struct tn_heap *heap, uint64_t bytes,
                                             uint64_t alignment)
{
    uint32_t hash = tn_loose_hash((uint32_t)(bytes >> TN_BLOCK_BITS));
    struct tn_loose_slot *slot = tn_loose_slot_of(heap, hash);
    struct tn_block **link = &slot->first;
    struct tn_block *block;

    if ((slot->sizes & tn_loose_size_bit(hash)) == 0)
        return NULL; /* reads no record */
    block = *link;
    for (int steps = 0; block != NULL && steps < TN_LOOSE_TRIES; steps++) {
        TN_ASSERT(block->state == TN_BLOCK_LOOSE && block->heap == heap); /* P19 */
        if (tn_loose_fits(block, bytes, alignment)) {
            *link = block->loose_next;
            heap->loose_count -= 1;
            return block;
        }
        link = &block->loose_next;
        block = *link;
    }
    return NULL;
}

#endif
