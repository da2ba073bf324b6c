// SPDX-License-Identifier: Apache-2.0
/* tarn_instructions [--brief] -- work whose instructions are counted: pairs of one size, a free with an
 * allocation among many live blocks, and replays, all in a steady state, on the simulated driver.
 *
 * tools/instructions.sh runs it under callgrind, which counts what stands between count_from and
 * count_to alone, and writes a file for each case; its name is "CASE/ITERATIONS". Everything else runs
 * uncounted, and much faster. Instructions do not depend on a machine's load or its clock: the same
 * build gives the same numbers. They know nothing of caches, which is what times are for (row_live.c).
 *
 * --brief leaves out traces of many blocks, which take most of the time, and of large ones, and prints their
 * names. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commit.h"
#include "contenders.h"
#include "driver.h"
#include "harness.h"
#include "script.h"
#include "script_player.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#define HAVE_VALGRIND 1
#else
#define HAVE_VALGRIND 0
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_DUMP_STATS_AT(name) (void)(name)
#define RUNNING_ON_VALGRIND 0
#endif

enum {
    PAIRS = 1000,
    REPLAYS = 1000,
    GRAPHS_MAX = 2,
    STEPS = 4096,                /* counted, of each trace */
    WARM_UP_STEPS_MIN = 1 << 15, /* and as many as there are blocks */
    BLOCKS_MIN = 100,
    BLOCKS_MAX = 1000000,
    BRIEF_BLOCKS_MAX = 10000,
    BRIEF_BYTES_MAX = 4 << 20,
    FACTOR = 10,
    GROWTH_BLOCKS = 10000,
    EXIT_SKIPPED = 77,
};

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static void count_from(void)
{
    CALLGRIND_START_INSTRUMENTATION;
}

static void count_to(const char *name, size_t iterations)
{
    char text[80];

    CALLGRIND_STOP_INSTRUMENTATION;
    (void)snprintf(text, sizeof text, "%s/%zu", name, iterations);
    CALLGRIND_DUMP_STATS_AT(text);
}

/* ---- pairs --------------------------------------------------------------------------------- */

static void do_pairs(tarn_device *device, tarn_stream stream, size_t bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *address = NULL;

        BENCH_OK(tarn_malloc(device, bytes, stream, &address));
        BENCH_OK(tarn_free(address));
    }
}

static void count_pairs(tarn_device *device, const char *name, size_t bytes)
{
    tarn_stream stream = bench_stream_create();

    do_pairs(device, stream, bytes, PAIRS);
    count_from();
    do_pairs(device, stream, bytes, PAIRS);
    count_to(name, PAIRS);
    bench_stream_destroy(stream);
}

/* Each freed with word of its last use, which is on its own stream. */
static void count_pairs_told(tarn_device *device)
{
    tarn_stream stream = bench_stream_create();

    do_pairs(device, stream, MIB, PAIRS);
    count_from();
    for (size_t i = 0; i < PAIRS; i++) {
        void *address = NULL;

        BENCH_OK(tarn_malloc(device, MIB, stream, &address));
        BENCH_OK(tarn_free_on(address, stream));
    }
    count_to("pair, 1 MiB, tarn_free_on", PAIRS);
    bench_stream_destroy(stream);
}

/* One thread has allocated, another frees; one after the other, so that waiting is not counted. */
static void *free_all(void *context)
{
    void **blocks = context;

    bench_driver_enter_thread();
    count_from();
    for (size_t i = 0; i < PAIRS; i++)
        BENCH_OK(tarn_free(blocks[i]));
    CALLGRIND_STOP_INSTRUMENTATION;
    return NULL;
}

static void count_across_threads(tarn_device *device)
{
    tarn_stream stream = bench_stream_create();
    void *blocks[PAIRS];

    for (int round = 0; round < 2; round++) {
        pthread_t thread;

        CALLGRIND_ZERO_STATS;
        count_from();
        for (size_t i = 0; i < PAIRS; i++)
            BENCH_OK(tarn_malloc(device, MIB, stream, &blocks[i]));
        CALLGRIND_STOP_INSTRUMENTATION;
        if (pthread_create(&thread, NULL, free_all, blocks) != 0)
            bench_fail("no thread");
        (void)pthread_join(thread, NULL);
    }
    count_to("pair, 1 MiB, freed by another thread", PAIRS);
    bench_stream_destroy(stream);
}

