// SPDX-License-Identifier: Apache-2.0
/* plan.h -- what a restore will do, found out before anything is changed.
 *
 *   C5  a plan names each saved block that is not live now once, in order of address, and each page
 *       without memory under one of them in one hole
 *   C7  a plan names each pool once whose graphs watch a block that it writes, frees from under them or has others come
 *       back over
 *
 * Locking: the pool's lock. */
#ifndef TARN_CHECKPOINT_PLAN_H
#define TARN_CHECKPOINT_PLAN_H

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

/* Revived blocks, one behind the other, that come back in their places: the record that each had is FREE, of its very
 * bytes, in the heap that it comes back to. All begin in that chunk. */
struct tn_span {
    size_t begin; /* of the plan's revived blocks */
    size_t end;
    struct tn_chunk *chunk;
};

/* Memory that may change hands together: chunks under blocks that come back over their edges, one behind the other. */
struct tn_reach {
    struct tn_run run;           /* segment NULL: none yet */
    const struct tn_arena *home; /* that of all the blocks; NULL: they have several */
    bool held;                   /* a hold has a chunk of it: it goes to idle memory */
};

struct tn_plan {
    tarn_checkpoint *checkpoint; /* immutable, as the next three */
    tarn_pool *pool;
    tarn_stream stream;
    struct tn_order order;
    uint64_t idle_sequence; /* blocks up to this one were there before the last wait for the device
                               that was made for this restore; 0: none was */
    /* of the blocks of one order, looked up last; NULL: none */
    struct tn_heap *homes[TN_HEAP_KINDS];
    struct tn_order home_order;
    uint32_t seen_run;               /* of the last block that comes back in its place */
    struct tn_chunk *seen_chunk;     /* in which it ends, whose heap is its home */
    uint64_t seen_begin;             /* offsets of that */
    uint64_t seen_end;               /* 0: there was none */
    struct tn_reach reach;           /* of the blocks looked at last */
    bool is_at_home;                 /* the plan's own stream has an arena */
    struct tn_settlement settlement; /* of what is left */
    /* The plan itself: */
    uint16_t mark;      /* kept blocks carry it */
    size_t freed_count; /* live now, not then */
    size_t *revived;    /* indexes of saved blocks that are not live now */
    size_t revived_count;
    struct tn_span *spans; /* of them, in order; all others have no place */
    size_t span_capacity;
    size_t span_count;
    struct tn_hole *holes;
    size_t hole_capacity;
    size_t hole_count;
    uint64_t hole_bytes;
    tarn_pool **visits; /* pools among whose replays the restore takes a turn: C7 */
    size_t visit_capacity;
    size_t visit_count;
    size_t record_count; /* that the restore may take */
    bool needs_cold;     /* blocks may come to be of other orders than their arenas, or get uses */
    bool needs_wait;     /* memory to be written may be in use on another stream */
    bool meets_launch;   /* by tn_plan_visit: a launch without an order was under way */
    bool awaits;  /* pools of guarded graphs await the visit: tn_replays_end_awaited ends that */
    bool watched; /* graphs of other pools may refer to blocks of this one */
    bool follows; /* the stream is to wait first for the event behind the last restore's copies */
    bool follows_save; /* and for that behind the last take's */
};

/* Compares the live set with the saved one. Changes nothing but marks, and makes an arena for the
 * plan's own stream where a block of it is to be revived.
 *   WRONG_STATE: a capture is under way, or a DISCARDED block is in the way; HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_plan_make(struct tn_plan *plan);

void tn_plan_fini(struct tn_plan *plan);

/* Takes the restore's turn among the replays of graphs that watch what it changes, until tn_plan_leave_visits. The
 * plan's needs_wait is set, and no turn taken, where a wait for the device must come first. DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_plan_visit(struct tn_plan *plan);

/* worked: something was enqueued that later replays are to come behind. */
void tn_plan_leave_visits(const struct tn_plan *plan, bool worked);

/* The order that a revived block is of: its own; the plan's, where its stream had been retired when
 * the checkpoint was taken: what is done with it now is done there. */
struct tn_order tn_plan_order(const struct tn_plan *plan, const struct tn_saved_block *saved);

/* The heap that a revived block's chunks are to belong to, unless a hold has them: that of its own
 * order, where there is an arena of it still; else the idle memory. */
struct tn_heap *tn_plan_home(struct tn_plan *plan, const struct tn_saved_block *saved);

#endif
