// SPDX-License-Identifier: Apache-2.0
/* frames.h -- a stack, in lines for people or as JSON. */
#ifndef TARN_COMMAND_FRAMES_H
#define TARN_COMMAND_FRAMES_H

#include <stdio.h>

#include "history.h"
#include "json.h"
#include "symbols.h"

/* Writes the frames of a stack by its number, innermost first; the lines begin with so many spaces. A
 * number that stands for none is a line, too. */
void frames_print(struct history *history, struct symbols *symbols, uint64_t stack, FILE *file,
                  int indent);

enum { FRAMES_KEY_BYTES = 1 << 16 };

/* Writes a text that is the same for the same stack of another history: titles, and places in files
 * with their build ids. A longer one is cut. */
void frames_key(char key[FRAMES_KEY_BYTES], struct history *history, uint64_t stack);

/* The same frames as frames_print's, as an array of objects under the key "frames". */
void frames_to_json(struct history *history, struct symbols *symbols, uint64_t stack,
                    struct json *json);

#endif
