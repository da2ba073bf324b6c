// SPDX-License-Identifier: Apache-2.0
/* A table doubles before its chains grow long. The memory for this is taken and given back without
 * the lock, and entries of one key keep their order. */
#include "heap/pool_index.h"

#include "base/checked.h"
#include "base/contract.h"
#include "base/host.h"
#include "base/hot.h"
#include "base/lock.h"

enum { ENTRIES_PER_CHAIN = 2 };

static void lock(struct tn_pool_index *index)
{
    tn_lock_acquire_spin(&index->lock, TN_RANK_INDEX);
}

static void unlock(struct tn_pool_index *index)
{
    tn_lock_release_spin(&index->lock, TN_RANK_INDEX);
}

static size_t count_chains(const struct tn_index_table *table)
{
    return table->chains != NULL ? table->chain_count : TN_INDEX_CHAINS_MIN;
}

static struct tn_index_entry **chain_of(struct tn_index_table *table, uint64_t key)
{
    size_t at = (size_t)((key * TN_GOLDEN) >> 32) & (count_chains(table) - 1);

    return table->chains != NULL ? &table->chains[at] : &table->few[at];
}

static void enter(struct tn_index_table *table, struct tn_index_entry *entry)
{
    struct tn_index_entry **chain = chain_of(table, entry->key);

    entry->previous = NULL;
    entry->next = *chain;
    if (entry->next != NULL)
        entry->next->previous = entry;
    *chain = entry;
}

static void leave(struct tn_index_table *table, const struct tn_index_entry *entry)
{
    if (entry->previous != NULL)
        entry->previous->next = entry->next;
    else
        *chain_of(table, entry->key) = entry->next;
    if (entry->next != NULL)
        entry->next->previous = entry->previous;
}

/* Enters a chain's entries in another table, the oldest first. */
static void enter_chain(struct tn_index_table *table, struct tn_index_entry *entry)
{
    while (entry != NULL && entry->next != NULL)
        entry = entry->next;
    while (entry != NULL) {
        struct tn_index_entry *newer = entry->previous;

        enter(table, entry);
        entry = newer;
    }
}

/* Returns the memory that the table had. */
static struct tn_index_entry **rehash(struct tn_index_table *table, struct tn_index_entry **made,
                                      size_t count)
{
    struct tn_index_table grown = {.chains = made, .chain_count = count, .count = table->count};
    struct tn_index_entry **old = table->chains != NULL ? table->chains : table->few;
    size_t old_count = count_chains(table);

    TN_ASSERT(count > old_count);
    for (size_t i = 0; i < old_count; i++)
        enter_chain(&grown, old[i]);
    old = table->chains;
    *table = grown;
    return old;
}

static TN_APART void grow(struct tn_pool_index *index, struct tn_index_table *table, size_t count)
{
    struct tn_index_entry **made = tn_host_alloc(count, sizeof made[0]);

    if (made == NULL)
        return;
    lock(index);
    if (count > count_chains(table)) /* unless another thread was first */
        made = rehash(table, made, count);
    unlock(index);
    tn_host_free(made);
}

void tn_pool_index_put(struct tn_pool_index *index, enum tn_index_key by,
                       struct tn_index_entry *entry, uint64_t key)
{
    struct tn_index_table *table = &index->tables[by];
    size_t grown_count = 0;

    lock(index);
    if (entry->key != 0) {
        TN_ASSERT(table->count > 0);
        leave(table, entry);
        table->count -= 1;
    }
    entry->key = key;
    if (key != 0) {
        enter(table, entry); /* P31 */
        table->count += 1;
        if (table->count > ENTRIES_PER_CHAIN * count_chains(table))
            grown_count = 2 * count_chains(table);
    }
    unlock(index);
    if (TN_UNLIKELY(grown_count != 0))
        grow(index, table, grown_count);
}

static struct tn_index_entry *seek(struct tn_index_entry *entry, const tarn_pool *pool,
                                   uint64_t key)
{
    while (entry != NULL && (entry->key != key || entry->pool != pool))
        entry = entry->next;
    return entry;
}

struct tn_index_entry *tn_pool_index_entry(struct tn_pool_index *index, enum tn_index_key by,
                                           const tarn_pool *pool, uint64_t key)
{
    struct tn_index_entry *found;

    TN_ASSERT(key != 0);
    lock(index);
    found = seek(*chain_of(&index->tables[by], key), pool, key);
    unlock(index);
    return found;
}

struct tn_hold *tn_pool_index_first(struct tn_pool_index *index, enum tn_index_key by,
                                    const tarn_pool *pool, uint64_t key)
{
    const struct tn_index_entry *found = tn_pool_index_entry(index, by, pool, key);

    return found != NULL ? found->hold : NULL;
}

struct tn_hold *tn_pool_index_next(struct tn_pool_index *index, const struct tn_index_entry *entry)
{
    const struct tn_index_entry *found;

    TN_ASSERT(entry->key != 0);
    lock(index);
    found = seek(entry->next, entry->pool, entry->key);
    unlock(index);
    return found != NULL ? found->hold : NULL;
}

bool tn_pool_index_has(struct tn_pool_index *index, enum tn_index_key by,
                       const struct tn_index_entry *entry)
{
    const struct tn_index_entry *other;

    lock(index);
    other = *chain_of(&index->tables[by], entry->key);
    while (other != NULL && other != entry)
        other = other->next;
    unlock(index);
    return other != NULL;
}

tarn_pool *tn_pool_index_pool(struct tn_pool_index *index, const struct tn_index_keys *keys,
                              uint64_t *below)
{
    const uint64_t key_of[TN_INDEX_KEYS] = {[TN_BY_CAPTURE] = keys->capture_id,
                                            [TN_BY_GRAPH] = (uintptr_t)keys->graph,
                                            [TN_BY_KEEPER] = (uintptr_t)keys->keeper,
                                            [TN_BY_STREAM] = keys->stream_id};
    const struct tn_index_entry *newest = NULL;
    tarn_pool *pool = NULL;

    lock(index);
    for (int by = 0; by < TN_INDEX_KEYS; by++) {
        const struct tn_index_entry *entry =
            key_of[by] != 0 ? *chain_of(&index->tables[by], key_of[by]) : NULL;

        for (; entry != NULL; entry = entry->next) {
            if (entry->key == key_of[by] && entry->pool_serial < *below &&
                (newest == NULL || entry->pool_serial > newest->pool_serial))
                newest = entry;
        }
    }
    if (newest != NULL) {
        *below = newest->pool_serial;
        pool = newest->pool;
    }
    unlock(index);
    return pool;
}

void tn_pool_index_fini(struct tn_pool_index *index)
{
    for (int by = 0; by < TN_INDEX_KEYS; by++) {
        TN_ASSERT(index->tables[by].count == 0);
        tn_host_free(index->tables[by].chains);
        index->tables[by] = (struct tn_index_table){.count = 0};
    }
}
