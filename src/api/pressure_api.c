// SPDX-License-Identifier: Apache-2.0
#include "tarn/pressure.h"

#include "api/call.h"
#include "driver/stream.h"
#include "pools/largest.h"
#include "pools/route.h"

tarn_status tarn_device_add_free_callback(tarn_device *device, tarn_free_callback callback,
                                          void *user)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (callback == NULL)
        return tn_bad_argument("the callback is NULL: there is nothing to call");
    return tn_leave(tn_callbacks_add(&device->free_callbacks, (tn_function)callback, user, 1));
}

tarn_status tarn_device_remove_free_callback(tarn_device *device, tarn_free_callback callback,
                                             void *user)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    return tn_leave(tn_callbacks_remove(&device->free_callbacks, (tn_function)callback, user));
}

tarn_status tarn_device_add_oom_observer(tarn_device *device, tarn_oom_observer observer,
                                         void *user)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (observer == NULL)
        return tn_bad_argument("the observer is NULL: there is nothing to call");
    return tn_leave(tn_callbacks_add(&device->oom_observers, (tn_function)observer, user, 1));
}

tarn_status tarn_device_remove_oom_observer(tarn_device *device, tarn_oom_observer observer,
                                            void *user)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    return tn_leave(tn_callbacks_remove(&device->oom_observers, (tn_function)observer, user));
}

/* Chooses the pool of an allocation by the routes, and pins the pool. */
static tarn_status choose_pool(tarn_device *device, tarn_stream stream, struct tn_order order,
                               struct tn_route_choice *choice)
{
    tarn_status status = tn_route_choose(device, stream, order, choice);

    if (status == TARN_OK && choice->pool == NULL) {
        choice->pool = device->default_pool;
        tn_pool_pin(choice->pool);
    }
    return status;
}

tarn_status tarn_device_largest(tarn_device *device, tarn_pool *pool, tarn_stream stream,
                                size_t *bytes)
{
    struct tn_route_choice choice = {.pool = NULL};
    struct tn_stream_state state;
    uint64_t largest;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device) || (pool != NULL && !tn_call_and_pool(&call, pool)))
        return call.status;
    if (pool != NULL && pool->device != device)
        return tn_bad_argument("the pool is of another device");
    if (bytes == NULL)
        return tn_bad_argument("bytes is NULL: there is nowhere to put the result");
    stream = tn_device_stream(device, stream);
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_stream_look(&device->gpu, stream, TN_STREAM_ORDER, &state);
    if (status == TARN_OK && state.captured)
        status = tn_fail(TARN_ERR_WRONG_STATE,
                         "the stream is being captured: what its next allocation finds is decided "
                         "by the capture; ask for a stream that is not captured");
    if (status == TARN_OK && pool == NULL)
        status = choose_pool(device, stream, state.order, &choice);
    if (status == TARN_OK)
        status =
            tn_pool_find_largest(pool != NULL ? pool : choice.pool, stream, state.order, &largest);
    if (choice.pool != NULL)
        tn_pool_unpin(choice.pool);
    if (status == TARN_OK)
        *bytes = (size_t)largest;
    return tn_leave(status);
}
