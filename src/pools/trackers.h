// SPDX-License-Identifier: Apache-2.0
/* trackers.h -- functions of the program's that hear of memory that comes and goes.
 *
 * Memory that a tracker has heard of is mapped, until the tracker has heard that the memory goes. A
 * chunk's notice says how much trackers know:
 *
 *     NONE ──mapped──▶ QUEUED ──the call ends──▶ BUSY ──told──▶ NONE
 *     NONE ──listed as a farewell──▶ BUSY ──told──▶ GIVEN ──unmapped: ENDED──▶ NONE
 *                                                   GIVEN ──used again: BUSY, told──▶ NONE
 *
 * A trim lists farewells under the pool's lock, unlocks the pool, tells trackers of them, and looks
 * again; so does the ladder. QUEUED memory goes at once, for nobody has heard of it. BUSY memory
 * stays. GIVEN memory may be unmapped by any thread, unless a tracker has come since: that one may
 * have found the memory in a snapshot, and all are told again.
 *
 * A pool may end deep inside of a call. Its memory is told of when the call ends, and goes behind;
 * until then the pool is on a list. Where another thread is telling of the memory, a later call ends
 * the pool.
 *
 * Locking: the queue's own lock. Trackers are called without any lock. */
#ifndef TARN_POOLS_TRACKERS_H
#define TARN_POOLS_TRACKERS_H

#include "pools/device.h"
#include "vmm/chunk.h"

enum { TN_FAREWELLS = 64 }; /* at a time */

/* A chunk that was told to go. Any thread may have unmapped it since. */
struct tn_farewell {
    struct tn_chunk *chunk;
    uint64_t address;
};

/* Chunks about to go. Zeroed: none yet. */
struct tn_farewells {
    size_t given_count;
    size_t next_count;
    uint64_t next_bytes;
    struct tn_farewell given[TN_FAREWELLS];
    struct tn_chunk *next[TN_FAREWELLS]; /* BUSY, and not told yet */
};

/* HOST_MEMORY; WRONG_STATE */
TARN_MUST_CHECK tarn_status tn_tracker_add(tarn_device *device, tarn_tracker tracker, void *user,
                                           unsigned events);

static inline bool tn_trackers_want(const tarn_device *device, unsigned events)
{
    return (tn_callbacks_mask(&device->trackers.callbacks) & events) != 0;
}

/* Whether trackers know addresses, or will: memory neither moves nor goes at once. */
static inline bool tn_trackers_follow(const tarn_device *device)
{
    return tn_trackers_want(device, TARN_TRACKED_MAPPED | TARN_TRACKED_UNMAPPING) ||
           atomic_load_explicit(&device->trackers.noticed, memory_order_relaxed) > 0;
}

/* Whether the thread is in a tracker, of whatever device: its events are lost, and known memory stays. */
static inline bool tn_trackers_are_deaf(const tarn_device *device)
{
    return tn_callbacks_are_entered(&device->trackers.callbacks);
}

/* The chunk was mapped for good, under the lock of its pool. */
void tn_trackers_note_mapped(tarn_device *device, struct tn_chunk *chunk);
void tn_trackers_note_failed(tarn_device *device, uint64_t bytes, tarn_status status);

/* Whether trackers have to be told before the chunk goes. The chunk is then among the farewells, if
 * they have room, and stays mapped. False: the caller unmaps it before the pool is unlocked. */
bool tn_farewells_keep(tarn_device *device, struct tn_farewells *farewells, struct tn_chunk *chunk);

/* Tells trackers of the chunks listed since the last call. Chunks listed before, and mapped still,
 * stay. False: none was listed. No lock may be held. */
bool tn_farewells_tell(tarn_device *device, struct tn_farewells *farewells);

/* All listed chunks that are mapped still stay. No lock may be held. */
void tn_farewells_end(tarn_device *device, struct tn_farewells *farewells);

/* The chunk is about to be unmapped: trackers hear of no event in the queue. */
void tn_trackers_forget(tarn_device *device, struct tn_chunk *chunk);

/* Waits until no thread is telling of memory, but not for long: a tracker may wait for the caller.
 * False: none was. */
bool tn_trackers_await(tarn_device *device, uint64_t most_ns);

/* Lists a pool that nobody finds any more, whose memory trackers are to hear of; false: none is. */
bool tn_trackers_defer_end(tarn_pool *pool);

/* Takes a pool off that list, which has memory yet, and puts it back. NULL: the list is empty, or the
 * thread is in a tracker. */
tarn_pool *tn_trackers_take_ending(tarn_device *device);
void tn_trackers_put_ending(tarn_pool *pool);

/* Tells trackers that all chunks of the pool go. False: another thread is telling of some, which are
 * left; or the process is a child. No lock may be held. */
bool tn_trackers_note_end(tarn_pool *pool);

void tn_trackers_tell_own(tarn_device *device);

/* Whether events or ends of pools are to be told when calls end. */
static inline bool tn_trackers_are_due(const tarn_device *device)
{
    return TN_UNLIKELY(atomic_load_explicit(&device->trackers.due, memory_order_relaxed) > 0);
}

/* At the end of a call: tells the events that the calling thread has caused. */
static inline void tn_trackers_tell(tarn_device *device)
{
    if (tn_trackers_are_due(device))
        tn_trackers_tell_own(device);
}

#endif
