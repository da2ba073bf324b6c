// SPDX-License-Identifier: Apache-2.0
/* seen_node.h -- nodes of a capture by which a user finds what broke it.
 *
 * The end of a capture that is broken says so, and the graph is lost with the answer. So the graph is looked at before.
 *
 * Of a capture that was invalidated the newest node is worth a word: it is the last work before the call that
 * broke it. The driver tells nothing of such a capture, but its graph is there, and can be read, until the end
 * (measured on an H200, driver 13.0, for six ways to invalidate one, and for captures into a user's graph).
 *
 * Of a capture whose forked stream was not joined it is the loose end: a node behind which there is none, and that is
 * not what the capturing stream has come to. A program may leave such a node on purpose, by setting a stream's
 * dependencies, or by adding it by hand; the driver does not mind those. So it is worth a word only where the driver does.
 *
 * Locking: none here. A graph that is being captured can be read on the thread that ends the capture, while no other
 * one uses its streams. Nothing here waits for the GPU or disturbs a capture. */
#ifndef TARN_NODES_SEEN_NODE_H
#define TARN_NODES_SEEN_NODE_H

#include <stddef.h>

#include "driver/stream.h"

enum { TN_SEEN_NAME_BYTES = 96, TN_LOOSE_END_LOOKS = 1024 };

struct tn_seen_node {
    size_t number; /* in the order of capture, from 1; 0: none was found */
    size_t node_count;
    tn_cu_graphnode_type type;
    /* its name, cut where it is longer; empty: not known, or no kernel */
    char kernel[TN_SEEN_NAME_BYTES];
};

/* The newest one of the capture that the stream has begun, among its TN_LOOSE_END_LOOKS newest nodes; number 0, where
 * there is none, or the driver or the host's memory do not allow the look. */
struct tn_seen_node tn_loose_end_find(struct tn_gpu *gpu, tn_cu_stream stream);

/* The newest node of the graph, which is there, and a capture's that has not ended; number 0, where it has none, or the
 * driver or the host's memory do not allow the look. */
struct tn_seen_node tn_newest_node_find(struct tn_gpu *gpu, tn_cu_graph graph);

#endif
