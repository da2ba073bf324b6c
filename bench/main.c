// SPDX-License-Identifier: Apache-2.0
/* tarn_bench -- measures Tarn beside the driver's own allocator and launches, in one process.
 *
 * Exit status: 0; 1 when measuring failed; 2 for arguments that it does not know; with --limits also
 * 1 when a limit was missed, and 3 when none was, but one was not measured. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adversaries.h"
#include "driver.h"
#include "harness.h"
#include "judge.h"
#include "quiet.h"
#include "report.h"
#include "rows.h"

/* Host memory is measured in a process that has had no pool yet; growth on memory that the process has not
 * had yet, so what takes much comes after it. */
static const struct row {
    const char *name;
    const char *text;
    void (*measure)(const struct bench *bench);
} rows[] = {
    {"host", "host memory for the records of blocks and of mapped memory", bench_row_host},
    {"growth", "a pool that grows to 8 GiB, and its trim", bench_row_growth},
    {"history", "what a history adds to pairs", bench_row_history},
    {"pair", "an allocation and its free, on one and on several threads", bench_row_pair},
    {"pinned", "page-locked host memory: the first, copies, pairs; who waits meanwhile",
     bench_row_pinned},
    {"replay", "tarn_graph_replay beside cuGraphLaunch", bench_row_replay},
    {"audit", "looking through a captured graph, beside the driver's part of it", bench_row_audit},
    {"capture", "a capture with a pool's memory, and its first replay", bench_row_capture},
    {"checkpoint", "take, restore and check of a pool's state", bench_row_checkpoint},
    {"contents", "checkpoints with the bytes of 10,000 blocks, beside cuMemcpyAsync",
     bench_row_contents},
    {"devices", "several devices: pairs, copies from a peer, access for all", bench_row_devices},
    {"snapshot", "all memory with stacks, copied and written; who waits", bench_row_snapshot},
    {"scaling", "pairs on 1 to 16 threads, 1 to 256 streams, 1 to 1,000 pools", bench_row_scaling},
    {"producers", "blocks that some threads allocate and others free", bench_row_producers},
    {"trace", "a free and an allocation among 10,000 live blocks; memory taken", bench_row_trace},
    {"live", "the same among 100 to 1,000,000 live blocks, in five orders", bench_row_live},
    {"fragmentation", "what is reserved over what is allocated, as time goes by",
     bench_row_fragmentation},
    {"adversaries", "worst cases of memory: what is reserved over the most that was live",
     bench_row_adversaries},
    {"recorded", "traces of real programs (--trace), an event at a time; memory taken",
     bench_row_recorded},
    {"pinned_recorded", "traces of page-locked memory (--trace): an event at a time; memory taken",
     bench_row_pinned_recorded},
    {"share", "blocks shared with another process, and what each side pays", bench_row_share},
    {"symmetric", "groups of processes, and memory that all of them have", bench_row_symmetric},
    {"words", "streams of several processes that wait for each other's words", bench_row_words},
    {"lives", "objects made, used and ended, again and again: time and memory", bench_row_lives},
    {"fits", "which free block is taken (--trace): a model of eight fits", bench_row_fits},
};

enum {
    ROW_COUNT = sizeof rows / sizeof rows[0],
    TRACES_MAX = 16,
    LIFE_SECONDS_MAX = 3600,
    EXIT_MISSED = 1,
    EXIT_USAGE = 2,
    EXIT_NOT_MEASURED = 3,
};

struct options {
    const char *out_path;
    void (*part)(const struct bench *bench); /* of one process; NULL: all of the row */
    bool quick;
    bool limits;
    bool some_rows; /* those selected, not all */
    bool selected[ROW_COUNT];
    size_t trace_count;
    const char *trace_paths[TRACES_MAX];
    size_t peak_mib; /* of adversaries; 0: not told */
    size_t seed;
    size_t life_seconds; /* 0: not told */
};

