// SPDX-License-Identifier: Apache-2.0
/* tarn_bench -- measures Tarn beside the driver's own allocator and launches, in one process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "harness.h"
#include "limits.h"
#include "report.h"
#include "rows.h"

/* Growth is measured on memory that the process has not had yet, so what takes much comes after it. */
static const struct row {
    const char *name;
    const char *text;
    void (*measure)(const struct bench *bench);
} rows[] = {
    {"pair", "an allocation and its free, on one and on several threads", bench_row_pair},
    {"replay", "tarn_graph_replay beside cuGraphLaunch", bench_row_replay},
    {"growth", "a pool that grows to 8 GiB, and its trim", bench_row_growth},
    {"capture", "a capture with a pool's memory, and its first replay", bench_row_capture},
    {"checkpoint", "take, restore and check of a pool's state", bench_row_checkpoint},
    {"trace", "a free and an allocation among many live blocks; memory taken", bench_row_trace},
    {"contents", "checkpoints with the bytes of 10,000 blocks, beside cuMemcpyAsync",
     bench_row_contents},
    {"recorded", "traces of real programs (--trace), an event at a time; memory taken",
     bench_row_recorded},
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0], TRACES_MAX = 16 };

struct options {
    const char *out_path;
    bool quick;
    bool limits;
    bool some_rows; /* those selected, not all */
    bool selected[ROW_COUNT];
    size_t trace_count;
    const char *trace_paths[TRACES_MAX];
};

static void print_usage(FILE *file)
{
    (void)fputs(
        "usage: tarn_bench [--row NAME]... [--trace FILE]... [--quick] [--limits] [--out FILE]\n"
        "  --row NAME    measure this row only; may be repeated\n"
        "  --trace FILE  a recorded trace (docs/traces.md) for the row of them; may be repeated\n"
        "  --quick       few samples: to see that it works, not to keep the figures\n"
        "  --limits      print every limit of Tarn with what was measured\n"
        "  --out FILE    append a line of JSON for each result; without it they are printed\n"
        "TARN_DRIVER chooses the driver, as for every program that uses Tarn.\n"
        "rows:\n",
        file);
    for (size_t i = 0; i < ROW_COUNT; i++)
        (void)fprintf(file, "  %-10s  %s\n", rows[i].name, rows[i].text);
}

static bool select_row(struct options *options, const char *name)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            options->selected[i] = true;
            options->some_rows = true;
            return true;
        }
    }
    return false;
}

/* An option with a value. False: there is no such one, or not with that value. */
static bool take_value(struct options *options, const char *option, const char *value)
{
    if (strcmp(option, "--row") == 0)
        return select_row(options, value);
    if (strcmp(option, "--out") == 0) {
        options->out_path = value;
        return true;
    }
    if (strcmp(option, "--trace") != 0 || options->trace_count == TRACES_MAX)
        return false;
    options->trace_paths[options->trace_count++] = value;
    return true;
}

static bool parse(int count, char **arguments, struct options *options)
{
    for (int i = 1; i < count; i++) {
        const char *argument = arguments[i];
        bool more = i + 1 < count;

        if (strcmp(argument, "--quick") == 0)
            options->quick = true;
        else if (strcmp(argument, "--limits") == 0)
            options->limits = true;
        else if (!more || !take_value(options, argument, arguments[++i]))
            return false;
    }
    return true;
}

/* A file that is no trace ends the program before anything is measured. */
static void load_traces(const struct options *options, struct bench_trace traces[TRACES_MAX])
{
    char error[BENCH_TRACE_ERROR_BYTES];

    for (size_t i = 0; i < options->trace_count; i++) {
        if (!bench_trace_load(options->trace_paths[i], &traces[i], error))
            bench_fail("%s %s", options->trace_paths[i], error);
    }
}

int main(int count, char **arguments)
{
    struct options options = {.out_path = NULL};
    struct bench_trace traces[TRACES_MAX];
    struct bench bench = {.traces = traces};

    if (count == 2 && strcmp(arguments[1], "--help") == 0) {
        print_usage(stdout);
        return 0;
    }
    if (!parse(count, arguments, &options)) {
        print_usage(stderr);
        return 2;
    }
    bench.quick = options.quick;
    bench.trace_count = options.trace_count;
    load_traces(&options, traces);
#if TARN_DEBUG_CHECKS || !defined(__OPTIMIZE__)
    (void)puts("built with checks or without optimization: these are not the library's figures");
#endif
    bench_driver_open();
    BENCH_OK(tarn_device_open(0, NULL, &bench.device));
    bench_report_begin(&(struct bench_machine){cu.device_name, cu.version, cu.simulated},
                       options.out_path);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (options.selected[i] || !options.some_rows)
            rows[i].measure(&bench);
    }
    bench_report_end();
    if (options.limits)
        bench_limits_print(cu.simulated);
    BENCH_OK(tarn_device_close(bench.device));
    bench_driver_close();
    for (size_t i = 0; i < bench.trace_count; i++)
        bench_trace_destroy(&traces[i]);
    return 0;
}
