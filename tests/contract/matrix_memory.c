// SPDX-License-Identifier: Apache-2.0
/* matrix_memory.c -- the rows of memory: addresses, allocations, pools, pointers, copies and sets.
 * */
#include <unistd.h>

#include "contract/matrix.h"

#define PAGE ((size_t)4096)
#define GRANULE (2 * MIB)

static const tn_cu_location device = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};

static void create(struct matrix_things *t)
{
    tn_cu_allocation_prop prop = contract_prop(0);
    prop.requested_handle_types = TN_CU_MEM_HANDLE_TYPE_POSIX_FD;
    SET_UP(cuMemCreate(&t->handle, GRANULE, &prop, 0));
}

static tn_cu_result create_call(struct matrix_things *t)
{
    tn_cu_allocation_prop prop = contract_prop(0);
    return cu.cuMemCreate(&t->handle, GRANULE, &prop, 0);
}

static void reserve(struct matrix_things *t)
{
    SET_UP(cuMemAddressReserve(&t->address, GRANULE, 0, 0, 0));
}

static void map(struct matrix_things *t)
{
    create(t);
    reserve(t);
    SET_UP(cuMemMap(t->address, GRANULE, 0, t->handle, 0));
}

static void unmap(struct matrix_things *t, bool is_mapped)
{
    if (is_mapped)
        SET_UP(cuMemUnmap(t->address, GRANULE));
    SET_UP(cuMemRelease(t->handle));
    SET_UP(cuMemAddressFree(t->address, GRANULE));
}

static tn_cu_result granularity(struct matrix_things *t)
{
    tn_cu_allocation_prop prop = contract_prop(0);
    return cu.cuMemGetAllocationGranularity(&t->bytes, &prop, TN_CU_MEM_GRANULARITY_MINIMUM);
}

static tn_cu_result properties(struct matrix_things *t)
{
    tn_cu_allocation_prop prop;
    return cu.cuMemGetAllocationPropertiesFromHandle(&prop, t->mapped.handle);
}

static void export_handle(struct matrix_things *t)
{
    create(t);
    SET_UP(cuMemExportToShareableHandle(&t->file, t->handle, TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 0));
}

static void end_export(struct matrix_things *t)
{
    close(t->file);
    SET_UP(cuMemRelease(t->handle));
}

static tn_cu_result import_handle(struct matrix_things *t)
{
    tn_cu_memhandle imported;
    tn_cu_result result = cu.cuMemImportFromShareableHandle(
        &imported, (void *)(uintptr_t)t->file, TN_CU_MEM_HANDLE_TYPE_POSIX_FD); // NOLINT
    if (result == TN_CUDA_SUCCESS)
        cu.cuMemRelease(imported);
    return result;
}

static tn_cu_result pointer_attributes(struct matrix_things *t)
{
    tn_cu_pointer_attribute attribute = TN_CU_POINTER_MEMORY_TYPE;
    void *value = &t->number;
    return cu.cuPointerGetAttributes(1, &attribute, &value, t->linear);
}

static tn_cu_result set_sync_memops(struct matrix_things *t)
{
    unsigned int off = 0;
    return cu.cuPointerSetAttribute(&off, TN_CU_POINTER_SYNC_MEMOPS, t->linear);
}

static tn_cu_result create_pool(struct matrix_things *t)
{
    tn_cu_pool_props props = {.type = TN_CU_MEM_ALLOCATION_TYPE_PINNED, .location = device};
    return cu.cuMemPoolCreate(&t->pool, &props);
}

static void default_pool(struct matrix_things *t)
{
    SET_UP(cuDeviceGetDefaultMemPool(&t->pool, 0));
}

static tn_cu_result set_threshold(struct matrix_things *t)
{
    uint64_t none = 0;
    return cu.cuMemPoolSetAttribute(t->pool, TN_CU_POOL_ATTR_RELEASE_THRESHOLD, &none);
}

static void alloc_async(struct matrix_things *t)
{
    SET_UP(cuMemAllocAsync(&t->address, PAGE, t->other));
    SET_UP(cuStreamSynchronize(t->other));
}

/* What was allocated for a graph's node goes with the graph. */
static void free_async(struct matrix_things *t, bool done)
{
    if (done && t->stream != t->capturing)
        SET_UP(cuMemFreeAsync(t->address, t->other));
}

static tn_cu_result copy_batch(struct matrix_things *t)
{
    tn_cu_deviceptr to = t->mapped.address;
    tn_cu_deviceptr from = t->mapped.address + PAGE;
    size_t bytes = PAGE;
    tn_cu_memcpy_attributes attributes = {.source_order = 1};
    size_t start = 0;
    size_t failed;
    return cu.cuMemcpyBatchAsync(&to, &from, &bytes, 1, &attributes, &start, 1, &failed, t->stream);
}

