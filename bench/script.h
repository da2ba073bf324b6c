// SPDX-License-Identifier: Apache-2.0
/* script.h -- random traces: what is freed and allocated in which order, drawn before anything is
 * timed.
 *
 * A script is cyclic: a slot is free or live at the end as it was at the beginning. The same fields give
 * the same script in every run and in every program, so that allocators that cannot share a process
 * can be compared. */
#ifndef TARN_BENCH_SCRIPT_H
#define TARN_BENCH_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BENCH_BLOCK_BYTES_MIN = 512 }; /* of sizes by octave */

/* Half a step: an allocation into a slot, or the free of the block in it. */
struct bench_op {
    uint32_t slot;
    uint32_t bytes; /* 0: the free */
};

/* In which order blocks are freed; row_trace.c says more. */
enum bench_order {
    BENCH_ORDER_RANDOM,
    BENCH_ORDER_FIFO,
    BENCH_ORDER_LIFO,
    BENCH_ORDER_ALTERNATING,
    BENCH_ORDER_COMB,
    BENCH_ORDER_COUNT
};

struct bench_script {
    enum bench_order order;
    bool by_octave; /* sizes; false: all sizes alike likely */
    size_t bytes_max;
    size_t live_count;
    size_t step_count;
    size_t slot_count;     /* live_count, twice that in a comb */
    uint32_t *first_bytes; /* of the blocks that the slots are filled with at first */
    size_t op_count;       /* two a step */
    struct bench_op *ops;
    uint64_t requested_peak; /* most bytes asked for and not freed, at any time */
    uint64_t random;
};

/* The fields that say what is wanted are set: those before slot_count. Ends the program where there is
 * no host memory. */
void bench_script_create(struct bench_script *script);
void bench_script_destroy(struct bench_script *script);

#endif
