// SPDX-License-Identifier: Apache-2.0
/* trackers.h -- functions of the program's that hear of memory that comes and goes.
 *
 * Memory that a tracker has heard of is mapped, until the tracker has heard that the memory goes. A
 * chunk's notice says how much trackers know:
 *
 *     NONE ──mapped──▶ QUEUED ──the call ends──▶ BUSY ──told──▶ NONE
 *     NONE ──listed as a farewell──▶ BUSY ──told──▶ GIVEN ──unmapped──▶
 *                                                   GIVEN ──used again: BUSY, told──▶ NONE
 *
 * A trim lists farewells under the pool's lock, unlocks the pool, tells trackers of them, and looks
 * again; so does the ladder. QUEUED memory goes at once, for nobody has heard of it.
 *
 * Locking: the queue's own lock. Trackers are called without any lock. */
#ifndef TARN_POOLS_TRACKERS_H
#define TARN_POOLS_TRACKERS_H

#include "pools/device.h"
#include "vmm/chunk.h"

enum { TN_FAREWELLS = 64 }; /* at a time */

/* Chunks about to go. Zeroed: none yet. */
struct tn_farewells {
    size_t given_count;
    size_t next_count;
    struct tn_chunk *given[TN_FAREWELLS]; /* told, or unmapped since */
    struct tn_chunk *next[TN_FAREWELLS];  /* not told yet */
};

/* HOST_MEMORY; WRONG_STATE */
TARN_MUST_CHECK tarn_status tn_tracker_add(tarn_device *device, tarn_tracker tracker, void *user,
                                           unsigned events);

static inline bool tn_trackers_want(const tarn_device *device, tarn_tracked_event event)
{
    return (tn_callbacks_mask(&device->trackers.callbacks) & (unsigned)event) != 0;
}

/* Whether the chunk's memory may not move: trackers know the address, or will. */
static inline bool tn_trackers_pin(const tarn_device *device, const struct tn_chunk *chunk)
{
    const int notice = atomic_load(&chunk->notice);

    return tn_trackers_want(device, TARN_TRACKED_MAPPED) ||
           tn_trackers_want(device, TARN_TRACKED_UNMAPPING) || notice == TN_NOTICE_QUEUED ||
           notice == TN_NOTICE_BUSY;
}

/* The chunk was mapped for good, under the lock of its pool. */
void tn_trackers_note_mapped(tarn_device *device, struct tn_chunk *chunk);
void tn_trackers_note_failed(tarn_device *device, uint64_t bytes, tarn_status status);

/* Whether a chunk that may go otherwise must stay for now. The chunk is then among the farewells, if
 * they have room. False: the caller unmaps it before the pool is unlocked. */
bool tn_farewells_keep(tarn_device *device, struct tn_farewells *farewells, struct tn_chunk *chunk);

/* Tells trackers of the chunks listed since the last call. Chunks listed before, and mapped still,
 * stay. False: none was listed. No lock may be held. */
bool tn_farewells_tell(tarn_device *device, struct tn_farewells *farewells);

/* All listed chunks that are mapped still stay. No lock may be held. */
void tn_farewells_end(tarn_device *device, struct tn_farewells *farewells);

/* The chunk is about to be unmapped: trackers hear of no event in the queue. */
void tn_trackers_forget(tarn_device *device, struct tn_chunk *chunk);

/* All chunks of a pool that nobody finds any more are about to go. No lock may be held. */
void tn_trackers_note_end(tarn_pool *pool);

void tn_trackers_tell_own(tarn_device *device);

/* At the end of a call: tells the events that the calling thread has caused. */
static inline void tn_trackers_tell(tarn_device *device)
{
    if (TN_UNLIKELY(atomic_load_explicit(&device->trackers.queued, memory_order_relaxed) > 0))
        tn_trackers_tell_own(device);
}

#endif
