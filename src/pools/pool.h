// SPDX-License-Identifier: Apache-2.0
/* pool.h -- a set of arenas with one lifetime.
 *
 *   P8   the counters equal the sums over blocks and chunks, by kind
 *   P9   every segment's grower is a heap of this pool
 *   P14  retired_count is the number of arenas with a fence; arenas and blocks with one are of no order, and
 *        of blocks LIVE and PENDING ones alone have any
 *
 * A pool goes when its handle is given up and nothing claims it: no live block, route, capture,
 * hold, graph or checkpoint, and no call that uses it. Records are recycled, never freed: a
 * stale handle is seen by its magic number.
 *
 * Locking: tn_pool_lock guards everything below that is not immutable or atomic. It takes the pool's own
 * lock, and then those of all its arenas, so that nothing happens anywhere in the pool meanwhile. Driver
 * calls that do not wait for the GPU are made under it. What is done most, allocations and frees that
 * concern one arena alone, takes that arena's lock and no other (heap/steady.h).
 *
 * Trade-offs: the pool's lock costs some ten nanoseconds an arena. */
#ifndef TARN_POOLS_POOL_H
#define TARN_POOLS_POOL_H

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/pins.h"
#include "claims/body.h"
#include "claims/hold.h"
#include "claims/replays.h"
#include "claims/watch.h"
#include "driver/mapping.h"
#include "heap/rounding.h"
#include "pools/counters.h"
#include "tarn/pool.h"

/* What is known of the end of a pool whose handle is given up. */
enum tn_ending {
    TN_ENDING_NOT,
    TN_ENDING_PARKED, /* nothing claims it, and only a proof that its memory is idle lets it go */
    TN_ENDING_NOW,    /* a thread is ending it */
};

/* What the user lets the pool map. Guarded by the pool's lock. */
struct tn_pool_limit {
    uint64_t bytes; /* 0: none */
    bool met;       /* a growth was refused by it; cleared by who asks */
};

struct tn_segment_list {
    struct tn_segment *first; /* in order of index */
    struct tn_segment *last;
    uint64_t next_index;
};

struct tn_arena_list {
    struct tn_arena *first; /* most recently used first */
    uint64_t count;
    uint64_t retired_count; /* arenas of retired streams */
};

/* Handles of the user's that claim the pool as a whole. */
struct tn_claims {
    uint64_t capture_count;    /* tarn_captures */
    uint64_t graph_count;      /* tarn_graphs */
    uint64_t checkpoint_count; /* tarn_checkpoints */
    uint64_t route_count;      /* routes to it */
};

/* What graphs keep of their pool: pools only ask whether it is counted. */
struct tn_pool_graphs {
    tarn_guard guard;    /* immutable */
    uint32_t fork_looks; /* at captures, for forks that were not joined: graphs/capture.c */
    bool adoption_counted;
    bool is_adopted; /* immutable; the pool was made for a capture without a route */
    /* The capture without a route that the pool was made for, 0: none. Guarded by the DEVICE lock. */
    uint64_t adopted_capture_id;
};

/* What checkpoints keep of their pool: copies of contents into its bytes, and from them. */
struct tn_copies {
    tarn_checkpoint *restored;      /* copied back last; NULL: none, or gone */
    struct tn_order restored_order; /* of the stream of those copies */
    uint64_t restored_stamp;        /* the epoch after they were enqueued; 0: there were none */
    /* Taken last; NULL: none, or gone, or others' copies may run, too. */
    tarn_checkpoint *saver;
    struct tn_order saved_order; /* of their stream; none: several, one of which may still run */
    uint64_t saved_stamp;   /* the epoch when the last ones were enqueued; 0: there were none */
    uint64_t revived_stamp; /* the epoch of the last restore that revived a block; 0: none */
    uint16_t last_mark;     /* of blocks, by a comparison */
};

/* Blocks that were freed and wait for claims. */
struct tn_pending {
    struct tn_block *first; /* oldest first */
    struct tn_block *last;
    uint64_t ended_bytes;  /* of blocks that a poll has found unused */
    uint64_t unheld_count; /* blocks freed in a capture that has no hold */
};

