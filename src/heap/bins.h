// SPDX-License-Identifier: Apache-2.0
/* bins.h -- a heap's free blocks, by size: constant-time good fit.
 *
 *   P4  a FREE block is in the bin of its size in its heap, once, and says whether addresses without memory
 *       follow it; nothing else is in any bin, and the maps say which bins are not empty
 *
 * Two-level segregated lists with bitmaps, after M. Masmano, I. Ripoll, A. Crespo and J. Real, TLSF:
 * a new dynamic memory allocator for real-time systems (ECRTS 2004); but that a word of the lower bitmap covers four
 * classes, and so is seldom emptied.
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
    uint64_t word_map;                /* bit w: words[w] is not 0 */
    uint64_t words[TN_BIN_WORDS + 1]; /* a bit for each bin: it is not empty; the last stays 0 */
    struct tn_block *heads[TN_BINS];  /* by class and step; newest first */
};

/* Looks at the block that follows, whether that has memory. */
void tn_bins_insert(struct tn_bins *bins, struct tn_block *block);

/* Takes the first block out of its bin. */
void tn_bins_remove_first(struct tn_bins *bins, struct tn_block *block);

/* Takes a block out of its bin, in which it seldom is the first. */
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

/* A block in a bin had so many bytes, and has others now: as if it were removed and inserted, but that what
 * follows it is the same. */
void tn_bins_resized(struct tn_bins *bins, struct tn_block *block, uint64_t bytes_before);

/* A block of at least bytes, still in its bin; NULL when there is none. */
struct tn_block *tn_bins_find(const struct tn_bins *bins, uint64_t bytes);

/* The same, but that a block which ends where nothing is mapped comes last: it can be made larger by a growth,
 * and no other can. Looks at no block but those of bins. */
struct tn_block *tn_bins_find_inner(const struct tn_bins *bins, uint64_t bytes);

/* False: there is no block of at least bytes. Looks at no block. */
static inline bool tn_bins_may_have(const struct tn_bins *bins, uint64_t bytes)
{
    unsigned bin = (tn_log2_floor(bytes) - TN_BLOCK_BITS) * TN_BIN_STEPS;
    unsigned word = bin >> TN_BIN_WORD_BITS;

    TN_ASSERT(bytes >= TN_BLOCK_BYTES_MIN && bytes <= TN_BLOCK_BYTES_MAX);
    return bins->words[word] >> (bin & ((1U << TN_BIN_WORD_BITS) - 1)) != 0 ||
           bins->word_map >> word >> 1 != 0;
}

/* The next block of at least bytes after one that tn_bins_find or this function gave. */
struct tn_block *tn_bins_next(const struct tn_bins *bins, const struct tn_block *block,
                              uint64_t bytes);

/* Turns the order of the blocks in each bin round. */
void tn_bins_reverse(struct tn_bins *bins);

/* Puts the blocks in each bin in order of segment and address. Looks at no more blocks than *looks, which it counts
 * down: false where there are more, with some bins in order. */
bool tn_bins_sort(struct tn_bins *bins, uint64_t *looks);

/* For checks: whether the maps say of each bin whether it is empty; whether the block is the head of the bin of its size;
 * whether it is linked with its neighbours in that bin; how many blocks are in bins. */
bool tn_bins_is_exact(const struct tn_bins *bins);
bool tn_bins_has_head(const struct tn_bins *bins, const struct tn_block *block);
bool tn_bins_has_linked(const struct tn_bins *bins, const struct tn_block *block);
uint64_t tn_bins_count(const struct tn_bins *bins);

#endif
