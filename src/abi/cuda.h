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
    X(ERROR_CONTEXT_ALREADY_CURRENT, 202)                                                          \
    X(ERROR_MAP_FAILED, 205)                                                                       \
    X(ERROR_ALREADY_MAPPED, 208)                                                                   \
    X(ERROR_NO_BINARY_FOR_GPU, 209)                                                                \
    X(ERROR_ECC_UNCORRECTABLE, 214)                                                                \
    X(ERROR_PEER_ACCESS_UNSUPPORTED, 217)                                                          \
    X(ERROR_INVALID_PTX, 218)                                                                      \
    X(ERROR_NVLINK_UNCORRECTABLE, 220)                                                             \
    X(ERROR_UNSUPPORTED_EXEC_AFFINITY, 224)                                                        \
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
    X(ERROR_PEER_ACCESS_ALREADY_ENABLED, 704)                                                      \
    X(ERROR_PEER_ACCESS_NOT_ENABLED, 705)                                                          \
    X(ERROR_PRIMARY_CONTEXT_ACTIVE, 708)                                                           \
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
    X(ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, 720)                                                     \
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
typedef struct CUlib_st *tn_cu_library;
typedef uint64_t tn_cu_conditional; /* CUgraphConditionalHandle */

typedef void (*tn_cu_hostfn)(void *user);
typedef void (*tn_cu_stream_callback)(tn_cu_stream stream, tn_cu_result result, void *user);

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
    TN_CU_GRAPH_INSTANTIATE_UPLOAD = 2,
    TN_CU_GRAPH_INSTANTIATE_DEVICE_LAUNCH = 4,
    TN_CU_GRAPH_INSTANTIATE_USE_NODE_PRIORITY = 8,

    TN_CU_GRAPH_COND_ASSIGN_DEFAULT = 1,

    TN_CU_CAPTURE_DEPENDENCIES_ADD = 0,
    TN_CU_CAPTURE_DEPENDENCIES_SET = 1,

    TN_CU_EVENT_RECORD_EXTERNAL = 1,
    TN_CU_EVENT_WAIT_EXTERNAL = 1,

    TN_CU_MEMHOSTALLOC_PORTABLE = 1,
    TN_CU_MEMHOSTALLOC_DEVICEMAP = 2,
    TN_CU_MEMHOSTALLOC_WRITECOMBINED = 4,
    TN_CU_MEMHOSTREGISTER_PORTABLE = 1,
    TN_CU_MEMHOSTREGISTER_DEVICEMAP = 2,
    TN_CU_MEMHOSTREGISTER_IOMEMORY = 4,
    TN_CU_MEMHOSTREGISTER_READ_ONLY = 8,

    TN_CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1,
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
    TN_CU_ATTR_PCI_BUS_ID = 33,
    TN_CU_ATTR_UNIFIED_ADDRESSING = 41,
    TN_CU_ATTR_COMPUTE_CAPABILITY_MAJOR = 75,
    TN_CU_ATTR_COMPUTE_CAPABILITY_MINOR = 76,
    TN_CU_ATTR_PAGEABLE_MEMORY_ACCESS = 88,
    TN_CU_ATTR_HOST_POINTER_FOR_REGISTERED = 91,
    TN_CU_ATTR_CAN_FLUSH_REMOTE_WRITES = 98,
    TN_CU_ATTR_HOST_REGISTER_SUPPORTED = 99,
    TN_CU_ATTR_VMM_SUPPORTED = 102,
    TN_CU_ATTR_HANDLE_TYPE_POSIX_FD_SUPPORTED = 103,
    TN_CU_ATTR_GENERIC_COMPRESSION_SUPPORTED = 107,
    TN_CU_ATTR_GPU_DIRECT_RDMA_WITH_VMM_SUPPORTED = 110,
    TN_CU_ATTR_MEMORY_POOLS_SUPPORTED = 115,
    TN_CU_ATTR_MEMPOOL_HANDLE_TYPES = 119,
    TN_CU_ATTR_CAN_USE_64_BIT_STREAM_MEM_OPS = 122,
    TN_CU_ATTR_CAN_USE_STREAM_WAIT_VALUE_NOR = 123,
    TN_CU_ATTR_DMA_BUF_SUPPORTED = 124,
    TN_CU_ATTR_IPC_EVENT_SUPPORTED = 125,
    TN_CU_ATTR_HANDLE_TYPE_FABRIC_SUPPORTED = 128,
    TN_CU_ATTR_HOST_NUMA_ID = 134,
    TN_CU_ATTR_HOST_NUMA_VMM_SUPPORTED = 141,
    TN_CU_ATTR_HOST_VMM_SUPPORTED = 145,
} tn_cu_device_attribute;

