// SPDX-License-Identifier: Apache-2.0
/* parts.h -- what is measured in several processes.
 *
 * A few nanoseconds more or less depend on where a process happens to have its code and data, and stay as they are as
 * long as it runs: a thousand samples there are sure of a figure that the next process contradicts. So this program
 * runs itself some times, one process after the other, each with --part, and reads the numbers that they give. */
#ifndef TARN_BENCH_PARTS_H
#define TARN_BENCH_PARTS_H

#include <stdbool.h>
#include <stddef.h>

/* The numbers of each process behind those of the one before it; each gives count. A process that fails ends this one,
 * too. */
void bench_parts_measure(const char *part, bool quick, size_t process_count, size_t count,
                         double *values);

/* In such a process: gives numbers. */
void bench_part_give(const double *values, size_t count);

#endif
