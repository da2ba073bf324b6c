// SPDX-License-Identifier: Apache-2.0
/* Reading takes two rounds. The first finds all nodes (inspect/collection.c). The second reads the
 * addresses that each node names.
 *
 * A kernel has many words, and most are no addresses of Tarn's. The driver is asked only once for
 * each value, and never for values below 64 KiB or from 2^TN_ADDRESS_BITS on. */
#include "inspect/references.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/host.h"
#include "inspect/collection.h"
#include "nodes/pointer.h"
#include "vmm/address_table.h"

enum {
    WORD_BYTES = 8,
    FEW = 4,
    LINE_POINTERS = 8,
    BYTES_ALIKE = 4,
    TENSOR_MAP_BYTES = 128,
    TENSOR_MAP_ALIGNMENT = 64,
};

/* A word of a struct with a lower half below this limit may be a number beside a gap of the struct.
 * The gap then has the upper half of an address that the stack had there before. */
#define NUMBERS_END ((uint32_t)1 << 20)

#define ADDRESS_MIN ((uint64_t)1 << 16)
#define ADDRESS_END ((uint64_t)1 << TN_ADDRESS_BITS)

bool tn_references_give(const struct tn_references *references, uint64_t address)
{
    return tn_ranges_have(references->given, references->given_count, address);
}

/* -- Words that may be addresses --------------------------------------------------------------- */

/* Asks the driver. For two words that differ in the lowest bit alone, asks for the even word. */
static tarn_status ask_driver(struct tn_collection *collection, uint64_t word, bool *is_address)
{
    struct tn_pointee memory = {.kind = TN_POINTEE_UNKNOWN};
    uint64_t *place;
    tarn_status status;

    if (!tn_word_set_reserve(&collection->asked))
        return tn_collection_no_memory();
    place = tn_word_set_place(&collection->asked, word);
    if (*place == 0) {
        status = tn_pointer_query(collection->gpu, word & ~(uint64_t)1, &memory);
        if (status != TARN_OK)
            return status;
        *place = (word & ~(uint64_t)1) | (memory.kind != TN_POINTEE_UNKNOWN);
        collection->asked.count += 1;
    }
    *is_address = (*place & 1) != 0;
    return TARN_OK;
}

static inline bool may_be_address(uint64_t word)
{
    return word - ADDRESS_MIN < ADDRESS_END - ADDRESS_MIN;
}

static tarn_status check_word(struct tn_collection *collection, uint64_t word, bool *is_address)
{
    *is_address = tn_address_table_find(word) != NULL ||
                  (word >= collection->lowest &&
                   (tn_ranges_have(collection->regions, collection->region_count, word) ||
                    tn_references_give(collection->to, word)));
    return *is_address ? TARN_OK : ask_driver(collection, word, is_address);
}

/* -- What a node names ------------------------------------------------------------------------- */

/* A new reference among those read last, to be filled; NULL: no memory. */
static inline struct tn_reference *add_one(struct tn_references *references)
{
    if (TN_UNLIKELY(references->count == references->capacity) &&
        !tn_host_grow((void **)&references->items, &references->capacity, references->count + 1,
                      sizeof *references->items))
        return NULL;
    references->count += 1;
    return &references->items[references->count - 1];
}

bool tn_references_add(struct tn_references *references, const struct tn_reference *reference)
{
    struct tn_reference *added = add_one(references);

    if (added != NULL)
        *added = *reference;
    return added != NULL;
}

static tarn_status add(const struct tn_collection *collection, const struct tn_reference *reference)
{
    return tn_references_add(collection->to, reference) ? TARN_OK : tn_collection_no_memory();
}

/* The first word from `at` on that may be an address, or one of the last few words. Most are no
 * addresses, and are looked at four at a time. */