typedef enum tn_cu_pointer_attribute {
    TN_CU_POINTER_CONTEXT = 1,
    TN_CU_POINTER_MEMORY_TYPE = 2,
    TN_CU_POINTER_DEVICE_POINTER = 3,
    TN_CU_POINTER_HOST_POINTER = 4,
    TN_CU_POINTER_SYNC_MEMOPS = 6,
    TN_CU_POINTER_BUFFER_ID = 7,
    TN_CU_POINTER_IS_MANAGED = 8,
    TN_CU_POINTER_DEVICE_ORDINAL = 9,
    TN_CU_POINTER_LEGACY_IPC_CAPABLE = 10,
    TN_CU_POINTER_RANGE_START = 11,
    TN_CU_POINTER_RANGE_SIZE = 12,
    TN_CU_POINTER_MAPPED = 13,
    TN_CU_POINTER_ALLOWED_HANDLE_TYPES = 14,
    TN_CU_POINTER_RDMA_CAPABLE = 15,
    TN_CU_POINTER_ACCESS_FLAGS = 16,
    TN_CU_POINTER_MEMPOOL_HANDLE = 17,
    TN_CU_POINTER_MAPPING_SIZE = 18,
    TN_CU_POINTER_MAPPING_BASE = 19,
    TN_CU_POINTER_MEMORY_BLOCK_ID = 20,
} tn_cu_pointer_attribute;

enum { TN_CU_MEMORYTYPE_HOST = 1, TN_CU_MEMORYTYPE_DEVICE = 2, TN_CU_MEMORYTYPE_UNIFIED = 4 };

enum {
    TN_CU_MEM_ALLOCATION_TYPE_PINNED = 1,
    TN_CU_MEM_ALLOCATION_TYPE_MANAGED = 2,
    TN_CU_MEM_LOCATION_TYPE_DEVICE = 1,
    TN_CU_MEM_LOCATION_TYPE_HOST = 2,
    TN_CU_MEM_LOCATION_TYPE_HOST_NUMA = 3,
    TN_CU_MEM_GRANULARITY_MINIMUM = 0,
    TN_CU_MEM_GRANULARITY_RECOMMENDED = 1,
    TN_CU_MEM_ACCESS_NONE = 0,
    TN_CU_MEM_ACCESS_READ = 1,
    TN_CU_MEM_ACCESS_READWRITE = 3,
};

typedef enum tn_cu_handle_type {
    TN_CU_MEM_HANDLE_TYPE_NONE = 0,
    TN_CU_MEM_HANDLE_TYPE_POSIX_FD = 1,
    TN_CU_MEM_HANDLE_TYPE_WIN32 = 2,
    TN_CU_MEM_HANDLE_TYPE_FABRIC = 8,
} tn_cu_handle_type;

typedef enum tn_cu_range_handle_type {
    TN_CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 1,
} tn_cu_range_handle_type;

typedef struct tn_cu_uuid {
    char bytes[16];
} tn_cu_uuid;

typedef struct tn_cu_ipc_handle {
    char reserved[64];
} tn_cu_ipc_handle;

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
    TN_CU_NODE_WAIT_EVENT = 6,
    TN_CU_NODE_EVENT_RECORD = 7,
    TN_CU_NODE_EXT_SEMAS_SIGNAL = 8,
    TN_CU_NODE_EXT_SEMAS_WAIT = 9,
    TN_CU_NODE_MEM_ALLOC = 10,
    TN_CU_NODE_MEM_FREE = 11,
    TN_CU_NODE_BATCH_MEM_OP = 12,
    TN_CU_NODE_CONDITIONAL = 13,
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

typedef struct tn_cu_memcpy3d { /* CUDA_MEMCPY3D_v2 */
    size_t src_x, src_y, src_z, src_lod;
    int src_type; /* TN_CU_MEMORYTYPE_* */
    const void *src_host;
    tn_cu_deviceptr src_device;
    void *src_array;
    void *reserved0;
    size_t src_pitch, src_height;
    size_t dst_x, dst_y, dst_z, dst_lod;
    int dst_type;
    void *dst_host;
    tn_cu_deviceptr dst_device;
    void *dst_array;
    void *reserved1;
    size_t dst_pitch, dst_height;
    size_t width; /* bytes */
    size_t height;
    size_t depth;
} tn_cu_memcpy3d;

typedef struct tn_cu_memcpy_node_params {
    int flags;
    int reserved;
    tn_cu_context ctx;
    tn_cu_memcpy3d copy;
} tn_cu_memcpy_node_params;

