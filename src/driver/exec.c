// SPDX-License-Identifier: Apache-2.0
/* Captures and graphs.
 *
 * Instantiating and destroying executables are calls that a capture elsewhere forbids, so the
 * thread's capture mode is relaxed around them. */
#include "driver/exec.h"

#include <stddef.h>

#include "base/error.h"

tarn_status tn_driver_capture_start(struct tn_gpu *gpu, tn_cu_stream stream,
                                    tn_cu_capture_mode mode)
{
    tn_cu_result result;
    bool pushed;
    tarn_status status = tn_stream_enter(gpu, stream, &pushed);

    if (status != TARN_OK)
        return status;
    result = gpu->driver->cuStreamBeginCapture(stream, mode);
    tn_gpu_leave(gpu, pushed);
    return tn_gpu_answered(gpu, result, "beginning a capture", "cuStreamBeginCapture");
}

tarn_status tn_driver_capture_start_body(struct tn_gpu *gpu, tn_cu_stream stream, tn_cu_graph graph,
                                         tn_cu_capture_mode mode)
{
    tn_cu_result result;
    bool pushed;
    tarn_status status = tn_stream_enter(gpu, stream, &pushed);

    if (status != TARN_OK)
        return status;
    result = gpu->driver->cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, mode);
    tn_gpu_leave(gpu, pushed);
    return tn_gpu_answered(gpu, result, "beginning a capture to a graph",
                           "cuStreamBeginCaptureToGraph");
}

void tn_driver_capture_stop(struct tn_gpu *gpu, tn_cu_stream stream, tn_cu_result *result,
                            tn_cu_graph *graph)
{
    bool pushed;
    /* Where the library cannot get the context, the driver gives the reason. */
    tarn_status entered = tn_stream_enter(gpu, stream, &pushed);

    (void)entered;
    *graph = NULL;
    *result = gpu->driver->cuStreamEndCapture(stream, graph);
    tn_gpu_leave(gpu, pushed);
}

static void cancel(struct tn_gpu *gpu, tn_cu_stream stream, bool keep)
{
    tn_cu_result result;
    tn_cu_graph graph;

    tn_driver_capture_stop(gpu, stream, &result, &graph);
    if (result == TN_CUDA_SUCCESS) {
        if (!keep)
            tn_driver_graph_drop(gpu, graph);
        return;
    }
    /* These results say that the capture is over, or was broken and is over now. */
    if (result != TN_CUDA_ERROR_ILLEGAL_STATE &&
        (result < TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ||
         result > TN_CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD))
        tn_gpu_teardown(gpu, result, "cuStreamEndCapture");
}

void tn_driver_capture_cancel(struct tn_gpu *gpu, tn_cu_stream stream)
{
    cancel(gpu, stream, false);
}

void tn_driver_capture_cancel_body(struct tn_gpu *gpu, tn_cu_stream stream)
{
    cancel(gpu, stream, true);
}

tarn_status tn_driver_capture_event(struct tn_gpu *gpu, tn_cu_stream stream, tn_cu_event *event)
{
    tn_cu_event made = NULL;
    tn_cu_result result;
    const char *call = "cuEventCreate";
    bool pushed;
    tarn_status status = tn_stream_enter_own(gpu, stream, &pushed);

    if (status != TARN_OK)
        return status;
    result = gpu->driver->cuEventCreate(&made, TN_CU_EVENT_DEFAULT); /* times can be asked for */
    if (result == TN_CUDA_SUCCESS) {
        call = "cuEventRecord";
        result = gpu->driver->cuEventRecord(made, stream);
        if (result != TN_CUDA_SUCCESS)
            tn_event_destroy(gpu, made);
    }
    tn_gpu_leave(gpu, pushed);
    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, "recording an event of a capture", call);
    *event = made;
    return TARN_OK;
}

/* The only question about a capture's event that does the capture no harm. Once the capture is
 * over, the event gets another answer. */
bool tn_driver_capture_goes_on(struct tn_gpu *gpu, tn_cu_event event)
{
    float none;

    return gpu->driver->cuEventElapsedTime(&none, event, event) == TN_CUDA_ERROR_CAPTURED_EVENT;
}

tarn_status tn_driver_graph_attach(struct tn_gpu *gpu, tn_cu_graph graph, tn_cu_hostfn destroy,
                                   void *user, tn_cu_userobject *object, bool *will_run)
{
    const struct tn_driver *driver = gpu->driver;
    tn_cu_result result =
        driver->cuUserObjectCreate(object, user, destroy, 1, TN_CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);

    *will_run = result == TN_CUDA_SUCCESS;
    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, "giving a graph its hold", "cuUserObjectCreate");
    result = driver->cuGraphRetainUserObject(graph, *object, 1, TN_CU_GRAPH_USER_OBJECT_MOVE);
    if (result == TN_CUDA_SUCCESS)
        return TARN_OK;
    tn_gpu_teardown(gpu, driver->cuUserObjectRelease(*object, 1), "cuUserObjectRelease");
    return tn_gpu_failed(gpu, result, "giving a graph its hold", "cuGraphRetainUserObject");
}

void tn_driver_graph_detach(struct tn_gpu *gpu, tn_cu_graph graph, tn_cu_userobject object)
{
    tn_gpu_teardown(gpu, gpu->driver->cuGraphReleaseUserObject(graph, object, 1),
                    "cuGraphReleaseUserObject");
}

