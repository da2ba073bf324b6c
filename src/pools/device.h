// SPDX-License-Identifier: Apache-2.0
/* device.h -- the allocator of one CUDA device.
 *
 * Locking: the list of open devices and their user counts are guarded by the PROCESS lock, the list
 * of pools by the DEVICE lock, routes by the ROUTES lock. */
#ifndef TARN_POOLS_DEVICE_H
#define TARN_POOLS_DEVICE_H

#include "pools/pool.h"
#include "pools/route.h"

struct tarn_device {
    _Atomic uint64_t magic; /* TN_DEVICE_MAGIC; 0 in a recycled record */
    tarn_device *next;      /* guarded by the PROCESS lock; links recycled records */
    uint64_t user_count;    /* guarded by the PROCESS lock */
    struct tn_gpu gpu;
    struct tn_regions regions;
    uint64_t limit_bytes; /* immutable; 0: none */
    struct tn_lock lock;  /* rank DEVICE */
    tarn_pool *pools;     /* guarded by lock; the default pool last */
    tarn_pool *default_pool; /* immutable */
    struct tn_routes routes;
    atomic_uint_fast64_t charged_bytes; /* mapped, or about to be: what the limit is for */
    atomic_uint_fast64_t mapped_bytes;
    atomic_uint_fast64_t mapped_peak_bytes;
    struct tn_hold *_Atomic gone_holds; /* to be reaped; pushed without a lock */
};

#define TN_DEVICE_MAGIC 0x546e446576303031ULL

TARN_MUST_CHECK tarn_status tn_device_open(int ordinal, uint64_t region_bytes,
                                           uint64_t limit_bytes, tarn_device **device);
TARN_MUST_CHECK tarn_status tn_device_close(tarn_device *device);

/* Drops the holds whose claimants are gone, and ends released pools that only they kept. Cheap when
 * there is none. No lock may be held. */
void tn_device_reap(tarn_device *device);

/* The two halves of it. */
void tn_device_drop_gone(tarn_device *device);
void tn_device_end_released(tarn_device *device);

/* Closes the open holds of a capture that is over in all pools of the device: by its id, or by the
 * graph that it made. No lock may be held. */
void tn_device_close_capture(tarn_device *device, uint64_t capture_id, tn_cu_graph graph);

/* Counts bytes about to be mapped against the device's limit. LIMIT. */
TARN_MUST_CHECK tarn_status tn_device_charge(tarn_device *device, uint64_t bytes);
void tn_device_discharge(tarn_device *device, uint64_t bytes);

/* Counts what was charged and is mapped, or is so no more, for the statistics. */
void tn_device_count_mapped(tarn_device *device, uint64_t bytes);
void tn_device_count_unmapped(tarn_device *device, uint64_t bytes);

#endif
