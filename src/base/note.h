// SPDX-License-Identifier: Apache-2.0
/* note.h -- what happens rarely, as events of a ring: notes.
 *
 * A note says what was done, where, and to what: a pool's number, and up to three operands. It is
 * written behind a stamp of its own, so its time is exact. The writer is a shared one: notes of
 * several threads stand between each other, in their order.
 *
 *     first word, bits 6 to 13     which note it is
 *     first word, bits 14 to 63    the pool's number; 0: no pool's
 *
 * Where memory is created or mapped for a growth, the bytes take bits 0 to 31 of their operand. Bits
 * 32 to 63 are the number of the stack of the call that grew; 0: not known.
 *
 * A note is written once its action can no longer fail. What failed leaves no note, but for what the
 * driver did meanwhile.
 *
 * Locking: the writer's own; callers may hold any lock. */
#ifndef TARN_BASE_NOTE_H
#define TARN_BASE_NOTE_H

#include "base/contract.h"
#include "base/hot.h"
#include "base/ring.h"

/* Behind each: its operands. Memory is named by the driver's handle of it. */
enum tn_note {
    TN_NOTE_SEGMENT_RESERVED = 1, /* address, bytes */
    TN_NOTE_SEGMENT_DROPPED,      /* address, bytes */
    TN_NOTE_MEMORY_CREATED,       /* memory, bytes and stack */
    TN_NOTE_MEMORY_CACHED,        /* memory, bytes: it is mapped nowhere, and kept */
    TN_NOTE_MEMORY_REUSED,        /* memory, bytes: the cache has it no more */
    TN_NOTE_MEMORY_RELEASED,      /* memory, bytes: to the driver */
    TN_NOTE_MAPPED,               /* address, bytes and stack, memory */
    TN_NOTE_MOVED,                /* from, to, bytes: it is mapped there, too */
    TN_NOTE_UNMAPPED,             /* address, bytes, memory */
    TN_NOTE_POOL_CREATED,         /* 1: the default pool, 2: an adopted one, 0: another */
    TN_NOTE_POOL_DESTROYED,
    TN_NOTE_ARENA_BEGUN,         /* writer, stream's id, capture's id */
    TN_NOTE_ARENA_ENDED,         /* writer */
    TN_NOTE_MAGAZINE_BEGUN,      /* writer, its arena's writer */
    TN_NOTE_MAGAZINE_ENDED,      /* writer */
    TN_NOTE_ROUTE_BEGUN,         /* route */
    TN_NOTE_ROUTE_ENDED,         /* route */
    TN_NOTE_CAPTURE_BEGUN,       /* capture's id, stream's id */
    TN_NOTE_CAPTURE_ENDED,       /* capture's id */
    TN_NOTE_CAPTURE_ABORTED,     /* capture's id */
    TN_NOTE_GRAPH_MADE,          /* graph, capture's id; 0: not known */
    TN_NOTE_GRAPH_UPDATED,       /* graph, capture's id */
    TN_NOTE_GRAPH_REPLAYED,      /* graph, stream's id */
    TN_NOTE_GRAPH_DESTROYED,     /* graph */
    TN_NOTE_HOLD_TAKEN,          /* hold, capture's id; 0: no capture's */
    TN_NOTE_HOLD_DROPPED,        /* hold */
    TN_NOTE_CHECKPOINT_TAKEN,    /* checkpoint, blocks */
    TN_NOTE_CHECKPOINT_RESTORED, /* checkpoint */
    TN_NOTE_CHECKPOINT_DROPPED,  /* checkpoint */
    TN_NOTE_STREAM_USED,         /* block, stream's id, capture's id */
    TN_NOTE_STREAM_RETIRED,      /* stream's id */
    TN_NOTE_FENCE_RECORDED,      /* stream's id */
    TN_NOTE_FENCE_DONE,          /* stream's id */
    TN_NOTE_RUNG,                /* which, bytes wanted */
    TN_NOTE_OUT_OF_MEMORY,       /* bytes wanted, bytes the driver has free, status */
    TN_NOTE_TRIMMED,             /* bytes given back, bytes to keep */
    TN_NOTE_SNAPSHOT,            /* blocks */
    TN_NOTE_ANNOTATED,           /* block, its address, title */
    TN_NOTE_SHARED,              /* block, connection, process: a lease is granted */
    TN_NOTE_LEASES_ENDED,        /* connection, process, leases */
    TN_NOTE_PEER_LOST,           /* connection, process */
    TN_NOTE_SHARE_OPENED,        /* address, bytes, connection */
    TN_NOTE_SHARE_RETURNED,      /* address, bytes, connection */
    TN_NOTE_IMPORT_MAPPED,       /* address, bytes, memories */
    TN_NOTE_IMPORT_UNMAPPED,     /* address, bytes */
    TN_NOTES
};

enum {
    TN_RING_NOTE = 7, /* the kind of a note's event */
    TN_NOTE_OPERANDS_MAX = TN_RING_EVENT_WORDS_MAX - 1,
    TN_NOTE_BITS = 8, /* of the value, that say which */
};

_Static_assert(TN_NOTES < 63, "a bit for each in a word, and two others");

/* The bit of a note among the events that a ring skips. */
static inline uint64_t tn_note_bit(enum tn_note note)
{
    return UINT64_C(1) << note;
}

/* The operand of bytes and stack. */
static inline uint64_t tn_note_bytes_of(uint64_t bytes, uint32_t stack)
{
    TN_ASSERT(bytes <= UINT32_MAX);
    return (uint64_t)stack << 32 | bytes;
}

/* The operands of tn_note_write. */
#define TN_OPERANDS(...) ((const uint64_t[TN_NOTE_OPERANDS_MAX]){__VA_ARGS__})

/* How many operands the note has. */
size_t tn_note_operand_count(enum tn_note note);

TN_RARE void tn_note_put(struct tn_ring *ring, enum tn_note note, uint64_t pool,
                         const uint64_t operands[TN_NOTE_OPERANDS_MAX]);

/* ring NULL: nothing is written. pool: its number, or 0. Operands that the note does not have are
 * not written. */
static inline void tn_note_write(struct tn_ring *ring, enum tn_note note, uint64_t pool,
                                 const uint64_t operands[TN_NOTE_OPERANDS_MAX])
{
    if (TN_UNLIKELY(ring != NULL))
        tn_note_put(ring, note, pool, operands);
}

/* A note as it was read; false: the event's words are no note's. */
struct tn_note_words {
    enum tn_note note;
    uint64_t pool;
    uint64_t operands[TN_NOTE_OPERANDS_MAX]; /* 0 where the note has none; without the stack */
    uint32_t stack;                          /* of the call that grew; 0: none */
};

bool tn_note_read(const uint64_t *words, struct tn_note_words *read);

#endif