typedef struct tn_cu_memset_node_params { /* CUDA_MEMSET_NODE_PARAMS_v1 */
    tn_cu_deviceptr dst;
    size_t pitch;
    unsigned int value;
    unsigned int element_bytes; /* 1, 2 or 4 */
    size_t width;               /* elements */
    size_t height;
} tn_cu_memset_node_params;

typedef struct tn_cu_memset_node_params_v2 { /* of tn_cu_node_params */
    tn_cu_memset_node_params set;
    tn_cu_context ctx;
} tn_cu_memset_node_params_v2;

typedef struct tn_cu_host_node_params {
    tn_cu_hostfn function;
    void *user;
} tn_cu_host_node_params;

typedef struct tn_cu_child_node_params {
    tn_cu_graph graph;
    int ownership; /* 0: cloned into the node; 1: moved to it */
} tn_cu_child_node_params;

typedef struct tn_cu_pool_props { /* CUmemPoolProps_v1 */
    int type;
    int handle_types;
    tn_cu_location location;
    void *win32_attributes;
    size_t max_bytes;
    unsigned short usage;
    unsigned char reserved[54];
} tn_cu_pool_props;

typedef struct tn_cu_alloc_node_params { /* CUDA_MEM_ALLOC_NODE_PARAMS_v1 */
    tn_cu_pool_props pool_props;
    const tn_cu_access_desc *access;
    size_t access_count;
    size_t bytes;
    tn_cu_deviceptr address; /* out */
} tn_cu_alloc_node_params;

typedef enum tn_cu_conditional_type {
    TN_CU_GRAPH_COND_IF = 0,
    TN_CU_GRAPH_COND_WHILE = 1,
    TN_CU_GRAPH_COND_SWITCH = 2,
} tn_cu_conditional_type;

typedef struct tn_cu_conditional_node_params {
    tn_cu_conditional handle;
    tn_cu_conditional_type type;
    unsigned int size;   /* number of bodies */
    tn_cu_graph *bodies; /* out: the driver's array, which lives as long as the node */
    tn_cu_context ctx;
} tn_cu_conditional_node_params;

typedef union tn_cu_batch_op { /* CUstreamBatchMemOpParams_v1 */
    int operation;
    struct {
        int operation; /* TN_CU_STREAM_MEM_OP_* */
        tn_cu_deviceptr address;
        uint64_t value; /* the low half of it for 32-bit operations */
        unsigned int flags;
        tn_cu_deviceptr alias;
    } value;
    struct {
        int operation;
        unsigned int flags;
    } barrier; /* also of a flush */
    uint64_t pad[6];
} tn_cu_batch_op;

enum {
    TN_CU_STREAM_MEM_OP_WAIT_VALUE_32 = 1,
    TN_CU_STREAM_MEM_OP_WRITE_VALUE_32 = 2,
    TN_CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES = 3,
    TN_CU_STREAM_MEM_OP_WAIT_VALUE_64 = 4,
    TN_CU_STREAM_MEM_OP_WRITE_VALUE_64 = 5,
    TN_CU_STREAM_MEM_OP_BARRIER = 6,
};

/* Flags of waits, a comparison of the word with the value, and one bit more. */
enum {
    TN_CU_STREAM_WAIT_VALUE_GEQ = 0, /* word - value is not negative: the word may wrap */
    TN_CU_STREAM_WAIT_VALUE_EQ = 1,
    TN_CU_STREAM_WAIT_VALUE_AND = 2, /* they have a bit in common */
    TN_CU_STREAM_WAIT_VALUE_NOR = 3, /* some bit is set in neither */
    TN_CU_STREAM_WAIT_VALUE_FLUSH = 1 << 30,
};

/* Flags of writes. */
enum {
    TN_CU_STREAM_WRITE_VALUE_DEFAULT = 0,
    TN_CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER = 1,
};

/* Flags of barriers. */
enum {
    TN_CU_STREAM_MEMORY_BARRIER_TYPE_SYS = 0,
    TN_CU_STREAM_MEMORY_BARRIER_TYPE_GPU = 1,
};

typedef struct tn_cu_batch_node_params { /* CUDA_BATCH_MEM_OP_NODE_PARAMS_v1 */
    tn_cu_context ctx;
    unsigned int count;
    tn_cu_batch_op *ops;
    unsigned int flags;
} tn_cu_batch_node_params;

