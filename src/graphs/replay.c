// SPDX-License-Identifier: Apache-2.0
/* Replays and their order.
 *
 * Graphs that share a pool write the same memory: their replays must not overlap in time. As long
 * as a pool has one graph, the driver never overlaps launches of the one executable. Tarn then
 * notes the epoch of the launch, without a lock, and nothing else. From the second graph on, each
 * replay is ordered behind the last one:
 * - On the same stream by a comparison. A replay that leaves nothing else to check notes the stream
 *   on which the next replay is in order (next_id). Any change that the next replay must heed
 *   clears this note.
 * - On another stream by an event, recorded behind the last replay, which the GPU waits for.
 *
 * No event is recorded as long as all replays are on one stream. The first replay on another stream
 * therefore has no event to wait for, and nobody may touch the handle of the stream before, which
 * may be destroyed. This replay waits for the device once; from then on each replay records the
 * event. The wait is made without the lock. Another replay may come between, but records the event:
 * the second look finds an order.
 *
 * A second graph may come while a thread launches the first as the only one. The launching thread
 * says that it launches before it looks whether replays are ordered. Whoever orders replays says
 * that they are ordered before anybody looks for the thread. At least one of the two sees the
 * other. At most one thread launches, for the user serialises the replays of one graph.
 *
 * Whoever orders replays pays for the fence between saying and looking (base/barrier.h). The second
 * graph of a pool needs this fence, and later graphs do not; until then each launch goes without a
 * fence. The fence comes before anybody looks, in each case:
 * - Replays of another graph begin after this graph has entered its pool, thus after
 *   tn_replays_serialize. tn_replays_serialize may find replays ordered already: by a graph that entered
 *   the same pool before, under the pool's lock, or by a merge, which takes the lock of the record
 *   that each ordered replay takes.
 * - A replay may find replays ordered before tn_replays_serialize has returned. Either it is of the
 *   graph that was the only one, and no other replay of this graph runs at the same time. Or it is
 *   of a pool that is merged, which is the first case.
 * - A merge looks itself, behind a fence of its own.
 *
 * pools/handover.c asks whether a launch is under way without ordering replays, and has no fence.
 * To miss a launch that has just begun is to have asked before the launch. The caller sees to the
 * order of the two.
 *
 * A pool may be told to refuse the change of streams instead. Only where a replay would be refused
 * does Tarn check whether the pool still has several graphs. If not, the only graph goes back to
 * launches without an order. Pools that one graph writes to share one order: claims/replays.h.
 *
 * The replay lock is held from the look at the last replay to the note of this one, the launch
 * included: launches come in the noted order. A launch waits on the host when the driver's queue is
 * full. The lock is therefore apart from the pool's lock. A thread that replays again and again
 * becomes the record's owner, and launches on the noted stream without the lock: claims/replays.h.
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
#include "graphs/replay_visits.h"
#include "pools/janitor.h"
#include "pools/pool.h"

void tn_replays_consider(tarn_pool *pool)
{
    TN_ASSERT(tn_lock_held(TN_RANK_POOL));
    if (pool->claims.graph_count > 1 || pool->holds.count > 1)
        tn_replays_serialize(atomic_load(&pool->replays)); /* G3 */
}

/* Whether no launch of another graph can touch the pool's memory: a destroyed graph keeps its hold
 * as long as its launches run. */
static bool is_alone(const tarn_pool *pool, const struct tn_hold *own)
{
    TN_ASSERT(pool->holds.count != 1 || pool->holds.first != NULL);
    return pool->claims.graph_count == 1 &&
           (pool->holds.count == 0 || (pool->holds.count == 1 && pool->holds.first == own));
}

/* Whether a restore has its turn, comes again, or is to precede the next replay. The record is
 * locked. */
static bool is_visited(const tarn_pool *pool, const struct tn_replays *replays)
{
    TN_ASSERT(tn_lock_held(TN_RANK_REPLAY));
    return replays->is_visited || replays->awaited ||
           (replays->visited &&
            !tn_gpu_is_proven(&pool->device->gpu, atomic_load(&replays->stamp)));
}

