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
    return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for which of %u nodes came first", count);
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
static void make_chains(struct tn_precedence *precedence)
{
    uint32_t *next =
        precedence->stamps; /* unused before the first walk: whether a node is continued */

    for (uint32_t i = 0; i < precedence->count; i++) {
        bool one = precedence->begins[i + 1] - precedence->begins[i] == 1;
        uint32_t from = one ? precedence->edges[precedence->begins[i]].from : i;

        precedence->heads[i] = i;
        if (from >= i || next[from] != 0)
            continue;
        precedence->heads[i] = precedence->heads[from];
        next[from] = 1;
    }
    memset(precedence->stamps, 0, precedence->count * sizeof *precedence->stamps);
}

static bool reserve(struct tn_precedence *precedence)
{
    size_t nodes = (size_t)precedence->count + 1;

    precedence->handles = tn_host_alloc_unset(nodes, sizeof *precedence->handles);
    precedence->begins = tn_host_alloc(nodes, sizeof *precedence->begins);
    precedence->outward_begins = tn_host_alloc(nodes, sizeof *precedence->outward_begins);
    precedence->heads = tn_host_alloc(nodes, sizeof *precedence->heads);
    precedence->stamps = tn_host_alloc(nodes, sizeof *precedence->stamps);
    precedence->stack = tn_host_alloc_unset(nodes, sizeof *precedence->stack);
    precedence->chain_nexts = tn_host_alloc(nodes, sizeof *precedence->chain_nexts);
    precedence->next_stamps = tn_host_alloc(nodes, sizeof *precedence->next_stamps);
    precedence->outward =
        tn_host_alloc_unset(tn_max(precedence->edge_count, 1), sizeof *precedence->outward);
    return precedence->handles != NULL && precedence->begins != NULL &&
           precedence->outward_begins != NULL && precedence->heads != NULL &&
           precedence->stamps != NULL && precedence->stack != NULL &&
           precedence->chain_nexts != NULL && precedence->next_stamps != NULL &&
           precedence->outward != NULL;
}

static void index_edges(struct tn_precedence *precedence)
{
    for (size_t i = 0; i < precedence->edge_count; i++) {
        precedence->begins[precedence->edges[i].to + 1] += 1;
        precedence->outward_begins[precedence->edges[i].from + 1] += 1;
        precedence->outward[i] = precedence->edges[i];
    }
    for (uint32_t i = 0; i < precedence->count; i++) {
        precedence->begins[i + 1] += precedence->begins[i];
        precedence->outward_begins[i + 1] += precedence->outward_begins[i];
    }
    if (precedence->edge_count > 0)
        qsort(precedence->outward, precedence->edge_count, sizeof *precedence->outward,
              compare_outward);
}

tarn_status tn_precedence_read(struct tn_precedence *precedence, struct tn_gpu *gpu,
                               const struct tn_references *references, const struct tn_level *of)
{
    tn_cu_graphnode *nodes;
    tarn_status status;

    if (precedence->is_read)
        return TARN_OK;
    nodes = tn_host_alloc_unset((size_t)of->count + 1, sizeof(tn_cu_graphnode));
    if (nodes == NULL)
        return no_memory(of->count);
    for (uint32_t i = 0; i < of->count; i++)
        nodes[i] = references->nodes[of->first + i].handle;
    status = tn_driver_graph_read_edges(gpu, of->graph, nodes, of->count, &precedence->edges,
                                        &precedence->edge_count);
    precedence->count = of->count;
    if (status == TARN_OK && !reserve(precedence))
        status = no_memory(of->count);
    if (status == TARN_OK) {
        for (uint32_t i = 0; i < of->count; i++)
            precedence->handles[i] = (struct tn_handle){nodes[i], i};
        qsort(precedence->handles, of->count, sizeof *precedence->handles, compare_handles);
        index_edges(precedence);
        make_chains(precedence);
        precedence->is_read = true;
    }
    tn_host_free(nodes);
    return status;
}

void tn_precedence_drop(struct tn_precedence *precedence)
{
    tn_host_free(precedence->handles);
    tn_host_free(precedence->edges);
    tn_host_free(precedence->begins);
    tn_host_free(precedence->outward);
    tn_host_free(precedence->outward_begins);
    tn_host_free(precedence->heads);
    tn_host_free(precedence->stamps);
    tn_host_free(precedence->stack);
    tn_host_free(precedence->chain_nexts);
    tn_host_free(precedence->next_stamps);
}

/* -- What was captured before what ------------------------------------------------------------- */

/* The place of a birth's stream, by the nodes of its graph. */
struct standpoint {
    uint32_t nodes[TN_PLACE_MAX];
    uint32_t count;
    uint32_t behind; /* the last of them, + 1 */
};

