// SPDX-License-Identifier: Apache-2.0
/* check.h -- every invariant of a pool, and of its device's table of streams, computed again.
 *
 * Locking: the pool's lock. */
#ifndef TARN_OBSERVE_CHECK_H
#define TARN_OBSERVE_CHECK_H

#include "pools/pool.h"

/* Returns TARN_OK, or CORRUPT with the first broken invariant and both values in the sentence.
 * Covers what tn_pool_check_own does, P25, and P11 and P12 by the device's table of streams.
 * Changes only scratch fields. */
TARN_MUST_CHECK tarn_status tn_pool_check(tarn_pool *pool);

#endif
