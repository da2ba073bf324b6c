// SPDX-License-Identifier: Apache-2.0
/* life.h -- one of each of a program's objects is made, used and ended. */
#ifndef TARN_BENCH_LIFE_H
#define TARN_BENCH_LIFE_H

#include "driver.h"

/* A stream, a pool, a capture, its graph, and a checkpoint, with blocks of each. silently: the stream
 * is destroyed without a word to the library. Every third pool is released while a block of it is
 * live. All work is done at the end. bench_touch_load was called before. */
void bench_life(tarn_device *device, uint64_t number, bool silently);

/* What the driver alone takes: a stream, a capture of the same kernel that writes this word, its graph,
 * and a launch. */
void bench_life_of_driver(void *word);

#endif
