// SPDX-License-Identifier: Apache-2.0
/* snapshot_parts.h -- what both ways to a snapshot have in common: by a walk through all blocks
 * (observe/snapshot.c), and by the history's live blocks (observe/snapshot_live.c).
 *
 * Locking: the lock of a pool that is looked at. */
#ifndef TARN_OBSERVE_SNAPSHOT_PARTS_H
#define TARN_OBSERVE_SNAPSHOT_PARTS_H

#include "heap/arena.h"
#include "observe/snapshot_stacks.h"
#include "observe/titles.h"
#include "pools/device.h"
#include "tarn/snapshot.h"

/* As PyTorch's traces have them, but for the last. */
enum tn_trace_action {
    TN_TRACE_ALLOC,
    TN_TRACE_FREE_REQUESTED,
    TN_TRACE_FREE_COMPLETED,
    TN_TRACE_SEGMENT_MAP,
    TN_TRACE_SEGMENT_UNMAP,
    TN_TRACE_OOM, /* the address: the bytes that the driver has free */
    TN_TRACE_SNAPSHOT,
    TN_TRACE_ANNOTATE, /* a live block */
    TN_TRACE_USE,      /* of a block, on the event's stream; has no address and no bytes */
};

struct tn_trace_event {
    enum tn_trace_action action;
    uint64_t address;
    uint64_t bytes; /* of blocks: as requested */
    uint64_t stream;
    uint64_t pool;    /* its number; 0: the default pool, or not known */
    uint64_t time_us; /* since 1970 */
    uint64_t number;  /* of blocks: of the allocation */
    uint32_t stack;   /* of an allocation; 0: none */
    bool is_restored; /* the allocation came again, by a restore */
    const char *text; /* of blocks: their label, or the annotation. Ends with 0; the snapshot's */
};

/* The begin or the end of a range. */
struct tn_trace_range {
    bool ends;
    uint64_t time_us; /* since 1970 */
    const char *name; /* ends with 0; the snapshot's */
};

/* A snapshot as programs read it, and the settings that the device was opened with. */
struct tn_snapshot {
    tarn_snapshot read;            /* first: programs have this address */
    uint64_t taken;                /* when: nanoseconds of the monotonic clock */
    uint64_t clock_offset;         /* what leads from this clock to the time since 1970 */
    struct tn_trace_event *events; /* what happened before; NULL: nobody has asked */
    size_t event_count;
    struct tn_trace_range *ranges;
    size_t range_count;
    struct tn_titles titles; /* texts of the events and ranges */
    const uint32_t
        *block_stacks; /* the id of each block's stack, or 0; in the order of the blocks */
    const tarn_snapshot_block *blocks;
    struct tn_snapshot_stacks stacks;
    uint64_t history; /* whose stacks they are: tn_stacking.serial */
    bool record_stream_reuse;
    uint32_t roundup_divisions[TARN_ROUNDUP_SIZES]; /* 0: none */
};

/* The id of the stack of a block's allocation; 0: none is known. */
static inline uint32_t tn_snapshot_stack_of(const struct tn_snapshot *snapshot,
                                            const tarn_snapshot_block *block)
{
    TN_ASSERT(block >= snapshot->blocks && block < snapshot->blocks + snapshot->read.block_count);
    return snapshot->block_stacks[block - snapshot->blocks];
}

void tn_snapshot_drop(struct tn_snapshot *snapshot); /* NULL is allowed */

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

/* Memory for that much, of which the first struct alone is set; NULL: none. */
size_t tn_snapshot_bytes(const struct tn_snapshot_counts *room);
struct tn_snapshot *tn_snapshot_make(const struct tn_snapshot_counts *room,
                                     struct tn_snapshot_arrays *at);

/* Sorts the segments, and says how many of all there are. */
void tn_snapshot_finish(struct tn_snapshot *made, const struct tn_snapshot_arrays *at,
                        const struct tn_snapshot_counts *used);

/* Time and settings; no events. */
void tn_snapshot_describe_device(const tarn_device *device, struct tn_snapshot *made);

#endif
