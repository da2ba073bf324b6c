// SPDX-License-Identifier: Apache-2.0
/* pointer.c -- attributes of an address, and the only attribute that can be set.
 *
 * How it works. The address is looked up in the books, which gives a record of facts. Each
 * attribute is a value of some width made from this record. Addresses that are unknown, or reserved
 * and not mapped, have no attributes. A query for a single attribute is then an error, and a query
 * for several at once gives empty values. Which values are empty, which are left alone and which
 * outputs are written before an error is as measured.
 *
 * Trade-offs. The attribute SYNC_MEMOPS is kept and shown, but synchronous copies always wait
 * here. */
#include <string.h>

#include "sim/heap/block.h"
#include "sim/stream/capture.h"
#include "sim/heap/graph_memory.h"
#include "sim/heap/host.h"
#include "sim/heap/ipc.h"
#include "sim/heap/mempool.h"
#include "sim/memory/physical.h"

/* Whether the hardware can unpack compressed data at the address. */
#define HW_DECOMPRESS_CAPABLE 21
#define NO_DEVICE (-2) /* CU_DEVICE_INVALID */

/* Facts about an address. */
struct facts {
    bool known;      /* memory lies at the address */
    bool mapping;    /* by virtual memory management */
    bool has_device; /* the memory has an address for the current device */
    bool has_host;   /* the memory has an address for the host */
    bool sync_memops;
    bool decompress;
    tn_cu_context context;
    unsigned int memory_type;
    int device;
    unsigned int legacy_ipc;
    unsigned int handle_types;
    unsigned int rdma;
    unsigned int access;
    tn_cu_mempool pool;
    uint64_t buffer_id;
    uint64_t block_id;
    struct tn_sim_span range; /* of no bytes without a range */
    struct tn_sim_span chunk; /* that the driver has mapped */
};

static tn_cu_context handle_of(const struct tn_sim_context *context)
{
    return context == NULL ? NULL : (tn_cu_context)context->object.handle;
}

static void read_mapping(struct facts *facts, const struct tn_sim_mapping *mapping)
{
    const tn_cu_allocation_prop *prop = &mapping->physical->prop;
    const struct tn_sim_context *current = tn_sim_context_top();
    bool on_host = tn_sim_physical_on_host(mapping->physical);
    int device = on_host ? 0 : prop->location.id;
    unsigned char right =
        current == NULL ? TN_CU_MEM_ACCESS_NONE : mapping->rights.device[current->device];
    *facts = (struct facts){
        .known = true,
        .mapping = true,
        .has_device = right != TN_CU_MEM_ACCESS_NONE,
        .has_host = mapping->rights.host != TN_CU_MEM_ACCESS_NONE,
        .memory_type = on_host ? TN_CU_MEMORYTYPE_HOST : TN_CU_MEMORYTYPE_DEVICE,
        .device = device,
        .handle_types = (unsigned int)prop->requested_handle_types,
        .rdma = prop->alloc_flags.gpu_direct_rdma_capable,
        .access = right,
        .buffer_id = mapping->buffer_id,
        .block_id = mapping->physical->block_id,
        .chunk = mapping->span,
    };
}

static void read_linear(struct facts *facts, const struct tn_sim_linear *linear, uintptr_t address)
{
    struct tn_sim_span span;
    bool on_host = linear->device == TN_SIM_HOST_HEAP;
    const struct tn_sim_chunk *chunk = tn_sim_block_chunk(linear->piece->block, address, &span);
    *facts = (struct facts){
        .known = true,
        .has_device = true,
        .has_host = on_host,
        .sync_memops = linear->sync_memops,
        .decompress = linear->pool == NULL,
        .context = handle_of(linear->context),
        .memory_type = on_host ? TN_CU_MEMORYTYPE_HOST : TN_CU_MEMORYTYPE_DEVICE,
        .device = on_host ? 0 : linear->device,
        .legacy_ipc = linear->pool == NULL,
        .rdma = linear->pool == NULL,
        .pool = linear->pool == NULL ? NULL : linear->pool->name,
        .access = TN_CU_MEM_ACCESS_READWRITE,
        .buffer_id = linear->buffer_id,
        .block_id = chunk->id,
        .range = linear->span,
        .chunk = span,
    };
}

static void read_host(struct facts *facts, const struct tn_sim_host *host)
{
    struct tn_sim_span mapping;
    uint64_t block_id = tn_sim_host_mapping(host, &mapping);
    *facts = (struct facts){
        .known = true,
        .has_device = true,
        .has_host = true,
        .sync_memops = host->sync_memops,
        .context = handle_of(host->context),
        .memory_type = TN_CU_MEMORYTYPE_HOST,
        .device = host->context->device,
        .access = TN_CU_MEM_ACCESS_READWRITE,
        .buffer_id = host->buffer_id,
        .block_id = block_id,
        .range = host->span,
        .chunk = mapping,
    };
}

