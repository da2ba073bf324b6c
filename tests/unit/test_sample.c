// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "base/sample.h"
#include "unit/unit.h"

SUITE("samples of allocations")
GROUP(samples, NULL)

enum { MEAN = 512 * 1024 };

/* Relative; both may be 0. */
static double error_of(double value, long double expected)
{
    return expected == 0 ? fabs(value) : (double)fabsl((value - expected) / expected);
}

TEST(samples, logarithm_and_exponential_are_right_to_1e_14)
{
    double log_error = 0;
    double exp_error = 0;

    for (int exponent = -53; exponent < 0; exponent++) {
        for (int i = 0; i < 1000; i++) {
            double x = ldexp(1 + (i + 0.37) / 1000, exponent);

            log_error = fmax(log_error, error_of(tn_sample_minus_log(x), -logl(x)));
            exp_error = fmax(exp_error, error_of(tn_sample_one_minus_exp(x * 100),
                                                 -expm1l(-(long double)(x * 100))));
        }
    }
    ck_assert_double_gt(log_error + exp_error, 0);
    ck_assert_double_lt(log_error, 1e-14);
    ck_assert_double_lt(exp_error, 1e-14);
    ck_assert_double_eq(tn_sample_minus_log(1), 0);
    ck_assert_double_lt(error_of(tn_sample_minus_log(nextafter(1, 0)), 0x1p-53L), 1e-14);
    ck_assert_double_eq(tn_sample_one_minus_exp(0), 0);
    ck_assert_double_eq(tn_sample_one_minus_exp(1e300), 1);
}

/* Of n takes with the probability p, (taken / p - n) / sqrt(n (1 - p) / p) is normal: beyond 4.5 once in
 * 150,000 times. The seeds are fixed. */
static double deviation(double taken, double p, double n)
{
    return (taken / p - n) / sqrt(n * (1 - p) / p + 1e-9);
}

TEST(samples, each_size_is_estimated_without_a_bias)
{
    enum { TAKES = 400000 };
    uint64_t bytes = 512;
    double estimated_bytes = 0;
    double all_bytes = 0;

    for (uint64_t seed = 1; bytes < 16 * MEAN; seed++, bytes = bytes * 3 / 2 + 1) {
        struct tn_sample sample;
        double p = tn_sample_one_minus_exp((double)bytes / MEAN);
        uint64_t taken = 0;

        tn_sample_init(&sample, MEAN, seed);
        for (unsigned i = 0; i < TAKES; i++)
            taken += tn_sample_take(&sample, bytes);
        ck_assert_msg(fabs(deviation((double)taken, p, TAKES)) < 4.5, "%lu bytes: %lu of %d taken",
                      (unsigned long)bytes, (unsigned long)taken, TAKES);
        ck_assert_double_lt(error_of(tn_sample_weight(bytes, MEAN), 1 / p), 1e-14);
        estimated_bytes += (double)taken * tn_sample_weight(bytes, MEAN) * (double)bytes;
        all_bytes += (double)TAKES * (double)bytes;
    }
    /* 0.05 %: the standard deviation of the largest sizes, of which nearly all are taken */
    ck_assert_double_lt(error_of(estimated_bytes, all_bytes), 0.0005);
}

/* Sizes that follow each other in any order: what an allocation is taken by does not depend on the
 * one before. */
TEST(samples, a_mixture_of_sizes_is_estimated_without_a_bias)
{
    enum { TAKES = 2000000, SIZES = 5, SEEDS = 4 };
    static const uint64_t sizes[SIZES] = {512, 4096, 100000, MEAN, 3 * MEAN};

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct tn_sample sample;
        uint64_t taken[SIZES] = {0};
        uint64_t made[SIZES] = {0};
        uint64_t random = seed;

        tn_sample_init(&sample, MEAN, seed);
        for (unsigned i = 0; i < TAKES; i++) {
            unsigned size;

            random = random * 6364136223846793005 + 1442695040888963407;
            size = (unsigned)(random >> 33) % SIZES;
            made[size] += 1;
            taken[size] += tn_sample_take(&sample, sizes[size]);
        }
        for (unsigned i = 0; i < SIZES; i++) {
            double p = 1 / tn_sample_weight(sizes[i], MEAN);

            ck_assert_msg(fabs(deviation((double)taken[i], p, (double)made[i])) < 4.5,
                          "seed %lu, %lu bytes: %lu of %lu", (unsigned long)seed,
                          (unsigned long)sizes[i], (unsigned long)taken[i], (unsigned long)made[i]);
        }
    }
}

TEST(samples, seeds_choose_differently_and_a_seed_as_before)
{
    enum { SEEDS = 100, TAKES = 2000 };
    static uint64_t sums[SEEDS];

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct tn_sample samples[2];

        tn_sample_init(&samples[0], MEAN, seed);
        tn_sample_init(&samples[1], MEAN, seed);
        for (unsigned i = 0; i < TAKES; i++) {
            bool taken = tn_sample_take(&samples[0], 4096);

            ck_assert_int_eq(tn_sample_take(&samples[1], 4096), taken);
            sums[seed] = sums[seed] * 31 + (taken ? i : 0);
        }
        for (uint64_t other = 0; other < seed; other++)
            ck_assert_uint_ne(sums[other], sums[seed]);
    }
}

TEST(samples, a_mean_of_0_takes_none_and_of_1_all)
{
    struct tn_sample none;
    struct tn_sample all;

    tn_sample_init(&none, 0, 1);
    tn_sample_init(&all, 1, 1);
    for (unsigned i = 0; i < 100000; i++) {
        ck_assert(!tn_sample_take(&none, UINT64_C(1) << 61));
        ck_assert(tn_sample_take(&all, 64));
    }
    ck_assert_double_eq(tn_sample_weight(64, 1), 1);
    ck_assert_double_eq(tn_sample_weight(64, 0), 1);
}

CONTRACT_TEST(samples, a_size_that_could_overflow_breaks_a_contract)
{
    struct tn_sample sample;

    tn_sample_init(&sample, MEAN, 1);
    (void)tn_sample_take(&sample, UINT64_C(1) << 62);
}
