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
 * The graph is one kernel on one block of its pool. A pool with two graphs orders their replays;
 * they are launched in turn. */
#include <stddef.h>

#include "driver.h"
#include "harness.h"
#include "quiet.h"
#include "report.h"
#include "rows.h"

enum {
    GRAPHS_MAX = 2,
    BATCHES = 2001,
    QUICK_BATCHES = 5,
    WARM_UP_BATCHES = 50,
    QUICK_WARM_UP_BATCHES = 2,
    AGAIN = 3,    /* so many times the batches that count may be disturbed */
    ROUNDS = 100, /* of a batch: far fewer launches than the driver queues */
};

/* ASKED: a launch, and before it the question for the stream's id, which is what tells streams apart. */
enum { REPLAY, LAUNCH, ASKED, KIND_COUNT };

/* Some graphs of one pool; graph_count is a power of two. */
struct graphs {
    tarn_pool *pool;
    tarn_stream stream;
    size_t graph_count;
    tarn_graph *graphs[GRAPHS_MAX];
    tarn_driver_exec execs[GRAPHS_MAX]; /* those of the graphs */
};

static tarn_graph *capture(tarn_device *device, tarn_pool *pool, tarn_stream stream)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    void *word = NULL;

    BENCH_OK(tarn_capture_begin(pool, stream, TARN_CAPTURE_GLOBAL, &capture));
    BENCH_OK(tarn_malloc(device, sizeof(uint32_t), stream, &word));
    bench_touch_launch(stream, word);
    BENCH_OK(tarn_free(word));
    BENCH_OK(tarn_capture_end(capture, &graph));
    return graph;
}

static void create_graphs(struct graphs *made, const struct bench *bench, size_t graph_count)
{
    made->graph_count = graph_count;
    made->stream = bench_stream_create();
    BENCH_OK(tarn_pool_create(bench->device, NULL, &made->pool));
    for (size_t i = 0; i < graph_count; i++) {
        made->graphs[i] = capture(bench->device, made->pool, made->stream);
        BENCH_OK(tarn_graph_driver_handles(made->graphs[i], NULL, &made->execs[i]));
    }
}

static void destroy_graphs(struct graphs *graphs)
{
    bench_stream_drain(graphs->stream);
    for (size_t i = 0; i < graphs->graph_count; i++)
        BENCH_OK(tarn_graph_destroy(graphs->graphs[i]));
    BENCH_OK(tarn_pool_destroy(graphs->pool));
    bench_stream_destroy(graphs->stream);
}

static void ask(tarn_stream stream)
{
    unsigned long long id;

    BENCH_CU(cu.cuStreamGetId(stream, &id));
}

/* The time of one launch, in ns. */
static double launch(const struct graphs *graphs, size_t graph, int kind)
{
    uint64_t begin = bench_now();

    if (kind == REPLAY)
        BENCH_OK(tarn_graph_replay(graphs->graphs[graph], graphs->stream));
    if (kind == ASKED)
        ask(graphs->stream);
    if (kind != REPLAY)
        BENCH_CU(cu.cuGraphLaunch(graphs->execs[graph], graphs->stream));
    return (double)(bench_now() - begin);
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

static void forget(struct bench_series series[KIND_COUNT])
{
    for (int kind = 0; kind < KIND_COUNT; kind++)
        series[kind].count = 0;
}

static void compare(const struct bench *bench, size_t graph_count, const char *variant,
                    const char *variant_added)
{
    size_t batch_count = bench->quick ? QUICK_BATCHES : BATCHES;
    size_t warm_up_count = bench->quick ? QUICK_WARM_UP_BATCHES : WARM_UP_BATCHES;
    size_t again = AGAIN * batch_count;
    struct bench_series series[KIND_COUNT];
    struct graphs graphs;
    uint64_t random = BENCH_RANDOM_SEED;

    create_graphs(&graphs, bench, graph_count);
    forget(series);
    bench_quiet_begin();
    while (series[REPLAY].count < warm_up_count)
        play_batch(&graphs, &random, &again, series);
    forget(series);
    while (series[REPLAY].count < batch_count)
        play_batch(&graphs, &random, &again, series);
    bench_quiet_end();
    destroy_graphs(&graphs);
    bench_report("replay", variant, NULL, "ns", bench_summarize(&series[REPLAY]));
    bench_report("replay", variant, "cuGraphLaunch", "ns", bench_summarize(&series[LAUNCH]));
    bench_report("replay", variant_added, NULL, "ns",
                 bench_difference(&series[REPLAY], &series[LAUNCH]));
    bench_report("replay", variant_added, "a question for the stream's id", "ns",
                 bench_difference(&series[ASKED], &series[LAUNCH]));
}

void bench_row_replay(const struct bench *bench)
{
    bench_touch_load();
    compare(bench, 1, "one graph", "one graph, added");
    compare(bench, 2, "ordered graphs", "ordered graphs, added");
    bench_touch_unload();
}
