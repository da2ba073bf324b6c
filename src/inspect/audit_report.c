// SPDX-License-Identifier: Apache-2.0
/* An audit as text, for people and for programs that read JSON. */
#include "abi/cuda.h"
#include "base/text.h"
#include "inspect/audit.h"
#include "nodes/node.h"

static const char *const class_names[] = {
#define CLASS_NAME(name, number, text, mistake, what) [number] = text,
    TARN_POINTER_TABLE(CLASS_NAME)
#undef CLASS_NAME
};

static const char *const class_sentences[] = {
#define CLASS_SENTENCE(name, number, text, mistake, what) [number] = what,
    TARN_POINTER_TABLE(CLASS_SENTENCE)
#undef CLASS_SENTENCE
};

_Static_assert(sizeof class_names / sizeof class_names[0] == TARN_POINTER_CLASSES,
               "the number of classes");

static const char *const place_names[] = {
    [TARN_PLACE_PARAMETER] = "parameter",     [TARN_PLACE_BUFFER] = "parameters",
    [TARN_PLACE_DESTINATION] = "destination", [TARN_PLACE_SOURCE] = "source",
    [TARN_PLACE_ARGUMENT] = "argument",       [TARN_PLACE_OPERATION] = "operation",
    [TARN_PLACE_ALLOCATED] = "result",        [TARN_PLACE_FREED] = "freed",
    [TARN_PLACE_MEMORY] = "memory",
};

static const char *const inspection_sentences[] = {
    [TARN_INSPECTED] = "inspected",
    [TARN_INSPECTION_NO_LAYOUT] = "the driver does not tell how large its parameters are",
    [TARN_INSPECTION_NO_BODIES] =
        "its bodies were not handed in, and the driver does not give them",
    [TARN_INSPECTION_OPAQUE] = "nothing can be read of a node of this type",
};

const char *tn_pointer_class_name(tarn_pointer_class pointer_class)
{
    return (unsigned)pointer_class < TARN_POINTER_CLASSES ? class_names[pointer_class] : "no class";
}

const char *tn_pointer_class_sentence(tarn_pointer_class pointer_class)
{
    return (unsigned)pointer_class < TARN_POINTER_CLASSES ? class_sentences[pointer_class]
                                                          : "no class";
}

/* -- Text -------------------------------------------------------------------------------------- */

/* As 4, or 2.4 for node 4 of the child graph of node 2. */
static void put_path(struct tn_text *text, const tarn_audit *audit, uint32_t index)
{
    const tarn_audit_node *node = &audit->nodes[index];

    if (node->parent != TARN_NO_NODE) {
        put_path(text, audit, node->parent);
        tn_put(text, ".");
    }
    tn_put(text, "%u", node->ordinal);
}

static void put_node(struct tn_text *text, const tarn_audit *audit, uint32_t index)
{
    const tarn_audit_node *node = &audit->nodes[index];

    tn_put(text, "node ");
    put_path(text, audit, index);
    tn_put(text, ", %s", tn_node_type_name(node->type));
    if (node->kernel != NULL)
        tn_put(text, " %s", node->kernel);
}

static void put_place(struct tn_text *text, const tarn_pointer *pointer)
{
    tn_put(text, ", %s", place_names[pointer->place]);
    if (pointer->place == TARN_PLACE_PARAMETER || pointer->place == TARN_PLACE_OPERATION)
        tn_put(text, " %u", pointer->index);
    if (pointer->place == TARN_PLACE_PARAMETER || pointer->place == TARN_PLACE_BUFFER)
        tn_put(text, ", offset %u", pointer->offset);
}

