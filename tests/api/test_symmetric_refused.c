// SPDX-License-Identifier: Apache-2.0
/* Groups and symmetric pools that are misused, and ranks that disagree, come late, hang or die. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/ranks.h"
#include "support/world.h"

#define MIB ((size_t)1 << 20)
#define SHORT_NS UINT64_C(200000000)

static struct {
    tarn_group *group; /* of this process alone, as the pool */
    tarn_symmetric *pool;
} with;

static tarn_group_options alone(void)
{
    tarn_group_options options = TARN_GROUP_OPTIONS_INIT;

    options.name = "alone";
    options.world = 1;
    return options;
}

static void open_all(void)
{
    tarn_group_options options = alone();

    test_world_open();
    OK(tarn_group_create(world.device, &options, &with.group));
    OK(tarn_symmetric_create(with.group, 8 * MIB, &with.pool));
    OK(tarn_symmetric_reserve(with.pool, 4 * MIB, 0));
}

static void close_all(void)
{
    OK(tarn_symmetric_destroy(with.pool));
    OK(tarn_group_destroy(with.group));
    test_world_close();
}

SUITE("refusals of symmetric memory")
GROUP(one, open_all, close_all)
GROUP(ranks, NULL, NULL, .timeout = 300)

#define BAD(call) STATUS(TARN_ERR_INVALID_ARGUMENT, call)
#define GONE(call) STATUS(TARN_ERR_INVALID_HANDLE, call)

TEST(one, handles_that_are_none)
{
    tarn_group_options options = alone();
    tarn_member_info member = TARN_MEMBER_INFO_INIT;
    tarn_symmetric_info info = TARN_SYMMETRIC_INFO_INIT;
    tarn_group *group = NULL;
    tarn_symmetric *pool = NULL;
    void *at = NULL;

    GONE(tarn_group_create(NULL, &options, &group));
    GONE(tarn_group_destroy((tarn_group *)world.device));
    GONE(tarn_group_member(NULL, 0, &member));
    GONE(tarn_group_meet(NULL, 0));
    GONE(tarn_group_barrier(NULL, 0, world.stream));
    GONE(tarn_group_put_signal(NULL, 0, 0, world.stream));
    GONE(tarn_group_wait_signal(NULL, 0, 0, world.stream));
    GONE(tarn_group_wait(NULL, world.stream, 0));
    GONE(tarn_group_abandon(NULL, world.stream, 0));
    GONE(tarn_symmetric_create(NULL, 1, &pool));
    GONE(tarn_symmetric_destroy((tarn_symmetric *)with.group));
    GONE(tarn_symmetric_reserve(NULL, 1, 0));
    GONE(tarn_symmetric_malloc(NULL, 1, 0, &at));
    GONE(tarn_symmetric_free(NULL, &at, world.stream));
    GONE(tarn_symmetric_collect(NULL, 0));
    GONE(tarn_symmetric_at(NULL, &at, 0, &at));
    GONE(tarn_symmetric_buffers(NULL, &at, &at));
    GONE(tarn_symmetric_describe(NULL, &info));
    OK(tarn_group_destroy(NULL));
    OK(tarn_symmetric_destroy(NULL));
}

