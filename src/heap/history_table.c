// SPDX-License-Identifier: Apache-2.0
/* Trade-offs: parts of the file stay with the device, spare or not. */
#include "heap/history_table.h"

#include <stddef.h>
#include <string.h>

#include "base/contract.h"

/* A new part's tables become spare. */
static void add_part(struct tn_history_tables *tables)
{
    struct tn_history_table *part = tn_ring_file_add_part(tables->file);
    size_t bytes = (size_t)TN_RING_FIRST_PART_BYTES + tables->count * sizeof *part;
    size_t count = bytes / sizeof *part;

    if (part == NULL)
        return;
    for (size_t i = count; i-- > 0;) {
        part[i].next = tables->spare;
        tables->spare = &part[i];
    }
    tables->count += count;
    TN_ASSERT(tables->count * sizeof *part % TN_RING_FIRST_PART_BYTES == 0);
}

static void put_name(struct tn_history_table *table, const char *name)
{
    char bytes[TN_HISTORY_NAME_WORDS * sizeof(uint64_t)] = {0};
    uint64_t word;

    memcpy(bytes, name, strnlen(name, sizeof bytes - 1));
    for (size_t i = 0; i < TN_HISTORY_NAME_WORDS; i++) {
        memcpy(&word, bytes + i * sizeof word, sizeof word);
        atomic_store_explicit(&table->name[i], word, memory_order_release);
    }
}

struct tn_history_table *tn_history_table_take(struct tn_history_tables *tables,
                                               const struct tn_history_table_owner *owner)
{
    struct tn_history_table *table;

    TN_ASSERT(owner->pool != 0 && owner->slab != NULL);
    tn_spin_acquire(&tables->lock);
    if (tables->spare == NULL)
        add_part(tables);
    table = tables->spare;
    if (table != NULL) {
        tables->spare = table->next;
        table->next = NULL;
        TN_ASSERT(atomic_load(&table->pool) == 0);
        table->slab = owner->slab;
        put_name(table, owner->name);
        atomic_store_explicit(&table->pool, owner->pool, memory_order_release);
    }
    tn_spin_release(&tables->lock);
    return table;
}

void tn_history_table_give(struct tn_history_tables *tables, struct tn_history_table *table)
{
    TN_ASSERT(atomic_load(&table->pool) != 0);
    for (size_t i = 0; i < TN_HISTORY_ENTRIES; i++) /* the pool's end frees blocks without a word */
        atomic_store_explicit(&table->entries[i].number, 0, memory_order_release);
    atomic_store_explicit(&table->pool, 0, memory_order_release);
    tn_spin_acquire(&tables->lock);
    table->next = tables->spare;
    tables->spare = table;
    tn_spin_release(&tables->lock);
}
