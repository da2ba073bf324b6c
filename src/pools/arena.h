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

#include "driver/ancestry.h"
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
    struct tn_arena *next;  /* of the pool */
    tarn_pool *pool;        /* immutable */
    struct tn_order order;  /* zero for idle memory; none once its stream is retired */
    bool met;               /* waits for the device cover its stream's context */
    struct tn_fence *fence; /* retired: what ends the stream's work; else NULL */
    struct tn_heap heaps[TN_HEAP_KINDS];
    struct tn_ancestry ancestry; /* in a capture: what its next work comes after; see pools/use.h */
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

/* Ends the arenas of a capture, those of its bodies' groups included: their chunks go to the pool's idle
 * memory, or, when the capture is a body's, to its group's arena. */
void tn_arenas_end_capture(tarn_pool *pool, uint64_t capture_id);

/* The order's stream is retired: its arena, and its blocks, live or pending, are of no order from now on
 * and wait for the fence. What is allocated on the stream later has a new arena. */
void tn_arenas_retire(tarn_pool *pool, struct tn_order order, struct tn_fence *fence);

/* Ends the arenas of retired streams whose fences are done: their chunks go to the pool's idle memory,
 * proven idle. */
void tn_arenas_end_retired(tarn_pool *pool);

/* Ends the arenas that own no chunk: those of streams that vanished, and others that will be made
 * again. */
void tn_arenas_drop_empty(tarn_pool *pool);

/* Frees all arenas; nothing is mapped. */
void tn_arenas_fini(tarn_pool *pool);

/* Makes a block, in no list, FREE: joins it with its neighbours and puts it in its heap's bins.
 * Returns the joined block. */
struct tn_block *tn_heap_put(tarn_pool *pool, struct tn_block *block);

/* Takes bytes at an offset out of a FREE block; what is left before and behind stays FREE. Takes up
 * to two records. */
struct tn_block *tn_heap_carve(tarn_pool *pool, struct tn_block *block, uint64_t offset,
                               uint64_t bytes);

/* The arena of the group of a body, that the arena is of; NULL when it is of no body. */
struct tn_arena *tn_arena_of_group(tarn_pool *pool, const struct tn_arena *arena);

/* A FREE block of the heap with room for bytes; takes chunks from the pool's idle memory when the
 * heap has none. NULL when neither has. Takes up to two records. */
struct tn_block *tn_heap_find(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes);

/* Whether the pool's idle memory has a run of that many bytes that a capture, or work outside
 * captures, may take. */
bool tn_idle_has(tarn_pool *pool, enum tn_heap_kind kind, bool captured, uint64_t bytes);

/* Moves the chunks of all arenas that are all free, held by nobody and proven idle to the pool's idle
 * memory, so that everyone in the pool may take them. Returns the bytes moved. */
uint64_t tn_arenas_give_idle(tarn_pool *pool);

/* Gives the chunks under the block, whole, and those that blocks reach over from them, to the pool's
 * idle memory. Takes up to two records. */
void tn_heap_give_up(tarn_pool *pool, struct tn_block *block);

/* Makes the heap the owner of every chunk under [offset, end) of the segment, with what blocks reach
 * over from them. inside: a block at or below the offset. Takes up to two records for each chunk. */
void tn_heap_take_over(tarn_pool *pool, struct tn_heap *heap, struct tn_block *inside,
                       uint64_t offset, uint64_t end);

/* Whether nothing runs any more in memory that goes with the chunk when the heap takes it over, or idle
 * memory where it is held: what is free there, and blocks that the restore frees, of which a wait has
 * proven those up to the sequence. inside: a block of the chunk. */
bool tn_handover_is_proven(tarn_pool *pool, const struct tn_chunk *chunk,
                           const struct tn_block *inside, const struct tn_heap *heap,
                           uint64_t idle_sequence);

/* Whether a hold has one of the chunks under [offset, end) of the segment, or of those that would
 * change hands with them. */
bool tn_range_is_held(const struct tn_segment *segment, uint64_t offset, uint64_t end);

/* Idle chunks go to the heap of the kind that they were mapped for; they may have served the other.
 * Takes up to two records for each chunk of the pool. */
void tn_idle_sort(tarn_pool *pool);

/* Puts the bins of all heaps of the pool in order of address. */
void tn_pool_order_free(tarn_pool *pool);

/* Adds to or subtracts from the used bytes of the chunks under the block; freeing stamps them. */
void tn_block_count_used(struct tn_block *block);
void tn_block_count_freed(struct tn_block *block, uint64_t stamp);

#endif
