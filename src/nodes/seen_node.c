// SPDX-License-Identifier: Apache-2.0
/* Loose ends: the newest nodes are looked at first, since work that was not joined is mostly the
 * last of its stream.
 *
 * Trade-offs: a look for a loose end needs the list of all nodes, and takes some fifty nanoseconds
 * a node. The look is therefore not for every capture, and ends after a thousand nodes. */
#include "nodes/seen_node.h"

#include <stdio.h>

#include "base/host.h"
#include "nodes/node.h"

/* The nodes that a stream's next node would come after; the driver's until the next call on the
 * stream. */
struct terminals {
    tn_cu_graph graph; /* NULL: no capture goes on in the stream */
    const tn_cu_graphnode *nodes;
    size_t count;
};

static struct terminals ask_terminals(struct tn_gpu *gpu, tn_cu_stream stream)
{
    tn_cu_capture_status capturing = TN_CU_CAPTURE_STATUS_NONE;
    struct terminals terminals = {.graph = NULL};
    const tn_cu_edge_data *edges; /* without a place for them some are not told */
    tn_cu_result result;
    uint64_t id;
    bool pushed;

    if (tn_stream_enter(gpu, stream, &pushed) != TARN_OK)
        return terminals;
    result = gpu->driver->cuStreamGetCaptureInfo(stream, &capturing, &id, &terminals.graph,
                                                 &terminals.nodes, &edges, &terminals.count);
    tn_gpu_leave(gpu, pushed);
    if (result != TN_CUDA_SUCCESS)
        terminals.graph = NULL; /* NULL also where the capture is broken, or no capture is there */
    return terminals;
}

static bool is_terminal(const struct terminals *terminals, tn_cu_graphnode node)
{
    for (size_t i = 0; i < terminals->count; i++) {
        if (terminals->nodes[i] == node)
            return true;
    }
    return false;
}

/* Whether no node comes behind this node. If the driver cannot tell of edges without their data,
 * the node counts as followed. */
static bool is_last(struct tn_gpu *gpu, tn_cu_graphnode node)
{
    size_t count = 0;
    tn_cu_result result = gpu->driver->cuGraphNodeGetDependentNodes(node, NULL, NULL, &count);

    return result == TN_CUDA_SUCCESS && count == 0;
}

/* Without a current context the driver has no names. */
static void name_kernel(struct tn_gpu *gpu, tn_cu_graphnode handle, struct tn_seen_node *seen)
{
    const char *name = NULL;
    struct tn_node node;
    bool pushed;

    if (tn_gpu_enter(gpu, gpu->context, &pushed) != TARN_OK)
        return;
    if (tn_node_read(gpu, handle, TN_CU_NODE_KERNEL, &node) == TARN_OK &&
        gpu->driver->cuFuncGetName(&name, node.kernel.function) == TN_CUDA_SUCCESS && name != NULL)
        (void)snprintf(seen->kernel, sizeof seen->kernel, "%s", name);
    tn_gpu_leave(gpu, pushed);
}

/* The node of the given number, from 1. */
static struct tn_seen_node see(struct tn_gpu *gpu, const tn_cu_graphnode *nodes, size_t count,
                               size_t number)
{
    struct tn_seen_node seen = {.node_count = count};

    if (tn_node_type(gpu, nodes[number - 1], &seen.type) != TARN_OK)
        return seen;
    seen.number = number;
    if (seen.type == TN_CU_NODE_KERNEL)
        name_kernel(gpu, nodes[number - 1], &seen);
    return seen;
}

struct tn_seen_node tn_newest_node_find(struct tn_gpu *gpu, tn_cu_graph graph)
{
    struct tn_seen_node seen = {.number = 0};
    tn_cu_graphnode *nodes = NULL;
    size_t count = 0;

    if (tn_driver_graph_read_nodes(gpu, graph, &nodes, &count) == TARN_OK && count > 0)
        seen = see(gpu, nodes, count, count);
    tn_host_free(nodes);
    return seen;
}

struct tn_seen_node tn_loose_end_find(struct tn_gpu *gpu, tn_cu_stream stream)
{
    struct terminals terminals = ask_terminals(gpu, stream);
    struct tn_seen_node end = {.number = 0};
    tn_cu_graphnode *nodes = NULL;
    size_t count = 0;
    size_t first;

    if (terminals.graph == NULL ||
        tn_driver_graph_read_nodes(gpu, terminals.graph, &nodes, &count) != TARN_OK)
        return end;
    first = count > TN_LOOSE_END_NODES ? count - TN_LOOSE_END_NODES : 0;
    for (size_t number = count; number > first && end.number == 0; number--) {
        tn_cu_graphnode node = nodes[number - 1];

        if (!is_terminal(&terminals, node) && is_last(gpu, node))
            end = see(gpu, nodes, count, number);
    }
    tn_host_free(nodes);
    return end;
}
