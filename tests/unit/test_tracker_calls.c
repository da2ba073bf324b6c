// SPDX-License-Identifier: Apache-2.0
/* What trackers may call, and what other threads do while trackers are called. */
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#include "pools/end.h"
#include "pools/trackers.h"
#include "unit/unit.h"

SUITE("trackers' calls")

enum { TOLD_MAX = 4096, WAITS = 5000 };

/* What was told, and the call that the tracker makes at each event; NULL: none. */
static tarn_tracked told[TOLD_MAX];
static atomic_size_t told_count;
static void (*act)(void);

static void hear(tarn_device *device, const tarn_tracked *what, void *unused)
{
    const size_t at = atomic_fetch_add(&told_count, 1);

    (void)device;
    (void)unused;
    ck_assert(tn_lock_none_held());
    ck_assert_uint_lt(at, TOLD_MAX);
    told[at] = *what;
    if (what->address != NULL)
        ck_assert_ptr_nonnull(tn_address_table_chunk((uint64_t)(uintptr_t)what->address));
    if (act != NULL)
        act();
}

static void add(unsigned events, void (*call)(void))
{
    told_count = 0;
    act = call;
    OK(tarn_device_add_tracker(world.device, hear, NULL, events));
}

static void end_hearing(void)
{
    OK(tarn_device_remove_tracker(world.device, hear, NULL));
}

/* A pool with 8 MiB of free memory, proven idle. */
static tarn_pool *idle_pool(void)
{
    tarn_pool *pool = test_pool("idle");

    OK(tarn_free(test_alloc(pool, 8 * MIB, world.stream)));
    test_synchronize(world.stream);
    OK(tn_gpu_wait_idle(&world.device->gpu));
    return pool;
}

static void expect_nothing_noticed(void)
{
    ck_assert_uint_eq(atomic_load(&world.device->trackers.due), 0);
    ck_assert_uint_eq(atomic_load(&world.device->trackers.noticed), 0);
    ck_assert_uint_eq(atomic_load(&world.device->trackers.busy), 0);
}

GROUP(calls, test_world_open, .end = test_world_close)

static tarn_pool *other;

static void call_all(void)
{
    tn_cu_stream stream = test_stream();
    tarn_pool *made = test_pool("made");
    size_t freed = 0;
    void *block = test_alloc(made, 4 * MIB, stream);

    OK(tarn_record_stream(block, world.side));
    OK(tarn_free_on(block, stream));
    OK(tarn_pool_reserve(world.default_pool, 8 * MIB, stream));
    OK(tarn_stream_retire(world.device, stream));
    test_destroy_stream(stream);
    OK(tarn_device_collect(world.device));
    OK(tarn_pool_validate(world.pool));
    OK(tarn_device_trim(world.device, 0, &freed));
    OK(tarn_pool_release(made));
    STATUS(TARN_ERR_BUSY, tarn_pool_destroy(world.pool));
    STATUS(TARN_ERR_BUSY, tarn_device_close(world.device));
    end_hearing();
    act = NULL;
    OK(tarn_device_add_tracker(world.device, hear, NULL, TARN_TRACKED_ALL));
}

TEST(calls, a_tracker_may_make_any_call)
{
    void *block;

    add(TARN_TRACKED_ALL, call_all);
    block = test_alloc(world.pool, 8 * MIB, world.stream);
    OK(tarn_free(block));
    test_wait_for_all();
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_ptr_null(tn_address_table_chunk((uint64_t)(uintptr_t)block));
    OK(tarn_device_trim(world.device, 0, NULL));
    ck_assert_uint_eq(test_device_stats().mapped_bytes, 0);
    expect_nothing_noticed();
    end_hearing();
}

static void register_anew(void)
{
    end_hearing();
    OK(tarn_device_add_tracker(world.device, hear, NULL, TARN_TRACKED_ALL));
}

TEST(calls, a_tracker_may_register_itself_anew)
{
    add(TARN_TRACKED_ALL, register_anew);
    OK(tarn_free(test_alloc(world.pool, 8 * MIB, world.stream)));
    ck_assert_uint_eq(told_count, 1);
    end_hearing();
}

static void trim_other(void)
{
    size_t freed = 1;

    act = NULL;
    OK(tarn_pool_trim(other, &freed));
    ck_assert_uint_eq(freed, 0);
}

TEST(calls, memory_that_trackers_know_does_not_go_inside_of_one)
{
    other = idle_pool();
    add(TARN_TRACKED_ALL, trim_other);
    OK(tarn_free(test_alloc(world.pool, 8 * MIB, world.stream)));
    ck_assert_uint_eq(told_count, 1);
    OK(tarn_pool_trim(other, NULL));
    ck_assert_uint_eq(told_count, 2);
    ck_assert_int_eq(told[1].event, TARN_TRACKED_UNMAPPING);
    ck_assert_uint_eq(told[1].lost_count, 0);
    end_hearing();
    OK(tarn_pool_destroy(other));
}

