// SPDX-License-Identifier: Apache-2.0
/* A pair is an allocation and its free, nothing else on the stream and no route open: after the
 * first, each pair takes the block that the one before gave back.
 *
 * Freed by tarn_free_on: on the stream that the block was allocated on. Samples of it and of
 * tarn_free alternate, and what it adds is the difference.
 *
 * Freed by another thread: one thread allocates, passes the addresses through a ring, and another
 * frees them; both work at the same time. Addresses are passed in groups, so that the figure is the
 * allocator's and not that of a cache line between two processors. A sample ends when the last is
 * freed. */
#include "pair.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "driver.h"
#include "harness.h"
#include "quiet.h"
#include "report.h"

enum {
    RING_BLOCKS = 256,
    GROUP_BLOCKS = 32,
    SPINS_MAX = 1000, /* of a thread that waits, before it lets others run */
    SAMPLES = 101,
};

/* ---- one thread ---------------------------------------------------------------------------- */

struct one_thread {
    const struct pair_contender *contender;
    struct pair_lane lane;
};

static void run_pairs(void *context, size_t iterations)
{
    struct one_thread *work = context;

    for (size_t i = 0; i < iterations; i++)
        work->contender->pair(&work->lane);
}

static void drain_pairs(void *context)
{
    const struct one_thread *work = context;

    bench_stream_drain(work->lane.stream);
}

/* ---- freed by another thread --------------------------------------------------------------- */

struct two_threads {
    const struct pair_contender *contender;
    struct pair_lane lane;
    pthread_t freer;
    void *ring[RING_BLOCKS];
    size_t passed;                         /* as published, allocating thread only */
    _Alignas(128) atomic_size_t published; /* addresses passed on */
    _Alignas(128) atomic_size_t freed;     /* of those, freed */
    atomic_bool ready;                     /* the other thread runs */
    atomic_bool over;                      /* nothing more will come */
};

/* One step of waiting for the other thread. */
static void wait_a_little(unsigned *spins)
{
    *spins += 1;
    if (*spins > SPINS_MAX)
        (void)sched_yield();
}

static void *free_what_comes(void *context)
{
    struct two_threads *work = context;
    size_t done = atomic_load(&work->freed);
    unsigned spins = 0;

    bench_driver_enter_thread();
    atomic_store(&work->ready, true);
    for (;;) {
        bool over = atomic_load_explicit(&work->over, memory_order_acquire);
        size_t limit = atomic_load_explicit(&work->published, memory_order_acquire);

        if (done == limit && over)
            return NULL;
        if (done == limit) {
            wait_a_little(&spins);
            continue;
        }
        spins = 0;
        for (; done < limit; done++)
            work->contender->free(&work->lane, work->ring[done % RING_BLOCKS]);
        atomic_store_explicit(&work->freed, done, memory_order_release);
    }
}

static void begin_two_threads(void *context)
{
    struct two_threads *work = context;

    atomic_store(&work->ready, false);
    atomic_store(&work->over, false);
    bench_thread_start(&work->freer, free_what_comes, work);
    while (!atomic_load(&work->ready))
        (void)sched_yield();
}

/* Waits until at most that many addresses are on their way. */
static void wait_for_freer(struct two_threads *work, size_t on_the_way)
{
    unsigned spins = 0;

    while (work->passed - atomic_load_explicit(&work->freed, memory_order_acquire) > on_the_way)
        wait_a_little(&spins);
}

static void run_two_threads(void *context, size_t iterations)
{
    struct two_threads *work = context;

    for (size_t i = 0; i < iterations; i++) {
        if (work->passed % GROUP_BLOCKS == 0)
            wait_for_freer(work, RING_BLOCKS - GROUP_BLOCKS);
        work->ring[work->passed % RING_BLOCKS] = work->contender->allocate(&work->lane);
        work->passed += 1;
        if (work->passed % GROUP_BLOCKS == 0)
            atomic_store_explicit(&work->published, work->passed, memory_order_release);
    }
    atomic_store_explicit(&work->published, work->passed, memory_order_release);
    wait_for_freer(work, 0);
}

