// SPDX-License-Identifier: Apache-2.0
/* collection.h -- a look through a graph, and its first round: all nodes and ranges of memory.
 *
 *   G4  each node of the graph, of its child graphs and of the bodies that are given is there once,
 *       and says whether all that it names is
 *
 * Locking: none; a collection is its audit's. */
#ifndef TARN_INSPECT_COLLECTION_H
#define TARN_INSPECT_COLLECTION_H

#include "base/word_set.h"
#include "nodes/layout.h"
#include "nodes/node.h"
#include "tarn/audit.h"
#include "vmm/region.h"

enum { TN_COLLECTION_BATCH = 32 }; /* nodes */

struct tn_reference {
    uint64_t address;
    union {
        /* that the node touches from the address on; 0: not known */
        uint64_t bytes;
        uint64_t at; /* place MEMORY: the address of the word */
    };
    uint32_t node;    /* index of the node */
    uint32_t index;   /* of the parameter, or of the batch's operation */
    uint32_t offset;  /* in the parameter, or in the buffer */
    uint8_t place;    /* tarn_pointer_place */
    bool may_be_host; /* nothing says that the address is a device's */
    /* A word of a struct: perhaps two numbers, or the end of a list of bytes. */
    bool may_be_number;
    bool in_struct; /* one of several words of a parameter */
    /* A copy's source, the value that a batch waits for, an argument. */
    bool is_read_only;
};

/* The nodes of a single graph: the given graph, a child or a body. */
struct tn_level {
    tn_cu_graph graph; /* of a child: the node's own copy */
    uint32_t first;    /* index of its first node */
    uint32_t count;
};

/* Zeroed memory is an empty record. */
struct tn_references {
    /* Nodes of a graph stand together, a child's and a body's behind its parent's. Their names
     * belong to `layouts`. */
    tarn_audit_node *nodes;
    size_t node_count;
    size_t node_capacity;
    struct tn_level *levels; /* in order of their nodes */
    size_t level_count;
    size_t level_capacity;
    struct tn_reference *items; /* of the nodes read last, in order of node */
    size_t count;
    size_t capacity;
    uint32_t next;             /* the first unread node */
    struct tn_layouts layouts; /* of the kernels' functions */
    size_t tensor_map_count;   /* parameters in the form of a tensor map */
    /* The memory that allocation nodes give, as ranges in order of address that do not touch. */
    struct tn_range *given;
    size_t given_count;
    struct tn_collection *collection; /* the state of an open reading */
};

struct tn_collection {
    struct tn_references *to;
    struct tn_gpu *gpu;
    struct tn_range *regions; /* in order and apart */
    size_t region_count;
    size_t region_capacity;
    size_t given_capacity;
    uint64_t lowest;          /* address of a region, or of an allocation node's memory */
    struct tn_word_set asked; /* words that the driver was asked for; the lowest bit: memory */
    tn_cu_context context;    /* of the last kernel, known to be the device's */
    const struct tn_layout *layout;            /* found last; NULL: none */
    struct tn_node batch[TN_COLLECTION_BATCH]; /* read together */
};

/* HOST_MEMORY, with its sentence. */
tarn_status tn_collection_no_memory(void);

/* Lists the device's regions. HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_collection_add_regions(struct tn_collection *collection,
                                                      struct tn_regions *regions);

/* Finds the nodes of the graph, its child graphs and the given bodies (G4), and the memory that
 * allocation nodes give.
 *   INVALID_ARGUMENT: a body's node is no conditional node; LIMIT, HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_collection_find_nodes(struct tn_collection *collection,
                                                     tn_cu_graph graph,
                                                     const tarn_audit_body *bodies,
                                                     size_t body_count);

/* Puts the ranges in order and unites overlapping ones: a graph uses its memory again. Returns
 * their number. */
size_t tn_ranges_unite(struct tn_range *ranges, size_t count);

/* Whether a range of these, in order and apart, has the word. */
static inline bool tn_ranges_have(const struct tn_range *ranges, size_t count, uint64_t word)
{
    size_t from = 0;
    size_t to = count;

    while (from < to) { /* the last range that begins at the word or before it */
        size_t middle = from + (to - from) / 2;

        if (ranges[middle].base <= word)
            from = middle + 1;
        else
            to = middle;
    }
    return from > 0 && word - ranges[from - 1].base < ranges[from - 1].bytes;
}

#endif
