// SPDX-License-Identifier: Apache-2.0
/* The owner of a record of replays. */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "base/barrier.h"
#include "claims/replays.h"
#include "driver/idle.h"
#include "graphs/replay.h"
#include "pools/captures.h"
#include "pools/series.h"
#include "support/world.h"
#include "unit/unit.h"

enum { TURNS = 1 << TN_REPLAYS_PATIENCE, ROUNDS = 300, OWN_TURNS = 2000 };

static tarn_device *device;
static tarn_pool *pools[2];
static struct tn_replays *owned; /* the first pool's record */

static struct tn_replays *replays_of(tarn_pool *pool)
{
    return atomic_load(&pool->replays);
}

static void make_pools(void)
{
    device = unit_device();
    for (int i = 0; i < 2; i++)
        pools[i] = unit_pool(device);
    owned = replays_of(pools[0]);
}

static bool is_owned(void)
{
    return (atomic_load(&owned->user) & TN_REPLAYS_OWNED) != 0;
}

static void take_turn(void)
{
    tn_replays_acquire(owned);
    tn_replays_use(owned);
    tn_replays_unlock(owned);
}

/* Until the calling thread is the owner; returns how many turns that took. */
static unsigned take_turns(void)
{
    unsigned turns = 0;

    while (!is_owned()) {
        take_turn();
        turns += 1;
    }
    return turns;
}

static void *lock_once(void *unused)
{
    tn_replays_acquire(owned);
    tn_replays_unlock(owned);
    return unused;
}

static void *take_one_turn(void *unused)
{
    take_turn();
    return unused;
}

static void on_a_thread(void *(*run)(void *))
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, run, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

SUITE("owner of replays")
GROUP(owner, make_pools)

TEST(owner, who_replays_again_and_again_becomes_the_owner)
{
    ck_assert(!tn_replays_enter(owned));
    ck_assert_uint_eq(take_turns(), TURNS + 1); /* the first names the user */
    ck_assert(tn_replays_enter(owned));
    ck_assert(atomic_load(&owned->owner_inside));
    ck_assert_uint_eq(atomic_load(&owned->lock.taken), 0);
    tn_replays_leave_inside(owned);
    ck_assert(!atomic_load(&owned->owner_inside));
    take_turn(); /* by the lock itself */
    ck_assert(is_owned());
}

TEST(owner, another_thread_ends_the_ownership_and_the_next_takes_twice_as_long)
{
    unsigned turns = take_turns() - 1;

    for (unsigned bits = TN_REPLAYS_PATIENCE; bits < 16; bits++) {
        on_a_thread(lock_once);
        ck_assert(!is_owned());
        ck_assert(!tn_replays_enter(owned));
        ck_assert_uint_eq(take_turns(), 2 * turns);
        turns *= 2;
    }
    on_a_thread(lock_once);
    ck_assert_uint_eq(take_turns(), turns); /* no more than that */
}

TEST(owner, threads_that_alternate_have_no_owner)
{
    for (int i = 0; i < TURNS; i++) {
        take_turn();
        take_turn();
        on_a_thread(take_one_turn);
    }
    ck_assert(!is_owned());
}

TEST(owner, without_the_kernels_fence_a_record_has_no_owner)
{
    atomic_store(&tn_barrier_is_asymmetric, false);
    for (int i = 0; i < 4 * TURNS; i++)
        take_turn();
    ck_assert(!is_owned());
    ck_assert(!tn_replays_enter(owned));
}

static void *take_many_turns(void *unused)
{
    for (int i = 0; i < 8 * TURNS; i++)
        take_turn();
    ck_assert(!is_owned());
    return unused;
}

/* Or what the first says late would be taken for the second's. */
TEST(owner, a_record_has_one_owner_in_its_life)
{
    (void)take_turns();
    on_a_thread(take_many_turns);
    (void)take_turns();
    ck_assert(tn_replays_enter(owned));
    tn_replays_leave_inside(owned);
}

static atomic_bool has_locked;

static void *lock_and_say(void *unused)
{
    struct tn_replays *locked = tn_replays_lock(&pools[0]->replays);

    atomic_store(&has_locked, true);
    tn_replays_unlock(locked);
    return unused;
}

static void *merge_and_say(void *unused)
{
    tn_replays_merge_pools(pools[1], 5, NULL);
    atomic_store(&has_locked, true);
    return unused;
}

static void expect_wait(void *(*run)(void *))
{
    const struct timespec pause = {0, 20000000};
    pthread_t thread;

    (void)take_turns();
    atomic_store(&has_locked, false);
    ck_assert(tn_replays_enter(owned));
    ck_assert_int_eq(pthread_create(&thread, NULL, run, NULL), 0);
    while (is_owned())
        (void)sched_yield();
    (void)nanosleep(&pause, NULL);
    ck_assert(!atomic_load(&has_locked)); /* the owner is inside */
    tn_replays_leave_inside(owned);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(atomic_load(&has_locked));
    ck_assert(!tn_replays_enter(owned));
}

