// SPDX-License-Identifier: Apache-2.0
/* Reads a layout under the lock of the pool. */
#include "observe/extents.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/host.h"
#include "pools/pool.h"

tarn_extent_state tn_extent_state(const struct tn_block *block)
{
    switch (block->state) {
    case TN_BLOCK_LIVE:
        return TARN_EXTENT_LIVE;
    case TN_BLOCK_PENDING:
        return block->ended ? TARN_EXTENT_FREE : TARN_EXTENT_PENDING;
    case TN_BLOCK_DISCARDED:
        return TARN_EXTENT_DISCARDED;
    case TN_BLOCK_UNMAPPED:
        return TARN_EXTENT_UNMAPPED;
    case TN_BLOCK_FREE:
        break;
    }
    return TARN_EXTENT_FREE;
}

static size_t count_blocks(const tarn_pool *pool)
{
    size_t count = 0;

    for (const struct tn_segment *segment = tn_pool_first_segment(pool); segment != NULL;
         segment = tn_pool_next_segment(pool, segment)) {
        for (const struct tn_block *block = segment->first_block; block != NULL;
             block = block->next)
            count += 1;
    }
    return count;
}

static tarn_extent *write_extents(const struct tn_segment *segment, tarn_extent *extents)
{
    for (const struct tn_block *block = segment->first_block; block != NULL; block = block->next) {
        *extents = (tarn_extent){
            .address = (void *)(uintptr_t)tn_block_address(block),
            .bytes = tn_block_bytes(block),
            .segment_index = segment->index,
            .state = tn_extent_state(block),
            .sequence = block->state == TN_BLOCK_LIVE ? block->sequence : 0,
        };
        extents += 1;
    }
    return extents;
}

static int compare_extents(const void *a, const void *b)
{
    const tarn_extent *left = a;
    const tarn_extent *right = b;

    if (left->segment_index != right->segment_index)
        return left->segment_index < right->segment_index ? -1 : 1;
    return ((uintptr_t)left->address > (uintptr_t)right->address) -
           ((uintptr_t)left->address < (uintptr_t)right->address);
}

tarn_status tn_pool_read_layout(tarn_pool *pool, tarn_layout **layout)
{
    tarn_layout *made;
    tarn_extent *extents;
    size_t count;

    tn_pool_lock(pool);
    count = count_blocks(pool);
    made = tn_host_alloc(1, sizeof *made + count * sizeof *extents);
    if (made != NULL) {
        extents = (tarn_extent *)(void *)(made + 1);
        made->extent_count = count;
        made->segment_count = tn_pool_segment_count(pool);
        made->extents = extents;
        for (const struct tn_segment *segment = tn_pool_first_segment(pool); segment != NULL;
             segment = tn_pool_next_segment(pool, segment))
            extents = write_extents(segment, extents);
        if (pool->segments.dormant.first != NULL)
            qsort(made + 1, count, sizeof *extents, compare_extents);
    }
    tn_pool_unlock(pool);
    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a layout of %zu extents", count);
    *layout = made;
    return TARN_OK;
}
