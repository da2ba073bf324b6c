// SPDX-License-Identifier: Apache-2.0
/* Open addressing with linear probing, at most half full. The entry of an arena that leaves keeps
 * its key: searches for other arenas continue beyond this entry. A table that is half full is
 * replaced by a table with the present arenas alone.
 *
 * Trade-offs: a thread may be reading a table which was replaced, or whose pool is gone. The pool's
 * record therefore keeps old tables, and reuses them when it needs the same size again: at most two
 * of each size.
 *
 * A segment falls dormant whole. No block is cut, and none coalesces: blocks change their bins, and
 * chunks their lists. Mixed segments stay with their arenas. */
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

/* Whether a hint leads to an arena with this handle. */
static bool has_hint(const struct tn_arena_table *table, uint64_t named)
{
    const tarn_stream stream = (tarn_stream)(uintptr_t)named;
    size_t at = tn_arena_entry_first(table, named);

    return tn_arena_hint(table, at, stream) != NULL || tn_arena_hint(table, at ^ 1, stream) != NULL;
}

/* Whether the hint in this place leads to an arena with another handle than the one named. */
static bool is_taken(const struct tn_arena_table *table, size_t at, uint64_t named)
{
    const struct tn_arena *hint = atomic_load_explicit(&table->hints[at], memory_order_relaxed);
    uint64_t other = hint != NULL ? atomic_load_explicit(&hint->stream, memory_order_relaxed) : 0;

    return other != 0 && other != named && tn_arena_entry_first(table, other) >> 1 == at >> 1;
}

/* A hint leads to the arena from now on, if one of its two places is not another stream's. */
static void give_hint(struct tn_arena_table *table, struct tn_arena *arena)
{
    uint64_t named = atomic_load_explicit(&arena->stream, memory_order_relaxed);
    size_t at = tn_arena_entry_first(table, named);

    if (is_taken(table, at, named))
        at ^= 1;
    if (named != 0 && !is_taken(table, at, named))
        atomic_store_explicit(&table->hints[at], arena, memory_order_release);
}

static void enter_arena(struct tn_arena_table *table, struct tn_arena *arena)
{
    uint64_t key = tn_arena_key(arena->order);
    struct tn_arena_entry *entry = tn_arena_entry_find(table, key); /* P16 */

    TN_ASSERT(key != 0 && arena->fence == NULL);
    table->used += atomic_load_explicit(&entry->key, memory_order_relaxed) == 0;
    atomic_store_explicit(&entry->arena, arena, memory_order_release);
    atomic_store_explicit(&entry->key, key, memory_order_release);
    if (!has_hint(table, atomic_load_explicit(&arena->stream, memory_order_relaxed)))
        give_hint(table, arena); /* of those with one handle the arena used last comes first */
}

static bool is_in_table(const struct tn_arena *arena)
{
    return arena->fence == NULL;
}

static size_t capacity_of(const struct tn_arena_table *table)
{
    return tn_arena_entry_last(table) + 1;
}

