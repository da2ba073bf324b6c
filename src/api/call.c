// SPDX-License-Identifier: Apache-2.0
/* The device comes first and goes last: the end of a pin may end a released pool, in the list of its device. */
#include "api/call.h"

#include "base/user_code.h"
#include "pools/end.h"

bool tn_call_begin(struct tn_call *call)
{
    if (tn_is_forked()) {
        call->status = tn_fork_refuse();
        return false;
    }
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &call->cancel);
    call->begun = true;
    tn_user_code_check();
    if (!tn_user_code_is_filter())
        return true;
    call->status = tn_fail(TARN_ERR_WRONG_STATE, "a route's filter called Tarn, whose routes are "
                                                 "locked meanwhile");
    return false;
}

static bool refuse(struct tn_call *call, const char *kind)
{
    call->status = tn_bad_handle(kind);
    return false;
}

static bool pin_device(struct tn_call *call, tarn_device *device)
{
    if (!tn_is_device(device) || !tn_device_try_pin(device))
        return false;
    call->device = device;
    return true;
}

/* Of something that was there just now, and is looked at again behind it. */
static bool pin_pool(struct tn_call *call, tarn_pool *pool)
{
    if (!pin_device(call, tn_pool_device(pool)) || !tn_pool_try_pin(pool))
        return false;
    call->pool = pool;
    return true;
}

bool tn_call_device(struct tn_call *call, tarn_device *device)
{
    return tn_call_begin(call) && (pin_device(call, device) || refuse(call, "device"));
}

bool tn_call_pool(struct tn_call *call, tarn_pool *pool)
{
    return tn_call_begin(call) &&
           ((tn_is_pool(pool) && pin_pool(call, pool) && tn_is_pool(pool)) || refuse(call, "pool"));
}

bool tn_call_allocation(struct tn_call *call, tarn_pool *pool, bool routed)
{
    return routed ? tn_call_device(call, tn_pool_device(pool)) : tn_call_pool(call, pool);
}

static bool is_pool(tarn_pool *pool, bool released)
{
    return tn_is_pool(pool) ||
           (released && pool != NULL && atomic_load(&pool->magic) == TN_POOL_MAGIC);
}

bool tn_call_and_pool(struct tn_call *call, tarn_pool *pool, bool released)
{
    if (!is_pool(pool, released) || !tn_pool_try_pin(pool))
        return refuse(call, "pool");
    call->pool = pool;
    return is_pool(pool, released) || refuse(call, "pool");
}

bool tn_call_ending_pool(struct tn_call *call, tarn_pool *pool)
{
    return tn_call_begin(call) &&
           ((tn_is_pool(pool) && pin_device(call, tn_pool_device(pool))) || refuse(call, "pool"));
}

bool tn_call_graph(struct tn_call *call, tarn_graph *graph)
{
    return tn_call_begin(call) &&
           ((tn_is_graph(graph) && pin_pool(call, graph->pool) && tn_is_graph(graph)) ||
            refuse(call, "graph"));
}

bool tn_call_ending_checkpoint(struct tn_call *call, tarn_checkpoint *checkpoint)
{
    return tn_call_begin(call) &&
           ((tn_is_checkpoint(checkpoint) && pin_pool(call, checkpoint->pool) &&
             tn_is_checkpoint(checkpoint)) ||
            refuse(call, "checkpoint"));
}

bool tn_call_checkpoint(struct tn_call *call, tarn_checkpoint *checkpoint)
{
    if (!tn_call_ending_checkpoint(call, checkpoint))
        return false;
    if (!tn_pins_try(&checkpoint->pins))
        return refuse(call, "checkpoint");
    call->checkpoint = checkpoint;
    return tn_is_checkpoint(checkpoint) || refuse(call, "checkpoint");
}

bool tn_call_capture(struct tn_call *call, tarn_capture *capture)
{
    if (!tn_call_begin(call))
        return false;
    if (!tn_is_capture(capture))
        return refuse(call, "capture");
    (void)pin_device(call, capture->device);
    return true;
}

/* Holds are given up on a lost device when no call is at their pool: this one was. */
static TN_RARE void end_lost(tarn_device *device)
{
    if (tn_is_forked())
        return;
    tn_device_drop_gone(device);
    tn_device_end_released(device);
}

void tn_call_end(struct tn_call *call)
{
    if (!call->begun)
        return;
    if (call->checkpoint != NULL)
        tn_pins_drop(&call->checkpoint->pins);
    if (call->pool != NULL)
        tn_pool_unpin(call->pool);
    if (call->pool != NULL && tn_gpu_is_lost(&call->device->gpu))
        end_lost(call->device);
    if (call->device != NULL)
        tn_device_unpin(call->device);
    (void)pthread_setcancelstate(call->cancel, NULL);
}
