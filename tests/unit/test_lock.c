// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>

#include "unit/unit.h"

static struct tn_lock locks[TN_RANK_COUNT];

static void make_locks(void)
{
    for (int rank = 0; rank < TN_RANK_COUNT; rank++)
        tn_lock_init(&locks[rank], (enum tn_rank)rank);
}

GROUP(order, make_locks)

TEST(order, locks_may_be_taken_in_rising_rank_and_released_in_any_order)
{
    for (int rank = 0; rank < TN_RANK_COUNT; rank++)
        tn_lock_acquire(&locks[rank]);
    for (int rank = 0; rank < TN_RANK_COUNT; rank++)
        tn_lock_release(&locks[rank]);
    ck_assert(tn_lock_none_held());
}

TEST(order, a_rank_is_held_from_acquire_to_release)
{
    if (!TARN_DEBUG_CHECKS)
        return; /* nothing is recorded */
    ck_assert(tn_lock_none_held());
    ck_assert(!tn_lock_held(TN_RANK_POOL));
    tn_lock_acquire(&locks[TN_RANK_POOL]);
    ck_assert(tn_lock_held(TN_RANK_POOL));
    ck_assert(!tn_lock_held(TN_RANK_DEVICE));
    ck_assert(!tn_lock_none_held());
    tn_lock_release(&locks[TN_RANK_POOL]);
    ck_assert(!tn_lock_held(TN_RANK_POOL));
    ck_assert(tn_lock_none_held());
}

TEST(order, of_two_locks_of_a_rank_the_one_is_known_that_is_held)
{
    struct tn_lock other;

    if (!TARN_DEBUG_CHECKS)
        return; /* nothing is recorded */
    tn_lock_init(&other, TN_RANK_POOL);
    ck_assert(!tn_lock_is_held(&other));
    tn_lock_acquire(&other);
    ck_assert(tn_lock_is_held(&other));
    ck_assert(!tn_lock_is_held(&locks[TN_RANK_POOL]));
    tn_lock_release(&other);
    ck_assert(!tn_lock_is_held(&other));
    tn_lock_fini(&other);
}

TEST(order, a_statically_initialised_lock_has_its_rank)
{
    struct tn_lock lock = TN_LOCK_INIT(TN_RANK_REGION);

    tn_lock_acquire(&lock);
    ck_assert(tn_lock_held(TN_RANK_REGION));
    tn_lock_release(&lock);
    tn_lock_fini(&lock);
}

TEST(order, a_spin_lock_has_the_rank_that_it_is_taken_with)
{
    struct tn_spin one = {0};
    struct tn_spin another = {0};

    tn_lock_acquire_spin(&one, TN_RANK_REPLAY);
    ck_assert(tn_lock_held(TN_RANK_REPLAY));
    ck_assert(!tn_spin_try(&one));
    tn_lock_acquire_second_spin(&another, TN_RANK_REPLAY);
    ck_assert(!tn_spin_try(&another));
    tn_lock_release_second_spin(&another);
    ck_assert(tn_spin_try(&another));
    ck_assert(!tn_spin_try(&one));
    tn_lock_release_spin(&one, TN_RANK_REPLAY);
    ck_assert(tn_lock_none_held());
    ck_assert(tn_spin_try(&one));
}

static void expect_nothing_held(void *argument)
{
    (void)argument;
    ck_assert(tn_lock_none_held());
}

TEST(order, what_is_held_is_known_for_each_thread)
{
    tn_lock_acquire(&locks[TN_RANK_POOL]);
    test_elsewhere(expect_nothing_held, NULL);
    tn_lock_release(&locks[TN_RANK_POOL]);
}

enum { ROUNDS = 20000 };

static uint64_t shared_count;

static void *count_up(void *argument)
{
    (void)argument;
    for (int i = 0; i < ROUNDS; i++) {
        tn_lock_acquire(&locks[TN_RANK_POOL]);
        shared_count += 1;
        tn_lock_release(&locks[TN_RANK_POOL]);
    }
    return NULL;
}

TEST(order, a_lock_excludes_other_threads)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, count_up, NULL), 0);
    (void)count_up(NULL);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(shared_count, 2 * ROUNDS);
}

GROUP(wrong, make_locks, .name = "wrong order")

CONTRACT_TEST(wrong, falling_rank_is_a_broken_contract)
{
    tn_lock_acquire(&locks[TN_RANK_POOL]);
    tn_lock_acquire(&locks[TN_RANK_DEVICE]);
}

CONTRACT_TEST(wrong, a_spin_lock_of_falling_rank_is_a_broken_contract)
{
    struct tn_spin lock = {0};

    tn_lock_acquire(&locks[TN_RANK_STREAMS]);
    tn_lock_acquire_spin(&lock, TN_RANK_REPLAY);
}

CONTRACT_TEST(wrong, two_spin_locks_of_one_rank_are_a_broken_contract)
{
    struct tn_spin one = {0};
    struct tn_spin another = {0};

    tn_lock_acquire_spin(&one, TN_RANK_REPLAY);
    tn_lock_acquire_spin(&another, TN_RANK_REPLAY);
}

CONTRACT_TEST(wrong, a_second_spin_lock_without_a_first_one_is_a_broken_contract)
{
    struct tn_spin lock = {0};

    tn_lock_acquire(&locks[TN_RANK_DEVICE]);
    tn_lock_acquire_second_spin(&lock, TN_RANK_REPLAY);
}

CONTRACT_TEST(wrong, releasing_a_spin_lock_of_a_rank_that_is_not_held_is_a_broken_contract)
{
    struct tn_spin lock = {0};

    tn_spin_acquire(&lock);
    tn_lock_release_spin(&lock, TN_RANK_REPLAY);
}

CONTRACT_TEST(wrong, two_locks_of_one_rank_are_a_broken_contract)
{
    struct tn_lock other = TN_LOCK_INIT(TN_RANK_POOL);

    tn_lock_acquire(&locks[TN_RANK_POOL]);
    tn_lock_acquire(&other);
}

CONTRACT_TEST(wrong, taking_a_lock_twice_is_a_broken_contract)
{
    tn_lock_acquire(&locks[TN_RANK_RECORDS]);
    tn_lock_acquire(&locks[TN_RANK_RECORDS]);
}

CONTRACT_TEST(wrong, releasing_what_is_not_held_is_a_broken_contract)
{
    tn_lock_release(&locks[TN_RANK_REGION]);
}

/* Each pair of ranks in the wrong order, one a process. */
CONTRACT_TEST_LOOP(wrong, every_pair_in_falling_order_is_a_broken_contract, 0,
                   (TN_RANK_COUNT - 1) * TN_RANK_COUNT / 2)
{
    int upper = 1;
    int lower = _i;

    while (lower >= upper) { /* pair (upper, lower), numbered by upper */
        lower -= upper;
        upper += 1;
    }
    tn_lock_acquire(&locks[upper]);
    tn_lock_acquire(&locks[lower]);
}
