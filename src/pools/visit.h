// SPDX-License-Identifier: Apache-2.0
/* visit.h -- an action for each pool of a device.
 *
 * The DEVICE lock is held from the first pool to the last, and each pool is locked during its
 * visit. The order is the device's list: the newest pool first, the default pool last. */
#ifndef TARN_POOLS_VISIT_H
#define TARN_POOLS_VISIT_H

#include "pools/device.h"

/* Called with the pool locked. True ends the walk. */
typedef bool (*tn_pool_visitor)(tarn_pool *pool, void *context);

/* Visits the pools; true: a visitor has ended the walk. No lock of rank DEVICE or later may be
 * held. */
bool tn_device_visit(tarn_device *device, tn_pool_visitor visitor, void *context);

/* Visits the pools which have a hold with one of the keys, in the same order and with the same locks:
 * see tn_hold_index_pool. */
bool tn_device_visit_holders(tarn_device *device, const struct tn_hold_keys *keys,
                             tn_pool_visitor visitor, void *context);

/* The walk alone, for a caller who holds the DEVICE lock longer. */
bool tn_device_walk(tarn_device *device, tn_pool_visitor visitor, void *context);

#endif
