// SPDX-License-Identifier: Apache-2.0
#include <time.h>

#include "base/barrier.h"
#include "driver/idle.h"
#include "graphs/replay.h"
#include "graphs/replay_visits.h"
#include "pools/captures.h"
#include "pools/series.h"
#include "support/world.h"
#include "unit/one_pool.h"

static void *words; /* outside the pool: what the graphs add to */

/* A thread that is launching the only graph, until others have slept that often. */
static int launching_for;
static uint64_t launches_then;

/* Another pool joins the order just before this lock is taken. */
static struct tn_spin *awaited;
static tarn_pool *joining;
static uint64_t joining_id; /* of a capture that both have allocated from */

static void merge(void *unused)
{
    (void)unused;
    tn_replays_merge_pools(pool, joining_id, NULL);
}

void __real_tn_lock_acquire_spin(struct tn_spin *lock, enum tn_rank rank);
void __wrap_tn_lock_acquire_spin(struct tn_spin *lock, enum tn_rank rank);
void __wrap_tn_lock_acquire_spin(struct tn_spin *lock, enum tn_rank rank)
{
    if (lock == awaited) {
        awaited = NULL;
        test_elsewhere(merge, NULL);
    }
    __real_tn_lock_acquire_spin(lock, rank);
}

/* What a thread that launches alone has stored is seen by others from the next heavy fence on. */
static bool launch_is_begun;
static int fences;

void __real_tn_barrier_heavy(void);
void __wrap_tn_barrier_heavy(void);
void __wrap_tn_barrier_heavy(void)
{
    __real_tn_barrier_heavy();
    fences += 1;
    if (launch_is_begun) {
        ck_assert(atomic_load(&pool->replays->serialized)); /* a launch that begins now sees it */
        atomic_store(&pool->replays->launching_alone, true);
    }
}

int __real_nanosleep(const struct timespec *pause, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest)
{
    if (launching_for > 0) {
        launching_for -= 1;
        if (launching_for == 0) {
            launches_then = sim.call_count("cuGraphLaunch");
            atomic_store(&pool->replays->launching_alone, false);
        }
    }
    return __real_nanosleep(pause, rest);
}

static void set_up(void)
{
    make_pool();
    words = unit_words(stream);
}

static uint64_t waits(void)
{
    return atomic_load(&device->gpu.calls[TN_CALL_WAIT]);
}

static tarn_graph *adding(uint32_t value)
{
    return unit_end(unit_adding(pool, stream, words, value));
}

GROUP(replay, set_up)

TEST(replay, a_single_graph_replays_on_any_stream)
{
    tarn_graph *graph = adding(1);

    OK(tn_graph_replay(graph, stream));
    OK(tn_graph_replay(graph, other));
    OK(tn_graph_replay(graph, NULL));
    ck_assert(!atomic_load(&pool->replays->serialized));
    ck_assert_uint_eq(waits(), 0);
}

/* The event behind the last replay went with its context, and so did the replay. */
TEST(replay, replays_go_on_when_the_context_of_the_last_one_is_gone)
{
    tarn_graph *one = adding(1);
    tarn_graph *two = adding(10);

    for (int i = 0; i < 2; i++) {
        tn_cu_context own = test_context();
        tn_cu_context context = test_make_context();
        tn_cu_stream foreign = test_stream();

        test_set_context(own);
        OK(tn_graph_replay(one, stream));
        OK(tn_graph_replay(two, foreign)); /* from the first one on each records an event */
        test_synchronize(foreign);
        test_end_context(context);
        OK(tn_graph_replay(one, stream));
        OK(tn_graph_replay(two, other));
    }
    test_expect_words(other, words, 44, 16);
    ck_assert_uint_eq(waits(), 1);
    OK(tn_gpu_check(&device->gpu));
}

