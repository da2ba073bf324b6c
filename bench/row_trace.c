// SPDX-License-Identifier: Apache-2.0
/* Many blocks live, and a step frees one of them and allocates one: what a pool does in a program
 * that runs for long.
 *
 * The trace of the limits has 10,000 live blocks of random sizes up to 4 MiB, all sizes alike likely,
 * and each step frees a random one. Tarn and the driver's allocator play the very same trace. First a
 * long run of it, after which both are asked for their peaks; then it goes on, timed, by turns. The
 * same once more with sizes by octave: each doubling of the size is as likely as the next, so that
 * most blocks are small and most bytes are in large ones. No limit speaks of that one: there even an
 * exact best fit takes 1.057 of what is allocated, where it takes 1.029 of the first.
 *
 * For scaling, Tarn alone with 100 to 1,000,000 live blocks, small enough for so many to fit, freed in
 * several orders:
 *   random       any of them
 *   FIFO         the oldest
 *   LIFO         the newest, a burst of them one after the other; then as many are allocated
 *   alternating  the oldest and the newest in turn
 *   comb         twice as many blocks were allocated and every second one freed; each step fills one
 *                of the holes and frees it again
 *
 * The simulated driver's allocator is no rival: it searches a list, and would play for minutes. It
 * plays in quick runs alone, which are short.
 *
 * All random numbers are drawn before anything is timed. Traces are cyclic: a slot is free or live at
 * the end as it was at the beginning. */
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"
#include "harness.h"
#include "report.h"
#include "rows.h"
#include "script.h"

#define LIMIT_BYTES_MAX ((size_t)4 << 20) /* of a block, in the trace of the limits */
#define SCALE_BYTES_MAX ((size_t)64 << 10)

enum {
    SAMPLES = 101,
    LIMIT_BLOCKS = 10000,
    SCALE_BLOCKS_MIN = 100,
    SCALE_BLOCKS_MAX = 1000000,
    SCALE_FACTOR = 10,
    QUICK_BLOCKS_MAX = 10000,
    STEPS = 1 << 20, /* of a trace: as many as the most blocks, a power of two */
    QUICK_STEPS = 1 << 12,
};

struct player;

struct contender {
    const char *rival; /* NULL: Tarn */
    void (*open)(struct player *player);
    void *(*allocate)(const struct player *player, size_t bytes);
    void (*free)(const struct player *player, void *address);
    void (*get_peaks)(const struct player *player, uint64_t *reserved, uint64_t *allocated);
    void (*close)(struct player *player);
};

/* Somebody who plays a script. */
struct player {
    const struct bench *bench;
    const struct contender *contender;
    const struct bench_script *script;
    tarn_pool *pool; /* Tarn's */
    tarn_stream stream;
    void **blocks;   /* by slot; NULL: free */
    size_t position; /* the next op */
};

/* ---- who plays ----------------------------------------------------------------------------- */

static void open_tarn(struct player *player)
{
    BENCH_OK(tarn_pool_create(player->bench->device, NULL, &player->pool));
}

static void *allocate_tarn(const struct player *player, size_t bytes)
{
    void *address = NULL;

    BENCH_OK(tarn_alloc(player->pool, bytes, 0, player->stream, &address));
    return address;
}

static void free_tarn(const struct player *player, void *address)
{
    (void)player;
    BENCH_OK(tarn_free(address));
}

static void get_peaks_tarn(const struct player *player, uint64_t *reserved, uint64_t *allocated)
{
    tarn_pool_stats stats = {.size = sizeof stats};

    BENCH_OK(tarn_pool_get_stats(player->pool, &stats));
    *reserved = stats.mapped_peak_bytes;
    *allocated = stats.live_peak_bytes;
}

static void close_tarn(struct player *player)
{
    BENCH_OK(tarn_pool_destroy(player->pool));
}

/* What earlier rows left in the driver's pool goes, and its peaks begin anew: they can be set to 0,
 * and to nothing else. */
static void open_driver(struct player *player)
{
    uint64_t zero = 0;

    (void)player;
    BENCH_CU(cu.cuMemPoolTrimTo(cu.rival_pool, 0));
    BENCH_CU(cu.cuMemPoolSetAttribute(cu.rival_pool, TN_CU_POOL_ATTR_RESERVED_HIGH, &zero));
    BENCH_CU(cu.cuMemPoolSetAttribute(cu.rival_pool, TN_CU_POOL_ATTR_USED_HIGH, &zero));
}

static void *allocate_driver(const struct player *player, size_t bytes)
{
    tn_cu_deviceptr address = 0;

    BENCH_CU(cu.cuMemAllocAsync(&address, bytes, player->stream));
    return (void *)(uintptr_t)address;
}