static void empty(struct tn_arena_table *table)
{
    for (size_t i = 0; i < capacity_of(table); i++) {
        atomic_store_explicit(&table->entries[i].arena, NULL, memory_order_relaxed);
        atomic_store_explicit(&table->entries[i].key, 0, memory_order_relaxed);
        atomic_store_explicit(&table->hints[i], NULL, memory_order_relaxed);
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

    while (next != NULL && (next == table || capacity_of(next) != capacity))
        next = next->next;
    if (next != NULL) {
        empty(next);
        return next;
    }
    next = tn_host_alloc_lasting(sizeof *next +
                                 capacity * (sizeof next->entries[0] + sizeof next->hints[0]));
    if (next == NULL)
        return NULL;
    next->hints = (_Atomic(struct tn_arena *) *)(void *)&next->entries[capacity];
    next->shift = 64 - (uint64_t)__builtin_ctzll(capacity);
    next->used = 0;
    next->next = pool->tables;
    pool->tables = next;
    TN_ASSERT(capacity_of(next) == capacity && next != table);
    return next;
}

bool tn_arena_table_reserve(tarn_pool *pool)
{
    struct tn_arena_table *table = atomic_load(&pool->arena_table);

    TN_ASSERT(tn_pool_is_locked(pool));
    if (table != NULL && 2 * (table->used + 1) <= capacity_of(table))
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
    TN_ASSERT(2 * (pool->arenas.count + 1) <= capacity_of(table));
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

void tn_arena_name(tarn_pool *pool, struct tn_arena *arena, tarn_stream stream)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    atomic_store(&arena->stream, (uintptr_t)stream);
    give_hint(atomic_load(&pool->arena_table), arena);
}

uint64_t tn_arena_table_count(const tarn_pool *pool)
{
    const struct tn_arena_table *table = atomic_load(&pool->arena_table);
    uint64_t count = 0;

    for (size_t i = 0; table != NULL && i < capacity_of(table); i++)
        count += atomic_load_explicit(&table->entries[i].arena, memory_order_relaxed) != NULL;
    return count;
}

void tn_arena_table_fini(tarn_pool *pool)
{
    TN_ASSERT(tn_pool_is_locked(pool) && pool->arenas.lists.first[TN_ARENAS_ALL] == NULL);
    atomic_store(&pool->arena_table, NULL);
}

static void unlink_segment(struct tn_segment *segment, struct tn_segment **first,
                           struct tn_segment **last)
{
    if (segment->previous != NULL)
        segment->previous->next = segment->next;
    else
        *first = segment->next;
    if (segment->next != NULL)
        segment->next->previous = segment->previous;
    else
        *last = segment->previous;
}

/* previous: NULL: the segment becomes the first. */
static void link_segment(struct tn_segment *segment, struct tn_segment *previous,
                         struct tn_segment **first, struct tn_segment **last)
{
    segment->previous = previous;
    segment->next = previous != NULL ? previous->next : *first;
    *(previous != NULL ? &previous->next : first) = segment;
    *(segment->next != NULL ? &segment->next->previous : last) = segment;
}

/* Hands a FREE block over, with the chunks under it, which are whole. */
static void pass_whole(struct tn_block *block, struct tn_arena *to)
{
    struct tn_heap *from = block->heap;
    struct tn_heap *heap = to->heaps[from->kind];
    struct tn_chunk *chunk;

    tn_bins_remove(&from->bins, block);
    for (uint64_t at = block->offset; at < tn_block_end(block); at = tn_chunk_end(chunk)) {
        chunk = tn_segment_chunk_at(block->segment, at);
        TN_ASSERT(chunk->heap == from && chunk->used_bytes == 0); /* P2, P6 */
        from->mapped_bytes -= chunk->bytes;
        heap->mapped_bytes += chunk->bytes;
        tn_chunk_pass(chunk, heap);
    }
    block->heap = heap;
    tn_bins_insert(&heap->bins, block);
    tn_arena_gives(to, tn_block_bytes(block));
}

/* Hands a segment without other blocks than FREE and UNMAPPED ones over. The last block comes
 * first: bins that are in order of addresses stay so. */
static void pass_segment(struct tn_segment *segment, struct tn_arena *to)
{
    TN_ASSERT(segment->grower->arena != to);
    for (struct tn_block *block = segment->last_block; block != NULL; block = block->previous) {
        if (block->state == TN_BLOCK_FREE)
            pass_whole(block, to);
        block->walk_id = 0; /* nobody sets it anew in dormant segments, UNMAPPED records included */
    }
    tn_segment_set_grower(segment, to->heaps[segment->grower->kind]);
    segment->first_arena = to;
    segment->mixed = false; /* P2 */
}

bool tn_arena_is_free(const struct tn_arena *arena, int chunks_max, uint64_t *stamp)
{
    TN_ASSERT(arena->asleep && !tn_arena_is_captured(arena) && arena->fence == NULL);
    *stamp = 0;
    if (arena->saved_count > 0)
        return false;
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
        const struct tn_heap *heap = arena->heaps[kind];

        if (heap->has_reserved)
            return false;
        for (const struct tn_chunk *chunk = heap->chunks; chunk != NULL; chunk = chunk->heap_next) {
            chunks_max -= 1;
            if (chunks_max < 0 || chunk->used_bytes > 0 || chunk->hold_count > 0 ||
                chunk->memory == NULL)
                return false;
            *stamp = tn_max(*stamp, chunk->freed_stamp);
        }
    }
    return true;
}

uint64_t tn_segment_highest_stamp(const struct tn_segment *segment)
{
    uint64_t stamp = 0;

    for (const struct tn_block *block = segment->first_block; block != NULL; block = block->next) {
        const struct tn_chunk *chunk;

        if (block->state != TN_BLOCK_FREE)
            continue;
        for (uint64_t at = block->offset; at < tn_block_end(block); at = tn_chunk_end(chunk)) {
            chunk = tn_block_chunk_at(block, at);
            stamp = tn_max(stamp, chunk->freed_stamp);
        }
    }
    return stamp;
}

/* Forgets the stamps of a segment that is proven idle. */
static void prove_segment(const struct tn_segment *segment)
{
    for (const struct tn_block *block = segment->first_block; block != NULL; block = block->next) {
        struct tn_chunk *chunk;

        if (block->state != TN_BLOCK_FREE)
            continue;
        for (uint64_t at = block->offset; at < tn_block_end(block); at = tn_chunk_end(chunk)) {
            chunk = tn_block_chunk_at(block, at);
            tn_chunk_forget_stamp(chunk);
        }
    }
}

