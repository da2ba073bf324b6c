// SPDX-License-Identifier: Apache-2.0
/* archive.h -- the stored inputs of a target, in one file.
 *
 * A head of eight bytes, "tarninp1"; then for each input its size in four bytes, lowest first, and its
 * bytes. Inputs stand by size, then by content, so that one set of inputs is one file. */
#ifndef TARN_TESTS_FUZZ_ARCHIVE_H
#define TARN_TESTS_FUZZ_ARCHIVE_H

#include <stdbool.h>

#include "fuzz/fuzz.h"

enum { FUZZ_INPUTS_MAX = 8192 };

/* Inputs in memory, each with bytes of its own. */
struct fuzz_inputs {
    struct fuzz_input items[FUZZ_INPUTS_MAX];
    size_t count;
};

/* Adds a copy of an input. NULL when there is no room. */
struct fuzz_input *fuzz_inputs_add(struct fuzz_inputs *inputs, const uint8_t *bytes, size_t size);

/* Adds the inputs of an archive, or of each file in a folder. Returns false when it cannot be read
 * whole. */
bool fuzz_inputs_read(struct fuzz_inputs *inputs, const char *path);

/* Puts inputs in order, and leaves out what is there twice. */
void fuzz_inputs_sort(struct fuzz_inputs *inputs);

/* Writes an archive. */
bool fuzz_inputs_write(const struct fuzz_inputs *inputs, const char *path);

/* Writes one input to a file of a folder, named after its content: <hash>.<suffix>. */
bool fuzz_input_write(const struct fuzz_input *input, const char *folder, const char *suffix);

#endif
