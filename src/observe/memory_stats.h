// SPDX-License-Identifier: Apache-2.0
/* memory_stats.h -- all that is counted, of a pool and of a device.
 *
 * Locking: none may be held. */
#ifndef TARN_OBSERVE_MEMORY_STATS_H
#define TARN_OBSERVE_MEMORY_STATS_H

#include "tarn/stats.h"

void tn_pool_read_memory_stats(tarn_pool *pool, tarn_memory_stats *stats);
void tn_device_read_memory_stats(tarn_device *device, tarn_memory_stats *stats);

#endif
