// SPDX-License-Identifier: Apache-2.0
/* The driver gives all edges of a graph at once, as pairs of handles, in an order that nobody
 * promises. Handles become places by a table at most half full. The edges are then sorted, unless
 * they are in order already, as a capture's edges mostly are. */
#include "nodes/edges.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"

/* As the driver gives them. */
struct given {
    tn_cu_graphnode *from;
    tn_cu_graphnode *to;
    tn_cu_edge_data *data;
    size_t count;
};

/* From a handle to the node's place. */
struct places {
    const tn_cu_graphnode *nodes;
    uint32_t *table; /* a place + 1; 0: empty */
    size_t capacity; /* a power of two */
};

static void drop(struct given *given)
{
    tn_host_free(given->from);
    tn_host_free(given->to);
    tn_host_free(given->data);
}

static tarn_status no_memory(size_t count)
{
    return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for the %zu edges of a graph", count);
}

static tarn_status ask(struct tn_gpu *gpu, tn_cu_graph graph, struct given *given)
{
    const struct tn_driver *driver = gpu->driver;
    tn_cu_result result = driver->cuGraphGetEdges(graph, NULL, NULL, NULL, &given->count);

    if (result == TN_CUDA_SUCCESS && given->count > 0) {
        given->from = tn_host_alloc_unset(given->count, sizeof(tn_cu_graphnode));
        given->to = tn_host_alloc_unset(given->count, sizeof(tn_cu_graphnode));
        given->data = tn_host_alloc_unset(given->count, sizeof *given->data);
        if (given->from == NULL || given->to == NULL || given->data == NULL)
            return no_memory(given->count);
        result = driver->cuGraphGetEdges(graph, given->from, given->to, given->data, &given->count);
    }
    return tn_gpu_answered(gpu, result, "reading the edges of a graph", "cuGraphGetEdges");
}

static uint32_t *slot_of(const struct places *places, tn_cu_graphnode node)
{
    size_t at = (size_t)(((uint64_t)(uintptr_t)node * TN_GOLDEN) >> 32);

    for (at &= places->capacity - 1; places->table[at] != 0;
         at = (at + 1) & (places->capacity - 1)) {
        if (places->nodes[places->table[at] - 1] == node)
            break;
    }
    return &places->table[at];
}

static bool fill(struct places *places, size_t node_count)
{
    places->capacity = (size_t)4 << tn_log2_floor(node_count);
    places->table = tn_host_alloc(places->capacity, sizeof *places->table);
    if (places->table == NULL)
        return false;
    for (size_t i = 0; i < node_count; i++)
        *slot_of(places, places->nodes[i]) = (uint32_t)i + 1;
    return true;
}

static int compare_edges(const void *a, const void *b)
{
    const struct tn_edge *first = a;
    const struct tn_edge *second = b;

    if (first->to != second->to)
        return first->to < second->to ? -1 : 1;
    return (first->from > second->from) - (first->from < second->from); /* one edge for a pair */
}

static struct tn_edge edge_of(const struct places *places, const struct given *given, size_t i)
{
    const tn_cu_edge_data *data = &given->data[i];
    uint32_t to = *slot_of(places, given->to[i]);
    uint32_t from = *slot_of(places, given->from[i]);

    TN_ASSERT(to > 0 && from > 0);
    return (struct tn_edge){to - 1, from - 1,
                            (uint32_t)data->from_port << 16 | (uint32_t)data->to_port << 8 |
                                data->type};
}

static tarn_status convert(const struct places *places, const struct given *given,
                           struct tn_edge **edges)
{
    struct tn_edge *made = tn_host_alloc_unset(given->count, sizeof *made);
    bool is_sorted = true;

    if (made == NULL)
        return no_memory(given->count);
    for (size_t i = 0; i < given->count; i++) {
        made[i] = edge_of(places, given, i);
        is_sorted = is_sorted && (i == 0 || compare_edges(&made[i - 1], &made[i]) <= 0);
    }
    if (!is_sorted)
        qsort(made, given->count, sizeof *made, compare_edges);
    *edges = made;
    return TARN_OK;
}

tarn_status tn_driver_graph_read_edges(struct tn_gpu *gpu, tn_cu_graph graph,
                                       const tn_cu_graphnode *nodes, size_t node_count,
                                       struct tn_edge **edges, size_t *count)
{
    struct places places = {.nodes = nodes};
    struct given given = {.count = 0};
    tarn_status status = ask(gpu, graph, &given);

    if (status == TARN_OK && given.count > 0) {
        status =
            fill(&places, node_count) ? convert(&places, &given, edges) : no_memory(given.count);
        tn_host_free(places.table);
    } else if (status == TARN_OK) {
        *edges = NULL;
    }
    if (status == TARN_OK)
        *count = given.count;
    drop(&given);
    return status;
}
