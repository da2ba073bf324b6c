// SPDX-License-Identifier: Apache-2.0
/* use.h -- which orders use a block beside its own.
 *
 * A use is noted when a stream is recorded, and what its end needs is set aside then, so that the free
 * cannot fail. At the free it joins a fence of the stream (claims/fence.h). Whoever polls learns from the fences whether
 * the uses have ended: pools/pending.h.
 *
 * A use in a capture never runs by itself: it ends with that capture, or where the order's next work comes after it there.
 *
 * Locking: the lock of the block's pool, where a block is named; else none. */
#ifndef TARN_CLAIMS_USE_H
#define TARN_CLAIMS_USE_H

#include "claims/fence.h"
#include "heap/arena.h"
#include "nodes/ancestry.h"

struct tn_use {
    struct tn_use *next; /* of the block */
    struct tn_order order;
    tn_cu_stream handle; /* in a capture: the stream's; NULL: it was retired */
    uint64_t thread;     /* in a capture: that named the stream last, and alone uses the handle */
    struct tn_known_stream *stream; /* outside captures, NOTED: the block is live */
    struct tn_fence *fence;         /* outside captures, freed: what ends the use */
    struct tn_markers markers;      /* in a capture, freed: what the stream had there at the free */
};

/* Notes that the block's cold record may have uses, a fence or watches. */
void tn_block_tangle(struct tn_block *block);

/* Notes that the order uses the LIVE block, and that the calling thread named the stream; the latter alone
 * when it is noted before, and nothing when it is the block's own order. HOST_MEMORY, DEVICE_LOST,
 * DRIVER. */
TARN_MUST_CHECK tarn_status tn_use_note(struct tn_streams *streams, struct tn_block *block,
                                        tn_cu_stream stream, struct tn_order order);

/* A noted use of no block yet. HOST_MEMORY, DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_use_make(struct tn_streams *streams, tn_cu_stream stream,
                                        struct tn_order order, struct tn_use **use);
void tn_use_end(struct tn_streams *streams, struct tn_use *use);

/* Ends a noted use outside captures with the work that is on its stream now. DRIVER: only a wait for
 * the device proves the end. */
TARN_MUST_CHECK tarn_status tn_use_record(struct tn_streams *streams, struct tn_use *use);

/* Gives the LIVE block a recorded use; an older one of the same order, which ends before it, goes. */
void tn_use_add(struct tn_streams *streams, struct tn_block *block, struct tn_use *use);

/* The block is freed: a fence is to end each of its uses outside captures. */
void tn_uses_join(struct tn_streams *streams, struct tn_block *block);

/* Ends all uses of the block. */
void tn_uses_end(struct tn_streams *streams, struct tn_block *block);

/* The stream of that handle is retired: no use of live blocks in the segments, in a capture, uses the handle any
 * more. */
void tn_uses_forget(struct tn_segment *segments, tn_cu_stream handle);

/* What a checkpoint keeps of the uses of a LIVE block: the streams that it was recorded for, outside
 * captures. Save acquires a reference to each; it fills room for as many as count says. */
size_t tn_uses_count(const struct tn_block *block);
void tn_uses_save(struct tn_streams *streams, const struct tn_block *block,
                  struct tn_known_stream **saved);

/* Noted uses of those of the streams that are not retired, of no block yet: all of them or none.
 * HOST_MEMORY, DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_uses_make(struct tn_streams *streams,
                                         struct tn_known_stream *const *of, size_t count,
                                         struct tn_use **uses);
void tn_uses_drop(struct tn_streams *streams, struct tn_use *uses);

/* Gives the LIVE block the uses that were made for it. */
void tn_uses_give(struct tn_block *block, struct tn_use *uses);

/* The block's own stream is retired: from now on the fence stands for its work there, and it is of no
 * order. */
void tn_block_retire(struct tn_streams *streams, struct tn_block *block, struct tn_fence *fence);

/* Whether the work of the block's own stream has ended because that was retired; forgets the fence. */
bool tn_block_settle(struct tn_streams *streams, struct tn_block *block);

/* Forgets the fence of the block's retired stream, if it has one. */
void tn_block_drop_fence(struct tn_streams *streams, struct tn_block *block);

#endif
