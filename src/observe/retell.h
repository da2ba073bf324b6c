// SPDX-License-Identifier: Apache-2.0
/* retell.h -- what a device's history tells: which blocks were live, at any moment that it has.
 *
 * The history may be of another process, or of a process which is gone. Its words are read with
 * suspicion, and nothing is told beyond them.
 *
 * A moment is a cut: for each writer of the log, how far it had come. Writers do not wait for a
 * reader: what they write between the cut and the end of the reading is taken back. */
#ifndef TARN_OBSERVE_RETELL_H
#define TARN_OBSERVE_RETELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/note.h"
#include "base/ring.h"
#include "observe/told_tables.h"
#include "tarn/status.h"
#include "tarn/types.h"

struct tn_told_event {
    uint64_t writer;
    uint64_t place;            /* of its page */
    size_t at;                 /* in the page */
    unsigned kind;             /* enum tn_history_kind */
    struct tn_note_words note; /* of the kind NOTE alone */
    /* Of a free whose allocation is lost, and not repeated, only the number is known; the others are
     * 0. */
    struct tn_told_block block;
    /* The stamp before it, in nanoseconds of the monotonic clock. A note happened then. */
    uint64_t since;
};

/* How far a writer had come: all of its events before this one. */
struct tn_told_cut {
    uint64_t writer;
    uint64_t place;
    size_t at;
};

struct tn_told_cuts {
    struct tn_told_cut *cuts; /* by their writers' numbers */
    size_t count;
};

struct tn_told {
    struct tn_told_block *blocks; /* live at the cut, in order of their numbers */
    size_t count;
    struct tn_told_event *events; /* by writers, and in a writer's order; up to the end */
    size_t event_count;
    struct tn_told_cuts cut;
    uint64_t lost_pages;   /* overwritten, or being so; with those that are broken */
    uint64_t lost_events;  /* without a page */
    uint64_t lost_blocks;  /* live at the cut, of which nothing is known but that */
    uint64_t broken_pages; /* with words of no writer's */
    /* Parts of the table that cannot be read to their end: they were in the process's own memory,
     * or the file is cut short. */
    uint64_t unread_parts;
};

/* Reads the history, which writers may write meanwhile. *told: what was live at the cut; NULL: when
 * the reading began. End it by tn_told_free.
 *   HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_retell(const struct tn_told_source *source,
                                      const struct tn_told_cuts *cut, struct tn_told *told);

/* Puts the events of all writers in one order: by their stamps, and events of one stamp by writer.
 * Events of one writer stay in their order. */
void tn_told_sort_by_time(struct tn_told *told);

/* The same without the events, and in little memory, however long the log is: it grows with the
 * live blocks, and with what is written meanwhile. A block that is freed meanwhile may be lost.
 *   HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_retell_blocks(const struct tn_told_source *source,
                                             struct tn_told *told);

/* Sees an event; false: the walk ends. */
typedef bool (*tn_told_visit)(void *context, const struct tn_told_event *event);

/* Shows all events: page by page, as they lie in the log, and in a page in their order. *broken: pages
 * with words of no writer's. False: a visit has ended the walk. */
bool tn_told_walk(const struct tn_told_source *source, tn_told_visit visit, void *context,
                  uint64_t *broken);

void tn_told_free(struct tn_told *told);

#endif
