// SPDX-License-Identifier: Apache-2.0
/* What Tarn adds to a capture: the same 10,000 kernels are captured by the driver alone, in a capture of
 * a pool, and in one that allocates and frees a block for every kernel.
 *
 * A capture goes over four streams in sections: one stream forks to the others by events, each has kernels
 * in turn, and they join again. All blocks are freed on the streams that they were allocated on. In the
 * capture of a pool each stream has one for a section, so that the pool has its share of the capture, and
 * next to nothing to do.
 *
 * Beside them is what the driver takes for the one question that Tarn has for it at each allocation: which capture
 * the stream is in.
 *
 * All capture into a graph that is there already, by the same calls of the driver, and the time
 * ends with the capture: to instantiate that graph takes several times longer, and would hide what is
 * looked for. They take turns, and what counts is the difference beside the driver alone. */
#include <stdint.h>
#include <time.h>

#include "driver.h"
#include "harness.h"
#include "report.h"
#include "rows.h"

enum {
    SAMPLES = 201,
    STREAMS = 4,
    SECTIONS = 25,
    KERNELS = 100, /* of a stream in a section */
    NODES = STREAMS * SECTIONS * KERNELS,
    BLOCK_BYTES = 1 << 20,
    PATIENCE_NS = 1000000000,
};

/* Whose kernels have which blocks. ASKED: none, but the driver is asked for the stream's capture before each kernel. */
enum { ALONE, ASKED, IN_POOL, BLOCK_EACH, KIND_COUNT };

struct section_capture {
    tarn_device *device;
    tarn_pool *pool;
    tarn_stream streams[STREAMS]; /* the first one forks */
    tn_cu_event events[STREAMS];  /* of each stream */
    void *block;                  /* that was there before */
    int kind;
    tn_cu_graph graph;
    tarn_capture *capture;
};

static bool uses_pool(const struct section_capture *made)
{
    return made->kind == IN_POOL || made->kind == BLOCK_EACH;
}

static void create_graph(void *context)
{
    struct section_capture *made = context;

    BENCH_CU(cu.cuGraphCreate(&made->graph, 0));
}

static void fork_streams(const struct section_capture *made)
{
    BENCH_CU(cu.cuEventRecord(made->events[0], made->streams[0]));
    for (size_t i = 1; i < STREAMS; i++)
        BENCH_CU(cu.cuStreamWaitEvent(made->streams[i], made->events[0], 0));
}

static void join_streams(const struct section_capture *made)
{
    for (size_t i = 1; i < STREAMS; i++) {
        BENCH_CU(cu.cuEventRecord(made->events[i], made->streams[i]));
        BENCH_CU(cu.cuStreamWaitEvent(made->streams[0], made->events[i], 0));
    }
}

static void *allocate(const struct section_capture *made, tarn_stream stream)
{
    void *block = NULL;

    BENCH_OK(tarn_malloc(made->device, BLOCK_BYTES, stream, &block));
    return block;
}

static void ask(tarn_stream stream)
{
    tn_cu_capture_status status;
    uint64_t id;

    BENCH_CU(cu.cuStreamGetCaptureId(stream, &status, &id));
}

static void launch_on_blocks(const struct section_capture *made, void *const blocks[STREAMS])
{
    for (size_t i = 0; i < KERNELS; i++) {
        for (size_t stream = 0; stream < STREAMS; stream++) {
            if (made->kind == ASKED)
                ask(made->streams[stream]);
            bench_touch_launch(made->streams[stream], blocks[stream]);
        }
    }
}

static void launch_with_blocks(const struct section_capture *made)
{
    for (size_t i = 0; i < KERNELS; i++) {
        for (size_t stream = 0; stream < STREAMS; stream++) {
            void *block = allocate(made, made->streams[stream]);

            bench_touch_launch(made->streams[stream], block);
            BENCH_OK(tarn_free(block));
        }
    }
}

static void record_section(const struct section_capture *made)
{
    void *blocks[STREAMS];

    fork_streams(made);
    for (size_t i = 0; i < STREAMS; i++)
        blocks[i] = made->kind == IN_POOL ? allocate(made, made->streams[i]) : made->block;
    if (made->kind == BLOCK_EACH)
        launch_with_blocks(made);
    else
        launch_on_blocks(made, blocks);
    for (size_t i = 0; i < STREAMS && made->kind == IN_POOL; i++)
        BENCH_OK(tarn_free(blocks[i]));
    join_streams(made);
}

