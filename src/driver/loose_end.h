// SPDX-License-Identifier: Apache-2.0
/* loose_end.h -- work of a capture that its stream does not wait for.
 *
 * The end of a capture whose forked stream was not joined says that there is one, and the graph is lost with the
 * answer. So the graph is looked at before: for a node behind which there is none, and that is not what the
 * capturing stream has come to. A program may leave such a node on purpose, by setting a stream's dependencies, or by
 * adding it by hand; the driver does not mind those. So it is worth a word only where the driver does.
 *
 * Locking: none here. A graph that is being captured can be read on the thread that ends the capture, while no other
 * one uses its streams. Nothing here waits for the GPU or disturbs a capture. */
#ifndef TARN_DRIVER_LOOSE_END_H
#define TARN_DRIVER_LOOSE_END_H

#include <stddef.h>

#include "driver/stream.h"

enum { TN_LOOSE_END_NAME_BYTES = 96, TN_LOOSE_END_LOOKS = 1024 };

struct tn_loose_end {
    size_t number; /* of the node, in the order of capture, from 1; 0: none was found */
    size_t node_count;
    tn_cu_graphnode_type type;
    char kernel
        [TN_LOOSE_END_NAME_BYTES]; /* its name, cut where it is longer; empty: not known, or no kernel */
};

/* The newest one of the capture that the stream has begun, among its TN_LOOSE_END_LOOKS newest nodes; number 0, where
 * there is none, or the driver or the host's memory do not allow the look. */
struct tn_loose_end tn_loose_end_find(struct tn_gpu *gpu, tn_cu_stream stream);

#endif