static void read_opening(struct facts *facts, const struct tn_sim_opening *opening)
{
    *facts = (struct facts){
        .known = true,
        .has_device = true,
        .sync_memops = opening->sync_memops,
        .context = handle_of(opening->context),
        .memory_type = TN_CU_MEMORYTYPE_DEVICE,
        .device = opening->context->device,
        .access = TN_CU_MEM_ACCESS_READWRITE,
        .buffer_id = opening->buffer_id,
        .block_id = opening->block_id,
        .range = opening->span,
        .chunk = opening->pages,
    };
}

static void read_graph(struct facts *facts, const struct tn_sim_graph_block *block)
{
    int device = tn_sim_graph_block_device(block);
    const struct tn_sim_context *current = tn_sim_context_top();
    bool may = block->access[current == NULL ? device : current->device];
    *facts = (struct facts){
        .known = true,
        .has_device = may,
        .memory_type = TN_CU_MEMORYTYPE_DEVICE,
        .device = device,
        .access = may ? TN_CU_MEM_ACCESS_READWRITE : TN_CU_MEM_ACCESS_NONE,
        .buffer_id = block->buffer_id,
        .block_id = tn_sim_graph_block_id(block),
        .range = block->span,
        .chunk = tn_sim_graph_block_mapping(block),
    };
}

static struct facts read_facts(uintptr_t address)
{
    const struct tn_sim_mapping *mapping = tn_sim_index_find(&tn_sim_mappings, address);
    const struct tn_sim_linear *linear = tn_sim_index_find(&tn_sim_linears, address);
    const struct tn_sim_host *host = tn_sim_index_find(&tn_sim_hosts, address);
    const struct tn_sim_opening *opening = tn_sim_index_find(&tn_sim_openings, address);
    const struct tn_sim_graph_block *block = tn_sim_graph_block_at(address);
    const struct tn_sim_span *reservation = tn_sim_index_find(&tn_sim_reservations, address);
    struct facts facts = {.device = NO_DEVICE};
    if (mapping != NULL)
        read_mapping(&facts, mapping);
    else if (linear != NULL)
        read_linear(&facts, linear, address);
    else if (host != NULL)
        read_host(&facts, host);
    else if (opening != NULL)
        read_opening(&facts, opening);
    else if (block != NULL && block->live)
        read_graph(&facts, block);
    if (reservation != NULL)
        facts.range = *reservation;
    return facts;
}

/* The value of an attribute, in its first bytes. */
struct value {
    size_t bytes; /* 0 when nothing is to be stored */
    uint64_t bits;
    /* the memory has the attribute, but not here: an error in a query for this attribute alone */
    bool missing;
};

#define VALUE(type, expression)                                                                    \
    (struct value)                                                                                 \
    {                                                                                              \
        .bytes = sizeof(type), .bits = (uint64_t)(expression)                                      \
    }

/* Finds the value of an attribute. Returns false for an unknown attribute. */
static bool value_of(const struct facts *facts, int attribute, uintptr_t address,
                     struct value *value)
{
    switch (attribute) {
    case TN_CU_POINTER_CONTEXT:
        *value = VALUE(tn_cu_context, (uintptr_t)facts->context);
        return true;
    case TN_CU_POINTER_MEMORY_TYPE:
        *value = VALUE(unsigned int, facts->memory_type);
        return true;
    case TN_CU_POINTER_DEVICE_POINTER:
        *value = VALUE(tn_cu_deviceptr, facts->has_device ? address : 0);
        value->missing = !facts->has_device;
        return true;
    case TN_CU_POINTER_HOST_POINTER: /* unknown memory is taken for the host's */
        *value = VALUE(void *, facts->has_host || !facts->known ? address : 0);
        value->missing = !facts->has_host;
        return true;
    case TN_CU_POINTER_SYNC_MEMOPS:
        *value = VALUE(unsigned int, facts->sync_memops);
        return true;
    case TN_CU_POINTER_BUFFER_ID:
        *value = VALUE(unsigned long long, facts->buffer_id);
        return true;
    case TN_CU_POINTER_IS_MANAGED:
        *value = VALUE(unsigned int, 0);
        return true;
    case TN_CU_POINTER_DEVICE_ORDINAL:
        *value = VALUE(int, facts->device);
        return true;
    case TN_CU_POINTER_LEGACY_IPC_CAPABLE:
        *value = VALUE(unsigned int, facts->legacy_ipc);
        return true;
    case TN_CU_POINTER_RANGE_START:
        *value = VALUE(tn_cu_deviceptr, facts->range.start);
        value->bytes = facts->range.bytes == 0 ? 0 : value->bytes;
        return true;
    case TN_CU_POINTER_RANGE_SIZE:
        *value = VALUE(size_t, facts->range.bytes);
        value->bytes = facts->range.bytes == 0 ? 0 : value->bytes;
        return true;
    case TN_CU_POINTER_MAPPED:
        *value = VALUE(unsigned int, facts->known);
        return true;
    case TN_CU_POINTER_ALLOWED_HANDLE_TYPES:
        *value = VALUE(unsigned long long, facts->handle_types);
        return true;
    case TN_CU_POINTER_RDMA_CAPABLE:
        *value = VALUE(unsigned int, facts->rdma);
        return true;
    case TN_CU_POINTER_ACCESS_FLAGS:
        *value = VALUE(unsigned int, facts->access);
        return true;
    case TN_CU_POINTER_MEMPOOL_HANDLE:
        *value = VALUE(tn_cu_mempool, (uintptr_t)facts->pool);
        return true;
    case TN_CU_POINTER_MAPPING_SIZE:
        *value = VALUE(size_t, facts->chunk.bytes);
        return true;
    case TN_CU_POINTER_MAPPING_BASE:
        *value = VALUE(tn_cu_deviceptr, facts->chunk.start);
        return true;
    case TN_CU_POINTER_MEMORY_BLOCK_ID:
        *value = VALUE(unsigned long long, facts->block_id);
        return true;
    case HW_DECOMPRESS_CAPABLE:
        *value = VALUE(unsigned int, facts->decompress);
        return true;
    default:
        return false;
    }
}

