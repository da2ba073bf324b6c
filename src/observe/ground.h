// SPDX-License-Identifier: Apache-2.0
/* ground.h -- what a snapshot copies of stopped pools where the history has the live blocks: pools,
 * arenas, the memory of each, and blocks that wait. No live block is looked at.
 *
 * Locking: the copied pools are stopped (pools/visit.h), or the only one is locked. */
#ifndef TARN_OBSERVE_GROUND_H
#define TARN_OBSERVE_GROUND_H

#include "observe/recall.h"
#include "tarn/snapshot.h"

struct tn_ground_pool {
    tarn_snapshot_pool told; /* but for its mapped bytes */
    uint64_t live_count;
    uint64_t live_bytes;
};

/* Whom memory serves: as in tarn_snapshot_segment. */
struct tn_ground_heap {
    uintptr_t heap; /* which: not to be read */
    tarn_stream stream;
    uint64_t stream_id;
    uint64_t capture_id;
    uint32_t pool; /* its index */
    bool is_small;
};

struct tn_ground_chunk {
    uint64_t address;
    uint64_t bytes;
    uint64_t segment; /* the first address of its segment */
    uint32_t heap;    /* its index */
    bool is_held;
};

/* PENDING. */
struct tn_ground_block {
    uint64_t address;
    uint64_t bytes;
    uint64_t requested;
    uint64_t sequence;
    uint64_t tag;
    uint32_t stack;
};

struct tn_ground_counts {
    size_t pools;
    size_t heaps; /* as many as chunks, at most */
    size_t chunks;
    size_t blocks;
    size_t writers; /* of the history */
};

struct tn_ground {
    struct tn_ground_counts room;
    struct tn_ground_counts used;
    struct tn_ground_pool *pools;
    struct tn_ground_heap *heaps;
    struct tn_ground_chunk *chunks;
    struct tn_ground_block *blocks;
};

/* Adds what the pool needs at most to the counts. Returns false where a block is DISCARDED: these
 * are in no list and in no table. */
bool tn_ground_count(tarn_pool *pool, struct tn_ground_counts *need);

bool tn_ground_make(struct tn_ground *ground,
                    const struct tn_ground_counts *room); /* false: no memory */
void tn_ground_drop(struct tn_ground *ground);

/* Copies the pool, for which there is room, and cuts its writers. */
void tn_ground_copy(struct tn_ground *ground, struct tn_recall *recall, tarn_pool *pool);

#endif
