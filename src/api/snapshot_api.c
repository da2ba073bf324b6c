// SPDX-License-Identifier: Apache-2.0
#include "tarn/snapshot.h"

#include "api/call.h"
#include "observe/snapshot.h"
#include "observe/snapshot_pickle.h"
#include "observe/snapshot_trace.h"

tarn_status tarn_snapshot_take(tarn_device *device, tarn_pool *pool, tarn_snapshot **snapshot)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device) || (pool != NULL && !tn_call_and_pool(&call, pool)))
        return call.status;
    if (pool != NULL && pool->device != device)
        return tn_bad_argument("the pool is of another device");
    if (snapshot == NULL)
        return tn_bad_argument("snapshot is NULL: there is nowhere to put the result");
    tn_device_reap(device);
    return tn_leave(tn_snapshot_take(device, pool, snapshot));
}

void tarn_snapshot_destroy(tarn_snapshot *snapshot)
{
    if (tn_call_goes_on())
        tn_snapshot_drop((struct tn_snapshot *)(void *)snapshot);
}

tarn_status tarn_snapshot_add_history(tarn_snapshot *snapshot, tarn_device *device)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (snapshot == NULL)
        return tn_bad_argument("snapshot is NULL: there is nothing to add to");
    if (snapshot->device != device->gpu.ordinal)
        return tn_bad_argument("the snapshot is of another device");
    return tn_leave(tn_snapshot_trace(device, (struct tn_snapshot *)(void *)snapshot));
}

tarn_status tarn_snapshot_write_pytorch(const tarn_snapshot *snapshot, tarn_writer writer,
                                        void *user)
{
    TN_CALL(call);

    if (!tn_call_begin(&call))
        return call.status;
    if (snapshot == NULL)
        return tn_bad_argument("snapshot is NULL: there is nothing to write");
    if (writer == NULL)
        return tn_bad_argument("writer is NULL: nobody takes the bytes");
    return tn_leave(tn_snapshot_write_pytorch((const struct tn_snapshot *)(const void *)snapshot,
                                              writer, user));
}
