// SPDX-License-Identifier: Apache-2.0
#include "heap/chunk_set.h"

#include "base/checked.h"
#include "base/contract.h"
#include "base/host.h"

enum { MAP_BITS = 64 };

/* Has the map's bits stand for more words each, as many as are needed now. */
static void widen_map(struct tn_chunk_set *set)
{
    unsigned shift = set->word_count > MAP_BITS ? tn_log2_floor(set->word_count - 1) - 5 : 0;
    uint64_t map = 0;

    TN_ASSERT(shift >= set->map_shift && (set->word_count - 1) >> shift < MAP_BITS);
    for (uint64_t bits = set->map; bits != 0; bits &= bits - 1)
        map |= (uint64_t)1 << (tn_lowest_bit(bits) >> (shift - set->map_shift));
    set->map = map;
    set->map_shift = shift;
}

bool tn_chunk_set_reserve(struct tn_chunk_set *set, size_t count)
{
    size_t before = set->word_count;
    bool grown =
        tn_host_grow((void **)&set->words, &set->word_count,
                     (count + TN_CHUNK_SET_BITS - 1) / TN_CHUNK_SET_BITS, sizeof *set->words);

    TN_ASSERT(!grown || set->word_count * TN_CHUNK_SET_BITS >= count);
    if (set->word_count != before)
        widen_map(set);
    return grown;
}

size_t tn_chunk_set_next(const struct tn_chunk_set *set, size_t word)
{
    TN_ASSERT(set->word_count == 0 || (set->word_count - 1) >> set->map_shift < MAP_BITS);
    while (word < set->word_count && set->words[word] == 0) {
        size_t bit = word >> set->map_shift;
        uint64_t above = set->map >> bit >> 1;

        if ((set->map >> bit & 1) != 0)
            word += 1;
        else if (above != 0)
            word = (bit + 1 + tn_lowest_bit(above)) << set->map_shift;
        else
            word = set->word_count;
    }
    return tn_min(word, set->word_count);
}

/* Whether no word from this one on is left of those which its bit of the map stands for. */
static bool is_last_of_portion(const struct tn_chunk_set *set, size_t word)
{
    size_t next = tn_chunk_set_next(set, word);

    return next >> set->map_shift != word >> set->map_shift || next == set->word_count;
}

size_t tn_chunk_set_take_first(struct tn_chunk_set *set)
{
    size_t word = tn_chunk_set_next(set, 0);
    size_t id;

    TN_ASSERT(word < set->word_count);
    id = TN_CHUNK_SET_BITS * word + (size_t)tn_lowest_bit(set->words[word]);
    set->words[word] &= set->words[word] - 1;
    if (set->words[word] == 0 && is_last_of_portion(set, word))
        set->map &= ~((uint64_t)1 << (word >> set->map_shift));
    TN_ASSERT(!tn_chunk_set_has_id(set, id));
    return id;
}

void tn_chunk_set_free(struct tn_chunk_set *set)
{
    TN_ASSERT(set->word_count == 0 || set->words != NULL);
    tn_host_free(set->words);
    *set = (struct tn_chunk_set){.words = NULL};
}
