// SPDX-License-Identifier: Apache-2.0
/* A walk back along the edges tells whether a node depends on another. Most nodes have a single
 * edge, from the node before them on their stream. Nodes are therefore gathered into chains: a walk
 * goes from the head of a chain to the heads of others.
 *
 * Trade-offs: the nodes that depend on all nodes of a place are found by a look at the nodes that
 * depend on its first node, once for a place. */
#include "inspect/precedence.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/host.h"
#include "heap/births.h"

static tarn_status no_memory(uint32_t count)
{
    return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for the order of %u nodes", count);
}

static int compare_handles(const void *a, const void *b)
{
    uintptr_t first = (uintptr_t)((const struct tn_handle *)a)->node;
    uintptr_t second = (uintptr_t)((const struct tn_handle *)b)->node;

    return (first > second) - (first < second);
}

static int compare_outward(const void *a, const void *b)
{
    const struct tn_edge *first = a;
    const struct tn_edge *second = b;

    if (first->from != second->from)
        return first->from < second->from ? -1 : 1;
    return (first->to > second->to) - (first->to < second->to);
}

/* In each chain a node depends on the node before it, and on nothing else. */
static void make_chains(struct tn_precedence *order)
{
    uint32_t *next = order->stamps; /* unused before the first walk: whether a node is continued */

    for (uint32_t i = 0; i < order->count; i++) {
        bool one = order->begins[i + 1] - order->begins[i] == 1;
        uint32_t from = one ? order->edges[order->begins[i]].from : i;

        order->heads[i] = i;
        if (from >= i || next[from] != 0)
            continue;
        order->heads[i] = order->heads[from];
        next[from] = 1;
    }
    memset(order->stamps, 0, order->count * sizeof *order->stamps);
}

static bool reserve(struct tn_precedence *order)
{
    size_t nodes = (size_t)order->count + 1;

    order->handles = tn_host_alloc_unset(nodes, sizeof *order->handles);
    order->begins = tn_host_alloc(nodes, sizeof *order->begins);
    order->outward_begins = tn_host_alloc(nodes, sizeof *order->outward_begins);
    order->heads = tn_host_alloc(nodes, sizeof *order->heads);
    order->stamps = tn_host_alloc(nodes, sizeof *order->stamps);
    order->stack = tn_host_alloc_unset(nodes, sizeof *order->stack);
    order->chain_nexts = tn_host_alloc(nodes, sizeof *order->chain_nexts);
    order->next_stamps = tn_host_alloc(nodes, sizeof *order->next_stamps);
    order->outward = tn_host_alloc_unset(tn_max(order->edge_count, 1), sizeof *order->outward);
    return order->handles != NULL && order->begins != NULL && order->outward_begins != NULL &&
           order->heads != NULL && order->stamps != NULL && order->stack != NULL &&
           order->chain_nexts != NULL && order->next_stamps != NULL && order->outward != NULL;
}

static void index_edges(struct tn_precedence *order)
{
    for (size_t i = 0; i < order->edge_count; i++) {
        order->begins[order->edges[i].to + 1] += 1;
        order->outward_begins[order->edges[i].from + 1] += 1;
        order->outward[i] = order->edges[i];
    }
    for (uint32_t i = 0; i < order->count; i++) {
        order->begins[i + 1] += order->begins[i];
        order->outward_begins[i + 1] += order->outward_begins[i];
    }
    if (order->edge_count > 0)
        qsort(order->outward, order->edge_count, sizeof *order->outward, compare_outward);
}

tarn_status tn_precedence_read(struct tn_precedence *order, struct tn_gpu *gpu,
                               const struct tn_references *references, const struct tn_level *of)
{
    tn_cu_graphnode *nodes;
    tarn_status status;

    if (order->is_read)
        return TARN_OK;
    nodes = tn_host_alloc_unset((size_t)of->count + 1, sizeof(tn_cu_graphnode));
    if (nodes == NULL)
        return no_memory(of->count);
    for (uint32_t i = 0; i < of->count; i++)
        nodes[i] = references->nodes[of->first + i].handle;
    status = tn_driver_graph_read_edges(gpu, of->graph, nodes, of->count, &order->edges,
                                        &order->edge_count);
    order->count = of->count;
    if (status == TARN_OK && !reserve(order))
        status = no_memory(of->count);
    if (status == TARN_OK) {
        for (uint32_t i = 0; i < of->count; i++)
            order->handles[i] = (struct tn_handle){nodes[i], i};
        qsort(order->handles, of->count, sizeof *order->handles, compare_handles);
        index_edges(order);
        make_chains(order);
        order->is_read = true;
    }
    tn_host_free(nodes);
    return status;
}

void tn_precedence_drop(struct tn_precedence *order)
{
    tn_host_free(order->handles);
    tn_host_free(order->edges);
    tn_host_free(order->begins);
    tn_host_free(order->outward);
    tn_host_free(order->outward_begins);
    tn_host_free(order->heads);
    tn_host_free(order->stamps);
    tn_host_free(order->stack);
    tn_host_free(order->chain_nexts);
    tn_host_free(order->next_stamps);
}

