// SPDX-License-Identifier: Apache-2.0
/* arena_table.h -- from an order to its arena, without a lock; and from a stream to its dormant
 * segments.
 *
 *   P16  the arena of every order that is not retired is in its pool's table, under the order's key
 *   P21  no other arena is in the table
 *
 *   P39  a dormant segment is in the pool's list of those, and no other segment is; all its chunks
 *        are of the arena of dormant memory, which has no others and grows it; its blocks are FREE
 *        or UNMAPPED, no checkpoint holds it, and no place in it is vacated
 *
 * Arenas of streams outside captures are in the device's index meanwhile (P38), which leads from a
 * stream to its pools. So are dormant segments: the stream may come back.
 *
 * An arena found without the pool's lock may be gone before the thread looks at it, even with the
 * pool. Arenas are recycled, never freed: the thread can lock it, and then sees which pool it
 * belongs to. A table stays with the record of its pool.
 *
 * The driver tells a stream's id, and the key leads from there to the arena. Before the driver
 * answers, a hint leads to the arena from the stream's handle: what an allocation reads is on its
 * way meanwhile, and the id is compared alone. The handle may be another stream's by now.
 *
 * Locking: the pool's lock; tn_arena_seek and tn_arena_expect need none. */
#ifndef TARN_POOLS_ARENA_TABLE_H
#define TARN_POOLS_ARENA_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/checked.h"
#include "heap/steady.h"
#include "pools/pool.h"

struct tn_arena_entry {
    atomic_uint_fast64_t key; /* 0: none */
    _Atomic(struct tn_arena *) arena;
};

struct tn_arena_table {
    uint64_t shift; /* leaves as many bits of a hash as number the entries; immutable */
    struct tn_arena_table *next; /* of the pool's record */
    size_t used;                 /* entries with a key; the pool's lock */
    /* As many hints as entries, behind them. A hint is an arena whose stream's handle has this place's
     * hash, or that of the place beside. */
    _Atomic(struct tn_arena *) *hints;
    struct tn_arena_entry entries[];
};

_Static_assert(offsetof(struct tn_arena_table, entries) % sizeof(struct tn_arena_entry) == 0,
               "no entry lies on two cache lines");

/* Of a dormant segment. */
struct tn_dormant {
    struct tn_index_entry by_stream; /* P38; stands first */
    struct tn_segment *segment;
    uint64_t stamp; /* the highest of its chunks' when it fell dormant */
};

/* A stream's id; in a capture a number which no stream's id equals. If two orders had the same key,
 * the older arena would be found for neither, and their calls would take the pool's lock. */
static inline uint64_t tn_arena_key(struct tn_order order)
{
    uint64_t mixed = order.capture_id * TN_GOLDEN;

    if (order.capture_id == 0)
        return order.stream_id;
    mixed ^= mixed >> 29; /* else the capture id's highest bit would be lost */
    return (order.stream_id ^ mixed) | (uint64_t)1 << 63;
}

/* The highest bits of the product: the first entries of keys that follow each other, as ids mostly
 * do, lie far apart. Source: D. Knuth, The Art of Computer Programming, volume 3, 6.4, for
 * the golden ratio. */
static inline size_t tn_arena_entry_first(const struct tn_arena_table *table, uint64_t key)
{
    return (size_t)((key * TN_GOLDEN) >> table->shift);
}

static inline size_t tn_arena_entry_last(const struct tn_arena_table *table)
{
    return UINT64_MAX >> table->shift;
}

/* The entry that has the key, or where the key would go. */
static inline struct tn_arena_entry *tn_arena_entry_find(struct tn_arena_table *table, uint64_t key)
{
    size_t at = tn_arena_entry_first(table, key);
    uint64_t id = atomic_load_explicit(&table->entries[at].key, memory_order_acquire);

    while (id != 0 && id != key) {
        at = (at + 1) & tn_arena_entry_last(table);
        id = atomic_load_explicit(&table->entries[at].key, memory_order_acquire);
    }
    return &table->entries[at];
}

/* The order's arena, or without the pool's lock its arena of a moment ago; NULL: none. Nearly every
 * key is in its first entry, so the way there is laid out without the loop. */
static inline struct tn_arena *tn_arena_seek(const tarn_pool *pool, struct tn_order order)
{
    struct tn_arena_table *table = atomic_load_explicit(&pool->arena_table, memory_order_acquire);
    const uint64_t key = tn_arena_key(order);
    struct tn_arena_entry *entry;

    if (TN_UNLIKELY(table == NULL))
        return NULL;
    entry = &table->entries[tn_arena_entry_first(table, key)];
    if (TN_UNLIKELY(atomic_load_explicit(&entry->key, memory_order_acquire) != key))
        entry = tn_arena_entry_find(table, key);
    return atomic_load_explicit(&entry->arena, memory_order_acquire);
}

