// SPDX-License-Identifier: Apache-2.0
/* admit.h -- how a pool learns of captures that it has not begun.
 *
 * Locking: as each function says. */
#ifndef TARN_GRAPHS_ADMIT_H
#define TARN_GRAPHS_ADMIT_H

#include "pools/pool.h"

/* Opens a hold for the capture and puts its user object on the graph, or on another one that lives as
 * long; the pool's lock is held. HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_capture_open_hold(tarn_pool *pool,
                                                 const struct tn_stream_state *state, bool owned,
                                                 tn_cu_graph keeper, struct tn_hold **hold);

/* Sees to it that the pool has an open hold for the capture of the order, which the stream is in, with a user
 * object on its graph: for captures that the user began, and for a tarn_capture's allocations from other pools.
 * route_id: of the route that led here, or 0. No lock may be held.
 *   CAPTURE_BROKEN: the capture is over by now; HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_capture_admit(tarn_pool *pool, tarn_stream stream,
                                             struct tn_order order, uint64_t route_id);

/* Before a free in a pool that has routes: where the stream of one is being captured by its user, opens
 * the hold, so that what is freed is kept for the graph. False where that fails, or cannot be done on this
 * thread: then what is freed is unheld, and waits for tn_capture_hold_graph. No lock may be held. */
bool tn_capture_notice(tarn_pool *pool);

/* Whether the stream of one of the pool's routes is being captured by its user, be it that the pool has no hold for that
 * yet. No lock may be held. DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_capture_look(tarn_pool *pool, bool *announced);

/* Gives a graph that is about to be instantiated a hold of what is unheld in the pool. Where nothing is, one without
 * memory, unless the graph has a hold: its end says that no launch runs any more, for the order of replays (G3).
 * No lock may be held. HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_capture_hold_graph(tarn_pool *pool, tn_cu_graph graph);

#endif
