// SPDX-License-Identifier: Apache-2.0
/* A restore's turn among the replays of a pool. */
#include <pthread.h>
#include <time.h>

#include "driver/idle.h"
#include "graphs/replay.h"
#include "graphs/replay_visits.h"
#include "pools/captures.h"
#include "pools/series.h"
#include "support/world.h"
#include "unit/one_pool.h"

static void *words; /* outside the pool: what the graphs add to */

static void set_up(void)
{
    make_pool();
    words = unit_words(stream);
}

static tarn_graph *adding(uint32_t value)
{
    return unit_end(unit_adding(pool, stream, words, value));
}

static struct tn_visit visit_on(tn_cu_stream on)
{
    return (struct tn_visit){.visitor = &words,
                             .stream = on,
                             .stream_id = unit_order(device, on).stream_id,
                             .by_events = true};
}

static void *replay_elsewhere(void *graph)
{
    OK(tn_graph_replay(graph, other));
    return NULL;
}

static void *join_elsewhere(void *unused)
{
    tn_replays_merge_pools(pool, pool->holds.first->capture_id, NULL);
    return unused;
}

/* Whether the thread goes on when the visit has ended, and not before. */
static void expect_to_wait(const struct tn_visit *visit, void *(*body)(void *), void *argument)
{
    const struct timespec pause = {0, 20000000};
    uint64_t launches = sim.call_count("cuGraphLaunch");
    struct tn_replays *record = atomic_load(&pool->replays);
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, body, argument), 0);
    (void)nanosleep(&pause, NULL);
    ck_assert_uint_eq(sim.call_count("cuGraphLaunch"), launches);
    ck_assert(!atomic_load(&record->shared));
    tn_replays_leave_visit(pool, visit, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

SUITE("visits of restores")
GROUP(visits, set_up)

TEST(visits, nobody_replays_while_a_restore_visits)
{
    tarn_graph *graph = adding(1);
    const struct tn_visit visit = visit_on(stream);
    const struct tn_visit another = {.visitor = &visit};
    bool unordered = true;

    OK(tn_replays_visit(pool, &visit, &unordered));
    ck_assert(!unordered);
    OK(tn_replays_visit(pool, &visit, &unordered)); /* as of another pool that shares the record */
    ck_assert(!unordered);
    OK(tn_replays_visit(pool, &another, &unordered));
    ck_assert(unordered);
    tn_replays_leave_visit(pool, &another, true); /* it is the first one's still */
    expect_to_wait(&visit, replay_elsewhere, graph);
    ck_assert(
        !atomic_load(&pool->replays->serialized)); /* it was the only graph, and came behind */
    OK(tarn_graph_destroy(graph));
}

/* A launch that has begun alone is waited for by a wait for the device alone, and so is one that is over. */
TEST(visits, pools_do_not_merge_while_a_restore_visits)
{
    tarn_graph *graph = adding(1);
    const struct tn_visit visit = visit_on(stream);
    bool unordered = true;
    tarn_pool *joining = unit_pool(device);
    struct tn_hold *hold;

    tn_pool_lock(joining);
    OK(tn_hold_open(joining, (struct tn_order){17, pool->holds.first->capture_id}, true, &hold));
    tn_pool_unlock(joining);
    OK(tn_replays_visit(pool, &visit, &unordered));
    ck_assert(!unordered);
    expect_to_wait(&visit, join_elsewhere, NULL);
    ck_assert_ptr_eq(atomic_load(&pool->replays), atomic_load(&joining->replays));
    tn_pool_lock(joining);
    tn_hold_drop(hold);
    tn_pool_unlock(joining);
    OK(tarn_graph_destroy(graph));
}

TEST(visits, a_restore_that_meets_a_launch_comes_again)
{
    tarn_graph *graph = adding(1);
    const struct tn_visit visit = visit_on(other);
    bool unordered = false;

    atomic_store(&pool->replays->launching_alone, true);
    OK(tn_replays_visit(pool, &visit, &unordered));
    ck_assert(unordered);
    atomic_store(&pool->replays->launching_alone, false);
    OK(tn_graph_replay(graph, stream));
    OK(tn_replays_visit(pool, &visit, &unordered));
    ck_assert(unordered);
    ck_assert_ptr_null(pool->replays->visitor);
    tn_replays_await_visit(pool); /* so the next replays record an event, and the order lasts */
    for (int i = 0; i < 2; i++) {
        OK(tn_graph_replay(graph, stream));
        ck_assert(pool->replays->recorded && atomic_load(&pool->replays->serialized));
    }
    OK(tn_gpu_wait_idle(&device->gpu));
    OK(tn_graph_replay(graph, stream));
    OK(tn_replays_visit(pool, &visit, &unordered));
    ck_assert(!unordered);
    tn_replays_leave_visit(pool, &visit, false);
    tn_replays_end_awaited(device);
    OK(tn_graph_replay(graph, stream));
    ck_assert(!atomic_load(&pool->replays->serialized));
    OK(tarn_graph_destroy(graph));
}

static tarn_checkpoint *checkpoint;
static atomic_bool is_restored;

static void *restore(void *unused)
{
    OK(tarn_checkpoint_restore(checkpoint, other, NULL));
    atomic_store(&is_restored, true);
    return unused;
}

static bool is_awaited(void)
{
    struct tn_replays *replays = tn_replays_lock(&pool->replays);
    bool awaited = replays->awaited;

    tn_replays_unlock(replays);
    return awaited;
}

/* However often it tries meanwhile: the thread that launches may not run for long. */
TEST(visits, a_restore_waits_until_a_launch_is_over)
{
    const struct timespec pause = {0, 50000000};
    tarn_pool *weights = unit_pool_of(device, "weights", 0);
    tarn_graph *graph;
    pthread_t thread;

    OK(tarn_pool_malloc(weights, 4096, 0, stream, &words));
    OK(tarn_checkpoint_take(weights, TARN_CONTENTS_DEVICE, stream, &checkpoint));
    graph = adding(1);
    OK(tarn_graph_guard(graph, TARN_GUARD_REFUSE, NULL));
    test_wait_for_all();
    atomic_store(&pool->replays->launching_alone, true);
    ck_assert_int_eq(pthread_create(&thread, NULL, restore, NULL), 0);
    (void)nanosleep(&pause, NULL);
    ck_assert(!atomic_load(&is_restored));
    ck_assert(is_awaited());
    atomic_store(&pool->replays->launching_alone, false);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(!is_awaited());
    OK(tarn_graph_destroy(graph));
    OK(tarn_checkpoint_destroy(checkpoint));
}

/* Each wait in vain has pools await the visit; the second one fails. */
TEST(visits, a_restore_that_fails_leaves_no_pool_that_awaits_it)
{
    tarn_pool *weights = unit_pool_of(device, "weights", 0);
    tarn_graph *graph;

    OK(tarn_pool_malloc(weights, 4096, 0, stream, &words));
    OK(tarn_checkpoint_take(weights, TARN_CONTENTS_DEVICE, stream, &checkpoint));
    graph = adding(1);
    OK(tarn_graph_guard(graph, TARN_GUARD_REFUSE, NULL));
    test_wait_for_all();
    atomic_store(&pool->replays->launching_alone, true);
    sim.plan_fault("cuMemFree", 3, 0, TN_CUDA_ERROR_UNKNOWN);
    ck_assert_int_ne(tarn_checkpoint_restore(checkpoint, other, NULL), TARN_OK);
    sim.clear_fault(NULL);
    atomic_store(&pool->replays->launching_alone, false);
    ck_assert(!is_awaited());
}

/* The graph that comes meanwhile is to be behind it as well. */
TEST(visits, a_graph_that_comes_during_a_visit_is_ordered)
{
    const struct tn_visit visit = visit_on(stream);
    bool unordered = true;
    tarn_graph *graph;

    OK(tn_replays_visit(pool, &visit, &unordered));
    ck_assert(!unordered);
    graph = adding(1);
    ck_assert(atomic_load(&pool->replays->serialized));
    tn_replays_leave_visit(pool, &visit, true);
    ck_assert(pool->replays->visited && pool->replays->recorded);
    OK(tn_graph_replay(graph, other));
    ck_assert(!pool->replays->visited && !atomic_load(&pool->replays->serialized));
    OK(tarn_graph_destroy(graph));
}

enum { VISIT, VISIT_IN_VAIN, FOLLOW, AWAIT, JOINED, JOIN, NEW_SERIES, EVENTS };

/* G3: the record knows the stream of the next replay, until something happens that such one is to heed. */
TEST_LOOP(visits, what_a_replay_must_heed_ends_what_is_known_of_the_next, 0, EVENTS)
{
    tarn_pool *older = pool;
    struct tn_visit visit = visit_on(other);
    tarn_graph *one;
    tarn_graph *two;
    bool unordered;

    ck_assert_int_lt(_i, EVENTS);
    if (_i == JOIN)
        pool = unit_pool_of(device, "net", 0);
    one = adding(1);
    two = adding(10);
    OK(tn_graph_replay(one, stream));
    OK(tn_graph_replay(two, stream));
    ck_assert_uint_eq(pool->replays->next_id, unit_order(device, stream).stream_id);
    switch (_i) {
    case VISIT:
    case VISIT_IN_VAIN:
        test_synchronize(stream);
        OK(tn_gpu_wait_idle(&device->gpu));
        OK(tn_replays_visit(pool, &visit, &unordered));
        ck_assert(!unordered);
        ck_assert_uint_eq(pool->replays->next_id, 0);
        tn_replays_leave_visit(pool, &visit, _i == VISIT);
        break;
    case FOLLOW: /* no event stands for the last replay */
        tn_pool_lock(pool);
        tn_replays_follow(pool, &visit);
        tn_pool_unlock(pool);
        break;
    case AWAIT:
        tn_replays_await_visit(pool);
        break;
    case JOINED:
    case JOIN: { /* the older pool's record stays */
        tarn_pool *joining = _i == JOIN ? older : unit_pool(device);
        struct tn_hold *hold;

        tn_pool_lock(joining);
        OK(tn_hold_open(joining, (struct tn_order){17, pool->holds.first->capture_id}, true,
                        &hold));
        tn_pool_unlock(joining);
        tn_replays_merge_pools(pool, pool->holds.first->capture_id, NULL);
        ck_assert_uint_eq(one->replays->next_id, 0);
        tn_pool_lock(joining);
        tn_hold_drop(hold);
        tn_pool_unlock(joining);
        break;
    }
    default:
        test_synchronize(stream);
        OK(tarn_graph_destroy(one));
        OK(tarn_graph_destroy(two));
        unit_reap_all(pool);
        one = adding(1);
        ck_assert(!atomic_load(&pool->replays->serialized));
        ck_assert_uint_eq(pool->replays->next_id, 0);
        OK(tn_graph_replay(one, other)); /* alone, and no more when the next one comes */
        two = adding(10);
        break;
    }
    ck_assert_uint_eq(pool->replays->next_id, 0);
    OK(tn_graph_replay(two, stream));
    OK(tn_graph_replay(one, stream));
}

/* G3: the event behind a restore says nothing of a replay that came behind it on the restore's stream. */
TEST(visits, a_replay_behind_a_restore_is_waited_for_and_not_the_restore)
{
    const struct tn_visit visit = visit_on(stream);
    tarn_graph *one = adding(1);
    tarn_graph *two = adding(10);
    bool unordered;

    OK(tn_graph_replay(one, stream));
    OK(tn_graph_replay(two, stream));
    OK(tn_replays_visit(pool, &visit, &unordered));
    ck_assert(!unordered);
    tn_replays_leave_visit(pool, &visit, true);
    test_spin(stream, 50);
    OK(tn_graph_replay(one, stream));
    OK(tn_graph_replay(two, other));
    test_expect_words(other, words, 22, 16); /* both have added */
}
