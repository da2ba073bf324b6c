// SPDX-License-Identifier: Apache-2.0
/* pointer.c -- what can be asked of an address.
 *
 * How it works. The address is looked up in the books once, the answers to all attributes are
 * gathered in one record, and the one that was asked for is stored in the width that the driver
 * gives it. Addresses that are unknown, or reserved and not mapped, have no attributes at all.
 *
 * Trade-offs. A query builds answers that nobody asked for; queries are rare. */
#include <string.h>

#include "sim/space.h"

/* Every attribute of one address. */
struct answers {
    tn_cu_context context;
    unsigned int memory_type;
    bool device_usable; /* it has an address for the device */
    bool host_usable;   /* it has an address for the host */
    uint64_t buffer_id;
    uint64_t block_id;
    int device;
    struct tn_sim_span range;
    struct tn_sim_span mapping;
    unsigned long long access;
};

static bool ask_mapping(uintptr_t address, struct answers *answers)
{
    const struct tn_sim_mapping *mapping = tn_sim_index_find(&tn_sim_mappings, address);
    if (mapping == NULL)
        return false;
    const struct tn_sim_span *reservation = tn_sim_index_find(&tn_sim_reservations, address);
    const struct tn_sim_context *current = tn_sim_context_top();
    int viewer = current == NULL ? mapping->physical->device : current->device;
    *answers = (struct answers){
        .memory_type = TN_CU_MEMORYTYPE_DEVICE,
        .device_usable = mapping->access[viewer] != TN_CU_MEM_ACCESS_NONE,
        .buffer_id = mapping->buffer_id,
        .block_id = mapping->physical->block_id,
        .device = mapping->physical->device,
        .range = *reservation,
        .mapping = mapping->span,
        .access = mapping->access[viewer],
    };
    return true;
}

static bool ask_linear(uintptr_t address, struct answers *answers)
{
    const struct tn_sim_linear *linear = tn_sim_index_find(&tn_sim_linears, address);
    if (linear == NULL)
        return false;
    *answers = (struct answers){
        .context = (tn_cu_context)linear->context->object.handle,
        .memory_type = TN_CU_MEMORYTYPE_DEVICE,
        .device_usable = true,
        .buffer_id = linear->buffer_id,
        .block_id = linear->block_id,
        .device = linear->context->device,
        .range = linear->span,
        .mapping = {.start = linear->span.start, .bytes = linear->extent->bytes},
        .access = TN_CU_MEM_ACCESS_READWRITE,
    };
    return true;
}

static bool ask_host(uintptr_t address, struct answers *answers)
{
    const struct tn_sim_host *host = tn_sim_index_find(&tn_sim_hosts, address);
    if (host == NULL)
        return false;
    *answers = (struct answers){
        .context = (tn_cu_context)host->context->object.handle,
        .memory_type = TN_CU_MEMORYTYPE_HOST,
        .device_usable = true,
        .host_usable = true,
        .buffer_id = host->buffer_id,
        .block_id = host->buffer_id,
        .device = host->context->device,
        .range = host->span,
        .mapping = {.start = host->span.start, .bytes = host->mapped_bytes},
        .access = TN_CU_MEM_ACCESS_READWRITE,
    };
    return true;
}

#define STORE(type, expression)                                                                    \
    do {                                                                                           \
        type stored_ = (type)(expression);                                                         \
        memcpy(value, &stored_, sizeof stored_);                                                   \
    } while (0)

tn_cu_result tn_sim_cuPointerGetAttribute(void *value, tn_cu_pointer_attribute attribute,
                                          tn_cu_deviceptr address)
{
    struct answers answers;
    if (value == NULL || (!ask_mapping(address, &answers) && !ask_linear(address, &answers) &&
                          !ask_host(address, &answers)))
        return TN_CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case TN_CU_POINTER_CONTEXT:
        STORE(tn_cu_context, answers.context);
        return TN_CUDA_SUCCESS;
    case TN_CU_POINTER_MEMORY_TYPE:
        STORE(unsigned int, answers.memory_type);
        return TN_CUDA_SUCCESS;
    case TN_CU_POINTER_DEVICE_POINTER:
        if (!answers.device_usable)
            return TN_CUDA_ERROR_INVALID_VALUE;
        STORE(tn_cu_deviceptr, address);
        return TN_CUDA_SUCCESS;
    case TN_CU_POINTER_HOST_POINTER:
        if (!answers.host_usable)
            return TN_CUDA_ERROR_INVALID_VALUE;
        STORE(tn_cu_deviceptr, address);
        return TN_CUDA_SUCCESS;
    case TN_CU_POINTER_BUFFER_ID:
        STORE(unsigned long long, answers.buffer_id);
        return TN_CUDA_SUCCESS;
    case TN_CU_POINTER_IS_MANAGED:
        STORE(unsigned int, 0);
        return TN_CUDA_SUCCESS;
    case TN_CU_POINTER_DEVICE_ORDINAL:
        STORE(int, answers.device);
        return TN_CUDA_SUCCESS;
    case TN_CU_POINTER_RANGE_START:
        STORE(tn_cu_deviceptr, answers.range.start);
        return TN_CUDA_SUCCESS;
    case TN_CU_POINTER_RANGE_SIZE:
        STORE(size_t, answers.range.bytes);
        return TN_CUDA_SUCCESS;
    case TN_CU_POINTER_MAPPED:
        STORE(unsigned int, 1);
        return TN_CUDA_SUCCESS;
    case TN_CU_POINTER_ACCESS_FLAGS:
        STORE(unsigned long long, answers.access);
        return TN_CUDA_SUCCESS;
    case TN_CU_POINTER_MAPPING_SIZE:
        STORE(size_t, answers.mapping.bytes);
        return TN_CUDA_SUCCESS;
    case TN_CU_POINTER_MAPPING_BASE:
        STORE(tn_cu_deviceptr, answers.mapping.start);
        return TN_CUDA_SUCCESS;
    case TN_CU_POINTER_MEMORY_BLOCK_ID:
        STORE(unsigned long long, answers.block_id);
        return TN_CUDA_SUCCESS;
    default:
        return TN_CUDA_ERROR_INVALID_VALUE;
    }
}
