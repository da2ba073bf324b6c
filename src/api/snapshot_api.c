// SPDX-License-Identifier: Apache-2.0
#include "tarn/snapshot.h"

#include <string.h>

#include "api/call.h"
#include "observe/snapshot.h"
#include "observe/snapshot_diff.h"
#include "observe/snapshot_pickle.h"
#include "observe/snapshot_record.h"
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
    if (((const struct tn_snapshot *)(const void *)snapshot)->history !=
        device->history.stacking.serial)
        return tn_bad_argument("the device was closed, and opened anew, since the snapshot");
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

static bool is_name(const char *name)
{
    const size_t length = strnlen(name, TN_RECORD_NAME_MAX + 1);

    for (size_t i = 0; i < length; i++) {
        if (name[i] < ' ' || name[i] > '~')
            return false;
    }
    return length > 0 && length <= TN_RECORD_NAME_MAX;
}

tarn_status tarn_snapshot_write_trace(const tarn_snapshot *snapshot, const char *name,
                                      tarn_writer writer, void *user)
{
    const struct tn_snapshot *whole = (const struct tn_snapshot *)(const void *)snapshot;
    TN_CALL(call);

    if (!tn_call_begin(&call))
        return call.status;
    if (snapshot == NULL)
        return tn_bad_argument("snapshot is NULL: there is nothing to write");
    if (writer == NULL)
        return tn_bad_argument("writer is NULL: nobody takes the bytes");
    if (name == NULL || !is_name(name))
        return tn_bad_argument("a trace's name has 1 to 31 printable ASCII characters");
    if (whole->event_count == 0)
        return tn_bad_argument("the snapshot has no events: add the history before");
    return tn_leave(tn_snapshot_write_trace(whole, name, writer, user));
}

tarn_status tarn_snapshot_compare(const tarn_snapshot *before, const tarn_snapshot *after,
                                  tarn_snapshot_diff **diff)
{
    TN_CALL(call);

    if (!tn_call_begin(&call))
        return call.status;
    if (before == NULL || after == NULL)
        return tn_bad_argument("a snapshot is NULL: there is nothing to compare");
    if (diff == NULL)
        return tn_bad_argument("diff is NULL: there is nowhere to put the result");
    if (before->device != after->device)
        return tn_bad_argument("the snapshots are of different devices");
    return tn_leave(tn_snapshot_compare((const struct tn_snapshot *)(const void *)before,
                                        (const struct tn_snapshot *)(const void *)after, diff));
}

void tarn_snapshot_diff_destroy(tarn_snapshot_diff *diff)
{
    if (tn_call_goes_on())
        tn_snapshot_diff_drop((struct tn_snapshot_diff *)(void *)diff);
}

tarn_status tarn_snapshot_diff_report(const tarn_snapshot_diff *diff, tarn_report_format format,
                                      char *buffer, size_t capacity, size_t *length)
{
    tarn_status status;
    size_t written;
    TN_CALL(call);

    if (!tn_call_begin(&call))
        return call.status;
    status = tn_check_report(format, buffer, capacity);
    if (diff == NULL)
        return tn_bad_argument("diff is NULL: there is nothing to report");
    if (status != TARN_OK)
        return status;
    written = tn_snapshot_diff_write((const struct tn_snapshot_diff *)(const void *)diff, format,
                                     buffer, capacity);
    if (length != NULL)
        *length = written;
    return TARN_OK;
}
