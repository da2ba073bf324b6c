// SPDX-License-Identifier: Apache-2.0
/* peers.h -- other devices that may use a device's memory.
 *
 * A pool's own list of peers is in its record. The device's list holds for each of its pools, for
 * those that are made later, and for memory of other processes that is mapped here.
 *
 * Locking: the DEVICE lock keeps the list of pools, and peers come one after the other. */
#ifndef TARN_POOLS_PEERS_H
#define TARN_POOLS_PEERS_H

#include "pools/device.h"

/* Gives a peer access to the pool's mappings, present and future; all or nothing. No lock of rank
 * DEVICE or later may be held.
 *   DRIVER, DEVICE_LOST */
TARN_MUST_CHECK tarn_status tn_peers_add_to_pool(tarn_pool *pool, int peer);

/* The same for all pools of the device, present and future, and for its imports. */
TARN_MUST_CHECK tarn_status tn_peers_add_to_device(tarn_device *device, int peer);

#endif
