// SPDX-License-Identifier: Apache-2.0
/* Symmetric memory: groups of two, four and eight processes, and what they do with a pool of the
 * same offsets. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "support/ranks.h"
#include "support/world.h"

#define MIB ((size_t)1 << 20)
#define WORDS 256u

SUITE("symmetric memory")
GROUP(ranks, NULL, NULL, .timeout = 300)

static const uint32_t worlds[] = {1, 2, 4, 8};

static void *allocate(struct test_rank *rank, size_t bytes)
{
    void *address = NULL;

    MUST_BE(rank, TARN_OK, tarn_symmetric_malloc(rank->pool, bytes, 0, &address));
    return address;
}

static void *there(struct test_rank *rank, const void *address, uint32_t peer)
{
    void *at = NULL;

    MUST_BE(rank, TARN_OK, tarn_symmetric_at(rank->pool, address, peer, &at));
    return at;
}

static void meet(struct test_rank *rank)
{
    MUST_BE(rank, TARN_OK, tarn_group_meet(rank->group, TEST_RANK_NS));
}

static void finish(struct test_rank *rank)
{
    MUST_BE(rank, TARN_OK, tarn_group_wait(rank->group, rank->stream, TEST_RANK_NS));
}

/* -- An all-reduce: each rank adds up what all have written. */
static void reduce(struct test_rank *rank)
{
    uint32_t sum = 0;
    void *mine;

    test_rank_join(rank, 64 * MIB, 4 * MIB);
    mine = allocate(rank, WORDS * sizeof(uint32_t));
    for (uint32_t round = 1; round <= 20; round++) {
        test_fill(rank->stream, mine, round * (rank->number + 1), WORDS);
        MUST_BE(rank, TARN_OK, tarn_group_barrier(rank->group, 0, rank->stream));
        sum = 0;
        for (uint32_t peer = 0; peer < rank->world; peer++)
            sum += test_read(rank->stream, there(rank, mine, peer));
        MUST(rank, sum == round * rank->world * (rank->world + 1) / 2);
        MUST_BE(rank, TARN_OK, tarn_group_barrier(rank->group, 0, rank->stream));
    }
    finish(rank);
    test_rank_leave(rank);
}

TEST_LOOP(ranks, an_all_reduce_has_the_right_sums, 0, 4)
{
    test_ranks_run(worlds[_i], 0, reduce);
}

/* -- Signals in a ring, outside captures. */
static void pass_around(struct test_rank *rank)
{
    uint32_t next = (rank->number + 1) % rank->world;
    uint32_t before = (rank->number + rank->world - 1) % rank->world;
    void *mine;

    test_rank_join(rank, 64 * MIB, 4 * MIB);
    mine = allocate(rank, WORDS * sizeof(uint32_t));
    for (uint32_t round = 1; round <= 10; round++) {
        test_fill(rank->stream, there(rank, mine, next), 100 * round + rank->number, WORDS);
        MUST_BE(rank, TARN_OK, tarn_group_put_signal(rank->group, next, 1, rank->stream));
        MUST_BE(rank, TARN_OK, tarn_group_wait_signal(rank->group, before, 1, rank->stream));
        MUST(rank, test_read(rank->stream, mine) == 100 * round + before);
        meet(rank);
    }
    finish(rank);
    test_rank_leave(rank);
}

TEST_LOOP(ranks, a_signal_comes_behind_the_work_before_it, 1, 4)
{
    test_ranks_run(worlds[_i], 0, pass_around);
}

/* -- Offsets: random calls, the same on each rank, and events that are not. */
enum { BLOCKS = 64, STEPS = 1500 };

static void collect(struct test_rank *rank)
{
    MUST_BE(rank, TARN_OK, tarn_symmetric_collect(rank->pool, TEST_RANK_NS));
}

static uint64_t offset_of(struct test_rank *rank, const void *block)
{
    void *first = NULL;

    MUST_BE(rank, TARN_OK, tarn_symmetric_at(rank->pool, block, 0, &first));
    return (uint64_t)(uintptr_t)first;
}

static tarn_symmetric_info describe(struct test_rank *rank)
{
    tarn_symmetric_info info = TARN_SYMMETRIC_INFO_INIT;

    MUST_BE(rank, TARN_OK, tarn_symmetric_describe(rank->pool, &info));
    return info;
}

