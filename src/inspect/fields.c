// SPDX-License-Identifier: Apache-2.0
#include "inspect/fields.h"

#include "base/contract.h"

static void put(struct tn_fields *fields, const char *name, uint64_t value)
{
    TN_ASSERT(fields->count < TN_FIELDS_MAX);
    fields->items[fields->count] = (struct tn_field){.name = name, .value = value};
    fields->count += 1;
}

static void put_address(struct tn_fields *fields, const char *name, uint64_t address)
{
    put(fields, name, address);
    fields->items[fields->count - 1].is_address = true;
}

static uint64_t number_of(const void *handle)
{
    return (uint64_t)(uintptr_t)handle;
}

/* The beginning of a side of a copy: the type decides which of three members has it. */
static void put_place(struct tn_fields *fields, const char *name, int type, const void *host,
                      tn_cu_deviceptr device, const void *array)
{
    if (type == TN_CU_MEMORYTYPE_HOST)
        put(fields, name, number_of(host));
    else if (type == TN_CU_MEMORYTYPE_DEVICE || type == TN_CU_MEMORYTYPE_UNIFIED)
        put_address(fields, name, device);
    else
        put(fields, name, number_of(array));
}

static void read_copy(const tn_cu_memcpy3d *copy, struct tn_fields *fields)
{
    put(fields, "source_type", (uint64_t)copy->src_type);
    put_place(fields, "source", copy->src_type, copy->src_host, copy->src_device, copy->src_array);
    put(fields, "source_x", copy->src_x);
    put(fields, "source_y", copy->src_y);
    put(fields, "source_z", copy->src_z);
    put(fields, "source_level", copy->src_lod);
    put(fields, "source_pitch", copy->src_pitch);
    put(fields, "source_height", copy->src_height);
    put(fields, "destination_type", (uint64_t)copy->dst_type);
    put_place(fields, "destination", copy->dst_type, copy->dst_host, copy->dst_device,
              copy->dst_array);
    put(fields, "destination_x", copy->dst_x);
    put(fields, "destination_y", copy->dst_y);
    put(fields, "destination_z", copy->dst_z);
    put(fields, "destination_level", copy->dst_lod);
    put(fields, "destination_pitch", copy->dst_pitch);
    put(fields, "destination_height", copy->dst_height);
    put(fields, "width", copy->width);
    put(fields, "height", copy->height);
    put(fields, "depth", copy->depth);
}

static void read_set(const tn_cu_memset_node_params *set, struct tn_fields *fields)
{
    put_address(fields, "destination", set->dst);
    put(fields, "value", set->value);
    put(fields, "element_bytes", set->element_bytes);
    put(fields, "width", set->width);
    put(fields, "height", set->height);
    put(fields, "pitch", set->height > 1 ? set->pitch : 0);
}

static bool read_alloc(const tn_cu_alloc_node_params *alloc, size_t part, struct tn_fields *fields)
{
    const tn_cu_access_desc *access;

    if (part == 0) {
        put_address(fields, "address", alloc->address);
        put(fields, "bytes", alloc->bytes);
        put(fields, "type", (uint64_t)alloc->pool_props.type);
        put(fields, "handle_types", (uint64_t)alloc->pool_props.handle_types);
        put(fields, "location_type", (uint64_t)alloc->pool_props.location.type);
        put(fields, "location", (uint64_t)alloc->pool_props.location.id);
        put(fields, "max_bytes", alloc->pool_props.max_bytes);
        put(fields, "usage", alloc->pool_props.usage);
        put(fields, "access_count", alloc->access_count);
        return true;
    }
    if (part > alloc->access_count)
        return false;
    access = &alloc->access[part - 1];
    put(fields, "access_location_type", (uint64_t)access->location.type);
    put(fields, "access_location", (uint64_t)access->location.id);
    put(fields, "access", (uint64_t)access->flags);
    return true;
}

/* A flush has its flags behind the operation. A barrier has its type there, and flags behind the
 * type. */
static void read_operation(const tn_cu_batch_op *op, struct tn_fields *fields)
{
    uint64_t address = 0;
    uint64_t value = 0;
    uint64_t flags = op->value.flags;

    switch (op->operation) {
    case TN_CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case TN_CU_STREAM_MEM_OP_WRITE_VALUE_64:
        address = op->value.address;
        value = op->value.value;
        break;
    case TN_CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case TN_CU_STREAM_MEM_OP_WRITE_VALUE_32:
        address = op->value.address;
        value = (uint32_t)op->value.value;
        break;
    case TN_CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        flags = op->pad[0] >> 32;
        break;
    case TN_CU_STREAM_MEM_OP_BARRIER:
        value = op->pad[0] >> 32;
        flags = (uint32_t)op->pad[1];
        break;
    default:
        flags = 0;
        fields->is_opaque = true;
    }
    put(fields, "operation", (uint64_t)op->operation);
    put_address(fields, "address", address);
    put(fields, "value", value);
    put(fields, "flags", flags);
}

static bool read_batch(const tn_cu_batch_node_params *batch, size_t part, struct tn_fields *fields)
{
    if (part == 0) {
        put(fields, "context", number_of(batch->ctx));
        put(fields, "flags", batch->flags);
        put(fields, "count", batch->count);
        return true;
    }
    if (part > batch->count)
        return false;
    read_operation(&batch->ops[part - 1], fields);
    return true;
}

bool tn_fields_read(const struct tn_node *node, size_t part, struct tn_fields *fields)
{
    fields->count = 0;
    fields->is_opaque = false;
    if (node->type == TN_CU_NODE_MEM_ALLOC)
        return read_alloc(&node->alloc, part, fields);
    if (node->type == TN_CU_NODE_BATCH_MEM_OP)
        return read_batch(&node->batch, part, fields);
    if (part > 0)
        return false;
    switch (node->type) {
    case TN_CU_NODE_MEMCPY:
        read_copy(&node->memcpy, fields);
        return true;
    case TN_CU_NODE_MEMSET:
        read_set(&node->memset, fields);
        return true;
    case TN_CU_NODE_HOST:
        put(fields, "function", number_of((const void *)(uintptr_t)node->host.function));
        put(fields, "argument", number_of(node->host.user));
        return true;
    case TN_CU_NODE_WAIT_EVENT:
    case TN_CU_NODE_EVENT_RECORD:
        put(fields, "event", number_of(node->event));
        return true;
    case TN_CU_NODE_MEM_FREE:
        put_address(fields, "address", node->freed);
        return true;
    default:
        return false;
    }
}