/* Lets a pool that has a single graph launch without an order. A pool that is merged meanwhile
 * takes the record's lock. Nobody else launches with this lock now: the wait for a launch is rare
 * here. was_launched: the graph may have been launched; else no launch of any earlier graph runs,
 * or will ever run. */
static void allow_launches_alone(tarn_pool *pool, bool was_launched)
{
    struct tn_replays *replays;

    TN_ASSERT(tn_pool_is_locked(pool));
    TN_ASSERT(pool->claims.graph_count == 1);
    atomic_store(&pool->replay_stream_id, 0);
    if (atomic_load(&pool->replays->shared))
        return;
    replays = tn_replays_lock(&pool->replays);
    tn_replays_forget_next(replays);
    if (is_visited(pool, replays)) {
        replays->lent = true;
    } else if (!atomic_load(&replays->shared)) {
        atomic_store(&replays->serialized, false);
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
        allow_launches_alone(pool, false);
    else
        tn_replays_serialize(atomic_load(&pool->replays)); /* G3 */
}

/* Ends the order of a pool that refuses replays, if the graph is alone in the pool now; false if
 * not. A captured graph has not been launched: open holds do not count. A user who captures and
 * replays another graph from now on finds the last replay where it was. No lock may be held. */
static TN_APART bool try_launches_alone(const tarn_graph *graph)
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
        allow_launches_alone(pool, true);
    tn_pool_unlock(pool);
    return alone;
}

/* The same where replays were ordered for a restore's sake, and this replay has come behind the
 * restore. */
static TN_APART void end_loan(const tarn_graph *graph)
{
    tarn_pool *pool = graph->pool;

    TN_ASSERT(tn_lock_none_held());
    tn_pool_lock(pool);
    if (pool->claims.graph_count == 1 && tn_holds_are_kept_by(&pool->holds, graph->driver_graph)) {
        allow_launches_alone(pool, true);
    } else {
        struct tn_replays *replays = tn_replays_lock(&pool->replays);

        replays->lent = false; /* other graphs are there by now */
        tn_replays_unlock(replays);
    }
    tn_pool_unlock(pool);
}

/* Locks the pool's record while no restore visits. A visiting restore waits for nobody. */
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

/* How a replay of the pool gets behind the last one. */
static inline enum tn_turn find_pool_turn(const tarn_pool *pool, const struct tn_replays *replays,
                                          uint64_t stream_id)
{
    uint64_t own = atomic_load(&pool->replay_stream_id);

    if (TN_UNLIKELY(own != stream_id) && own != 0 && pool->replay_order == TARN_REPLAY_REFUSED)
        return TN_TURN_REFUSED;
    return tn_replays_find_turn(&pool->device->gpu, replays, stream_id);
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

/* Puts the stream behind the last replay, if it is not there yet. The lock of *held is held before
 * and afterwards: the pool may have another record by then. WRONG_STATE: the pool refuses the
 * stream, if it has several graphs. */
static tarn_status take_turn(tarn_pool *pool, tn_cu_stream stream, uint64_t stream_id,
                             struct tn_replays **held, bool *refused)
{
    struct tn_replays *replays = *held;
    struct tn_gpu *gpu = &pool->device->gpu;
    enum tn_turn turn = find_pool_turn(pool, replays, stream_id);
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_lock_held(TN_RANK_REPLAY));
    while (turn == TN_TURN_UNKNOWN && status == TARN_OK) {
        uint64_t last = atomic_load(&replays->stream_id);

        replays->crosses = replays->crosses || (last != 0 && last != stream_id);
        tn_replays_forget_next(
            replays); /* replays cross streams now, or another thread has had a turn */
        tn_replays_unlock(replays);
        status = tn_gpu_wait_idle(gpu);
        replays = lock_unvisited(pool);
        if (status == TARN_OK)
            turn = find_pool_turn(pool, replays, stream_id);
    }
    TN_ASSERT(tn_lock_held(TN_RANK_REPLAY));
    *held = replays;
    *refused = status == TARN_OK && turn == TN_TURN_REFUSED;
    if (*refused)
        status = refuse(pool, stream_id);
    if (status == TARN_OK && turn == TN_TURN_BY_EVENT)
        status = tn_stream_wait(gpu, stream, replays->event);
    return status;
}

