// SPDX-License-Identifier: Apache-2.0
/* Random allocations, frees, copies, captures and replays with page-locked memory, beside an oracle that
 * knows one thing: what a copy reads is what its block had, whatever has become of the block since.
 * Whoever gets memory overwrites it at once. Checkpoints of a pool of the device keep their bytes in
 * page-locked memory, and go while it is being copied. The simulated device works only when the test lets it, so
 * each copy that was named comes late. TARN_LOCKED_STEPS is the length of a run, TARN_LOCKED_SEED the
 * first run's seed. */
#include <stdio.h>
#include <stdlib.h>

#include "support/world.h"

enum {
    BLOCKS = 24,
    JOBS = 64,
    GRAPHS = 4,
    INPUTS = 6, /* of a graph, at most */
    STREAMS = 2,
    POOLS = 3,
    STEPS = 6000,
    RUNS = 3,
    SAVED_WORDS = 16 * 1024,
};

struct block {
    uint64_t *words; /* NULL: none */
    size_t bytes;
    uint64_t value; /* in its first and its last word */
};

/* A copy that was made, and what it must have read. */
struct job {
    uint64_t *to; /* two words of the results */
    uint64_t value;
};

struct graph {
    tarn_graph *handle; /* NULL: none */
    struct job jobs[INPUTS];
    size_t job_count;
};

static struct {
    uint64_t random;
    uint64_t last_value;
    tarn_pool *pools[POOLS]; /* the default one, a private one, and one of registered memory */
    tn_cu_stream streams[STREAMS];
    struct block blocks[BLOCKS];
    uint64_t *results; /* a block of the host, too */
    size_t result_count;
    struct job jobs[JOBS];
    size_t job_count;
    struct graph graphs[GRAPHS];
    tarn_capture *capture; /* on the first stream; NULL: none */
    struct graph *captured;
    tarn_pool *saved_pools[2]; /* of the device */
    uint32_t *saved[2];        /* a block of each, of SAVED_WORDS, which checkpoints have */
    bool is_strict;            /* the capture: no thread waits for the device meanwhile */
    uint64_t capture_count;
} run;

