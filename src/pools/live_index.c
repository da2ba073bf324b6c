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

static const unsigned shifts[2] = {9, 20}; /* of small blocks, of large ones */

static int size_of(uint64_t bytes)
{
    return bytes <= TN_SMALL_BYTES_MAX ? 0 : 1;
}

bool tn_live_reserve(struct tn_chunk *chunk, uint64_t bytes)
{
    int size = size_of(bytes);

    if (chunk->live[size] == NULL)
        chunk->live[size] =
            tn_host_alloc((size_t)(chunk->bytes >> shifts[size]), sizeof *chunk->live[size]);
    return chunk->live[size] != NULL;
}

static struct tn_block **entry_of(const struct tn_chunk *chunk, const struct tn_block *block)
{
    int size = size_of(tn_block_bytes(block));

    return &chunk->live[size][(block->offset - chunk->offset) >> shifts[size]];
}

void tn_live_insert(struct tn_block *block)
{
    struct tn_chunk *chunk = tn_segment_chunk_at(block->segment, block->offset);
    struct tn_block **entry = entry_of(chunk, block);

    TN_ASSERT(*entry == NULL); /* P5 */
    *entry = block;
    chunk->live_count += 1;
}

void tn_live_remove(struct tn_block *block)
{
    struct tn_chunk *chunk = tn_segment_chunk_at(block->segment, block->offset);
    struct tn_block **entry = entry_of(chunk, block);

    TN_ASSERT(*entry == block); /* P5 */
    *entry = NULL;
    chunk->live_count -= 1;
}

struct tn_block *tn_live_find(const tarn_pool *pool, uint64_t address)
{
    struct tn_chunk *chunk = tn_address_table_chunk(address);
    struct tn_segment *segment = chunk != NULL ? chunk->segment : NULL;
    uint64_t offset;

    if (segment == NULL || atomic_load(&segment->owner) != pool)
        return NULL;
    offset = address - segment->base;
    for (int size = 0; size < 2; size++) {
        struct tn_block *block = chunk->live[size] != NULL
                                     ? chunk->live[size][(offset - chunk->offset) >> shifts[size]]
                                     : NULL;

        if (block != NULL && block->offset == offset)
            return block;
    }
    return NULL;
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
