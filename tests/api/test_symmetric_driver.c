// SPDX-License-Identifier: Apache-2.0
/* Groups and symmetric pools beside other threads, a driver that refuses, and a lost device. Both ranks of
 * the group are in this process. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/breaks.h"
#include "support/ranks.h"
#include "support/world.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static struct {
    tarn_group *groups[2]; /* one group, and its two ranks */
    tarn_symmetric *pools[2];
    tarn_group *group; /* of one rank */
    tarn_symmetric *alone;
    void *block; /* of the pool alone */
    char meeting[56];
} with;

static tarn_group_options options_of(uint32_t rank)
{
    tarn_group_options options = TARN_GROUP_OPTIONS_INIT;

    options.name = "here";
    options.rank = rank;
    options.world = 2;
    options.meeting = with.meeting;
    return options;
}

/* Rank 1, on a thread of its own. */
static void *be_the_other(void *nothing)
{
    tarn_group_options options = options_of(1);

    OK(tarn_group_create(world.device, &options, &with.groups[1]));
    OK(tarn_symmetric_create(with.groups[1], 8 * MIB, &with.pools[1]));
    OK(tarn_symmetric_reserve(with.pools[1], 2 * MIB, TEST_RANK_NS));
    return nothing;
}

static void open_all(void)
{
    tarn_group_options options;
    pthread_t other;

    test_world_open();
    (void)snprintf(with.meeting, sizeof with.meeting, "@tarn-here-%d", (int)getpid());
    ck_assert_int_eq(pthread_create(&other, NULL, be_the_other, NULL), 0);
    options = options_of(0);
    OK(tarn_group_create(world.device, &options, &with.groups[0]));
    OK(tarn_symmetric_create(with.groups[0], 8 * MIB, &with.pools[0]));
    OK(tarn_symmetric_reserve(with.pools[0], 2 * MIB, TEST_RANK_NS));
    ck_assert_int_eq(pthread_join(other, NULL), 0);
    options.world = 1;
    OK(tarn_group_create(world.device, &options, &with.group));
    OK(tarn_symmetric_create(with.group, 8 * MIB, &with.alone));
    OK(tarn_symmetric_reserve(with.alone, 2 * MIB, 0));
    OK(tarn_symmetric_malloc(with.alone, 4096, 0, &with.block));
}

static void leave_all(void)
{
    OK(tarn_symmetric_destroy(with.alone));
    OK(tarn_group_destroy(with.group));
    for (int i = 0; i < 2; i++) {
        OK(tarn_symmetric_destroy(with.pools[i]));
        OK(tarn_group_destroy(with.groups[i]));
    }
}

static void close_all(void)
{
    leave_all();
    test_world_close();
}

SUITE("symmetric memory and the driver")
GROUP(calls, open_all, close_all)
GROUP(lost, open_all)

/* -- Threads: rank 0 is in a collective on one thread -- */

static void *meet(void *nothing)
{
    OK(tarn_group_meet(with.groups[0], TARN_NO_TIMEOUT));
    return nothing;
}

static void *collect(void *nothing)
{
    OK(tarn_symmetric_collect(with.pools[0], TARN_NO_TIMEOUT));
    return nothing;
}

TEST(calls, another_thread_is_in_a_collective)
{
    int64_t deadline = test_deadline();
    tarn_symmetric *made = NULL;
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, meet, NULL), 0);
    do { /* the thread's call uses the group */
        STATUS(TARN_ERR_BUSY, tarn_group_destroy(with.groups[0]));
    } while (strstr(tarn_last_error(), "a call uses") == NULL && test_pause(deadline));
    (void)usleep(500000);
    STATUS(TARN_ERR_BUSY, tarn_symmetric_create(with.groups[0], MIB, &made));
    STATUS(TARN_ERR_BUSY, tarn_symmetric_reserve(with.pools[0], 4 * MIB, 0));
    STATUS(TARN_ERR_BUSY, tarn_symmetric_collect(with.pools[0], 0));
    STATUS(TARN_ERR_BUSY, tarn_group_meet(with.groups[0], 0));
    ck_assert_ptr_null(made);
    OK(tarn_group_meet(with.groups[1], TEST_RANK_NS));
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

