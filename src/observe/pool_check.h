// SPDX-License-Identifier: Apache-2.0
/* check.h -- the invariants of a pool, of its arenas, segments and chunks, computed again.
 *
 * A build with TARN_DEBUG_CHECKS checks a pool at an unlock, in turns: the next turn comes after as
 * many unlocks as the last check looked at things.
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_CHECK_H
#define TARN_POOLS_CHECK_H

#include "pools/pool.h"

/* Returns TARN_OK, or CORRUPT with the first broken invariant and both values in the sentence.
 * Covers V4 to V7, P1 to P9, P14, P16 and P18 to P27 but for P25. Changes only scratch fields. Adds
 * to *steps the number of things looked at. */
TARN_MUST_CHECK tarn_status tn_pool_check_own(tarn_pool *pool, uint64_t *steps);

#endif
