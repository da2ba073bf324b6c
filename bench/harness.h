// SPDX-License-Identifier: Apache-2.0
/* harness.h -- how a time is measured.
 *
 * What is measured is a case: a piece of work that can be done any number of times in a row. One
 * sample is the time of one such run divided by its iterations; a series has many samples, and is
 * summed up by its median and its spread, the 10th and 90th percentiles.
 *
 * Cases that are compared are measured together: their samples alternate, and every other round
 * goes through them backwards, so that a change of the machine's clock meets all of them alike.
 *
 * Times are in nanoseconds. Everything here is for one thread; a case may have threads of its own,
 * within its run. */
#ifndef TARN_BENCH_HARNESS_H
#define TARN_BENCH_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base.h"

enum { BENCH_SAMPLES_MAX = 2048 };

struct bench_case {
    void (*prepare)(void *context); /* before each sample, not timed; may be NULL */
    void (*run)(void *context, size_t iterations);
    void (*finish)(void *context); /* after each sample, not timed; may be NULL */
    void *context;
    size_t iterations_max; /* of one sample; 0: as many as sample_ns takes */
};

struct bench_plan {
    size_t sample_count;
    uint64_t sample_ns;  /* a sample lasts at least so long, but for iterations_max */
    uint64_t warm_up_ns; /* each case runs so long before its first sample */
    uint64_t again_ns;   /* how long rounds that something disturbed are measured again, in all */
};

struct bench_series {
    size_t count;
    double values[BENCH_SAMPLES_MAX]; /* in the order of measuring */
};

struct bench_summary {
    double median;
    double p10;
    double p90;
    size_t samples;
};

/* A plan for quick looks or for figures to keep, with that many samples in the latter. */
struct bench_plan bench_plan_for(bool quick, size_t sample_count);

/* The next number of a fixed sequence, so that every run has the same blocks; the state begins with
 * any number but 0. */
#define BENCH_RANDOM_SEED UINT64_C(88172645463325252)
uint64_t bench_random(uint64_t *state);

/* Warms up and measures count cases into as many series, alternating: value i of each series was
 * taken beside value i of the others. */
void bench_measure(const struct bench_plan *plan, const struct bench_case *cases, size_t count,
                   struct bench_series *series);

void bench_series_add(struct bench_series *series, double value);
struct bench_summary bench_summarize(const struct bench_series *series);

/* The mean of the middle half of the values, which it sorts: as good as a mean where they scatter evenly,
 * and blind to the few that something else has slowed down. */
double bench_middle_mean(double *values, size_t count);

/* How much more a takes than b, sample i of the one beside sample i of the other: the middle mean of the
 * differences. Other than in a summary, p10 and p90 tell of that figure itself how sure it is, by drawing
 * as many differences again and again from those measured (Efron, "Bootstrap methods", 1979). */
struct bench_summary bench_difference(const struct bench_series *a, const struct bench_series *b);

/* A figure that was taken once. */
struct bench_summary bench_single(double value);

/* The same figures in another unit. */
struct bench_summary bench_scaled(struct bench_summary summary, double factor);

#endif