typedef struct tn_cu_node_params { /* CUgraphNodeParams */
    tn_cu_graphnode_type type;
    int reserved0[3];
    union {
        long long reserved1[29];
        tn_cu_kernel_node_params kernel;
        tn_cu_memcpy_node_params memcpy;
        tn_cu_memset_node_params_v2 memset;
        tn_cu_host_node_params host;
        tn_cu_child_node_params child;
        tn_cu_event event; /* of WAIT_EVENT and EVENT_RECORD nodes */
        tn_cu_alloc_node_params alloc;
        tn_cu_deviceptr free;
        tn_cu_conditional_node_params conditional;
        tn_cu_batch_node_params batch;
    };
    long long reserved2;
} tn_cu_node_params;

typedef struct tn_cu_instantiate_params { /* CUDA_GRAPH_INSTANTIATE_PARAMS */
    uint64_t flags;
    tn_cu_stream upload_stream;
    tn_cu_graphnode failed_node; /* out */
    int result;                  /* out: 0 when it succeeded */
} tn_cu_instantiate_params;

typedef enum tn_cu_update_result {
    TN_CU_GRAPH_UPDATE_SUCCESS = 0,
    TN_CU_GRAPH_UPDATE_ERROR = 1,
    TN_CU_GRAPH_UPDATE_TOPOLOGY_CHANGED = 2,
    TN_CU_GRAPH_UPDATE_NODE_TYPE_CHANGED = 3,
    TN_CU_GRAPH_UPDATE_FUNCTION_CHANGED = 4,
    TN_CU_GRAPH_UPDATE_PARAMETERS_CHANGED = 5,
    TN_CU_GRAPH_UPDATE_NOT_SUPPORTED = 6,
    TN_CU_GRAPH_UPDATE_UNSUPPORTED_FUNCTION = 7,
    TN_CU_GRAPH_UPDATE_ATTRIBUTES_CHANGED = 8,
} tn_cu_update_result;

typedef struct tn_cu_update_result_info { /* CUgraphExecUpdateResultInfo_v1 */
    tn_cu_update_result result;
    tn_cu_graphnode node;
    tn_cu_graphnode from_node;
} tn_cu_update_result_info;

typedef struct tn_cu_launch_config { /* CUlaunchConfig */
    unsigned int grid_x, grid_y, grid_z;
    unsigned int block_x, block_y, block_z;
    unsigned int shared_bytes;
    tn_cu_stream stream;
    void *attributes;
    unsigned int attribute_count;
} tn_cu_launch_config;

typedef struct tn_cu_memcpy_attributes { /* CUmemcpyAttributes_v1 */
    int source_order;                    /* 1: the stream's */
    tn_cu_location source_hint;
    tn_cu_location destination_hint;
    unsigned int flags;
} tn_cu_memcpy_attributes;

typedef enum tn_cu_pool_attribute {
    TN_CU_POOL_ATTR_REUSE_FOLLOW_EVENTS = 1,
    TN_CU_POOL_ATTR_REUSE_OPPORTUNISTIC = 2,
    TN_CU_POOL_ATTR_REUSE_INTERNAL = 3,
    TN_CU_POOL_ATTR_RELEASE_THRESHOLD = 4,
    TN_CU_POOL_ATTR_RESERVED_CURRENT = 5,
    TN_CU_POOL_ATTR_RESERVED_HIGH = 6,
    TN_CU_POOL_ATTR_USED_CURRENT = 7,
    TN_CU_POOL_ATTR_USED_HIGH = 8,
} tn_cu_pool_attribute;

typedef enum tn_cu_graph_mem_attribute {
    TN_CU_GRAPH_MEM_USED_CURRENT = 0,
    TN_CU_GRAPH_MEM_USED_HIGH = 1,
    TN_CU_GRAPH_MEM_RESERVED_CURRENT = 2,
    TN_CU_GRAPH_MEM_RESERVED_HIGH = 3,
} tn_cu_graph_mem_attribute;

typedef enum tn_cu_process_state {
    TN_CU_PROCESS_RUNNING = 0,
    TN_CU_PROCESS_LOCKED = 1,
    TN_CU_PROCESS_CHECKPOINTED = 2,
    TN_CU_PROCESS_FAILED = 3,
} tn_cu_process_state;
typedef struct CUcheckpointLockArgs_st tn_cu_checkpoint_lock_args;
typedef struct CUcheckpointCheckpointArgs_st tn_cu_checkpoint_checkpoint_args;
typedef struct CUcheckpointRestoreArgs_st tn_cu_checkpoint_restore_args;
typedef struct CUcheckpointUnlockArgs_st tn_cu_checkpoint_unlock_args;

/* Tags of the packed parameter buffer ("extra") of a kernel launch. */
#define TN_CU_LAUNCH_PARAM_END ((void *)0x0)
#define TN_CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)0x1)
#define TN_CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)0x2)

#endif
