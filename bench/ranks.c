// SPDX-License-Identifier: Apache-2.0
/* tarn_ranks -- measures groups of processes and symmetric memory, by the public calls.
 *
 *     tarn_ranks [--quick]
 *
 * Prints a line for each figure: microseconds, a blank, what was measured. The row `symmetric` of
 * tarn_bench runs this program, since processes that share a GPU must be forked before the driver
 * is loaded.
 *
 * All times are those of rank 0. A region is a pool with memory that all ranks have mapped: 1 GiB each,
 * and 64 MiB with --quick. A graph has ten barriers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base.h"
#include "driver.h"
#include "tarn/device.h"
#include "tarn/symmetric.h"

#define MIB ((size_t)1 << 20)
#define TIMEOUT_NS UINT64_C(60000000000)

enum { RANKS_MAX = 8, ROUNDS = 200, QUICK_ROUNDS = 10, IN_GRAPH = 10, SAMPLES = 9, BLOCKS = 10000 };

/* A process of a group. */
struct member {
    tarn_device *device;
    tarn_group *group;
    tarn_symmetric *pool;
    tarn_stream stream;
    tn_cu_graphexec exec;
    uint32_t number;
    uint32_t count; /* of the group */
    size_t rounds;
    size_t region_bytes;
};

static void print(const struct member *member, uint64_t ns, const char *what)
{
    if (member->number == 0)
        printf("%.3f us %s of %u processes\n", (double)ns / 1e3, what, member->count);
    (void)fflush(stdout);
}

static int by_size(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a;
    uint64_t second = *(const uint64_t *)b;

    return (first > second) - (first < second);
}

/* Prints the middle of the samples, for one of so many. */
static void measure(struct member *member, void (*enqueue)(struct member *member), size_t in_one,
                    const char *what)
{
    uint64_t samples[SAMPLES];

    for (int i = 0; i <= SAMPLES; i++) {
        uint64_t begun = bench_now();

        for (size_t round = 0; round < member->rounds; round += in_one)
            enqueue(member);
        bench_stream_drain(member->stream);
        if (i > 0) /* the first warms up */
            samples[i - 1] = (bench_now() - begun) / member->rounds;
    }
    qsort(samples, SAMPLES, sizeof samples[0], by_size);
    print(member, samples[SAMPLES / 2], what);
}

static void enqueue_barrier(struct member *member)
{
    BENCH_OK(tarn_group_barrier(member->group, 0, member->stream));
}

static void enqueue_graph(struct member *member)
{
    BENCH_CU(cu.cuGraphLaunch(member->exec, member->stream));
}

static void meet(struct member *member)
{
    BENCH_OK(tarn_group_meet(member->group, TIMEOUT_NS));
}

static void measure_barriers(struct member *member)
{
    tn_cu_graph graph = NULL;

    measure(member, enqueue_barrier, 1, "barrier");
    measure(member, meet, 1, "meeting");
    BENCH_CU(cu.cuStreamBeginCapture(member->stream, TN_CU_CAPTURE_MODE_GLOBAL));
    for (int i = 0; i < IN_GRAPH; i++)
        enqueue_barrier(member);
    BENCH_CU(cu.cuStreamEndCapture(member->stream, &graph));
    BENCH_CU(cu.cuGraphInstantiateWithFlags(&member->exec, graph, 0));
    BENCH_CU(cu.cuGraphDestroy(graph));
    measure(member, enqueue_graph, IN_GRAPH, "barrier in a graph");
    BENCH_CU(cu.cuGraphExecDestroy(member->exec));
}

/* A group, and a region that all have mapped. */
static void measure_forming(struct member *member, const char *meeting)
{
    tarn_group_options options = TARN_GROUP_OPTIONS_INIT;
    uint64_t begun = bench_now();

    options.name = "bench";
    options.rank = member->number;
    options.world = member->count;
    options.meeting = meeting;
    BENCH_OK(tarn_group_create(member->device, &options, &member->group));
    meet(member); /* all have come: what follows is no wait for a late process */
    begun = bench_now();
    BENCH_OK(tarn_symmetric_create(member->group, member->region_bytes, &member->pool));
    BENCH_OK(tarn_symmetric_reserve(member->pool, member->region_bytes, TIMEOUT_NS));
    print(member, bench_now() - begun, "region");
}

/* A further group of the same ranks, which have all come. */
static void measure_group(struct member *member, const char *meeting)
{
    tarn_group_options options = TARN_GROUP_OPTIONS_INIT;
    tarn_group *group = NULL;
    uint64_t begun;

    options.name = "bench again";
    options.rank = member->number;
    options.world = member->count;
    options.meeting = meeting;
    meet(member);
    begun = bench_now();
    BENCH_OK(tarn_group_create(member->device, &options, &group));
    print(member, bench_now() - begun, "group");
    BENCH_OK(tarn_group_destroy(group));
}

static void measure_allocation(struct member *member)
{
    static void *blocks[BLOCKS];
    uint64_t begun = bench_now();

    for (size_t i = 0; i < BLOCKS; i++)
        BENCH_OK(tarn_symmetric_malloc(member->pool, 512 * (i % 8 + 1), 0, &blocks[i]));
    print(member, (bench_now() - begun) / (BLOCKS / 1000), "1000 allocations");
    begun = bench_now();
    for (size_t i = 0; i < BLOCKS; i++)
        BENCH_OK(tarn_symmetric_free(member->pool, blocks[i], member->stream));
    print(member, (bench_now() - begun) / (BLOCKS / 1000), "1000 frees");
    bench_stream_drain(member->stream);
    meet(member);
    begun = bench_now();
    BENCH_OK(tarn_symmetric_collect(member->pool, TIMEOUT_NS));
    print(member, bench_now() - begun, "collect");
}

static _Noreturn void be_member(struct member *member, const char *meeting, const char *again)
{
    bench_driver_open();
    BENCH_OK(tarn_device_open(0, NULL, &member->device));
    member->stream = bench_stream_create();
    measure_forming(member, meeting);
    measure_group(member, again);
    measure_allocation(member);
    measure_barriers(member);
    meet(member);
    BENCH_OK(tarn_symmetric_destroy(member->pool));
    BENCH_OK(tarn_group_destroy(member->group));
    BENCH_OK(tarn_device_close(member->device));
    _exit(0);
}

static void run_group(uint32_t count, bool quick)
{
    struct member member = {.count = count,
                            .rounds = quick ? QUICK_ROUNDS : ROUNDS,
                            .region_bytes = quick ? 64 * MIB : 1024 * MIB};
    pid_t pids[RANKS_MAX];
    char meeting[40];
    char again[40];
    bool failed = false;

    (void)snprintf(meeting, sizeof meeting, "@tarn-bench-%d-%u", (int)getpid(), count);
    (void)snprintf(again, sizeof again, "@tarn-again-%d-%u", (int)getpid(), count);
    for (uint32_t i = 0; i < count; i++) {
        member.number = i;
        pids[i] = fork();
        if (pids[i] == 0)
            be_member(&member, meeting, again);
    }
    for (uint32_t i = 0; i < count; i++) {
        int status = -1;

        failed |= waitpid(pids[i], &status, 0) != pids[i] || status != 0;
    }
    if (failed)
        bench_fail("a process of %u has failed", count);
}

int main(int count, char **arguments)
{
    bool quick = count == 2 && strcmp(arguments[1], "--quick") == 0;

    if (count > 1 && !quick)
        bench_fail("usage: tarn_ranks [--quick]");
    for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks *= 2)
        run_group(ranks, quick);
    return 0;
}
