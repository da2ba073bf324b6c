// SPDX-License-Identifier: Apache-2.0
/* The bytes of a pool's 10,000 blocks, copied out by a checkpoint and put back by its restore, beside
 * cuMemcpyAsync of one block of as many bytes between memory of the same kinds: two blocks of the
 * device, or one of them and one of page-locked memory of the host. All four take turns on one stream.
 *
 * A time runs from the call until the stream has done it. So it has what a checkpoint does besides
 * copying: its state, the digests, and the memory that it copies to. Of that, the default pool keeps
 * what it gave before; and so does the device of page-locked memory, up to a limit that a program raises to
 * as much as its checkpoints take, which is done here: the driver takes 0.6 ms for a MiB. cuMemcpyAsync has
 * its memory from the start. The time that the call takes is reported too, and for out, where launching the
 * copies is the last that the call does, what comes after its return: the copies alone.
 *
 * The limits hold for the worse of out and in. Where the device or the host has too little memory, in
 * quick runs, and on the simulated driver, fewer bytes are copied, as the variants' names say. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "driver.h"
#include "harness.h"
#include "report.h"
#include "rows.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define ITEMS_BYTES_MAX (16 * MIB) /* what page-locked memory has besides the bytes, at the most */

enum {
    BLOCKS = 10000,
    BLOCK_UNIT = 512, /* sizes are multiples of it */
    SAMPLES = 51,
    SAMPLES_MIN = 3, /* however long they take */
    QUICK_SAMPLES = 3,
};

/* No sample begins after that: over the link a round of 20 GiB takes 1.6 s. */
static const uint64_t time_limit_ns = UINT64_C(5000000000);

/* The blocks, and what copies them. */
struct contents {
    const struct bench *bench;
    tarn_contents kind;
    tarn_stream stream;
    tarn_pool *pool;
    size_t block_count;
    size_t block_bytes;
    void **blocks;
    tarn_checkpoint *checkpoint;
    tn_cu_deviceptr live; /* the rival's one block, of as many bytes */
    tn_cu_deviceptr saved;
    void *saved_host; /* the same, when it is page-locked memory */
};

/* One way: Tarn's times and the rival's, in ns, by round. */
struct way {
    struct bench_series tarn;
    struct bench_series call; /* of those of Tarn, until the call returned */
    struct bench_series copy;
};

enum { OUT, IN, WAY_COUNT };

static size_t total_bytes(const struct contents *contents)
{
    return contents->block_count * contents->block_bytes;
}

/* ---- the memory ---------------------------------------------------------------------------- */

static void create_contents(struct contents *made)
{
    made->stream = bench_stream_create();
    made->blocks = calloc(made->block_count, sizeof *made->blocks);
    if (made->blocks == NULL)
        bench_fail("no host memory");
    BENCH_OK(tarn_device_set_pinned_cache_limit(made->bench->device,
                                                total_bytes(made) + ITEMS_BYTES_MAX));
    BENCH_OK(tarn_pool_create(made->bench->device, NULL, &made->pool));
    for (size_t i = 0; i < made->block_count; i++)
        BENCH_OK(
            tarn_pool_malloc(made->pool, made->block_bytes, 0, made->stream, &made->blocks[i]));
    BENCH_CU(cu.cuMemAlloc(&made->live, total_bytes(made)));
    if (made->kind == TARN_CONTENTS_HOST) {
        BENCH_CU(
            cu.cuMemHostAlloc(&made->saved_host, total_bytes(made), TN_CU_MEMHOSTALLOC_PORTABLE));
        made->saved = (tn_cu_deviceptr)(uintptr_t)made->saved_host;
    } else {
        BENCH_CU(cu.cuMemAlloc(&made->saved, total_bytes(made)));
    }
}

