// SPDX-License-Identifier: Apache-2.0
/* edges.h -- the edges of the driver's graphs, read back.
 *
 * Locking: as nodes/node.h. */
#ifndef TARN_NODES_EDGES_H
#define TARN_NODES_EDGES_H

#include <stddef.h>

#include "driver/gpu.h"

/* Nodes are named by their places among those that tn_driver_graph_read_nodes gives. */
struct tn_edge {
    uint32_t to;
    uint32_t from;
    uint32_t kind; /* ports and type; 0: an ordinary edge */
};

/* The edges between a graph's nodes, in order of to and then of from, whatever the order in which
 * they were made. The nodes are all of the graph's, and fewer than 2^32. The array is the caller's,
 * for tn_host_free; NULL for a graph without edges.
 *   HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_driver_graph_read_edges(struct tn_gpu *gpu, tn_cu_graph graph,
                                                       const tn_cu_graphnode *nodes,
                                                       size_t node_count, struct tn_edge **edges,
                                                       size_t *count);

#endif
