// SPDX-License-Identifier: Apache-2.0
/* A capture from beginning to end: begun on a pool, filled with kernels, each on a block allocated
 * and freed in the capture, ended, which instantiates it, and replayed once. The graph before it is
 * gone, the pool's memory stays: so what is measured is the work of a program that captures its
 * second and later graphs.
 *
 * Destroying the graph is outside the time. What the driver takes of it is reported where it has an
 * account (account.h). */
#include <stdio.h>

#include "account.h"
#include "driver.h"
#include "harness.h"
#include "report.h"
#include "rows.h"

enum {
    SAMPLES = 501,
    BLOCK_BYTES = 1 << 20,
};

struct recording {
    const struct bench *bench;
    struct bench_account *account;
    tarn_pool *pool;
    tarn_stream stream;
    tarn_graph *graph;
    size_t kernel_count;
};

static void begin(void *context)
{
    struct recording *recording = context;

    bench_account_begin(recording->account);
}

static void record(void *context, size_t iterations)
{
    struct recording *recording = context;
    tarn_capture *capture = NULL;
    void *block = NULL;

    (void)iterations;
    BENCH_OK(tarn_capture_begin(recording->pool, recording->stream, NULL, &capture));
    for (size_t i = 0; i < recording->kernel_count; i++) {
        BENCH_OK(tarn_malloc(recording->bench->device, BLOCK_BYTES, recording->stream, &block));
        bench_touch_launch(recording->stream, block);
        BENCH_OK(tarn_free(block));
    }
    BENCH_OK(tarn_capture_end(capture, &recording->graph));
    BENCH_OK(tarn_graph_replay(recording->graph, recording->stream));
}

static void finish(void *context)
{
    struct recording *recording = context;

    bench_account_end(recording->account);
    bench_stream_drain(recording->stream);
    BENCH_OK(tarn_graph_destroy(recording->graph));
}

static void measure(const struct bench *bench, size_t kernel_count)
{
    struct recording recording = {.bench = bench, .kernel_count = kernel_count};
    struct bench_case subject = {begin, record, finish, &recording, 1};
    struct bench_plan plan = bench_plan_for(bench->quick, SAMPLES);
    struct bench_series series;
    char variant[64];

    recording.account = bench_account_create();
    recording.stream = bench_stream_create();
    BENCH_OK(tarn_pool_create(bench->device, NULL, &recording.pool));
    bench_measure(&plan, &subject, 1, &series);
    BENCH_OK(tarn_pool_destroy(recording.pool));
    bench_stream_destroy(recording.stream);
    (void)snprintf(variant, sizeof variant, "%zu kernels", kernel_count);
    bench_report("capture", variant, NULL, "us", bench_scaled(bench_summarize(&series), 1e-3));
    bench_account_report(recording.account, "capture", variant);
}

void bench_row_capture(const struct bench *bench)
{
    bench_touch_load();
    measure(bench, 1);
    measure(bench, 10);
    measure(bench, 100);
    bench_row_capture_cost(bench);
    bench_touch_unload();
}
