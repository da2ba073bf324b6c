// SPDX-License-Identifier: Apache-2.0
/* watches.h -- a watch is made over blocks of several pools, and ended.
 *
 * Locking: the functions take the lock of each block's pool in turn. */
#ifndef TARN_POOLS_WATCHES_H
#define TARN_POOLS_WATCHES_H

#include "claims/watch.h"
#include "pools/pool.h"

/* A watch with room for so many blocks, of the pool's device; word stands still as long as it does. HOST_MEMORY. */
TARN_MUST_CHECK tarn_status tn_watch_init(struct tn_watch *watch, tarn_pool *replayer, bool keeps,
                                          size_t capacity, _Atomic uint64_t *word, uint64_t fresh,
                                          uint64_t stale);

/* Adds the block with that number, at the address at which it begins, as the next one; where that is not live any more it is the first
 * that is gone. One of another device is not watched. HOST_MEMORY: it is not watched. */
TARN_MUST_CHECK tarn_status tn_watch_add(struct tn_watch *watch, uint64_t address,
                                         uint64_t sequence);

/* Watches nothing any more. What was kept waits for a proof that the device was idle since. No lock may be held. */
void tn_watch_end(struct tn_watch *watch);

#endif
