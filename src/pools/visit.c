// SPDX-License-Identifier: Apache-2.0
#include "pools/visit.h"

#include "base/contract.h"
#include "pools/pool.h"
#include "pools/pool_lock.h"

#include <stddef.h>

static bool visit(tarn_pool *pool, tn_pool_visitor visitor, void *context)
{
    bool ended;

    tn_pool_lock(pool);
    ended = visitor(pool, context);
    TN_ASSERT(tn_pool_is_locked(pool));
    tn_pool_unlock(pool);
    return ended;
}

bool tn_device_walk(tarn_device *device, tn_pool_visitor visitor, void *context)
{
    bool ended = false;

    TN_ASSERT(tn_lock_is_held(&device->lock));
    for (tarn_pool *pool = device->pools; pool != NULL && !ended; pool = pool->next)
        ended = visit(pool, visitor, context);
    return ended;
}

bool tn_device_walk_holders(tarn_device *device, const struct tn_index_keys *keys,
                            tn_pool_visitor visitor, void *context)
{
    uint64_t below = UINT64_MAX;
    bool ended = false;
    tarn_pool *pool;

    TN_ASSERT(tn_lock_is_held(&device->lock));
    while (!ended && (pool = tn_pool_index_pool(&device->index, keys, &below)) != NULL)
        ended = visit(pool, visitor, context);
    return ended;
}

bool tn_device_walk_listed(tarn_device *device, enum tn_pool_list list, tn_pool_visitor visitor,
                           void *context)
{
    bool ended = false;
    tarn_pool *pool;

    TN_ASSERT(tn_lock_is_held(&device->lock));
    device->lists.round += 1;
    while (!ended && (pool = tn_pools_next(device, list, device->lists.round)) != NULL)
        ended = visit(pool, visitor, context);
    return ended;
}

bool tn_device_visit_holders(tarn_device *device, const struct tn_index_keys *keys,
                             tn_pool_visitor visitor, void *context)
{
    bool ended;

    tn_lock_acquire(&device->lock);
    ended = tn_device_walk_holders(device, keys, visitor, context);
    tn_lock_release(&device->lock);
    return ended;
}

bool tn_device_visit_listed(tarn_device *device, enum tn_pool_list list, tn_pool_visitor visitor,
                            void *context)
{
    bool ended;

    tn_lock_acquire(&device->lock);
    ended = tn_device_walk_listed(device, list, visitor, context);
    tn_lock_release(&device->lock);
    return ended;
}

bool tn_device_visit(tarn_device *device, tn_pool_visitor visitor, void *context)
{
    bool ended;

    tn_lock_acquire(&device->lock);
    ended = tn_device_walk(device, visitor, context);
    tn_lock_release(&device->lock);
    return ended;
}

void tn_device_stop(tarn_device *device)
{
    TN_ASSERT(tn_lock_is_held(&device->lock));
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next)
        tn_pool_stop(pool);
}

void tn_device_look(tarn_device *device, tn_pool_visitor visitor, void *context)
{
    bool ended = false;

    TN_ASSERT(tn_lock_is_held(&device->lock));
    for (tarn_pool *pool = device->pools; pool != NULL && !ended; pool = pool->next) {
        tn_pool_look_begin(pool);
        ended = visitor(pool, context);
        tn_pool_look_end(pool);
    }
}

void tn_device_resume(tarn_device *device)
{
    TN_ASSERT(tn_lock_is_held(&device->lock));
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next)
        tn_pool_resume(pool);
}

static bool pass(tarn_pool *pool, void *context)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    (void)context;
    return false;
}

void tn_device_lock_awake(tarn_device *device)
{
    (void)tn_device_walk_listed(device, TN_POOLS_AWAKE, pass, NULL);
}
