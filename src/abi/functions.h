// SPDX-License-Identifier: Apache-2.0
/* functions.h -- the list of all the driver's functions that Tarn knows.
 *
 * Each row is X(name, symbol, version, (parameters), (parameter names)):
 *   name     the base name, as asked of cuGetProcAddress;
 *   symbol   the name that libcuda and libtarn_sim export for this very signature;
 *   version  the number that pins the signature (1000 * major + 10 * minor of its introduction).
 * The list makes: the library's table of functions (driver/driver.c), the simulator's exports and
 * its cuGetProcAddress, the call recorder and the samples' loader. */
#ifndef TARN_ABI_FUNCTIONS_H
#define TARN_ABI_FUNCTIONS_H

#include "abi/cuda.h"

/* The functions that the library itself calls: a driver that lacks any is too old. */
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
    X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, 4000, (int *can, tn_cu_device device,          \
      tn_cu_device peer), (can, device, peer))                                                     \
    X(cuDeviceTotalMem, cuDeviceTotalMem_v2, 3020, (size_t *bytes, tn_cu_device device), (bytes,   \
      device))                                                                                     \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, (tn_cu_context *context,           \
      tn_cu_device device), (context, device))                                                     \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, 11000, (tn_cu_device device),       \
      (device))                                                                                    \
    X(cuCtxGetCurrent, cuCtxGetCurrent, 4000, (tn_cu_context *context), (context))                 \
    X(cuCtxPushCurrent, cuCtxPushCurrent_v2, 4000, (tn_cu_context context), (context))             \
    X(cuCtxPopCurrent, cuCtxPopCurrent_v2, 4000, (tn_cu_context *context), (context))              \
    X(cuCtxGetDevice, cuCtxGetDevice, 2000, (tn_cu_device *device), (device))                      \
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
    X(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, 12030, (tn_cu_stream stream,       \
      tn_cu_graph graph, const tn_cu_graphnode *dependencies, const tn_cu_edge_data *edges,        \
      size_t dependency_count, tn_cu_capture_mode mode), (stream, graph, dependencies, edges,      \
      dependency_count, mode))                                                                     \
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
    X(cuMemExportToShareableHandle, cuMemExportToShareableHandle, 10020, (void *shareable,         \
      tn_cu_memhandle handle, tn_cu_handle_type type, unsigned long long flags), (shareable,       \
      handle, type, flags))                                                                        \
    X(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, 10020, (tn_cu_memhandle      \
      *handle, void *shareable, tn_cu_handle_type type), (handle, shareable, type))                \
    X(cuMemSetAccess, cuMemSetAccess, 10020, (tn_cu_deviceptr address, size_t bytes, const         \
      tn_cu_access_desc *desc, size_t count), (address, bytes, desc, count))                       \
    X(cuMemGetInfo, cuMemGetInfo_v2, 3020, (size_t *free_bytes, size_t *total_bytes),              \
      (free_bytes, total_bytes))                                                                   \
    X(cuMemAlloc, cuMemAlloc_v2, 3020, (tn_cu_deviceptr *address, size_t bytes), (address,         \
      bytes))                                                                                      \
    X(cuMemFree, cuMemFree_v2, 3020, (tn_cu_deviceptr address), (address))                         \
    X(cuLibraryLoadData, cuLibraryLoadData, 12000, (tn_cu_library *library, const void *code,      \
      int *jit_options, void **jit_values, unsigned int jit_count, int *library_options, void      \
      **library_values, unsigned int library_count), (library, code, jit_options, jit_values,      \
      jit_count, library_options, library_values, library_count))                                  \
    X(cuLibraryUnload, cuLibraryUnload, 12000, (tn_cu_library library), (library))                 \
    X(cuLibraryGetKernel, cuLibraryGetKernel, 12000, (tn_cu_kernel *kernel, tn_cu_library          \
      library, const char *name), (kernel, library, name))                                         \
    X(cuKernelGetFunction, cuKernelGetFunction, 12000, (tn_cu_function *function, tn_cu_kernel     \
      kernel), (function, kernel))                                                                 \
    X(cuLaunchKernel, cuLaunchKernel, 4000, (tn_cu_function function, unsigned int grid_x,         \
      unsigned int grid_y, unsigned int grid_z, unsigned int block_x, unsigned int block_y,        \
      unsigned int block_z, unsigned int shared_bytes, tn_cu_stream stream, void **params, void    \
      **extra), (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,        \
      stream, params, extra))                                                                      \
    X(cuMemsetD8Async, cuMemsetD8Async, 3020, (tn_cu_deviceptr address, unsigned char value,       \
      size_t count, tn_cu_stream stream), (address, value, count, stream))                         \
    X(cuPointerGetAttribute, cuPointerGetAttribute, 4000, (void *value, tn_cu_pointer_attribute    \
      attribute, tn_cu_deviceptr address), (value, attribute, address))                            \
    X(cuMemHostAlloc, cuMemHostAlloc, 2020, (void **address, size_t bytes, unsigned int flags),    \
      (address, bytes, flags))                                                                     \
    X(cuPointerGetAttributes, cuPointerGetAttributes, 7000, (unsigned int count,                   \
      tn_cu_pointer_attribute *attributes, void **values, tn_cu_deviceptr address), (count,        \
      attributes, values, address))                                                                \
    X(cuMemFreeHost, cuMemFreeHost, 2000, (void *address), (address))                              \
    X(cuMemHostRegister, cuMemHostRegister_v2, 6050, (void *address, size_t bytes, unsigned int    \
      flags), (address, bytes, flags))                                                             \
    X(cuMemHostUnregister, cuMemHostUnregister, 4000, (void *address), (address))                  \
    X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, 3020, (tn_cu_deviceptr destination, const void      \
      *source, size_t bytes, tn_cu_stream stream), (destination, source, bytes, stream))           \
    X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, 3020, (void *destination, tn_cu_deviceptr source,   \
      size_t bytes, tn_cu_stream stream), (destination, source, bytes, stream))                    \
    X(cuEventSynchronize, cuEventSynchronize, 2000, (tn_cu_event event), (event))                  \
    X(cuEventCreate, cuEventCreate, 2000, (tn_cu_event *event, unsigned int flags), (event,        \
      flags))                                                                                      \
    X(cuEventDestroy, cuEventDestroy_v2, 4000, (tn_cu_event event), (event))                       \
    X(cuEventRecord, cuEventRecord, 2000, (tn_cu_event event, tn_cu_stream stream), (event,        \
      stream))                                                                                     \
    X(cuEventQuery, cuEventQuery, 2000, (tn_cu_event event), (event))                              \
    X(cuEventElapsedTime, cuEventElapsedTime, 2000, (float *milliseconds, tn_cu_event start,       \
      tn_cu_event end), (milliseconds, start, end))                                                \
    X(cuUserObjectCreate, cuUserObjectCreate, 11030, (tn_cu_userobject *object, void *user,        \
      tn_cu_hostfn destroy, unsigned int references, unsigned int flags), (object, user, destroy,  \
      references, flags))                                                                          \
    X(cuUserObjectRelease, cuUserObjectRelease, 11030, (tn_cu_userobject object, unsigned int      \
      count), (object, count))                                                                     \
    X(cuGraphRetainUserObject, cuGraphRetainUserObject, 11030, (tn_cu_graph graph,                 \
      tn_cu_userobject object, unsigned int count, unsigned int flags), (graph, object, count,     \
      flags))                                                                                      \
    X(cuGraphReleaseUserObject, cuGraphReleaseUserObject, 11030, (tn_cu_graph graph,               \
      tn_cu_userobject object, unsigned int count), (graph, object, count))                        \
    X(cuGraphDestroy, cuGraphDestroy, 10000, (tn_cu_graph graph), (graph))                         \
    X(cuGraphGetNodes, cuGraphGetNodes, 10000, (tn_cu_graph graph, tn_cu_graphnode *nodes,         \
      size_t *count), (graph, nodes, count))                                                       \
    X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040, (tn_cu_graphexec *exec,     \
      tn_cu_graph graph, unsigned long long flags), (exec, graph, flags))                          \
    X(cuGraphExecDestroy, cuGraphExecDestroy, 10000, (tn_cu_graphexec exec), (exec))               \
    X(cuGraphNodeGetDependencies, cuGraphNodeGetDependencies_v2, 12030, (tn_cu_graphnode node,     \
      tn_cu_graphnode *dependencies, tn_cu_edge_data *edges, size_t *count), (node, dependencies,  \
      edges, count))                                                                               \
    X(cuGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes_v2, 12030, (tn_cu_graphnode       \
      node, tn_cu_graphnode *dependents, tn_cu_edge_data *edges, size_t *count), (node,            \
      dependents, edges, count))                                                                   \
    X(cuGraphGetEdges, cuGraphGetEdges_v2, 12030, (tn_cu_graph graph, tn_cu_graphnode *from,       \
      tn_cu_graphnode *to, tn_cu_edge_data *edges, size_t *count), (graph, from, to, edges,        \
      count))                                                                                      \
    X(cuGraphNodeGetType, cuGraphNodeGetType, 10000, (tn_cu_graphnode node, tn_cu_graphnode_type   \
      *type), (node, type))                                                                        \
    X(cuGraphKernelNodeGetParams, cuGraphKernelNodeGetParams_v2, 12000, (tn_cu_graphnode node,     \
      tn_cu_kernel_node_params *params), (node, params))                                           \
    X(cuFuncGetParamInfo, cuFuncGetParamInfo, 12040, (tn_cu_function function, size_t index,       \
      size_t *offset, size_t *bytes), (function, index, offset, bytes))                            \
    X(cuFuncGetName, cuFuncGetName, 12030, (const char **name, tn_cu_function function), (name,    \
      function))                                                                                   \
    X(cuGraphMemcpyNodeGetParams, cuGraphMemcpyNodeGetParams, 10000, (tn_cu_graphnode node,        \
      tn_cu_memcpy3d *params), (node, params))                                                     \
    X(cuGraphMemsetNodeGetParams, cuGraphMemsetNodeGetParams, 10000, (tn_cu_graphnode node,        \
      tn_cu_memset_node_params *params), (node, params))                                           \
    X(cuGraphHostNodeGetParams, cuGraphHostNodeGetParams, 10000, (tn_cu_graphnode node,            \
      tn_cu_host_node_params *params), (node, params))                                             \
    X(cuGraphChildGraphNodeGetGraph, cuGraphChildGraphNodeGetGraph, 10000, (tn_cu_graphnode        \
      node, tn_cu_graph *graph), (node, graph))                                                    \
    X(cuGraphEventRecordNodeGetEvent, cuGraphEventRecordNodeGetEvent, 11010, (tn_cu_graphnode      \
      node, tn_cu_event *event), (node, event))                                                    \
    X(cuGraphEventWaitNodeGetEvent, cuGraphEventWaitNodeGetEvent, 11010, (tn_cu_graphnode node,    \
      tn_cu_event *event), (node, event))                                                          \
    X(cuGraphMemAllocNodeGetParams, cuGraphMemAllocNodeGetParams, 11040, (tn_cu_graphnode node,    \
      tn_cu_alloc_node_params *params), (node, params))                                            \
    X(cuGraphMemFreeNodeGetParams, cuGraphMemFreeNodeGetParams, 11040, (tn_cu_graphnode node,      \
      tn_cu_deviceptr *address), (node, address))                                                  \
    X(cuGraphBatchMemOpNodeGetParams, cuGraphBatchMemOpNodeGetParams, 11070, (tn_cu_graphnode      \
      node, tn_cu_batch_node_params *params), (node, params))                                      \
    X(cuDeviceGetGraphMemAttribute, cuDeviceGetGraphMemAttribute, 11040, (tn_cu_device device,     \
      tn_cu_graph_mem_attribute attribute, void *value), (device, attribute, value))               \
    X(cuGraphExecUpdate, cuGraphExecUpdate_v2, 12000, (tn_cu_graphexec exec, tn_cu_graph graph,    \
      tn_cu_update_result_info *info), (exec, graph, info))                                        \
    X(cuGraphLaunch, cuGraphLaunch, 10000, (tn_cu_graphexec exec, tn_cu_stream stream), (exec,     \
      stream))

