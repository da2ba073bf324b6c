// SPDX-License-Identifier: Apache-2.0
/* What a pool has reserved over what is allocated, as time goes by: the random trace of the limits
 * (script_compare.h), looked at after 1,024 steps, and after each four times as many. A pool that fragments
 * grows with time; one that does not stays where it was. Samples are traces of one kind: of the driver's
 * allocator, which takes ten times as long for a step, there is one, and it is shorter. */
#include <stdio.h>

#include "contenders.h"
#include "harness.h"
#include "report.h"
#include "rows.h"
#include "script.h"
#include "script_compare.h"

enum {
    TRACES = 3,
    RIVAL_TRACES = 1,
    RIVAL_STEPS_MAX = 1 << 20,
    LOOKS = 7,
    STEPS_MIN = 1 << 10,
    STEPS_FACTOR = 4,
    STEPS_MAX = 1 << 22, /* four times those of the limits */
    QUICK_STEPS_MAX = 1 << 12,
};

static void play_trace(struct script_player *player, struct bench_series *series)
{
    size_t steps_max = player->script->step_count;
    size_t played = 0;

    script_player_fill(player);
    for (size_t look = 0, steps = STEPS_MIN; steps <= steps_max; look++, steps *= STEPS_FACTOR) {
        uint64_t reserved = 0;
        uint64_t allocated = 0;

        script_play(player, steps - played);
        played = steps;
        player->allocator->get_now(player, &reserved, &allocated);
        bench_series_add(&series[look], (double)reserved / (double)allocated);
    }
    script_player_close(player);
}

static void report(const struct bench_script *script, const char *rival,
                   const struct bench_series *series)
{
    char variant[64];
    char sizes[40] = "";

    if (script->bytes_max != SCRIPT_COMPARE_BYTES_MAX)
        (void)snprintf(sizes, sizeof sizes, ", up to %zu KiB", script->bytes_max >> 10);
    for (size_t look = 0, steps = STEPS_MIN; look < LOOKS && series[look].count > 0;
         look++, steps *= STEPS_FACTOR) {
        (void)snprintf(variant, sizeof variant, "%safter %zu steps%s",
                       script->by_octave ? "by octave: " : "", steps, sizes);
        bench_report("fragmentation", variant, rival, "", bench_summarize(&series[look]));
    }
}

static void watch(const struct bench *bench, const struct script_allocator *allocator,
                  bool by_octave)
{
    enum { PARTS = 3 }; /* of the memory, as in row_trace.c */
    struct bench_script script = {.order = BENCH_ORDER_RANDOM,
                                  .by_octave = by_octave,
                                  .bytes_max = contenders_choose_bytes_max(
                                      SCRIPT_COMPARE_BYTES_MAX, SCRIPT_COMPARE_BLOCKS, PARTS),
                                  .live_count = SCRIPT_COMPARE_BLOCKS,
                                  .step_count = bench->quick ? QUICK_STEPS_MAX : STEPS_MAX};
    struct bench_series series[LOOKS] = {{.count = 0}};
    size_t traces = allocator->rival != NULL ? RIVAL_TRACES : TRACES;

    if (allocator->rival != NULL && script.step_count > RIVAL_STEPS_MAX)
        script.step_count = RIVAL_STEPS_MAX;
    for (size_t trace = 0; trace < (bench->quick ? 1 : traces); trace++) {
        struct script_player player = {allocator, &script, .context = bench->device};

        script.seed = trace;
        bench_script_create(&script);
        play_trace(&player, series);
        bench_script_destroy(&script);
    }
    report(&script, allocator->rival, series);
}

void bench_row_fragmentation(const struct bench *bench)
{
    for (int by_octave = 0; by_octave <= 1; by_octave++) {
        watch(bench, &script_tarn, by_octave);
        if (contenders_rival_plays(bench))
            watch(bench, &script_driver, by_octave);
    }
}
