// SPDX-License-Identifier: Apache-2.0
/* The comparison lists pairs of nodes graph by graph, and looks at each pair in turn: child graphs
 * add their pairs at the end of the list. There is no recursion, and each node is read once.
 *
 * Which addresses correspond is known only when all are known (inspect/correspond.h). Until then a
 * difference of two addresses of Tarn's says that it corresponds. Addresses that both graphs name
 * at the same place are kept beside.
 *
 * Trade-offs: the nth node is compared with the nth. Where a graph has an additional node in its
 * midst, all nodes behind it differ; the first difference says why. */
#include "inspect/compare.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/host.h"
#include "inspect/correspond.h"
#include "inspect/fields.h"
#include "nodes/edges.h"
#include "nodes/layout.h"
#include "vmm/address_table.h"

enum { WORD_BYTES = 8 };

/* The user's pointer leads to this record. */
struct record {
    tarn_graph_diff diff;
    struct tn_layouts layouts; /* of the kernels' functions; they own the names */
};

struct comparison {
    struct tn_gpu *gpu;
    struct record *record;
    tarn_node_pair *nodes;
    size_t node_count;
    size_t node_capacity;
    tarn_graph_difference *differences;
    size_t difference_count;
    size_t difference_capacity;
    /* Addresses of Tarn's that both graphs name at the same place. */
    uint64_t *same;
    size_t same_count;
    size_t same_capacity;
    bool is_structure_other;
    size_t uninspected_count;
};

static tarn_status no_memory(void)
{
    return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to compare two graphs");
}

/* -- What is found ----------------------------------------------------------------------------- */

static tarn_status add(struct comparison *comparison, const tarn_graph_difference *difference)
{
    if (!tn_host_grow((void **)&comparison->differences, &comparison->difference_capacity,
                      comparison->difference_count + 1, sizeof *difference))
        return no_memory();
    comparison->differences[comparison->difference_count] = *difference;
    comparison->difference_count += 1;
    if (difference->kind <= TARN_GRAPH_DIFFERENCE_EDGES)
        comparison->is_structure_other = true;
    if (difference->kind == TARN_GRAPH_DIFFERENCE_UNINSPECTED)
        comparison->uninspected_count += 1;
    return TARN_OK;
}

/* Compares two values. at: the difference to add if they differ. */
static tarn_status compare_values(struct comparison *comparison, const tarn_graph_difference *at,
                                  uint64_t a, uint64_t b)
{
    tarn_graph_difference difference;

    if (a == b)
        return TARN_OK;
    difference = *at;
    difference.values[0] = a;
    difference.values[1] = b;
    return add(comparison, &difference);
}

/* The same for two values that may be addresses. */
static tarn_status compare_words(struct comparison *comparison, const tarn_graph_difference *at,
                                 uint64_t a, uint64_t b)
{
    bool is_tarns = tn_address_table_find(a) != NULL;
    tarn_graph_difference difference;

    if (a != b) {
        difference = *at;
        difference.corresponds = is_tarns && tn_address_table_find(b) != NULL;
        return compare_values(comparison, &difference, a, b);
    }
    if (!is_tarns)
        return TARN_OK;
    if (!tn_host_grow((void **)&comparison->same, &comparison->same_capacity,
                      comparison->same_count + 1, sizeof *comparison->same))
        return no_memory();
    comparison->same[comparison->same_count] = a;
    comparison->same_count += 1;
    return TARN_OK;
}

static tarn_status add_uninspected(struct comparison *comparison, uint32_t node, uint32_t index,
                                   const char *what)
{
    return add(comparison, &(tarn_graph_difference){.kind = TARN_GRAPH_DIFFERENCE_UNINSPECTED,
                                                    .node = node,
                                                    .index = index,
                                                    .field = what});
}

/* -- Kernels ----------------------------------------------------------------------------------- */

