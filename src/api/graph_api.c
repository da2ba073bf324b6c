// SPDX-License-Identifier: Apache-2.0
#include "api/call.h"
#include "api/structs.h"
#include "graphs/guard.h"
#include "graphs/replay.h"
#include "graphs/update.h"
#include "pools/janitor.h"
#include "tarn/graph.h"

/* Reads and checks the caller's options, NULL or of any version. */
static tarn_status read_options(const tarn_capture_options *given, tarn_capture_options *options)
{
    tarn_status status = tn_sized_read(TN_CAPTURE_OPTIONS, given, options);

    if (status != TARN_OK)
        return status;
    if ((unsigned)options->mode > TARN_CAPTURE_RELAXED)
        return tn_bad_argument("the capture mode is not one of tarn_capture_mode");
    if (options->outer != NULL && options->driver_graph == NULL)
        return tn_bad_argument("an outer capture, and no driver_graph: a body is captured into the "
                               "graph of a conditional node");
    if (options->group != 0 && options->outer == NULL)
        return tn_bad_argument("a group, and no outer capture: groups are of a capture's bodies");
    if (options->outer != NULL && !tn_is_capture(options->outer))
        return tn_bad_handle("outer capture");
    return TARN_OK;
}

tarn_status tarn_capture_begin(tarn_pool *pool, tarn_stream stream,
                               const tarn_capture_options *options, tarn_capture **capture)
{
    tarn_capture_options chosen;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_pool(&call, pool))
        return call.status;
    if (capture == NULL)
        return tn_bad_argument("capture is NULL: there is nowhere to put the handle");
    status = read_options(options, &chosen);
    if (status == TARN_OK)
        status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_capture_begin(pool, stream, &chosen, capture);
    return tn_leave(status);
}

tarn_status tarn_capture_end(tarn_capture *capture, tarn_graph **graph)
{
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_capture(&call, capture))
        return call.status;
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_capture_end(capture, graph);
    if (status == TARN_OK && graph == NULL)
        tn_call_end_claim(&call);
    if (status != TARN_OK && call.device != NULL)
        tn_device_end_released(call.device); /* the capture proved to be gone */
    return tn_leave(status);
}

tarn_status tarn_capture_abort(tarn_capture *capture)
{
    TN_CALL(call);

    if (capture == NULL)
        return tn_call_nothing();
    if (!tn_call_capture(&call, capture))
        return call.status;
    if (call.device != NULL) /* NULL: the capture is gone, and kept nothing */
        tn_device_drop_gone(call.device);
    tn_capture_abort(capture);
    tn_call_end_claim(&call);
    return tn_leave(TARN_OK);
}

tarn_status tarn_graph_adopt(tarn_pool *pool, tarn_driver_graph driver_graph, tarn_graph **graph)
{
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_pool(&call, pool))
        return call.status;
    if (driver_graph == NULL || graph == NULL)
        return tn_bad_argument("driver_graph or graph is NULL");
    if (pool->in_host)
        return tn_fail(TARN_ERR_WRONG_STATE,
                       "pool '%s' has memory of the host, which holds nothing for graphs: name a "
                       "pool of the device",
                       pool->name);
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_graph_adopt(pool, driver_graph, graph);
    return tn_leave(status);
}

/* Replays a graph whose replays are recorded. Refuses a handle which is no fresh graph's. */
static TN_RARE tarn_status replay_rarely(tarn_graph *graph, tarn_stream stream)
{
    TN_CALL(call);

    if (graph != NULL && atomic_load(&graph->magic) == TN_GRAPH_RECORDED)
        return tn_graph_replay_recorded(graph, stream);
    return tn_call_graph(&call, graph) ? tn_guard_refuse(graph) : call.status;
}

TN_HOT tarn_status tarn_graph_replay(tarn_graph *graph, tarn_stream stream)
{
    if (TN_UNLIKELY(!tn_is_fresh_graph(graph)))
        return tn_leave(replay_rarely(graph, stream));
    return tn_leave(tn_graph_replay(graph, stream));
}

tarn_status tarn_graph_update(tarn_graph *graph, tarn_capture *capture)
{
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_graph(&call, graph))
        return call.status;
    if (!tn_is_capture(capture))
        return tn_bad_handle("capture");
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_graph_update(graph, capture);
    if (status == TARN_OK)
        tn_call_end_claim(&call);
    return tn_leave(status);
}

tarn_status tarn_graph_destroy(tarn_graph *graph)
{
    TN_CALL(call);

    if (graph == NULL)
        return tn_call_nothing();
    if (!tn_call_graph(&call, graph))
        return call.status;
    tn_graph_destroy(graph);
    tn_call_end_claim(&call);
    return tn_leave(TARN_OK);
}

tarn_status tarn_graph_driver_handles(tarn_graph *graph, tarn_driver_graph *driver_graph,
                                      tarn_driver_exec *driver_exec)
{
    TN_CALL(call);

    if (!tn_call_graph(&call, graph))
        return call.status;
    if (driver_graph == NULL && driver_exec == NULL)
        return tn_bad_argument("both outputs are NULL");
    if (driver_graph != NULL)
        *driver_graph = graph->driver_graph;
    if (driver_exec != NULL)
        *driver_exec = graph->exec;
    return TARN_OK;
}