/* Begins a launch of the pool's only graph by this thread; false: the pool has other graphs by now.
 * No instruction here locks memory or waits for a store: after a launch, each would wait for all
 * that the driver has written. */
static TN_ALWAYS_INLINE bool begin_alone(struct tn_replays *replays)
{
    if (TN_UNLIKELY(atomic_load_explicit(&replays->serialized, memory_order_acquire)))
        return false;
    atomic_store_explicit(&replays->launching_alone, true, memory_order_relaxed);
    tn_barrier_light(); /* its heavy side: tn_replays_serialize */
    if (TN_LIKELY(!atomic_load_explicit(&replays->serialized, memory_order_acquire)))
        return true;
    atomic_store_explicit(&replays->launching_alone, false, memory_order_release);
    return false;
}

/* Ends this launch. After a launch each read is a cache miss: the function reads the epoch alone,
 * and only writes the record. */
static TN_ALWAYS_INLINE void end_alone(struct tn_replays *replays, const struct tn_gpu *gpu)
{
    /* After the launch: a wait that begins before the launch proves nothing of it. */
    atomic_store_explicit(&replays->alone_stamp, tn_gpu_epoch(gpu), memory_order_relaxed);
    atomic_store_explicit(&replays->launching_alone, false, memory_order_release);
}

/* The driver's call may end the thread, where the thread is cancelled. The launch then ends on the
 * way, as if it had been made. */
struct alone {
    struct tn_replays *replays;
    const struct tn_gpu *gpu;
};

static TN_ALWAYS_INLINE void leave_alone(const struct alone *alone)
{
    end_alone(alone->replays, alone->gpu);
}

/* The driver's call between begin_alone and its end. */
static TN_ALWAYS_INLINE tn_cu_result launch_only_graph(struct tn_replays *replays,
                                                       const struct tn_gpu *gpu,
                                                       tn_cu_graphexec exec, tn_cu_stream stream)
{
    const struct alone alone __attribute__((cleanup(leave_alone), unused)) = {replays, gpu};

    return tn_driver_exec_try_launch(gpu, exec, stream);
}

/* Notes a replay that was launched. The lock orders the replaying threads. A reader without the
 * lock reads the stream before the stamp. It finds the new stream, a stamp that is not proven, or
 * the old stream: then it counts as having looked before the launch. No store here waits, and none
 * of the launch's stores with it. */
static inline void note_replay(tarn_pool *pool, const struct tn_gpu *gpu,
                               struct tn_replays *replays, uint64_t stream_id)
{
    TN_ASSERT(tn_lock_held(TN_RANK_REPLAY));
    TN_ASSERT(stream_id != 0);
    atomic_store_explicit(&replays->stream_id, stream_id, memory_order_release);
    atomic_store_explicit(&pool->replay_stream_id, stream_id, memory_order_release);
    atomic_store_explicit(&replays->stamp, tn_gpu_epoch(gpu), memory_order_release);
}

/* Launches behind the last replay, wherever that was. *refused: the pool refuses the stream. */
static tarn_status order_and_launch(const tarn_graph *graph, tn_cu_stream stream, bool *refused)
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
        tn_replays_enter_series(pool, replays, series);
    if (find_pool_turn(pool, replays, stream_id) != TN_TURN_KEPT)
        status = take_turn(pool, stream, stream_id, &replays, refused);
    if (status == TARN_OK)
        status = tn_driver_exec_launch(gpu, graph->exec, stream);
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

