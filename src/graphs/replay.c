// SPDX-License-Identifier: Apache-2.0
/* Replays and their order.
 *
 * Graphs that share a pool write the same memory, so they must not overlap in time. As long as a
 * pool has one graph the driver sees to that: launches of one executable never overlap, and nothing
 * but the epoch of the launch is noted, without a lock. From the second graph on each replay is
 * ordered behind the last one. On the same stream that is a comparison: a replay that leaves nothing to be
 * seen to says on which stream the next one is in order (next_id), and whatever that one would have to heed takes it
 * back. On another stream the GPU waits for an event that was recorded behind the last replay.
 *
 * No event is recorded as long as all replays are on one stream. So the first replay on another
 * stream has no event to wait for, and nobody may touch the handle of the stream before: it may be
 * destroyed. That replay waits for the device once, and from then on each replay records the event.
 * The wait is made without the lock; another replay may come between, but it records the event, so
 * the second look finds an order.
 *
 * A second graph may come while a thread is launching the first one as the only one. That thread says so
 * before it looks whether replays are ordered, and whoever orders them says that they are before anybody
 * looks for the thread: one of the two sees the other. There is one such thread at most, for the user
 * serialises the replays of one graph.
 *
 * The fence between saying and looking is left to those who order replays (base/barrier.h): once a
 * second graph is there it is done with, and till then each launch goes without. It comes before
 * anybody looks:
 *   - another graph's replays begin after the graph has entered its pool, which is after
 *     tn_replays_order; or that has found replays ordered already: by one who entered the same pool
 *     before, under its lock, or by a join, whose lock of the record each ordered replay takes;
 *   - a replay that finds replays ordered before tn_replays_order has returned is of the graph that was
 *     the only one, and not at the same time as another of that graph; or of a pool that joins, which
 *     is the first case;
 *   - a join looks itself, behind a fence of its own.
 * Who asks whether a launch is under way without ordering replays (pools/handover.c) has no fence; to
 * miss one that has just begun is to have asked before it. The caller sees to the order of such.
 *
 * A pool may be told to refuse the change of streams instead. Whether it still has several graphs is looked at
 * where a replay would be refused, and nowhere else; if not, its only graph goes back to being launched without
 * an order. Pools that one graph writes to share one order: claims/replays.h.
 *
 * The replay lock is held from the look at the last replay to the note of this one, the launch
 * included: the order of launches is the order that was noted. A launch waits on the host when the
 * driver's queue is full, which is why the lock is none of the pool's own.
 *
 * A restore writes what graphs of other pools refer to under a guard, so it takes a turn in the order of each of
 * these pools' replays, as if it were one (tn_replays_visit). A pool's only graph is ordered for its sake until the next
 * replay has come behind it. A restore keeps several pools from replaying at a time, and has the lock of none of them
 * meanwhile, so that it comes to no lock out of turn: who launches, or joins two orders, waits until a record has no
 * visitor. A visitor waits for nobody: it goes and comes again.
 *
 * Trade-offs: a pool that changes streams once pays for an event at each replay from then on. Two
 * graphs are ordered even where they share no memory. */
#include "graphs/replay.h"

#include <sched.h>
#include <stddef.h>

#include "base/barrier.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/hot.h"
#include "base/user_code.h"
#include "driver/exec.h"
#include "driver/idle.h"
#include "graphs/broken.h"
#include "pools/janitor.h"
#include "pools/pool.h"

void tn_replays_consider(tarn_pool *pool)
{
    TN_ASSERT(tn_lock_held(TN_RANK_POOL));
    if (pool->claims.graph_count > 1 || pool->holds.count > 1)
        tn_replays_order(atomic_load(&pool->replays)); /* G3 */
}

/* Whether no launch of another graph can touch the pool's memory: one that was destroyed keeps its hold
 * as long as its launches run. */
static bool is_alone(const tarn_pool *pool, const struct tn_hold *own)
{
    TN_ASSERT(pool->holds.count != 1 || pool->holds.first != NULL);
    return pool->claims.graph_count == 1 &&
           (pool->holds.count == 0 || (pool->holds.count == 1 && pool->holds.first == own));
}

