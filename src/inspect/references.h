// SPDX-License-Identifier: Apache-2.0
/* references.h -- every address that the nodes of a graph name.
 *
 *   G4  each node of the graph, of its child graphs and of the bodies that are given is there once, and says whether
 *       all that it names is
 *
 * Of a copy, a set, a batch it is known which of their parameters are addresses. Of a kernel it is not: each word of
 * eight bytes that a parameter has, structs included, at multiples of eight bytes in it, is taken for an address where it
 * is one that Tarn has had memory at, now or before, or of the graph's own allocation nodes, or the driver knows memory
 * there. So a number that happens to be such an address is taken for one; and what lies in memory, or is computed in a
 * kernel, is not seen.
 *
 * Locking: none. The graph and its functions must not be changed or destroyed meanwhile. Nothing waits for the GPU or
 * disturbs a capture. */
#ifndef TARN_INSPECT_REFERENCES_H
#define TARN_INSPECT_REFERENCES_H

#include "nodes/layout.h"
#include "nodes/node.h"
#include "tarn/audit.h"
#include "vmm/region.h"

struct tn_reference {
    uint64_t address;
    union {
        uint64_t bytes; /* that the node touches from there on; 0: not known */
        uint64_t at;    /* place MEMORY: the address of the word */
    };
    uint32_t node;    /* index of it */
    uint32_t index;   /* of the parameter, or of the batch's operation */
    uint32_t offset;  /* in the parameter, or in the buffer */
    uint8_t place;    /* tarn_pointer_place */
    bool may_be_host; /* nothing says that it is an address of a device's */
    /* of a struct's word: it may be two numbers, or the end of a list of bytes */
    bool may_be_number;
    bool in_struct;    /* it is one of several words of a parameter */
    bool is_read_only; /* a copy's source, what a batch waits for, an argument */
};

/* The nodes of one graph: this, a child or a body. */
struct tn_level {
    tn_cu_graph graph; /* of a child: the node's own copy */
    uint32_t first;    /* index of its first node */
    uint32_t count;
};

/* Zeroed memory is an empty one. */
struct tn_references {
    /* a graph's behind each other, a child's and a body's behind its parent's; their names are
     * those of layouts */
    tarn_audit_node *nodes;
    size_t node_count;
    size_t node_capacity;
    struct tn_level *levels; /* in order of their nodes */
    size_t level_count;
    size_t level_capacity;
    struct tn_reference *items; /* of the nodes that were read last, in order of node */
    size_t count;
    size_t capacity;
    uint32_t next;             /* the first node that was not read yet */
    struct tn_layouts layouts; /* of the kernels' functions */
    size_t tensor_map_count;   /* parameters that have the form of one */
    struct tn_range *given;    /* what allocation nodes give, in order of address, and apart */
    size_t given_count;
    struct tn_collection *collection; /* of what is open */
};

/* Opens what is empty for a graph and bodies of its conditional nodes, and finds the nodes. regions: whose addresses are
 * Tarn's without memory, too; to stay until it is dropped.
 *   INVALID_ARGUMENT: a body's node is no conditional node of the graph; LIMIT: the graph has 2^32 nodes or more;
 *   HOST_MEMORY, DEVICE_LOST, DRIVER: it is empty again */
TARN_MUST_CHECK tarn_status tn_references_open(struct tn_references *references,
                                               struct tn_regions *regions, tn_cu_graph graph,
                                               const tarn_audit_body *bodies, size_t body_count);

/* Reads the next nodes, some together, in place of those before, until they name so many addresses, or more, or all were
 * read.
 *   INVALID_ARGUMENT: the graph is of another device; HOST_MEMORY, DEVICE_LOST, DRIVER: it is good to be dropped */
TARN_MUST_CHECK tarn_status tn_references_read(struct tn_references *references, size_t enough);

/* Whether there are nodes that were not read. */
static inline bool tn_references_go_on(const struct tn_references *references)
{
    return references->next < references->node_count;
}

/* Opens it and reads all. What both return: it is empty again */
TARN_MUST_CHECK tarn_status tn_references_collect(struct tn_references *references,
                                                  struct tn_regions *regions, tn_cu_graph graph,
                                                  const tarn_audit_body *bodies, size_t body_count);

/* Adds one to those that were read last; false when there is no memory. */
bool tn_references_add(struct tn_references *references, const struct tn_reference *reference);

/* Whether an allocation node gives memory at the address. */
bool tn_references_give(const struct tn_references *references, uint64_t address);

/* Gives up what reading needs: nodes, levels and names are left. */
void tn_references_settle(struct tn_references *references);
void tn_references_drop(struct tn_references *references);

#endif
