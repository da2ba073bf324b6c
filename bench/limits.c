// SPDX-License-Identifier: Apache-2.0
/* Rows that nothing measures yet stand in the table too, and are printed as such: a limit that is
 * left out of the print is a limit that is forgotten. */
#include "limits.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "report.h"

enum { GOALS_MAX = 16 };

struct limit {
    const char *work;
    const char *users_have;             /* measured on one H200, driver 580 (CUDA 13.0) */
    struct bench_goal goals[GOALS_MAX]; /* all of one row; up to one without a row */
};

// clang-format off
#define AT_MOST(row, variant, target, unit) {row, variant, unit, target, false, NULL}
#define AT_LEAST(row, variant, target, unit) {row, variant, unit, target, true, NULL}
#define AT_LEAST_WITH(needs, row, variant, target, unit) {row, variant, unit, target, true, needs}

static const struct limit limits[] = {
    {"allocation and free, a pair, one thread",
     "RMM pool 190 ns, PyTorch 410 to 840 ns, cuMemAllocFromPoolAsync 560 to 750 ns",
     {AT_MOST("pair", "1 MiB", 60, "ns"),
      AT_MOST("pair", "1 MiB, freed by another thread", 150, "ns")}},
    {"the same on 16 threads with streams of their own, total, and of 16 times one thread",
     "RMM pool 0.56, PyTorch 0.25, cuMemAllocFromPoolAsync 0.15 to 0.31 million pairs/s",
     {AT_LEAST_WITH("16 cores", "pair", "1 MiB, 16 threads", 150, "million pairs/s"),
      AT_LEAST_WITH("16 cores", "pair", "1 MiB, 16 threads, of linear", 75, "%")}},
    {"random trace, 10,000 live blocks up to 4 MiB, one free and one allocation",
     "PyTorch 1560 to 2400 ns, cuMemAllocAsync 2240 ns, RMM 39800 ns",
     {AT_MOST("trace", "step", 200, "ns")}},
    {"memory of that trace, peak reserved over peak allocated",
     "RMM 1.029 (never shrinks), PyTorch 1.056 to 1.099, cuMemAllocAsync 1.31",
     {AT_MOST("trace", "reserved over allocated", 1.045, "")}},
    {"time of a free and an allocation among N live blocks, over that among 100, in any order",
     "not measured",
     {AT_MOST("live", "random, 1000 over 100", 2, "times"),
      AT_MOST("live", "FIFO, 1000 over 100", 2, "times"),
      AT_MOST("live", "LIFO, 1000 over 100", 2, "times"),
      AT_MOST("live", "alternating, 1000 over 100", 2, "times"),
      AT_MOST("live", "comb, 1000 over 100", 2, "times"),
      AT_MOST("live", "random, 10000 over 100", 2, "times"),
      AT_MOST("live", "FIFO, 10000 over 100", 2, "times"),
      AT_MOST("live", "LIFO, 10000 over 100", 2, "times"),
      AT_MOST("live", "alternating, 10000 over 100", 2, "times"),
      AT_MOST("live", "comb, 10000 over 100", 2, "times"),
      AT_MOST("live", "random, 1000000 over 100", 8, "times"),
      AT_MOST("live", "FIFO, 1000000 over 100", 8, "times"),
      AT_MOST("live", "LIFO, 1000000 over 100", 8, "times"),
      AT_MOST("live", "alternating, 1000000 over 100", 8, "times"),
      AT_MOST("live", "comb, 1000000 over 100", 8, "times")}},
    {"host memory, of 96 bytes for each live block and 0.05 % of mapped bytes",
     "not measured",
     {AT_MOST("host", "2 GiB mapped, of what is allowed", 100, "%"),
      AT_MOST("host", "10000 blocks up to 2 KiB, of what is allowed", 100, "%"),
      AT_MOST("host", "100000 blocks up to 2 KiB, of what is allowed", 100, "%"),
      AT_MOST("host", "1000000 blocks up to 2 KiB, of what is allowed", 100, "%"),
      AT_MOST("host", "100000 blocks up to 64 KiB, of what is allowed", 100, "%")}},
    {"cold growth of 8 GiB in 32 MiB steps",
     "PyTorch 13000 to 16500 us, cuMemAllocAsync 6400 to 11900 us, RMM 570 us by doubling",
     {AT_MOST("growth", "8 GiB", 3000, "us"),
      AT_MOST("growth", "reserve of 8 GiB", 1400, "us"),
      AT_MOST("growth", "256 allocations after it", 30, "us")}},
    {"checkpoint of 10,000 blocks: take, restore with half freed, check",
     "PyTorch 916, 4545, 324 us",
     {AT_MOST("checkpoint", "take, 10000 blocks", 40, "us"),
      AT_MOST("checkpoint", "restore, 10000 blocks", 200, "us"),
      AT_MOST("checkpoint", "check, 10000 blocks", 30, "us")}},
    {"contents of 20 GiB in 10,000 blocks, out and in, and of 10,000 blocks of 64 KiB",
     "100 %: cuMemcpy of one block of as many bytes",
     {AT_LEAST("contents", "20 GiB, pinned", 90, "%"),
      AT_LEAST("contents", "20 GiB, device", 90, "%"),
      AT_LEAST("contents", "64 KiB, pinned", 70, "%"),
      AT_LEAST("contents", "64 KiB, device", 70, "%")}},
    {"capture of 10,000 kernels over 4 streams, more than the driver alone takes for it",
     "not measured",
     {AT_MOST("capture", "10000 kernels in a pool, added", 3, "%"),
      AT_MOST("capture", "10000 kernels, a block each, added", 12, "%")}},
    {"replay, more than cuGraphLaunch of the same graph",
     "0 ns, cuGraphLaunch itself",
     {AT_MOST("replay", "one graph, added", 10, "ns"),
      AT_MOST("replay", "ordered graphs, added", 30, "ns"),
      AT_MOST("replay", "one guarded graph, added", 10, "ns")}},
    {"audit of a graph of 10,000 kernels",
     "nobody audits a graph; the driver's own reading of it: not measured",
     {AT_MOST("audit", "10000 kernels, 4 pointers each", 2, "ms"),
      AT_MOST("audit", "10000 kernels, a struct of 3 KiB each", 10, "ms")}},
};
// clang-format on

enum { LIMIT_COUNT = sizeof limits / sizeof limits[0] };

const struct bench_goal *bench_goal_find(const char *row, const char *variant)
{
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        for (size_t j = 0; j < GOALS_MAX && limits[i].goals[j].row != NULL; j++) {
            const struct bench_goal *goal = &limits[i].goals[j];

            if (strcmp(goal->row, row) == 0 && strcmp(goal->variant, variant) == 0)
                return goal;
        }
    }
    return NULL;
}

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

    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        for (size_t j = 0; j < GOALS_MAX && limits[i].goals[j].row != NULL; j++) {
            const struct bench_goal *goal = &limits[i].goals[j];
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
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        const struct bench_goal *goals = limits[i].goals;

        if (!listed(rows, goals[0].row))
            continue;
        (void)printf("\n%s\n    users have: %s\n", limits[i].work, limits[i].users_have);
        for (size_t j = 0; j < GOALS_MAX && goals[j].row != NULL; j++)
            verdicts.met += print_goal(&goals[j]) == MET;
    }
    verdicts.not_measured = print_those(rows, NOT_MEASURED, "not measured");
    verdicts.missed = print_those(rows, MISSED, "missed");
    (void)printf("\n%zu limits met, %zu missed, %zu not measured\n", verdicts.met, verdicts.missed,
                 verdicts.not_measured);
    return verdicts;
}
