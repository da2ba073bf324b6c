// SPDX-License-Identifier: Apache-2.0
/* capture.c -- begins, ends and polices captures.
 *
 * How it works. A capture goes: none, active, perhaps invalidated, none. What is recorded goes to
 * its graph at once; each stream that takes part has a frontier, the nodes that its next node comes
 * after. Since a node's frontier is older than the node, a graph's list of nodes is an order of
 * execution, and what a capture's end can reach is found in one backward pass.
 *
 * At its end every node must be reachable from the frontier of the origin: a forked stream with
 * nodes that were not joined is an error, a forked stream without is none.
 *
 * Trade-offs. Captures are looked up in a list; there are few at a time. Which context a capture
 * belongs to does not matter to unsafe calls: what the driver does with two contexts is not
 * established. */
#include "sim/capture.h"

#include <stdlib.h>
#include <string.h>

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

tn_cu_result tn_sim_capture_add(struct tn_sim_stream *stream, struct tn_sim_op *op)
{
    struct tn_sim_node *node = tn_sim_graph_add(stream->capture->graph, op, &stream->frontier);
    if (node == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    tn_sim_node_set_fini(&stream->frontier);
    if (!tn_sim_node_set_add(&stream->frontier, node)) {
        /* The node stands without a stream behind it; its capture cannot end well. */
        tn_sim_capture_invalidate(stream->capture);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    return TN_CUDA_SUCCESS;
}

/* Ends a capture for all its streams, and gives its graph over. */
static struct tn_sim_graph *dissolve(struct tn_sim_capture *capture)
{
    for (struct tn_sim_stream *stream = tn_sim_all_streams; stream != NULL; stream = stream->next) {
        if (stream->capture != capture)
            continue;
        stream->capture = NULL; /* without a capture no frontier (Q4) */
        tn_sim_node_set_fini(&stream->frontier);
    }
    struct tn_sim_capture **link = &captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    struct tn_sim_graph *graph = capture->graph;
    graph->capturing = false;
    tn_sim.ledger.captures--;
    free(capture);
    return graph;
}

void tn_sim_capture_leave(struct tn_sim_stream *stream)
{
    struct tn_sim_capture *capture = stream->capture;
    if (capture == NULL)
        return;
    if (capture->origin == stream) {
        tn_sim_graph_destroy(dissolve(capture));
        return;
    }
    stream->capture = NULL;
    tn_sim_node_set_fini(&stream->frontier);
}

tn_cu_result tn_sim_cuStreamBeginCapture(tn_cu_stream handle, tn_cu_capture_mode mode)
{
    struct tn_sim_stream *stream;
    if ((unsigned int)mode > TN_CU_CAPTURE_MODE_RELAXED)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_stream_find(handle, &stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (stream->legacy)
        return TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture != NULL) /* C1 */
        return TN_CUDA_ERROR_ILLEGAL_STATE;
    struct tn_sim_capture *capture = calloc(1, sizeof *capture);
    struct tn_sim_graph *graph = tn_sim_graph_create();
    if (capture == NULL || graph == NULL) {
        free(capture);
        if (graph != NULL)
            tn_sim_graph_destroy(graph);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    *capture = (struct tn_sim_capture){
        .id = ++last_id,
        .origin = stream,
        .owner = tn_sim_self()->serial,
        .mode = mode,
        .graph = graph,
        .next = captures,
    };
    captures = capture;
    graph->capturing = true; /* C2 */
    stream->capture = capture;
    tn_sim.ledger.captures++;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuStreamEndCapture(tn_cu_stream handle, tn_cu_graph *graph)
{
    struct tn_sim_stream *stream;
    if (graph == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
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
    else if (!tn_sim_graph_reaches_all(capture->graph, &stream->frontier))
        result = TN_CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    struct tn_sim_graph *captured = dissolve(capture);
    if (result == TN_CUDA_SUCCESS)
        *graph = (tn_cu_graph)captured->object.handle;
    else
        tn_sim_graph_destroy(captured);
    return result;
}

/* Finds a stream for a question about its capture, which is forbidden on the legacy stream while a
 * blocking stream captures, but harmless. */
static tn_cu_result find_to_ask(tn_cu_stream handle, struct tn_sim_stream **stream)
{
    tn_cu_result result = tn_sim_stream_find(handle, stream);
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
    memset(edges, 0, count * sizeof *edges);
    for (size_t i = 0; i < count; i++)
        nodes[i] = (tn_cu_graphnode)stream->frontier.items[i]->object.handle;
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
