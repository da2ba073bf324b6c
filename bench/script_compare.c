// SPDX-License-Identifier: Apache-2.0
#include "script_compare.h"

#include <stdio.h>

#include "harness.h"
#include "report.h"

enum {
    PLAYERS_MAX = 2,
    SAMPLES = 101,
    TRACES = 5, /* of which the peaks are taken */
    LATER_TRACES =
        2, /* the last of them, for others than the first player: their steps take longer */
    STEPS = 1 << 20, /* of a trace, a power of two */
    QUICK_STEPS = 1 << 12,
};

/* The name of a variant: with the size of the blocks, where they are not as they should be. */
static const char *name_variant(char name[64], const struct script_comparison *comparison,
                                const char *what)
{
    char sizes[32] = "";

    if (comparison->bytes_max != SCRIPT_COMPARE_BYTES_MAX)
        (void)snprintf(sizes, sizeof sizes, ", up to %u KiB",
                       (unsigned)(comparison->bytes_max >> 10));
    (void)snprintf(name, 64, "%s%s%s", comparison->by_octave ? "by octave: " : "", what, sizes);
    return name;
}

/* The allocators' own ideas of what is allocated may differ: what was asked for is one. */
struct peaks {
    struct bench_series over_allocated;
    struct bench_series over_requested;
};

/* Of a player whose long run is over. */
static void add_peaks(struct peaks *peaks, const struct script_player *player)
{
    uint64_t reserved = 0;
    uint64_t allocated = 0;

    player->allocator->get_peaks(player, &reserved, &allocated);
    bench_series_add(&peaks->over_allocated, (double)reserved / (double)allocated);
    bench_series_add(&peaks->over_requested,
                     (double)reserved / (double)player->script->requested_peak);
}

/* Plays traces of that kind for their peaks, and leaves the last one open. */
static void play_for_peaks(struct bench_script *script, struct script_player *players, size_t count,
                           struct peaks *peaks, size_t traces)
{
    for (size_t trace = 0; trace < traces; trace++) {
        script->seed = trace;
        bench_script_create(script);
        for (size_t i = 0; i < count; i++) {
            if (i > 0 && traces - trace > LATER_TRACES)
                continue;
            script_player_open(&players[i]);
            add_peaks(&peaks[i], &players[i]);
            if (trace + 1 < traces)
                script_player_close(&players[i]);
        }
        if (trace + 1 < traces)
            bench_script_destroy(script);
    }
}

static void report(const struct script_comparison *comparison, const char *rival,
                   const struct peaks *peaks, const struct bench_series *series)
{
    char name[64];

    bench_report("trace", name_variant(name, comparison, "reserved over allocated"), rival, "",
                 bench_summarize(&peaks->over_allocated));
    bench_report("trace", name_variant(name, comparison, "reserved over requested"), rival, "",
                 bench_summarize(&peaks->over_requested));
    bench_report("trace", name_variant(name, comparison, "step"), rival, "ns",
                 bench_summarize(series));
}

void script_players_compare(const struct script_comparison *comparison,
                            struct script_player *players, size_t count)
{
    struct bench_script script = {.order = BENCH_ORDER_RANDOM,
                                  .by_octave = comparison->by_octave,
                                  .bytes_max = comparison->bytes_max,
                                  .live_count = SCRIPT_COMPARE_BLOCKS,
                                  .step_count = comparison->quick ? QUICK_STEPS : STEPS};
    struct bench_plan plan = bench_plan_for(comparison->quick, SAMPLES);
    struct bench_case cases[PLAYERS_MAX];
    struct bench_series series[PLAYERS_MAX];
    struct peaks peaks[PLAYERS_MAX] = {{.over_allocated = {.count = 0}}};

    if (count > PLAYERS_MAX)
        bench_fail("at most %d players play together", PLAYERS_MAX);
    for (size_t i = 0; i < count; i++) {
        players[i].script = &script;
        cases[i] = (struct bench_case){NULL, script_play, script_drain, &players[i], 0};
    }
    play_for_peaks(&script, players, count, peaks, comparison->quick ? 1 : TRACES);
    bench_measure(&plan, cases, count, series);
    for (size_t i = 0; i < count; i++) {
        report(comparison, players[i].allocator->rival, &peaks[i], &series[i]);
        script_player_close(&players[i]);
    }
    bench_script_destroy(&script);
}

void script_report_absent(const struct script_comparison *comparison, const char *rival)
{
    char name[64];

    bench_report_absent("trace", name_variant(name, comparison, "step"), rival);
}
