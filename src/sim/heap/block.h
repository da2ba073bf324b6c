// SPDX-License-Identifier: Apache-2.0
/* block.h -- driver blocks: the runs of memory that allocations are cut from.
 *
 * The driver takes memory in chunks, of 2 MiB multiples for cuMemAlloc and cuMemHostAlloc and of 32
 * MiB for its pools, and cuts allocations out of them. A heap is the memory that a context or a
 * pool has taken in this way. A heap is made of blocks of addresses. A block of linear or
 * page-locked memory is a single chunk. A block of a pool is a long run of addresses, under which
 * chunks come and go; an allocation may lie across several chunks. Each block is covered by pieces,
 * which are used or free.
 *
 * A piece may be free from a moment in the order of a stream on. Until this moment is reached, the
 * piece is free only for work ordered after the moment. This makes an allocator stream-ordered.
 *
 * Invariants
 *   SH1  the pieces of a block cover it without gap or overlap, in the order of their addresses
 *   SH2  a piece is backed by chunks wholly or not at all; a piece in use, or about to become
 *       free, is backed
 *   SH3  heap->reserved_bytes is the sum of its chunks' bytes
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_BLOCK_H
#define TARN_SIM_BLOCK_H

#include "sim/memory/space.h"
#include "sim/stream/stream.h"

#define TN_SIM_HOST_HEAP (-1) /* in place of a device: the heap is page-locked memory */

struct tn_sim_piece {
    struct tn_sim_piece *next; /* in its block, by address */
    struct tn_sim_piece *previous;
    struct tn_sim_block *block;
    struct tn_sim_span span;
    bool used;
    bool backed;                   /* memory lies under the piece (SH2) */
    struct tn_sim_point free_from; /* of a free piece; none when it never had an owner */
    bool waited;                   /* somebody has waited for free_from */
    uint64_t since;                /* the number of its free, in the order of the heap's frees */
};

struct tn_sim_chunk {
    bool backed;
    struct tn_sim_extent *extent; /* NULL also when the memory is the host's */
    uint64_t id;                  /* names the physical memory in pointer queries */
};

struct tn_sim_block {
    struct tn_sim_span span;
    struct tn_sim_heap *heap;
    struct tn_sim_piece *pieces;
    struct tn_sim_block *next; /* in its heap, oldest first */
    size_t chunk_bytes;
    size_t chunk_count;
    struct tn_sim_chunk chunks[];
};

struct tn_sim_heap {
    int device;          /* of the memory, or TN_SIM_HOST_HEAP */
    size_t chunk_bytes;  /* chunks are multiples of this */
    size_t arena_bytes;  /* addresses of a block; 0 when a block is a single chunk */
    size_t limit_bytes;  /* the most that the heap takes; 0: no limit */
    bool follows_events; /* waits between streams make memory usable */
    /* the end of the work before a free makes the piece usable too, unasked for */
    bool opportunistic;
    size_t reserved_bytes; /* of all chunks */
    uint64_t frees;        /* pieces freed so far */
    bool pending;          /* some were freed from a moment on, which nobody has waited for yet */
    struct tn_sim_block *blocks;
};

/* The bytes of a block that an allocation takes: a multiple of 512. 0 when the size overflows. */
size_t tn_sim_piece_bytes(size_t bytes);

/* Makes an empty heap; NULL when memory ran out. */
struct tn_sim_heap *tn_sim_heap_create(int device, size_t chunk_bytes, size_t arena_bytes);

/* Gives all blocks back, whatever is in them, and destroys the heap; without effect on NULL. */
void tn_sim_heap_destroy(struct tn_sim_heap *heap);

/* Cuts a piece out of a heap for an allocation that a stream may use now; for NULL, everyone. Takes
 * new memory when necessary. Returns NULL when too little memory is left. `bytes` comes from
 * tn_sim_piece_bytes; 0 is too much. */
struct tn_sim_piece *tn_sim_heap_take(struct tn_sim_heap *heap, size_t bytes,
                                      const struct tn_sim_stream *stream);

/* The same, out of memory that becomes free later: makes the stream wait for it. */
struct tn_sim_piece *tn_sim_heap_take_later(struct tn_sim_heap *heap, size_t bytes,
                                            struct tn_sim_stream *stream);

/* Makes a used piece free: from a moment on, or at once for NULL. */
void tn_sim_piece_give(struct tn_sim_piece *piece, const struct tn_sim_point *from);

/* Notes that somebody has waited for a stream's work up to a moment; for NULL, for all work done.
 * Pieces freed before are then free for everyone. */
void tn_sim_heap_note_wait(struct tn_sim_heap *heap, const struct tn_sim_point *moment);

/* Unites all free neighbours that are free for everyone. */
void tn_sim_heap_unite(struct tn_sim_heap *heap);

/* Gives back chunks that are free for everyone, unless fewer than keep_bytes would be left. */
void tn_sim_heap_trim(struct tn_sim_heap *heap, size_t keep_bytes);

/* The chunk in which an address of a block lies, and its bytes. */
struct tn_sim_chunk *tn_sim_block_chunk(struct tn_sim_block *block, uintptr_t address,
                                        struct tn_sim_span *span);

/* Asks whether work that has its turn may use freed memory. It may while the moment from which the
 * memory is free has not come; or, unless the simulator is strict, while the memory still exists.
 * Fills *span with the usable range. */
bool tn_sim_block_lends(uintptr_t address, int device, struct tn_sim_span *span);

#endif
