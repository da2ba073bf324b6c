// SPDX-License-Identifier: Apache-2.0
/* extents.h -- a pool's segments, cut into extents.
 *
 * Locking: none may be held; the pool's is taken. */
#ifndef TARN_OBSERVE_EXTENTS_H
#define TARN_OBSERVE_EXTENTS_H

#include "tarn/pool.h"

/* HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_pool_read_layout(tarn_pool *pool, tarn_layout **layout);

#endif