TEST(one, arguments_out_of_range)
{
    tarn_group_options options = alone();
    tarn_member_info member = TARN_MEMBER_INFO_INIT;
    tarn_symmetric *pool = NULL;
    tarn_group *group = NULL;
    void *block = NULL;
    void *at = NULL;
    char long_name[64];

    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    BAD(tarn_group_create(world.device, NULL, &group));
    BAD(tarn_group_create(world.device, &options, NULL));
    options.name = "";
    BAD(tarn_group_create(world.device, &options, &group));
    options.name = long_name;
    BAD(tarn_group_create(world.device, &options, &group));
    options = alone();
    options.rank = 1;
    BAD(tarn_group_create(world.device, &options, &group));
    options.world = 65;
    BAD(tarn_group_create(world.device, &options, &group));
    options.world = 2; /* and no way to meet */
    BAD(tarn_group_create(world.device, &options, &group));
    options.meeting = long_name;
    BAD(tarn_group_create(world.device, &options, &group));
    options = alone();
    options.channel_count = 33;
    BAD(tarn_group_create(world.device, &options, &group));
    ck_assert_ptr_null(group);
    BAD(tarn_group_member(with.group, 0, NULL));
    BAD(tarn_group_member(with.group, 1, &member));
    BAD(tarn_group_barrier(with.group, 4, world.stream));
    BAD(tarn_group_put_signal(with.group, 0, 0, world.stream)); /* itself */
    BAD(tarn_group_wait_signal(with.group, 1, 0, world.stream));
    BAD(tarn_symmetric_create(with.group, MIB, NULL));
    BAD(tarn_symmetric_create(with.group, 0, &pool));
    BAD(tarn_symmetric_create(with.group, (size_t)1 << 50, &pool));
    BAD(tarn_symmetric_malloc(with.pool, 1, 0, NULL));
    BAD(tarn_symmetric_describe(with.pool, NULL));
    OK(tarn_symmetric_malloc(with.pool, 1, 0, &block));
    BAD(tarn_symmetric_at(with.pool, block, 1, &at));
    BAD(tarn_symmetric_at(with.pool, block, 0, NULL));
    BAD(tarn_symmetric_buffers(with.pool, block, NULL));
    STATUS(TARN_ERR_NOT_OURS, tarn_symmetric_at(with.pool, &at, 0, &at));
    STATUS(TARN_ERR_NOT_OURS, tarn_symmetric_buffers(with.pool, &at, &at));
    STATUS(TARN_ERR_NOT_OURS,
           tarn_symmetric_at(with.pool, (char *)block + 4 * MIB, 0, &at)); /* no memory yet */
    ck_assert_ptr_null(at);
    OK(tarn_symmetric_buffers(with.pool, (char *)block + 7, &at));
    ck_assert_ptr_eq(at, (char *)block + 7);
}

TEST(one, what_is_used_does_not_end)
{
    tarn_device *again = world.device;

    STATUS(TARN_ERR_BUSY, tarn_group_destroy(with.group));
    OK(tarn_symmetric_destroy(with.pool));
    OK(tarn_pool_destroy(world.pool));
    world.pool = NULL;
    STATUS(TARN_ERR_BUSY, tarn_device_close(again));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "group"));
    OK(tarn_symmetric_create(with.group, 8 * MIB, &with.pool));
}

TEST(one, frees_that_are_wrong)
{
    void *block = NULL;
    void *other = NULL;

    OK(tarn_symmetric_malloc(with.pool, 5000, 0, &block));
    OK(tarn_symmetric_malloc(with.pool, 5000, 0, &other));
    STATUS(TARN_ERR_INNER_ADDRESS,
           tarn_symmetric_free(with.pool, (char *)block + 512, world.stream));
    STATUS(TARN_ERR_NOT_OURS, tarn_symmetric_free(with.pool, &block, world.stream));
    OK(tarn_symmetric_free(with.pool, block, world.stream));
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_symmetric_free(with.pool, block, world.stream));
    test_synchronize(world.stream);
    OK(tarn_symmetric_collect(with.pool, 0));
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_symmetric_free(with.pool, block, world.stream));
    OK(tarn_symmetric_free(with.pool, NULL, world.stream));
    OK(tarn_symmetric_malloc(with.pool, 0, 0, &block));
    ck_assert_ptr_null(block);
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    STATUS(TARN_ERR_WRONG_STATE, tarn_symmetric_free(with.pool, other, world.stream));
    STATUS(TARN_ERR_WRONG_STATE, tarn_group_wait(with.group, world.stream, 0));
    STATUS(TARN_ERR_WRONG_STATE, tarn_group_abandon(with.group, world.stream, 0));
    test_destroy_graph(test_end_capture(world.stream));
    OK(tarn_group_meet(with.group, 0)); /* it is not given up */
}

