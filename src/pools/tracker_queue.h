// SPDX-License-Identifier: Apache-2.0
/* tracker_queue.h -- events of a device that its trackers will hear of: pools/trackers.h.
 *
 * Locking: the queue's lock comes behind all other locks, and guards all writes. */
#ifndef TARN_POOLS_TRACKER_QUEUE_H
#define TARN_POOLS_TRACKER_QUEUE_H

#include "base/spin.h"
#include "pools/callbacks.h"
#include "tarn/tracker.h"

struct tn_chunk;

enum { TN_TRACKER_QUEUE = 256 };

/* A chunk's, in the low bits: how much trackers know of the chunk. */
enum tn_notice {
    TN_NOTICE_NONE,   /* perhaps all: trackers hear of the end first */
    TN_NOTICE_QUEUED, /* nothing yet */
    TN_NOTICE_BUSY,   /* a thread is telling trackers: the chunk stays meanwhile */
    TN_NOTICE_ENDED,  /* all that they will: a thread is about to unmap the chunk */
    TN_NOTICE_GIVEN,  /* that the chunk goes; the other bits are those of the newest tracker's id */
    TN_NOTICE_BITS = 7,
};

/* An event that waits for the end of a call. */
struct tn_tracker_event {
    uintptr_t thread;       /* tn_thread_word of the calling thread */
    struct tn_chunk *chunk; /* QUEUED; NULL: none */
    tarn_tracked what;
};

struct tn_trackers {
    struct tn_callbacks callbacks; /* tarn_tracker */
    struct tn_spin lock;
    atomic_uint_fast64_t due;     /* events in the queue, and pools that end */
    atomic_uint_fast64_t lost;    /* events beside the queue */
    atomic_uint_fast64_t noticed; /* chunks with a notice */
    atomic_uint_fast64_t busy;    /* of them, those that are BUSY */
    tarn_pool *ending; /* taken off the device's list, and not told yet; linked by next */
    size_t queued;
    struct tn_tracker_event queue[TN_TRACKER_QUEUE];
};

#endif
