// SPDX-License-Identifier: Apache-2.0
/* arena.h -- the memory of one order of work.
 *
 * An arena is the memory of a stream outside captures, or of a stream within one capture. It has two
 * heaps, for small blocks (up to 1 MiB) and for large ones, each with chunks of its own. The pool's
 * idle memory is an arena that nobody allocates from directly: what captures left behind and what
 * was reserved ahead. Heaps take whole chunks from it.
 *
 *   P6  a chunk's used_bytes is what blocks that are not FREE occupy in it
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_ARENA_H
#define TARN_POOLS_ARENA_H

#include "pools/bins.h"
#include "tarn/types.h"

enum tn_heap_kind { TN_HEAP_SMALL, TN_HEAP_LARGE, TN_HEAP_KINDS };

#define TN_SMALL_BYTES_MAX ((uint64_t)1 << 20)

struct tn_arena;

struct tn_heap {
    struct tn_arena *arena; /* immutable */
    enum tn_heap_kind kind; /* immutable */
    uint64_t mapped_bytes;  /* of the chunks it owns */
    uint64_t segment_bytes; /* of the next segment it makes; doubles with each, to 64 GiB */
    struct tn_bins bins;
};

struct tn_arena {
    struct tn_arena *next; /* of the pool */
    tarn_pool *pool;       /* immutable */
    struct tn_order order; /* immutable; zero for idle memory */
    struct tn_heap heaps[TN_HEAP_KINDS];
};

void tn_arena_init(struct tn_arena *arena, tarn_pool *pool, struct tn_order order);

static inline bool tn_arena_is_captured(const struct tn_arena *arena)
{
    return arena->order.capture_id != 0;
}

/* The pool's arena of that order; NULL when there is none. */
struct tn_arena *tn_arena_find(tarn_pool *pool, struct tn_order order);

/* The same, made when there is none; NULL when there is no memory. */
struct tn_arena *tn_arena_get(tarn_pool *pool, struct tn_order order);

/* Ends the arenas of a capture: their chunks go to the pool's idle memory. */
void tn_arenas_end_capture(tarn_pool *pool, uint64_t capture_id);

/* Makes a block, in no list, FREE: joins it with its neighbours and puts it in its heap's bins.
 * Returns the joined block. */
struct tn_block *tn_heap_put(tarn_pool *pool, struct tn_block *block);

/* Takes bytes at an offset out of a FREE block; what is left before and behind stays FREE. Takes up
 * to two records. */
struct tn_block *tn_heap_carve(tarn_pool *pool, struct tn_block *block, uint64_t offset,
                               uint64_t bytes);

/* A FREE block of the heap with room for bytes; takes chunks from the pool's idle memory when the
 * heap has none. NULL when neither has. Takes up to two records. */
struct tn_block *tn_heap_find(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes);

/* Whether the pool's idle memory has a run of that many bytes that a capture, or work outside
 * captures, may take. */
bool tn_idle_has(tarn_pool *pool, enum tn_heap_kind kind, bool captured, uint64_t bytes);

/* Gives the chunks under the block, whole, and those that blocks reach over from them, to the pool's
 * idle memory. Takes up to two records. */
void tn_heap_give_up(tarn_pool *pool, struct tn_block *block);

/* Makes the heap the owner of every chunk under [offset, end) of the segment, with what blocks reach
 * over from them. inside: a block at or below the offset. Takes up to two records for each chunk. */
void tn_heap_take_over(tarn_pool *pool, struct tn_heap *heap, struct tn_block *inside,
                       uint64_t offset, uint64_t end);

/* Adds to or subtracts from the used bytes of the chunks under the block; freeing stamps them. */
void tn_block_count_used(struct tn_block *block);
void tn_block_count_freed(struct tn_block *block, uint64_t stamp);

#endif