/* Launches on any stream, whichever graphs the pool has. */
static tarn_status launch_any(const tarn_graph *graph, tn_cu_stream stream, bool *refused)
{
    struct tn_replays *replays = graph->replays;
    struct tn_gpu *gpu = graph->gpu;
    tarn_status status;

    if (!begin_alone(replays))
        return order_and_launch(graph, stream, refused);
    status = tn_driver_exec_launch(gpu, graph->exec, stream);
    end_alone(replays, gpu);
    return status;
}

/* A replay has come to a stream in a broken capture: it broke the capture, or was refused for it.
 * Notes this; returns whether the capture is a tarn_capture's. */
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

/* The driver has refused a launch, or before the launch the question for the stream's id. say:
 * makes the status where no capture is broken. No lock may be held. */
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

/* The same for a caller that has the status alone, and its sentence. */
static TN_RARE tarn_status explain_failure(struct tn_gpu *gpu, tn_cu_stream stream,
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

/* Launches again, as long as the pool refuses the stream and turns out to have no other graph by
 * now. Each round but the last finds the graph alone: a further round comes only where other
 * threads' graphs come and go. */
static TN_APART tarn_status retry_launch(const tarn_graph *graph, tn_cu_stream stream)
{
    bool refused = false;
    int cancel;
    tarn_status status;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    stream = tn_device_stream(graph->pool->device, stream);
    status = launch_any(graph, stream, &refused);
    while (refused && try_launches_alone(graph)) {
        refused = false;
        status = launch_any(graph, stream, &refused);
    }
    if (TN_UNLIKELY(status != TARN_OK))
        status = explain_failure(graph->gpu, stream, status);
    (void)pthread_setcancelstate(cancel, NULL);
    return status;
}

/* A replay whose record is locked, or whose thread is inside as the record's owner. As in `struct
 * alone`, the driver's call may end the thread. */
struct turn {
    struct tn_replays *replays;
    struct tn_gpu *gpu;
    bool owned; /* inside, without the lock; known where this is compiled */
    bool launched;
};

static TN_ALWAYS_INLINE void leave_record(struct tn_replays *replays, bool owned)
{
    if (owned)
        tn_replays_leave_inside(replays);
    else
        tn_replays_unlock(replays);
}

static TN_ALWAYS_INLINE void leave_turn(const struct turn *turn)
{
    if (TN_LIKELY(turn->launched)) /* the rest that note_replay notes has not changed */
        atomic_store_explicit(&turn->replays->stamp, tn_gpu_epoch(turn->gpu), memory_order_release);
    leave_record(turn->replays, turn->owned);
}

static TN_ALWAYS_INLINE tn_cu_result call_and_note(struct turn turn, tn_cu_graphexec exec,
                                                   tn_cu_stream stream)
{
    struct turn left __attribute__((cleanup(leave_turn))) = turn;
    tn_cu_result result = tn_driver_exec_try_launch(turn.gpu, exec, stream);

    left.launched = result == TN_CUDA_SUCCESS;
    return result;
}

/* G3: what holds of a record that knows the next stream. A launch as the only graph that has just
 * begun does not count: it looks again, and goes back. */
__attribute__((unused)) static bool knows_next(const tarn_pool *pool,
                                               const struct tn_replays *replays)
{
    return atomic_load(&pool->replays) == replays && atomic_load(&replays->serialized) &&
           atomic_load(&replays->stream_id) == replays->next_id &&
           atomic_load(&pool->replay_stream_id) == replays->next_id && !replays->crosses &&
           !replays->is_visited && replays->seen_series == atomic_load(&replays->series) &&
           tn_gpu_is_proven(&pool->device->gpu, atomic_load(&replays->alone_stamp));
}

/* Launches on the stream that the record knows, and leaves the record. */
static TN_ALWAYS_INLINE tarn_status launch_next(const tarn_graph *graph, tn_cu_stream stream,
                                                uint64_t stream_id, struct turn turn)
{
    if (TN_UNLIKELY(turn.replays->next_id != stream_id)) {
        leave_record(turn.replays, turn.owned);
        return retry_launch(graph, stream);
    }
    TN_ASSERT(knows_next(graph->pool, turn.replays));
    return tn_driver_exec_conclude(turn.gpu, call_and_note(turn, graph->exec, stream));
}

static TN_APART tarn_status launch_locked(const tarn_graph *graph, tn_cu_stream stream,
                                          uint64_t stream_id)
{
    const struct turn turn = {graph->replays, graph->gpu, false, true};

    tn_replays_acquire(turn.replays);
    tn_replays_use(turn.replays);
    return launch_next(graph, stream, stream_id, turn);
}

/* Launches the next replay of several graphs on one stream. The record is the pool's at the time
 * when the graph was made: a record that its pool has left knows no next stream. */
static TN_APART TN_HOT tarn_status launch_known_stream(const tarn_graph *graph, tn_cu_stream stream)
{
    const struct turn turn = {graph->replays, graph->gpu, true, true};
    uint64_t stream_id;
    tn_cu_result result = tn_stream_try_id(turn.gpu, stream, &stream_id);

    if (TN_UNLIKELY(result != TN_CUDA_SUCCESS))
        return not_launched(turn.gpu, stream, result, tn_stream_refuse_id);
    if (TN_UNLIKELY(!tn_replays_enter(turn.replays)))
        return launch_locked(graph, stream, stream_id);
    return launch_next(graph, stream, stream_id, turn);
}

/* For a GPU that is not calm. It is usable all the same where functions of the program's are being
 * called, and this thread has left none of them by a jump. */
static TN_RARE tarn_status replay_after_news(const tarn_graph *graph, tn_cu_stream stream)
{
    tarn_status status;

    tn_user_code_check();
    status = tn_gpu_check(graph->gpu);
    return status == TARN_OK ? retry_launch(graph, stream) : status;
}

/* The frequent case stands in here and in launch_known_stream, and in few lines of code: after a
 * launch nothing of the library is in the caches, and each line is another miss. Values read from
 * memory are kept in variables: behind an atomic access the compiler would read them again. */
tarn_status tn_graph_replay(const tarn_graph *graph, tn_cu_stream stream)
{
    struct tn_gpu *gpu = graph->gpu;
    struct tn_replays *replays = graph->replays;
    tn_cu_result result;

    if (TN_UNLIKELY(!tn_gpu_is_calm(gpu)))
        return replay_after_news(graph, stream);
    if (TN_UNLIKELY(tn_stream_is_default(stream)))
        return retry_launch(graph, stream);
    if (TN_UNLIKELY(!begin_alone(replays)))
        return launch_known_stream(graph, stream);
    result = launch_only_graph(replays, gpu, graph->exec, stream);
    return TN_LIKELY(result == TN_CUDA_SUCCESS)
               ? TARN_OK
               : not_launched(gpu, stream, result, tn_driver_exec_refuse);
}

/* A driver's call that ends the thread would leave the launch unwritten. The frequent case has but
 * one caller, which contains it. */
tarn_status tn_graph_replay_recorded(const tarn_graph *graph, tn_cu_stream stream)
{
    tarn_pool *pool = graph->pool;
    struct tn_stream_state state;
    int cancel;
    tarn_status status;

    TN_ASSERT(tn_device_ring(pool->device) != NULL);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    status = replay_after_news(graph, stream);
    if (status == TARN_OK && tn_stream_look(graph->gpu, tn_device_stream(pool->device, stream),
                                            TN_STREAM_ID, &state) != TARN_OK)
        state.order.stream_id = 0; /* the launch was made all the same */
    if (status == TARN_OK)
        tn_pool_note(pool, TN_NOTE_GRAPH_REPLAYED,
                     TN_OPERANDS(graph->number, state.order.stream_id));
    (void)pthread_setcancelstate(cancel, NULL);
    return status;
}