static void free_driver(const struct player *player, void *address)
{
    BENCH_CU(cu.cuMemFreeAsync((tn_cu_deviceptr)(uintptr_t)address, player->stream));
}

static void get_peaks_driver(const struct player *player, uint64_t *reserved, uint64_t *allocated)
{
    (void)player;
    BENCH_CU(cu.cuMemPoolGetAttribute(cu.rival_pool, TN_CU_POOL_ATTR_RESERVED_HIGH, reserved));
    BENCH_CU(cu.cuMemPoolGetAttribute(cu.rival_pool, TN_CU_POOL_ATTR_USED_HIGH, allocated));
}

static void close_driver(struct player *player)
{
    bench_stream_drain(player->stream);
    BENCH_CU(cu.cuMemPoolTrimTo(cu.rival_pool, 0));
}

static const struct contender tarn = {NULL,      open_tarn,      allocate_tarn,
                                      free_tarn, get_peaks_tarn, close_tarn};
static const struct contender driver = {"cuMemAllocAsync", open_driver,      allocate_driver,
                                        free_driver,       get_peaks_driver, close_driver};

static void play(void *context, size_t steps)
{
    struct player *player = context;
    const struct bench_script *script = player->script;
    const struct contender *contender = player->contender;

    for (size_t i = 0; i < 2 * steps; i++) {
        const struct bench_op *op = &script->ops[player->position];
        void **block = &player->blocks[op->slot];

        if (op->bytes == 0) {
            contender->free(player, *block);
            *block = NULL;
        } else {
            *block = contender->allocate(player, op->bytes);
        }
        player->position += 1;
        if (player->position == script->op_count)
            player->position = 0;
    }
}

static void drain(void *context)
{
    const struct player *player = context;

    bench_stream_drain(player->stream);
}

/* Fills the slots and plays the whole script once, so that what is timed is no beginning. */
static void open_player(struct player *player)
{
    const struct bench_script *script = player->script;

    player->stream = bench_stream_create();
    player->blocks = calloc(script->slot_count, sizeof *player->blocks);
    if (player->blocks == NULL)
        bench_fail("no host memory");
    player->contender->open(player);
    for (size_t i = 0; i < script->slot_count; i++)
        player->blocks[i] = player->contender->allocate(player, script->first_bytes[i]);
    for (size_t i = 1; script->order == BENCH_ORDER_COMB && i < script->slot_count; i += 2) {
        player->contender->free(player, player->blocks[i]);
        player->blocks[i] = NULL;
    }
    play(player, script->step_count);
    drain(player);
}

static void close_player(struct player *player)
{
    for (size_t i = 0; i < player->script->slot_count; i++) {
        if (player->blocks[i] != NULL)
            player->contender->free(player, player->blocks[i]);
    }
    player->contender->close(player);
    bench_stream_destroy(player->stream);
    free(player->blocks);
}

/* ---- the trace of the limits --------------------------------------------------------------- */

/* The largest blocks of up to bytes_max, a power of two, of which so many take no more than the part
 * of the free memory. */
static size_t choose_bytes_max(size_t bytes_max, size_t count, size_t parts)
{
    size_t free_bytes;
    size_t total_bytes;

    BENCH_CU(cu.cuMemGetInfo(&free_bytes, &total_bytes));
    while (bytes_max > (size_t)2 * BENCH_BLOCK_BYTES_MIN &&
           bytes_max / 2 * count > free_bytes / parts)
        bytes_max /= 2;
    return bytes_max;
}

/* Adds the size of the blocks to a variant's name, where they are not as they should be. */
static const char *name_variant(char name[64], const char *variant, size_t bytes_max, size_t wanted)
{
    if (bytes_max == wanted)
        (void)snprintf(name, 64, "%s", variant);
    else
        (void)snprintf(name, 64, "%.40s, up to %u KiB", variant, (unsigned)(bytes_max >> 10));
    return name;
}

static struct bench_summary one_value(double value)
{
    return (struct bench_summary){value, value, value, 1};
}

static void report_peaks(const struct player *player, const char *reserved_variant,
                         const char *requested_variant)
{
    const char *rival = player->contender->rival;
    uint64_t reserved = 0;
    uint64_t allocated = 0;
    char name[64];

    player->contender->get_peaks(player, &reserved, &allocated);
    name_variant(name, reserved_variant, player->script->bytes_max, LIMIT_BYTES_MAX);
    bench_report("trace", name, rival, "", one_value((double)reserved / (double)allocated));
    /* The allocators' own ideas of what is allocated may differ: what was asked for is one. */
    name_variant(name, requested_variant, player->script->bytes_max, LIMIT_BYTES_MAX);
    bench_report("trace", name, rival, "",
                 one_value((double)reserved / (double)player->script->requested_peak));
}

