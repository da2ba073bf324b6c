// SPDX-License-Identifier: Apache-2.0
/* chunk_set.h -- a set of an owner's chunks, by their ids.
 *
 * Each id has a bit. Once the set has room for all ids, entering a chunk needs no memory. A walk
 * passes by empty words in at most 64 portions, so that it mostly takes the time of the set's chunks,
 * not of all ids.
 *
 * Locking: the lock of the set's owner. */
#ifndef TARN_HEAP_CHUNK_SET_H
#define TARN_HEAP_CHUNK_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/contract.h"
#include "vmm/chunk.h"
#include "vmm/segment.h"

enum { TN_CHUNK_SET_BITS = 64 }; /* in a word */

struct tn_chunk_set {
    uint64_t *words;
    size_t word_count;
    /* Bit b is 0: so are all words from b << map_shift on, 1 << map_shift of them. */
    uint64_t map;
    unsigned map_shift;
};

/* An owner's chunks by their ids. */
struct tn_chunk_table {
    struct tn_chunk **by_id; /* NULL where an id is free */
    size_t capacity;
    size_t count; /* entries that are not NULL, including chunks of a growth under way */
    size_t ids;   /* ids below this have been used */
    struct tn_chunk_set free_ids; /* those of them that no chunk has: P8 in pools/pool.h */
};

/* Makes room for ids below count; false when there is no memory. */
bool tn_chunk_set_reserve(struct tn_chunk_set *set, size_t count);
void tn_chunk_set_free(struct tn_chunk_set *set); /* the set is empty, and has no room */

/* The first word at or behind this one that is not 0; word_count: none. The set may have no such
 * word. */
size_t tn_chunk_set_next(const struct tn_chunk_set *set, size_t word);

/* The chunks with ids from 64 * index on; none where the set has no room for them. */
static inline uint64_t tn_chunk_set_word(const struct tn_chunk_set *set, size_t index)
{
    return index < set->word_count ? set->words[index] : 0;
}

static inline bool tn_chunk_set_has_id(const struct tn_chunk_set *set, size_t id)
{
    return (tn_chunk_set_word(set, id / TN_CHUNK_SET_BITS) >> (id % TN_CHUNK_SET_BITS) & 1) != 0;
}

/* Enters a chunk, for which there is room. True: the chunk is new to the set. */
static inline bool tn_chunk_set_add(struct tn_chunk_set *set, const struct tn_chunk *chunk)
{
    uint64_t bit = (uint64_t)1 << (chunk->id % TN_CHUNK_SET_BITS);
    uint64_t *word = &set->words[chunk->id / TN_CHUNK_SET_BITS];

    TN_ASSERT(chunk->id / TN_CHUNK_SET_BITS < set->word_count);
    if ((*word & bit) != 0)
        return false;
    *word |= bit;
    set->map |= (uint64_t)1 << (chunk->id / TN_CHUNK_SET_BITS >> set->map_shift);
    return true;
}

/* Takes the lowest id out of a set that is not empty, and returns it. */
size_t tn_chunk_set_take_first(struct tn_chunk_set *set);

/* Whether the set has all chunks under these bytes of the segment. The set has room for their
 * ids. */
static inline bool tn_chunk_set_has_all(const struct tn_chunk_set *set,
                                        const struct tn_segment *segment, uint64_t offset,
                                        uint64_t bytes)
{
    uint64_t end = offset + bytes;

    while (offset < end) {
        const struct tn_chunk *chunk = tn_segment_chunk_at(segment, offset);

        TN_ASSERT(chunk->id / TN_CHUNK_SET_BITS < set->word_count);
        if ((set->words[chunk->id / TN_CHUNK_SET_BITS] >> (chunk->id % TN_CHUNK_SET_BITS) & 1) == 0)
            return false;
        offset = tn_chunk_end(chunk);
    }
    return true;
}

#endif
