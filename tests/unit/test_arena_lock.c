// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "base/barrier.h"
#include "heap/arena_lock.h"
#include "pools/arenas.h"
#include "unit/unit.h"

enum { TURNS = 1 << TN_ARENA_PATIENCE, ROUNDS = 300, OWN_TURNS = 2000 };

static tarn_device *device;
static tarn_pool *pool;
static tn_cu_stream stream;
static struct tn_arena *arena;

static void make_arena(void)
{
    void *address;

    device = unit_device();
    pool = unit_pool(device);
    stream = test_stream();
    address = unit_alloc(pool, 4096, stream);
    arena = unit_arena(pool, unit_order(device, stream));
    ck_assert_ptr_nonnull(arena);
    OK(tarn_free(address));
    tn_arena_lock(arena); /* whatever that was: nobody has used it */
    atomic_store(&arena->user, 0);
    arena->turns = 0;
    tn_arena_unlock(arena);
}

static bool is_owned(void)
{
    return (atomic_load(&arena->user) & TN_ARENA_OWNED) != 0;
}

static void take_turn(void)
{
    tn_arena_lock(arena);
    tn_arena_use(arena);
    tn_arena_unlock(arena);
}

/* Until the calling thread is the owner; returns how many turns that took. */
static size_t take_turns(void)
{
    size_t turns = 0;

    while (!is_owned()) {
        take_turn();
        turns += 1;
    }
    return turns;
}

static void *lock_once(void *unused)
{
    tn_arena_lock(arena);
    tn_arena_unlock(arena);
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

SUITE("arena lock")
GROUP(lock, make_arena, .name = "arena lock")

TEST(lock, who_takes_turns_in_a_row_becomes_the_owner)
{
    ck_assert(!tn_arena_enter(arena));
    ck_assert_uint_eq(take_turns(), TURNS + 1); /* the first names the user */
    ck_assert(tn_arena_is_user(arena));
    ck_assert(tn_arena_enter(arena));
    ck_assert(atomic_load(&arena->owner_inside));
    ck_assert_uint_eq(atomic_load(&arena->lock.taken), 0);
    tn_arena_leave(arena);
    ck_assert(!atomic_load(&arena->owner_inside));
    take_turn(); /* by the lock itself */
    ck_assert(is_owned());
}

TEST(lock, another_thread_ends_it_and_it_takes_twice_as_many_turns)
{
    size_t turns = take_turns() - 1;

    for (unsigned bits = TN_ARENA_PATIENCE; bits < 16; bits++) {
        on_a_thread(lock_once);
        ck_assert(!is_owned());
        ck_assert(tn_arena_is_user(arena));
        ck_assert(!tn_arena_enter(arena));
        ck_assert_uint_eq(take_turns(), 2 * turns);
        turns *= 2;
    }
    on_a_thread(lock_once);
    ck_assert_uint_eq(take_turns(), turns); /* no more than that */
}

TEST(lock, threads_that_take_turns_have_no_owner)
{
    for (int i = 0; i < TURNS; i++) {
        take_turn();
        take_turn();
        on_a_thread(take_one_turn);
        ck_assert(!tn_arena_is_user(arena));
    }
    ck_assert(!is_owned());
}

TEST(lock, without_the_kernels_fence_there_is_no_owner)
{
    atomic_store(&tn_barrier_is_asymmetric, false);
    for (int i = 0; i < 4 * TURNS; i++)
        take_turn();
    ck_assert(!is_owned());
    ck_assert(!tn_arena_enter(arena));
}

static void *take_many_turns(void *unused)
{
    for (int i = 0; i < 8 * TURNS; i++)
        take_turn();
    ck_assert(!is_owned());
    return unused;
}

/* Or what the first says late would be taken for the second's. */
TEST(lock, a_record_has_one_owner_in_its_life)
{
    (void)take_turns();
    on_a_thread(take_many_turns);
    ck_assert(!tn_arena_is_user(arena));
    (void)take_turns();
    ck_assert(tn_arena_enter(arena));
    tn_arena_leave(arena);
}

static atomic_bool has_locked;

static void *lock_and_say(void *unused)
{
    tn_arena_lock(arena);
    atomic_store(&has_locked, true);
    tn_arena_unlock(arena);
    return unused;
}

static void *lock_pool_and_say(void *unused)
{
    tn_pool_lock(pool);
    atomic_store(&has_locked, true);
    tn_pool_unlock(pool);
    return unused;
}

static void expect_wait(void *(*run)(void *))
{
    const struct timespec pause = {0, 20000000};
    pthread_t thread;

    (void)take_turns();
    atomic_store(&has_locked, false);
    ck_assert(tn_arena_enter(arena));
    ck_assert_int_eq(pthread_create(&thread, NULL, run, NULL), 0);
    while (is_owned())
        (void)sched_yield();
    (void)nanosleep(&pause, NULL);
    ck_assert(!atomic_load(&has_locked)); /* the owner is inside */
    tn_arena_leave(arena);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(atomic_load(&has_locked));
    ck_assert(!tn_arena_enter(arena));
}

TEST(lock, who_locks_waits_for_the_owner)
{
    expect_wait(lock_and_say);
    expect_wait(lock_pool_and_say);
}

/* Both write it with the lock alone. */
static uint64_t word;
static atomic_bool over;

static void *own(void *unused)
{
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        for (int i = 0; i < OWN_TURNS; i++) {
            bool entered = tn_arena_enter(arena);

            if (!entered) {
                tn_arena_lock(arena);
                tn_arena_use(arena);
                arena->patience = TN_ARENA_PATIENCE; /* or it would soon be the owner no more */
            }
            word += 1;
            word -= 1;
            if (entered)
                tn_arena_leave(arena);
            else
                tn_arena_unlock(arena);
        }
    }
    return unused;
}

TEST(lock, the_owner_and_who_locks_exclude_each_other)
{
    pthread_t owner;

    word = 0;
    atomic_store(&over, false);
    ck_assert_int_eq(pthread_create(&owner, NULL, own, NULL), 0);
    for (int round = 0; round < ROUNDS; round++) {
        while (!is_owned())
            (void)sched_yield();
        tn_arena_lock(arena);
        for (int i = 0; i < 100; i++) {
            ck_assert_uint_eq(word, 0); /* the owner leaves it so */
            word += 1;
            word -= 1;
        }
        tn_arena_unlock(arena);
    }
    atomic_store(&over, true);
    ck_assert_int_eq(pthread_join(owner, NULL), 0);
    ck_assert_uint_eq(word, 0);
}

TEST(lock, a_record_has_no_owner_when_it_is_another_orders_arena)
{
    struct tn_arena *again;

    (void)take_turns();
    OK(tarn_pool_trim(pool, NULL)); /* ends it, for it has no memory */
    ck_assert_ptr_null(unit_arena(pool, unit_order(device, stream)));
    (void)unit_alloc(pool, 4096, test_stream());
    again = pool->arenas.lists.first[TN_ARENAS_ALL];
    ck_assert_ptr_eq(again, arena);
    ck_assert(!is_owned());
}
