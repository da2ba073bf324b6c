// SPDX-License-Identifier: Apache-2.0
/* stats.h -- all counts of a pool and of a device.
 *
 * Locking: none may be held; each pool's is taken in turn. */
#ifndef TARN_OBSERVE_STATS_H
#define TARN_OBSERVE_STATS_H

#include "tarn/stats.h"

/* Writes every field. walk: each chunk, segment and free block is looked at; else the walked fields
 * are 0. */
void tn_pool_read_stats(tarn_pool *pool, bool walk, tarn_stats *stats);
void tn_device_read_stats(tarn_device *device, bool host, bool walk, tarn_stats *stats);

#endif
