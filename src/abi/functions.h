// SPDX-License-Identifier: Apache-2.0
/* functions.h -- the one list of the driver's functions that Tarn knows.
 *
 * Each row is X(name, symbol, version, (parameters), (parameter names)):
 *   name     the base name, as asked of cuGetProcAddress;
 *   symbol   the name that libcuda exports for this very signature, and libtarn_sim with it;
 *   version  the number that pins the signature (1000 * major + 10 * minor of its introduction).
 * From it are made: the library's table of functions (driver/driver.c), the simulator's exports and
 * its cuGetProcAddress, the call recorder and the samples' loader. */
#ifndef TARN_ABI_FUNCTIONS_H
#define TARN_ABI_FUNCTIONS_H

#include "abi/cuda.h"

/* What the library itself calls: all of them must be there, or the driver is too old. */
// clang-format off
#define TN_CUDA_LIBRARY_FUNCTIONS(X) \
    X(cuInit, cuInit, 2000, (unsigned int flags), (flags))                                         \
    X(cuDriverGetVersion, cuDriverGetVersion, 2020, (int *version), (version))                     \
    X(cuGetErrorName, cuGetErrorName, 6000, (tn_cu_result error, const char **name), (error,       \
      name))                                                                                       \
    X(cuDeviceGet, cuDeviceGet, 2000, (tn_cu_device *device, int ordinal), (device, ordinal))      \
    X(cuDeviceGetCount, cuDeviceGetCount, 2000, (int *count), (count))                             \
    X(cuDeviceGetName, cuDeviceGetName, 2000, (char *name, int length, tn_cu_device device),       \
      (name, length, device))                                                                      \
    X(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000, (int *value, tn_cu_device_attribute        \
      attribute, tn_cu_device device), (value, attribute, device))                                 \
    X(cuDeviceTotalMem, cuDeviceTotalMem_v2, 3020, (size_t *bytes, tn_cu_device device), (bytes,   \
      device))                                                                                     \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, (tn_cu_context *context,           \
      tn_cu_device device), (context, device))                                                     \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, 11000, (tn_cu_device device),       \
      (device))                                                                                    \
    X(cuCtxGetCurrent, cuCtxGetCurrent, 4000, (tn_cu_context *context), (context))                 \
    X(cuCtxPushCurrent, cuCtxPushCurrent_v2, 4000, (tn_cu_context context), (context))             \
    X(cuCtxPopCurrent, cuCtxPopCurrent_v2, 4000, (tn_cu_context *context), (context))              \
    X(cuStreamGetCtx, cuStreamGetCtx, 9020, (tn_cu_stream stream, tn_cu_context *context),         \
      (stream, context))                                                                           \
    X(cuStreamGetId, cuStreamGetId, 12000, (tn_cu_stream stream, unsigned long long *id),          \
      (stream, id))                                                                                \
    X(cuStreamIsCapturing, cuStreamIsCapturing, 10000, (tn_cu_stream stream,                       \
      tn_cu_capture_status *status), (stream, status))                                             \
    X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v3, 12030, (tn_cu_stream stream,              \
      tn_cu_capture_status *status, uint64_t *id, tn_cu_graph *graph, const tn_cu_graphnode        \
      **dependencies, const tn_cu_edge_data **edges, size_t *dependency_count), (stream, status,   \
      id, graph, dependencies, edges, dependency_count))                                           \
    X(cuStreamBeginCapture, cuStreamBeginCapture_v2, 10010, (tn_cu_stream stream,                  \
      tn_cu_capture_mode mode), (stream, mode))                                                    \
    X(cuStreamEndCapture, cuStreamEndCapture, 10000, (tn_cu_stream stream, tn_cu_graph *graph),    \
      (stream, graph))                                                                             \
    X(cuStreamWaitEvent, cuStreamWaitEvent, 3020, (tn_cu_stream stream, tn_cu_event event,         \
      unsigned int flags), (stream, event, flags))                                                 \
    X(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, 10010,                 \
      (tn_cu_capture_mode *mode), (mode))                                                          \
    X(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity, 10020, (size_t *granularity,   \
      const tn_cu_allocation_prop *prop, int option), (granularity, prop, option))                 \
    X(cuMemAddressReserve, cuMemAddressReserve, 10020, (tn_cu_deviceptr *address, size_t bytes,    \
      size_t alignment, tn_cu_deviceptr hint, unsigned long long flags), (address, bytes,          \
      alignment, hint, flags))                                                                     \
    X(cuMemAddressFree, cuMemAddressFree, 10020, (tn_cu_deviceptr address, size_t bytes),          \
      (address, bytes))                                                                            \
    X(cuMemCreate, cuMemCreate, 10020, (tn_cu_memhandle *handle, size_t bytes, const               \
      tn_cu_allocation_prop *prop, unsigned long long flags), (handle, bytes, prop, flags))        \
    X(cuMemRelease, cuMemRelease, 10020, (tn_cu_memhandle handle), (handle))                       \
    X(cuMemMap, cuMemMap, 10020, (tn_cu_deviceptr address, size_t bytes, size_t offset,            \
      tn_cu_memhandle handle, unsigned long long flags), (address, bytes, offset, handle, flags))  \
    X(cuMemUnmap, cuMemUnmap, 10020, (tn_cu_deviceptr address, size_t bytes), (address, bytes))    \
    X(cuMemSetAccess, cuMemSetAccess, 10020, (tn_cu_deviceptr address, size_t bytes, const         \
      tn_cu_access_desc *desc, size_t count), (address, bytes, desc, count))                       \
    X(cuMemGetInfo, cuMemGetInfo_v2, 3020, (size_t *free_bytes, size_t *total_bytes),              \
      (free_bytes, total_bytes))                                                                   \
    X(cuMemAlloc, cuMemAlloc_v2, 3020, (tn_cu_deviceptr *address, size_t bytes), (address,         \
      bytes))                                                                                      \
    X(cuMemFree, cuMemFree_v2, 3020, (tn_cu_deviceptr address), (address))                         \
    X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, 3020, (tn_cu_deviceptr destination,                 \
      tn_cu_deviceptr source, size_t bytes, tn_cu_stream stream), (destination, source, bytes,     \
      stream))                                                                                     \
    X(cuEventCreate, cuEventCreate, 2000, (tn_cu_event *event, unsigned int flags), (event,        \
      flags))                                                                                      \
    X(cuEventDestroy, cuEventDestroy_v2, 4000, (tn_cu_event event), (event))                       \
    X(cuEventRecord, cuEventRecord, 2000, (tn_cu_event event, tn_cu_stream stream), (event,        \
      stream))                                                                                     \
    X(cuEventQuery, cuEventQuery, 2000, (tn_cu_event event), (event))                              \
    X(cuUserObjectCreate, cuUserObjectCreate, 11030, (tn_cu_userobject *object, void *user,        \
      tn_cu_hostfn destroy, unsigned int references, unsigned int flags), (object, user, destroy,  \
      references, flags))                                                                          \
    X(cuUserObjectRelease, cuUserObjectRelease, 11030, (tn_cu_userobject object, unsigned int      \
      count), (object, count))                                                                     \
    X(cuGraphRetainUserObject, cuGraphRetainUserObject, 11030, (tn_cu_graph graph,                 \
      tn_cu_userobject object, unsigned int count, unsigned int flags), (graph, object, count,     \
      flags))                                                                                      \
    X(cuGraphDestroy, cuGraphDestroy, 10000, (tn_cu_graph graph), (graph))                         \
    X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040, (tn_cu_graphexec *exec,     \
      tn_cu_graph graph, unsigned long long flags), (exec, graph, flags))                          \
    X(cuGraphExecDestroy, cuGraphExecDestroy, 10000, (tn_cu_graphexec exec), (exec))               \
    X(cuGraphLaunch, cuGraphLaunch, 10000, (tn_cu_graphexec exec, tn_cu_stream stream), (exec,     \
      stream))

