// SPDX-License-Identifier: Apache-2.0
/* live_index.h -- from an address to the live block that begins there.
 *
 *   P5  a LIVE or DISCARDED block is in the index of the chunk in which it begins, under its place there;
 *       nothing else is in any
 *
 * Each chunk has two arrays, by size of block: small ones, up to 1 MiB, are found by the 512 bytes in
 * which they begin, larger ones by the MiB, in which no second one can begin. So a lookup is three
 * loads, whatever is live, and memory that changes hands takes its blocks along.
 *
 * Locking: that of the pool that the chunk is mapped in. */
#ifndef TARN_POOLS_LIVE_INDEX_H
#define TARN_POOLS_LIVE_INDEX_H

#include "base/contract.h"
#include "pools/block.h"
#include "tarn/types.h"

/* Blocks up to this size are small. */
#define TN_SMALL_BYTES_MAX ((uint64_t)1 << 20)

enum { TN_LIVE_SMALL_BITS = 9, TN_LIVE_LARGE_BITS = 20 };

/* Makes sure that a block of that size can begin in the chunk; false when there is no memory. */
bool tn_live_reserve(struct tn_chunk *chunk, uint64_t bytes);

/* Whether that was done before. */
static inline bool tn_live_has_room(const struct tn_chunk *chunk, uint64_t bytes)
{
    return chunk->live[bytes <= TN_SMALL_BYTES_MAX ? 0 : 1] != NULL;
}

/* The entry of a block that begins at that offset of the chunk's segment. */
static inline struct tn_block **tn_live_entry(const struct tn_chunk *chunk, uint64_t offset,
                                              uint64_t bytes)
{
    return bytes <= TN_SMALL_BYTES_MAX
               ? &chunk->live[0][(offset - chunk->offset) >> TN_LIVE_SMALL_BITS]
               : &chunk->live[1][(offset - chunk->offset) >> TN_LIVE_LARGE_BITS];
}

/* Enters a block that begins in the chunk; reserved before. */
static inline void tn_live_insert_in(struct tn_chunk *chunk, struct tn_block *block)
{
    struct tn_block **entry = tn_live_entry(chunk, block->offset, tn_block_bytes(block));

    TN_ASSERT(*entry == NULL); /* P5 */
    *entry = block;
    chunk->live_count += 1;
}

static inline void tn_live_remove_in(struct tn_chunk *chunk, struct tn_block *block)
{
    struct tn_block **entry = tn_live_entry(chunk, block->offset, tn_block_bytes(block));

    TN_ASSERT(*entry == block); /* P5 */
    *entry = NULL;
    chunk->live_count -= 1;
}

/* The LIVE or DISCARDED block that begins at that offset of the chunk's segment; NULL when there is none. */
static inline struct tn_block *tn_live_at(const struct tn_chunk *chunk, uint64_t offset)
{
    struct tn_block *block = NULL;

    if (chunk->live[0] != NULL)
        block = chunk->live[0][(offset - chunk->offset) >> TN_LIVE_SMALL_BITS];
    if (block == NULL && chunk->live[1] != NULL)
        block = chunk->live[1][(offset - chunk->offset) >> TN_LIVE_LARGE_BITS];
    return block != NULL && block->offset == offset ? block : NULL;
}

void tn_live_insert(struct tn_block *block); /* reserved before */
void tn_live_remove(struct tn_block *block);

/* The LIVE or DISCARDED block of the pool that begins at the address; NULL when there is none. */
struct tn_block *tn_live_find(const tarn_pool *pool, uint64_t address);

/* All of them in the pool, in order: the first of the segment or behind it, and the next one. */
struct tn_block *tn_live_first(struct tn_segment *segment);
struct tn_block *tn_live_next(struct tn_block *block);

#endif
