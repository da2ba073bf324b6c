// SPDX-License-Identifier: Apache-2.0
/* watch.h -- live blocks that somebody refers to who does not hold their memory.
 *
 *   P25 the watches of a block are those that name it: of a LIVE or DISCARDED one any, of a PENDING one such that keep it,
 *       of others none; a pool's kept_count is the number of PENDING blocks that have any, its count that of
 *       all watches of its blocks
 *
 * A watch is told of the first of its blocks that is freed, or it keeps them: what is freed meanwhile is PENDING until
 * the watch ends. It is told even so where the memory goes all the same, since a restore brings something else back to
 * it. A block that is watched is not plain, so its free is no arena's affair alone.
 *
 * Replays of a pool's graphs use what the watch names. A watch that ends, or that a free takes a block from, may leave such
 * a replay running: the pool of the block notes the epoch then, and who writes there waits until that is proven.
 *
 * Locking: a block's watches are guarded by its pool's lock; a watch is made and ended by one thread at a time. */
#ifndef TARN_CLAIMS_WATCH_H
#define TARN_CLAIMS_WATCH_H

#include <stdatomic.h>
#include <stddef.h>

#include "claims/replays.h"
#include "heap/block.h"

/* A block of a watch. */
struct tn_watched {
    struct tn_watched *next; /* of the same block; guarded by the lock of pool */
    struct tn_block *block;  /* guarded by the lock of pool */
    /* whose block it is; changed under its lock; NULL: it is watched no more */
    tarn_pool *_Atomic pool;
    struct tn_watch *watch; /* immutable */
};

struct tn_watch {
    struct tn_gpu *gpu; /* immutable: blocks of other devices are not watched */
    /* Immutable: the pool whose replays use the blocks, and where it has its record. It stays as long as the watch has
     * any. */
    tarn_pool *replayer;
    struct tn_replays *_Atomic *replays;
    bool keeps;             /* immutable */
    atomic_size_t gone;     /* index + 1 of the first block that was freed; 0: none */
    _Atomic uint64_t *word; /* immutable: where fresh becomes stale when the first one is */
    uint64_t fresh;         /* immutable */
    uint64_t stale;         /* immutable */
    struct tn_watched *blocks;
    size_t count;
    size_t capacity; /* immutable */
};

/* The watches of a pool's blocks. */
struct tn_watches {
    uint64_t count;      /* P25 */
    uint64_t kept_count; /* PENDING blocks that watches keep: P25 */
    /* The epoch when a watch last left a block to replays that may still run; 0: none did. */
    uint64_t unwatched_stamp;
};

/* The watch, one of those, has one block less. */
void tn_watches_note_left(struct tn_watches *watches, const struct tn_watch *watch);

/* Tells the watch that the block is gone. */
void tn_watched_tell(struct tn_watched *watched);

/* The block, LIVE a moment ago, is being freed: those that do not keep it are told. Whether others are left, which keep
 * it. The lock is held. */
bool tn_watches_tell(struct tn_watches *watches, struct tn_block *block);

/* The memory of the PENDING block goes whoever keeps it: they are told. The lock is held. */
void tn_watches_break(struct tn_watches *watches, struct tn_block *block);

/* The DISCARDED block goes with its pool: all of them are told. The lock is held. */
void tn_watches_forsake(struct tn_watches *watches, struct tn_block *block);

/* The watches of a LIVE, PENDING or DISCARDED block; NULL: none. */
static inline struct tn_watched *tn_block_watches(const struct tn_block *block)
{
    return block->tangled ? tn_block_cold(block)->watches : NULL;
}

#endif
