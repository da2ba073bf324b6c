// SPDX-License-Identifier: Apache-2.0
/* lists.h -- the pools of a device, and the live blocks of a pool, each list at one moment.
 *
 * A list is one allocation, which tn_host_free ends.
 *
 * Locking: none may be held, unless a comment says so. */
#ifndef TARN_OBSERVE_LISTS_H
#define TARN_OBSERVE_LISTS_H

#include "pools/device.h"
#include "tarn/pool.h"

/* Whether lists show the pool: they leave out pools in the making, and adopted pools without a block
 * so far. The pool's lock is held, here and for the kind. */
bool tn_pool_is_listed(const tarn_pool *pool);
tarn_pool_kind tn_pool_kind(const tarn_pool *pool);

/* The pool's handle, for lists; NULL: pools of this kind have none. */
static inline tarn_pool *tn_pool_handle(tarn_pool *pool, tarn_pool_kind kind)
{
    return kind == TARN_POOL_DEFAULT || kind == TARN_POOL_PRIVATE ? pool : NULL;
}

/* HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_device_list_pools(tarn_device *device, tarn_pool_list **list);
TARN_MUST_CHECK tarn_status tn_pool_list_blocks(tarn_pool *pool, tarn_block_list **list);

#endif