TEST(one, persistent_blocks_come_back_at_their_address)
{
    void *block = NULL;
    void *again = NULL;
    void *other = NULL;

    OK(tarn_symmetric_malloc(with.pool, 5000, 7, &block));
    STATUS(TARN_ERR_WRONG_STATE, tarn_symmetric_malloc(with.pool, 5000, 7, &again)); /* live */
    OK(tarn_symmetric_malloc(with.pool, 5000, 8, &other));
    OK(tarn_symmetric_free(with.pool, block, world.stream));
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_symmetric_free(with.pool, block, world.stream));
    BAD(tarn_symmetric_malloc(with.pool, 5001, 7, &again));
    test_synchronize(world.stream);
    OK(tarn_symmetric_collect(with.pool, 0));
    OK(tarn_symmetric_malloc(with.pool, 5000, 0, &again));
    ck_assert_ptr_ne(again, block); /* it is the id's alone */
    OK(tarn_symmetric_malloc(with.pool, 5000, 7, &again));
    ck_assert_ptr_eq(again, block);
}

TEST(one, sizes_have_ends)
{
    void *block = NULL;

    STATUS(TARN_ERR_LIMIT, tarn_symmetric_malloc(with.pool, 5 * MIB, 0, &block));
    STATUS(TARN_ERR_LIMIT, tarn_symmetric_malloc(with.pool, SIZE_MAX, 0, &block));
    STATUS(TARN_ERR_ADDRESS_SPACE, tarn_symmetric_reserve(with.pool, 9 * MIB, 0));
    OK(tarn_symmetric_reserve(with.pool, 1, 0)); /* it is there */
    OK(tarn_device_set_limit(world.device, 5 * MIB));
    STATUS(TARN_ERR_LIMIT, tarn_symmetric_reserve(with.pool, 8 * MIB, 0));
    OK(tarn_device_set_limit(world.device, 0));
    STATUS(TARN_ERR_LIMIT, tarn_symmetric_malloc(with.pool, 5 * MIB, 0, &block));
    OK(tarn_symmetric_reserve(with.pool, 8 * MIB, 0));
    OK(tarn_symmetric_malloc(with.pool, 8 * MIB, 0, &block)); /* one range, over two chunks */
}

/* -- Ranks -- */

static void says(struct test_rank *rank, const char *text)
{
    MUST(rank, strstr(tarn_last_error(), text) != NULL);
}

static void expect_refusal(struct test_rank *rank, const tarn_group_options *options,
                           const char *text)
{
    MUST_BE(rank, TARN_ERR_INVALID_ARGUMENT,
            tarn_group_create(rank->device, options, &rank->group));
    says(rank, text);
    MUST(rank, rank->group == NULL);
    MUST_BE(rank, TARN_OK, tarn_device_close(rank->device));
}

static void disagree_in_name(struct test_rank *rank)
{
    tarn_group_options options = test_rank_options(rank);

    if (rank->number == 2)
        options.name = "other";
    expect_refusal(rank, &options, "as 'other'");
}

static void disagree_in_world(struct test_rank *rank)
{
    tarn_group_options options = test_rank_options(rank);

    if (rank->number == 1)
        options.world = 5;
    expect_refusal(rank, &options, "has 3 ranks for rank 0, and 5 for rank 1");
}

static void disagree_in_channels(struct test_rank *rank)
{
    tarn_group_options options = test_rank_options(rank);

    options.channel_count = 1 + rank->number / 2;
    expect_refusal(rank, &options, "has 1 channels for rank 0, and 2 for rank 2");
}

static void come_twice(struct test_rank *rank)
{
    tarn_group_options options = test_rank_options(rank);

    options.rank = rank->number == 2 ? 1 : rank->number;
    expect_refusal(rank, &options, "rank 1 of the group 'test' came twice");
}

TEST_LOOP(ranks, what_they_disagree_in_is_named, 0, 4)
{
    static const test_rank_body bodies[] = {disagree_in_name, disagree_in_world,
                                            disagree_in_channels, come_twice};

    test_ranks_run(3, 0, bodies[_i]);
}

/* Rank 1 never comes. */
static void stay_away(struct test_rank *rank)
{
    tarn_group_options options = test_rank_options(rank);

    options.timeout_ns = SHORT_NS;
    if (rank->number == 1)
        return;
    MUST_BE(rank, TARN_ERR_BUSY, tarn_group_create(rank->device, &options, &rank->group));
    says(rank, rank->number == 0 ? "1" : "rank 0");
}

TEST(ranks, those_that_do_not_come_are_named)
{
    test_ranks_run(2, 0, stay_away);
}

