// SPDX-License-Identifier: Apache-2.0
/* fuzz.h -- what a fuzzer calls, and what ours knows of coverage. */
#ifndef TARN_TESTS_FUZZ_H
#define TARN_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Bytes to operations of the model: a head, then frames; see model/model.h. Ends the process when a
 * promise is broken. Always 0. The entry point of libFuzzer. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { FUZZ_BYTES_MAX = 4 + 12 * 300 };

/* Which steps from one basic block of the library to the next have been seen; all zero where the build
 * does not record them (TARN_FUZZ). */
enum { FUZZ_EDGES = 1 << 16 };
extern uint8_t fuzz_edges[FUZZ_EDGES];

#endif
