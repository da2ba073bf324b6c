// SPDX-License-Identifier: Apache-2.0
/* former.h -- the holds of destroyed graphs whose handles have come back.
 *
 * A hold knows its graph by the driver's handle. When the program destroys the graph, while an
 * executable of it lives, the hold stays, and the driver gives the handle to the next graph: on an
 * H200 in 192 of 200 captures. No call of the driver tells the two graphs apart. What concerns the
 * new graph must not concern the old one's holds: else an audit takes memory of the old graph for
 * the new one's, and a guard does not see that memory go.
 *
 * Tarn looks where a capture begins. A new graph has no section, so a closed hold with its handle
 * is a former graph's, and forgets the handle. In a graph that may be older than the capture, a
 * hold is a former graph's if the graph has fewer nodes than that section left in it. A hold which
 * a tarn_graph stands for is never one: the library will destroy its graph.
 *
 * Trade-offs: a capture that the program began counts as the first one into its graph. If the
 * program captures into one graph twice (cuStreamBeginCaptureToGraph), the audit knows the second
 * section alone. A graph whose capture Tarn never saw still passes for a former graph. */
#ifndef TARN_GRAPHS_FORMER_H
#define TARN_GRAPHS_FORMER_H

#include "pools/device.h"

/* What is known of the graph in which a capture begins. */
enum tn_sight {
    TN_SIGHT_NEW,  /* a tarn_capture has just made the graph */
    TN_SIGHT_RAW,  /* the program captures: the graph is taken for new */
    TN_SIGHT_INTO, /* a tarn_capture is to go into a graph of the program's */
};

/* The holds of former graphs with this handle, in all pools, forget it. capture_id: of the capture
 * which begins; 0: not known yet. If any pool has a hold of that capture, this has been done. No
 * lock of rank DEVICE or later may be held. */
void tn_former_forget(tarn_device *device, uint64_t capture_id, tn_cu_graph graph,
                      enum tn_sight sight);

#endif
