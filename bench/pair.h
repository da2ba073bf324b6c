// SPDX-License-Identifier: Apache-2.0
/* pair.h -- who takes part in rows of pairs, and pairs on several threads. */
#ifndef TARN_BENCH_PAIR_H
#define TARN_BENCH_PAIR_H

#include <stdatomic.h>
#include <stddef.h>

#include "rows.h"

/* What one thread works with. On a cache line of its own, as its lock is written to. */
struct pair_lane {
    _Alignas(128) tarn_device *device;
    tarn_stream stream;
    size_t bytes;     /* of each block */
    atomic_flag lock; /* of pair_spin_lock, nobody else's */
};

struct pair_contender {
    const char *rival; /* NULL: Tarn */
    void *(*allocate)(const struct pair_lane *lane);
    void (*free)(const struct pair_lane *lane, void *address);
    void (*pair)(struct pair_lane *lane); /* both, one after the other */
};

extern const struct pair_contender pair_tarn;
extern const struct pair_contender pair_tarn_on; /* frees with tarn_free_on, on the lane's stream */
extern const struct pair_contender pair_driver;

/* Not an allocator: a lock of the lane's own, taken and released. Its threads share nothing, so
 * what it loses on many threads is the machine's loss. */
extern const struct pair_contender pair_spin_lock;

/* The size of which the limits speak: common for activations and workspaces, and neither the
 * smallest nor the largest of those measured. */
enum { PAIR_MAIN_BYTES = 1 << 20 };

enum { PAIR_THREADS_MAX = 16 };

/* As many threads as this process may use cores, 2 to PAIR_THREADS_MAX. */
unsigned pair_choose_thread_count(void);

/* How long a window of pair_measure_rate is. */
long pair_window_ns(const struct bench *bench);

/* The pairs that so many threads do together, each on a lane of its own, in millions a second. */
double pair_measure_rate(const struct pair_contender *contender, struct pair_lane *lanes,
                         unsigned thread_count, long window_ns);

void pair_on_threads(const struct bench *bench);

#endif
