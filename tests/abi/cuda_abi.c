// SPDX-License-Identifier: Apache-2.0
/* cuda_abi.c -- asserts, while it is compiled, that src/abi is the driver's own ABI.
 *
 * It is built wherever a CUDA toolkit is installed, and has nothing to run. Three things are
 * compared with the toolkit's cuda.h and cudaTypedefs.h:
 *   values     every enumerator and macro of abi/cuda.h;
 *   layouts    size, alignment and member offsets of every struct, and that each type used as a
 *              parameter is as large as the toolkit's;
 *   functions  every row of abi/functions.h. For this its types are read a second time under the
 *              toolkit's names, so that each tn_pfn_<name> must be compatible, parameter by
 *              parameter, with PFN_<name>_v<version> and with the declared function that has the
 *              row's symbol. */
#include <cuda.h>
#include <cudaTypedefs.h>

#include "abi/cuda.h"

/* -- Values -- */

#define SAME(ours, theirs)                                                                         \
    _Static_assert((long long)(ours) == (long long)(theirs), #ours " is not " #theirs)

#define SAME_RESULT(name, number) SAME(TN_CUDA_##name, CUDA_##name);
TN_CUDA_RESULTS(SAME_RESULT)

SAME(TN_CU_STREAM_DEFAULT, CU_STREAM_DEFAULT);
SAME(TN_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(TN_CU_EVENT_DEFAULT, CU_EVENT_DEFAULT);
SAME(TN_CU_EVENT_BLOCKING_SYNC, CU_EVENT_BLOCKING_SYNC);
SAME(TN_CU_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(TN_CU_EVENT_INTERPROCESS, CU_EVENT_INTERPROCESS);
SAME(TN_CU_GET_PROC_ADDRESS_DEFAULT, CU_GET_PROC_ADDRESS_DEFAULT);
SAME(TN_CU_GET_PROC_ADDRESS_LEGACY_STREAM, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
SAME(TN_CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
     CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
SAME(TN_CU_USER_OBJECT_NO_DESTRUCTOR_SYNC, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
SAME(TN_CU_GRAPH_USER_OBJECT_MOVE, CU_GRAPH_USER_OBJECT_MOVE);
SAME(TN_CU_GRAPH_INSTANTIATE_AUTO_FREE_ON_LAUNCH, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
SAME(TN_CU_GRAPH_INSTANTIATE_USE_NODE_PRIORITY, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
SAME(TN_CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);

SAME(TN_CU_PROC_FOUND, CU_GET_PROC_ADDRESS_SUCCESS);
SAME(TN_CU_PROC_SYMBOL_NOT_FOUND, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
SAME(TN_CU_PROC_VERSION_NOT_SUFFICIENT, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);

SAME(TN_CU_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME(TN_CU_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(TN_CU_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(TN_CU_CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(TN_CU_CAPTURE_STATUS_ACTIVE, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME(TN_CU_CAPTURE_STATUS_INVALIDATED, CU_STREAM_CAPTURE_STATUS_INVALIDATED);

#define SAME_ATTRIBUTE(ours, theirs) SAME(TN_CU_ATTR_##ours, CU_DEVICE_ATTRIBUTE_##theirs)
SAME_ATTRIBUTE(MAX_THREADS_PER_BLOCK, MAX_THREADS_PER_BLOCK);
SAME_ATTRIBUTE(WARP_SIZE, WARP_SIZE);
SAME_ATTRIBUTE(MULTIPROCESSOR_COUNT, MULTIPROCESSOR_COUNT);
SAME_ATTRIBUTE(UNIFIED_ADDRESSING, UNIFIED_ADDRESSING);
SAME_ATTRIBUTE(COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MAJOR);
SAME_ATTRIBUTE(COMPUTE_CAPABILITY_MINOR, COMPUTE_CAPABILITY_MINOR);
SAME_ATTRIBUTE(VMM_SUPPORTED, VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME_ATTRIBUTE(HANDLE_TYPE_POSIX_FD_SUPPORTED, HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME_ATTRIBUTE(GPU_DIRECT_RDMA_WITH_VMM_SUPPORTED, GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
SAME_ATTRIBUTE(MEMORY_POOLS_SUPPORTED, MEMORY_POOLS_SUPPORTED);

#define SAME_POINTER(ours, theirs) SAME(TN_CU_POINTER_##ours, CU_POINTER_ATTRIBUTE_##theirs)
SAME_POINTER(CONTEXT, CONTEXT);
SAME_POINTER(MEMORY_TYPE, MEMORY_TYPE);
SAME_POINTER(DEVICE_POINTER, DEVICE_POINTER);
SAME_POINTER(HOST_POINTER, HOST_POINTER);
SAME_POINTER(BUFFER_ID, BUFFER_ID);
SAME_POINTER(IS_MANAGED, IS_MANAGED);
SAME_POINTER(DEVICE_ORDINAL, DEVICE_ORDINAL);
SAME_POINTER(RANGE_START, RANGE_START_ADDR);
SAME_POINTER(RANGE_SIZE, RANGE_SIZE);
SAME_POINTER(MAPPED, MAPPED);
SAME_POINTER(ACCESS_FLAGS, ACCESS_FLAGS);
SAME_POINTER(MAPPING_SIZE, MAPPING_SIZE);
SAME_POINTER(MAPPING_BASE, MAPPING_BASE_ADDR);
SAME_POINTER(MEMORY_BLOCK_ID, MEMORY_BLOCK_ID);

SAME(TN_CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST);
SAME(TN_CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE);
SAME(TN_CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(TN_CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(TN_CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST);
SAME(TN_CU_MEM_LOCATION_TYPE_HOST_NUMA, CU_MEM_LOCATION_TYPE_HOST_NUMA);
SAME(TN_CU_MEM_HANDLE_TYPE_NONE, CU_MEM_HANDLE_TYPE_NONE);
SAME(TN_CU_MEM_HANDLE_TYPE_POSIX_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(TN_CU_MEM_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME(TN_CU_MEM_GRANULARITY_RECOMMENDED, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SAME(TN_CU_MEM_ACCESS_NONE, CU_MEM_ACCESS_FLAGS_PROT_NONE);
SAME(TN_CU_MEM_ACCESS_READ, CU_MEM_ACCESS_FLAGS_PROT_READ);
SAME(TN_CU_MEM_ACCESS_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(TN_CU_POOL_ATTR_RELEASE_THRESHOLD, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);

SAME(TN_CU_NODE_KERNEL, CU_GRAPH_NODE_TYPE_KERNEL);
SAME(TN_CU_NODE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMCPY);
SAME(TN_CU_NODE_MEMSET, CU_GRAPH_NODE_TYPE_MEMSET);
SAME(TN_CU_NODE_HOST, CU_GRAPH_NODE_TYPE_HOST);
SAME(TN_CU_NODE_GRAPH, CU_GRAPH_NODE_TYPE_GRAPH);
SAME(TN_CU_NODE_EMPTY, CU_GRAPH_NODE_TYPE_EMPTY);

/* Constants of pointer type are no constant expressions in ISO C; compilers know them all the
 * same. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#define SAME_POINTER_VALUE(ours, theirs) SAME((uintptr_t)(ours), (uintptr_t)(theirs))
SAME_POINTER_VALUE(TN_CU_STREAM_LEGACY, CU_STREAM_LEGACY);
SAME_POINTER_VALUE(TN_CU_STREAM_PER_THREAD, CU_STREAM_PER_THREAD);
SAME_POINTER_VALUE(TN_CU_LAUNCH_PARAM_END, CU_LAUNCH_PARAM_END);
SAME_POINTER_VALUE(TN_CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_POINTER);
SAME_POINTER_VALUE(TN_CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_BUFFER_SIZE);
#pragma GCC diagnostic pop

/* -- Layouts -- */

#define SAME_SIZE(ours, theirs)                                                                    \
    _Static_assert(sizeof(ours) == sizeof(theirs) && _Alignof(ours) == _Alignof(theirs),           \
                   #ours " has another size or alignment than " #theirs)
#define SAME_MEMBER(ours, our_member, theirs, their_member)                                        \
    _Static_assert(offsetof(ours, our_member) == offsetof(theirs, their_member) &&                 \
                       sizeof(((ours *)0)->our_member) == sizeof(((theirs *)0)->their_member),     \
                   #ours "." #our_member " differs from " #theirs "." #their_member)

SAME_SIZE(tn_cu_location, CUmemLocation);
SAME_MEMBER(tn_cu_location, type, CUmemLocation, type);
SAME_MEMBER(tn_cu_location, id, CUmemLocation, id);

#define SAME_PROP(ours, theirs)                                                                    \
    SAME_MEMBER(tn_cu_allocation_prop, ours, CUmemAllocationProp, theirs)
SAME_SIZE(tn_cu_allocation_prop, CUmemAllocationProp);
SAME_PROP(type, type);
SAME_PROP(requested_handle_types, requestedHandleTypes);
SAME_PROP(location, location);
SAME_PROP(win32_metadata, win32HandleMetaData);
SAME_PROP(alloc_flags, allocFlags);
SAME_PROP(alloc_flags.compression_type, allocFlags.compressionType);
SAME_PROP(alloc_flags.gpu_direct_rdma_capable, allocFlags.gpuDirectRDMACapable);
SAME_PROP(alloc_flags.usage, allocFlags.usage);
SAME_PROP(alloc_flags.reserved, allocFlags.reserved);

SAME_SIZE(tn_cu_access_desc, CUmemAccessDesc);
SAME_MEMBER(tn_cu_access_desc, location, CUmemAccessDesc, location);
SAME_MEMBER(tn_cu_access_desc, flags, CUmemAccessDesc, flags);

SAME_SIZE(tn_cu_edge_data, CUgraphEdgeData);
SAME_MEMBER(tn_cu_edge_data, from_port, CUgraphEdgeData, from_port);
SAME_MEMBER(tn_cu_edge_data, to_port, CUgraphEdgeData, to_port);
SAME_MEMBER(tn_cu_edge_data, type, CUgraphEdgeData, type);
SAME_MEMBER(tn_cu_edge_data, reserved, CUgraphEdgeData, reserved);

#define SAME_KERNEL(ours, theirs)                                                                  \
    SAME_MEMBER(tn_cu_kernel_node_params, ours, CUDA_KERNEL_NODE_PARAMS_v2, theirs)
SAME_SIZE(tn_cu_kernel_node_params, CUDA_KERNEL_NODE_PARAMS_v2);
SAME_KERNEL(func, func);
SAME_KERNEL(grid_x, gridDimX);
SAME_KERNEL(grid_y, gridDimY);
SAME_KERNEL(grid_z, gridDimZ);
SAME_KERNEL(block_x, blockDimX);
SAME_KERNEL(block_y, blockDimY);
SAME_KERNEL(block_z, blockDimZ);
SAME_KERNEL(shared_bytes, sharedMemBytes);
SAME_KERNEL(kernel_params, kernelParams);
SAME_KERNEL(extra, extra);
SAME_KERNEL(kern, kern);
SAME_KERNEL(ctx, ctx);

SAME_SIZE(tn_cu_result, CUresult);
SAME_SIZE(tn_cu_proc_status, CUdriverProcAddressQueryResult);
SAME_SIZE(tn_cu_capture_mode, CUstreamCaptureMode);
SAME_SIZE(tn_cu_capture_status, CUstreamCaptureStatus);
SAME_SIZE(tn_cu_device_attribute, CUdevice_attribute);
SAME_SIZE(tn_cu_pointer_attribute, CUpointer_attribute);
SAME_SIZE(tn_cu_graphnode_type, CUgraphNodeType);
SAME_SIZE(int, CUmemAllocationGranularity_flags);
SAME_SIZE(int, CUmemPool_attribute);

/* Handles are the toolkit's very types. */
#define SAME_TYPE(ours, theirs)                                                                    \
    _Static_assert(__builtin_types_compatible_p(ours, theirs), #ours " is not " #theirs)
SAME_TYPE(tn_cu_device, CUdevice);
SAME_TYPE(tn_cu_deviceptr, CUdeviceptr);
SAME_TYPE(tn_cu_memhandle, CUmemGenericAllocationHandle);
SAME_TYPE(tn_cu_context, CUcontext);
SAME_TYPE(tn_cu_stream, CUstream);
SAME_TYPE(tn_cu_event, CUevent);
SAME_TYPE(tn_cu_module, CUmodule);
SAME_TYPE(tn_cu_function, CUfunction);
SAME_TYPE(tn_cu_kernel, CUkernel);
SAME_TYPE(tn_cu_graph, CUgraph);
SAME_TYPE(tn_cu_graphnode, CUgraphNode);
SAME_TYPE(tn_cu_graphexec, CUgraphExec);
SAME_TYPE(tn_cu_userobject, CUuserObject);
SAME_TYPE(tn_cu_mempool, CUmemoryPool);
SAME_TYPE(tn_cu_hostfn, CUhostFn);

/* -- Functions -- */

/* Enumerations and structs of two names are never compatible in C, so from here on ours stand for
 * the toolkit's; that they look the same was asserted above. */
#define tn_cu_result CUresult
#define tn_cu_proc_status CUdriverProcAddressQueryResult
#define tn_cu_capture_mode CUstreamCaptureMode
#define tn_cu_capture_status CUstreamCaptureStatus
#define tn_cu_device_attribute CUdevice_attribute
#define tn_cu_pointer_attribute CUpointer_attribute
#define tn_cu_graphnode_type CUgraphNodeType
#define tn_cu_location CUmemLocation
#define tn_cu_allocation_prop CUmemAllocationProp
#define tn_cu_access_desc CUmemAccessDesc
#define tn_cu_edge_data CUgraphEdgeData
#define tn_cu_kernel_node_params CUDA_KERNEL_NODE_PARAMS_v2

#include "abi/functions.h"

/* Two rows take an int where the toolkit has an enumeration; int has its size. These are the
 * toolkit's types with int in that place. */
typedef __typeof__(CUresult(*)(size_t *, const CUmemAllocationProp *,
                               CUmemAllocationGranularity_flags)) granularity_function;
typedef __typeof__(CUresult(*)(CUmemoryPool, CUmemPool_attribute, void *)) pool_attribute_function;
SAME_TYPE(granularity_function, PFN_cuMemGetAllocationGranularity_v10020);
SAME_TYPE(tn_pfn_cuMemGetAllocationGranularity,
          CUresult (*)(size_t *, const CUmemAllocationProp *, int));
SAME_TYPE(pool_attribute_function, PFN_cuMemPoolSetAttribute_v11020);
SAME_TYPE(tn_pfn_cuMemPoolSetAttribute, CUresult (*)(CUmemoryPool, int, void *));

#define TAKES_INT(type)                                                                            \
    (__builtin_types_compatible_p(type, tn_pfn_cuMemGetAllocationGranularity) ||                   \
     __builtin_types_compatible_p(type, tn_pfn_cuMemPoolSetAttribute))
#define SAME_FUNCTION(name, symbol, version, parameters, names)                                    \
    _Static_assert(TAKES_INT(tn_pfn_##name) ||                                                     \
                       (__builtin_types_compatible_p(tn_pfn_##name, PFN_##name##_v##version) &&    \
                        __builtin_types_compatible_p(tn_pfn_##name, __typeof__(&symbol))),         \
                   #name " has another signature than the toolkit's of version " #version);

TN_CUDA_LIBRARY_FUNCTIONS(SAME_FUNCTION)
TN_CUDA_PROGRAM_FUNCTIONS(SAME_FUNCTION)
TN_CUDA_RIVAL_FUNCTIONS(SAME_FUNCTION)
