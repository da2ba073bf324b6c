// SPDX-License-Identifier: Apache-2.0
/* capture.c -- begins, ends and polices captures.
 *
 * How it works. A capture goes: none, active, perhaps invalidated, none. Recorded nodes go to the
 * capture's graph at once. Each stream in the capture has a frontier, the nodes that its next node
 * comes after. Since a node's frontier is older than the node, a graph's list of nodes is an order
 * of execution. A single backward pass therefore finds all nodes that a capture's end can reach.
 *
 * At a capture's end all nodes of forked streams must come before the frontier of the origin. A
 * forked stream that has added nothing need not be joined. Nodes put aside by setting a stream's
 * dependencies, or added by hand, do not count.
 *
 * Trade-offs. Captures are looked up in a list: they are few at a time. Unsafe calls ignore the
 * context of a capture: the driver's rule for two contexts is not established. */
#include "sim/stream/capture.h"
#include "sim/core/cost.h"

#include <stdlib.h>

static struct tn_sim_capture *captures;
static uint64_t last_id;

struct tn_sim_capture *tn_sim_capture_find(uint64_t id)
{
    struct tn_sim_capture *capture = captures;
    while (capture != NULL && capture->id != id)
        capture = capture->next;
    return capture;
}

bool tn_sim_capture_invalidated(const struct tn_sim_capture *capture)
{
    return capture->invalidated;
}

void tn_sim_capture_invalidate(struct tn_sim_capture *capture)
{
    capture->invalidated = true;
}