static void print_usage(FILE *file)
{
    (void)fputs(
        "usage: tarn_bench [--row NAME]... [--trace FILE]... [--peak MIB] [--seed N]\n"
        "                  [--seconds N] [--quick] [--limits] [--out FILE]\n"
        "  --row NAME    measure this row only; may be repeated\n"
        "  --trace FILE  a recorded trace (docs/traces.md) for the row of them; may be repeated\n"
        "  --peak MIB    the peak of adversaries: 16 to 65536, 2048 where not told, 64 if quick\n"
        "  --seed N      of adversaries: 1 to 999, 1 where not told\n"
        "  --seconds N   of each kind of lives: 1 to 3600, 20 where not told\n"
        "  --quick       few samples: to see that it works, not to keep the figures\n"
        "  --limits      print the limits of these rows with what was measured; exit with 1 when\n"
        "                one was missed, with 3 when one was not measured\n"
        "  --out FILE    append a line of JSON for each result; without it they are printed\n"
        "  --part NAME   measure the part of one process of the row replay, history, pinned or\n"
        "                snapshot, and write its numbers, unprinted: what the row itself\n"
        "                starts\n"
        "TARN_DRIVER chooses the driver, as for every program that uses Tarn.\n"
        "rows:\n",
        file);
    for (size_t i = 0; i < ROW_COUNT; i++)
        (void)fprintf(file, "  %-13s  %s\n", rows[i].name, rows[i].text);
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

/* The whole text as a number from least to most; false: it is none. */
static bool read_number(const char *text, size_t least, size_t most, size_t *number)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || value < least || value > most)
        return false;
    *number = value;
    return true;
}

/* An option with a value. False: there is no such one, or not with that value. */
static bool take_value(struct options *options, const char *option, const char *value)
{
    if (strcmp(option, "--row") == 0)
        return select_row(options, value);
    if (strcmp(option, "--part") == 0) {
        options->part = strcmp(value, "replay") == 0     ? bench_part_replay
                        : strcmp(value, "history") == 0  ? bench_part_history
                        : strcmp(value, "snapshot") == 0 ? bench_part_snapshot
                        : strcmp(value, "pinned") == 0   ? bench_part_pinned
                                                         : NULL;
        return options->part != NULL;
    }
    if (strcmp(option, "--out") == 0) {
        options->out_path = value;
        return true;
    }
    if (strcmp(option, "--peak") == 0)
        return read_number(value, BENCH_ADVERSARY_PEAK_MIN_MIB, BENCH_ADVERSARY_PEAK_MAX_MIB,
                           &options->peak_mib);
    if (strcmp(option, "--seed") == 0)
        return read_number(value, 1, BENCH_ADVERSARY_SEED_MAX, &options->seed);
    if (strcmp(option, "--seconds") == 0)
        return read_number(value, 1, LIFE_SECONDS_MAX, &options->life_seconds);
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

/* Says how long it took to stderr, where it is in no table's way. */
static void measure_row(const struct row *row, const struct bench *bench)
{
    uint64_t begin = bench_now();

    row->measure(bench);
    (void)fflush(stdout);
    (void)fprintf(stderr, "row %s: %.1f s\n", row->name, (double)(bench_now() - begin) * 1e-9);
}

/* Measures the rows that were asked for, and returns the exit status. */
static int measure(const struct options *options, const struct bench *bench)
{
    const char *measured[ROW_COUNT + 1] = {NULL};
    size_t measured_count = 0;
    struct bench_verdicts verdicts;

    if (options->part != NULL) {
        options->part(bench);
        return 0;
    }
    bench_report_begin(&(struct bench_machine){cu.device_name, cu.version, cu.simulated},
                       options->out_path);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (!options->selected[i] && options->some_rows)
            continue;
        measure_row(&rows[i], bench);
        measured[measured_count++] = rows[i].name;
    }
    bench_report_end();
    if (!options->limits)
        return 0;
    verdicts = bench_limits_print(cu.simulated, measured);
    if (verdicts.missed > 0)
        return EXIT_MISSED;
    return verdicts.not_measured > 0 ? EXIT_NOT_MEASURED : 0;
}

int main(int count, char **arguments)
{
    struct options options = {.seed = 1};
    struct bench_trace traces[TRACES_MAX];
    struct bench bench = {.traces = traces};
    int status;

    if (count == 2 && strcmp(arguments[1], "--help") == 0) {
        print_usage(stdout);
        return 0;
    }
    if (!parse(count, arguments, &options)) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    bench.quick = options.quick;
    bench.peak_mib = options.peak_mib;
    bench.seed = options.seed;
    bench.life_seconds = options.life_seconds;
    bench.trace_count = options.trace_count;
    load_traces(&options, traces);
#if TARN_DEBUG_CHECKS || !defined(__OPTIMIZE__)
    if (options.part == NULL)
        (void)puts(
            "built with checks or without optimization: these are not the library's figures");
#endif
    bench_driver_open();
    bench_quiet_choose(!cu.simulated);
    BENCH_OK(tarn_device_open(0, NULL, &bench.device));
    status = measure(&options, &bench);
    BENCH_OK(tarn_device_close(bench.device));
    bench_driver_close();
    for (size_t i = 0; i < bench.trace_count; i++)
        bench_trace_destroy(&traces[i]);
    return status;
}
