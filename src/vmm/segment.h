// SPDX-License-Identifier: Apache-2.0
/* segment.h -- a run of slots in which physical memory comes and goes, chunk by chunk.
 *
 *   V5  mapped_bytes is the sum of the chunks' bytes
 *
 * A chunk is one physical allocation, mapped whole or not at all. Its size is a power of two from
 * 2 MiB to 1 GiB: the driver's cost is per handle, hardly per byte, up to there.
 *
 * Locking: the lock of the segment's pool, except where said. Segment records are recycled, never
 * freed, so a stale pointer from the address table can be looked at: its owner is then NULL or
 * another pool. */
#ifndef TARN_VMM_SEGMENT_H
#define TARN_VMM_SEGMENT_H

#include <stdatomic.h>
#include <stdint.h>

#include "vmm/address_table.h"
#include "vmm/region.h"

struct tn_arena;
struct tn_block;
struct tn_heap;

#define TN_CHUNK_BYTES_MAX ((uint64_t)1 << 30) /* beyond, one handle costs more than two */

struct tn_chunk;

/* Places in the lists of pools/chunk_cache.h. */
struct tn_chunk_links {
    struct tn_chunk *newer; /* of all that wait there */
    struct tn_chunk *older;
    struct tn_chunk *newer_alike; /* of one size and one kind */
    struct tn_chunk *older_alike;
};

/* One physical allocation: mapped at its place, guarded by the pool's lock; or mapped nowhere, and
 * its holder's alone. Records are recycled, never freed. */
struct tn_chunk {
    uint64_t magic; /* TN_CHUNK_MAGIC; 0 in a recycled record */
    union {
        struct tn_chunk *next; /* links recycled records */
        uint64_t offset;       /* in the segment, a multiple of 2 MiB */
    };
    uint64_t bytes;                       /* a power of two; immutable */
    _Atomic(struct tn_segment *) segment; /* NULL: mapped nowhere */
    /* The rest is written by the pools layer but for what is immutable. */
    _Atomic(struct tn_heap *) heap; /* the one owner: an arena's heap, or the pool's idle memory */
    _Atomic(struct tn_arena *) arena; /* of that heap */
    atomic_uint_fast64_t *live;       /* see pools/live_index.h; NULL: none yet */
    uint32_t live_size;               /* its entries */
    uint32_t live_factor;             /* makes a hash of a block's place */
    /* What every allocation and free writes is on other cache lines than what other threads read that free. */
    _Alignas(128) uint64_t used_bytes; /* in blocks that are not free */
    uint64_t freed_stamp; /* epoch of the last free in it; 0: never used, or forgotten */
    uint32_t live_count;  /* blocks in the index */
    uint32_t live_room;   /* blocks that may be in it */
    uint32_t hold_count;  /* holds that contain it; 0: not captured */
    uint32_t id;          /* index in the pool's table of chunks */
    int kind;             /* enum tn_heap_kind of the heap that mapped it; immutable */
    bool was_cached;      /* its mapping took it from the cache */
    bool was_used;        /* a free in it was proven idle, and its stamp forgotten */
    /* Of idle memory and of captures': epoch of the last free that the end of its holds does not
     * prove idle: P26 in pools/hold.h. */
    uint64_t outside_stamp;
    tn_cu_memhandle handle;                /* immutable */
    struct tn_chunk_properties properties; /* that it was made with; immutable but for the peers,
                                              which are those of its mapping */
    struct tn_chunk_links links;           /* guarded by the CACHE lock while it is in the cache */
};

#define TN_CHUNK_MAGIC 0x5443686eULL

struct tn_segment {
    _Atomic(void *) owner;   /* the pool; NULL in a recycled record */
    struct tn_segment *next; /* of the pool, in order of index; also links recycled records */
    struct tn_segment *previous;
    struct tn_regions *regions; /* immutable while owned */
    uint64_t base;              /* immutable while owned */
    uint64_t bytes;             /* immutable while owned */
    bool divided;               /* blocks here may have neighbours of another arena's */
    bool is_own;                /* made for one block, larger than the next segment; immutable */
    int kind;                   /* enum tn_heap_kind of the heap that made it; immutable */
    uint64_t index;             /* ordinal in the pool, never used again */
    uint64_t slot_count;        /* immutable while owned */
    uint64_t mapped_bytes;
    /* The rest is written by the pools layer. */
    struct tn_block *first_block; /* blocks tile the segment in order of address */
    struct tn_block *last_block;
    struct tn_heap *grower;             /* the heap that maps memory here */
    const struct tn_arena *first_arena; /* that had memory here, or has had all; NULL: none yet */
    uint32_t unmapped_count;            /* blocks that are unmapped */
    uint32_t checkpoint_count;          /* checkpoints that hold the slots */
};

/* A segment of at least that many bytes, with nothing mapped, known to the address table.
 *   ADDRESS_SPACE, HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_segment_create(struct tn_regions *regions, uint64_t bytes,
                                              void *owner, uint64_t index,
                                              struct tn_segment **segment);
void tn_segment_destroy(struct tn_segment *segment); /* nothing is mapped */

/* A chunk of new memory, mapped nowhere.
 *   HOST_MEMORY, DEVICE_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_chunk_create(struct tn_gpu *gpu, uint64_t bytes,
                                            struct tn_chunk_properties properties,
                                            struct tn_chunk **chunk);
void tn_chunk_destroy(struct tn_gpu *gpu, struct tn_chunk *chunk); /* it is mapped nowhere */

/* Maps the chunk at the offset, with access for the peers.
 *   DEVICE_MEMORY, DEVICE_LOST, DRIVER: it is still mapped nowhere */
TARN_MUST_CHECK tarn_status tn_segment_map(struct tn_segment *segment, uint64_t offset,
                                           uint64_t peer_mask, struct tn_chunk *chunk);

/* Unmaps it; its memory stays. Nothing may be using it: the call does not wait. */
void tn_segment_unmap(struct tn_chunk *chunk);

/* Gives a peer access to a mapped chunk, or takes it back. Statuses as tn_gpu_add_access. */
TARN_MUST_CHECK tarn_status tn_chunk_add_peer(struct tn_chunk *chunk, int peer);
void tn_chunk_remove_peer(struct tn_chunk *chunk, int peer);

static inline struct tn_chunk *tn_segment_chunk_at(const struct tn_segment *segment,
                                                   uint64_t offset)
{
    tn_address_page *pages = atomic_load_explicit(&tn_address_table.pages, memory_order_relaxed);

    return atomic_load_explicit(&pages[(segment->base + offset) >> TN_PAGE_BITS],
                                memory_order_acquire);
}

static inline uint64_t tn_chunk_end(const struct tn_chunk *chunk)
{
    return chunk->offset + chunk->bytes;
}

#endif