/* The functions that the library calls where the driver has them. */
#define TN_CUDA_OPTIONAL_FUNCTIONS(X) \
    X(cuStreamBatchMemOp, cuStreamBatchMemOp_v2, 11070, (tn_cu_stream stream, unsigned int         \
      count, tn_cu_batch_op *ops, unsigned int flags), (stream, count, ops, flags))

/* Further functions, for samples, tests and other programs; the simulator has these too. */
#define TN_CUDA_PROGRAM_FUNCTIONS(X) \
    X(cuGetProcAddress, cuGetProcAddress_v2, 12000, (const char *symbol, void **function, int      \
      version, uint64_t flags, tn_cu_proc_status *status), (symbol, function, version, flags,      \
      status))                                                                                     \
    X(cuGetErrorString, cuGetErrorString, 6000, (tn_cu_result error, const char **text), (error,   \
      text))                                                                                       \
    X(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000, (tn_cu_device device,          \
      unsigned int *flags, int *active), (device, flags, active))                                  \
    X(cuCtxSetCurrent, cuCtxSetCurrent, 4000, (tn_cu_context context), (context))                  \
    X(cuCtxSynchronize, cuCtxSynchronize, 2000, (void), ())                                        \
    X(cuStreamCreate, cuStreamCreate, 2000, (tn_cu_stream *stream, unsigned int flags), (stream,   \
      flags))                                                                                      \
    X(cuStreamDestroy, cuStreamDestroy_v2, 4000, (tn_cu_stream stream), (stream))                  \
    X(cuStreamQuery, cuStreamQuery, 2000, (tn_cu_stream stream), (stream))                         \
    X(cuStreamSynchronize, cuStreamSynchronize, 2000, (tn_cu_stream stream), (stream))             \
    X(cuMemGetAccess, cuMemGetAccess, 10020, (unsigned long long *flags, const tn_cu_location      \
      *location, tn_cu_deviceptr address), (flags, location, address))                             \
    X(cuMemcpyAsync, cuMemcpyAsync, 4000, (tn_cu_deviceptr destination, tn_cu_deviceptr source,    \
      size_t bytes, tn_cu_stream stream), (destination, source, bytes, stream))                    \
    X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, 3020, (tn_cu_deviceptr destination,                 \
      tn_cu_deviceptr source, size_t bytes, tn_cu_stream stream), (destination, source, bytes,     \
      stream))                                                                                     \
    X(cuMemcpyHtoD, cuMemcpyHtoD_v2, 3020, (tn_cu_deviceptr destination, const void *source,       \
      size_t bytes), (destination, source, bytes))                                                 \
    X(cuMemcpyDtoH, cuMemcpyDtoH_v2, 3020, (void *destination, tn_cu_deviceptr source, size_t      \
      bytes), (destination, source, bytes))                                                        \
    X(cuMemsetD32Async, cuMemsetD32Async, 3020, (tn_cu_deviceptr address, unsigned int value,      \
      size_t count, tn_cu_stream stream), (address, value, count, stream))                         \
    X(cuLaunchHostFunc, cuLaunchHostFunc, 10000, (tn_cu_stream stream, tn_cu_hostfn function,      \
      void *user), (stream, function, user))                                                       \
    X(cuModuleLoadData, cuModuleLoadData, 2000, (tn_cu_module *module, const void *image),         \
      (module, image))                                                                             \
    X(cuModuleUnload, cuModuleUnload, 2000, (tn_cu_module module), (module))                       \
    X(cuModuleGetFunction, cuModuleGetFunction, 2000, (tn_cu_function *function, tn_cu_module      \
      module, const char *name), (function, module, name))                                         \
    X(cuUserObjectRetain, cuUserObjectRetain, 11030, (tn_cu_userobject object, unsigned int        \
      count), (object, count))                                                                     \
    X(cuGraphCreate, cuGraphCreate, 10000, (tn_cu_graph *graph, unsigned int flags), (graph,       \
      flags))                                                                                      \
    X(cuGraphClone, cuGraphClone, 10000, (tn_cu_graph *clone, tn_cu_graph original), (clone,       \
      original))                                                                                   \
    X(cuGraphUpload, cuGraphUpload, 11010, (tn_cu_graphexec exec, tn_cu_stream stream), (exec,     \
      stream))

