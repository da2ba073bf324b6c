// SPDX-License-Identifier: Apache-2.0
/* janitor.h -- what calls do on their way for work that is over: holds whose graphs are gone are dropped,
 * and released pools that nothing keeps are ended.
 *
 * Most calls begin with a reap, whatever they are about, and end with an unpin. Only the functions that
 * say so wait for the device.
 *
 * Locking: no lock may be held. */
#ifndef TARN_POOLS_JANITOR_H
#define TARN_POOLS_JANITOR_H

#include "pools/device.h"

/* Drops the holds whose claimants are gone, and ends released pools without a claim and with no memory
 * that is not proven idle. Cheap when there is none. */
void tn_device_reap(tarn_device *device);

/* The two halves of it. */
void tn_device_drop_gone(tarn_device *device);
void tn_device_end_released(tarn_device *device);

/* Ends released pools that nothing claims, and waits for the device where their memory may be in use:
 * the device is about to close.
 *   DEVICE_LOST, DRIVER: the wait failed */
TARN_MUST_CHECK tarn_status tn_device_clear(tarn_device *device);

/* Before a pool is made: where many released pools wait for a proof, waits for the device and ends them. */
void tn_device_bound_released(tarn_device *device);

/* The call is over: a pool whose handle was given up may go with it. */
void tn_pool_unpin(tarn_pool *pool);

/* The same for a device, which is not closed while its default pool is pinned. */
static inline void tn_device_unpin(tarn_device *device)
{
    tn_pool_unpin(device->default_pool);
}

#endif