static void destroy_contents(struct contents *contents)
{
    if (contents->kind == TARN_CONTENTS_HOST)
        BENCH_CU(cu.cuMemFreeHost(contents->saved_host));
    else
        BENCH_CU(cu.cuMemFree(contents->saved));
    BENCH_CU(cu.cuMemFree(contents->live));
    for (size_t i = 0; i < contents->block_count; i++)
        BENCH_OK(tarn_free(contents->blocks[i]));
    BENCH_OK(tarn_pool_destroy(contents->pool));
    /* What checkpoints copied to is in the default pool, or kept. */
    BENCH_OK(tarn_device_trim(contents->bench->device, 0, NULL));
    BENCH_OK(tarn_device_set_pinned_cache_limit(contents->bench->device, 256 * MIB));
    bench_stream_destroy(contents->stream);
    free(contents->blocks);
}

/* ---- one round ----------------------------------------------------------------------------- */

static void copy(const struct contents *contents, tn_cu_deviceptr destination,
                 tn_cu_deviceptr source, struct way *way)
{
    uint64_t begin = bench_now();

    BENCH_CU(cu.cuMemcpyAsync(destination, source, total_bytes(contents), contents->stream));
    bench_stream_drain(contents->stream);
    bench_series_add(&way->copy, (double)(bench_now() - begin));
}

/* To be called when the call has returned: waits for the stream. */
static void end_call(const struct contents *contents, uint64_t begin, struct way *way)
{
    uint64_t returned = bench_now();

    bench_stream_drain(contents->stream);
    bench_series_add(&way->tarn, (double)(bench_now() - begin));
    bench_series_add(&way->call, (double)(returned - begin));
}

static void take(struct contents *contents, struct way *way)
{
    uint64_t begin = bench_now();

    BENCH_OK(tarn_checkpoint_take(contents->pool, contents->kind, contents->stream,
                                  &contents->checkpoint));
    end_call(contents, begin, way);
}

static void restore(struct contents *contents, struct way *way)
{
    uint64_t begin = bench_now();

    BENCH_OK(tarn_checkpoint_restore(contents->checkpoint, contents->stream, NULL));
    end_call(contents, begin, way);
}

static void play_round(struct contents *contents, size_t round, struct way ways[WAY_COUNT])
{
    bool rival_first = round % 2 == 0;

    if (rival_first)
        copy(contents, contents->saved, contents->live, &ways[OUT]);
    take(contents, &ways[OUT]);
    if (!rival_first)
        copy(contents, contents->saved, contents->live, &ways[OUT]);
    else
        copy(contents, contents->live, contents->saved, &ways[IN]);
    restore(contents, &ways[IN]);
    if (!rival_first)
        copy(contents, contents->live, contents->saved, &ways[IN]);
    BENCH_OK(tarn_checkpoint_destroy(contents->checkpoint));
}

/* ---- figures ------------------------------------------------------------------------------- */

/* Bytes a nanosecond are GB/s. */
static struct bench_summary rate(const struct bench_series *times, size_t bytes)
{
    struct bench_series rates = {.count = 0};

    for (size_t i = 0; i < times->count; i++)
        bench_series_add(&rates, (double)bytes / times->values[i]);
    return bench_summarize(&rates);
}

/* The rate of Tarn in % of the rival's beside it; after_call: of the time after the call returned. */
static struct bench_summary percentage(const struct way *way, bool after_call)
{
    struct bench_series parts = {.count = 0};

    for (size_t i = 0; i < way->tarn.count; i++) {
        double before = after_call ? way->call.values[i] : 0;

        bench_series_add(&parts, 100 * way->copy.values[i] / (way->tarn.values[i] - before));
    }
    return bench_summarize(&parts);
}

static void report_way(const struct way *way, const char *variant, const char *way_name,
                       size_t bytes)
{
    char name[64];

    (void)snprintf(name, sizeof name, "%s: %s", variant, way_name);
    bench_report("contents", name, NULL, "GB/s", rate(&way->tarn, bytes));
    bench_report("contents", name, "cuMemcpyAsync", "GB/s", rate(&way->copy, bytes));
    (void)snprintf(name, sizeof name, "%s: %s, of the rival's", variant, way_name);
    bench_report("contents", name, NULL, "%", percentage(way, false));
    (void)snprintf(name, sizeof name, "%s: %s, call", variant, way_name);
    bench_report("contents", name, NULL, "us", bench_scaled(bench_summarize(&way->call), 1e-3));
}

