// SPDX-License-Identifier: Apache-2.0
/* Several devices in one process: pairs on 16 threads that are spread over all of them, copies out of a
 * peer's memory, and launches before and after all devices have access to a large pool.
 *
 * The rate of many threads is judged as in row_pair_threads.c: by that of one thread times their
 * number, and by threads that share nothing. A copy reads the memory of device 1 on a stream of
 * device 0: of a pool that device 0 has access to, and, beside it, of cuMemAlloc, with access between
 * the contexts. */
#include <stdio.h>

#include "driver.h"
#include "harness.h"
#include "pair.h"
#include "report.h"
#include "rows.h"

enum {
    SAMPLES = 21,
    DEVICES_MAX = 16,
    COPIES = 8,
    LAUNCHES = 1000,
};

#define MIB ((uint64_t)1 << 20)
#define COPY_BYTES (1024 * MIB)
#define COPY_QUICK_BYTES (16 * MIB)
#define POOL_BYTES (8192 * MIB)
#define POOL_QUICK_BYTES (256 * MIB)

/* Another device, whose primary context is kept while it is open. */
struct other {
    int ordinal;
    tarn_device *device;
    tn_cu_context context;
};

static struct other open_other(int ordinal)
{
    struct other other = {.ordinal = ordinal};

    BENCH_CU(cu.cuDevicePrimaryCtxRetain(&other.context, ordinal));
    BENCH_OK(tarn_device_open(ordinal, NULL, &other.device));
    return other;
}

static void close_other(const struct other *other)
{
    BENCH_OK(tarn_device_close(other->device));
    BENCH_CU(cu.cuDevicePrimaryCtxRelease(other->ordinal));
}

static tarn_stream stream_on(const struct other *other)
{
    tarn_stream stream;

    BENCH_CU(cu.cuCtxSetCurrent(other->context));
    stream = bench_stream_create();
    BENCH_CU(cu.cuCtxSetCurrent(cu.context));
    return stream;
}

/* ---- pairs ---------------------------------------------------------------------------------- */

static void measure_pairs(const struct bench *bench, const struct other *others, size_t count)
{
    struct bench_plan plan = bench_plan_for(bench->quick, SAMPLES);
    const unsigned thread_count = pair_choose_thread_count();
    struct pair_lane lanes[PAIR_THREADS_MAX];
    static struct bench_series together;
    static struct bench_series of_linear;
    char variant[64];

    for (unsigned i = 0; i < thread_count; i++) {
        const size_t device = i % (count + 1);

        lanes[i] =
            (struct pair_lane){device == 0 ? bench->device : others[device - 1].device,
                               device == 0 ? bench_stream_create() : stream_on(&others[device - 1]),
                               PAIR_MAIN_BYTES, ATOMIC_FLAG_INIT};
    }
    for (size_t round = 0; round < plan.sample_count; round++) {
        const long window_ns = pair_window_ns(bench);
        const double alone = pair_measure_rate(&pair_tarn, lanes, 1, window_ns);
        const double all = pair_measure_rate(&pair_tarn, lanes, thread_count, window_ns);
        const double lock = pair_measure_rate(&pair_spin_lock, lanes, 1, window_ns);
        const double locks = pair_measure_rate(&pair_spin_lock, lanes, thread_count, window_ns);

        bench_series_add(&together, all);
        if (alone > 0 && locks > 0)
            bench_series_add(&of_linear, 100 * all * lock / (alone * locks));
    }
    for (unsigned i = 0; i < thread_count; i++)
        bench_stream_destroy(lanes[i].stream);
    (void)snprintf(variant, sizeof variant, "1 MiB, %u threads on %zu devices", thread_count,
                   count + 1);
    bench_report("devices", variant, NULL, "million pairs/s", bench_summarize(&together));
    if (of_linear.count > 0)
        bench_report("devices", "1 MiB, threads on all devices, of linear", NULL, "%",
                     bench_summarize(&of_linear));
}

/* ---- copies --------------------------------------------------------------------------------- */

/* GB/s of copies to device 0. */
static double measure_copies(tn_cu_deviceptr to, tn_cu_deviceptr from, uint64_t bytes,
                             tarn_stream stream)
{
    uint64_t begin;

    BENCH_CU(cu.cuMemcpyAsync(to, from, bytes, stream)); /* the first one sets up */
    bench_stream_drain(stream);
    begin = bench_now();
    for (int i = 0; i < COPIES; i++)
        BENCH_CU(cu.cuMemcpyAsync(to, from, bytes, stream));
    bench_stream_drain(stream);
    return (double)(COPIES * bytes) / (double)(bench_now() - begin);
}

/* A block of a pool of the other device that device 0 has access to. */
static tarn_pool *make_peer_pool(const struct other *other, uint64_t bytes, tarn_stream stream,
                                 void **block)
{
    const tarn_pool_options options = {
        .size = sizeof options, .name = "peer", .peers = (const int[]){0}, .peer_count = 1};
    tarn_pool *pool;

    BENCH_OK(tarn_pool_create(other->device, &options, &pool));
    BENCH_OK(tarn_pool_malloc(pool, bytes, 0, stream, block));
    return pool;
}

