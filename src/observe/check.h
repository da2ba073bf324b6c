// SPDX-License-Identifier: Apache-2.0
/* check.h -- the invariants of a pool, recomputed.
 *
 * Locking: the pool's lock. */
#ifndef TARN_OBSERVE_CHECK_H
#define TARN_OBSERVE_CHECK_H

#include "pools/pool.h"

/* TARN_OK, or CORRUPT with the first broken invariant and both values in the sentence. Covers V4 to V7,
 * P1 to P9 and P14, and by the device's table of streams P11 and P12. Changes only scratch fields. */
TARN_MUST_CHECK tarn_status tn_pool_check(tarn_pool *pool);

#endif
