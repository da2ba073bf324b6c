// SPDX-License-Identifier: Apache-2.0
/* grow.h -- mapping chunks into a pool's segments, and unmapping them.
 *
 * Locking: the pool's lock. No call here waits for the GPU. */
#ifndef TARN_POOLS_GROW_H
#define TARN_POOLS_GROW_H

#include "pools/handover.h"
#include "pools/pool.h"

/* Maps memory so that the heap has a FREE block of at least bytes. frugal: no more than that, to
 * the page.
 *   DEVICE_MEMORY, LIMIT, ADDRESS_SPACE, HOST_MEMORY, DEVICE_LOST, DRIVER: nothing is mapped */
TARN_MUST_CHECK tarn_status tn_heap_grow(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes,
                                         bool frugal);

/* A growth that can be undone as long as what it mapped is free. */
struct tn_growth {
    struct tn_heap *heap; /* NULL: there was none */
    struct tn_run mapped;
    uint64_t segment_bytes; /* of the heap, as they were; see struct tn_heap */
    uint64_t run_bytes;
    uint64_t run_alloc_count;
    uint64_t run_free_count;
};

/* The same; what it maps beyond need leaves so much of what the limits allow. */
TARN_MUST_CHECK tarn_status tn_heap_grow_undoable(tarn_pool *pool, struct tn_heap *heap,
                                                  uint64_t bytes, bool frugal, uint64_t left,
                                                  struct tn_growth *growth);

/* Undoes the pool's last growth: its chunks go where they came from. Takes up to two records for each of them, which
 * are set aside. */
void tn_heap_ungrow(tarn_pool *pool, const struct tn_growth *growth);

/* LIMIT: the pool may not map so much more. */
TARN_MUST_CHECK tarn_status tn_pool_check_limit(tarn_pool *pool, uint64_t bytes);

/* Maps chunks over the UNMAPPED block's first bytes, for the heap; used by restore for holes. Takes
 * up to two records, which are set aside. Statuses as tn_heap_grow. */
TARN_MUST_CHECK tarn_status tn_heap_map_at(tarn_pool *pool, struct tn_heap *heap,
                                           struct tn_block *unmapped, uint64_t offset,
                                           uint64_t bytes);

/* Undoes tn_heap_map_at: the chunks at [offset, offset + bytes) are free, and go where they came from,
 * the cache or the driver. Takes up to two records for each of them. */
void tn_heap_unmap_at(tarn_pool *pool, struct tn_segment *segment, uint64_t offset, uint64_t bytes);

/* Where unmapped memory goes. */
enum tn_unmapped {
    TN_UNMAPPED_TO_CACHE, /* what may be cached; the rest goes to the driver */
    TN_UNMAPPED_TO_DRIVER,
};

/* Unmaps chunks whose memory is all free, held by nobody and proven idle, until at least wanted_bytes
 * have gone (UINT64_MAX: all of them): first what was mapped ahead and never used, and the highest
 * addresses first. Gives segments without chunks back. Returns the bytes unmapped. *unproven is set
 * when a chunk stayed only because it is not proven idle. */
uint64_t tn_pool_unmap_free(tarn_pool *pool, uint64_t wanted_bytes, enum tn_unmapped to,
                            bool *unproven);

/* Unmaps everything: nothing is live and all memory is proven idle. */
void tn_pool_unmap_all(tarn_pool *pool);

/* Gives a peer access to all that is mapped and will be; all or nothing. No effect where it has.
 *   DEVICE_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_pool_add_peer(tarn_pool *pool, int peer);

#endif