/* Devices and contexts. */
#define TN_CUDA_CONTEXT_FUNCTIONS(X) \
    X(cuDeviceGetUuid, cuDeviceGetUuid_v2, 11040, (tn_cu_uuid *uuid, tn_cu_device device),         \
      (uuid, device))                                                                              \
    X(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2, 11000, (tn_cu_device device,      \
      unsigned int flags), (device, flags))                                                        \
    X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, 11000, (tn_cu_device device),           \
      (device))                                                                                    \
    X(cuCtxCreate, cuCtxCreate_v2, 3020, (tn_cu_context *context, unsigned int flags,              \
      tn_cu_device device), (context, flags, device))                                              \
    X(cuCtxDestroy, cuCtxDestroy_v2, 4000, (tn_cu_context context), (context))                     \
    X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000, (tn_cu_context peer, unsigned int        \
      flags), (peer, flags))                                                                       \
    X(cuCtxDisablePeerAccess, cuCtxDisablePeerAccess, 4000, (tn_cu_context peer), (peer))

/* Memory of all kinds, and questions about memory. */
#define TN_CUDA_MEMORY_FUNCTIONS(X) \
    X(cuMemGetAllocationPropertiesFromHandle, cuMemGetAllocationPropertiesFromHandle, 10020,       \
      (tn_cu_allocation_prop *prop, tn_cu_memhandle handle), (prop, handle))                       \
    X(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 11000, (tn_cu_memhandle *handle,   \
      void *address), (handle, address))                                                           \
    X(cuMemGetHandleForAddressRange, cuMemGetHandleForAddressRange, 11070, (void *handle,          \
      tn_cu_deviceptr address, size_t bytes, tn_cu_range_handle_type type, unsigned long long      \
      flags), (handle, address, bytes, type, flags))                                               \
    X(cuMemGetAddressRange, cuMemGetAddressRange_v2, 3020, (tn_cu_deviceptr *base, size_t          \
      *bytes, tn_cu_deviceptr address), (base, bytes, address))                                    \
    X(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, 3020, (tn_cu_deviceptr              \
      *device_address, void *address, unsigned int flags), (device_address, address, flags))       \
    X(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, (tn_cu_ipc_handle *handle, tn_cu_deviceptr       \
      address), (handle, address))                                                                 \
    X(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, 11000, (tn_cu_deviceptr *address,                 \
      tn_cu_ipc_handle handle, unsigned int flags), (address, handle, flags))                      \
    X(cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010, (tn_cu_deviceptr address), (address))        \
    X(cuPointerSetAttribute, cuPointerSetAttribute, 6000, (const void *value,                      \
      tn_cu_pointer_attribute attribute, tn_cu_deviceptr address), (value, attribute, address))    \
    X(cuMemcpy, cuMemcpy, 4000, (tn_cu_deviceptr destination, tn_cu_deviceptr source, size_t       \
      bytes), (destination, source, bytes))                                                        \
    X(cuMemcpyDtoD, cuMemcpyDtoD_v2, 3020, (tn_cu_deviceptr destination, tn_cu_deviceptr source,   \
      size_t bytes), (destination, source, bytes))                                                 \
    X(cuMemcpyBatchAsync, cuMemcpyBatchAsync, 12080, (tn_cu_deviceptr *destinations,               \
      tn_cu_deviceptr *sources, size_t *sizes, size_t count, tn_cu_memcpy_attributes               \
      *attributes, size_t *attribute_starts, size_t attribute_count, size_t *failed,               \
      tn_cu_stream stream), (destinations, sources, sizes, count, attributes, attribute_starts,    \
      attribute_count, failed, stream))                                                            \
    X(cuMemsetD8, cuMemsetD8_v2, 3020, (tn_cu_deviceptr address, unsigned char value, size_t       \
      count), (address, value, count))                                                             \
    X(cuMemsetD32, cuMemsetD32_v2, 3020, (tn_cu_deviceptr address, unsigned int value, size_t      \
      count), (address, value, count))                                                             \
    X(cuStreamWriteValue32, cuStreamWriteValue32_v2, 11070, (tn_cu_stream stream,                  \
      tn_cu_deviceptr address, uint32_t value, unsigned int flags), (stream, address, value,       \
      flags))                                                                                      \
    X(cuStreamWriteValue64, cuStreamWriteValue64_v2, 11070, (tn_cu_stream stream,                  \
      tn_cu_deviceptr address, uint64_t value, unsigned int flags), (stream, address, value,       \
      flags))                                                                                      \
    X(cuStreamWaitValue32, cuStreamWaitValue32_v2, 11070, (tn_cu_stream stream, tn_cu_deviceptr    \
      address, uint32_t value, unsigned int flags), (stream, address, value, flags))               \
    X(cuStreamWaitValue64, cuStreamWaitValue64_v2, 11070, (tn_cu_stream stream, tn_cu_deviceptr    \
      address, uint64_t value, unsigned int flags), (stream, address, value, flags))

