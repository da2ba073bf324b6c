// SPDX-License-Identifier: Apache-2.0
/* host.h -- page-locked memory of the host, as a location of pools.
 *
 * Copies between host and device run at full speed, and beside other work, with page-locked memory
 * alone. A pool in the location TARN_LOCATION_HOST (tarn_pool_options) hands it out as other pools
 * hand out memory of a device. The memory lies on the NUMA node that is near the device. The
 * process and every device may use it, in every context. See docs/host.md.
 *
 * Orders: memory of the host belongs to no stream. The caller may write a block at once, so what is
 * handed out has no use left. A plain tarn_free comes in the order of the calling thread: the block
 * may serve any thread from then on. Name each stream that copies from a block or to it:
 *
 *   tarn_host_malloc(device, bytes, &staging);
 *   memcpy(staging, source, bytes);
 *   cuMemcpyHtoDAsync(weights, (CUdeviceptr)staging, bytes, stream) ...
 *   tarn_free_on(staging, stream);            // the block waits for the copy, the thread does not
 *
 * A pool in TARN_LOCATION_REGISTERED has memory that is faster to take, in pieces of 16 MiB, and no
 * block above. Its allocations may register memory: other threads' calls then wait for 0.4 ms at a
 * time. tarn_pool_trim of such a pool waits for the device's work.
 *
 * Checkpoints with contents (checkpoint.h): the take and the restore of such a pool wait for their
 * copies. A restore without contents is ordered on its stream alone: wait for the stream before the
 * process writes to a block that is live again.
 *
 * tarn_record_stream and tarn_free_on take streams of any device, and addresses of live blocks. A
 * stream that is not done delays its own blocks alone.
 *
 * Captures: allocations need no route and no begin of their own. A block that was named with a
 * capturing stream is an input of that graph, whose replays read or write it. Freed, such a block
 * waits until the graph is gone, with its executables, its clones and the last launch. A block that
 * no captured work was named for is free at once, as outside captures.
 *
 * Sharing: a pool of the host cannot be shared with other processes (TARN_POOL_SHARED).
 *
 * Threads: all functions may be called from any thread, and while any stream is being captured. */
#ifndef TARN_HOST_H
#define TARN_HOST_H

#include "tarn/memory.h"
#include "tarn/stats.h"
#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Allocates page-locked memory from the device's default pool of the host. An open route may lead
 * to another pool (tarn_begin_allocate_to_pool). The address is aligned to 512 bytes, and good for
 * the process and for all devices alike. 0 bytes give TARN_OK and NULL. The caller owns the block,
 * and frees it by tarn_free or tarn_free_on. The calling thread needs no context. The contents are
 * undefined.
 *   INVALID_HANDLE    Not an open device.
 *   INVALID_ARGUMENT  address is NULL.
 *                     bytes is above 2^40.
 *   NOT_SUPPORTED     The driver maps no memory of the host for this device.
 *   HOST_MEMORY       No page-locked memory is left, free memory of other pools included.
 *   ADDRESS_SPACE     No range of addresses is left.
 *   LIMIT, FORKED, DEVICE_LOST, POISONED, DRIVER. */
TARN_API_HOT TARN_MUST_CHECK tarn_status tarn_host_malloc(tarn_device *device, size_t bytes,
                                                          void **address);

/* Gives the device's default pool of the host, for limits, trims, statistics and checks. The pool
 * is made by the first call of this function or of tarn_host_malloc. It goes with the device, and
 * can be neither destroyed nor released. With pinned_use_cuda_host_register (device.h) the pool
 * serves blocks above 16 MiB; tarn_device_pools names the other one, "registered".
 *   INVALID_HANDLE    Not an open device.
 *   INVALID_ARGUMENT  pool is NULL.
 *   NOT_SUPPORTED     The driver maps no memory of the host for this device.
 *   HOST_MEMORY, FORKED, DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_host_pool(tarn_device *device, tarn_pool **pool);

/* Statistics of all pools of the device whose memory is the host's, and of their cache. Those of
 * tarn_device_stats leave these pools out. Counts of calls and of whole devices are the same in
 * both.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  stats is NULL, or its size is wrong (tarn/types.h). */
TARN_API TARN_MUST_CHECK tarn_status tarn_host_stats(tarn_device *device, tarn_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
