// SPDX-License-Identifier: Apache-2.0
/* The number of iterations of a sample is doubled until a sample lasts long enough; these runs
 * count as warm-up.
 *
 * A round of samples behind which the CPU is found disturbed (bench/quiet.h) is measured again, whatever its samples say.
 *
 * Trade-offs: no outlier is thrown away, since a median and percentiles need no such judgement;
 * the cost of the loop and of the two clock readings (about 20 ns each) stays in the figures,
 * divided by the iterations. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "quiet.h"

enum {
    WARM_UP_RUNS_MIN = 3,
    DRAWS = 500, /* for the 10th and the 90th percentile of a figure */
};

struct bench_plan bench_plan_for(bool quick, size_t sample_count)
{
    if (quick)
        return (struct bench_plan){5, 200000, 500000, 0};
    return (struct bench_plan){sample_count, 2000000, 50000000, 3000000000};
}

/* Marsaglia, "Xorshift RNGs", 2003. */
uint64_t bench_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* The time of one whole sample. */
static uint64_t time_sample(const struct bench_case *subject, size_t iterations)
{
    uint64_t begin;
    uint64_t end;

    if (subject->prepare != NULL)
        subject->prepare(subject->context);
    begin = bench_now();
    subject->run(subject->context, iterations);
    end = bench_now();
    if (subject->finish != NULL)
        subject->finish(subject->context);
    return end - begin;
}

/* Warms the case up and returns how many iterations a sample of it has. */
static size_t warm_up(const struct bench_plan *plan, const struct bench_case *subject)
{
    uint64_t begin = bench_now();
    size_t iterations = 1;

    for (size_t runs = 1;; runs++) {
        uint64_t lasted = time_sample(subject, iterations);
        bool long_enough = lasted >= plan->sample_ns || iterations == subject->iterations_max;

        if (long_enough && runs >= WARM_UP_RUNS_MIN && bench_now() - begin >= plan->warm_up_ns)
            return iterations;
        if (long_enough)
            continue;
        iterations *= 2;
        if (subject->iterations_max != 0 && iterations > subject->iterations_max)
            iterations = subject->iterations_max;
    }
}

void bench_measure(const struct bench_plan *plan, const struct bench_case *cases, size_t count,
                   struct bench_series *series)
{
    size_t *iterations = calloc(count, sizeof *iterations);
    uint64_t again_ns = 0;

    if (iterations == NULL)
        bench_fail("no host memory");
    bench_quiet_begin();
    for (size_t i = 0; i < count; i++) {
        iterations[i] = warm_up(plan, &cases[i]);
        series[i].count = 0;
    }
    (void)bench_quiet_keep();
    for (size_t round = 0; round < plan->sample_count; round++) {
        uint64_t begin = bench_now();

        for (size_t turn = 0; turn < count; turn++) {
            size_t i = round % 2 == 0 ? turn : count - 1 - turn;
            uint64_t lasted = time_sample(&cases[i], iterations[i]);

            bench_series_add(&series[i], (double)lasted / (double)iterations[i]);
        }
        if (bench_quiet_keep() || again_ns >= plan->again_ns)
            continue;
        again_ns += bench_now() - begin;
        for (size_t i = 0; i < count; i++)
            series[i].count -= 1;
        round -= 1;
    }
    bench_quiet_end();
    free(iterations);
}

void bench_series_add(struct bench_series *series, double value)
{
    if (series->count == BENCH_SAMPLES_MAX)
        bench_fail("a series has at most %d samples", BENCH_SAMPLES_MAX);
    series->values[series->count] = value;
    series->count += 1;
}

static int compare_values(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The value below which that part of the sorted values lies, between two of them if need be. */
static double quantile(const struct bench_series *sorted, double part)
{
    double position = part * (double)(sorted->count - 1);
    size_t below = (size_t)position;
    size_t above = below + 1 < sorted->count ? below + 1 : below;

    return sorted->values[below] +
           (position - (double)below) * (sorted->values[above] - sorted->values[below]);
}

struct bench_summary bench_summarize(const struct bench_series *series)
{
    struct bench_series sorted;

    if (series->count == 0)
        bench_fail("a series without samples has no median");
    sorted.count = series->count;
    memcpy(sorted.values, series->values, series->count * sizeof series->values[0]);
    qsort(sorted.values, sorted.count, sizeof sorted.values[0], compare_values);
    return (struct bench_summary){quantile(&sorted, 0.5), quantile(&sorted, 0.1),
                                  quantile(&sorted, 0.9), sorted.count};
}

double bench_middle_mean(double *values, size_t count)
{
    size_t aside = count / 4;
    double sum = 0;

    if (count == 0)
        bench_fail("no values have no mean");
    qsort(values, count, sizeof values[0], compare_values);
    for (size_t i = aside; i < count - aside; i++)
        sum += values[i];
    return sum / (double)(count - 2 * aside);
}

struct bench_summary bench_difference(const struct bench_series *a, const struct bench_series *b)
{
    struct bench_series differences = {.count = 0};
    struct bench_series means = {.count = 0};
    struct bench_summary summary;
    uint64_t random = BENCH_RANDOM_SEED;

    for (size_t i = 0; i < a->count && i < b->count; i++)
        bench_series_add(&differences, a->values[i] - b->values[i]);
    for (size_t i = 0; i < DRAWS; i++) {
        double drawn[BENCH_SAMPLES_MAX];

        for (size_t j = 0; j < differences.count; j++)
            drawn[j] = differences.values[bench_random(&random) % differences.count];
        bench_series_add(&means, bench_middle_mean(drawn, differences.count));
    }
    summary = bench_summarize(&means);
    summary.median = bench_middle_mean(differences.values, differences.count);
    summary.samples = differences.count;
    return summary;
}

struct bench_summary bench_single(double value)
{
    return (struct bench_summary){value, value, value, 1};
}

struct bench_summary bench_scaled(struct bench_summary summary, double factor)
{
    summary.median *= factor;
    summary.p10 *= factor;
    summary.p90 *= factor;
    return summary;
}
