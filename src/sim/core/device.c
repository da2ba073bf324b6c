// SPDX-License-Identifier: Apache-2.0
/* device.c -- cuInit and questions about a device.
 *
 * How it works. cuInit makes every device: its memory (store.c) and the handle of its primary
 * context. After cuInit a fork is fatal to the child. */
#include <stdio.h>

#include "sim/core/context.h"
#include "sim/core/shared.h"

struct tn_sim_device tn_sim_devices[TN_SIM_MAX_DEVICES];

bool tn_sim_device_exists(int device)
{
    return device >= 0 && device < tn_sim.device_count;
}

tn_cu_result tn_sim_cuInit(unsigned int flags)
{
    if (flags != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (tn_sim.stopping)
        return TN_CUDA_ERROR_DEINITIALIZED;
    if (tn_sim.initialised)
        return TN_CUDA_SUCCESS;
    if (tn_sim.shared_path != NULL && !tn_sim_shared_join(tn_sim.shared_path))
        return TN_CUDA_ERROR_OPERATING_SYSTEM;
    for (int i = 0; i < tn_sim.device_count; i++) {
        struct tn_sim_device *device = &tn_sim_devices[i];
        /* An earlier try may have made this device before it failed. */
        if (device->context.object.handle != 0)
            continue;
        if (!tn_sim_store_init(&device->store, tn_sim.memory_bytes))
            return TN_CUDA_ERROR_OPERATING_SYSTEM;
        device->store.device = i;
        if (!tn_sim_register(&device->context.object, TN_SIM_KIND_CONTEXT, NULL)) {
            tn_sim_store_fini(&device->store);
            return TN_CUDA_ERROR_OUT_OF_MEMORY;
        }
        device->context.device = i;
        device->context.primary = true;
    }
    tn_sim.initialised = true;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuDriverGetVersion(int *version)
{
    if (version == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    *version = tn_sim.driver_version;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuDeviceGet(tn_cu_device *device, int ordinal)
{
    if (device == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (!tn_sim_device_exists(ordinal))
        return TN_CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuDeviceGetCount(int *count)
{
    if (count == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    *count = tn_sim.device_count;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuDeviceGetName(char *name, int length, tn_cu_device device)
{
    if (name == NULL || length <= 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (!tn_sim_device_exists(device))
        return TN_CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)length, "Tarn simulated GPU");
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuDeviceGetUuid(tn_cu_uuid *uuid, tn_cu_device device)
{
    if (uuid == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (!tn_sim_device_exists(device))
        return TN_CUDA_ERROR_INVALID_DEVICE;
    /* The same in every process, as a GPU's is. */
    *uuid = (tn_cu_uuid){.bytes = "tarn simulated "};
    uuid->bytes[sizeof uuid->bytes - 1] = (char)device;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuDeviceGetAttribute(int *value, tn_cu_device_attribute attribute,
                                         tn_cu_device device)
{
    if (value == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (!tn_sim_device_exists(device))
        return TN_CUDA_ERROR_INVALID_DEVICE;
    return tn_sim_attribute((int)attribute, device, value) ? TN_CUDA_SUCCESS
                                                           : TN_CUDA_ERROR_INVALID_VALUE;
}

tn_cu_result tn_sim_cuDeviceTotalMem(size_t *bytes, tn_cu_device device)
{
    if (bytes == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (!tn_sim_device_exists(device))
        return TN_CUDA_ERROR_INVALID_DEVICE;
    *bytes = tn_sim.memory_bytes;
    return TN_CUDA_SUCCESS;
}
