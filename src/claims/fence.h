// SPDX-License-Identifier: Apache-2.0
/* fence.h -- the streams which blocks are recorded for, and the fences which end their uses.
 *
 * The table knows a stream from the first block recorded for it until the last use has ended. The
 * user has promised that the stream lives as long, or until it is retired. Tarn therefore never
 * uses a handle without a promise.
 *
 * A fence is a single event for all frees of a stream since its last fence:
 *
 *     OPEN ──recorded──▶ RECORDED ──the work before it has ended──▶ DONE
 *       │                   │ the driver cannot say                   ▲
 *       └──refused──▶ UNKNOWN ────a wait for the device──────────────┘
 *
 * A free enters the stream's open fence, or opens a fence. The fence is recorded at once when
 * - no other fence of the stream waits;
 * - 64 frees have entered;
 * - a poll comes; or
 * - the stream is retired.
 *
 * It is not recorded while the stream is being captured, and only on the thread that named the
 * stream last. On other threads a per-thread handle means another stream, and any other stream may
 * be about to be captured. A fence not recorded yet covers the work up to its recording. Every
 * fence is done after a wait for the device that began after its frees.
 *
 *   P11  a stream has at least as many fences set aside as uses noted, so that a free cannot fail
 *   P12  a stream's fences are in order of time, none is DONE, and no OPEN one is before one
 *        that is not
 *
 * Locking: a lock of its own, rank STREAMS, taken by every function here unless its comment
 * differs. No call waits for the GPU or disturbs a capture. */
#ifndef TARN_CLAIMS_FENCE_H
#define TARN_CLAIMS_FENCE_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/lock.h"
#include "claims/stream_table.h"
#include "driver/stream.h"

enum tn_fence_state { TN_FENCE_OPEN, TN_FENCE_RECORDED, TN_FENCE_UNKNOWN, TN_FENCE_DONE };

struct tn_fence {
    struct tn_fence *next;          /* the stream's next newer fence; also links fences set aside */
    struct tn_fence *previous;      /* the next older one */
    struct tn_known_stream *stream; /* immutable */
    tn_cu_event event;              /* NULL: given back */
    atomic_int state;               /* enum tn_fence_state */
    atomic_uint_fast64_t stamp;     /* the epoch of the frees which entered */
    uint32_t use_count;
    uint64_t ref_count; /* uses, blocks and arenas waiting for it */
};

static inline enum tn_fence_state tn_fence_state_of(const struct tn_fence *fence)
{
    return (enum tn_fence_state)atomic_load_explicit(&fence->state, memory_order_acquire);
}

struct tn_streams {
    struct tn_lock lock;     /* rank STREAMS */
    struct tn_gpu *gpu;      /* immutable */
    struct tn_ring *history; /* set behind init; NULL: none */
    struct tn_stream_table table;
    atomic_uint_fast64_t known_count;        /* written under the lock */
    atomic_uint_fast64_t done_count;         /* fences that became DONE; likewise */
    atomic_uint_fast64_t captured_use_count; /* records of uses in captures: claims/use.h */
};

void tn_streams_init(struct tn_streams *streams, struct tn_gpu *gpu);
void tn_streams_fini(struct tn_streams *streams); /* no stream is known */

/* Notes a use of a live block on the stream with this id. The use is a reference, which
 * tn_streams_enter_fence or tn_streams_unnote ends. HOST_MEMORY, DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_streams_note(struct tn_streams *streams, tn_cu_stream handle,
                                            uint64_t id, struct tn_known_stream **stream);

/* Notes another use of a known stream; *noted false: the stream is retired, and has no use.
 * HOST_MEMORY, DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_streams_copy_note(struct tn_streams *streams,
                                                 struct tn_known_stream *stream, bool *noted);
void tn_streams_unnote(struct tn_streams *streams, struct tn_known_stream *stream);

/* Ends a noted use when its block is freed. Returns the fence which ends the use, with a reference
 * to it. */
struct tn_fence *tn_streams_enter_fence(struct tn_streams *streams, struct tn_known_stream *stream);

/* Names the stream of a noted use again: from here on only the calling thread uses the handle.
 * False: the stream has been retired, and the handle is another stream's now. */
bool tn_streams_name(struct tn_streams *streams, struct tn_known_stream *stream);

/* References to a stream, for callers that may note a use of it again. */
void tn_streams_acquire(struct tn_streams *streams, struct tn_known_stream *stream);
void tn_streams_release(struct tn_streams *streams, struct tn_known_stream *stream);

/* References to a fence. */
void tn_fence_acquire(struct tn_streams *streams, struct tn_fence *fence);
void tn_fence_release(struct tn_streams *streams, struct tn_fence *fence);

/* Records the stream's open fences now. True: the fence was recorded, or is done. */
bool tn_fence_flush(struct tn_streams *streams, struct tn_fence *fence);

/* Whether a fence of the stream could be recorded in this call. */
bool tn_streams_can_record(struct tn_streams *streams, const struct tn_known_stream *stream);

/* Puts a stream, of no capture, behind the work before the fence. False: the driver refused, or no
 * event stands for the fence; the stream is not behind it. */
bool tn_fence_follow(struct tn_streams *streams, const struct tn_fence *fence, tn_cu_stream stream);

/* Whether polls or waits have shown the end of the work before the fence. Takes no lock. */
bool tn_fence_is_done(const struct tn_streams *streams, const struct tn_fence *fence);

/* Records open fences and asks after the oldest of each stream. */
void tn_streams_poll(struct tn_streams *streams);

/* Retires a stream in two steps. Prepare sets a fence aside, with a reference which commit ends.
 * Commit records this fence and all open ones; from then on the handle is not used. The caller
 * keeps other threads from retiring. HOST_MEMORY, DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_streams_retire_prepare(struct tn_streams *streams,
                                                      tn_cu_stream handle, uint64_t id,
                                                      struct tn_fence **fence);
void tn_streams_retire_commit(struct tn_streams *streams, struct tn_fence *fence);

#endif
