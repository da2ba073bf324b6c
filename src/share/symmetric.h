// SPDX-License-Identifier: Apache-2.0
/* symmetric.h -- a pool of memory that all ranks of a group have at the same offsets.
 *
 * The pool has world x stride addresses. The part of rank r begins r strides behind the base. Each
 * rank maps its own chunks in its part, and the chunks of the others in theirs.
 *
 *   M1  the bytes that are counted as live and as freed are those of such ranges of the offsets
 *
 * A freed block waits for the next collect of all ranks, where each says whether the block is idle
 * for it. The block returns once all have said so in the same collect: no rank's events change the
 * layout alone.
 *
 * Locking: the pool's lock, of rank SHARES, guards all that is not immutable; chunks change in
 * collectives alone. */
#ifndef TARN_SHARE_SYMMETRIC_H
#define TARN_SHARE_SYMMETRIC_H

#include "share/diary.h"
#include "share/group.h"
#include "share/offsets.h"

/* A chunk of each rank, at the same offset. */
struct tn_symmetric_chunk {
    uint64_t offset;
    uint64_t bytes;
    tn_cu_memhandle handles[TN_RANKS_MAX]; /* 0: not mapped */
};

/* An event behind the frees of a stream. */
struct tn_symmetric_fence {
    uint64_t stream_id;
    tn_cu_event event;  /* NULL: none yet */
    size_t freed_count; /* blocks that wait for it */
};

#define TN_FENCE_NONE UINT32_MAX

/* A freed block, in the order of the frees. */
struct tn_freed {
    uint32_t range;
    uint32_t fence; /* TN_FENCE_NONE: freed on a device that does no work any more */
};

struct tarn_symmetric {
    _Atomic uint64_t magic; /* TN_SYMMETRIC_MAGIC; 0 in a recycled record */
    tarn_symmetric *next;   /* links recycled records */
    tarn_group *group;      /* immutable, as number, stride and base */
    uint32_t number;        /* from 1 on, in the group */
    uint64_t stride;
    uint64_t base;
    struct tn_symmetric_chunk *chunks;
    size_t chunk_count;
    size_t chunk_capacity;
    struct tn_offsets offsets;
    struct tn_diary diary;
    struct tn_symmetric_fence *fences;
    size_t fence_count;
    size_t fence_capacity;
    struct tn_freed *freed;
    size_t freed_count;
    size_t freed_capacity;
    uint32_t *persistent; /* ranges with an id */
    size_t persistent_count;
    size_t persistent_capacity;
    uint64_t live_bytes;
    uint64_t live_count;
    uint64_t freed_bytes;
    /* Kept in a recycled record: */
    struct tn_lock lock; /* rank SHARES */
    struct tn_pins pins; /* calls that use the pool */
    bool has_lock;
};

#define TN_SYMMETRIC_MAGIC 0x5453796dULL
#define TN_SYMMETRIC_UNIT ((uint64_t)2 << 20) /* sizes of chunks are multiples */

/* Statuses as in tarn/symmetric.h. own: pins of the caller's. */
TARN_MUST_CHECK tarn_status tn_symmetric_create(tarn_group *group, uint64_t stride,
                                                tarn_symmetric **pool);
TARN_MUST_CHECK tarn_status tn_symmetric_destroy(tarn_symmetric *pool, uint64_t own);
TARN_MUST_CHECK tarn_status tn_symmetric_malloc(tarn_symmetric *pool, uint64_t bytes, uint64_t id,
                                                uint64_t *address);
TARN_MUST_CHECK tarn_status tn_symmetric_free(tarn_symmetric *pool, uint64_t address,
                                              tn_cu_stream stream);
TARN_MUST_CHECK tarn_status tn_symmetric_at(tarn_symmetric *pool, uint64_t address, uint32_t rank,
                                            uint64_t *at);
void tn_symmetric_describe(tarn_symmetric *pool, tarn_symmetric_info *info);

/* Unmaps and gives back all chunks but the first ones. */
void tn_symmetric_drop_chunks(tarn_symmetric *pool, size_t keep_count);

/* Recomputes M1 and the invariants of the offsets. CORRUPT. The pool's lock is held. */
TARN_MUST_CHECK tarn_status tn_symmetric_check(const tarn_symmetric *pool);

static inline uint64_t tn_symmetric_part(const tarn_symmetric *pool, uint32_t rank)
{
    return pool->base + rank * pool->stride;
}

#endif
