// SPDX-License-Identifier: Apache-2.0
/* meant.h -- which block a node means, where a capture had several at one address, one after the other.
 *
 * A node means the newest block that had its address when the node was captured. The births of the graph's captures say
 * which blocks lay there, and where their streams stood when each was allocated (heap/births.h); the graph's edges say
 * what was captured before that, and what behind it (inspect/node_order.h).
 *
 * Nodes of a child graph or a body stand where their node stands, but in births of that body's own capture. Of births
 * whose graph is not among those that are looked through nothing is known: a child graph is a copy.
 *
 * Locking: none may be held, but for the GRAPHS lock. Nothing waits for the GPU or disturbs a capture. */
#ifndef TARN_INSPECT_MEANT_H
#define TARN_INSPECT_MEANT_H

#include "inspect/references.h"
#include "inspect/standing.h"

enum tn_meant {
    TN_MEANT_LIVE,    /* the live block, and bytes beyond its end */
    TN_MEANT_EARLIER, /* one that was freed, and whose bytes the node fits in */
    TN_MEANT_UNKNOWN, /* one or the other */
};

/* What was found for a graph's references. Zeroed memory is an empty one. */
struct tn_meanings {
    struct tn_known_births *pools; /* one for each that was asked for */
    struct tn_node_order *levels;  /* as many as the references have; NULL: none was needed */
    size_t level_count;
};

/* What a node means that touches more bytes than its live block has. graph: whose references these are.
 *   HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_meant_find(struct tn_meanings *meanings, struct tn_gpu *gpu,
                                          tn_cu_graph graph, const struct tn_references *references,
                                          const struct tn_reference *reference,
                                          const struct tn_finding *finding, enum tn_meant *meant);
void tn_meanings_drop(struct tn_meanings *meanings);

#endif