TEST(calls, a_pool_in_a_collective_does_not_end)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, collect, NULL), 0);
    (void)usleep(1000000);
    STATUS(TARN_ERR_BUSY, tarn_symmetric_destroy(with.pools[0]));
    OK(tarn_symmetric_collect(with.pools[1], TEST_RANK_NS));
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

TEST(calls, a_stream_that_is_long_at_work)
{
    test_spin(world.stream, 300);
    STATUS(TARN_ERR_BUSY, tarn_group_wait(with.groups[0], world.stream, 1000));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "no signal"));
    OK(tarn_group_wait(with.groups[0], world.stream, TEST_RANK_NS));
    test_spin(world.stream, 300);
    STATUS(TARN_ERR_BUSY, tarn_group_abandon(with.groups[0], world.stream, 1000));
    OK(tarn_group_abandon(with.groups[0], world.stream, TEST_RANK_NS));
}

/* -- The driver -- */

TEST(calls, a_driver_that_refuses_words)
{
    static const int refusals[] = {TN_CUDA_ERROR_UNKNOWN, TN_CUDA_ERROR_OUT_OF_MEMORY};
    static const tarn_status statuses[] = {TARN_ERR_DRIVER, TARN_ERR_DEVICE_MEMORY};
    tarn_group *group = with.groups[0];

    for (int i = 0; i < 2; i++) {
        sim.plan_fault("cuStreamBatchMemOp", 1, 0, refusals[i]);
        STATUS(statuses[i], tarn_group_barrier(group, 0, world.stream));
        sim.plan_fault("cuStreamBatchMemOp", 1, 0, refusals[i]);
        STATUS(statuses[i], tarn_group_put_signal(group, 1, 0, world.stream));
        sim.plan_fault("cuStreamBatchMemOp", 1, 0, refusals[i]);
        STATUS(statuses[i], tarn_group_wait_signal(group, 1, 0, world.stream));
    }
    /* Nothing has changed: the next signal is still the first. */
    OK(tarn_group_put_signal(with.groups[1], 0, 0, world.side));
    OK(tarn_group_wait_signal(group, 1, 0, world.stream));
    OK(tarn_group_wait(group, world.stream, TEST_RANK_NS));
}

TEST(calls, a_driver_that_refuses_events)
{
    sim.plan_fault("cuEventCreate", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_group_wait(with.group, world.stream, 0));
    STATUS(TARN_ERR_DRIVER, tarn_group_abandon(with.group, world.stream, 0));
    STATUS(TARN_ERR_DRIVER, tarn_symmetric_free(with.alone, with.block, world.stream));
    sim.plan_fault("cuEventCreate", 0, 0, 0);
    OK(tarn_symmetric_free(with.alone, with.block, world.stream));
}

/* Each stream has a fence of its own. */
TEST(calls, frees_on_very_many_streams)
{
    enum { STREAMS = 1030 };
    static tn_cu_stream streams[STREAMS];
    static void *blocks[STREAMS];
    tarn_symmetric_info info = TARN_SYMMETRIC_INFO_INIT;

    for (int i = 0; i < STREAMS; i++) {
        streams[i] = test_stream();
        OK(tarn_symmetric_malloc(with.alone, 512, 0, &blocks[i]));
    }
    for (int i = 0; i < STREAMS; i++)
        OK(tarn_symmetric_free(with.alone, blocks[i], streams[i]));
    for (int i = 0; i < STREAMS; i++)
        test_synchronize(streams[i]);
    OK(tarn_symmetric_collect(with.alone, 0));
    OK(tarn_symmetric_describe(with.alone, &info));
    ck_assert_uint_eq(info.pending_count, 0);
    for (int i = 0; i < STREAMS; i++)
        test_destroy_stream(streams[i]);
}

