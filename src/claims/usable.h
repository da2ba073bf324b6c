// SPDX-License-Identifier: Apache-2.0
/* usable.h -- the bytes of blocks that a tool lets kernels use, where memory is linear.
 *
 * The bytes of a LIVE or DISCARDED block are usable. After its free they stay usable for graphs: while
 * the block is PENDING for a graph's sake, and in each chunk that a hold has. Where memory is mapped,
 * these functions do nothing (driver/sanitizer.h).
 *
 * Locking: the pool's lock. */
#ifndef TARN_CLAIMS_USABLE_H
#define TARN_CLAIMS_USABLE_H

#include "driver/sanitizer.h"
#include "heap/block.h"
#include "vmm/chunk.h"

/* The block is LIVE from now on, with the bytes that were requested. */
static inline void tn_usable_begin(struct tn_gpu *gpu, const struct tn_block *block)
{
    if (tn_gpu_is_linear(gpu))
        tn_sanitizer_enter(gpu, tn_block_address(block), block->requested);
}

/* The block is freed; keeps: something keeps its bytes. */
static inline void tn_usable_end(struct tn_gpu *gpu, const struct tn_block *block, bool keeps)
{
    if (tn_gpu_is_linear(gpu))
        tn_sanitizer_leave(gpu, tn_block_address(block), keeps);
}

/* A PENDING block is about to be FREE: only bytes in held chunks stay usable. */
void tn_usable_settle(struct tn_gpu *gpu, const struct tn_block *block);

/* The last hold of the chunk has ended: bytes of FREE blocks there are usable no longer. */
void tn_usable_let_go(struct tn_gpu *gpu, const struct tn_chunk *chunk);

/* The chunk leaves its place: nothing is usable there. */
static inline void tn_usable_unmap(struct tn_gpu *gpu, const struct tn_chunk *chunk)
{
    if (tn_gpu_is_linear(gpu))
        tn_sanitizer_drop(gpu, tn_chunk_address(chunk), chunk->bytes, true);
}

#endif