/* What samples, tests and other programs call besides; the simulator has these too. */
#define TN_CUDA_PROGRAM_FUNCTIONS(X) \
    X(cuGetProcAddress, cuGetProcAddress_v2, 12000, (const char *symbol, void **function, int      \
      version, uint64_t flags, tn_cu_proc_status *status), (symbol, function, version, flags,      \
      status))                                                                                     \
    X(cuGetErrorString, cuGetErrorString, 6000, (tn_cu_result error, const char **text), (error,   \
      text))                                                                                       \
    X(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000, (tn_cu_device device,          \
      unsigned int *flags, int *active), (device, flags, active))                                  \
    X(cuCtxSetCurrent, cuCtxSetCurrent, 4000, (tn_cu_context context), (context))                  \
    X(cuCtxGetDevice, cuCtxGetDevice, 2000, (tn_cu_device *device), (device))                      \
    X(cuCtxSynchronize, cuCtxSynchronize, 2000, (void), ())                                        \
    X(cuStreamCreate, cuStreamCreate, 2000, (tn_cu_stream *stream, unsigned int flags), (stream,   \
      flags))                                                                                      \
    X(cuStreamDestroy, cuStreamDestroy_v2, 4000, (tn_cu_stream stream), (stream))                  \
    X(cuStreamQuery, cuStreamQuery, 2000, (tn_cu_stream stream), (stream))                         \
    X(cuStreamSynchronize, cuStreamSynchronize, 2000, (tn_cu_stream stream), (stream))             \
    X(cuEventSynchronize, cuEventSynchronize, 2000, (tn_cu_event event), (event))                  \
    X(cuMemGetAccess, cuMemGetAccess, 10020, (unsigned long long *flags, const tn_cu_location      \
      *location, tn_cu_deviceptr address), (flags, location, address))                             \
    X(cuMemHostAlloc, cuMemHostAlloc, 2020, (void **address, size_t bytes, unsigned int flags),    \
      (address, bytes, flags))                                                                     \
    X(cuMemFreeHost, cuMemFreeHost, 2000, (void *address), (address))                              \
    X(cuMemcpyAsync, cuMemcpyAsync, 4000, (tn_cu_deviceptr destination, tn_cu_deviceptr source,    \
      size_t bytes, tn_cu_stream stream), (destination, source, bytes, stream))                    \
    X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, 3020, (tn_cu_deviceptr destination, const void      \
      *source, size_t bytes, tn_cu_stream stream), (destination, source, bytes, stream))           \
    X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, 3020, (void *destination, tn_cu_deviceptr source,   \
      size_t bytes, tn_cu_stream stream), (destination, source, bytes, stream))                    \
    X(cuMemcpyHtoD, cuMemcpyHtoD_v2, 3020, (tn_cu_deviceptr destination, const void *source,       \
      size_t bytes), (destination, source, bytes))                                                 \
    X(cuMemcpyDtoH, cuMemcpyDtoH_v2, 3020, (void *destination, tn_cu_deviceptr source, size_t      \
      bytes), (destination, source, bytes))                                                        \
    X(cuMemsetD8Async, cuMemsetD8Async, 3020, (tn_cu_deviceptr address, unsigned char value,       \
      size_t count, tn_cu_stream stream), (address, value, count, stream))                         \
    X(cuMemsetD32Async, cuMemsetD32Async, 3020, (tn_cu_deviceptr address, unsigned int value,      \
      size_t count, tn_cu_stream stream), (address, value, count, stream))                         \
    X(cuPointerGetAttribute, cuPointerGetAttribute, 4000, (void *value, tn_cu_pointer_attribute    \
      attribute, tn_cu_deviceptr address), (value, attribute, address))                            \
    X(cuLaunchHostFunc, cuLaunchHostFunc, 10000, (tn_cu_stream stream, tn_cu_hostfn function,      \
      void *user), (stream, function, user))                                                       \
    X(cuLaunchKernel, cuLaunchKernel, 4000, (tn_cu_function function, unsigned int grid_x,         \
      unsigned int grid_y, unsigned int grid_z, unsigned int block_x, unsigned int block_y,        \
      unsigned int block_z, unsigned int shared_bytes, tn_cu_stream stream, void **params, void    \
      **extra), (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,        \
      stream, params, extra))                                                                      \
    X(cuModuleLoadData, cuModuleLoadData, 2000, (tn_cu_module *module, const void *image),         \
      (module, image))                                                                             \
    X(cuModuleUnload, cuModuleUnload, 2000, (tn_cu_module module), (module))                       \
    X(cuModuleGetFunction, cuModuleGetFunction, 2000, (tn_cu_function *function, tn_cu_module      \
      module, const char *name), (function, module, name))                                         \
    X(cuFuncGetParamInfo, cuFuncGetParamInfo, 12040, (tn_cu_function function, size_t index,       \
      size_t *offset, size_t *bytes), (function, index, offset, bytes))                            \
    X(cuUserObjectRetain, cuUserObjectRetain, 11030, (tn_cu_userobject object, unsigned int        \
      count), (object, count))                                                                     \
    X(cuGraphCreate, cuGraphCreate, 10000, (tn_cu_graph *graph, unsigned int flags), (graph,       \
      flags))                                                                                      \
    X(cuGraphClone, cuGraphClone, 10000, (tn_cu_graph *clone, tn_cu_graph original), (clone,       \
      original))                                                                                   \
    X(cuGraphUpload, cuGraphUpload, 11010, (tn_cu_graphexec exec, tn_cu_stream stream), (exec,     \
      stream))                                                                                     \
    X(cuGraphGetNodes, cuGraphGetNodes, 10000, (tn_cu_graph graph, tn_cu_graphnode *nodes,         \
      size_t *count), (graph, nodes, count))                                                       \
    X(cuGraphGetEdges, cuGraphGetEdges_v2, 12030, (tn_cu_graph graph, tn_cu_graphnode *from,       \
      tn_cu_graphnode *to, tn_cu_edge_data *edges, size_t *count), (graph, from, to, edges,        \
      count))                                                                                      \
    X(cuGraphNodeGetType, cuGraphNodeGetType, 10000, (tn_cu_graphnode node, tn_cu_graphnode_type   \
      *type), (node, type))                                                                        \
    X(cuGraphNodeGetDependencies, cuGraphNodeGetDependencies_v2, 12030, (tn_cu_graphnode node,     \
      tn_cu_graphnode *dependencies, tn_cu_edge_data *edges, size_t *count), (node, dependencies,  \
      edges, count))                                                                               \
    X(cuGraphKernelNodeGetParams, cuGraphKernelNodeGetParams_v2, 12000, (tn_cu_graphnode node,     \
      tn_cu_kernel_node_params *params), (node, params))

