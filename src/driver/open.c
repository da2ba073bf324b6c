// SPDX-License-Identifier: Apache-2.0
/* Opening retains the device's primary context, and makes the allocations that waits need. */
#include "driver/open.h"

#include <stdio.h>
#include <string.h>

#include "base/atomic.h"
#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/lock.h"
#include "driver/foreign.h"
#include "driver/gpu.h"
#include "driver/kernel.h"

/* The open GPUs, for a child of fork() to find. Guarded by the mutex, inside of which no other lock
 * is ever taken. */
static struct tn_gpu *open_gpus;
static struct tn_lock open_lock = TN_LOCK_INIT(TN_RANK_OPEN);
static unsigned user_code_count; /* running functions of the program's; under the lock */
static pthread_once_t forks_watched = PTHREAD_ONCE_INIT;

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
    atomic_fetch_add(&gpu->attention, user_code_count * TN_GPU_USER_CODE);
    tn_lock_release(&open_lock);
}

static void leave_open(struct tn_gpu *gpu)
{
    struct tn_gpu **link = &open_gpus;

    tn_lock_acquire(&open_lock);
    while (*link != gpu)
        link = &(*link)->next_open;
    *link = gpu->next_open;
    atomic_fetch_sub(&gpu->attention, user_code_count * TN_GPU_USER_CODE);
    tn_lock_release(&open_lock);
}

void tn_gpus_enter_user_code(void)
{
    tn_lock_acquire(&open_lock);
    user_code_count += 1;
    for (struct tn_gpu *gpu = open_gpus; gpu != NULL; gpu = gpu->next_open)
        atomic_fetch_add(&gpu->attention, TN_GPU_USER_CODE);
    tn_lock_release(&open_lock);
}

void tn_gpus_leave_user_code(void)
{
    tn_lock_acquire(&open_lock);
    TN_ASSERT(user_code_count > 0);
    user_code_count -= 1;
    for (struct tn_gpu *gpu = open_gpus; gpu != NULL; gpu = gpu->next_open)
        atomic_fetch_sub(&gpu->attention, TN_GPU_USER_CODE);
    tn_lock_release(&open_lock);
}

/* Gives the token and its anchor back, if they exist. */
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
    result = gpu->driver->cuMemAlloc(&anchor, TN_GPU_TOKEN_BYTES);
    if (result == TN_CUDA_SUCCESS)
        result = gpu->driver->cuMemAlloc(&token, TN_GPU_TOKEN_BYTES);
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
    gpu->stream_id = driver->cuStreamGetId;
    gpu->is_capturing = driver->cuStreamIsCapturing;
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
    status = tn_gpu_require_attribute(gpu, TN_CU_ATTR_VMM_SUPPORTED,
                                      "virtual memory management, which Tarn needs");
    if (status != TARN_OK)
        return status;
    result = driver->cuDevicePrimaryCtxRetain(&gpu->context, gpu->device);
    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, "opening the device", "cuDevicePrimaryCtxRetain");
    tn_lock_init(&gpu->wait_lock, TN_RANK_WAIT);
    tn_lock_init(&gpu->contexts_lock, TN_RANK_CONTEXTS);
    tn_lock_init(&gpu->kernel_lock, TN_RANK_KERNEL);
    status = make_tokens(gpu);
    if (status != TARN_OK)
        goto release;
    /* A driver that cannot compile the code serves everything but contents of checkpoints. */
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
    tn_kernels_unload(gpu);
    tn_foreign_end(gpu);
    free_tokens(gpu);
    tn_gpu_teardown(gpu, gpu->driver->cuDevicePrimaryCtxRelease(gpu->device),
                    "cuDevicePrimaryCtxRelease");
}
