// SPDX-License-Identifier: Apache-2.0
/* find.h -- the histories of this user, and which one is meant. */
#ifndef TARN_COMMAND_FIND_H
#define TARN_COMMAND_FIND_H

#include <stddef.h>
#include <stdint.h>

#include "base/ring_file.h"
#include "say.h"

enum { FIND_PATH_BYTES = 4096 };

struct found {
    char path[TN_RING_PATH_MAX];
    uint64_t process; /* as the file's name says */
    uint64_t made;    /* nanoseconds since 1970, as it says */
};

struct finds {
    struct found *all; /* oldest first */
    size_t count;
};

/* The files that are named as this user's histories are; for root, as any user's: in the runtime folder, and in /dev/shm.
 * FOUND, or WRONG: it was said why. End them by finds_free. */
enum answer finds_read(struct finds *finds);
void finds_free(struct finds *finds);

/* The file that a word means: a number is a process, anything else a path. FOUND; NOTHING: the process
 * has no history; WRONG: it has several. Both were said. */
enum answer find_file(const char *word, char path[FIND_PATH_BYTES]);

#endif