static void destroy_other(void)
{
    act = NULL;
    OK(tarn_pool_destroy(other));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_pool_validate(other));
    ck_assert_ptr_nonnull(tn_address_table_chunk((uint64_t)(uintptr_t)told[0].address));
}

/* The trim of the device tells of the pool's memory while the pool ends. */
TEST(calls, a_tracker_may_destroy_the_pool_whose_memory_goes)
{
    other = idle_pool();
    add(TARN_TRACKED_UNMAPPING, destroy_other);
    OK(tarn_device_trim(world.device, 0, NULL));
    ck_assert_uint_eq(told_count, 2); /* it stays at first: nobody finds the pool any more */
    ck_assert_int_eq(told[1].event, TARN_TRACKED_UNMAPPING);
    ck_assert_ptr_eq(told[1].address, told[0].address);
    ck_assert_ptr_null(tn_address_table_chunk((uint64_t)(uintptr_t)told[0].address));
    ck_assert_uint_eq(test_device_stats().mapped_bytes, 0);
    expect_nothing_noticed();
    end_hearing();
}

/* Trims of several pools at once. */
TEST(calls, a_trim_of_a_device_tells_of_no_more_than_goes)
{
    tarn_pool *pools[4];
    size_t freed = 0;

    for (size_t i = 0; i < 4; i++)
        pools[i] = idle_pool();
    add(TARN_TRACKED_ALL, NULL);
    OK(tarn_device_trim(world.device, 16 * MIB, &freed));
    ck_assert_uint_eq(freed, 16 * MIB);
    ck_assert_uint_eq(told_count, 2);
    end_hearing();
    for (size_t i = 0; i < 4; i++)
        OK(tarn_pool_destroy(pools[i]));
}

static uint64_t unmap_free(tarn_pool *pool, struct tn_farewells *farewells)
{
    bool unproven = false;
    uint64_t bytes;

    tn_pool_lock(pool);
    bytes = tn_pool_unmap_free(pool, UINT64_MAX, TN_UNMAPPED_TO_DRIVER, &unproven, farewells);
    tn_pool_unlock(pool);
    return bytes;
}

/* Another thread has unmapped what was told to go. Its record is another chunk's by now, which is
 * told to go, too. */
TEST(calls, what_was_told_to_go_may_have_gone_by_anyone)
{
    static struct tn_farewells ours, others, again;
    const struct tn_chunk *chunk;
    tarn_pool *next;
    void *kept; /* with the addresses beside it */

    other = test_pool("other");
    kept = test_alloc(other, 8 * MIB, world.stream);
    OK(tarn_free(test_alloc(other, 8 * MIB, world.stream)));
    test_synchronize(world.stream);
    OK(tn_gpu_wait_idle(&world.device->gpu));
    add(TARN_TRACKED_ALL, NULL);
    ck_assert_uint_eq(unmap_free(other, &ours), 0);
    ck_assert(tn_farewells_tell(world.device, &ours));
    chunk = ours.given[0].chunk;
    ck_assert_uint_eq(unmap_free(other, &others), 8 * MIB);
    next = idle_pool();
    ck_assert_uint_eq(unmap_free(next, &again), 0);
    ck_assert_ptr_eq(again.next[0], chunk);
    ck_assert_uint_ne(tn_chunk_address(chunk), ours.given[0].address);
    ck_assert(tn_farewells_tell(world.device, &again));
    told_count = 0;
    tn_farewells_end(world.device, &ours);
    ck_assert_uint_eq(told_count, 0);
    ck_assert_int_eq(chunk->notice & TN_NOTICE_BITS, TN_NOTICE_GIVEN);
    tn_farewells_end(world.device, &again);
    ck_assert_uint_eq(told_count, 1);
    ck_assert_int_eq(told[0].event, TARN_TRACKED_MAPPED);
    end_hearing();
    OK(tarn_free(kept));
    OK(tarn_pool_destroy(other));
    OK(tarn_pool_destroy(next));
    expect_nothing_noticed();
}

static void hear_more(tarn_device *device, const tarn_tracked *what, void *count)
{
    (void)device;
    ck_assert_int_eq(what->event, TARN_TRACKED_UNMAPPING);
    *(size_t *)count += 1;
}

