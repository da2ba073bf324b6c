// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "api/call.h"
#include "api/structs.h"
#include "base/host.h"
#include "driver/mapping.h"
#include "graphs/serve.h"
#include "heap/bins.h"
#include "observe/check.h"
#include "observe/extents.h"
#include "observe/lists.h"
#include "pools/await.h"
#include "pools/end.h"
#include "pools/grow.h"
#include "pools/janitor.h"
#include "pools/opening.h"
#include "pools/peers.h"
#include "pools/reclaim.h"
#include "pools/route.h"
#include "pools/totals.h"
#include "tarn/pool.h"

/* Registered memory is of one kind, which all devices use. */
static tarn_status open_registered(tarn_device *device, const struct tn_pool_settings *settings)
{
    if (settings->properties.exportable || settings->properties.rdma)
        return tn_fail(TARN_ERR_NOT_SUPPORTED,
                       "registered memory is neither exported nor made for GPUDirect RDMA");
    return tn_device_open_pieces(device);
}

/* Reads the properties of the pool's memory from the options, and asks the driver about them. */
static tarn_status read_properties(tarn_device *device, const tarn_pool_options *options,
                                   struct tn_pool_settings *settings)
{
    const bool shared = (options->flags & TARN_POOL_SHARED) != 0;
    tarn_status status;

    settings->properties =
        (struct tn_memory_properties){.exportable = options->exportable || shared,
                                      .rdma = options->gpu_direct_rdma,
                                      .shared = shared,
                                      .host = options->location != TARN_LOCATION_DEVICE,
                                      .registered = options->location == TARN_LOCATION_REGISTERED};
    if (shared && settings->properties.host)
        return tn_fail(TARN_ERR_NOT_SUPPORTED,
                       "memory of the host is not shared: TARN_POOL_SHARED is for pools in the "
                       "location TARN_LOCATION_DEVICE");
    if (settings->properties.registered)
        return open_registered(device, settings);
    status = tn_gpu_check_properties(&device->gpu, settings->properties);
    if (status == TARN_OK && settings->properties.host)
        status = tn_gpu_others_mask(&device->gpu, &settings->peer_mask);
    for (size_t i = 0; i < options->peer_count && status == TARN_OK; i++) {
        uint64_t mask = 0;

        status = tn_gpu_peer_mask(&device->gpu, options->peers[i], &mask);
        settings->peer_mask |= mask;
    }
    return status;
}

tarn_status tarn_pool_create(tarn_device *device, const tarn_pool_options *options,
                             tarn_pool **pool)
{
    tarn_pool_options chosen;
    struct tn_pool_settings settings = {.is_default = false};
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (pool == NULL)
        return tn_bad_argument("pool is NULL: there is nowhere to put the handle");
    status = tn_sized_read(TN_POOL_OPTIONS, options, &chosen);
    if (status != TARN_OK)
        return status;
    if ((unsigned)chosen.replay_order > TARN_REPLAY_REFUSED)
        return tn_bad_argument("replay_order is not one of tarn_replay_order");
    if ((unsigned)chosen.guard > TARN_GUARD_REFUSE)
        return tn_bad_argument("guard is not one of tarn_guard");
    if (chosen.location > TARN_LOCATION_REGISTERED)
        return tn_bad_argument("location is not one of tarn_location");
    if ((chosen.flags & ~TARN_POOL_SHARED) != 0)
        return tn_bad_argument("flags has a bit that is no flag of a pool");
    if (chosen.name != NULL && strlen(chosen.name) > 31)
        return tn_bad_argument("a pool's name has at most 31 bytes");
    if (chosen.peers == NULL && chosen.peer_count > 0)
        return tn_bad_argument("peers is NULL, and peer_count is not 0");
    settings.name = chosen.name;
    settings.limit_bytes = chosen.limit_bytes;
    settings.share_captured = chosen.share_captured;
    settings.replay_order = chosen.replay_order;
    settings.guard = chosen.guard;
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = read_properties(device, &chosen, &settings);
    if (status == TARN_OK) {
        tn_device_bound_released(device);
        tn_totals_publish_some(device);
        status = tn_pool_create(device, &settings, pool);
    }
    return tn_leave(status);
}

tarn_status tarn_pool_destroy(tarn_pool *pool)
{
    TN_CALL(call);

    if (pool == NULL)
        return tn_call_nothing();
    if (!tn_call_ending_pool(&call, pool))
        return call.status;
    if (pool->is_default)
        return tn_fail(TARN_ERR_WRONG_STATE, "the default pool goes with its device");
    tn_await_holds(pool->device, pool, TN_AWAIT_LAST);
    return tn_leave(tn_pool_destroy(pool));
}

tarn_status tarn_pool_release(tarn_pool *pool)
{
    tarn_device *device;
    TN_CALL(call);

    if (!tn_call_pool(&call, pool))
        return call.status;
    if (pool->is_default)
        return tn_fail(TARN_ERR_WRONG_STATE, "the default pool goes with its device");
    device = pool->device;
    tn_lock_acquire(&device->lock); /* a list of pools shows all releases before one moment */
    tn_pool_lock(pool);             /* which ends the steady state of its frees */
    atomic_store(&pool->released, true);
    tn_pool_unlock(pool);
    tn_lock_release(&device->lock);
    tn_device_drop_gone(device);
    tn_device_end_released(device);
    return tn_leave(TARN_OK);
}

