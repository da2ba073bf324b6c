// SPDX-License-Identifier: Apache-2.0
/* node.h -- the nodes of the driver's graphs, read back.
 *
 * The driver gives the parameters with which a node was made: addresses and sizes. For a kernel
 * node it also gives the values of the kernel's parameters, by an array of pointers to them or in a
 * packed buffer. The function knows each parameter's offset and size (nodes/layout.h).
 *
 * The pointers that are read point into the node. They are valid while the node exists and is
 * unchanged.
 *
 * Locking: none here. Graph objects of the driver are not thread-safe: the owner of a graph
 * serialises the calls on it. A graph that is being captured can be read on the thread that
 * captures. Nothing here waits for the GPU or disturbs a capture. */
#ifndef TARN_NODES_NODE_H
#define TARN_NODES_NODE_H

#include <stddef.h>

#include "driver/gpu.h"

struct tn_launch_shape {
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t shared_bytes; /* dynamic */
};

/* A kernel's parameters: the array, the buffer, or neither for a kernel without parameters. */
struct tn_node_kernel {
    tn_cu_function function;
    void *const *values; /* to each parameter's value, in their order; NULL: in the buffer */
    const unsigned char *buffer; /* the values at their offsets; NULL: by the array */
    size_t buffer_bytes;
    tn_cu_context context; /* of the launch; NULL: the driver does not tell */
    struct tn_launch_shape shape;
};

struct tn_node {
    /* says which member of the union is valid; for a type without a member here, none is */
    tn_cu_graphnode_type type;
    union {
        struct tn_node_kernel kernel;
        tn_cu_memcpy3d memcpy;
        tn_cu_memset_node_params memset;
        tn_cu_host_node_params host;
        tn_cu_graph child; /* the node's own clone */
        tn_cu_event event; /* of a node that waits for an event, or records an event */
        tn_cu_alloc_node_params alloc;
        tn_cu_deviceptr freed;
        tn_cu_batch_node_params batch;
    };
};

/* The graph's nodes, in the order in which they were made. The array is the caller's, for
 * tn_host_free; NULL for a graph without nodes.
 *   HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_driver_graph_read_nodes(struct tn_gpu *gpu, tn_cu_graph graph,
                                                       tn_cu_graphnode **nodes, size_t *count);

/* DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_node_type(struct tn_gpu *gpu, tn_cu_graphnode handle,
                                         tn_cu_graphnode_type *type);

/* The parameters with which a node of the given type was made. DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_node_read(struct tn_gpu *gpu, tn_cu_graphnode handle,
                                         tn_cu_graphnode_type type, struct tn_node *node);

/* The name of a type of node: "kernel", "set" and so on; "unknown" for any other number. */
const char *tn_node_type_name(int type);

#endif
