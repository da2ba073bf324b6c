// SPDX-License-Identifier: Apache-2.0
/* fits.h -- placement alone: how high the addresses of a trace rise, by which free block an
 * allocation takes.
 *
 * A model without a driver: each stream has two heaps, of blocks up to 512 KiB and of larger ones,
 * as in Tarn. Free neighbours coalesce at once. Where no free block fits, a heap rises by what is
 * lacking behind its last free block. Nothing moves and nothing shrinks, so the figures compare
 * fits, not allocators. */
#ifndef TARN_BENCH_FITS_H
#define TARN_BENCH_FITS_H

#include "trace_file.h"

struct bench_hole {
    uint64_t offset;
    uint64_t bytes;
    uint64_t freed; /* a number that rises with each free */
};

/* Two numbers; the hole with the lower ones is taken. */
struct bench_preference {
    uint64_t first;
    uint64_t second;
};

struct bench_fit {
    const char *name; /* NULL: Tarn's */
    const char *text;
    /* False: not considered, though the hole is large enough. cursor: the end of the block which the
     * heap allocated last. */
    bool (*judge)(const struct bench_hole *hole, uint64_t bytes, uint64_t cursor,
                  struct bench_preference *preference);
};

extern const struct bench_fit bench_fits[];
extern const size_t bench_fit_count;

struct bench_placement {
    uint64_t peak_bytes; /* the sum of all heaps, as high as they have risen */
    double holes;        /* free blocks in the heap at an allocation, in the mean */
};

struct bench_placement bench_fit_place(const struct bench_fit *fit,
                                       const struct bench_trace *trace);

#endif
