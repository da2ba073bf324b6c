// SPDX-License-Identifier: Apache-2.0
/* handover.h -- memory which passes from one arena to another, chunk by chunk.
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

/* The arena of the group whose body the arena belongs to; NULL: no body. */
struct tn_arena *tn_arena_of_group(tarn_pool *pool, const struct tn_arena *arena);

/* A FREE block of the heap with room for bytes. Takes chunks from the pool's idle memory if the
 * heap has none. NULL: neither has. Takes up to two records. */
struct tn_block *tn_heap_find(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes);

/* Whether anyone in the pool may take the chunk. A replay writes to a chunk held by graphs without
 * any free: the last replay must be over, too. */
bool tn_chunk_is_takeable(const tarn_pool *pool, const struct tn_chunk *chunk);

/* Whether the pool's idle memory has a run of this size which a capture (captured), or work outside
 * captures, may take. */
bool tn_idle_has(tarn_pool *pool, enum tn_heap_kind kind, bool captured, uint64_t bytes);

/* Takes such a run, in whole chunks, from the idle memory of the heap's kind; false: none. Takes up
 * to two records. */
bool tn_heap_take_idle(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes);

/* Takes the FREE block of idle memory for a capture, with the chunks under it. Takes up to two
 * records. */
void tn_heap_take_free(tarn_pool *pool, struct tn_heap *heap, struct tn_block *block);

/* Gives the run of whole chunks, all free and owned by the heap, to the pool's idle memory. Takes
 * up to two records. */
void tn_run_give_idle(tarn_pool *pool, struct tn_heap *from, struct tn_run run);

/* Moves to the pool's idle memory all chunks of arenas which are all free, held by nobody and
 * proven idle. Everyone in the pool may then take them. Returns the bytes moved. */
uint64_t tn_arenas_give_idle(tarn_pool *pool);

/* Whether all frees in the chunks which tn_heap_give_up would move are proven idle. */
bool tn_give_up_is_proven(const tarn_pool *pool, const struct tn_block *block);

/* Gives the chunks under the block, whole, to the pool's idle memory, with chunks which blocks
 * reach over into. Takes up to two records. */
void tn_heap_give_up(tarn_pool *pool, struct tn_block *block);

/* Makes the heap the owner of every chunk under [offset, end) of the segment, and of chunks which
 * blocks reach over into. inside: a block at or below the offset. Takes up to two records for each
 * chunk. */
void tn_heap_take_over(tarn_pool *pool, struct tn_heap *heap, struct tn_block *inside,
                       uint64_t offset, uint64_t end);

/* Widens the run to whole chunks, and to chunks under blocks over its edges, which would change
 * hands, too. The run and its edges may include addresses without memory. inside: a block over some
 * of the run. */
void tn_run_close(struct tn_run *run, const struct tn_block *inside);

/* Whether no work runs any more in memory of the closed run outside the arena; arena NULL: in the
 * whole run. Covers free memory, and blocks which the restore frees: a wait has proven those up to
 * idle_sequence. inside: as above. */
bool tn_handover_is_proven(tarn_pool *pool, const struct tn_run *run, const struct tn_block *inside,
                           const struct tn_arena *arena, uint64_t idle_sequence);

/* Whether a hold has a chunk of the closed run. */
bool tn_run_is_held(const struct tn_run *run);

/* Moves idle chunks to the heap of the kind which they were mapped for; they may have served the
 * other. Takes up to two records for each chunk of the pool; without records a chunk stays. */
void tn_idle_sort(tarn_pool *pool);

/* Sorts the bins of all heaps of the pool by address, but those of dormant memory. */
void tn_pool_sort_free(tarn_pool *pool);

#endif
