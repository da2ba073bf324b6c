// SPDX-License-Identifier: Apache-2.0
/* Trade-offs: a block takes 2 MiB of memory at least, and 32 MiB of addresses. Each allocation looks
 * at all segments of the pool for memory that may go: this is for finding mistakes, not for work. */
#include "pools/lone.h"

#include "base/checked.h"
#include "base/contract.h"
#include "pools/grow.h"
#include "pools/pending.h"
#include "pools/proofs.h"
#include "pools/trackers.h"

struct tn_block *tn_lone_find(const tarn_pool *pool, uint64_t address)
{
    struct tn_block *found;

    TN_ASSERT(tn_pool_is_locked(pool));
    if (!tn_pool_is_lone(pool))
        return tn_live_find(pool, address);
    found = tn_live_find(pool, address & ~(uint64_t)(TN_BLOCK_BYTES_MIN - 1));
    if (found == NULL || tn_block_address(found) == address ||
        tn_lone_address(pool, found) == address)
        return found;
    return NULL;
}

/* Trackers would have to hear first of memory that goes, without the lock. */
static void drop_idle(tarn_pool *pool)
{
    bool unproven = false;

    TN_ASSERT(tn_pool_is_lone(pool));
    if (tn_pool_has_pending(pool))
        tn_pending_poll(pool, false);
    if (!tn_trackers_follow(pool->device))
        (void)tn_pool_unmap_free(pool, UINT64_MAX, TN_UNMAPPED_TO_CACHE, &unproven, NULL);
}

tarn_status tn_lone_grow(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes, uint64_t alignment,
                         tn_cu_stream stream, bool asks, struct tn_block **block, uint64_t *place)
{
    /* tn_lone_address knows by this distance that the block begins at its user's address. */
    const uint64_t apart = alignment > TN_BLOCK_BYTES_MIN ? TN_BLOCK_BYTES_MIN : 0;
    struct tn_growth growth;
    tarn_status status;

    TN_ASSERT(tn_pool_is_locked(pool) && alignment <= TN_PAGE_BYTES);
    if (asks)
        tn_proofs_ask(pool, heap->arena, stream);
    drop_idle(pool);
    status = tn_heap_grow_undoable(pool, heap, tn_round_up(bytes + apart, TN_PAGE_BYTES), true, 0,
                                   &growth);
    if (status != TARN_OK)
        return status;
    *block = tn_segment_block_at(growth.mapped.segment, growth.mapped.begin);
    *place = (tn_block_address(*block) + tn_block_bytes(*block) - apart - bytes) & ~(alignment - 1);
    TN_ASSERT((*block)->state == TN_BLOCK_FREE && (*block)->heap == heap);
    TN_ASSERT(*place >= tn_block_address(*block));
    return TARN_OK;
}
