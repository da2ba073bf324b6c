// SPDX-License-Identifier: Apache-2.0
/* How it works. cuStreamBatchMemOp does all operations, one call for any number. Memory on the host
 * is the driver's mapped memory of the device's NUMA node. Device and processors have the same
 * address, in the importing process, too.
 *
 * Trade-offs: no wait flushes writes of others. Streams and processors write the words, and need no
 * flush; another device on the bus would. */
#include "driver/word.h"

#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "driver/mapping.h"
#include "driver/result.h"
#include "driver/stream.h"

static const char what[] = "mapping memory for words";

tarn_status tn_words_require(struct tn_gpu *gpu, bool *wide)
{
    int has_wide = 0;
    tn_cu_result result;

    if (gpu->driver->cuStreamBatchMemOp == NULL)
        return tn_fail(
            TARN_ERR_NOT_SUPPORTED,
            "streams cannot wait for words: the CUDA driver has no cuStreamBatchMemOp of "
            "version 11.7");
    result = gpu->driver->cuDeviceGetAttribute(&has_wide, TN_CU_ATTR_CAN_USE_64_BIT_STREAM_MEM_OPS,
                                               gpu->device);
    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, "asking what the device can do", "cuDeviceGetAttribute");
    *wide = has_wide != 0;
    return TARN_OK;
}

/* The place as the driver names it. */
static tarn_status locate(struct tn_gpu *gpu, enum tn_word_place place, tn_cu_location *location)
{
    int node = 0;
    tn_cu_result result;
    tarn_status status;

    *location = (tn_cu_location){.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu->device};
    if (place == TN_WORDS_ON_DEVICE)
        return TARN_OK;
    status = tn_gpu_require_attribute(gpu, TN_CU_ATTR_HOST_NUMA_VMM_SUPPORTED,
                                      "page-locked memory of the host that can be mapped");
    if (status != TARN_OK)
        return status;
    result = gpu->driver->cuDeviceGetAttribute(&node, TN_CU_ATTR_HOST_NUMA_ID, gpu->device);
    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, what, "cuDeviceGetAttribute");
    /* A host without nodes has all memory on the first. */
    *location =
        (tn_cu_location){.type = TN_CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = node > 0 ? node : 0};
    return TARN_OK;
}

/* Maps the memory at addresses of its own, for the device, and on the host for processors, too. */
static tarn_status map(struct tn_gpu *gpu, const tn_cu_location *location,
                       struct tn_word_memory *memory)
{
    tn_cu_access_desc access[2] = {{.flags = TN_CU_MEM_ACCESS_READWRITE},
                                   {.location = *location, .flags = TN_CU_MEM_ACCESS_READWRITE}};
    const char *call = "cuMemMap";
    tn_cu_result result;
    tarn_status status =
        tn_gpu_reserve_addresses(gpu, memory->bytes, memory->bytes, 0, &memory->address);

    if (status != TARN_OK)
        return status;
    access[0].location =
        (tn_cu_location){.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu->device};
    result = gpu->driver->cuMemMap(memory->address, memory->bytes, 0, memory->handle, 0);
    tn_gpu_count(gpu, TN_CALL_MAP);
    if (result == TN_CUDA_SUCCESS) {
        call = "cuMemSetAccess";
        result = gpu->driver->cuMemSetAccess(memory->address, memory->bytes, access,
                                             memory->place == TN_WORDS_ON_HOST ? 2 : 1);
        tn_gpu_count(gpu, TN_CALL_SET_ACCESS);
        if (result != TN_CUDA_SUCCESS)
            tn_gpu_unmap(gpu, memory->address, memory->bytes);
    }
    if (result == TN_CUDA_SUCCESS)
        return TARN_OK;
    status = tn_gpu_failed(gpu, result, what, call);
    tn_gpu_free_addresses(gpu, memory->address, memory->bytes);
    return status;
}

/* Maps a handle that was just had, or gives it up. */
static tarn_status keep(struct tn_gpu *gpu, const tn_cu_location *location,
                        const struct tn_word_memory *made, struct tn_word_memory *memory)
{
    struct tn_word_memory mapped = *made;
    tarn_status status = map(gpu, location, &mapped);

    if (status != TARN_OK) {
        tn_gpu_release_memory(gpu, mapped.handle);
        return status;
    }
    *memory = mapped;
    return TARN_OK;
}

static uint64_t whole_bytes(uint64_t granularity, uint64_t bytes)
{
    return (bytes + granularity - 1) / granularity * granularity;
}

