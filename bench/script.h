// SPDX-License-Identifier: Apache-2.0
/* script.h -- random traces: many blocks live, and a step frees one of them and allocates one, as a pool
 * does in a program that runs for long. All is drawn before anything is played.
 *
 * The orders in which blocks are freed:
 *   random       any of them
 *   FIFO         the oldest
 *   LIFO         the newest, a burst of them one after the other; then as many are allocated
 *   alternating  the oldest and the newest in turn
 *   comb         twice as many blocks were allocated and every second one freed; each step fills one
 *                of the holes and frees it again
 *
 * A script is cyclic: a slot is free or live at the end as it was at the beginning. The same fields give
 * the same script in every run and in every program, so that allocators that cannot share a process
 * can be compared. */
#ifndef TARN_BENCH_SCRIPT_H
#define TARN_BENCH_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BENCH_BLOCK_BYTES_MIN = 512, /* of sizes by octave */
    BENCH_BURST_BLOCKS = 32,     /* of LIFO, a power of two: numbers of steps are multiples of it */
};

/* Half a step: an allocation into a slot, or the free of the block in it. */
struct bench_op {
    uint32_t slot;
    uint32_t bytes; /* 0: the free */
};

enum bench_order {
    BENCH_ORDER_RANDOM,
    BENCH_ORDER_FIFO,
    BENCH_ORDER_LIFO,
    BENCH_ORDER_ALTERNATING,
    BENCH_ORDER_COMB,
    BENCH_ORDER_COUNT
};
extern const char *const bench_order_names[BENCH_ORDER_COUNT];

struct bench_script {
    enum bench_order order;
    bool by_octave; /* sizes; false: all sizes alike likely */
    size_t bytes_max;
    size_t live_count;
    size_t step_count;
    uint64_t seed;         /* another trace of the same kind for each */
    size_t slot_count;     /* live_count, twice that in a comb */
    uint32_t *first_bytes; /* of the blocks that the slots are filled with at first */
    size_t op_count;       /* two a step */
    struct bench_op *ops;
    uint64_t requested_peak; /* most bytes asked for and not freed, at any time */
    uint64_t random;
};

/* The fields that say what is wanted are set: those up to seed. Ends the program where there is
 * no host memory. */
void bench_script_create(struct bench_script *script);
void bench_script_destroy(struct bench_script *script);

#endif
