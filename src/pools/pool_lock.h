// SPDX-License-Identifier: Apache-2.0
/* pool_lock.h -- which arenas the lock of a pool (pools/pool.h) stops.
 *
 * The pool's lock stops every arena that may be working, and a pool with many streams would pay for
 * all of them each time. An arena which nobody has used through many locks therefore falls asleep,
 * and later locks pass by. The first call that uses the arena again takes the pool's lock and wakes
 * it.
 *
 *   P30  an arena that is not awake may neither allocate nor free without the pool's lock, counts
 *        nothing, has no loose block, and its inbox is closed and empty
 *
 *   P32  a pool is in its device's list of pools awake exactly if an arena of it is awake
 *
 * The arena's own lock guards the changes from awake to asleep and back: another thread that has
 * found the arena takes this lock, and sees that the arena may do nothing. While it sleeps the
 * pool's lock alone guards its heaps.
 *
 * Stopping an arena and letting it go costs some 30 ns, and a call that wakes one about a
 * microsecond. An arena therefore stays awake for some thirty unused locks, and costs at most twice as
 * much as by the best choice in hindsight.
 *
 * Source: the rent-or-buy argument, A. Karlin et al., Competitive snoopy caching (Algorithmica 3,
 * 1988).
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_POOL_LOCK_H
#define TARN_POOLS_POOL_LOCK_H

#include "pools/pool.h"

/* The arena will be used: it is locked from here on like all that are awake. */
void tn_arena_wake(tarn_pool *pool, struct tn_arena *arena);

/* Puts a stopped arena to sleep, and lets go of its lock. */
void tn_arena_sleep(tarn_pool *pool, struct tn_arena *arena);

/* The next pool with an arena awake which this round of visits has not met; NULL: none. A pool which
 * wakes meanwhile may be left out. Locked once more in each round, a pool that nobody uses falls
 * asleep. The DEVICE lock is held, and a pool which is going may be met. */
tarn_pool *tn_awake_next(tarn_device *device, uint64_t round);

#endif
