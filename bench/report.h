// SPDX-License-Identifier: Apache-2.0
/* report.h -- what was measured: a table to read, and a line of JSON for each result to keep.
 *
 * The table goes to stdout as results come. The lines are appended to a file at the same moment, or
 * go to stdout when all is measured. bench/results/README.md explains their fields. */
#ifndef TARN_BENCH_REPORT_H
#define TARN_BENCH_REPORT_H

#include <stdbool.h>

#include "harness.h"

/* Where it is measured. */
struct bench_machine {
    const char *device_name;
    int driver_version; /* 13000 is CUDA 13.0 */
    bool simulated;
};

struct bench_result {
    const char *row;
    char variant[64];
    const char *rival; /* what was measured instead of Tarn; NULL: Tarn */
    const char *unit;
    struct bench_summary summary;
};

/* The machine is copied, its strings must stay. out_path: NULL for stdout. */
void bench_report_begin(const struct bench_machine *machine, const char *out_path);
void bench_report_end(void);

/* Adds a result. variant is copied; the other strings must stay. */
void bench_report(const char *row, const char *variant, const char *rival, const char *unit,
                  struct bench_summary summary);

/* Says in the table that the driver lacks a rival. There is no line of JSON. */
void bench_report_absent(const char *row, const char *variant, const char *rival);

/* The result of that row and variant, Tarn's or a rival's; NULL when there is none. */
const struct bench_result *bench_result_find(const char *row, const char *variant, bool rival);

#endif
