// SPDX-License-Identifier: Apache-2.0
/* tarn_graph_replay beside cuGraphLaunch of the very same executable graph: what Tarn adds to a
 * launch.
 *
 * That is a thousandth of what a launch takes, and less than launches differ from one moment to the next.
 * So each launch is timed alone, and they go in rounds: one of each kind, whichever comes first by chance,
 * neighbours in the same queue. Of a batch of rounds the middle half of each kind's times is averaged, and
 * what counts is the difference within the batch. The stream is drained before each batch, since a launch
 * on a full queue waits for the GPU. Reading the clock costs both kinds the same.
 *
 * Each process has a difference of its own, by where its code and data lie. So there are several (bench/parts.h), and
 * the figure is the median of theirs.
 *
 * The graph is one kernel on one block of its pool. A pool with two graphs orders their replays;
 * they are launched in turn. A guarded one is of a block of another pool. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "harness.h"
#include "parts.h"
#include "quiet.h"
#include "report.h"
#include "rows.h"

enum {
    GRAPHS_MAX = 2,
    PROCESSES = 21,
    BATCHES = 97, /* in each process */
    QUICK_PROCESSES = 2,
    QUICK_BATCHES = 5,
    WARM_UP_BATCHES = 50,
    QUICK_WARM_UP_BATCHES = 2,
    AGAIN = 3,    /* so many times the batches that count may be disturbed */
    ROUNDS = 100, /* of a batch: far fewer launches than the driver queues */
};

_Static_assert(PROCESSES *BATCHES <= BENCH_SAMPLES_MAX, "a series has all of them");

/* What is replayed. GUARDED: one graph, of a block of the default pool, with TARN_GUARD_REFUSE. */
enum { ONE, ORDERED, GUARDED, VARIANT_COUNT };

/* ASKED: a launch, and before it the question for the stream's id, which is what tells streams apart. */
enum { REPLAY, LAUNCH, ASKED, KIND_COUNT };

/* Some graphs of one pool; graph_count is a power of two. */
struct graphs {
    tarn_pool *pool;
    tarn_stream stream;
    size_t graph_count;
    void *input; /* GUARDED: what is referred to; else NULL */
    tarn_graph *graphs[GRAPHS_MAX];
    tarn_driver_exec execs[GRAPHS_MAX]; /* those of the graphs */
};

static tarn_graph *capture(tarn_device *device, tarn_pool *pool, tarn_stream stream)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    void *word = NULL;

    BENCH_OK(tarn_capture_begin(pool, stream, NULL, &capture));
    BENCH_OK(tarn_malloc(device, sizeof(uint32_t), stream, &word));
    bench_touch_launch(stream, word);
    BENCH_OK(tarn_free(word));
    BENCH_OK(tarn_capture_end(capture, &graph));
    return graph;
}

static tarn_graph *capture_guarded(const struct graphs *made)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;

    BENCH_OK(tarn_capture_begin(made->pool, made->stream, NULL, &capture));
    bench_touch_launch(made->stream, made->input);
    BENCH_OK(tarn_capture_end(capture, &graph));
    BENCH_OK(tarn_graph_guard(graph, TARN_GUARD_REFUSE, NULL));
    return graph;
}

static void create_graphs(struct graphs *made, const struct bench *bench, int variant)
{
    *made =
        (struct graphs){.graph_count = variant == ORDERED ? 2 : 1, .stream = bench_stream_create()};
    BENCH_OK(tarn_pool_create(bench->device, NULL, &made->pool));
    if (variant == GUARDED)
        BENCH_OK(tarn_malloc(bench->device, sizeof(uint32_t), made->stream, &made->input));
    for (size_t i = 0; i < made->graph_count; i++) {
        made->graphs[i] = made->input != NULL ? capture_guarded(made)
                                              : capture(bench->device, made->pool, made->stream);
        BENCH_OK(tarn_graph_driver_handles(made->graphs[i], NULL, &made->execs[i]));
    }
}

static void destroy_graphs(struct graphs *graphs)
{
    bench_stream_drain(graphs->stream);
    for (size_t i = 0; i < graphs->graph_count; i++)
        BENCH_OK(tarn_graph_destroy(graphs->graphs[i]));
    BENCH_OK(tarn_free(graphs->input));
    BENCH_OK(tarn_pool_destroy(graphs->pool));
    bench_stream_destroy(graphs->stream);
}

/* What is timed, each kind alone and at the same place of a cache line: so that the processor's guess which kind it is,
 * and what a wrong guess costs, come before the first look at the clock. */
#define TIMED __attribute__((noinline, aligned(64)))

/* The time of one, in ns. */
static TIMED double time_replay(const struct graphs *graphs, size_t graph)
{
    uint64_t begin = bench_now();

    BENCH_OK(tarn_graph_replay(graphs->graphs[graph], graphs->stream));
    return (double)(bench_now() - begin);
}

static TIMED double time_launch(const struct graphs *graphs, size_t graph)
{
    uint64_t begin = bench_now();

    BENCH_CU(cu.cuGraphLaunch(graphs->execs[graph], graphs->stream));
    return (double)(bench_now() - begin);
}

static TIMED double time_asked(const struct graphs *graphs, size_t graph)
{
    unsigned long long id;
    uint64_t begin = bench_now();

    BENCH_CU(cu.cuStreamGetId(graphs->stream, &id));
    BENCH_CU(cu.cuGraphLaunch(graphs->execs[graph], graphs->stream));
    return (double)(bench_now() - begin);
}

