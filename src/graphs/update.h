// SPDX-License-Identifier: Apache-2.0
/* update.h -- updates an executable graph to a new capture's form.
 *
 * Locking: as graphs and captures: one thread at a time uses either. */
#ifndef TARN_GRAPHS_UPDATE_H
#define TARN_GRAPHS_UPDATE_H

#include "graphs/capture.h"

/* Ends the capture and puts the new graph into this graph's executable. Returns what
 * tarn_graph_update may return. */
TARN_MUST_CHECK tarn_status tn_graph_update(tarn_graph *graph, tarn_capture *capture);

#endif
