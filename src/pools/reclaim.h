// SPDX-License-Identifier: Apache-2.0
/* reclaim.h -- giving memory back: trim.
 *
 * Locking: no lock may be held; each pool's is taken in turn. */
#ifndef TARN_POOLS_RECLAIM_H
#define TARN_POOLS_RECLAIM_H

#include "pools/device.h"

/* Gives free chunks of one pool back to the driver, what was mapped ahead and the highest addresses
 * first, until the pool maps no more than keep_bytes or nothing more can go; after a wait for the
 * device when wait is true and something that should go is not proven idle. Gives back regions that
 * are empty then. Returns the bytes that went in *freed_bytes.
 *   DEVICE_MEMORY, DRIVER: the device could not be waited for; what was proven is unmapped */
TARN_MUST_CHECK tarn_status tn_pool_trim(tarn_pool *pool, uint64_t keep_bytes, bool wait,
                                         uint64_t *freed_bytes);

/* The same for the device: its cache, then all of its pools, until no more than keep_bytes are mapped
 * and cached. */
TARN_MUST_CHECK tarn_status tn_device_trim(tarn_device *device, uint64_t keep_bytes, bool wait,
                                           uint64_t *freed_bytes);

#endif