/* In the pool of a capture, on its stream; what the pool has of memory came with the first round. */
static void count_captured_pairs(tarn_device *device)
{
    tarn_stream stream = bench_stream_create();
    tarn_pool *pool = NULL;

    BENCH_OK(tarn_pool_create(device, NULL, &pool));
    for (int round = 0; round < 2; round++) {
        tarn_capture *capture = NULL;
        tarn_graph *graph = NULL;

        BENCH_OK(tarn_capture_begin(pool, stream, NULL, &capture));
        do_pairs(device, stream, MIB, PAIRS);
        CALLGRIND_ZERO_STATS;
        count_from();
        do_pairs(device, stream, MIB, PAIRS);
        CALLGRIND_STOP_INSTRUMENTATION;
        BENCH_OK(tarn_capture_end(capture, &graph));
        BENCH_OK(tarn_graph_destroy(graph));
    }
    count_to("pair, 1 MiB, in a capture", PAIRS);
    BENCH_OK(tarn_pool_destroy(pool));
    bench_stream_destroy(stream);
}

/* ---- replays ------------------------------------------------------------------------------- */

static tarn_graph *capture_touch(tarn_device *device, tarn_pool *pool, tarn_stream stream)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    void *word = NULL;

    BENCH_OK(tarn_capture_begin(pool, stream, NULL, &capture));
    BENCH_OK(tarn_malloc(device, sizeof(uint32_t), stream, &word));
    bench_touch_launch(stream, word);
    BENCH_OK(tarn_free(word));
    BENCH_OK(tarn_capture_end(capture, &graph));
    return graph;
}

/* In turn, on one stream. What the driver counts with them is the launch itself: the graphs run afterwards, or
 * the simulated GPU's thread would be counted, too, as far as it comes on a busy machine. */
static void count_replays(tarn_device *device, const char *name, size_t graph_count)
{
    tarn_stream stream = bench_stream_create();
    tarn_graph *graphs[GRAPHS_MAX];
    tarn_pool *pool = NULL;

    BENCH_OK(tarn_pool_create(device, NULL, &pool));
    for (size_t i = 0; i < graph_count; i++)
        graphs[i] = capture_touch(device, pool, stream);
    for (size_t i = 0; i < REPLAYS; i++)
        BENCH_OK(tarn_graph_replay(graphs[i % graph_count], stream));
    bench_stream_drain(stream);
    cu.hold_work();
    count_from();
    for (size_t i = 0; i < REPLAYS; i++)
        BENCH_OK(tarn_graph_replay(graphs[i % graph_count], stream));
    count_to(name, REPLAYS);
    cu.resume_work();
    bench_stream_drain(stream);
    for (size_t i = 0; i < graph_count; i++)
        BENCH_OK(tarn_graph_destroy(graphs[i]));
    BENCH_OK(tarn_pool_destroy(pool));
    bench_stream_destroy(stream);
}

/* ---- traces -------------------------------------------------------------------------------- */

static bool brief;

/* note: stands behind the case's name. */
static void count_steps(tarn_device *device, enum bench_order order, size_t live_count,
                        size_t bytes_max, const char *note)
{
    size_t steps = WARM_UP_STEPS_MIN;
    struct bench_script script = {.order = order, .bytes_max = bytes_max, .live_count = live_count};
    struct script_player player = {&script_tarn, &script, .context = device};
    char name[64];

    (void)snprintf(name, sizeof name, "%s, up to %zu KiB, %zu blocks%s", bench_order_names[order],
                   bytes_max / KIB, live_count, note);
    if (brief && (live_count > BRIEF_BLOCKS_MAX || bytes_max > BRIEF_BYTES_MAX)) {
        (void)printf("left out: %s\n", name);
        return;
    }
    while (steps < live_count)
        steps *= 2;
    script.step_count = steps;
    bench_script_create(&script);
    script_player_open(&player);
    count_from();
    script_play(&player, STEPS);
    count_to(name, STEPS);
    script_player_close(&player);
    bench_script_destroy(&script);
}

