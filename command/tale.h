// SPDX-License-Identifier: Apache-2.0
/* tale.h -- what a converter is given: a history with its story, and how the whole is read. */
#ifndef TARN_COMMAND_TALE_H
#define TARN_COMMAND_TALE_H

#include <stdbool.h>
#include <stdint.h>

#include "history.h"
#include "observe/told_ranges.h"
#include "options.h"
#include "owners.h"
#include "say.h"
#include "story.h"
#include "symbols.h"

struct tale {
    struct history history;
    struct tn_told told; /* the live blocks, in order of their numbers */
    struct owners owners;
    struct story story;
    struct tn_told_ranges ranges;
    struct symbols *symbols;
    uint64_t begin; /* the time of the first change */
};

/* Reads the options' PID or FILE. The path is kept, and must stay. Another answer than FOUND was
 * said, and leaves nothing to close. */
enum answer tale_open(struct tale *tale, const struct options *options, char *path);
void tale_close(struct tale *tale);

#endif
