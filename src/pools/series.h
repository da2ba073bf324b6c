// SPDX-License-Identifier: Apache-2.0
/* series.h -- pools whose graphs share memory: their replays are one series: P17.
 *
 * Locking: see each function. */
#ifndef TARN_POOLS_SERIES_H
#define TARN_POOLS_SERIES_H

#include "pools/pool.h"

/* Makes the pool share its record with all pools of the device which have a hold of the capture, or
 * of a capture into the graph. The last replay is unknown then, so the next replay waits for the
 * device. No lock of rank DEVICE or above may be held. */
void tn_replays_merge_pools(tarn_pool *pool, uint64_t capture_id, tn_cu_graph graph);

#endif