tarn_status tarn_pool_reserve(tarn_pool *pool, size_t bytes, tarn_stream stream)
{
    uint32_t outer;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_pool(&call, pool))
        return call.status;
    if (bytes > TN_REQUEST_BYTES_MAX)
        return tn_bad_argument("no device holds as many bytes as asked for");
    outer = tn_stacking_begin_call(TN_STACK_CALLER_HERE);
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_serve_reserve(pool, bytes, stream);
    tn_history_stack = outer;
    return tn_leave(status);
}

tarn_status tarn_pool_add_peer(tarn_pool *pool, int ordinal)
{
    uint64_t mask = 0;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_pool(&call, pool))
        return call.status;
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_gpu_peer_mask(&pool->device->gpu, ordinal, &mask);
    if (status == TARN_OK && mask != 0)
        status = tn_peers_add_to_pool(pool, ordinal);
    return tn_leave(status);
}

tarn_status tarn_pool_set_limit(tarn_pool *pool, size_t bytes)
{
    TN_CALL(call);

    if (!tn_call_pool(&call, pool))
        return call.status;
    tn_pool_lock(pool);
    pool->limit.bytes = bytes;
    tn_pool_unlock(pool);
    return tn_leave(TARN_OK);
}

tarn_status tarn_pool_trim(tarn_pool *pool, size_t *freed_bytes)
{
    return tarn_pool_trim_to(pool, 0, freed_bytes);
}

tarn_status tarn_pool_trim_to(tarn_pool *pool, size_t keep_bytes, size_t *freed_bytes)
{
    uint64_t freed = 0;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_pool(&call, pool))
        return call.status;
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_pool_trim(pool, keep_bytes, true, &freed);
    if (status == TARN_OK)
        status = tn_gpu_check(&pool->device->gpu); /* did the driver refuse to take memory back? */
    if (status == TARN_OK && freed_bytes != NULL)
        *freed_bytes = freed;
    tn_device_reap(pool->device); /* released pools whose memory is proven idle by now */
    return tn_leave(status);
}

tarn_status tarn_pool_validate(tarn_pool *pool)
{
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_pool(&call, pool))
        return call.status;
    tn_device_reap(pool->device);
    tn_pool_lock(pool);
    status = tn_pool_check(pool);
    tn_pool_unlock(pool);
    if (status == TARN_OK)
        status = tn_memory_cache_check(&pool->device->cache);
    return tn_leave(status);
}

tarn_status tarn_pool_layout(tarn_pool *pool, tarn_layout **layout)
{
    TN_CALL(call);

    if (!tn_call_pool(&call, pool))
        return call.status;
    if (layout == NULL)
        return tn_bad_argument("layout is NULL: there is nowhere to put the result");
    tn_device_reap(pool->device);
    return tn_leave(tn_pool_read_layout(pool, layout));
}

void tarn_layout_destroy(tarn_layout *layout)
{
    if (tn_call_goes_on())
        tn_host_free(layout);
}

tarn_status tarn_pool_blocks(tarn_pool *pool, tarn_block_list **list)
{
    TN_CALL(call);

    if (!tn_call_pool(&call, pool))
        return call.status;
    if (list == NULL)
        return tn_bad_argument("list is NULL: there is nowhere to put the result");
    tn_device_reap(pool->device);
    return tn_leave(tn_pool_list_blocks(pool, list));
}

void tarn_block_list_destroy(tarn_block_list *list)
{
    if (tn_call_goes_on())
        tn_host_free(list);
}

tarn_status tarn_device_pools(tarn_device *device, tarn_pool_list **list)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (list == NULL)
        return tn_bad_argument("list is NULL: there is nowhere to put the result");
    tn_device_reap(device);
    return tn_leave(tn_device_list_pools(device, list));
}

void tarn_pool_list_destroy(tarn_pool_list *list)
{
    if (tn_call_goes_on())
        tn_host_free(list);
}

tarn_status tarn_begin_allocate_to_pool(tarn_device *device, tarn_pool *pool,
                                        tarn_route_filter filter, void *user, tarn_route **route)
{
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device) || !tn_call_and_pool(&call, pool))
        return call.status;
    if (pool->device != device)
        return tn_bad_argument("the pool is of another device");
    if (filter == NULL)
        return tn_bad_argument("filter is NULL: name the streams or thread that the route is for");
    if (route == NULL)
        return tn_bad_argument("route is NULL: there is nowhere to put the handle");
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_route_begin(device, pool, filter, user, route);
    return tn_leave(status);
}

tarn_status tarn_end_allocate_to_pool(tarn_route *route)
{
    TN_CALL(call);

    if (!tn_call_ending_route(&call, route))
        return call.status;
    if (!tn_route_end(call.device, route))
        return tn_bad_handle("route");
    tn_device_drop_gone(call.device);
    tn_device_end_released(call.device);
    return tn_leave(TARN_OK);
}
