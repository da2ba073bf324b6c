// SPDX-License-Identifier: Apache-2.0
/* waits.h -- how long another thread's calls of the driver wait while something goes on.
 *
 * A thread of its own sets 4 KiB of the device's memory and waits for that, over and over. A set and
 * a wait for it are one look. */
#ifndef TARN_BENCH_WAITS_H
#define TARN_BENCH_WAITS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "driver.h"

enum { BENCH_WAITS_MAX = 1 << 20 };

struct bench_waits {
    pthread_t thread;
    tarn_stream stream;
    tn_cu_deviceptr memory;
    atomic_bool counts; /* looks are kept from now on */
    atomic_bool over;
    atomic_size_t looks; /* so many, kept or not */
    size_t count;        /* of those kept: read once the thread is over */
    uint32_t *ns;        /* BENCH_WAITS_MAX of them, later ones left out */
};

/* Starts the thread, and returns when its looks go on. */
void bench_waits_open(struct bench_waits *waits);

/* What begins is what looks are kept of. */
void bench_waits_begin(struct bench_waits *waits);

/* What went on has ended. In microseconds: the wait that 99.9 % of looks do not exceed, and the
 * longest. Ends the thread. */
void bench_waits_end(struct bench_waits *waits, double *most_of_999, double *longest);

#endif
