// SPDX-License-Identifier: Apache-2.0
/* exec.c -- instantiating and launching graphs.
 *
 * How it works. A launch is one piece of work of its stream, which does the operations one after
 * the other in an order that the edges allow. Copies and sets must name usable memory when the
 * graph is instantiated; after that addresses are resolved by each launch, kernels' always.
 *
 * Trade-offs. Branches do not run at the same time, so a graph whose branches wait for each other
 * without an edge never ends here; on a device it might. An instantiated graph takes no device
 * memory. */
#include "sim/exec.h"

#include <stdlib.h>

#include "sim/capture.h"
#include "sim/op.h"

#define KNOWN_FLAGS                                                                                \
    ((unsigned long long)(TN_CU_GRAPH_INSTANTIATE_AUTO_FREE_ON_LAUNCH |                            \
                          TN_CU_GRAPH_INSTANTIATE_USE_NODE_PRIORITY))

struct tn_sim_exec *tn_sim_exec_acquire(struct tn_sim_exec *exec)
{
    exec->references++;
    return exec;
}

void tn_sim_exec_release(struct tn_sim_exec *exec)
{
    if (--exec->references > 0)
        return;
    for (size_t i = 0; i < exec->op_count; i++)
        tn_sim_op_release(exec->ops[i]);
    free(exec->ops);
    tn_sim_holdings_fini(&exec->holdings);
    tn_sim_point_clear(&exec->last);
    free(exec);
}

void tn_sim_exec_run(const struct tn_sim_exec *exec)
{
    for (size_t i = 0; i < exec->op_count; i++) {
        if (!tn_sim_op_run(exec->ops[i]))
            return;
    }
}

/* Makes a copy of what a graph is now, without a handle; NULL when memory ran out. */
static struct tn_sim_exec *snapshot(const struct tn_sim_graph *graph)
{
    struct tn_sim_exec *exec = calloc(1, sizeof *exec);
    if (exec == NULL)
        return NULL;
    exec->references = 1;
    size_t count = graph->nodes.count;
    exec->ops = calloc(count == 0 ? 1 : count, sizeof(struct tn_sim_op *));
    if (exec->ops == NULL || !tn_sim_holdings_copy(&exec->holdings, &graph->holdings)) {
        tn_sim_exec_release(exec);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        exec->ops[exec->op_count++] = tn_sim_op_acquire(graph->nodes.items[i]->op);
    return exec;
}

tn_cu_result tn_sim_cuGraphInstantiateWithFlags(tn_cu_graphexec *handle, tn_cu_graph graph_handle,
                                                unsigned long long flags)
{
    struct tn_sim_graph *graph;
    struct tn_sim_context *context;
    if (handle == NULL || (flags & ~KNOWN_FLAGS) != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_graph_find(graph_handle, &graph);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_context_current(&context);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS)
        return result;
    for (size_t i = 0; i < graph->nodes.count; i++) {
        if (!tn_sim_op_valid(graph->nodes.items[i]->op))
            return TN_CUDA_ERROR_INVALID_VALUE;
    }
    struct tn_sim_exec *exec = snapshot(graph);
    if (exec == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    if (!tn_sim_register(&exec->object, TN_SIM_KIND_EXEC, context)) {
        tn_sim_exec_release(exec);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    tn_sim.ledger.graph_execs++;
    *handle = (tn_cu_graphexec)exec->object.handle;
    return TN_CUDA_SUCCESS;
}

static tn_cu_result find(tn_cu_graphexec handle, struct tn_sim_exec **exec)
{
    if (handle == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    *exec = tn_sim_find(TN_SIM_KIND_EXEC, (uintptr_t)handle);
    return *exec == NULL ? TN_CUDA_ERROR_INVALID_HANDLE : TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuGraphExecDestroy(tn_cu_graphexec handle)
{
    struct tn_sim_exec *exec;
    tn_cu_result result = find(handle, &exec);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS)
        return result;
    tn_cu_result fault = exec->object.context->fault;
    tn_sim_unregister(&exec->object);
    tn_sim.ledger.graph_execs--;
    tn_sim_exec_release(exec);
    return fault;
}

tn_cu_result tn_sim_cuGraphLaunch(tn_cu_graphexec handle, tn_cu_stream stream_handle)
{
    struct tn_sim_exec *exec;
    struct tn_sim_stream *stream;
    tn_cu_result result = find(handle, &exec);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_stream_find(stream_handle, &stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (stream->capture != NULL) {
        tn_sim_capture_invalidate(stream->capture);
        return TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (stream->legacy && tn_sim_capture_legacy(stream->object.context, true))
        return TN_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return tn_sim_queue_push(stream, NULL, exec, NULL);
}

tn_cu_result tn_sim_cuGraphUpload(tn_cu_graphexec handle, tn_cu_stream stream_handle)
{
    struct tn_sim_exec *exec;
    struct tn_sim_stream *stream;
    tn_cu_result result = find(handle, &exec);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_stream_find(stream_handle, &stream);
    return result;
}
