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
SAME(TN_CU_GRAPH_INSTANTIATE_UPLOAD, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
SAME(TN_CU_GRAPH_INSTANTIATE_DEVICE_LAUNCH, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH);
SAME(TN_CU_GRAPH_COND_ASSIGN_DEFAULT, CU_GRAPH_COND_ASSIGN_DEFAULT);
SAME(TN_CU_CAPTURE_DEPENDENCIES_ADD, CU_STREAM_ADD_CAPTURE_DEPENDENCIES);
SAME(TN_CU_CAPTURE_DEPENDENCIES_SET, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
SAME(TN_CU_EVENT_RECORD_EXTERNAL, CU_EVENT_RECORD_EXTERNAL);
SAME(TN_CU_EVENT_WAIT_EXTERNAL, CU_EVENT_WAIT_EXTERNAL);
SAME(TN_CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(TN_CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(TN_CU_MEMHOSTALLOC_WRITECOMBINED, CU_MEMHOSTALLOC_WRITECOMBINED);
SAME(TN_CU_MEMHOSTREGISTER_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
SAME(TN_CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_DEVICEMAP);
SAME(TN_CU_MEMHOSTREGISTER_IOMEMORY, CU_MEMHOSTREGISTER_IOMEMORY);
SAME(TN_CU_MEMHOSTREGISTER_READ_ONLY, CU_MEMHOSTREGISTER_READ_ONLY);
SAME(TN_CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
SAME(TN_CU_STREAM_MEM_OP_WAIT_VALUE_32, CU_STREAM_MEM_OP_WAIT_VALUE_32);
SAME(TN_CU_STREAM_MEM_OP_WRITE_VALUE_32, CU_STREAM_MEM_OP_WRITE_VALUE_32);
SAME(TN_CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES, CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES);
SAME(TN_CU_STREAM_MEM_OP_WAIT_VALUE_64, CU_STREAM_MEM_OP_WAIT_VALUE_64);
SAME(TN_CU_STREAM_MEM_OP_WRITE_VALUE_64, CU_STREAM_MEM_OP_WRITE_VALUE_64);
SAME(TN_CU_STREAM_MEM_OP_BARRIER, CU_STREAM_MEM_OP_BARRIER);
SAME(TN_CU_STREAM_WAIT_VALUE_GEQ, CU_STREAM_WAIT_VALUE_GEQ);
SAME(TN_CU_STREAM_WAIT_VALUE_EQ, CU_STREAM_WAIT_VALUE_EQ);
SAME(TN_CU_STREAM_WAIT_VALUE_AND, CU_STREAM_WAIT_VALUE_AND);
SAME(TN_CU_STREAM_WAIT_VALUE_NOR, CU_STREAM_WAIT_VALUE_NOR);
SAME(TN_CU_STREAM_WAIT_VALUE_FLUSH, CU_STREAM_WAIT_VALUE_FLUSH);
SAME(TN_CU_STREAM_WRITE_VALUE_DEFAULT, CU_STREAM_WRITE_VALUE_DEFAULT);
SAME(TN_CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER);
SAME(TN_CU_STREAM_MEMORY_BARRIER_TYPE_SYS, CU_STREAM_MEMORY_BARRIER_TYPE_SYS);
SAME(TN_CU_STREAM_MEMORY_BARRIER_TYPE_GPU, CU_STREAM_MEMORY_BARRIER_TYPE_GPU);

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
SAME_ATTRIBUTE(PCI_BUS_ID, PCI_BUS_ID);
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
SAME_ATTRIBUTE(PAGEABLE_MEMORY_ACCESS, PAGEABLE_MEMORY_ACCESS);
SAME_ATTRIBUTE(CAN_FLUSH_REMOTE_WRITES, CAN_FLUSH_REMOTE_WRITES);
SAME_ATTRIBUTE(HOST_POINTER_FOR_REGISTERED, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
SAME_ATTRIBUTE(HOST_REGISTER_SUPPORTED, HOST_REGISTER_SUPPORTED);
SAME_ATTRIBUTE(GENERIC_COMPRESSION_SUPPORTED, GENERIC_COMPRESSION_SUPPORTED);
SAME_ATTRIBUTE(MEMPOOL_HANDLE_TYPES, MEMPOOL_SUPPORTED_HANDLE_TYPES);
SAME_ATTRIBUTE(CAN_USE_64_BIT_STREAM_MEM_OPS, CAN_USE_64_BIT_STREAM_MEM_OPS);
SAME_ATTRIBUTE(CAN_USE_STREAM_WAIT_VALUE_NOR, CAN_USE_STREAM_WAIT_VALUE_NOR);
SAME_ATTRIBUTE(DMA_BUF_SUPPORTED, DMA_BUF_SUPPORTED);
SAME_ATTRIBUTE(IPC_EVENT_SUPPORTED, IPC_EVENT_SUPPORTED);
SAME_ATTRIBUTE(HANDLE_TYPE_FABRIC_SUPPORTED, HANDLE_TYPE_FABRIC_SUPPORTED);
SAME_ATTRIBUTE(HOST_NUMA_ID, HOST_NUMA_ID);
SAME_ATTRIBUTE(HOST_NUMA_VMM_SUPPORTED, HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME_ATTRIBUTE(HOST_VMM_SUPPORTED, HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);

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
SAME_POINTER(SYNC_MEMOPS, SYNC_MEMOPS);
SAME_POINTER(LEGACY_IPC_CAPABLE, IS_LEGACY_CUDA_IPC_CAPABLE);
SAME_POINTER(ALLOWED_HANDLE_TYPES, ALLOWED_HANDLE_TYPES);
SAME_POINTER(RDMA_CAPABLE, IS_GPU_DIRECT_RDMA_CAPABLE);
SAME_POINTER(MEMPOOL_HANDLE, MEMPOOL_HANDLE);

SAME(TN_CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST);
SAME(TN_CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE);
SAME(TN_CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED);
SAME(TN_CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(TN_CU_MEM_ALLOCATION_TYPE_MANAGED, CU_MEM_ALLOCATION_TYPE_MANAGED);
SAME(TN_CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(TN_CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST);
SAME(TN_CU_MEM_LOCATION_TYPE_HOST_NUMA, CU_MEM_LOCATION_TYPE_HOST_NUMA);
SAME(TN_CU_MEM_HANDLE_TYPE_NONE, CU_MEM_HANDLE_TYPE_NONE);
SAME(TN_CU_MEM_HANDLE_TYPE_POSIX_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(TN_CU_MEM_HANDLE_TYPE_WIN32, CU_MEM_HANDLE_TYPE_WIN32);
SAME(TN_CU_MEM_HANDLE_TYPE_FABRIC, CU_MEM_HANDLE_TYPE_FABRIC);
SAME(TN_CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
SAME(TN_CU_MEM_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME(TN_CU_MEM_GRANULARITY_RECOMMENDED, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SAME(TN_CU_MEM_ACCESS_NONE, CU_MEM_ACCESS_FLAGS_PROT_NONE);
SAME(TN_CU_MEM_ACCESS_READ, CU_MEM_ACCESS_FLAGS_PROT_READ);
SAME(TN_CU_MEM_ACCESS_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

#define SAME_POOL(ours, theirs) SAME(TN_CU_POOL_ATTR_##ours, CU_MEMPOOL_ATTR_##theirs)
SAME_POOL(REUSE_FOLLOW_EVENTS, REUSE_FOLLOW_EVENT_DEPENDENCIES);
SAME_POOL(REUSE_OPPORTUNISTIC, REUSE_ALLOW_OPPORTUNISTIC);
SAME_POOL(REUSE_INTERNAL, REUSE_ALLOW_INTERNAL_DEPENDENCIES);
SAME_POOL(RELEASE_THRESHOLD, RELEASE_THRESHOLD);
SAME_POOL(RESERVED_CURRENT, RESERVED_MEM_CURRENT);
SAME_POOL(RESERVED_HIGH, RESERVED_MEM_HIGH);
SAME_POOL(USED_CURRENT, USED_MEM_CURRENT);
SAME_POOL(USED_HIGH, USED_MEM_HIGH);
SAME(TN_CU_GRAPH_MEM_USED_CURRENT, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT);
SAME(TN_CU_GRAPH_MEM_USED_HIGH, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH);
SAME(TN_CU_GRAPH_MEM_RESERVED_CURRENT, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
SAME(TN_CU_GRAPH_MEM_RESERVED_HIGH, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH);

SAME(TN_CU_NODE_KERNEL, CU_GRAPH_NODE_TYPE_KERNEL);
SAME(TN_CU_NODE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMCPY);
SAME(TN_CU_NODE_MEMSET, CU_GRAPH_NODE_TYPE_MEMSET);
SAME(TN_CU_NODE_HOST, CU_GRAPH_NODE_TYPE_HOST);
SAME(TN_CU_NODE_GRAPH, CU_GRAPH_NODE_TYPE_GRAPH);
SAME(TN_CU_NODE_EMPTY, CU_GRAPH_NODE_TYPE_EMPTY);
SAME(TN_CU_NODE_WAIT_EVENT, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
SAME(TN_CU_NODE_EVENT_RECORD, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
SAME(TN_CU_NODE_EXT_SEMAS_SIGNAL, CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL);
SAME(TN_CU_NODE_EXT_SEMAS_WAIT, CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT);
SAME(TN_CU_NODE_MEM_ALLOC, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
SAME(TN_CU_NODE_MEM_FREE, CU_GRAPH_NODE_TYPE_MEM_FREE);
SAME(TN_CU_NODE_BATCH_MEM_OP, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
SAME(TN_CU_NODE_CONDITIONAL, CU_GRAPH_NODE_TYPE_CONDITIONAL);

SAME(TN_CU_GRAPH_COND_IF, CU_GRAPH_COND_TYPE_IF);
SAME(TN_CU_GRAPH_COND_WHILE, CU_GRAPH_COND_TYPE_WHILE);
SAME(TN_CU_GRAPH_COND_SWITCH, CU_GRAPH_COND_TYPE_SWITCH);

#define SAME_UPDATE(ours, theirs) SAME(TN_CU_GRAPH_UPDATE_##ours, CU_GRAPH_EXEC_UPDATE_##theirs)
SAME_UPDATE(SUCCESS, SUCCESS);
SAME_UPDATE(ERROR, ERROR);
SAME_UPDATE(TOPOLOGY_CHANGED, ERROR_TOPOLOGY_CHANGED);
SAME_UPDATE(NODE_TYPE_CHANGED, ERROR_NODE_TYPE_CHANGED);
SAME_UPDATE(FUNCTION_CHANGED, ERROR_FUNCTION_CHANGED);
SAME_UPDATE(PARAMETERS_CHANGED, ERROR_PARAMETERS_CHANGED);
SAME_UPDATE(NOT_SUPPORTED, ERROR_NOT_SUPPORTED);
SAME_UPDATE(UNSUPPORTED_FUNCTION, ERROR_UNSUPPORTED_FUNCTION_CHANGE);
SAME_UPDATE(ATTRIBUTES_CHANGED, ERROR_ATTRIBUTES_CHANGED);

SAME(TN_CU_PROCESS_RUNNING, CU_PROCESS_STATE_RUNNING);
SAME(TN_CU_PROCESS_LOCKED, CU_PROCESS_STATE_LOCKED);
SAME(TN_CU_PROCESS_CHECKPOINTED, CU_PROCESS_STATE_CHECKPOINTED);
SAME(TN_CU_PROCESS_FAILED, CU_PROCESS_STATE_FAILED);

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

SAME_SIZE(tn_cu_uuid, CUuuid);
SAME_SIZE(tn_cu_ipc_handle, CUipcMemHandle);

#define SAME_COPY3D(ours, theirs) SAME_MEMBER(tn_cu_memcpy3d, ours, CUDA_MEMCPY3D_v2, theirs)
SAME_SIZE(tn_cu_memcpy3d, CUDA_MEMCPY3D_v2);
SAME_COPY3D(src_x, srcXInBytes);
SAME_COPY3D(src_y, srcY);
SAME_COPY3D(src_z, srcZ);
SAME_COPY3D(src_lod, srcLOD);
SAME_COPY3D(src_type, srcMemoryType);
SAME_COPY3D(src_host, srcHost);
SAME_COPY3D(src_device, srcDevice);
SAME_COPY3D(src_array, srcArray);
SAME_COPY3D(reserved0, reserved0);
SAME_COPY3D(src_pitch, srcPitch);
SAME_COPY3D(src_height, srcHeight);
SAME_COPY3D(dst_x, dstXInBytes);
SAME_COPY3D(dst_y, dstY);
SAME_COPY3D(dst_z, dstZ);
SAME_COPY3D(dst_lod, dstLOD);
SAME_COPY3D(dst_type, dstMemoryType);
SAME_COPY3D(dst_host, dstHost);
SAME_COPY3D(dst_device, dstDevice);
SAME_COPY3D(dst_array, dstArray);
SAME_COPY3D(reserved1, reserved1);
SAME_COPY3D(dst_pitch, dstPitch);
SAME_COPY3D(dst_height, dstHeight);
SAME_COPY3D(width, WidthInBytes);
SAME_COPY3D(height, Height);
SAME_COPY3D(depth, Depth);

#define SAME_COPY(ours, theirs)                                                                    \
    SAME_MEMBER(tn_cu_memcpy_node_params, ours, CUDA_MEMCPY_NODE_PARAMS, theirs)
SAME_SIZE(tn_cu_memcpy_node_params, CUDA_MEMCPY_NODE_PARAMS);
SAME_COPY(flags, flags);
SAME_COPY(reserved, reserved);
SAME_COPY(ctx, copyCtx);
SAME_COPY(copy, copyParams);

#define SAME_SET(ours, theirs)                                                                     \
    SAME_MEMBER(tn_cu_memset_node_params, ours, CUDA_MEMSET_NODE_PARAMS_v1, theirs)
SAME_SIZE(tn_cu_memset_node_params, CUDA_MEMSET_NODE_PARAMS_v1);
SAME_SET(dst, dst);
SAME_SET(pitch, pitch);
SAME_SET(value, value);
SAME_SET(element_bytes, elementSize);
SAME_SET(width, width);
SAME_SET(height, height);

SAME_SIZE(tn_cu_memset_node_params_v2, CUDA_MEMSET_NODE_PARAMS_v2);
SAME_MEMBER(tn_cu_memset_node_params_v2, ctx, CUDA_MEMSET_NODE_PARAMS_v2, ctx);

#define SAME_HOST(ours, theirs)                                                                    \
    SAME_MEMBER(tn_cu_host_node_params, ours, CUDA_HOST_NODE_PARAMS_v1, theirs)
SAME_SIZE(tn_cu_host_node_params, CUDA_HOST_NODE_PARAMS_v1);
SAME_HOST(function, fn);
SAME_HOST(user, userData);

#define SAME_CHILD(ours, theirs)                                                                   \
    SAME_MEMBER(tn_cu_child_node_params, ours, CUDA_CHILD_GRAPH_NODE_PARAMS, theirs)
SAME_SIZE(tn_cu_child_node_params, CUDA_CHILD_GRAPH_NODE_PARAMS);
SAME_CHILD(graph, graph);
SAME_CHILD(ownership, ownership);

#define SAME_POOL_PROP(ours, theirs) SAME_MEMBER(tn_cu_pool_props, ours, CUmemPoolProps_v1, theirs)
SAME_SIZE(tn_cu_pool_props, CUmemPoolProps_v1);
SAME_POOL_PROP(type, allocType);
SAME_POOL_PROP(handle_types, handleTypes);
SAME_POOL_PROP(location, location);
SAME_POOL_PROP(win32_attributes, win32SecurityAttributes);
SAME_POOL_PROP(max_bytes, maxSize);
SAME_POOL_PROP(usage, usage);
SAME_POOL_PROP(reserved, reserved);

#define SAME_ALLOC(ours, theirs)                                                                   \
    SAME_MEMBER(tn_cu_alloc_node_params, ours, CUDA_MEM_ALLOC_NODE_PARAMS_v1, theirs)
SAME_SIZE(tn_cu_alloc_node_params, CUDA_MEM_ALLOC_NODE_PARAMS_v1);
SAME_ALLOC(pool_props, poolProps);
SAME_ALLOC(access, accessDescs);
SAME_ALLOC(access_count, accessDescCount);
SAME_ALLOC(bytes, bytesize);
SAME_ALLOC(address, dptr);

#define SAME_CONDITIONAL(ours, theirs)                                                             \
    SAME_MEMBER(tn_cu_conditional_node_params, ours, CUDA_CONDITIONAL_NODE_PARAMS, theirs)
SAME_SIZE(tn_cu_conditional_node_params, CUDA_CONDITIONAL_NODE_PARAMS);
SAME_CONDITIONAL(handle, handle);
SAME_CONDITIONAL(type, type);
SAME_CONDITIONAL(size, size);
SAME_CONDITIONAL(bodies, phGraph_out);
SAME_CONDITIONAL(ctx, ctx);

#define SAME_BATCH_OP(ours, theirs)                                                                \
    SAME_MEMBER(tn_cu_batch_op, ours, CUstreamBatchMemOpParams_v1, theirs)
SAME_SIZE(tn_cu_batch_op, CUstreamBatchMemOpParams_v1);
SAME_BATCH_OP(operation, operation);
SAME_BATCH_OP(value.operation, writeValue.operation);
SAME_BATCH_OP(value.address, writeValue.address);
SAME_BATCH_OP(value.value, writeValue.value64);
SAME_BATCH_OP(value.flags, writeValue.flags);
SAME_BATCH_OP(value.alias, writeValue.alias);
SAME_BATCH_OP(value.operation, waitValue.operation);
SAME_BATCH_OP(value.address, waitValue.address);
SAME_BATCH_OP(value.value, waitValue.value64);
SAME_BATCH_OP(value.flags, waitValue.flags);
SAME_BATCH_OP(value.alias, waitValue.alias);
SAME_BATCH_OP(barrier.operation, memoryBarrier.operation);
SAME_BATCH_OP(barrier.flags, memoryBarrier.flags);
SAME_BATCH_OP(barrier.operation, flushRemoteWrites.operation);
SAME_BATCH_OP(barrier.flags, flushRemoteWrites.flags);

#define SAME_BATCH(ours, theirs)                                                                   \
    SAME_MEMBER(tn_cu_batch_node_params, ours, CUDA_BATCH_MEM_OP_NODE_PARAMS_v1, theirs)
SAME_SIZE(tn_cu_batch_node_params, CUDA_BATCH_MEM_OP_NODE_PARAMS_v1);
SAME_BATCH(ctx, ctx);
SAME_BATCH(count, count);
SAME_BATCH(ops, paramArray);
SAME_BATCH(flags, flags);

#define SAME_NODE(ours, theirs) SAME_MEMBER(tn_cu_node_params, ours, CUgraphNodeParams, theirs)
SAME_SIZE(tn_cu_node_params, CUgraphNodeParams);
SAME_NODE(type, type);
SAME_NODE(reserved0, reserved0);
SAME_NODE(kernel, kernel);
SAME_NODE(memcpy, memcpy);
SAME_NODE(memset, memset);
SAME_NODE(host, host);
SAME_NODE(child, graph);
SAME_NODE(event, eventWait);
SAME_NODE(alloc, alloc);
SAME_NODE(free, free);
SAME_NODE(conditional, conditional);
SAME_NODE(batch, memOp);
SAME_NODE(reserved2, reserved2);

#define SAME_INSTANTIATE(ours, theirs)                                                             \
    SAME_MEMBER(tn_cu_instantiate_params, ours, CUDA_GRAPH_INSTANTIATE_PARAMS, theirs)
SAME_SIZE(tn_cu_instantiate_params, CUDA_GRAPH_INSTANTIATE_PARAMS);
SAME_INSTANTIATE(flags, flags);
SAME_INSTANTIATE(upload_stream, hUploadStream);
SAME_INSTANTIATE(failed_node, hErrNode_out);
SAME_INSTANTIATE(result, result_out);

#define SAME_UPDATE_INFO(ours, theirs)                                                             \
    SAME_MEMBER(tn_cu_update_result_info, ours, CUgraphExecUpdateResultInfo_v1, theirs)
SAME_SIZE(tn_cu_update_result_info, CUgraphExecUpdateResultInfo_v1);
SAME_UPDATE_INFO(result, result);
SAME_UPDATE_INFO(node, errorNode);
SAME_UPDATE_INFO(from_node, errorFromNode);

#define SAME_CONFIG(ours, theirs) SAME_MEMBER(tn_cu_launch_config, ours, CUlaunchConfig, theirs)
SAME_SIZE(tn_cu_launch_config, CUlaunchConfig);
SAME_CONFIG(grid_x, gridDimX);
SAME_CONFIG(grid_y, gridDimY);
SAME_CONFIG(grid_z, gridDimZ);
SAME_CONFIG(block_x, blockDimX);
SAME_CONFIG(block_y, blockDimY);
SAME_CONFIG(block_z, blockDimZ);
SAME_CONFIG(shared_bytes, sharedMemBytes);
SAME_CONFIG(stream, hStream);
SAME_CONFIG(attributes, attrs);
SAME_CONFIG(attribute_count, numAttrs);

#define SAME_COPY_ATTRIBUTES(ours, theirs)                                                         \
    SAME_MEMBER(tn_cu_memcpy_attributes, ours, CUmemcpyAttributes_v1, theirs)
SAME_SIZE(tn_cu_memcpy_attributes, CUmemcpyAttributes_v1);
SAME_COPY_ATTRIBUTES(source_order, srcAccessOrder);
SAME_COPY_ATTRIBUTES(source_hint, srcLocHint);
SAME_COPY_ATTRIBUTES(destination_hint, dstLocHint);
SAME_COPY_ATTRIBUTES(flags, flags);

SAME_SIZE(tn_cu_result, CUresult);
SAME_SIZE(tn_cu_proc_status, CUdriverProcAddressQueryResult);
SAME_SIZE(tn_cu_capture_mode, CUstreamCaptureMode);
SAME_SIZE(tn_cu_capture_status, CUstreamCaptureStatus);
SAME_SIZE(tn_cu_device_attribute, CUdevice_attribute);
SAME_SIZE(tn_cu_pointer_attribute, CUpointer_attribute);
SAME_SIZE(tn_cu_graphnode_type, CUgraphNodeType);
SAME_SIZE(int, CUmemAllocationGranularity_flags);
SAME_SIZE(int, CUjit_option);
SAME_SIZE(int, CUlibraryOption);
SAME_SIZE(tn_cu_pool_attribute, CUmemPool_attribute);
SAME_SIZE(tn_cu_graph_mem_attribute, CUgraphMem_attribute);
SAME_SIZE(tn_cu_handle_type, CUmemAllocationHandleType);
SAME_SIZE(tn_cu_range_handle_type, CUmemRangeHandleType);
SAME_SIZE(tn_cu_conditional_type, CUgraphConditionalNodeType);
SAME_SIZE(tn_cu_update_result, CUgraphExecUpdateResult);
SAME_SIZE(tn_cu_process_state, CUprocessState);

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
SAME_TYPE(tn_cu_library, CUlibrary);
SAME_TYPE(tn_cu_conditional, CUgraphConditionalHandle);
SAME_TYPE(tn_cu_checkpoint_lock_args, CUcheckpointLockArgs);

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
#define tn_cu_stream_callback CUstreamCallback
#define tn_cu_handle_type CUmemAllocationHandleType
#define tn_cu_range_handle_type CUmemRangeHandleType
#define tn_cu_uuid CUuuid
#define tn_cu_ipc_handle CUipcMemHandle
#define tn_cu_memcpy3d CUDA_MEMCPY3D_v2
#define tn_cu_memset_node_params CUDA_MEMSET_NODE_PARAMS_v1
#define tn_cu_host_node_params CUDA_HOST_NODE_PARAMS_v1
#define tn_cu_pool_props CUmemPoolProps_v1
#define tn_cu_alloc_node_params CUDA_MEM_ALLOC_NODE_PARAMS_v1
#define tn_cu_batch_op CUstreamBatchMemOpParams_v1
#define tn_cu_batch_node_params CUDA_BATCH_MEM_OP_NODE_PARAMS_v1
#define tn_cu_node_params CUgraphNodeParams
#define tn_cu_instantiate_params CUDA_GRAPH_INSTANTIATE_PARAMS
#define tn_cu_update_result_info CUgraphExecUpdateResultInfo_v1
#define tn_cu_launch_config CUlaunchConfig
#define tn_cu_memcpy_attributes CUmemcpyAttributes_v1
#define tn_cu_pool_attribute CUmemPool_attribute
#define tn_cu_graph_mem_attribute CUgraphMem_attribute
#define tn_cu_process_state CUprocessState

#include "abi/functions.h"

/* Two rows take an int where the toolkit has an enumeration; int has its size. These are the
 * toolkit's types with int in that place. */
typedef __typeof__(CUresult(*)(size_t *, const CUmemAllocationProp *,
                               CUmemAllocationGranularity_flags)) granularity_function;
SAME_TYPE(granularity_function, PFN_cuMemGetAllocationGranularity_v10020);
SAME_TYPE(tn_pfn_cuMemGetAllocationGranularity,
          CUresult (*)(size_t *, const CUmemAllocationProp *, int));
typedef __typeof__(CUresult(*)(CUlibrary *, const void *, CUjit_option *, void **, unsigned int,
                               CUlibraryOption *, void **, unsigned int)) load_function;
SAME_TYPE(load_function, PFN_cuLibraryLoadData_v12000);
SAME_TYPE(tn_pfn_cuLibraryLoadData, CUresult (*)(CUlibrary *, const void *, int *, void **,
                                                 unsigned int, int *, void **, unsigned int));

/* The declared function of a row's symbol is compared too, where cuda.h declares that symbol: names
 * with a suffix it makes by macros of its own, some of which lead to later versions. */
#define TAKES_INT(type)                                                                            \
    (__builtin_types_compatible_p(type, tn_pfn_cuMemGetAllocationGranularity) ||                   \
     __builtin_types_compatible_p(type, tn_pfn_cuLibraryLoadData))
#define SAME_FUNCTION(name, symbol, version, parameters, names)                                    \
    _Static_assert(TAKES_INT(tn_pfn_##name) ||                                                     \
                       __builtin_types_compatible_p(tn_pfn_##name, PFN_##name##_v##version),       \
                   #name " has another signature than the toolkit's of version " #version);
TN_CUDA_ALL_FUNCTIONS(SAME_FUNCTION)

#define SAME_VERSION(own, name, symbol, version, parameters, names)                                \
    _Static_assert(__builtin_types_compatible_p(tn_pfn_##own, PFN_##name##_v##version), #own       \
                   " has another signature than the toolkit's " #name " of version " #version);
TN_CUDA_LIBRARY_VERSIONS(SAME_VERSION)

#define SAME_DECLARATION(name, symbol, version, parameters, names)                                 \
    _Static_assert(TAKES_INT(tn_pfn_##name) ||                                                     \
                       __builtin_types_compatible_p(tn_pfn_##name, __typeof__(&symbol)),           \
                   #symbol " is declared otherwise by the toolkit");
TN_CUDA_LIBRARY_FUNCTIONS(SAME_DECLARATION)
TN_CUDA_PROGRAM_FUNCTIONS(SAME_DECLARATION)
