// SPDX-License-Identifier: Apache-2.0
/* stats.h -- what a pool and a device say of themselves.
 *
 * Locking: none may be held; each pool's is taken in turn. */
#ifndef TARN_OBSERVE_STATS_H
#define TARN_OBSERVE_STATS_H

#include "pools/device.h"
#include "tarn/device.h"

void tn_pool_read_stats(tarn_pool *pool, tarn_pool_stats *stats);
void tn_device_read_stats(tarn_device *device, tarn_device_stats *stats);

/* HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_pool_read_layout(tarn_pool *pool, tarn_layout **layout);

#endif
