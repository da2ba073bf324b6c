// SPDX-License-Identifier: Apache-2.0
/* Frames of an interpreter: who may set its functions, and when. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "support/world.h"

static void open_recorded(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = 256 << 10;
    options.history_stacks = TARN_HISTORY_CALLERS;
    test_world_open_with(&options);
}

GROUP(interpreters, open_recorded, test_world_close)
GROUP(unrecorded, test_world_open_unrecorded, test_world_close)

static atomic_int asked;

static uint64_t give_token(void *user)
{
    (void)user;
    return (uint64_t)atomic_fetch_add(&asked, 1) + 1;
}

TEST(interpreters, functions_are_asked_until_they_are_taken_back)
{
    atomic_store(&asked, 0);
    OK(tarn_device_set_interpreter(world.device, give_token, NULL, NULL));
    OK(tarn_free(test_malloc(1000)));
    OK(tarn_free(test_malloc(1000)));
    ck_assert_int_eq(atomic_load(&asked), 2);
    OK(tarn_device_set_interpreter(world.device, NULL, NULL, NULL));
    OK(tarn_free(test_malloc(1000)));
    ck_assert_int_eq(atomic_load(&asked), 2);
}

static uint64_t change_inside(void *user)
{
    STATUS(TARN_ERR_WRONG_STATE, tarn_device_set_interpreter(world.device, NULL, NULL, user));
    return give_token(NULL);
}

TEST(interpreters, bad_calls_are_refused)
{
    REFUSE(TARN_ERR_INVALID_HANDLE, "device",
           tarn_device_set_interpreter(NULL, give_token, NULL, NULL));
    atomic_store(&asked, 0);
    OK(tarn_device_set_interpreter(world.device, change_inside, NULL, NULL));
    OK(tarn_free(test_malloc(1000)));
    ck_assert_int_eq(atomic_load(&asked), 1);
}

TEST(unrecorded, without_a_history_there_are_none)
{
    REFUSE(TARN_ERR_NOT_SUPPORTED, "history",
           tarn_device_set_interpreter(world.device, give_token, NULL, NULL));
}

static atomic_bool entered;
static atomic_bool may_leave;

static uint64_t wait_inside(void *user)
{
    (void)user;
    atomic_store(&entered, true);
    while (!atomic_load(&may_leave))
        (void)sched_yield();
    return 0;
}

static void *allocate(void *argument)
{
    OK(tarn_free(test_malloc(1000)));
    return argument;
}

static atomic_bool has_begun;
static atomic_bool is_over;

static void *take_back(void *argument)
{
    atomic_store(&has_begun, true);
    OK(tarn_device_set_interpreter(world.device, NULL, NULL, NULL));
    atomic_store(&is_over, true);
    return argument;
}

/* A change waits for whoever is inside, and another change does not wait with it. */
TEST(interpreters, a_change_waits_and_a_second_is_refused)
{
    pthread_t allocator;
    pthread_t changer;

    atomic_store(&entered, false);
    atomic_store(&may_leave, false);
    atomic_store(&is_over, false);
    OK(tarn_device_set_interpreter(world.device, wait_inside, NULL, NULL));
    ck_assert_int_eq(pthread_create(&allocator, NULL, allocate, NULL), 0);
    while (!atomic_load(&entered))
        (void)sched_yield();
    ck_assert_int_eq(pthread_create(&changer, NULL, take_back, NULL), 0);
    while (!atomic_load(&has_begun))
        (void)sched_yield();
    (void)usleep(20000); /* the change has begun to wait */
    ck_assert(!atomic_load(&is_over));
    STATUS(TARN_ERR_BUSY, tarn_device_set_interpreter(world.device, give_token, NULL, NULL));
    atomic_store(&may_leave, true);
    ck_assert_int_eq(pthread_join(allocator, NULL), 0);
    ck_assert_int_eq(pthread_join(changer, NULL), 0);
    ck_assert(atomic_load(&is_over));
    OK(tarn_device_set_interpreter(world.device, give_token, NULL, NULL));
}
