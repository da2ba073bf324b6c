// SPDX-License-Identifier: Apache-2.0
/* seen_node.h -- nodes of a capture by which a user finds the cause of its breaking.
 *
 * The end of a broken capture says that the capture is broken, and the graph is lost with the
 * answer. The graph is therefore looked at before the end.
 *
 * For an invalidated capture, the newest node helps: the node is the last work before the call that
 * broke the capture. The driver tells nothing of an invalidated capture. But the graph exists, and
 * can be read, until the end (measured on an H200, driver 13.0, for six ways to invalidate a
 * capture, and for captures into a user's graph).
 *
 * For a capture with an unjoined forked stream, the loose end helps: a node that no node follows,
 * and at which the capturing stream does not stand. A program may leave a loose end on purpose, by
 * setting a stream's dependencies, or by adding a node by hand; the driver accepts both. A loose
 * end is therefore reported only where the driver complains.
 *
 * Locking: none here. A graph that is being captured can be read on the thread that ends the
 * capture, while no other thread uses its streams. Nothing here waits for the GPU or disturbs a
 * capture. */
#ifndef TARN_NODES_SEEN_NODE_H
#define TARN_NODES_SEEN_NODE_H

#include <stddef.h>

#include "driver/stream.h"

enum { TN_SEEN_NAME_BYTES = 96, TN_LOOSE_END_NODES = 1024 };

struct tn_seen_node {
    size_t number; /* in the order of capture, from 1; 0: none was found */
    size_t node_count;
    tn_cu_graphnode_type type;
    /* its name, cut where it is longer; empty: not known, or no kernel */
    char kernel[TN_SEEN_NAME_BYTES];
};

/* The newest loose end of the capture that the stream has begun, among the TN_LOOSE_END_NODES
 * newest nodes. Number 0 where no loose end is found, or the driver or the host's memory do not
 * allow the look. */
struct tn_seen_node tn_loose_end_find(struct tn_gpu *gpu, tn_cu_stream stream);

/* The newest node of the graph. The graph must exist, and its capture must not have ended. Number 0
 * where the graph has no node, or the driver or the host's memory do not allow the look. */
struct tn_seen_node tn_newest_node_find(struct tn_gpu *gpu, tn_cu_graph graph);

#endif
