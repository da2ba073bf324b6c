// SPDX-License-Identifier: Apache-2.0
/* Both calls break captures of other threads, unless the calling thread's mode is relaxed.
 *
 * Trade-offs: the context is entered for each registration, some 30 ns of the 400 us that one of 16
 * MiB takes. */
#include "driver/register.h"

#include <sys/resource.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "driver/result.h"

tarn_status tn_gpu_check_registers(struct tn_gpu *gpu)
{
    tarn_status status = tn_gpu_require_attribute(gpu, TN_CU_ATTR_HOST_REGISTER_SUPPORTED,
                                                  "page-locking memory of the process");

    if (status == TARN_OK)
        status = tn_gpu_require_attribute(gpu, TN_CU_ATTR_HOST_POINTER_FOR_REGISTERED,
                                          "registered memory at the process's own addresses");
    return status;
}

int tn_gpu_host_node(struct tn_gpu *gpu)
{
    int node = -1;

    if (gpu->driver->cuDeviceGetAttribute(&node, TN_CU_ATTR_HOST_NUMA_ID, gpu->device) !=
        TN_CUDA_SUCCESS)
        return -1;
    return node;
}

/* The sentence for a refusal: the driver is not bound by the limit of locked memory, but sandboxes
 * may be. */
static tarn_status refused(struct tn_gpu *gpu, tn_cu_result result, size_t bytes)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

    if (result != TN_CUDA_ERROR_OUT_OF_MEMORY)
        return tn_gpu_failed(gpu, result, "page-locking memory of the process",
                             "cuMemHostRegister");
    (void)getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur == RLIM_INFINITY)
        return tn_fail(TARN_ERR_HOST_MEMORY,
                       "the driver cannot page-lock %llu MiB: cuMemHostRegister answered %s",
                       (unsigned long long)(bytes / TN_MIB), tn_result_name(result));
    return tn_fail(TARN_ERR_HOST_MEMORY,
                   "the driver cannot page-lock %llu MiB: cuMemHostRegister answered %s; the "
                   "process's limit of locked memory (RLIMIT_MEMLOCK) is %llu KiB",
                   (unsigned long long)(bytes / TN_MIB), tn_result_name(result),
                   (unsigned long long)(limit.rlim_cur / TN_KIB));
}

tarn_status tn_gpu_register(struct tn_gpu *gpu, void *memory, size_t bytes)
{
    struct tn_gpu_visit visit;
    tn_cu_result result;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    status = tn_gpu_enter_relaxed(gpu, "page-locking memory of the process", &visit);
    if (status != TARN_OK)
        return status;
    result = gpu->driver->cuMemHostRegister(
        memory, bytes, TN_CU_MEMHOSTREGISTER_PORTABLE | TN_CU_MEMHOSTREGISTER_DEVICEMAP);
    tn_gpu_leave_relaxed(gpu, visit);
    return result == TN_CUDA_SUCCESS ? TARN_OK : refused(gpu, result, bytes);
}

bool tn_gpu_unregister(struct tn_gpu *gpu, void *memory)
{
    struct tn_gpu_visit visit;
    tn_cu_result result;

    TN_ASSERT(tn_lock_none_held());
    if (!tn_gpu_enter_to_give_back(gpu, gpu->context, &visit))
        return tn_gpu_is_lost(gpu);
    result = gpu->driver->cuMemHostUnregister(memory);
    tn_gpu_teardown(gpu, result, "cuMemHostUnregister");
    tn_gpu_leave_relaxed(gpu, visit);
    return result == TN_CUDA_SUCCESS || tn_gpu_is_lost(gpu);
}
