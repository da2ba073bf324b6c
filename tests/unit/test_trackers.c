// SPDX-License-Identifier: Apache-2.0
/* Trackers: what they are told, when, on which terms. */
#include "pools/trackers.h"

#include <pthread.h>
#include <semaphore.h>

#include "unit/unit.h"

SUITE("trackers")

enum { TOLD_MAX = 4096, THREADS = 4 };

/* What the tracker was told. */
static tarn_tracked told[TOLD_MAX];
static size_t told_count;

static bool is_mapped(const void *address)
{
    return tn_address_table_chunk((uint64_t)(uintptr_t)address) != NULL;
}

static void hear(tarn_device *device, const tarn_tracked *what, void *user)
{
    tarn_stats stats = {.size = 1};

    ck_assert(tn_lock_none_held());
    ck_assert_ptr_eq(device, world.device);
    ck_assert_ptr_eq(user, told);
    ck_assert_uint_eq(what->size, sizeof *what);
    if (what->event != TARN_TRACKED_OUT_OF_MEMORY)
        ck_assert(is_mapped(what->address));
    else /* its own failures are not those of the call */
        STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_pool_stats(world.pool, &stats));
    ck_assert_uint_lt(told_count, TOLD_MAX);
    told[told_count] = *what;
    told_count += 1;
}

static void add(unsigned events)
{
    told_count = 0;
    OK(tarn_device_add_tracker(world.device, hear, told, events));
}

static void end_hearing(void)
{
    OK(tarn_device_remove_tracker(world.device, hear, told));
}

/* The tracker was told this alone since the last look. */
static void expect_told(tarn_tracked_event event, const void *address, size_t bytes)
{
    ck_assert_uint_eq(told_count, 1);
    ck_assert_int_eq(told[0].event, event);
    ck_assert_ptr_eq(told[0].address, address);
    ck_assert_uint_eq(told[0].bytes, bytes);
    told_count = 0;
}

GROUP(told, test_world_open, .end = test_world_close)

TEST(told, memory_is_told_when_it_comes_and_before_it_goes)
{
    void *block;

    add(TARN_TRACKED_ALL);
    block = test_alloc(world.pool, 8 * MIB, world.stream);
    expect_told(TARN_TRACKED_MAPPED, block, 8 * MIB);
    OK(tarn_free(block));
    OK(tarn_free(test_alloc(world.pool, 8 * MIB, world.stream)));
    ck_assert_uint_eq(told_count, 0);
    test_synchronize(world.stream);
    OK(tarn_pool_trim(world.pool, NULL));
    expect_told(TARN_TRACKED_UNMAPPING, block, 8 * MIB);
    ck_assert(!is_mapped(block));
    end_hearing();
    OK(tarn_free(test_alloc(world.pool, 8 * MIB, world.stream)));
    ck_assert_uint_eq(told_count, 0);
}

TEST(told, a_trim_tells_of_no_more_than_goes)
{
    void *blocks[4];
    size_t freed = 0;

    for (size_t i = 0; i < 4; i++)
        blocks[i] = test_alloc(world.pool, 8 * MIB, world.stream);
    for (size_t i = 0; i < 4; i++)
        OK(tarn_free(blocks[i]));
    test_synchronize(world.stream);
    add(TARN_TRACKED_UNMAPPING);
    OK(tarn_pool_trim_to(world.pool, 16 * MIB, &freed));
    ck_assert_uint_eq(freed, 16 * MIB);
    ck_assert_uint_eq(told_count, 2);
    OK(tarn_device_trim(world.device, 0, &freed));
    ck_assert_uint_eq(freed, 16 * MIB);
    ck_assert_uint_eq(told_count, 4);
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(told[i].event, TARN_TRACKED_UNMAPPING);
    end_hearing();
}

