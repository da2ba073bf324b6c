// SPDX-License-Identifier: Apache-2.0
/* edges.h -- the edges of the driver's graphs, read back.
 *
 * Locking: as nodes/node.h. */
#ifndef TARN_NODES_EDGES_H
#define TARN_NODES_EDGES_H

#include <stddef.h>

#include "driver/gpu.h"

/* Nodes are named by their places among those that tn_graph_read_nodes gives. */
struct tn_edge {
    uint32_t to;
    uint32_t from;
    uint32_t kind; /* ports and type; 0: an ordinary one */
};

/* The edges between a graph's nodes, which are all of that graph and fewer than 2^32, in order of to and then of from,
 * whatever the order in which they were made: the caller's, for tn_host_free; NULL where there are none.
 *   HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_graph_read_edges(struct tn_gpu *gpu, tn_cu_graph graph,
                                                const tn_cu_graphnode *nodes, size_t node_count,
                                                struct tn_edge **edges, size_t *count);

#endif
