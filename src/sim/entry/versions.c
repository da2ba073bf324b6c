// SPDX-License-Identifier: Apache-2.0
/* versions.c -- functions in their older and newer versions.
 *
 * How it works. Each function puts its parameters into the form of the version that abi/functions.h
 * lists, and calls the body of this version. A rule is thus written once.
 *
 * Trade-offs. No context gets a share of the multiprocessors, or another interface's queues
 * (cuCtxCreate_v3, _v4): both are refused, as on an H200 without a server for several processes. */
#include "sim/entry/versions.h"

#include <string.h>

#include "sim/core/context.h"

/* The first version had no status to give a reason, and leaves the caller's function pointer
 * unchanged. */
tn_cu_result tn_sim_version_cuGetProcAddress(const char *symbol, void **function, int version,
                                             uint64_t flags)
{
    tn_cu_proc_status status = TN_CU_PROC_FOUND;
    void *found;
    if (function == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_cuGetProcAddress(symbol, &found, version, flags, &status);
    if (result == TN_CUDA_SUCCESS && status != TN_CU_PROC_FOUND)
        return TN_CUDA_ERROR_NOT_FOUND;
    if (result == TN_CUDA_SUCCESS)
        *function = found;
    return result;
}

tn_cu_result tn_sim_version_cuStreamBeginCapture(tn_cu_stream stream)
{
    return tn_sim_cuStreamBeginCapture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
}

tn_cu_result tn_sim_version_cuStreamGetCaptureInfo(tn_cu_stream stream,
                                                   tn_cu_capture_status *status, uint64_t *id)
{
    return tn_sim_cuStreamGetCaptureInfo(stream, status, id, NULL, NULL, NULL, NULL);
}

tn_cu_result tn_sim_version_cuStreamGetCaptureInfo_v2(tn_cu_stream stream,
                                                      tn_cu_capture_status *status, uint64_t *id,
                                                      tn_cu_graph *graph,
                                                      const tn_cu_graphnode **dependencies,
                                                      size_t *dependency_count)
{
    return tn_sim_cuStreamGetCaptureInfo(stream, status, id, graph, dependencies, NULL,
                                         dependency_count);
}

tn_cu_result tn_sim_version_cuStreamUpdateCaptureDependencies(tn_cu_stream stream,
                                                              tn_cu_graphnode *dependencies,
                                                              size_t count, unsigned int flags)
{
    return tn_sim_cuStreamUpdateCaptureDependencies(stream, dependencies, NULL, count, flags);
}

tn_cu_result tn_sim_version_cuGraphGetEdges(tn_cu_graph graph, tn_cu_graphnode *from,
                                            tn_cu_graphnode *to, size_t *count)
{
    return tn_sim_cuGraphGetEdges(graph, from, to, NULL, count);
}

tn_cu_result tn_sim_version_cuGraphNodeGetDependencies(tn_cu_graphnode node,
                                                       tn_cu_graphnode *dependencies, size_t *count)
{
    return tn_sim_cuGraphNodeGetDependencies(node, dependencies, NULL, count);
}

tn_cu_result tn_sim_version_cuGraphNodeGetDependentNodes(tn_cu_graphnode node,
                                                         tn_cu_graphnode *dependents, size_t *count)
{
    return tn_sim_cuGraphNodeGetDependentNodes(node, dependents, NULL, count);
}

tn_cu_result tn_sim_version_cuGraphAddDependencies(tn_cu_graph graph, const tn_cu_graphnode *from,
                                                   const tn_cu_graphnode *to, size_t count)
{
    return tn_sim_cuGraphAddDependencies(graph, from, to, NULL, count);
}

/* The second version's further fields are empty: the kernel is a function, of the current
 * context. */
static tn_cu_kernel_node_params newer(const struct tn_sim_kernel_node_params_v1 *params)
{
    tn_cu_kernel_node_params made = {0};
    memcpy(&made, params, sizeof *params);
    return made;
}

tn_cu_result tn_sim_version_cuGraphAddKernelNode(tn_cu_graphnode *node, tn_cu_graph graph,
                                                 const tn_cu_graphnode *dependencies, size_t count,
                                                 const struct tn_sim_kernel_node_params_v1 *params)
{
    if (params == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_kernel_node_params made = newer(params);
    return tn_sim_cuGraphAddKernelNode(node, graph, dependencies, count, &made);
}

tn_cu_result tn_sim_version_cuGraphKernelNodeGetParams(tn_cu_graphnode node,
                                                       struct tn_sim_kernel_node_params_v1 *params)
{
    tn_cu_kernel_node_params found;
    if (params == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_cuGraphKernelNodeGetParams(node, &found);
    if (result == TN_CUDA_SUCCESS)
        memcpy(params, &found, sizeof *params);
    return result;
}

tn_cu_result
tn_sim_version_cuGraphKernelNodeSetParams(tn_cu_graphnode node,
                                          const struct tn_sim_kernel_node_params_v1 *params)
{
    if (params == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_kernel_node_params made = newer(params);
    return tn_sim_cuGraphKernelNodeSetParams(node, &made);
}

tn_cu_result
tn_sim_version_cuGraphExecKernelNodeSetParams(tn_cu_graphexec exec, tn_cu_graphnode node,
                                              const struct tn_sim_kernel_node_params_v1 *params)
{
    if (params == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_kernel_node_params made = newer(params);
    return tn_sim_cuGraphExecKernelNodeSetParams(exec, node, &made);
}

tn_cu_result tn_sim_version_cuGraphExecUpdate(tn_cu_graphexec exec, tn_cu_graph graph,
                                              tn_cu_graphnode *error_node,
                                              tn_cu_update_result *update)
{
    tn_cu_update_result_info info = {0};
    tn_cu_result result = tn_sim_cuGraphExecUpdate(exec, graph, &info);
    bool told = result == TN_CUDA_SUCCESS || info.result != TN_CU_GRAPH_UPDATE_SUCCESS;
    if (told && error_node != NULL)
        *error_node = info.node;
    if (told && update != NULL)
        *update = info.result;
    return result;
}

/* The device of a context; for NULL, of the current context. */
tn_cu_result tn_sim_version_cuCtxGetDevice_v2(tn_cu_device *device, tn_cu_context context)
{
    tn_cu_context popped;
    if (context == NULL)
        return tn_sim_cuCtxGetDevice(device);
    tn_cu_result result = tn_sim_cuCtxPushCurrent(context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    result = tn_sim_cuCtxGetDevice(device);
    tn_sim_cuCtxPopCurrent(&popped);
    return result;
}

/* As the driver lays them out. */
struct context_client {
    int type;     /* 1: a queue; 2: a blob */
    void *shared; /* the client's queue or blob */
};

struct context_params {
    const void *affinities;              /* looked at only when affinity_count is above 0 */
    int affinity_count;                  /* less than 1: none */
    const struct context_client *client; /* another interface, whose work shares the device */
};

#define CLIENT_QUEUE 1

/* Makes a context of parameters. Mistakes are found in the driver's order: affinities without an
 * array, a client, the device, affinities, flags. */
static tn_cu_result create_context(tn_cu_context *context, const struct context_params *params,
                                   unsigned int flags, tn_cu_device device)
{
    if (context == NULL || (params->affinity_count > 0 && params->affinities == NULL))
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (params->client != NULL)
        return params->client->type == CLIENT_QUEUE ? TN_CUDA_ERROR_NOT_SUPPORTED
                                                    : TN_CUDA_ERROR_INVALID_VALUE;
    if (params->affinity_count > 0)
        return tn_sim_device_exists(device) ? TN_CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY
                                            : TN_CUDA_ERROR_INVALID_DEVICE;
    return tn_sim_cuCtxCreate(context, flags, device);
}

tn_cu_result tn_sim_version_cuCtxCreate_v3(tn_cu_context *context, const void *affinities,
                                           int count, unsigned int flags, tn_cu_device device)
{
    const struct context_params params = {.affinities = affinities, .affinity_count = count};
    return create_context(context, &params, flags, device);
}

tn_cu_result tn_sim_version_cuCtxCreate_v4(tn_cu_context *context, const void *params,
                                           unsigned int flags, tn_cu_device device)
{
    static const struct context_params none = {0};
    return create_context(context, params == NULL ? &none : params, flags, device);
}

tn_cu_result tn_sim_version_cuEventElapsedTime_v2(float *milliseconds, tn_cu_event from,
                                                  tn_cu_event to)
{
    return tn_sim_cuEventElapsedTime(milliseconds, from, to);
}

tn_cu_result tn_sim_version_cuMemcpyBatchAsync_v2(tn_cu_deviceptr *destinations,
                                                  tn_cu_deviceptr *sources, size_t *sizes,
                                                  size_t count, tn_cu_memcpy_attributes *attributes,
                                                  size_t *attribute_starts, size_t attribute_count,
                                                  tn_cu_stream stream)
{
    size_t failed;
    return tn_sim_cuMemcpyBatchAsync(destinations, sources, sizes, count, attributes,
                                     attribute_starts, attribute_count, &failed, stream);
}

/* The same as in the version after them, which only has another symbol. */
tn_cu_result tn_sim_version_cuStreamDestroy(tn_cu_stream stream)
{
    return tn_sim_cuStreamDestroy(stream);
}

tn_cu_result tn_sim_version_cuEventDestroy(tn_cu_event event)
{
    return tn_sim_cuEventDestroy(event);
}

tn_cu_result tn_sim_version_cuCtxDestroy(tn_cu_context context)
{
    return tn_sim_cuCtxDestroy(context);
}

tn_cu_result tn_sim_version_cuCtxPushCurrent(tn_cu_context context)
{
    return tn_sim_cuCtxPushCurrent(context);
}

tn_cu_result tn_sim_version_cuCtxPopCurrent(tn_cu_context *context)
{
    return tn_sim_cuCtxPopCurrent(context);
}

tn_cu_result tn_sim_version_cuDevicePrimaryCtxRelease(tn_cu_device device)
{
    return tn_sim_cuDevicePrimaryCtxRelease(device);
}

tn_cu_result tn_sim_version_cuDevicePrimaryCtxReset(tn_cu_device device)
{
    return tn_sim_cuDevicePrimaryCtxReset(device);
}
