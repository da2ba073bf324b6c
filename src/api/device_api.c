// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "api/call.h"
#include "api/device_options.h"
#include "api/structs.h"
#include "base/checked.h"
#include "base/environment.h"
#include "driver/mapping.h"
#include "observe/leaks_exit.h"
#include "observe/pool_check.h"
#include "pools/janitor.h"
#include "pools/opening.h"
#include "pools/peers.h"
#include "pools/trackers.h"
#include "pools/reclaim.h"
#include "pools/staging.h"
#include "pools/sweep.h"
#include "share/listener.h"
#include "tarn/device.h"
#include "tarn/host.h"
#include "tarn/version.h"

const char *tarn_version(void)
{
    return TARN_VERSION_STRING;
}

/* What is live is told by places: their stacks are in a history. */
static void keep_history(tarn_device_options *options)
{
    if (options->history_bytes == TARN_NO_HISTORY)
        options->history_bytes = TN_MIB;
    if (options->history_stacks == TARN_HISTORY_NO_STACKS)
        options->history_stacks = TARN_HISTORY_FRAMES;
}

tarn_status tarn_device_open(int ordinal, const tarn_device_options *options, tarn_device **device)
{
    tarn_device_options chosen;
    const char *conf = tn_environment("TARN_CONF");
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_begin(&call))
        return call.status;
    if (device == NULL)
        return tn_bad_argument("device is NULL: there is nowhere to put the handle");
    status = tn_sized_read(TN_DEVICE_OPTIONS, options, &chosen);
    if (status == TARN_OK)
        status = tn_device_options_complete(&chosen);
    if (status == TARN_OK && conf != NULL)
        status = tn_device_options_override(&chosen, conf);
    if (status != TARN_OK)
        return status;
    if (tn_leaks_are_asked_for())
        keep_history(&chosen);
    return tn_leave(tn_device_open(ordinal, &chosen, options != NULL, tn_pool_check_own, device));
}

/* Connections that no listener has and no program go now: at their listener's end another thread may
 * have served them. */
static void end_orphans(tarn_device *device)
{
    TN_CALL(call);

    if (tn_call_device(&call, device))
        (void)tn_shares_collect(device);
}

tarn_status tarn_device_close(tarn_device *device)
{
    tarn_status status;
    TN_CALL(call);

    end_orphans(device);
    if (!tn_call_begin(&call)) /* without a pin, which would keep the device */
        return call.status;
    if (!tn_is_device(device))
        return tn_bad_handle("device");
    status = tn_device_close(device);
    if (status == TARN_ERR_BUSY && !tn_trackers_are_deaf(device) &&
        tn_call_pin_device(&call, device))
        tn_leaks_tell_at_close(device);
    return tn_leave(status);
}

/* The large struct is in a function of its own: see read_other in stats_api.c. */
static TN_RARE void describe(const struct tn_gpu *gpu, tarn_device_info *info)
{
    tarn_device_info known = TARN_DEVICE_INFO_INIT;

    known.ordinal = gpu->ordinal;
    known.driver_version = gpu->driver->version;
    known.total_bytes = gpu->total_bytes;
    (void)snprintf(known.name, sizeof known.name, "%s", gpu->name);
    (void)snprintf(known.driver, sizeof known.driver, "%s", gpu->driver->path);
    known.simulated = strcmp(gpu->name, "Tarn simulated GPU") == 0;
    tn_sized_write(TN_DEVICE_INFO, info, &known);
}

tarn_status tarn_device_describe(tarn_device *device, tarn_device_info *info)
{
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    status = tn_sized_check(TN_DEVICE_INFO, info);
    if (status == TARN_OK)
        status = tn_call_enter(&call);
    if (status == TARN_OK)
        describe(&device->gpu, info);
    return tn_leave(status);
}

tarn_status tarn_device_default_pool(tarn_device *device, tarn_pool **pool)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (pool == NULL)
        return tn_bad_argument("pool is NULL: there is nowhere to put the handle");
    *pool = device->default_pool;
    return TARN_OK;
}

tarn_status tarn_host_pool(tarn_device *device, tarn_pool **pool)
{
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (pool == NULL)
        return tn_bad_argument("pool is NULL: there is nowhere to put the handle");
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_device_host_pool(device, TN_HOST_MAPPED, pool);
    return tn_leave(status);
}

tarn_status tarn_device_add_peer(tarn_device *device, int ordinal)
{
    uint64_t mask = 0;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_gpu_peer_mask(&device->gpu, ordinal, &mask);
    if (status == TARN_OK && mask != 0)
        status = tn_peers_add_to_device(device, ordinal);
    return tn_leave(status);
}

tarn_status tarn_device_set_limit(tarn_device *device, size_t bytes)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    atomic_store(&device->budget.limit_bytes, bytes);
    return TARN_OK;
}

tarn_status tarn_device_set_memory_fraction(tarn_device *device, double fraction)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (!(fraction >= 0 && fraction <= 1))
        return tn_bad_argument("memory_fraction must be a number from 0 to 1");
    tn_budget_set_fraction(&device->budget, fraction, device->gpu.total_bytes);
    return TARN_OK;
}

tarn_status tarn_device_set_cache_limit(tarn_device *device, size_t bytes)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    tn_memory_cache_set_limit(&device->cache, tn_cache_bytes(bytes, TN_CACHE_BYTES_DEFAULT));
    return tn_leave(tn_gpu_check(&device->gpu));
}

tarn_status tarn_device_set_pinned_cache_limit(tarn_device *device, size_t bytes)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    tn_staging_set_limit(device, tn_cache_bytes(bytes, TN_PINNED_BYTES_DEFAULT));
    tn_memory_cache_set_limit(&device->host.cache, tn_cache_bytes(bytes, TN_PINNED_BYTES_DEFAULT));
    return tn_leave(tn_gpu_check(&device->gpu));
}

tarn_status tarn_device_collect(tarn_device *device)
{
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    status = tn_call_enter(&call);
    if (status == TARN_OK) {
        tn_device_reap(device);
        tn_device_collect(device);
    }
    return tn_leave(status);
}

tarn_status tarn_device_trim(tarn_device *device, size_t keep_bytes, size_t *freed_bytes)
{
    uint64_t freed = 0;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_device_trim(device, false, keep_bytes, true, &freed);
    if (status == TARN_OK)
        tn_staging_trim(device, keep_bytes);
    if (status == TARN_OK)
        status = tn_gpu_check(&device->gpu); /* did the driver refuse to take memory back? */
    if (status == TARN_OK && freed_bytes != NULL)
        *freed_bytes = freed;
    tn_device_reap(device); /* released pools whose memory is proven idle by now */
    return tn_leave(status);
}
