// SPDX-License-Identifier: Apache-2.0
/* Objects that are made, used and ended, one life after the other: what the last thousand lives take of what the first
 * thousand took, and how much more memory there is behind the last than behind the first thousand.
 *
 * The first lives make the records that later lives use again, and are not counted. Host memory is what malloc has
 * given out, the driver's part included; the device's memory is what the driver says is not free. */
#include <malloc.h>
#include <stdio.h>

#include "base.h"
#include "driver.h"
#include "harness.h"
#include "life.h"
#include "report.h"
#include "rows.h"

enum {
    WARM_UP = 1000,
    WINDOW = 1000,
    QUICK_LIVES = 400, /* in place of both */
    PARTS = 10,
    SECONDS = 20, /* where not told */
};

struct memory {
    double host;
    double device;
};

static struct memory read_memory(void)
{
    struct mallinfo2 info = mallinfo2();
    size_t free_bytes = 0;
    size_t bytes = 0;

    BENCH_CU(cu.cuMemGetInfo(&free_bytes, &bytes));
    return (struct memory){(double)info.uordblks + (double)info.hblkhd,
                           (double)(bytes - free_bytes)};
}

struct lives {
    const struct bench *bench;
    bool silently;
    uint64_t count;
};

/* How long one of so many lives takes, in nanoseconds: the median of parts of them. */
static double live(struct lives *lives, uint64_t count)
{
    struct bench_series series = {.count = 0};

    for (uint64_t part = 0; part < PARTS; part++) {
        uint64_t begin = bench_now();

        for (uint64_t i = 0; i < count / PARTS; i++) {
            bench_life(lives->bench->device, lives->count, lives->silently);
            lives->count += 1;
        }
        bench_series_add(&series, (double)(bench_now() - begin) / (double)(count / PARTS));
    }
    return bench_summarize(&series).median;
}

/* All that is free goes back to the driver. */
static void settle(const struct lives *lives)
{
    BENCH_OK(tarn_device_collect(lives->bench->device));
    BENCH_OK(tarn_device_trim(lives->bench->device, 0, NULL));
}

static void report(const struct lives *lives, const char *what, const char *unit, double value)
{
    char variant[64];

    (void)snprintf(variant, sizeof variant, "%s%s", what,
                   lives->silently ? ", streams gone without a word" : "");
    bench_report("lives", variant, NULL, unit, bench_single(value));
}

static void measure(struct lives *lives, uint64_t seconds)
{
    bool quick = lives->bench->quick;
    uint64_t end = bench_now() + seconds * 1000000000;
    struct memory before;
    struct memory behind;
    double first;
    double last;

    (void)live(lives, quick ? QUICK_LIVES : WARM_UP);
    settle(lives);
    first = live(lives, quick ? QUICK_LIVES : WINDOW);
    settle(lives);
    before = read_memory();
    do
        last = live(lives, quick ? QUICK_LIVES : WINDOW);
    while (bench_now() < end);
    settle(lives);
    behind = read_memory();
    report(lives, "a life", "us", last / 1000);
    report(lives, "lives", "lives", (double)lives->count);
    report(lives, "the last over the first", "times", last / first);
    report(lives, "host memory, added", "bytes", behind.host - before.host);
    report(lives, "device memory, added", "bytes", behind.device - before.device);
}

void bench_row_lives(const struct bench *bench)
{
    uint64_t seconds = bench->life_seconds != 0 ? bench->life_seconds : SECONDS;

    bench_touch_load();
    for (int silently = 0; silently <= 1; silently++) {
        struct lives lives = {.bench = bench, .silently = silently != 0};

        measure(&lives, bench->quick ? 0 : seconds);
    }
    bench_touch_unload();
}
