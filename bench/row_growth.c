// SPDX-License-Identifier: Apache-2.0
/* Memory that is not there yet: a new pool grows to 8 GiB by blocks of 32 MiB, none of which is
 * freed; the same memory reserved in one call, and allocated after it; and all of it trimmed back.
 * Where the device has less, 4 GiB or less, as the variants' names say.
 *
 * The pool is destroyed after each sample, so every growth is cold. A driver clears memory that is
 * given back in the background, and hands out what is clean first: once a process has taken as much
 * as the device has, every growth waits for the clearing, which takes several times as long as all
 * else. That is no program's first growth, so the cold ones are few enough to stay below that.
 *
 * What the driver takes of each is
 * reported where it has an account (account.h). */
#include <stdio.h>
#include <stdlib.h>

#include "account.h"
#include "driver.h"
#include "harness.h"
#include "report.h"
#include "rows.h"

#define STEP_BYTES ((size_t)32 << 20)
#define GIB ((size_t)1 << 30)

enum {
    SAMPLES = 101,
    COLD_TURNS = 2,   /* those that measure memory being taken */
    WARM_UP_RUNS = 3, /* that each has at least */
    STEPS_MAX = 256,  /* 8 GiB */
};

/* One pool, being grown. */
struct growth {
    const struct bench *bench;
    struct bench_account *account;
    tarn_pool *pool;
    tarn_stream stream;
    size_t step_count;
    size_t block_count; /* of those in blocks, from the first */
    void *blocks[STEPS_MAX];
};

static void allocate_steps(void *context, size_t iterations)
{
    struct growth *growth = context;

    (void)iterations;
    for (; growth->block_count < growth->step_count; growth->block_count++)
        BENCH_OK(tarn_pool_malloc(growth->pool, STEP_BYTES, 0, growth->stream,
                                  &growth->blocks[growth->block_count]));
}

static void reserve_all(void *context, size_t iterations)
{
    struct growth *growth = context;

    (void)iterations;
    BENCH_OK(tarn_pool_reserve(growth->pool, growth->step_count * STEP_BYTES, growth->stream));
}

static void trim(void *context, size_t iterations)
{
    struct growth *growth = context;
    size_t freed = 0;

    (void)iterations;
    BENCH_OK(tarn_pool_trim(growth->pool, &freed));
    if (freed < growth->step_count * STEP_BYTES)
        bench_fail("a trim has given back %zu MiB only", freed >> 20);
}

static void free_blocks(struct growth *growth)
{
    while (growth->block_count > 0)
        BENCH_OK(tarn_free(growth->blocks[--growth->block_count]));
}

static void open_cold(void *context)
{
    struct growth *growth = context;

    BENCH_OK(tarn_pool_create(growth->bench->device, NULL, &growth->pool));
    bench_account_begin(growth->account);
}

static void open_reserved(void *context)
{
    struct growth *growth = context;

    BENCH_OK(tarn_pool_create(growth->bench->device, NULL, &growth->pool));
    reserve_all(growth, 1);
    bench_account_begin(growth->account);
}

static void open_grown(void *context)
{
    struct growth *growth = context;

    BENCH_OK(tarn_pool_create(growth->bench->device, NULL, &growth->pool));
    allocate_steps(growth, 1);
    free_blocks(growth);
    bench_account_begin(growth->account);
}

static void drop_pool(void *context)
{
    struct growth *growth = context;

    bench_account_end(growth->account);
    free_blocks(growth);
    BENCH_OK(tarn_pool_destroy(growth->pool));
}

/* As many samples as there is clean memory for. */
static struct bench_plan plan_cold(size_t gib)
{
    size_t free_bytes;
    size_t total_bytes;
    size_t runs;

    BENCH_CU(cu.cuMemGetInfo(&free_bytes, &total_bytes));
    runs = free_bytes / (gib * GIB) / COLD_TURNS;
    return (struct bench_plan){runs > WARM_UP_RUNS ? runs - WARM_UP_RUNS : 1, 0, 0, 0};
}

/* The most GiB, a power of two up to 8, that fit with what a growth may take over. */
static size_t choose_gib(void)
{
    size_t free_bytes;
    size_t total_bytes;
    size_t gib = 8;

    BENCH_CU(cu.cuMemGetInfo(&free_bytes, &total_bytes));
    while (gib > 1 && gib * GIB + gib * GIB / 8 > free_bytes)
        gib /= 2;
    return gib;
}

void bench_row_growth(const struct bench *bench)
{
    struct growth growth = {.bench = bench, .stream = bench_stream_create()};
    const struct {
        const char *format; /* of the variant's name */
        bool cold;
        struct bench_case subject;
    } turns[] = {
        {"%zu GiB", true, {open_cold, allocate_steps, drop_pool, &growth, 1}},
        {"reserve of %zu GiB", true, {open_cold, reserve_all, drop_pool, &growth, 1}},
        {"trim of %zu GiB", false, {open_grown, trim, drop_pool, &growth, 1}},
        {NULL, false, {open_reserved, allocate_steps, drop_pool, &growth, 1}},
    };
    struct bench_plan plan = bench_plan_for(bench->quick, SAMPLES);
    size_t gib = choose_gib();
    struct bench_plan plan_of_cold = plan_cold(gib);

    growth.step_count = gib * GIB / STEP_BYTES;
    for (size_t i = 0; i < sizeof turns / sizeof turns[0]; i++) {
        struct bench_series series;
        char variant[64];

        growth.account = bench_account_create();
        bench_measure(turns[i].cold ? &plan_of_cold : &plan, &turns[i].subject, 1, &series);
        if (turns[i].format != NULL)
            (void)snprintf(variant, sizeof variant, turns[i].format, gib);
        else
            (void)snprintf(variant, sizeof variant, "%zu allocations after it", growth.step_count);
        bench_report("growth", variant, NULL, "us", bench_scaled(bench_summarize(&series), 1e-3));
        bench_account_report(growth.account, "growth", variant);
    }
    bench_stream_destroy(growth.stream);
}
