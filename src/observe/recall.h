// SPDX-License-Identifier: Apache-2.0
/* recall.h -- which blocks were live when pools were stopped, found out once they go on again.
 *
 *   1  Before: the table of live blocks is copied, and it is noted how long each page of the log is.
 *   2  While the pools are stopped: how far the writers of their blocks have come, the cut, and the
 *      highest number of a block.
 *   3  Afterwards: the table is read again, and the log behind the cut.
 *
 * A block is live at the cut if its number is not above the highest, and the table has it in step 3,
 * or the log has its free behind the cut. What the block was, the copy of step 1 says, or the log.
 *
 * Writers stop for step 2 alone, which looks at no block. They may overwrite the log faster than it is
 * read: then nothing is known.
 *
 * Locking: none, and none may be held in steps 1 and 3. */
#ifndef TARN_OBSERVE_RECALL_H
#define TARN_OBSERVE_RECALL_H

#include "pools/device.h"

struct tn_recalled_block {
    uint64_t number; /* 0: no block */
    uint64_t address;
    uint64_t requested;
    uint64_t tag;
    uint32_t units; /* of 512 bytes */
    uint32_t stack; /* the id of its allocation's stack; 0: none was taken */
    uint32_t place; /* in the table */
};

struct tn_recalled_blocks {
    struct tn_recalled_block *all;
    size_t count;
    size_t capacity;
};

struct tn_recall_cut;
struct tn_recall_page;

struct tn_recall {
    struct tn_history *history;
    uint64_t pool; /* the number of the only pool; 0: all of them */
    size_t part_count;
    size_t place_count;             /* in the table */
    struct tn_recalled_block *seen; /* in the order of places; from step 3 on: live at the cut */
    size_t count;                   /* of them: at most as many as there are places */
    size_t seen_count;              /* of them that step 1 saw */
    size_t next;                    /* of these, when the table is read again */
    bool *were_theirs;              /* by tables: they were of these pools */
    struct tn_recall_page *pages;   /* of the log, as they were in step 1 */
    struct tn_recall_cut *cuts;     /* from step 3 on by their pages */
    size_t cut_count;
    size_t cut_room;
    uint64_t lost;                   /* events that found no page, in step 1 */
    uint64_t taken;                  /* pages, at the cut */
    uint64_t taken_at_end;           /* when the table was read again */
    uint64_t highest;                /* number of a block at the cut */
    struct tn_recalled_blocks known; /* that the table does not have in step 3; by numbers */
    struct tn_recalled_blocks freed; /* behind the cut: their numbers alone */
};

/* Step 1. False: no memory. End it by tn_recall_end. */
bool tn_recall_begin(struct tn_recall *recall, tarn_device *device, uint64_t pool, size_t cut_room);

/* Step 2: a writer of the stopped pools; and then the others, once. There is room for the writers. */
void tn_recall_cut(struct tn_recall *recall, const struct tn_ring_writer *writer);
void tn_recall_cut_others(struct tn_recall *recall);

enum tn_recall_answer {
    TN_RECALL_DONE,
    TN_RECALL_LOST, /* too much was written meanwhile */
    TN_RECALL_NO_MEMORY,
};

/* Step 3. Some blocks may be there twice. */
enum tn_recall_answer tn_recall_find(struct tn_recall *recall);

void tn_recall_end(struct tn_recall *recall);

#endif
