// SPDX-License-Identifier: Apache-2.0
/* The table comes with the first block that begins in the chunk, and goes when the chunk leaves its
 * pool. In a chunk full of blocks it is a little less than nine sixteenths full: some 15 bytes for
 * each block. A large heap's chunk has a table of full size from the start: 16 KiB for 1 GiB.
 *
 * Trade-offs: a table never shrinks, so a chunk keeps room for its highest number of blocks.
 * Searches in a fuller table would take longer. */
#include "heap/live_index.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/host.h"
#include "base/hot.h"
#include "heap/heap.h"

/* Near to the golden section of the hash's range, and odd, which gives each place a hash of its
 * own. Places that are multiples of 2^k see its lower bits alone. These bits were chosen for an
 * even spread of equidistant places, whatever their distance: for each such part of 6 bits or more,
 * no quotient in the continued fraction is above 12. */
static const uint32_t spread_factor = 1283249;

enum {
    STEPS_ALONE = 8, /* of a search from the end of a segment: growth finds what it asks for */
    PROBES_MAX = 32
};
enum { SIZE_MIN = 32 }; /* 256 bytes, a small part of what a chunk of 2 MiB may cost */

/* A large chunk begins with room for more blocks, since making room takes the pool's lock: 72
 * blocks in 1 GiB. */
static uint32_t first_size(const struct tn_chunk *chunk)
{
    unsigned above = tn_log2_floor(chunk->bytes) - TN_PAGE_BITS;

    return (uint32_t)SIZE_MIN << above / 4;
}

static bool is_spread(const struct tn_chunk *chunk)
{
    return chunk->live_factor == spread_factor; /* else it is a power of two */
}

static bool has_large_blocks(const struct tn_chunk *chunk)
{
    const struct tn_heap *heap = atomic_load_explicit(&chunk->heap, memory_order_relaxed);

    return heap != NULL && heap->kind == TN_HEAP_LARGE;
}

static uint32_t home_of(uint64_t entry, uint32_t size)
{
    return tn_live_home((uint32_t)(entry >> TN_LIVE_HASH_SHIFT), size);
}

static uint32_t next_of(uint32_t at, uint32_t size)
{
    TN_ASSERT(at < size);
    return at + 1 < size ? at + 1 : 0;
}

static uint64_t get(const atomic_uint_fast64_t *table, uint32_t at)
{
    return atomic_load_explicit(&table[at], memory_order_relaxed);
}

static void set(atomic_uint_fast64_t *table, uint32_t at, uint64_t entry)
{
    atomic_store_explicit(&table[at], entry, memory_order_relaxed);
}

/* Blocks for which a table has room: at most nine sixteenths of its entries. */
static uint64_t room_of(uint64_t size)
{
    return size * 9 / 16;
}

/* How many blocks the table should have room for when needed blocks do not fit. The estimate: the
 * rest of the chunk fills up like its used part. At least an eighth more than now, and at most
 * twice as many. */
static uint64_t room_wanted(const struct tn_chunk *chunk, uint64_t needed)
{
    uint64_t least = tn_max(needed, chunk->live_room + chunk->live_room / 8);
    uint64_t expected = UINT64_MAX;

    TN_ASSERT(needed > chunk->live_room);
    if (chunk->used_bytes > 0)
        expected = chunk->live_count * chunk->bytes / chunk->used_bytes;
    return tn_max(least, tn_min(expected, 2 * (uint64_t)chunk->live_room));
}

/* Properties of a table: spread or by distance. */
struct shape {
    uint32_t size;
    uint32_t room;
    uint32_t factor;
};

static struct shape shape_by_distance(const struct tn_chunk *chunk)
{
    uint32_t stretches = (uint32_t)(chunk->bytes / TN_SMALL_BYTES_MAX);

    TN_ASSERT(tn_is_power_of_two(chunk->bytes));
    /* An entry always stays empty, where a search ends. The highest bit of a place becomes the
     * highest of its hash. */
    return (struct shape){stretches + 1, stretches,
                          1U << (TN_LIVE_HASH_BITS + TN_BLOCK_BITS - tn_log2_floor(chunk->bytes))};
}

static struct shape shape_spread(const struct tn_chunk *chunk, uint64_t needed)
{
    uint64_t size = first_size(chunk);

    if ((chunk->live_size > 0 && is_spread(chunk)) || needed > room_of(size))
        size = room_wanted(chunk, needed) * 16 / 9 + 2;
    return (struct shape){(uint32_t)size, (uint32_t)room_of(size), spread_factor};
}

static struct shape shape_for(const struct tn_chunk *chunk, uint64_t needed)
{
    struct shape shape = shape_by_distance(chunk);

