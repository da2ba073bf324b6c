// SPDX-License-Identifier: Apache-2.0
/* meant.h -- which block a node means, if a capture had several at one address, one after the
 * other.
 *
 * A node means the newest block that had its address when the node was captured. The births of the
 * graph's captures tell which blocks lay there, and where their streams stood when each was
 * allocated (heap/births.h). The graph's edges tell which nodes were captured before this moment,
 * and which behind it (inspect/precedence.h).
 *
 * Nodes of a child graph or a body stand where their node stands, but in births of the body's own
 * capture. Births whose graph is not looked through tell nothing: a child graph is a copy.
 *
 * Locking: none may be held, but for the GRAPHS lock. Nothing waits for the GPU or disturbs a
 * capture. */
#ifndef TARN_INSPECT_MEANT_H
#define TARN_INSPECT_MEANT_H

#include "inspect/references.h"
#include "inspect/standing.h"

enum tn_meant {
    TN_MEANT_LIVE,    /* the live block, and bytes beyond its end */
    TN_MEANT_EARLIER, /* a freed block, in whose bytes the node fits */
    TN_MEANT_UNKNOWN, /* the live block or a freed one */
};

/* The results for a graph's references. Zeroed memory is an empty record. */
struct tn_meanings {
    struct tn_known_births *pools; /* one for each pool asked for */
    /* As many as the references have; NULL: none was needed. */
    struct tn_precedence *levels;
    size_t level_count;
};

/* Finds the block that a node means which touches more bytes than its live block has. graph: the
 * graph of the references.
 *   HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_meant_find(struct tn_meanings *meanings, struct tn_gpu *gpu,
                                          tn_cu_graph graph, const struct tn_references *references,
                                          const struct tn_reference *reference,
                                          const struct tn_finding *finding, enum tn_meant *meant);
void tn_meanings_drop(struct tn_meanings *meanings);

#endif
