// SPDX-License-Identifier: Apache-2.0
/* The driver answers a question for several attributes at once for any address. A question for a
 * single attribute is refused when the driver does not know the address. */
#include "nodes/pointer.h"

tarn_status tn_pointer_query(struct tn_gpu *gpu, uint64_t address, struct tn_pointee *memory)
{
    unsigned int type = 0;
    unsigned int mapped = 0;
    int ordinal = -1;
    tn_cu_deviceptr start = 0;
    size_t bytes = 0;
    tn_cu_pointer_attribute attributes[] = {TN_CU_POINTER_MEMORY_TYPE, TN_CU_POINTER_MAPPED,
                                            TN_CU_POINTER_DEVICE_ORDINAL, TN_CU_POINTER_RANGE_START,
                                            TN_CU_POINTER_RANGE_SIZE};
    void *values[] = {&type, &mapped, &ordinal, &start, &bytes};
    tn_cu_result result = gpu->driver->cuPointerGetAttributes(
        sizeof attributes / sizeof attributes[0], attributes, values, address);

    *memory = (struct tn_pointee){.kind = TN_POINTEE_UNKNOWN, .ordinal = -1};
    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, "asking whose an address is", "cuPointerGetAttributes");
    if (mapped != 0 && type != 0)
        *memory =
            (struct tn_pointee){type == TN_CU_MEMORYTYPE_HOST ? TN_POINTEE_HOST : TN_POINTEE_DEVICE,
                                ordinal, start, bytes};
    return TARN_OK;
}