/* Until then a snapshot shows the memory. */
TEST(calls, a_tracker_that_comes_behind_a_farewell_hears_of_it)
{
    static struct tn_farewells farewells;
    size_t more = 0;

    other = idle_pool();
    add(TARN_TRACKED_UNMAPPING, NULL);
    ck_assert_uint_eq(unmap_free(other, &farewells), 0);
    ck_assert(tn_farewells_tell(world.device, &farewells));
    OK(tarn_device_add_tracker(world.device, hear_more, &more, TARN_TRACKED_UNMAPPING));
    ck_assert_uint_eq(unmap_free(other, &farewells), 0);
    ck_assert(tn_farewells_tell(world.device, &farewells));
    ck_assert_uint_eq(more, 1);
    ck_assert_uint_eq(told_count, 2); /* the other hears of the end twice */
    ck_assert_uint_eq(unmap_free(other, &farewells), 8 * MIB);
    tn_farewells_end(world.device, &farewells);
    OK(tarn_device_remove_tracker(world.device, hear_more, &more));
    end_hearing();
    OK(tarn_pool_destroy(other));
    expect_nothing_noticed();
}

static void add_more(void)
{
    static size_t more;

    act = NULL;
    OK(tarn_device_add_tracker(world.device, hear_more, &more, TARN_TRACKED_UNMAPPING));
}

TEST(calls, a_tracker_that_comes_during_a_farewell_hears_of_it)
{
    other = idle_pool();
    add(TARN_TRACKED_UNMAPPING, add_more);
    OK(tarn_pool_trim(other, NULL));
    ck_assert_uint_eq(told_count, 2);
    ck_assert_uint_eq(test_device_stats().mapped_bytes, 0);
    end_hearing();
    OK(tarn_pool_destroy(other));
}

static sem_t is_inside;
static sem_t may_leave;

static void wait_inside(void)
{
    act = NULL;
    (void)sem_post(&is_inside);
    while (sem_wait(&may_leave) != 0)
        ;
}

static void *trim_all(void *unused)
{
    OK(tarn_device_trim(world.device, 0, NULL));
    return unused;
}

/* Another thread is telling of the memory that it trims. */
static void begin_slow_trim(pthread_t *thread)
{
    ck_assert_int_eq(sem_init(&is_inside, 0, 0), 0);
    ck_assert_int_eq(sem_init(&may_leave, 0, 0), 0);
    add(TARN_TRACKED_UNMAPPING, wait_inside);
    ck_assert_int_eq(pthread_create(thread, NULL, trim_all, NULL), 0);
    while (sem_wait(&is_inside) != 0)
        ;
}

