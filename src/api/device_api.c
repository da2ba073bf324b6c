// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "api/handles.h"
#include "base/checked.h"
#include "pools/reclaim.h"
#include "pools/stats.h"
#include "tarn/device.h"
#include "tarn/version.h"

static const uint64_t region_bytes_max = 4 * TN_TIB;
static const uint64_t region_bytes_min = TN_GIB;

const char *tarn_version(void)
{
    return TARN_VERSION_STRING;
}

/* Checks the options and fills in what is left to the default. */
static tarn_status complete_options(tarn_device_options *options)
{
    if (options->region_bytes == 0)
        options->region_bytes = region_bytes_max;
    if (!tn_is_power_of_two(options->region_bytes) || options->region_bytes < region_bytes_min ||
        options->region_bytes > region_bytes_max)
        return tn_bad_argument("region_bytes must be a power of two from 1 GiB to 4 TiB");
    if (!(options->memory_fraction >= 0 && options->memory_fraction <= 1))
        return tn_bad_argument("memory_fraction must be a number from 0 to 1");
    if ((unsigned)options->unrouted > TARN_UNROUTED_ALLOW)
        return tn_bad_argument("unrouted is not one of tarn_unrouted");
    if (options->cache_limit_bytes == 0)
        options->cache_limit_bytes = TN_CACHE_BYTES_DEFAULT;
    return TARN_OK;
}

tarn_status tarn_device_open(int ordinal, const tarn_device_options *options, tarn_device **device)
{
    tarn_device_options chosen = TARN_DEVICE_OPTIONS_INIT;
    tarn_status status;

    if (device == NULL)
        return tn_bad_argument("device is NULL: there is nowhere to put the handle");
    if (options != NULL) {
        if (options->size != sizeof *options)
            return tn_bad_argument("options has an unknown size: make it with "
                                   "TARN_DEVICE_OPTIONS_INIT");
        chosen = *options;
    }
    status = complete_options(&chosen);
    if (status != TARN_OK)
        return status;
    return tn_leave(tn_device_open(ordinal, &chosen, device));
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

tarn_status tarn_device_set_limit(tarn_device *device, size_t bytes)
{
    if (!tn_is_device(device))
        return tn_bad_handle("device");
    atomic_store(&device->limit_bytes, bytes);
    return TARN_OK;
}

tarn_status tarn_device_set_memory_fraction(tarn_device *device, double fraction)
{
    if (!tn_is_device(device))
        return tn_bad_handle("device");
    if (!(fraction > 0 && fraction <= 1))
        return tn_bad_argument("the fraction must be above 0 and no more than 1");
    tn_device_set_fraction(device, fraction);
    return TARN_OK;
}

tarn_status tarn_device_set_cache_limit(tarn_device *device, size_t bytes)
{
    if (!tn_is_device(device))
        return tn_bad_handle("device");
    tn_chunk_cache_set_limit(&device->cache, bytes != TARN_NO_CACHE ? bytes : 0);
    return tn_leave(tn_gpu_check(&device->gpu));
}

tarn_status tarn_device_trim(tarn_device *device, size_t keep_bytes, size_t *freed_bytes)
{
    uint64_t freed = 0;
    tarn_status status;

    if (!tn_is_device(device))
        return tn_bad_handle("device");
    status = tn_enter_device(device);
    if (status == TARN_OK)
        status = tn_device_trim(device, keep_bytes, true, &freed);
    if (status == TARN_OK)
        status = tn_gpu_check(&device->gpu); /* what the driver refused to take back */
    if (status == TARN_OK && freed_bytes != NULL)
        *freed_bytes = freed;
    tn_device_reap(device); /* released pools whose memory is proven idle by now */
    return tn_leave(status);
}
