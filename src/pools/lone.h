// SPDX-License-Identifier: Apache-2.0
/* lone.h -- blocks that each have pages of their own, and end where these end.
 *
 * On a device that was opened so (tarn_device_options.overrun_alignment), an access behind a block
 * meets addresses without memory, and faults. A block is lone in its segment, whose last page never
 * has memory. A place is used again as late as possible (vmm/region.h): an access by an address
 * whose block was freed faults, too, once the memory is known to be idle and has gone.
 *
 * Requests need not be multiples of 512 bytes, and blocks are. A block's user gets an address in the
 * block's first 512 bytes, so that the request's bytes end with the block. A block that was asked
 * for with a larger alignment begins at its user's address, and ends 512 bytes or more before the
 * end of its pages: nothing else tells the two apart.
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_LONE_H
#define TARN_POOLS_LONE_H

#include "heap/live_index.h"
#include "pools/device.h"
#include "pools/pool.h"

/* The address that the block's user has. */
static inline uint64_t tn_lone_address(const tarn_pool *pool, const struct tn_block *block)
{
    const uint64_t alignment = pool->device->lone_alignment;

    TN_ASSERT(block->state != TN_BLOCK_FREE && block->state != TN_BLOCK_UNMAPPED);
    if (!tn_pool_is_lone(pool) || tn_block_end(block) % TN_PAGE_BYTES != 0)
        return tn_block_address(block);
    TN_ASSERT(tn_block_bytes(block) - block->requested < TN_BLOCK_BYTES_MIN);
    return tn_block_address(block) + tn_block_bytes(block) -
           tn_round_up(block->requested, alignment);
}

/* The bytes of a lone block: no more than requested, but where its end would fall on a page though its
 * user's address is its beginning. */
static inline uint64_t tn_lone_bytes(uint64_t requested, uint64_t alignment)
{
    const uint64_t bytes = tn_block_bytes_for(NULL, requested);

    return alignment == TN_PAGE_BYTES && bytes % TN_PAGE_BYTES == 0 ? bytes + TN_BLOCK_BYTES_MIN
                                                                    : bytes;
}

/* tn_live_find, also by the address that the block's user has. */
struct tn_block *tn_lone_find(const tarn_pool *pool, uint64_t address);

/* Grows the heap by a FREE block in a new segment, for a block of bytes: *place is where that begins
 * for this alignment, in the FREE block *block. stream: of the heap's arena, to be asked how far it
 * has come; asks: whether. Memory that is free and idle goes before.
 *   ADDRESS_SPACE, HOST_MEMORY, DEVICE_MEMORY, LIMIT, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_lone_grow(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes,
                                         uint64_t alignment, tn_cu_stream stream, bool asks,
                                         struct tn_block **block, uint64_t *place);

#endif
