// SPDX-License-Identifier: Apache-2.0
#include "tarn/tracker.h"

#include "api/call.h"
#include "pools/trackers.h"

tarn_status tarn_device_add_tracker(tarn_device *device, tarn_tracker tracker, void *user,
                                    unsigned events)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (tracker == NULL)
        return tn_bad_argument("the tracker is NULL: there is nothing to call");
    if (events == 0 || (events & ~TARN_TRACKED_ALL) != 0)
        return tn_bad_argument("events is 0, or has bits that are no tarn_tracked_event");
    return tn_leave(tn_tracker_add(device, tracker, user, events));
}

tarn_status tarn_device_remove_tracker(tarn_device *device, tarn_tracker tracker, void *user)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    return tn_leave(tn_callbacks_remove(&device->trackers.callbacks, (tn_function)tracker, user));
}
