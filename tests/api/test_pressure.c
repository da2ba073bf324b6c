// SPDX-License-Identifier: Apache-2.0
/* Callbacks that free memory and observers of its want: who is called, when, with what, on which
 * terms. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "support/world.h"

/* More than the device has: fails, whatever is freed. */
static const size_t too_much = (size_t)8191 << 20;

static int order[8];
static int order_count;

static bool note_call(tarn_device *device, size_t wanted_bytes, void *user)
{
    (void)device;
    (void)wanted_bytes;
    order[order_count] = *(int *)user;
    order_count += 1;
    return order[order_count - 1] < 0; /* negative ones say that they helped */
}

static void fail_to_allocate(void)
{
    void *address = UNTOUCHED;

    STATUS(TARN_ERR_DEVICE_MEMORY,
           tarn_pool_malloc(world.pool, too_much, 0, world.stream, &address));
    ck_assert_untouched(address);
}

GROUP(pressure, test_world_open, test_world_close)

TEST(pressure, callbacks_are_called_once_in_their_order)
{
    int users[] = {1, -2, 3};
    void *block = test_alloc(world.default_pool, 4 * MIB, world.stream); /* so it cannot succeed */

    order_count = 0;
    for (int i = 0; i < 3; i++)
        OK(tarn_device_add_free_callback(world.device, note_call, &users[i]));
    fail_to_allocate();
    ck_assert_int_eq(order_count, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(order[i], users[i]);
    OK(tarn_device_remove_free_callback(world.device, note_call, &users[1]));
    fail_to_allocate();
    ck_assert_int_eq(order_count, 5);
    ck_assert_int_eq(order[4], 3);
    OK(tarn_device_remove_free_callback(world.device, note_call, &users[0]));
    OK(tarn_device_remove_free_callback(world.device, note_call, &users[2]));
    fail_to_allocate();
    ck_assert_int_eq(order_count, 5);
    OK(tarn_free(block));
}

static tarn_out_of_memory seen;
static int seen_count;

static void observe(tarn_device *device, const tarn_out_of_memory *what, void *user)
{
    tarn_stats stats = {.size = 1};

    ck_assert_ptr_eq(device, world.device);
    ck_assert_ptr_eq(user, &seen);
    seen = *what;
    seen_count += 1;
    /* What fails in here is not what the allocation fails with. */
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_pool_stats(world.pool, &stats));
}

TEST(pressure, an_observer_is_told_who_has_what)
{
    void *live = test_alloc(world.default_pool, 6 * MIB, world.stream);
    struct test_device_stats stats = test_device_stats();
    size_t free_bytes = test_free_bytes();

    seen_count = 0;
    OK(tarn_device_add_oom_observer(world.device, observe, &seen));
    fail_to_allocate();
    ck_assert_int_eq(seen_count, 1);
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "Tarn maps"));
    ck_assert_uint_eq(seen.size, sizeof seen);
    ck_assert_ptr_eq(seen.pool, world.pool);
    ck_assert_uint_eq(seen.requested_bytes, too_much);
    ck_assert_uint_eq(seen.driver_free_bytes, free_bytes);
    ck_assert_uint_eq(seen.driver_total_bytes, 8192 * MIB);
    ck_assert_uint_eq(seen.mapped_bytes, stats.mapped_bytes);
    ck_assert_uint_eq(seen.live_bytes, 6 * MIB);
    ck_assert_uint_eq(seen.cached_bytes, 0);
    ck_assert_int_eq(seen.status, TARN_ERR_DEVICE_MEMORY);
    ck_assert_uint_eq(test_device_stats().out_of_memory_count, stats.out_of_memory_count + 1);
    OK(tarn_free(test_alloc(world.pool, MIB, world.stream))); /* nothing to tell */
    ck_assert_int_eq(seen_count, 1);
    OK(tarn_device_remove_oom_observer(world.device, observe, &seen));
    fail_to_allocate();
    ck_assert_int_eq(seen_count, 1);
    OK(tarn_free(live));
}

TEST(pressure, an_observer_is_told_of_limits_too)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *limited;
    void *address = UNTOUCHED;

    options.limit_bytes = 4 * MIB;
    OK(tarn_pool_create(world.device, &options, &limited));
    seen_count = 0;
    OK(tarn_device_add_oom_observer(world.device, observe, &seen));
    STATUS(TARN_ERR_LIMIT, tarn_pool_malloc(limited, 6 * MIB, 0, world.stream, &address));
    ck_assert_untouched(address);
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "may map 4 MiB"));
    ck_assert_int_eq(seen_count, 1);
    ck_assert_int_eq(seen.status, TARN_ERR_LIMIT);
    ck_assert_ptr_eq(seen.pool, limited);
    OK(tarn_device_remove_oom_observer(world.device, observe, &seen));
    OK(tarn_pool_destroy(limited));
}

