// SPDX-License-Identifier: Apache-2.0
/* The judgement of a run, on results made up here: each is its limit's target times a factor. */
#include <check.h>
#include <string.h>

#include "judge.h"
#include "limits.h"
#include "report.h"
#include "support/registry.h"

static double factor;      /* of every result but that of the pair of 1 MiB */
static double pair_factor; /* of that one; 0: it was not measured */

const struct bench_result *bench_result_find(const char *row, const char *variant, bool rival)
{
    static struct bench_result result;
    const struct bench_goal *goal = bench_goal_find(row, variant);
    bool is_pair = strcmp(row, "pair") == 0 && strcmp(variant, "1 MiB") == 0;

    ck_assert_ptr_nonnull(goal);
    if (rival || (is_pair && pair_factor == 0))
        return NULL;
    result.summary.median = goal->target * (is_pair ? pair_factor : factor);
    return &result;
}

static const char *const pair_row[] = {"pair", NULL};
static const char *const replay_row[] = {"replay", NULL};
static const char *const no_row[] = {NULL};

static struct bench_verdicts judge(double all, double pair, const char *const *rows)
{
    factor = all;
    pair_factor = pair;
    return bench_limits_print(false, rows);
}

GROUP(verdicts, NULL)

TEST(verdicts, a_figure_at_its_target_meets_it)
{
    struct bench_verdicts verdicts = judge(1, 1, pair_row);

    ck_assert_uint_gt(verdicts.met, 3);
    ck_assert_uint_eq(verdicts.missed, 0);
    ck_assert_uint_eq(verdicts.not_measured, 0);
}

TEST(verdicts, a_figure_beyond_its_target_misses_it)
{
    struct bench_verdicts all = judge(1, 1, pair_row);
    struct bench_verdicts verdicts = judge(1, 1.01, pair_row);

    ck_assert_uint_eq(verdicts.met, all.met - 1);
    ck_assert_uint_eq(verdicts.missed, 1);
    ck_assert_uint_eq(verdicts.not_measured, 0);
}

/* Times are too long, rates and percentages too low. */
TEST(verdicts, each_limit_is_missed_on_its_own_side)
{
    struct bench_verdicts more = judge(1.01, 1.01, pair_row);
    struct bench_verdicts less = judge(0.99, 0.99, pair_row);

    ck_assert_uint_gt(more.missed, 0);
    ck_assert_uint_gt(less.missed, 0);
    ck_assert_uint_eq(more.missed, less.met);
    ck_assert_uint_eq(less.missed, more.met);
}

TEST(verdicts, a_figure_that_is_not_there_is_counted_as_such)
{
    struct bench_verdicts verdicts = judge(1, 0, pair_row);

    ck_assert_uint_eq(verdicts.missed, 0);
    ck_assert_uint_eq(verdicts.not_measured, 1);
}

TEST(verdicts, limits_of_rows_that_nobody_asked_for_are_not_judged)
{
    struct bench_verdicts verdicts = judge(1, 0, replay_row);

    ck_assert_uint_gt(verdicts.met, 0);
    ck_assert_uint_eq(verdicts.missed + verdicts.not_measured, 0);
    verdicts = judge(1, 0, no_row);
    ck_assert_uint_eq(verdicts.met + verdicts.missed + verdicts.not_measured, 0);
}
