// SPDX-License-Identifier: Apache-2.0
/* fuzz.h -- what a fuzzer calls; what a target tells ours, besides; and what ours knows of coverage. */
#ifndef TARN_TESTS_FUZZ_H
#define TARN_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* One input. Ends the process when a promise is broken. Always 0. The entry point of libFuzzer.
 *   fuzz.c  bytes to operations of the model: a head, then frames; see model/model.h
 *   conf.c  a text to the options of a device: TARN_CONF */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { FUZZ_BYTES_MAX = 4 + 12 * 300 };

/* How inputs are made: frames.c for the model, pairs.c for TARN_CONF ------------------------- */

struct fuzz_input {
    uint8_t *bytes;
    size_t size;
};

extern const char *const fuzz_name; /* of the program, fuzz_<name>, and what its files end in */
void fuzz_begin(void);              /* before the first input */

/* Makes one random change in a buffer of FUZZ_BYTES_MAX, maybe with a part of another input. The size
 * then. */
size_t fuzz_change(uint8_t *bytes, size_t size, const struct fuzz_input *other);

/* The driver's random numbers. */
extern uint64_t fuzz_random;
size_t fuzz_below(size_t bound);

/* Coverage ----------------------------------------------------------------------------------- */

/* Which steps from one basic block of the library to the next have been seen; all zero where the build
 * does not record them (TARN_FUZZ). */
enum { FUZZ_EDGES = 1 << 16 };
extern uint8_t fuzz_edges[FUZZ_EDGES];

#endif
