// SPDX-License-Identifier: Apache-2.0
/* totals.h -- what is counted of a pool and of a device, added up, kept when a pool goes, and reset.
 *
 * A device's totals are the sums over its pools, and what pools that are gone had counted, which is kept when
 * they leave the device's list. Its peaks of blocks are bounds: at any time no pool had more live than its own
 * peak, so the sum of the peaks of the pools that were there then is not below. When a pool has left, or its peaks
 * were reset, what they were is added to those of the others, and the highest sum is kept. The others are looked at
 * afterwards: so theirs have all that was there at the same time. What is mapped is counted by the device itself,
 * so there the peaks are exact.
 *
 * Locking: none may be held, except where said.
 *
 * Trade-offs: who ends a pool takes the locks of all the device's pools, one after the other. */
#ifndef TARN_POOLS_TOTALS_H
#define TARN_POOLS_TOTALS_H

#include "pools/device.h"

/* What a device has counted: the sums over its pools, and what is mapped. All that programs read of a device's
 * counters comes from here. */
struct tn_totals {
    struct tn_metric metrics[TN_METRICS];
    struct tn_event events[TN_EVENTS];
    uint64_t alloc_count;
    uint64_t free_count;
    uint64_t pool_count; /* of the pools that are there, those for the statistics */
};

/* Locks the pool, with what is only reckoned when it is asked for. */
void tn_totals_lock(tarn_pool *pool);

/* The device's totals now. */
void tn_totals_read(tarn_device *device, struct tn_totals *totals);

/* The parts of tn_totals_read, for a caller who looks at more of each pool. Begins with what pools that are gone have
 * left to the device, adds each pool that is there, which is locked, and ends with the peaks and with what the device
 * has mapped. The DEVICE lock is held. */
void tn_totals_begin(const tarn_device *device, struct tn_totals *totals);
void tn_totals_add(struct tn_totals *totals, tarn_pool *pool);
void tn_totals_end(tarn_device *device, struct tn_totals *totals);

/* What is counted from now on. */
void tn_pool_reset_peaks(tarn_pool *pool);
void tn_pool_reset_totals(tarn_pool *pool);
void tn_device_reset_peaks(tarn_device *device);
void tn_device_reset_totals(tarn_device *device);

/* A pool has left its device, which keeps what the pool's peaks and those of the others add up to. The DEVICE lock
 * is held since then, and no pool's. */
void tn_totals_keep_peaks(tarn_pool *pool);

/* The pool leaves: the device keeps its totals; and once more, what happened at its end. The DEVICE lock is
 * held; the pool's too, or the pool is nobody else's any more. */
void tn_totals_keep(tarn_pool *pool);
void tn_totals_keep_events(tarn_pool *pool);

#endif