/* G3 */
TEST(replay, several_graphs_replay_on_the_stream_of_the_first_replay)
{
    tarn_graph *one = adding(1);
    tarn_graph *two = adding(10);

    pool->replay_order = TARN_REPLAY_REFUSED;
    ck_assert(atomic_load(&pool->replays->serialized));
    OK(tn_graph_replay(one, stream));
    OK(tn_graph_replay(two, stream));
    STATUS(TARN_ERR_WRONG_STATE, tn_graph_replay(one, other));
    unit_expect_sentence("share memory");
    STATUS(TARN_ERR_WRONG_STATE, tn_graph_replay(two, NULL));
    OK(tn_graph_replay(one, stream));
    test_expect_words(stream, words, 12, 16);
    ck_assert_uint_eq(waits(), 0);
}

/* Where the kernel has no fence for one side alone. */
TEST(replay, a_single_graph_replays_behind_a_fence_of_its_own)
{
    tarn_graph *one = adding(1);

    atomic_store(&tn_barrier_is_asymmetric, false);
    OK(tn_graph_replay(one, stream));
    OK(tn_graph_replay(one, other));
    ck_assert(!atomic_load(&pool->replays->launching_alone));
    test_expect_words(other, words, 2, 16);
}

/* G3: what was replayed before there were two may still run, on a stream that nobody noted. */
TEST(replay, the_first_ordered_replay_waits_for_those_before)
{
    tarn_graph *one = adding(1);
    tarn_graph *two;

    pool->replay_order = TARN_REPLAY_REFUSED;
    OK(tn_graph_replay(one, stream));
    two = adding(10);
    OK(tn_graph_replay(two, other));
    ck_assert_uint_eq(waits(), 1);
    OK(tn_graph_replay(one, other));
    ck_assert_uint_eq(waits(), 1);
    STATUS(TARN_ERR_WRONG_STATE, tn_graph_replay(one, stream));
}

/* G3 */
TEST(replay, an_ordered_replay_waits_for_a_launch_that_was_begun_as_the_only_one)
{
    tarn_graph *one = adding(1);
    uint64_t launches = sim.call_count("cuGraphLaunch");

    (void)adding(10);
    atomic_store(&pool->replays->launching_alone, true);
    launching_for = 3;
    OK(tn_graph_replay(one, stream));
    ck_assert_int_eq(launching_for, 0);
    ck_assert_uint_eq(launches_then, launches);
    ck_assert_uint_eq(sim.call_count("cuGraphLaunch"), launches + 1);
}

/* G3 */
TEST(replay, a_launch_whose_beginning_is_seen_late_is_waited_for)
{
    tarn_graph *one = adding(1);
    uint64_t launches = sim.call_count("cuGraphLaunch");

    ck_assert_int_eq(fences, 0);
    launch_is_begun = true;
    launching_for = 3;
    (void)adding(10);
    ck_assert_int_eq(fences, 1);
    launch_is_begun = false;
    OK(tn_graph_replay(one, stream));
    ck_assert_int_eq(launching_for, 0);
    ck_assert_uint_eq(launches_then, launches);
    (void)adding(100); /* replays are ordered already */
    ck_assert_int_eq(fences, 1);
}

TEST(replay, an_ordered_replay_that_cannot_wait_chooses_no_stream)
{
    tarn_graph *one = adding(1);
    tarn_graph *two;

    OK(tn_graph_replay(one, stream));
    two = adding(10);
    sim.plan_fault("cuMemFree", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_graph_replay(two, stream));
    ck_assert_uint_eq(atomic_load(&pool->replays->stream_id), 0);
    OK(tn_graph_replay(two, other));
}

TEST(replay, a_graph_that_stays_alone_is_refused_until_launches_of_the_others_have_ended)
{
    tarn_graph *one = adding(1);
    tarn_graph *two = adding(10);

    pool->replay_order = TARN_REPLAY_REFUSED;
    sim.hold_work();
    OK(tn_graph_replay(two, stream));
    OK(tarn_graph_destroy(two)); /* its launch is still to run */
    STATUS(TARN_ERR_WRONG_STATE, tn_graph_replay(one, other));
    unit_expect_sentence("destroyed");
    ck_assert(atomic_load(&pool->replays->serialized));
    OK(tn_graph_replay(one, stream));
    sim.resume_work();
    test_synchronize(stream);
    test_await_destructors(1);
    ck_assert_uint_eq(pool->holds.count, 2); /* what the other's end leaves is not seen to yet */
    OK(tn_graph_replay(one, other));
    ck_assert(!atomic_load(&pool->replays->serialized));
    ck_assert_uint_eq(waits(), 0);
    two = adding(100);
    OK(tn_graph_replay(two, stream)); /* behind the replay on the other stream */
    ck_assert_uint_eq(waits(), 1);
    test_expect_words(stream, words, 112, 16);
    STATUS(TARN_ERR_WRONG_STATE, tn_graph_replay(one, other));
}

