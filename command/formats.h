// SPDX-License-Identifier: Apache-2.0
/* formats.h -- a history as a file of other tools. docs/command.md has what stands where.
 *
 * Each writer leaves errors of the file to its stream. False: no memory. */
#ifndef TARN_COMMAND_FORMATS_H
#define TARN_COMMAND_FORMATS_H

#include <stdbool.h>
#include <stdio.h>

#include "tale.h"

/* JSON of Chrome's tracing: counters, instants and slices. */
bool format_chrome(struct tale *tale, FILE *file);

/* Perfetto's trace, as messages of protocol buffers: the same as tracks. */
bool format_perfetto(struct tale *tale, FILE *file);

/* A profile of pprof: what each stack allocated in the story, and what is live at its end. */
bool format_pprof(struct tale *tale, FILE *file);

/* PyTorch's memory snapshot: a pickle. */
bool format_pytorch(struct tale *tale, FILE *file);

/* A database of SQLite, into a file that is there, and empty. NULL, or why not. */
const char *format_sqlite(struct tale *tale, const char *path);

#endif