TEST(pressure, what_is_wrong_with_a_registration_is_said)
{
    int user = 0;

    REFUSE(TARN_ERR_INVALID_HANDLE, "device",
           tarn_device_add_free_callback(NULL, note_call, &user));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device",
           tarn_device_remove_free_callback(NULL, note_call, &user));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_device_add_oom_observer(NULL, observe, &seen));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device",
           tarn_device_remove_oom_observer(NULL, observe, &seen));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "NULL",
           tarn_device_add_free_callback(world.device, NULL, &user));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "NULL",
           tarn_device_add_oom_observer(world.device, NULL, &seen));
    REFUSE(TARN_ERR_WRONG_STATE, "not registered",
           tarn_device_remove_free_callback(world.device, note_call, &user));
    REFUSE(TARN_ERR_WRONG_STATE, "not registered",
           tarn_device_remove_oom_observer(world.device, observe, &seen));
    OK(tarn_device_add_free_callback(world.device, note_call, &user));
    OK(tarn_device_add_oom_observer(world.device, observe, &seen));
    REFUSE(TARN_ERR_WRONG_STATE, "already",
           tarn_device_add_free_callback(world.device, note_call, &user));
    REFUSE(TARN_ERR_WRONG_STATE, "already",
           tarn_device_add_oom_observer(world.device, observe, &seen));
    /* They go with the device. */
}

static int depth;

static bool allocate_inside(tarn_device *device, size_t wanted_bytes, void *user)
{
    void *address = UNTOUCHED;

    (void)device;
    (void)wanted_bytes;
    (void)user;
    depth += 1;
    ck_assert_int_eq(depth, 1);
    STATUS(TARN_ERR_DEVICE_MEMORY,
           tarn_pool_malloc(world.pool, too_much, 0, world.stream, &address));
    address = test_alloc(world.pool, 4096, world.stream); /* some other may well succeed */
    OK(tarn_free(address));
    OK(tarn_pool_trim(world.pool, NULL));
    depth -= 1;
    return true;
}

TEST(pressure, what_a_callback_allocates_calls_no_callback)
{
    OK(tarn_device_add_free_callback(world.device, allocate_inside, NULL));
    OK(tarn_device_add_oom_observer(world.device, observe, &seen));
    (void)test_alloc(world.default_pool, 4 * MIB, world.stream);
    seen_count = 0;
    fail_to_allocate();
    ck_assert_int_eq(seen_count, 1); /* of the outer one alone */
    test_world_abandon();
}

static bool remove_itself(tarn_device *device, size_t wanted_bytes, void *user)
{
    (void)wanted_bytes;
    *(int *)user += 1;
    OK(tarn_device_remove_free_callback(device, remove_itself, user));
    STATUS(TARN_ERR_WRONG_STATE, tarn_device_remove_free_callback(device, remove_itself, user));
    return false;
}

TEST(pressure, a_callback_may_remove_itself)
{
    int calls = 0;

    OK(tarn_device_add_free_callback(world.device, remove_itself, &calls));
    fail_to_allocate();
    fail_to_allocate();
    ck_assert_int_eq(calls, 1);
    OK(tarn_device_add_free_callback(world.device, remove_itself, &calls));
    fail_to_allocate();
    ck_assert_int_eq(calls, 2);
}

/* What invalidates a capture of a thread that is not relaxed. */
static bool call_driver(tarn_device *device, size_t wanted_bytes, void *user)
{
    (void)device;
    (void)wanted_bytes;
    test_linear_free(test_linear_alloc(512));
    *(int *)user += 1;
    return false;
}

static void observe_with_driver(tarn_device *device, const tarn_out_of_memory *what, void *user)
{
    (void)what;
    (void)call_driver(device, 0, user);
}

TEST(pressure, what_callbacks_call_breaks_no_capture)
{
    int calls = 0;

    OK(tarn_device_add_free_callback(world.device, call_driver, &calls));
    OK(tarn_device_add_oom_observer(world.device, observe_with_driver, &calls));
    test_begin_capture(world.side, TN_CU_CAPTURE_MODE_GLOBAL);
    fail_to_allocate();
    ck_assert_int_eq(calls, 2);
    test_destroy_graph(test_end_capture(world.side));
}

/* One thread is inside a callback while another removes it. */
static struct {
    atomic_int step; /* 1: inside, 2: the other is about to remove it */
    atomic_bool left;
} meeting;

