// SPDX-License-Identifier: Apache-2.0
/* A free and an allocation among 100 to 1,000,000 live blocks, in each of the orders of script.h: Tarn
 * alone, on blocks small enough for so many to fit. How much longer a step takes than among the fewest
 * is held against limits; the instructions of the same steps are counted by tools/instructions.sh. */
#include <stdio.h>

#include "contenders.h"
#include "harness.h"
#include "report.h"
#include "rows.h"
#include "script_player.h"

#define BYTES_MAX ((size_t)64 << 10)

enum {
    SAMPLES = 101,
    BLOCKS_MIN = 100,
    BLOCKS_MAX = 1000000,
    QUICK_BLOCKS_MAX = 10000,
    FACTOR = 10,
    STEPS = 1 << 20, /* of a trace: as many as the most blocks, a power of two */
    QUICK_STEPS = 1 << 12,
};

static struct bench_summary measure_steps(const struct bench *bench, enum bench_order order,
                                          size_t live_count, size_t bytes_max)
{
    struct bench_script script = {.order = order,
                                  .bytes_max = bytes_max,
                                  .live_count = live_count,
                                  .step_count = bench->quick ? QUICK_STEPS : STEPS};
    struct script_player player = {&script_tarn, &script, .context = bench->device};
    struct bench_case subject = {NULL, script_play, script_drain, &player, 0};
    struct bench_plan plan = bench_plan_for(bench->quick, SAMPLES);
    struct bench_series series;

    bench_script_create(&script);
    script_player_open(&player);
    bench_measure(&plan, &subject, 1, &series);
    script_player_close(&player);
    bench_script_destroy(&script);
    return bench_summarize(&series);
}

static void report(const char *what, size_t bytes_max, const char *unit,
                   struct bench_summary summary)
{
    char variant[64];

    if (bytes_max == BYTES_MAX)
        (void)snprintf(variant, sizeof variant, "%s", what);
    else
        (void)snprintf(variant, sizeof variant, "%.40s, up to %zu B", what, bytes_max);
    bench_report("live", variant, NULL, unit, summary);
}

/* One number of blocks at a time: others' records would push its own out of the caches. */
static void scale(const struct bench *bench, enum bench_order order, size_t count_max,
                  size_t bytes_max)
{
    double fewest_ns = 0;

    for (size_t count = BLOCKS_MIN; count <= count_max; count *= FACTOR) {
        struct bench_summary summary = measure_steps(bench, order, count, bytes_max);
        char what[64];

        (void)snprintf(what, sizeof what, "%s, %zu blocks", bench_order_names[order], count);
        report(what, bytes_max, "ns", summary);
        if (count == BLOCKS_MIN) {
            fewest_ns = summary.median;
            continue;
        }
        (void)snprintf(what, sizeof what, "%s, %zu over %d", bench_order_names[order], count,
                       BLOCKS_MIN);
        report(what, bytes_max, "times", bench_scaled(summary, 1 / fewest_ns));
    }
}

void bench_row_live(const struct bench *bench)
{
    enum {
        PARTS = 3
    }; /* of the memory: a comb's blocks and its holes, and what a pool takes over */
    size_t count_max = bench->quick ? QUICK_BLOCKS_MAX : BLOCKS_MAX;
    size_t bytes_max = contenders_choose_bytes_max(BYTES_MAX, count_max, PARTS);

    for (enum bench_order order = BENCH_ORDER_RANDOM; order < BENCH_ORDER_COUNT; order++)
        scale(bench, order, count_max, bytes_max);
}
