// SPDX-License-Identifier: Apache-2.0
/* live_index.h -- from an address to the live block that begins there.
 *
 *   P5  a LIVE or DISCARDED block is in the index of the chunk in which it begins, under its place there;
 *       nothing else is in any
 *
 * Each chunk has a hash table of its own, as large as what lives in it asks for, so memory that changes
 * hands takes its blocks along. Tables have any size, for one that doubles is half empty; the place of a hash is
 * its part of the size. An entry is one word: a part of the hash, from which its place is found
 * again, and the block's record, whose address is a multiple of 64. So no record is looked at but the one
 * that is looked for.
 *
 * No two large blocks begin within TN_SMALL_BYTES_MAX. So a large heap's chunk has an entry for each stretch of as
 * much, and the hash of a place is its distance from the chunk's beginning: each block stands where it is looked
 * for, whatever is beside it. Small blocks in such a chunk are found as those that collide are in any table.
 *
 * Source: linear probing, and deletion that moves entries back, after D. E. Knuth, The Art of Computer
 * Programming, volume 3, section 6.4, algorithms L and R; the hash is multiplicative, ibid.
 *
 * Locking: that of the pool that the chunk is mapped in. */
#ifndef TARN_POOLS_LIVE_INDEX_H
#define TARN_POOLS_LIVE_INDEX_H

#include "base/contract.h"
#include "pools/block.h"
#include "tarn/types.h"

enum {
    TN_LIVE_HASH_BITS = 23,  /* of an entry; no chunk of 1 GiB has so many blocks */
    TN_LIVE_HASH_SHIFT = 41, /* below are the bits 6 to 46 of the record's address */
};

/* Makes sure that so many more blocks can begin in the chunk; false when there is no memory. */
bool tn_live_reserve(struct tn_chunk *chunk, uint32_t count);

/* The same for one that begins, aligned to 2 MiB at most, in the FREE block. */
bool tn_live_reserve_under(const struct tn_block *block);

/* Whether one more can. */
static inline bool tn_live_has_room(const struct tn_chunk *chunk)
{
    return chunk->live_count < chunk->live_room;
}

/* Gives up the table of a chunk in which no block begins. */
void tn_live_drop(struct tn_chunk *chunk);

static inline uint32_t tn_live_hash_by(const struct tn_chunk *chunk, uint64_t offset,
                                       uint32_t factor)
{
    uint32_t place = (uint32_t)((offset - chunk->offset) >> TN_BLOCK_BITS);

    return (place * factor) >> (32 - TN_LIVE_HASH_BITS);
}

/* Of what begins at that offset of the chunk's segment. */
static inline uint32_t tn_live_hash(const struct tn_chunk *chunk, uint64_t offset)
{
    return tn_live_hash_by(chunk, offset, chunk->live_factor);
}

static inline uint64_t tn_live_entry(uint32_t hash, const struct tn_block *block)
{
    return (uint64_t)hash << TN_LIVE_HASH_SHIFT | (uint64_t)(uintptr_t)block >> 6;
}

/* Where a search for the hash begins in a table of that size. */
static inline uint32_t tn_live_home(uint32_t hash, uint32_t size)
{
    return (uint32_t)((uint64_t)hash * size >> TN_LIVE_HASH_BITS);
}

static inline struct tn_block *tn_live_block(uint64_t entry)
{
    return (struct tn_block *)(uintptr_t)((entry & (((uint64_t)1 << TN_LIVE_HASH_SHIFT) - 1)) << 6);
}

/* The LIVE or DISCARDED block that begins at that offset of the chunk's segment; NULL: there is none. */
static inline struct tn_block *tn_live_at(const struct tn_chunk *chunk, uint64_t offset)
{
    const uint64_t *live = chunk->live;
    uint32_t hash = tn_live_hash(chunk, offset);
    uint32_t size = chunk->live_size;
    uint64_t entry;

    if (live == NULL)
        return NULL;
    for (uint32_t at = tn_live_home(hash, size); (entry = live[at]) != 0;
         at = at + 1 < size ? at + 1 : 0) {
        struct tn_block *block = tn_live_block(entry);

        if (entry >> TN_LIVE_HASH_SHIFT == hash && block->offset == offset)
            return block;
    }
    return NULL;
}

/* The block begins in the chunk. To enter it, room was reserved before. */
void tn_live_insert_in(struct tn_chunk *chunk, struct tn_block *block);
void tn_live_remove_in(struct tn_chunk *chunk, struct tn_block *block);

/* The same for the chunk in which the block begins. */
void tn_live_insert(struct tn_block *block);
void tn_live_remove(struct tn_block *block);

/* The LIVE or DISCARDED block of the pool that begins at the address; NULL when there is none. */
struct tn_block *tn_live_find(const tarn_pool *pool, uint64_t address);

/* The same for one who looks for many: the chunk that was looked at last, and its segment where that is the
 * pool's. Begins with NULL in both; no longer good when the pool's lock was given back. */
struct tn_live_place {
    const struct tn_chunk *chunk;
    const struct tn_segment *segment;
};

static inline struct tn_block *tn_live_find_near(const tarn_pool *pool, uint64_t address,
                                                 struct tn_live_place *last)
{
    const struct tn_chunk *chunk = tn_address_table_chunk(address);

    if (chunk != last->chunk) {
        const struct tn_segment *segment =
            chunk != NULL ? atomic_load_explicit(&chunk->segment, memory_order_relaxed) : NULL;

        last->chunk = chunk;
        last->segment = segment != NULL && atomic_load(&segment->owner) == pool ? segment : NULL;
    }
    return last->segment != NULL ? tn_live_at(chunk, address - last->segment->base) : NULL;
}

/* All of them in the pool, in order: the first of the segment or behind it, and the next one. */
struct tn_block *tn_live_first(struct tn_segment *segment);
struct tn_block *tn_live_next(struct tn_block *block);

#endif
