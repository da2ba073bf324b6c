// SPDX-License-Identifier: Apache-2.0
/* Producers allocate, consumers free: one to eight couples of threads, each couple with a stream and a
 * ring of its own, in a window of time. What was freed in it is counted, so neither side can run ahead of
 * the other for more than a ring.
 *
 * Blocks are passed in groups, so that the figure is the allocator's and not that of a cache line between
 * two processors. The time that one couple takes for a pair is a limit's, in the row pair. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "driver.h"
#include "harness.h"
#include "pair.h"
#include "quiet.h"
#include "report.h"
#include "rows.h"

enum {
    COUPLES_MAX = PAIR_THREADS_MAX / 2,
    RING_BLOCKS = 256,
    GROUP_BLOCKS = 32,
    SPINS_MAX = 1000, /* of a thread that waits, before it lets others run */
    SAMPLES = 41,
};

struct couple {
    const struct pair_contender *contender;
    const atomic_bool *closed;
    struct pair_lane lane;
    pthread_t producer;
    pthread_t consumer;
    void *ring[RING_BLOCKS];
    _Alignas(128) atomic_size_t published; /* blocks passed on */
    atomic_bool over;                      /* nothing more will come */
    _Alignas(128) atomic_size_t freed;     /* of those, freed */
};

static void wait_a_little(unsigned *spins)
{
    *spins += 1;
    if (*spins > SPINS_MAX)
        (void)sched_yield();
}

static void *produce(void *context)
{
    struct couple *couple = context;
    size_t made = 0;
    unsigned spins = 0;

    bench_driver_enter_thread();
    while (!atomic_load_explicit(couple->closed, memory_order_relaxed)) {
        size_t freed = atomic_load_explicit(&couple->freed, memory_order_acquire);

        if (made - freed > RING_BLOCKS - GROUP_BLOCKS) {
            wait_a_little(&spins);
            continue;
        }
        spins = 0;
        for (size_t i = 0; i < GROUP_BLOCKS; i++, made++)
            couple->ring[made % RING_BLOCKS] = couple->contender->allocate(&couple->lane);
        atomic_store_explicit(&couple->published, made, memory_order_release);
    }
    atomic_store_explicit(&couple->over, true, memory_order_release);
    return NULL;
}

static void *consume(void *context)
{
    struct couple *couple = context;
    size_t freed = 0;
    unsigned spins = 0;

    bench_driver_enter_thread();
    for (;;) {
        bool over = atomic_load_explicit(&couple->over, memory_order_acquire);
        size_t limit = atomic_load_explicit(&couple->published, memory_order_acquire);

        if (freed == limit && over)
            return NULL;
        if (freed == limit) {
            wait_a_little(&spins);
            continue;
        }
        spins = 0;
        for (; freed < limit; freed++)
            couple->contender->free(&couple->lane, couple->ring[freed % RING_BLOCKS]);
        atomic_store_explicit(&couple->freed, freed, memory_order_release);
    }
}

static size_t count_freed(struct couple *couples, unsigned count)
{
    size_t freed = 0;

    for (unsigned i = 0; i < count; i++)
        freed += atomic_load(&couples[i].freed);
    return freed;
}

/* Blocks made and freed by so many couples, in millions a second. The window opens when each couple has
 * sent some round. */
static double measure_rate(const struct pair_contender *contender, struct couple *couples,
                           unsigned count, long window_ns)
{
    struct timespec rest = {0, window_ns};
    atomic_bool closed = false;
    uint64_t begin;
    uint64_t end;
    size_t freed;

    for (unsigned i = 0; i < count; i++) {
        struct couple *couple = &couples[i];

        couple->contender = contender;
        couple->closed = &closed;
        atomic_store(&couple->published, 0);
        atomic_store(&couple->freed, 0);
        atomic_store(&couple->over, false);
        bench_thread_start(&couple->producer, produce, couple);
        bench_thread_start(&couple->consumer, consume, couple);
    }
    for (unsigned i = 0; i < count; i++) {
        while (atomic_load(&couples[i].freed) < RING_BLOCKS)
            (void)sched_yield();
    }
    freed = count_freed(couples, count);
    begin = bench_now();
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        ;
    freed = count_freed(couples, count) - freed;
    end = bench_now();
    atomic_store(&closed, true);
    for (unsigned i = 0; i < count; i++) {
        (void)pthread_join(couples[i].producer, NULL);
        (void)pthread_join(couples[i].consumer, NULL);
        bench_stream_drain(couples[i].lane.stream);
    }
    return (double)freed / (double)(end - begin) * 1e3;
}

static void measure(const struct bench *bench, unsigned count)
{
    static struct couple couples[COUPLES_MAX];
    const struct pair_contender *contenders[] = {&pair_tarn, &pair_driver};
    size_t contender_count = cu.rival_pool != NULL ? 2 : 1;
    struct bench_plan plan = bench_plan_for(bench->quick, SAMPLES);
    struct bench_series series[2] = {{.count = 0}};
    char variant[64];

    for (unsigned i = 0; i < count; i++)
        couples[i].lane = (struct pair_lane){bench->device, bench_stream_create(), PAIR_MAIN_BYTES,
                                             ATOMIC_FLAG_INIT};
    for (size_t round = 0; round < plan.sample_count; round++) {
        for (size_t i = 0; i < contender_count; i++)
            bench_series_add(&series[i],
                             measure_rate(contenders[i], couples, count, pair_window_ns(bench)));
    }
    (void)snprintf(variant, sizeof variant, "%u and %u threads", count, count);
    for (size_t i = 0; i < contender_count; i++)
        bench_report("producers", variant, contenders[i]->rival, "million pairs/s",
                     bench_summarize(&series[i]));
    for (unsigned i = 0; i < count; i++)
        bench_stream_destroy(couples[i].lane.stream);
}

void bench_row_producers(const struct bench *bench)
{
    unsigned couples_max = pair_choose_thread_count() / 2;

    for (unsigned count = 1; count <= couples_max; count *= 2)
        measure(bench, count);
}
