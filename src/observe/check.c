// SPDX-License-Identifier: Apache-2.0
/* Everything stored twice, or derived from other values, is computed again. */
#include "observe/check.h"

#include <stddef.h>

#include "claims/check.h"
#include "claims/watch.h"
#include "heap/check.h"
#include "observe/pool_check.h"
#include "pools/arena_table.h"
#include "pools/device.h"
#include "pools/pieces.h"

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

    for (const struct tn_segment *segment = tn_pool_first_segment(pool); segment != NULL;
         segment = tn_pool_next_segment(pool, segment)) {
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

/* P39, of a segment that is dormant or has memory of the arena of dormant memory */
static tarn_status check_dormant_segment(const tarn_pool *pool, const struct tn_segment *segment)
{
    const struct tn_dormant *dormant = segment->dormant;

    TN_EXPECT_EQUAL("P39", "the segment of a dormant segment's record", (uintptr_t)dormant->segment,
                    (uintptr_t)segment);
    TN_EXPECT_EQUAL("P39", "what needs a dormant segment",
                    segment->checkpoint_count + segment->vacated_count + segment->mixed, 0);
    TN_EXPECT_EQUAL("P39", "the stamp of a dormant segment",
                    tn_max(dormant->stamp, tn_segment_highest_stamp(segment)), dormant->stamp);
    TN_EXPECT_EQUAL("P38", "whether the index has a dormant segment under its stream",
                    dormant->by_stream.key != 0 &&
                        tn_pool_index_has(&pool->device->index, TN_BY_STREAM, &dormant->by_stream),
                    1);
    for (const struct tn_block *block = segment->first_block; block != NULL; block = block->next)
        TN_EXPECT_EQUAL("P39", "whether a block of a dormant segment is FREE or UNMAPPED",
                        block->state == TN_BLOCK_FREE || block->state == TN_BLOCK_UNMAPPED, 1);
    return TARN_OK;
}

/* P30 */
static tarn_status check_asleep(const tarn_pool *pool)
{
    const struct tn_arena_lists *lists = &pool->arenas.lists;
    uint64_t count = 0;

    for (const struct tn_arena *arena = lists->first[TN_ARENAS_ALL]; arena != NULL;
         arena = tn_arena_next(arena)) {
        TN_EXPECT_EQUAL("P30", "whether an arena is one of those asleep", arena->asleep,
                        !arena->awake && !tn_arena_is_captured(arena) && arena->fence == NULL);
        count += arena->asleep;
    }
    for (const struct tn_arena *arena = lists->first[TN_ARENAS_ASLEEP]; arena != NULL;
         arena = arena->in[TN_ARENAS_ASLEEP].next)
        count -= arena->asleep;
    TN_EXPECT_EQUAL("P30", "those asleep that are not in the list", count, 0);
    for (const struct tn_arena *arena = lists->first[TN_ARENAS_AWAKE]; arena != NULL;
         arena = arena->in[TN_ARENAS_AWAKE].next)
        count += 1;
    TN_EXPECT_EQUAL("P30", "those awake", pool->arenas.awake_count, count);
    return TARN_OK;
}

/* P41 */
static tarn_status check_pieces(const tarn_pool *pool)
{
    for (const struct tn_segment *segment = tn_pool_first_segment(pool);
         segment != NULL && tn_pool_has_pieces(pool);
         segment = tn_pool_next_segment(pool, segment)) {
        const struct tn_chunk *chunk = tn_segment_chunk_at(segment, 0);
        const struct tn_memory *memory = chunk != NULL ? chunk->memory : segment->aside;

        TN_EXPECT_EQUAL("P41", "the memory of a piece's segment", (uintptr_t)segment->aside,
                        chunk != NULL ? 0 : (uintptr_t)memory);
        TN_EXPECT_EQUAL("P41", "where a piece is", memory != NULL ? memory->address : 0,
                        segment->base);
        TN_EXPECT_EQUAL("P41", "the chunks of a piece's segment", segment->chunk_count,
                        chunk != NULL);
    }
    return TARN_OK;
}

/* P39 */
static tarn_status check_dormant(const tarn_pool *pool)
{
    bool listed = false; /* those which are dormant come last */
    tarn_status status = TARN_OK;

    for (const struct tn_segment *segment = tn_pool_first_segment(pool);
         segment != NULL && status == TARN_OK; segment = tn_pool_next_segment(pool, segment)) {
        listed = listed || segment == pool->segments.dormant.first;
        TN_EXPECT_EQUAL("P39", "whether the list of dormant segments has a segment", listed,
                        segment->dormant != NULL);
        TN_EXPECT_EQUAL("P39", "whether the arena of dormant memory grows a segment",
                        segment->grower->arena == pool->segments.dormant.arena, listed);
        if (segment->dormant != NULL)
            status = check_dormant_segment(pool, segment);
        for (const struct tn_block *block = segment->first_block; block != NULL;
             block = block->next) {
            if (block->state != TN_BLOCK_UNMAPPED)
                TN_EXPECT_EQUAL("P39", "whether the arena of dormant memory has a block",
                                block->heap->arena == pool->segments.dormant.arena, listed);
        }
    }
    return status;
}

tarn_status tn_pool_check(tarn_pool *pool)
{
    uint64_t steps = 0;
    tarn_status status = tn_pool_check_own(pool, &steps);

    if (status == TARN_OK)
        status = check_watched(pool);
    if (status == TARN_OK)
        status = check_asleep(pool);
    if (status == TARN_OK)
        status = check_dormant(pool);
    if (status == TARN_OK)
        status = check_pieces(pool);
    return status == TARN_OK ? tn_streams_check(&pool->device->streams) : status;
}