static inline struct tn_arena *tn_arena_hint(const struct tn_arena_table *table, size_t at,
                                             tarn_stream stream)
{
    struct tn_arena *hint = atomic_load_explicit(&table->hints[at], memory_order_acquire);

    return TN_LIKELY(hint != NULL) &&
                   TN_LIKELY(atomic_load_explicit(&hint->stream, memory_order_relaxed) ==
                             (uintptr_t)stream)
               ? hint
               : NULL;
}

/* The arena that allocations have named this handle for; NULL: none is known. Its hint is in the
 * place of the handle, or in the one beside it. */
static inline struct tn_arena *tn_arena_expect(const tarn_pool *pool, tarn_stream stream)
{
    const struct tn_arena_table *table =
        atomic_load_explicit(&pool->arena_table, memory_order_acquire);
    struct tn_arena *hint;
    size_t at;

    if (TN_UNLIKELY(table == NULL))
        return NULL;
    at = tn_arena_entry_first(table, (uintptr_t)stream);
    hint = tn_arena_hint(table, at, stream);
    return TN_LIKELY(hint != NULL) ? hint : tn_arena_hint(table, at ^ 1, stream);
}

/* Allocates for a stream outside captures, from the arena expected for it; NULL: from the order's.
 * False: nothing has changed; call tn_pool_allocate. */
static TN_ALWAYS_INLINE bool tn_pool_try_allocate(const tarn_pool *pool, struct tn_arena *expected,
                                                  struct tn_order order, uint64_t requested,
                                                  uint64_t alignment, void **address)
{
    struct tn_arena *arena = TN_LIKELY(expected != NULL) ? expected : tn_arena_seek(pool, order);

    TN_ASSERT(order.capture_id == 0);
    return TN_LIKELY(arena != NULL) &&
           tn_steady_try_allocate(arena, (struct tn_steady_key){.order = order, .pool = pool},
                                  requested, alignment, address);
}

/* Notes the handle of the arena's stream, as an allocation names it. */
void tn_arena_name(tarn_pool *pool, struct tn_arena *arena, tarn_stream stream);

/* Makes room in the table for another order; false: no memory. */
bool tn_arena_table_reserve(tarn_pool *pool);
void tn_arena_table_enter(tarn_pool *pool, struct tn_arena *arena); /* reserved before */
uint64_t tn_arena_table_count(const tarn_pool *pool);               /* arenas in the table */
void tn_arena_table_leave(tarn_pool *pool,
                          struct tn_arena *arena); /* before the arena's order changes */
void tn_arena_table_fini(tarn_pool *pool);         /* its arenas are gone */

/* Whether all memory of the arena asleep, in whosever segments, is free, in so many chunks at most,
 * and nothing else needs the arena. stamp: of the epoch by whose proof the memory is idle. */
bool tn_arena_is_free(const struct tn_arena *arena, int chunks_max, uint64_t *stamp);

/* The chunk's memory is proven idle. */
static inline void tn_chunk_forget_stamp(struct tn_chunk *chunk)
{
    chunk->was_used = chunk->was_used || chunk->freed_stamp != 0;
    chunk->freed_stamp = 0;
}

/* The following are for segments whose blocks are all FREE or UNMAPPED, and their chunks of one
 * arena. */

/* The epoch by whose proof all its memory is idle. */
uint64_t tn_segment_highest_stamp(const struct tn_segment *segment);

/* All its memory is proven idle, and becomes the pool's idle memory. */
void tn_segment_give_idle(tarn_pool *pool, struct tn_segment *segment);

/* The segment becomes dormant, of this stream; stamp: its highest. The pool has an arena of dormant
 * memory. False: no host memory. */
bool tn_dormant_enter(tarn_pool *pool, struct tn_segment *segment, uint64_t stream_id,
                      uint64_t stamp);

/* The segment is not dormant any more, and in its place among the pool's other segments again. Its
 * memory is still of the arena of dormant memory. */
void tn_dormant_leave(tarn_pool *pool, struct tn_segment *segment);

/* The segment of the stream that fell dormant last; NULL: none. The stream has no arena. */
struct tn_segment *tn_dormant_find(const tarn_pool *pool, uint64_t stream_id);

/* The stream of a new arena is back: the arena gets all its dormant memory. */
void tn_dormant_return(tarn_pool *pool, struct tn_arena *arena);

/* The arena, which ends, gets those of its segments back that are dormant; false. */
bool tn_dormant_undo(tarn_pool *pool, struct tn_arena *arena);

/* The segment that has been dormant for longest becomes idle memory. Returns its bytes; 0: there is
 * none, or it is not proven idle. */
uint64_t tn_dormant_give_oldest(tarn_pool *pool);

/* The same for all dormant segments that are proven idle. */
uint64_t tn_dormant_give_idle(tarn_pool *pool);

#endif
