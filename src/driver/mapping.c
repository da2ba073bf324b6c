// SPDX-License-Identifier: Apache-2.0
#include "driver/mapping.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "driver/gpu.h"
#include "driver/result.h"
#include "driver/sanitizer.h"

tarn_status tn_gpu_reserve_addresses(struct tn_gpu *gpu, uint64_t bytes, uint64_t alignment,
                                     uint64_t hint, uint64_t *address)
{
    tn_cu_deviceptr granted = 0;
    tn_cu_result result = gpu->driver->cuMemAddressReserve(&granted, bytes, alignment, hint, 0);

    tn_gpu_count(gpu, TN_CALL_RESERVE);
    if (result == TN_CUDA_ERROR_OUT_OF_MEMORY)
        return tn_fail(TARN_ERR_ADDRESS_SPACE,
                       "reserving %llu MiB of addresses: cuMemAddressReserve answered %s",
                       (unsigned long long)(bytes / TN_MIB), tn_result_name(result));
    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, "reserving addresses", "cuMemAddressReserve");
    *address = granted;
    return TARN_OK;
}

void tn_gpu_free_addresses(struct tn_gpu *gpu, uint64_t address, uint64_t bytes)
{
    tn_gpu_count(gpu, TN_CALL_UNRESERVE);
    tn_gpu_teardown(gpu, gpu->driver->cuMemAddressFree(address, bytes), "cuMemAddressFree");
}

static tn_cu_allocation_prop allocation_properties(const struct tn_gpu *gpu,
                                                   struct tn_memory_properties properties)
{
    tn_cu_allocation_prop prop = {0};

    prop.type = TN_CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = TN_CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = gpu->device;
    if (properties.host)
        prop.location = (tn_cu_location){.type = TN_CU_MEM_LOCATION_TYPE_HOST_NUMA,
                                         .id = atomic_load(&gpu->host_node)};
    if (properties.exportable)
        prop.requested_handle_types = TN_CU_MEM_HANDLE_TYPE_POSIX_FD;
    prop.alloc_flags.gpu_direct_rdma_capable = properties.rdma;
    return prop;
}

tarn_status tn_gpu_granularity(struct tn_gpu *gpu, uint64_t *bytes)
{
    tn_cu_allocation_prop prop =
        allocation_properties(gpu, (struct tn_memory_properties){.exportable = false});
    size_t granularity = 0;
    tn_cu_result result = gpu->driver->cuMemGetAllocationGranularity(
        &granularity, &prop, TN_CU_MEM_GRANULARITY_RECOMMENDED);

    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, "opening the device", "cuMemGetAllocationGranularity");
    *bytes = granularity;
    return TARN_OK;
}

static const char *mapping_what(bool host)
{
    return host ? "mapping page-locked memory" : "mapping device memory";
}

/* The handle of all linear memory, which is at its addresses already. */
static const tn_cu_memhandle linear_handle = 1;

static tarn_status refuse_linear(const char *what)
{
    return tn_fail(TARN_ERR_NOT_SUPPORTED,
                   "the device was opened with sanitizer, where memory is not mapped: %s", what);
}

tarn_status tn_gpu_create_memory(struct tn_gpu *gpu, uint64_t bytes,
                                 struct tn_memory_properties properties, tn_cu_memhandle *handle)
{
    tn_cu_allocation_prop prop = allocation_properties(gpu, properties);
    tn_cu_memhandle created = 0;
    tn_cu_result result;

    if (tn_gpu_is_linear(gpu)) {
        *handle = linear_handle;
        return TARN_OK;
    }
    result = gpu->driver->cuMemCreate(&created, bytes, &prop, 0);
    tn_gpu_count(gpu, TN_CALL_CREATE);
    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, mapping_what(properties.host), "cuMemCreate");
    *handle = created;
    return TARN_OK;
}

void tn_gpu_release_memory(struct tn_gpu *gpu, tn_cu_memhandle handle)
{
    if (tn_gpu_is_linear(gpu))
        return;
    tn_gpu_count(gpu, TN_CALL_RELEASE);
    tn_gpu_teardown(gpu, gpu->driver->cuMemRelease(handle), "cuMemRelease");
}

tarn_status tn_gpu_export_memory(struct tn_gpu *gpu, tn_cu_memhandle handle, int *descriptor)
{
    int made = -1;
    tn_cu_result result =
        gpu->driver->cuMemExportToShareableHandle(&made, handle, TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 0);

    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, "exporting memory", "cuMemExportToShareableHandle");
    TN_ASSERT(made >= 0);
    *descriptor = made;
    return TARN_OK;
}