tn_cu_result tn_sim_capture_unsafe(void)
{
    const struct tn_sim_thread *self = tn_sim_self();
    bool allowed = true;
    if (self->mode == TN_CU_CAPTURE_MODE_RELAXED)
        return TN_CUDA_SUCCESS;
    for (struct tn_sim_capture *capture = captures; capture != NULL; capture = capture->next) {
        bool forbids = capture->owner == self->serial
                           ? capture->mode != TN_CU_CAPTURE_MODE_RELAXED
                           : self->mode == TN_CU_CAPTURE_MODE_GLOBAL &&
                                 capture->mode == TN_CU_CAPTURE_MODE_GLOBAL;
        if (forbids) {
            tn_sim_capture_invalidate(capture);
            allowed = false;
        }
    }
    return allowed ? TN_CUDA_SUCCESS : TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

bool tn_sim_capture_legacy(const struct tn_sim_context *context, bool invalidate)
{
    bool forbidden = false;
    /* The list of streams is long and the list of captures usually empty. */
    if (captures == NULL)
        return false;
    for (struct tn_sim_stream *stream = tn_sim_all_streams; stream != NULL; stream = stream->next) {
        if (stream->capture == NULL || !stream->blocking || stream->object.context != context)
            continue;
        forbidden = true;
        if (invalidate)
            tn_sim_capture_invalidate(stream->capture);
    }
    return forbidden;
}

bool tn_sim_capture_kill_all(const struct tn_sim_context *context)
{
    bool found = false;
    for (struct tn_sim_capture *capture = captures; capture != NULL; capture = capture->next) {
        if (capture->origin->object.context != context)
            continue;
        tn_sim_capture_invalidate(capture);
        found = true;
    }
    return found;
}

/* The edge from a node of a stream's frontier to its next node. */
static tn_cu_edge_data edge_at(const struct tn_sim_stream *stream, size_t place)
{
    return place < stream->edge_count ? stream->edges[place] : (tn_cu_edge_data){0};
}

tn_cu_result tn_sim_capture_add(struct tn_sim_stream *stream, struct tn_sim_op *op)
{
    struct tn_sim_node *node = tn_sim_graph_add(stream->capture->graph, op, &stream->frontier);
    if (node == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < stream->edge_count; i++)
        node->edges[i] = stream->edges[i]; /* SG3 */
    stream->edge_count = 0;
    tn_sim_node_set_fini(&stream->frontier);
    stream->recorded = true;
    if (!tn_sim_node_set_add(&stream->frontier, node)) {
        /* The node has no stream behind it; its capture cannot end well. */
        tn_sim_capture_invalidate(stream->capture);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    return TN_CUDA_SUCCESS;
}

/* Takes a stream out of its capture: without a capture no frontier (SQ4). */
static void part(struct tn_sim_stream *stream)
{
    stream->capture = NULL;
    stream->recorded = false;
    stream->edge_count = 0;
    tn_sim_node_set_fini(&stream->frontier);
}

/* Ends a capture for all its streams, and gives its graph over. */
static struct tn_sim_graph *dissolve(struct tn_sim_capture *capture)
{
    for (struct tn_sim_stream *stream = tn_sim_all_streams; stream != NULL; stream = stream->next) {
        if (stream->capture != capture)
            continue;
        part(stream);
    }
    struct tn_sim_capture **link = &captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    struct tn_sim_graph *graph = capture->graph;
    graph->capturing = false;
    tn_sim.ledger.captures--;
    tn_sim_node_set_fini(&capture->left);
    free(capture);
    return graph;
}

/* Ends a capture without a result. A graph that belongs to a node stays, with its nodes so far. */
static void drop(struct tn_sim_capture *capture)
{
    struct tn_sim_graph *graph = dissolve(capture);
    if (graph->owner == NULL)
        tn_sim_graph_destroy(graph);
}

void tn_sim_capture_leave(struct tn_sim_stream *stream)
{
    struct tn_sim_capture *capture = stream->capture;
    if (capture == NULL)
        return;
    if (capture->origin == stream) {
        drop(capture);
        return;
    }
    /* Without memory to remember the stream's nodes the capture cannot end well. */
    if (stream->recorded && !tn_sim_node_set_add_all(&capture->left, &stream->frontier))
        tn_sim_capture_invalidate(capture);
    part(stream);
}

/* The common part of beginnings: finds a stream that may begin to capture. */
static tn_cu_result find_to_begin(tn_cu_stream handle, tn_cu_capture_mode mode,
                                  struct tn_sim_stream **stream)
{
    if ((unsigned int)mode > TN_CU_CAPTURE_MODE_RELAXED)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_stream_find(handle, stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if ((*stream)->legacy)
        return TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if ((*stream)->capture != NULL) /* SC1 */
        return TN_CUDA_ERROR_ILLEGAL_STATE;
    return TN_CUDA_SUCCESS;
}

/* Begins a capture on a stream, into a graph without a capture. OUT_OF_MEMORY. */
static tn_cu_result begin(struct tn_sim_stream *stream, tn_cu_capture_mode mode,
                          struct tn_sim_graph *graph)
{
    struct tn_sim_capture *capture = calloc(1, sizeof *capture);
    if (capture == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    *capture = (struct tn_sim_capture){
        .id = ++last_id,
        .origin = stream,
        .owner = tn_sim_self()->serial,
        .mode = mode,
        .graph = graph,
        .next = captures,
    };
    captures = capture;
    graph->capturing = true; /* SC2 */
    stream->capture = capture;
    tn_sim.ledger.captures++;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuStreamBeginCapture(tn_cu_stream handle, tn_cu_capture_mode mode)
{
    struct tn_sim_stream *stream;
    tn_cu_result result = find_to_begin(handle, mode, &stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_graph *graph = tn_sim_graph_create();
    if (graph == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    result = begin(stream, mode, graph);
    if (result != TN_CUDA_SUCCESS)
        tn_sim_graph_destroy(graph);
    return result;
}

/* Nodes that a program names, and the edges from them. */
struct named {
    const tn_cu_graphnode *nodes;
    const tn_cu_edge_data *edges; /* or NULL */
    size_t count;
};

/* Adds nodes that a program names to a frontier, with their edges, for which the caller has made
 * room. */
static tn_cu_result add_named(const struct tn_sim_graph *graph, const struct named *named,
                              struct tn_sim_node_set *frontier, tn_cu_edge_data *edges)
{
    for (size_t i = 0; i < named->count; i++) {
        struct tn_sim_node *node;
        size_t before = frontier->count;
        tn_cu_result result = tn_sim_node_find(named->nodes[i], &node);
        if (result != TN_CUDA_SUCCESS)
            return result;
        if (node->graph != graph)
            return TN_CUDA_ERROR_INVALID_VALUE;
        if (!tn_sim_node_set_add(frontier, node))
            return TN_CUDA_ERROR_OUT_OF_MEMORY;
        if (named->edges != NULL && frontier->count > before)
            edges[before] = named->edges[i];
    }
    return TN_CUDA_SUCCESS;
}

/* Makes a stream's next node come after the named nodes, besides or instead of its frontier.
 * INVALID_VALUE: no nodes are named, or a node is not of the graph. INVALID_HANDLE,
 * OUT_OF_MEMORY. */
static tn_cu_result follow(struct tn_sim_stream *stream, const struct tn_sim_graph *graph,
                           const struct named *named, bool instead)
{
    struct tn_sim_node_set frontier = {0};
    if (named->count > 0 && named->nodes == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_edge_data *edges = calloc(named->count + stream->frontier.count + 1, sizeof *edges);
    tn_cu_result result = TN_CUDA_ERROR_OUT_OF_MEMORY;
    if (edges != NULL && (instead || tn_sim_node_set_add_all(&frontier, &stream->frontier))) {
        for (size_t i = 0; i < frontier.count; i++)
            edges[i] = edge_at(stream, i);
        result = add_named(graph, named, &frontier, edges);
    }
    if (result != TN_CUDA_SUCCESS) {
        tn_sim_node_set_fini(&frontier);
        free(edges);
        return result;
    }
    tn_sim_node_set_fini(&stream->frontier);
    free(stream->edges);
    stream->frontier = frontier;
    stream->edges = edges;
    stream->edge_count = frontier.count;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuStreamBeginCaptureToGraph(tn_cu_stream handle, tn_cu_graph graph_handle,
                                                const tn_cu_graphnode *dependencies,
                                                const tn_cu_edge_data *edges,
                                                size_t dependency_count, tn_cu_capture_mode mode)
{
    struct tn_sim_stream *stream;
    struct tn_sim_graph *graph;
    tn_cu_result result = tn_sim_graph_find(graph_handle, &graph);
    if (result == TN_CUDA_SUCCESS)
        result = find_to_begin(handle, mode, &stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (graph->capturing) /* the driver crashes */
        return TN_CUDA_ERROR_ILLEGAL_STATE;
    const struct named named = {dependencies, edges, dependency_count};
    result = follow(stream, graph, &named, true);
    if (result == TN_CUDA_SUCCESS)
        result = begin(stream, mode, graph);
    if (result != TN_CUDA_SUCCESS)
        part(stream);
    return result;
}

tn_cu_result tn_sim_cuStreamUpdateCaptureDependencies(tn_cu_stream handle,
                                                      tn_cu_graphnode *dependencies,
                                                      const tn_cu_edge_data *edges,
                                                      size_t dependency_count, unsigned int flags)
{
    struct tn_sim_stream *stream;
    if (flags > TN_CU_CAPTURE_DEPENDENCIES_SET)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_stream_admit(handle, &stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (stream->capture == NULL)
        return TN_CUDA_ERROR_ILLEGAL_STATE;
    const struct named named = {dependencies, edges, dependency_count};
    return follow(stream, stream->capture->graph, &named, flags == TN_CU_CAPTURE_DEPENDENCIES_SET);
}

/* Asks whether all nodes of a capture's streams come before its origin's frontier. */
static bool all_joined(const struct tn_sim_capture *capture)
{
    const struct tn_sim_node_set *last = &capture->origin->frontier;
    for (struct tn_sim_stream *stream = tn_sim_all_streams; stream != NULL; stream = stream->next) {
        if (stream->capture == capture && stream != capture->origin && stream->recorded &&
            !tn_sim_graph_reaches(capture->graph, last, &stream->frontier))
            return false;
    }
    return tn_sim_graph_reaches(capture->graph, last, &capture->left);
}

tn_cu_result tn_sim_cuStreamEndCapture(tn_cu_stream handle, tn_cu_graph *graph)
{
    struct tn_sim_stream *stream;
    if (graph == NULL && tn_sim_strict()) /* the driver ends the capture, whose graph is lost */
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (graph != NULL)
        *graph = NULL;
    tn_cu_result result = tn_sim_stream_find(handle, &stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_capture *capture = stream->capture;
    if (capture == NULL)
        return TN_CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != stream) {
        tn_sim_capture_invalidate(capture);
        return TN_CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (capture->invalidated)
        result = TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (capture->mode != TN_CU_CAPTURE_MODE_RELAXED && capture->owner != tn_sim_self()->serial)
        result = TN_CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    else if (!all_joined(capture))
        result = TN_CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    tn_sim_charge(capture->graph->nodes.count);
    if (result != TN_CUDA_SUCCESS) {
        uint64_t due = tn_sim_reaper_count();
        drop(capture);
        tn_sim_reaper_await(due);
        return result;
    }
    const struct tn_sim_graph *captured = dissolve(capture);
    if (graph != NULL)
        *graph = (tn_cu_graph)captured->object.handle;
    return result;
}

/* Finds a stream for a question about its capture, which is forbidden on the legacy stream while a
 * blocking stream captures, but harmless. */
static tn_cu_result find_to_ask(tn_cu_stream handle, struct tn_sim_stream **stream)
{
    tn_cu_result result = tn_sim_stream_look_up(handle, stream);
    if (result == TN_CUDA_SUCCESS && (*stream)->legacy &&
        tn_sim_capture_legacy((*stream)->object.context, false))
        return TN_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return result;
}

static tn_cu_capture_status status_of(const struct tn_sim_stream *stream)
{
    if (stream->capture == NULL)
        return TN_CU_CAPTURE_STATUS_NONE;
    return stream->capture->invalidated ? TN_CU_CAPTURE_STATUS_INVALIDATED
                                        : TN_CU_CAPTURE_STATUS_ACTIVE;
}

tn_cu_result tn_sim_cuStreamIsCapturing(tn_cu_stream handle, tn_cu_capture_status *status)
{
    struct tn_sim_stream *stream;
    if (status == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = find_to_ask(handle, &stream);
    if (result == TN_CUDA_SUCCESS)
        *status = status_of(stream);
    return result;
}

/* Asks whether a stream's frontier has edges that the nodes alone would not tell. */
static bool has_special_edge(const struct tn_sim_stream *stream)
{
    for (size_t i = 0; i < stream->edge_count; i++) {
        if (!tn_sim_edge_is_default(&stream->edges[i]))
            return true;
    }
    return false;
}

/* Fills the arrays that cuStreamGetCaptureInfo lends. */
static bool show_frontier(struct tn_sim_stream *stream)
{
    size_t count = stream->frontier.count;
    if (count == 0)
        return true;
    tn_cu_graphnode *nodes = realloc(stream->shown_nodes, count * sizeof *nodes);
    if (nodes == NULL)
        return false;
    stream->shown_nodes = nodes;
    tn_cu_edge_data *edges = realloc(stream->shown_edges, count * sizeof *edges);
    if (edges == NULL)
        return false;
    stream->shown_edges = edges;
    for (size_t i = 0; i < count; i++) {
        edges[i] = edge_at(stream, i);
        nodes[i] = (tn_cu_graphnode)stream->frontier.items[i]->object.handle;
    }
    return true;
}

tn_cu_result tn_sim_cuStreamGetCaptureInfo(tn_cu_stream handle, tn_cu_capture_status *status,
                                           uint64_t *id, tn_cu_graph *graph,
                                           const tn_cu_graphnode **dependencies,
                                           const tn_cu_edge_data **edges, size_t *dependency_count)
{
    struct tn_sim_stream *stream;
    if (status == NULL || (edges != NULL && dependencies == NULL))
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = find_to_ask(handle, &stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (status_of(stream) == TN_CU_CAPTURE_STATUS_ACTIVE) {
        if (dependencies != NULL && edges == NULL && has_special_edge(stream))
            return TN_CUDA_ERROR_LOSSY_QUERY;
        if (dependencies != NULL && !show_frontier(stream))
            return TN_CUDA_ERROR_OUT_OF_MEMORY;
        if (id != NULL)
            *id = stream->capture->id;
        if (graph != NULL)
            *graph = (tn_cu_graph)stream->capture->graph->object.handle;
        if (dependencies != NULL)
            *dependencies = stream->shown_nodes;
        if (edges != NULL)
            *edges = stream->shown_edges;
        if (dependency_count != NULL)
            *dependency_count = stream->frontier.count;
    }
    *status = status_of(stream);
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuThreadExchangeStreamCaptureMode(tn_cu_capture_mode *mode)
{
    if (mode == NULL || (tn_sim_strict() && (unsigned int)*mode > TN_CU_CAPTURE_MODE_RELAXED))
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_thread *self = tn_sim_self();
    tn_cu_capture_mode before = self->mode;
    self->mode = *mode;
    *mode = before;
    return TN_CUDA_SUCCESS;
}
