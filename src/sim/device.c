// SPDX-License-Identifier: Apache-2.0
/* device.c -- cuInit and what can be asked of a device.
 *
 * How it works. cuInit makes every device: its memory (store.c) and the handle of its primary
 * context. It is the step after which a fork is fatal to the child.
 *
 * Trade-offs. Attributes that Tarn does not name are INVALID_VALUE, so that a program which comes
 * to rely on another one is noticed. */
#include <stdio.h>

#include "sim/context.h"

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
    for (int i = 0; i < tn_sim.device_count; i++) {
        struct tn_sim_device *device = &tn_sim_devices[i];
        /* An earlier try may have got so far before it failed. */
        if (device->context.object.handle != 0)
            continue;
        if (!tn_sim_store_init(&device->store, tn_sim.memory_bytes))
            return TN_CUDA_ERROR_OPERATING_SYSTEM;
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
    switch (attribute) {
    case TN_CU_ATTR_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        return TN_CUDA_SUCCESS;
    case TN_CU_ATTR_WARP_SIZE:
        *value = 32;
        return TN_CUDA_SUCCESS;
    case TN_CU_ATTR_VMM_SUPPORTED:
        *value = !tn_sim.without_vmm;
        return TN_CUDA_SUCCESS;
    case TN_CU_ATTR_MULTIPROCESSOR_COUNT: /* of an H200, as the capability below */
        *value = TN_SIM_MULTIPROCESSORS;
        return TN_CUDA_SUCCESS;
    case TN_CU_ATTR_COMPUTE_CAPABILITY_MAJOR:
        *value = 9;
        return TN_CUDA_SUCCESS;
    case TN_CU_ATTR_MEMPOOL_HANDLE_TYPES:
        *value = TN_CU_MEM_HANDLE_TYPE_POSIX_FD | TN_CU_MEM_HANDLE_TYPE_FABRIC;
        return TN_CUDA_SUCCESS;
    case TN_CU_ATTR_COMPUTE_CAPABILITY_MINOR:
    case TN_CU_ATTR_PAGEABLE_MEMORY_ACCESS:
    case TN_CU_ATTR_MULTICAST_SUPPORTED:
    case TN_CU_ATTR_HOST_NUMA_ID: /* the first node */
        *value = 0;
        return TN_CUDA_SUCCESS;
    case TN_CU_ATTR_UNIFIED_ADDRESSING:
    case TN_CU_ATTR_HANDLE_TYPE_POSIX_FD_SUPPORTED:
    case TN_CU_ATTR_GPU_DIRECT_RDMA_WITH_VMM_SUPPORTED:
    case TN_CU_ATTR_HOST_REGISTER_SUPPORTED:
    case TN_CU_ATTR_GENERIC_COMPRESSION_SUPPORTED:
    case TN_CU_ATTR_MEMORY_POOLS_SUPPORTED:
    case TN_CU_ATTR_DMA_BUF_SUPPORTED:
    case TN_CU_ATTR_IPC_EVENT_SUPPORTED:
    case TN_CU_ATTR_HANDLE_TYPE_FABRIC_SUPPORTED: /* it says so, and refuses them all the same */
    case TN_CU_ATTR_HOST_NUMA_VMM_SUPPORTED:
    case TN_CU_ATTR_HOST_VMM_SUPPORTED:
        *value = 1;
        return TN_CUDA_SUCCESS;
    }
    return TN_CUDA_ERROR_INVALID_VALUE;
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
