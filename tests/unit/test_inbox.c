// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>

#include "heap/inbox.h"
#include "unit/unit.h"

enum { THREADS = 4, ROUNDS = 5000 };

static struct tn_block blocks[TN_INBOX_PLACES]; /* never looked at */
static struct tn_inbox *inbox;

static void make_inbox(void)
{
    inbox = tn_inbox_make();
    ck_assert_ptr_nonnull(inbox);
    tn_inbox_open(inbox);
}

static void drop_inbox(void)
{
    tn_inbox_drop(inbox);
}

static bool leave(struct tn_block *block)
{
    atomic_uintptr_t *place = tn_inbox_enter(inbox);

    if (place != NULL)
        tn_inbox_put(place, block);
    return place != NULL;
}

GROUP(inbox, make_inbox, drop_inbox)

TEST(inbox, blocks_come_out_in_the_order_of_their_places)
{
    ck_assert_ptr_null(tn_inbox_first(inbox));
    for (int i = 0; i < 3; i++)
        ck_assert(leave(&blocks[i]));
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_eq(tn_inbox_first(inbox), &blocks[i]);
        ck_assert_ptr_eq(tn_inbox_first(inbox), &blocks[i]);
        tn_inbox_take(inbox);
    }
    ck_assert_ptr_null(tn_inbox_first(inbox));
}

TEST(inbox, a_full_inbox_takes_nothing)
{
    for (int i = 0; i < TN_INBOX_PLACES; i++)
        ck_assert(leave(&blocks[i]));
    ck_assert(!leave(&blocks[0]));
    tn_inbox_take(inbox);
    ck_assert(leave(&blocks[0]));
    ck_assert(!leave(&blocks[1]));
    for (int i = 1; i <= TN_INBOX_PLACES; i++) {
        ck_assert_ptr_eq(tn_inbox_first(inbox), &blocks[i % TN_INBOX_PLACES]);
        tn_inbox_take(inbox);
    }
    ck_assert_ptr_null(tn_inbox_first(inbox));
}

TEST(inbox, places_are_used_again_round_after_round)
{
    for (int i = 0; i < 5 * TN_INBOX_PLACES; i++) {
        ck_assert(leave(&blocks[i % TN_INBOX_PLACES]));
        ck_assert(leave(&blocks[(i + 1) % TN_INBOX_PLACES]));
        ck_assert_ptr_eq(tn_inbox_first(inbox), &blocks[i % TN_INBOX_PLACES]);
        tn_inbox_take(inbox);
        ck_assert_ptr_eq(tn_inbox_first(inbox), &blocks[(i + 1) % TN_INBOX_PLACES]);
        tn_inbox_take(inbox);
    }
}

TEST(inbox, a_place_with_nothing_is_passed_over)
{
    ck_assert(leave(NULL) && leave(NULL) && leave(&blocks[0]) && leave(NULL));
    ck_assert_ptr_eq(tn_inbox_first(inbox), &blocks[0]);
    tn_inbox_take(inbox);
    ck_assert_ptr_null(tn_inbox_first(inbox));
    tn_inbox_close(inbox);
    ck_assert(tn_inbox_is_empty(inbox));
}

TEST(inbox, a_place_that_is_taken_holds_up_those_behind_it)
{
    atomic_uintptr_t *place = tn_inbox_enter(inbox);

    ck_assert(leave(&blocks[1]));
    ck_assert_ptr_null(tn_inbox_first(inbox));
    tn_inbox_put(place, &blocks[0]);
    ck_assert_ptr_eq(tn_inbox_first(inbox), &blocks[0]);
}

TEST(inbox, a_closed_inbox_takes_nothing_and_keeps_what_is_there)
{
    ck_assert(leave(&blocks[0]));
    ck_assert(tn_inbox_is_open(inbox));
    tn_inbox_close(inbox);
    tn_inbox_close(inbox);
    ck_assert(!tn_inbox_is_open(inbox));
    ck_assert(!leave(&blocks[1]));
    ck_assert(!tn_inbox_is_empty(inbox));
    ck_assert_ptr_eq(tn_inbox_await(inbox), &blocks[0]);
    tn_inbox_take(inbox);
    ck_assert(tn_inbox_is_empty(inbox));
    ck_assert_ptr_null(tn_inbox_await(inbox));
    tn_inbox_open(inbox);
    ck_assert(leave(&blocks[1]));
    ck_assert_ptr_eq(tn_inbox_first(inbox), &blocks[1]);
}

static void *put_late(void *place)
{
    (void)nanosleep(&(struct timespec){0, 20000000}, NULL);
    tn_inbox_put(place, &blocks[0]);
    return NULL;
}

TEST(inbox, what_is_on_its_way_into_a_closed_inbox_is_waited_for)
{
    atomic_uintptr_t *place = tn_inbox_enter(inbox);
    pthread_t thread;

    tn_inbox_close(inbox);
    ck_assert_int_eq(pthread_create(&thread, NULL, put_late, place), 0);
    ck_assert_ptr_eq(tn_inbox_await(inbox), &blocks[0]);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/* Each thread leaves its block over and over, and waits where the inbox is closed or full. */
static void *leave_often(void *block)
{
    for (int i = 0; i < ROUNDS; i++) {
        for (unsigned looks = 0; !leave(block); looks++)
            tn_spin_pause(looks);
    }
    return NULL;
}

TEST(inbox, nothing_is_lost_between_threads)
{
    pthread_t threads[THREADS];
    uint64_t counts[THREADS] = {0};

    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, leave_often, &blocks[i]), 0);
    for (uint64_t taken = 0, looks = 0; taken < (uint64_t)THREADS * ROUNDS; looks++) {
        bool closing = looks % 100 == 99;
        struct tn_block *block;

        if (closing)
            tn_inbox_close(inbox);
        while ((block = closing ? tn_inbox_await(inbox) : tn_inbox_first(inbox)) != NULL) {
            counts[block - blocks] += 1;
            taken += 1;
            tn_inbox_take(inbox);
        }
        if (closing)
            tn_inbox_open(inbox); /* it is empty, or this stops the test */
    }
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_uint_eq(counts[i], ROUNDS);
    }
}

/* P22 */
CONTRACT_TEST(inbox, opening_an_inbox_with_a_block_in_it_is_a_broken_contract)
{
    ck_assert(leave(&blocks[0]));
    tn_inbox_close(inbox);
    tn_inbox_open(inbox);
}

CONTRACT_TEST(inbox, taking_from_an_empty_inbox_is_a_broken_contract)
{
    tn_inbox_take(inbox);
}
