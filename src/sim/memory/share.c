// SPDX-License-Identifier: Apache-2.0
/* share.c -- physical memory as file descriptors: exported, imported, and for other devices.
 *
 * How it works. An exported descriptor belongs to the memory's own file, opened anew (backing.c).
 * Each import is a new object with a handle and a reference of its own, in the exporting process
 * too.
 *
 * Trade-offs. A descriptor for other devices (dma-buf) has the size of the range and no contents:
 * no other device could read them. */
#include <sys/mman.h>
#include <unistd.h>

#include "sim/memory/physical.h"
#include "sim/memory/space.h"

#define RANGE_FLAG_PCIE 1u /* how the other device reaches the memory */

tn_cu_result tn_sim_cuMemExportToShareableHandle(void *shareable, tn_cu_memhandle handle,
                                                 tn_cu_handle_type type, unsigned long long flags)
{
    const struct tn_sim_physical *physical = tn_sim_physical_find(handle);
    if (shareable == NULL || physical == NULL || flags != 0 ||
        type != TN_CU_MEM_HANDLE_TYPE_POSIX_FD ||
        (physical->prop.requested_handle_types & TN_CU_MEM_HANDLE_TYPE_POSIX_FD) == 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    int file = tn_sim_backing_export(physical->backing);
    if (file < 0)
        return TN_CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)shareable = file;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuMemImportFromShareableHandle(tn_cu_memhandle *handle, void *shareable,
                                                   tn_cu_handle_type type)
{
    if (handle == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (type == TN_CU_MEM_HANDLE_TYPE_WIN32)
        return TN_CUDA_ERROR_NOT_SUPPORTED;
    if (type == TN_CU_MEM_HANDLE_TYPE_FABRIC)
        return TN_CUDA_ERROR_NOT_PERMITTED;
    if (type != TN_CU_MEM_HANDLE_TYPE_POSIX_FD)
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_backing *backing;
    /* An importer learns only the memory's location. */
    tn_cu_allocation_prop prop = {.type = TN_CU_MEM_ALLOCATION_TYPE_PINNED};
    tn_cu_result result = tn_sim_backing_open((int)(intptr_t)shareable, &backing, &prop.location);
    if (result != TN_CUDA_SUCCESS)
        return result;
    const struct tn_sim_physical *physical = tn_sim_physical_create(backing, &prop);
    if (physical == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    *handle = physical->object.handle;
    return TN_CUDA_SUCCESS;
}

/* Asks whether every byte of a range is memory of devices. */
static bool all_on_devices(uintptr_t start, size_t bytes)
{
    uintptr_t end = start + bytes;
    while (start < end) {
        const struct tn_sim_mapping *mapping = tn_sim_index_find(&tn_sim_mappings, start);
        const struct tn_sim_span *span = tn_sim_index_find(&tn_sim_linears, start);
        if (mapping != NULL && !tn_sim_physical_on_host(mapping->physical))
            span = &mapping->span;
        if (span == NULL)
            return false;
        start = span->start + span->bytes;
    }
    return true;
}

/* Checks the range of a descriptor for other devices. */
static tn_cu_result check_range(tn_cu_deviceptr address, size_t bytes, tn_cu_range_handle_type type,
                                unsigned long long flags)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

    if (bytes == 0 || address % page != 0 || bytes % page != 0 || address + bytes < address ||
        type != TN_CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD ||
        (flags & ~(unsigned long long)RANGE_FLAG_PCIE) != 0 || !all_on_devices(address, bytes))
        return TN_CUDA_ERROR_INVALID_VALUE;
    return flags == 0 ? TN_CUDA_SUCCESS : TN_CUDA_ERROR_NOT_SUPPORTED;
}

tn_cu_result tn_sim_cuMemGetHandleForAddressRange(void *handle, tn_cu_deviceptr address,
                                                  size_t bytes, tn_cu_range_handle_type type,
                                                  unsigned long long flags)
{
    if (handle == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    *(int *)handle = -1;
    tn_cu_result result = check_range(address, bytes, type, flags);
    if (result != TN_CUDA_SUCCESS)
        return result;
    int file = memfd_create("tarn_sim_dma_buf", MFD_CLOEXEC);
    if (file < 0)
        return TN_CUDA_ERROR_OPERATING_SYSTEM;
    if (ftruncate(file, (off_t)bytes) != 0) {
        close(file);
        return TN_CUDA_ERROR_OPERATING_SYSTEM;
    }
    *(int *)handle = file;
    return TN_CUDA_SUCCESS;
}
