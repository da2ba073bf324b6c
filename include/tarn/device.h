// SPDX-License-Identifier: Apache-2.0
/* device.h -- the allocator of one CUDA device.
 *
 * A tarn_device is shared by everyone in the process who opens the same ordinal, and counted. It
 * owns the reserved addresses, the default pool and every private pool of that device.
 *
 * Which driver: the environment variable TARN_DRIVER is `cuda` (the default: libcuda.so.1), `sim`
 * (the simulated driver that comes with Tarn), or the path of a library with the driver's
 * functions. Tarn never chooses the simulator by itself.
 *
 * All functions may be called from any thread, with any CUDA context current or none, and leave the
 * current context as it was. */
#ifndef TARN_DEVICE_H
#define TARN_DEVICE_H

#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the first user of a device may choose. Make one with TARN_DEVICE_OPTIONS_INIT. */
typedef struct tarn_device_options {
    size_t size;         /* sizeof(tarn_device_options), set by the INIT macro */
    size_t region_bytes; /* addresses reserved at a time: a power of two, 1 GiB to 4 TiB; 0: 4 TiB,
                            halved until the driver grants it */
    size_t limit_bytes;  /* physical memory that Tarn may map on this device; 0: no limit */
} tarn_device_options;

#define TARN_DEVICE_OPTIONS_INIT {sizeof(tarn_device_options), 0, 0}

typedef struct tarn_device_info {
    size_t size;        /* sizeof(tarn_device_info), set by the caller */
    int ordinal;        /* of the CUDA device */
    int driver_version; /* as the driver says: 13000 is CUDA 13.0 */
    size_t total_bytes; /* physical memory of the device */
    char name[128];     /* as the driver says */
    char driver[256];   /* the library loaded: its name or path */
    bool simulated;     /* the driver is the simulated one */
} tarn_device_info;

/* Sums over the device's pools, at one moment for each pool. All in bytes unless named otherwise. */
typedef struct tarn_device_stats {
    size_t size;                /* sizeof(tarn_device_stats), set by the caller */
    uint64_t reserved_bytes;    /* addresses reserved from the driver */
    uint64_t mapped_bytes;      /* physical memory mapped: what cuMemGetInfo shows as taken */
    uint64_t mapped_peak_bytes; /* its highest value since the device was opened; exact */
    uint64_t live_bytes;        /* in live blocks, rounded as they were taken */
    uint64_t requested_bytes;   /* in live blocks, as requested */
    uint64_t pool_count;        /* pools, the default pool included */
    uint64_t route_count;       /* routes open */
    uint64_t idle_waits;        /* times that Tarn waited for the whole device */
} tarn_device_stats;

/* Opens the device of that ordinal, or counts one more user of it.
 * options: NULL for defaults; used by the first open only, checked by every one.
 * *device: owned by the process; give it back with tarn_device_close.
 *   INVALID_ARGUMENT   device is NULL, or an option is out of range
 *   NO_DRIVER          TARN_DRIVER names a library that cannot be loaded; the sentence says why
 *   DRIVER_TOO_OLD     the driver lacks a function; the sentence names it and its version
 *   NO_DEVICE          no device, or none of that ordinal
 *   NOT_SUPPORTED      the device has no virtual memory management
 *   ADDRESS_SPACE      no range of at least 1 GiB of addresses was granted
 *   DEVICE_MEMORY      not even the few bytes that Tarn needs to wait for a device
 *   HOST_MEMORY, FORKED, DEVICE_LOST, DRIVER */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_open(int ordinal,
                                                      const tarn_device_options *options,
                                                      tarn_device **device);

/* Gives one use back. The last one returns all memory and addresses to the driver; it waits for the
 * device first when free memory may still be in use.
 *   INVALID_HANDLE  not an open device
 *   BUSY            the last use, while a block is live or a private pool, capture, graph,
 *                   checkpoint or route exists; the sentence counts them
 *   DRIVER          the last use: the device could not be waited for */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_close(tarn_device *device);

/*   INVALID_HANDLE; INVALID_ARGUMENT: info is NULL or its size is unknown; DEVICE_LOST, POISONED */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_get_info(tarn_device *device,
                                                          tarn_device_info *info);

/*   INVALID_HANDLE; INVALID_ARGUMENT: stats is NULL or its size is unknown */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_get_stats(tarn_device *device,
                                                           tarn_device_stats *stats);

/* The pool that serves every allocation that no route catches. It lives as long as the device and
 * is not destroyed by the caller.
 *   INVALID_HANDLE; INVALID_ARGUMENT: pool is NULL */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_default_pool(tarn_device *device,
                                                              tarn_pool **pool);

#ifdef __cplusplus
}
#endif
#endif