static bool linger(tarn_device *device, size_t wanted_bytes, void *user)
{
    const struct timespec pause = {0, 20000000};

    (void)device;
    (void)wanted_bytes;
    (void)user;
    atomic_store(&meeting.step, 1);
    while (atomic_load(&meeting.step) != 2)
        continue;
    (void)nanosleep(&pause, NULL);
    atomic_store(&meeting.left, true);
    return false;
}

static void *allocate_elsewhere(void *unused)
{
    (void)unused;
    fail_to_allocate();
    return NULL;
}

TEST(pressure, a_removal_waits_for_threads_inside)
{
    pthread_t thread;

    OK(tarn_device_add_free_callback(world.device, linger, NULL));
    ck_assert_int_eq(pthread_create(&thread, NULL, allocate_elsewhere, NULL), 0);
    while (atomic_load(&meeting.step) != 1)
        continue;
    atomic_store(&meeting.step, 2);
    OK(tarn_device_remove_free_callback(world.device, linger, NULL));
    ck_assert(atomic_load(&meeting.left));
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

static void open_small(void)
{
    ck_assert_int_eq(setenv("TARN_SIM_MEMORY_MIB", "256", 1), 0);
    test_world_open();
}

static bool give_block(tarn_device *device, size_t wanted_bytes, void *user)
{
    void **block = user;

    (void)device;
    (void)wanted_bytes;
    if (*block == NULL)
        return false;
    OK(tarn_free(*block));
    *block = NULL;
    return true;
}

GROUP(small, open_small, test_world_close)

/* What is freed is unmapped then, for the contents of the rest. */
TEST_LOOP(small, a_callback_may_free_what_a_checkpoint_is_just_taken_of, TARN_CONTENTS_DEVICE,
          TARN_CONTENTS_HOST + 1)
{
    enum { WORDS = 1024 };
    tarn_contents contents = (tarn_contents)_i;
    void *kept = test_alloc(world.pool, 100 * MIB, world.stream);
    void *given = test_alloc(world.pool, 40 * MIB, world.stream);
    void *filler = NULL;
    tarn_checkpoint *checkpoint;

    if (contents == TARN_CONTENTS_HOST) /* which takes little */
        filler = test_alloc(world.default_pool, 112 * MIB, world.side);
    test_fill(world.stream, kept, 5, WORDS);
    test_fill(world.stream, given, 6, WORDS);
    test_synchronize(world.stream);
    OK(tarn_device_add_free_callback(world.device, give_block, &given));
    OK(tarn_checkpoint_take(world.pool, contents, world.stream, &checkpoint));
    ck_assert_ptr_null(given);
    ck_assert_int_eq(test_stream_result(world.stream), TN_CUDA_SUCCESS);
    OK(tarn_device_remove_free_callback(world.device, give_block, &given));
    test_fill(world.stream, kept, 7, WORDS);
    tarn_delta_destroy(test_restore(checkpoint, 0, 0));
    test_expect_words(world.stream, kept, 5, WORDS);
    OK(tarn_checkpoint_verify(checkpoint, world.stream));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(kept));
    if (filler != NULL)
        OK(tarn_free(filler));
}

static bool release_pool(tarn_device *device, size_t wanted_bytes, void *user)
{
    void **block = user;

    (void)device;
    (void)wanted_bytes;
    if (*block == NULL)
        return false;
    OK(tarn_pool_release(world.pool));
    OK(tarn_free(*block));
    *block = NULL;
    return true;
}

/* The call keeps the pool until it has failed, and nothing does afterwards. */
TEST(pressure, a_pool_that_a_callback_releases_goes_when_the_checkpoint_of_it_fails)
{
    void *block = test_alloc(world.pool, 4 * MIB, world.stream);
    tarn_checkpoint *checkpoint = UNTOUCHED;
    tarn_stats stats = TARN_STATS_INIT;

    OK(tarn_checkpoint_destroy(test_take(TARN_CONTENTS_DEVICE))); /* page-locked memory is there */
    test_synchronize(world.stream);
    OK(tarn_pool_trim(world.default_pool, NULL));
    OK(tarn_device_add_free_callback(world.device, release_pool, &block));
    sim.plan_fault("cuMemMap", 1, 1, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY,
           tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoint));
    sim.clear_fault(NULL);
    ck_assert_untouched(checkpoint);
    ck_assert_ptr_null(block);
    OK(tarn_device_remove_free_callback(world.device, release_pool, &block));
    OK(tarn_device_stats(world.device, &stats));
    ck_assert_uint_eq(stats.pool_count, 1); /* the default pool */
    world.pool = NULL;
}
