// SPDX-License-Identifier: Apache-2.0
/* Context, faults and memory of one GPU.
 *
 * Proof of idleness: cuMemUnmap does not wait for the GPU, so memory may go back to the driver only
 * when it is known to be idle. A wait begins by raising the epoch; memory freed before that carries
 * a lower stamp, and when the wait has ended all lower stamps are proven. The wait itself is the
 * cuMemFree of a small linear allocation, with the thread's capture mode relaxed: it returns when
 * its context has finished, and unlike cuCtxSynchronize it kills no capture. The allocation is kept
 * ready, so that waiting works when the device is full; and so that it can be made again then, a
 * second one stays beside it: the driver cuts small allocations from blocks of 2 MiB, and a block
 * that is in use is not given to anybody else.
 *
 * It covers the primary context alone; see foreign.h for the others.
 *
 * Trade-offs: the wait covers all streams, also those of other libraries. It is the last resort of
 * trim, destroy and the out-of-memory ladder, and each documents it. */
#include "driver/gpu.h"

#include <stdio.h>
#include <string.h>

#include "base/atomic.h"
#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/lock.h"
#include "driver/capture_error.h"
#include "driver/foreign.h"
#include "driver/kernel.h"
#include "driver/pinned.h"

static const uint64_t token_bytes = 512;

/* Those that are open, for a child of fork() to find; guarded by the mutex, inside of which nothing else is ever taken. */
static struct tn_gpu *open_gpus;
static struct tn_lock open_lock = TN_LOCK_INIT(TN_RANK_OPEN);
static pthread_once_t forks_watched = PTHREAD_ONCE_INIT;

/* Results after which the context answers nothing else. A driver that is gone at process exit is one
 * of them: its memory is gone with it. */
bool tn_gpu_is_sticky(tn_cu_result result)
{
    switch (result) {
    case TN_CUDA_ERROR_DEINITIALIZED:
    case TN_CUDA_ERROR_ECC_UNCORRECTABLE:
    case TN_CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case TN_CUDA_ERROR_CONTAINED:
    case TN_CUDA_ERROR_ILLEGAL_ADDRESS:
    case TN_CUDA_ERROR_LAUNCH_TIMEOUT:
    case TN_CUDA_ERROR_ASSERT:
    case TN_CUDA_ERROR_HARDWARE_STACK_ERROR:
    case TN_CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case TN_CUDA_ERROR_MISALIGNED_ADDRESS:
    case TN_CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case TN_CUDA_ERROR_INVALID_PC:
    case TN_CUDA_ERROR_LAUNCH_FAILED:
    case TN_CUDA_ERROR_MPS_CLIENT_TERMINATED:
        return true;
    default:
        return false;
    }
}

static void latch_fault(struct tn_gpu *gpu, tn_cu_result result)
{
    int none = 0;

    (void)atomic_compare_exchange_strong(&gpu->fault, &none, (int)result);
    atomic_fetch_or(&gpu->attention, TN_GPU_UNUSABLE);
}

/* The mutex itself: whoever forks may hold other locks, and the child holds none. */
static void before_fork(void)
{
    (void)pthread_mutex_lock(&open_lock.mutex);
}

static void after_fork_in_parent(void)
{
    (void)pthread_mutex_unlock(&open_lock.mutex);
}

static void after_fork_in_child(void)
{
    for (struct tn_gpu *gpu = open_gpus; gpu != NULL; gpu = gpu->next_open)
        atomic_fetch_or(&gpu->attention, TN_GPU_UNUSABLE);
    (void)pthread_mutex_unlock(&open_lock.mutex);
}

