// SPDX-License-Identifier: Apache-2.0
/* An adopted pool has no handle that keeps it. A call that allocates from the pool pins it, since
 * another thread may end the capture meanwhile.
 *
 * In the default pool an allowed capture has a passing hold, which keeps the capture's memory apart
 * until the capture is over, and nothing for its graph. Tarn learns its end as the end of any
 * capture that the user began.
 *
 * Trade-offs: the arenas of an adopted pool end with the graph, not with the capture: nobody else
 * would use their memory. */
#include "graphs/unrouted.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "graphs/admit.h"
#include "pools/allocate.h"
#include "pools/janitor.h"
#include "pools/pool_lock.h"
#include "pools/totals.h"

/* Pins the pool of the capture, and makes a pool where the capture has none. HOST_MEMORY. */
static tarn_status pin_adopted(tarn_device *device, uint64_t capture_id, tarn_pool **pool)
{
    tarn_pool *made;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    tn_lock_acquire(&device->lock);
    *pool = tn_pools_find_adopting(device, capture_id);
    if (*pool != NULL)
        tn_pool_pin(*pool);
    tn_lock_release(&device->lock);
    if (*pool != NULL)
        return TARN_OK;
    tn_device_bound_released(device);
    tn_totals_publish_some(device);
    status = tn_pool_create(
        device, &(struct tn_pool_settings){.name = "adopted", .is_adopted = true}, &made);
    if (status != TARN_OK)
        return status;
    tn_lock_acquire(&device->lock);
    *pool = tn_pools_find_adopting(device, capture_id);
    tn_pool_lock(made);
    if (*pool == NULL) {
        made->graphs.adopted_capture_id = capture_id;
        tn_pool_list(made, TN_POOLS_ADOPTING, true);
        *pool = made;
    }
    tn_pool_pin(*pool);
    atomic_store(&made->released, true);
    tn_pool_unlock(made);
    tn_lock_release(&device->lock);
    if (*pool != made)
        tn_device_end_released(device); /* another thread was faster */
    return TARN_OK;
}

/* Counts the capture when it is adopted: with its first block. A refused allocation may leave an
 * empty pool for the next one. */
static void count_adoption(tarn_pool *pool)
{
    bool first;

    TN_ASSERT(tn_pins_count(&pool->pins) > 0);
    tn_pool_lock(pool);
    first = !pool->graphs.adoption_counted;
    pool->graphs.adoption_counted = true;
    tn_pool_unlock(pool);
    if (first)
        atomic_fetch_add(&pool->device->adopted_count, 1);
}

static tarn_status adopt(tarn_device *device, const struct tn_request *request, tarn_stream stream,
                         void **address)
{
    tarn_pool *pool;
    tarn_status status = pin_adopted(device, request->order.capture_id, &pool);

    if (status != TARN_OK)
        return status;
    status = tn_capture_admit(pool, stream, request->order, 0);
    if (status == TARN_OK)
        status = tn_pool_allocate(pool, request, stream, address);
    if (status == TARN_OK)
        count_adoption(pool);
    tn_pool_unpin(pool);
    return status;
}

static tarn_status allow(tarn_device *device, const struct tn_request *request, tarn_stream stream,
                         void **address)
{
    tarn_status status = tn_capture_admit(device->default_pool, stream, request->order, 0);

    TN_ASSERT(atomic_load(&device->default_pool->is_default));
    return status == TARN_OK ? tn_pool_allocate(device->default_pool, request, stream, address)
                             : status;
}

tarn_status tn_unrouted_allocate(tarn_device *device, const struct tn_request *request,
                                 tarn_stream stream, void **address)
{
    tarn_status status;

    TN_ASSERT(request->order.capture_id != 0);
    if (device->unrouted == TARN_UNROUTED_REFUSE)
        return tn_fail(TARN_ERR_UNROUTED,
                       "%llu bytes were asked for on a stream that is being captured, and no route "
                       "leads to a private pool: the graph would outlive the memory; capture with "
                       "tarn_capture_begin or open a route with tarn_begin_allocate_to_pool",
                       (unsigned long long)request->requested);
    status = device->unrouted == TARN_UNROUTED_ALLOW ? allow(device, request, stream, address)
                                                     : adopt(device, request, stream, address);
    if (status == TARN_OK)
        atomic_fetch_add(&device->unrouted_count, 1);
    return status;
}
