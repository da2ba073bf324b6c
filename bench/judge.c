// SPDX-License-Identifier: Apache-2.0
#include "judge.h"

#include <stdio.h>
#include <string.h>

#include "limits.h"
#include "report.h"

enum verdict { MET, MISSED, NOT_MEASURED };

static enum verdict judge(const struct bench_goal *goal, const struct bench_result *result)
{
    bool met;

    if (result == NULL)
        return NOT_MEASURED;
    met = goal->at_least ? result->summary.median >= goal->target
                         : result->summary.median <= goal->target;
    return met ? MET : MISSED;
}

static enum verdict print_goal(const struct bench_goal *goal)
{
    const struct bench_result *result = bench_result_find(goal->row, goal->variant, false);
    const struct bench_result *rival = bench_result_find(goal->row, goal->variant, true);
    enum verdict verdict = judge(goal, result);

    (void)printf("    %-46s  at %-5s %8.4g %-16s", goal->variant, goal->at_least ? "least" : "most",
                 goal->target, goal->unit);
    if (result == NULL) {
        (void)printf("not measured%s%s\n", goal->needs != NULL ? ": needs " : "",
                     goal->needs != NULL ? goal->needs : "");
        return verdict;
    }
    (void)printf("measured %9.4g  %s", result->summary.median, verdict == MET ? "met" : "missed");
    if (rival != NULL)
        (void)printf(" (%s %.4g)", rival->rival, rival->summary.median);
    (void)fputc('\n', stdout);
    return verdict;
}

static bool listed(const char *const *rows, const char *row)
{
    for (; *rows != NULL; rows++) {
        if (strcmp(*rows, row) == 0)
            return true;
    }
    return false;
}

/* The limits of those rows that came out so, named on a line each. */
static size_t print_those(const char *const *rows, enum verdict wanted, const char *heading)
{
    size_t count = 0;

    for (size_t i = 0; i < bench_limit_count; i++) {
        for (size_t j = 0; j < BENCH_GOALS_MAX && bench_limits[i].goals[j].row != NULL; j++) {
            const struct bench_goal *goal = &bench_limits[i].goals[j];
            const struct bench_result *result = bench_result_find(goal->row, goal->variant, false);

            if (!listed(rows, goal->row) || judge(goal, result) != wanted)
                continue;
            (void)printf("%s%s: %s, %s\n", count == 0 ? "\n" : "", heading, goal->row,
                         goal->variant);
            count += 1;
        }
    }
    return count;
}

struct bench_verdicts bench_limits_print(bool simulated, const char *const *rows)
{
    struct bench_verdicts verdicts = {.met = 0};

    (void)printf("\nLimits, on one H200: each with its target, and what this run has measured%s.\n",
                 simulated ? "\non a simulated driver, which says little about a GPU" : "");
    for (size_t i = 0; i < bench_limit_count; i++) {
        const struct bench_goal *goals = bench_limits[i].goals;

        if (!listed(rows, goals[0].row))
            continue;
        (void)printf("\n%s\n    users have: %s\n", bench_limits[i].work,
                     bench_limits[i].users_have);
        for (size_t j = 0; j < BENCH_GOALS_MAX && goals[j].row != NULL; j++)
            verdicts.met += print_goal(&goals[j]) == MET;
    }
    verdicts.not_measured = print_those(rows, NOT_MEASURED, "not measured");
    verdicts.missed = print_those(rows, MISSED, "missed");
    (void)printf("\n%zu limits met, %zu missed, %zu not measured\n", verdicts.met, verdicts.missed,
                 verdicts.not_measured);
    return verdicts;
}
