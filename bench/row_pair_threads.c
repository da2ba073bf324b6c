// SPDX-License-Identifier: Apache-2.0
/* Pairs on as many threads as the machine has cores for, up to 16, each on a stream of its own; and
 * all on one stream, whose rate is judged by the former.
 *
 * One sample is a window of time: all threads start at once, and what they have done when it closes
 * is counted. A rate of many threads is judged by that of one thread times their number; processors
 * that share a core or lower their clock under load cannot reach that, whatever they run, so it is
 * divided by what threads reach that share nothing (pair_spin_lock). One thread and many, Tarn, its
 * rival and the lock take turns, sample by sample. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"
#include "harness.h"
#include "pair.h"
#include "quiet.h"
#include "report.h"

enum {
    SAMPLES = 41,
    WINDOW_NS = 20000000,
    WINDOW_QUICK_NS = 1000000,
    WARM_UP_PAIRS = 200, /* on each thread, before its window opens */
};

/* What one sample shares. */
struct window {
    const struct pair_contender *contender;
    atomic_uint ready; /* threads that wait for the window to open */
    atomic_bool open;
    atomic_bool closed;
};

struct worker {
    struct pair_lane *lane;
    struct window *window;
    pthread_t thread;
    uint64_t pair_count; /* done in the window */
};

static void *work(void *context)
{
    struct worker *worker = context;
    struct window *window = worker->window;
    void (*pair)(struct pair_lane *) = window->contender->pair;
    uint64_t count = 0;

    bench_driver_enter_thread();
    for (int i = 0; i < WARM_UP_PAIRS; i++)
        pair(worker->lane);
    atomic_fetch_add(&window->ready, 1);
    while (!atomic_load_explicit(&window->open, memory_order_acquire))
        (void)sched_yield();
    for (; !atomic_load_explicit(&window->closed, memory_order_relaxed); count++)
        pair(worker->lane);
    worker->pair_count = count;
    return NULL;
}

double pair_measure_rate(const struct pair_contender *contender, struct pair_lane *lanes,
                         unsigned thread_count, long window_ns)
{
    struct worker workers[PAIR_THREADS_MAX];
    struct window window = {.contender = contender};
    struct timespec rest = {0, window_ns};
    uint64_t begin;
    uint64_t end;
    uint64_t pairs = 0;

    for (unsigned i = 0; i < thread_count; i++) {
        workers[i] = (struct worker){.lane = &lanes[i], .window = &window};
        bench_thread_start(&workers[i].thread, work, &workers[i]);
    }
    while (atomic_load(&window.ready) < thread_count)
        (void)sched_yield();
    begin = bench_now();
    atomic_store(&window.open, true);
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        ;
    atomic_store(&window.closed, true);
    end = bench_now();
    for (unsigned i = 0; i < thread_count; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        pairs += workers[i].pair_count;
        bench_stream_drain(lanes[i].stream);
    }
    return (double)pairs / (double)(end - begin) * 1e3;
}

struct rates {
    const struct pair_contender *contender;
    struct bench_series alone;
    struct bench_series together;
};

static void report_rates(const struct rates *rates, unsigned thread_count)
{
    char variant[64];

    bench_report("pair", "1 MiB, 1 thread", rates->contender->rival, "million pairs/s",
                 bench_summarize(&rates->alone));
    (void)snprintf(variant, sizeof variant, "1 MiB, %u threads", thread_count);
    bench_report("pair", variant, rates->contender->rival, "million pairs/s",
                 bench_summarize(&rates->together));
}

/* In percent: how many times faster all threads are than one, by how many times the lock is. On a
 * machine with more work than cores a thread may not run at all in its window: such a round has no
 * ratio, and a run of nothing but such rounds has no row. */