/* G3: the last ordered replay is not forgotten. */
TEST(replay, replays_of_a_graph_that_was_left_alone_are_before_those_of_the_next)
{
    tarn_graph *one = adding(1);
    tarn_graph *two = adding(10);
    uint64_t series = atomic_load(&pool->replays->series);

    pool->replay_order = TARN_REPLAY_REFUSED;
    OK(tarn_graph_destroy(two));
    test_await_destructors(1);
    sim.hold_work();
    OK(tn_graph_replay(one, stream));
    sim.plan_fault("cuGraphLaunch", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_graph_replay(one, other));
    ck_assert(!atomic_load(&pool->replays->serialized));
    ck_assert_uint_eq(atomic_load(&pool->replays->series), series);
    two = adding(10);
    ck_assert(!tn_replays_precede(pool, unit_order(device, other).stream_id));
    sim.resume_work();
    OK(tn_graph_replay(two, other));
    ck_assert_uint_eq(waits(), 1);
    test_expect_words(other, words, 11, 16);
}

/* G3, P17: another pool's graphs go on to be ordered with it. */
TEST(replay, a_graph_that_is_left_alone_in_its_pool_keeps_the_order_that_pools_share)
{
    tarn_graph *one = adding(1);
    tarn_graph *two = adding(10);

    pool->replay_order = TARN_REPLAY_REFUSED;
    atomic_store(&pool->replays->shared, true); /* as a join leaves it */
    pool->replays->crosses = true;
    OK(tn_graph_replay(one, stream));
    STATUS(TARN_ERR_WRONG_STATE, tn_graph_replay(one, other));
    OK(tarn_graph_destroy(two));
    test_await_destructors(1);
    OK(tn_graph_replay(one, other));
    ck_assert(atomic_load(&pool->replays->serialized));
    ck_assert_uint_eq(waits(), 0); /* behind the event */
    ck_assert_uint_eq(atomic_load(&pool->replay_stream_id), unit_order(device, other).stream_id);
    test_expect_words(other, words, 2, 16);
}

/* Only a capture: nothing of it runs. */
TEST(replay, a_capture_beside_a_graph_that_is_left_alone_refuses_nothing)
{
    tarn_graph *one = adding(1);
    tarn_graph *two = adding(10);
    tarn_capture *section;

    pool->replay_order = TARN_REPLAY_REFUSED;
    OK(tn_graph_replay(one, stream));
    OK(tarn_graph_destroy(two));
    test_await_destructors(1);
    section = unit_adding(pool, stream, words, 10);
    OK(tn_graph_replay(one, other));
    (void)unit_end(section);
    ck_assert(atomic_load(&pool->replays->serialized));
    OK(tn_graph_replay(one, other));
    STATUS(TARN_ERR_WRONG_STATE, tn_graph_replay(one, NULL));
}

/* G3: the stream that graphs long gone were replayed on means nothing to new ones. */
TEST(replay, graphs_that_are_gone_leave_no_order_behind)
{
    tarn_graph *one = adding(1);
    tarn_graph *two = adding(10);

    pool->replay_order = TARN_REPLAY_REFUSED;
    OK(tn_graph_replay(one, stream));
    OK(tn_graph_replay(two, stream));
    test_synchronize(stream);
    OK(tarn_graph_destroy(one));
    OK(tarn_graph_destroy(two));
    unit_reap_all(pool);
    one = adding(1);
    ck_assert(!atomic_load(&pool->replays->serialized));
    OK(tn_graph_replay(one, other));
    two = adding(10);
    OK(tn_graph_replay(two, stream)); /* behind the replay on the other stream */
    ck_assert_uint_eq(waits(), 1);
    STATUS(TARN_ERR_WRONG_STATE, tn_graph_replay(one, other));
}

