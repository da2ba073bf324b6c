// SPDX-License-Identifier: Apache-2.0
/* A table doubles before its chains grow long. The memory for this is taken and given back without
 * the lock, and entries of one key keep their order. */
#include "claims/hold_index.h"

#include "base/checked.h"
#include "base/contract.h"
#include "base/host.h"
#include "base/hot.h"
#include "base/lock.h"

enum { HOLDS_PER_CHAIN = 2 };

static void lock(struct tn_hold_index *index)
{
    tn_lock_acquire_spin(&index->lock, TN_RANK_HOLDS);
}

static void unlock(struct tn_hold_index *index)
{
    tn_lock_release_spin(&index->lock, TN_RANK_HOLDS);
}

static size_t count_chains(const struct tn_hold_table *table)
{
    return table->chains != NULL ? table->chain_count : TN_HOLD_CHAINS_MIN;
}

static struct tn_hold_entry **chain_of(struct tn_hold_table *table, uint64_t key)
{
    size_t at = (size_t)((key * TN_GOLDEN) >> 32) & (count_chains(table) - 1);

    return table->chains != NULL ? &table->chains[at] : &table->few[at];
}

static void enter(struct tn_hold_table *table, struct tn_hold_entry *entry)
{
    struct tn_hold_entry **chain = chain_of(table, entry->key);

    entry->previous = NULL;
    entry->next = *chain;
    if (entry->next != NULL)
        entry->next->previous = entry;
    *chain = entry;
}

static void leave(struct tn_hold_table *table, const struct tn_hold_entry *entry)
{
    if (entry->previous != NULL)
        entry->previous->next = entry->next;
    else
        *chain_of(table, entry->key) = entry->next;
    if (entry->next != NULL)
        entry->next->previous = entry->previous;
}

/* Enters a chain's entries in another table, the oldest first. */
static void enter_chain(struct tn_hold_table *table, struct tn_hold_entry *entry)
{
    while (entry != NULL && entry->next != NULL)
        entry = entry->next;
    while (entry != NULL) {
        struct tn_hold_entry *newer = entry->previous;

        enter(table, entry);
        entry = newer;
    }
}

/* Returns the memory that the table had. */
static struct tn_hold_entry **rehash(struct tn_hold_table *table, struct tn_hold_entry **made,
                                     size_t count)
{
    struct tn_hold_table grown = {.chains = made, .chain_count = count, .count = table->count};
    struct tn_hold_entry **old = table->chains != NULL ? table->chains : table->few;
    size_t old_count = count_chains(table);

    TN_ASSERT(count > old_count);
    for (size_t i = 0; i < old_count; i++)
        enter_chain(&grown, old[i]);
    old = table->chains;
    *table = grown;
    return old;
}

static TN_APART void grow(struct tn_hold_index *index, struct tn_hold_table *table, size_t count)
{
    struct tn_hold_entry **made = tn_host_alloc(count, sizeof made[0]);

    if (made == NULL)
        return;
    lock(index);
    if (count > count_chains(table)) /* unless another thread was first */
        made = rehash(table, made, count);
    unlock(index);
    tn_host_free(made);
}

void tn_hold_index_put(struct tn_hold_index *index, enum tn_hold_key by,
                       struct tn_hold_entry *entry, uint64_t key)
{
    struct tn_hold_table *table = &index->tables[by];
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
        if (table->count > HOLDS_PER_CHAIN * count_chains(table))
            grown_count = 2 * count_chains(table);
    }
    unlock(index);
    if (TN_UNLIKELY(grown_count != 0))
        grow(index, table, grown_count);
}

static struct tn_hold *seek(const struct tn_hold_entry *entry, const tarn_pool *pool, uint64_t key)
{
    while (entry != NULL && (entry->key != key || entry->pool != pool))
        entry = entry->next;
    return entry != NULL ? entry->hold : NULL;
}

struct tn_hold *tn_hold_index_first(struct tn_hold_index *index, enum tn_hold_key by,
                                    const tarn_pool *pool, uint64_t key)
{
    struct tn_hold *found;

    TN_ASSERT(key != 0);
    lock(index);
    found = seek(*chain_of(&index->tables[by], key), pool, key);
    unlock(index);
    return found;
}

struct tn_hold *tn_hold_index_next(struct tn_hold_index *index, const struct tn_hold_entry *entry)
{
    struct tn_hold *found;

    TN_ASSERT(entry->key != 0);
    lock(index);
    found = seek(entry->next, entry->pool, entry->key);
    unlock(index);
    return found;
}

bool tn_hold_index_has(struct tn_hold_index *index, enum tn_hold_key by,
                       const struct tn_hold_entry *entry)
{
    const struct tn_hold_entry *other;

    lock(index);
    other = *chain_of(&index->tables[by], entry->key);
    while (other != NULL && other != entry)
        other = other->next;
    unlock(index);
    return other != NULL;
}

tarn_pool *tn_hold_index_pool(struct tn_hold_index *index, const struct tn_hold_keys *keys,
                              uint64_t *below)
{
    const uint64_t key_of[TN_HOLD_KEYS] = {[TN_HOLD_CAPTURE] = keys->capture_id,
                                           [TN_HOLD_GRAPH] = (uintptr_t)keys->graph,
                                           [TN_HOLD_KEEPER] = (uintptr_t)keys->keeper};
    const struct tn_hold_entry *newest = NULL;
    tarn_pool *pool = NULL;

    lock(index);
    for (int by = 0; by < TN_HOLD_KEYS; by++) {
        const struct tn_hold_entry *entry =
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

void tn_hold_index_fini(struct tn_hold_index *index)
{
    for (int by = 0; by < TN_HOLD_KEYS; by++) {
        TN_ASSERT(index->tables[by].count == 0);
        tn_host_free(index->tables[by].chains);
        index->tables[by] = (struct tn_hold_table){.count = 0};
    }
}
