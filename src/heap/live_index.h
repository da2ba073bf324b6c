// SPDX-License-Identifier: Apache-2.0
/* live_index.h -- from an address to the live block that begins there.
 *
 *   P5  a LIVE or DISCARDED block is in the index of the chunk in which it begins, under its place
 *       there; no other block is in any index
 *   P23 while the pool is locked, an entry is closed if and only if its block is not plain, or of a
 *       magazine (heap/magazine.h)
 *
 * Each chunk has a hash table of its own, as large as its blocks require. A chunk that changes
 * hands therefore takes its blocks along. Tables have any size, for a table that doubles is half
 * empty; a hash's place is its share of the size. An entry is one word with three parts:
 * - the hash, which no other place of the chunk has and which gives the entry's place again;
 * - whether the entry is closed;
 * - the block's record, whose address is a multiple of 64.
 *
 * A free can therefore find a block, and whether it may be freed, without reading any record.
 *
 * No two large blocks begin within TN_SMALL_BYTES_MAX. A large heap's chunk therefore has an entry
 * for each stretch of this size. A place's hash is its distance from the chunk's beginning. Each
 * block stands exactly where a search begins, whatever is beside it. Small blocks in such a chunk
 * are found as colliding entries are in any table.
 *
 * A thread with only the arena's lock, or with a place in its inbox (heap/inbox.h), may free the
 * block of an open entry. The block of a closed entry is either not plain, or already freed in an
 * arena with an inbox: loose, or on its way there. In such an arena a thread that frees a block
 * closes its entry by an exchange. If two threads try, only one succeeds.
 *
 * Without the arena's lock an entry may be closed, and not changed otherwise. The lock guards all
 * other changes. Its holder therefore writes empty and closed entries plainly, and exchanges open
 * entries. An entry on its way to another place is in none meanwhile; a thread that misses it there
 * takes the lock.
 *
 * Source: linear probing, and deletion that moves entries back, after D. E. Knuth, The Art of
 * Computer Programming, volume 3, section 6.4, algorithms L and R; the hash is multiplicative,
 * ibid.
 *
 * Locking: the lock of the pool which maps the chunk; or, where a function says so, of the arena
 * which owns it. Every access to an entry is relaxed. An entry says nothing about the block's
 * record or memory: their contents reach other threads through the arena's lock or its inbox. */
#ifndef TARN_HEAP_LIVE_INDEX_H
#define TARN_HEAP_LIVE_INDEX_H

#include "base/contract.h"
#include "heap/block.h"
#include "tarn/types.h"

enum {
    TN_LIVE_HASH_BITS = 21,  /* in an entry: as many as a chunk of 1 GiB has places */
    TN_LIVE_HASH_SHIFT = 43, /* the bit below says whether the entry is closed */
    TN_LIVE_OPEN_SHIFT = 42, /* below are the bits 6 to 47 of the record's address */
    TN_LIVE_RECORD_BITS = 6, /* low bits of a record's address, always 0 */
};

_Static_assert(TN_MEMORY_BYTES_MAX >> TN_BLOCK_BITS <= (uint64_t)1 << TN_LIVE_HASH_BITS,
               "each place of a chunk has a hash of its own");
_Static_assert(TN_LIVE_HASH_BITS + TN_LIVE_HASH_SHIFT == 64, "an entry is one word");
_Static_assert(TN_LIVE_OPEN_SHIFT + 1 == TN_LIVE_HASH_SHIFT, "between them is one bit");
_Static_assert(TN_LIVE_OPEN_SHIFT + TN_LIVE_RECORD_BITS == TN_BLOCK_ADDRESS_BITS,
               "an entry has room for each address at which a record may lie");

#define TN_LIVE_CLOSED ((uint64_t)1 << TN_LIVE_OPEN_SHIFT)

/* Makes room for count more blocks to begin in the chunk; false: no memory. */
bool tn_live_reserve(struct tn_chunk *chunk, uint32_t count);

