// SPDX-License-Identifier: Apache-2.0
/* grow.h -- growing and shrinking a pool's segments.
 *
 * Locking: the pool's lock. No call here waits for the GPU. */
#ifndef TARN_POOLS_GROW_H
#define TARN_POOLS_GROW_H

#include "pools/chunks.h"
#include "pools/handover.h"
#include "pools/pool.h"
#include "pools/trackers.h"

/* Maps memory so that the heap has a FREE block of at least bytes: memory that moves there, and new
 * memory (pools/moves.h). frugal: makes no more than needed, to the page; a chunk that moves may
 * have more.
 *   DEVICE_MEMORY, LIMIT, ADDRESS_SPACE, HOST_MEMORY, DEVICE_LOST, DRIVER: nothing is mapped */
TARN_MUST_CHECK tarn_status tn_heap_grow(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes,
                                         bool frugal);

/* A growth which can be undone while its memory is free. */
struct tn_growth {
    struct tn_heap *heap; /* NULL: no growth */
    struct tn_run mapped;
    uint64_t segment_bytes; /* of the heap, before the growth; see struct tn_heap */
    uint64_t run_bytes;
    uint64_t run_alloc_count;
    uint64_t run_free_count;
};

/* tn_heap_grow with undo, for idle memory, where nothing moves. Mapping beyond need leaves left
 * bytes of the limits. */
TARN_MUST_CHECK tarn_status tn_heap_grow_undoable(tarn_pool *pool, struct tn_heap *heap,
                                                  uint64_t bytes, bool frugal, uint64_t left,
                                                  struct tn_growth *growth);

/* Undoes the pool's last growth: its chunks return to their origin. Takes up to two records for
 * each, which are set aside. */
void tn_heap_ungrow(tarn_pool *pool, const struct tn_growth *growth);

/* Maps chunks over the UNMAPPED block's first bytes, for the heap; used by restore for holes. Takes
 * up to two records, which are set aside. Statuses as tn_heap_grow. */
TARN_MUST_CHECK tarn_status tn_heap_map_at(tarn_pool *pool, struct tn_heap *heap,
                                           struct tn_block *unmapped, uint64_t offset,
                                           uint64_t bytes);

/* Undoes tn_heap_map_at: the free chunks at [offset, offset + bytes) return to their origin, the
 * cache or the driver. Takes up to two records for each. */
void tn_heap_unmap_at(tarn_pool *pool, struct tn_segment *segment, uint64_t offset, uint64_t bytes);

/* Unmaps chunks whose memory is all free, held by nobody and proven idle, until at least
 * wanted_bytes have gone (UINT64_MAX: all of them). Order: first memory mapped ahead and never
 * used, and the highest addresses first. Gives back segments without chunks. Returns the bytes
 * unmapped. Sets *unproven when a chunk stays only because it is not proven idle. Chunks that trackers
 * know stay, and are listed as farewells, up to the wanted bytes; NULL: they do not stay. */
uint64_t tn_pool_unmap_free(tarn_pool *pool, uint64_t wanted_bytes, enum tn_unmapped to,
                            bool *unproven, struct tn_farewells *farewells);

/* Unmaps everything: nothing is live and all memory is proven idle. */
void tn_pool_unmap_all(tarn_pool *pool);

#endif
