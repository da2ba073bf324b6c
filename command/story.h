// SPDX-License-Identifier: Apache-2.0
/* story.h -- all that a history tells, in the order of time, for files of other tools.
 *
 * Changes of blocks hold together, whatever the log has lost: a block is allocated before it is freed,
 * and never twice. So sums of bytes are right behind each change. An event takes some 100 bytes. */
#ifndef TARN_COMMAND_STORY_H
#define TARN_COMMAND_STORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "history.h"
#include "owners.h"

enum change_kind {
    CHANGE_BEFORE, /* a block that was live when the log begins */
    CHANGE_ALLOC,  /* also by a restore */
    CHANGE_FREE,
    CHANGE_NOTE,
};

struct change {
    enum change_kind kind;
    uint32_t stack;   /* of a block's allocation; 0: none */
    uint64_t time;    /* nanoseconds since 1970: a note's exact, a block's earliest */
    uint64_t pool;    /* its number; 0: not known, or no pool's */
    uint64_t block;   /* its number; of a note: the note's place */
    uint64_t address; /* of a block, as the next ones */
    uint64_t bytes;
    uint64_t requested;
    /* Where the event stands in the log: for its order. */
    uint64_t writer;
    uint64_t place;
    bool is_restored;
    bool is_moved; /* behind what has the same time: another writer's allocation */
    bool is_lost;  /* while the story is read */
};

struct story {
    struct change *all;
    size_t count;
    struct tn_note_words *notes;
    size_t note_count;
    uint64_t unknown; /* frees of blocks of which the log has no more than that */
};

/* live: the blocks that the table has, read before. False: no memory. */
bool story_read(struct story *story, const struct history *history, const struct owners *owners,
                const struct tn_told *live);
void story_free(struct story *story);

/* Live bytes of each pool while the changes are gone through. */
struct sum {
    uint64_t pool;
    uint64_t blocks;
    uint64_t bytes;
    uint64_t requested;
};

struct sums {
    struct sum *all;
    size_t count;
    size_t capacity;
};

/* The sum of the change's pool, behind it; a note's is not changed. NULL: no memory. */
struct sum *sums_add(struct sums *sums, const struct change *change);
void sums_free(struct sums *sums);

#endif
