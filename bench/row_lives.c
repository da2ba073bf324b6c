// SPDX-License-Identifier: Apache-2.0
/* Objects that are made, used and ended, one life after the other: what the last thousand lives take of what the first
 * thousand took, and how much more memory there is behind the last than behind the first thousand.
 *
 * The first lives make the records that later lives use again, and are not counted. The device's memory is what the
 * driver says is not free. Of host memory Tarn's part is judged: of each graph that has a user object and is
 * instantiated, the driver keeps 208 bytes for good (docs/driver.md). Beside it stands what malloc has given out in all.
 *
 * Other programs on the host change a machine's pace within seconds, and calls of the operating system change more
 * than computing does. Lives of the driver alone, which map as much memory, therefore take turns with the others.
 * What is compared is the time of a part, over that of the driver's part behind it. */
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
    double own; /* of host, Tarn's */
    double device;
};

static struct memory read_memory(tarn_device *device)
{
    tarn_stats stats = TARN_STATS_INIT;
    struct mallinfo2 info = mallinfo2();
    size_t free_bytes = 0;
    size_t bytes = 0;

    BENCH_CU(cu.cuMemGetInfo(&free_bytes, &bytes));
    BENCH_OK(tarn_device_stats(device, &stats));
    return (struct memory){(double)info.uordblks + (double)info.hblkhd,
                           (double)stats.host_bytes.current, (double)(bytes - free_bytes)};
}

struct lives {
    const struct bench *bench;
    bool silently;
    uint64_t count;
    struct bench_driver_life drivers; /* what its lives use */
};

/* How long one of so many lives takes: the median of parts of them. */
struct pace {
    double ours;    /* nanoseconds */
    double drivers; /* nanoseconds, of the driver alone */
    double ratio;   /* the median of what each part takes, over the driver's part behind it */
};

static double since(uint64_t begin, uint64_t count)
{
    return (double)(bench_now() - begin) / (double)count;
}

static struct pace live(struct lives *lives, uint64_t count)
{
    const uint64_t part = count / PARTS;
    struct bench_series ours = {.count = 0};
    struct bench_series drivers = {.count = 0};
    struct bench_series ratios = {.count = 0};

    for (int i = 0; i < PARTS; i++) {
        uint64_t begin = bench_now();
        double our;
        double driver;

        for (uint64_t j = 0; j < part; j++) {
            bench_life(lives->bench->device, lives->count, lives->silently);
            lives->count += 1;
        }
        our = since(begin, part);
        begin = bench_now();
        for (uint64_t j = 0; j < part; j++)
            bench_life_of_driver(&lives->drivers);
        driver = since(begin, part);
        bench_series_add(&ours, our);
        bench_series_add(&drivers, driver);
        bench_series_add(&ratios, our / driver);
    }
    return (struct pace){bench_summarize(&ours).median, bench_summarize(&drivers).median,
                         bench_summarize(&ratios).median};
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
    struct pace first;
    struct pace last;

    (void)live(lives, quick ? QUICK_LIVES : WARM_UP);
    settle(lives);
    first = live(lives, quick ? QUICK_LIVES : WINDOW);
    settle(lives);
    before = read_memory(lives->bench->device);
    do
        last = live(lives, quick ? QUICK_LIVES : WINDOW);
    while (bench_now() < end);
    settle(lives);
    behind = read_memory(lives->bench->device);
    report(lives, "a life", "us", last.ours / 1000);
    report(lives, "a life of the driver alone", "us", last.drivers / 1000);
    report(lives, "lives", "lives", (double)lives->count);
    report(lives, "the last over the first", "times", last.ratio / first.ratio);
    report(lives, "the last over the first, by the clock", "times", last.ours / first.ours);
    report(lives, "host memory, added", "bytes", behind.own - before.own);
    report(lives, "host memory in all, added", "bytes", behind.host - before.host);
    report(lives, "device memory, added", "bytes", behind.device - before.device);
}

void bench_row_lives(const struct bench *bench)
{
    uint64_t seconds = bench->life_seconds != 0 ? bench->life_seconds : SECONDS;

    bench_touch_load();
    for (int silently = 0; silently <= 1; silently++) {
        struct lives lives = {.bench = bench, .silently = silently != 0};

        bench_driver_life_begin(&lives.drivers, bench->device);
        measure(&lives, bench->quick ? 0 : seconds);
        bench_driver_life_end(&lives.drivers);
    }
    bench_touch_unload();
}
