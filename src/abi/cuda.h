// SPDX-License-Identifier: Apache-2.0
/* cuda.h -- the part of the CUDA driver's binary interface that Tarn uses.
 *
 * These are our own declarations, so that a machine without a CUDA toolkit builds everything.
 * Handle types name the driver's own struct tags: a tn_cu_stream is a CUstream and a cudaStream_t.
 * tests/abi/cuda_abi.c asserts, wherever a toolkit is installed, that every value, size and offset
 * here equals the toolkit's. Numbers are the driver's; their meaning is in its documentation.
 *
 * The functions themselves are listed in abi/functions.h. */
#ifndef TARN_ABI_CUDA_H
#define TARN_ABI_CUDA_H

#include <stddef.h>
#include <stdint.h>

/* Results of driver calls. The list makes the enumeration and the table of names. */
#define TN_CUDA_RESULTS(X)                                                                         \
    X(SUCCESS, 0)                                                                                  \
    X(ERROR_INVALID_VALUE, 1)                                                                      \
    X(ERROR_OUT_OF_MEMORY, 2)                                                                      \
    X(ERROR_NOT_INITIALIZED, 3)                                                                    \
    X(ERROR_DEINITIALIZED, 4)                                                                      \
    X(ERROR_STUB_LIBRARY, 34)                                                                      \
    X(ERROR_NO_DEVICE, 100)                                                                        \
    X(ERROR_INVALID_DEVICE, 101)                                                                   \
    X(ERROR_INVALID_IMAGE, 200)                                                                    \
    X(ERROR_INVALID_CONTEXT, 201)                                                                  \
    X(ERROR_NO_BINARY_FOR_GPU, 209)                                                                \
    X(ERROR_ECC_UNCORRECTABLE, 214)                                                                \
    X(ERROR_INVALID_PTX, 218)                                                                      \
    X(ERROR_NVLINK_UNCORRECTABLE, 220)                                                             \
    X(ERROR_CONTAINED, 226)                                                                        \
    X(ERROR_OPERATING_SYSTEM, 304)                                                                 \
    X(ERROR_INVALID_HANDLE, 400)                                                                   \
    X(ERROR_ILLEGAL_STATE, 401)                                                                    \
    X(ERROR_LOSSY_QUERY, 402)                                                                      \
    X(ERROR_NOT_FOUND, 500)                                                                        \
    X(ERROR_NOT_READY, 600)                                                                        \
    X(ERROR_ILLEGAL_ADDRESS, 700)                                                                  \
    X(ERROR_LAUNCH_OUT_OF_RESOURCES, 701)                                                          \
    X(ERROR_LAUNCH_TIMEOUT, 702)                                                                   \
    X(ERROR_CONTEXT_IS_DESTROYED, 709)                                                             \
    X(ERROR_ASSERT, 710)                                                                           \
    X(ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712)                                                   \
    X(ERROR_HOST_MEMORY_NOT_REGISTERED, 713)                                                       \
    X(ERROR_HARDWARE_STACK_ERROR, 714)                                                             \
    X(ERROR_ILLEGAL_INSTRUCTION, 715)                                                              \
    X(ERROR_MISALIGNED_ADDRESS, 716)                                                               \
    X(ERROR_INVALID_ADDRESS_SPACE, 717)                                                            \
    X(ERROR_INVALID_PC, 718)                                                                       \
    X(ERROR_LAUNCH_FAILED, 719)                                                                    \
    X(ERROR_NOT_PERMITTED, 800)                                                                    \
    X(ERROR_NOT_SUPPORTED, 801)                                                                    \
    X(ERROR_MPS_CLIENT_TERMINATED, 810)                                                            \
    X(ERROR_STREAM_CAPTURE_UNSUPPORTED, 900)                                                       \
    X(ERROR_STREAM_CAPTURE_INVALIDATED, 901)                                                       \
    X(ERROR_STREAM_CAPTURE_MERGE, 902)                                                             \
    X(ERROR_STREAM_CAPTURE_UNMATCHED, 903)                                                         \
    X(ERROR_STREAM_CAPTURE_UNJOINED, 904)                                                          \
    X(ERROR_STREAM_CAPTURE_ISOLATION, 905)                                                         \
    X(ERROR_STREAM_CAPTURE_IMPLICIT, 906)                                                          \
    X(ERROR_CAPTURED_EVENT, 907)                                                                   \
    X(ERROR_STREAM_CAPTURE_WRONG_THREAD, 908)                                                      \
    X(ERROR_GRAPH_EXEC_UPDATE_FAILURE, 910)                                                        \
    X(ERROR_UNKNOWN, 999)

