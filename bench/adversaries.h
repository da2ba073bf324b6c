// SPDX-License-Identifier: Apache-2.0
/* adversaries.h -- worst cases of memory: traces that are made to leave holes.
 *
 * An adversary asks for blocks until a peak is reached, frees some of them, and asks for blocks
 * that do not fit the holes. The same peak and seed give the same trace in every run and program.
 * The trace is one of trace_file.h, and its live_peak_bytes are the lower bound of any allocator's
 * memory: the peak, or a little less where the next block would not fit below the peak.
 *
 * No allocator that leaves blocks where they are reaches the bound of all cases. A figure is
 * therefore held against its record alone (tools/traces/hold.py). */
#ifndef TARN_BENCH_ADVERSARIES_H
#define TARN_BENCH_ADVERSARIES_H

#include <stddef.h>
#include <stdint.h>

#include "trace_file.h"

enum {
    BENCH_ADVERSARY_PEAK_MIB = 2048, /* of figures to keep */
    BENCH_ADVERSARY_PEAK_QUICK_MIB = 64,
    BENCH_ADVERSARY_PEAK_MIN_MIB = 16,
    BENCH_ADVERSARY_PEAK_MAX_MIB = 65536, /* a name of a trace has room for no longer numbers */
    BENCH_ADVERSARY_SEED_MAX = 999,       /* the least is 1 */
};

struct bench_adversary_writer;

struct bench_adversary {
    const char *name; /* at most 12 characters */
    void (*write)(struct bench_adversary_writer *writer);
};

extern const struct bench_adversary bench_adversaries[];
extern const size_t bench_adversary_count;

/* Makes the trace "NAME PEAK MiB", with " seed SEED" behind it where the seed is not 1; the caller
 * destroys it. Ends the program where there is no host memory. */
void bench_adversary_create(const struct bench_adversary *adversary, size_t peak_mib, uint64_t seed,
                            struct bench_trace *trace);

#endif
