// SPDX-License-Identifier: Apache-2.0
#include "inspect/compare_report.h"

#include "base/text.h"

static const char *const kinds[] = {
    [TARN_GRAPH_DIFFERENCE_NODE_COUNT] = "node count",
    [TARN_GRAPH_DIFFERENCE_NODE_TYPE] = "node type",
    [TARN_GRAPH_DIFFERENCE_EDGES] = "edges",
    [TARN_GRAPH_DIFFERENCE_FUNCTION] = "function",
    [TARN_GRAPH_DIFFERENCE_LAUNCH] = "launch",
    [TARN_GRAPH_DIFFERENCE_PARAMETER] = "parameter",
    [TARN_GRAPH_DIFFERENCE_BUFFER] = "buffer",
    [TARN_GRAPH_DIFFERENCE_FIELD] = "field",
    [TARN_GRAPH_DIFFERENCE_UNINSPECTED] = "uninspected",
};

static unsigned long long number(uint64_t value)
{
    return value;
}

/* The ordinals on the way to a node. */
static void put_path(struct tn_text *text, const tarn_graph_diff *diff, uint32_t node)
{
    if (diff->nodes[node].parent != TARN_NO_NODE) {
        put_path(text, diff, diff->nodes[node].parent);
        tn_put(text, ".");
    }
    tn_put(text, "%u", diff->nodes[node].ordinal);
}

/* -- Text -------------------------------------------------------------------------------------- */

static void put_verdict(struct tn_text *text, const tarn_graph_diff *diff)
{
    size_t differences = diff->difference_count - diff->uninspected_count;

    if (diff->equal)
        tn_put(text, "the graphs are equal");
    else if (diff->corresponds)
        tn_put(text, "the graphs correspond");
    else if (differences > 0)
        tn_put(text, "the graphs differ");
    else
        tn_put(text, "no difference is known");
    tn_put(text, ": %zu nodes of %s structure, %zu differences, %zu not inspected\n",
           diff->node_count, diff->same_structure ? "the same" : "another", differences,
           diff->uninspected_count);
}

static void put_node(struct tn_text *text, const tarn_graph_diff *diff, uint32_t node)
{
    const tarn_node_pair *pair;

    if (node == TARN_NO_NODE) {
        tn_put(text, "the graphs");
        return;
    }
    pair = &diff->nodes[node];
    tn_put(text, "node ");
    put_path(text, diff, node);
    if (pair->kernels[0] != NULL)
        tn_put(text, ", kernel %s", pair->kernels[0]);
    else
        tn_put(text, ", type %d", pair->types[0]);
}

static void put_dependency(struct tn_text *text, uint64_t ordinal)
{
    if (ordinal == TARN_NO_NODE)
        tn_put(text, "none");
    else
        tn_put(text, "%llu", number(ordinal));
}

/* The place of the difference, before the values. */
static void put_place(struct tn_text *text, const tarn_graph_difference *difference)
{
    switch (difference->kind) {
    case TARN_GRAPH_DIFFERENCE_PARAMETER:
        tn_put(text, "parameter %u, offset %u", difference->index, difference->offset);
        break;
    case TARN_GRAPH_DIFFERENCE_BUFFER:
        tn_put(text, "buffer, offset %u", difference->offset);
        break;
    case TARN_GRAPH_DIFFERENCE_EDGES:
        tn_put(text, "behind node");
        break;
    case TARN_GRAPH_DIFFERENCE_LAUNCH:
        tn_put(text, "%s", difference->field);
        break;
    case TARN_GRAPH_DIFFERENCE_FIELD:
        tn_put(text, "%s, %u", difference->field, difference->index);
        break;
    default:
        tn_put(text, "%s", kinds[difference->kind]);
    }
}

static void put_values(struct tn_text *text, const tarn_graph_diff *diff,
                       const tarn_graph_difference *difference)
{
    const uint64_t *values = difference->values;
    const tarn_node_pair *pair;

    switch (difference->kind) {
    case TARN_GRAPH_DIFFERENCE_EDGES:
        put_dependency(text, values[0]);
        tn_put(text, ", and ");
        put_dependency(text, values[1]);
        break;
    case TARN_GRAPH_DIFFERENCE_FUNCTION:
        pair = &diff->nodes[difference->node];
        tn_put(text, "0x%llx, and 0x%llx %s", number(values[0]), number(values[1]),
               pair->kernels[1] != NULL ? pair->kernels[1] : "");
        break;
    case TARN_GRAPH_DIFFERENCE_PARAMETER:
    case TARN_GRAPH_DIFFERENCE_BUFFER:
    case TARN_GRAPH_DIFFERENCE_FIELD:
        tn_put(text, "0x%llx, and 0x%llx", number(values[0]), number(values[1]));
        break;
    default:
        tn_put(text, "%llu, and %llu", number(values[0]), number(values[1]));
    }
}

