// SPDX-License-Identifier: Apache-2.0
/* replay_visits.h -- turns that restores take among the replays of a pool's graphs, and how work
 * gets behind the last replay.
 *
 * Locking: tn_replays_find_turn and tn_replays_enter_series want the record's lock, rank REPLAY, to
 * be held. The others take it, but for tn_replays_are_launching and tn_replays_precede, which need
 * none. */
#ifndef TARN_GRAPHS_REPLAY_VISITS_H
#define TARN_GRAPHS_REPLAY_VISITS_H

#include "pools/pool.h"

/* A restore takes a turn among the replays of a pool's graphs, since it writes blocks that they
 * refer to. From here on, until tn_replays_leave_visit, none of the graphs is launched, and work
 * enqueued on the stream runs after the last replay. *needs_wait: only a wait for the device,
 * without any lock, makes sure of this; the pool is then not visited. visitor: the restore whose
 * turn it is. A turn of another visitor sets *needs_wait, too. A lock of a pool may be held.
 *   DEVICE_LOST, DRIVER: the pool is not visited */
struct tn_visit {
    const void *visitor;
    tn_cu_stream stream;
    uint64_t stream_id;
    bool by_events; /* the stream may wait for events */
};
TARN_MUST_CHECK tarn_status tn_replays_visit(tarn_pool *pool, const struct tn_visit *visit,
                                             bool *needs_wait);

/* For a visit whose wait was in vain, since other threads replay all the time. Until
 * tn_replays_end_awaited each replay is ordered and leaves an event: the next wait for the device
 * proves all launches before over. The lock of a pool may be held. */
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

enum tn_turn { TN_TURN_KEPT, TN_TURN_BY_EVENT, TN_TURN_UNKNOWN, TN_TURN_REFUSED };

/* How work on the stream gets behind the last replay of the record, which is locked. stream_id 0: a
 * restore or take that names no stream. */
static inline enum tn_turn
tn_replays_find_turn(const struct tn_gpu *gpu, const struct tn_replays *replays, uint64_t stream_id)
{
    TN_ASSERT(tn_lock_held(TN_RANK_REPLAY));
    if (TN_UNLIKELY(!tn_gpu_is_proven(gpu, atomic_load(&replays->alone_stamp))))
        return TN_TURN_UNKNOWN;
    if (TN_LIKELY(atomic_load(&replays->stream_id) == stream_id) ||
        tn_gpu_is_proven(gpu, atomic_load(&replays->stamp)))
        return TN_TURN_KEPT;
    return replays->recorded ? TN_TURN_BY_EVENT : TN_TURN_UNKNOWN;
}

/* Forgets the last replay: the graphs of its time are gone. */
TN_APART void tn_replays_enter_series(tarn_pool *pool, struct tn_replays *replays, uint64_t series);

#endif
