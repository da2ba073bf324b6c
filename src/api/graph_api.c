// SPDX-License-Identifier: Apache-2.0
#include "api/call.h"
#include "graphs/guard.h"
#include "graphs/replay.h"
#include "graphs/update.h"
#include "pools/janitor.h"
#include "tarn/graph.h"

/* A pool whose handle was given up may go when a claim on it ends. */
static void end_claim(tarn_device *device)
{
    tn_device_reap(device);
    tn_device_end_released(device);
}

tarn_status tarn_capture_begin(tarn_pool *pool, tarn_stream stream, tarn_capture_mode mode,
                               tarn_capture **capture)
{
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_pool(&call, pool))
        return call.status;
    if (capture == NULL)
        return tn_bad_argument("capture is NULL: there is nowhere to put the handle");
    if ((unsigned)mode > TARN_CAPTURE_RELAXED)
        return tn_bad_argument("the capture mode is not one of tarn_capture_mode");
    status = tn_enter_device(pool->device);
    if (status == TARN_OK)
        status = tn_capture_begin(pool, stream, mode, capture);
    return tn_leave(status);
}

tarn_status tarn_capture_end(tarn_capture *capture, tarn_graph **graph)
{
    tarn_device *device;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_capture(&call, capture))
        return call.status;
    if (graph == NULL)
        return tn_bad_argument("graph is NULL: there is nowhere to put the handle");
    device = capture->device;
    /* Where the device is closed the capture is gone, and end says so. */
    status = tn_is_device(device) ? tn_enter_device(device) : TARN_OK;
    if (status == TARN_OK)
        status = tn_capture_end(capture, graph);
    if (status != TARN_OK && tn_is_device(device))
        tn_device_end_released(device); /* a capture that proved to be gone */
    return tn_leave(status);
}

tarn_status tarn_capture_begin_to_graph(tarn_pool *pool, tarn_capture *outer, uint64_t group,
                                        tarn_driver_graph driver_graph, tarn_stream stream,
                                        tarn_capture_mode mode, tarn_capture **capture)
{
    const struct tn_capture_target target = {driver_graph, outer, group};
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_pool(&call, pool))
        return call.status;
    if (outer != NULL && !tn_is_capture(outer))
        return tn_bad_handle("outer capture");
    if (driver_graph == NULL || capture == NULL)
        return tn_bad_argument("driver_graph or capture is NULL");
    if ((unsigned)mode > TARN_CAPTURE_RELAXED)
        return tn_bad_argument("the capture mode is not one of tarn_capture_mode");
    status = tn_enter_device(pool->device);
    if (status == TARN_OK)
        status = tn_capture_begin_in(pool, stream, mode, &target, capture);
    return tn_leave(status);
}

tarn_status tarn_capture_end_to_graph(tarn_capture *capture)
{
    tarn_device *device;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_capture(&call, capture))
        return call.status;
    device = capture->device;
    status = tn_enter_device(device);
    if (status == TARN_OK)
        status = tn_capture_end_in(capture);
    if (status == TARN_OK)
        end_claim(device);
    return tn_leave(status);
}

tarn_status tarn_capture_abort(tarn_capture *capture)
{
    tarn_device *device;
    TN_CALL(call);

    if (capture == NULL)
        return tn_call_nothing();
    if (!tn_call_capture(&call, capture))
        return call.status;
    device = capture->device;
    if (tn_is_device(device)) /* else the capture is gone: it kept nothing */
        tn_device_drop_gone(device);
    tn_capture_abort(capture);
    if (tn_is_device(device))
        end_claim(device);
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
    status = tn_enter_device(pool->device);
    if (status == TARN_OK)
        status = tn_graph_adopt(pool, driver_graph, graph);
    return tn_leave(status);
}

/* What is not a graph that may be replayed. */
static TN_RARE tarn_status not_replayed(tarn_graph *graph)
{
    TN_CALL(call);

    return tn_call_graph(&call, graph) ? tn_guard_refuse(graph) : call.status;
}

TN_HOT tarn_status tarn_graph_replay(tarn_graph *graph, tarn_stream stream)
{
    if (TN_UNLIKELY(!tn_is_fresh_graph(graph)))
        return not_replayed(graph);
    return tn_leave(tn_graph_replay(graph, stream));
}

tarn_status tarn_graph_update(tarn_graph *graph, tarn_capture *capture)
{
    tarn_device *device;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_graph(&call, graph))
        return call.status;
    if (!tn_is_capture(capture))
        return tn_bad_handle("capture");
    device = graph->pool->device;
    status = tn_enter_device(device);
    if (status == TARN_OK)
        status = tn_graph_update(graph, capture);
    if (status == TARN_OK)
        end_claim(device);
    return tn_leave(status);
}

tarn_status tarn_graph_destroy(tarn_graph *graph)
{
    tarn_device *device;
    TN_CALL(call);

    if (graph == NULL)
        return tn_call_nothing();
    if (!tn_call_graph(&call, graph))
        return call.status;
    device = graph->pool->device;
    tn_graph_destroy(graph);
    end_claim(device);
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