/* Whether a restore has its turn or comes again, or the next replay is to come behind one. The record is locked. */
static bool is_visited(const tarn_pool *pool, const struct tn_replays *replays)
{
    TN_ASSERT(tn_lock_held(TN_RANK_REPLAY));
    return replays->is_visited || replays->awaited ||
           (replays->visited &&
            !tn_gpu_is_proven(&pool->device->gpu, atomic_load(&replays->stamp)));
}

/* The pool's graph is its only one. A pool that joins the order meanwhile does so with the lock of that. Nobody
 * else but such a pool launches with it now: so a launch is hardly ever waited for here. was_launched: it may
 * have been; else no launch of any graph before runs, or will any more. */
static void end_order(tarn_pool *pool, bool was_launched)
{
    struct tn_replays *replays;

    TN_ASSERT(tn_pool_is_locked(pool));
    TN_ASSERT(pool->claims.graph_count == 1);
    atomic_store(&pool->replay_stream_id, 0);
    if (atomic_load(&pool->replays->shared))
        return;
    replays = tn_replays_lock(&pool->replays);
    tn_replays_look(replays);
    if (is_visited(pool, replays)) {
        replays->lent = true;
    } else if (!atomic_load(&replays->shared)) {
        atomic_store(&replays->ordered, false);
        replays->crosses = replays->crosses && !replays->lent;
        replays->lent = false;
        if (!was_launched)
            atomic_fetch_add(&replays->series, 1);
    }
    tn_replays_unlock(replays);
}

void tn_replays_admit(tarn_pool *pool, const struct tn_hold *own)
{
    TN_ASSERT(tn_lock_held(TN_RANK_POOL));
    if (is_alone(pool, own))
        end_order(pool, false);
    else
        tn_replays_order(atomic_load(&pool->replays)); /* G3 */
}

/* Ends the order of a pool that refuses replays, where the graph was left alone in it; false where it was not. What is
 * being captured has not been launched, so an open hold says nothing. Who captures and replays another graph from now on
 * finds the last replay where it was. No lock may be held. */
static TN_APART bool end_order_if_alone(const tarn_graph *graph)
{
    tarn_pool *pool = graph->pool;
    bool alone;

    TN_ASSERT(tn_lock_none_held());
    if (pool->replay_order != TARN_REPLAY_REFUSED)
        return false;
    tn_device_reap(pool->device); /* launches that have ended */
    tn_pool_lock(pool);
    alone =
        pool->claims.graph_count == 1 && tn_holds_are_kept_by(&pool->holds, graph->driver_graph);
    if (alone)
        end_order(pool, true);
    tn_pool_unlock(pool);
    return alone;
}

/* The same where replays were ordered for a restore's sake, which this one has come behind. */
static TN_APART void end_loan(const tarn_graph *graph)
{
    tarn_pool *pool = graph->pool;

    TN_ASSERT(tn_lock_none_held());
    tn_pool_lock(pool);
    if (pool->claims.graph_count == 1 && tn_holds_are_kept_by(&pool->holds, graph->driver_graph)) {
        end_order(pool, true);
    } else {
        struct tn_replays *replays = tn_replays_lock(&pool->replays);

        replays->lent = false; /* there are others by now */
        tn_replays_unlock(replays);
    }
    tn_pool_unlock(pool);
}

/* Locks the pool's record, which no restore visits. Such one waits for nobody. */
static struct tn_replays *lock_unvisited(tarn_pool *pool)
{
    struct tn_replays *replays = tn_replays_lock(&pool->replays);

    while (replays->is_visited) {
        tn_replays_unlock(replays);
        (void)sched_yield();
        replays = tn_replays_lock(&pool->replays);
    }
    TN_ASSERT(!replays->is_visited && tn_lock_held(TN_RANK_REPLAY));
    return replays;
}

/* Forgets the last replay: the graphs of its time are gone. */
static TN_APART void enter_series(tarn_pool *pool, struct tn_replays *replays, uint64_t series)
{
    TN_ASSERT(tn_lock_held(TN_RANK_REPLAY));
    TN_ASSERT(replays->seen_series != series && replays->next_id == 0);
    replays->seen_series = series;
    atomic_store(&replays->stream_id, 0);
    atomic_store(&pool->replay_stream_id, 0);
    atomic_store(&replays->stamp, 0);
    replays->recorded = false;
}