static void mix_up(struct test_rank *rank)
{
    tn_cu_stream streams[2] = {rank->stream, test_stream()};
    void *blocks[BLOCKS] = {NULL};
    unsigned int dice = rank->seed + 1;                /* the same on all ranks */
    unsigned int own = rank->seed * 64 + rank->number; /* another one on each */
    uint64_t base;
    uint64_t mixed = 0;
    uint32_t *all;
    void *sums;

    test_rank_join(rank, 256 * MIB, 16 * MIB);
    sums = allocate(rank, rank->world * 8);
    base = offset_of(rank, sums);
    for (int step = 0; step < STEPS; step++) {
        int i = (int)((unsigned int)rand_r(&dice) % BLOCKS);
        size_t bytes = (size_t)rand_r(&dice) % 200000 + 1;
        tn_cu_stream stream = streams[(unsigned int)rand_r(&dice) % 2];

        if (rand_r(&own) % 50 == 0)
            test_spin(stream, 1);
        if (rand_r(&dice) % 40 == 0)
            collect(rank);
        if (blocks[i] != NULL) {
            MUST_BE(rank, TARN_OK, tarn_symmetric_free(rank->pool, blocks[i], stream));
            blocks[i] = NULL;
        } else if (tarn_symmetric_malloc(rank->pool, bytes, 0, &blocks[i]) == TARN_OK) {
            mixed = mixed * 31 + (offset_of(rank, blocks[i]) - base);
        } else {
            blocks[i] = NULL;
            mixed = mixed * 31 + 1;
        }
    }
    /* Each tells all the others what offsets it had. */
    all = there(rank, sums, rank->number);
    test_fill(rank->stream, (char *)all + 8 * (size_t)rank->number, (uint32_t)mixed, 1);
    test_fill(rank->stream, (char *)all + 8 * (size_t)rank->number + 4, (uint32_t)(mixed >> 32), 1);
    MUST_BE(rank, TARN_OK, tarn_group_barrier(rank->group, 0, rank->stream));
    for (uint32_t peer = 0; peer < rank->world; peer++) {
        char *its = (char *)there(rank, sums, peer) + 8 * (size_t)peer;

        MUST(rank, test_read(rank->stream, its) == (uint32_t)mixed);
        MUST(rank, test_read(rank->stream, its + 4) == (uint32_t)(mixed >> 32));
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i] != NULL)
            MUST_BE(rank, TARN_OK, tarn_symmetric_free(rank->pool, blocks[i], rank->stream));
    }
    MUST_BE(rank, TARN_OK, tarn_symmetric_free(rank->pool, sums, rank->stream));
    finish(rank);
    test_synchronize(streams[1]);
    collect(rank);
    MUST(rank, describe(rank).pending_count == 0 && describe(rank).live_count == 0);
    MUST(rank, allocate(rank, 16 * MIB) == sums); /* all is one range again */
    meet(rank);
    test_rank_leave(rank);
}

TEST_LOOP(ranks, offsets_are_the_same_whenever_events_are_done, 0, 12)
{
    test_ranks_run(worlds[1 + _i % 3], (unsigned int)_i, mix_up);
}

/* A block that one rank still uses returns on none. */
static void be_slow(struct test_rank *rank)
{
    void *block;

    test_rank_join(rank, 64 * MIB, 4 * MIB);
    block = allocate(rank, 4096);
    MUST_BE(rank, TARN_OK, tarn_group_barrier(rank->group, 0, rank->stream));
    if (rank->number == 1) /* whom rank 0's stream waits for, and nobody signals yet */
        MUST_BE(rank, TARN_OK, tarn_group_wait_signal(rank->group, 0, 0, rank->stream));
    MUST_BE(rank, TARN_OK, tarn_symmetric_free(rank->pool, block, rank->stream));
    if (rank->number == 0)
        finish(rank);
    collect(rank);
    MUST(rank, describe(rank).pending_count == 1);
    if (rank->number == 0)
        MUST_BE(rank, TARN_OK, tarn_group_put_signal(rank->group, 1, 0, rank->stream));
    finish(rank);
    meet(rank);
    collect(rank);
    MUST(rank, describe(rank).pending_count == 0);
    MUST(rank, allocate(rank, 4096) == block);
    meet(rank);
    test_rank_leave(rank);
}

TEST(ranks, a_block_returns_once_it_is_idle_on_all_ranks)
{
    test_ranks_run(2, 0, be_slow);
}