/* Allocations of a pool that begins with nothing: most take what is left of a chunk, some map one. */
static void count_growth(tarn_device *device, size_t bytes_max)
{
    struct bench_script script = {.order = BENCH_ORDER_RANDOM,
                                  .bytes_max = bytes_max,
                                  .live_count = GROWTH_BLOCKS,
                                  .step_count = BENCH_BURST_BLOCKS};
    struct script_player player = {&script_tarn, &script, .context = device};
    char name[64];

    bench_script_create(&script);
    (void)snprintf(name, sizeof name, "growth, up to %zu KiB, %d blocks", bytes_max / KIB,
                   GROWTH_BLOCKS);
    count_from();
    script_player_fill(&player);
    count_to(name, GROWTH_BLOCKS);
    script_player_close(&player);
    bench_script_destroy(&script);
}

/* ---- all of it ----------------------------------------------------------------------------- */

static void count_all(tarn_device *device)
{
    count_pairs(device, "pair, 512 B", 512);
    count_pairs(device, "pair, 64 KiB", 64 * KIB);
    count_pairs(device, "pair, 1 MiB", MIB);
    count_pairs(device, "pair, 32 MiB", 32 * MIB);
    count_pairs(device, "pair, 1 GiB", GIB);
    count_pairs(device, "pair, 64 GiB", 64 * GIB);
    count_pairs_told(device);
    count_across_threads(device);
    count_captured_pairs(device);
    bench_touch_load();
    count_replays(device, "replay, one graph", 1);
    count_replays(device, "replay, ordered graphs", GRAPHS_MAX);
    bench_touch_unload();
    for (enum bench_order order = BENCH_ORDER_RANDOM; order < BENCH_ORDER_COUNT; order++) {
        for (size_t count = BLOCKS_MIN; count <= BLOCKS_MAX; count *= FACTOR)
            count_steps(device, order, count, 64 * KIB, "");
        count_steps(device, order, GROWTH_BLOCKS, 4 * MIB, "");
        count_steps(device, order, 1000, 64 * MIB, "");
        count_steps(device, order, BLOCKS_MIN, GIB, ""); /* about what an H200 holds */
    }
    count_growth(device, 64 * KIB);
    count_growth(device, 4 * MIB);
}

/* Of the largest blocks some memory moves in every few steps of most orders: here nothing moves. */
static void count_without_moves(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_device *device = NULL;

    options.move_limit_bytes = TARN_NO_MOVES;
    BENCH_OK(tarn_device_open(0, &options, &device));
    for (enum bench_order order = BENCH_ORDER_RANDOM; order < BENCH_ORDER_COUNT; order++)
        count_steps(device, order, BLOCKS_MIN, GIB, ", no moves");
    BENCH_OK(tarn_device_close(device));
}

int main(int count, char **arguments)
{
    tarn_device *device = NULL;

    brief = count == 2 && strcmp(arguments[1], "--brief") == 0;
    if (count > 1 && !brief)
        bench_fail("usage: tarn_instructions [--brief]");
    if (!HAVE_VALGRIND) {
        (void)fputs("built without valgrind's headers: nothing can be counted\n", stderr);
        return EXIT_SKIPPED;
    }
    if (!RUNNING_ON_VALGRIND) {
        (void)fputs("not under valgrind: tools/instructions.sh counts\n", stderr);
        return EXIT_FAILURE;
    }
#if TARN_DEBUG_CHECKS || !defined(__OPTIMIZE__)
    bench_fail("built with checks or without optimization: not the library's figures");
#endif
#ifdef __clang__
    (void)puts("compiler: " __VERSION__);
#else
    (void)puts("compiler: GCC " __VERSION__);
#endif
    (void)puts("commit: " BENCH_COMMIT);
    bench_driver_open();
    if (cu.hold_work == NULL || cu.resume_work == NULL)
        bench_fail("counts are taken on the simulated driver");
    BENCH_OK(tarn_device_open(0, NULL, &device));
    count_all(device);
    BENCH_OK(tarn_device_close(device));
    count_without_moves();
    bench_driver_close();
    return 0;
}