enum order { ORDER_KEPT, ORDER_BY_EVENT, ORDER_UNKNOWN, ORDER_REFUSED };

/* What work on the stream needs to be behind the last replay of the record, which is locked. stream_id 0: of a restore or
 * take that names no stream. */
static inline enum order order_behind(const struct tn_gpu *gpu, const struct tn_replays *replays,
                                      uint64_t stream_id)
{
    TN_ASSERT(tn_lock_held(TN_RANK_REPLAY));
    if (TN_UNLIKELY(!tn_gpu_is_proven(gpu, atomic_load(&replays->alone_stamp))))
        return ORDER_UNKNOWN;
    if (TN_LIKELY(atomic_load(&replays->stream_id) == stream_id) ||
        tn_gpu_is_proven(gpu, atomic_load(&replays->stamp)))
        return ORDER_KEPT;
    return replays->recorded ? ORDER_BY_EVENT : ORDER_UNKNOWN;
}

/* The same for a replay of the pool's. */
static inline enum order order_behind_last(const tarn_pool *pool, const struct tn_replays *replays,
                                           uint64_t stream_id)
{
    uint64_t own = atomic_load(&pool->replay_stream_id);

    if (TN_UNLIKELY(own != stream_id) && own != 0 && pool->replay_order == TARN_REPLAY_REFUSED)
        return ORDER_REFUSED;
    return order_behind(&pool->device->gpu, replays, stream_id);
}

static tarn_status refuse(const tarn_pool *pool, uint64_t stream_id)
{
    TN_ASSERT(pool->replay_order == TARN_REPLAY_REFUSED);
    return tn_fail(
        TARN_ERR_WRONG_STATE,
        "pool '%s' has several graphs, or launches of one that was destroyed run, and they "
        "share memory: its replays are on stream id %llu, this one is on %llu; replay all "
        "of them on one stream, or make the pool with TARN_REPLAY_ORDERED",
        pool->name, (unsigned long long)atomic_load(&pool->replay_stream_id),
        (unsigned long long)stream_id);
}

/* Puts the stream behind the last replay where it is not yet. The lock of *held is held, before and
 * afterwards: the pool may have another record by then. WRONG_STATE: it refuses the stream, if it has several graphs. */
static tarn_status take_turn(tarn_pool *pool, tn_cu_stream stream, uint64_t stream_id,
                             struct tn_replays **held, bool *refused)
{
    struct tn_replays *replays = *held;
    struct tn_gpu *gpu = &pool->device->gpu;
    enum order order = order_behind_last(pool, replays, stream_id);
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_lock_held(TN_RANK_REPLAY));
    while (order == ORDER_UNKNOWN && status == TARN_OK) {
        uint64_t last = atomic_load(&replays->stream_id);

        replays->crosses = replays->crosses || (last != 0 && last != stream_id);
        tn_replays_look(replays); /* it crosses now, or another thread has had a turn */
        tn_replays_unlock(replays);
        status = tn_gpu_wait_idle(gpu);
        replays = lock_unvisited(pool);
        if (status == TARN_OK)
            order = order_behind_last(pool, replays, stream_id);
    }
    TN_ASSERT(tn_lock_held(TN_RANK_REPLAY));
    *held = replays;
    *refused = status == TARN_OK && order == ORDER_REFUSED;
    if (*refused)
        status = refuse(pool, stream_id);
    if (status == TARN_OK && order == ORDER_BY_EVENT)
        status = tn_stream_wait(gpu, stream, replays->event);
    return status;
}

/* The thread launches the pool's only graph from here on; false: there are others by now. No instruction here locks
 * memory or waits for a store: each of them would, after a launch, wait for all that the driver has written. */
