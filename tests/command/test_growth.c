// SPDX-License-Identifier: Apache-2.0
/* How two moments are compared. */
#include "growth.h"

#include "support/registry.h"

SUITE("what grew between two moments")

GROUP(growths, NULL)

static void add(struct growths *growths, enum growth_side side, const char *key, uint64_t number,
                uint64_t bytes)
{
    ck_assert(growth_add(growths, side, key, number, 1, bytes));
}

TEST(growths, of_one_key_are_one_and_the_most_growth_is_first)
{
    struct growths growths = {.all = NULL};

    add(&growths, GROWTH_BEFORE, "same", 3, 100);
    add(&growths, GROWTH_BEFORE, "gone", 4, 50);
    add(&growths, GROWTH_AFTER, "new", 3, 70);
    add(&growths, GROWTH_AFTER, "same", 9, 100);
    add(&growths, GROWTH_AFTER, "same", 9, 1000);
    growth_finish(&growths);
    ck_assert_uint_eq(growths.count, 3);
    ck_assert_str_eq(growths.all[0].key, "same");
    ck_assert_uint_eq(growths.all[0].blocks[GROWTH_BEFORE], 1);
    ck_assert_uint_eq(growths.all[0].blocks[GROWTH_AFTER], 2);
    ck_assert_uint_eq(growths.all[0].bytes[GROWTH_AFTER], 1100);
    ck_assert_uint_eq(growths.all[0].number, 9);
    ck_assert_int_eq(growths.all[0].side, GROWTH_AFTER);
    ck_assert_str_eq(growths.all[1].key, "new");
    ck_assert_int_eq(growth_bytes(&growths.all[1]), 70);
    ck_assert_str_eq(growths.all[2].key, "gone");
    ck_assert_int_eq(growth_bytes(&growths.all[2]), -50);
    ck_assert_int_eq(growths.all[2].side, GROWTH_BEFORE);
    growth_free(&growths);
}

TEST(growths, of_foreign_numbers_have_limits)
{
    const struct growth more = {.bytes = {0, UINT64_MAX}};
    const struct growth less = {.bytes = {UINT64_MAX, 0}};

    ck_assert_int_eq(growth_bytes(&more), INT64_MAX);
    ck_assert_int_eq(growth_bytes(&less), -INT64_MAX);
}

TEST(growths, of_nothing_are_none)
{
    struct growths growths = {.all = NULL};

    growth_finish(&growths);
    ck_assert_uint_eq(growths.count, 0);
    growth_free(&growths);
}