tarn_status tn_gpu_import_memory(struct tn_gpu *gpu, int descriptor, tn_cu_memhandle *handle)
{
    tn_cu_memhandle imported = 0;
    tn_cu_result result;

    TN_ASSERT(descriptor >= 0);
    if (tn_gpu_is_linear(gpu))
        return refuse_linear("nothing of another process can be mapped");
    result = gpu->driver->cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)descriptor,
                                                         TN_CU_MEM_HANDLE_TYPE_POSIX_FD);
    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, "importing memory", "cuMemImportFromShareableHandle");
    *handle = imported;
    return TARN_OK;
}

static tn_cu_access_desc access_of(int ordinal, int flags)
{
    tn_cu_access_desc desc = {0};

    desc.location.type = TN_CU_MEM_LOCATION_TYPE_DEVICE;
    desc.location.id = ordinal;
    desc.flags = flags;
    return desc;
}

tarn_status tn_gpu_map(struct tn_gpu *gpu, uint64_t address, uint64_t bytes, tn_cu_memhandle handle,
                       uint64_t peer_mask, bool host)
{
    tn_cu_access_desc access[TN_GPU_PEERS_MAX + 2]; /* the device and the host, too */
    size_t count = 0;
    tarn_status status;
    tn_cu_result result;

    if (tn_gpu_is_linear(gpu))
        return TARN_OK;
    result = gpu->driver->cuMemMap(address, bytes, 0, handle, 0);
    tn_gpu_count(gpu, TN_CALL_MAP);
    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, mapping_what(host), "cuMemMap");
    access[count++] = access_of(gpu->device, TN_CU_MEM_ACCESS_READWRITE);
    if (host) {
        access[count] = access_of(atomic_load(&gpu->host_node), TN_CU_MEM_ACCESS_READWRITE);
        access[count++].location.type = TN_CU_MEM_LOCATION_TYPE_HOST_NUMA;
    }
    for (uint64_t peers = peer_mask; peers != 0; peers &= peers - 1)
        access[count++] = access_of(__builtin_ctzll(peers), TN_CU_MEM_ACCESS_READWRITE);
    tn_gpu_count(gpu, TN_CALL_SET_ACCESS);
    result = gpu->driver->cuMemSetAccess(address, bytes, access, count);
    if (result == TN_CUDA_SUCCESS)
        return TARN_OK;
    status = tn_gpu_failed(gpu, result, mapping_what(host), "cuMemSetAccess");
    tn_gpu_unmap(gpu, address, bytes);
    return status;
}

void tn_gpu_unmap(struct tn_gpu *gpu, uint64_t address, uint64_t bytes)
{
    if (tn_gpu_is_linear(gpu))
        return;
    tn_gpu_count(gpu, TN_CALL_UNMAP);
    tn_gpu_teardown(gpu, gpu->driver->cuMemUnmap(address, bytes), "cuMemUnmap");
}

tarn_status tn_gpu_add_access(struct tn_gpu *gpu, uint64_t address, uint64_t bytes, int peer)
{
    tn_cu_access_desc access = access_of(peer, TN_CU_MEM_ACCESS_READWRITE);
    tn_cu_result result = gpu->driver->cuMemSetAccess(address, bytes, &access, 1);

    tn_gpu_count(gpu, TN_CALL_SET_ACCESS);
    return tn_gpu_answered(gpu, result, "giving a peer access", "cuMemSetAccess");
}

void tn_gpu_remove_access(struct tn_gpu *gpu, uint64_t address, uint64_t bytes, int peer)
{
    tn_cu_access_desc access = access_of(peer, TN_CU_MEM_ACCESS_NONE);

    tn_gpu_count(gpu, TN_CALL_SET_ACCESS);
    tn_gpu_teardown(gpu, gpu->driver->cuMemSetAccess(address, bytes, &access, 1), "cuMemSetAccess");
}

/* A host without nodes has all memory on the first. */
static tarn_status find_host_node(struct tn_gpu *gpu)
{
    int node = 0;
    tn_cu_result result =
        gpu->driver->cuDeviceGetAttribute(&node, TN_CU_ATTR_HOST_NUMA_ID, gpu->device);

    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, "asking for the device's node", "cuDeviceGetAttribute");
    atomic_store(&gpu->host_node, node > 0 ? node : 0);
    return TARN_OK;
}