static TN_ALWAYS_INLINE bool begin_alone(struct tn_replays *replays)
{
    if (TN_UNLIKELY(atomic_load_explicit(&replays->ordered, memory_order_acquire)))
        return false;
    atomic_store_explicit(&replays->launching_alone, true, memory_order_relaxed);
    tn_barrier_light(); /* its heavy side: tn_replays_order */
    if (TN_LIKELY(!atomic_load_explicit(&replays->ordered, memory_order_acquire)))
        return true;
    atomic_store_explicit(&replays->launching_alone, false, memory_order_release);
    return false;
}

/* It has launched it. After a launch each look is a miss: there is one, at the epoch, and the record is only written. */
static TN_ALWAYS_INLINE void end_alone(struct tn_replays *replays, const struct tn_gpu *gpu)
{
    /* After the launch: a wait that begins before it proves nothing of it. */
    atomic_store_explicit(&replays->alone_stamp, tn_gpu_epoch(gpu), memory_order_relaxed);
    atomic_store_explicit(&replays->launching_alone, false, memory_order_release);
}

/* The driver's call may end the thread, where it is cancelled: then the launch ends on the way, as if it had been made. */
struct alone {
    struct tn_replays *replays;
    const struct tn_gpu *gpu;
};

static TN_ALWAYS_INLINE void leave_alone(const struct alone *alone)
{
    end_alone(alone->replays, alone->gpu);
}

/* The driver's call between begin_alone and its end. */
static TN_ALWAYS_INLINE tn_cu_result launch_alone(struct tn_replays *replays,
                                                  const struct tn_gpu *gpu, tn_cu_graphexec exec,
                                                  tn_cu_stream stream)
{
    const struct alone alone __attribute__((cleanup(leave_alone), unused)) = {replays, gpu};

    return tn_exec_try_launch(gpu, exec, stream);
}

/* Takes note of a replay that was launched. The lock orders those who replay. Who reads without it reads
 * the stream before the stamp: it finds the new stream, or the old one, which is to have looked before the
 * launch, or a stamp that is not proven. So no store here is waited for, and none of the launch's with it. */
static inline void note_replay(tarn_pool *pool, const struct tn_gpu *gpu,
                               struct tn_replays *replays, uint64_t stream_id)
{
    TN_ASSERT(tn_lock_held(TN_RANK_REPLAY));
    TN_ASSERT(stream_id != 0);
    atomic_store_explicit(&replays->stream_id, stream_id, memory_order_release);
    atomic_store_explicit(&pool->replay_stream_id, stream_id, memory_order_release);
    atomic_store_explicit(&replays->stamp, tn_gpu_epoch(gpu), memory_order_release);
}

/* A replay behind the last one, wherever that was. *refused: the pool refuses the stream. */
static tarn_status launch_in_turn(const tarn_graph *graph, tn_cu_stream stream, bool *refused)
{
    tarn_pool *pool = graph->pool;
    struct tn_gpu *gpu = &pool->device->gpu;
    struct tn_replays *replays;
    struct tn_stream_state state;
    uint64_t stream_id;
    uint64_t series;
    bool lent;
    tarn_status status = tn_stream_look(gpu, stream, TN_STREAM_ID, &state);

    stream_id = state.order.stream_id;
    if (status == TARN_OK && stream_id != atomic_load(&pool->replays->stream_id))
        status = tn_stream_meet(gpu, stream);
    if (status != TARN_OK)
        return status;
    replays = lock_unvisited(pool);
    if (atomic_load(&replays->launching_alone))
        tn_replays_await_alone(replays);
    series = atomic_load(&replays->series);
    if (replays->seen_series != series)
        enter_series(pool, replays, series);
    if (order_behind_last(pool, replays, stream_id) != ORDER_KEPT)
        status = take_turn(pool, stream, stream_id, &replays, refused);
    if (status == TARN_OK)
        status = tn_exec_launch(gpu, graph->exec, stream);
    if (status == TARN_OK) {
        note_replay(pool, gpu, replays, stream_id);
        replays->visited = false;
        /* Without an event the next change of streams waits for the device. */
        replays->recorded = replays->crosses && tn_event_renew(gpu, &replays->event, stream);
        TN_ASSERT(replays->crosses || !atomic_load(&replays->shared));
        replays->next_id = replays->crosses ? 0 : stream_id;
    }
    lent = replays->lent && !replays->awaited && status == TARN_OK;
    tn_replays_unlock(replays);
    if (lent)
        end_loan(graph);
    return status;
}

