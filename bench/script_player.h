// SPDX-License-Identifier: Apache-2.0
/* script_player.h -- plays random traces (script.h) on an allocator, whichever that is.
 *
 * Everything here depends on the C library and on the harness alone, so that programs with other
 * allocators play in the very same way. */
#ifndef TARN_BENCH_SCRIPT_PLAYER_H
#define TARN_BENCH_SCRIPT_PLAYER_H

#include <stddef.h>
#include <stdint.h>

#include "script.h"

struct script_player;

/* An allocator. Whatever fails ends the program with a sentence. */
struct script_allocator {
    const char *rival; /* its name; NULL: Tarn */
    void (*open)(struct script_player *player);
    void *(*allocate)(const struct script_player *player, size_t bytes);
    void (*free)(const struct script_player *player, void *address);
    void (*drain)(const struct script_player *player); /* waits for the stream */
    void (*get_peaks)(const struct script_player *player, uint64_t *reserved, uint64_t *allocated);
    /* Not the peaks; NULL where nobody asks. */
    void (*get_now)(const struct script_player *player, uint64_t *reserved, uint64_t *allocated);
    void (*close)(struct script_player *player); /* all blocks are freed */
};

/* Somebody who plays a script; the first three fields are set by the caller. */
struct script_player {
    const struct script_allocator *allocator;
    const struct bench_script *script;
    void *context;   /* the allocator's, as are the next two */
    void *pool;      /* set by open */
    void *stream;    /* set by open */
    void **blocks;   /* by slot; NULL: free */
    size_t position; /* the next op */
};

/* Opens the player's allocator and fills the slots. */
void script_player_fill(struct script_player *player);

/* Fills the slots and plays the whole script once, so that what is measured then is no beginning. */
void script_player_open(struct script_player *player);

/* Frees what is live, and ends the allocator. */
void script_player_close(struct script_player *player);

/* As a case's run and finish (harness.h): plays so many steps, and waits for the stream. */
void script_play(void *player, size_t steps);
void script_drain(void *player);

#endif
