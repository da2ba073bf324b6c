// SPDX-License-Identifier: Apache-2.0
/* Threads that are cancelled in a replay. */
#include <pthread.h>
#include <time.h>

#include "claims/replays.h"
#include "driver/idle.h"
#include "graphs/replay.h"
#include "support/world.h"
#include "unit/one_pool.h"

static void *words;
static int launching_for; /* naps of others, of a thread that launches the only graph */

int __real_nanosleep(const struct timespec *pause, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest)
{
    if (launching_for > 0) {
        launching_for -= 1;
        if (launching_for == 0)
            atomic_store(&pool->replays->launching_alone, false);
    }
    return __real_nanosleep(pause, rest);
}

static void set_up(void)
{
    make_pool();
    words = unit_words(stream);
}

static tarn_graph *adding(uint32_t value)
{
    return unit_end(unit_adding(pool, stream, words, value));
}

/* The driver's launch is a cancellation point, and others' waits are. */
static tn_cu_result (*honest_launch)(tn_cu_graphexec exec, tn_cu_stream on);
static tn_cu_result cancelled_launch(tn_cu_graphexec exec, tn_cu_stream on)
{
    pthread_testcancel();
    return honest_launch(exec, on);
}

static bool by_the_owner; /* the thread is the record's owner by then */
static uint64_t stamp;    /* of the launch in which it ends */

static void *replay_cancelled(void *graph)
{
    for (int i = 0; by_the_owner && i <= 1 << TN_REPLAYS_PATIENCE; i++)
        OK(tarn_graph_replay(graph, stream));
    ck_assert_int_eq(by_the_owner, (atomic_load(&pool->replays->user) & TN_REPLAYS_OWNED) != 0);
    OK(tn_gpu_wait_idle(&device->gpu)); /* so that the next launch has another stamp */
    stamp = tn_gpu_epoch(&device->gpu);
    (void)pthread_cancel(pthread_self());
    return tarn_graph_replay(graph, stream) == TARN_OK ? NULL : graph;
}

static void *cancel_in_a_replay(tarn_graph *graph)
{
    pthread_t thread;
    void *result = NULL;

    ck_assert_int_eq(pthread_create(&thread, NULL, replay_cancelled, graph), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    return result;
}

SUITE("cancelled replays")
GROUP(cancelled, set_up)

/* _i: 0: the pool's only graph; 1: of several graphs; 2: the same, by the record's owner. */
TEST_LOOP(cancelled, a_thread_that_ends_in_a_launch_leaves_the_record_as_behind_it, 0, 3)
{
    tarn_graph *one = adding(1);
    tarn_graph *two = _i > 0 ? adding(2) : NULL;

    by_the_owner = _i == 2;
    OK(tarn_graph_replay(one, stream));
    honest_launch = device->gpu.launch;
    device->gpu.launch = cancelled_launch;
    ck_assert_ptr_eq(cancel_in_a_replay(one), PTHREAD_CANCELED);
    device->gpu.launch = honest_launch;
    ck_assert(!atomic_load(&pool->replays->launching_alone));
    ck_assert(!atomic_load(&pool->replays->owner_inside));
    ck_assert_uint_eq(atomic_load(&pool->replays->lock.taken), 0);
    ck_assert_uint_eq(_i > 0 ? atomic_load(&pool->replays->stamp)
                             : atomic_load(&pool->replays->alone_stamp),
                      stamp);
    OK(tarn_graph_replay(one, other));
    if (two != NULL)
        OK(tarn_graph_destroy(two));
    OK(tarn_graph_destroy(one));
}

TEST(cancelled, a_replay_that_waits_for_another_launch_is_no_cancellation_point)
{
    tarn_graph *one = adding(1);
    tarn_graph *two = adding(2);

    atomic_store(&pool->replays->launching_alone, true);
    launching_for = 3;
    ck_assert_ptr_null(cancel_in_a_replay(two)); /* it has come back */
    ck_assert_int_eq(launching_for, 0);
    ck_assert_uint_eq(atomic_load(&pool->replays->lock.taken), 0);
    OK(tarn_graph_destroy(two));
    OK(tarn_graph_destroy(one));
}
