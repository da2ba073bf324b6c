// SPDX-License-Identifier: Apache-2.0
/* player.h -- replays traces (trace_file.h) on an allocator, whichever that is.
 *
 * A replay allocates the blocks that lived before the recording, plays its events, which is what is
 * timed, and frees what is live at the end. The first one comes to an allocator that has no memory:
 * it is reported apart, and the peaks are those after it. Then the players of a trace replay by
 * turns, each on the memory that it has kept.
 *
 * Everything here depends on the C library and on the harness alone, so that programs with other
 * allocators replay in the very same way. */
#ifndef TARN_BENCH_PLAYER_H
#define TARN_BENCH_PLAYER_H

#include "harness.h"
#include "trace_file.h"

struct bench_player;

/* An allocator. Whatever fails ends the program with a sentence. */
struct bench_allocator {
    const char *rival; /* its name; NULL: Tarn */
    void (*open)(struct bench_player *player);
    void *(*stream_create)(void);
    void (*stream_destroy)(void *stream);
    void (*stream_drain)(void *stream);
    void *(*allocate)(struct bench_player *player, const struct bench_trace_event *event);
    void (*free)(struct bench_player *player, const struct bench_trace_event *event);
    void (*use)(struct bench_player *player, const struct bench_trace_event *event);
    void (*get_peaks)(struct bench_player *player, uint64_t *reserved, uint64_t *allocated);
    void (*close)(
        struct bench_player *player); /* all blocks are freed, the streams are still there */
};

/* Somebody who replays a trace; the first four fields are set by the caller, before anything else. */
struct bench_player {
    const struct bench_allocator *allocator;
    const struct bench_trace *trace;
    const char *row; /* of the results */
    void *context;   /* the allocator's */
    void *streams[BENCH_TRACE_STREAMS_MAX];
    void **blocks; /* by slot; NULL: empty */
};

/* Replays the trace on all of them, and reports the row. */
void bench_players_compare(struct bench_player *players, size_t count, bool quick);

#endif