static size_t skip_numbers(const unsigned char *bytes, size_t at, size_t count)
{
    for (; at + FEW * WORD_BYTES <= count; at += FEW * WORD_BYTES) {
        uint64_t words[FEW];

        memcpy(words, bytes + at, sizeof words);
        if ((may_be_address(words[0]) | may_be_address(words[1]) | may_be_address(words[2]) |
             may_be_address(words[3])) != 0)
            break;
    }
    return at;
}

/* A parameter, or the packed buffer of all. */
struct parameter {
    uint32_t node;
    uint32_t index;
    uint8_t place; /* tarn_pointer_place */
};

/* Whether an array of bytes before the word goes on in it: each byte equals the byte before or is
 * one more, as in a list that assigns parts to owners. The bytes behind its end are leftovers of
 * the stack, and may be an address. */
static bool ends_bytes(const unsigned char *bytes, size_t at)
{
    size_t from = at - BYTES_ALIKE;

    if (at < BYTES_ALIKE || bytes[from] == 0)
        return false;
    for (size_t i = from; i < at; i++) {
        if (bytes[i + 1] != bytes[i] && bytes[i + 1] != bytes[i] + 1)
            return false;
    }
    return true;
}

/* Whether a struct's word, which is an address, may be a number instead. */
static bool may_be_number(const unsigned char *bytes, size_t at)
{
    uint32_t lower;

    memcpy(&lower, bytes + at, sizeof lower);
    return lower < NUMBERS_END || ends_bytes(bytes, at);
}

/* Adds the word at this offset of the parameter, if it is an address. */
static inline tarn_status add_word(struct tn_collection *collection, struct parameter parameter,
                                   const unsigned char *bytes, size_t count, size_t offset)
{
    bool in_struct = count > WORD_BYTES;
    struct tn_reference *added;
    uint64_t word;
    bool is_address;
    tarn_status status;

    memcpy(&word, bytes + offset, WORD_BYTES);
    if (!may_be_address(word))
        return TARN_OK;
    status = check_word(collection, word, &is_address);
    if (status != TARN_OK || !is_address)
        return status;
    added = add_one(collection->to);
    if (added == NULL)
        return tn_collection_no_memory();
    *added = (struct tn_reference){.address = word,
                                   .node = parameter.node,
                                   .index = parameter.index,
                                   .offset = (uint32_t)offset,
                                   .place = parameter.place,
                                   .may_be_number = in_struct && may_be_number(bytes, offset),
                                   .in_struct = in_struct};
    return TARN_OK;
}

static inline tarn_status add_words(struct tn_collection *collection, struct parameter parameter,
                                    const unsigned char *bytes, size_t count)
{
    tarn_status status = TARN_OK;

    for (size_t at = 0; status == TARN_OK; at += WORD_BYTES) {
        if (at % (FEW * WORD_BYTES) == 0)
            at = skip_numbers(bytes, at, count);
        if (at + WORD_BYTES > count)
            break;
        status = add_word(collection, parameter, bytes, count, at);
    }
    return status;
}

static tarn_status add_params(struct tn_collection *collection, uint32_t node,
                              const struct tn_node_kernel *kernel, const struct tn_layout *layout)
{
    tarn_status status = TARN_OK;

    for (uint32_t i = 0; status == TARN_OK && i < layout->count; i++) {
        const struct tn_param param = layout->params[i];
        const unsigned char *value =
            kernel->values != NULL ? kernel->values[i] : kernel->buffer + param.offset;

        if (kernel->values == NULL && param.offset + (uint64_t)param.bytes > kernel->buffer_bytes)
            continue; /* the value was not given */
        if (param.bytes == TENSOR_MAP_BYTES && param.offset % TENSOR_MAP_ALIGNMENT == 0)
            collection->to->tensor_map_count += 1;
        status = add_words(collection, (struct parameter){node, i, TARN_PLACE_PARAMETER}, value,
                           param.bytes);
    }
    return status;
}

