// SPDX-License-Identifier: Apache-2.0
#include "api/call.h"
#include "base/host.h"
#include "checkpoint/contents.h"
#include "pools/janitor.h"
#include "tarn/checkpoint.h"

tarn_status tarn_checkpoint_take(tarn_pool *pool, tarn_contents contents, tarn_stream stream,
                                 tarn_checkpoint **checkpoint)
{
    tarn_device *device;
    uint32_t outer;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_pool(&call, pool))
        return call.status;
    if (checkpoint == NULL)
        return tn_bad_argument("checkpoint is NULL: there is nowhere to put the handle");
    if (contents != TARN_CONTENTS_NONE && contents != TARN_CONTENTS_DEVICE &&
        contents != TARN_CONTENTS_HOST)
        return tn_bad_argument("contents is not one of tarn_contents");
    device = pool->device;
    outer = tn_stacking_begin_call(TN_STACK_CALLER_HERE);
    status = tn_call_enter(&call);
    if (status == TARN_OK) {
        status = tn_checkpoint_take(pool, contents, tn_device_stream(device, stream), checkpoint);
        if (status == TARN_OK)
            tn_contents_await(*checkpoint);
        /* A callback may have released the pool: if the take failed, the call alone has kept it. */
        tn_released_check(device, status != TARN_OK);
    }
    tn_history_stack = outer;
    return tn_leave(status);
}

tarn_status tarn_checkpoint_restore(tarn_checkpoint *checkpoint, tarn_stream stream,
                                    tarn_delta **delta)
{
    uint32_t outer;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_checkpoint(&call, checkpoint))
        return call.status;
    outer = tn_stacking_begin_call(TN_STACK_CALLER_HERE);
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_checkpoint_restore(checkpoint, tn_device_stream(call.device, stream), delta);
    if (status == TARN_OK)
        tn_contents_await(checkpoint);
    tn_history_stack = outer;
    return tn_leave(status);
}

tarn_status tarn_checkpoint_verify(tarn_checkpoint *checkpoint, tarn_stream stream)
{
    uint32_t outer;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_checkpoint(&call, checkpoint))
        return call.status;
    outer = tn_stacking_begin_call(TN_STACK_CALLER_HERE);
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_checkpoint_verify(checkpoint, tn_device_stream(call.device, stream));
    tn_history_stack = outer;
    return tn_leave(status);
}

void tarn_delta_destroy(tarn_delta *delta)
{
    if (tn_call_goes_on())
        tn_host_free(delta);
}

tarn_status tarn_checkpoint_destroy(tarn_checkpoint *checkpoint)
{
    tarn_device *device;
    tarn_status status;
    TN_CALL(call);

    if (checkpoint == NULL)
        return tn_call_nothing();
    if (!tn_call_ending_checkpoint(&call, checkpoint))
        return call.status;
    status = tn_checkpoint_close(checkpoint);
    if (status != TARN_OK)
        return tn_leave(status);
    device = checkpoint->pool->device;
    tn_checkpoint_destroy(checkpoint);
    tn_device_drop_gone(device);
    tn_device_end_released(device);
    return tn_leave(TARN_OK);
}

tarn_status tarn_pool_check_live(tarn_pool *pool, const tarn_expected *expected,
                                 size_t expected_count, tarn_live_diff **diff)
{
    TN_CALL(call);

    if (!tn_call_pool(&call, pool))
        return call.status;
    if (diff == NULL)
        return tn_bad_argument("diff is NULL: there is nowhere to put the result");
    if (expected == NULL && expected_count > 0)
        return tn_bad_argument("expected is NULL, but expected_count is not 0");
    tn_device_reap(pool->device);
    return tn_leave(tn_pool_check_live(pool, expected, expected_count, diff));
}

void tarn_live_diff_destroy(tarn_live_diff *diff)
{
    if (!tn_call_goes_on())
        return;
    if (diff != NULL)
        tn_host_free((void *)(uintptr_t)diff->differences);
    tn_host_free(diff);
}
