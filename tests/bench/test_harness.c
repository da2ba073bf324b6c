// SPDX-License-Identifier: Apache-2.0
/* Figures of samples that are made up here. */
#include <check.h>

#include "harness.h"
#include "support/registry.h"

static uint64_t random_state;

static void begin(void)
{
    random_state = BENCH_RANDOM_SEED;
}

/* From 0 to 1. */
static double chance(void)
{
    return (double)(bench_random(&random_state) >> 11) / (double)(UINT64_C(1) << 53);
}

GROUP(figures, begin)

TEST(figures, the_middle_mean_is_of_the_middle_half)
{
    double even[] = {1000, 4, 1, 2, 3, -1000, 5, 0};
    double one[] = {7};
    double three[] = {3, 1, 8};

    ck_assert_double_eq_tol(bench_middle_mean(even, 8), 2.5, 1e-12);
    ck_assert_double_eq_tol(bench_middle_mean(one, 1), 7, 1e-12);
    ck_assert_double_eq_tol(bench_middle_mean(three, 3), 4, 1e-12);
}

/* Launches of 13 us that wander by as much again, and some of which are interrupted: 10 ns more are seen,
 * since neighbours wander together. */
TEST(figures, a_small_difference_of_large_times_is_found)
{
    static const double added[] = {-10, 0, 10, 100};
    double width[2] = {0};

    for (size_t i = 0; i < sizeof added / sizeof added[0]; i++) {
        for (size_t size = 0; size < 2; size++) {
            struct bench_series a = {.count = 0};
            struct bench_series b = {.count = 0};
            struct bench_summary found;

            for (size_t sample = 0; sample < (size == 0 ? 120U : 2000U); sample++) {
                double time = 13000 * (1 + chance());
                double late = chance() < 0.02 ? 50000 : 0;

                bench_series_add(&a, time + added[i] + 20 * chance() + late);
                bench_series_add(&b, time + 20 * chance());
            }
            found = bench_difference(&a, &b);
            ck_assert_uint_eq(found.samples, a.count);
            ck_assert_double_lt(found.p10, found.median);
            ck_assert_double_gt(found.p90, found.median);
            width[size] = found.p90 - found.p10;
            ck_assert_double_eq_tol(found.median, added[i], size == 0 ? 6 : 2);
        }
        ck_assert_double_lt(width[1], width[0] / 2); /* more samples, surer */
        ck_assert_double_lt(width[1], 2);
    }
}
