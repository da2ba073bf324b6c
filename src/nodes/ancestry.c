// SPDX-License-Identifier: Apache-2.0
/* Ancestry is found by walking back from the stream's terminal nodes, depth first, along the edges
 * of the graph being captured.
 *
 * A graph being captured grows at the streams' ends. The nodes found before are therefore kept, and
 * a walk stops at known nodes. This is right as long as the walk finds every terminal of the last
 * walk again: the ancestors of these terminals are ancestors now, too. A user who cuts a stream off
 * from its past, by cuStreamUpdateCaptureDependencies, takes a terminal away; the walk then begins
 * anew, with no known nodes.
 *
 * An edge that does not wait for the whole node before it (programmatic launches) orders nothing,
 * and is not followed. Where the driver tells no data of edges, the edges are ordinary.
 *
 * Trade-offs: handles of nodes are compared, so if the user destroys a node in mid-capture, the
 * driver may give its handle to a new node. The new node can then be taken for the old. Nobody
 * edits a graph under capture in this way. */
#include "nodes/ancestry.h"

#include <string.h>

#include "base/contract.h"
#include "base/host.h"

static bool waits_for_all(const tn_cu_edge_data *edge)
{
    return edge == NULL || (edge->from_port == 0 && edge->type == 0);
}

/* The driver's answer about a stream, lent until the next call on the stream. */
struct terminals {
    const tn_cu_graphnode *nodes;
    const tn_cu_edge_data *edges; /* NULL: ordinary ones */
    size_t count;
};

static bool ask_terminals(struct tn_gpu *gpu, tn_cu_stream stream, struct tn_order order,
                          struct terminals *terminals)
{
    tn_cu_capture_status capturing = TN_CU_CAPTURE_STATUS_NONE;
    struct tn_stream_state state;
    uint64_t id = 0;
    tn_cu_graph graph;
    tn_cu_result result;
    bool pushed;

    *terminals = (struct terminals){.count = 0};
    /* The per-thread handle may mean another stream by now. */
    if (tn_stream_look(gpu, stream, TN_STREAM_GRAPH, &state) != TARN_OK ||
        !tn_order_equal(state.order, order) || tn_stream_enter(gpu, stream, &pushed) != TARN_OK)
        return false;
    result = gpu->driver->cuStreamGetCaptureInfo(stream, &capturing, &id, &graph, &terminals->nodes,
                                                 &terminals->edges, &terminals->count);
    tn_gpu_leave(gpu, pushed);
    return result == TN_CUDA_SUCCESS && capturing == TN_CU_CAPTURE_STATUS_ACTIVE &&
           id == order.capture_id;
}

void tn_place_ask(struct tn_gpu *gpu, tn_cu_stream stream, struct tn_order order,
                  struct tn_place *place)
{
    tn_cu_capture_status capturing = TN_CU_CAPTURE_STATUS_NONE;
    struct terminals terminals = {.count = 0};
    uint64_t id = 0;
    tn_cu_graph graph;
    tn_cu_result result;
    bool pushed = false;

    *place = (struct tn_place){.known = false};
    if (tn_stream_captured_id(stream) != order.stream_id ||
        (tn_stream_is_default(stream) &&
         tn_gpu_try_enter(gpu, gpu->context, &pushed) != TN_CUDA_SUCCESS))
        return;
    result = gpu->driver->cuStreamGetCaptureInfo(stream, &capturing, &id, &graph, &terminals.nodes,
                                                 &terminals.edges, &terminals.count);
    tn_gpu_leave(gpu, pushed);
    if (result != TN_CUDA_SUCCESS || capturing != TN_CU_CAPTURE_STATUS_ACTIVE ||
        id != order.capture_id || terminals.count > TN_PLACE_MAX)
        return;
    *place = (struct tn_place){terminals.nodes, terminals.count, true};
}

