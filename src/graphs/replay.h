// SPDX-License-Identifier: Apache-2.0
/* replay.h -- replays of the graphs of one pool, in order.
 *
 *   G3  a pool with more than one graph, or with a closed hold that is not its graph's, orders its
 *       replays: each begins on the GPU after the one before it has ended there
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

/* A restore takes a turn among the replays of a pool's graphs, since it writes blocks that they
 * refer to. From here on, until tn_replays_leave_visit, none of the graphs is launched, and work
 * enqueued on the stream runs after the last replay. *unordered: only a wait for the device,
 * without any lock, makes sure of this; the pool is then not visited. visitor: the restore whose
 * turn it is. A turn of another visitor sets *unordered, too. A lock of a pool may be held.
 *   DEVICE_LOST, DRIVER: the pool is not visited */
struct tn_visit {
    const void *visitor;
    tn_cu_stream stream;
    uint64_t stream_id;
    bool by_events; /* the stream may wait for events */
};
TARN_MUST_CHECK tarn_status tn_replays_visit(tarn_pool *pool, const struct tn_visit *visit,
                                             bool *unordered);

/* For a visit whose wait was in vain, since other threads replay all the time. Until
 * tn_replays_end_awaited each replay is ordered and leaves an event: the next wait for the device
 * settles all launches before. The lock of a pool may be held. */
void tn_replays_await_visit(tarn_pool *pool);

/* For all pools, since the visited pools may be others by now. A restore of another thread that
 * still awaits its visit calls tn_replays_await_visit again when it comes again. No lock of a pool
 * may be held. */
void tn_replays_end_awaited(tarn_device *device);

/* Whether a thread launches the pool's only graph now, without an order. The lock of the pool is
 * held. */
bool tn_replays_are_launching(const tarn_pool *pool);

/* Later replays of the pool come behind the work that the stream has got. The lock of the pool is
 * held. */
void tn_replays_follow(tarn_pool *pool, const struct tn_visit *visit);

/* Ends the turn. worked: later replays come behind the work that the stream has got. */
void tn_replays_leave_visit(tarn_pool *pool, const struct tn_visit *visit, bool worked);

/* Whether work enqueued on the stream now runs after all replays of the pool. Takes no lock; any
 * thread. */
bool tn_replays_precede(const tarn_pool *pool, uint64_t stream_id);

#endif