/* Waits for what it has written itself. */
static tn_cu_result write_and_wait(struct matrix_things *t)
{
    tn_cu_batch_op ops[2] = {0};
    ops[0].value.operation = TN_CU_STREAM_MEM_OP_WRITE_VALUE_32;
    ops[0].value.address = t->mapped.address;
    ops[0].value.value = 1;
    ops[1] = ops[0];
    ops[1].value.operation = TN_CU_STREAM_MEM_OP_WAIT_VALUE_32;
    return cu.cuStreamBatchMemOp(t->stream, 2, ops, 0);
}

// clang-format off
#define ROWS(X)                                                                                    \
    X(cuMemGetAllocationGranularity, false, FREE, , granularity(t), )                              \
    X(cuMemAddressReserve, false, FREE, , cu.cuMemAddressReserve(&t->address, GRANULE, 0, 0, 0),   \
      if (done) SET_UP(cuMemAddressFree(t->address, GRANULE)))                                     \
    X(cuMemAddressFree, false, FREE, reserve(t), cu.cuMemAddressFree(t->address, GRANULE),         \
      if (!done) SET_UP(cuMemAddressFree(t->address, GRANULE)))                                    \
    X(cuMemCreate, false, FREE, , create_call(t), if (done) SET_UP(cuMemRelease(t->handle)))       \
    X(cuMemRelease, false, FREE, create(t), cu.cuMemRelease(t->handle),                            \
      if (!done) SET_UP(cuMemRelease(t->handle)))                                                  \
    X(cuMemMap, false, FREE, create(t); reserve(t),                                                \
      cu.cuMemMap(t->address, GRANULE, 0, t->handle, 0), unmap(t, done))                           \
    X(cuMemSetAccess, false, FREE, map(t),                                                         \
      contract_access(t->address, GRANULE, TN_CU_MEM_ACCESS_READWRITE), unmap(t, true))            \
    X(cuMemUnmap, false, FREE, map(t), cu.cuMemUnmap(t->address, GRANULE), unmap(t, !done))        \
    X(cuMemGetAccess, false, FREE, , cu.cuMemGetAccess(&t->word, &device, t->mapped.address), )    \
    X(cuMemRetainAllocationHandle, false, FREE, ,                                                  \
      cu.cuMemRetainAllocationHandle(&t->handle, (void *)t->mapped.address), /* NOLINT */          \
      if (done) SET_UP(cuMemRelease(t->handle)))                                                   \
    X(cuMemGetAllocationPropertiesFromHandle, false, FREE, , properties(t), )                      \
    X(cuMemExportToShareableHandle, false, FREE, create(t),                                        \
      cu.cuMemExportToShareableHandle(&t->file, t->handle, TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 0),     \
      if (done) close(t->file); SET_UP(cuMemRelease(t->handle)))                                   \
    X(cuMemImportFromShareableHandle, false, FREE, export_handle(t), import_handle(t),             \
      end_export(t))                                                                               \
    X(cuMemGetHandleForAddressRange, false, FREE, ,                                                \
      cu.cuMemGetHandleForAddressRange(&t->file, t->mapped.address, GRANULE,                       \
                                       TN_CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),                 \
      if (done) close(t->file))                                                                    \
    X(cuMemGetAddressRange, false, FREE, ,                                                         \
      cu.cuMemGetAddressRange(&t->address, &t->bytes, t->linear), )                                \
    X(cuMemGetInfo, false, FREE, , cu.cuMemGetInfo(&t->bytes, (size_t *)&t->word), )               \
                                                                                                   \
    X(cuMemAlloc, false, UNSAFE, , cu.cuMemAlloc(&t->address, PAGE),                               \
      if (done) SET_UP(cuMemFree(t->address)))                                                     \
    X(cuMemFree, true, UNSAFE, SET_UP(cuMemAlloc(&t->address, PAGE)), cu.cuMemFree(t->address),    \
      if (!done) SET_UP(cuMemFree(t->address)))                                                    \
    X(cuMemHostAlloc, false, UNSAFE, , cu.cuMemHostAlloc(&t->pointer, PAGE, 0),                    \
      if (done) SET_UP(cuMemFreeHost(t->pointer)))                                                 \
    X(cuMemFreeHost, true, UNSAFE, SET_UP(cuMemHostAlloc(&t->pointer, PAGE, 0)),                   \
      cu.cuMemFreeHost(t->pointer), if (!done) SET_UP(cuMemFreeHost(t->pointer)))                  \
    X(cuMemHostRegister, false, UNSAFE, , cu.cuMemHostRegister(t->pageable, PAGE, 0),              \
      if (done) SET_UP(cuMemHostUnregister(t->pageable)))                                          \
    X(cuMemHostUnregister, true, UNSAFE, SET_UP(cuMemHostRegister(t->pageable, PAGE, 0)),          \
      cu.cuMemHostUnregister(t->pageable), if (!done) SET_UP(cuMemHostUnregister(t->pageable)))    \
    X(cuMemHostGetDevicePointer, false, FREE, ,                                                    \
      cu.cuMemHostGetDevicePointer(&t->address, t->host, 0), )                                     \
    X(cuIpcGetMemHandle, false, FREE, , cu.cuIpcGetMemHandle(&t->ipc, t->linear), )                \
    X(cuIpcOpenMemHandle, false, FREE_GIVING(INVALID_CONTEXT), /* of its own process */            \
      SET_UP(cuIpcGetMemHandle(&t->ipc, t->linear)),                                               \
      cu.cuIpcOpenMemHandle(&t->address, t->ipc, TN_CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), )         \
    X(cuIpcCloseMemHandle, false, FREE_GIVING(INVALID_VALUE), /* not opened */ ,                   \
      cu.cuIpcCloseMemHandle(t->linear), )                                                         \
                                                                                                   \
    X(cuPointerGetAttribute, false, FREE, ,                                                        \
      cu.cuPointerGetAttribute(&t->number, TN_CU_POINTER_MEMORY_TYPE, t->linear), )                \
    X(cuPointerGetAttributes, false, FREE, , pointer_attributes(t), )                              \
    X(cuPointerSetAttribute, false, UNSAFE, , set_sync_memops(t), )                                \
                                                                                                   \
    X(cuDeviceGetDefaultMemPool, false, FREE, , cu.cuDeviceGetDefaultMemPool(&t->pool, 0), )       \
    X(cuDeviceGetMemPool, false, FREE, , cu.cuDeviceGetMemPool(&t->pool, 0), )                     \
    X(cuDeviceSetMemPool, false, UNSAFE, default_pool(t), cu.cuDeviceSetMemPool(0, t->pool), )     \
    X(cuMemPoolCreate, false, UNSAFE, , create_pool(t),                                            \
      if (done) SET_UP(cuMemPoolDestroy(t->pool)))                                                 \
    X(cuMemPoolDestroy, false, UNSAFE,                                                             \
      contract_set_up("cuMemPoolCreate(", create_pool(t), __FILE__, __LINE__),                     \
      cu.cuMemPoolDestroy(t->pool), if (!done) SET_UP(cuMemPoolDestroy(t->pool)))                  \
    X(cuMemPoolTrimTo, false, UNSAFE, default_pool(t), cu.cuMemPoolTrimTo(t->pool, 0), )           \
    X(cuMemPoolSetAttribute, false, UNSAFE, default_pool(t), set_threshold(t), )                   \
    X(cuMemPoolGetAttribute, false, UNSAFE, default_pool(t),                                       \
      cu.cuMemPoolGetAttribute(t->pool, TN_CU_POOL_ATTR_RELEASE_THRESHOLD, &t->word), )            \
    X(cuDeviceGraphMemTrim, false, FREE, , cu.cuDeviceGraphMemTrim(0), )                           \
    X(cuDeviceGetGraphMemAttribute, false, FREE, ,                                                 \
      cu.cuDeviceGetGraphMemAttribute(0, TN_CU_GRAPH_MEM_USED_CURRENT, &t->word), )

