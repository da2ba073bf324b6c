// SPDX-License-Identifier: Apache-2.0
/* Pairs of a 1 MiB block as there is more of something:
 *   threads   1 to 16, as many as the machine has cores for, each on a stream of its own, or all on one
 *   streams   1 to 256, one thread that goes round them
 *   pools     1 to 1,000, one thread that goes round them on one stream; with smaller blocks, so that all
 *             of them fit
 * The driver's allocator does the same on threads and streams. A pool of it for each of Tarn's would be
 * no rival for what Tarn's private pools are for. */
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"
#include "harness.h"
#include "pair.h"
#include "report.h"
#include "rows.h"

enum {
    SAMPLES = 41,
    STREAMS_MAX = 256,
    STREAMS_FACTOR = 4,
    POOLS_MAX = 1000,
    POOLS_FACTOR = 10,
    POOL_BLOCK_BYTES = 64 << 10,
};

/* ---- threads ------------------------------------------------------------------------------- */

struct rate {
    const struct pair_contender *contender;
    bool one_stream;
    struct bench_series series;
};

static void report_rate(const struct rate *rate, unsigned thread_count)
{
    char variant[64];

    (void)snprintf(variant, sizeof variant, "%u threads%s", thread_count,
                   rate->one_stream ? ", one stream" : "");
    bench_report("scaling", variant, rate->contender->rival, "million pairs/s",
                 bench_summarize(&rate->series));
}

static void on_threads(const struct bench *bench, unsigned thread_count)
{
    struct rate rates[] = {{.contender = &pair_tarn},
                           {.contender = &pair_tarn, .one_stream = true},
                           {.contender = &pair_spin_lock},
                           {.contender = &pair_driver},
                           {.contender = &pair_driver, .one_stream = true}};
    size_t rate_count = cu.rival_pool != NULL ? 5 : 3;
    struct bench_plan plan = bench_plan_for(bench->quick, SAMPLES);
    struct pair_lane own[PAIR_THREADS_MAX];
    struct pair_lane shared[PAIR_THREADS_MAX];

    for (unsigned i = 0; i < thread_count; i++) {
        own[i] = (struct pair_lane){bench->device, bench_stream_create(), PAIR_MAIN_BYTES,
                                    ATOMIC_FLAG_INIT};
        shared[i] =
            (struct pair_lane){bench->device, own[0].stream, PAIR_MAIN_BYTES, ATOMIC_FLAG_INIT};
    }
    for (size_t round = 0; round < plan.sample_count; round++) {
        for (size_t i = 0; i < rate_count; i++)
            bench_series_add(&rates[i].series,
                             pair_measure_rate(rates[i].contender,
                                               rates[i].one_stream ? shared : own, thread_count,
                                               pair_window_ns(bench)));
    }
    for (size_t i = 0; i < rate_count; i++)
        report_rate(&rates[i], thread_count);
    for (unsigned i = 0; i < thread_count; i++)
        bench_stream_destroy(own[i].stream);
}

/* ---- streams and pools --------------------------------------------------------------------- */

struct round {
    const struct pair_contender *contender; /* of streams */
    struct pair_lane lanes[STREAMS_MAX];
    tarn_pool *pools[POOLS_MAX];
    tarn_stream stream; /* of pools */
    size_t count;       /* of lanes or pools */
    size_t next;
};

static void run_streams(void *context, size_t iterations)
{
    struct round *round = context;

    for (size_t i = 0; i < iterations; i++) {
        round->contender->pair(&round->lanes[round->next]);
        round->next = round->next + 1 < round->count ? round->next + 1 : 0;
    }
}

static void drain_streams(void *context)
{
    const struct round *round = context;

    for (size_t i = 0; i < round->count; i++)
        bench_stream_drain(round->lanes[i].stream);
}

static void run_pools(void *context, size_t iterations)
{
    struct round *round = context;

    for (size_t i = 0; i < iterations; i++) {
        void *address = NULL;

        BENCH_OK(tarn_pool_malloc(round->pools[round->next], POOL_BLOCK_BYTES, 0, round->stream,
                                  &address));
        BENCH_OK(tarn_free(address));
        round->next = round->next + 1 < round->count ? round->next + 1 : 0;
    }
}

static struct round *create_round(const struct pair_contender *contender, size_t count)
{
    struct round *round = calloc(1, sizeof *round);

    if (round == NULL)
        bench_fail("no host memory");
    round->contender = contender;
    round->count = count;
    return round;
}

static void on_streams(const struct bench *bench, size_t count)
{
    struct round *tarn = create_round(&pair_tarn, count);
    struct round *driver = create_round(&pair_driver, count);
    struct bench_case cases[] = {{NULL, run_streams, drain_streams, tarn, 0},
                                 {NULL, run_streams, drain_streams, driver, 0}};
    struct bench_plan plan = bench_plan_for(bench->quick, SAMPLES);
    size_t case_count = cu.rival_pool != NULL ? 2 : 1;
    struct bench_series series[2];
    char variant[64];

    for (size_t i = 0; i < count; i++) {
        tarn->lanes[i] = (struct pair_lane){bench->device, bench_stream_create(), PAIR_MAIN_BYTES,
                                            ATOMIC_FLAG_INIT};
        driver->lanes[i] = tarn->lanes[i];
    }
    for (size_t i = 0; i < case_count; i++)
        run_streams(cases[i].context, count); /* each has its memory */
    bench_measure(&plan, cases, case_count, series);
    (void)snprintf(variant, sizeof variant, "%zu streams", count);
    for (size_t i = 0; i < case_count; i++)
        bench_report("scaling", variant, i == 0 ? NULL : pair_driver.rival, "ns",
                     bench_summarize(&series[i]));
    for (size_t i = 0; i < count; i++)
        bench_stream_destroy(tarn->lanes[i].stream);
    free(tarn);
    free(driver);
}

static void on_pools(const struct bench *bench, size_t count)
{
    struct round *round = create_round(&pair_tarn, count);
    struct bench_case subject = {NULL, run_pools, NULL, round, 0};
    struct bench_plan plan = bench_plan_for(bench->quick, SAMPLES);
    struct bench_series series;
    char variant[64];

    round->stream = bench_stream_create();
    for (size_t i = 0; i < count; i++)
        BENCH_OK(tarn_pool_create(bench->device, NULL, &round->pools[i]));
    run_pools(round, count); /* each has its memory */
    bench_measure(&plan, &subject, 1, &series);
    for (size_t i = 0; i < count; i++)
        BENCH_OK(tarn_pool_destroy(round->pools[i]));
    bench_stream_destroy(round->stream);
    free(round);
    (void)snprintf(variant, sizeof variant, "%zu pools", count);
    bench_report("scaling", variant, NULL, "ns", bench_summarize(&series));
}

void bench_row_scaling(const struct bench *bench)
{
    unsigned threads_max = pair_choose_thread_count();

    for (unsigned count = 1; count <= threads_max; count *= 2)
        on_threads(bench, count);
    for (size_t count = 1; count <= STREAMS_MAX; count *= STREAMS_FACTOR)
        on_streams(bench, count);
    for (size_t count = 1; count <= POOLS_MAX; count *= POOLS_FACTOR)
        on_pools(bench, count);
}
