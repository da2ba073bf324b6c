// SPDX-License-Identifier: Apache-2.0
/* word_set.h -- a set of words, each with a bit of the user's in the word's lowest bit. The set has
 * at most one of two words that differ in this bit alone.
 *
 * A table with open addressing, at most half full. Source: linear probing, D. E. Knuth, The Art of
 * Computer Programming, volume 3, section 6.4, algorithm L; the hash is multiplicative, ibid.
 *
 * Locking: none; whoever has a set guards it. */
#ifndef TARN_BASE_WORD_SET_H
#define TARN_BASE_WORD_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/checked.h"

/* Zeroed memory is an empty set. */
struct tn_word_set {
    uint64_t *table; /* 0: an empty place; a word is therefore never 0 or 1 */
    size_t count;    /* kept by the user, who writes to places */
    size_t capacity; /* a power of two, or 0 */
};

/* Makes sure that one more word has a place; false when there is no memory. */
bool tn_word_set_reserve(struct tn_word_set *set);
void tn_word_set_drop(struct tn_word_set *set);

/* The word's place, after a reserve: the place has the word, with either lowest bit, or 0. */
static inline uint64_t *tn_word_set_place(const struct tn_word_set *set, uint64_t word)
{
    size_t at = (size_t)((word >> 1) * TN_GOLDEN >> 32) & (set->capacity - 1);

    while (set->table[at] != 0 && set->table[at] >> 1 != word >> 1)
        at = (at + 1) & (set->capacity - 1);
    return &set->table[at];
}

#endif