struct tarn_pool {
    _Atomic uint64_t magic; /* TN_POOL_MAGIC; 0 in a recycled record */
    tarn_pool *next;        /* of the device, guarded by the DEVICE lock; links recycled records */
    tarn_device *device;    /* immutable; by a handle alone: tn_pool_device */
    /* What allocations and replays look at shares the cache line of magic. All of it is set anew when a recycled record
     * is taken, and never cleared: calls look at it before they know whether their handle is out of date. */
    const struct tn_rounding *rounding; /* the device's, immutable; NULL: to 512 bytes alone */
    _Atomic(struct tn_arena_table *) arena_table; /* NULL: none yet */
    struct tn_replays *_Atomic replays;           /* changed under its lock: see claims/replays.h */
    atomic_uint_fast64_t replay_stream_id; /* of its own last ordered replay; 0: none; written as
                                              replays is */
    tarn_replay_order replay_order;        /* immutable */
    atomic_bool released;                  /* the handle is given up */
    atomic_bool is_default;                /* immutable */
    bool share_captured; /* immutable; work outside captures may take free memory of graphs */
    uint8_t ending;      /* enum tn_ending; guarded by the DEVICE lock */
    char name[32];       /* immutable */
    struct tn_pool_limit limit;
    struct tn_memory_properties properties; /* immutable */
    /* Devices with access to all its memory: bit i is ordinal i. Guarded by lock. */
    uint64_t peer_mask;

    struct tn_segment_list segments;
    struct tn_chunk_table chunks;
    struct tn_block_store store;

    struct tn_pending pending;
    struct tn_bodies bodies;
    struct tn_holds holds;
    struct tn_watches watches;
    struct tn_claims claims;
    struct tn_copies copies;
    struct tn_pool_graphs graphs;

    struct tn_replays *first_replays; /* immutable; joined leads from it to replays */

    /* From here on it is kept in recycled records, too: what tn_pool_lock touches, and idle memory, as every arena.
     * Who has found a pool by an address may come to its lock when the pool has gone. */
    struct tn_lock lock; /* rank POOL */
    struct tn_pins pins; /* calls that use it; closed when it goes */
    struct tn_arena_list arenas;
    struct tn_pool_counters counters;
    struct tn_arena idle;
    struct tn_arena_table *tables; /* all that the record has had; guarded by lock */
#if TARN_DEBUG_CHECKS
    uint64_t unlock_count; /* since the pool was checked last: pools/check.h */
    uint64_t look_count;   /* things that were looked at then */
#endif
};

_Static_assert(offsetof(struct tarn_pool, name) == 64, "a cache line");

/* The device of a pool that may be gone, or of the one that has its record now. */
static inline tarn_device *tn_pool_device(const tarn_pool *pool)
{
    return __atomic_load_n(&pool->device, __ATOMIC_RELAXED);
}

#define TN_POOL_MAGIC 0x54506f6cULL

/* What the counters say now, of both kinds together. The lock is held. */

static inline uint64_t tn_pool_live_count(const tarn_pool *pool)
{
    return tn_metric_all(&pool->counters.metrics[TN_LIVE_BLOCKS]);
}

static inline uint64_t tn_pool_live_bytes(const tarn_pool *pool)
{
    return tn_metric_all(&pool->counters.metrics[TN_LIVE_BYTES]);
}

static inline uint64_t tn_pool_requested_bytes(const tarn_pool *pool)
{
    return tn_metric_all(&pool->counters.metrics[TN_LIVE_REQUESTED]);
}

static inline uint64_t tn_pool_pending_count(const tarn_pool *pool)
{
    return tn_metric_all(&pool->counters.metrics[TN_PENDING_BLOCKS]);
}

static inline uint64_t tn_pool_pending_bytes(const tarn_pool *pool)
{
    return tn_metric_all(&pool->counters.metrics[TN_PENDING_BYTES]);
}

static inline uint64_t tn_pool_discarded_count(const tarn_pool *pool)
{
    return tn_metric_all(&pool->counters.metrics[TN_DISCARDED_BLOCKS]);
}

static inline uint64_t tn_pool_mapped_bytes(const tarn_pool *pool)
{
    return tn_metric_all(&pool->counters.metrics[TN_CHUNK_BYTES]);
}

/* What the pool's own limit leaves to map; UINT64_MAX: there is no limit. */
static inline uint64_t tn_pool_limit_room(const tarn_pool *pool)
{
    uint64_t limit = pool->limit.bytes;

    return limit != 0 ? limit - tn_min(limit, tn_pool_mapped_bytes(pool)) : UINT64_MAX;
}