/* The driver's own stream-ordered allocator. */
#define TN_CUDA_POOL_FUNCTIONS(X) \
    X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020, (tn_cu_mempool *pool,           \
      tn_cu_device device), (pool, device))                                                        \
    X(cuDeviceGetMemPool, cuDeviceGetMemPool, 11020, (tn_cu_mempool *pool, tn_cu_device device),   \
      (pool, device))                                                                              \
    X(cuDeviceSetMemPool, cuDeviceSetMemPool, 11020, (tn_cu_device device, tn_cu_mempool pool),    \
      (device, pool))                                                                              \
    X(cuMemPoolCreate, cuMemPoolCreate, 11020, (tn_cu_mempool *pool, const tn_cu_pool_props        \
      *props), (pool, props))                                                                      \
    X(cuMemPoolDestroy, cuMemPoolDestroy, 11020, (tn_cu_mempool pool), (pool))                     \
    X(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, (tn_cu_mempool pool, size_t bytes_to_keep),         \
      (pool, bytes_to_keep))                                                                       \
    X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020, (tn_cu_mempool pool,                    \
      tn_cu_pool_attribute attribute, void *value), (pool, attribute, value))                      \
    X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020, (tn_cu_mempool pool,                    \
      tn_cu_pool_attribute attribute, void *value), (pool, attribute, value))                      \
    X(cuMemAllocAsync, cuMemAllocAsync, 11020, (tn_cu_deviceptr *address, size_t bytes,            \
      tn_cu_stream stream), (address, bytes, stream))                                              \
    X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, (tn_cu_deviceptr *address, size_t   \
      bytes, tn_cu_mempool pool, tn_cu_stream stream), (address, bytes, pool, stream))             \
    X(cuMemFreeAsync, cuMemFreeAsync, 11020, (tn_cu_deviceptr address, tn_cu_stream stream),       \
      (address, stream))                                                                           \
    X(cuDeviceGraphMemTrim, cuDeviceGraphMemTrim, 11040, (tn_cu_device device), (device))