typedef enum tn_cu_result {
#define TN_CUDA_RESULT_ENUM(name, number) TN_CUDA_##name = number,
    TN_CUDA_RESULTS(TN_CUDA_RESULT_ENUM)
#undef TN_CUDA_RESULT_ENUM
} tn_cu_result;

typedef int tn_cu_device;
typedef unsigned long long tn_cu_deviceptr;
typedef unsigned long long tn_cu_memhandle; /* CUmemGenericAllocationHandle */
typedef struct CUctx_st *tn_cu_context;
typedef struct CUstream_st *tn_cu_stream;
typedef struct CUevent_st *tn_cu_event;
typedef struct CUmod_st *tn_cu_module;
typedef struct CUfunc_st *tn_cu_function;
typedef struct CUkern_st *tn_cu_kernel;
typedef struct CUgraph_st *tn_cu_graph;
typedef struct CUgraphNode_st *tn_cu_graphnode;
typedef struct CUgraphExec_st *tn_cu_graphexec;
typedef struct CUuserObject_st *tn_cu_userobject;
typedef struct CUmemPoolHandle_st *tn_cu_mempool;

typedef void (*tn_cu_hostfn)(void *user);

/* Special stream handles. */
#define TN_CU_STREAM_LEGACY ((tn_cu_stream)0x1)
#define TN_CU_STREAM_PER_THREAD ((tn_cu_stream)0x2)

enum {
    TN_CU_STREAM_DEFAULT = 0,
    TN_CU_STREAM_NON_BLOCKING = 1,

    TN_CU_EVENT_DEFAULT = 0,
    TN_CU_EVENT_BLOCKING_SYNC = 1,
    TN_CU_EVENT_DISABLE_TIMING = 2,
    TN_CU_EVENT_INTERPROCESS = 4,

    TN_CU_GET_PROC_ADDRESS_DEFAULT = 0,
    TN_CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1,
    TN_CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2,

    TN_CU_USER_OBJECT_NO_DESTRUCTOR_SYNC = 1,
    TN_CU_GRAPH_USER_OBJECT_MOVE = 1,

    TN_CU_GRAPH_INSTANTIATE_AUTO_FREE_ON_LAUNCH = 1,
    TN_CU_GRAPH_INSTANTIATE_USE_NODE_PRIORITY = 8,

    TN_CU_MEMHOSTALLOC_PORTABLE = 1,
};

typedef enum tn_cu_proc_status {
    TN_CU_PROC_FOUND = 0,
    TN_CU_PROC_SYMBOL_NOT_FOUND = 1,
    TN_CU_PROC_VERSION_NOT_SUFFICIENT = 2,
} tn_cu_proc_status;

typedef enum tn_cu_capture_mode {
    TN_CU_CAPTURE_MODE_GLOBAL = 0,
    TN_CU_CAPTURE_MODE_THREAD_LOCAL = 1,
    TN_CU_CAPTURE_MODE_RELAXED = 2,
} tn_cu_capture_mode;

typedef enum tn_cu_capture_status {
    TN_CU_CAPTURE_STATUS_NONE = 0,
    TN_CU_CAPTURE_STATUS_ACTIVE = 1,
    TN_CU_CAPTURE_STATUS_INVALIDATED = 2,
} tn_cu_capture_status;

typedef enum tn_cu_device_attribute {
    TN_CU_ATTR_MAX_THREADS_PER_BLOCK = 1,
    TN_CU_ATTR_WARP_SIZE = 10,
    TN_CU_ATTR_MULTIPROCESSOR_COUNT = 16,
    TN_CU_ATTR_UNIFIED_ADDRESSING = 41,
    TN_CU_ATTR_COMPUTE_CAPABILITY_MAJOR = 75,
    TN_CU_ATTR_COMPUTE_CAPABILITY_MINOR = 76,
    TN_CU_ATTR_VMM_SUPPORTED = 102,
    TN_CU_ATTR_HANDLE_TYPE_POSIX_FD_SUPPORTED = 103,
    TN_CU_ATTR_GPU_DIRECT_RDMA_WITH_VMM_SUPPORTED = 110,
    TN_CU_ATTR_MEMORY_POOLS_SUPPORTED = 115,
} tn_cu_device_attribute;