    return has_large_blocks(chunk) && needed <= shape.room ? shape : shape_spread(chunk, needed);
}

/* Whether the table has room for needed blocks, and is not by distance where small blocks begin to
 * come. */
static bool suffices(const struct tn_chunk *chunk, uint64_t needed)
{
    return needed <= chunk->live_room && (is_spread(chunk) || has_large_blocks(chunk));
}

static uint64_t rehashed(const struct tn_chunk *chunk, uint32_t factor, uint64_t entry)
{
    uint64_t hash = tn_live_hash_factor(chunk, tn_live_block(entry)->offset, factor);

    return hash << TN_LIVE_HASH_SHIFT | (entry & (((uint64_t)1 << TN_LIVE_HASH_SHIFT) - 1));
}

/* Puts the entries of the old table into the new table. */
static void move_entries(struct tn_chunk *chunk, const struct shape *shape,
                         atomic_uint_fast64_t *table)
{
    bool same_hashes = shape->factor == chunk->live_factor;

    for (uint32_t i = 0; i < chunk->live_size; i++) {
        uint64_t entry = get(chunk->live, i);

        if (entry != 0 && !same_hashes)
            entry = rehashed(chunk, shape->factor, entry);
        if (entry != 0)
            tn_live_put(table, shape->size, entry);
    }
}

static TN_APART bool make_room(struct tn_chunk *chunk, uint64_t needed)
{
    struct shape shape = shape_for(chunk, needed);
    atomic_uint_fast64_t *table = tn_host_alloc(shape.size, sizeof *table);

    if (table == NULL)
        return needed <= chunk->live_room;
    tn_host_touch(table, shape.size * sizeof *table);
    move_entries(chunk, &shape, table);
    tn_host_free(chunk->live);
    chunk->live = table;
    chunk->live_size = shape.size;
    chunk->live_room = shape.room;
    chunk->live_factor = shape.factor;
    TN_ASSERT(chunk->live_room >= needed && chunk->live_room < chunk->live_size);
    return true;
}

bool tn_live_reserve(struct tn_chunk *chunk, uint32_t count)
{
    uint64_t needed = (uint64_t)chunk->live_count + count;

    return suffices(chunk, needed) || make_room(chunk, needed);
}

bool tn_block_reserve_entries(const struct tn_block *block)
{
    uint64_t end = tn_min(tn_block_end(block), block->offset + TN_PAGE_BYTES);

    for (uint64_t at = block->offset; at < end;) {
        struct tn_chunk *chunk = tn_segment_chunk_at(block->segment, at);

        if (!tn_live_reserve(chunk, 1))
            return false;
        at = tn_chunk_end(chunk);
    }
    return true;
}

uint64_t tn_live_bring_near(const struct tn_chunk *chunk, uint64_t most)
{
    uint64_t bytes = chunk->live_size * sizeof *chunk->live;

    __builtin_prefetch(&chunk->used_bytes, 1);
    if (bytes <= most)
        tn_bring_near((const void *)chunk->live, bytes);
    return bytes;
}

void tn_live_drop(struct tn_chunk *chunk)
{
    TN_ASSERT(chunk->live_count == 0);
    tn_host_free(chunk->live);
    chunk->live = NULL;
    chunk->live_size = 0;
    chunk->live_room = 0;
}

/* Moves entries back into an empty place, the gap. An entry behind the gap may move there, unless
 * its home lies behind the gap, up to the entry's own place, going round. The exchange takes the
 * entry out before it is written elsewhere: another thread may be closing it at this moment, and no
 * thread may find it twice. */
static void close_gap(atomic_uint_fast64_t *table, uint32_t size, uint32_t gap)
{
    uint64_t entry;

    TN_ASSERT(gap < size);
    set(table, gap, 0);
    for (uint32_t at = next_of(gap, size); (entry = get(table, at)) != 0; at = next_of(at, size)) {
        uint32_t home = home_of(entry, size);

        if ((home <= gap) ^ (home > at) ^ (at < gap)) {
            set(table, gap, atomic_exchange_explicit(&table[at], 0, memory_order_relaxed));
            gap = at;
        }
    }
}

/* The place of a block's entry. */
static atomic_uint_fast64_t *place_of(const struct tn_chunk *chunk, const struct tn_block *block)
{
    atomic_uint_fast64_t *place = NULL;
    uint64_t entry = tn_live_seek(chunk, block->offset, TN_LIVE_HASH_SHIFT, &place);

    TN_ASSERT(entry != 0 && tn_live_block(entry) == block); /* P5 */
    (void)entry;
    return place;
}

