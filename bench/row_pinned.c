// SPDX-License-Identifier: Apache-2.0
/* Page-locked memory of the host. The first 4 GiB of it: in blocks of 16 MiB, and as one block; how
 * long another thread's calls of the driver wait meanwhile (waits.h); and how fast one thread of the
 * process writes it for the first time, since who gives memory may leave it to the first write to get
 * the pages. Then copies both ways, and pairs of a size that is there already, on one thread and on
 * several. Where the machine has less memory, or in a quick run, the first is of less, as the
 * variants' names say.
 *
 * Beside Tarn: cuMemHostAlloc and cuMemFreeHost; and a memory pool of the driver's for the host, with
 * access for the device. PyTorch's allocator is measured by rivals/torch_trace.
 *
 * Pools are new for each sample, and what they had goes back to the driver: every first is cold. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "harness.h"
#include "host_pool.h"
#include "pair.h"
#include "quiet.h"
#include "report.h"
#include "rows.h"
#include "waits.h"

#define ROW "pinned"
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

enum {
    FIRST_GIB = 4,
    FIRST_QUICK_MIB = 64,
    BLOCK_MIB = 16,
    BLOCKS_MAX = 256,
    FIRST_SAMPLES = 5,
    WRITTEN_PART = 16, /* of the first, one of so many bytes is written */
    COPY_SAMPLES = 41,
    COPY_MIB = 256,
    COPY_QUICK_MIB = 4,
    PAIR_SAMPLES = 101,
    RATE_SAMPLES = 21,
};

enum { TARN, HOST_ALLOC, DRIVER_POOL, GIVERS };

static const char host_alloc[] = "cuMemHostAlloc";
static const char host_pool[] = BENCH_HOST_POOL;

/* ---- who gives memory ------------------------------------------------------------------------- */

struct giver {
    const char *rival;                 /* NULL: Tarn */
    bool (*open)(struct giver *giver); /* cold; false: not here */
    void (*close)(struct giver *giver);
    void *(*take)(struct giver *giver, size_t bytes);
    void (*give)(struct giver *giver, void *memory);
    tarn_device *device;
    tarn_pool *pool;
    tn_cu_mempool driver_pool;
    tarn_stream stream;
};

static bool open_tarn(struct giver *giver)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;

    options.name = "bench";
    options.location = TARN_LOCATION_HOST;
    BENCH_OK(tarn_pool_create(giver->device, &options, &giver->pool));
    return true;
}

static void close_tarn(struct giver *giver)
{
    BENCH_OK(tarn_pool_destroy(giver->pool));
    BENCH_OK(tarn_device_trim(giver->device, 0, NULL));
}

static void *take_tarn(struct giver *giver, size_t bytes)
{
    void *memory;

    BENCH_OK(tarn_pool_malloc(giver->pool, bytes, 0, NULL, &memory));
    return memory;
}

static void give_tarn(struct giver *giver, void *memory)
{
    (void)giver;
    BENCH_OK(tarn_free(memory));
}

static bool open_host_alloc(struct giver *giver)
{
    (void)giver;
    return true;
}

static void close_host_alloc(struct giver *giver)
{
    (void)giver;
}

static void *take_host_alloc(struct giver *giver, size_t bytes)
{
    void *memory;

    (void)giver;
    BENCH_CU(cu.cuMemHostAlloc(&memory, bytes, 0));
    return memory;
}

static void give_host_alloc(struct giver *giver, void *memory)
{
    (void)giver;
    BENCH_CU(cu.cuMemFreeHost(memory));
}

static bool open_host_pool(struct giver *giver)
{
    if (!bench_host_pool_create(&giver->driver_pool))
        return false;
    giver->stream = bench_stream_create();
    return true;
}

static void close_host_pool(struct giver *giver)
{
    bench_stream_drain(giver->stream);
    bench_host_pool_destroy(giver->driver_pool);
    bench_stream_destroy(giver->stream);
}