static double launch(const struct graphs *graphs, size_t graph, int kind)
{
    switch (kind) {
    case REPLAY:
        return time_replay(graphs, graph);
    case LAUNCH:
        return time_launch(graphs, graph);
    default:
        return time_asked(graphs, graph);
    }
}

/* One that something disturbs does not count, as long as again, of which it takes one, is not 0. */
static void play_batch(const struct graphs *graphs, uint64_t *random, size_t *again,
                       struct bench_series series[KIND_COUNT])
{
    double times[KIND_COUNT][ROUNDS];

    bench_stream_drain(graphs->stream);
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t graph = round & (graphs->graph_count - 1);
        unsigned order = (unsigned)(bench_random(random) >> 32) % (2 * KIND_COUNT);

        for (unsigned i = 0; i < KIND_COUNT; i++) {
            /* Up from any of them, or down: all orders that three have. */
            int kind = (int)((order + (order < KIND_COUNT ? i : KIND_COUNT - i)) % KIND_COUNT);

            times[kind][round] = launch(graphs, graph, kind);
        }
    }
    if (!bench_quiet_keep() && *again > 0) {
        *again -= 1;
        return;
    }
    for (int kind = 0; kind < KIND_COUNT; kind++)
        bench_series_add(&series[kind], bench_middle_mean(times[kind], ROUNDS));
}

static size_t processes(const struct bench *bench)
{
    return bench->quick ? QUICK_PROCESSES : PROCESSES;
}

static size_t batches(const struct bench *bench)
{
    return bench->quick ? QUICK_BATCHES : BATCHES;
}

static void forget(struct bench_series series[KIND_COUNT])
{
    for (int kind = 0; kind < KIND_COUNT; kind++)
        series[kind].count = 0;
}

/* Measures the graphs in this process, and gives the series. */
static void give(const struct bench *bench, int variant)
{
    size_t batch_count = batches(bench);
    size_t warm_up_count = bench->quick ? QUICK_WARM_UP_BATCHES : WARM_UP_BATCHES;
    size_t again = AGAIN * batch_count;
    struct bench_series series[KIND_COUNT];
    struct graphs graphs;
    uint64_t random = BENCH_RANDOM_SEED;

    create_graphs(&graphs, bench, variant);
    forget(series);
    bench_quiet_begin();
    while (series[REPLAY].count < warm_up_count)
        play_batch(&graphs, &random, &again, series);
    forget(series);
    while (series[REPLAY].count < batch_count)
        play_batch(&graphs, &random, &again, series);
    bench_quiet_end();
    destroy_graphs(&graphs);
    for (int kind = 0; kind < KIND_COUNT; kind++)
        bench_part_give(series[kind].values, batch_count);
}

void bench_part_replay(const struct bench *bench)
{
    bench_touch_load();
    for (int variant = 0; variant < VARIANT_COUNT; variant++)
        give(bench, variant);
    bench_touch_unload();
}

/* One kind's batches for one number of graphs, in one process. */
static struct bench_series series_of(const struct bench *bench, const double *values,
                                     size_t process, int variant, int kind)
{
    size_t at = (process * VARIANT_COUNT + (size_t)variant) * KIND_COUNT + (size_t)kind;
    struct bench_series series = {.count = batches(bench)};

    memcpy(series.values, values + at * series.count, series.count * sizeof *values);
    return series;
}

/* All processes' batches. */
static struct bench_summary launches(const struct bench *bench, const double *values, int variant,
                                     int kind)
{
    struct bench_series all = {.count = 0};

    for (size_t process = 0; process < processes(bench); process++) {
        struct bench_series series = series_of(bench, values, process, variant, kind);

        for (size_t i = 0; i < series.count; i++)
            bench_series_add(&all, series.values[i]);
    }
    return bench_summarize(&all);
}

/* What the kind takes more than a launch, in each of the processes. */
static struct bench_summary added(const struct bench *bench, const double *values, int variant,
                                  int kind)
{
    struct bench_series differences = {.count = 0};

    for (size_t process = 0; process < processes(bench); process++) {
        struct bench_series with = series_of(bench, values, process, variant, kind);
        struct bench_series alone = series_of(bench, values, process, variant, LAUNCH);

        bench_series_add(&differences, bench_difference(&with, &alone).median);
    }
    return bench_summarize(&differences);
}

static void report(const struct bench *bench, const double *values, int variant)
{
    static const char *const names[] = {"one graph", "ordered graphs", "one guarded graph"};
    static const char *const added_names[] = {"one graph, added", "ordered graphs, added",
                                              "one guarded graph, added"};

    bench_report("replay", names[variant], NULL, "ns", launches(bench, values, variant, REPLAY));
    bench_report("replay", names[variant], "cuGraphLaunch", "ns",
                 launches(bench, values, variant, LAUNCH));
    bench_report("replay", added_names[variant], NULL, "ns", added(bench, values, variant, REPLAY));
    bench_report("replay", added_names[variant], "a question for the stream's id", "ns",
                 added(bench, values, variant, ASKED));
}

void bench_row_replay(const struct bench *bench)
{
    size_t count = VARIANT_COUNT * KIND_COUNT * batches(bench);
    double *values = calloc(processes(bench) * count, sizeof *values);

    if (values == NULL)
        bench_fail("no host memory");
    bench_parts_measure("replay", bench->quick, processes(bench), count, values);
    for (int variant = 0; variant < VARIANT_COUNT; variant++)
        report(bench, values, variant);
    free(values);
}
