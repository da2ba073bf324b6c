// SPDX-License-Identifier: Apache-2.0
/* record.h -- which blocks of a pool were live at one moment, and their bytes.
 *
 *   C1  blocks are in order of segment index and offset
 *   C2  every segment that a block names is held: it keeps its addresses
 *   C3  with contents, the bytes of block i lie at the sum of the sizes of those before it
 *
 * Locking: a checkpoint is immutable once taken, except where a field says otherwise. Its pool's
 * lock guards the segments' counts. */
#ifndef TARN_CHECKPOINT_RECORD_H
#define TARN_CHECKPOINT_RECORD_H

#include "driver/kernel.h"
#include "graphs/graph.h"
#include "pools/pending.h"
#include "tarn/checkpoint.h"

/* Takes and restores move these records through the caches: values that blocks have in common stand
 * apart, in the runs. */
struct tn_saved_block {
    /* The block's record when last known: a hint, guarded by the pool's lock. */
    struct tn_block *block;
    uint64_t requested;
    uint64_t sequence;
    uint32_t place;     /* units of 512 bytes before the block in its segment */
    uint32_t units;     /* its size */
    uint32_t run;       /* index of its run */
    uint32_t use_count; /* of its streams */
};

_Static_assert(sizeof(struct tn_saved_block) == 40, "five words");

/* Saved blocks of one segment and one order, in sequence. */
struct tn_saved_run {
    struct tn_segment *segment;
    struct tn_order order;
    uint64_t block_count;
};

static inline uint64_t tn_saved_offset(const struct tn_saved_block *saved)
{
    return (uint64_t)saved->place << TN_BLOCK_BITS;
}

static inline uint64_t tn_saved_bytes(const struct tn_saved_block *saved)
{
    return (uint64_t)saved->units << TN_BLOCK_BITS;
}

static inline uint64_t tn_saved_end(const struct tn_saved_block *saved)
{
    return tn_saved_offset(saved) + tn_saved_bytes(saved);
}

struct tarn_checkpoint {
    _Atomic uint64_t magic; /* TN_CHECKPOINT_MAGIC; 0 in a recycled record */
    tarn_checkpoint *next;  /* links recycled records */
    tarn_pool *pool;        /* immutable */
    struct tn_saved_block *blocks;
    size_t block_count;
    uint64_t *tags;            /* of the blocks, in their order; NULL: none has one */
    uint64_t live_bytes;       /* of all blocks */
    struct tn_saved_run *runs; /* in the order of the blocks */
    size_t run_capacity;
    size_t run_count;
    /* The streams that the blocks were recorded for; see checkpoint/uses.h. */
    struct tn_known_stream **streams;
    size_t stream_capacity;
    size_t stream_count;
    tarn_contents kind; /* immutable */
    uint64_t number;    /* immutable; never another checkpoint's of the process */
    /* With contents, unless the checkpoint has no blocks: */
    void *contents; /* a block of the default pool; NULL: none; immutable, as the next six */
    uint64_t contents_bytes; /* bytes that the block takes */
    /* Page-locked memory: the table, and the bytes if they are kept in host memory. */
    struct tn_staging_block *pinned;
    uint64_t saved;                 /* address of the bytes */
    uint64_t digests;               /* address of the digests, one for each block */
    struct tn_contents_table table; /* in device memory */
    struct tn_order order;          /* of the stream that copied them out */
    /* Recorded behind the last copies, out or back; NULL: the driver refused. This field and the
     * next two are guarded by the pool's lock. */
    tn_cu_event used;
    uint64_t used_stamp;        /* the epoch after the last copies back */
    struct tn_order last_order; /* of the stream that made the last copies */
    /* Calls that use the checkpoint. Closed when it goes; kept in recycled records. */
    struct tn_pins pins;
};

#define TN_CHECKPOINT_MAGIC 0x54436b70ULL

static inline struct tn_segment *tn_saved_segment(const tarn_checkpoint *checkpoint,
                                                  const struct tn_saved_block *saved)
{
    return checkpoint->runs[saved->run].segment;
}

/* The order that the block was allocated on; TN_ORDER_NONE if its stream had been retired. */
static inline struct tn_order tn_saved_order(const tarn_checkpoint *checkpoint,
                                             const struct tn_saved_block *saved)
{
    return checkpoint->runs[saved->run].order;
}

static inline uint64_t tn_saved_tag(const tarn_checkpoint *checkpoint,
                                    const struct tn_saved_block *saved)
{
    return checkpoint->tags != NULL ? checkpoint->tags[saved - checkpoint->blocks] : 0;
}

static inline uint64_t tn_saved_address(const tarn_checkpoint *checkpoint,
                                        const struct tn_saved_block *saved)
{
    return tn_saved_segment(checkpoint, saved)->base + tn_saved_offset(saved);
}

#endif
