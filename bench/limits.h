// SPDX-License-Identifier: Apache-2.0
/* limits.h -- what Tarn holds itself to, on one H200, beside what users have now.
 *
 * One table, in limits.c, is the only place where a target stands: results take theirs from it. */
#ifndef TARN_BENCH_LIMITS_H
#define TARN_BENCH_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

/* One figure to reach: the result of that row and variant. */
struct bench_goal {
    const char *row;
    const char *variant;
    const char *unit; /* the result's */
    double target;
    bool at_least;     /* false: at most */
    const char *needs; /* what a machine may lack to measure it; NULL: nothing special */
};

/* NULL when that row and variant have no target. */
const struct bench_goal *bench_goal_find(const char *row, const char *variant);

/* How many limits this run has met, missed, and not measured. */
struct bench_verdicts {
    size_t met;
    size_t missed;
    size_t not_measured;
};

/* Prints the table with what this run has measured, on a simulated driver or not: the limits of those
 * rows, a list that NULL ends. At the end each limit that is missed or not measured is named once
 * more. */
struct bench_verdicts bench_limits_print(bool simulated, const char *const *rows);

#endif
