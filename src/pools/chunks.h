// SPDX-License-Identifier: Apache-2.0
/* chunks.h -- the chunks of a pool: made, mapped, counted, removed. Blocks are not touched here.
 *
 * Locking: the pool's lock. No call here waits for the GPU. */
#ifndef TARN_POOLS_CHUNKS_H
#define TARN_POOLS_CHUNKS_H

#include "pools/ahead.h"
#include "pools/moves.h"
#include "pools/pool.h"

/* Where the memory of a removed chunk goes. */
enum tn_unmapped {
    TN_UNMAPPED_TO_CACHE, /* memory that may be cached; the rest goes to the driver */
    TN_UNMAPPED_TO_DRIVER,
    TN_UNMAPPED_LATER, /* it moves to another chunk, and the old place is vacated */
};

/* Where the memory of an undone growth goes. */
enum tn_unmapped tn_memory_source(const struct tn_memory *memory);

/* LIMIT: the pool may not map this many bytes more. */
TARN_MUST_CHECK tarn_status tn_pool_check_limit(tarn_pool *pool, uint64_t bytes);

/* Memory to be mapped in one piece: first memory that moves, then new memory. */
struct tn_supply {
    struct tn_moves moves;
    struct tn_growth_size made; /* bytes may be 0 */
};

static inline uint64_t tn_supply_bytes(const struct tn_supply *supply)
{
    return supply->moves.bytes + supply->made.bytes;
}

/* Prepares a mapping, except the driver's part. LIMIT, HOST_MEMORY. */
TARN_MUST_CHECK tarn_status tn_chunks_prepare(tarn_pool *pool, const struct tn_supply *supply);

/* Maps the supply at the offset of a segment for the heap, all or nothing; prepared. The places of
 * memory that moves are vacated.
 *   DEVICE_MEMORY, LIMIT, HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_chunks_add(tarn_pool *pool, struct tn_heap *heap,
                                          struct tn_segment *segment, uint64_t offset,
                                          const struct tn_supply *supply);

/* Undoes the removal of the chunk vacated last, whose memory does not move. */
void tn_chunks_reoccupy(tarn_pool *pool, struct tn_chunk *chunk);

/* Removes a chunk that nobody holds or uses. Its memory goes away, or moves. */
void tn_chunks_remove(tarn_pool *pool, struct tn_chunk *chunk, enum tn_unmapped to);

/* Gives a peer access to all present and future mappings; all or nothing. No effect for a peer with
 * access.
 *   DEVICE_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_pool_add_peer(tarn_pool *pool, int peer);

/* Takes the access of a peer back. */
void tn_pool_remove_peer(tarn_pool *pool, int peer);

#endif