/* What only benchmarks call, to measure the driver's own allocator; not simulated. */
#define TN_CUDA_RIVAL_FUNCTIONS(X) \
    X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020, (tn_cu_mempool *pool,           \
      tn_cu_device device), (pool, device))                                                        \
    X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020, (tn_cu_mempool pool, int attribute,     \
      void *value), (pool, attribute, value))                                                      \
    X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, (tn_cu_deviceptr *address, size_t   \
      bytes, tn_cu_mempool pool, tn_cu_stream stream), (address, bytes, pool, stream))             \
    X(cuMemFreeAsync, cuMemFreeAsync, 11020, (tn_cu_deviceptr address, tn_cu_stream stream),       \
      (address, stream))

/* Every function that the simulator exports. */
#define TN_CUDA_SIMULATED_FUNCTIONS(X) TN_CUDA_LIBRARY_FUNCTIONS(X) TN_CUDA_PROGRAM_FUNCTIONS(X)
// clang-format on

/* The type of each function: tn_pfn_<name>. */
#define TN_CUDA_FUNCTION_TYPE(name, symbol, version, parameters, names)                            \
    typedef tn_cu_result(*tn_pfn_##name) parameters;
TN_CUDA_LIBRARY_FUNCTIONS(TN_CUDA_FUNCTION_TYPE)
TN_CUDA_PROGRAM_FUNCTIONS(TN_CUDA_FUNCTION_TYPE)
TN_CUDA_RIVAL_FUNCTIONS(TN_CUDA_FUNCTION_TYPE)
#undef TN_CUDA_FUNCTION_TYPE

#endif