/* Chunks that were mapped for good, and those of them that are so no more. */
static inline uint64_t tn_pool_map_count(const tarn_pool *pool)
{
    return tn_metric_added(&pool->counters.metrics[TN_CHUNKS]);
}

static inline uint64_t tn_pool_unmap_count(const tarn_pool *pool)
{
    return tn_metric_removed(&pool->counters.metrics[TN_CHUNKS]);
}

static inline uint64_t tn_pool_segment_count(const tarn_pool *pool)
{
    return tn_metric_all(&pool->counters.metrics[TN_SEGMENTS]);
}

/* What a pool is made with, checked. */
struct tn_pool_settings {
    const char *name;     /* NULL: none */
    uint64_t limit_bytes; /* 0: none */
    bool is_default;
    bool is_adopted;
    bool share_captured; /* work outside captures may take free memory that graphs hold */
    tarn_replay_order replay_order;
    tarn_guard guard;
    struct tn_memory_properties properties;
    uint64_t peer_mask;
};

/* A new pool of the device, in its list. HOST_MEMORY. */
TARN_MUST_CHECK tarn_status tn_pool_create(tarn_device *device,
                                           const struct tn_pool_settings *settings,
                                           tarn_pool **pool);

/* Makes an arena the pool's, of that order: its idle memory too, which has none. */
void tn_pool_init_arena(tarn_pool *pool, struct tn_arena *arena, struct tn_order order);

/* The record of a pool that has gone, for another one. */
void tn_pool_recycle(tarn_pool *pool);

/* BUSY, with what claims the pool in the sentence, or TARN_OK. The lock is held. */
TARN_MUST_CHECK tarn_status tn_pool_check_unclaimed(const tarn_pool *pool);

bool tn_pool_is_unclaimed(const tarn_pool *pool); /* the same, without a sentence */

/* Whether nothing but holds keeps the pool: those of graphs destroyed just now go by themselves. The
 * lock is held. */
bool tn_pool_is_only_held(const tarn_pool *pool);

/* Whether nothing but holds and calls under way claims it. The lock is held. */
bool tn_pool_is_unused(const tarn_pool *pool);

/* An adopted pool is one for the statistics from its first block on. The lock is held. */
static inline bool tn_pool_is_counted(const tarn_pool *pool)
{
    return !pool->graphs.is_adopted || pool->counters.alloc_count > 0;
}

/* Keeps the pool for a call. The caller has a lock without which the pool does not go: ROUTES, where a route leads to
 * it; DEVICE; its own. Or something else of the caller's keeps it. */
static inline void tn_pool_pin(tarn_pool *pool)
{
    tn_pins_add(&pool->pins);
}

/* The same where nothing keeps it, and whoever led here is looked at again. False: it is gone. */
static inline bool tn_pool_try_pin(tarn_pool *pool)
{
    return tn_pins_try(&pool->pins);
}

/* The lock stands in pools/pool_lock.c.
 *
 * Stops all that happens in the pool, and brings its counters up to date. Numbers that arenas had set
 * aside for blocks are dropped: a block made later has a higher number than any before. */
void tn_pool_lock(tarn_pool *pool);
void tn_pool_unlock(tarn_pool *pool);

/* For assertions: this thread has the pool's lock. */
static inline bool tn_pool_is_locked(const tarn_pool *pool)
{
    return tn_lock_is_held(&pool->lock);
}

/* Lets what concerns one arena alone go on in all arenas but that one, and stops it again: the pool stays
 * locked, and of others' memory and counters nothing is known meanwhile. */
void tn_pool_resume_others(tarn_pool *pool, const struct tn_arena *but);
void tn_pool_stop_others(tarn_pool *pool, const struct tn_arena *but);

/* A block as reports name it. */
static inline tarn_block tn_describe_block(tarn_pool *pool, const struct tn_block *block)
{
    return (tarn_block){
        .address = (void *)(uintptr_t)tn_block_address(block),
        .bytes = block->requested,
        .block_bytes = tn_block_bytes(block),
        .sequence = block->sequence,
        .pool = pool,
        .tag = tn_block_tag(block),
    };
}

#endif
