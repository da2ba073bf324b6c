// SPDX-License-Identifier: Apache-2.0
/* base.h -- what all of the benchmark stands on: the clock, and the end of a program that cannot go on. */
#ifndef TARN_BENCH_BASE_H
#define TARN_BENCH_BASE_H

#include <stdint.h>

uint64_t bench_now(void); /* nanoseconds of the monotonic clock */

/* Prints a sentence to stderr and exits with 1. */
_Noreturn void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