void tn_chunk_live_remove(struct tn_chunk *chunk, struct tn_block *block)
{
    TN_ASSERT(chunk->live_count > 0); /* P5 */
    close_gap(chunk->live, chunk->live_size, (uint32_t)(place_of(chunk, block) - chunk->live));
    chunk->live_count -= 1;
}

static struct tn_chunk *chunk_of(const struct tn_block *block)
{
    return tn_segment_chunk_at(block->segment, block->offset);
}

void tn_live_update(struct tn_block *block)
{
    const struct tn_chunk *chunk = chunk_of(block);

    TN_ASSERT(block->state != TN_BLOCK_FREE && block->state != TN_BLOCK_UNMAPPED);
    atomic_store_explicit(&block->magazine, 0, memory_order_relaxed);
    set(place_of(chunk, block), 0, tn_live_entry_of(chunk, block, tn_block_is_plain(block)));
}

bool tn_live_is_open(const struct tn_block *block)
{
    return (get(place_of(chunk_of(block), block), 0) & TN_LIVE_CLOSED) == 0;
}

void tn_live_insert(struct tn_block *block)
{
    tn_chunk_live_insert(chunk_of(block), block, tn_block_is_plain(block));
}

void tn_live_remove(struct tn_block *block)
{
    tn_chunk_live_remove(chunk_of(block), block);
}

struct tn_block *tn_live_find(const tarn_pool *pool, uint64_t address)
{
    struct tn_chunk *chunk = tn_address_table_chunk(address);
    struct tn_segment *segment = chunk != NULL ? chunk->segment : NULL;

    if (segment == NULL || atomic_load(&segment->owner) != pool)
        return NULL;
    return tn_live_at(chunk, address - segment->base);
}

/* The last block of the chunk's index which begins up to the offset; NULL: none. Where blocks begin
 * close to each other the offsets below are tried one by one; else the index is short. */
static struct tn_block *last_begun(const struct tn_chunk *chunk, uint64_t offset)
{
    uint64_t at = offset & ~(uint64_t)(TN_BLOCK_BYTES_MIN - 1);
    struct tn_block *last = NULL;

    TN_ASSERT(at >= chunk->offset);
    for (int tries = 0; tries < PROBES_MAX; tries++) {
        struct tn_block *block = tn_live_at(chunk, at);

        if (block != NULL)
            return block;
        if (at == chunk->offset)
            return NULL;
        at -= TN_BLOCK_BYTES_MIN;
    }
    for (uint32_t place = 0; place < chunk->live_size; place++) {
        struct tn_block *block = tn_live_block_in(chunk, place);

        if (block != NULL && block->offset <= offset &&
            (last == NULL || block->offset > last->offset))
            last = block;
    }
    return last;
}

/* Goes down from the segment's end, where the newest mapping is, and at the same time from the
 * offset by chunks, to a live block, and then up. */
struct tn_block *tn_segment_block_at(const struct tn_segment *segment, uint64_t offset)
{
    struct tn_block *above = segment->last_block;
    struct tn_block *below = NULL;
    uint64_t at = offset;

    TN_ASSERT(offset < segment->bytes);
    for (int steps = 0; steps < STEPS_ALONE && above->offset > offset; steps++)
        above = above->previous;
    while (above->offset > offset && (below == NULL || tn_block_end(below) <= offset)) {
        above = above->previous;
        if (below != NULL) {
            below = below->next;
        } else {
            const struct tn_chunk *chunk = tn_segment_chunk_at(segment, at);

            if (chunk != NULL && chunk->live_count > 0)
                below = last_begun(chunk, at);
            at = chunk != NULL ? chunk->offset : at & ~(uint64_t)(TN_PAGE_BYTES - 1);
            if (below == NULL && at == 0)
                below = segment->first_block;
            at -= 1;
        }
    }
    return above->offset <= offset ? above : below;
}

static bool is_live(const struct tn_block *block)
{
    return block->state == TN_BLOCK_LIVE || block->state == TN_BLOCK_DISCARDED;
}

struct tn_block *tn_live_first(struct tn_segment *segment)
{
    for (; segment != NULL; segment = segment->next) {
        struct tn_block *block = segment->first_block;

        while (block != NULL && !is_live(block))
            block = block->next;
        if (block != NULL)
            return block;
    }
    return NULL;
}

struct tn_block *tn_live_next(struct tn_block *block)
{
    struct tn_segment *segment = block->segment;

    TN_ASSERT(is_live(block));
    do {
        block = block->next;
    } while (block != NULL && !is_live(block));
    return block != NULL ? block : tn_live_first(segment->next);
}