TEST(replay, a_destroyed_graph_that_runs_still_orders_the_next)
{
    tarn_graph *one = adding(1);

    sim.hold_work();
    OK(tn_graph_replay(one, stream));
    OK(tarn_graph_destroy(one));
    tn_device_reap(device);
    ck_assert_uint_eq(pool->holds.count, 1); /* its launch is still to run */
    one = adding(10);
    ck_assert(atomic_load(&pool->replays->serialized));
    sim.resume_work();
    OK(tn_graph_replay(one, other));
    ck_assert_uint_eq(waits(), 1);
    test_expect_words(other, words, 11, 16);
}

/* Until so many holds are left. */
static void reap_to(uint64_t holds)
{
    for (int i = 0; i < 10000 && pool->holds.count > holds; i++) {
        tn_device_reap(device);
        (void)nanosleep(&(struct timespec){0, 100000}, NULL);
    }
    ck_assert_uint_eq(pool->holds.count, holds);
}

/* A section of the user's own that has nothing of the pool, adopted by it. */
static tarn_graph *adopt_guest(void)
{
    tn_cu_graph driver_graph;
    tarn_graph *graph = NULL;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    test_add(stream, words, 100, 16);
    driver_graph = test_end_capture(stream);
    OK(tn_graph_adopt(pool, driver_graph, &graph));
    return graph;
}

/* G3: the one hold is not that of the one graph. */
TEST(replay, a_graph_without_memory_says_nothing_of_a_launch_that_runs)
{
    tarn_graph *one = adding(1);
    tarn_graph *two = adding(10);
    uint64_t series = atomic_load(&pool->replays->series);

    sim.hold_work();
    OK(tn_graph_replay(one, other));
    OK(tarn_graph_destroy(two));
    OK(tarn_graph_destroy(one)); /* its launch is still to run */
    reap_to(1);
    (void)adopt_guest();
    ck_assert_uint_eq(pool->claims.graph_count, 1);
    ck_assert(atomic_load(&pool->replays->serialized));
    ck_assert_uint_eq(atomic_load(&pool->replays->series), series);
    two = adding(10);
    ck_assert(!tn_replays_precede(pool, unit_order(device, stream).stream_id));
    sim.resume_work();
    OK(tn_graph_replay(two, stream));
    ck_assert_uint_eq(waits(), 1);
    test_expect_words(stream, words, 11, 16);
}

/* It may read what the pool's next capture gets, so its hold, with nothing in it, says that it runs. */
TEST(replay, a_destroyed_graph_without_memory_that_runs_orders_the_next)
{
    tarn_graph *one = adopt_guest();

    sim.hold_work();
    OK(tn_graph_replay(one, stream));
    OK(tarn_graph_destroy(one));
    tn_device_reap(device);
    one = adding(10);
    ck_assert(atomic_load(&pool->replays->serialized));
    sim.resume_work();
    OK(tn_graph_replay(one, other));
    ck_assert_uint_eq(waits(), 1);
    test_expect_words(other, words, 110, 16);
}

/* G3: the driver gives the handle of a graph that was destroyed to the next one. */
TEST(replay, a_graph_that_is_gone_leaves_its_handle_to_no_hold)
{
    tarn_graph *one = adding(1);
    tn_cu_graph gone;
    tarn_capture *section;

    ck_assert_ptr_eq(pool->holds.first->graph, one->driver_graph);
    sim.hold_work();
    OK(tn_graph_replay(one, stream));
    section = unit_adding(pool, other, words, 10);
    OK(tarn_graph_update(one, section));
    ck_assert_uint_eq(pool->holds.count, 2);
    ck_assert_ptr_eq(pool->holds.first->graph, one->driver_graph);
    ck_assert_ptr_null(pool->holds.first->next->graph); /* of the section before */
    sim.resume_work();
    OK(tn_graph_replay(one, stream));
    test_synchronize(stream);
    reap_to(1);
    sim.hold_work();
    OK(tn_graph_replay(one, stream));
    gone = one->driver_graph;
    tn_pool_lock(pool);
    ck_assert(tn_holds_are_kept_by(&pool->holds, gone));
    tn_pool_unlock(pool);
    OK(tarn_graph_destroy(one));
    ck_assert_uint_eq(pool->holds.count, 1); /* its launch is still to run */
    ck_assert_ptr_null(pool->holds.first->graph);
    tn_pool_lock(pool);
    ck_assert(!tn_holds_are_kept_by(&pool->holds, gone));
    tn_pool_unlock(pool);
    sim.resume_work();
    unit_reap_all(pool);
}