/* at: its offset and bytes are set for each word. */
static tarn_status compare_bytes(struct comparison *comparison, tarn_graph_difference *at,
                                 const unsigned char *a, const unsigned char *b, size_t count)
{
    tarn_status status = TARN_OK;

    for (size_t done = 0; status == TARN_OK && done < count; done += WORD_BYTES) {
        uint64_t words[2] = {0, 0};

        at->offset = (uint32_t)done;
        at->bytes = (uint32_t)tn_min(count - done, WORD_BYTES);
        memcpy(&words[0], a + done, at->bytes);
        memcpy(&words[1], b + done, at->bytes);
        status = at->bytes == WORD_BYTES ? compare_words(comparison, at, words[0], words[1])
                                         : compare_values(comparison, at, words[0], words[1]);
    }
    return status;
}

static tarn_status compare_shapes(struct comparison *comparison, uint32_t node,
                                  const struct tn_launch_shape *a, const struct tn_launch_shape *b)
{
    static const char *const names[] = {"grid_x",  "grid_y",  "grid_z",      "block_x",
                                        "block_y", "block_z", "shared_bytes"};
    const uint32_t *of_a[] = {&a->grid[0],  &a->grid[1],  &a->grid[2],     &a->block[0],
                              &a->block[1], &a->block[2], &a->shared_bytes};
    const uint32_t *of_b[] = {&b->grid[0],  &b->grid[1],  &b->grid[2],     &b->block[0],
                              &b->block[1], &b->block[2], &b->shared_bytes};
    tarn_graph_difference at = {.kind = TARN_GRAPH_DIFFERENCE_LAUNCH, .node = node};
    tarn_status status = TARN_OK;

    if (memcmp(a, b, sizeof *a) == 0)
        return TARN_OK;
    for (size_t i = 0; status == TARN_OK && i < sizeof names / sizeof names[0]; i++) {
        at.field = names[i];
        status = compare_values(comparison, &at, *of_a[i], *of_b[i]);
    }
    return status;
}

/* NULL: the parameter was not given. */
static const unsigned char *param_of(const struct tn_node_kernel *kernel,
                                     const struct tn_layout *layout, uint32_t index)
{
    const struct tn_param param = layout->params[index];

    if (kernel->values != NULL)
        return kernel->values[index];
    return param.offset + (uint64_t)param.bytes <= kernel->buffer_bytes
               ? kernel->buffer + param.offset
               : NULL;
}

static uint64_t given_bytes(const struct tn_node_kernel *kernel, const struct tn_layout *layout)
{
    const struct tn_param *last = &layout->params[layout->count - 1];

    return kernel->values != NULL ? last->offset + (uint64_t)last->bytes : kernel->buffer_bytes;
}

static tarn_status compare_params(struct comparison *comparison, uint32_t node,
                                  const struct tn_node_kernel *a, const struct tn_node_kernel *b,
                                  const struct tn_layout *layout)
{
    tarn_graph_difference at = {.kind = TARN_GRAPH_DIFFERENCE_PARAMETER, .node = node};

    for (uint32_t i = 0; i < layout->count; i++) {
        const unsigned char *of_a = param_of(a, layout, i);
        const unsigned char *of_b = param_of(b, layout, i);
        tarn_status status;

        if (of_a == NULL || of_b == NULL) { /* all behind it are missing, too */
            at = (tarn_graph_difference){
                .kind = TARN_GRAPH_DIFFERENCE_LAUNCH, .node = node, .field = "buffer_bytes"};
            return compare_values(comparison, &at, given_bytes(a, layout), given_bytes(b, layout));
        }
        at.index = i;
        status = compare_bytes(comparison, &at, of_a, of_b, layout->params[i].bytes);
        if (status != TARN_OK)
            return status;
    }
    return TARN_OK;
}

static tarn_status compare_buffers(struct comparison *comparison, uint32_t node,
                                   const struct tn_node_kernel *a, const struct tn_node_kernel *b)
{
    tarn_graph_difference at = {
        .kind = TARN_GRAPH_DIFFERENCE_LAUNCH, .node = node, .field = "buffer_bytes"};
    tarn_status status = compare_values(comparison, &at, a->buffer_bytes, b->buffer_bytes);

    at = (tarn_graph_difference){.kind = TARN_GRAPH_DIFFERENCE_BUFFER, .node = node};
    return status == TARN_OK ? compare_bytes(comparison, &at, a->buffer, b->buffer,
                                             tn_min(a->buffer_bytes, b->buffer_bytes))
                             : status;
}

