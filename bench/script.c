// SPDX-License-Identifier: Apache-2.0
#include "script.h"

#include <stdlib.h>

#include "harness.h"

const char *const bench_order_names[BENCH_ORDER_COUNT] = {"random", "FIFO", "LIFO", "alternating",
                                                          "comb"};

static uint32_t next_size(struct bench_script *script)
{
    uint64_t least = BENCH_BLOCK_BYTES_MIN;
    uint64_t octaves = 0;

    if (!script->by_octave)
        return (uint32_t)(1 + bench_random(&script->random) % script->bytes_max);
    while (least << (octaves + 1) <= script->bytes_max)
        octaves++;
    least <<= bench_random(&script->random) % octaves;
    return (uint32_t)(least + 1 + bench_random(&script->random) % least);
}

/* The slot that a step frees and fills again. */
static size_t next_slot(struct bench_script *script, size_t step)
{
    switch (script->order) {
    case BENCH_ORDER_RANDOM:
        return bench_random(&script->random) % script->live_count;
    case BENCH_ORDER_FIFO:
        return step % script->live_count;
    case BENCH_ORDER_ALTERNATING: /* what was allocated in place of the oldest is the newest */
        return step / 2 % script->live_count;
    default: /* a hole: the allocator finds it by itself, so any slot will do */
        return 1;
    }
}

static void write_step(struct bench_script *script, size_t step)
{
    struct bench_op freed = {.slot = (uint32_t)next_slot(script, step)};
    struct bench_op filled = {freed.slot, next_size(script)};
    bool fills_first = script->order == BENCH_ORDER_COMB;

    script->ops[2 * step] = fills_first ? filled : freed;
    script->ops[2 * step + 1] = fills_first ? freed : filled;
}

static void write_burst(struct bench_script *script, size_t step)
{
    size_t end = script->slot_count;

    for (size_t i = 0; i < BENCH_BURST_BLOCKS; i++) {
        script->ops[2 * step + i] = (struct bench_op){.slot = (uint32_t)(end - 1 - i)};
        script->ops[2 * step + BENCH_BURST_BLOCKS + i] =
            (struct bench_op){(uint32_t)(end - BENCH_BURST_BLOCKS + i), next_size(script)};
    }
}

/* Plays the sizes alone. */
static uint64_t find_requested_peak(const struct bench_script *script)
{
    uint32_t *held = calloc(script->slot_count, sizeof *held);
    uint64_t live = 0;
    uint64_t peak;

    if (held == NULL)
        bench_fail("no host memory");
    for (size_t i = 0; i < script->slot_count; i++) {
        held[i] = script->first_bytes[i];
        live += held[i];
    }
    peak = live;
    for (size_t i = 0; script->order != BENCH_ORDER_COMB && i < script->op_count; i++) {
        live = live - held[script->ops[i].slot] + script->ops[i].bytes;
        held[script->ops[i].slot] = script->ops[i].bytes;
        peak = live > peak ? live : peak;
    }
    free(held);
    return peak;
}

void bench_script_create(struct bench_script *script)
{
    size_t step_count = script->step_count;

    script->slot_count = script->live_count * (script->order == BENCH_ORDER_COMB ? 2 : 1);
    script->op_count = 2 * step_count;
    script->first_bytes = calloc(script->slot_count, sizeof *script->first_bytes);
    script->ops = calloc(script->op_count, sizeof *script->ops);
    if (script->first_bytes == NULL || script->ops == NULL)
        bench_fail("no host memory");
    script->random = BENCH_RANDOM_SEED + script->seed;
    for (size_t i = 0; i < script->slot_count; i++)
        script->first_bytes[i] = next_size(script);
    if (script->order == BENCH_ORDER_LIFO) {
        for (size_t step = 0; step < step_count; step += BENCH_BURST_BLOCKS)
            write_burst(script, step);
    } else {
        for (size_t step = 0; step < step_count; step++)
            write_step(script, step);
    }
    script->requested_peak = find_requested_peak(script);
}

void bench_script_destroy(struct bench_script *script)
{
    free(script->first_bytes);
    free(script->ops);
}
