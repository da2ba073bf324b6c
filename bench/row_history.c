// SPDX-License-Identifier: Apache-2.0
/* What a device's history adds to a pair, alone and on all threads: with every allocation and free
 * recorded; with stacks of 16 frames; and with stacks of one allocation in 2 MiB.
 *
 * A process measures with the settings that its environment names. Processes with and without a
 * history take turns, for each has its own luck with where its code and data lie. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "harness.h"
#include "pair.h"
#include "parts.h"
#include "report.h"
#include "rows.h"

enum {
    ROUNDS = 11,
    SAMPLES = 51,
    WINDOWS = 5,
    BLOCK_BYTES = 4096,
    FRAMES = 16, /* of a stack, with those of main and of the C library */
    OTHER_FRAMES = 8,
};

/* The numbers of a process. */
enum { PAIR_NS, RATE, NUMBERS };

static const struct setting {
    const char *variant;
    const char *conf; /* TARN_CONF */
} settings[] = {
    {"without", "history_bytes:none"},
    {"recorded", "history_bytes:16M"},
    {"with stacks", "history_bytes:16M,history_stacks:frames"},
    {"with sampled stacks", "history_bytes:16M,history_stacks:frames,history_sample_bytes:2097152"},
};

enum { SETTINGS = sizeof settings / sizeof *settings };

/* ---- a process ------------------------------------------------------------------------------ */

static __attribute__((noinline)) void do_pairs(const struct pair_lane *lane, size_t iterations)
{
    for (size_t i = 0; i < iterations; i++) {
        void *address;

        BENCH_OK(tarn_malloc(lane->device, lane->bytes, lane->stream, &address));
        BENCH_OK(tarn_free(address));
    }
    __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void go_deeper(const struct pair_lane *lane, size_t iterations,
                                                int depth)
{
    if (depth == 0)
        do_pairs(lane, iterations);
    else
        go_deeper(lane, iterations, depth - 1);
    __asm__ volatile("" ::: "memory"); /* the call is not the last action */
}

static void run_pairs(void *context, size_t iterations)
{
    go_deeper(context, iterations, FRAMES - OTHER_FRAMES);
}

static void drain_pairs(void *context)
{
    const struct pair_lane *lane = context;

    bench_stream_drain(lane->stream);
}

static double measure_rate(const struct bench *bench)
{
    const unsigned thread_count = pair_choose_thread_count();
    struct pair_lane lanes[PAIR_THREADS_MAX];
    struct bench_series series = {.count = 0};

    for (unsigned i = 0; i < thread_count; i++)
        lanes[i] =
            (struct pair_lane){bench->device, bench_stream_create(), BLOCK_BYTES, ATOMIC_FLAG_INIT};
    for (int i = 0; i < WINDOWS; i++)
        bench_series_add(&series,
                         pair_measure_rate(&pair_tarn, lanes, thread_count, pair_window_ns(bench)));
    for (unsigned i = 0; i < thread_count; i++)
        bench_stream_destroy(lanes[i].stream);
    return bench_summarize(&series).median;
}

void bench_part_history(const struct bench *bench)
{
    struct bench_plan plan = bench_plan_for(bench->quick, SAMPLES);
    struct pair_lane lane = {bench->device, bench_stream_create(), BLOCK_BYTES, ATOMIC_FLAG_INIT};
    struct bench_case work = {NULL, run_pairs, drain_pairs, &lane, 0};
    struct bench_series series;
    double numbers[NUMBERS];

    bench_measure(&plan, &work, 1, &series);
    numbers[PAIR_NS] = bench_summarize(&series).median;
    bench_stream_destroy(lane.stream);
    numbers[RATE] = measure_rate(bench);
    bench_part_give(numbers, NUMBERS);
}

/* ---- the row -------------------------------------------------------------------------------- */

struct measured {
    struct bench_series pairs;
    struct bench_series rates;
};

static void measure(const struct bench *bench, const struct setting *setting,
                    struct measured *measured)
{
    const char *outer = getenv("TARN_CONF");
    char *kept = outer != NULL ? strdup(outer) : NULL;
    double numbers[NUMBERS];

    if (setenv("TARN_CONF", setting->conf, 1) != 0)
        bench_fail("no host memory");
    bench_parts_measure("history", bench->quick, 1, NUMBERS, numbers);
    bench_series_add(&measured->pairs, numbers[PAIR_NS]);
    bench_series_add(&measured->rates, numbers[RATE]);
    if (kept != NULL)
        (void)setenv("TARN_CONF", kept, 1);
    else
        (void)unsetenv("TARN_CONF");
    free(kept);
}

/* In percent: how much lower the rates are than those without a history. */
static struct bench_summary lost(const struct measured *with, const struct measured *without)
{
    struct bench_series series = {.count = 0};

    for (size_t i = 0; i < with->rates.count; i++) {
        if (without->rates.values[i] > 0)
            bench_series_add(&series, 100 * (1 - with->rates.values[i] / without->rates.values[i]));
    }
    return bench_summarize(&series);
}

void bench_row_history(const struct bench *bench)
{
    static struct measured measured[SETTINGS];
    const size_t rounds = bench->quick ? 1 : ROUNDS;
    char variant[64];

    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < SETTINGS; i++)
            measure(bench, &settings[i], &measured[i]);
    }
    for (size_t i = 0; i < SETTINGS; i++) {
        (void)snprintf(variant, sizeof variant, "pair %s", settings[i].variant);
        bench_report("history", variant, NULL, "ns", bench_summarize(&measured[i].pairs));
        if (i == 0)
            continue;
        (void)snprintf(variant, sizeof variant, "pair %s, added", settings[i].variant);
        bench_report("history", variant, NULL, "ns",
                     bench_difference(&measured[i].pairs, &measured[i == 3 ? 1 : 0].pairs));
        (void)snprintf(variant, sizeof variant, "threads %s, lost", settings[i].variant);
        bench_report("history", variant, NULL, "%", lost(&measured[i], &measured[0]));
    }
}
