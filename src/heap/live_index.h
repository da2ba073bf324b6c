// SPDX-License-Identifier: Apache-2.0
/* live_index.h -- from an address to the live block that begins there.
 *
 *   P5  a LIVE or DISCARDED block is in the index of the chunk in which it begins, under its place there;
 *       nothing else is in any
 *   P23 where the pool is locked, the entry of a block that is not plain is closed, and no other is
 *
 * Each chunk has a hash table of its own, as large as what lives in it asks for, so memory that changes
 * hands takes its blocks along. Tables have any size, for one that doubles is half empty; the place of a hash is
 * its part of the size. An entry is one word: the hash, which no other place of the chunk has and from which the
 * entry's place is found again; whether it is closed; and the block's record, whose address is a multiple of 64.
 * So that a block is there, and may be freed, is known without any record.
 *
 * No two large blocks begin within TN_SMALL_BYTES_MAX. So a large heap's chunk has an entry for each stretch of as
 * much, and the hash of a place is its distance from the chunk's beginning: each block stands where it is looked
 * for, whatever is beside it. Small blocks in such a chunk are found as those that collide are in any table.
 *
 * What an open entry leads to may be freed by who has no more than the arena's lock, or a place in its inbox
 * (heap/inbox.h). A closed one's block is not plain; or it is freed already, in an arena with an inbox: loose, or
 * on its way there. Who frees a block there closes its entry, by an exchange: of two who do so, one alone does.
 *
 * Without the arena's lock entries may be closed, and nothing else; that is an entry's only change which
 * the lock does not guard. So who has the lock writes plainly what is empty or closed, and exchanges what is open.
 * An entry that he moves is in no place meanwhile; others who do not find it ask for the lock.
 *
 * Source: linear probing, and deletion that moves entries back, after D. E. Knuth, The Art of Computer
 * Programming, volume 3, section 6.4, algorithms L and R; the hash is multiplicative, ibid.
 *
 * Locking: that of the pool that the chunk is mapped in; or of the arena that it belongs to, where that is said. Every
 * access to an entry is relaxed: what is in the block's record, and in its memory, comes to others by the
 * arena's lock or its inbox, and an entry by itself says nothing of them. */
#ifndef TARN_HEAP_LIVE_INDEX_H
#define TARN_HEAP_LIVE_INDEX_H

#include "base/contract.h"
#include "heap/block.h"
#include "tarn/types.h"

enum {
    TN_LIVE_HASH_BITS = 21,  /* of an entry: as many as a chunk of 1 GiB has places */
    TN_LIVE_HASH_SHIFT = 43, /* below is whether it is closed */
    TN_LIVE_OPEN_SHIFT = 42, /* below are the bits 6 to 47 of the record's address */
    TN_LIVE_RECORD_BITS = 6, /* of a record's address: they are 0 */
};

_Static_assert(TN_MEMORY_BYTES_MAX >> TN_BLOCK_BITS <= (uint64_t)1 << TN_LIVE_HASH_BITS,
               "each place of a chunk has a hash of its own");
_Static_assert(TN_LIVE_HASH_BITS + TN_LIVE_HASH_SHIFT == 64, "an entry is one word");
_Static_assert(TN_LIVE_OPEN_SHIFT + 1 == TN_LIVE_HASH_SHIFT, "between them is one bit");
_Static_assert(TN_LIVE_OPEN_SHIFT + TN_LIVE_RECORD_BITS == TN_BLOCK_ADDRESS_BITS,
               "an entry has room for each address at which a record may lie");

#define TN_LIVE_CLOSED ((uint64_t)1 << TN_LIVE_OPEN_SHIFT)

/* Makes sure that so many more blocks can begin in the chunk; false when there is no memory. */
bool tn_live_reserve(struct tn_chunk *chunk, uint32_t count);

/* The same for one that begins, aligned to 2 MiB at most, in the FREE block. */
bool tn_live_reserve_under(const struct tn_block *block);

/* Whether one more can. */
static inline bool tn_live_has_room(const struct tn_chunk *chunk)
{
    return chunk->live_count < chunk->live_room;
}

/* Brings what allocations in the chunk write into the cache, its table above all; returns the bytes of that. */
uint64_t tn_live_bring_near(const struct tn_chunk *chunk);

/* Gives up the table of a chunk in which no block begins. */
void tn_live_drop(struct tn_chunk *chunk);

static inline uint32_t tn_live_hash_by(const struct tn_chunk *chunk, uint64_t offset,
                                       uint32_t factor)
{
    uint32_t place = (uint32_t)((offset - chunk->offset) >> TN_BLOCK_BITS);

    TN_ASSERT(offset >= chunk->offset && offset < chunk->offset + chunk->bytes);
    return (place * factor) & (((uint32_t)1 << TN_LIVE_HASH_BITS) - 1);
}

/* Of what begins at that offset of the chunk's segment, a multiple of TN_BLOCK_BYTES_MIN. */
static inline uint32_t tn_live_hash(const struct tn_chunk *chunk, uint64_t offset)
{
    return tn_live_hash_by(chunk, offset, chunk->live_factor);
}

