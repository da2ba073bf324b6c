// SPDX-License-Identifier: Apache-2.0
#include "tarn/pressure.h"

#include "api/call.h"

tarn_status tarn_device_add_free_callback(tarn_device *device, tarn_free_callback callback,
                                          void *user)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (callback == NULL)
        return tn_bad_argument("the callback is NULL: there is nothing to call");
    return tn_leave(tn_callbacks_add(&device->free_callbacks, (tn_function)callback, user));
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
    return tn_leave(tn_callbacks_add(&device->oom_observers, (tn_function)observer, user));
}

tarn_status tarn_device_remove_oom_observer(tarn_device *device, tarn_oom_observer observer,
                                            void *user)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    return tn_leave(tn_callbacks_remove(&device->oom_observers, (tn_function)observer, user));
}
