// SPDX-License-Identifier: Apache-2.0
/* Open addressing with linear probing, at most half full. The entry of an arena that leaves keeps
 * its key: searches for other arenas continue beyond this entry. A table that is half full is
 * replaced by a table with the present arenas alone.
 *
 * Trade-offs: a thread may be reading a table which was replaced, or whose pool is gone. The pool's
 * record therefore keeps old tables, and reuses them when it needs the same size again: at most two
 * of each size. */
#include "pools/arena_table.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/host.h"
#include "pools/pool.h"

enum { CAPACITY_MIN = 64 };

/* P38 */
static void enter_index(const tarn_pool *pool, struct tn_arena *arena)
{
    TN_ASSERT(tn_arena_heaps(arena)->by_stream.key == 0);
    if (arena->order.capture_id != 0)
        return;
    tn_arena_heaps(arena)->by_stream =
        (struct tn_index_entry){.pool = pool->holds.pool, .pool_serial = pool->holds.pool_serial};
    tn_pool_index_put(&pool->device->index, TN_BY_STREAM, &tn_arena_heaps(arena)->by_stream,
                      arena->order.stream_id);
}

static void enter_arena(struct tn_arena_table *table, struct tn_arena *arena)
{
    uint64_t key = tn_arena_key(arena->order);
    struct tn_arena_entry *entry = tn_arena_entry_find(table, key); /* P16 */

    TN_ASSERT(key != 0 && arena->fence == NULL);
    table->used += atomic_load_explicit(&entry->key, memory_order_relaxed) == 0;
    atomic_store_explicit(&entry->arena, arena, memory_order_release);
    atomic_store_explicit(&entry->key, key, memory_order_release);
}

static bool is_in_table(const struct tn_arena *arena)
{
    return arena->fence == NULL;
}

static void empty(struct tn_arena_table *table)
{
    for (size_t i = 0; i < table->capacity; i++) {
        atomic_store_explicit(&table->entries[i].arena, NULL, memory_order_relaxed);
        atomic_store_explicit(&table->entries[i].key, 0, memory_order_relaxed);
    }
    table->used = 0;
}

static size_t capacity_for(const tarn_pool *pool)
{
    size_t capacity = CAPACITY_MIN;

    while (capacity < 4 * (pool->arenas.count + 1))
        capacity *= 2;
    return capacity;
}

/* An empty table to replace this one, from the record's earlier tables if any has the size. NULL:
 * no memory. */
static struct tn_arena_table *next_table(tarn_pool *pool, const struct tn_arena_table *table)
{
    const size_t capacity = capacity_for(pool);
    struct tn_arena_table *next = pool->tables;

    while (next != NULL && (next == table || next->capacity != capacity))
        next = next->next;
    if (next != NULL) {
        empty(next);
        return next;
    }
    next = tn_host_alloc_lasting(sizeof *next + capacity * sizeof next->entries[0]);
    if (next == NULL)
        return NULL;
    next->capacity = capacity;
    next->used = 0;
    next->next = pool->tables;
    pool->tables = next;
    TN_ASSERT((next->capacity & (next->capacity - 1)) == 0 && next != table);
    return next;
}

bool tn_arena_table_reserve(tarn_pool *pool)
{
    struct tn_arena_table *table = atomic_load(&pool->arena_table);

    TN_ASSERT(tn_pool_is_locked(pool));
    if (table != NULL && 2 * (table->used + 1) <= table->capacity)
        return true;
    table = next_table(pool, table);
    if (table == NULL)
        return false;
    for (struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_ALL]; arena != NULL;
         arena = tn_arena_next(arena)) {
        if (is_in_table(arena))
            enter_arena(table, arena);
    }
    atomic_store_explicit(&pool->arena_table, table, memory_order_release);
    TN_ASSERT(2 * (pool->arenas.count + 1) <= table->capacity);
    return true;
}

void tn_arena_table_enter(tarn_pool *pool, struct tn_arena *arena)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    enter_arena(atomic_load(&pool->arena_table), arena);
    enter_index(pool, arena);
    TN_ASSERT(tn_arena_seek(pool, arena->order) == arena); /* P16 */
}

void tn_arena_table_leave(tarn_pool *pool, struct tn_arena *arena)
{
    struct tn_arena_entry *entry =
        tn_arena_entry_find(atomic_load(&pool->arena_table), tn_arena_key(arena->order));

    TN_ASSERT(tn_pool_is_locked(pool) && is_in_table(arena));
    if (atomic_load_explicit(&entry->arena, memory_order_relaxed) == arena) /* P21 */
        atomic_store_explicit(&entry->arena, NULL, memory_order_release);
    if (tn_arena_heaps(arena)->by_stream.key != 0)
        tn_pool_index_put(&pool->device->index, TN_BY_STREAM, &tn_arena_heaps(arena)->by_stream,
                          0); /* P38 */
    TN_ASSERT(tn_arena_seek(pool, arena->order) != arena);
}

uint64_t tn_arena_table_count(const tarn_pool *pool)
{
    const struct tn_arena_table *table = atomic_load(&pool->arena_table);
    uint64_t count = 0;

    for (size_t i = 0; table != NULL && i < table->capacity; i++)
        count += atomic_load_explicit(&table->entries[i].arena, memory_order_relaxed) != NULL;
    return count;
}

void tn_arena_table_fini(tarn_pool *pool)
{
    TN_ASSERT(tn_pool_is_locked(pool) && pool->arenas.lists.first[TN_ARENAS_ALL] == NULL);
    atomic_store(&pool->arena_table, NULL);
}