/* The properties of memory for words, and how large it is. */
static tarn_status plan(struct tn_gpu *gpu, enum tn_word_place place, uint64_t bytes,
                        tn_cu_allocation_prop *prop, struct tn_word_memory *memory)
{
    size_t granularity = 0;
    tn_cu_result result;
    tarn_status status =
        tn_gpu_check_properties(gpu, (struct tn_memory_properties){.exportable = true});

    TN_ASSERT(bytes > 0 && bytes <= UINT64_MAX / 2);
    *prop = (tn_cu_allocation_prop){.type = TN_CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .requested_handle_types = TN_CU_MEM_HANDLE_TYPE_POSIX_FD};
    if (status == TARN_OK)
        status = locate(gpu, place, &prop->location);
    if (status != TARN_OK)
        return status;
    result = gpu->driver->cuMemGetAllocationGranularity(&granularity, prop,
                                                        TN_CU_MEM_GRANULARITY_RECOMMENDED);
    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, what, "cuMemGetAllocationGranularity");
    *memory = (struct tn_word_memory){.bytes = whole_bytes(granularity, bytes), .place = place};
    return TARN_OK;
}

tarn_status tn_word_memory_create(struct tn_gpu *gpu, enum tn_word_place place, uint64_t bytes,
                                  struct tn_word_memory *memory)
{
    struct tn_word_memory made;
    tn_cu_allocation_prop prop;
    tn_cu_result result;
    tarn_status status = plan(gpu, place, bytes, &prop, &made);

    if (status != TARN_OK)
        return status;
    result = gpu->driver->cuMemCreate(&made.handle, made.bytes, &prop, 0);
    tn_gpu_count(gpu, TN_CALL_CREATE);
    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, what, "cuMemCreate");
    return keep(gpu, &prop.location, &made, memory);
}

tarn_status tn_word_memory_export(struct tn_gpu *gpu, const struct tn_word_memory *memory,
                                  int *descriptor)
{
    int made = -1;
    tn_cu_result result = gpu->driver->cuMemExportToShareableHandle(
        &made, memory->handle, TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 0);

    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, "exporting memory for words",
                             "cuMemExportToShareableHandle");
    TN_ASSERT(made >= 0);
    *descriptor = made;
    return TARN_OK;
}

tarn_status tn_word_memory_import(struct tn_gpu *gpu, enum tn_word_place place, uint64_t bytes,
                                  int descriptor, struct tn_word_memory *memory)
{
    struct tn_word_memory made;
    tn_cu_allocation_prop prop;
    tn_cu_result result;
    tarn_status status = plan(gpu, place, bytes, &prop, &made);

    if (status != TARN_OK)
        return status;
    result = gpu->driver->cuMemImportFromShareableHandle(&made.handle, (void *)(intptr_t)descriptor,
                                                         TN_CU_MEM_HANDLE_TYPE_POSIX_FD);
    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, "importing memory for words",
                             "cuMemImportFromShareableHandle");
    return keep(gpu, &prop.location, &made, memory);
}

void tn_word_memory_end(struct tn_gpu *gpu, const struct tn_word_memory *memory)
{
    tn_gpu_unmap(gpu, memory->address, memory->bytes);
    tn_gpu_release_memory(gpu, memory->handle);
    tn_gpu_free_addresses(gpu, memory->address, memory->bytes);
}

tarn_status tn_stream_do_words(struct tn_gpu *gpu, tn_cu_stream stream, tn_cu_batch_op *ops,
                               unsigned int count)
{
    tn_cu_result result;
    bool pushed;
    tarn_status status;

    TN_ASSERT(count > 0 && count <= TN_WORD_OPS_MAX && gpu->driver->cuStreamBatchMemOp != NULL);
    /* The call would break the other stream's capture (D2). */
    if (tn_stream_is_legacy(stream) && tn_stream_is_closed(gpu, stream))
        return tn_fail(TARN_ERR_WRONG_STATE,
                       "the legacy default stream cannot wait for words now: a stream that is "
                       "ordered with it is being captured");
    status = tn_stream_enter(gpu, stream, &pushed);
    if (status != TARN_OK)
        return status;
    result = gpu->driver->cuStreamBatchMemOp(stream, count, ops, 0);
    tn_gpu_leave(gpu, pushed);
    if (result == TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
        return tn_fail(TARN_ERR_CAPTURE_BROKEN,
                       "the stream's capture is broken: cuStreamBatchMemOp answered %s",
                       tn_result_name(result));
    return tn_gpu_answered(gpu, result, "ordering streams by words", "cuStreamBatchMemOp");
}
