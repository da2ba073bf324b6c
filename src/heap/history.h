// SPDX-License-Identifier: Apache-2.0
/* history.h -- what is written of blocks, where the device keeps its history (base/ring.h).
 *
 * A block's number (its sequence) says which block is meant. An allocation names its block's number
 * by its place: the first of a page has the number at the page's head, and each has the next number
 * of the one before, unless a number stands between. A free names the number. A restored block is
 * allocated again, with the number that it had.
 *
 * The live blocks of a device are those that were allocated more often than freed, in whichever order
 * the pages of several writers are read: a block is freed behind its allocation, and an arena that
 * frees another arena's block knows it by its number.
 *
 * An allocation takes 16 bytes, a free 8:
 *
 *     first word, bits 6 to 31     the lowest bits of the block's bytes less those requested
 *     first word, bits 32 to 63    the block's bytes, in units of 512
 *     second word, bits 0 to 38    the block's address, in units of 512
 *     second word, bits 39 to 63   the other bits of the difference
 *
 * Locking: the arena's lock, or its pool's. */
#ifndef TARN_HEAP_HISTORY_H
#define TARN_HEAP_HISTORY_H

#include "base/ring.h"
#include "heap/block.h"

enum tn_history_kind {
    TN_HISTORY_NUMBER = TN_RING_STAMP + 1, /* of the next allocation */
    TN_HISTORY_ALLOC,
    TN_HISTORY_FREE, /* the value: the number of a block that is no longer live */
};

enum {
    TN_HISTORY_WASTE_BITS = 26, /* of the difference, in the first word's value */
    TN_HISTORY_ADDRESS_BITS = 48 - TN_BLOCK_BITS,
};

_Static_assert(TN_HISTORY_WASTE_BITS + 32 == 64 - TN_RING_VALUE_SHIFT, "the first word's value");

/* An allocation, as the history has it. */
struct tn_history_block {
    uint64_t address;
    uint64_t bytes;
    uint64_t requested;
};

static TN_ALWAYS_INLINE void tn_history_alloc(struct tn_ring_writer *history,
                                              const struct tn_block *block)
{
    uint64_t waste = tn_block_bytes(block) - block->requested;
    uint64_t unit = tn_block_address(block) >> TN_BLOCK_BITS;

    TN_ASSERT(block->requested <= tn_block_bytes(block));
    TN_ASSERT(unit < UINT64_C(1) << TN_HISTORY_ADDRESS_BITS);
    if (TN_UNLIKELY(history->base != block->sequence)) {
        tn_ring_put(history, TN_HISTORY_NUMBER, block->sequence);
        history->base = block->sequence;
    }
    tn_ring_put_two(history, TN_HISTORY_ALLOC,
                    (uint64_t)block->units << TN_HISTORY_WASTE_BITS |
                        (waste & ((UINT64_C(1) << TN_HISTORY_WASTE_BITS) - 1)),
                    waste >> TN_HISTORY_WASTE_BITS << TN_HISTORY_ADDRESS_BITS | unit);
    history->base += 1;
}

static TN_ALWAYS_INLINE void tn_history_free(struct tn_ring_writer *history, uint64_t sequence)
{
    tn_ring_put(history, TN_HISTORY_FREE, sequence);
}

/* Reads the two words of an allocation. */
static inline struct tn_history_block tn_history_block_of(const uint64_t words[2])
{
    uint64_t value = tn_ring_value(words[0]);
    uint64_t waste = (words[1] >> TN_HISTORY_ADDRESS_BITS << TN_HISTORY_WASTE_BITS) |
                     (value & ((UINT64_C(1) << TN_HISTORY_WASTE_BITS) - 1));
    uint64_t bytes = value >> TN_HISTORY_WASTE_BITS << TN_BLOCK_BITS;

    return (struct tn_history_block){
        .address = (words[1] & ((UINT64_C(1) << TN_HISTORY_ADDRESS_BITS) - 1)) << TN_BLOCK_BITS,
        .bytes = bytes,
        .requested = bytes - waste,
    };
}

#endif
