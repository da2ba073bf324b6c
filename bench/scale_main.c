// SPDX-License-Identifier: Apache-2.0
/* tarn_scale [POPULATION] -- counts what each public call executes while 1, 100, 10,000 or more of
 * something else are there, on the simulated driver. Without an argument it prints the populations'
 * names.
 *
 * tools/scale.sh runs it under callgrind, once for each population. The population grows from size
 * to size with the instrumentation off. At each size all calls are counted: callgrind writes a file
 * for each, named "CALL|POPULATION|SIZE|TIMES|PROPORTIONAL TO". Each call first runs once uncounted.
 * What a call needs before, and what it leaves, is not counted.
 *
 * Trade-offs: the calls of one process share a world, and leave traces in it. So few of them are
 * made that this does not count beside 10,000 of anything. At the end nothing is given back. */
#include "scale.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commit.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#define HAVE_VALGRIND 1
#else
#define HAVE_VALGRIND 0
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#define CALLGRIND_TOGGLE_COLLECT
#define CALLGRIND_DUMP_STATS_AT(name) (void)(name)
#define RUNNING_ON_VALGRIND 0
#endif

enum {
    TIMES = 4,
    THREAD_TIMES = 32, /* what waits for the arena's owner is seen to now and then */
    PROPORTIONAL_TIMES = 1,
    WARM_UP_PAIRS = 1 << 17, /* twice as many as an arena ever asks for */
    WARM_UP_BYTES = 1024,
    EXIT_SKIPPED = 77,
};

static struct scale_world world;

struct turn {
    const struct scale_call *call;
    bool counted;
};

/* Callgrind collects for each thread by itself. */
static void *take_turn(void *context)
{
    const struct turn *turn = context;

    if (turn->counted)
        CALLGRIND_TOGGLE_COLLECT;
    turn->call->run(&world);
    if (turn->counted)
        CALLGRIND_TOGGLE_COLLECT;
    return NULL;
}

static void run_once(const struct scale_call *call, bool counted)
{
    struct turn turn = {call, counted};
    pthread_t thread;

    if (call->prepare != NULL)
        call->prepare(&world);
    if (!call->by_thread)
        (void)take_turn(&turn);
    else if (pthread_create(&thread, NULL, take_turn, &turn) != 0 ||
             pthread_join(thread, NULL) != 0)
        bench_fail("no thread");
    if (call->finish != NULL)
        call->finish(&world);
}

static void count_call(const struct scale_call *call, size_t size)
{
    bool proportional = (call->proportional_kinds & world.population->kind) != 0;
    int times = proportional ? PROPORTIONAL_TIMES : call->by_thread ? THREAD_TIMES : TIMES;
    char text[200];

    run_once(call, false);
    for (int i = 0; i < times; i++)
        run_once(call, true);
    (void)snprintf(text, sizeof text, "%s|%s|%zu|%d|%s", call->name, world.population->name, size,
                   times, proportional ? call->proportional : "");
    CALLGRIND_DUMP_STATS_AT(text);
}

/* The arenas belong to this thread again, and the first memory is there. */
static void warm_up(void)
{
    for (int i = 0; i < WARM_UP_PAIRS; i++) {
        BENCH_OK(tarn_malloc(world.device, WARM_UP_BYTES, world.stream, &world.block));
        BENCH_OK(tarn_free(world.block));
        BENCH_OK(tarn_pool_malloc(world.pool, WARM_UP_BYTES, 0, world.stream, &world.block));
        BENCH_OK(tarn_free(world.block));
    }
}

/* From the first change of streams on, the replays of a pool have another order. */
static void change_streams(void)
{
    tarn_graph *graphs[2] = {scale_capture(&world), scale_capture(&world)};

    BENCH_OK(tarn_graph_replay(graphs[0], world.stream));
    BENCH_OK(tarn_graph_replay(graphs[1], world.other));
    BENCH_OK(tarn_graph_replay(graphs[0], world.stream));
    scale_drain(&world);
    BENCH_OK(tarn_graph_destroy(graphs[0]));
    BENCH_OK(tarn_graph_destroy(graphs[1]));
    scale_drain(&world);
}

/* Some calls end what is pending. */
static void fill(size_t size)
{
    while (world.count - world.first < size)
        scale_add(&world);
    if (world.population->settle != NULL)
        world.population->settle(&world);
    if (world.population->left != NULL) {
        for (size_t left = world.population->left(&world); left < size; left++) {
            struct scale_item item = {0};

            world.population->add(&world, &item);
        }
    }
}

static void count_calls(const struct scale_call *calls, size_t count, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        const struct scale_call *call = &calls[i];

        if (call->kinds != 0 && (call->kinds & world.population->kind) == 0)
            continue;
        if (world.population->left != NULL && world.population->left(&world) < size) {
            CALLGRIND_STOP_INSTRUMENTATION;
            fill(size);
            CALLGRIND_START_INSTRUMENTATION;
        }
        count_call(call, size);
    }
}

static void count_all(void)
{
    if (world.population->open != NULL)
        world.population->open(&world);
    for (int i = 0; i < SCALE_SIZES && world.population->sizes[i] > 0; i++) {
        size_t size = world.population->sizes[i];

        fill(size);
        scale_drain(&world);
        warm_up();
        CALLGRIND_START_INSTRUMENTATION;
        count_calls(scale_memory_calls, scale_memory_call_count, size);
        count_calls(scale_graph_calls, scale_graph_call_count, size);
        count_calls(scale_pool_calls, scale_pool_call_count, size);
        count_calls(scale_look_calls, scale_look_call_count, size);
        CALLGRIND_STOP_INSTRUMENTATION;
        scale_end_kept(&world);
    }
}

static const struct scale_population *find_population(const char *name)
{
    for (size_t i = 0; i < scale_population_count; i++) {
        if (strcmp(scale_populations[i].name, name) == 0)
            return &scale_populations[i];
    }
    bench_fail("there is no population \"%s\"", name);
}

int main(int count, char **arguments)
{
    if (count > 2)
        bench_fail("usage: tarn_scale [POPULATION]");
    if (count == 1) {
        for (size_t i = 0; i < scale_population_count; i++)
            (void)puts(scale_populations[i].name);
        return 0;
    }
    if (!HAVE_VALGRIND) {
        (void)fputs("built without valgrind's headers: nothing can be counted\n", stderr);
        return EXIT_SKIPPED;
    }
    if (!RUNNING_ON_VALGRIND) {
        (void)fputs("not under valgrind: tools/scale.sh counts\n", stderr);
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
    world.population = find_population(arguments[1]);
    bench_driver_open();
    if (cu.set_queries == NULL)
        bench_fail("counts are taken on the simulated driver");
    BENCH_OK(tarn_device_open(0, NULL, &world.device));
    BENCH_OK(tarn_device_default_pool(world.device, &world.shared));
    BENCH_OK(tarn_pool_create(world.device, NULL, &world.pool));
    world.stream = bench_stream_create();
    world.other = bench_stream_create();
    world.guest_stream = bench_stream_create();
    bench_touch_load();
    change_streams();
    count_all();
    return 0;
}
