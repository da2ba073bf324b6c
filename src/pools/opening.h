// SPDX-License-Identifier: Apache-2.0
/* opening.h -- opening and closing devices, counted among their users.
 *
 * Locking: the PROCESS lock guards the list of open devices and their user counts. No lock may be
 * held. */
#ifndef TARN_POOLS_OPENING_H
#define TARN_POOLS_OPENING_H

#include "pools/device.h"

/* options: checked, with all defaults filled in. stated: the options are the program's, so an open
 * device must have their null_stream. check_pool: what a device that is opened here checks its pools
 * with.
 *   WRONG_STATE: the open device has another null_stream; any status of opening a device */
TARN_MUST_CHECK tarn_status tn_device_open(int ordinal, const tarn_device_options *options,
                                           bool stated, tn_pool_checker check_pool,
                                           tarn_device **device);
TARN_MUST_CHECK tarn_status tn_device_close(tarn_device *device);

/* A default pool of page-locked memory, which is made here when it is first asked for. PIECES: of
 * registered memory; where the device has none, MAPPED. STAGING: of memory that is mapped; where
 * the device maps none of the host, of registered memory.
 *   NOT_SUPPORTED: the device maps no memory of the host; HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_device_host_pool(tarn_device *device, enum tn_host_pool kind,
                                                tarn_pool **pool);

/* Which of them serves tarn_host_malloc. */
static inline enum tn_host_pool tn_host_pool_kind(const tarn_device *device, uint64_t bytes)
{
    return device->host.registers && bytes <= TN_HOST_PIECE_BYTES ? TN_HOST_PIECES : TN_HOST_MAPPED;
}

/* Prepares the device for pools of registered memory: see tn_pieces_open. */
TARN_MUST_CHECK tarn_status tn_device_open_pieces(tarn_device *device);

/* Whether an open device has reserved the address. */
bool tn_devices_contain(uint64_t address);

#define TN_PINNED_BYTES_DEFAULT ((uint64_t)256 << 20) /* of page-locked memory */

/* How much a cache may keep, of an option or a setter: 0 is the default, and TARN_NO_CACHE
 * nothing. */
static inline uint64_t tn_cache_bytes(size_t given, uint64_t default_bytes)
{
    if (given == TARN_NO_CACHE)
        return 0;
    return given != 0 ? given : default_bytes;
}

#endif
