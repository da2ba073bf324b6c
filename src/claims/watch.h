// SPDX-License-Identifier: Apache-2.0
/* watch.h -- live blocks which a graph refers to without holding their memory.
 *
 *   P25 a block's list has exactly the watches which name it: any for a LIVE or DISCARDED block,
 *       keeping watches alone for a PENDING block, none for other blocks; a pool's kept_count is
 *       the number of its PENDING blocks with watches, its count the number of all watches of its
 *       blocks
 *
 * A watch is told of the first of its blocks that is freed, or it keeps its blocks: a block freed
 * meanwhile is PENDING until the watch ends. A keeping watch is told, too, when the memory goes all
 * the same because a restore puts another block there. A watched block is not plain, so its free
 * needs the pool's lock.
 *
 * Replays of a pool's graphs use the blocks which the watch names. A replay may still run when a
 * watch ends, or loses a block to a free. The block's pool then notes the epoch, and any later
 * writer waits until this epoch is proven.
 *
 * Locking: a block's watches are guarded by its pool's lock; only one thread at a time makes or
 * ends a watch. */
#ifndef TARN_CLAIMS_WATCH_H
#define TARN_CLAIMS_WATCH_H

#include <stdatomic.h>
#include <stddef.h>

#include "claims/replays.h"
#include "heap/block.h"

/* A block of a watch. */
struct tn_watched {
    struct tn_watched *next;  /* of the same block; guarded by the lock of pool */
    struct tn_watched **link; /* that leads here from the block's list; likewise */
    struct tn_block *block;   /* guarded by the lock of pool */
    /* the block's pool; changed under its lock; NULL: no longer watched */
    tarn_pool *_Atomic pool;
    struct tn_watch *watch; /* immutable */
};

struct tn_watch {
    struct tn_gpu *gpu; /* immutable: blocks of other devices are not watched */
    /* Immutable: the pool whose replays use the blocks, and the place of its record. The pool stays
     * as long as the watch has a record there. */
    tarn_pool *replayer;
    struct tn_replays *_Atomic *replays;
    bool keeps; /* immutable */
    /* Immutable once a block is watched: it is another process's lease. No replay uses the blocks for
     * its sake, and the other process is done with them when it ends. */
    bool is_lease;
    atomic_bool is_waited_for; /* a block that it keeps was freed */
    atomic_size_t gone;        /* index + 1 of the first freed block; 0: none */
    /* Immutable: this word changes from fresh to stale with the first freed block. */
    _Atomic uint64_t *word;
    uint64_t fresh; /* immutable */
    uint64_t stale; /* immutable */
    struct tn_watched *blocks;
    size_t count;
    size_t capacity; /* immutable */
};

/* The watches of a pool's blocks. */
struct tn_watches {
    uint64_t count;      /* P25 */
    uint64_t kept_count; /* PENDING blocks kept by watches: P25 */
    /* The epoch when a watch last left a block while replays might still run; 0: none did. */
    uint64_t unwatched_stamp;
};

/* The watch, one of these, has one block less. */
void tn_watches_note_left(struct tn_watches *watches, const struct tn_watch *watch);

/* Enters it in the block's list, or takes it out. The lock of the block's pool is held. */
void tn_watched_link(struct tn_watched *watched, struct tn_block *block);
void tn_watched_unlink(struct tn_watched *watched);

/* Tells the watch that the block, or its block of this index, is gone. */
void tn_watched_tell(struct tn_watched *watched);
void tn_watch_tell(struct tn_watch *watch, size_t index);

/* The next block of the watch is no pool's: claims/import_block.h. */
void tn_watch_skip(struct tn_watch *watch);

/* The block, LIVE a moment ago, is being freed: tells the watches which do not keep it. Returns
 * whether keeping watches are left. The lock is held. */
bool tn_watches_tell(struct tn_watches *watches, struct tn_block *block);

/* The memory of the PENDING block goes although watches keep it: tells them. The lock is held. */
void tn_watches_break(struct tn_watches *watches, struct tn_block *block);

/* The DISCARDED block goes with its pool: tells all its watches. The lock is held. */
void tn_watches_forsake(struct tn_watches *watches, struct tn_block *block);

/* The watches of a LIVE, PENDING or DISCARDED block; NULL: none. */
static inline struct tn_watched *tn_block_watches(const struct tn_block *block)
{
    return block->may_have_claims ? tn_block_cold(block)->watches : NULL;
}

/* Whether another process has a lease of the block. */
static inline bool tn_block_is_leased(const struct tn_block *block)
{
    const struct tn_watched *watched = tn_block_watches(block);

    while (watched != NULL && !watched->watch->is_lease)
        watched = watched->next;
    return watched != NULL;
}

#endif