#define STREAM_ROWS(X)                                                                             \
    X(cuMemAllocAsync, false, NODE(MEM_ALLOC), UNSAFE, IMPLICIT, UNSAFE, ,                         \
      cu.cuMemAllocAsync(&t->address, PAGE, t->stream), free_async(t, done))                       \
    X(cuMemAllocFromPoolAsync, false, NODE(MEM_ALLOC), UNSAFE, IMPLICIT, UNSAFE, default_pool(t),  \
      cu.cuMemAllocFromPoolAsync(&t->address, PAGE, t->pool, t->stream), free_async(t, done))      \
    X(cuMemFreeAsync, false, FREE_GIVING(INVALID_VALUE), UNSAFE, IMPLICIT, UNSAFE,                 \
      alloc_async(t), cu.cuMemFreeAsync(t->address, t->stream),                                    \
      if (!done) SET_UP(cuMemFreeAsync(t->address, t->other)))                                     \
    X(cuMemcpy, false, LEFT_OUT, LEFT_OUT, IMPLICIT, FREE, ,                                       \
      cu.cuMemcpy(t->mapped.address, t->mapped.address + PAGE, PAGE), )                            \
    X(cuMemcpyHtoD, false, LEFT_OUT, LEFT_OUT, IMPLICIT, FREE, ,                                   \
      cu.cuMemcpyHtoD(t->mapped.address, t->host, PAGE), )                                         \
    X(cuMemcpyDtoH, false, LEFT_OUT, LEFT_OUT, IMPLICIT, FREE, ,                                   \
      cu.cuMemcpyDtoH(t->host, t->mapped.address, PAGE), )                                         \
    X(cuMemcpyDtoD, false, LEFT_OUT, LEFT_OUT, IMPLICIT, FREE, ,                                   \
      cu.cuMemcpyDtoD(t->mapped.address, t->mapped.address + PAGE, PAGE), )                        \
    X(cuMemsetD8, false, LEFT_OUT, LEFT_OUT, IMPLICIT, FREE, ,                                     \
      cu.cuMemsetD8(t->mapped.address, 1, PAGE), )                                                 \
    X(cuMemsetD32, false, LEFT_OUT, LEFT_OUT, IMPLICIT, FREE, ,                                    \
      cu.cuMemsetD32(t->mapped.address, 1, PAGE / 4), )                                            \
    X(cuMemcpyAsync, false, NODE(MEMCPY), FREE, IMPLICIT, FREE, ,                                  \
      cu.cuMemcpyAsync(t->mapped.address, t->mapped.address + PAGE, PAGE, t->stream), )            \
    X(cuMemcpyDtoDAsync, false, NODE(MEMCPY), FREE, IMPLICIT, FREE, ,                              \
      cu.cuMemcpyDtoDAsync(t->mapped.address, t->mapped.address + PAGE, PAGE, t->stream), )        \
    X(cuMemcpyHtoDAsync, false, NODE(MEMCPY), FREE, IMPLICIT, FREE, ,                              \
      cu.cuMemcpyHtoDAsync(t->mapped.address, t->host, PAGE, t->stream), )                         \
    X(cuMemcpyDtoHAsync, false, NODE(MEMCPY), FREE, IMPLICIT, FREE, ,                              \
      cu.cuMemcpyDtoHAsync(t->host, t->mapped.address, PAGE, t->stream), )                         \
    X(cuMemcpyHtoDAsync_pageable, false, NODE(MEMCPY), FREE, IMPLICIT, FREE, ,                     \
      cu.cuMemcpyHtoDAsync(t->mapped.address, t->pageable, PAGE, t->stream), )                     \
    X(cuMemcpyBatchAsync, false, FREE_GIVING(STREAM_CAPTURE_UNSUPPORTED), FREE,                    \
      FREE_GIVING(INVALID_VALUE), FREE_GIVING(INVALID_VALUE), , copy_batch(t), )                   \
    X(cuMemsetD8Async, false, NODE(MEMSET), FREE, IMPLICIT, FREE, ,                                \
      cu.cuMemsetD8Async(t->mapped.address, 1, PAGE, t->stream), )                                 \
    X(cuMemsetD32Async, false, NODE(MEMSET), FREE, IMPLICIT, FREE, ,                               \
      cu.cuMemsetD32Async(t->mapped.address, 1, PAGE / 4, t->stream), )                            \
    X(cuMemsetD8Async_no_bytes, false, FREE, FREE, IMPLICIT, FREE, ,                               \
      cu.cuMemsetD8Async(t->mapped.address, 1, 0, t->stream), )                                    \
    X(cuStreamWriteValue32, false, NODE(BATCH_MEM_OP), FREE, IMPLICIT, FREE, ,                     \
      cu.cuStreamWriteValue32(t->stream, t->mapped.address, 1, 0), )                               \
    X(cuStreamWriteValue64, false, NODE(BATCH_MEM_OP), FREE, IMPLICIT, FREE, ,                     \
      cu.cuStreamWriteValue64(t->stream, t->mapped.address, 1, 0), )                               \
    X(cuStreamWaitValue32, false, NODE(BATCH_MEM_OP), FREE, IMPLICIT, FREE, ,                      \
      cu.cuStreamWaitValue32(t->stream, t->mapped.address, 0, TN_CU_STREAM_WAIT_VALUE_NOR), )      \
    X(cuStreamWaitValue64, false, NODE(BATCH_MEM_OP), FREE, IMPLICIT, FREE, ,                      \
      cu.cuStreamWaitValue64(t->stream, t->mapped.address, 0, TN_CU_STREAM_WAIT_VALUE_NOR), )      \
    X(cuStreamBatchMemOp, false, NODE(BATCH_MEM_OP), FREE, IMPLICIT, FREE, , write_and_wait(t), )
// clang-format on

ROWS(MATRIX_DEFINE)
STREAM_ROWS(MATRIX_DEFINE_STREAM)
static const struct matrix_row rows[] = {ROWS(MATRIX_ENTRY) STREAM_ROWS(MATRIX_ENTRY_STREAM)};
const struct matrix_table matrix_memory = {rows, sizeof rows / sizeof rows[0]};
