// SPDX-License-Identifier: Apache-2.0
/* segment.h -- a run of slots in which physical memory comes and goes, chunk by chunk.
 *
 *   V5  chunk_count counts the chunks, and mapped_bytes sums those that have memory; vacated places
 *       (vmm/chunk.h) count apart
 *
 * Locking: the lock of the segment's pool, except where a comment says otherwise. Segment records
 * are recycled, never freed, so a stale pointer from the address table can be looked at: its owner
 * is then NULL or another pool. */
#ifndef TARN_VMM_SEGMENT_H
#define TARN_VMM_SEGMENT_H

#include <stdatomic.h>
#include <stdint.h>

#include "vmm/address_table.h"
#include "vmm/region.h"

struct tn_arena;
struct tn_block;
struct tn_dormant;
struct tn_heap;

struct tn_chunk; /* vmm/chunk.h */
struct tn_memory;

struct tn_segment {
    _Atomic(void *) owner;   /* the pool; NULL in a recycled record */
    struct tn_segment *next; /* of the pool, in order of index; also links recycled records */
    struct tn_segment *previous;
    struct tn_regions *regions; /* immutable while owned; NULL: made where memory is */
    uint64_t base;              /* immutable while owned */
    uint64_t bytes;             /* immutable while owned */
    bool mixed;                 /* blocks here may have neighbours of another arena's */
    bool is_own;                /* made for one block, larger than the next segment; immutable */
    int kind;                   /* enum tn_heap_kind of the heap that made it; immutable */
    uint64_t index;             /* ordinal in the pool, never used again */
    uint64_t slot_count;        /* immutable while owned */
    uint64_t chunk_count;
    uint64_t mapped_bytes;
    uint64_t vacated_count; /* places which memory has left and where it is still mapped */
    /* The rest is written by the pools layer. */
    struct tn_memory *aside; /* the memory that the segment was made at, while no chunk has it */
    struct tn_block *first_block; /* blocks tile the segment in order of address */
    struct tn_block *last_block;
    struct tn_heap *grower;         /* the heap that maps memory here */
    struct tn_segment *grower_next; /* of the grower's segments */
    struct tn_segment *grower_previous;
    uint64_t owned_bytes;               /* of chunks with a heap */
    uint64_t idle_bytes;                /* of chunks whose heap is idle memory */
    const struct tn_arena *first_arena; /* that had memory here, or has had all; NULL: none yet */
    struct tn_dormant *dormant;         /* P39 in pools/arena_table.h; NULL: it is not dormant */
    uint32_t unmapped_count;            /* blocks that are unmapped */
    uint32_t checkpoint_count;          /* checkpoints that hold the slots */
};

/* A segment of at least the given bytes, with nothing mapped, known to the address table.
 *   ADDRESS_SPACE, HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_segment_create(struct tn_regions *regions, uint64_t bytes,
                                              void *owner, uint64_t index,
                                              struct tn_segment **segment);
/* A segment at memory which is there, at the beginning of a slot. HOST_MEMORY. */
TARN_MUST_CHECK tarn_status tn_segment_create_at(uint64_t base, uint64_t bytes, void *owner,
                                                 uint64_t index, struct tn_segment **segment);

void tn_segment_destroy(struct tn_segment *segment); /* the segment must have no chunk */

/* The entry of the address table for the page at the offset; the next page's follows. */
static inline const tn_address_page *tn_segment_page(const struct tn_segment *segment,
                                                     uint64_t offset)
{
    tn_address_page *pages = atomic_load_explicit(&tn_address_table.pages, memory_order_relaxed);

    return &pages[(segment->base + offset) >> TN_PAGE_BITS];
}

/* The chunk at the page, or NULL. */
static inline struct tn_chunk *tn_page_chunk(const tn_address_page *page)
{
    return atomic_load_explicit(page, memory_order_acquire);
}

/* The chunk at the offset, or NULL. */
static inline struct tn_chunk *tn_segment_chunk_at(const struct tn_segment *segment,
                                                   uint64_t offset)
{
    return tn_page_chunk(tn_segment_page(segment, offset));
}

#endif