/* -- What was captured before what ------------------------------------------------------------- */

/* The place of a birth's stream, by the nodes of its graph. */
struct standpoint {
    uint32_t nodes[TN_PLACE_MAX];
    uint32_t count;
    uint32_t behind; /* the last of them, + 1 */
};

static bool find_node(const struct tn_precedence *order, uint64_t word, uint32_t *index)
{
    const struct tn_handle wanted = {(tn_cu_graphnode)(uintptr_t)word, 0};
    const struct tn_handle *found =
        bsearch(&wanted, order->handles, order->count, sizeof *order->handles, compare_handles);

    if (found != NULL)
        *index = found->index;
    return found != NULL;
}

/* words: a place of heap/births.h. False: the place is not known, or a node is gone. */
static bool find_standpoint(const struct tn_precedence *order, const uint64_t *words,
                            struct standpoint *at)
{
    *at = (struct standpoint){.count = 0};
    if (words[0] > TN_PLACE_MAX)
        return false;
    for (; at->count < (uint32_t)words[0]; at->count += 1) {
        uint32_t *node = &at->nodes[at->count];

        if (!find_node(order, words[1 + at->count], node))
            return false;
        at->behind = (uint32_t)tn_max(at->behind, *node + 1);
    }
    return true;
}

static bool has_edge(const struct tn_precedence *order, uint32_t from, uint32_t to)
{
    for (uint32_t i = order->begins[to]; i < order->begins[to + 1]; i++) {
        if (order->edges[i].from == from)
            return true;
    }
    return false;
}

/* Whether the node may be the stream's next. */
static bool is_next(const struct tn_precedence *order, const struct standpoint *at, uint32_t node)
{
    if (at->count == 0)
        return order->begins[node] == order->begins[node + 1];
    for (uint32_t i = 0; i < at->count; i++) {
        if (!has_edge(order, at->nodes[i], node))
            return false;
    }
    return node >= at->behind;
}

static void note_next(struct tn_precedence *order, uint32_t node)
{
    uint32_t head = order->heads[node];

    if (order->next_count == 0)
        order->first_next = node;
    if (order->next_stamps[head] != order->next_stamp) /* nodes come in order */
        order->chain_nexts[head] = node;
    order->next_stamps[head] = order->next_stamp;
    order->last_next = node;
    order->next_count += 1;
}

/* Finds all nodes that may be the next of the stream whose place `words` is. */
static void find_next(struct tn_precedence *order, const struct standpoint *at,
                      const uint64_t *words)
{
    uint32_t from = at->count > 0 ? order->outward_begins[at->nodes[0]] : 0;
    uint32_t to = at->count > 0 ? order->outward_begins[at->nodes[0] + 1] : order->count;

    if (order->next_of == words)
        return;
    order->next_of = words;
    order->next_count = 0;
    order->next_stamp += 1;
    for (uint32_t i = from; i < to; i++) {
        uint32_t node = at->count > 0 ? order->outward[i].to : i;

        if (is_next(order, at, node))
            note_next(order, node);
    }
}

/* Whether the node is a next node, or its chain leads back to one. */
static bool is_behind_next(const struct tn_precedence *order, uint32_t node)
{
    uint32_t head = order->heads[node];

    return order->next_stamps[head] == order->next_stamp && order->chain_nexts[head] <= node;
}

/* Whether the node is a next node, or depends on one. */
static bool depends_on_next(struct tn_precedence *order, uint32_t node)
{
    size_t count = 0;

    if (is_behind_next(order, node))
        return true;
    order->stamp += 1;
    order->stack[count++] = order->heads[node];
    order->stamps[order->heads[node]] = order->stamp;
    while (count > 0) {
        uint32_t head = order->stack[--count];

        for (uint32_t i = order->begins[head]; i < order->begins[head + 1]; i++) {
            uint32_t from = order->edges[i].from;

            if (is_behind_next(order, from))
                return true;
            if (from < order->first_next || order->stamps[order->heads[from]] == order->stamp)
                continue;
            order->stamps[order->heads[from]] = order->stamp;
            order->stack[count++] = order->heads[from];
        }
    }
    return false;
}

/* G8: whether the node was captured before the moment at which the stream, at this place,
 * allocated, or behind it. */
enum tn_captured tn_precedence_find(struct tn_precedence *order, uint32_t node,
                                    const uint64_t *words)
{
    struct standpoint at;

    if (!find_standpoint(order, words, &at))
        return TN_CAPTURED_UNKNOWN;
    if (node < at.behind)
        return TN_CAPTURED_BEFORE;
    find_next(order, &at, words);
    if (order->next_count == 0 || node < order->last_next ||
        (node == order->last_next && order->next_count > 1))
        return TN_CAPTURED_UNKNOWN;
    return depends_on_next(order, node) ? TN_CAPTURED_BEHIND : TN_CAPTURED_UNKNOWN;
}