static void *take_host_pool(struct giver *giver, size_t bytes)
{
    tn_cu_deviceptr memory;

    BENCH_CU(cu.cuMemAllocFromPoolAsync(&memory, bytes, giver->driver_pool, giver->stream));
    return (void *)(uintptr_t)memory;
}

static void give_host_pool(struct giver *giver, void *memory)
{
    BENCH_CU(cu.cuMemFreeAsync((uintptr_t)memory, giver->stream));
}

/* ---- the first ---------------------------------------------------------------------------------- */

enum figure { TIME_MS, WAIT_MOST_US, WAIT_LONGEST_US, WRITE_GBS, FIGURES };

static void write_all(char *memory, size_t bytes)
{
    memset(memory, 1, bytes);
}

/* Takes so many blocks of bytes each, with another thread's looks beside. */
static void measure_first(struct giver *giver, size_t count, size_t bytes, double figures[FIGURES])
{
    void *blocks[BLOCKS_MAX];
    struct bench_waits waits;
    uint64_t begin;
    double write_ns;
    size_t written = count > 1 ? 1 + (count - 1) / WRITTEN_PART : 1;
    size_t written_bytes = count > 1 ? bytes : bytes / WRITTEN_PART;

    bench_waits_open(&waits);
    bench_waits_begin(&waits);
    begin = bench_now();
    for (size_t i = 0; i < count; i++)
        blocks[i] = giver->take(giver, bytes);
    figures[TIME_MS] = (double)(bench_now() - begin) * 1e-6;
    bench_waits_end(&waits, &figures[WAIT_MOST_US], &figures[WAIT_LONGEST_US]);
    if (giver->rival == host_pool)
        bench_stream_drain(giver->stream);
    begin = bench_now();
    for (size_t i = 0; i < written; i++)
        write_all(blocks[i], written_bytes);
    write_ns = (double)(bench_now() - begin);
    figures[WRITE_GBS] = (double)(written * written_bytes) / write_ns;
    for (size_t i = 0; i < count; i++)
        giver->give(giver, blocks[i]);
}

static void report_first(const char *what, const char *rival,
                         const struct bench_series series[FIGURES])
{
    static const struct {
        const char *behind;
        const char *unit;
    } names[FIGURES] = {{"", "ms"},
                        {", others wait, 99.9 %", "us"},
                        {", others wait, longest", "us"},
                        {", first written", "GB/s"}};
    char variant[64];

    for (int i = 0; i < FIGURES; i++) {
        (void)snprintf(variant, sizeof variant, "%s%s", what, names[i].behind);
        bench_report(ROW, variant, rival, names[i].unit, bench_summarize(&series[i]));
    }
}

/* *times: how long each took; none where the giver is not here. */
static void row_first(struct giver *giver, const char *what, size_t count, size_t bytes,
                      size_t sample_count, struct bench_series *times)
{
    static struct bench_series series[FIGURES];
    double figures[FIGURES];

    times->count = 0;
    for (int i = 0; i < FIGURES; i++)
        series[i].count = 0;
    for (size_t sample = 0; sample < sample_count; sample++) {
        if (!giver->open(giver)) {
            bench_report_absent(ROW, what, giver->rival);
            return;
        }
        measure_first(giver, count, bytes, figures);
        giver->close(giver);
        for (int i = 0; i < FIGURES; i++)
            bench_series_add(&series[i], figures[i]);
    }
    report_first(what, giver->rival, series);
    *times = series[TIME_MS];
}

/* A power of two of MiB, up to 4 GiB, of which the machine has three times as much left. */
static size_t choose_mib(bool quick)
{
    size_t available = (size_t)sysconf(_SC_AVPHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) / MIB;
    size_t mib = quick ? FIRST_QUICK_MIB : FIRST_GIB * GIB / MIB;

    while (mib > FIRST_QUICK_MIB && 3 * mib > available)
        mib /= 2;
    return mib;
}

