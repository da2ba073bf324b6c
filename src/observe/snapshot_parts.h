// SPDX-License-Identifier: Apache-2.0
/* snapshot_parts.h -- what both ways to a snapshot have in common: by a walk through all blocks
 * (observe/snapshot.c), and by the history's live blocks (observe/snapshot_live.c).
 *
 * Locking: the lock of a pool that is looked at. */
#ifndef TARN_OBSERVE_SNAPSHOT_PARTS_H
#define TARN_OBSERVE_SNAPSHOT_PARTS_H

#include "heap/arena.h"
#include "observe/snapshot.h"

struct tn_snapshot_counts {
    size_t pools;
    size_t segments;
    size_t blocks;
};

/* In the memory of a snapshot. */
struct tn_snapshot_arrays {
    tarn_snapshot_pool *pools;
    tarn_snapshot_segment *segments;
    tarn_snapshot_block *blocks;
    uint32_t *stacks; /* of the blocks */
};

/* The id of the stack of the block's allocation; 0: none is known. The block is not FREE. A free
 * leaves the words of the history's entry as they were. */
uint32_t tn_snapshot_stack_of_record(const struct tn_block *block);

/* Writes stream, stream_id and capture_id. */
void tn_snapshot_describe_order(const struct tn_arena *arena, tarn_snapshot_segment *segment);

/* All but the mapped bytes. */
void tn_snapshot_describe_pool(tarn_pool *pool, tarn_snapshot_pool *told);

/* Memory for that much, with its pages; NULL: none. */
struct tn_snapshot *tn_snapshot_make(const struct tn_snapshot_counts *room,
                                     struct tn_snapshot_arrays *at);

/* Sorts the segments, and says how many of all there are. */
void tn_snapshot_finish(struct tn_snapshot *made, const struct tn_snapshot_arrays *at,
                        const struct tn_snapshot_counts *used);

/* Time and settings; no events. */
void tn_snapshot_describe_device(const tarn_device *device, struct tn_snapshot *made);

#endif