static void watch_forks(void)
{
    (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static void enter_open(struct tn_gpu *gpu)
{
    (void)pthread_once(&forks_watched, watch_forks);
    tn_lock_acquire(&open_lock);
    gpu->next_open = open_gpus;
    open_gpus = gpu;
    tn_lock_release(&open_lock);
}

static void leave_open(struct tn_gpu *gpu)
{
    struct tn_gpu **link = &open_gpus;

    tn_lock_acquire(&open_lock);
    while (*link != gpu)
        link = &(*link)->next_open;
    *link = gpu->next_open;
    tn_lock_release(&open_lock);
}

tarn_status tn_gpu_failed(struct tn_gpu *gpu, tn_cu_result result, const char *what,
                          const char *call)
{
    const struct tn_capture_error *error = tn_capture_error_find(result);
    const char *name = tn_driver_result_name(result);

    TN_ASSERT(result != TN_CUDA_SUCCESS);
    if (tn_gpu_is_sticky(result)) {
        latch_fault(gpu, result);
        return tn_fail(TARN_ERR_DEVICE_LOST, "%s: %s answered %s, which stays: %s", what, call,
                       name,
                       result == TN_CUDA_ERROR_DEINITIALIZED
                           ? "the process ends, and the driver is gone"
                           : "a kernel faulted before; the process must start anew");
    }
    if (result == TN_CUDA_ERROR_OUT_OF_MEMORY)
        return tn_fail(TARN_ERR_DEVICE_MEMORY, "%s: %s answered %s", what, call, name);
    if (result == TN_CUDA_ERROR_NOT_PERMITTED)
        return tn_fail(TARN_ERR_DRIVER,
                       "%s: %s answered %s; Tarn cannot be called from host functions and "
                       "destructors that the driver runs",
                       what, call, name);
    if (error != NULL)
        return tn_fail(TARN_ERR_DRIVER, "%s: %s answered %s: %s; %s", what, call, name,
                       error->meaning, error->remedy);
    return tn_fail(TARN_ERR_DRIVER, "%s: %s answered %s", what, call, name);
}

tarn_status tn_gpu_answered(struct tn_gpu *gpu, tn_cu_result result, const char *what,
                            const char *call)
{
    return result == TN_CUDA_SUCCESS ? TARN_OK : tn_gpu_failed(gpu, result, what, call);
}

void tn_gpu_teardown(struct tn_gpu *gpu, tn_cu_result result, const char *call)
{
    int none = 0;

    if (result == TN_CUDA_SUCCESS || tn_gpu_is_lost(gpu))
        return;
    if (tn_gpu_is_sticky(result)) {
        latch_fault(gpu, result);
        return;
    }
    if (atomic_compare_exchange_strong(&gpu->poison_result, &none, (int)result))
        atomic_store(&gpu->poison_call, call);
    atomic_fetch_or(&gpu->attention, TN_GPU_UNUSABLE);
}

tarn_status tn_gpu_check(const struct tn_gpu *gpu)
{
    /* Who has found it unusable finds here what was latched before that was said. */
    bool usable =
        (atomic_load_explicit(&gpu->attention, memory_order_acquire) & TN_GPU_UNUSABLE) == 0;
    int fault = atomic_load_explicit(&gpu->fault, memory_order_relaxed);
    int poison = atomic_load_explicit(&gpu->poison_result, memory_order_relaxed);
    const char *call;

    if (usable)
        return TARN_OK;
    if (tn_is_forked())
        return tn_fork_refuse();
    if (fault != 0)
        return tn_fail(TARN_ERR_DEVICE_LOST,
                       "device %d was lost before with %s; frees and destroys still work, nothing "
                       "else does",
                       gpu->ordinal, tn_driver_result_name((tn_cu_result)fault));
    if (poison != 0) {
        call = atomic_load(&gpu->poison_call);
        return tn_fail(TARN_ERR_POISONED,
                       "device %d: the driver refused %s with %s, so its books and Tarn's may "
                       "differ; frees and destroys still work, nothing else does",
                       gpu->ordinal, call != NULL ? call : "a teardown call",
                       tn_driver_result_name((tn_cu_result)poison));
    }
    return TARN_OK;
}

tn_cu_result tn_gpu_try_enter(struct tn_gpu *gpu, tn_cu_context context, bool *pushed)
{
    tn_cu_context current = NULL;
    tn_cu_result result = gpu->driver->cuCtxGetCurrent(&current);

    *pushed = false;
    if (result == TN_CUDA_SUCCESS && current == context)
        return TN_CUDA_SUCCESS;
    if (result == TN_CUDA_SUCCESS)
        result = gpu->driver->cuCtxPushCurrent(context);
    *pushed = result == TN_CUDA_SUCCESS;
    return result;
}

tarn_status tn_gpu_enter(struct tn_gpu *gpu, tn_cu_context context, bool *pushed)
{
    tn_cu_result result = tn_gpu_try_enter(gpu, context, pushed);

    return tn_gpu_answered(gpu, result, "making the device's context current", "cuCtxPushCurrent");
}

void tn_gpu_leave(struct tn_gpu *gpu, bool pushed)
{
    tn_cu_context popped;

    if (pushed)
        tn_gpu_teardown(gpu, gpu->driver->cuCtxPopCurrent(&popped), "cuCtxPopCurrent"); /* D1 */
}

tarn_status tn_gpu_device_of(struct tn_gpu *gpu, tn_cu_context context, tn_cu_device *device)
{
    bool pushed;
    tarn_status status = tn_gpu_enter(gpu, context, &pushed);

    if (status != TARN_OK)
        return status;
    status = tn_gpu_answered(gpu, gpu->driver->cuCtxGetDevice(device),
                             "asking for a context's device", "cuCtxGetDevice");
    tn_gpu_leave(gpu, pushed);
    return status;
}

int tn_gpu_relax(struct tn_gpu *gpu)
{
    tn_cu_capture_mode mode = TN_CU_CAPTURE_MODE_RELAXED; /* D2 */
    tn_cu_result result = gpu->driver->cuThreadExchangeStreamCaptureMode(&mode);

    tn_gpu_teardown(gpu, result, "cuThreadExchangeStreamCaptureMode");
    return result == TN_CUDA_SUCCESS ? (int)mode : -1;
}

tarn_status tn_gpu_not_relaxed(struct tn_gpu *gpu, const char *what)
{
    if (tn_gpu_is_lost(gpu))
        return tn_gpu_check(gpu);
    return tn_fail(
        TARN_ERR_DRIVER,
        "%s: cuThreadExchangeStreamCaptureMode answered %s, and without it a capture could "
        "be broken",
        what, tn_driver_result_name((tn_cu_result)atomic_load(&gpu->poison_result)));
}

void tn_gpu_unrelax(struct tn_gpu *gpu, int before)
{
    tn_cu_capture_mode mode = (tn_cu_capture_mode)before;

    if (before < 0)
        return;
    tn_gpu_teardown(gpu, gpu->driver->cuThreadExchangeStreamCaptureMode(&mode),
                    "cuThreadExchangeStreamCaptureMode");
}

tarn_status tn_gpu_enter_relaxed(struct tn_gpu *gpu, const char *what, struct tn_gpu_visit *visit)
{
    tarn_status status = tn_gpu_enter(gpu, gpu->context, &visit->pushed);

    if (status != TARN_OK)
        return status;
    visit->mode = tn_gpu_relax(gpu);
    if (visit->mode >= 0)
        return TARN_OK;
    tn_gpu_leave(gpu, visit->pushed);
    return tn_gpu_not_relaxed(gpu, what);
}

void tn_gpu_leave_relaxed(struct tn_gpu *gpu, struct tn_gpu_visit visit)
{
    tn_gpu_unrelax(gpu, visit.mode);
    tn_gpu_leave(gpu, visit.pushed);
}

bool tn_gpu_enter_to_give_back(struct tn_gpu *gpu, tn_cu_context context,
                               struct tn_gpu_visit *visit)
{
    tn_cu_result result = tn_gpu_try_enter(gpu, context, &visit->pushed);

    if (result != TN_CUDA_SUCCESS)
        result = tn_gpu_try_enter(gpu, context, &visit->pushed);
    tn_gpu_teardown(gpu, result, "cuCtxPushCurrent");
    if (result != TN_CUDA_SUCCESS)
        return false;
    visit->mode = tn_gpu_relax(gpu);
    if (visit->mode < 0)
        visit->mode = tn_gpu_relax(gpu);
    return true;
}

static tarn_status require_attribute(struct tn_gpu *gpu, tn_cu_device_attribute attribute,
                                     const char *what)
{
    int supported = 0;
    tn_cu_result result = gpu->driver->cuDeviceGetAttribute(&supported, attribute, gpu->device);

    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, "asking what the device can do", "cuDeviceGetAttribute");
    if (supported)
        return TARN_OK;
    return tn_fail(TARN_ERR_NOT_SUPPORTED, "device %d (%s) has no %s", gpu->ordinal, gpu->name,
                   what);
}

/* Gives the token and its anchor back, as far as they are there. */
static void free_tokens(struct tn_gpu *gpu)
{
    const uint64_t addresses[] = {gpu->token, gpu->anchor};
    struct tn_gpu_visit visit;

    gpu->token = 0;
    gpu->anchor = 0;
    if (!tn_gpu_enter_to_give_back(gpu, gpu->context, &visit))
        return;
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        if (addresses[i] != 0)
            tn_gpu_teardown(gpu, gpu->driver->cuMemFree(addresses[i]), "cuMemFree");
    }
    tn_gpu_leave_relaxed(gpu, visit);
}

