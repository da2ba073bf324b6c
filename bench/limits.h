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

enum { BENCH_GOALS_MAX = 16 };

struct bench_limit {
    const char *work;
    const char *users_have;                   /* measured on one H200, driver 580 (CUDA 13.0) */
    struct bench_goal goals[BENCH_GOALS_MAX]; /* all of one row; up to one without a row */
};

extern const struct bench_limit bench_limits[];
extern const size_t bench_limit_count;

/* NULL when that row and variant have no target. */
const struct bench_goal *bench_goal_find(const char *row, const char *variant);

#endif