tarn_status tn_gpu_check_properties(struct tn_gpu *gpu, struct tn_memory_properties properties)
{
    tarn_status status = TARN_OK;

    if (tn_gpu_is_linear(gpu) && (properties.host || properties.exportable || properties.rdma))
        return refuse_linear("no memory is for the host, for other processes or for RDMA");
    if (properties.host)
        status = tn_gpu_require_attribute(gpu, TN_CU_ATTR_HOST_NUMA_VMM_SUPPORTED,
                                          "page-locked memory of the host that can be mapped");
    if (status == TARN_OK && properties.host)
        status = find_host_node(gpu);
    if (status == TARN_OK && properties.host && properties.rdma)
        status = tn_fail(TARN_ERR_NOT_SUPPORTED,
                         "GPUDirect RDMA is for memory of devices: page-locked memory needs none");
    if (status == TARN_OK && properties.exportable)
        status = tn_gpu_require_attribute(gpu, TN_CU_ATTR_HANDLE_TYPE_POSIX_FD_SUPPORTED,
                                          "memory that file descriptors can be exported for");
    if (status == TARN_OK && properties.rdma)
        status = tn_gpu_require_attribute(gpu, TN_CU_ATTR_GPU_DIRECT_RDMA_WITH_VMM_SUPPORTED,
                                          "GPUDirect RDMA for mapped memory");
    return status;
}

tarn_status tn_gpu_peer_mask(struct tn_gpu *gpu, int peer, uint64_t *mask)
{
    tn_cu_device device;
    int count = 0;
    int can = 0;
    const char *call = "cuDeviceGetCount";
    tn_cu_result result = gpu->driver->cuDeviceGetCount(&count);

    if (result == TN_CUDA_SUCCESS && (peer < 0 || peer >= count || peer >= TN_GPU_PEERS_MAX))
        return tn_fail(TARN_ERR_INVALID_ARGUMENT,
                       "device %d does not exist and cannot be a peer: the driver has %d", peer,
                       count);
    if (result == TN_CUDA_SUCCESS) {
        call = "cuDeviceGet";
        result = gpu->driver->cuDeviceGet(&device, peer);
    }
    if (result == TN_CUDA_SUCCESS && peer != gpu->ordinal) {
        call = "cuDeviceCanAccessPeer";
        result = gpu->driver->cuDeviceCanAccessPeer(&can, device, gpu->device);
    }
    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, "asking for peer access", call);
    if (peer != gpu->ordinal && !can)
        return tn_fail(TARN_ERR_NOT_SUPPORTED, "device %d cannot use memory of device %d", peer,
                       gpu->ordinal);
    if (peer != gpu->ordinal && tn_gpu_is_linear(gpu))
        return refuse_linear("no peer can be given access");
    *mask = peer != gpu->ordinal ? (uint64_t)1 << peer : 0;
    return TARN_OK;
}

tarn_status tn_gpu_others_mask(struct tn_gpu *gpu, uint64_t *mask)
{
    int count = 0;
    uint64_t others = 0;
    const char *call = "cuDeviceGetCount";
    tn_cu_result result = gpu->driver->cuDeviceGetCount(&count);

    for (int i = 0; i < count && i < TN_GPU_PEERS_MAX && result == TN_CUDA_SUCCESS; i++) {
        tn_cu_device device = 0;
        int maps = 0;

        call = "cuDeviceGet";
        result = gpu->driver->cuDeviceGet(&device, i);
        if (result != TN_CUDA_SUCCESS || i == gpu->ordinal)
            continue;
        call = "cuDeviceGetAttribute";
        result = gpu->driver->cuDeviceGetAttribute(&maps, TN_CU_ATTR_VMM_SUPPORTED, device);
        others |= (uint64_t)(maps != 0) << i;
    }
    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, "asking which devices there are", call);
    *mask = others;
    return TARN_OK;
}

void tn_gpu_memory_info(struct tn_gpu *gpu, size_t *free_bytes, size_t *total_bytes)
{
    bool pushed;

    *free_bytes = 0;
    *total_bytes = 0;
    if (tn_gpu_enter(gpu, gpu->context, &pushed) != TARN_OK)
        return;
    if (gpu->driver->cuMemGetInfo(free_bytes, total_bytes) != TN_CUDA_SUCCESS) {
        *free_bytes = 0;
        *total_bytes = 0;
    }
    tn_gpu_leave(gpu, pushed);
}