/* Makes the allocation whose free waits for the device, and its anchor. */
static tarn_status make_tokens(struct tn_gpu *gpu)
{
    tn_cu_deviceptr anchor = 0;
    tn_cu_deviceptr token = 0;
    tn_cu_result result;
    struct tn_gpu_visit visit;
    tarn_status status = tn_gpu_enter_relaxed(gpu, "opening the device", &visit);

    if (status != TARN_OK)
        return status;
    result = gpu->driver->cuMemAlloc(&anchor, token_bytes);
    if (result == TN_CUDA_SUCCESS)
        result = gpu->driver->cuMemAlloc(&token, token_bytes);
    tn_gpu_leave_relaxed(gpu, visit);
    gpu->anchor = anchor;
    gpu->token = token;
    if (result == TN_CUDA_SUCCESS)
        return TARN_OK;
    status = tn_gpu_failed(gpu, result, "opening the device", "cuMemAlloc");
    free_tokens(gpu);
    return status;
}

tarn_status tn_gpu_open(struct tn_gpu *gpu, const struct tn_driver *driver, int ordinal)
{
    int count = 0;
    tn_cu_result result = driver->cuDeviceGetCount(&count);
    tarn_status status;

    gpu->driver = driver;
    gpu->launch = driver->cuGraphLaunch;
    gpu->ordinal = ordinal;
    atomic_store(&gpu->epoch, 1);
    atomic_store(&gpu->proven, 1);
    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, "opening the device", "cuDeviceGetCount");
    if (ordinal < 0 || ordinal >= count)
        return tn_fail(TARN_ERR_NO_DEVICE, "device %d does not exist: the driver has %d", ordinal,
                       count);
    result = driver->cuDeviceGet(&gpu->device, ordinal);
    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, "opening the device", "cuDeviceGet");
    result = driver->cuDeviceGetName(gpu->name, (int)sizeof gpu->name, gpu->device);
    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, "opening the device", "cuDeviceGetName");
    result = driver->cuDeviceTotalMem(&gpu->total_bytes, gpu->device);
    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, "opening the device", "cuDeviceTotalMem");
    status = require_attribute(gpu, TN_CU_ATTR_VMM_SUPPORTED,
                               "virtual memory management, which Tarn needs");
    if (status != TARN_OK)
        return status;
    result = driver->cuDevicePrimaryCtxRetain(&gpu->context, gpu->device);
    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, "opening the device", "cuDevicePrimaryCtxRetain");
    tn_lock_init(&gpu->wait_lock, TN_RANK_WAIT);
    tn_lock_init(&gpu->contexts_lock, TN_RANK_CONTEXTS);
    tn_lock_init(&gpu->kernel_lock, TN_RANK_KERNEL);
    tn_lock_init(&gpu->pinned_lock, TN_RANK_PINNED);
    atomic_store(&gpu->pinned_limit, TN_PINNED_CACHE_BYTES);
    status = make_tokens(gpu);
    if (status != TARN_OK)
        goto release;
    /* A driver that cannot compile the code is good for all but contents of checkpoints. */
    if (tn_kernels_load(gpu, NULL) != TARN_OK && tn_gpu_is_lost(gpu)) {
        status = tn_gpu_check(gpu);
        goto undo;
    }
    enter_open(gpu);
    return TARN_OK;