void tn_segment_give_idle(tarn_pool *pool, struct tn_segment *segment)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    prove_segment(segment);
    pass_segment(segment, &pool->idle);
}

bool tn_dormant_enter(tarn_pool *pool, struct tn_segment *segment, uint64_t stream_id,
                      uint64_t stamp)
{
    struct tn_dormant *dormant = tn_host_alloc(1, sizeof *dormant);

    TN_ASSERT(tn_pool_is_locked(pool) && segment->dormant == NULL);
    if (dormant == NULL)
        return false;
    *dormant = (struct tn_dormant){
        .by_stream = {.pool = pool->holds.pool, .pool_serial = pool->holds.pool_serial},
        .segment = segment,
        .stamp = stamp};
    tn_pool_index_put(&pool->device->index, TN_BY_STREAM, &dormant->by_stream, stream_id); /* P38 */
    unlink_segment(segment, &pool->segments.first, &pool->segments.last);
    link_segment(segment, pool->segments.dormant.last, &pool->segments.dormant.first,
                 &pool->segments.dormant.last);
    segment->dormant = dormant;
    pass_segment(segment, pool->segments.dormant.arena);
    return true;
}

void tn_dormant_leave(tarn_pool *pool, struct tn_segment *segment)
{
    struct tn_segment *previous = pool->segments.last;

    TN_ASSERT(tn_pool_is_locked(pool) && segment->dormant != NULL);
    tn_pool_index_put(&pool->device->index, TN_BY_STREAM, &segment->dormant->by_stream, 0);
    tn_host_free(segment->dormant);
    segment->dormant = NULL;
    unlink_segment(segment, &pool->segments.dormant.first, &pool->segments.dormant.last);
    while (previous != NULL && previous->index > segment->index)
        previous = previous->previous;
    link_segment(segment, previous, &pool->segments.first, &pool->segments.last);
}

struct tn_segment *tn_dormant_find(const tarn_pool *pool, uint64_t stream_id)
{
    struct tn_index_entry *entry =
        pool->segments.dormant.first != NULL
            ? tn_pool_index_entry(&pool->device->index, TN_BY_STREAM, pool, stream_id)
            : NULL;

    TN_ASSERT(tn_pool_is_locked(pool));
    return entry != NULL ? ((struct tn_dormant *)entry)->segment : NULL;
}

/* What a restore had freed in the segment cannot be told from what its stream freed, so the stream's
 * events prove neither (pools/proofs.h). */
static void return_segment(tarn_pool *pool, struct tn_segment *segment, struct tn_arena *arena)
{
    TN_ASSERT(segment->dormant->by_stream.key == arena->order.stream_id);
    arena->settled_stamp = tn_max(arena->settled_stamp, segment->dormant->stamp);
    tn_dormant_leave(pool, segment);
    pass_segment(segment, arena);
}

void tn_dormant_return(tarn_pool *pool, struct tn_arena *arena)
{
    struct tn_segment *segment;

    TN_ASSERT(tn_pool_is_locked(pool) && tn_arena_heaps(arena)->by_stream.key == 0);
    while ((segment = tn_dormant_find(pool, arena->order.stream_id)) != NULL) {
        return_segment(pool, segment, arena);
        arena->expected = true;
        arena->returned = true;
    }
}

bool tn_dormant_undo(tarn_pool *pool, struct tn_arena *arena)
{
    TN_ASSERT(tn_pool_is_locked(pool) && tn_arena_heaps(arena)->by_stream.key != 0);
    while (pool->segments.dormant.last != NULL &&
           pool->segments.dormant.last->dormant->by_stream.key ==
               tn_arena_heaps(arena)->by_stream.key)
        return_segment(pool, pool->segments.dormant.last, arena);
    return false;
}

uint64_t tn_dormant_give_oldest(tarn_pool *pool)
{
    struct tn_segment *segment = pool->segments.dormant.first;

    if (segment == NULL || !tn_gpu_is_proven(&pool->device->gpu, segment->dormant->stamp))
        return 0;
    tn_dormant_leave(pool, segment);
    tn_segment_give_idle(pool, segment);
    return segment->mapped_bytes;
}

uint64_t tn_dormant_give_idle(tarn_pool *pool)
{
    uint64_t moved = 0;
    uint64_t bytes;

    TN_ASSERT(tn_pool_is_locked(pool));
    while ((bytes = tn_dormant_give_oldest(pool)) > 0)
        moved += bytes;
    return moved;
}
