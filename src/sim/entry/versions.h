// SPDX-License-Identifier: Apache-2.0
/* versions.h -- functions in other versions than abi/functions.h lists.
 *
 * A name with a new signature keeps its old signature for programs that ask for the old version, or
 * were linked with the old symbol. The rows are as in abi/functions.h; the body of each is
 * tn_sim_version_<symbol>.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_VERSIONS_H
#define TARN_SIM_VERSIONS_H

#include "sim/core/core.h"

/* CUDA_KERNEL_NODE_PARAMS_v1: the first fields of tn_cu_kernel_node_params. */
struct tn_sim_kernel_node_params_v1 {
    tn_cu_function func;
    unsigned int grid_x, grid_y, grid_z;
    unsigned int block_x, block_y, block_z;
    unsigned int shared_bytes;
    void **kernel_params;
    void **extra;
};

// clang-format off
#define TN_SIM_OTHER_VERSIONS(X)                                                                   \
    X(cuGetProcAddress, cuGetProcAddress, 11030, (const char *symbol, void **function, int         \
      version, uint64_t flags), (symbol, function, version, flags))                                \
    X(cuStreamBeginCapture, cuStreamBeginCapture, 10000, (tn_cu_stream stream), (stream))          \
    X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo, 10010, (tn_cu_stream stream,                 \
      tn_cu_capture_status *status, uint64_t *id), (stream, status, id))                           \
    X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v2, 11030, (tn_cu_stream stream,              \
      tn_cu_capture_status *status, uint64_t *id, tn_cu_graph *graph, const tn_cu_graphnode        \
      **dependencies, size_t *dependency_count), (stream, status, id, graph, dependencies,         \
      dependency_count))                                                                           \
    X(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies, 11030, (tn_cu_stream   \
      stream, tn_cu_graphnode *dependencies, size_t count, unsigned int flags), (stream,           \
      dependencies, count, flags))                                                                 \
    X(cuGraphGetEdges, cuGraphGetEdges, 10000, (tn_cu_graph graph, tn_cu_graphnode *from,          \
      tn_cu_graphnode *to, size_t *count), (graph, from, to, count))                               \
    X(cuGraphNodeGetDependencies, cuGraphNodeGetDependencies, 10000, (tn_cu_graphnode node,        \
      tn_cu_graphnode *dependencies, size_t *count), (node, dependencies, count))                  \
    X(cuGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes, 10000, (tn_cu_graphnode node,    \
      tn_cu_graphnode *dependents, size_t *count), (node, dependents, count))                      \
    X(cuGraphAddDependencies, cuGraphAddDependencies, 10000, (tn_cu_graph graph, const             \
      tn_cu_graphnode *from, const tn_cu_graphnode *to, size_t count), (graph, from, to, count))   \
    X(cuGraphAddKernelNode, cuGraphAddKernelNode, 10000, (tn_cu_graphnode *node, tn_cu_graph       \
      graph, const tn_cu_graphnode *dependencies, size_t count, const struct                       \
      tn_sim_kernel_node_params_v1 *params), (node, graph, dependencies, count, params))           \
    X(cuGraphKernelNodeGetParams, cuGraphKernelNodeGetParams, 10000, (tn_cu_graphnode node,        \
      struct tn_sim_kernel_node_params_v1 *params), (node, params))                                \
    X(cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams, 10000, (tn_cu_graphnode node, const  \
      struct tn_sim_kernel_node_params_v1 *params), (node, params))                                \
    X(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams, 10010, (tn_cu_graphexec      \
      exec, tn_cu_graphnode node, const struct tn_sim_kernel_node_params_v1 *params), (exec, node, \
      params))                                                                                     \
    X(cuGraphExecUpdate, cuGraphExecUpdate, 10020, (tn_cu_graphexec exec, tn_cu_graph graph,       \
      tn_cu_graphnode *error_node, tn_cu_update_result *update), (exec, graph, error_node,         \
      update))                                                                                     \
    X(cuCtxGetDevice, cuCtxGetDevice_v2, 13000, (tn_cu_device *device, tn_cu_context context),     \
      (device, context))                                                                           \
    X(cuCtxCreate, cuCtxCreate_v3, 11040, (tn_cu_context *context, const void *affinities, int     \
      count, unsigned int flags, tn_cu_device device), (context, affinities, count, flags,         \
      device))                                                                                     \
    X(cuCtxCreate, cuCtxCreate_v4, 12050, (tn_cu_context *context, const void *params, unsigned    \
      int flags, tn_cu_device device), (context, params, flags, device))                           \
    X(cuStreamDestroy, cuStreamDestroy, 2000, (tn_cu_stream stream), (stream))                     \
    X(cuEventDestroy, cuEventDestroy, 2000, (tn_cu_event event), (event))                          \
    X(cuCtxDestroy, cuCtxDestroy, 2000, (tn_cu_context context), (context))                        \
    X(cuCtxPushCurrent, cuCtxPushCurrent, 2000, (tn_cu_context context), (context))                \
    X(cuCtxPopCurrent, cuCtxPopCurrent, 2000, (tn_cu_context *context), (context))                 \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000, (tn_cu_device device), (device)) \
    X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000, (tn_cu_device device), (device))     \
    X(cuMemcpyBatchAsync, cuMemcpyBatchAsync_v2, 13000, (tn_cu_deviceptr *destinations,            \
      tn_cu_deviceptr *sources, size_t *sizes, size_t count, tn_cu_memcpy_attributes *attributes,  \
      size_t *attribute_starts, size_t attribute_count, tn_cu_stream stream), (destinations,       \
      sources, sizes, count, attributes, attribute_starts, attribute_count, stream))               \
    X(cuEventElapsedTime, cuEventElapsedTime_v2, 12080, (float *milliseconds, tn_cu_event from,    \
      tn_cu_event to), (milliseconds, from, to))
// clang-format on

#define TN_SIM_VERSION_BODY(name, symbol, version, parameters, names)                              \
    tn_cu_result tn_sim_version_##symbol parameters;
TN_SIM_OTHER_VERSIONS(TN_SIM_VERSION_BODY)
#undef TN_SIM_VERSION_BODY

#endif
