// SPDX-License-Identifier: Apache-2.0
/* out.h -- where the command writes: standard output, or a file of its own.
 *
 * A file is written under a temporary name in its folder, and gets its own name when all is written.
 * Whoever finds the name finds a whole file: the one from before, or the new one. */
#ifndef TARN_COMMAND_OUT_H
#define TARN_COMMAND_OUT_H

#include <stdbool.h>
#include <stdio.h>

struct out {
    FILE *file;
    const char *path; /* NULL: standard output */
    char *temporary;
};

/* path NULL: standard output. False: it was said why not. */
bool out_open(struct out *out, const char *path);

/* Ends the writing. False: something was not written, which was said; there is no new file. */
bool out_close(struct out *out);

/* Ends it without a file. */
void out_abandon(struct out *out);

#endif