static void name_size(size_t mib, char text[16])
{
    if (mib >= GIB / MIB)
        (void)snprintf(text, 16, "%zu GiB", mib * MIB / GIB);
    else
        (void)snprintf(text, 16, "%zu MiB", mib);
}

/* ---- copies ------------------------------------------------------------------------------------- */

struct copy {
    tarn_stream stream;
    tn_cu_deviceptr to;
    tn_cu_deviceptr from;
    size_t bytes;
};

static void run_copies(void *context, size_t iterations)
{
    const struct copy *copy = context;

    for (size_t i = 0; i < iterations; i++)
        BENCH_CU(cu.cuMemcpyAsync(copy->to, copy->from, copy->bytes, copy->stream));
    bench_stream_drain(copy->stream);
}

/* Bytes a nanosecond are GB/s. The rates of the sample, from its times. */
static struct bench_summary rates_of(const struct bench_series *times, size_t bytes)
{
    static struct bench_series rates;

    rates.count = 0;
    for (size_t i = 0; i < times->count; i++)
        bench_series_add(&rates, (double)bytes / times->values[i]);
    return bench_summarize(&rates);
}

/* In percent: the rate of the first by that of the second, sample by sample. */
static struct bench_summary part_of(const struct bench_series *times,
                                    const struct bench_series *others)
{
    static struct bench_series parts;

    parts.count = 0;
    for (size_t i = 0; i < times->count; i++)
        bench_series_add(&parts, 100 * others->values[i] / times->values[i]);
    return bench_summarize(&parts);
}

static void row_copies(const struct bench *bench, struct giver *tarn, struct giver *driver)
{
    static struct bench_series series[2];
    static const char *const ways[] = {"copy to the device", "copy to the host"};
    size_t bytes = (size_t)(bench->quick ? COPY_QUICK_MIB : COPY_MIB) * MIB;
    struct bench_plan plan = bench_plan_for(bench->quick, COPY_SAMPLES);
    void *ours = take_tarn(tarn, bytes);
    void *theirs = take_host_alloc(driver, bytes);
    tarn_stream stream = bench_stream_create();
    tn_cu_deviceptr linear;

    BENCH_CU(cu.cuMemAlloc(&linear, bytes));
    write_all(ours, bytes);
    write_all(theirs, bytes);
    for (int way = 0; way < 2; way++) {
        struct copy copies[2];
        struct bench_case cases[2];
        char variant[64];

        for (int i = 0; i < 2; i++) {
            tn_cu_deviceptr host = (uintptr_t)(i == 0 ? ours : theirs);

            copies[i] =
                (struct copy){stream, way == 0 ? linear : host, way == 0 ? host : linear, bytes};
            cases[i] = (struct bench_case){NULL, run_copies, NULL, &copies[i], 0};
        }
        bench_measure(&plan, cases, 2, series);
        bench_report(ROW, ways[way], NULL, "GB/s", rates_of(&series[0], bytes));
        bench_report(ROW, ways[way], host_alloc, "GB/s", rates_of(&series[1], bytes));
        (void)snprintf(variant, sizeof variant, "%s, of cuMemHostAlloc's", ways[way]);
        bench_report(ROW, variant, NULL, "%", part_of(&series[0], &series[1]));
    }
    BENCH_CU(cu.cuMemFree(linear));
    give_tarn(tarn, ours);
    give_host_alloc(driver, theirs);
    bench_stream_destroy(stream);
}

/* ---- pairs -------------------------------------------------------------------------------------- */

struct pairs {
    struct giver *giver;
    size_t bytes;
};

static void run_pairs(void *context, size_t iterations)
{
    const struct pairs *pairs = context;

    for (size_t i = 0; i < iterations; i++)
        pairs->giver->give(pairs->giver, pairs->giver->take(pairs->giver, pairs->bytes));
}

static void pair_once(struct pair_lane *lane)
{
    void *memory;

    BENCH_OK(tarn_host_malloc(lane->device, lane->bytes, &memory));
    BENCH_OK(tarn_free(memory));
}

