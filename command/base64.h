// SPDX-License-Identifier: Apache-2.0
/* base64.h -- bytes as text. */
#ifndef TARN_COMMAND_BASE64_H
#define TARN_COMMAND_BASE64_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What is left of a piece until three bytes are together. Begins zeroed. */
struct base64 {
    uint32_t bits;
    unsigned count;
};

void base64_put(struct base64 *base64, const void *bytes, size_t count, FILE *file);
void base64_end(struct base64 *base64, FILE *file);

#endif