/* Stores a value in its width; machines that CUDA runs on keep the low bytes first. */
static void store(void *place, const struct value *value)
{
    memcpy(place, &value->bits, value->bytes);
}

tn_cu_result tn_sim_cuPointerGetAttribute(void *place, tn_cu_pointer_attribute attribute,
                                          tn_cu_deviceptr address)
{
    struct facts facts = read_facts(address);
    struct value value;
    if (place == NULL || !facts.known || !value_of(&facts, (int)attribute, address, &value))
        return TN_CUDA_ERROR_INVALID_VALUE;
    store(place, &value);
    if (facts.mapping && attribute == TN_CU_POINTER_DEVICE_POINTER && tn_sim_context_top() == NULL)
        return TN_CUDA_ERROR_INVALID_CONTEXT;
    return value.missing ? TN_CUDA_ERROR_INVALID_VALUE : TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuPointerGetAttributes(unsigned int count, tn_cu_pointer_attribute *attributes,
                                           void **places, tn_cu_deviceptr address)
{
    struct facts facts = read_facts(address);
    if (count == 0 || attributes == NULL || places == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < count; i++) {
        struct value value;
        if (places[i] == NULL || !value_of(&facts, (int)attributes[i], address, &value))
            return TN_CUDA_ERROR_INVALID_VALUE;
        store(places[i], &value);
    }
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuPointerSetAttribute(const void *place, tn_cu_pointer_attribute attribute,
                                          tn_cu_deviceptr address)
{
    unsigned int wanted;
    struct facts facts = read_facts(address);
    if (place == NULL || !facts.known)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (facts.mapping)
        return TN_CUDA_ERROR_NOT_SUPPORTED;
    if (attribute != TN_CU_POINTER_SYNC_MEMOPS)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS)
        return result;
    memcpy(&wanted, place, sizeof wanted);
    struct tn_sim_linear *linear = tn_sim_index_find(&tn_sim_linears, address);
    struct tn_sim_host *host = tn_sim_index_find(&tn_sim_hosts, address);
    struct tn_sim_opening *opening = tn_sim_index_find(&tn_sim_openings, address);
    if (linear != NULL)
        linear->sync_memops = wanted != 0;
    else if (opening != NULL)
        opening->sync_memops = wanted != 0;
    else if (host != NULL)
        host->sync_memops = wanted != 0;
    return TN_CUDA_SUCCESS;
}

/* Finds the range of an address, as cuMemGetAddressRange tells it: a mapping to which the current
 * device has access, not its reservation. A range of the host's memory comes without its start. */
static tn_cu_result find_range(tn_cu_deviceptr address, struct tn_sim_span *range)
{
    struct tn_sim_context *context;
    tn_cu_result result = tn_sim_context_current(&context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct facts facts = read_facts(address);
    if (!facts.has_device)
        return TN_CUDA_ERROR_NOT_FOUND;
    *range = facts.mapping ? facts.chunk : facts.range;
    if (facts.mapping && facts.memory_type == TN_CU_MEMORYTYPE_HOST)
        range->start = 0;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuMemGetAddressRange(tn_cu_deviceptr *base, size_t *bytes,
                                         tn_cu_deviceptr address)
{
    struct tn_sim_span range = {0};
    if (base == NULL && bytes == NULL)
        return TN_CUDA_SUCCESS;
    tn_cu_result result = find_range(address, &range);
    if (base != NULL)
        *base = range.start;
    if (bytes != NULL)
        *bytes = range.bytes;
    return result;
}
