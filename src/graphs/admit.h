// SPDX-License-Identifier: Apache-2.0
/* admit.h -- how a pool learns of captures that others have begun.
 *
 * Locking: each function's comment says. */
#ifndef TARN_GRAPHS_ADMIT_H
#define TARN_GRAPHS_ADMIT_H

#include "pools/pool.h"

/* Opens a hold for the capture and puts its user object on `keeper`: the capturing graph, or
 * another graph that lives as long. The pool's lock is held. HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_capture_open_hold(tarn_pool *pool,
                                                 const struct tn_stream_state *state, bool owned,
                                                 tn_cu_graph keeper, struct tn_hold **hold);

/* Gives the pool an open hold for the capture of the order, which the stream is in, and puts a user
 * object on the capture's graph. This serves captures that the user began, and a tarn_capture's
 * allocations from other pools. route_id: of the route that led here, or 0. No lock may be held.
 *   CAPTURE_BROKEN: the capture has ended by now; HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_capture_admit(tarn_pool *pool, tarn_stream stream,
                                             struct tn_order order, uint64_t route_id);

/* Comes before a free in a pool that has routes. Where the user captures the stream of a route,
 * opens the hold, which then keeps the freed block for the graph. False where this fails, or cannot
 * be done on this thread: the freed block is unheld, and waits for tn_capture_hold_graph. No lock
 * may be held. */
bool tn_capture_notice(tarn_pool *pool);

/* Whether the user captures the stream of one of the pool's routes, also where the pool has no hold
 * for the capture yet. No lock may be held. DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_capture_find_announced(tarn_pool *pool, bool *announced);

/* Gives a graph that is about to be instantiated a hold of everything unheld in the pool. Where
 * nothing is unheld and the graph has no open hold, gives it a hold without memory, *empty: the end
 * of this hold tells the order of replays that no launch runs any more (G3). No lock may be held.
 * HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_capture_hold_graph(tarn_pool *pool, tn_cu_graph graph,
                                                  struct tn_hold **empty);

/* The graph was not instantiated, and has not gone: takes the hold without memory back, if there is
 * one. No lock may be held. */
void tn_capture_unhold_graph(tarn_pool *pool, tn_cu_graph graph, struct tn_hold *empty);

#endif
