// SPDX-License-Identifier: Apache-2.0
/* A packed buffer comes as the driver keeps it: pairs of a tag and a pointer, ended by a tag of 0.
 * Their order is not the caller's. */
#include "nodes/node.h"

#include "base/error.h"
#include "base/host.h"

static const char *const type_names[] = {
    [TN_CU_NODE_KERNEL] = "kernel",
    [TN_CU_NODE_MEMCPY] = "copy",
    [TN_CU_NODE_MEMSET] = "set",
    [TN_CU_NODE_HOST] = "host function",
    [TN_CU_NODE_GRAPH] = "child graph",
    [TN_CU_NODE_EMPTY] = "empty",
    [TN_CU_NODE_WAIT_EVENT] = "event wait",
    [TN_CU_NODE_EVENT_RECORD] = "event record",
    [TN_CU_NODE_EXT_SEMAS_SIGNAL] = "semaphore signal",
    [TN_CU_NODE_EXT_SEMAS_WAIT] = "semaphore wait",
    [TN_CU_NODE_MEM_ALLOC] = "allocation",
    [TN_CU_NODE_MEM_FREE] = "free",
    [TN_CU_NODE_BATCH_MEM_OP] = "batch",
    [TN_CU_NODE_CONDITIONAL] = "conditional",
};

static const char reading[] = "reading a node of a graph";

tarn_status tn_driver_graph_read_nodes(struct tn_gpu *gpu, tn_cu_graph graph,
                                       tn_cu_graphnode **nodes, size_t *count)
{
    tn_cu_result result = gpu->driver->cuGraphGetNodes(graph, NULL, count);
    tn_cu_graphnode *found = NULL;

    if (result == TN_CUDA_SUCCESS && *count > 0) {
        found = tn_host_alloc(*count, sizeof(tn_cu_graphnode));
        if (found == NULL)
            return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for the %zu nodes of a graph",
                           *count);
        result = gpu->driver->cuGraphGetNodes(graph, found, count);
    }
    if (result != TN_CUDA_SUCCESS) {
        tn_host_free(found);
        return tn_gpu_failed(gpu, result, "reading the nodes of a graph", "cuGraphGetNodes");
    }
    *nodes = found;
    return TARN_OK;
}

static void unpack(void *const *extra, struct tn_node_kernel *kernel)
{
    for (size_t i = 0; extra[i] != TN_CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == TN_CU_LAUNCH_PARAM_BUFFER_POINTER)
            kernel->buffer = extra[i + 1];
        else if (extra[i] == TN_CU_LAUNCH_PARAM_BUFFER_SIZE)
            kernel->buffer_bytes = *(const size_t *)extra[i + 1];
    }
}

static tarn_status read_kernel(struct tn_gpu *gpu, tn_cu_graphnode handle, struct tn_node *node)
{
    tn_cu_kernel_node_params params;
    tn_cu_result result = gpu->driver->cuGraphKernelNodeGetParams(handle, &params);

    if (result != TN_CUDA_SUCCESS)
        return tn_gpu_failed(gpu, result, reading, "cuGraphKernelNodeGetParams");
    node->kernel =
        (struct tn_node_kernel){.function = params.func,
                                .values = params.kernel_params,
                                .context = params.ctx,
                                .shape = {{params.grid_x, params.grid_y, params.grid_z},
                                          {params.block_x, params.block_y, params.block_z},
                                          params.shared_bytes}};
    if (params.kernel_params == NULL && params.extra != NULL)
        unpack(params.extra, &node->kernel);
    return TARN_OK;
}

tarn_status tn_node_type(struct tn_gpu *gpu, tn_cu_graphnode handle, tn_cu_graphnode_type *type)
{
    return tn_gpu_answered(gpu, gpu->driver->cuGraphNodeGetType(handle, type), reading,
                           "cuGraphNodeGetType");
}

tarn_status tn_node_read(struct tn_gpu *gpu, tn_cu_graphnode handle, tn_cu_graphnode_type type,
                         struct tn_node *node)
{
    const struct tn_driver *driver = gpu->driver;
    tn_cu_result result;

    node->type = type;
    switch (type) {
    case TN_CU_NODE_KERNEL:
        return read_kernel(gpu, handle, node);
    case TN_CU_NODE_MEMCPY:
        result = driver->cuGraphMemcpyNodeGetParams(handle, &node->memcpy);
        return tn_gpu_answered(gpu, result, reading, "cuGraphMemcpyNodeGetParams");
    case TN_CU_NODE_MEMSET:
        result = driver->cuGraphMemsetNodeGetParams(handle, &node->memset);
        return tn_gpu_answered(gpu, result, reading, "cuGraphMemsetNodeGetParams");
    case TN_CU_NODE_HOST:
        result = driver->cuGraphHostNodeGetParams(handle, &node->host);
        return tn_gpu_answered(gpu, result, reading, "cuGraphHostNodeGetParams");
    case TN_CU_NODE_GRAPH:
        result = driver->cuGraphChildGraphNodeGetGraph(handle, &node->child);
        return tn_gpu_answered(gpu, result, reading, "cuGraphChildGraphNodeGetGraph");
    case TN_CU_NODE_WAIT_EVENT:
        result = driver->cuGraphEventWaitNodeGetEvent(handle, &node->event);
        return tn_gpu_answered(gpu, result, reading, "cuGraphEventWaitNodeGetEvent");
    case TN_CU_NODE_EVENT_RECORD:
        result = driver->cuGraphEventRecordNodeGetEvent(handle, &node->event);
        return tn_gpu_answered(gpu, result, reading, "cuGraphEventRecordNodeGetEvent");
    case TN_CU_NODE_MEM_ALLOC:
        result = driver->cuGraphMemAllocNodeGetParams(handle, &node->alloc);
        return tn_gpu_answered(gpu, result, reading, "cuGraphMemAllocNodeGetParams");
    case TN_CU_NODE_MEM_FREE:
        result = driver->cuGraphMemFreeNodeGetParams(handle, &node->freed);
        return tn_gpu_answered(gpu, result, reading, "cuGraphMemFreeNodeGetParams");
    case TN_CU_NODE_BATCH_MEM_OP:
        result = driver->cuGraphBatchMemOpNodeGetParams(handle, &node->batch);
        return tn_gpu_answered(gpu, result, reading, "cuGraphBatchMemOpNodeGetParams");
    default: /* empty, external semaphores, conditional: of these the driver gives nothing that points to memory */
        return TARN_OK;
    }
}

const char *tn_node_type_name(int type)
{
    bool is_known = (unsigned)type < sizeof type_names / sizeof type_names[0];

    return is_known && type_names[type] != NULL ? type_names[type] : "unknown";
}