TEST(told, more_memory_goes_than_is_told_at_a_time)
{
    enum { CHUNKS = TN_FAREWELLS + 5 };
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pools[CHUNKS];

    for (size_t i = 0; i < CHUNKS; i++) {
        pools[i] = test_pool_with(&options);
        OK(tarn_free(test_alloc(pools[i], 2 * MIB, world.stream)));
    }
    test_synchronize(world.stream);
    add(TARN_TRACKED_UNMAPPING);
    OK(tarn_device_trim(world.device, 0, NULL));
    ck_assert_uint_eq(told_count, CHUNKS);
    ck_assert_uint_eq(test_device_stats().mapped_bytes, 0);
    end_hearing();
    for (size_t i = 0; i < CHUNKS; i++)
        OK(tarn_pool_destroy(pools[i]));
}

TEST(told, the_end_of_a_pool_is_told_before)
{
    void *block = test_alloc(world.pool, 8 * MIB, world.stream);

    OK(tarn_free(block));
    test_synchronize(world.stream);
    add(TARN_TRACKED_ALL);
    OK(tarn_pool_destroy(world.pool));
    expect_told(TARN_TRACKED_UNMAPPING, block, 8 * MIB);
    world.pool = test_pool("next");
    end_hearing();
}

TEST(told, memory_that_another_pool_wants_is_told_before)
{
    void *taken = test_alloc(world.default_pool, 4096 * MIB, world.stream);
    void *block;

    OK(tarn_free(taken));
    test_synchronize(world.stream);
    add(TARN_TRACKED_UNMAPPING);
    block = test_alloc(world.pool, 6144 * MIB, world.stream);
    ck_assert_uint_gt(told_count, 0);
    for (size_t i = 0; i < told_count; i++)
        ck_assert(!is_mapped(told[i].address) ||
                  tn_segment_chunk_at(unit_segment(told[i].address), 0) != NULL);
    OK(tarn_free(block));
    end_hearing();
}

TEST(told, a_failure_is_told_behind_and_its_sentence_stays)
{
    void *block = NULL;

    add(TARN_TRACKED_OUT_OF_MEMORY);
    OK(tarn_pool_set_limit(world.pool, 4 * MIB));
    STATUS(TARN_ERR_LIMIT, tarn_pool_malloc(world.pool, 8 * MIB, 0, world.stream, &block));
    unit_expect_sentence("may map 4 MiB");
    ck_assert_int_eq(told[0].status, TARN_ERR_LIMIT);
    expect_told(TARN_TRACKED_OUT_OF_MEMORY, NULL, 8 * MIB);
    OK(tarn_free(test_alloc(world.pool, 2 * MIB, world.stream)));
    ck_assert_uint_eq(told_count, 0); /* nothing that was not asked for */
    end_hearing();
}

static void count(tarn_device *device, const tarn_tracked *what, void *user)
{
    (void)device;
    ck_assert_int_eq(what->event, TARN_TRACKED_MAPPED);
    *(size_t *)user += 1;
}

TEST(told, each_tracker_hears_what_it_asked_for)
{
    size_t mapped = 0;

    add(TARN_TRACKED_UNMAPPING);
    OK(tarn_device_add_tracker(world.device, count, &mapped, TARN_TRACKED_MAPPED));
    OK(tarn_free(test_alloc(world.pool, 8 * MIB, world.stream)));
    ck_assert_uint_eq(told_count, 0);
    ck_assert_uint_eq(mapped, 1);
    test_synchronize(world.stream);
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_eq(told_count, 1);
    ck_assert_uint_eq(mapped, 1);
    OK(tarn_device_remove_tracker(world.device, count, &mapped));
    end_hearing();
}

TEST(told, a_growth_that_fails_is_not_told)
{
    void *block = NULL;

    add(TARN_TRACKED_MAPPED | TARN_TRACKED_UNMAPPING);
    sim.plan_fault("cuMemMap", 2, true, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_pool_malloc(world.pool, 24 * MIB, 0, world.stream, &block));
    (void)sim.clear_fault(NULL);
    ck_assert_uint_eq(told_count, 0);
    end_hearing();
}