undo:
    tn_kernels_unload(gpu);
    free_tokens(gpu);
release:
    tn_gpu_teardown(gpu, driver->cuDevicePrimaryCtxRelease(gpu->device),
                    "cuDevicePrimaryCtxRelease");
    return status;
}

void tn_gpu_close(struct tn_gpu *gpu)
{
    leave_open(gpu);
    tn_pinned_end(gpu);
    tn_kernels_unload(gpu);
    tn_foreign_end(gpu);
    free_tokens(gpu);
    tn_gpu_teardown(gpu, gpu->driver->cuDevicePrimaryCtxRelease(gpu->device),
                    "cuDevicePrimaryCtxRelease");
}

tarn_status tn_gpu_reserve_addresses(struct tn_gpu *gpu, uint64_t bytes, uint64_t alignment,
                                     uint64_t hint, uint64_t *address)
{
    tn_cu_deviceptr granted = 0;
    tn_cu_result result = gpu->driver->cuMemAddressReserve(&granted, bytes, alignment, hint, 0);

    tn_gpu_count(gpu, TN_CALL_RESERVE);
    if (result == TN_CUDA_ERROR_OUT_OF_MEMORY)
        return tn_fail(TARN_ERR_ADDRESS_SPACE,
                       "reserving %llu MiB of addresses: cuMemAddressReserve answered %s",
                       (unsigned long long)(bytes / TN_MIB), tn_driver_result_name(result));
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

tarn_status tn_gpu_create_memory(struct tn_gpu *gpu, uint64_t bytes,
                                 struct tn_memory_properties properties, tn_cu_memhandle *handle)
{
    tn_cu_allocation_prop prop = allocation_properties(gpu, properties);
    tn_cu_memhandle created = 0;
    tn_cu_result result = gpu->driver->cuMemCreate(&created, bytes, &prop, 0);

    tn_gpu_count(gpu, TN_CALL_CREATE);
    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, "mapping device memory", "cuMemCreate");
    *handle = created;
    return TARN_OK;
}