static void wait_for_nobody(struct test_rank *rank)
{
    tarn_group_options options = test_rank_options(rank);

    options.timeout_ns = SHORT_NS;
    if (rank->number == 0)
        return;
    MUST_BE(rank, TARN_ERR_BUSY, tarn_group_create(rank->device, &options, &rank->group));
    says(rank, "rank 0");
}

TEST(ranks, rank_0_does_not_come)
{
    test_ranks_run(2, 0, wait_for_nobody);
}

/* Rank 1 waits in the rendezvous, and is killed; rank 2 never comes. */
static void wait_in_vain(struct test_rank *rank)
{
    tarn_group_options options = test_rank_options(rank);

    if (rank->number == 2)
        return;
    MUST_BE(rank, TARN_ERR_PEER_LOST, tarn_group_create(rank->device, &options, &rank->group));
    says(rank, "rank 1");
}

TEST(ranks, a_death_in_the_rendezvous_is_named)
{
    struct test_ranks ranks;

    test_ranks_start(&ranks, 3, 0, wait_in_vain);
    test_ranks_await(&ranks);
    (void)usleep(1000000);
    test_ranks_kill(&ranks, 1);
    test_ranks_end(&ranks);
}

/* -- Collectives -- */

static void meet_late(struct test_rank *rank)
{
    test_rank_join(rank, 8 * MIB, 4 * MIB);
    if (rank->number == 0) {
        MUST_BE(rank, TARN_ERR_BUSY, tarn_group_meet(rank->group, SHORT_NS));
        says(rank, ": 1");
        MUST_BE(rank, TARN_ERR_WRONG_STATE, tarn_symmetric_collect(rank->pool, SHORT_NS));
        says(rank, "tarn_group_meet");
    }
    /* The other one waits for a signal that comes behind the failure. */
    if (rank->number == 0)
        MUST_BE(rank, TARN_OK, tarn_group_put_signal(rank->group, 1, 0, rank->stream));
    else
        MUST_BE(rank, TARN_OK, tarn_group_wait_signal(rank->group, 0, 0, rank->stream));
    MUST_BE(rank, TARN_OK, tarn_group_wait(rank->group, rank->stream, TEST_RANK_NS));
    MUST_BE(rank, TARN_OK, tarn_group_meet(rank->group, TEST_RANK_NS)); /* goes on */
    MUST_BE(rank, TARN_OK, tarn_symmetric_collect(rank->pool, TEST_RANK_NS));
    MUST_BE(rank, TARN_OK, tarn_group_meet(rank->group, TEST_RANK_NS));
    test_rank_leave(rank);
}

TEST(ranks, a_meeting_that_was_late_goes_on)
{
    test_ranks_run(2, 0, meet_late);
}

static void differ(struct test_rank *rank)
{
    tarn_symmetric *pool = NULL;

    test_rank_join(rank, 8 * MIB, 4 * MIB);
    if (rank->number == 0)
        MUST_BE(rank, TARN_ERR_WRONG_STATE, tarn_group_meet(rank->group, TEST_RANK_NS));
    else
        MUST_BE(rank, TARN_ERR_WRONG_STATE, tarn_symmetric_collect(rank->pool, TEST_RANK_NS));
    says(rank, "tarn_group_meet");
    says(rank, "tarn_symmetric_collect");
    MUST_BE(rank, TARN_ERR_WRONG_STATE,
            tarn_symmetric_reserve(rank->pool, (5 + rank->number) * MIB, TEST_RANK_NS));
    says(rank, "other sizes");
    MUST_BE(rank, TARN_ERR_WRONG_STATE,
            tarn_symmetric_create(rank->group, (10 + rank->number * 2) * MIB, &pool));
    says(rank, "other strides");
    MUST(rank, pool == NULL);
    /* A pool that one rank alone has begun gets no number. */
    if (rank->number == 0)
        MUST_BE(rank, TARN_ERR_WRONG_STATE, tarn_symmetric_create(rank->group, MIB, &pool));
    else
        MUST_BE(rank, TARN_ERR_WRONG_STATE, tarn_group_meet(rank->group, TEST_RANK_NS));
    MUST_BE(rank, TARN_OK, tarn_symmetric_create(rank->group, MIB, &pool));
    MUST_BE(rank, TARN_OK, tarn_symmetric_destroy(pool));
    MUST_BE(rank, TARN_OK, tarn_group_meet(rank->group, TEST_RANK_NS));
    test_rank_leave(rank);
}