/* SplitMix64, by S. Vigna. */
static uint64_t next_random(void)
{
    uint64_t z = run.random += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static uint64_t below(uint64_t count)
{
    return next_random() % count;
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

/* Results of copies outside captures come first, then those of the graphs. */
static uint64_t *result_of(const struct graph *graph, size_t number)
{
    size_t index = graph == NULL ? number : JOBS + (size_t)(graph - run.graphs) * INPUTS + number;

    return run.results + 2 * index;
}

static void expect_done(const struct job *job, const char *what)
{
    ck_assert_msg(job->to[0] == job->value && job->to[1] == job->value,
                  "a copy %s has read %llu and %llu instead of %llu", what,
                  (unsigned long long)job->to[0], (unsigned long long)job->to[1],
                  (unsigned long long)job->value);
}

static void do_end(void)
{
    if (run.capture == NULL)
        return;
    if (below(8) == 0)
        OK(tarn_capture_abort(run.capture));
    else
        OK(tarn_capture_end(run.capture, &run.captured->handle));
    run.capture = NULL;
    run.captured = NULL;
    run.is_strict = false;
}

/* Lets the device work until it has nothing left, and looks at what it has copied. */
static void drain(void)
{
    if (run.is_strict)
        do_end();
    sim.resume_work();
    for (size_t i = 0; i < STREAMS; i++) {
        if (i != 0 || run.capture == NULL)
            test_synchronize(run.streams[i]);
    }
    for (size_t i = 0; i < run.job_count; i++)
        expect_done(&run.jobs[i], "of a stream");
    run.job_count = 0;
    sim.hold_work();
}

static struct block *pick(bool there)
{
    size_t first = below(BLOCKS);

    for (size_t i = 0; i < BLOCKS; i++) {
        struct block *block = &run.blocks[(first + i) % BLOCKS];

        if ((block->words != NULL) == there)
            return block;
    }
    return NULL;
}

static void write_ends(struct block *block, uint64_t value)
{
    block->value = value;
    block->words[0] = value;
    block->words[block->bytes / sizeof *block->words - 1] = value;
}

/* By a route to the pool, which the calling thread has for this allocation alone. */
static void allocate_routed(tarn_pool *pool, size_t bytes, void **address)
{
    const uint64_t live = test_stats(pool).live_count;
    tarn_route *route = NULL;

    OK(tarn_begin_allocate_to_pool(world.device, pool, tarn_filter_thread, NULL, &route));
    OK(tarn_host_malloc(world.device, bytes, address));
    OK(tarn_end_allocate_to_pool(route));
    ck_assert_uint_eq(test_stats(pool).live_count, live + 1);
}

static struct block *allocate(void)
{
    struct block *block = pick(false);
    void *address = NULL;
    size_t most = below(8) == 0 ? 5 * MIB : 64 << 10;

    if (block == NULL)
        return NULL;
    block->bytes = 16 + below(most) / 8 * 8;
    if (below(2) == 0)
        OK(tarn_host_malloc(world.device, block->bytes, &address));
    else if (below(4) == 0)
        allocate_routed(run.pools[1 + below(POOLS - 1)], block->bytes, &address);
    else
        OK(tarn_pool_malloc(run.pools[below(POOLS)], block->bytes, 0, NULL, &address));
    block->words = address;
    run.last_value += 1;
    write_ends(block, run.last_value);
    return block;
}

/* Copies the ends of the block to the results of the job. */
static void copy(tn_cu_stream stream, const struct block *block, struct job *job)
{
    job->value = block->value;
    test_copy(stream, job->to, block->words, sizeof block->value);
    test_copy(stream, job->to + 1, block->words + block->bytes / sizeof block->value - 1,
              sizeof block->value);
}

/* Names the stream to the library, and frees the block with that or behind it; or keeps it. */
static void name(struct block *block, tn_cu_stream stream)
{
    switch (below(3)) {
    case 0:
        OK(tarn_free_on(block->words, stream));
        block->words = NULL;
        break;
    case 1:
        OK(tarn_record_stream((char *)block->words + below(block->bytes), stream));
        OK(tarn_free(block->words));
        block->words = NULL;
        break;
    default:
        OK(tarn_record_stream(block->words, stream));
        break;
    }
}

static void do_allocate(void)
{
    (void)allocate();
}

static void do_free(void)
{
    struct block *block = pick(true);

    if (block == NULL)
        return;
    OK(tarn_free(block->words));
    block->words = NULL;
}

static void do_copy(void)
{
    struct block *block = pick(true);
    tn_cu_stream stream = run.streams[run.capture != NULL ? 1 : below(STREAMS)];
    struct job *job;

    if (block == NULL)
        return;
    if (run.job_count == JOBS)
        drain();
    job = &run.jobs[run.job_count];
    job->to = result_of(NULL, run.job_count);
    run.job_count += 1;
    copy(stream, block, job);
    name(block, stream);
}

/* Writes the saved block, takes a checkpoint, writes the block again, and restores: all on a stream
 * that has not begun. What is copied behind it is what was written first. */
static void do_contents(void)
{
    tn_cu_stream stream = run.streams[1];
    const uint32_t value = (uint32_t)(run.last_value += 1);
    const size_t which = below(2);
    uint32_t *saved = run.saved[which];
    tarn_checkpoint *checkpoint = NULL;
    struct job *job;

    if (run.job_count == JOBS)
        drain();
    test_set_words(stream, saved, value, SAVED_WORDS);
    OK(tarn_checkpoint_take(run.saved_pools[which], TARN_CONTENTS_HOST, stream, &checkpoint));
    test_set_words(stream, saved, 0xbad, SAVED_WORDS);
    OK(tarn_checkpoint_restore(checkpoint, stream, NULL));
    OK(tarn_checkpoint_destroy(checkpoint)); /* its memory is used, and waits */
    job = &run.jobs[run.job_count];
    job->to = result_of(NULL, run.job_count);
    job->value = value * UINT64_C(0x100000001);
    run.job_count += 1;
    test_copy(stream, job->to, saved, sizeof job->value);
    test_copy(stream, job->to + 1, saved + SAVED_WORDS - 2, sizeof job->value);
}

static void do_begin(void)
{
    struct graph *graph = &run.graphs[below(GRAPHS)];

    if (run.capture != NULL || graph->handle != NULL)
        return;
    drain(); /* the stream cannot be waited for meanwhile; and a graph that is gone had these results */
    run.is_strict = below(2) == 0;
    run.capture = test_capture_on(world.pool, run.streams[0],
                                  run.is_strict ? TARN_CAPTURE_GLOBAL : TARN_CAPTURE_RELAXED);
    run.captured = graph;
    graph->job_count = 0;
    run.capture_count += 1;
}

static void do_captured_copy(void)
{
    struct graph *graph = run.captured;
    struct block *block = below(2) == 0 ? allocate() : pick(true);
    struct job *job;

    if (run.capture == NULL || graph->job_count == INPUTS || block == NULL)
        return;
    job = &graph->jobs[graph->job_count];
    job->to = result_of(graph, graph->job_count);
    graph->job_count += 1;
    copy(run.streams[0], block, job);
    name(block, run.streams[0]);
}

static void do_replay(void)
{
    struct graph *graph = &run.graphs[below(GRAPHS)];

    if (graph->handle == NULL)
        return;
    if (below(4) != 0) { /* one after the other, and looked at */
        drain();
        memset(result_of(graph, 0), 0, sizeof(uint64_t[2][INPUTS]));
    }
    if (below(2) == 0) {
        sim.resume_work(); /* a replay may wait for the device */
        OK(tarn_graph_replay(graph->handle, run.streams[1]));
        sim.hold_work();
    } else {
        tarn_driver_exec exec = NULL;

        OK(tarn_graph_driver_handles(graph->handle, NULL, &exec));
        test_launch(exec, run.streams[1]); /* stays on its way */
    }
    if (below(2) == 0)
        return;
    drain();
    for (size_t i = 0; i < graph->job_count; i++)
        expect_done(&graph->jobs[i], "of a graph");
}

static void do_destroy(void)
{
    struct graph *graph = &run.graphs[below(GRAPHS)];

    if (graph->handle == NULL)
        return;
    OK(tarn_graph_destroy(graph->handle)); /* its launches may run */
    graph->handle = NULL;
    OK(tarn_device_collect(world.device));
}

static void do_drain(void)
{
    drain();
}

static void do_look(void)
{
    size_t freed = 0;
    tarn_pool *pool = run.pools[below(POOLS)];

    OK(tarn_pool_validate(pool));
    if (below(4) != 0 || run.capture != NULL)
        return;
    drain();
    sim.resume_work();
    OK(tarn_pool_trim(pool, &freed));
    sim.hold_work();
}

static void step(void)
{
    static void (*const steps[])(void) = {
        do_allocate,      do_allocate, do_free,     do_copy,   do_copy,
        do_begin,         do_begin,    do_contents, do_replay, do_captured_copy,
        do_captured_copy, do_end,      do_destroy,  do_drain,  do_look,
    };

    steps[below(sizeof steps / sizeof steps[0])]();
}

static void begin(uint64_t seed)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    void *address = NULL;

    memset(&run, 0, sizeof run);
    run.random = seed;
    options.location = TARN_LOCATION_HOST;
    run.pools[1] = test_pool_with(&options);
    options.location = TARN_LOCATION_REGISTERED;
    run.pools[2] = test_pool_with(&options);
    OK(tarn_host_pool(world.device, &run.pools[0]));
    for (size_t i = 0; i < 2; i++) {
        run.saved_pools[i] = test_pool("saved");
        run.saved[i] =
            test_alloc(run.saved_pools[i], SAVED_WORDS * sizeof *run.saved[i], world.side);
    }
    run.streams[0] = world.stream;
    run.streams[1] = world.side;
    OK(tarn_host_malloc(world.device, 2 * (JOBS + GRAPHS * INPUTS) * sizeof(uint64_t), &address));
    run.results = address;
    sim.hold_work();
}

/* Everything goes, and nothing is left that waits. */
static void end(void)
{
    do_end();
    drain();
    sim.resume_work();
    for (size_t i = 0; i < GRAPHS; i++) {
        if (run.graphs[i].handle != NULL)
            OK(tarn_graph_destroy(run.graphs[i].handle));
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        if (run.blocks[i].words != NULL)
            OK(tarn_free(run.blocks[i].words));
    }
    OK(tarn_free(run.results));
    for (size_t i = 0; i < 2; i++) {
        OK(tarn_free(run.saved[i]));
        OK(tarn_pool_destroy(run.saved_pools[i]));
    }
    test_wait_for_all();
    test_await_destructors(0);
    OK(tarn_device_collect(world.device));
    for (size_t i = 0; i < POOLS; i++) {
        OK(tarn_pool_trim(run.pools[i], NULL));
        ck_assert_uint_eq(test_stats(run.pools[i]).mapped_bytes, 0);
        ck_assert_uint_eq(test_stats(run.pools[i]).pending_count, 0);
        OK(tarn_pool_validate(run.pools[i]));
    }
    for (size_t i = 1; i < POOLS; i++)
        OK(tarn_pool_destroy(run.pools[i]));
}

SUITE("page-locked memory by chance")
GROUP(locked, test_world_open, test_world_close, .name = "page-locked memory by chance",
      .timeout = 3600)

TEST_LOOP(locked, a_copy_reads_what_its_block_had, 0, RUNS)
{
    uint64_t seed = setting("TARN_LOCKED_SEED", 1) + (uint64_t)_i;
    uint64_t count = setting("TARN_LOCKED_STEPS", STEPS);

    printf("TARN_LOCKED_SEED=%llu TARN_LOCKED_STEPS=%llu\n", (unsigned long long)seed,
           (unsigned long long)count);
    begin(seed);
    for (uint64_t i = 0; i < count; i++)
        step();
    end();
    ck_assert_uint_gt(run.capture_count, count / 100);
    printf("%llu captures\n", (unsigned long long)run.capture_count);
}
