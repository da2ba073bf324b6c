// SPDX-License-Identifier: Apache-2.0
#include "vmm/memory.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "driver/mapping.h"
#include "vmm/address_table.h"

static struct tn_records memory_records = TN_RECORDS_INIT_KEEPING(struct tn_memory, next, serial);
static atomic_uint_fast64_t last_serial;

static tarn_status take_record(uint64_t bytes, struct tn_memory_properties properties,
                               enum tn_memory_origin origin, struct tn_memory **memory)
{
    struct tn_memory *made = tn_records_take(&memory_records);

    TN_ASSERT(tn_is_power_of_two(bytes) && bytes >= TN_PAGE_BYTES && bytes <= TN_MEMORY_BYTES_MAX);
    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a chunk");
    made->bytes = bytes;
    made->properties = properties;
    made->origin = origin;
    *memory = made;
    return TARN_OK;
}

tarn_status tn_memory_create(struct tn_gpu *gpu, uint64_t bytes,
                             struct tn_memory_properties properties, struct tn_memory **memory)
{
    struct tn_memory *made = NULL;
    tarn_status status = take_record(bytes, properties, TN_MEMORY_MADE, &made);

    if (status != TARN_OK)
        return status;
    status = tn_gpu_create_memory(gpu, bytes, properties, &made->handle);
    if (status != TARN_OK) {
        tn_records_give(&memory_records, made);
        return status;
    }
    made->magic = TN_MEMORY_MAGIC;
    *memory = made;
    return TARN_OK;
}

tarn_status tn_memory_import(tn_cu_memhandle handle, uint64_t bytes,
                             struct tn_memory_properties properties, struct tn_memory **memory)
{
    struct tn_memory *made = NULL;
    tarn_status status = take_record(bytes, properties, TN_MEMORY_IMPORTED, &made);

    if (status != TARN_OK)
        return status;
    made->handle = handle;
    made->magic = TN_MEMORY_MAGIC;
    *memory = made;
    return TARN_OK;
}

tarn_status tn_memory_adopt(uint64_t address, uint64_t bytes,
                            struct tn_memory_properties properties, struct tn_memory **memory)
{
    struct tn_memory *made = NULL;
    tarn_status status = take_record(bytes, properties, TN_MEMORY_ADOPTED, &made);

    if (status != TARN_OK)
        return status;
    made->handle = 0;
    made->address = address;
    made->magic = TN_MEMORY_MAGIC;
    *memory = made;
    return TARN_OK;
}

void tn_memory_forget(struct tn_memory *memory)
{
    TN_ASSERT(memory->magic == TN_MEMORY_MAGIC && memory->origin == TN_MEMORY_ADOPTED);
    TN_ASSERT(!tn_memory_is_mapped(memory)); /* V6 */
    memory->magic = 0;
    tn_records_give(&memory_records, memory);
}

uint64_t tn_memory_serial(struct tn_memory *memory)
{
    uint_fast64_t serial = atomic_load(&memory->serial);
    uint64_t next;

    TN_ASSERT(memory->magic == TN_MEMORY_MAGIC && memory->origin == TN_MEMORY_MADE);
    if (serial != 0)
        return serial;
    next = atomic_fetch_add(&last_serial, 1) + 1;
    return atomic_compare_exchange_strong(&memory->serial, &serial, next) ? next : serial;
}

void tn_memory_destroy(struct tn_gpu *gpu, struct tn_memory *memory)
{
    TN_ASSERT(memory->magic == TN_MEMORY_MAGIC);
    TN_ASSERT(!tn_memory_is_mapped(memory) && memory->origin != TN_MEMORY_ADOPTED); /* V6 */
    tn_gpu_release_memory(gpu, memory->handle);
    memory->magic = 0;
    atomic_store_explicit(&memory->serial, 0, memory_order_release);
    tn_records_give(&memory_records, memory);
}