/* Streams, events, launches and kernels. */
#define TN_CUDA_STREAM_FUNCTIONS(X) \
    X(cuStreamCreateWithPriority, cuStreamCreateWithPriority, 5050, (tn_cu_stream *stream,         \
      unsigned int flags, int priority), (stream, flags, priority))                                \
    X(cuStreamGetPriority, cuStreamGetPriority, 5050, (tn_cu_stream stream, int *priority),        \
      (stream, priority))                                                                          \
    X(cuStreamGetFlags, cuStreamGetFlags, 5050, (tn_cu_stream stream, unsigned int *flags),        \
      (stream, flags))                                                                             \
    X(cuStreamAddCallback, cuStreamAddCallback, 5000, (tn_cu_stream stream,                        \
      tn_cu_stream_callback callback, void *user, unsigned int flags), (stream, callback, user,    \
      flags))                                                                                      \
    X(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_v2, 12030,              \
      (tn_cu_stream stream, tn_cu_graphnode *dependencies, const tn_cu_edge_data *edges, size_t    \
      dependency_count, unsigned int flags), (stream, dependencies, edges, dependency_count,       \
      flags))                                                                                      \
    X(cuEventRecordWithFlags, cuEventRecordWithFlags, 11010, (tn_cu_event event, tn_cu_stream      \
      stream, unsigned int flags), (event, stream, flags))                                         \
    X(cuLaunchKernelEx, cuLaunchKernelEx, 11060, (const tn_cu_launch_config *config,               \
      tn_cu_function function, void **params, void **extra), (config, function, params, extra))    \
    X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000, (tn_cu_function function,        \
      unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,         \
      unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, tn_cu_stream          \
      stream, void **params), (function, grid_x, grid_y, grid_z, block_x, block_y, block_z,        \
      shared_bytes, stream, params))                                                               \
    X(cuFuncGetModule, cuFuncGetModule, 11000, (tn_cu_module *module, tn_cu_function function),    \
      (module, function))                                                                          \
    X(cuKernelGetName, cuKernelGetName, 12030, (const char **name, tn_cu_kernel kernel), (name,    \
      kernel))                                                                                     \
    X(cuKernelGetParamInfo, cuKernelGetParamInfo, 12040, (tn_cu_kernel kernel, size_t index,       \
      size_t *offset, size_t *bytes), (kernel, index, offset, bytes))