static tarn_status check_context(struct tn_collection *collection, tn_cu_context context)
{
    tn_cu_device device;
    tarn_status status;

    if (context == NULL || context == collection->context || context == collection->gpu->context)
        return TARN_OK;
    status = tn_gpu_device_of(collection->gpu, context, &device);
    if (status == TARN_OK && device != collection->gpu->device)
        status =
            tn_fail(TARN_ERR_INVALID_ARGUMENT,
                    "the graph is of another device: it has a kernel of device %d, and this is "
                    "device %d",
                    device, collection->gpu->ordinal);
    if (status == TARN_OK)
        collection->context = context;
    return status;
}

static tarn_status read_kernel(struct tn_collection *collection, uint32_t index,
                               const struct tn_node_kernel *kernel)
{
    tarn_audit_node *at = &collection->to->nodes[index];
    const struct tn_layout *layout = collection->layout;
    tarn_status status = check_context(collection, kernel->context);

    if (status == TARN_OK && (layout == NULL || layout->function != kernel->function))
        status =
            tn_layouts_find(&collection->to->layouts, collection->gpu, kernel->function, &layout);
    if (status != TARN_OK)
        return status;
    collection->layout = layout; /* good until the next lookup */
    at->kernel = layout->name;
    if (kernel->values == NULL && kernel->buffer == NULL)
        return TARN_OK;
    if (layout->count > 0)
        return add_params(collection, index, kernel, layout);
    if (kernel->buffer != NULL)
        return add_words(collection, (struct parameter){index, 0, TARN_PLACE_BUFFER},
                         kernel->buffer, kernel->buffer_bytes);
    at->inspection = TARN_INSPECTION_NO_LAYOUT;
    return TARN_OK;
}

/* A side of a copy: the places of its first byte and of its last. */
struct side {
    int type; /* TN_CU_MEMORYTYPE_* */
    const void *host;
    uint64_t device;
    size_t x, y, z;
    size_t pitch, height;
};

static tarn_status add_side(struct tn_collection *collection, struct tn_reference *reference,
                            const struct side *side, const tn_cu_memcpy3d *copy)
{
    uint64_t rows = side->z * side->height + side->y;

    bool is_host = side->type == TN_CU_MEMORYTYPE_HOST;

    if (!is_host && side->type != TN_CU_MEMORYTYPE_DEVICE && side->type != TN_CU_MEMORYTYPE_UNIFIED)
        return TARN_OK; /* an array */
    reference->may_be_host = side->type != TN_CU_MEMORYTYPE_DEVICE;
    reference->address = is_host ? (uint64_t)(uintptr_t)side->host : side->device;
    reference->address += rows * side->pitch + side->x;
    reference->bytes = copy->width;
    if (copy->depth > 0 && copy->height > 0)
        reference->bytes +=
            ((copy->depth - 1) * side->height + copy->height - 1) * (uint64_t)side->pitch;
    return add(collection, reference);
}

static tarn_status read_copy(struct tn_collection *collection, const tn_cu_memcpy3d *copy,
                             struct tn_reference *reference)
{
    const struct side source = {copy->src_type, copy->src_host, copy->src_device, copy->src_x,
                                copy->src_y,    copy->src_z,    copy->src_pitch,  copy->src_height};
    const struct side destination = {copy->dst_type,  copy->dst_host,  copy->dst_device,
                                     copy->dst_x,     copy->dst_y,     copy->dst_z,
                                     copy->dst_pitch, copy->dst_height};
    tarn_status status;

    reference->place = TARN_PLACE_SOURCE;
    reference->is_read_only = true;
    status = add_side(collection, reference, &source, copy);
    reference->place = TARN_PLACE_DESTINATION;
    reference->is_read_only = false;
    return status == TARN_OK ? add_side(collection, reference, &destination, copy) : status;
}

