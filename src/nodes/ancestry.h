// SPDX-License-Identifier: Apache-2.0
/* ancestry.h -- the nodes that the next work of a stream in a capture comes after.
 *
 * Inside a capture no event tells when work has ended, since the work has not begun. The graph
 * being captured tells the order: the nodes on which a stream's next node will depend, and their
 * dependencies in turn. A frontier is the nodes that end a stream's work at a given moment. If
 * another stream's next work comes after them, it comes after all that work.
 *
 *   D4  an ancestry has exactly the nodes that the stream's next node in its capture would depend on,
 *       directly or not, by edges that wait for the whole node
 *
 * Locking: an ancestry and a frontier are guarded by whoever has them. No call waits for the GPU or
 * disturbs a capture. Any thread, but for the per-thread stream, which is the calling thread's. */
#ifndef TARN_NODES_ANCESTRY_H
#define TARN_NODES_ANCESTRY_H

#include <stddef.h>

#include "driver/stream.h"

enum { TN_FRONTIER_MAX = 6, TN_PLACE_MAX = TN_FRONTIER_MAX };

/* Where a stream stands in its capture: the nodes on which its next node will depend. */
struct tn_place {
    const tn_cu_graphnode *nodes; /* the driver's, until the next call that names the stream */
    size_t count;                 /* 0: the stream is behind no node */
    bool known;                   /* false: more than TN_PLACE_MAX, or the driver does not say */
};

/* Asks where the stream stands in the order's capture now. Costs a single question to the driver,
 * except for the default streams. Where the driver refuses, the thread's sentence stays as
 * before. */
void tn_place_ask(struct tn_gpu *gpu, tn_cu_stream stream, struct tn_order order,
                  struct tn_place *place);

struct tn_frontier {
    tn_cu_graphnode nodes[TN_FRONTIER_MAX];
    uint32_t count;
    bool known; /* false: only the end of the capture proves the end of the work */
};

/* Takes the end of all the work that the stream has in the order's capture now. Unknown where the
 * handle means another order by now, the stream has more than TN_FRONTIER_MAX terminal nodes, or
 * the driver refuses. */
void tn_frontier_take(struct tn_gpu *gpu, tn_cu_stream stream, struct tn_order order,
                      struct tn_frontier *frontier);

/* Zeroed memory is an empty ancestry. */
struct tn_ancestry {
    tn_cu_graphnode *nodes; /* a table of the nodes found, by handle */
    size_t capacity;        /* a power of two, or 0 */
    size_t count;
    tn_cu_graphnode *terminals; /* of the stream at the last walk */
    size_t terminal_capacity;
    size_t terminal_count;
    /* in a walk: terminals of the last walk that are not found again yet */
    tn_cu_graphnode *former;
    size_t former_capacity;
    size_t former_count;
    tn_cu_graphnode *pending; /* found, and not asked for their dependencies yet */
    size_t pending_capacity;
    size_t pending_count;
    tn_cu_graphnode *answer; /* of one question to the driver */
    size_t answer_capacity;
    tn_cu_edge_data *edges; /* the same */
    size_t edge_capacity;
};

/* Finds the nodes that the stream's next work comes after now. False, with the ancestry empty,
 * where the stream is not in the order's capture, there is no memory, or the driver refuses. */
bool tn_ancestry_refresh(struct tn_ancestry *ancestry, struct tn_gpu *gpu, tn_cu_stream stream,
                         struct tn_order order);

/* Whether the stream's next work comes after the whole frontier. */
bool tn_ancestry_covers(const struct tn_ancestry *ancestry, const struct tn_frontier *frontier);

void tn_ancestry_fini(struct tn_ancestry *ancestry);

#endif
