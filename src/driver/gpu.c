// SPDX-License-Identifier: Apache-2.0
/* Contexts, capture modes and faults of one GPU. */
#include "driver/gpu.h"

#include <stdio.h>
#include <string.h>

#include "base/atomic.h"
#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/fork.h"
#include "driver/result.h"

atomic_bool tn_gpu_any_unusable;

static void say_unusable(struct tn_gpu *gpu)
{
    atomic_fetch_or(&gpu->attention, TN_GPU_UNUSABLE);
    atomic_store(&tn_gpu_any_unusable, true);
}

static void latch_fault(struct tn_gpu *gpu, tn_cu_result result)
{
    int none = 0;

    (void)atomic_compare_exchange_strong(&gpu->fault, &none, (int)result);
    say_unusable(gpu);
}

tarn_status tn_gpu_failed(struct tn_gpu *gpu, tn_cu_result result, const char *what,
                          const char *call)
{
    const struct tn_driver_capture_error *error = tn_result_about_capture(result);
    const char *name = tn_result_name(result);

    TN_ASSERT(result != TN_CUDA_SUCCESS);
    if (tn_result_is_sticky(result)) {
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

    if (result == TN_CUDA_SUCCESS || atomic_load(&gpu->fault) != 0)
        return;
    if (tn_result_is_sticky(result)) {
        latch_fault(gpu, result);
        return;
    }
    if (atomic_compare_exchange_strong(&gpu->poison_result, &none, (int)result))
        atomic_store(&gpu->poison_call, call);
    say_unusable(gpu);
}

tarn_status tn_gpu_check(const struct tn_gpu *gpu)
{
    /* The cause was latched before the flag: a thread with the flag also sees the cause. */
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
                       gpu->ordinal, tn_result_name((tn_cu_result)fault));
    if (poison != 0) {
        call = atomic_load(&gpu->poison_call);
        return tn_fail(TARN_ERR_POISONED,
                       "device %d: the driver refused %s with %s, so its books and Tarn's may "
                       "differ; frees and destroys still work, nothing else does",
                       gpu->ordinal, call != NULL ? call : "a teardown call",
                       tn_result_name((tn_cu_result)poison));
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
        what, tn_result_name((tn_cu_result)atomic_load(&gpu->poison_result)));
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

tarn_status tn_gpu_require_attribute(struct tn_gpu *gpu, tn_cu_device_attribute attribute,
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
