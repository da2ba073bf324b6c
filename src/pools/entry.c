// SPDX-License-Identifier: Apache-2.0
/* The device is pinned first and unpinned last: the end of a pin may end a released pool, in the
 * list of its device. */
#include "pools/entry.h"

#include <pthread.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/user_code.h"
#include "pools/janitor.h"

tarn_status tn_bad_handle(const char *kind)
{
    if (tn_is_forked())
        return tn_fork_refuse();
    tn_user_code_check();
    return tn_fail(TARN_ERR_INVALID_HANDLE, "the %s handle is null, of another kind, or destroyed",
                   kind);
}

bool tn_call_begin(struct tn_call *call)
{
    TN_ASSERT(!call->begun);
    if (tn_is_forked()) {
        call->status = tn_fork_refuse();
        return false;
    }
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &call->cancel);
    call->begun = true;
    tn_user_code_check();
    TN_ASSERT(tn_user_code_is_filter() || tn_lock_none_held());
    if (!tn_user_code_is_filter())
        return true;
    call->status = tn_fail(TARN_ERR_WRONG_STATE, "a route's filter called Tarn, whose routes are "
                                                 "locked meanwhile");
    return false;
}

bool tn_call_refuse(struct tn_call *call, const char *kind)
{
    call->status = tn_bad_handle(kind);
    return false;
}

/* When the pin takes effect, another device may have the record, or another pool the keeper's
 * record. The end of the call then undoes the pin. */
bool tn_call_pin_device(struct tn_call *call, tarn_device *device)
{
    tarn_pool *keeper;

    TN_ASSERT(call->begun && call->device == NULL && call->keeper == NULL);
    if (!tn_is_device(device))
        return false;
    keeper = device->default_pool;
    if (keeper == NULL || !tn_pool_try_pin(keeper))
        return false;
    call->keeper = keeper;
    if (!tn_is_device(device) || device->default_pool != keeper)
        return false;
    call->device = device;
    return true;
}

/* The pool was there just now, and the caller checks its handle again behind the pin. */
bool tn_call_pin_pool(struct tn_call *call, tarn_pool *pool)
{
    TN_ASSERT(call->pool == NULL);
    if (!tn_call_pin_device(call, tn_pool_device(pool)) || !tn_pool_try_pin(pool))
        return false;
    call->pool = pool;
    return true;
}

bool tn_call_device(struct tn_call *call, tarn_device *device)
{
    return tn_call_begin(call) &&
           (tn_call_pin_device(call, device) || tn_call_refuse(call, "device"));
}

bool tn_call_pool(struct tn_call *call, tarn_pool *pool)
{
    return tn_call_begin(call) &&
           ((tn_is_pool(pool) && tn_call_pin_pool(call, pool) && tn_is_pool(pool)) ||
            tn_call_refuse(call, "pool"));
}

bool tn_call_allocation(struct tn_call *call, tarn_pool *pool, bool routed)
{
    return routed ? tn_call_device(call, tn_pool_device(pool)) : tn_call_pool(call, pool);
}

bool tn_call_and_pool(struct tn_call *call, tarn_pool *pool)
{
    TN_ASSERT(call->device != NULL && call->pool == NULL);
    if (!tn_is_pool(pool) || !tn_pool_try_pin(pool))
        return tn_call_refuse(call, "pool");
    call->pool = pool;
    return tn_is_pool(pool) || tn_call_refuse(call, "pool");
}

bool tn_call_ending_pool(struct tn_call *call, tarn_pool *pool)
{
    return tn_call_begin(call) &&
           ((tn_is_pool(pool) && tn_call_pin_device(call, tn_pool_device(pool))) ||
            tn_call_refuse(call, "pool"));
}

/* Holds are given up on a lost device when no call uses their pool: this call did. */
static TN_RARE void end_lost(tarn_device *device)
{
    TN_ASSERT(tn_lock_none_held());
    if (tn_is_forked())
        return;
    tn_device_drop_gone(device);
    tn_device_end_released(device);
}

void tn_call_end_claim(const struct tn_call *call)
{
    if (call->device == NULL)
        return;
    tn_device_reap(call->device);
    tn_device_end_released(call->device);
}

void tn_call_end(struct tn_call *call)
{
    TN_ASSERT(call->pool == NULL || call->device != NULL);
    TN_ASSERT(!call->begun || tn_user_code_is_filter() || tn_lock_none_held());
    if (!call->begun)
        return;
    if (call->device != NULL) /* while its pools are pinned: what is told of stays */
        tn_trackers_tell(call->device);
    if (call->pinned != NULL)
        tn_pins_drop(call->pinned);
    if (call->pool != NULL)
        tn_pool_unpin(call->pool);
    if (call->pool != NULL && tn_gpu_is_lost(&call->device->gpu))
        end_lost(call->device);
    if (call->device != NULL && tn_trackers_are_due(call->device))
        tn_pools_end_told(call->device, false);
    if (call->keeper != NULL)
        tn_pool_unpin(call->keeper);
    (void)pthread_setcancelstate(call->cancel, NULL);
}