static tarn_status read_set(struct tn_collection *collection, const tn_cu_memset_node_params *set,
                            struct tn_reference *reference)
{
    reference->place = TARN_PLACE_DESTINATION;
    reference->address = set->dst;
    reference->bytes = set->width * set->element_bytes;
    if (set->height > 1)
        reference->bytes += (set->height - 1) * (uint64_t)set->pitch;
    return add(collection, reference);
}

static tarn_status read_operations(struct tn_collection *collection, tarn_audit_node *at,
                                   const tn_cu_batch_node_params *batch,
                                   struct tn_reference *reference)
{
    tarn_status status = TARN_OK;

    reference->place = TARN_PLACE_OPERATION;
    for (uint32_t i = 0; status == TARN_OK && i < batch->count; i++) {
        const tn_cu_batch_op *op = &batch->ops[i];

        reference->index = i;
        reference->address = op->value.address;
        reference->is_read_only = op->operation == TN_CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
                                  op->operation == TN_CU_STREAM_MEM_OP_WAIT_VALUE_64;
        switch (op->operation) {
        case TN_CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case TN_CU_STREAM_MEM_OP_WRITE_VALUE_32:
            reference->bytes = sizeof(uint32_t);
            status = add(collection, reference);
            break;
        case TN_CU_STREAM_MEM_OP_WAIT_VALUE_64:
        case TN_CU_STREAM_MEM_OP_WRITE_VALUE_64:
            reference->bytes = sizeof(uint64_t);
            status = add(collection, reference);
            break;
        case TN_CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        case TN_CU_STREAM_MEM_OP_BARRIER:
            break;
        default:
            at->inspection = TARN_INSPECTION_OPAQUE;
        }
    }
    return status;
}

static tarn_status read_node(struct tn_collection *collection, uint32_t index,
                             const struct tn_node *node)
{
    tarn_audit_node *at = &collection->to->nodes[index];
    struct tn_reference reference = {.node = index};

    switch ((tn_cu_graphnode_type)at->type) {
    case TN_CU_NODE_KERNEL:
        return read_kernel(collection, index, &node->kernel);
    case TN_CU_NODE_MEMCPY:
        return read_copy(collection, &node->memcpy, &reference);
    case TN_CU_NODE_MEMSET:
        return read_set(collection, &node->memset, &reference);
    case TN_CU_NODE_BATCH_MEM_OP:
        return read_operations(collection, at, &node->batch, &reference);
    case TN_CU_NODE_HOST:
        reference.place = TARN_PLACE_ARGUMENT;
        reference.address = (uint64_t)(uintptr_t)node->host.user;
        reference.may_be_host = true;
        reference.is_read_only = true;
        return reference.address != 0 ? add(collection, &reference) : TARN_OK;
    case TN_CU_NODE_MEM_ALLOC:
        reference.place = TARN_PLACE_ALLOCATED;
        reference.address = node->alloc.address;
        reference.bytes = node->alloc.bytes;
        return add(collection, &reference);
    case TN_CU_NODE_MEM_FREE:
        reference.place = TARN_PLACE_FREED;
        reference.address = node->freed;
        return add(collection, &reference);
    case TN_CU_NODE_CONDITIONAL: /* its bodies were given, or its inspection says NO_BODIES */
    case TN_CU_NODE_GRAPH:
    case TN_CU_NODE_EMPTY:
    case TN_CU_NODE_WAIT_EVENT:
    case TN_CU_NODE_EVENT_RECORD:
        return TARN_OK;
    case TN_CU_NODE_EXT_SEMAS_SIGNAL:
    case TN_CU_NODE_EXT_SEMAS_WAIT:
        break;
    }
    at->inspection = TARN_INSPECTION_OPAQUE;
    return TARN_OK;
}

/* Prefetches a kernel's parameters, which may lie anywhere: values stand behind their pointers. */
static void bring_near(const struct tn_node_kernel *kernel)
{
    if (kernel->values != NULL) {
        __builtin_prefetch(kernel->values);
        __builtin_prefetch(kernel->values + LINE_POINTERS);
    }
    __builtin_prefetch(kernel->buffer);
}