static bool find_node(const struct tn_precedence *precedence, uint64_t word, uint32_t *index)
{
    const struct tn_handle wanted = {(tn_cu_graphnode)(uintptr_t)word, 0};
    const struct tn_handle *found = bsearch(&wanted, precedence->handles, precedence->count,
                                            sizeof *precedence->handles, compare_handles);

    if (found != NULL)
        *index = found->index;
    return found != NULL;
}

/* words: a place of heap/births.h. False: the place is not known, or a node is gone. */
static bool find_standpoint(const struct tn_precedence *precedence, const uint64_t *words,
                            struct standpoint *at)
{
    *at = (struct standpoint){.count = 0};
    if (words[0] > TN_PLACE_MAX)
        return false;
    for (; at->count < (uint32_t)words[0]; at->count += 1) {
        uint32_t *node = &at->nodes[at->count];

        if (!find_node(precedence, words[1 + at->count], node))
            return false;
        at->behind = (uint32_t)tn_max(at->behind, *node + 1);
    }
    return true;
}

static bool has_edge(const struct tn_precedence *precedence, uint32_t from, uint32_t to)
{
    for (uint32_t i = precedence->begins[to]; i < precedence->begins[to + 1]; i++) {
        if (precedence->edges[i].from == from)
            return true;
    }
    return false;
}

/* Whether the node may be the stream's next. */
static bool is_next(const struct tn_precedence *precedence, const struct standpoint *at,
                    uint32_t node)
{
    if (at->count == 0)
        return precedence->begins[node] == precedence->begins[node + 1];
    for (uint32_t i = 0; i < at->count; i++) {
        if (!has_edge(precedence, at->nodes[i], node))
            return false;
    }
    return node >= at->behind;
}

static void note_next(struct tn_precedence *precedence, uint32_t node)
{
    uint32_t head = precedence->heads[node];

    if (precedence->next_count == 0)
        precedence->first_next = node;
    if (precedence->next_stamps[head] != precedence->next_stamp) /* nodes come in order */
        precedence->chain_nexts[head] = node;
    precedence->next_stamps[head] = precedence->next_stamp;
    precedence->last_next = node;
    precedence->next_count += 1;
}

/* Finds all nodes that may be the next of the stream whose place `words` is. */
static void find_next(struct tn_precedence *precedence, const struct standpoint *at,
                      const uint64_t *words)
{
    uint32_t from = at->count > 0 ? precedence->outward_begins[at->nodes[0]] : 0;
    uint32_t to = at->count > 0 ? precedence->outward_begins[at->nodes[0] + 1] : precedence->count;

    if (precedence->next_of == words)
        return;
    precedence->next_of = words;
    precedence->next_count = 0;
    precedence->next_stamp += 1;
    for (uint32_t i = from; i < to; i++) {
        uint32_t node = at->count > 0 ? precedence->outward[i].to : i;

        if (is_next(precedence, at, node))
            note_next(precedence, node);
    }
}

/* Whether the node is a next node, or its chain leads back to one. */
static bool is_behind_next(const struct tn_precedence *precedence, uint32_t node)
{
    uint32_t head = precedence->heads[node];

    return precedence->next_stamps[head] == precedence->next_stamp &&
           precedence->chain_nexts[head] <= node;
}

/* Whether the node is a next node, or depends on one. */
static bool depends_on_next(struct tn_precedence *precedence, uint32_t node)
{
    size_t count = 0;

    if (is_behind_next(precedence, node))
        return true;
    precedence->stamp += 1;
    precedence->stack[count++] = precedence->heads[node];
    precedence->stamps[precedence->heads[node]] = precedence->stamp;
    while (count > 0) {
        uint32_t head = precedence->stack[--count];

        for (uint32_t i = precedence->begins[head]; i < precedence->begins[head + 1]; i++) {
            uint32_t from = precedence->edges[i].from;

            if (is_behind_next(precedence, from))
                return true;
            if (from < precedence->first_next ||
                precedence->stamps[precedence->heads[from]] == precedence->stamp)
                continue;
            precedence->stamps[precedence->heads[from]] = precedence->stamp;
            precedence->stack[count++] = precedence->heads[from];
        }
    }
    return false;
}

/* G8: whether the node was captured before the moment at which the stream, at this place,
 * allocated, or behind it. */
enum tn_captured tn_precedence_find(struct tn_precedence *precedence, uint32_t node,
                                    const uint64_t *words)
{
    struct standpoint at;

    if (!find_standpoint(precedence, words, &at))
        return TN_CAPTURED_UNKNOWN;
    if (node < at.behind)
        return TN_CAPTURED_BEFORE;
    find_next(precedence, &at, words);
    if (precedence->next_count == 0 || node < precedence->last_next ||
        (node == precedence->last_next && precedence->next_count > 1))
        return TN_CAPTURED_UNKNOWN;
    return depends_on_next(precedence, node) ? TN_CAPTURED_BEHIND : TN_CAPTURED_UNKNOWN;
}