/* What a fence does not say is no yes. */
TEST(calls, a_driver_that_does_not_answer)
{
    tarn_symmetric_info info = TARN_SYMMETRIC_INFO_INIT;

    sim.plan_fault("cuEventQuery", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_group_wait(with.groups[0], world.stream, TEST_RANK_NS));
    OK(tarn_group_wait(with.groups[0], world.stream, TEST_RANK_NS));
    OK(tarn_symmetric_free(with.alone, with.block, world.stream));
    test_synchronize(world.stream);
    sim.plan_fault("cuEventQuery", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    OK(tarn_symmetric_collect(with.alone, 0));
    OK(tarn_symmetric_describe(with.alone, &info));
    ck_assert_uint_eq(info.pending_count, 1);
    OK(tarn_symmetric_collect(with.alone, 0));
    OK(tarn_symmetric_describe(with.alone, &info));
    ck_assert_uint_eq(info.pending_count, 0);
}

TEST(calls, a_broken_capture)
{
    tn_cu_stream stream = test_blocking_stream();

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
    test_breaks[0].call(stream);
    STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_group_barrier(with.groups[0], 0, stream));
    STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_group_put_signal(with.groups[0], 1, 0, stream));
    STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_group_wait_signal(with.groups[0], 1, 0, stream));
    test_end_broken_capture(stream);
    test_destroy_stream(stream);
}

static bool gather_nothing(const void *own, size_t bytes, void *all, void *user)
{
    (void)own;
    (void)bytes;
    (void)all;
    *(int *)user += 1;
    return false;
}

TEST(calls, groups_and_pools_that_are_not_made)
{
    tarn_group_options options = options_of(0);
    tarn_symmetric *pool = NULL;
    tarn_group *group = NULL;
    int asked = 0;

    options.meeting = "/nowhere/at/all";
    STATUS(TARN_ERR_NOT_SUPPORTED, tarn_group_create(world.device, &options, &group));
    options.meeting = NULL;
    options.all_gather = gather_nothing;
    options.user = &asked;
    STATUS(TARN_ERR_WRONG_STATE, tarn_group_create(world.device, &options, &group));
    ck_assert_int_eq(asked, 1);
    sim.plan_fault("cuMemAddressReserve", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_ADDRESS_SPACE, tarn_symmetric_create(with.group, MIB, &pool));
    sim.plan_fault("cuMemAddressReserve", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_symmetric_create(with.group, MIB, &pool));
    ck_assert_ptr_null(group);
    ck_assert_ptr_null(pool);
}

TEST(calls, a_growth_that_the_driver_refuses)
{
    void *block = NULL;

    sim.plan_fault("cuMemCreate", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_symmetric_reserve(with.alone, 8 * MIB, 0));
    sim.plan_fault("cuMemMap", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_symmetric_reserve(with.alone, 8 * MIB, 0));
    sim.plan_fault("cuMemExportToShareableHandle", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_symmetric_reserve(with.alone, 8 * MIB, 0));
    STATUS(TARN_ERR_LIMIT, tarn_symmetric_malloc(with.alone, 4 * MIB, 0, &block));
    OK(tarn_symmetric_reserve(with.alone, 8 * MIB, 0));
    OK(tarn_symmetric_malloc(with.alone, 4 * MIB, 0, &block));
}

/* Rank 0 fails once rank 1 has come, which hears of it. */
static void *come_and_hear(void *status)
{
    tarn_group_options options = options_of(1);
    tarn_group *group = NULL;

    STATUS(*(tarn_status *)status, tarn_group_create(world.device, &options, &group));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "rank 0 of the group 'here' says: "));
    return NULL;
}

