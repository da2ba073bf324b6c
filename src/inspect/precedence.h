// SPDX-License-Identifier: Apache-2.0
/* precedence.h -- which nodes of a graph were captured before a moment, and which behind it.
 *
 *   G8  a node that is told to be before a moment of its capture, or behind it, was captured so
 *
 * A moment is the place where a stream stood: the nodes that its next node was to depend on
 * (heap/births.h). The driver lists the nodes of a graph in the order in which they were made. A
 * node's place in this list tells:
 *
 * - A node that is not behind the last node of the place was captured before the moment, on
 *   whatever stream.
 * - The stream's next node depends on all nodes of the place. The first node of each stream that
 *   was forked there does so, too, perhaps before the moment. A node that is behind the last of
 *   these, and depends on one of them, was captured behind the moment.
 * - The moment of any other node is not known: several streams were forked there, or the node was
 *   added by hand.
 *
 * Locking: the owner guards the record. Nothing waits for the GPU or disturbs a capture. */
#ifndef TARN_INSPECT_PRECEDENCE_H
#define TARN_INSPECT_PRECEDENCE_H

#include "inspect/references.h"
#include "nodes/edges.h"

enum tn_captured { TN_CAPTURED_BEFORE, TN_CAPTURED_BEHIND, TN_CAPTURED_UNKNOWN };

struct tn_handle {
    tn_cu_graphnode node;
    uint32_t index; /* among the graph's nodes */
};

struct tn_precedence {
    bool is_read;
    uint32_t count;
    struct tn_handle *handles; /* in order of node */
    struct tn_edge *edges;     /* in order of to, then of from */
    size_t edge_count;
    /* Each node's first edge; a last entry marks the end. */
    uint32_t *begins;
    struct tn_edge *outward; /* in order of from, then of to */
    uint32_t *outward_begins;
    uint32_t *heads;  /* of each node: the head of its chain */
    uint32_t *stamps; /* of a walk: the nodes met */
    uint32_t *stack;  /* of a walk */
    uint32_t stamp;   /* of the last walk */
    /* The nodes that may be the stream's next ones, for the place that was asked for last: */
    const uint64_t *next_of; /* the place; NULL: none was asked for */
    uint32_t next_count;
    uint32_t first_next;
    uint32_t last_next;
    uint32_t *chain_nexts; /* of each head: its chain's first next node */
    /* Each head's next_stamp, if its chain has a next node. */
    uint32_t *next_stamps;
    uint32_t next_stamp;
};

/* Reads the edges of the references' graph, unless they are read already. Zeroed memory is an
 * unread record.
 *   HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_precedence_read(struct tn_precedence *order, struct tn_gpu *gpu,
                                               const struct tn_references *references,
                                               const struct tn_level *of);

/* Whether the node, by its place in the graph, was captured before a stream stood at `words`, or
 * behind this moment. `words` is a place of heap/births.h that stays where it is. */
enum tn_captured tn_precedence_find(struct tn_precedence *order, uint32_t node,
                                    const uint64_t *words);
void tn_precedence_drop(struct tn_precedence *order);

#endif
