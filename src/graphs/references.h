// SPDX-License-Identifier: Apache-2.0
/* references.h -- every address that the nodes of a graph name.
 *
 *   G4  each node of the graph and of its child graphs is there once, and says whether all that it names is
 *
 * Of a copy, a set, a batch it is known which of their parameters are addresses. Of a kernel it is not: each word of
 * eight bytes that a parameter has, structs included, at multiples of eight bytes in it, is taken for an address where it
 * is one of Tarn's, with memory or without, or of the graph's own allocation nodes, or the driver knows memory there. So a number that happens to be
 * such an address is taken for one; and what lies in memory, or is computed in a kernel, is not seen.
 *
 * Locking: none. The graph and its functions must not be changed or destroyed meanwhile. Nothing waits for the GPU or
 * disturbs a capture. */
#ifndef TARN_GRAPHS_REFERENCES_H
#define TARN_GRAPHS_REFERENCES_H

#include "driver/layout.h"
#include "driver/node.h"
#include "vmm/region.h"

enum tn_place {
    TN_PLACE_PARAM,       /* of a kernel */
    TN_PLACE_PACKED,      /* of a kernel of whose parameters only the buffer is known */
    TN_PLACE_DESTINATION, /* of a copy or a set */
    TN_PLACE_SOURCE,      /* of a copy */
    TN_PLACE_USER,        /* the argument of a host function */
    TN_PLACE_OPERATION,   /* of a batch */
    TN_PLACE_ALLOCATED,   /* what an allocation node of the driver's gives */
    TN_PLACE_FREED,
};

struct tn_reference {
    uint64_t address;
    uint64_t bytes;  /* that the node touches from there on; 0: not known */
    uint32_t node;   /* index of it */
    uint32_t index;  /* of the parameter, or of the batch's operation */
    uint32_t offset; /* in the parameter, or in the buffer */
    uint8_t place;   /* enum tn_place */
    bool is_host;    /* the node says that it is an address of the host's */
};

enum tn_inspection {
    TN_INSPECTED,
    TN_INSPECTION_NO_LAYOUT, /* a kernel: the driver does not tell how large its parameters are */
    TN_INSPECTION_NO_BODIES, /* a conditional node: the driver does not give its bodies */
    TN_INSPECTION_OPAQUE,    /* of a type of which nothing can be read */
};

#define TN_NO_PARENT UINT32_MAX

struct tn_reference_node {
    tn_cu_graphnode handle;
    tn_cu_function function; /* of a kernel; else NULL */
    tn_cu_graphnode_type type;
    uint32_t parent;    /* index of the node in whose child graph it is; TN_NO_PARENT: in none */
    uint32_t ordinal;   /* among those of its graph, in the order in which they were made */
    uint8_t inspection; /* enum tn_inspection */
};

/* Zeroed memory is an empty one. */
struct tn_references {
    struct tn_reference_node
        *nodes; /* a graph's behind each other, a child's behind its parent's */
    size_t node_count;
    size_t node_capacity;
    struct tn_reference *items; /* in order of node */
    size_t count;
    size_t capacity;
    struct tn_layouts layouts; /* of the kernels' functions */
};

/* Collects those of a graph into what is empty. regions: whose addresses are Tarn's without memory, too.
 *   LIMIT: the graph has 2^32 nodes or more; HOST_MEMORY, DEVICE_LOST, DRIVER: it is empty again */
TARN_MUST_CHECK tarn_status tn_references_collect(struct tn_references *references,
                                                  struct tn_regions *regions, tn_cu_graph graph);

void tn_references_drop(struct tn_references *references);

#endif
