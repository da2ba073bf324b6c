// SPDX-License-Identifier: Apache-2.0
/* totals.h -- counters of pools and of a device: added up, kept when a pool goes, and reset.
 *
 * A device's totals are the sums over its pools, and the counts of pools which are gone, kept when
 * they left the device's list. Peaks of blocks are upper bounds. No pool ever had more live than
 * its own peak. The sum of the peaks of all pools present at a time is therefore never too low.
 * When a pool leaves, or its peaks are reset, its old peaks are added to the peaks of the other
 * pools, and the highest sum is kept. The others' peaks are read afterwards, and include everything
 * live at the same time. The device has the sums of what pools have published (pools/counters.h),
 * so only pools with an arena awake, and pools whose peaks have changed, are locked for this. The
 * device itself counts mapped memory, whose peaks are exact.
 *
 * Locking: none may be held, except where a comment differs. */
#ifndef TARN_POOLS_TOTALS_H
#define TARN_POOLS_TOTALS_H

#include "pools/device.h"

/* Totals of a device: the sums over its pools, and mapped memory. All device counters which
 * programs read come from here. */
struct tn_totals {
    struct tn_metric metrics[TN_METRICS];
    struct tn_event events[TN_EVENTS];
    uint64_t alloc_count;
    uint64_t free_count;
    uint64_t pool_count; /* present pools which the statistics count */
};

/* Locks the pool, and computes the counters which are computed on demand. */
void tn_totals_lock(tarn_pool *pool);

/* The device's totals now, in its own memory or in the host's. */
void tn_totals_read(tarn_device *device, bool host, struct tn_totals *totals);

/* The parts of tn_totals_read, for a caller who reads more of each pool. Begin takes the counts of
 * pools which are gone. Add takes each present pool of the location, which is locked. End takes the peaks, and the
 * device's mapped memory. The DEVICE lock is held. */
void tn_totals_begin(tarn_device *device, bool host, struct tn_totals *totals);
void tn_totals_add(struct tn_totals *totals, tarn_pool *pool);
void tn_totals_end(tarn_device *device, bool host, struct tn_totals *totals);

/* Restart peaks or totals from now on. */
void tn_pool_reset_peaks(tarn_pool *pool);
void tn_pool_reset_totals(tarn_pool *pool);
void tn_device_reset_peaks(tarn_device *device);
void tn_device_reset_totals(tarn_device *device);

/* Before a pool is made: publishes the peaks of some pools, so that not many are left to the end of
 * one. */
void tn_totals_publish_some(tarn_device *device);

/* A pool has left its device: the device keeps the sum of its peaks and the others'. The DEVICE
 * lock has been held since then, and no pool's lock. */
void tn_totals_keep_peaks(tarn_pool *pool);

/* A pool is leaving: tn_totals_keep gives its totals to the device, tn_totals_keep_events the
 * events of its end. The DEVICE lock is held, and the pool's, unless the pool is nobody else's any
 * more. */
void tn_totals_keep(tarn_pool *pool);
void tn_totals_keep_events(tarn_pool *pool);

#endif
