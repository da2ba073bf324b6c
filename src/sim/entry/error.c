// SPDX-License-Identifier: Apache-2.0
/* error.c -- the driver's names and sentences of results.
 *
 * Trade-offs. A result that programs never get here has its sentence, too: programs may print any
 * result. */
#include "sim/core/core.h"

tn_cu_result tn_sim_cuGetErrorName(tn_cu_result error, const char **name)
{
    if (name == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    switch (error) {
#define NAME_CASE(suffix, number)                                                                  \
    case TN_CUDA_##suffix:                                                                         \
        *name = "CUDA_" #suffix;                                                                   \
        return TN_CUDA_SUCCESS;
        TN_CUDA_RESULTS(NAME_CASE)
#undef NAME_CASE
    }
    *name = NULL;
    return TN_CUDA_ERROR_INVALID_VALUE;
}

static const struct {
    tn_cu_result result;
    const char *text;
} texts[] = {
    {TN_CUDA_SUCCESS, "no error"},
    {TN_CUDA_ERROR_INVALID_VALUE, "invalid argument"},
    {TN_CUDA_ERROR_OUT_OF_MEMORY, "out of memory"},
    {TN_CUDA_ERROR_NOT_INITIALIZED, "initialization error"},
    {TN_CUDA_ERROR_DEINITIALIZED, "driver shutting down"},
    {TN_CUDA_ERROR_STUB_LIBRARY, "CUDA driver is a stub library"},
    {TN_CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"},
    {TN_CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"},
    {TN_CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"},
    {TN_CUDA_ERROR_INVALID_CONTEXT, "invalid device context"},
    {TN_CUDA_ERROR_CONTEXT_ALREADY_CURRENT, "context already current"},
    {TN_CUDA_ERROR_MAP_FAILED, "mapping of buffer object failed"},
    {TN_CUDA_ERROR_ALREADY_MAPPED, "resource already mapped"},
    {TN_CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"},
    {TN_CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"},
    {TN_CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
     "peer access is not supported between these two devices"},
    {TN_CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"},
    {TN_CUDA_ERROR_NVLINK_UNCORRECTABLE,
     "uncorrectable NVLink error detected during the execution"},
    {TN_CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "the provided execution affinity is not supported"},
    {TN_CUDA_ERROR_CONTAINED, "Invalid access of peer GPU memory over nvlink or a hardware error"},
    {TN_CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS"},
    {TN_CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"},
    {TN_CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"},
    {TN_CUDA_ERROR_LOSSY_QUERY, "attempted introspection would be semantically lossy"},
    {TN_CUDA_ERROR_NOT_FOUND, "named symbol not found"},
    {TN_CUDA_ERROR_NOT_READY, "device not ready"},
    {TN_CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"},
    {TN_CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"},
    {TN_CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"},
    {TN_CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"},
    {TN_CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"},
    {TN_CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "cannot set while device is active in this process"},
    {TN_CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"},
    {TN_CUDA_ERROR_ASSERT, "device-side assert triggered"},
    {TN_CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
     "part or all of the requested memory range is already mapped"},
    {TN_CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
     "pointer does not correspond to a registered memory region"},
    {TN_CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error"},
    {TN_CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"},
    {TN_CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"},
    {TN_CUDA_ERROR_INVALID_ADDRESS_SPACE, "operation not supported on global/shared address space"},
    {TN_CUDA_ERROR_INVALID_PC, "invalid program counter"},
    {TN_CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"},
    {TN_CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch"},
    {TN_CUDA_ERROR_NOT_PERMITTED, "operation not permitted"},
    {TN_CUDA_ERROR_NOT_SUPPORTED, "operation not supported"},
    {TN_CUDA_ERROR_MPS_CLIENT_TERMINATED, "the MPS client has been terminated by the server"},
    {TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"},
    {TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
     "operation failed due to a previous error during capture"},
    {TN_CUDA_ERROR_STREAM_CAPTURE_MERGE,
     "operation would result in a merge of separate capture sequences"},
    {TN_CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
     "capture was not ended in the same stream as it began"},
    {TN_CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"},
    {TN_CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
     "dependency created on uncaptured work in another stream"},
    {TN_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {TN_CUDA_ERROR_CAPTURED_EVENT,
     "operation not permitted on an event last recorded in a capturing stream"},
    {TN_CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
     "attempt to terminate a thread-local capture sequence from another thread"},
    {TN_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
     "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update"},
    {TN_CUDA_ERROR_UNKNOWN, "unknown error"},
};

tn_cu_result tn_sim_cuGetErrorString(tn_cu_result error, const char **text)
{
    if (text == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    *text = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i].result == error)
            *text = texts[i].text;
    }
    return *text == NULL ? TN_CUDA_ERROR_INVALID_VALUE : TN_CUDA_SUCCESS;
}
