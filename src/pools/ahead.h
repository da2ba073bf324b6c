// SPDX-License-Identifier: Apache-2.0
/* ahead.h -- how much memory is mapped at a time, and how many addresses are taken for it.
 *
 * Locking: the pool's lock. Nothing here changes more than what a heap remembers of its growth. */
#ifndef TARN_POOLS_AHEAD_H
#define TARN_POOLS_AHEAD_H

#include "pools/pool.h"

/* Of the largest chunk: a power of two. */
static inline uint64_t tn_chunk_bytes_max(enum tn_heap_kind kind)
{
    return kind == TN_HEAP_SMALL ? 32 * TN_MIB : TN_MEMORY_BYTES_MAX;
}

/* Into how many chunks so many bytes, a multiple of the page, are cut. */
uint64_t tn_chunk_count(enum tn_heap_kind kind, uint64_t bytes);

/* What the heap has mapped in the run of growths that one now goes on with; 0: that begins one. */
uint64_t tn_growth_run(const tarn_pool *pool, const struct tn_heap *heap);

/* How many bytes to map where need is lacking, with so many mapped in the run; within the place's room and the
 * limits of pool and device, of which as much as left is to stay, but for the need itself. need, room: multiples of the
 * page. */
uint64_t tn_growth_bytes(const tarn_pool *pool, const struct tn_heap *heap, uint64_t run,
                         uint64_t need, uint64_t room, uint64_t left);

/* The heap has grown, and that has gone on with a run of that many bytes. */
void tn_growth_enter(const tarn_pool *pool, struct tn_heap *heap, uint64_t run, uint64_t bytes);

/* Of the segment that the heap makes after one of so many bytes. */
uint64_t tn_segment_bytes_after(const tarn_pool *pool, const struct tn_heap *heap, uint64_t bytes);

#endif