/* tn_live_reserve for a block that begins in the FREE block, aligned to 2 MiB at most. */
bool tn_block_reserve_entries(const struct tn_block *block);

/* Whether the chunk's table has room for another block. */
static inline bool tn_live_has_room(const struct tn_chunk *chunk)
{
    return chunk->live_count < chunk->live_room;
}

/* Brings the lines which allocations in the chunk write into the cache, and its table if that has
 * no more than this many bytes; returns the table's bytes. */
uint64_t tn_live_bring_near(const struct tn_chunk *chunk, uint64_t most);

/* Gives up the table of a chunk in which no block begins. */
void tn_live_drop(struct tn_chunk *chunk);

static inline uint32_t tn_live_hash_factor(const struct tn_chunk *chunk, uint64_t offset,
                                           uint32_t factor)
{
    uint32_t place = (uint32_t)((offset - chunk->offset) >> TN_BLOCK_BITS);

    TN_ASSERT(offset >= chunk->offset && offset < chunk->offset + chunk->bytes);
    return (place * factor) & (((uint32_t)1 << TN_LIVE_HASH_BITS) - 1);
}

/* The hash of an offset in the chunk's segment, a multiple of TN_BLOCK_BYTES_MIN. */
static inline uint32_t tn_live_hash(const struct tn_chunk *chunk, uint64_t offset)
{
    return tn_live_hash_factor(chunk, offset, chunk->live_factor);
}

/* Where a search for the hash begins in a table of this size. */
static inline uint32_t tn_live_home(uint32_t hash, uint32_t size)
{
    TN_ASSERT(hash >> TN_LIVE_HASH_BITS == 0);
    return (uint32_t)((uint64_t)hash * size >> TN_LIVE_HASH_BITS);
}

/* The entry of a block, from its record's address; reads nothing of the record. */
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

/* Prefetches the likely place of an entry for this offset. The chunk has a table. */
static inline void tn_live_prefetch(const struct tn_chunk *chunk, uint64_t offset)
{
    uint32_t home = tn_live_home(tn_live_hash(chunk, offset), chunk->live_size);

    __builtin_prefetch(&chunk->live[home], 1);
}

/* Finds the entry whose upper bits, from the shift on, equal those of an open entry at this offset;
 * *place: its place. 0: none. A mapped chunk has a table. */
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

/* The block of an entry of the chunk's table, by its place from 0 to live_size; NULL: none. */
static inline struct tn_block *tn_live_block_in(const struct tn_chunk *chunk, uint32_t place)
{
    TN_ASSERT(place < chunk->live_size);
    return tn_live_block(atomic_load_explicit(&chunk->live[place], memory_order_relaxed));
}

/* The LIVE or DISCARDED block that begins at this offset of the chunk's segment; NULL: none. */
static inline struct tn_block *tn_live_at(const struct tn_chunk *chunk, uint64_t offset)
{
    atomic_uint_fast64_t *place;

    return chunk->live != NULL
               ? tn_live_block(tn_live_seek(chunk, offset, TN_LIVE_HASH_SHIFT, &place))
               : NULL;
}

/* The block at this offset whose entry is open; NULL: none. The caller has the lock of the chunk's
 * arena, which has no inbox. */
static inline struct tn_block *tn_live_open_at(const struct tn_chunk *chunk, uint64_t offset)
{
    atomic_uint_fast64_t *place;

    return tn_live_block(tn_live_seek(chunk, offset, TN_LIVE_OPEN_SHIFT, &place));
}

/* Closes the entry at this offset: its block belongs to the caller alone from then on. NULL: no
 * open entry. The caller has the lock of the chunk's arena, or a place of its inbox. */
