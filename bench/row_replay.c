// SPDX-License-Identifier: Apache-2.0
/* tarn_graph_replay beside cuGraphLaunch of the very same executable graph: what Tarn adds to a
 * launch. Batches of one and of the other alternate, and the stream is drained before each, since
 * a launch on a full queue waits for the GPU.
 *
 * The graph is one kernel on one block of its pool. A pool with two graphs orders their replays;
 * they are launched in turn. */
#include <stddef.h>

#include "driver.h"
#include "harness.h"
#include "report.h"
#include "rows.h"

enum {
    GRAPHS_MAX = 2,
    SAMPLES = 1001,
    LAUNCHES_MAX = 100, /* of a batch: far less than the driver queues */
};

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

static void replay(void *context, size_t iterations)
{
    const struct graphs *given = context;

    for (size_t i = 0; i < iterations; i++)
        BENCH_OK(tarn_graph_replay(given->graphs[i & (given->graph_count - 1)], given->stream));
}

static void launch(void *context, size_t iterations)
{
    const struct graphs *given = context;

    for (size_t i = 0; i < iterations; i++)
        BENCH_CU(cu.cuGraphLaunch(given->execs[i & (given->graph_count - 1)], given->stream));
}

static void drain(void *context)
{
    const struct graphs *given = context;

    bench_stream_drain(given->stream);
}

static void compare(const struct bench *bench, size_t graph_count, const char *variant,
                    const char *variant_added)
{
    struct bench_plan plan = bench_plan_for(bench->quick, SAMPLES);
    struct bench_series series[2];
    struct graphs graphs;
    struct bench_case cases[] = {{drain, replay, NULL, &graphs, LAUNCHES_MAX},
                                 {drain, launch, NULL, &graphs, LAUNCHES_MAX}};

    create_graphs(&graphs, bench, graph_count);
    bench_measure(&plan, cases, 2, series);
    destroy_graphs(&graphs);
    bench_report("replay", variant, NULL, "ns", bench_summarize(&series[0]));
    bench_report("replay", variant, "cuGraphLaunch", "ns", bench_summarize(&series[1]));
    bench_report("replay", variant_added, NULL, "ns", bench_difference(&series[0], &series[1]));
}

void bench_row_replay(const struct bench *bench)
{
    bench_touch_load();
    compare(bench, 1, "one graph", "one graph, added");
    compare(bench, 2, "ordered graphs", "ordered graphs, added");
    bench_touch_unload();
}