/* Graphs by hand, read back, and changed. */
#define TN_CUDA_GRAPH_FUNCTIONS(X) \
    X(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams, 12000, (tn_cu_graphexec *exec,   \
      tn_cu_graph graph, tn_cu_instantiate_params *params), (exec, graph, params))                 \
    X(cuGraphExecGetFlags, cuGraphExecGetFlags, 12000, (tn_cu_graphexec exec, uint64_t *flags),    \
      (exec, flags))                                                                               \
    X(cuGraphGetRootNodes, cuGraphGetRootNodes, 10000, (tn_cu_graph graph, tn_cu_graphnode         \
      *nodes, size_t *count), (graph, nodes, count))                                               \
    X(cuGraphAddNode, cuGraphAddNode_v2, 12030, (tn_cu_graphnode *node, tn_cu_graph graph, const   \
      tn_cu_graphnode *dependencies, const tn_cu_edge_data *edges, size_t dependency_count,        \
      tn_cu_node_params *params), (node, graph, dependencies, edges, dependency_count, params))    \
    X(cuGraphAddEmptyNode, cuGraphAddEmptyNode, 10000, (tn_cu_graphnode *node, tn_cu_graph         \
      graph, const tn_cu_graphnode *dependencies, size_t dependency_count), (node, graph,          \
      dependencies, dependency_count))                                                             \
    X(cuGraphAddKernelNode, cuGraphAddKernelNode_v2, 12000, (tn_cu_graphnode *node, tn_cu_graph    \
      graph, const tn_cu_graphnode *dependencies, size_t dependency_count, const                   \
      tn_cu_kernel_node_params *params), (node, graph, dependencies, dependency_count, params))    \
    X(cuGraphAddChildGraphNode, cuGraphAddChildGraphNode, 10000, (tn_cu_graphnode *node,           \
      tn_cu_graph graph, const tn_cu_graphnode *dependencies, size_t dependency_count,             \
      tn_cu_graph child), (node, graph, dependencies, dependency_count, child))                    \
    X(cuGraphAddDependencies, cuGraphAddDependencies_v2, 12030, (tn_cu_graph graph, const          \
      tn_cu_graphnode *from, const tn_cu_graphnode *to, const tn_cu_edge_data *edges, size_t       \
      count), (graph, from, to, edges, count))                                                     \
    X(cuGraphDestroyNode, cuGraphDestroyNode, 10000, (tn_cu_graphnode node), (node))               \
    X(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, 11040, (tn_cu_graphnode *node, tn_cu_graph   \
      graph, const tn_cu_graphnode *dependencies, size_t dependency_count,                         \
      tn_cu_alloc_node_params *params), (node, graph, dependencies, dependency_count, params))     \
    X(cuGraphAddMemFreeNode, cuGraphAddMemFreeNode, 11040, (tn_cu_graphnode *node, tn_cu_graph     \
      graph, const tn_cu_graphnode *dependencies, size_t dependency_count, tn_cu_deviceptr         \
      address), (node, graph, dependencies, dependency_count, address))                            \
    X(cuGraphConditionalHandleCreate, cuGraphConditionalHandleCreate, 12030, (tn_cu_conditional    \
      *handle, tn_cu_graph graph, tn_cu_context context, unsigned int launch_value, unsigned int   \
      flags), (handle, graph, context, launch_value, flags))                                       \
    X(cuGraphNodeSetEnabled, cuGraphNodeSetEnabled, 11060, (tn_cu_graphexec exec,                  \
      tn_cu_graphnode node, unsigned int enabled), (exec, node, enabled))                          \
    X(cuGraphNodeGetEnabled, cuGraphNodeGetEnabled, 11060, (tn_cu_graphexec exec,                  \
      tn_cu_graphnode node, unsigned int *enabled), (exec, node, enabled))                         \
    X(cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams_v2, 12000, (tn_cu_graphnode node,     \
      const tn_cu_kernel_node_params *params), (node, params))                                     \
    X(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams_v2, 12000, (tn_cu_graphexec   \
      exec, tn_cu_graphnode node, const tn_cu_kernel_node_params *params), (exec, node, params))   \
    X(cuGraphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, 10020, (tn_cu_graphexec      \
      exec, tn_cu_graphnode node, const tn_cu_memcpy3d *params, tn_cu_context context), (exec,     \
      node, params, context))                                                                      \
    X(cuGraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams, 10020, (tn_cu_graphexec      \
      exec, tn_cu_graphnode node, const tn_cu_memset_node_params *params, tn_cu_context            \
      context), (exec, node, params, context))                                                     \
    X(cuGraphDebugDotPrint, cuGraphDebugDotPrint, 11030, (tn_cu_graph graph, const char *path,     \
      unsigned int flags), (graph, path, flags))                                                   \
    X(cuGraphAddBatchMemOpNode, cuGraphAddBatchMemOpNode, 11070, (tn_cu_graphnode *node,           \
      tn_cu_graph graph, const tn_cu_graphnode *dependencies, size_t dependency_count, const       \
      tn_cu_batch_node_params *params), (node, graph, dependencies, dependency_count, params))     \
    X(cuGraphBatchMemOpNodeSetParams, cuGraphBatchMemOpNodeSetParams, 11070, (tn_cu_graphnode      \
      node, const tn_cu_batch_node_params *params), (node, params))                                \
    X(cuGraphExecBatchMemOpNodeSetParams, cuGraphExecBatchMemOpNodeSetParams, 11070,               \
      (tn_cu_graphexec exec, tn_cu_graphnode node, const tn_cu_batch_node_params *params),         \
      (exec, node, params))