static void put_block(struct tn_text *text, const tarn_pointer *pointer)
{
    const tarn_block *block = &pointer->block;
    uint64_t offset = pointer->address - (uint64_t)(uintptr_t)block->address;

    if (block->address != NULL && pointer->pool != NULL)
        tn_put(text, "; block %llu of pool '%s', %zu bytes at 0x%llx, offset %llu",
               (unsigned long long)block->sequence, pointer->pool, block->bytes,
               (unsigned long long)(uintptr_t)block->address, (unsigned long long)offset);
    else if (block->address != NULL && pointer->device < 0)
        tn_put(text, "; block %llu, of another process, %zu bytes at 0x%llx, offset %llu",
               (unsigned long long)block->sequence, block->bytes,
               (unsigned long long)(uintptr_t)block->address, (unsigned long long)offset);
    else if (block->address != NULL)
        tn_put(text, "; memory of device %d, %zu bytes at 0x%llx, offset %llu", pointer->device,
               block->bytes, (unsigned long long)(uintptr_t)block->address,
               (unsigned long long)offset);
    else if (pointer->pool != NULL)
        tn_put(text, "; pool '%s'", pointer->pool);
    if (block->tag != 0)
        tn_put(text, ", tag %llu", (unsigned long long)block->tag);
}

static void put_pointer(struct tn_text *text, const tarn_audit *audit, const tarn_pointer *pointer)
{
    if (pointer->place == TARN_PLACE_MEMORY) {
        tn_put(text, "memory at 0x%llx", (unsigned long long)pointer->at);
    } else {
        put_node(text, audit, pointer->node);
        put_place(text, pointer);
    }
    tn_put(text, ": 0x%llx", (unsigned long long)pointer->address);
    if (pointer->bytes > 0)
        tn_put(text, ", %llu bytes,", (unsigned long long)pointer->bytes);
    tn_put(text, " is %s: %s", tn_pointer_class_name(pointer->pointer_class),
           tn_pointer_class_sentence(pointer->pointer_class));
    put_block(text, pointer);
    tn_put(text, "\n");
}

void tn_audit_write_pointer(const tarn_audit *audit, const tarn_pointer *pointer, char *buffer,
                            size_t capacity)
{
    struct tn_text text = {buffer, capacity, 0};

    put_node(&text, audit, pointer->node);
    put_place(&text, pointer);
    tn_put(&text, ", 0x%llx", (unsigned long long)pointer->address);
    put_block(&text, pointer);
}

/* Whether the mistakes include overwrites. */
static bool names_overwrites(const tarn_audit *audit)
{
    size_t i = 0;

    while (i < audit->mistake_count && audit->mistakes[i].pointer_class != TARN_POINTER_OVERWRITES)
        i += 1;
    return i < audit->mistake_count;
}

static void put_text(struct tn_text *text, const tarn_audit *audit)
{
    tn_put(text, "%zu nodes, %zu of them kernels; %zu pointers, %zu mistakes\n", audit->node_count,
           audit->kernel_count, audit->pointer_count, audit->mistake_count);
    for (size_t i = 0; i < audit->mistake_count; i++)
        put_pointer(text, audit, &audit->mistakes[i]);
    for (size_t i = 0; i < audit->overwrite_count && !names_overwrites(audit); i++)
        put_pointer(text, audit, &audit->overwrites[i]);
    for (uint32_t i = 0; i < audit->node_count; i++) {
        if (audit->nodes[i].inspection == TARN_INSPECTED)
            continue;
        put_node(text, audit, i);
        tn_put(text, ": not inspected, %s\n", inspection_sentences[audit->nodes[i].inspection]);
    }
    for (size_t i = 0; i < TARN_POINTER_CLASSES; i++) {
        if (audit->counts[i] > 0)
            tn_put(text, "%-14s %8zu  %s\n", class_names[i], audit->counts[i], class_sentences[i]);
    }
    if (audit->tensor_map_count > 0)
        tn_put(text, "%-14s %8zu  seen, and not to be relied on\n", "tensor maps",
               audit->tensor_map_count);
}

/* -- JSON -------------------------------------------------------------------------------------- */

static void put_node_members(struct tn_text *text, const tarn_audit *audit, uint32_t index)
{
    const tarn_audit_node *node = &audit->nodes[index];

    tn_put(text, "\"node\": \"");
    put_path(text, audit, index);
    tn_put(text, "\", \"type\": \"%s\"", tn_node_type_name(node->type));
    if (node->kernel != NULL) {
        tn_put(text, ", \"kernel\": ");
        tn_put_string(text, node->kernel);
    }
}

