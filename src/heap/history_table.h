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
 * A log forgets; the table does not, however long a block lives. A free waits in its writer
 * (heap/history.h): the entry of one block for each writer may be of a block that is free.
 *
 * Locking: tables are taken and given back by any thread; a lock of its own. */
#ifndef TARN_HEAP_HISTORY_TABLE_H
#define TARN_HEAP_HISTORY_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/ring_file.h"
#include "base/spin.h"

struct tn_block_slab;

enum {
    TN_HISTORY_ENTRY_BYTES = 64,
    TN_HISTORY_TABLE_BYTES = 256 * TN_HISTORY_ENTRY_BYTES,
    TN_HISTORY_ENTRIES = 255,
    TN_HISTORY_NAME_WORDS = 4,  /* of a pool's name: 31 bytes, and zeros behind them */
    TN_HISTORY_ANNOTATIONS = 2, /* of a block: the first, and the newest */
};

/* A block's words stay when it is freed. */
struct tn_history_entry {
    atomic_uint_fast64_t number; /* the block's; 0: no block is live */
    atomic_uint_fast64_t address;
    atomic_uint_fast64_t requested; /* bytes */
    atomic_uint_fast64_t units;     /* of 512 bytes: what the block has */
    atomic_uint_fast64_t stack;     /* the id of its allocation's stack; 0: none was taken */
    /* The number of the block that the tag and the titles are of: an earlier one's may still be
     * there. */
    atomic_uint_fast64_t noted;
    atomic_uint_fast64_t tag;
    atomic_uint_fast64_t titles; /* its annotations, ids of titles: the first in the low half */
};

struct tn_history_table {
    struct tn_history_entry entries[TN_HISTORY_ENTRIES];
    atomic_uint_fast64_t pool; /* the number of the pool whose blocks it has; 0: no pool's */
    atomic_uint_fast64_t name[TN_HISTORY_NAME_WORDS]; /* of that pool */
    uint64_t unused;
    /* In this process alone: whose records the entries are of; set where there is a pool. */
    const struct tn_block_slab *slab;
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

/* From here on tag and titles are those of the block with this number: each block of the entry has
 * a number of its own, so no free clears them. Each step leaves words of one block alone. The lock
 * of the block's pool is held. */
static inline void tn_history_begin_words(struct tn_history_entry *entry, uint64_t number)
{
    if (atomic_load_explicit(&entry->noted, memory_order_relaxed) == number)
        return;
    atomic_store_explicit(&entry->noted, 0, memory_order_release);
    atomic_store_explicit(&entry->tag, 0, memory_order_release);
    atomic_store_explicit(&entry->titles, 0, memory_order_release);
    atomic_store_explicit(&entry->noted, number, memory_order_release);
}

static inline void tn_history_set_tag(struct tn_history_entry *entry, uint64_t number, uint64_t tag)
{
    tn_history_begin_words(entry, number);
    atomic_store_explicit(&entry->tag, tag, memory_order_release);
}

/* The tag of the block with this number; 0: none, or it gets one at the moment. */
static inline uint64_t tn_history_tag(const struct tn_history_entry *entry, uint64_t number)
{
    uint64_t tag;

    if (atomic_load_explicit(&entry->noted, memory_order_acquire) != number)
        return 0;
    tag = atomic_load_explicit(&entry->tag, memory_order_acquire);
    return atomic_load_explicit(&entry->noted, memory_order_acquire) == number ? tag : 0;
}

/* Whose table it is. */
struct tn_history_table_owner {
    uint64_t pool;    /* its number, not 0 */
    const char *name; /* of the pool; up to 31 bytes are kept */
    const struct tn_block_slab *slab;
};

/* An empty table; NULL: no memory. */
struct tn_history_table *tn_history_table_take(struct tn_history_tables *tables,
                                               const struct tn_history_table_owner *owner);

/* The table's slab stays until the call returns. Who holds the lock of the tables, and finds a pool,
 * thus finds its slab. */
void tn_history_table_give(struct tn_history_tables *tables, struct tn_history_table *table);

#endif