/* Names for sizes that are alike likely, and by octave. */
static const struct trace_names {
    const char *step;
    const char *reserved;
    const char *requested;
} trace_names[] = {
    {"step", "reserved over allocated", "reserved over requested"},
    {"by octave: step", "by octave: reserved over allocated", "by octave: reserved over requested"},
};

static void compare(const struct bench *bench, bool by_octave)
{
    enum { PARTS = 3 }; /* of the memory: Tarn's, the rival's, and what both take over */
    const struct trace_names *names = &trace_names[by_octave ? 1 : 0];
    struct bench_script script = {.order = BENCH_ORDER_RANDOM,
                                  .by_octave = by_octave,
                                  .live_count = LIMIT_BLOCKS,
                                  .step_count = bench->quick ? QUICK_STEPS : STEPS};
    struct player players[] = {{.bench = bench, .contender = &tarn, .script = &script},
                               {.bench = bench, .contender = &driver, .script = &script}};
    struct bench_case cases[] = {{NULL, play, drain, &players[0], 0},
                                 {NULL, play, drain, &players[1], 0}};
    size_t count = cu.rival_pool != NULL && (bench->quick || !cu.simulated) ? 2 : 1;
    struct bench_plan plan = bench_plan_for(bench->quick, SAMPLES);
    struct bench_series series[2];
    char name[64];

    script.bytes_max = choose_bytes_max(LIMIT_BYTES_MAX, LIMIT_BLOCKS, PARTS);
    bench_script_create(&script);
    for (size_t i = 0; i < count; i++) {
        open_player(&players[i]);
        report_peaks(&players[i], names->reserved, names->requested);
    }
    bench_measure(&plan, cases, count, series);
    name_variant(name, names->step, script.bytes_max, LIMIT_BYTES_MAX);
    for (size_t i = 0; i < count; i++) {
        bench_report("trace", name, players[i].contender->rival, "ns", bench_summarize(&series[i]));
        close_player(&players[i]);
    }
    if (cu.rival_pool == NULL)
        bench_report_absent("trace", name, driver.rival);
    bench_script_destroy(&script);
}

/* ---- scaling ------------------------------------------------------------------------------- */

static struct bench_summary measure_steps(const struct bench *bench, enum bench_order order,
                                          size_t live_count, size_t bytes_max)
{
    struct bench_script script = {.order = order,
                                  .bytes_max = bytes_max,
                                  .live_count = live_count,
                                  .step_count = bench->quick ? QUICK_STEPS : STEPS};
    struct player player = {.bench = bench, .contender = &tarn, .script = &script};
    struct bench_case subject = {NULL, play, drain, &player, 0};
    struct bench_plan plan = bench_plan_for(bench->quick, SAMPLES);
    struct bench_series series;

    bench_script_create(&script);
    open_player(&player);
    bench_measure(&plan, &subject, 1, &series);
    close_player(&player);
    bench_script_destroy(&script);
    return bench_summarize(&series);
}

/* One number of blocks at a time: others' records would push its own out of the caches. */
static void scale(const struct bench *bench, enum bench_order order, size_t count_max,
                  size_t bytes_max)
{
    static const char *const order_names[BENCH_ORDER_COUNT] = {"random", "FIFO", "LIFO",
                                                               "alternating", "comb"};
    double fewest_ns = 0;

    for (size_t count = SCALE_BLOCKS_MIN; count <= count_max; count *= SCALE_FACTOR) {
        struct bench_summary summary = measure_steps(bench, order, count, bytes_max);
        char variant[40];
        char name[64];

        (void)snprintf(variant, sizeof variant, "%s, %zu blocks", order_names[order], count);
        bench_report("trace", name_variant(name, variant, bytes_max, SCALE_BYTES_MAX), NULL, "ns",
                     summary);
        if (count == SCALE_BLOCKS_MIN) {
            fewest_ns = summary.median;
            continue;
        }
        (void)snprintf(variant, sizeof variant, "%s, %zu over %d", order_names[order], count,
                       SCALE_BLOCKS_MIN);
        bench_report("trace", name_variant(name, variant, bytes_max, SCALE_BYTES_MAX), NULL,
                     "times", bench_scaled(summary, 1 / fewest_ns));
    }
}

void bench_row_trace(const struct bench *bench)
{
    enum {
        PARTS = 3
    }; /* of the memory: a comb's blocks and its holes, and what a pool takes over */
    size_t count_max = bench->quick ? QUICK_BLOCKS_MAX : SCALE_BLOCKS_MAX;
    size_t bytes_max;

    compare(bench, false);
    compare(bench, true);
    bytes_max = choose_bytes_max(SCALE_BYTES_MAX, count_max, PARTS);
    for (enum bench_order order = BENCH_ORDER_RANDOM; order < BENCH_ORDER_COUNT; order++)
        scale(bench, order, count_max, bytes_max);
}