static void record(void *context, size_t iterations)
{
    struct section_capture *made = context;
    tarn_capture_options options = TARN_CAPTURE_OPTIONS_INIT;

    (void)iterations;
    options.driver_graph = made->graph;
    if (!uses_pool(made))
        BENCH_CU(cu.cuStreamBeginCaptureToGraph(made->streams[0], made->graph, NULL, NULL, 0,
                                                TN_CU_CAPTURE_MODE_GLOBAL));
    else
        BENCH_OK(tarn_capture_begin(made->pool, made->streams[0], &options, &made->capture));
    for (size_t i = 0; i < SECTIONS; i++)
        record_section(made);
    if (!uses_pool(made))
        BENCH_CU(cu.cuStreamEndCapture(made->streams[0], &made->graph));
    else
        BENCH_OK(tarn_capture_end(made->capture, NULL));
}

static uint64_t captured_bytes(tarn_pool *pool)
{
    tarn_stats stats = TARN_STATS_INIT;

    stats.walk = true;
    BENCH_OK(tarn_pool_stats(pool, &stats));
    return stats.captured_bytes;
}

/* A thread of the driver's lets go of the memory of a graph that is gone; it is not to do so while the next
 * sample runs. */
static void await_memory(tarn_pool *pool)
{
    const struct timespec pause = {.tv_nsec = 20000};
    uint64_t begin = bench_now();

    while (captured_bytes(pool) > 0) {
        if (bench_now() - begin > PATIENCE_NS)
            bench_fail("a graph that is gone has memory still");
        (void)nanosleep(&pause, NULL);
    }
}

/* A capture that lacks kernels or has other nodes would be no comparison, nor one whose blocks are not
 * the graph's. */
static void destroy_graph(void *context)
{
    const struct section_capture *made = context;
    size_t count = 0;

    BENCH_CU(cu.cuGraphGetNodes(made->graph, NULL, &count));
    if (count != NODES)
        bench_fail("a capture has %zu nodes, not %d", count, NODES);
    if ((captured_bytes(made->pool) > 0) != uses_pool(made))
        bench_fail("a capture has memory of the pool, or lacks it, as it should not");
    BENCH_CU(cu.cuGraphDestroy(made->graph));
    await_memory(made->pool);
}

/* What the one takes more than the other, in percent of that. */
static struct bench_summary added(const struct bench_series *with, const struct bench_series *alone)
{
    return bench_scaled(bench_difference(with, alone), 100 / bench_summarize(alone).median);
}

static void report(const char *variant, const char *variant_added, const struct bench_series *with,
                   const struct bench_series *alone)
{
    bench_report("capture", variant, NULL, "us", bench_scaled(bench_summarize(with), 1e-3));
    bench_report("capture", variant, "the driver alone", "us",
                 bench_scaled(bench_summarize(alone), 1e-3));
    bench_report("capture", variant_added, NULL, "%", added(with, alone));
}

void bench_row_capture_cost(const struct bench *bench)
{
    struct section_capture base = {.device = bench->device};
    struct section_capture captures[KIND_COUNT];
    struct bench_case cases[KIND_COUNT];
    struct bench_plan plan = bench_plan_for(bench->quick, SAMPLES);
    static struct bench_series series[KIND_COUNT];

    BENCH_OK(tarn_pool_create(bench->device, NULL, &base.pool));
    for (size_t i = 0; i < STREAMS; i++) {
        base.streams[i] = bench_stream_create();
        BENCH_CU(cu.cuEventCreate(&base.events[i], TN_CU_EVENT_DISABLE_TIMING));
    }
    BENCH_OK(tarn_pool_malloc(base.pool, BLOCK_BYTES, 0, base.streams[0], &base.block));
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        captures[kind] = base;
        captures[kind].kind = kind;
        cases[kind] = (struct bench_case){create_graph, record, destroy_graph, &captures[kind], 1};
    }
    bench_measure(&plan, cases, KIND_COUNT, series);
    BENCH_OK(tarn_free(base.block));
    BENCH_OK(tarn_pool_destroy(base.pool));
    for (size_t i = 0; i < STREAMS; i++) {
        BENCH_CU(cu.cuEventDestroy(base.events[i]));
        bench_stream_destroy(base.streams[i]);
    }
    report("10000 kernels in a pool", "10000 kernels in a pool, added", &series[IN_POOL],
           &series[ALONE]);
    report("10000 kernels, a block each", "10000 kernels, a block each, added", &series[BLOCK_EACH],
           &series[ALONE]);
    bench_report("capture", "10000 kernels, a block each, added", "a question for the capture each",
                 "%", added(&series[ASKED], &series[ALONE]));
}