/* Makes sure that replays are ordered, though there may be one graph. The record is locked. */
static void borrow(struct tn_replays *replays)
{
    TN_ASSERT(tn_lock_held(TN_RANK_REPLAY));
    if (atomic_load(&replays->ordered))
        return;
    replays->lent = true;
    atomic_store(&replays->ordered, true);
    tn_barrier_heavy(); /* its light side: begin_alone */
}

tarn_status tn_replays_visit(tarn_pool *pool, const struct tn_visit *visit, bool *unordered)
{
    struct tn_gpu *gpu = &pool->device->gpu;
    struct tn_replays *replays = tn_replays_lock(&pool->replays);
    uint64_t series = atomic_load(&replays->series);
    enum order order;
    tarn_status status = TARN_OK;

    TN_ASSERT(visit->visitor != NULL);
    *unordered = replays->visitor != NULL && replays->visitor != visit->visitor;
    if (replays->visitor != NULL)
        goto unlock; /* the pools have one record: it is visited once */
    borrow(replays);
    TN_ASSERT(atomic_load(&replays->ordered));
    if (replays->seen_series != series)
        enter_series(pool, replays, series);
    order = order_behind(gpu, replays, visit->stream_id);
    *unordered = order == ORDER_UNKNOWN || (order == ORDER_BY_EVENT && !visit->by_events) ||
                 atomic_load(&replays->launching_alone);
    if (!*unordered && order == ORDER_BY_EVENT)
        status = tn_stream_wait(gpu, visit->stream, replays->event);
    if (!*unordered && status == TARN_OK) {
        replays->visitor = visit->visitor;
        replays->is_visited = true;
        replays->visited_id = atomic_load(&replays->stream_id);
        atomic_store(&replays->stream_id, 0);
        tn_replays_look(replays);
    }
unlock:
    tn_replays_unlock(replays);
    return status;
}

void tn_replays_await_visit(tarn_pool *pool)
{
    struct tn_replays *replays = tn_replays_lock(&pool->replays);

    borrow(replays);
    tn_replays_look(replays);
    replays->crosses = true;
    replays->awaited = true;
    tn_replays_unlock(replays);
}

bool tn_replays_are_launching(const tarn_pool *pool)
{
    return atomic_load(&atomic_load(&pool->replays)->launching_alone);
}

void tn_replays_end_awaited(tarn_device *device)
{
    tn_lock_acquire(&device->lock);
    /* No visit: the record of replays has a lock of its own. */
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        struct tn_replays *replays = tn_replays_lock(&pool->replays);

        replays->awaited = false;
        tn_replays_unlock(replays);
    }
    tn_lock_release(&device->lock);
}

void tn_replays_leave_visit(tarn_pool *pool, const struct tn_visit *visit, bool worked)
{
    struct tn_gpu *gpu = &pool->device->gpu;
    struct tn_replays *replays = tn_replays_lock(&pool->replays);

    TN_ASSERT(visit->visitor != NULL);
    if (replays->visitor != visit->visitor)
        goto unlock; /* it has left it, as another pool's */
    replays->visitor = NULL;
    replays->is_visited = false;
    if (!worked) {
        atomic_store(&replays->stream_id, replays->visited_id);
        goto unlock;
    }
    atomic_store(&replays->stream_id, visit->stream_id);
    atomic_store(&replays->stamp, tn_gpu_epoch(gpu));
    replays->visited = true;
    replays->recorded = tn_event_renew(gpu, &replays->event, visit->stream);
unlock:
    tn_replays_unlock(replays);
}

void tn_replays_follow(tarn_pool *pool, const struct tn_visit *visit)
{
    const struct tn_gpu *gpu = &pool->device->gpu;
    struct tn_replays *replays;
    bool unordered = true;
    tarn_status status = tn_replays_visit(pool, visit, &unordered);

    TN_ASSERT(tn_pool_is_locked(pool));
    TN_ASSERT(visit->visitor != NULL);
    if (status == TARN_OK && !unordered) {
        tn_replays_leave_visit(pool, visit, true);
        return;
    }
    replays = tn_replays_lock(&pool->replays);
    borrow(replays);
    tn_replays_look(replays);
    atomic_store(&replays->alone_stamp, tn_gpu_epoch(gpu)); /* the next one waits for the device */
    atomic_store(&replays->stamp, tn_gpu_epoch(gpu));
    replays->visited = true;
    tn_replays_unlock(replays);
}

