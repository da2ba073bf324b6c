// SPDX-License-Identifier: Apache-2.0
#include "pools/janitor.h"
#include "tarn/stats.h"

#include "api/call.h"
#include "observe/memory_stats.h"
#include "observe/report.h"
#include "pools/totals.h"

static tarn_status check_stats(const tarn_memory_stats *stats)
{
    if (stats == NULL || stats->size != sizeof *stats)
        return tn_bad_argument("stats is NULL or its size is not sizeof(tarn_memory_stats)");
    return TARN_OK;
}

tarn_status tarn_pool_get_memory_stats(tarn_pool *pool, tarn_memory_stats *stats)
{
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_pool(&call, pool))
        return call.status;
    status = check_stats(stats);
    if (status != TARN_OK)
        return status;
    tn_device_reap(pool->device);
    tn_pool_read_memory_stats(pool, stats);
    return tn_leave(TARN_OK);
}

tarn_status tarn_device_get_memory_stats(tarn_device *device, tarn_memory_stats *stats)
{
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    status = check_stats(stats);
    if (status != TARN_OK)
        return status;
    tn_device_reap(device);
    tn_device_read_memory_stats(device, stats);
    return tn_leave(TARN_OK);
}

tarn_status tarn_pool_reset_peaks(tarn_pool *pool)
{
    TN_CALL(call);

    if (!tn_call_pool(&call, pool))
        return call.status;
    tn_pool_reset_peaks(pool);
    return tn_leave(TARN_OK);
}

tarn_status tarn_pool_reset_totals(tarn_pool *pool)
{
    TN_CALL(call);

    if (!tn_call_pool(&call, pool))
        return call.status;
    tn_pool_reset_totals(pool);
    return tn_leave(TARN_OK);
}

tarn_status tarn_device_reset_peaks(tarn_device *device)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    tn_device_reset_peaks(device);
    return tn_leave(TARN_OK);
}

tarn_status tarn_device_reset_totals(tarn_device *device)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    tn_device_reset_totals(device);
    return tn_leave(TARN_OK);
}

tarn_status tarn_pool_report(tarn_pool *pool, tarn_report_format format, char *buffer,
                             size_t capacity, size_t *length)
{
    tarn_status status;
    size_t written;
    TN_CALL(call);

    if (!tn_call_pool(&call, pool))
        return call.status;
    status = tn_check_report(format, buffer, capacity);
    if (status != TARN_OK)
        return status;
    tn_device_reap(pool->device);
    written = tn_pool_write_report(pool, format, buffer, capacity);
    if (length != NULL)
        *length = written;
    return tn_leave(TARN_OK);
}

tarn_status tarn_device_report(tarn_device *device, tarn_report_format format, char *buffer,
                               size_t capacity, size_t *length)
{
    tarn_status status;
    size_t written;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    status = tn_check_report(format, buffer, capacity);
    if (status != TARN_OK)
        return status;
    tn_device_reap(device);
    written = tn_device_write_report(device, format, buffer, capacity);
    if (length != NULL)
        *length = written;
    return tn_leave(TARN_OK);
}
