// SPDX-License-Identifier: Apache-2.0
/* graph_memory.h -- what captured graphs cost in memory: of pools, of the driver, and of blocks
 * that they only refer to.
 *
 *   tarn_graph_memory_info before = TARN_GRAPH_MEMORY_INFO_INIT, after = before;
 *   tarn_device_graph_memory(device, &before);
 *   ... capture ...
 *   tarn_device_graph_memory(device, &after);
 *
 * An engine that sizes a cache, captures and serves thus sees the memory that its graphs have
 * taken, by kind. Memory that a graph holds in pools goes with the graph. Memory that the driver
 * took for its executable does not.
 *
 * Both functions may be called from any thread, with any context current or none, while any stream
 * is being captured. They never disturb a capture, and wait for nothing but each other. They read
 * the driver's graphs. While one of them runs, no other thread may pass such a graph
 * (tarn_graph_driver_handles) to the driver: to add nodes, to clone or instantiate the graph, or to
 * make it a child node. Tarn's own calls on other threads that make, update or destroy graphs wait
 * meanwhile. Replays go on. */
#ifndef TARN_GRAPH_MEMORY_H
#define TARN_GRAPH_MEMORY_H

#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The memory of a graph, or the sums over all tarn_graphs of a device. The call looks at pools one
 * by one: memory that other threads allocate or free meanwhile may count or not. No byte counts in
 * two of the fields from own_pool_bytes to external_bytes. */
typedef struct tarn_graph_memory_info {
    /* sizeof(tarn_graph_memory_info), set by the INIT macro. */
    size_t size;
    /* 1, or the number of the device's tarn_graphs. */
    uint64_t graph_count;

    /* Chunks of all pools in which the captures allocated, or blocks were freed meanwhile. Whole
     * chunks count, since whole chunks are held. Memory of the graph in a child node counts for
     * that graph.
     *
     * Held by the graph and by nothing else. Device: by a single graph alone. */
    uint64_t own_pool_bytes;
    /* Held by the graph, and by other graphs, captures or clones, too. Device: each chunk once. */
    uint64_t shared_pool_bytes;
    /* Graph: 0. Device: held by something other than a tarn_graph: captures under way, graphs that
     * are not adopted, or remains of graphs that were destroyed or updated. Remains are clones,
     * child nodes, the program's executables and running launches. */
    uint64_t other_pool_bytes;

    /* Live blocks that the nodes refer to, of any pool of the device, outside held memory: weights
     * and caches, for example. Their bytes as taken from the pool; each block counts once. If a
     * block lies in held chunks in part, its other bytes count. tarn/audit.h says which words of a
     * kernel's parameters count as addresses. Device: outside everything that is held. */
    uint64_t external_bytes;
    /* The number of these blocks. */
    uint64_t external_count;

    /* By how much the instantiation lowered the device's free memory, as cuMemGetInfo reports.
     * Memory that other threads and processes took or gave back at that moment is included. 0: not
     * lowered, or the driver did not say. The driver takes memory for executables in steps of some
     * MiB. It keeps a destroyed executable's memory for the next ones, which then take none, and
     * gives it up only where memory is short. The field therefore says what this instantiation
     * took, not what the executable needs. Device: the memory that all instantiations took since
     * the device was opened, including those of destroyed graphs. */
    uint64_t exec_bytes;

    /* The bytes of the driver's own allocation nodes (cudaMallocAsync in a capture). These bytes
     * are no sum of memory: graphs share the memory behind the nodes, and a graph that frees and
     * allocates uses it again. */
    uint64_t node_bytes;
    /* The number of these nodes. */
    uint64_t allocation_count;
    /* Graph: 0. Device: memory that the driver has reserved for allocation nodes of all graphs of
     * the process, until cuDeviceGraphMemTrim. */
    uint64_t node_reserved_bytes;

    /* Nodes read, child graphs included, bodies of conditional nodes excluded. */
    uint64_t node_count;
    uint64_t kernel_count;
    /* Nodes whose addresses were not all seen. There may be more external blocks. */
    uint64_t uninspected_count;
} tarn_graph_memory_info;

#define TARN_GRAPH_MEMORY_INFO_INIT TARN_SIZED(tarn_graph_memory_info)

/* Reads the memory of a graph. No other thread may destroy or update the graph meanwhile.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  memory is NULL, or its size is wrong (tarn/types.h).
 *   LIMIT             The graph has 2^32 nodes or more.
 *   HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_memory(tarn_graph *graph,
                                                       tarn_graph_memory_info *memory);

/* Reads the memory of all tarn_graphs of the device. Statuses as tarn_graph_memory, for the device.
 */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_graph_memory(tarn_device *device,
                                                              tarn_graph_memory_info *memory);

#ifdef __cplusplus
}
#endif
#endif
