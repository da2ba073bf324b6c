// SPDX-License-Identifier: Apache-2.0
#include "pools/host_default.h"

#include <stddef.h>

#include "base/error.h"
#include "driver/mapping.h"
#include "pools/pieces.h"

static tarn_status make_mapped_pool(tarn_device *device, const char *name, tarn_pool **made)
{
    struct tn_pool_settings settings = {
        .name = name, .is_default = true, .properties = {.host = true}};
    tarn_status status = tn_gpu_check_properties(&device->gpu, settings.properties);

    if (status == TARN_OK)
        status = tn_gpu_others_mask(&device->gpu, &settings.peer_mask);
    return status == TARN_OK ? tn_pool_create(device, &settings, made) : status;
}

static tarn_status make_pieces_pool(tarn_device *device, const char *name, tarn_pool **made)
{
    const struct tn_pool_settings settings = {
        .name = name, .is_default = true, .properties = {.host = true, .registered = true}};
    tarn_status status = tn_pieces_open(device);

    return status == TARN_OK ? tn_pool_create(device, &settings, made) : status;
}

tarn_status tn_host_default_make(tarn_device *device, enum tn_host_pool kind, tarn_pool **made)
{
    tarn_status status;

    if (kind != TN_HOST_PIECES) {
        status = make_mapped_pool(device, kind == TN_HOST_STAGING ? "staging" : "host", made);
        return status == TARN_ERR_NOT_SUPPORTED && kind == TN_HOST_STAGING
                   ? make_pieces_pool(device, "staging", made)
                   : status;
    }
    status = make_pieces_pool(device, "registered", made);
    if (status != TARN_ERR_NOT_SUPPORTED)
        return status;
    tn_note("device %d: page-locked memory is not registered: %s", device->gpu.ordinal,
            tarn_last_error());
    *made = atomic_load(&device->host.pools[TN_HOST_MAPPED]);
    return *made != NULL ? TARN_OK : make_mapped_pool(device, "host", made);
}
