// SPDX-License-Identifier: Apache-2.0
/* reclaim.h -- giving memory back: trim, and the ladder before an out-of-memory error.
 *
 * Locking: no lock may be held; each pool's is taken in turn. */
#ifndef TARN_POOLS_RECLAIM_H
#define TARN_POOLS_RECLAIM_H

#include "pools/device.h"

/* Unmaps what is free and proven idle in one pool, after a wait for the device when wait is true and
 * something is not proven. Returns the bytes that went in *freed_bytes.
 *   DEVICE_MEMORY, DRIVER: the device could not be waited for; what was proven is unmapped */
TARN_MUST_CHECK tarn_status tn_pool_trim(tarn_pool *pool, bool wait, uint64_t *freed_bytes);

/* The same for all pools of the device. */
TARN_MUST_CHECK tarn_status tn_device_trim(tarn_device *device, bool wait, uint64_t *freed_bytes);

/* The out-of-memory sentence: what was asked, what the driver has free, and which pools hold what.
 * Returns DEVICE_MEMORY. */
tarn_status tn_device_out_of_memory(tarn_device *device, const tarn_pool *pool, uint64_t bytes);

#endif