/* The driver's checkpoint of a whole process. Not simulated: no part of a program can see a
 * checkpoint happen. The contract suite calls these functions where the driver has them. */
#define TN_CUDA_PROCESS_FUNCTIONS(X)                                                               \
    X(cuCheckpointProcessGetState, cuCheckpointProcessGetState, 12080, (int pid,                   \
      tn_cu_process_state *state), (pid, state))                                                   \
    X(cuCheckpointProcessLock, cuCheckpointProcessLock, 12080, (int pid,                           \
      tn_cu_checkpoint_lock_args *args), (pid, args))                                              \
    X(cuCheckpointProcessCheckpoint, cuCheckpointProcessCheckpoint, 12080, (int pid,               \
      tn_cu_checkpoint_checkpoint_args *args), (pid, args))                                        \
    X(cuCheckpointProcessRestore, cuCheckpointProcessRestore, 12080, (int pid,                     \
      tn_cu_checkpoint_restore_args *args), (pid, args))                                           \
    X(cuCheckpointProcessUnlock, cuCheckpointProcessUnlock, 12080, (int pid,                       \
      tn_cu_checkpoint_unlock_args *args), (pid, args))                                            \
    X(cuCheckpointProcessGetRestoreThreadId, cuCheckpointProcessGetRestoreThreadId, 12080, (int    \
      pid, int *thread), (pid, thread))

