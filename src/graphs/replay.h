// SPDX-License-Identifier: Apache-2.0
/* replay.h -- replays of the graphs of one pool, in order.
 *
 *   G3  a pool with more than one graph, or with a closed hold of another graph than its own, orders
 *       replays: each begins on the GPU after the last has ended there
 *
 *     ALONE ──a second graph or hold──▶ ORDERED ──a graph with no other's hold beside it──▶ ALONE
 *                                       ORDERED ──the same, where a replay would be refused──▶ ALONE
 *
 * Locking: the pool's replay lock, rank REPLAY, except where said. */
#ifndef TARN_GRAPHS_REPLAY_H
#define TARN_GRAPHS_REPLAY_H

#include "claims/hold.h"
#include "graphs/record.h"

/* A graph has entered the pool, whose lock is held: from here on replays are ordered, unless this
 * graph is the only one that can run. own: the graph's hold; NULL: none, or not known which. */
void tn_replays_admit(tarn_pool *pool, const struct tn_hold *own);

/* Orders replays from here on if the pool, whose lock is held, has several graphs or holds. */
void tn_replays_consider(tarn_pool *pool);

/* Launches the graph on the stream, behind its pool's last replay. No lock may be held. Returns
 * what tarn_graph_replay may return. */
TARN_MUST_CHECK tarn_status tn_graph_replay(const tarn_graph *graph, tn_cu_stream stream);

/* The same, and writes to the device's history what was replayed, and where. */
TARN_MUST_CHECK tarn_status tn_graph_replay_recorded(const tarn_graph *graph, tn_cu_stream stream);

#endif
