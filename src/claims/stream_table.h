// SPDX-License-Identifier: Apache-2.0
/* stream_table.h -- the streams that are known, by id; and those with fences under way.
 *
 * A hash table with chains, which doubles with its streams. Without host memory it stays as it is,
 * and chains grow.
 *
 * Locking: the STREAMS lock. */
#ifndef TARN_CLAIMS_STREAM_TABLE_H
#define TARN_CLAIMS_STREAM_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/stream.h"

struct tn_fence;

struct tn_known_stream {
    struct tn_known_stream *next; /* of all; see claims/stream_table.h, and the links below */
    struct tn_known_stream *previous;
    struct tn_known_stream *chain_next;
    struct tn_known_stream *waiting_next;
    struct tn_known_stream *waiting_previous;
    bool waits;          /* in the list of those with fences not DONE */
    uint64_t id;         /* immutable */
    tn_cu_stream handle; /* immutable; not used after retirement */
    /* The thread that named the stream last, and alone uses the handle; 0: any. */
    uint64_t thread;
    tn_cu_context context; /* immutable; the context of its work */
    bool retired;
    uint64_t ref_count;       /* noted uses, references to fences, and references of others */
    uint64_t noted_count;     /* uses of blocks not freed yet */
    struct tn_fence *reserve; /* fences set aside */
    uint64_t reserve_count;
    struct tn_fence *first; /* fences not DONE, oldest first */
    struct tn_fence *last;
    struct tn_fence *first_open;   /* behind it all are OPEN; NULL: none is */
    struct tn_fence *retire_fence; /* retired: the fence which ends all its work */
};

enum { TN_STREAM_CHAINS_MIN = 16 };

struct tn_stream_table {
    struct tn_known_stream *few[TN_STREAM_CHAINS_MIN];
    struct tn_known_stream **chains; /* NULL: few */
    size_t chain_count;              /* a power of two; 0: TN_STREAM_CHAINS_MIN */
    struct tn_known_stream *known;   /* all, newest first */
    struct tn_known_stream *waiting; /* those with fences not DONE */
};

/* The stream with this id that is not retired; NULL: none. */
struct tn_known_stream *tn_stream_table_find(const struct tn_stream_table *table, uint64_t id);

/* Enters a stream, the count-th. */
void tn_stream_table_enter(struct tn_stream_table *table, struct tn_known_stream *stream,
                           uint64_t count);

/* The stream is retired: another may get its id. */
void tn_stream_table_retire(struct tn_stream_table *table, struct tn_known_stream *stream);
void tn_stream_table_leave(struct tn_stream_table *table, struct tn_known_stream *stream);

/* The stream's first fence came, or its last has gone. */
void tn_stream_table_note_waiting(struct tn_stream_table *table, struct tn_known_stream *stream);

void tn_stream_table_fini(struct tn_stream_table *table); /* no stream is known */

#endif