/* Where a search for the hash begins in a table of that size. */
static inline uint32_t tn_live_home(uint32_t hash, uint32_t size)
{
    TN_ASSERT(hash >> TN_LIVE_HASH_BITS == 0);
    return (uint32_t)((uint64_t)hash * size >> TN_LIVE_HASH_BITS);
}

/* The entry of the block whose record lies there; nothing is read of the record. */
static inline uint64_t tn_live_entry(uint32_t hash, bool open, const struct tn_block *block)
{
    TN_ASSERT(((uintptr_t)block & ((1U << TN_LIVE_RECORD_BITS) - 1)) == 0);
    return (uint64_t)hash << TN_LIVE_HASH_SHIFT | (open ? 0 : TN_LIVE_CLOSED) |
           (uint64_t)(uintptr_t)block >> TN_LIVE_RECORD_BITS;
}

static inline struct tn_block *tn_live_block(uint64_t entry)
{
    return (struct tn_block *)(uintptr_t)((entry & (TN_LIVE_CLOSED - 1)) << TN_LIVE_RECORD_BITS);
}

/* Has the place brought near where what begins at that offset will be entered, most likely. The chunk has a table. */
static inline void tn_live_prefetch(const struct tn_chunk *chunk, uint64_t offset)
{
    uint32_t home = tn_live_home(tn_live_hash(chunk, offset), chunk->live_size);

    __builtin_prefetch(&chunk->live[home], 1);
}

/* The entry whose upper bits, from the shift on, are those of an open one at that offset, and where it stands; 0: there
 * is none. What is mapped has a table. */
static inline uint64_t tn_live_seek(const struct tn_chunk *chunk, uint64_t offset, unsigned shift,
                                    atomic_uint_fast64_t **place)
{
    uint64_t hash = tn_live_hash(chunk, offset);
    uint32_t size = chunk->live_size;
    uint32_t at = tn_live_home((uint32_t)hash, size);
    uint64_t entry;

    TN_ASSERT(size > 0);
    if (TN_UNLIKELY(offset % TN_BLOCK_BYTES_MIN != 0))
        return 0;
    do {
        *place = &chunk->live[at];
        entry = atomic_load_explicit(*place, memory_order_relaxed);
        if (TN_LIKELY(entry >> shift == hash << (TN_LIVE_HASH_SHIFT - shift)))
            return entry; /* or 0, where the hash is 0 */
        at = at + 1 < size ? at + 1 : 0;
    } while (entry != 0);
    return 0;
}

/* The LIVE or DISCARDED block that begins at that offset of the chunk's segment; NULL: there is none. */
static inline struct tn_block *tn_live_at(const struct tn_chunk *chunk, uint64_t offset)
{
    atomic_uint_fast64_t *place;

    return chunk->live != NULL
               ? tn_live_block(tn_live_seek(chunk, offset, TN_LIVE_HASH_SHIFT, &place))
               : NULL;
}

/* The block there whose entry is open; NULL: there is none. The lock of the chunk's arena is held, which has no
 * inbox. */
static inline struct tn_block *tn_live_open_at(const struct tn_chunk *chunk, uint64_t offset)
{
    atomic_uint_fast64_t *place;

    return tn_live_block(tn_live_seek(chunk, offset, TN_LIVE_OPEN_SHIFT, &place));
}

/* Closes the entry there: its block is the caller's alone from then on. NULL: no entry was found open. The lock of the
 * chunk's arena is held, or a place of its inbox. */
static inline struct tn_block *tn_live_close_at(const struct tn_chunk *chunk, uint64_t offset)
{
    atomic_uint_fast64_t *place = NULL;
    uint_fast64_t entry = tn_live_seek(chunk, offset, TN_LIVE_OPEN_SHIFT, &place);

    /* It fails where the entry is another one, or closed, by now. */
    return entry != 0 && atomic_compare_exchange_strong_explicit(
                             place, &entry, entry | TN_LIVE_CLOSED, memory_order_relaxed,
                             memory_order_relaxed)
               ? tn_live_block(entry)
               : NULL;
}

/* Whether nobody but its arena is concerned by the free of a LIVE block. */
static inline bool tn_block_is_plain(const struct tn_block *block)
{
    TN_ASSERT(block->state != TN_BLOCK_UNMAPPED);
    return block->own_order && !block->tangled && !block->misplaced &&
           block->state != TN_BLOCK_DISCARDED;
}

/* Whether the entry of a LIVE or DISCARDED block is. */
bool tn_live_is_open(const struct tn_block *block);

/* Opens or closes the entry of a LIVE or DISCARDED block, as P23 says. With no more than the arena's lock: opens that of
 * a block that is the caller's alone. */
void tn_live_mark(struct tn_block *block);

/* The block begins in the chunk. To enter it, room was reserved before; open: it is plain. */
void tn_live_insert_in(struct tn_chunk *chunk, struct tn_block *block, bool open);
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
