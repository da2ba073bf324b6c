// SPDX-License-Identifier: Apache-2.0
#include "pools/janitor.h"
#include "tarn/host.h"
#include "tarn/stats.h"

#include <string.h>

#include "api/call.h"
#include "api/structs.h"
#include "observe/report.h"
#include "observe/stats.h"
#include "pools/totals.h"

/* Reads the statistics of a pool, or where that is NULL of a device, or of its memory of the host. A struct of this version is
 * written at once, for a copy takes a third of the reading. A large struct on the stack of a call
 * would hide a function's record that a jump has left (base/user_code.c), so one of another version
 * has a function of its own. */
static TN_APART void read_known(tarn_device *device, tarn_pool *pool, bool host, bool walk,
                                tarn_stats *known)
{
    if (pool != NULL)
        tn_pool_read_stats(pool, walk, known);
    else
        tn_device_read_stats(device, host, walk, known);
}

static TN_RARE void read_other(tarn_device *device, tarn_pool *pool, bool host, tarn_stats *stats)
{
    tarn_stats known;

    memset(&known, 0, sizeof known); /* padding is copied, too */
    read_known(device, pool, host, stats->walk, &known);
    tn_sized_write(TN_STATS, stats, &known);
}

static tarn_status read_stats(tarn_device *device, tarn_pool *pool, bool host, tarn_stats *stats)
{
    tarn_status status = tn_sized_check(TN_STATS, stats);

    if (status != TARN_OK)
        return status;
    tn_device_reap(device);
    if (stats->size == sizeof *stats)
        read_known(device, pool, host, stats->walk, stats);
    else
        read_other(device, pool, host, stats);
    return TARN_OK;
}

tarn_status tarn_pool_stats(tarn_pool *pool, tarn_stats *stats)
{
    TN_CALL(call);

    if (!tn_call_pool(&call, pool))
        return call.status;
    return tn_leave(read_stats(pool->device, pool, false, stats));
}

tarn_status tarn_device_stats(tarn_device *device, tarn_stats *stats)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    return tn_leave(read_stats(device, NULL, false, stats));
}

tarn_status tarn_host_stats(tarn_device *device, tarn_stats *stats)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    return tn_leave(read_stats(device, NULL, true, stats));
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
