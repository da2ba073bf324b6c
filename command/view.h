// SPDX-License-Identifier: Apache-2.0
/* view.h -- "tarn view": a history as a picture, in one page without outside references. */
#ifndef TARN_COMMAND_VIEW_H
#define TARN_COMMAND_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "options.h"
#include "say.h"
#include "tale.h"

/* Writes the page, with at most so many changes, or a few times as many. False: no memory. */
bool view_write(struct tale *tale, size_t most, FILE *file);

enum answer view_run(const struct options *options);

#endif
