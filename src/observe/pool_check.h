// SPDX-License-Identifier: Apache-2.0
/* pool_check.h -- the invariants of a pool, of its arenas, segments and chunks, computed again.
 *
 * A build with TARN_DEBUG_CHECKS checks a pool at an unlock (pools/pool_lock.c), in turns: the next
 * turn comes after as many unlocks as the last check looked at things. The lock reaches this unit
 * through a pointer of its device: no pool needs to know its checks.
 *
 * Locking: the pool's lock. */
#ifndef TARN_OBSERVE_POOL_CHECK_H
#define TARN_OBSERVE_POOL_CHECK_H

#include "pools/pool.h"

/* Returns TARN_OK, or CORRUPT with the first broken invariant and both values in the sentence.
 * Covers V4 to V7, P1 to P9, P14, P16, P18 to P38 but for P25, and P40. Changes only scratch fields. Adds
 * to *steps the number of things looked at. */
TARN_MUST_CHECK tarn_status tn_pool_check_own(tarn_pool *pool, uint64_t *steps);

#endif
