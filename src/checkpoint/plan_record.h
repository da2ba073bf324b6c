// SPDX-License-Identifier: Apache-2.0
/* plan_record.h -- the record of a plan, for checkpoint/plan.h, turns.h and restore.c.
 *
 *   C5  a plan names each saved block that is not live now once, in order of address, and each page
 *       without memory under one of them in one hole
 *   C7  a plan names each pool once whose graphs watch a block that the restore writes, frees from
 *       under them or covers with blocks that come back
 *
 * Locking: the pool's lock. */
#ifndef TARN_CHECKPOINT_PLAN_RECORD_H
#define TARN_CHECKPOINT_PLAN_RECORD_H

#include "checkpoint/record.h"
#include "checkpoint/settle.h"
#include "pools/handover.h"

/* Addresses that must be mapped before blocks there can be revived. */
struct tn_hole {
    struct tn_segment *segment;
    struct tn_heap *heap;
    uint64_t offset;
    uint64_t bytes;
};

/* Adjacent revived blocks that come back in their places: the record that each had is FREE, has
 * exactly its bytes, and lies in the heap that the block comes back to. All begin in the same
 * chunk. */
struct tn_span {
    size_t begin; /* indexes in the plan's revived blocks */
    size_t end;
    struct tn_chunk *chunk;
};

/* Memory that may change hands together: adjacent chunks under blocks that come back across chunk
 * edges. */
struct tn_reach {
    struct tn_run run;           /* segment NULL: none yet */
    const struct tn_arena *home; /* home of all these blocks; NULL: they have several homes */
    bool held;                   /* a hold has a chunk of the run, which goes to idle memory */
};

struct tn_plan {
    tarn_checkpoint *checkpoint; /* immutable, as the next three */
    tarn_pool *pool;
    tarn_stream stream;
    struct tn_order order;
    /* Blocks up to this number existed before the last wait for the device that this restore made;
     * 0: no wait yet. */
    uint64_t idle_sequence;
    /* The heaps of the blocks of home_order, looked up last; NULL: none. */
    struct tn_heap *homes[TN_HEAP_KINDS];
    struct tn_order home_order;
    uint32_t seen_run;               /* of the last block that comes back in its place */
    struct tn_chunk *seen_chunk;     /* the chunk that it ends in, whose heap is its home */
    uint64_t seen_begin;             /* offsets of that chunk */
    uint64_t seen_end;               /* 0: no such block yet */
    struct tn_reach reach;           /* of the blocks looked at last */
    bool is_at_home;                 /* the plan's own stream has an arena */
    struct tn_settlement settlement; /* of PENDING blocks, and LIVE ones to free */
    /* The plan itself: */
    uint8_t walk_id;    /* kept blocks carry it */
    size_t freed_count; /* blocks that are live now, and were not at the take */
    size_t *revived;    /* indexes of saved blocks that are not live now */
    size_t revived_count;
    /* Spans of revived blocks, in order; revived blocks outside them have no place. */
    struct tn_span *spans;
    size_t span_capacity;
    size_t span_count;
    struct tn_hole *holes;
    size_t hole_capacity;
    size_t hole_count;
    uint64_t hole_bytes;
    /* Pools whose replays the restore takes a turn among: C7. */
    tarn_pool **visits;
    size_t visit_capacity;
    size_t visit_count;
    size_t record_count; /* that the restore may take */
    /* Blocks may come to be of other orders than their arenas, or get uses. */
    bool needs_cold;
    /* Another stream may use memory that the restore writes. */
    bool needs_wait;
    /* Set by tn_plan_visit: a launch without an order was under way. */
    bool meets_launch;
    /* Pools of guarded graphs await the visit; tn_replays_end_awaited ends this. */
    bool awaits;
    bool watched; /* graphs of other pools may refer to blocks of this one */
    /* The stream must first wait for the event behind the last restore's copies. */
    bool follows;
    bool follows_save; /* and for the event behind the last take's copies */
};

#endif
