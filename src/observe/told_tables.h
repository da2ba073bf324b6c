// SPDX-License-Identifier: Apache-2.0
/* told_tables.h -- the tables of live blocks of a history, as a source of what happened
 * (observe/retell.h).
 *
 * Locking: none; the source may be written meanwhile. */
#ifndef TARN_OBSERVE_TOLD_TABLES_H
#define TARN_OBSERVE_TOLD_TABLES_H

#include "observe/retell.h"

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
