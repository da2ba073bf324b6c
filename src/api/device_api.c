// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "api/handles.h"
#include "base/checked.h"
#include "pools/stats.h"
#include "tarn/device.h"
#include "tarn/version.h"

static const uint64_t region_bytes_max = 4 * TN_TIB;
static const uint64_t region_bytes_min = TN_GIB;

const char *tarn_version(void)
{
    return TARN_VERSION_STRING;
}

tarn_status tarn_device_open(int ordinal, const tarn_device_options *options, tarn_device **device)
{
    uint64_t region_bytes = region_bytes_max;
    uint64_t limit_bytes = 0;

    if (device == NULL)
        return tn_bad_argument("device is NULL: there is nowhere to put the handle");
    if (options != NULL) {
        if (options->size != sizeof *options)
            return tn_bad_argument("options has an unknown size: make it with "
                                   "TARN_DEVICE_OPTIONS_INIT");
        if (options->region_bytes != 0)
            region_bytes = options->region_bytes;
        limit_bytes = options->limit_bytes;
    }
    if (!tn_is_power_of_two(region_bytes) || region_bytes < region_bytes_min ||
        region_bytes > region_bytes_max)
        return tn_bad_argument("region_bytes must be a power of two from 1 GiB to 4 TiB");
    return tn_leave(tn_device_open(ordinal, region_bytes, limit_bytes, device));
}

tarn_status tarn_device_close(tarn_device *device)
{
    if (!tn_is_device(device))
        return tn_bad_handle("device");
    return tn_leave(tn_device_close(device));
}

tarn_status tarn_device_get_info(tarn_device *device, tarn_device_info *info)
{
    const struct tn_gpu *gpu;
    tarn_status status;

    if (!tn_is_device(device))
        return tn_bad_handle("device");
    if (info == NULL || info->size != sizeof *info)
        return tn_bad_argument("info is NULL or its size is not sizeof(tarn_device_info)");
    status = tn_enter_device(device);
    if (status != TARN_OK)
        return tn_leave(status);
    gpu = &device->gpu;
    info->ordinal = gpu->ordinal;
    info->driver_version = gpu->driver->version;
    info->total_bytes = gpu->total_bytes;
    (void)snprintf(info->name, sizeof info->name, "%s", gpu->name);
    (void)snprintf(info->driver, sizeof info->driver, "%s", gpu->driver->path);
    info->simulated = strcmp(gpu->name, "Tarn simulated GPU") == 0;
    return tn_leave(TARN_OK);
}

tarn_status tarn_device_get_stats(tarn_device *device, tarn_device_stats *stats)
{
    if (!tn_is_device(device))
        return tn_bad_handle("device");
    if (stats == NULL || stats->size != sizeof *stats)
        return tn_bad_argument("stats is NULL or its size is not sizeof(tarn_device_stats)");
    tn_device_reap(device);
    tn_device_read_stats(device, stats);
    return tn_leave(TARN_OK);
}

tarn_status tarn_device_default_pool(tarn_device *device, tarn_pool **pool)
{
    if (!tn_is_device(device))
        return tn_bad_handle("device");
    if (pool == NULL)
        return tn_bad_argument("pool is NULL: there is nowhere to put the handle");
    *pool = device->default_pool;
    return TARN_OK;
}
