// SPDX-License-Identifier: Apache-2.0
/* Everything stored twice, or derived from other values, is computed again. */
#include "observe/check.h"

#include <stddef.h>

#include "claims/check.h"
#include "claims/watch.h"
#include "heap/check.h"
#include "observe/pool_check.h"
#include "pools/device.h"

/* P25 */
static tarn_status check_watches(const tarn_pool *pool, const struct tn_block *block,
                                 uint64_t *watched_count)
{
    for (const struct tn_watched *watched = tn_block_watches(block); watched != NULL;
         watched = watched->next) {
        TN_EXPECT_EQUAL("P25", "the block of a watch", (uintptr_t)watched->block, (uintptr_t)block);
        TN_EXPECT_EQUAL("P25", "the pool of a watch", (uintptr_t)atomic_load(&watched->pool),
                        (uintptr_t)pool);
        TN_EXPECT_EQUAL("P25", "whether a watched block is live, or pending and kept",
                        block->state == TN_BLOCK_LIVE || block->state == TN_BLOCK_DISCARDED ||
                            (block->state == TN_BLOCK_PENDING && watched->watch->keeps),
                        1);
        *watched_count += 1;
    }
    return TARN_OK;
}

static tarn_status check_watched(const tarn_pool *pool)
{
    uint64_t watched_count = 0;
    uint64_t kept_count = 0;
    tarn_status status = TARN_OK;

    for (const struct tn_segment *segment = pool->segments.first; segment != NULL;
         segment = segment->next) {
        for (const struct tn_block *block = segment->first_block; block != NULL;
             block = block->next) {
            status = check_watches(pool, block, &watched_count);
            if (status != TARN_OK)
                return status;
            kept_count += block->state == TN_BLOCK_PENDING && tn_block_watches(block) != NULL;
        }
    }
    TN_EXPECT_EQUAL("P25", "the pool's count of kept blocks", pool->watches.kept_count, kept_count);
    TN_EXPECT_EQUAL("P25", "the pool's count of watches", pool->watches.count, watched_count);
    return TARN_OK;
}

tarn_status tn_pool_check(tarn_pool *pool)
{
    uint64_t steps = 0;
    tarn_status status = tn_pool_check_own(pool, &steps);

    if (status == TARN_OK)
        status = check_watched(pool);
    return status == TARN_OK ? tn_streams_check(&pool->device->streams) : status;
}
