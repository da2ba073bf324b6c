// SPDX-License-Identifier: Apache-2.0
/* fuzz.h -- what a fuzzer calls; what a target tells ours, besides; and what ours knows of coverage. */
#ifndef TARN_TESTS_FUZZ_H
#define TARN_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* One input. Ends the process when a promise is broken. Always 0. The entry point of libFuzzer.
 *   fuzz.c      bytes to operations of the model: a head, then frames; see model/model.h
 *   conf.c      a text to the options of a device: TARN_CONF
 *   trace.c     a recorded trace, as the benchmark reads it
 *   ptx.c       a text to the kernels of a module, as the simulator reads it
 *   costs.c     a file of costs of the simulator
 *   settings.c  settings of the simulator, a line each: NAME=VALUE
 *   handles.c   what another process hands to the simulator: a file of memory, or a handle
 *   share.c     what another process sends, that shares memory
 *   history.c   the file of a device's history, with changes, as the library reads it
 *   command.c   the same, as the command reads it */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { FUZZ_BYTES_MAX = 4 + 12 * 300 };

/* A promise of what is fuzzed. */
#define FUZZ_EXPECT(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)dprintf(2, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);         \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* How inputs are made: frames.c for the model, words.c for texts, bytes.c for the rest --------- */

struct fuzz_input {
    uint8_t *bytes;
    size_t size;
};

extern const char *const fuzz_name; /* of the program, fuzz_<name>, and what its files end in */
void fuzz_begin(void);              /* before the first input */

/* Of a target with texts: what they are made of. */
extern const char *const fuzz_words[];
extern const size_t fuzz_word_count;

/* Makes one random change in a buffer of FUZZ_BYTES_MAX, maybe with a part of another input. The size
 * then. */
size_t fuzz_change(uint8_t *bytes, size_t size, const struct fuzz_input *other);

/* The same for texts and bytes: puts some in the place of others; what has no room is left out. */
size_t fuzz_replace(uint8_t *bytes, size_t size, size_t at, size_t take, const void *give,
                    size_t give_size);

/* The driver's random numbers. */
extern uint64_t fuzz_random;
size_t fuzz_below(size_t bound);

/* Coverage ----------------------------------------------------------------------------------- */

/* Which steps from one basic block of the library to the next have been seen; all zero where the build
 * does not record them (TARN_FUZZ). */
enum { FUZZ_EDGES = 1 << 16 };
extern uint8_t fuzz_edges[FUZZ_EDGES];

#endif
