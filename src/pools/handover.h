// SPDX-License-Identifier: Apache-2.0
/* handover.h -- memory that passes from one arena to another, chunk by chunk.
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_HANDOVER_H
#define TARN_POOLS_HANDOVER_H

#include "heap/arena.h"

/* A run of addresses in one segment. */
struct tn_run {
    struct tn_segment *segment;
    uint64_t begin; /* offsets in the segment */
    uint64_t end;
};

/* The arena of the group of a body, that the arena is of; NULL when it is of no body. */
struct tn_arena *tn_arena_of_group(tarn_pool *pool, const struct tn_arena *arena);

/* A FREE block of the heap with room for bytes; takes chunks from the pool's idle memory when the
 * heap has none. NULL when neither has. Takes up to two records. */
struct tn_block *tn_heap_find(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes);

/* Whether the pool's idle memory has a run of that many bytes that a capture, or work outside
 * captures, may take. */
bool tn_idle_has(tarn_pool *pool, enum tn_heap_kind kind, bool captured, uint64_t bytes);

/* Takes such a run, in whole chunks, from the idle memory of the heap's kind; false when there is none. Takes up to two
 * records. */
bool tn_heap_take_idle(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes);

/* Gives the run of whole chunks to the pool's idle memory; all of it is free, and the heap's. Takes up to two
 * records. */
void tn_run_give_idle(tarn_pool *pool, struct tn_heap *from, struct tn_run run);

/* Moves the chunks of all arenas that are all free, held by nobody and proven idle to the pool's idle
 * memory, so that everyone in the pool may take them. Returns the bytes moved. */
uint64_t tn_arenas_give_idle(tarn_pool *pool);

/* Whether all that was freed in the chunks that tn_heap_give_up would move is proven idle. */
bool tn_give_up_is_proven(const tarn_pool *pool, const struct tn_block *block);

/* Gives the chunks under the block, whole, and those that blocks reach over from them, to the pool's
 * idle memory. Takes up to two records. */
void tn_heap_give_up(tarn_pool *pool, struct tn_block *block);

/* Makes the heap the owner of every chunk under [offset, end) of the segment, with what blocks reach
 * over from them. inside: a block at or below the offset. Takes up to two records for each chunk. */
void tn_heap_take_over(tarn_pool *pool, struct tn_heap *heap, struct tn_block *inside,
                       uint64_t offset, uint64_t end);

/* Widens the run to whole chunks, and to those that would change hands with them: under blocks over its edges.
 * Addresses without memory may be in it, and its edges among them. inside: a block over some of it. */
void tn_run_close(struct tn_run *run, const struct tn_block *inside);

/* Whether nothing runs any more in memory of the closed run that is not the arena's, or, NULL, in any of it: what is
 * free there, and blocks that the restore frees, of which a wait has proven those up to the sequence. inside: as
 * above. */
bool tn_handover_is_proven(tarn_pool *pool, const struct tn_run *run, const struct tn_block *inside,
                           const struct tn_arena *arena, uint64_t idle_sequence);

/* Whether a hold has a chunk of the closed run. */
bool tn_run_is_held(const struct tn_run *run);

/* Idle chunks go to the heap of the kind that they were mapped for; they may have served the other.
 * Takes up to two records for each chunk of the pool. */
void tn_idle_sort(tarn_pool *pool);

#endif
