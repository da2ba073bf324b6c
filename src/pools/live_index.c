// SPDX-License-Identifier: Apache-2.0
/* The arrays come with the first block of their size that begins in the chunk, and go with the chunk.
 *
 * Trade-offs: eight bytes of host memory for each 512 of a chunk that has small blocks, which is 1.6 %,
 * and for each MiB of one that has large ones. Of a chunk of more than some 8 MiB the C library gives
 * only what is touched. */
#include "pools/live_index.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/host.h"

bool tn_live_reserve(struct tn_chunk *chunk, uint64_t bytes)
{
    bool small = bytes <= TN_SMALL_BYTES_MAX;
    struct tn_block ***live = &chunk->live[small ? 0 : 1];

    if (*live == NULL)
        *live = tn_host_alloc(
            (size_t)(chunk->bytes >> (small ? TN_LIVE_SMALL_BITS : TN_LIVE_LARGE_BITS)),
            sizeof **live);
    return *live != NULL;
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
