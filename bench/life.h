// SPDX-License-Identifier: Apache-2.0
/* life.h -- one of each of a program's objects is made, used and ended. */
#ifndef TARN_BENCH_LIFE_H
#define TARN_BENCH_LIFE_H

#include "driver.h"

/* A stream, a pool, a capture, its graph, and a checkpoint, with blocks of each. silently: the stream
 * is destroyed without a word to the library. Every third pool is released while a block of it is
 * live. All work is done at the end. bench_touch_load was called before. */
void bench_life(tarn_device *device, uint64_t number, bool silently);

/* What lives of the driver alone use again and again. */
struct bench_driver_life {
    void *word;                /* a block, which kernels write */
    tn_cu_deviceptr addresses; /* of nothing but this: memory is mapped here */
    tn_cu_memhandle memory;
};
void bench_driver_life_begin(struct bench_driver_life *life, tarn_device *device);
void bench_driver_life_end(struct bench_driver_life *life);

/* What the driver alone takes for a life: a stream, a capture of the same kernel, its graph, a launch,
 * and memory that is mapped and unmapped. */
void bench_life_of_driver(const struct bench_driver_life *life);

#endif