TEST(told, known_memory_does_not_move)
{
    void *blocks[4];
    void *large;

    add(TARN_TRACKED_MAPPED);
    for (size_t i = 0; i < 4; i++)
        blocks[i] = test_alloc(world.pool, 8 * MIB, world.stream);
    OK(tarn_free(blocks[1]));
    OK(tarn_free(blocks[3]));
    large = test_alloc(world.pool, 16 * MIB, world.stream);
    ck_assert_uint_eq(world.pool->vacated.count, 0);
    ck_assert(is_mapped(blocks[1]));
    OK(tarn_free(large));
    OK(tarn_free(blocks[0]));
    OK(tarn_free(blocks[2]));
    end_hearing();
}

/* Its calls map and unmap, and are not told. */
static void call_tarn(tarn_device *device, const tarn_tracked *what, void *user)
{
    tarn_stats stats = {.size = 1};

    hear(device, what, user);
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_pool_stats(world.pool, &stats));
    OK(tarn_free(test_alloc(world.default_pool, 32 * MIB, world.side)));
    OK(tarn_pool_trim(world.default_pool, NULL));
}

TEST(told, a_tracker_may_call_and_is_not_told_of_that)
{
    void *block;

    told_count = 0;
    OK(tarn_device_add_tracker(world.device, call_tarn, told, TARN_TRACKED_ALL));
    block = test_alloc(world.pool, 8 * MIB, world.stream);
    expect_told(TARN_TRACKED_MAPPED, block, 8 * MIB);
    ck_assert_uint_eq(told[0].lost_count, 0);
    OK(tarn_free(block));
    test_synchronize(world.stream);
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_gt(told[0].lost_count, 0);
    expect_told(TARN_TRACKED_UNMAPPING, block, 8 * MIB);
    OK(tarn_device_remove_tracker(world.device, call_tarn, told));
}

/* The calls of the tracker do not tell what the call around it has left to tell. */
TEST(told, a_tracker_that_calls_hears_of_all_memory_of_its_call)
{
    told_count = 0;
    OK(tarn_device_add_tracker(world.device, call_tarn, told, TARN_TRACKED_MAPPED));
    OK(tarn_pool_reserve(world.pool, 64 * MIB, world.stream));
    ck_assert_uint_ge(told_count, 2); /* small blocks have chunks of their own */
    ck_assert_uint_eq(atomic_load(&world.device->trackers.due), 0);
    OK(tarn_device_remove_tracker(world.device, call_tarn, told));
    OK(tarn_device_trim(world.device, 0, NULL));
}

static void remove_itself(tarn_device *device, const tarn_tracked *what, void *user)
{
    hear(device, what, user);
    OK(tarn_device_remove_tracker(device, remove_itself, user));
}

TEST(told, a_tracker_may_remove_itself)
{
    told_count = 0;
    OK(tarn_device_add_tracker(world.device, remove_itself, told, TARN_TRACKED_ALL));
    OK(tarn_free(test_alloc(world.pool, 8 * MIB, world.stream)));
    OK(tarn_free(test_alloc(world.default_pool, 8 * MIB, world.stream)));
    ck_assert_uint_eq(told_count, 1);
    REFUSE(TARN_ERR_WRONG_STATE, "not registered",
           tarn_device_remove_tracker(world.device, remove_itself, told));
}

static void *again;

/* Wants the memory again that is to go. */
static void want_again(tarn_device *device, const tarn_tracked *what, void *user)
{
    hear(device, what, user);
    if (what->event == TARN_TRACKED_UNMAPPING && again == NULL)
        again = test_alloc(world.pool, 8 * MIB, world.stream);
}

TEST(told, memory_that_is_wanted_again_stays_and_is_told_so)
{
    void *block = test_alloc(world.pool, 8 * MIB, world.stream);
    size_t freed = 1;

    OK(tarn_free(block));
    test_synchronize(world.stream);
    told_count = 0;
    again = NULL;
    OK(tarn_device_add_tracker(world.device, want_again, told, TARN_TRACKED_ALL));
    OK(tarn_pool_trim(world.pool, &freed));
    ck_assert_uint_eq(freed, 0);
    ck_assert_ptr_eq(again, block);
    ck_assert_uint_eq(told_count, 2);
    ck_assert_int_eq(told[0].event, TARN_TRACKED_UNMAPPING);
    told[0] = told[1];
    told_count = 1;
    expect_told(TARN_TRACKED_MAPPED, block, 8 * MIB);
    OK(tarn_free(again));
    test_synchronize(world.stream);
    OK(tarn_pool_trim(world.pool, NULL));
    expect_told(TARN_TRACKED_UNMAPPING, block, 8 * MIB);
    OK(tarn_device_remove_tracker(world.device, want_again, told));
}

