// SPDX-License-Identifier: Apache-2.0
/* A pool that is made meanwhile waits for the DEVICE lock, and then has the device's peers from the
 * beginning: no pool is missed. */
#include "pools/peers.h"

#include "base/contract.h"
#include "pools/chunks.h"
#include "pools/pool_lock.h"
#include "pools/visit.h"

struct addition {
    int peer;
    tarn_status status;
};

tarn_status tn_peers_add_to_pool(tarn_pool *pool, int peer)
{
    tarn_device *device = pool->device;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    tn_lock_acquire(&device->lock);
    tn_pool_lock(pool);
    status = tn_pool_add_peer(pool, peer);
    tn_pool_unlock(pool);
    tn_lock_release(&device->lock);
    return status;
}

static bool add(tarn_pool *pool, void *context)
{
    struct addition *addition = context;
    const uint64_t before = pool->memory.peer_mask;

    addition->status = tn_pool_add_peer(pool, addition->peer);
    pool->memory.gains_peer = pool->memory.peer_mask != before;
    return addition->status != TARN_OK;
}

static bool take_back(tarn_pool *pool, void *context)
{
    const struct addition *addition = context;

    if (pool->memory.gains_peer)
        tn_pool_remove_peer(pool, addition->peer);
    pool->memory.gains_peer = false;
    return false;
}

static bool keep(tarn_pool *pool, void *context)
{
    (void)context;
    pool->memory.gains_peer = false;
    return false;
}

tarn_status tn_peers_add_to_device(tarn_device *device, int peer)
{
    struct addition addition = {.peer = peer, .status = TARN_OK};

    TN_ASSERT(tn_lock_none_held() && peer >= 0 && peer < TN_GPU_PEERS_MAX);
    tn_lock_acquire(&device->lock);
    (void)tn_device_walk(device, add, &addition);
    if (addition.status == TARN_OK)
        addition.status = tn_imports_add_peer(&device->imports, peer);
    if (addition.status == TARN_OK)
        device->peer_mask |= (uint64_t)1 << peer;
    (void)tn_device_walk(device, addition.status == TARN_OK ? keep : take_back, &addition);
    tn_lock_release(&device->lock);
    return addition.status;
}
