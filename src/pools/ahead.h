// SPDX-License-Identifier: Apache-2.0
/* ahead.h -- how much memory is mapped at a time, and how many addresses are taken for it.
 *
 * Locking: the pool's lock. Functions here change only a heap's notes of its growth. */
#ifndef TARN_POOLS_AHEAD_H
#define TARN_POOLS_AHEAD_H

#include "pools/pool.h"

/* The largest size of a chunk: a power of two. */
static inline uint64_t tn_chunk_bytes_max(enum tn_heap_kind kind)
{
    return kind == TN_HEAP_SMALL ? 32 * TN_MIB : TN_MEMORY_BYTES_MAX;
}

/* The number of chunks for this many bytes, a multiple of the page. */
uint64_t tn_chunk_count(enum tn_heap_kind kind, uint64_t bytes);

/* The bytes which the heap has mapped in its present run of growths; 0: the next growth begins a
 * run. */
uint64_t tn_growth_run(const tarn_pool *pool, const struct tn_heap *heap);

/* How many bytes to map when need bytes are lacking, after run bytes in this run of growths. Stays
 * within the place's room and the limits of pool and device. Beyond need, leaves left bytes of
 * these limits. need, room: multiples of the page. */
uint64_t tn_growth_bytes(const tarn_pool *pool, const struct tn_heap *heap, uint64_t run,
                         uint64_t need, uint64_t room, uint64_t left);

/* Notes that the heap has grown by bytes, in a run of growths of run bytes so far. */
void tn_growth_enter(const tarn_pool *pool, struct tn_heap *heap, uint64_t run, uint64_t bytes);

/* The size of the heap's next segment after a segment of this size. */
uint64_t tn_segment_bytes_after(const tarn_pool *pool, const struct tn_heap *heap, uint64_t bytes);

#endif
