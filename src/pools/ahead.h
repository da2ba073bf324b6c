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

/* Memory to be created: in chunks as large as possible, the largest first. */
struct tn_growth_size {
    uint64_t bytes;           /* a multiple of the page */
    uint64_t chunk_bytes_max; /* a power of two */
};

/* The number of chunks of that memory. */
uint64_t tn_growth_chunk_count(struct tn_growth_size size);

/* The same for memory without a block, in the largest chunks of the kind. */
static inline struct tn_growth_size tn_growth_of(enum tn_heap_kind kind, uint64_t bytes)
{
    return (struct tn_growth_size){bytes, tn_chunk_bytes_max(kind)};
}

/* The bytes which the heap has mapped in its present run of growths; 0: the next growth begins a
 * run. */
uint64_t tn_growth_run(const tarn_pool *pool, const struct tn_heap *heap);

/* What lacks, and where. */
struct tn_lack {
    uint64_t block_bytes; /* of the block that is to come */
    uint64_t need;        /* bytes lacking, a multiple of the page */
    uint64_t room;        /* of addresses, a multiple of the page */
    uint64_t left;        /* of the limits, to leave beyond need */
};

/* How much to map, after run bytes in this run of growths. Stays within the place's room and the
 * limits of pool and device. */
struct tn_growth_size tn_growth_size(const tarn_pool *pool, const struct tn_heap *heap,
                                     uint64_t run, const struct tn_lack *lack);

/* The same to the page. */
struct tn_growth_size tn_growth_size_frugal(const struct tn_heap *heap, const struct tn_lack *lack);

/* Notes that the heap has grown by bytes, in a run of growths of run bytes so far. */
void tn_growth_enter(const tarn_pool *pool, struct tn_heap *heap, uint64_t run, uint64_t bytes);

/* The size of the heap's next segment, and of the one after a segment of this size. */
uint64_t tn_segment_bytes_next(const tarn_pool *pool, const struct tn_heap *heap);
uint64_t tn_segment_bytes_after(const tarn_pool *pool, const struct tn_heap *heap, uint64_t bytes);

#endif