TEST(owner, who_locks_the_record_waits_for_the_owner)
{
    expect_wait(lock_and_say);
}

static struct tn_hold *open_hold(tarn_pool *pool, uint64_t capture_id)
{
    struct tn_hold *hold = NULL;

    tn_pool_lock(pool);
    OK(tn_hold_open(pool, (struct tn_order){17, capture_id}, true, &hold));
    tn_pool_unlock(pool);
    return hold;
}

static void drop_hold(struct tn_hold *hold)
{
    tarn_pool *pool = hold->holds->pool;

    tn_pool_lock(pool);
    tn_hold_drop(hold);
    tn_pool_unlock(pool);
}

/* _i: which record the pools leave, that of the first or the one which stays. */
TEST_LOOP(owner, a_merge_waits_for_the_owner, 0, 2)
{
    struct tn_hold *holds[2] = {open_hold(pools[0], 5), open_hold(pools[1], 5)};

    owned = replays_of(pools[_i]);
    expect_wait(merge_and_say);
    ck_assert_ptr_eq(replays_of(pools[0]), replays_of(pools[1]));
    drop_hold(holds[0]);
    drop_hold(holds[1]);
}

static uint64_t word; /* written by the owner inside, and with the lock */
static atomic_bool over;

static void *own(void *unused)
{
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        for (int i = 0; i < OWN_TURNS; i++) {
            bool entered = tn_replays_enter(owned);

            if (!entered) {
                tn_replays_acquire(owned);
                tn_replays_use(owned);
                owned->patience = 4; /* or it would soon be the owner no more */
            }
            word += 1;
            word -= 1;
            if (entered)
                tn_replays_leave_inside(owned);
            else
                tn_replays_unlock(owned);
        }
    }
    return unused;
}

TEST(owner, the_owner_and_who_locks_the_record_exclude_each_other)
{
    pthread_t owner;

    word = 0;
    atomic_store(&over, false);
    ck_assert_int_eq(pthread_create(&owner, NULL, own, NULL), 0);
    for (int round = 0; round < ROUNDS; round++) {
        while (!is_owned())
            (void)sched_yield();
        tn_replays_acquire(owned);
        for (int i = 0; i < 100; i++) {
            ck_assert_uint_eq(word, 0); /* the owner leaves it so */
            word += 1;
            word -= 1;
        }
        tn_replays_unlock(owned);
    }
    atomic_store(&over, true);
    ck_assert_int_eq(pthread_join(owner, NULL), 0);
    ck_assert_uint_eq(word, 0);
}

static tn_cu_result (*honest_launch)(tn_cu_graphexec exec, tn_cu_stream on);
static int launches_inside;

static tn_cu_result launch_inside(tn_cu_graphexec exec, tn_cu_stream on)
{
    launches_inside += 1;
    ck_assert(atomic_load(&owned->owner_inside));
    ck_assert_uint_eq(atomic_load(&owned->lock.taken), 0);
    return honest_launch(exec, on);
}

static tn_cu_stream other;

static void replay_elsewhere(void *graph)
{
    OK(tn_graph_replay(graph, other));
}

static uint64_t waits(void)
{
    return atomic_load(&device->gpu.calls[TN_CALL_WAIT]);
}

/* G3 */
TEST(owner, the_owner_launches_without_the_lock_on_the_known_stream_alone)
{
    tn_cu_stream stream = test_stream();
    void *words = unit_words(stream);
    tarn_graph *graphs[2] = {unit_end(unit_adding(pools[0], stream, words, 1)),
                             unit_end(unit_adding(pools[0], stream, words, 10))};

    other = test_stream();
    while (!is_owned())
        OK(tn_graph_replay(graphs[0], stream));
    ck_assert_uint_eq(waits(), 0);
    OK(tn_gpu_wait_idle(&device->gpu)); /* so that the next launch has another stamp */
    honest_launch = device->gpu.launch;
    device->gpu.launch = launch_inside;
    OK(tn_graph_replay(graphs[1], stream));
    device->gpu.launch = honest_launch;
    ck_assert_int_eq(launches_inside, 1);
    ck_assert_uint_eq(atomic_load(&owned->stamp), tn_gpu_epoch(&device->gpu));
    ck_assert(!atomic_load(&owned->owner_inside));
    OK(tn_graph_replay(graphs[0], other)); /* waits for the device, and is in order */
    ck_assert_uint_eq(waits(), 2);
    ck_assert(owned->crosses && owned->next_id == 0);
    test_elsewhere(replay_elsewhere, graphs[1]);
    ck_assert(!is_owned());
    OK(tn_graph_replay(graphs[0], other));
}