static void end_two_threads(void *context)
{
    struct two_threads *work = context;

    atomic_store_explicit(&work->over, true, memory_order_release);
    (void)pthread_join(work->freer, NULL);
    bench_stream_drain(work->lane.stream);
}

/* ---- the row ------------------------------------------------------------------------------- */

/* Measures Tarn, and the rival beside it where the driver has it. */
static void compare(const struct bench *bench, const char *variant, const struct bench_case *cases)
{
    struct bench_plan plan = bench_plan_for(bench->quick, SAMPLES);
    bool rival = cu.rival_pool != NULL;
    struct bench_series series[2];

    bench_measure(&plan, cases, rival ? 2 : 1, series);
    bench_report("pair", variant, NULL, "ns", bench_summarize(&series[0]));
    if (rival)
        bench_report("pair", variant, pair_driver.rival, "ns", bench_summarize(&series[1]));
    else
        bench_report_absent("pair", variant, pair_driver.rival);
}

static void on_one_thread(const struct bench *bench, tarn_stream stream, const char *variant,
                          size_t bytes)
{
    struct pair_lane lane = {bench->device, stream, bytes, ATOMIC_FLAG_INIT};
    struct one_thread tarn = {&pair_tarn, lane};
    struct one_thread driver = {&pair_driver, lane};

    compare(bench, variant,
            (struct bench_case[]){{NULL, run_pairs, drain_pairs, &tarn, 0},
                                  {NULL, run_pairs, drain_pairs, &driver, 0}});
}

/* What the question whether the stream is captured adds to a pair. */
static void freed_on_stream(const struct bench *bench, tarn_stream stream)
{
    struct bench_plan plan = bench_plan_for(bench->quick, SAMPLES);
    struct pair_lane lane = {bench->device, stream, PAIR_MAIN_BYTES, ATOMIC_FLAG_INIT};
    struct one_thread on_stream = {&pair_tarn_on, lane};
    struct one_thread plain = {&pair_tarn, lane};
    struct bench_case cases[] = {{NULL, run_pairs, drain_pairs, &on_stream, 0},
                                 {NULL, run_pairs, drain_pairs, &plain, 0}};
    struct bench_series series[2];

    bench_measure(&plan, cases, 2, series);
    bench_report("pair", "1 MiB, freed by tarn_free_on", NULL, "ns", bench_summarize(&series[0]));
    bench_report("pair", "1 MiB, freed by tarn_free_on, added", NULL, "ns",
                 bench_difference(&series[0], &series[1]));
}

static void across_threads(const struct bench *bench, tarn_stream stream)
{
    struct pair_lane lane = {bench->device, stream, PAIR_MAIN_BYTES, ATOMIC_FLAG_INIT};
    struct two_threads tarn = {.contender = &pair_tarn, .lane = lane};
    struct two_threads driver = {.contender = &pair_driver, .lane = lane};

    compare(
        bench, "1 MiB, freed by another thread",
        (struct bench_case[]){{begin_two_threads, run_two_threads, end_two_threads, &tarn, 0},
                              {begin_two_threads, run_two_threads, end_two_threads, &driver, 0}});
}

void bench_row_pair(const struct bench *bench)
{
    tarn_stream stream = bench_stream_create();

    on_one_thread(bench, stream, "512 B", 512);
    on_one_thread(bench, stream, "64 KiB", (size_t)64 << 10);
    on_one_thread(bench, stream, "1 MiB", PAIR_MAIN_BYTES);
    on_one_thread(bench, stream, "32 MiB", (size_t)32 << 20);
    freed_on_stream(bench, stream);
    across_threads(bench, stream);
    bench_stream_destroy(stream);
    pair_on_threads(bench);
}
