// SPDX-License-Identifier: Apache-2.0
/* reclaim.h -- giving memory back: trim.
 *
 * Locking: no lock may be held; each pool's is taken in turn. */
#ifndef TARN_POOLS_RECLAIM_H
#define TARN_POOLS_RECLAIM_H

#include "pools/device.h"

/* Gives free chunks of one pool back to the driver, until the pool maps no more than keep_bytes or
 * nothing more can go. Memory mapped ahead and the highest addresses go first. If wait is true and
 * chunks that should go are not proven idle, waits for the device first. Gives back regions which
 * are empty then. *freed_bytes: the bytes given back.
 *   DEVICE_MEMORY, DRIVER: the device could not be waited for; what was proven is unmapped */
TARN_MUST_CHECK tarn_status tn_pool_trim(tarn_pool *pool, uint64_t keep_bytes, bool wait,
                                         uint64_t *freed_bytes);

/* tn_pool_trim without a wait, which is no event of the pool: for pools of Tarn's own. */
void tn_pool_shrink(tarn_pool *pool, uint64_t keep_bytes);

/* tn_pool_trim for the device: its cache, then all of its pools, until no more than keep_bytes are
 * mapped and cached. */
TARN_MUST_CHECK tarn_status tn_device_trim(tarn_device *device, bool host, uint64_t keep_bytes,
                                           bool wait, uint64_t *freed_bytes);

#endif