TEST_LOOP(calls, a_driver_that_refuses_rank_0_a_pad, 0, 3)
{
    static const struct {
        const char *function;
        int result;
        tarn_status statuses[2]; /* of rank 0, and of rank 1 */
    } faults[] = {
        {"cuMemCreate",
         TN_CUDA_ERROR_OUT_OF_MEMORY,
         {TARN_ERR_DEVICE_MEMORY, TARN_ERR_DEVICE_MEMORY}},
        {"cuMemAddressReserve",
         TN_CUDA_ERROR_OUT_OF_MEMORY,
         {TARN_ERR_ADDRESS_SPACE, TARN_ERR_PEER_LOST}},
        {"cuMemMap", TN_CUDA_ERROR_UNKNOWN, {TARN_ERR_DRIVER, TARN_ERR_PEER_LOST}},
    };
    tarn_group_options options = options_of(0);
    tarn_status expected = faults[_i].statuses[1];
    tarn_group *group = NULL;
    pthread_t other;

    sim.plan_fault(faults[_i].function, 1, 0, faults[_i].result);
    ck_assert_int_eq(pthread_create(&other, NULL, come_and_hear, &expected), 0);
    STATUS(faults[_i].statuses[0], tarn_group_create(world.device, &options, &group));
    ck_assert_int_eq(pthread_join(other, NULL), 0);
}

static void set_descriptors(rlim_t count)
{
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = count != 0 ? count : limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST(calls, a_process_without_descriptors)
{
    tarn_group_options options = options_of(0);
    tarn_group *group = NULL;
    tarn_status created;
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);

    (void)close(next);
    set_descriptors((rlim_t)next);
    created = tarn_group_create(world.device, &options, &group);
    set_descriptors(0); /* the suite's own notes need one */
    ck_assert_int_eq(created, TARN_ERR_LIMIT);
    test_note_status("tarn_group_create(", created, tarn_last_error());
}

static void refuse_all(tarn_status status)
{
    tarn_group_options options = options_of(0);
    tarn_symmetric *pool = NULL;
    tarn_group *group = NULL;

    STATUS(status, tarn_group_create(world.device, &options, &group));
    STATUS(status, tarn_group_barrier(with.groups[0], 0, world.stream));
    STATUS(status, tarn_group_put_signal(with.groups[0], 1, 0, world.stream));
    STATUS(status, tarn_group_wait_signal(with.groups[0], 1, 0, world.stream));
    STATUS(status, tarn_group_wait(with.groups[0], world.stream, 0));
    STATUS(status, tarn_group_abandon(with.groups[0], world.stream, 0));
    STATUS(status, tarn_symmetric_create(with.groups[0], MIB, &pool));
    STATUS(status, tarn_symmetric_reserve(with.pools[0], 4 * MIB, 0));
    OK(tarn_symmetric_free(with.alone, with.block, world.stream));
    OK(tarn_symmetric_collect(with.alone, 0));
    leave_all();
}

TEST(lost, a_lost_device_lets_go)
{
    void *address = NULL;

    test_fill(world.stream, (char *)with.block + 64 * GIB, 1, 1);
    ck_assert_int_eq(test_stream_result(world.stream), TN_CUDA_ERROR_ILLEGAL_ADDRESS);
    STATUS(TARN_ERR_DEVICE_LOST, tarn_malloc(world.device, 64 * MIB, world.stream, &address));
    refuse_all(TARN_ERR_DEVICE_LOST);
}

/* The wait itself is the first to hear of it. */
TEST(lost, a_wait_tells_of_a_lost_device)
{
    test_spin(world.stream, 300);
    test_fill(world.stream, (char *)with.block + 64 * GIB, 1, 1);
    STATUS(TARN_ERR_DEVICE_LOST, tarn_group_wait(with.groups[0], world.stream, TEST_RANK_NS));
    refuse_all(TARN_ERR_DEVICE_LOST);
}

TEST(lost, a_poisoned_device_lets_go)
{
    OK(tarn_free(test_alloc(world.pool, MIB, world.stream)));
    sim.plan_fault("cuMemUnmap", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    TARN_IGNORE(tarn_pool_trim(world.pool, NULL));
    refuse_all(TARN_ERR_POISONED);
}
