// SPDX-License-Identifier: Apache-2.0
/* lists.h -- the pools of a device, and the live blocks of a pool, each list at one moment.
 *
 * A list is one allocation, which tn_host_free ends.
 *
 * Locking: none may be held. */
#ifndef TARN_OBSERVE_LISTS_H
#define TARN_OBSERVE_LISTS_H

#include "pools/device.h"
#include "tarn/pool.h"

/* HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_device_list_pools(tarn_device *device, tarn_pool_list **list);
TARN_MUST_CHECK tarn_status tn_pool_list_blocks(tarn_pool *pool, tarn_block_list **list);

#endif