void tn_frontier_take(struct tn_gpu *gpu, tn_cu_stream stream, struct tn_order order,
                      struct tn_frontier *frontier)
{
    struct terminals terminals;

    TN_ASSERT(order.capture_id != 0);
    frontier->known =
        ask_terminals(gpu, stream, order, &terminals) && terminals.count <= TN_FRONTIER_MAX;
    frontier->count = frontier->known ? (uint32_t)terminals.count : 0;
    for (uint32_t i = 0; i < frontier->count; i++)
        frontier->nodes[i] = terminals.nodes[i];
}

static size_t slot_of(tn_cu_graphnode node, size_t capacity)
{
    /* Fibonacci hashing: the high bits of the product are well mixed. */
    return (size_t)(((uint64_t)(uintptr_t)node * 0x9e3779b97f4a7c15ULL) >> 32) & (capacity - 1);
}

static tn_cu_graphnode *find_slot(const struct tn_ancestry *ancestry, tn_cu_graphnode node)
{
    size_t slot = slot_of(node, ancestry->capacity);

    while (ancestry->nodes[slot] != NULL && ancestry->nodes[slot] != node)
        slot = (slot + 1) & (ancestry->capacity - 1);
    return &ancestry->nodes[slot];
}

static bool has(const struct tn_ancestry *ancestry, tn_cu_graphnode node)
{
    return ancestry->capacity > 0 && *find_slot(ancestry, node) != NULL;
}

static bool reserve_slot(struct tn_ancestry *ancestry)
{
    struct tn_ancestry bigger = {.capacity = ancestry->capacity * 2};

    if (2 * (ancestry->count + 1) <= ancestry->capacity)
        return true;
    if (bigger.capacity == 0)
        bigger.capacity = 64;
    bigger.nodes = tn_host_alloc(bigger.capacity, sizeof *bigger.nodes);
    if (bigger.nodes == NULL)
        return false;
    for (size_t slot = 0; slot < ancestry->capacity; slot++) {
        if (ancestry->nodes[slot] != NULL)
            *find_slot(&bigger, ancestry->nodes[slot]) = ancestry->nodes[slot];
    }
    tn_host_free(ancestry->nodes);
    ancestry->nodes = bigger.nodes;
    ancestry->capacity = bigger.capacity;
    return true;
}

/* Notes that a terminal of the last walk was found again. */
static void meet(struct tn_ancestry *ancestry, tn_cu_graphnode node)
{
    for (size_t i = 0; i < ancestry->former_count; i++) {
        if (ancestry->former[i] == node) {
            ancestry->former_count -= 1;
            ancestry->former[i] = ancestry->former[ancestry->former_count];
            return;
        }
    }
}

/* Enters a node, to be asked for its dependencies unless it is known. */
static bool enter(struct tn_ancestry *ancestry, tn_cu_graphnode node)
{
    if (has(ancestry, node)) {
        meet(ancestry, node);
        return true;
    }
    if (!reserve_slot(ancestry) ||
        !tn_host_grow((void **)&ancestry->pending, &ancestry->pending_capacity,
                      ancestry->pending_count + 1, sizeof *ancestry->pending))
        return false;
    *find_slot(ancestry, node) = node;
    ancestry->count += 1;
    ancestry->pending[ancestry->pending_count] = node;
    ancestry->pending_count += 1;
    return true;
}

/* The dependencies of a node, in answer and edges. */
static bool ask_dependencies(struct tn_ancestry *ancestry, struct tn_gpu *gpu, tn_cu_graphnode node,
                             size_t *count)
{
    size_t room = 8;

    do {
        tn_cu_result result;

        room *= 2;
        if (!tn_host_grow((void **)&ancestry->answer, &ancestry->answer_capacity, room,
                          sizeof *ancestry->answer) ||
            !tn_host_grow((void **)&ancestry->edges, &ancestry->edge_capacity, room,
                          sizeof *ancestry->edges))
            return false;
        *count = room;
        result =
            gpu->driver->cuGraphNodeGetDependencies(node, ancestry->answer, ancestry->edges, count);
        if (result != TN_CUDA_SUCCESS)
            return false;
    } while (*count >= room); /* there may be more */
    return true;
}