static void *pair_take(const struct pair_lane *lane)
{
    void *memory;

    BENCH_OK(tarn_host_malloc(lane->device, lane->bytes, &memory));
    return memory;
}

static void pair_give(const struct pair_lane *lane, void *memory)
{
    (void)lane;
    BENCH_OK(tarn_free(memory));
}

static const struct pair_contender pair_host = {NULL, pair_take, pair_give, pair_once};

static void row_rates(const struct bench *bench)
{
    static struct pair_lane lanes[PAIR_THREADS_MAX];
    const unsigned thread_count = pair_choose_thread_count();
    struct bench_series series = {.count = 0};
    char variant[64];

    for (unsigned i = 0; i < thread_count; i++)
        lanes[i] = (struct pair_lane){bench->device, bench_stream_create(), PAIR_MAIN_BYTES,
                                      ATOMIC_FLAG_INIT};
    for (int i = 0; i < (bench->quick ? 1 : RATE_SAMPLES); i++)
        bench_series_add(&series,
                         pair_measure_rate(&pair_host, lanes, thread_count, pair_window_ns(bench)));
    (void)snprintf(variant, sizeof variant, "pair, 1 MiB, %u threads", thread_count);
    bench_report(ROW, variant, NULL, "million pairs/s", bench_summarize(&series));
    for (unsigned i = 0; i < thread_count; i++)
        bench_stream_destroy(lanes[i].stream);
}

static void row_pairs(const struct bench *bench, struct giver *giver)
{
    static struct bench_series series;
    struct bench_plan plan = bench_plan_for(bench->quick, PAIR_SAMPLES);
    struct pairs pairs = {giver, PAIR_MAIN_BYTES};
    struct bench_case subject = {NULL, run_pairs, NULL, &pairs, 0};

    if (!giver->open(giver)) {
        bench_report_absent(ROW, "pair, 1 MiB", giver->rival);
        return;
    }
    bench_measure(&plan, &subject, 1, &series);
    bench_report(ROW, "pair, 1 MiB", giver->rival, "ns", bench_summarize(&series));
    giver->close(giver);
}

/* ---- the row ------------------------------------------------------------------------------------ */

void bench_row_pinned(const struct bench *bench)
{
    static struct bench_series times[GIVERS];
    struct giver givers[GIVERS] = {
        {NULL, open_tarn, close_tarn, take_tarn, give_tarn, bench->device, NULL, NULL, NULL},
        {host_alloc, open_host_alloc, close_host_alloc, take_host_alloc, give_host_alloc, NULL,
         NULL, NULL, NULL},
        {host_pool, open_host_pool, close_host_pool, take_host_pool, give_host_pool, NULL, NULL,
         NULL, NULL},
    };
    const size_t giver_count = GIVERS;
    const size_t sample_count = bench->quick ? 1 : FIRST_SAMPLES;
    size_t mib = choose_mib(bench->quick);
    char size[16];
    char what[40];
    char variant[64];

    name_size(mib, size);
    (void)snprintf(what, sizeof what, "first %s", size);
    for (size_t i = 0; i < giver_count; i++)
        row_first(&givers[i], what, mib / BLOCK_MIB, BLOCK_MIB * MIB, sample_count, &times[i]);
    (void)snprintf(what, sizeof what, "one block of %s", size);
    for (size_t i = 0; i < giver_count; i++)
        row_first(&givers[i], what, 1, mib * MIB, sample_count, &times[i]);
    if (times[DRIVER_POOL].count > 0) {
        (void)snprintf(variant, sizeof variant, "%s, of the driver's pool", what);
        bench_report(ROW, variant, NULL, "%", part_of(&times[DRIVER_POOL], &times[TARN]));
    }
    (void)open_tarn(&givers[TARN]);
    row_copies(bench, &givers[TARN], &givers[HOST_ALLOC]);
    close_tarn(&givers[TARN]);
    for (size_t i = 0; i < giver_count; i++)
        row_pairs(bench, &givers[i]);
    row_rates(bench);
}