static sem_t is_inside;
static sem_t may_leave;

static void be_slow(tarn_device *device, const tarn_tracked *what, void *user)
{
    hear(device, what, user);
    (void)sem_post(&is_inside);
    while (sem_wait(&may_leave) != 0)
        ;
}

static void *map_slowly(void *unused)
{
    (void)unused;
    return test_alloc(world.pool, 8 * MIB, world.stream);
}

TEST(told, a_slow_tracker_keeps_its_memory_and_nobody_else)
{
    pthread_t thread;
    void *address;
    void *block;
    size_t freed = 1;

    ck_assert_int_eq(sem_init(&is_inside, 0, 0), 0);
    ck_assert_int_eq(sem_init(&may_leave, 0, 0), 0);
    told_count = 0;
    OK(tarn_device_add_tracker(world.device, be_slow, told, TARN_TRACKED_MAPPED));
    ck_assert_int_eq(pthread_create(&thread, NULL, map_slowly, NULL), 0);
    while (sem_wait(&is_inside) != 0)
        ;
    address = told[0].address;
    /* The block is there, and its call has not returned. */
    OK(tarn_free(address));
    test_wait_for_all();
    OK(tarn_pool_trim(world.pool, &freed));
    ck_assert_uint_eq(freed, 0);
    ck_assert(is_mapped(address));
    STATUS(TARN_ERR_BUSY, tarn_pool_destroy(world.pool));         /* the call is under way */
    OK(tarn_free(test_alloc(world.pool, 8 * MIB, world.stream))); /* others use it meanwhile */
    (void)sem_post(&may_leave);
    ck_assert_int_eq(pthread_join(thread, &block), 0);
    ck_assert_ptr_eq(block, address);
    test_wait_for_all();
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert(!is_mapped(address));
    OK(tarn_device_remove_tracker(world.device, be_slow, told));
}

/* The queue has room for no more. No end of memory is lost. */
TEST(told, what_does_not_wait_in_the_queue_is_lost_and_counted)
{
    enum { MORE = 3 };
    void *block;

    add(TARN_TRACKED_ALL);
    for (size_t i = 0; i < TN_TRACKER_QUEUE + MORE; i++)
        tn_trackers_note_failed(world.device, i, TARN_ERR_LIMIT);
    block = test_alloc(world.pool, 8 * MIB, world.stream);
    ck_assert_uint_eq(told_count, TN_TRACKER_QUEUE);
    ck_assert_uint_eq(told[0].lost_count, MORE + 1);
    ck_assert_int_eq(told[TN_TRACKER_QUEUE - 1].event, TARN_TRACKED_OUT_OF_MEMORY);
    ck_assert_uint_eq(told[TN_TRACKER_QUEUE - 1].bytes, TN_TRACKER_QUEUE - 1);
    told_count = 0;
    OK(tarn_free(block));
    test_synchronize(world.stream);
    OK(tarn_pool_trim(world.pool, NULL));
    expect_told(TARN_TRACKED_UNMAPPING, block, 8 * MIB);
    end_hearing();
}

/* On another device's behalf, as well: there its call is the last for long. */
static bool map_inside(tarn_device *device, size_t wanted_bytes, void *user)
{
    (void)device;
    (void)wanted_bytes;
    (void)user;
    OK(tarn_free(test_alloc(world.default_pool, 8 * MIB, world.stream)));
    ck_assert_uint_eq(told_count, 1);
    return false;
}