static inline struct tn_block *tn_live_close_at(const struct tn_chunk *chunk, uint64_t offset)
{
    atomic_uint_fast64_t *place = NULL;
    uint_fast64_t entry = tn_live_seek(chunk, offset, TN_LIVE_OPEN_SHIFT, &place);

    /* Fails if the entry has been closed or replaced meanwhile. */
    return entry != 0 && atomic_compare_exchange_strong_explicit(
                             place, &entry, entry | TN_LIVE_CLOSED, memory_order_relaxed,
                             memory_order_relaxed)
               ? tn_live_block(entry)
               : NULL;
}

/* Whether a free of the LIVE block concerns its arena alone. */
static inline bool tn_block_is_plain(const struct tn_block *block)
{
    TN_ASSERT(block->state != TN_BLOCK_UNMAPPED);
    return block->own_order && !block->may_have_claims && !block->in_other_heap &&
           block->state != TN_BLOCK_DISCARDED;
}

/* Whether the LIVE block belongs to a magazine of its arena (heap/magazine.h). */
static inline bool tn_block_is_of_magazine(const struct tn_block *block)
{
    return atomic_load_explicit(&block->magazine, memory_order_relaxed) != 0;
}

/* Whether the entry of a LIVE or DISCARDED block is open. */
bool tn_live_is_open(const struct tn_block *block);

/* Opens or closes the entry of a LIVE or DISCARDED block, as P23 says. With only the arena's lock:
 * opens the entry of a block that belongs to the caller alone. */
void tn_live_update(struct tn_block *block);

static inline uint64_t tn_live_entry_of(const struct tn_chunk *chunk, const struct tn_block *block,
                                        bool open)
{
    TN_ASSERT(open == tn_block_is_plain(block)); /* P23 */
    return tn_live_entry(tn_live_hash(chunk, block->offset), open, block);
}

/* Puts the entry, which is not in the table, into the first free place from its home on. */
static inline void tn_live_put(atomic_uint_fast64_t *table, uint32_t size, uint64_t entry)
{
    uint32_t at = tn_live_home((uint32_t)(entry >> TN_LIVE_HASH_SHIFT), size);

    TN_ASSERT(tn_live_block(entry) != NULL);
    while (atomic_load_explicit(&table[at], memory_order_relaxed) != 0)
        at = at + 1 < size ? at + 1 : 0;
    atomic_store_explicit(&table[at], entry, memory_order_relaxed);
}

/* Enters a block that begins in the chunk; room was reserved before. open: the block is plain. */
static TN_ALWAYS_INLINE void tn_chunk_live_insert(struct tn_chunk *chunk, struct tn_block *block,
                                                  bool open)
{
    TN_ASSERT(tn_live_has_room(chunk));
    TN_ASSERT(tn_live_at(chunk, block->offset) == NULL); /* P5 */
    atomic_store_explicit(&block->magazine, 0, memory_order_relaxed);
    tn_live_put(chunk->live, chunk->live_size, tn_live_entry_of(chunk, block, open));
    chunk->live_count += 1;
}

void tn_chunk_live_remove(struct tn_chunk *chunk, struct tn_block *block);

/* tn_chunk_live_insert and tn_chunk_live_remove for the chunk in which the block begins. */
void tn_live_insert(struct tn_block *block);
void tn_live_remove(struct tn_block *block);

/* The block over the offset, in any state. Few blocks are looked at, unless many lie between the
 * offset and both the end of the segment and the next live block below. The pool's lock is held. */
struct tn_block *tn_segment_block_at(const struct tn_segment *segment, uint64_t offset);

/* The LIVE or DISCARDED block of the pool that begins at the address; NULL: none. */
struct tn_block *tn_live_find(const tarn_pool *pool, uint64_t address);

/* tn_live_find for many addresses: remembers the last chunk, and its segment if the pool owns this.
 * Begin with NULL in both. Not valid after the pool's lock was released. */
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

/* All live blocks of the pool, in order: the first in the segment or in a later segment, and the
 * next block. */
struct tn_block *tn_live_first(struct tn_segment *segment);
struct tn_block *tn_live_next(struct tn_block *block);

#endif