static void measure_peer(const struct bench *bench, const struct other *other)
{
    const uint64_t bytes = bench->quick ? COPY_QUICK_BYTES : COPY_BYTES;
    struct bench_plan plan = bench_plan_for(bench->quick, SAMPLES);
    tarn_stream stream = bench_stream_create();
    tarn_stream there = stream_on(other);
    static struct bench_series ours;
    static struct bench_series theirs;
    static struct bench_series share;
    tn_cu_deviceptr own;
    tn_cu_deviceptr linear;
    void *block;
    tarn_pool *pool = make_peer_pool(other, bytes, there, &block);

    BENCH_CU(cu.cuMemAlloc(&own, bytes));
    BENCH_CU(cu.cuCtxSetCurrent(other->context));
    BENCH_CU(cu.cuMemAlloc(&linear, bytes));
    BENCH_CU(cu.cuCtxSetCurrent(cu.context));
    BENCH_CU(cu.cuCtxEnablePeerAccess(other->context, 0));
    for (size_t i = 0; i < plan.sample_count; i++) {
        const double rate = measure_copies(own, (tn_cu_deviceptr)(uintptr_t)block, bytes, stream);
        const double rival = measure_copies(own, linear, bytes, stream);

        bench_series_add(&ours, rate);
        bench_series_add(&theirs, rival);
        bench_series_add(&share, 100 * rate / rival);
    }
    bench_report("devices", "copy from a peer", NULL, "GB/s", bench_summarize(&ours));
    bench_report("devices", "copy from a peer", "cuMemAlloc", "GB/s", bench_summarize(&theirs));
    bench_report("devices", "copy from a peer, of cuMemAlloc's", NULL, "%",
                 bench_summarize(&share));
    BENCH_CU(cu.cuCtxDisablePeerAccess(other->context));
    BENCH_CU(cu.cuMemFree(own));
    BENCH_CU(cu.cuMemFree(linear));
    BENCH_OK(tarn_free(block));
    BENCH_OK(tarn_pool_destroy(pool));
    bench_stream_destroy(there);
    bench_stream_destroy(stream);
}

/* ---- launches ------------------------------------------------------------------------------- */

static double measure_launches(tarn_stream stream, void *word)
{
    const uint64_t begin = bench_now();

    for (int i = 0; i < LAUNCHES; i++)
        bench_touch_launch(stream, word);
    bench_stream_drain(stream);
    return (double)(bench_now() - begin) / LAUNCHES / 1e3;
}

static void measure_access(const struct bench *bench, const struct other *others, size_t count)
{
    const uint64_t bytes = bench->quick ? POOL_QUICK_BYTES : POOL_BYTES;
    struct bench_plan plan = bench_plan_for(bench->quick, SAMPLES);
    tarn_stream stream = bench_stream_create();
    static struct bench_series before;
    static struct bench_series after;
    int peers[DEVICES_MAX];
    tarn_pool_options options = {
        .size = sizeof options, .name = "all", .peers = peers, .peer_count = count};
    uint64_t begin;
    tarn_pool *pool;
    void *word;
    void *block;

    for (size_t i = 0; i < count; i++)
        peers[i] = others[i].ordinal;
    BENCH_OK(tarn_malloc(bench->device, 4096, stream, &word));
    bench_touch_load();
    for (size_t i = 0; i < plan.sample_count; i++)
        bench_series_add(&before, measure_launches(stream, word));
    BENCH_OK(tarn_pool_create(bench->device, &options, &pool));
    begin = bench_now();
    BENCH_OK(tarn_pool_malloc(pool, bytes, 0, stream, &block));
    bench_report("devices", "8 GiB mapped for all devices", NULL, "ms",
                 bench_single((double)(bench_now() - begin) / 1e6));
    for (size_t i = 0; i < plan.sample_count; i++)
        bench_series_add(&after, measure_launches(stream, word));
    bench_report("devices", "launch before", NULL, "us", bench_summarize(&before));
    bench_report("devices", "launch after", NULL, "us", bench_summarize(&after));
    bench_touch_unload();
    BENCH_OK(tarn_free(block));
    BENCH_OK(tarn_pool_destroy(pool));
    BENCH_OK(tarn_free(word));
    bench_stream_destroy(stream);
}

void bench_row_devices(const struct bench *bench)
{
    struct other others[DEVICES_MAX];
    int device_count = 0;
    size_t count;

    BENCH_CU(cu.cuDeviceGetCount(&device_count));
    if (device_count < 2) {
        (void)printf("devices        left out: there is one device\n");
        return;
    }
    count = (size_t)(device_count < DEVICES_MAX ? device_count : DEVICES_MAX) - 1;
    for (size_t i = 0; i < count; i++)
        others[i] = open_other((int)i + 1);
    measure_pairs(bench, others, count);
    measure_peer(bench, &others[0]);
    measure_access(bench, others, count);
    for (size_t i = 0; i < count; i++)
        close_other(&others[i]);
}
