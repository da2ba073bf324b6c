// SPDX-License-Identifier: Apache-2.0
/* graph_memory.h -- what captured graphs cost in memory: of pools, of the driver, and of what they only refer to.
 *
 *   tarn_graph_memory_info before = TARN_GRAPH_MEMORY_INFO_INIT, after = before;
 *   tarn_device_graph_memory(device, &before);
 *   ... capture ...
 *   tarn_device_graph_memory(device, &after);
 *
 * So an engine that sizes a cache, captures and serves sees what its graphs have taken, and of which kind: what a
 * graph holds in pools goes when it is destroyed, what the driver took for its executable does not.
 *
 * Both functions may be called from any thread, with any context current or none, while any stream is being captured;
 * they never disturb a capture, and wait for nothing but each other. They read graphs back from the driver, which
 * demands that a graph is one thread's at a time: so no call may overlap them that is given a driver's graph of those
 * that they read (tarn_graph_driver_handles), adds nodes to it, clones or instantiates it, or adds it as a child
 * node. Of Tarn's own calls on other threads those that make, update or destroy graphs wait meanwhile, and replays go
 * on. */
#ifndef TARN_GRAPH_MEMORY_H
#define TARN_GRAPH_MEMORY_H

#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A graph's, or the sums over all tarn_graphs of a device. What pools have is looked at pool by pool, so what other
 * threads allocate and free meanwhile may be in it or not. No byte is in two of the fields from own_pool_bytes to
 * external_bytes. */
typedef struct tarn_graph_memory_info {
    /* sizeof(tarn_graph_memory_info), set by the INIT macro */
    size_t size;
    /* 1, or the device's tarn_graphs */
    uint64_t graph_count;

    /* Chunks of pools, of all in which the captures allocated or blocks were freed meanwhile. Whole ones, since whole
     * ones are held. What the graph in a child node holds is that graph's. */
    uint64_t own_pool_bytes; /* held by the graph and by nothing else; device: by one graph alone */
    uint64_t shared_pool_bytes; /* held by the graph, and by other graphs, captures or clones, too;
                                   device: each chunk once */
    uint64_t other_pool_bytes;  /* device: held, but by no tarn_graph: by captures under way, graphs
                                  that are not adopted, and by clones, child nodes, executables of
                                  the program's and running launches of graphs that were destroyed
                                  or updated; graph: 0 */

    /* Live blocks that the nodes refer to, of any pool of the device, outside what is held: weights and caches, say.
     * As taken from the pool, each once however often it is named. Of a block that lies in held chunks in part, the rest.
     * Which words of a kernel's parameters are taken for addresses: see tarn/audit.h. Device: outside what anything
     * holds. */
    uint64_t external_bytes;
    uint64_t external_count; /* such blocks */

    /* Of the driver. How much less free memory the device had after the instantiation of the graph than before, as
     * cuMemGetInfo says: what other threads and processes took or gave back at that moment is in it. 0: not less, or
     * the driver did not say. The driver takes such memory in steps of some MiB; when executables are destroyed it
     * keeps it for the next ones, which then take none, and gives it up only where memory is wanting. So the field
     * says what this instantiation took, not what the executable needs. Device: what all took since it was opened,
     * those of graphs that are gone included. */
    uint64_t exec_bytes;

    /* The driver's own allocation nodes (cudaMallocAsync in a capture). Graphs share the memory behind them, and
     * one that frees and allocates uses it again: so the bytes of nodes are no sum of memory. */
    uint64_t node_bytes;       /* that the nodes allocate */
    uint64_t allocation_count; /* such nodes */
    /* device: what the driver has reserved for such nodes, of all graphs of the process, until
     * cuDeviceGraphMemTrim; graph: 0 */
    uint64_t node_reserved_bytes;

    /* What was looked at: child graphs included, bodies of conditional nodes not. */
    uint64_t node_count;
    uint64_t kernel_count;
    uint64_t uninspected_count; /* nodes of which not all that they name is seen: there may be more
                                   external blocks */
} tarn_graph_memory_info;

#define TARN_GRAPH_MEMORY_INFO_INIT TARN_SIZED(tarn_graph_memory_info)

/* Not while another thread destroys or updates the graph.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  memory is NULL, or its size is wrong (tarn/types.h)
 *   LIMIT             2^32 nodes or more
 *   HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_memory(tarn_graph *graph,
                                                       tarn_graph_memory_info *memory);

/* Statuses as tarn_graph_memory's, of the device. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_graph_memory(tarn_device *device,
                                                              tarn_graph_memory_info *memory);

#ifdef __cplusplus
}
#endif
#endif