static void end_slow_trim(pthread_t thread)
{
    (void)sem_post(&may_leave);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

TEST(calls, a_pool_ends_at_once_and_its_memory_behind_the_tracker)
{
    pthread_t thread;

    other = idle_pool();
    begin_slow_trim(&thread);
    OK(tarn_pool_destroy(other)); /* waits for nobody */
    ck_assert_ptr_nonnull(tn_address_table_chunk((uint64_t)(uintptr_t)told[0].address));
    OK(tarn_free(test_alloc(world.pool, 8 * MIB, world.stream))); /* nor do others */
    end_slow_trim(thread);
    ck_assert_ptr_null(tn_address_table_chunk((uint64_t)(uintptr_t)told[0].address));
    expect_nothing_noticed();
    end_hearing();
}

static void *let_leave_later(void *unused)
{
    const struct timespec while_the_ladder_waits = {0, 100000000};

    (void)nanosleep(&while_the_ladder_waits, NULL);
    (void)sem_post(&may_leave);
    return unused;
}

/* All but 2 GiB of the device is being told of. */
TEST(calls, an_allocation_waits_for_memory_that_trackers_are_told_of)
{
    pthread_t trimmer;
    pthread_t helper;
    void *block;

    other = test_pool("large");
    OK(tarn_free(test_alloc(other, 6144 * MIB, world.stream)));
    test_wait_for_all();
    begin_slow_trim(&trimmer);
    ck_assert_int_eq(pthread_create(&helper, NULL, let_leave_later, NULL), 0);
    block = test_alloc(world.pool, 4096 * MIB, world.stream);
    ck_assert_int_eq(pthread_join(helper, NULL), 0);
    ck_assert_int_eq(pthread_join(trimmer, NULL), 0);
    OK(tarn_free(block));
    end_hearing();
    OK(tarn_pool_destroy(other));
}

/* The tracker may be waiting for this very thread. */
TEST(calls, an_allocation_does_not_wait_for_a_tracker_for_ever)
{
    pthread_t trimmer;
    void *block = NULL;

    other = test_pool("large");
    OK(tarn_free(test_alloc(other, 6144 * MIB, world.stream)));
    test_wait_for_all();
    begin_slow_trim(&trimmer);
    STATUS(TARN_ERR_DEVICE_MEMORY,
           tarn_pool_malloc(world.pool, 7168 * MIB, 0, world.stream, &block));
    end_slow_trim(trimmer);
    OK(tarn_free(test_alloc(world.pool, 7168 * MIB, world.stream)));
    end_hearing();
    OK(tarn_pool_destroy(other));
}

static atomic_bool is_removed;

static void *remove_it(void *unused)
{
    end_hearing();
    atomic_store(&is_removed, true);
    return unused;
}

TEST(calls, a_removal_waits_for_the_tracker)
{
    pthread_t trimmer;
    pthread_t remover;

    other = idle_pool();
    begin_slow_trim(&trimmer);
    ck_assert_int_eq(pthread_create(&remover, NULL, remove_it, NULL), 0);
    while (tn_trackers_want(world.device, TARN_TRACKED_ALL)) /* it is off the list */
        (void)sched_yield();
    for (int i = 0; i < WAITS; i++)
        (void)sched_yield();
    ck_assert(!atomic_load(&is_removed));
    end_slow_trim(trimmer);
    ck_assert_int_eq(pthread_join(remover, NULL), 0);
    ck_assert(atomic_load(&is_removed));
    OK(tarn_pool_destroy(other));
    expect_nothing_noticed();
}

static void fail_inside(void)
{
    void *block = NULL;

    act = NULL;
    STATUS(TARN_ERR_DEVICE_MEMORY,
           tarn_pool_malloc(world.default_pool, 8191 * MIB, 0, world.side, &block));
}

/* It would wait for itself. */
TEST(calls, a_tracker_may_run_out_of_memory_itself)
{
    other = idle_pool();
    add(TARN_TRACKED_ALL, fail_inside);
    OK(tarn_device_trim(world.device, 0, NULL));
    ck_assert_uint_eq(told_count, 1);
    ck_assert_uint_eq(atomic_load(&world.device->trackers.lost), 1);
    end_hearing();
    OK(tarn_pool_destroy(other));
}

TEST(calls, the_largest_allocation_is_told_where_memory_does_not_move)
{
    void *blocks[6];
    size_t bytes = 0;
    void *block = NULL;

    add(TARN_TRACKED_MAPPED, NULL);
    for (size_t i = 0; i < 6; i++)
        blocks[i] = test_alloc(world.pool, 1024 * MIB, world.stream);
    for (size_t i = 0; i < 6; i += 2)
        OK(tarn_free(blocks[i]));
    OK(tarn_device_largest(world.device, world.pool, world.stream, &bytes));
    ck_assert_uint_le(bytes, 2048 * MIB); /* the driver's: memory of the stream's own would move */
    test_wait_for_all();
    OK(tn_gpu_wait_idle(&world.device->gpu));
    OK(tarn_device_largest(world.device, world.pool, world.stream, &bytes));
    ck_assert_uint_gt(bytes, 5000 * MIB);
    STATUS(TARN_ERR_DEVICE_MEMORY,
           tarn_pool_malloc(world.pool, bytes + 6 * MIB, 0, world.stream, &block));
    OK(tarn_pool_malloc(world.pool, bytes, 0, world.stream, &block));
    OK(tarn_free(block));
    for (size_t i = 1; i < 6; i += 2)
        OK(tarn_free(blocks[i]));
    end_hearing();
}

/* The driver does not relax the thread. */
TEST(calls, a_tracker_hears_of_an_end_that_the_driver_disturbs)
{
    other = idle_pool();
    add(TARN_TRACKED_UNMAPPING, NULL);
    sim.plan_fault("cuThreadExchangeStreamCaptureMode", 1, true, TN_CUDA_ERROR_NOT_PERMITTED);
    OK(tarn_pool_destroy(other));
    (void)sim.clear_fault(NULL);
    ck_assert_uint_eq(told_count, 1);
    test_world_abandon();
}

static tarn_device *second;

static void close_second(void)
{
    act = NULL;
    REFUSE(TARN_ERR_BUSY, "a tracker closes", tarn_device_close(second));
}

static void open_two_devices(void)
{
    (void)setenv("TARN_SIM_DEVICES", "2", 1);
    test_world_open();
}

GROUP(devices, open_two_devices, .end = test_world_close)

/* Trackers of that device could not be called meanwhile. */
TEST(devices, a_tracker_closes_no_device)
{
    tarn_pool *pool;

    OK(tarn_device_open(1, NULL, &second));
    OK(tarn_device_default_pool(second, &pool));
    OK(tarn_pool_reserve(pool, 8 * MIB, NULL));
    OK(tarn_device_add_tracker(second, hear, NULL, TARN_TRACKED_UNMAPPING));
    add(TARN_TRACKED_ALL, close_second);
    OK(tarn_free(test_alloc(world.pool, 8 * MIB, world.stream)));
    ck_assert_uint_eq(told_count, 1);
    OK(tarn_device_close(second));
    ck_assert_uint_ge(told_count, 2);
    ck_assert_int_eq(told[1].event, TARN_TRACKED_UNMAPPING);
    end_hearing();
}