tarn_status tn_driver_graph_count(struct tn_gpu *gpu, tn_cu_graph graph, size_t *count)
{
    tn_cu_result result;

    *count = 0;
    result = gpu->driver->cuGraphGetNodes(graph, NULL, count);
    return tn_gpu_answered(gpu, result, "counting the nodes of a graph", "cuGraphGetNodes");
}

tarn_status tn_driver_graph_instantiate(struct tn_gpu *gpu, tn_cu_graph graph,
                                        tn_cu_graphexec *exec)
{
    tn_cu_result result;
    struct tn_gpu_visit visit;
    tarn_status status = tn_gpu_enter_relaxed(gpu, "instantiating a graph", &visit);

    if (status != TARN_OK)
        return status;
    result = gpu->driver->cuGraphInstantiateWithFlags(exec, graph, 0);
    tn_gpu_leave_relaxed(gpu, visit);
    return tn_gpu_answered(gpu, result, "instantiating a graph", "cuGraphInstantiateWithFlags");
}

/* The meaning of the driver's reason for refusing an update. */
static const char *update_reason(tn_cu_update_result reason)
{
    switch (reason) {
    case TN_CU_GRAPH_UPDATE_TOPOLOGY_CHANGED:
        return "it has other nodes or dependencies";
    case TN_CU_GRAPH_UPDATE_NODE_TYPE_CHANGED:
        return "a node is of another type";
    case TN_CU_GRAPH_UPDATE_FUNCTION_CHANGED:
    case TN_CU_GRAPH_UPDATE_UNSUPPORTED_FUNCTION:
        return "a kernel cannot take the other one's place";
    case TN_CU_GRAPH_UPDATE_PARAMETERS_CHANGED:
        return "a node's parameters differ in a way that cannot be changed";
    case TN_CU_GRAPH_UPDATE_ATTRIBUTES_CHANGED:
        return "a node's attributes differ";
    case TN_CU_GRAPH_UPDATE_NOT_SUPPORTED:
        return "a node cannot be updated";
    default:
        return "the driver does not say why";
    }
}

tarn_status tn_driver_exec_update(struct tn_gpu *gpu, tn_cu_graphexec exec, tn_cu_graph graph)
{
    tn_cu_update_result_info info = {.result = TN_CU_GRAPH_UPDATE_ERROR};
    tn_cu_result result;
    struct tn_gpu_visit visit;
    tarn_status status = tn_gpu_enter_relaxed(gpu, "updating a graph", &visit);

    if (status != TARN_OK)
        return status;
    result = gpu->driver->cuGraphExecUpdate(exec, graph, &info);
    tn_gpu_leave_relaxed(gpu, visit);
    if (result == TN_CUDA_SUCCESS)
        return TARN_OK;
    if (result == TN_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)
        return tn_fail(TARN_ERR_CANNOT_UPDATE,
                       "the executable graph cannot be updated from the captured one: %s "
                       "(CUgraphExecUpdateResult %d)",
                       update_reason(info.result), (int)info.result);
    return tn_gpu_failed(gpu, result, "updating a graph", "cuGraphExecUpdate");
}

tarn_status tn_driver_exec_refuse(struct tn_gpu *gpu, tn_cu_result result)
{
    if (result == TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        return tn_fail(TARN_ERR_WRONG_STATE,
                       "replaying a graph: the stream is being captured, and the launch has "
                       "invalidated that capture; nest graphs as child nodes instead");
    return tn_gpu_failed(gpu, result, "replaying a graph", "cuGraphLaunch");
}

tarn_status tn_driver_exec_launch_default(struct tn_gpu *gpu, tn_cu_graphexec exec,
                                          tn_cu_stream stream)
{
    tn_cu_result result;
    bool pushed;
    tarn_status status = tn_stream_enter(gpu, stream, &pushed);

    if (status != TARN_OK)
        return status;
    result = gpu->driver->cuGraphLaunch(exec, stream);
    tn_gpu_leave(gpu, pushed);
    return result == TN_CUDA_SUCCESS ? TARN_OK : tn_driver_exec_refuse(gpu, result);
}

tarn_status tn_driver_graph_memory_reserved(struct tn_gpu *gpu, uint64_t *bytes)
{
    tn_cu_result result = gpu->driver->cuDeviceGetGraphMemAttribute(
        gpu->device, TN_CU_GRAPH_MEM_RESERVED_CURRENT, bytes);

    return tn_gpu_answered(gpu, result, "asking for the memory of allocation nodes",
                           "cuDeviceGetGraphMemAttribute");
}

void tn_driver_exec_destroy(struct tn_gpu *gpu, tn_cu_graphexec exec)
{
    int before = tn_gpu_relax(gpu); /* if not, better a broken capture than a leak for good */

    tn_gpu_teardown(gpu, gpu->driver->cuGraphExecDestroy(exec), "cuGraphExecDestroy");
    tn_gpu_unrelax(gpu, before);
}

void tn_driver_graph_drop(struct tn_gpu *gpu, tn_cu_graph graph)
{
    tn_gpu_teardown(gpu, gpu->driver->cuGraphDestroy(graph), "cuGraphDestroy");
}
