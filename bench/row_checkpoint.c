// SPDX-License-Identifier: Apache-2.0
/* The state of a pool, without contents: taken; restored after every second block was freed, so
 * that no two freed blocks are neighbours; compared with what its user expects, told in the order
 * of allocation and in random order, and once more after the restores, when the library's records
 * are no longer in the order of addresses.
 *
 * Each sample is one call; what it gives back is destroyed outside the time. A restore is asked for
 * its delta, since a program needs to know what it has again. */
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"
#include "harness.h"
#include "report.h"
#include "rows.h"

enum {
    SAMPLES = 101,
    BLOCK_BYTES_MIN = 512,
    BLOCK_SIZES = 128, /* up to that many times the least: 64 KiB */
};

struct state {
    tarn_pool *pool;
    tarn_stream stream;
    size_t block_count;
    tarn_expected *expected; /* the blocks, in the order of allocation */
    tarn_expected *shuffled; /* the same in random order */
    tarn_checkpoint *checkpoint;
    tarn_delta *delta;
    tarn_live_diff *diff;
};

static void create_state(struct state *made, const struct bench *bench, size_t block_count)
{
    uint64_t random = 1;

    *made = (struct state){.block_count = block_count};
    made->expected = calloc(block_count, sizeof *made->expected);
    made->shuffled = calloc(block_count, sizeof *made->shuffled);
    if (made->expected == NULL || made->shuffled == NULL)
        bench_fail("no host memory");
    made->stream = bench_stream_create();
    BENCH_OK(tarn_pool_create(bench->device, NULL, &made->pool));
    for (size_t i = 0; i < block_count; i++) {
        size_t bytes = BLOCK_BYTES_MIN * (1 + bench_random(&random) % BLOCK_SIZES);
        size_t other = bench_random(&random) % (i + 1);
        void *address = NULL;

        BENCH_OK(tarn_pool_malloc(made->pool, bytes, 0, made->stream, &address));
        made->expected[i] = (tarn_expected){address, bytes};
        made->shuffled[i] = made->shuffled[other];
        made->shuffled[other] = made->expected[i];
    }
}

static void destroy_state(struct state *state)
{
    for (size_t i = 0; i < state->block_count; i++)
        BENCH_OK(tarn_free((void *)(uintptr_t)state->expected[i].address));
    BENCH_OK(tarn_pool_destroy(state->pool));
    bench_stream_destroy(state->stream);
    free(state->expected);
    free(state->shuffled);
}

static void take(void *context, size_t iterations)
{
    struct state *state = context;

    (void)iterations; /* one, as everywhere here */
    BENCH_OK(tarn_checkpoint_take(state->pool, TARN_CONTENTS_NONE, NULL, &state->checkpoint));
}

static void drop_checkpoint(void *context)
{
    struct state *state = context;

    BENCH_OK(tarn_checkpoint_destroy(state->checkpoint));
}

static void take_and_free_half(void *context)
{
    struct state *state = context;

    take(state, 1);
    for (size_t i = 0; i < state->block_count; i += 2)
        BENCH_OK(tarn_free((void *)(uintptr_t)state->expected[i].address));
}

static void restore(void *context, size_t iterations)
{
    struct state *state = context;

    (void)iterations;
    BENCH_OK(tarn_checkpoint_restore(state->checkpoint, state->stream, &state->delta));
}

static void drop_delta(void *context)
{
    struct state *state = context;

    if (state->delta->revived_count != (state->block_count + 1) / 2)
        bench_fail("a restore revived %zu blocks of %zu", state->delta->revived_count,
                   (state->block_count + 1) / 2);
    tarn_delta_destroy(state->delta);
    drop_checkpoint(state);
}

static void check(void *context, size_t iterations)
{
    struct state *state = context;

    (void)iterations;
    BENCH_OK(tarn_pool_check_live(state->pool, state->expected, state->block_count, &state->diff));
}

static void check_shuffled(void *context, size_t iterations)
{
    struct state *state = context;

    (void)iterations;
    BENCH_OK(tarn_pool_check_live(state->pool, state->shuffled, state->block_count, &state->diff));
}

static void drop_diff(void *context)
{
    struct state *state = context;

    if (state->diff->count != 0)
        bench_fail("a comparison found %zu differences where there is none", state->diff->count);
    tarn_live_diff_destroy(state->diff);
}

/* One thing at a time: these are not compared with each other, and a restore that takes turns with
 * the others would leave its traces in the processor's caches. */
static void measure(const struct bench *bench, size_t block_count)
{
    struct state state;
    const struct {
        const char *name;
        struct bench_case subject;
    } turns[] = {
        {"take", {NULL, take, drop_checkpoint, &state, 1}},
        {"check", {NULL, check, drop_diff, &state, 1}},
        {"check shuffled", {NULL, check_shuffled, drop_diff, &state, 1}},
        {"restore", {take_and_free_half, restore, drop_delta, &state, 1}},
        {"check after restores", {NULL, check, drop_diff, &state, 1}},
    };
    struct bench_plan plan = bench_plan_for(bench->quick, SAMPLES);

    create_state(&state, bench, block_count);
    for (size_t i = 0; i < sizeof turns / sizeof turns[0]; i++) {
        struct bench_series series;
        char variant[64];

        bench_measure(&plan, &turns[i].subject, 1, &series);
        (void)snprintf(variant, sizeof variant, "%s, %zu blocks", turns[i].name, block_count);
        bench_report("checkpoint", variant, NULL, "us",
                     bench_scaled(bench_summarize(&series), 1e-3));
    }
    destroy_state(&state);
}

void bench_row_checkpoint(const struct bench *bench)
{
    measure(bench, 100);
    measure(bench, 1000);
    measure(bench, 10000);
}