/* P17, G3: the pools share one order by the time the graph is known to be alone in its own. */
TEST(replay, a_graph_that_comes_alone_orders_a_pool_that_is_merged_meanwhile)
{
    tarn_capture *section = unit_adding(pool, stream, words, 1);
    struct tn_hold *hold;
    uint64_t series = atomic_load(&pool->replays->series);

    joining = unit_pool(device);
    joining_id = pool->holds.first->capture_id;
    tn_pool_lock(joining);
    OK(tn_hold_open(joining, (struct tn_order){17, joining_id}, true, &hold));
    tn_pool_unlock(joining);
    awaited = &pool->replays->lock;
    (void)unit_end(section);
    ck_assert_ptr_null(awaited);
    ck_assert_ptr_eq(atomic_load(&pool->replays), atomic_load(&joining->replays));
    ck_assert(atomic_load(&pool->replays->serialized));
    ck_assert_uint_eq(atomic_load(&pool->replays->series), series);
    tn_pool_lock(joining);
    tn_hold_drop(hold);
    tn_pool_unlock(joining);
}

/* G3 */
TEST(replay, a_change_of_stream_is_ordered_by_an_event_from_the_second_on)
{
    tarn_graph *one = adding(1);
    tarn_graph *two = adding(10);

    OK(tn_graph_replay(one, stream));
    ck_assert(!pool->replays->crosses && pool->replays->event == NULL);
    OK(tn_graph_replay(two, other));
    ck_assert_uint_eq(waits(), 1);
    ck_assert(pool->replays->crosses && pool->replays->recorded);
    OK(tn_graph_replay(one, stream));
    OK(tn_graph_replay(two, other));
    ck_assert_uint_eq(waits(), 1);
    test_expect_words(other, words, 22, 16);
}

/* G3: the stream is that of the last replay, but that is not all there is to see to. */
TEST(replay, what_is_new_since_the_last_replay_on_the_stream_is_seen_to)
{
    struct tn_replays *replays = pool->replays;
    tarn_graph *one = adding(1);

    (void)adding(10);
    OK(tn_graph_replay(one, stream));
    ck_assert_uint_eq(replays->next_id, unit_order(device, stream).stream_id);
    tn_replays_forget_next(replays);
    atomic_store(&replays->launching_alone, true);
    launching_for = 3;
    OK(tn_graph_replay(one, stream));
    ck_assert_int_eq(launching_for, 0);
    tn_replays_forget_next(replays);
    atomic_fetch_add(&replays->series, 1); /* as whoever leaves a graph alone */
    OK(tn_graph_replay(one, stream));
    ck_assert_uint_eq(replays->seen_series, atomic_load(&replays->series));
    ck_assert_uint_eq(waits(), 0);
    tn_replays_forget_next(replays);
    atomic_store(&replays->alone_stamp,
                 tn_gpu_epoch(&device->gpu)); /* of the only graph, somewhere */
    OK(tn_graph_replay(one, stream));
    ck_assert_uint_eq(waits(), 1);
    /* Of another pool that shares the order, on another stream. */
    tn_replays_forget_next(replays);
    atomic_store(&replays->stream_id, unit_order(device, other).stream_id);
    OK(tn_graph_replay(one, stream));
    ck_assert_uint_eq(waits(), 2);
    replays->recorded = false;
    OK(tn_graph_replay(one, stream));
    ck_assert(replays->recorded);
    ck_assert_uint_eq(replays->next_id, 0); /* each records the event */
    test_expect_words(stream, words, 6, 16);
}