/* Finds the layouts of the two functions; *layout: of the first. */
static tarn_status find_functions(struct comparison *comparison, uint32_t node,
                                  const tn_cu_function functions[2],
                                  const struct tn_layout **layout)
{
    struct tn_layouts *layouts = &comparison->record->layouts;
    tarn_status status = TARN_OK;

    for (int i = 1; status == TARN_OK && i >= 0; i--) {
        status = tn_layouts_find(layouts, comparison->gpu, functions[i], layout);
        if (status == TARN_OK)
            comparison->nodes[node].kernels[i] = (*layout)->name;
    }
    return status;
}

static tarn_status compare_kernels(struct comparison *comparison, uint32_t node,
                                   const struct tn_node_kernel *a, const struct tn_node_kernel *b)
{
    const tn_cu_function functions[2] = {a->function, b->function};
    tarn_graph_difference at = {.kind = TARN_GRAPH_DIFFERENCE_FUNCTION, .node = node};
    const struct tn_layout *layout = NULL;
    tarn_status status = find_functions(comparison, node, functions, &layout);

    if (status == TARN_OK)
        status = compare_values(comparison, &at, (uint64_t)(uintptr_t)a->function,
                                (uint64_t)(uintptr_t)b->function);
    if (status == TARN_OK)
        status = compare_shapes(comparison, node, &a->shape, &b->shape);
    if (status != TARN_OK || a->function != b->function)
        return status;
    if (layout->count > 0)
        return compare_params(comparison, node, a, b, layout);
    if (a->values != NULL || b->values != NULL)
        return add_uninspected(comparison, node, 0, "parameters");
    return compare_buffers(comparison, node, a, b); /* both empty if the kernel has no parameters */
}

/* -- Other nodes ------------------------------------------------------------------------------- */

static tarn_status compare_part(struct comparison *comparison, uint32_t node, size_t part,
                                const struct tn_fields *a, const struct tn_fields *b)
{
    tarn_graph_difference at = {.kind = TARN_GRAPH_DIFFERENCE_FIELD,
                                .node = node,
                                .index = part > 0 ? (uint32_t)part - 1 : 0};
    tarn_status status = TARN_OK;

    for (size_t i = 0; status == TARN_OK && i < a->count; i++) {
        const struct tn_field *of_a = &a->items[i];
        const struct tn_field *of_b = &b->items[i];

        at.field = of_a->name;
        status = of_a->is_address && of_b->is_address
                     ? compare_words(comparison, &at, of_a->value, of_b->value)
                     : compare_values(comparison, &at, of_a->value, of_b->value);
    }
    if (status == TARN_OK && (a->is_opaque || b->is_opaque))
        status = add_uninspected(comparison, node, at.index, "operation");
    return status;
}

/* Compares nodes of a type that has fields. */
static tarn_status compare_fields(struct comparison *comparison, uint32_t node,
                                  const struct tn_node *a, const struct tn_node *b)
{
    struct tn_fields of_a;
    struct tn_fields of_b;
    tarn_status status = TARN_OK;

    for (size_t part = 0;
         status == TARN_OK && tn_fields_read(a, part, &of_a) && tn_fields_read(b, part, &of_b);
         part++)
        status = compare_part(comparison, node, part, &of_a, &of_b);
    return status;
}

/* -- Graphs ------------------------------------------------------------------------------------ */

struct side {
    tn_cu_graphnode *nodes;
    struct tn_edge *edges;
    size_t node_count;
    size_t edge_count;
};

static tarn_status read_side(struct comparison *comparison, tn_cu_graph graph, struct side *side)
{
    tarn_status status =
        tn_driver_graph_read_nodes(comparison->gpu, graph, &side->nodes, &side->node_count);

    if (status != TARN_OK)
        return status;
    if (comparison->node_count + side->node_count >= TARN_NO_NODE)
        return tn_fail(TARN_ERR_LIMIT, "graphs of 2^32 nodes or more cannot be compared");
    return tn_driver_graph_read_edges(comparison->gpu, graph, side->nodes, side->node_count,
                                      &side->edges, &side->edge_count);
}

