// SPDX-License-Identifier: Apache-2.0
/* Ranks of a group that work in symmetric memory, and are killed.
 *
 * In each round a rank allocates a block, writes its number there, meets the others on the stream,
 * and adds up what all have written. The round is enqueued, or is a graph that is replayed.
 *
 *   - the sums are right
 *   - a rank is killed at a random moment, from the rendezvous on: every other one is told which,
 *     ends its waits, and has a stream and a device that work
 *   - 64 ranks meet, lose one, and go on without it
 *
 *     TARN_KILLS=... TARN_KILL_SEED=... stress_symmetric
 *
 * repeats a run: each kill has a seed of its own, and prints it when it fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "support/ranks.h"
#include "support/world.h"

#define MIB ((size_t)1 << 20)
#define CREATE_NS UINT64_C(300000000) /* a rank that is killed too early never comes */

SUITE("ranks in symmetric memory")
GROUP(ranks, NULL, NULL, .timeout = 800)

enum { LONGEST_KILL_US = 20000, MANY = 64, MANY_BARRIERS = 1000, FEW = 16, FEW_BARRIERS = 50 };

static unsigned int dice_of(unsigned int seed)
{
    return seed * 2654435761u;
}

static uint32_t victim_of(const struct test_rank *rank)
{
    return dice_of(rank->seed) / 97 % rank->world;
}

/* -- A round -- */

struct work {
    struct test_rank *rank;
    tn_cu_graphexec exec; /* of a round; NULL: rounds are enqueued */
    void *block;          /* of the graph */
    uint32_t round;
};

static tarn_status reduce(struct work *work, const void *block, uint32_t expected)
{
    struct test_rank *rank = work->rank;
    uint32_t sum = 0;
    tarn_status status = tarn_group_wait(rank->group, rank->stream, TEST_RANK_NS);

    for (uint32_t peer = 0; peer < rank->world && status == TARN_OK; peer++) {
        void *at = NULL;

        MUST_BE(rank, TARN_OK, tarn_symmetric_at(rank->pool, block, peer, &at));
        sum += test_read(rank->stream, at);
    }
    MUST(rank, status != TARN_OK || sum == expected);
    return status;
}

/* A block, written, met, added up, met, freed. */
static tarn_status do_round(struct work *work)
{
    struct test_rank *rank = work->rank;
    uint32_t ranks = rank->world * (rank->world + 1) / 2;
    void *block = NULL;
    tarn_status status;

    work->round++;
    MUST_BE(rank, TARN_OK,
            tarn_symmetric_malloc(rank->pool, 4096 * (size_t)(work->round % 7 + 1), 0, &block));
    test_fill(rank->stream, block, work->round * (rank->number + 1), 1);
    status = tarn_group_barrier(rank->group, 0, rank->stream);
    if (status == TARN_OK)
        status = reduce(work, block, work->round * ranks);
    if (status == TARN_OK)
        status = tarn_group_barrier(rank->group, 1, rank->stream);
    MUST_BE(rank, TARN_OK, tarn_symmetric_free(rank->pool, block, rank->stream));
    if (status == TARN_OK && work->round % 3 == 0)
        status = tarn_symmetric_collect(rank->pool, TEST_RANK_NS);
    return status;
}

/* The same as a graph: the block's word is one more with each replay. */
static tarn_status capture_round(struct work *work)
{
    struct test_rank *rank = work->rank;
    tn_cu_graph graph;
    tarn_status status;

    test_begin_capture(rank->stream, TN_CU_CAPTURE_MODE_GLOBAL);
    MUST_BE(rank, TARN_OK, tarn_symmetric_malloc(rank->pool, 4096, 0, &work->block));
    test_add(rank->stream, work->block, 1, 1);
    status = tarn_group_barrier(rank->group, 0, rank->stream);
    graph = test_end_capture(rank->stream);
    if (status == TARN_OK)
        work->exec = test_instantiate(graph);
    test_destroy_graph(graph);
    if (status != TARN_OK)
        return status;
    test_fill(rank->stream, work->block, 0, 1);
    return tarn_group_barrier(rank->group, 1, rank->stream);
}

static tarn_status replay_round(struct work *work)
{
    struct test_rank *rank = work->rank;
    tarn_status status;

    work->round++;
    test_launch(work->exec, rank->stream);
    status = reduce(work, work->block, work->round * rank->world);
    return status == TARN_OK ? tarn_group_meet(rank->group, TEST_RANK_NS) : status;
}

/* Until a call says something else than OK. rounds 0: without end. */
static tarn_status do_rounds(struct work *work, uint32_t rounds)
{
    bool in_graph = dice_of(work->rank->seed) / 6 % 2 == 1;
    tarn_status status = in_graph ? capture_round(work) : TARN_OK;

    while (status == TARN_OK && (rounds == 0 || work->round < rounds))
        status = in_graph ? replay_round(work) : do_round(work);
    return status;
}

/* -- Kills -- */

static void expect_victim(struct test_rank *rank, tarn_status status)
{
    char text[32];

    MUST(rank, status == TARN_ERR_PEER_LOST);
    snprintf(text, sizeof text, "rank %u of the group", victim_of(rank));
    if (strstr(tarn_last_error(), text) == NULL)
        fprintf(stderr, "seed %u: '%s' and not %s\n", rank->seed, tarn_last_error(), text);
    MUST(rank, strstr(tarn_last_error(), text) != NULL);
}