/* On any stream, whichever graphs there are. */
static tarn_status launch(const tarn_graph *graph, tn_cu_stream stream, bool *refused)
{
    struct tn_replays *replays = graph->replays;
    struct tn_gpu *gpu = graph->gpu;
    tarn_status status;

    if (!begin_alone(replays))
        return launch_in_turn(graph, stream, refused);
    status = tn_exec_launch(gpu, graph->exec, stream);
    end_alone(replays, gpu);
    return status;
}

/* A replay has come to a stream in a broken capture, which it has broken, or was refused for. Notes that; whether the
 * capture is a tarn_capture's. */
static bool note_broken(struct tn_gpu *gpu, tn_cu_stream stream, bool breaks)
{
    tarn_device *device = (tarn_device *)((char *)gpu - offsetof(tarn_device, gpu));
    const struct tn_hold_call call = {"tarn_graph_replay", 0, breaks};
    struct tn_broken before;

    return tn_broken_note(device, tn_stream_captured_id(stream), call, &before) != 0;
}

static tarn_status say_captured(struct tn_gpu *gpu, tn_cu_stream stream)
{
    return tn_fail(
        TARN_ERR_WRONG_STATE,
        "replaying a graph: the stream is being captured%s, and the driver invalidates a "
        "capture for a launch into it; abort it, and nest graphs as child nodes instead",
        note_broken(gpu, stream, true) ? " by a tarn_capture" : "");
}

/* The driver has refused a launch, or before it the question for the stream's id. say: what that means elsewhere. No
 * lock may be held. */
static TN_RARE tarn_status not_launched(struct tn_gpu *gpu, tn_cu_stream stream,
                                        tn_cu_result result,
                                        tarn_status (*say)(struct tn_gpu *gpu, tn_cu_result result))
{
    bool breaks = result == TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;

    int cancel;
    tarn_status status;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    if (!tn_stream_is_broken(gpu, stream)) {
        status = say(gpu, result);
    } else if (breaks) {
        status = say_captured(gpu, stream);
    } else {
        (void)note_broken(gpu, stream, false);
        status = say(gpu, result);
    }
    (void)pthread_setcancelstate(cancel, NULL);
    return status;
}

/* The same where the status alone is there, and its sentence. */
static TN_RARE tarn_status look_at_failure(struct tn_gpu *gpu, tn_cu_stream stream,
                                           tarn_status status)
{
    bool breaks = status == TARN_ERR_WRONG_STATE;

    if (!tn_stream_is_broken(gpu, stream))
        return status;
    if (breaks)
        return say_captured(gpu, stream);
    (void)note_broken(gpu, stream, false);
    return status;
}

/* The same; a pool that refuses it may have but this graph by now. Each round but the last finds it alone: so another
 * one comes only where other threads' graphs come and go. */
static TN_APART tarn_status launch_again(const tarn_graph *graph, tn_cu_stream stream)
{
    bool refused = false;
    int cancel;
    tarn_status status;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    stream = tn_device_stream(graph->pool->device, stream);
    status = launch(graph, stream, &refused);
    while (refused && end_order_if_alone(graph)) {
        refused = false;
        status = launch(graph, stream, &refused);
    }
    if (TN_UNLIKELY(status != TARN_OK))
        status = look_at_failure(graph->gpu, stream, status);
    (void)pthread_setcancelstate(cancel, NULL);
    return status;
}

/* A replay of which the record is locked. As above where the driver's call ends the thread. */
struct turn {
    struct tn_replays *replays;
    const struct tn_gpu *gpu;
    bool launched;
};

static TN_ALWAYS_INLINE void leave_turn(const struct turn *turn)
{
    if (TN_LIKELY(turn->launched)) /* of what note_replay notes the rest is as it was */
        atomic_store_explicit(&turn->replays->stamp, tn_gpu_epoch(turn->gpu), memory_order_release);
    tn_replays_unlock(turn->replays);
}

