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

/* A chunk's: how much trackers know of the chunk. */
enum tn_notice {
    TN_NOTICE_NONE,   /* perhaps all: trackers hear of the end first */
    TN_NOTICE_LOST,   /* nothing: trackers hear of no end */
    TN_NOTICE_QUEUED, /* nothing yet */
    TN_NOTICE_BUSY,   /* a thread is telling trackers: the chunk stays meanwhile */
    TN_NOTICE_GIVEN,  /* that the chunk goes */
    TN_NOTICE_ENDED,  /* all that they will: a thread is about to unmap the chunk */
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
    atomic_uint_fast64_t queued; /* events in the queue */
    atomic_uint_fast64_t lost;   /* events beside the queue */
    struct tn_tracker_event queue[TN_TRACKER_QUEUE];
};

#endif
