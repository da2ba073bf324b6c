// SPDX-License-Identifier: Apache-2.0
/* judge.h -- what a run has measured, held against its limits. */
#ifndef TARN_BENCH_JUDGE_H
#define TARN_BENCH_JUDGE_H

#include <stdbool.h>
#include <stddef.h>

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
