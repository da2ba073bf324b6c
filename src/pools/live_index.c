// SPDX-License-Identifier: Apache-2.0
/* The table comes with the first block that begins in the chunk, and goes with the chunk.
 *
 * Trade-offs: it never becomes smaller, so a chunk keeps room for as many blocks as it has ever had: 8 bytes
 * for each of them, over a load of three eighths to three quarters. */
#include "pools/live_index.h"

#include <stddef.h>

#include "base/host.h"

enum { BITS_MIN = 5 }; /* 256 bytes, a small part of what a chunk of 2 MiB may cost */

static uint32_t home_of(uint64_t entry, uint8_t bits)
{
    return (uint32_t)(entry >> TN_LIVE_HASH_SHIFT) >> (TN_LIVE_HASH_BITS - bits);
}

static void put(uint64_t *table, uint8_t bits, uint64_t entry)
{
    uint32_t mask = ((uint32_t)1 << bits) - 1;
    uint32_t at = home_of(entry, bits);

    while (table[at] != 0)
        at = (at + 1) & mask;
    table[at] = entry;
}

bool tn_live_reserve(struct tn_chunk *chunk, uint32_t count)
{
    uint8_t bits = chunk->live != NULL ? chunk->live_bits : BITS_MIN;
    uint64_t *table;

    while (4 * ((uint64_t)chunk->live_count + count) > (uint64_t)3 << bits)
        bits++;
    if (chunk->live != NULL && bits == chunk->live_bits)
        return true;
    table = tn_host_alloc((size_t)1 << bits, sizeof *table);
    if (table == NULL)
        return false;
    for (size_t i = 0; chunk->live != NULL && i < (size_t)1 << chunk->live_bits; i++) {
        if (chunk->live[i] != 0)
            put(table, bits, chunk->live[i]);
    }
    tn_host_free(chunk->live);
    chunk->live = table;
    chunk->live_bits = bits;
    return true;
}

void tn_live_insert_in(struct tn_chunk *chunk, struct tn_block *block)
{
    TN_ASSERT(tn_live_has_room(chunk));
    TN_ASSERT(tn_live_at(chunk, block->offset) == NULL); /* P5 */
    put(chunk->live, chunk->live_bits, tn_live_entry(tn_live_hash(chunk, block->offset), block));
    chunk->live_count += 1;
}

/* What stands behind an empty place is moved there if it may be found from there on. */
static void close_gap(uint64_t *table, uint8_t bits, uint32_t gap)
{
    uint32_t mask = ((uint32_t)1 << bits) - 1;

    for (uint32_t at = (gap + 1) & mask; table[at] != 0; at = (at + 1) & mask) {
        uint32_t from_home = (at - home_of(table[at], bits)) & mask;

        if (from_home >= ((at - gap) & mask)) {
            table[gap] = table[at];
            gap = at;
        }
    }
    table[gap] = 0;
}

void tn_live_remove_in(struct tn_chunk *chunk, struct tn_block *block)
{
    uint64_t entry = tn_live_entry(tn_live_hash(chunk, block->offset), block);
    uint32_t mask = ((uint32_t)1 << chunk->live_bits) - 1;
    uint32_t at = home_of(entry, chunk->live_bits);

    TN_ASSERT(tn_live_at(chunk, block->offset) == block); /* P5 */
    while (chunk->live[at] != entry)
        at = (at + 1) & mask;
    close_gap(chunk->live, chunk->live_bits, at);
    chunk->live_count -= 1;
}

void tn_live_insert(struct tn_block *block)
{
    tn_live_insert_in(tn_segment_chunk_at(block->segment, block->offset), block);
}

void tn_live_remove(struct tn_block *block)
{
    tn_live_remove_in(tn_segment_chunk_at(block->segment, block->offset), block);
}

struct tn_block *tn_live_find(const tarn_pool *pool, uint64_t address)
{
    struct tn_chunk *chunk = tn_address_table_chunk(address);
    struct tn_segment *segment = chunk != NULL ? chunk->segment : NULL;

    if (segment == NULL || atomic_load(&segment->owner) != pool)
        return NULL;
    return tn_live_at(chunk, address - segment->base);
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

    do {
        block = block->next;
    } while (block != NULL && !is_live(block));
    return block != NULL ? block : tn_live_first(segment->next);
}