TEST(ranks, different_collectives_are_named)
{
    test_ranks_run(2, 0, differ);
}

/* The calls of rank 1 differ at the call that the seed says. */
static void go_astray(struct test_rank *rank)
{
    char text[80];
    void *block = NULL;

    test_rank_join(rank, 8 * MIB, 4 * MIB);
    for (unsigned int i = 1; i <= 1500; i++) {
        bool strays = rank->number == 1 && i == rank->seed;

        MUST_BE(rank, TARN_OK, tarn_symmetric_malloc(rank->pool, strays ? 1000 : 600, 0, &block));
    }
    snprintf(text, sizeof text, "as call %u, rank 0 allocates 600 bytes", rank->seed);
    if (rank->seed < 500)
        snprintf(text, sizeof text, "before the last 1023");
    if (rank->seed <= 1500) {
        MUST_BE(rank, TARN_ERR_WRONG_STATE, tarn_symmetric_collect(rank->pool, TEST_RANK_NS));
        says(rank, text);
    } else { /* the last one is missing on rank 0 */
        if (rank->number == 1)
            MUST_BE(rank, TARN_OK, tarn_symmetric_free(rank->pool, block, rank->stream));
        MUST_BE(rank, TARN_ERR_WRONG_STATE, tarn_symmetric_collect(rank->pool, TEST_RANK_NS));
        says(rank, "as call 1501, rank 0 has made no call, and rank 1 frees 600 bytes");
    }
    MUST_BE(rank, TARN_OK, tarn_group_meet(rank->group, TEST_RANK_NS));
    test_rank_leave(rank);
}

TEST_LOOP(ranks, the_first_call_that_differs_is_named, 0, 6)
{
    static const unsigned int places[] = {1501, 1500, 1499, 800, 501, 3};

    test_ranks_run(2, places[_i], go_astray);
}

/* Rank 0 has fewer descriptors than it needs, and one more each time. Where it fails by itself all
 * go on; where it cannot take the others' descriptors, none waits for it. */
static void lack_descriptors(struct test_rank *rank)
{
    tarn_status status = TARN_OK;
    rlim_t next = (rlim_t)dup(STDERR_FILENO);
    struct rlimit limit;

    (void)close((int)next);
    MUST(rank, getrlimit(RLIMIT_NOFILE, &limit) == 0);
    test_rank_join(rank, 8 * MIB, 2 * MIB);
    for (rlim_t more = 0; more < 30 && status == TARN_OK; more++) {
        struct rlimit low = {.rlim_cur = next + more, .rlim_max = limit.rlim_max};

        if (rank->number == 0)
            MUST(rank, setrlimit(RLIMIT_NOFILE, &low) == 0);
        status = tarn_symmetric_reserve(rank->pool, 8 * MIB, TEST_RANK_NS);
        MUST(rank, setrlimit(RLIMIT_NOFILE, &limit) == 0);
        MUST(rank, status != TARN_OK);
        if (rank->number == 0 && status != TARN_ERR_DEVICE_MEMORY)
            says(rank, "RLIMIT_NOFILE");
        if (rank->number == 1)
            MUST(rank, status == TARN_ERR_PEER_LOST);
        status = tarn_group_meet(rank->group, TEST_RANK_NS);
    }
    MUST(rank, status == TARN_ERR_PEER_LOST);
    test_rank_leave(rank);
}

TEST(ranks, rank_0_cannot_take_descriptors)
{
    test_ranks_run(2, 0, lack_descriptors);
}

/* -- Deaths -- */