/* Reads some nodes together: the driver's data are then near when the nodes are looked at. */
static tarn_status read_batch(struct tn_collection *collection)
{
    struct tn_references *to = collection->to;
    const tarn_audit_node *nodes = &to->nodes[to->next];
    uint32_t count = (uint32_t)tn_min(to->node_count - to->next, TN_COLLECTION_BATCH);
    tarn_status status = TARN_OK;

    for (uint32_t i = 0; status == TARN_OK && i < count; i++) {
        struct tn_node *node = &collection->batch[i];

        status = tn_node_read(collection->gpu, nodes[i].handle, (tn_cu_graphnode_type)nodes[i].type,
                              node);
        if (status == TARN_OK && node->type == TN_CU_NODE_KERNEL)
            bring_near(&node->kernel);
    }
    for (uint32_t i = 0; status == TARN_OK && i < count; i++)
        status = read_node(collection, to->next + i, &collection->batch[i]);
    to->next += count;
    return status;
}

static tarn_status open_collection(struct tn_references *references, struct tn_regions *regions,
                                   tn_cu_graph graph, const tarn_audit_body *bodies,
                                   size_t body_count)
{
    struct tn_collection *collection = tn_host_alloc(1, sizeof *collection);
    tarn_status status;

    if (collection == NULL)
        return tn_collection_no_memory();
    collection->to = references;
    collection->gpu = regions->gpu;
    references->collection = collection;
    status = tn_collection_add_regions(collection, regions);
    if (status == TARN_OK)
        status = tn_collection_find_nodes(collection, graph, bodies, body_count);
    if (status != TARN_OK)
        return status;
    collection->region_count = tn_ranges_unite(collection->regions, collection->region_count);
    references->given_count = tn_ranges_unite(references->given, references->given_count);
    collection->lowest = collection->regions[0].base; /* a device always has a region */
    if (references->given_count > 0)
        collection->lowest = tn_min(collection->lowest, references->given[0].base);
    return TARN_OK;
}

tarn_status tn_references_open(struct tn_references *references, struct tn_regions *regions,
                               tn_cu_graph graph, const tarn_audit_body *bodies, size_t body_count)
{
    tarn_status status = open_collection(references, regions, graph, bodies, body_count);

    if (status != TARN_OK)
        tn_references_drop(references);
    return status;
}

tarn_status tn_references_read(struct tn_references *references, size_t enough)
{
    tarn_status status = TARN_OK;

    references->count = 0;
    while (status == TARN_OK && tn_references_go_on(references) && references->count < enough)
        status = read_batch(references->collection);
    return status;
}

tarn_status tn_references_collect(struct tn_references *references, struct tn_regions *regions,
                                  tn_cu_graph graph, const tarn_audit_body *bodies,
                                  size_t body_count)
{
    tarn_status status = tn_references_open(references, regions, graph, bodies, body_count);

    if (status != TARN_OK)
        return status;
    status = tn_references_read(references, SIZE_MAX);
    if (status != TARN_OK)
        tn_references_drop(references);
    return status;
}

void tn_references_finish(struct tn_references *references)
{
    struct tn_collection *collection = references->collection;

    if (collection != NULL) {
        tn_host_free(collection->regions);
        tn_word_set_drop(&collection->asked);
        tn_host_free(collection);
    }
    tn_host_free(references->given);
    tn_host_free(references->items);
    references->collection = NULL;
    references->given = NULL;
    references->items = NULL;
}

void tn_references_drop(struct tn_references *references)
{
    tn_references_finish(references);
    tn_host_free(references->nodes);
    tn_host_free(references->levels);
    tn_layouts_drop(&references->layouts);
    *references = (struct tn_references){.nodes = NULL};
}