static void report_scaling(const struct rates *rates, const struct rates *lock,
                           unsigned thread_count)
{
    struct bench_series scaling = {.count = 0};
    char variant[64];

    for (size_t i = 0; i < rates->alone.count; i++) {
        double ours = rates->together.values[i] * lock->alone.values[i];
        double ideal = rates->alone.values[i] * lock->together.values[i];

        if (ours > 0 && ideal > 0)
            bench_series_add(&scaling, 100.0 * ours / ideal);
    }
    if (scaling.count == 0)
        return;
    (void)snprintf(variant, sizeof variant, "1 MiB, %u threads, of linear", thread_count);
    bench_report("pair", variant, rates->contender->rival, "%", bench_summarize(&scaling));
}

/* In percent: the rate of threads that share a stream, of the rate on streams of their own. */
static void report_sharing(const struct bench_series *shared, const struct rates *own,
                           unsigned thread_count)
{
    struct bench_series share = {.count = 0};
    char variant[64];

    (void)snprintf(variant, sizeof variant, "1 MiB, %u threads, one stream", thread_count);
    bench_report("pair", variant, NULL, "million pairs/s", bench_summarize(shared));
    for (size_t i = 0; i < shared->count; i++) {
        if (own->together.values[i] > 0)
            bench_series_add(&share, 100.0 * shared->values[i] / own->together.values[i]);
    }
    if (share.count == 0)
        return;
    (void)snprintf(variant, sizeof variant, "1 MiB, %u threads, one stream, of own streams",
                   thread_count);
    bench_report("pair", variant, NULL, "%", bench_summarize(&share));
}

unsigned pair_choose_thread_count(void)
{
    cpu_set_t allowed;
    int cores = sched_getaffinity(0, sizeof allowed, &allowed) == 0
                    ? CPU_COUNT(&allowed)
                    : (int)sysconf(_SC_NPROCESSORS_ONLN);

    if (cores < 2)
        return 2; /* there is little to learn, but something to run */
    return cores < PAIR_THREADS_MAX ? (unsigned)cores : PAIR_THREADS_MAX;
}

long pair_window_ns(const struct bench *bench)
{
    return bench->quick ? WINDOW_QUICK_NS : WINDOW_NS;
}

void pair_on_threads(const struct bench *bench)
{
    struct pair_lane lanes[PAIR_THREADS_MAX];
    struct pair_lane shared_lanes[PAIR_THREADS_MAX]; /* all on one stream */
    struct bench_series shared = {.count = 0};
    tarn_stream stream = bench_stream_create();
    struct rates rates[] = {
        {.contender = &pair_tarn}, {.contender = &pair_spin_lock}, {.contender = &pair_driver}};
    struct bench_plan plan = bench_plan_for(bench->quick, SAMPLES);
    long window_ns = pair_window_ns(bench);
    unsigned thread_count = pair_choose_thread_count();
    size_t contenders = cu.rival_pool != NULL ? 3 : 2;

    for (unsigned i = 0; i < thread_count; i++) {
        lanes[i] = (struct pair_lane){bench->device, bench_stream_create(), PAIR_MAIN_BYTES,
                                      ATOMIC_FLAG_INIT};
        shared_lanes[i] =
            (struct pair_lane){bench->device, stream, PAIR_MAIN_BYTES, ATOMIC_FLAG_INIT};
    }
    for (size_t round = 0; round < plan.sample_count; round++) {
        for (size_t i = 0; i < contenders; i++) {
            bench_series_add(&rates[i].alone,
                             pair_measure_rate(rates[i].contender, lanes, 1, window_ns));
            bench_series_add(&rates[i].together,
                             pair_measure_rate(rates[i].contender, lanes, thread_count, window_ns));
        }
        bench_series_add(&shared,
                         pair_measure_rate(&pair_tarn, shared_lanes, thread_count, window_ns));
    }
    for (unsigned i = 0; i < thread_count; i++)
        bench_stream_destroy(lanes[i].stream);
    bench_stream_destroy(stream);

    for (size_t i = 0; i < contenders; i++)
        report_rates(&rates[i], thread_count);
    if (contenders < 3)
        bench_report_absent("pair", "1 MiB, on threads", pair_driver.rival);
    report_scaling(&rates[0], &rates[1], thread_count);
    report_sharing(&shared, &rates[0], thread_count);
}
