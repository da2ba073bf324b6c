// SPDX-License-Identifier: Apache-2.0
/* chunk.h -- the record of an address range of a segment: a mapping of memory, or the place of
 * memory that is away.
 *
 *   V7  a chunk is as large as its memory, which lies there whole
 *
 * A chunk keeps its place until it is destroyed. Its memory may go and other memory come: blocks
 * and owner stay, and the address leads to the chunk. Other chunks may map the same memory, too,
 * and the memory may be another process's.
 *
 * Memory which has moved to another chunk may still be in use at the old place, by work of before.
 * The place is then vacated: no address leads to the chunk any more, but the mapping stays until it
 * is closed.
 *
 * Locking: the lock of the segment's pool, except where a comment says otherwise. Records are
 * recycled, never freed: a thread that has found a chunk without a lock may read the atomic
 * fields. */
#ifndef TARN_VMM_CHUNK_H
#define TARN_VMM_CHUNK_H

#include <stddef.h>

#include "vmm/memory.h"
#include "vmm/segment.h"

struct tn_arena;
struct tn_heap;

struct tn_chunk {
    _Alignas(128) uint64_t magic; /* TN_CHUNK_MAGIC; 0 in a recycled record */
    struct tn_chunk *next;        /* links recycled records, and vacated places */
    /* What every allocation and free reads is on the first cache line, and what they write on the
     * second: a processor fetches both at once. Other threads read the first one in their frees.
     * What is kept in a recycled record is set anew, and never cleared: others may be looking at
     * it. */
    uint64_t offset;                      /* in the segment, a multiple of 2 MiB; immutable */
    uint64_t bytes;                       /* a power of two; immutable */
    _Atomic(struct tn_segment *) segment; /* NULL in a recycled record; else immutable */
    _Atomic(struct tn_arena *) arena;     /* of heap; written by the pools layer, as what follows */
    atomic_uint_fast64_t *live;           /* see heap/live_index.h; NULL: none yet */
    uint32_t live_size;                   /* its entries */
    uint32_t live_factor;                 /* makes a hash of a block's place */
    /* From here to heap all is 0 in a new record. */
    uint64_t used_bytes;  /* in blocks that are not free */
    uint64_t freed_stamp; /* epoch of the last free in the chunk; 0: never used, or forgotten */
    uint32_t live_count;  /* blocks in the index */
    uint32_t live_room;   /* blocks that the index has room for */
    uint32_t hold_count;  /* holds that contain it; 0: not captured */
    uint32_t known_count; /* those which are open or known: P33 in claims/hold.h */
    uint32_t id;          /* index in the pool's table of chunks */
    int kind;             /* enum tn_heap_kind of the heap that mapped the chunk; immutable */
    bool was_used;        /* a free in the chunk was proven idle, and its stamp forgotten */
    /* For idle memory and captured memory: epoch of the last free that the end of the chunk's holds
     * does not prove idle: P26 in claims/hold.h. */
    uint64_t outside_stamp;
    /* Of a vacated place: pools/vacated.h */
    struct tn_heap *vacated_from;   /* NULL: its arena has ended */
    uint64_t vacated_at;            /* growths of the pool before */
    _Atomic(struct tn_heap *) heap; /* the owner: an arena's, or the pool's idle memory */
    struct tn_chunk *heap_next;     /* of the heap's chunks */
    struct tn_chunk *heap_previous;
    struct tn_memory *memory; /* of this place; NULL: the memory is away */
    uint64_t peer_mask;       /* other devices with access: bit i is ordinal i; 0 without memory */
    /* enum tn_notice: pools/tracker_queue.h, whose lock guards changes. 0 in a recycled record, which
     * is looked at. */
    atomic_int notice;
};

_Static_assert(offsetof(struct tn_chunk, used_bytes) == 64, "a cache line");

#define TN_CHUNK_MAGIC 0x5443686eULL

/* Makes a chunk at the offset, without memory and of no heap. The address leads to the chunk once
 * memory was mapped there.
 *   HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_chunk_create(struct tn_segment *segment, uint64_t offset,
                                            uint64_t bytes, struct tn_chunk **chunk);

/* The chunk must have no memory, no block and no heap; its index is given back (tn_live_drop). */
void tn_chunk_destroy(struct tn_chunk *chunk);

/* Maps memory at the chunk's place, which has none, with access for the peers.
 *   DEVICE_MEMORY, DEVICE_LOST, DRIVER: nothing has changed */
TARN_MUST_CHECK tarn_status tn_chunk_map(struct tn_chunk *chunk, struct tn_memory *memory,
                                         uint64_t peer_mask);

/* Unmaps the chunk's memory and returns it; the chunk stays. The memory must be idle: the call does
 * not wait. */
struct tn_memory *tn_chunk_unmap(struct tn_chunk *chunk);

/* Vacates the chunk's place: its memory is mapped by another chunk, too. The chunk has no block and
 * no heap, as for tn_chunk_destroy. */
void tn_chunk_vacate(struct tn_chunk *chunk);

/* Undoes tn_chunk_vacate: the address leads to the chunk again. */
void tn_chunk_reoccupy(struct tn_chunk *chunk);

/* Unmaps the memory at a vacated place, where it must be idle, and ends the record. */
void tn_chunk_close(struct tn_chunk *chunk);

/* Gives a peer access to the chunk's memory at its place, or takes the access back. Statuses as
 * tn_gpu_add_access. */
TARN_MUST_CHECK tarn_status tn_chunk_add_peer(struct tn_chunk *chunk, int peer);
void tn_chunk_remove_peer(struct tn_chunk *chunk, int peer);

static inline uint64_t tn_chunk_end(const struct tn_chunk *chunk)
{
    return chunk->offset + chunk->bytes;
}

static inline uint64_t tn_chunk_address(const struct tn_chunk *chunk)
{
    return atomic_load_explicit(&chunk->segment, memory_order_relaxed)->base + chunk->offset;
}

#endif
