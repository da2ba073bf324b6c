// SPDX-License-Identifier: Apache-2.0
/* shim.c -- a driver that lacks something: the simulated one behind a filter.
 *
 * A library for TARN_DRIVER. TARN_SHIM_DRIVER names the driver behind it, TARN_SHIM_MISSING a
 * function that it does not have, and TARN_SHIM_NO_VMM=1 takes virtual memory management away. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "abi/functions.h"

static tn_pfn_cuDeviceGetAttribute get_attribute;

static tn_cu_result without_vmm(int *value, tn_cu_device_attribute attribute, tn_cu_device device)
{
    if (attribute != TN_CU_ATTR_VMM_SUPPORTED)
        return get_attribute(value, attribute, device);
    *value = 0;
    return TN_CUDA_SUCCESS;
}

__attribute__((visibility("default"))) tn_cu_result cuGetProcAddress_v2(const char *name,
                                                                        void **address, int version,
                                                                        uint64_t flags,
                                                                        tn_cu_proc_status *found);

tn_cu_result cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags,
                                 tn_cu_proc_status *found)
{
    const char *missing = getenv("TARN_SHIM_MISSING");
    void *behind = dlopen(getenv("TARN_SHIM_DRIVER"), RTLD_NOW | RTLD_LOCAL);
    void *symbol = behind != NULL ? dlsym(behind, "cuGetProcAddress_v2") : NULL;
    tn_pfn_cuGetProcAddress resolve;
    tn_cu_result result;

    if (symbol == NULL)
        return TN_CUDA_ERROR_NOT_FOUND;
    if (missing != NULL && strcmp(name, missing) == 0) {
        *address = NULL;
        if (found != NULL)
            *found = TN_CU_PROC_VERSION_NOT_SUFFICIENT;
        return TN_CUDA_SUCCESS;
    }
    memcpy(&resolve, &symbol, sizeof resolve);
    result = resolve(name, address, version, flags, found);
    if (result == TN_CUDA_SUCCESS && getenv("TARN_SHIM_NO_VMM") != NULL &&
        strcmp(name, "cuDeviceGetAttribute") == 0) {
        tn_pfn_cuDeviceGetAttribute mine = without_vmm;

        memcpy(&get_attribute, address, sizeof get_attribute);
        memcpy(address, &mine, sizeof mine);
    }
    return result;
}
