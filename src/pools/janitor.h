// SPDX-License-Identifier: Apache-2.0
/* janitor.h -- what calls do on their way for finished work: they drop holds whose graphs are gone,
 * and end released pools which nothing keeps.
 *
 * Most calls begin with a reap, whatever their purpose, and end with an unpin. A function waits for
 * the device only if its comment says this.
 *
 * Locking: no lock may be held. */
#ifndef TARN_POOLS_JANITOR_H
#define TARN_POOLS_JANITOR_H

#include "pools/device.h"

/* Drops the holds whose claimants are gone, and ends released pools without claims whose memory is
 * all proven idle. Cheap without any. */
void tn_device_reap(tarn_device *device);

/* The two halves of tn_device_reap. */
void tn_device_drop_gone(tarn_device *device);
void tn_device_end_released(tarn_device *device);

/* Ends released pools without claims before the device closes. Waits for the device if their memory
 * may be in use.
 *   DEVICE_LOST, DRIVER: the wait failed */
TARN_MUST_CHECK tarn_status tn_device_clear(tarn_device *device);

/* Before a pool is made: where many released pools wait for a proof, waits for the device and ends
 * them. */
void tn_device_bound_released(tarn_device *device);

/* The call is over: a pool whose handle was given up may go with it. */
void tn_pool_unpin(tarn_pool *pool);

/* tn_pool_unpin for a device, which does not close while its default pool is pinned. */
static inline void tn_device_unpin(tarn_device *device)
{
    tn_pool_unpin(device->default_pool);
}

#endif