TEST(told, memory_that_a_callback_maps_is_told_when_its_call_ends)
{
    void *address = NULL;

    OK(tarn_device_add_free_callback(world.device, map_inside, NULL));
    OK(tarn_pool_set_limit(world.pool, 4 * MIB)); /* so memory of others is of no use */
    add(TARN_TRACKED_MAPPED);
    STATUS(TARN_ERR_LIMIT, tarn_pool_malloc(world.pool, 8 * MIB, 0, world.side, &address));
    ck_assert_uint_eq(told_count, 1);
    OK(tarn_device_remove_free_callback(world.device, map_inside, NULL));
    end_hearing();
}

/* The memory that the tracker knows. */
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
static void *known[TOLD_MAX];
static size_t known_count;
static bool others_come; /* trackers, all the time */

static void know(tarn_device *device, const tarn_tracked *what, void *unused)
{
    size_t at = 0;

    (void)device;
    (void)unused;
    ck_assert(is_mapped(what->address));
    (void)pthread_mutex_lock(&known_lock);
    while (at < known_count && known[at] != what->address)
        at += 1;
    if (what->event == TARN_TRACKED_MAPPED) {
        ck_assert_uint_eq(at, known_count); /* it was not known */
        ck_assert_uint_lt(known_count, TOLD_MAX);
        known[known_count] = what->address;
        known_count += 1;
    } else if (at < known_count || !others_come) { /* for whose sake ends are told again */
        ck_assert_uint_lt(at, known_count);
        known_count -= 1;
        known[at] = known[known_count];
    }
    for (size_t i = 0; i < known_count; i++)
        ck_assert(is_mapped(known[i]));
    (void)pthread_mutex_unlock(&known_lock);
}

/* A block, or NULL where memory is short. */
static void *try_alloc(tarn_pool *pool, size_t bytes, tn_cu_stream stream)
{
    void *block = NULL;
    const tarn_status status = tarn_pool_malloc(pool, bytes, 0, stream, &block);

    ck_assert(status == TARN_OK || status == TARN_ERR_LIMIT || status == TARN_ERR_DEVICE_MEMORY);
    return block;
}

static void nothing(tarn_device *device, const tarn_tracked *what, void *user)
{
    (void)device;
    (void)what;
    (void)user;
}

static void *come_and_go(void *number)
{
    const size_t own = *(const size_t *)number;

    for (size_t i = 0; i < 150; i++) {
        tarn_pool *pool = i % 3 == 0 ? test_pool("short") : world.pool;
        void *blocks[2] = {try_alloc(pool, (1 + (i + own) % 7) * 2 * MIB, world.stream),
                           try_alloc(pool, 4096, world.side)};

        for (size_t j = 0; j < 2; j++)
            OK(tarn_free(blocks[j]));
        if (i % 4 == own)
            OK(tarn_device_trim(world.device, own * 4 * MIB, NULL));
        if (pool != world.pool && i % 2 == 0)
            OK(tarn_pool_release(pool));
        else if (pool != world.pool)
            OK(tarn_pool_destroy(pool));
        if (others_come) {
            OK(tarn_device_add_tracker(world.device, nothing, number, TARN_TRACKED_UNMAPPING));
            OK(tarn_device_remove_tracker(world.device, nothing, number));
        }
    }
    return NULL;
}

/* With plenty of memory, with little, and where trackers come and go, too. */
TEST_LOOP(told, what_is_known_is_mapped_whatever_threads_do, 0, 3)
{
    static const size_t numbers[THREADS] = {0, 1, 2, 3};
    pthread_t threads[THREADS];

    others_come = _i == 2;
    if (_i > 0)
        OK(tarn_device_set_limit(world.device, 24 * MIB));
    known_count = 0;
    OK(tarn_device_add_tracker(world.device, know, NULL,
                               TARN_TRACKED_MAPPED | TARN_TRACKED_UNMAPPING));
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, come_and_go, (void *)&numbers[i]), 0);
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_uint_eq(atomic_load(&world.device->trackers.lost), 0);
    ck_assert_uint_eq(atomic_load(&world.device->trackers.due), 0);
    test_wait_for_all();
    OK(tarn_device_trim(world.device, 0, NULL));
    ck_assert_uint_eq(known_count, 0);
    OK(tarn_device_remove_tracker(world.device, know, NULL));
}
