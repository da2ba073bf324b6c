// SPDX-License-Identifier: Apache-2.0
/* history_table.h -- the live blocks of a device, for readers in other processes.
 *
 * Tables are in the file of the device's ring (base/ring_file.h), behind its pages. Each slab of a
 * pool's block records has a table, with an entry for each record, a cache line as well. An entry is
 * written with its block, by whoever the block belongs to then:
 *
 *     allocation                           a reader
 *     the block's words                    reads the number: 0, or of a live block
 *     the block's number                   reads the words
 *     free                                 reads the number: still the same, so the words are its
 *     number: 0
 *
 * A log forgets; the table does not, however long a block lives.
 *
 * Locking: tables are taken and given back by any thread; a lock of its own. */
#ifndef TARN_HEAP_HISTORY_TABLE_H
#define TARN_HEAP_HISTORY_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/ring_file.h"
#include "base/spin.h"

enum {
    TN_HISTORY_ENTRY_BYTES = 64,
    TN_HISTORY_TABLE_BYTES = 256 * TN_HISTORY_ENTRY_BYTES,
    TN_HISTORY_ENTRIES = 255,
    TN_HISTORY_ANNOTATIONS = 4, /* of a block: the first ones, and the newest */
};

/* A block's words stay when it is freed. */
struct tn_history_entry {
    atomic_uint_fast64_t number; /* the block's; 0: no block is live */
    atomic_uint_fast64_t address;
    atomic_uint_fast64_t requested; /* bytes */
    atomic_uint_fast64_t units;     /* of 512 bytes: what the block has */
    atomic_uint_fast64_t stack;     /* the id of its allocation's stack; 0: none was taken */
    /* The number of the block that the titles are of: an earlier one's may still be there. */
    atomic_uint_fast64_t annotated;
    /* Its annotations: ids of titles, two in a word, the low half first; 0: none. */
    atomic_uint_fast64_t titles[TN_HISTORY_ANNOTATIONS / 2];
};

struct tn_history_table {
    struct tn_history_entry entries[TN_HISTORY_ENTRIES];
    atomic_uint_fast64_t pool; /* the number of the pool whose blocks it has; 0: no pool's */
    uint64_t unused[6];
    struct tn_history_table *next; /* without a pool: the next such table; no reader's */
};

_Static_assert(sizeof(struct tn_history_entry) == TN_HISTORY_ENTRY_BYTES, "an entry");
_Static_assert(sizeof(struct tn_history_table) == TN_HISTORY_TABLE_BYTES, "tables fill a part");

/* Zeroed but for the file: no table yet. */
struct tn_history_tables {
    struct tn_ring_file *file;
    struct tn_spin lock;
    struct tn_history_table *spare;
    size_t count; /* with those that are spare */
};

/* An empty table; NULL: no memory. pool: its number, not 0. */
struct tn_history_table *tn_history_table_take(struct tn_history_tables *tables, uint64_t pool);
void tn_history_table_give(struct tn_history_tables *tables, struct tn_history_table *table);

#endif