/* -- Graphs: a section with a barrier, signals and an allocation, replayed. */
static void replay(struct test_rank *rank)
{
    uint32_t next = (rank->number + 1) % rank->world;
    uint32_t before = (rank->number + rank->world - 1) % rank->world;
    tn_cu_graphexec exec;
    tn_cu_graph graph;
    void *mine;

    test_rank_join(rank, 64 * MIB, 4 * MIB);
    test_begin_capture(rank->stream, TN_CU_CAPTURE_MODE_GLOBAL);
    mine = allocate(rank, 4096);
    MUST_BE(rank, TARN_ERR_WRONG_STATE, tarn_symmetric_free(rank->pool, mine, rank->stream));
    test_add(rank->stream, there(rank, mine, next), 1, 1);
    MUST_BE(rank, TARN_OK, tarn_group_put_signal(rank->group, next, 0, rank->stream));
    MUST_BE(rank, TARN_OK, tarn_group_wait_signal(rank->group, before, 0, rank->stream));
    test_add(rank->stream, mine, 1, 1);
    MUST_BE(rank, TARN_OK, tarn_group_barrier(rank->group, 0, rank->stream));
    MUST_BE(rank, TARN_ERR_WRONG_STATE, tarn_group_wait(rank->group, rank->stream, 0));
    graph = test_end_capture(rank->stream);
    exec = test_instantiate(graph);
    test_destroy_graph(graph);
    test_fill(rank->stream, mine, 0, 1);
    MUST_BE(rank, TARN_OK, tarn_group_barrier(rank->group, 1, rank->stream));
    for (uint32_t round = 1; round <= 20; round++) {
        test_launch(exec, rank->stream);
        MUST(rank, test_read(rank->stream, mine) == 2 * round);
        meet(rank);
    }
    test_destroy_exec(exec);
    test_rank_leave(rank);
}

TEST_LOOP(ranks, a_section_with_signals_is_replayed, 1, 4)
{
    test_ranks_run(worlds[_i], 0, replay);
}

/* -- Ranks that find each other by means of the program's: memory that they have had since the fork. */
struct wall {
    atomic_uint came;
    char bytes[TEST_RANKS_MAX][64];
};
static struct wall *wall;

static bool gather_at_wall(const void *own, size_t bytes, void *all, void *user)
{
    const struct test_rank *rank = user;

    if (bytes > sizeof wall->bytes[0])
        return false;
    memcpy(wall->bytes[rank->number], own, bytes);
    atomic_fetch_add(&wall->came, 1);
    while (atomic_load(&wall->came) < rank->world)
        (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    for (uint32_t i = 0; i < rank->world; i++)
        memcpy((char *)all + i * bytes, wall->bytes[i], bytes);
    return true;
}

static void join_by_wall(struct test_rank *rank)
{
    tarn_group_options options = test_rank_options(rank);

    options.meeting = NULL;
    options.all_gather = gather_at_wall;
    options.user = rank;
    MUST_BE(rank, TARN_OK, tarn_group_create(rank->device, &options, &rank->group));
    meet(rank);
    MUST_BE(rank, TARN_OK, tarn_group_destroy(rank->group));
    MUST_BE(rank, TARN_OK, tarn_device_close(rank->device));
}

TEST(ranks, a_program_has_ranks_meet_by_its_own_means)
{
    wall = mmap(NULL, sizeof *wall, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(wall, MAP_FAILED);
    test_ranks_run(4, 0, join_by_wall);
    ck_assert_int_eq(munmap(wall, sizeof *wall), 0);
}

/* -- Two pools of one group have layouts of their own. */
static void have_two_pools(struct test_rank *rank)
{
    tarn_symmetric *second = NULL;
    void *first_block;
    void *block = NULL;
    void *at = NULL;

    test_rank_join(rank, 8 * MIB, 4 * MIB);
    MUST_BE(rank, TARN_OK, tarn_symmetric_create(rank->group, 8 * MIB, &second));
    MUST_BE(rank, TARN_OK, tarn_symmetric_reserve(second, 2 * MIB, TEST_RANK_NS));
    first_block = allocate(rank, 4096);
    MUST_BE(rank, TARN_OK, tarn_symmetric_malloc(second, 4096, 0, &block));
    MUST(rank, block != first_block);
    MUST_BE(rank, TARN_ERR_NOT_OURS, tarn_symmetric_at(second, first_block, 0, &at));
    MUST_BE(rank, TARN_ERR_NOT_OURS, tarn_symmetric_free(second, first_block, rank->stream));
    test_fill(rank->stream, block, 5 + rank->number, 1);
    MUST_BE(rank, TARN_OK, tarn_group_barrier(rank->group, 0, rank->stream));
    MUST_BE(rank, TARN_OK, tarn_symmetric_at(second, block, 1 - rank->number, &at));
    MUST(rank, test_read(rank->stream, at) == 6 - rank->number);
    meet(rank);
    MUST_BE(rank, TARN_OK, tarn_symmetric_destroy(second));
    test_rank_leave(rank);
}

TEST(ranks, two_pools_are_apart)
{
    test_ranks_run(2, 0, have_two_pools);
}