/* The first edge from `edge` on that leads to another node. */
static size_t end_of_node(const struct side *side, size_t edge, uint32_t to)
{
    while (edge < side->edge_count && side->edges[edge].to == to)
        edge += 1;
    return edge;
}

static uint64_t from_of(const struct side *side, size_t edge, uint32_t to)
{
    return edge < side->edge_count && side->edges[edge].to == to ? side->edges[edge].from
                                                                 : TARN_NO_NODE;
}

/* Compares the edges to the nodes from first on, of which both graphs have count. */
static tarn_status compare_edges(struct comparison *comparison, const struct side *a,
                                 const struct side *b, uint32_t first, uint32_t count)
{
    size_t i = 0;
    size_t j = 0;

    while (i < a->edge_count || j < b->edge_count) {
        tarn_graph_difference at = {.kind = TARN_GRAPH_DIFFERENCE_EDGES};
        uint32_t to = count;
        tarn_status status;

        if (i < a->edge_count && j < b->edge_count &&
            memcmp(&a->edges[i], &b->edges[j], sizeof *a->edges) == 0) {
            i += 1;
            j += 1;
            continue;
        }
        if (i < a->edge_count)
            to = (uint32_t)tn_min(to, a->edges[i].to);
        if (j < b->edge_count)
            to = (uint32_t)tn_min(to, b->edges[j].to);
        if (to == count)
            return TARN_OK; /* the other edges lead to nodes without a counterpart */
        at.node = first + to;
        at.values[0] = from_of(a, i, to);
        at.values[1] = from_of(b, j, to);
        status = add(comparison, &at);
        if (status != TARN_OK)
            return status;
        i = end_of_node(a, i, to);
        j = end_of_node(b, j, to);
    }
    return TARN_OK;
}

static tarn_status add_pairs(struct comparison *comparison, const struct side *a,
                             const struct side *b, uint32_t parent)
{
    uint32_t first = (uint32_t)comparison->node_count;
    uint32_t count = (uint32_t)tn_min(a->node_count, b->node_count);
    tarn_graph_difference at = {.kind = TARN_GRAPH_DIFFERENCE_NODE_COUNT, .node = parent};
    tarn_status status = compare_values(comparison, &at, a->node_count, b->node_count);

    if (status != TARN_OK)
        return status;
    if (count > 0 && !tn_host_grow((void **)&comparison->nodes, &comparison->node_capacity,
                                   first + (size_t)count, sizeof *comparison->nodes))
        return no_memory();
    for (uint32_t i = 0; i < count; i++)
        comparison->nodes[first + i] =
            (tarn_node_pair){.handles = {a->nodes[i], b->nodes[i]}, .parent = parent, .ordinal = i};
    comparison->node_count += count;
    return compare_edges(comparison, a, b, first, count);
}

static tarn_status add_graphs(struct comparison *comparison, tn_cu_graph a, tn_cu_graph b,
                              uint32_t parent)
{
    struct side sides[2] = {{.nodes = NULL}, {.nodes = NULL}};
    tarn_status status = read_side(comparison, a, &sides[0]);

    if (status == TARN_OK)
        status = read_side(comparison, b, &sides[1]);
    if (status == TARN_OK)
        status = add_pairs(comparison, &sides[0], &sides[1], parent);
    for (int i = 0; i < 2; i++) {
        tn_host_free(sides[i].nodes);
        tn_host_free(sides[i].edges);
    }
    return status;
}

