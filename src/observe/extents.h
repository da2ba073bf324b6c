// SPDX-License-Identifier: Apache-2.0
/* extents.h -- a pool's segments, cut into extents.
 *
 * Locking: none may be held, and the pool's is taken, unless a comment says otherwise. */
#ifndef TARN_OBSERVE_EXTENTS_H
#define TARN_OBSERVE_EXTENTS_H

#include "heap/block.h"
#include "tarn/pool.h"

/* The block's state, as programs are told. A block that a poll has found unused is FREE. The lock of
 * its pool is held. */
tarn_extent_state tn_extent_state(const struct tn_block *block);

/* HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_pool_read_layout(tarn_pool *pool, tarn_layout **layout);

#endif
