// SPDX-License-Identifier: Apache-2.0
/* bins.h -- a heap's free blocks, by size: constant-time good fit.
 *
 *   P4  a FREE block is in the bin of its size in its heap, once, and says whether addresses without
 *       memory follow; no other block is in any bin, and the maps say which bins are not empty
 *
 * Two-level segregated lists with bitmaps, after M. Masmano, I. Ripoll, A. Crespo and J. Real,
 * TLSF: a new dynamic memory allocator for real-time systems (ECRTS 2004). Unlike theirs, a word of
 * the lower bitmap covers four classes, and is therefore seldom emptied.
 *
 * Locking: the pool's lock. */
#ifndef TARN_HEAP_BINS_H
#define TARN_HEAP_BINS_H

#include "base/checked.h"
#include "base/contract.h"
#include "base/hot.h"
#include "heap/block.h"

enum {
    TN_BIN_CLASSES = 32, /* a class for each power of two from 2^9 on */
    TN_BIN_STEPS = 16,   /* bins of a class, equally wide */
    TN_BINS = TN_BIN_CLASSES * TN_BIN_STEPS,
    TN_BIN_WORD_BITS = 6,
    TN_BIN_WORDS = TN_BINS >> TN_BIN_WORD_BITS,
};

struct tn_bins {
    uint64_t word_map; /* bit w: words[w] is not 0 */
    /* A bit for each bin that is not empty; the last word stays 0. */
    uint64_t words[TN_BIN_WORDS + 1];
    struct tn_block *heads[TN_BINS]; /* by class and step; newest first */
};

/* Reads from the following block whether it has memory. */
void tn_bins_insert(struct tn_bins *bins, struct tn_block *block);

/* Takes the first block out of its bin. */
void tn_bins_remove_first(struct tn_bins *bins, struct tn_block *block);

/* Takes a block out of its bin; seldom the first block there. */
static inline void tn_bins_remove(struct tn_bins *bins, struct tn_block *block)
{
    struct tn_block *next = block->list_next;
    struct tn_block *previous = block->list_previous;

    TN_ASSERT(block->state == TN_BLOCK_FREE && (next == NULL || next->list_previous == block));
    if (TN_UNLIKELY(previous == NULL)) {
        tn_bins_remove_first(bins, block);
        return;
    }
    previous->list_next = next;
    if (next != NULL)
        next->list_previous = previous;
}

/* A block in a bin has changed its size from bytes_before. Moves it as if it were removed and
 * inserted, but its following block is the same as before. */
void tn_bins_resized(struct tn_bins *bins, struct tn_block *block, uint64_t bytes_before);

/* A block of at least bytes, which stays in its bin; NULL: none. */
struct tn_block *tn_bins_find(const struct tn_bins *bins, uint64_t bytes);

/* tn_bins_find, but a block that ends at unmapped addresses comes last: only this block can be
 * extended by a growth. Reads no blocks outside bins. */
struct tn_block *tn_bins_find_inner(const struct tn_bins *bins, uint64_t bytes);

/* False: no block has at least bytes. Reads no block. */
static inline bool tn_bins_may_have(const struct tn_bins *bins, uint64_t bytes)
{
    unsigned bin = (tn_log2_floor(bytes) - TN_BLOCK_BITS) * TN_BIN_STEPS;
    unsigned word = bin >> TN_BIN_WORD_BITS;

    TN_ASSERT(bytes >= TN_BLOCK_BYTES_MIN && bytes <= TN_BLOCK_BYTES_MAX);
    return bins->words[word] >> (bin & ((1U << TN_BIN_WORD_BITS) - 1)) != 0 ||
           bins->word_map >> word >> 1 != 0;
}

/* The binary logarithm, rounded down, of the largest block's bytes; 0: there is none. */
static inline unsigned tn_bins_log2_max(const struct tn_bins *bins)
{
    unsigned word;

    if (bins->word_map == 0)
        return 0;
    word = tn_log2_floor(bins->word_map);
    TN_ASSERT(bins->words[word] != 0);
    return ((word << TN_BIN_WORD_BITS) + tn_log2_floor(bins->words[word])) / TN_BIN_STEPS +
           TN_BLOCK_BITS;
}

/* The next block of at least bytes after a result of tn_bins_find or of this function. */
struct tn_block *tn_bins_next(const struct tn_bins *bins, const struct tn_block *block,
                              uint64_t bytes);

/* Takes all blocks out of the bins, and links them by list_next in front of those in *list. */
void tn_bins_take_all(struct tn_bins *bins, struct tn_block **list);

/* Sorts blocks linked by list_next by segment and address. */
struct tn_block *tn_blocks_sort(struct tn_block *list);

/* Reverses the order of the blocks in each bin. */
void tn_bins_reverse(struct tn_bins *bins);

/* Sorts the blocks in each bin by segment and address. Looks at no more blocks than *steps, which
 * counts down. False: *steps was too low, and only some bins are in order. */
bool tn_bins_sort(struct tn_bins *bins, uint64_t *steps);

/* For checks: whether the maps match the bins; whether the block is the head of the bin of its
 * size; whether it is linked with its neighbours in that bin; the number of blocks in bins. */
bool tn_bins_is_exact(const struct tn_bins *bins);
bool tn_bins_has_head(const struct tn_bins *bins, const struct tn_block *block);
bool tn_bins_has_linked(const struct tn_bins *bins, const struct tn_block *block);
uint64_t tn_bins_count(const struct tn_bins *bins);

#endif
