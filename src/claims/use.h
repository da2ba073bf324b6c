// SPDX-License-Identifier: Apache-2.0
/* use.h -- which orders use a block beside its own.
 *
 * A use is noted when a stream is recorded. Everything its end needs is set aside at this moment,
 * so that the free cannot fail. At the free it enters a fence of the stream (claims/fence.h). Polls
 * learn from the fences whether the uses have ended: pools/pending.h.
 *
 * A use in a capture never runs by itself. It ends with the capture, or where the order's next work
 * comes after it in the capture.
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
    tn_cu_stream handle; /* in a capture: the stream's; NULL: retired */
    /* In a capture: the thread that named the stream last, and alone uses the handle. */
    uint64_t thread;
    struct tn_known_stream *stream; /* outside captures, NOTED: the block is live */
    struct tn_fence *fence;         /* outside captures, freed: the fence which ends the use */
    struct tn_frontier frontier;    /* in a capture, freed: the stream's nodes there at the free */
};

/* Notes that the block's cold record may have uses, a fence or watches. */
void tn_block_note_claims(struct tn_block *block);

/* Notes that the order uses the LIVE block, and that the calling thread named the stream. An order
 * noted before only gets the new thread; the block's own order is not noted. HOST_MEMORY,
 * DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_use_note(struct tn_streams *streams, struct tn_block *block,
                                        tn_cu_stream stream, struct tn_order order);

/* Takes back a note of the order on the LIVE block; no effect where there is none. */
void tn_use_withdraw(struct tn_streams *streams, struct tn_block *block, struct tn_order order);

/* A noted use of no block yet. HOST_MEMORY, DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_use_make(struct tn_streams *streams, tn_cu_stream stream,
                                        struct tn_order order, struct tn_use **use);
void tn_use_end(struct tn_streams *streams, struct tn_use *use);

/* Ends a noted use outside captures with the present work on its stream. DRIVER: only a wait for
 * the device proves the end. */
TARN_MUST_CHECK tarn_status tn_use_record(struct tn_streams *streams, struct tn_use *use);

/* Gives the LIVE block a recorded use, which replaces an older use of the same order. */
void tn_use_add(struct tn_streams *streams, struct tn_block *block, struct tn_use *use);

/* The block is being freed: each of its uses outside captures gets a fence, which ends the use. */
void tn_uses_enter_fences(struct tn_streams *streams, struct tn_block *block);

/* Ends all uses of the block. */
void tn_uses_end(struct tn_streams *streams, struct tn_block *block);

/* Whether there are uses in captures. */
static inline bool tn_uses_are_captured(const struct tn_streams *streams)
{
    return atomic_load_explicit(&streams->captured_use_count, memory_order_relaxed) > 0;
}

/* The stream with this handle is retired: the uses of live blocks in captures, in these segments,
 * forget the handle. Looks at no block where no use in a capture is known. */
void tn_uses_forget(const struct tn_streams *streams, struct tn_segment *segments,
                    tn_cu_stream handle);

/* For a checkpoint: the streams outside captures which the LIVE block was recorded for. Save
 * acquires a reference to each; saved has room for as many as count returns. */
size_t tn_uses_count(const struct tn_block *block);
void tn_uses_save(struct tn_streams *streams, const struct tn_block *block,
                  struct tn_known_stream **saved);

/* Makes noted uses, of no block yet, for all streams which are not retired: all or none.
 * HOST_MEMORY, DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_uses_make(struct tn_streams *streams,
                                         struct tn_known_stream *const *of, size_t count,
                                         struct tn_use **uses);
void tn_uses_drop(struct tn_streams *streams, struct tn_use *uses);

/* Gives the LIVE block the uses which were made for it. */
void tn_uses_give(struct tn_block *block, struct tn_use *uses);

/* The block's own stream is retired: from now on the fence stands for the stream's work, and the
 * block is of no order. */
void tn_block_retire(struct tn_streams *streams, struct tn_block *block, struct tn_fence *fence);

/* Whether the work of the block's own, retired stream has ended, or the stream is not retired; if
 * so, forgets the fence. */
bool tn_block_end_fences(struct tn_streams *streams, struct tn_block *block);

/* Forgets the fence of the block's retired stream, if any. */
void tn_block_drop_fence(struct tn_streams *streams, struct tn_block *block);

#endif
