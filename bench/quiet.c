// SPDX-License-Identifier: Apache-2.0
#include "quiet.h"

#include <sched.h>
#include <stdint.h>
#include <stdlib.h>

#include "base.h"

enum {
    WALK_BYTES = 128 << 10, /* more than a first-level cache, a part of a second-level one */
    LINE_BYTES = 64,
    PROBES = 5,
    PERCENT_SLOWER = 25,    /* a neighbour that works makes 30 to 100; a clock that changes, 10 */
    REST_NS = 20 * 1000000, /* before the next search: where all are slow none is worth going to */
};

static struct {
    bool chosen;
    cpu_set_t all;         /* that the process may use */
    bool known;            /* what all is */
    uint64_t reference_ns; /* the shortest of all searches */
    uint64_t searched_at;
} quiet;

void bench_quiet_choose(bool chosen)
{
    quiet.chosen = chosen;
}

static int compare_times(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Written, or all would be one page of zeros. */
static uint64_t words[WALK_BYTES / sizeof(uint64_t)];

static uint64_t walk(void)
{
    uint64_t begin = bench_now();
    uint64_t sum = 0;

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i += LINE_BYTES / sizeof words[0])
        sum += *(volatile uint64_t *)&words[i];
    (void)sum;
    return bench_now() - begin;
}

/* A second walk over what the first has brought near: of the path between the caches a neighbour takes its half,
 * whatever he does; of mere additions often none. */
static uint64_t time_walk(void)
{
    (void)walk();
    return walk();
}

static uint64_t probe(void)
{
    uint64_t times[PROBES];

    for (int i = 0; i < PROBES; i++)
        times[i] = time_walk();
    qsort(times, PROBES, sizeof times[0], compare_times);
    return times[PROBES / 2];
}

static bool go_to(unsigned cpu)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

static void search(void)
{
    unsigned best = CPU_SETSIZE;
    uint64_t best_ns = UINT64_MAX;

    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        uint64_t time;

        if (!CPU_ISSET(cpu, &quiet.all) || !go_to(cpu))
            continue;
        time = probe();
        if (time >= best_ns)
            continue;
        best = cpu;
        best_ns = time;
    }
    if (best == CPU_SETSIZE || !go_to(best))
        bench_quiet_end();
    else if (quiet.reference_ns == 0 || best_ns < quiet.reference_ns)
        quiet.reference_ns = best_ns;
    quiet.searched_at = bench_now();
}

void bench_quiet_begin(void)
{
    if (!quiet.chosen)
        return;
    if (!quiet.known) {
        quiet.known = sched_getaffinity(0, sizeof quiet.all, &quiet.all) == 0;
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
            words[i] = i;
    }
    if (quiet.known)
        search();
}

bool bench_quiet_keep(void)
{
    uint64_t limit = quiet.reference_ns + quiet.reference_ns * PERCENT_SLOWER / 100;

    if (!quiet.known || time_walk() <= limit || probe() <= limit)
        return true;
    if (bench_now() - quiet.searched_at > REST_NS)
        search();
    return false;
}

void bench_quiet_end(void)
{
    if (quiet.known)
        (void)sched_setaffinity(0, sizeof quiet.all, &quiet.all);
}

void bench_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    pthread_attr_t attributes;

    if (pthread_attr_init(&attributes) != 0)
        bench_fail("no thread");
    if ((quiet.known &&
         pthread_attr_setaffinity_np(&attributes, sizeof quiet.all, &quiet.all) != 0) ||
        pthread_create(thread, &attributes, run, argument) != 0)
        bench_fail("no thread");
    (void)pthread_attr_destroy(&attributes);
}
