// SPDX-License-Identifier: Apache-2.0
#include "support/ranks.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/apart.h"
#include "tarn/device.h"

enum { ALARM_S = 200 };

void test_rank_must(bool holds, const struct test_rank *rank, const char *file, int line,
                    const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s:%d: seed %u, rank %u of %u: %s; %s\n", file, line, rank->seed, rank->number,
            rank->world, what, tarn_last_error());
    _exit(1);
}

static _Noreturn void be_rank(struct test_rank *rank, test_rank_body body, int ready)
{
    test_apart(ready);
    alarm(ALARM_S);
    test_start();
    MUST(rank, tarn_device_open(0, NULL, &rank->device) == TARN_OK);
    rank->stream = test_stream();
    MUST(rank, write(ready, "r", 1) == 1);
    body(rank);
    _exit(0);
}

void test_ranks_start(struct test_ranks *ranks, uint32_t world, unsigned int seed,
                      test_rank_body body)
{
    static unsigned int begun;
    struct test_rank rank = {.world = world, .seed = seed};
    int ends[2];

    ck_assert_uint_le(world, TEST_RANKS_MAX);
    begun++;
    (void)snprintf(rank.meeting, sizeof rank.meeting, "@tarn-ranks-%d-%u", (int)getpid(), begun);
    ranks->world = world;
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ranks->ready = ends[0];
    for (uint32_t i = 0; i < world; i++) {
        rank.number = i;
        ranks->pids[i] = fork();
        ck_assert_int_ge(ranks->pids[i], 0);
        if (ranks->pids[i] == 0)
            be_rank(&rank, body, ends[1]);
    }
    close(ends[1]);
}

void test_ranks_await(const struct test_ranks *ranks)
{
    char bytes[TEST_RANKS_MAX];
    uint32_t count = 0;

    while (count < ranks->world) {
        ssize_t came = read(ranks->ready, bytes, sizeof bytes);

        ck_assert_int_gt(came, 0);
        count += (uint32_t)came;
    }
}

void test_ranks_end(struct test_ranks *ranks)
{
    for (uint32_t i = 0; i < ranks->world; i++) {
        int status = -1;

        if (ranks->pids[i] == 0)
            continue;
        ck_assert_int_eq(waitpid(ranks->pids[i], &status, 0), ranks->pids[i]);
        ck_assert_msg(status == 0, "rank %u ended with %x", i, (unsigned int)status);
    }
    close(ranks->ready);
}

void test_ranks_run(uint32_t world, unsigned int seed, test_rank_body body)
{
    struct test_ranks ranks;

    test_ranks_start(&ranks, world, seed, body);
    test_ranks_end(&ranks);
}

void test_ranks_kill(struct test_ranks *ranks, uint32_t rank)
{
    ck_assert_int_eq(kill(ranks->pids[rank], SIGKILL), 0);
    ck_assert_int_eq(waitpid(ranks->pids[rank], NULL, 0), ranks->pids[rank]);
    ranks->pids[rank] = 0;
}

tarn_group_options test_rank_options(const struct test_rank *rank)
{
    tarn_group_options options = TARN_GROUP_OPTIONS_INIT;

    options.name = "test";
    options.rank = rank->number;
    options.world = rank->world;
    options.meeting = rank->meeting;
    options.timeout_ns = TEST_RANK_NS;
    return options;
}

void test_rank_join(struct test_rank *rank, size_t stride, size_t bytes)
{
    tarn_group_options options = test_rank_options(rank);

    MUST_BE(rank, TARN_OK, tarn_group_create(rank->device, &options, &rank->group));
    MUST_BE(rank, TARN_OK, tarn_symmetric_create(rank->group, stride, &rank->pool));
    MUST_BE(rank, TARN_OK, tarn_symmetric_reserve(rank->pool, bytes, TEST_RANK_NS));
}

void test_rank_leave(struct test_rank *rank)
{
    test_synchronize(rank->stream);
    MUST_BE(rank, TARN_OK, tarn_symmetric_destroy(rank->pool));
    MUST_BE(rank, TARN_OK, tarn_group_destroy(rank->group));
    MUST_BE(rank, TARN_OK, tarn_device_close(rank->device));
}
