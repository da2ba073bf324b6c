// SPDX-License-Identifier: Apache-2.0
/* graph.h -- an instantiated graph on a pool.
 *
 * The record does not list the memory that the graph holds. The user object on the driver's graph
 * is the hold, and lasts as long as any instantiation, clone or running launch.
 *
 * Locking: a graph is used by a single thread at a time, as CUDA demands. The pool's lock guards
 * the count of graphs, the GRAPHS lock the device's list of them. A reader of another thread's
 * driver graph holds the GRAPHS lock: the graph is neither destroyed nor replaced meanwhile.
 * Replays: graphs/replay.h. */
#ifndef TARN_GRAPHS_GRAPH_H
#define TARN_GRAPHS_GRAPH_H

#include "driver/exec.h"
#include "graphs/record.h"
#include "pools/device.h"
#include "tarn/graph.h"

struct tn_guard;

/* Instantiates a graph of the section; the pool does not know the graph yet.
 *   HOST_MEMORY, DEVICE_MEMORY, LIMIT, DEVICE_LOST, DRIVER: the driver's graph is as before */
TARN_MUST_CHECK tarn_status tn_graph_prepare(const struct tn_section *section, tarn_graph **graph);

/* Makes a guard of the graph's kind, for a section that is the graph's or is to be. NULL: no guard.
 *   LIMIT, HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_graph_make_guard(tarn_graph *graph, const struct tn_section *section,
                                                struct tn_guard **guard);

/* Enters the graph in its pool, whose lock is held: from here on it may be replayed. own: the
 * graph's hold in the pool, or NULL. */
void tn_graph_commit(tarn_graph *graph, const struct tn_hold *own);

TARN_MUST_CHECK tarn_status tn_graph_adopt(tarn_pool *pool, tn_cu_graph driver_graph,
                                           tarn_graph **graph);
void tn_graph_destroy(tarn_graph *graph);

#endif
