// SPDX-License-Identifier: Apache-2.0
/* outlook.h -- the pool as an attempt of the ladder would find it, on one of its rungs.
 *
 * An outlook is for an order outside captures, and for blocks above TN_SMALL_BYTES_MAX. It has the
 * free memory for an allocation, and the places where the heap could grow. The pool stays as it is.
 *
 * Trade-offs: the bounds of searches do not count, and matter where hundreds of arenas or free blocks
 * compete. Nor does memory in a pool with checkpoints that waits for a restore (pools/pending.h).
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_OUTLOOK_H
#define TARN_POOLS_OUTLOOK_H

#include "pools/pool.h"
#include "vmm/memory_cache.h"

/* Chunks, counted by the binary logarithm of their pages. */
struct tn_stock {
    uint32_t counts[TN_CACHE_SIZES];
};

/* Addresses without memory, and the heap's free bytes below them. */
struct tn_gap {
    const struct tn_segment *segment;
    uint64_t offset;
    uint64_t have;
    uint64_t room;            /* bytes that may be mapped */
    struct tn_stock extended; /* the chunks below that would move otherwise */
    uint64_t most;            /* bytes of a growth here: for pools/largest.c */
};

struct tn_outlook {
    const tarn_pool *pool;
    struct tn_arena *arena; /* of the order; NULL: none yet */
    uint64_t stream_id;     /* of the order */
    bool given;             /* free chunks that are proven idle are idle memory */
    bool unmapped;          /* ... and are unmapped, where nothing holds them */
    /* From here on: what was found. found_bytes and found_small are the largest of all looks. */
    uint64_t unmapped_bytes;
    uint64_t found_bytes;  /* the largest free block */
    uint64_t found_small;  /* of the heap for small blocks */
    struct tn_stock stock; /* chunks that would move to a growth */
    struct tn_gap *gaps;   /* where the heap may grow; the caller's, with room for all */
    size_t gap_count;
};

/* The gaps that the pool may have at most. */
size_t tn_outlook_gaps_max(const tarn_pool *pool);

/* Fills in what is found. */
void tn_outlook_look(struct tn_outlook *outlook);

#endif
