// SPDX-License-Identifier: Apache-2.0
/* told_tables.h -- the tables of live blocks of a history, as one source of what it tells.
 *
 * Locking: none; the source may be written meanwhile. */
#ifndef TARN_OBSERVE_TOLD_TABLES_H
#define TARN_OBSERVE_TOLD_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ring.h"
#include "heap/history_table.h"

struct tn_told_block {
    uint64_t sequence;
    uint64_t address;
    uint64_t bytes;
    uint64_t requested;
    uint64_t stack; /* the id of its allocation's stack; 0: none was taken */
    uint64_t pool;  /* its number; 0: the log alone has the block, and says nothing of pools */
    /* Of a live block: ids of titles, as of the reading; 0: no more. The last is the newest, where
     * there were more. */
    uint32_t annotations[TN_HISTORY_ANNOTATIONS];
    uint64_t tag; /* of a live block, as of the reading; 0: none */
};

/* Where a history is read. */
struct tn_told_source {
    tn_ring_source read; /* pages of the log; areas; then the table's parts */
    void *context;
    size_t page_count;
    size_t area_bytes;
    size_t part_count;
};

/* What one place tells of a block. */
struct tn_mention {
    struct tn_told_block block; /* bytes 0: not known */
    bool in_table;
    bool begins; /* behind the cut */
    int frees;   /* behind the cut, less the restores */
};

struct tn_mentions {
    struct tn_mention *all;
    size_t count;
    size_t capacity;
};

/* False: no memory. */
bool tn_mentions_add(struct tn_mentions *mentions, const struct tn_mention *mention);

/* Adds a mention of each block in the tables. Counts the parts that cannot be read. False: no
 * memory. */
bool tn_told_read_tables(const struct tn_told_source *source, struct tn_mentions *mentions,
                         uint64_t *unread_parts);

#endif
