// SPDX-License-Identifier: Apache-2.0
#include "tarn/leaks.h"

#include "api/call.h"
#include "observe/leaks.h"

tarn_status tarn_leaks_find(tarn_device *device, tarn_pool *pool, tarn_leaks **leaks)
{
    tarn_leaks *found;
    TN_CALL(call);

    if (!tn_call_device(&call, device) || (pool != NULL && !tn_call_and_pool(&call, pool)))
        return call.status;
    if (pool != NULL && pool->device != device)
        return tn_bad_argument("the pool is of another device");
    if (leaks == NULL)
        return tn_bad_argument("leaks is NULL: there is nowhere to put the result");
    tn_device_reap(device);
    found = tn_leaks_find(device, pool);
    if (found == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for the places of live blocks");
    *leaks = found;
    return tn_leave(TARN_OK);
}

void tarn_leaks_destroy(tarn_leaks *leaks)
{
    if (tn_call_goes_on())
        tn_leaks_drop(leaks);
}

tarn_status tarn_leaks_report(const tarn_leaks *leaks, tarn_report_format format, char *buffer,
                              size_t capacity, size_t *length)
{
    tarn_status status;
    size_t whole;
    TN_CALL(call);

    if (!tn_call_begin(&call))
        return call.status;
    status = tn_check_report(format, buffer, capacity);
    if (leaks == NULL)
        return tn_bad_argument("leaks is NULL: there is nothing to report");
    if (status != TARN_OK)
        return status;
    whole = tn_leaks_write_report(leaks, format, buffer, capacity);
    if (length != NULL)
        *length = whole;
    return TARN_OK;
}
