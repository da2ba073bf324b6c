// SPDX-License-Identifier: Apache-2.0
/* pool_lock.h -- which arenas the lock of a pool (pools/pool.h) stops.
 *
 * The pool's lock stops every arena that may be working, and a pool with many streams would pay for
 * all of them each time. An arena which nobody has used through many locks therefore falls asleep,
 * and later locks pass by. The first call that uses the arena again takes the pool's lock and wakes
 * it.
 *
 *   P30  an arena that is not awake may neither allocate nor free without the pool's lock, counts
 *        nothing, has no loose block, and its inbox is closed and empty; it is in its pool's list
 *        of those asleep exactly if it is a stream's that is not retired
 *
 *   P32  a pool is in its device's list of pools awake exactly if an arena of it is awake
 *
 *   P34  a released pool which nothing claims but calls, and which has no DISCARDED block, is READY,
 *        PARKED or being ended while nobody has its lock; a pool with its handle is none of these
 *
 *   P36  a pool is in its device's list of those WAITING exactly if it has pending blocks or arenas
 *        of retired streams, and in the lists of those HELD, OPEN and with STRAYS exactly if it has
 *        holds, open ones, and ever had a block in memory of another arena, while nobody has its lock
 *
 * Claims on a pool end under its lock. The release of the lock therefore makes a released pool
 * READY, and the janitor finds it without a look at any other (pools/janitor.h). A READY pool may
 * have been claimed again.
 *
 * The arena's own lock guards the changes from awake to asleep and back: another thread that has
 * found the arena takes this lock, and sees that the arena may do nothing. While it sleeps the
 * pool's lock alone guards its heaps.
 *
 * Stopping an arena and letting it go costs some 30 ns, and a call that wakes one about a
 * microsecond. An arena therefore stays awake for some thirty unused locks, and of the locks that
 * count costs at most twice as much as by the best choice in hindsight. Many streams allocate once
 * and never again: a new arena without reserved memory stays awake for half as many, and wakes once
 * more than by the best choice if its stream comes back. Where more streams take turns than locks
 * are counted, each would find its arena asleep. A lock that only wakes the arena of its call
 * therefore counts for none, up to 256 arenas awake. Beyond, each lock counts for a while: to stop
 * so many costs more than to wake one.
 *
 * A view of several pools at one moment needs all of them at once, and no thread may have two locks
 * of one rank. A pool is therefore stopped: locked, and its own lock given back, while its arenas stay
 * stopped. Whoever locks the pool waits until then, at the lock of the pool's idle memory, which is
 * held besides. The DEVICE lock is held all the time, so one thread at a time stops pools.
 *
 * Source: the rent-or-buy argument, A. Karlin et al., Competitive snoopy caching (Algorithmica 3,
 * 1988).
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_POOL_LOCK_H
#define TARN_POOLS_POOL_LOCK_H

#include "pools/device.h"
#include "pools/pool.h"

/* Changes how far the end of a released pool has come. What is PARKED or being ended changes under
 * the DEVICE lock alone. */
void tn_ending_put(tarn_pool *pool, enum tn_ending ending);

/* Stops the pool, and lets it go on. Between, this thread alone may look at it, with the pool's own
 * lock (tn_pool_look_begin), and change nothing. The DEVICE lock is held. */
void tn_pool_stop(tarn_pool *pool);
void tn_pool_resume(tarn_pool *pool);

/* Takes the own lock of a stopped pool, and gives it back. */
void tn_pool_look_begin(tarn_pool *pool);
void tn_pool_look_end(tarn_pool *pool);

/* The first of the pools that are READY, which comes behind the others; NULL: none. The DEVICE lock
 * is held. */
tarn_pool *tn_ending_next(tarn_device *device);

/* How many pools are READY, or PARKED. */
uint64_t tn_ending_count(tarn_device *device, enum tn_ending ending);

/* Makes the PARKED pools READY. The DEVICE lock is held. */
void tn_ending_unpark(tarn_device *device);

/* The arena is locked from here on like all that are awake. tn_arena_wake_to_use: for a call that
 * allocates there or frees. */
void tn_arena_wake(tarn_pool *pool, struct tn_arena *arena);
void tn_arena_wake_to_use(tarn_pool *pool, struct tn_arena *arena);

/* Puts a stopped arena to sleep, and lets go of its lock. */
void tn_arena_sleep(tarn_pool *pool, struct tn_arena *arena);

/* The next pool of the list which this round of visits has not met; NULL: none. A pool which enters
 * the list meanwhile may be left out. Locked once more in each round, a pool that nobody uses falls
 * asleep. The DEVICE lock is held, and a pool which is going may be met. */
tarn_pool *tn_pools_next(tarn_device *device, enum tn_pool_list list, uint64_t round);

/* Enters the pool in one of the lists but READY and PARKED, or takes it out. The pool's lock
 * is held. */
void tn_pool_list(tarn_pool *pool, enum tn_pool_list list, bool listed);

/* The adopted pool of this capture, which is not known to be over; NULL: none. The DEVICE lock is
 * held. */
tarn_pool *tn_pools_find_adopting(tarn_device *device, uint64_t capture_id);
#endif
