// SPDX-License-Identifier: Apache-2.0
#include "heap/rounding.h"
#include "unit/unit.h"

static struct tn_rounding rounding;

/* The same number for all sizes. */
static void round_with(uint32_t divisions)
{
    uint32_t all[TARN_ROUNDUP_SIZES];

    for (int i = 0; i < TARN_ROUNDUP_SIZES; i++)
        all[i] = divisions;
    tn_rounding_init(&rounding, all);
}

GROUP(rounding, NULL)

TEST(rounding, none_and_one_round_to_512_bytes_alone)
{
    for (uint32_t divisions = 0; divisions < 2; divisions++) {
        round_with(divisions);
        ck_assert(!rounding.any);
        ck_assert_uint_eq(tn_rounding_apply(&rounding, 1), 512);
        ck_assert_uint_eq(tn_rounding_apply(&rounding, 512), 512);
        ck_assert_uint_eq(tn_rounding_apply(&rounding, 5 * TN_MIB + 1), 5 * TN_MIB + 512);
    }
}

/* As far as 512 bytes a step, to 512 bytes; above that to the next of the steps. */
TEST(rounding, requests_are_rounded_up_to_steps_between_powers_of_two)
{
    static const uint64_t expected[][2] = {
        {1, 512},
        {512, 512},
        {513, 1024},
        {1200, 1536},
        {2048, 2048},
        {2049, 2560},
        {4096, 4096},
        {4097, 5120},
        {5120, 5120},
        {5121, 6144},
        {8191, 8192},
        {84 * TN_MIB, 96 * TN_MIB},
        {80 * TN_MIB, 80 * TN_MIB},
        {80 * TN_MIB + 1, 96 * TN_MIB},
        {TN_GIB - 1, TN_GIB},
        {TN_GIB, TN_GIB},
        {TN_GIB + 1, TN_GIB + 256 * TN_MIB},
        {TN_TIB - 1, TN_TIB},
        {TN_TIB, TN_TIB},
        {TN_TIB + 1, TN_TIB + 512}, /* more than may be asked for */
        {TN_BLOCK_BYTES_MAX, TN_BLOCK_BYTES_MAX},
    };

    round_with(4);
    ck_assert(rounding.any);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        ck_assert_uint_eq(tn_rounding_apply(&rounding, expected[i][0]), expected[i][1]);
}

/* The rule, looked at from outside: between a quarter of a power of two and the whole. */
TEST(rounding, what_is_rounded_is_the_smallest_step_that_holds_it)
{
    for (unsigned log2 = 0; log2 < 32; log2++) {
        round_with((uint32_t)1 << log2);
        for (uint64_t bytes = 1; bytes <= (uint64_t)1 << 40; bytes = bytes * 5 / 4 + 1) {
            uint64_t rounded = tn_rounding_apply(&rounding, bytes);
            uint64_t power = 512;
            uint64_t step;

            while (power * 2 <= bytes)
                power *= 2;
            step = tn_max(power >> log2, 512);
            if (log2 == 0)
                step = 512;
            ck_assert_uint_ge(rounded, bytes);
            ck_assert_uint_lt(rounded - bytes, step);
            ck_assert_uint_eq(rounded % step, 0);
        }
    }
}

TEST(rounding, each_size_has_its_own_number)
{
    uint32_t divisions[TARN_ROUNDUP_SIZES] = {2, 4, 0, [TARN_ROUNDUP_SIZES - 1] = 8};

    tn_rounding_init(&rounding, divisions);
    ck_assert(rounding.any);
    ck_assert_uint_eq(tn_rounding_apply(&rounding, 65 * TN_KIB), 96 * TN_KIB);
    ck_assert_uint_eq(tn_rounding_apply(&rounding, TN_MIB + 1), 3 * TN_MIB / 2);
    ck_assert_uint_eq(tn_rounding_apply(&rounding, 2 * TN_MIB - 1), 2 * TN_MIB);
    ck_assert_uint_eq(tn_rounding_apply(&rounding, 2 * TN_MIB + 1), 5 * TN_MIB / 2);
    ck_assert_uint_eq(tn_rounding_apply(&rounding, 4 * TN_MIB + 1), 4 * TN_MIB + 512);
    ck_assert_uint_eq(tn_rounding_apply(&rounding, 16 * TN_GIB + 1), 16 * TN_GIB + 512);
    ck_assert_uint_eq(tn_rounding_apply(&rounding, 32 * TN_GIB + 1), 36 * TN_GIB);
    ck_assert_uint_eq(tn_rounding_apply(&rounding, 64 * TN_GIB + 1), 72 * TN_GIB);
}

CONTRACT_TEST(rounding, a_number_that_is_no_power_of_two_breaks_the_contract)
{
    round_with(3);
}