typedef enum tn_cu_pointer_attribute {
    TN_CU_POINTER_CONTEXT = 1,
    TN_CU_POINTER_MEMORY_TYPE = 2,
    TN_CU_POINTER_DEVICE_POINTER = 3,
    TN_CU_POINTER_HOST_POINTER = 4,
    TN_CU_POINTER_BUFFER_ID = 7,
    TN_CU_POINTER_IS_MANAGED = 8,
    TN_CU_POINTER_DEVICE_ORDINAL = 9,
    TN_CU_POINTER_RANGE_START = 11,
    TN_CU_POINTER_RANGE_SIZE = 12,
    TN_CU_POINTER_MAPPED = 13,
    TN_CU_POINTER_ACCESS_FLAGS = 16,
    TN_CU_POINTER_MAPPING_SIZE = 18,
    TN_CU_POINTER_MAPPING_BASE = 19,
    TN_CU_POINTER_MEMORY_BLOCK_ID = 20,
} tn_cu_pointer_attribute;

enum { TN_CU_MEMORYTYPE_HOST = 1, TN_CU_MEMORYTYPE_DEVICE = 2 };

enum {
    TN_CU_MEM_ALLOCATION_TYPE_PINNED = 1,
    TN_CU_MEM_LOCATION_TYPE_DEVICE = 1,
    TN_CU_MEM_LOCATION_TYPE_HOST = 2,
    TN_CU_MEM_LOCATION_TYPE_HOST_NUMA = 3,
    TN_CU_MEM_HANDLE_TYPE_NONE = 0,
    TN_CU_MEM_HANDLE_TYPE_POSIX_FD = 1,
    TN_CU_MEM_GRANULARITY_MINIMUM = 0,
    TN_CU_MEM_GRANULARITY_RECOMMENDED = 1,
    TN_CU_MEM_ACCESS_NONE = 0,
    TN_CU_MEM_ACCESS_READ = 1,
    TN_CU_MEM_ACCESS_READWRITE = 3,
};

typedef struct tn_cu_location {
    int type;
    int id;
} tn_cu_location;

typedef struct tn_cu_allocation_prop {
    int type;
    int requested_handle_types;
    tn_cu_location location;
    void *win32_metadata;
    struct {
        unsigned char compression_type;
        unsigned char gpu_direct_rdma_capable;
        unsigned short usage;
        unsigned char reserved[4];
    } alloc_flags;
} tn_cu_allocation_prop;

typedef struct tn_cu_access_desc {
    tn_cu_location location;
    int flags;
} tn_cu_access_desc;

typedef enum tn_cu_graphnode_type {
    TN_CU_NODE_KERNEL = 0,
    TN_CU_NODE_MEMCPY = 1,
    TN_CU_NODE_MEMSET = 2,
    TN_CU_NODE_HOST = 3,
    TN_CU_NODE_GRAPH = 4,
    TN_CU_NODE_EMPTY = 5,
} tn_cu_graphnode_type;

typedef struct tn_cu_edge_data {
    unsigned char from_port;
    unsigned char to_port;
    unsigned char type;
    unsigned char reserved[5];
} tn_cu_edge_data;

typedef struct tn_cu_kernel_node_params { /* CUDA_KERNEL_NODE_PARAMS_v2 */
    tn_cu_function func;
    unsigned int grid_x, grid_y, grid_z;
    unsigned int block_x, block_y, block_z;
    unsigned int shared_bytes;
    void **kernel_params;
    void **extra;
    tn_cu_kernel kern;
    tn_cu_context ctx;
} tn_cu_kernel_node_params;

enum { TN_CU_POOL_ATTR_RELEASE_THRESHOLD = 4 };

/* Tags of the packed parameter buffer ("extra") of a kernel launch. */
#define TN_CU_LAUNCH_PARAM_END ((void *)0x0)
#define TN_CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)0x1)
#define TN_CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)0x2)

#endif