static void report(const struct contents *contents, const struct way ways[WAY_COUNT],
                   const char *variant)
{
    struct bench_summary out = percentage(&ways[OUT], false);
    struct bench_summary in = percentage(&ways[IN], false);
    char name[64];

    bench_report("contents", variant, NULL, "%", out.median < in.median ? out : in);
    report_way(&ways[OUT], variant, "out", total_bytes(contents));
    (void)snprintf(name, sizeof name, "%s: out, copies alone", variant);
    bench_report("contents", name, NULL, "%", percentage(&ways[OUT], true));
    report_way(&ways[IN], variant, "in", total_bytes(contents));
}

static void measure(const struct bench *bench, tarn_contents kind, size_t block_count,
                    size_t block_bytes, const char *variant)
{
    struct contents contents = {
        .bench = bench, .kind = kind, .block_count = block_count, .block_bytes = block_bytes};
    struct way *ways = calloc(WAY_COUNT, sizeof *ways);
    size_t sample_count = bench->quick ? QUICK_SAMPLES : SAMPLES;
    uint64_t begin;

    if (ways == NULL)
        bench_fail("no host memory");
    create_contents(&contents);
    play_round(&contents, 0, ways); /* maps what is copied to, and loads the kernel */
    for (size_t i = 0; i < WAY_COUNT; i++)
        ways[i].tarn.count = ways[i].call.count = ways[i].copy.count = 0;
    begin = bench_now();
    for (size_t round = 0; round < sample_count; round++) {
        if (round >= SAMPLES_MIN && bench_now() - begin > time_limit_ns)
            break;
        play_round(&contents, round, ways);
    }
    destroy_contents(&contents);
    report(&contents, ways, variant);
    free(ways);
}

/* ---- the row ------------------------------------------------------------------------------- */

/* How many bytes may be copied: four times as many are taken of the device, two of the host. */
static size_t choose_bytes_max(const struct bench *bench)
{
    size_t host_bytes = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    size_t free_bytes;
    size_t device_bytes;

    if (bench->quick)
        return 48 * MIB;
    if (cu.simulated)
        return 256 * MIB;
    BENCH_CU(cu.cuMemGetInfo(&free_bytes, &device_bytes));
    return free_bytes / 5 < host_bytes / 3 ? free_bytes / 5 : host_bytes / 3;
}

void bench_row_contents(const struct bench *bench)
{
    static const struct {
        tarn_contents kind;
        const char *name;
    } kinds[] = {{TARN_CONTENTS_DEVICE, "device"}, {TARN_CONTENTS_HOST, "pinned"}};
    size_t bytes_max = choose_bytes_max(bench);
    size_t all_bytes = 20 * GIB;
    size_t small_count = BLOCKS;
    char large[40];
    char small[40] = "64 KiB";

    while (all_bytes > bytes_max)
        all_bytes /= 2;
    while (small_count * 64 * KIB > bytes_max)
        small_count /= 2;
    if (all_bytes >= GIB && all_bytes % GIB == 0)
        (void)snprintf(large, sizeof large, "%zu GiB", all_bytes / GIB);
    else
        (void)snprintf(large, sizeof large, "%zu MiB", all_bytes / MIB);
    if (small_count != BLOCKS)
        (void)snprintf(small, sizeof small, "64 KiB in %zu blocks", small_count);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        char variant[48];

        (void)snprintf(variant, sizeof variant, "%s, %s", small, kinds[i].name);
        measure(bench, kinds[i].kind, small_count, 64 * KIB, variant);
        (void)snprintf(variant, sizeof variant, "%s, %s", large, kinds[i].name);
        measure(bench, kinds[i].kind, BLOCKS, all_bytes / BLOCKS / BLOCK_UNIT * BLOCK_UNIT,
                variant);
    }
}
