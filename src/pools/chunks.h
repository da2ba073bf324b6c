// SPDX-License-Identifier: Apache-2.0
/* chunks.h -- the chunks of a pool: made, mapped, counted, removed. Blocks are not touched here.
 *
 * Locking: the pool's lock. No call here waits for the GPU. */
#ifndef TARN_POOLS_CHUNKS_H
#define TARN_POOLS_CHUNKS_H

#include "pools/pool.h"

/* Where unmapped memory goes. */
enum tn_unmapped {
    TN_UNMAPPED_TO_CACHE, /* memory that may be cached; the rest goes to the driver */
    TN_UNMAPPED_TO_DRIVER,
};

/* Where the memory of an undone growth goes. */
enum tn_unmapped tn_memory_origin(const struct tn_memory *memory);

/* LIMIT: the pool may not map this many bytes more. */
TARN_MUST_CHECK tarn_status tn_pool_check_limit(tarn_pool *pool, uint64_t bytes);

/* Prepares a mapping of bytes, except the driver's part. LIMIT, HOST_MEMORY. */
TARN_MUST_CHECK tarn_status tn_chunks_prepare(tarn_pool *pool, const struct tn_heap *heap,
                                              uint64_t bytes);

/* Maps [offset, offset + bytes) of a segment for the heap, all or nothing; prepared.
 *   DEVICE_MEMORY, LIMIT, HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_chunks_add(tarn_pool *pool, struct tn_heap *heap,
                                          struct tn_segment *segment, uint64_t offset,
                                          uint64_t bytes);

/* Unmaps a chunk that nobody holds or uses, and gives its memory away. */
void tn_chunks_remove(tarn_pool *pool, struct tn_chunk *chunk, enum tn_unmapped to);

/* Gives a peer access to all present and future mappings; all or nothing. No effect for a peer with
 * access.
 *   DEVICE_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_pool_add_peer(tarn_pool *pool, int peer);

#endif
