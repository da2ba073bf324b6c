// SPDX-License-Identifier: Apache-2.0
/* visit.h -- an action for each pool of a device.
 *
 * The DEVICE lock is held from the first pool to the last, and each pool is locked during its
 * visit. The order is the device's list: the newest pool first, the default pool last. A list of
 * some pools has an order of its own. */
#ifndef TARN_POOLS_VISIT_H
#define TARN_POOLS_VISIT_H

#include "pools/device.h"

/* Called with the pool locked. True ends the walk. */
typedef bool (*tn_pool_visitor)(tarn_pool *pool, void *context);

/* Visits the pools; true: a visitor has ended the walk. No lock of rank DEVICE or later may be
 * held. */
bool tn_device_visit(tarn_device *device, tn_pool_visitor visitor, void *context);

/* Visits the pools which have a hold or an arena with one of the keys, in the same order and with the same locks:
 * see tn_pool_index_pool. */
bool tn_device_visit_holders(tarn_device *device, const struct tn_index_keys *keys,
                             tn_pool_visitor visitor, void *context);

/* Visits the pools of a list, each once, in the order of the list: see tn_pools_next. */
bool tn_device_visit_listed(tarn_device *device, enum tn_pool_list list, tn_pool_visitor visitor,
                            void *context);

/* The walks alone, for a caller who holds the DEVICE lock longer. */
bool tn_device_walk_holders(tarn_device *device, const struct tn_index_keys *keys,
                            tn_pool_visitor visitor, void *context);
bool tn_device_walk_listed(tarn_device *device, enum tn_pool_list list, tn_pool_visitor visitor,
                           void *context);
bool tn_device_walk(tarn_device *device, tn_pool_visitor visitor, void *context);

/* Stops all pools of the device at once, and lets them go on: pools/pool_lock.h. Between,
 * tn_device_look visits each of them, to look and not to change. The DEVICE lock is held from the
 * first of these calls to the last. */
void tn_device_stop(tarn_device *device);
void tn_device_look(tarn_device *device, tn_pool_visitor visitor, void *context);
void tn_device_resume(tarn_device *device);

/* Locks the pools with an arena awake once each: their counters are up to date then, and the numbers
 * which arenas had set aside are dropped. The DEVICE lock is held. */
void tn_device_lock_awake(tarn_device *device);

#endif