void tn_gpu_release_memory(struct tn_gpu *gpu, tn_cu_memhandle handle)
{
    tn_gpu_count(gpu, TN_CALL_RELEASE);
    tn_gpu_teardown(gpu, gpu->driver->cuMemRelease(handle), "cuMemRelease");
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
                       uint64_t peer_mask)
{
    tn_cu_access_desc access[TN_GPU_PEERS_MAX + 1];
    size_t count = 0;
    tarn_status status;
    tn_cu_result result = gpu->driver->cuMemMap(address, bytes, 0, handle, 0);

    tn_gpu_count(gpu, TN_CALL_MAP);
    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, "mapping device memory", "cuMemMap");
    access[count++] = access_of(gpu->device, TN_CU_MEM_ACCESS_READWRITE);
    for (int peer = 0; peer < TN_GPU_PEERS_MAX; peer++) {
        if ((peer_mask >> peer & 1) != 0)
            access[count++] = access_of(peer, TN_CU_MEM_ACCESS_READWRITE);
    }
    tn_gpu_count(gpu, TN_CALL_SET_ACCESS);
    result = gpu->driver->cuMemSetAccess(address, bytes, access, count);
    if (result == TN_CUDA_SUCCESS)
        return TARN_OK;
    status = tn_gpu_failed(gpu, result, "mapping device memory", "cuMemSetAccess");
    tn_gpu_unmap(gpu, address, bytes);
    return status;
}

void tn_gpu_unmap(struct tn_gpu *gpu, uint64_t address, uint64_t bytes)
{
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

tarn_status tn_gpu_check_properties(struct tn_gpu *gpu, struct tn_memory_properties properties)
{
    tarn_status status = TARN_OK;

    if (properties.exportable)
        status = require_attribute(gpu, TN_CU_ATTR_HANDLE_TYPE_POSIX_FD_SUPPORTED,
                                   "memory that file descriptors can be exported for");
    if (status == TARN_OK && properties.rdma)
        status = require_attribute(gpu, TN_CU_ATTR_GPU_DIRECT_RDMA_WITH_VMM_SUPPORTED,
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
    *mask = peer != gpu->ordinal ? (uint64_t)1 << peer : 0;
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

/* Frees the token, made now where the last wait could not make it, and makes the next; wait_lock is
 * held. */
static tarn_status wait_in_context(struct tn_gpu *gpu)
{
    tn_cu_deviceptr token = gpu->token;
    tn_cu_deviceptr next = 0;
    int before = tn_gpu_relax(gpu);
    tn_cu_result result = TN_CUDA_SUCCESS;
    const char *call = "cuMemAlloc";

    if (before < 0)
        return tn_gpu_not_relaxed(gpu, "waiting for the device");
    if (token == 0)
        result = gpu->driver->cuMemAlloc(&token, token_bytes);
    if (result == TN_CUDA_SUCCESS) {
        call = "cuMemFree";
        result = gpu->driver->cuMemFree(token);
        if (result != TN_CUDA_SUCCESS)
            next = token; /* refused: it is still there */
        else if (gpu->driver->cuMemAlloc(&next, token_bytes) != TN_CUDA_SUCCESS)
            next = 0; /* the next wait tries again */
        gpu->token = next;
    }
    tn_gpu_unrelax(gpu, before);
    return tn_gpu_answered(gpu, result, "waiting for the device", call);
}

tarn_status tn_gpu_wait_idle(struct tn_gpu *gpu)
{
    uint64_t begun;
    bool pushed;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    begun = atomic_fetch_add(&gpu->epoch, 1) + 1;
    tn_gpu_count(gpu, TN_CALL_WAIT);
    status = tn_gpu_enter(gpu, gpu->context, &pushed);
    if (status == TARN_OK) {
        tn_lock_acquire(&gpu->wait_lock);
        status = wait_in_context(gpu);
        if (status == TARN_OK)
            status = tn_foreign_wait(gpu);
        tn_lock_release(&gpu->wait_lock);
        tn_gpu_leave(gpu, pushed);
    }
    if (status != TARN_OK && !tn_gpu_is_lost(gpu))
        return status;
    /* D3: begun was the epoch before this. A lost device does no more work: all is idle. */
    tn_atomic_raise(&gpu->proven, begun);
    if (atomic_load(&gpu->proof_wanted))
        atomic_store(&gpu->proof_news, 1);
    return TARN_OK;
}