static void put_pointer_object(struct tn_text *text, const tarn_audit *audit,
                               const tarn_pointer *pointer)
{
    const tarn_block *block = &pointer->block;

    tn_put(text, "{\"class\": \"%s\", ", tn_pointer_class_name(pointer->pointer_class));
    if (pointer->place == TARN_PLACE_MEMORY)
        tn_put(text, "\"at\": \"0x%llx\"", (unsigned long long)pointer->at);
    else
        put_node_members(text, audit, pointer->node);
    tn_put(text, ", \"place\": \"%s\", \"index\": %u, \"offset\": %u", place_names[pointer->place],
           pointer->index, pointer->offset);
    tn_put(text, ", \"address\": \"0x%llx\", \"bytes\": %llu", (unsigned long long)pointer->address,
           (unsigned long long)pointer->bytes);
    if (pointer->device >= 0)
        tn_put(text, ", \"device\": %d", pointer->device);
    if (pointer->pool != NULL) {
        tn_put(text, ", \"pool\": ");
        tn_put_string(text, pointer->pool);
    }
    if (block->address != NULL)
        tn_put(text,
               ", \"block\": {\"address\": \"0x%llx\", \"bytes\": %zu, \"sequence\": %llu, "
               "\"tag\": %llu}",
               (unsigned long long)(uintptr_t)block->address, block->bytes,
               (unsigned long long)block->sequence, (unsigned long long)block->tag);
    tn_put(text, "}");
}

static void put_pointer_array(struct tn_text *text, const tarn_audit *audit, const char *name,
                              const tarn_pointer *pointers, size_t count)
{
    tn_put(text, ", \"%s\": [", name);
    for (size_t i = 0; i < count; i++) {
        tn_put(text, "%s", i > 0 ? ", " : "");
        put_pointer_object(text, audit, &pointers[i]);
    }
    tn_put(text, "]");
}

static void put_uninspected(struct tn_text *text, const tarn_audit *audit)
{
    const char *between = "";

    tn_put(text, ", \"uninspected\": [");
    for (uint32_t i = 0; i < audit->node_count; i++) {
        if (audit->nodes[i].inspection == TARN_INSPECTED)
            continue;
        tn_put(text, "%s{", between);
        put_node_members(text, audit, i);
        tn_put(text, ", \"reason\": \"%s\"}", inspection_sentences[audit->nodes[i].inspection]);
        between = ", ";
    }
    tn_put(text, "]");
}

static void put_json(struct tn_text *text, const tarn_audit *audit)
{
    tn_put(text,
           "{\"nodes\": %zu, \"kernels\": %zu, \"pointers\": %zu, \"tensor_maps\": %zu, "
           "\"scanned_bytes\": %zu, \"counts\": {",
           audit->node_count, audit->kernel_count, audit->pointer_count, audit->tensor_map_count,
           audit->scanned_bytes);
    for (size_t i = 0; i < TARN_POINTER_CLASSES; i++)
        tn_put(text, "%s\"%s\": %zu", i > 0 ? ", " : "", class_names[i], audit->counts[i]);
    tn_put(text, "}");
    put_pointer_array(text, audit, "mistakes", audit->mistakes, audit->mistake_count);
    put_pointer_array(text, audit, "overwrites", audit->overwrites, audit->overwrite_count);
    put_uninspected(text, audit);
    if (audit->pointers != NULL)
        put_pointer_array(text, audit, "listed", audit->pointers, audit->pointer_count);
    tn_put(text, "}\n");
}

size_t tn_audit_write_report(const tarn_audit *audit, tarn_report_format format, char *buffer,
                             size_t capacity)
{
    struct tn_text text = {buffer, capacity, 0};

    if (format == TARN_REPORT_JSON)
        put_json(&text, audit);
    else
        put_text(&text, audit);
    return text.length;
}