/* Compares nodes of the same type. */
static tarn_status compare_nodes(struct comparison *comparison, uint32_t index,
                                 const struct tn_node *a, const struct tn_node *b)
{
    switch (a->type) {
    case TN_CU_NODE_KERNEL:
        return compare_kernels(comparison, index, &a->kernel, &b->kernel);
    case TN_CU_NODE_GRAPH:
        return add_graphs(comparison, a->child, b->child, index);
    case TN_CU_NODE_MEMCPY:
    case TN_CU_NODE_MEMSET:
    case TN_CU_NODE_HOST:
    case TN_CU_NODE_WAIT_EVENT:
    case TN_CU_NODE_EVENT_RECORD:
    case TN_CU_NODE_MEM_ALLOC:
    case TN_CU_NODE_MEM_FREE:
    case TN_CU_NODE_BATCH_MEM_OP:
        return compare_fields(comparison, index, a, b);
    case TN_CU_NODE_EMPTY:
        return TARN_OK;
    case TN_CU_NODE_CONDITIONAL:
        return add_uninspected(comparison, index, 0, "bodies");
    case TN_CU_NODE_EXT_SEMAS_SIGNAL:
    case TN_CU_NODE_EXT_SEMAS_WAIT:
        break;
    }
    return add_uninspected(comparison, index, 0, "all");
}

static tarn_status compare_pair(struct comparison *comparison, uint32_t index)
{
    tarn_node_pair *pair = &comparison->nodes[index];
    tarn_graph_difference at = {.kind = TARN_GRAPH_DIFFERENCE_NODE_TYPE, .node = index};
    struct tn_node nodes[2];

    for (int i = 0; i < 2; i++) {
        tn_cu_graphnode_type type;
        tarn_status status = tn_node_type(comparison->gpu, pair->handles[i], &type);

        if (status == TARN_OK)
            status = tn_node_read(comparison->gpu, pair->handles[i], type, &nodes[i]);
        if (status != TARN_OK)
            return status;
        pair->types[i] = (int)type;
    }
    if (pair->types[0] != pair->types[1])
        return compare_values(comparison, &at, (uint64_t)pair->types[0], (uint64_t)pair->types[1]);
    return compare_nodes(comparison, index, &nodes[0], &nodes[1]);
}

static void conclude(struct comparison *comparison)
{
    tarn_graph_diff *diff = &comparison->record->diff;

    diff->same_structure = !comparison->is_structure_other;
    diff->uninspected_count = comparison->uninspected_count;
    diff->complete = diff->uninspected_count == 0;
    diff->node_count = comparison->node_count;
    diff->nodes = comparison->nodes;
    diff->difference_count = comparison->difference_count;
    diff->differences = comparison->differences;
    diff->equal = diff->difference_count == 0;
    diff->corresponds = true;
    for (size_t i = 0; i < diff->difference_count; i++)
        diff->corresponds = diff->corresponds && diff->differences[i].corresponds;
}

static void drop(struct record *record, tarn_node_pair *nodes, tarn_graph_difference *differences)
{
    tn_host_free(nodes);
    tn_host_free(differences);
    tn_layouts_drop(&record->layouts);
    tn_host_free(record);
}

tarn_status tn_graphs_compare(struct tn_regions *regions, tn_cu_graph a, tn_cu_graph b,
                              tarn_graph_diff **diff)
{
    struct comparison comparison = {.gpu = regions->gpu};
    tarn_status status;

    comparison.record = tn_host_alloc(1, sizeof *comparison.record);
    if (comparison.record == NULL)
        return no_memory();
    status = add_graphs(&comparison, a, b, TARN_NO_NODE);
    for (uint32_t i = 0; status == TARN_OK && i < comparison.node_count; i++)
        status = compare_pair(&comparison, i);
    if (status == TARN_OK)
        status = tn_correspond(regions, comparison.differences, comparison.difference_count,
                               comparison.same, comparison.same_count);
    tn_host_free(comparison.same);
    if (status != TARN_OK) {
        drop(comparison.record, comparison.nodes, comparison.differences);
        return status;
    }
    conclude(&comparison);
    *diff = &comparison.record->diff;
    return TARN_OK;
}

void tn_graph_diff_destroy(tarn_graph_diff *diff)
{
    drop((struct record *)diff, (tarn_node_pair *)(uintptr_t)diff->nodes,
         (tarn_graph_difference *)(uintptr_t)diff->differences);
}
