// SPDX-License-Identifier: Apache-2.0
/* watches.h -- watches over blocks of several pools, made and ended.
 *
 * Locking: the functions take the lock of each block's pool in turn. */
#ifndef TARN_POOLS_WATCHES_H
#define TARN_POOLS_WATCHES_H

#include "claims/watch.h"
#include "pools/pool.h"

/* Makes a watch with room for capacity blocks of the pool's device; word stays valid as long as the
 * watch. HOST_MEMORY. */
TARN_MUST_CHECK tarn_status tn_watch_init(struct tn_watch *watch, tarn_pool *replayer, bool keeps,
                                          size_t capacity, _Atomic uint64_t *word, uint64_t fresh,
                                          uint64_t stale);

/* Adds the block which begins at the address, with this sequence number, as the next one. If this
 * block is no longer live, the watch is told, as by a free. A block of another device is not
 * watched. HOST_MEMORY: the block is not watched. */
TARN_MUST_CHECK tarn_status tn_watch_add(struct tn_watch *watch, uint64_t address,
                                         uint64_t sequence);

/* Ends a watch that has no block yet, or whose blocks were gone when they were added. */
void tn_watch_drop(struct tn_watch *watch);

/* Ends the watch. Unless it is a lease, kept blocks wait for a proof that the device was idle since. No lock may be
 * held. */
void tn_watch_end(struct tn_watch *watch);

#endif