/* Older versions of functions that the library also calls, since the older cost less. Rows as
 * above, behind a name of our own. */
#define TN_CUDA_LIBRARY_VERSIONS(X) \
    X(cuStreamGetCaptureId, cuStreamGetCaptureInfo, cuStreamGetCaptureInfo, 10010, (tn_cu_stream   \
      stream, tn_cu_capture_status *status, uint64_t *id), (stream, status, id))

/* Every function that the simulator exports. */
#define TN_CUDA_SIMULATED_FUNCTIONS(X) \
    TN_CUDA_LIBRARY_FUNCTIONS(X)                                                                   \
    TN_CUDA_OPTIONAL_FUNCTIONS(X)                                                                  \
    TN_CUDA_PROGRAM_FUNCTIONS(X)                                                                   \
    TN_CUDA_CONTEXT_FUNCTIONS(X)                                                                   \
    TN_CUDA_MEMORY_FUNCTIONS(X)                                                                    \
    TN_CUDA_POOL_FUNCTIONS(X)                                                                      \
    TN_CUDA_STREAM_FUNCTIONS(X)                                                                    \
    TN_CUDA_GRAPH_FUNCTIONS(X)

/* All functions of the list. */
#define TN_CUDA_ALL_FUNCTIONS(X) TN_CUDA_SIMULATED_FUNCTIONS(X) TN_CUDA_PROCESS_FUNCTIONS(X)
// clang-format on

/* The type of each function: tn_pfn_<name>. */
#define TN_CUDA_FUNCTION_TYPE(name, symbol, version, parameters, names)                            \
    typedef tn_cu_result(*tn_pfn_##name) parameters;
TN_CUDA_ALL_FUNCTIONS(TN_CUDA_FUNCTION_TYPE)
#undef TN_CUDA_FUNCTION_TYPE
#define TN_CUDA_VERSION_TYPE(own, name, symbol, version, parameters, names)                        \
    typedef tn_cu_result(*tn_pfn_##own) parameters;
TN_CUDA_LIBRARY_VERSIONS(TN_CUDA_VERSION_TYPE)
#undef TN_CUDA_VERSION_TYPE

#endif
