// SPDX-License-Identifier: Apache-2.0
/* A hold may have some of the chunks of a block: each chunk is looked at alone. */
#include "claims/usable.h"

#include "base/checked.h"
#include "base/contract.h"
#include "heap/live_index.h"

/* Drops the kept bytes of the block that lie in the chunk. */
static void drop_part(struct tn_gpu *gpu, const struct tn_block *block,
                      const struct tn_chunk *chunk)
{
    const uint64_t begin = tn_max(block->offset, chunk->offset);
    const uint64_t end = tn_min(tn_block_end(block), tn_chunk_end(chunk));

    TN_ASSERT(block->segment == chunk->segment && chunk->hold_count == 0);
    TN_ASSERT(begin < end);
    tn_sanitizer_drop(gpu, chunk->segment->base + begin, end - begin, false);
}

void tn_usable_settle(struct tn_gpu *gpu, const struct tn_block *block)
{
    TN_ASSERT(block->state == TN_BLOCK_PENDING);
    if (!tn_gpu_is_linear(gpu))
        return;
    for (uint64_t offset = block->offset; offset < tn_block_end(block);) {
        const struct tn_chunk *chunk = tn_segment_chunk_at(block->segment, offset);

        if (chunk->hold_count == 0)
            drop_part(gpu, block, chunk);
        offset = tn_chunk_end(chunk);
    }
}

void tn_usable_let_go(struct tn_gpu *gpu, const struct tn_chunk *chunk)
{
    TN_ASSERT(chunk->hold_count == 0);
    if (!tn_gpu_is_linear(gpu))
        return;
    for (uint64_t offset = chunk->offset; offset < tn_chunk_end(chunk);) {
        const struct tn_block *block = tn_segment_block_at(chunk->segment, offset);

        if (block->state == TN_BLOCK_FREE)
            drop_part(gpu, block, chunk);
        offset = tn_block_end(block);
    }
}
