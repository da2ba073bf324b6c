// SPDX-License-Identifier: Apache-2.0
/* The segment is found as for a free: without a lock, and once more under the lock of its pool. From
 * then on no trim takes the chunk away, so all that is told is of one moment.
 *
 * A place that memory has left is without memory here: its mapping may close at any time. */
#include "observe/segments.h"

#include "base/contract.h"
#include "base/error.h"
#include "claims/import_block.h"
#include "observe/extents.h"
#include "observe/lists.h"
#include "pools/free.h"
#include "pools/opening.h"
#include "vmm/imports.h"

/* The pool is locked, and a chunk is at the block's address. */
static void describe(tarn_pool *pool, const struct tn_segment *segment,
                     const struct tn_chunk *chunk, const struct tn_block *block, tarn_segment *told)
{
    TN_ASSERT(tn_pool_is_locked(pool) && chunk->segment == segment && block->segment == segment);
    TN_ASSERT(tn_block_end(block) > chunk->offset && block->offset < tn_chunk_end(chunk));
    *told = (tarn_segment){
        .size = sizeof *told,
        .base = (void *)(uintptr_t)segment->base,
        .bytes = segment->bytes,
        .chunk = (void *)(uintptr_t)tn_chunk_address(chunk),
        .chunk_bytes = chunk->bytes,
        .run = (void *)(uintptr_t)tn_block_address(block),
        .run_bytes = tn_block_bytes(block),
        .run_state = tn_extent_state(block),
        .location = tn_pool_location(pool),
        .device = pool->device->gpu.ordinal,
        .is_held = chunk->hold_count > 0,
        .is_exportable = pool->memory.properties.exportable,
        .is_gpu_direct_rdma = pool->memory.properties.rdma,
        .pool = tn_pool_handle(pool, tn_pool_kind(pool)),
        .index = segment->index,
    };
}

/* False: the address is no other process's. */
static bool describe_import(uint64_t address, tarn_segment *told)
{
    struct tn_import_place place;
    struct tn_import_found block;

    if (!tn_import_find(address, &place))
        return false;
    *told = (tarn_segment){
        .size = sizeof *told,
        .base = (void *)(uintptr_t)place.address,
        .bytes = place.bytes,
        .chunk = (void *)(uintptr_t)place.memory_address,
        .chunk_bytes = place.memory_bytes,
        .run = (void *)(uintptr_t)place.memory_address,
        .run_bytes = place.memory_bytes,
        .run_state = TARN_EXTENT_FREE,
        .location = TARN_LOCATION_PROCESS,
        .device = place.ordinal,
    };
    if (tn_import_blocks_find(address, NULL, &block) && block.is_open) {
        told->run = (void *)(uintptr_t)block.address;
        told->run_bytes = block.bytes;
        told->run_state = TARN_EXTENT_LIVE;
    }
    return true;
}

tarn_status tn_segment_describe(uint64_t address, tarn_segment *told)
{
    tarn_pool *pool;
    struct tn_segment *segment;
    const struct tn_block *block;
    tarn_status status = tn_pool_lock_segment(address, &pool, &segment);

    if (status != TARN_OK && describe_import(address, told))
        return TARN_OK;
    if (status != TARN_OK && tn_devices_contain(address))
        return tn_fail(TARN_ERR_NOT_OURS,
                       "address 0x%llx has no memory: Tarn has reserved it, and no pool uses it",
                       (unsigned long long)address);
    if (status != TARN_OK)
        return status;
    block = tn_segment_block_at(segment, address - segment->base);
    if (block->state == TN_BLOCK_UNMAPPED)
        status =
            tn_fail(TARN_ERR_NOT_OURS,
                    "address 0x%llx has no memory: it is in segment %llu of pool '%s', and "
                    "nothing is mapped there",
                    (unsigned long long)address, (unsigned long long)segment->index, pool->name);
    else
        describe(pool, segment, tn_segment_chunk_at(segment, address - segment->base), block, told);
    tn_pool_unlock(pool);
    return status;
}
