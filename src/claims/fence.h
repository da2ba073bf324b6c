// SPDX-License-Identifier: Apache-2.0
/* fence.h -- the streams that blocks are recorded for, and the fences that end their uses.
 *
 * The table knows a stream from the first block that is recorded for it until the last use has ended.
 * That is just as long as its user promised that it lives, or until it is retired: so a handle is never
 * used for which no promise stands.
 *
 * A fence is one event for all frees of a stream since its last one:
 *
 *     OPEN ──recorded──▶ RECORDED ──the work before it has ended──▶ DONE
 *       │                   │ the driver cannot say                   ▲
 *       └──refused──▶ UNKNOWN ────a wait for the device──────────────┘
 *
 * A free joins the stream's open fence, or opens one. It is recorded at once when nothing else of the
 * stream is waited for, when 64 frees have joined, at a poll, and when the stream is retired; not while
 * the stream is being captured, and on the thread that named it last alone: elsewhere a per-thread
 * handle means another stream, and any other may be about to be captured. A fence not recorded yet
 * covers the work up to when it is; every fence is done when a wait for the device has ended that began
 * after its frees.
 *
 *   P11  a stream has at least as many fences set aside as uses noted, so that a free cannot fail
 *   P12  a stream's fences are in order of time, none is DONE, and no OPEN one is before a RECORDED one
 *
 * Locking: a lock of its own, rank STREAMS, taken by every function here but where said. No call waits
 * for the GPU or disturbs a capture. */
#ifndef TARN_CLAIMS_FENCE_H
#define TARN_CLAIMS_FENCE_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/lock.h"
#include "driver/stream.h"

enum tn_fence_state { TN_FENCE_OPEN, TN_FENCE_RECORDED, TN_FENCE_UNKNOWN, TN_FENCE_DONE };

struct tn_known_stream;

struct tn_fence {
    struct tn_fence *next;          /* of the stream, newer; also links what is set aside */
    struct tn_known_stream *stream; /* immutable */
    tn_cu_event event;              /* NULL: given back */
    atomic_int state;               /* enum tn_fence_state */
    atomic_uint_fast64_t stamp;     /* the epoch of the frees that joined */
    uint32_t join_count;
    uint64_t ref_count; /* uses, blocks and arenas that wait for it */
};

struct tn_known_stream {
    struct tn_known_stream *next; /* of the table */
    uint64_t id;                  /* immutable */
    tn_cu_stream handle;          /* immutable; not used any more when retired */
    uint64_t thread;       /* that named the stream last, and alone uses the handle; 0: any */
    tn_cu_context context; /* immutable; that its work happens in */
    bool retired;
    uint64_t ref_count;       /* noted uses, references to fences, and others' */
    uint64_t noted_count;     /* uses of blocks that are not freed */
    struct tn_fence *reserve; /* fences set aside */
    uint64_t reserve_count;
    struct tn_fence *first; /* fences not DONE, oldest first */
    struct tn_fence *last;
    struct tn_fence *retire_fence; /* retired: what ends all its work */
};

struct tn_streams {
    struct tn_lock lock;              /* rank STREAMS */
    struct tn_gpu *gpu;               /* immutable */
    struct tn_known_stream *known;    /* newest first */
    atomic_uint_fast64_t known_count; /* written under the lock */
};

void tn_streams_init(struct tn_streams *streams, struct tn_gpu *gpu);
void tn_streams_fini(struct tn_streams *streams); /* no stream is known */

/* Notes a use on the stream, whose id is given, for a block that is live: a reference, which ends with
 * tn_streams_join or tn_streams_unnote. HOST_MEMORY, DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_streams_note(struct tn_streams *streams, tn_cu_stream handle,
                                            uint64_t id, struct tn_known_stream **stream);

/* One more noted use of a stream that is known; false when it is retired: no use any more.
 * HOST_MEMORY, DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_streams_note_again(struct tn_streams *streams,
                                                  struct tn_known_stream *stream, bool *noted);
void tn_streams_unnote(struct tn_streams *streams, struct tn_known_stream *stream);

/* The block of a noted use is freed: the fence that ends the use, with a reference to it. */
struct tn_fence *tn_streams_join(struct tn_streams *streams, struct tn_known_stream *stream);

/* The stream of a noted use is named for that use again: from here on the calling thread alone uses the
 * handle. False when it was retired since: the handle is another stream's now. */
bool tn_streams_name(struct tn_streams *streams, struct tn_known_stream *stream);

/* References to a stream, by those who may note a use of it again. */
void tn_streams_acquire(struct tn_streams *streams, struct tn_known_stream *stream);
void tn_streams_release(struct tn_streams *streams, struct tn_known_stream *stream);

/* References to a fence. */
void tn_fence_acquire(struct tn_streams *streams, struct tn_fence *fence);
void tn_fence_release(struct tn_streams *streams, struct tn_fence *fence);

/* Records the stream's open fences now; true when none is left open or was refused. */
bool tn_fence_flush(struct tn_streams *streams, struct tn_fence *fence);

/* Whether a fence of the stream could be recorded in this call. */
bool tn_streams_can_record(struct tn_streams *streams, const struct tn_known_stream *stream);

/* Puts a stream, of no capture, behind the work before the fence. False: it is not, since the driver refused, or no event
 * stands for the fence. */
bool tn_fence_follow(struct tn_streams *streams, const struct tn_fence *fence, tn_cu_stream stream);

/* Whether the work before the fence has ended, as far as polls and waits have shown. Takes no lock. */
bool tn_fence_is_done(const struct tn_streams *streams, const struct tn_fence *fence);

/* Records open fences and asks after the oldest of each stream. */
void tn_streams_poll(struct tn_streams *streams);

/* Retiring, in two steps. Begin sets a fence aside, with a reference that commit ends. Commit records it
 * and all open ones: from then on the handle is not used. The caller keeps others from retiring.
 * HOST_MEMORY, DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_streams_retire_begin(struct tn_streams *streams, tn_cu_stream handle,
                                                    uint64_t id, struct tn_fence **fence);
void tn_streams_retire_commit(struct tn_streams *streams, struct tn_fence *fence);

/* Recomputes P11 and P12. CORRUPT. */
TARN_MUST_CHECK tarn_status tn_streams_check(struct tn_streams *streams);

#endif