/* The last rank dies; the others are in a meeting, or have a stream that waits for it. */
static void lose_one(struct test_rank *rank)
{
    uint32_t last = rank->world - 1;
    tarn_member_info info = TARN_MEMBER_INFO_INIT;
    tarn_symmetric *made = NULL;
    tarn_status status;
    void *block = NULL;

    test_rank_join(rank, 8 * MIB, 4 * MIB);
    MUST_BE(rank, TARN_OK, tarn_symmetric_malloc(rank->pool, 4096, 0, &block));
    if (rank->number == last)
        _exit(0);
    MUST_BE(rank, TARN_OK, tarn_group_barrier(rank->group, 0, rank->stream));
    MUST_BE(rank, TARN_OK, tarn_group_wait_signal(rank->group, last, 2, rank->stream));
    status = rank->seed == 0 ? tarn_group_meet(rank->group, TEST_RANK_NS)
                             : tarn_group_wait(rank->group, rank->stream, TEST_RANK_NS);
    MUST(rank, status == TARN_ERR_PEER_LOST);
    says(rank, "is gone: process ");
    MUST_BE(rank, TARN_ERR_PEER_LOST,
            tarn_group_wait(rank->group, rank->stream, TEST_RANK_NS)); /* and ends the waits */
    MUST(rank, !test_is_at_work(rank->stream));
    MUST_BE(rank, TARN_OK, tarn_group_member(rank->group, last, &info));
    MUST(rank, info.state == TARN_MEMBER_LOST && info.pid > 0 && info.rank == last);
    MUST_BE(rank, TARN_OK, tarn_group_member(rank->group, rank->number, &info));
    MUST(rank, info.state == TARN_MEMBER_HERE && info.pid == (int)getpid());
    MUST_BE(rank, TARN_ERR_PEER_LOST, tarn_group_barrier(rank->group, 0, rank->stream));
    MUST_BE(rank, TARN_ERR_PEER_LOST, tarn_group_put_signal(rank->group, last, 0, rank->stream));
    MUST_BE(rank, TARN_ERR_PEER_LOST, tarn_group_wait_signal(rank->group, last, 0, rank->stream));
    MUST_BE(rank, TARN_ERR_PEER_LOST, tarn_group_meet(rank->group, TEST_RANK_NS));
    MUST_BE(rank, TARN_ERR_PEER_LOST, tarn_symmetric_collect(rank->pool, TEST_RANK_NS));
    MUST_BE(rank, TARN_ERR_PEER_LOST, tarn_symmetric_reserve(rank->pool, 8 * MIB, TEST_RANK_NS));
    MUST_BE(rank, TARN_ERR_PEER_LOST, tarn_symmetric_create(rank->group, MIB, &made));
    MUST_BE(rank, TARN_OK, tarn_symmetric_free(rank->pool, block, rank->stream));
    test_fill(rank->stream, block, 7, 1); /* the stream works */
    MUST(rank, test_read(rank->stream, block) == 7);
    test_rank_leave(rank);
}

TEST_LOOP(ranks, a_dead_rank_is_named_and_streams_go_on, 0, 4)
{
    test_ranks_run(_i < 2 ? 2 : 4, (unsigned int)_i % 2, lose_one);
}

/* Rank 1 hangs: its stream never signals. */
static void hang(struct test_rank *rank)
{
    test_rank_join(rank, 8 * MIB, 4 * MIB);
    if (rank->number == 0) {
        MUST_BE(rank, TARN_OK, tarn_group_wait_signal(rank->group, 1, 3, rank->stream));
        MUST_BE(rank, TARN_ERR_BUSY, tarn_group_wait(rank->group, rank->stream, SHORT_NS));
        says(rank, "rank 1 of the group 'test' (process ");
        says(rank, "channel 3");
        MUST(rank, test_is_at_work(rank->stream));
        MUST_BE(rank, TARN_OK, tarn_group_abandon(rank->group, rank->stream, TEST_RANK_NS));
        MUST(rank, !test_is_at_work(rank->stream));
        MUST_BE(rank, TARN_ERR_PEER_LOST, tarn_group_meet(rank->group, TEST_RANK_NS));
        says(rank, "given up");
    } else {
        MUST_BE(rank, TARN_ERR_PEER_LOST, tarn_group_meet(rank->group, TEST_RANK_NS)); /* it left */
        says(rank, "rank 0");
    }
    test_rank_leave(rank);
}

TEST(ranks, a_rank_that_hangs_is_named_and_given_up)
{
    test_ranks_run(2, 0, hang);
}
