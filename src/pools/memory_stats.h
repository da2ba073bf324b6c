// SPDX-License-Identifier: Apache-2.0
/* memory_stats.h -- all that is counted, of a pool and of a device, and what of it is kept when a pool goes.
 *
 * Locking: none may be held, except where said. */
#ifndef TARN_POOLS_MEMORY_STATS_H
#define TARN_POOLS_MEMORY_STATS_H

#include "tarn/stats.h"

void tn_pool_read_memory_stats(tarn_pool *pool, tarn_memory_stats *stats);
void tn_device_read_memory_stats(tarn_device *device, tarn_memory_stats *stats);

/* What is counted from now on. */
void tn_pool_reset_peaks(tarn_pool *pool);
void tn_pool_reset_totals(tarn_pool *pool);
void tn_device_reset_peaks(tarn_device *device);
void tn_device_reset_totals(tarn_device *device);

/* A pool has left its device, which keeps what the pool's peaks and those of the others add up to. The DEVICE lock
 * is held since then, and no pool's. */
void tn_stats_keep_peaks(tarn_pool *pool);

/* The pool leaves: the device keeps its totals; and once more, what happened at its end. The DEVICE lock is
 * held; the pool's too, or the pool is nobody else's any more. */
void tn_stats_keep(tarn_pool *pool);
void tn_stats_keep_events(tarn_pool *pool);

#endif