/* The rank has heard of the death: it leaves, with a stream and a device that work. */
static void survive(struct work *work)
{
    struct test_rank *rank = work->rank;
    void *block = NULL;

    MUST_BE(rank, TARN_ERR_PEER_LOST, tarn_group_wait(rank->group, rank->stream, TEST_RANK_NS));
    MUST(rank, !test_is_at_work(rank->stream));
    if (work->exec != NULL)
        test_destroy_exec(work->exec);
    MUST_BE(rank, TARN_OK, tarn_malloc(rank->device, 4096, rank->stream, &block));
    test_fill(rank->stream, block, 7, 1);
    MUST(rank, test_read(rank->stream, block) == 7);
    MUST_BE(rank, TARN_OK, tarn_free(block));
}

static void live_until_told(struct test_rank *rank)
{
    tarn_group_options options = test_rank_options(rank);
    struct work work = {.rank = rank};
    tarn_status status;

    options.timeout_ns = CREATE_NS;
    status = tarn_group_create(rank->device, &options, &rank->group);
    if (status == TARN_OK)
        status = tarn_symmetric_create(rank->group, 32 * MIB, &rank->pool);
    if (status == TARN_OK)
        status = tarn_symmetric_reserve(rank->pool, 4 * MIB, TEST_RANK_NS);
    if (status == TARN_OK)
        status = tarn_symmetric_reserve(rank->pool, 8 * MIB, TEST_RANK_NS);
    if (status == TARN_OK)
        status = do_rounds(&work, 0);
    if (rank->group == NULL) /* in the rendezvous: whoever is left has no group */
        MUST(rank, status == TARN_ERR_PEER_LOST || status == TARN_ERR_BUSY);
    else
        expect_victim(rank, status);
    if (rank->group != NULL)
        survive(&work);
    MUST_BE(rank, TARN_OK, tarn_symmetric_destroy(rank->pool));
    MUST_BE(rank, TARN_OK, tarn_group_destroy(rank->group));
    MUST_BE(rank, TARN_OK, tarn_device_close(rank->device));
}

TEST(ranks, survivors_of_a_kill_go_on)
{
    unsigned int kills = (unsigned int)test_setting("TARN_KILLS", 1000);
    unsigned int first = (unsigned int)test_setting("TARN_KILL_SEED", 1);

    for (unsigned int seed = first; seed < first + kills; seed++) {
        struct test_rank plan = {.seed = seed, .world = 2 + dice_of(seed) % 3};
        struct test_ranks ranks;

        test_ranks_start(&ranks, plan.world, seed, live_until_told);
        test_ranks_await(&ranks);
        (void)nanosleep(
            &(struct timespec){.tv_nsec = (long)(dice_of(seed) / 12 % LONGEST_KILL_US) * 1000},
            NULL);
        test_ranks_kill(&ranks, victim_of(&plan));
        test_ranks_end(&ranks);
    }
}

/* -- Rounds without a kill -- */

static void live(struct test_rank *rank)
{
    struct work work = {.rank = rank};

    test_rank_join(rank, 32 * MIB, 8 * MIB);
    MUST_BE(rank, TARN_OK, do_rounds(&work, 60));
    MUST_BE(rank, TARN_OK, tarn_group_wait(rank->group, rank->stream, TEST_RANK_NS));
    MUST_BE(rank, TARN_OK, tarn_group_meet(rank->group, TEST_RANK_NS));
    if (work.exec != NULL)
        test_destroy_exec(work.exec);
    test_rank_leave(rank);
}

TEST_LOOP(ranks, sums_are_right, 1, 13)
{
    test_ranks_run(2u << _i % 3, (unsigned int)_i, live);
}

/* -- Many -- */

static void reduce_once(struct test_rank *rank)
{
    struct work work = {.rank = rank};

    MUST_BE(rank, TARN_OK, do_round(&work));
    MUST_BE(rank, TARN_OK, tarn_group_wait(rank->group, rank->stream, TEST_RANK_NS));
}

/* The last rank dies, and the others make a group of their own. */
static void be_one_of_many(struct test_rank *rank)
{
    size_t end = strlen(rank->meeting);

    test_rank_join(rank, 4 * MIB, 2 * MIB);
    for (unsigned int i = 0; i < rank->seed; i++)
        MUST_BE(rank, TARN_OK, tarn_group_barrier(rank->group, 0, rank->stream));
    reduce_once(rank);
    MUST_BE(rank, TARN_OK, tarn_group_meet(rank->group, TEST_RANK_NS)); /* nobody's stream waits */
    if (rank->number == rank->world - 1)
        _exit(0);
    MUST_BE(rank, TARN_ERR_PEER_LOST, tarn_group_meet(rank->group, TEST_RANK_NS));
    MUST(rank, strstr(tarn_last_error(), "is gone: process") != NULL);
    MUST_BE(rank, TARN_OK, tarn_symmetric_destroy(rank->pool));
    MUST_BE(rank, TARN_OK, tarn_group_destroy(rank->group));
    rank->world--;
    (void)snprintf(rank->meeting + end, sizeof rank->meeting - end, "+");
    test_rank_join(rank, 4 * MIB, 2 * MIB);
    reduce_once(rank);
    MUST_BE(rank, TARN_OK, tarn_group_meet(rank->group, TEST_RANK_NS));
    test_rank_leave(rank);
}

TEST(ranks, many_lose_one_and_go_on)
{
    bool few = test_setting("TARN_KILLS", 1000) < 1000;

    test_ranks_run(few ? FEW : MANY, few ? FEW_BARRIERS : MANY_BARRIERS, be_one_of_many);
}