static TN_ALWAYS_INLINE tn_cu_result launch_in_series(struct tn_replays *replays,
                                                      const struct tn_gpu *gpu,
                                                      tn_cu_graphexec exec, tn_cu_stream stream)
{
    struct turn turn __attribute__((cleanup(leave_turn))) = {replays, gpu, true};
    tn_cu_result result = tn_exec_try_launch(gpu, exec, stream);

    turn.launched = result == TN_CUDA_SUCCESS;
    return result;
}

/* G3: what a record that knows the next stream says of it. A launch as the only one that has just begun is none of it:
 * it looks again, and goes back. */
__attribute__((unused)) static bool knows_next(const tarn_pool *pool,
                                               const struct tn_replays *replays)
{
    return atomic_load(&pool->replays) == replays && atomic_load(&replays->ordered) &&
           atomic_load(&replays->stream_id) == replays->next_id &&
           atomic_load(&pool->replay_stream_id) == replays->next_id && !replays->crosses &&
           !replays->is_visited && replays->seen_series == atomic_load(&replays->series) &&
           tn_gpu_is_proven(&pool->device->gpu, atomic_load(&replays->alone_stamp));
}

/* The next replay of several graphs' on one stream. The record is that which the pool had when the graph was made: one
 * that its pool has left knows no next. */
static TN_APART TN_HOT tarn_status launch_next(const tarn_graph *graph, tn_cu_stream stream)
{
    struct tn_gpu *gpu = graph->gpu;
    struct tn_replays *replays = graph->replays;
    uint64_t stream_id;
    tn_cu_result result = tn_stream_try_id(gpu, stream, &stream_id);

    if (TN_UNLIKELY(result != TN_CUDA_SUCCESS))
        return not_launched(gpu, stream, result, tn_stream_refuse_id);
    tn_lock_acquire_spin(&replays->lock, TN_RANK_REPLAY);
    if (TN_UNLIKELY(replays->next_id != stream_id)) {
        tn_replays_unlock(replays);
        return launch_again(graph, stream);
    }
    TN_ASSERT(knows_next(graph->pool, replays));
    return tn_exec_launched(gpu, launch_in_series(replays, gpu, graph->exec, stream));
}

/* Where the GPU is not calm: it is usable all the same where functions of the program's are being called, none of
 * which this thread has left by a jump. */
static TN_RARE tarn_status replay_after_news(const tarn_graph *graph, tn_cu_stream stream)
{
    tarn_status status;

    tn_user_code_check();
    status = tn_gpu_check(graph->gpu);
    return status == TARN_OK ? launch_again(graph, stream) : status;
}

/* What comes often stands in here and in launch_next, and in few lines of code: after a launch nothing of the library is
 * in the caches, and each is another miss. So what is found in memory is kept: behind an atomic access the compiler
 * would look for it again. */
tarn_status tn_graph_replay(const tarn_graph *graph, tn_cu_stream stream)
{
    struct tn_gpu *gpu = graph->gpu;
    struct tn_replays *replays = graph->replays;
    tn_cu_result result;

    if (TN_UNLIKELY(!tn_gpu_is_calm(gpu)))
        return replay_after_news(graph, stream);
    if (TN_UNLIKELY(tn_stream_is_default(stream)))
        return launch_again(graph, stream);
    if (TN_UNLIKELY(!begin_alone(replays)))
        return launch_next(graph, stream);
    result = launch_alone(replays, gpu, graph->exec, stream);
    return TN_LIKELY(result == TN_CUDA_SUCCESS)
               ? TARN_OK
               : not_launched(gpu, stream, result, tn_exec_not_launched);
}

bool tn_replays_precede(const tarn_pool *pool, uint64_t stream_id)
{
    const struct tn_replays *replays = atomic_load(&pool->replays);

    return tn_gpu_is_proven(&pool->device->gpu, atomic_load(&replays->alone_stamp)) &&
           (atomic_load(&replays->stream_id) == stream_id ||
            tn_gpu_is_proven(&pool->device->gpu, atomic_load(&replays->stamp)));
}