/* Asks for the dependencies of every pending node, and of every node found on the way. */
static bool walk(struct tn_ancestry *ancestry, struct tn_gpu *gpu)
{
    while (ancestry->pending_count > 0) {
        size_t count;

        ancestry->pending_count -= 1;
        if (!ask_dependencies(ancestry, gpu, ancestry->pending[ancestry->pending_count], &count))
            return false;
        for (size_t i = 0; i < count; i++) {
            if (waits_for_all(&ancestry->edges[i]) && !enter(ancestry, ancestry->answer[i]))
                return false;
        }
    }
    return true;
}

static void forget_nodes(struct tn_ancestry *ancestry)
{
    if (ancestry->count > 0)
        memset(ancestry->nodes, 0, ancestry->capacity * sizeof *ancestry->nodes);
    ancestry->count = 0;
    ancestry->former_count = 0;
    ancestry->pending_count = 0;
}

/* Keeps the terminals of the last walk as former terminals. The stream's present terminals begin
 * the walk. */
static bool take_terminals(struct tn_ancestry *ancestry, const struct terminals *now)
{
    if (!tn_host_grow((void **)&ancestry->former, &ancestry->former_capacity,
                      ancestry->terminal_count + 1, sizeof *ancestry->former) ||
        !tn_host_grow((void **)&ancestry->terminals, &ancestry->terminal_capacity, now->count + 1,
                      sizeof *ancestry->terminals))
        return false;
    for (size_t i = 0; i < ancestry->terminal_count; i++)
        ancestry->former[i] = ancestry->terminals[i];
    ancestry->former_count = ancestry->terminal_count;
    ancestry->terminal_count = 0;
    for (size_t i = 0; i < now->count; i++) {
        if (waits_for_all(now->edges != NULL ? &now->edges[i] : NULL)) {
            ancestry->terminals[ancestry->terminal_count] = now->nodes[i];
            ancestry->terminal_count += 1;
        }
    }
    return true;
}

static bool walk_from_terminals(struct tn_ancestry *ancestry, struct tn_gpu *gpu)
{
    for (size_t i = 0; i < ancestry->terminal_count; i++) {
        if (!enter(ancestry, ancestry->terminals[i]))
            return false;
    }
    return walk(ancestry, gpu);
}

bool tn_ancestry_refresh(struct tn_ancestry *ancestry, struct tn_gpu *gpu, tn_cu_stream stream,
                         struct tn_order order)
{
    struct terminals now;
    bool found = ask_terminals(gpu, stream, order, &now) && take_terminals(ancestry, &now) &&
                 walk_from_terminals(ancestry, gpu);

    if (found && ancestry->former_count > 0) { /* the stream was cut off from part of its past */
        forget_nodes(ancestry);
        found = walk_from_terminals(ancestry, gpu);
    }
    if (!found) {
        forget_nodes(ancestry);
        ancestry->terminal_count = 0;
    }
    return found; /* D4 */
}

bool tn_ancestry_covers(const struct tn_ancestry *ancestry, const struct tn_frontier *frontier)
{
    for (uint32_t i = 0; i < frontier->count; i++) {
        if (!has(ancestry, frontier->nodes[i]))
            return false;
    }
    return frontier->known;
}

void tn_ancestry_fini(struct tn_ancestry *ancestry)
{
    tn_host_free(ancestry->nodes);
    tn_host_free(ancestry->terminals);
    tn_host_free(ancestry->former);
    tn_host_free(ancestry->pending);
    tn_host_free(ancestry->answer);
    tn_host_free(ancestry->edges);
    *ancestry = (struct tn_ancestry){.count = 0};
}