TEST(replay, what_is_proven_idle_needs_no_order)
{
    tarn_graph *one = adding(1);
    tarn_graph *two = adding(10);

    OK(tn_graph_replay(one, stream));
    OK(tn_gpu_wait_idle(&device->gpu));
    OK(tn_graph_replay(two, other));
    ck_assert_uint_eq(waits(), 1);
    ck_assert(!pool->replays->crosses);
}

TEST(replay, an_event_is_remade_where_the_driver_refuses_the_old_one)
{
    tarn_graph *one = adding(1);
    tarn_graph *two = adding(10);
    uint64_t events;

    OK(tn_graph_replay(one, stream));
    OK(tn_graph_replay(two, other));
    events = test_ledger().events;
    sim.plan_fault("cuEventRecord", 1, 0, TN_CUDA_ERROR_INVALID_HANDLE);
    OK(tn_graph_replay(one, stream));
    ck_assert(pool->replays->recorded);
    ck_assert_uint_eq(test_ledger().events, events);
    sim.plan_fault("cuEventRecord", 1, 1, TN_CUDA_ERROR_INVALID_HANDLE);
    OK(tn_graph_replay(two, stream));
    sim.clear_fault(NULL);
    ck_assert(!pool->replays->recorded);
    ck_assert_uint_eq(waits(), 1);
    OK(tn_graph_replay(one, other));
    ck_assert_uint_eq(waits(), 2);
    ck_assert_uint_eq(test_ledger().events, events);
    test_expect_words(other, words, 23, 16);
}

/* Replays on a stream that is being captured; gone: the second graph is, whose replays were ordered. */
static const struct {
    tarn_replay_order order;
    bool second;
    bool gone;
    bool own_default; /* the thread's own default stream */
} on_captured[] = {
    {TARN_REPLAY_REFUSED, false, false, false}, {TARN_REPLAY_REFUSED, false, false, true},
    {TARN_REPLAY_REFUSED, true, false, false},  {TARN_REPLAY_REFUSED, true, true, false},
    {TARN_REPLAY_REFUSED, true, true, true},    {TARN_REPLAY_ORDERED, true, false, false},
    {TARN_REPLAY_ORDERED, true, false, true},
};

static uint64_t questions(void)
{
    return sim.call_count("cuGraphLaunch") + sim.call_count("cuStreamGetId");
}

/* The driver's first answer breaks the capture; what it would answer then is not asked. */
TEST_LOOP(replay, a_replay_on_a_stream_that_is_being_captured_is_refused_at_once, 0,
          sizeof on_captured / sizeof on_captured[0])
{
    tn_cu_stream captured = on_captured[_i].own_default ? TN_CU_STREAM_PER_THREAD : other;
    tarn_graph *one = adding(1);
    tarn_graph *two = on_captured[_i].second ? adding(10) : NULL;
    uint64_t before;

    pool->replay_order = (uint8_t)on_captured[_i].order;
    OK(tn_graph_replay(one, stream));
    test_synchronize(stream);
    if (on_captured[_i].gone) {
        OK(tarn_graph_destroy(two));
        test_await_destructors(1);
    }
    test_begin_capture(captured, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    before = questions();
    STATUS(TARN_ERR_WRONG_STATE, tn_graph_replay(one, captured));
    ck_assert_uint_eq(questions(), before + 1);
    test_drop_capture(captured);
    OK(tn_graph_replay(one, stream));
}

TEST(replay, replays_precede_the_stream_of_the_last_and_any_when_idle)
{
    uint64_t id = unit_order(device, stream).stream_id;
    uint64_t id_of_other = unit_order(device, other).stream_id;
    tarn_graph *one = adding(1);

    ck_assert(tn_replays_precede(pool, id)); /* there were none */
    OK(tn_graph_replay(one, stream));
    ck_assert(!tn_replays_precede(pool, id)); /* the stream of an only graph is not noted */
    OK(tn_gpu_wait_idle(&device->gpu));
    ck_assert(tn_replays_precede(pool, id));
    (void)adding(10);
    OK(tn_graph_replay(one, stream));
    ck_assert(tn_replays_precede(pool, id));
    ck_assert(!tn_replays_precede(pool, id_of_other));
    OK(tn_gpu_wait_idle(&device->gpu));
    ck_assert(tn_replays_precede(pool, id_of_other));
}
