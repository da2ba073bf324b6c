// SPDX-License-Identifier: Apache-2.0
/* node_order.h -- which nodes of a graph were captured before a moment, and which behind it.
 *
 *   G8  a node that is told to be before a moment of its capture, or behind it, was captured so
 *
 * A moment is known by where a stream stood: by the nodes that its next one was to depend on (heap/births.h). A node's
 * place among the nodes of its graph, which the driver gives in the order in which they were made, says what was before
 * it:
 *
 *  - a node that is not behind the last of those was captured before the moment, on whatever stream;
 *  - the next node of that stream depends on all of those. So does the first node of each stream that was forked there,
 *    perhaps before the moment. A node that is behind the last one of these, and depends on one of them, was captured
 *    behind the moment;
 *  - of any other it is not known: several streams were forked there, or the node was added by hand.
 *
 * Locking: whoever has one guards it. Nothing waits for the GPU or disturbs a capture. */
#ifndef TARN_INSPECT_NODE_ORDER_H
#define TARN_INSPECT_NODE_ORDER_H

#include "inspect/references.h"
#include "nodes/edges.h"

enum tn_captured { TN_CAPTURED_BEFORE, TN_CAPTURED_BEHIND, TN_CAPTURED_UNKNOWN };

struct tn_handle {
    tn_cu_graphnode node;
    uint32_t index; /* among the graph's */
};

struct tn_node_order {
    bool is_read;
    uint32_t count;
    struct tn_handle *handles; /* in order of node */
    struct tn_edge *edges;     /* in order of to, then of from */
    size_t edge_count;
    uint32_t *begins;        /* of each node: its first edge; one more at the end */
    struct tn_edge *outward; /* in order of from, then of to */
    uint32_t *outward_begins;
    uint32_t *heads;  /* of each node: the head of its chain */
    uint32_t *stamps; /* of a walk: those that were met */
    uint32_t *stack;  /* of a walk */
    uint32_t stamp;   /* of the last walk */
    /* The nodes that may be the next ones of the stream that was asked for last: */
    const uint64_t *next_of; /* its place; NULL: none was */
    uint32_t next_count;
    uint32_t first_next;
    uint32_t last_next;
    uint32_t *chain_nexts; /* of each head: the first of them in its chain */
    uint32_t *next_stamps; /* of each head: next_stamp, where there is one */
    uint32_t next_stamp;
};

/* Reads the edges of the references' graph, if that was not done before. Zeroed memory is one that was not read.
 *   HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_node_order_read(struct tn_node_order *order, struct tn_gpu *gpu,
                                               const struct tn_references *references,
                                               const struct tn_level *of);

/* Whether the node, by its place in the graph, was captured before a stream stood at words, a place of heap/births.h that
 * stays where it is, or behind that. */
enum tn_captured tn_node_order_find(struct tn_node_order *order, uint32_t node,
                                    const uint64_t *words);
void tn_node_order_drop(struct tn_node_order *order);

#endif