static void put_block(struct tn_text *text, const tarn_block *block)
{
    if (block->sequence == 0) {
        tn_put(text, "no live block");
        return;
    }
    tn_put(text, "block %llu (%zu bytes at 0x%llx", number(block->sequence), block->bytes,
           number((uint64_t)(uintptr_t)block->address));
    if (block->tag != 0)
        tn_put(text, ", tag %llu", number(block->tag));
    tn_put(text, ")");
}

static bool has_blocks(const tarn_graph_difference *difference)
{
    return difference->blocks[0].pool != NULL || difference->blocks[1].pool != NULL;
}

static void put_line(struct tn_text *text, const tarn_graph_diff *diff,
                     const tarn_graph_difference *difference)
{
    put_node(text, diff, difference->node);
    if (difference->kind == TARN_GRAPH_DIFFERENCE_UNINSPECTED) {
        tn_put(text, ": not inspected: %s, %u\n", difference->field, difference->index);
        return;
    }
    tn_put(text, ": ");
    put_place(text, difference);
    tn_put(text, ": ");
    put_values(text, diff, difference);
    if (has_blocks(difference)) {
        tn_put(text, ", in ");
        put_block(text, &difference->blocks[0]);
        tn_put(text, " and ");
        put_block(text, &difference->blocks[1]);
        tn_put(text, difference->corresponds ? ", which correspond" : "");
    }
    tn_put(text, "\n");
}

/* -- JSON -------------------------------------------------------------------------------------- */

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

static void put_string_or_null(struct tn_text *text, const char *string)
{
    if (string != NULL)
        tn_put_string(text, string);
    else
        tn_put(text, "null");
}

static void put_node_members(struct tn_text *text, const tarn_graph_diff *diff, uint32_t node)
{
    const tarn_node_pair *pair;

    if (node == TARN_NO_NODE) {
        tn_put(text, ", \"node\": null");
        return;
    }
    pair = &diff->nodes[node];
    tn_put(text, ", \"node\": \"");
    put_path(text, diff, node);
    tn_put(text, "\", \"types\": [%d, %d], \"kernels\": [", pair->types[0], pair->types[1]);
    put_string_or_null(text, pair->kernels[0]);
    tn_put(text, ", ");
    put_string_or_null(text, pair->kernels[1]);
    tn_put(text, "]");
}

static void put_block_object(struct tn_text *text, const tarn_block *block)
{
    if (block->sequence == 0)
        tn_put(text, "null");
    else
        tn_put(text,
               "{\"address\": %llu, \"bytes\": %zu, \"block_bytes\": %zu, \"sequence\": %llu, "
               "\"tag\": %llu}",
               number((uint64_t)(uintptr_t)block->address), block->bytes, block->block_bytes,
               number(block->sequence), number(block->tag));
}

static void put_object(struct tn_text *text, const tarn_graph_diff *diff,
                       const tarn_graph_difference *difference)
{
    tn_put(text, "{\"kind\": \"%s\"", kinds[difference->kind]);
    put_node_members(text, diff, difference->node);
    tn_put(text, ", \"index\": %u, \"offset\": %u, \"bytes\": %u, \"field\": ", difference->index,
           difference->offset, difference->bytes);
    put_string_or_null(text, difference->field);
    tn_put(text, ", \"values\": [%llu, %llu], \"blocks\": [", number(difference->values[0]),
           number(difference->values[1]));
    put_block_object(text, &difference->blocks[0]);
    tn_put(text, ", ");
    put_block_object(text, &difference->blocks[1]);
    tn_put(text, "], \"corresponds\": %s}", truth(difference->corresponds));
}

static void put_json(struct tn_text *text, const tarn_graph_diff *diff)
{
    tn_put(text, "{\"same_structure\": %s, \"complete\": %s, \"equal\": %s, ",
           truth(diff->same_structure), truth(diff->complete), truth(diff->equal));
    tn_put(text, "\"corresponds\": %s, \"node_count\": %zu, \"uninspected_count\": %zu, ",
           truth(diff->corresponds), diff->node_count, diff->uninspected_count);
    tn_put(text, "\"differences\": [");
    for (size_t i = 0; i < diff->difference_count; i++) {
        if (i > 0)
            tn_put(text, ", ");
        put_object(text, diff, &diff->differences[i]);
    }
    tn_put(text, "]}\n");
}

size_t tn_graph_diff_write_report(const tarn_graph_diff *diff, tarn_report_format format,
                                  char *buffer, size_t capacity)
{
    struct tn_text text = {buffer, capacity, 0};

    if (format == TARN_REPORT_JSON) {
        put_json(&text, diff);
        return text.length;
    }
    put_verdict(&text, diff);
    for (size_t i = 0; i < diff->difference_count; i++)
        put_line(&text, diff, &diff->differences[i]);
    return text.length;
}
