// SPDX-License-Identifier: Apache-2.0
/* pool.h -- a set of arenas with one lifetime.
 *
 *   P8   the counters equal the sums over blocks and chunks, by kind; the free ids of chunks are
 *        those below all used ones that no chunk has
 *   P9   every segment's grower is a heap of this pool
 *   P14  count is the number of arenas, and retired_count of those with a fence; arenas and blocks
 *        with a fence are of no order, and only LIVE and PENDING blocks have fences
 *
 * A pool goes when its handle is given up and nothing claims the pool: no live block, route,
 * capture, hold, graph or checkpoint, and no call under way. Records are recycled, never freed: a
 * stale handle is recognised by its magic number.
 *
 * Locking: tn_pool_lock guards everything below which is not immutable or atomic. It takes the
 * pool's own lock, and then the locks of all its arenas: no other thread changes anything in the
 * pool meanwhile. Driver calls which do not wait for the GPU are made under it. The most frequent
 * actions, allocations and frees which concern one arena alone, take only this arena's lock
 * (heap/steady.h).
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
#include "pools/device.h"
#include "tarn/pool.h"

/* The state of the end of a pool whose handle is given up. */
enum tn_ending {
    TN_ENDING_NOT,
    TN_ENDING_READY,  /* worth a look: in the list of those READY */
    TN_ENDING_PARKED, /* only a proof of idle memory lets it go: in the list of those PARKED */
    TN_ENDING_NOW,    /* a thread is ending the pool */
};

/* The user's limit of the pool's mapped bytes. Guarded by the pool's lock. */
struct tn_pool_limit {
    uint64_t bytes; /* 0: none */
    bool met;       /* the limit refused a growth; cleared by the reader */
};

/* What the pool's chunks have in common. */
struct tn_pool_memory {
    struct tn_memory_properties properties; /* immutable */
    /* Devices with access to all its memory: bit i is ordinal i. Guarded by the pool's lock. */
    uint64_t peer_mask;
    bool gains_peer;  /* the device's call under way has given it one; the DEVICE lock */
    bool lacks_piece; /* a growth found no piece ready; cleared by the reader; the pool's lock */
};

/* Segments of streams that nobody has used for long: P39 in pools/arena_table.h. */
struct tn_dormants {
    struct tn_segment *first; /* dormant for the longest time first */
    struct tn_segment *last;
    struct tn_arena *arena; /* has their memory, is in no list and of no order; NULL: none yet */
};

struct tn_segment_list {
    struct tn_segment *first; /* in order of index; without those which are dormant */
    struct tn_segment *last;
    uint64_t next_index;
    struct tn_dormants dormant;
};

struct tn_pool_link {
    tarn_pool *next;
    tarn_pool *previous;
};

/* A pool's places in the lists of its device. Guarded by their lock, but for previous. */
struct tn_pool_places {
    tarn_pool *previous; /* in the list of all, as next of the pool: guarded by the DEVICE lock */
    struct tn_pool_link in[TN_POOL_LISTS];
    bool listed[TN_POOL_LISTS];     /* not for READY and PARKED; guarded by the pool's lock */
    uint64_t rounds[TN_POOL_LISTS]; /* of the last visits */
};

struct tn_arenas {
    struct tn_arena_lists lists;
    uint64_t count;
    uint64_t retired_count;  /* arenas of retired streams */
    uint64_t reserved_count; /* heaps with has_reserved */
    uint64_t proof_count;    /* events of streams found done: pools/proofs.h */
    uint64_t lock_count;     /* how often the pool was locked */
    uint64_t awake_count;
    uint64_t crowded_until; /* the lock_count until which arenas awake are taken to be too many */
    /* Since the pool was locked: a call has woken the arena that it uses, and no heap has grown. */
    bool only_woken;
    bool stopped; /* the pool: see pools/pool_lock.h */
};

/* The user's handles which claim the pool as a whole. */
struct tn_claims {
    uint64_t capture_count;    /* tarn_captures */
    uint64_t graph_count;      /* tarn_graphs */
    uint64_t checkpoint_count; /* tarn_checkpoints */
    uint64_t route_count;      /* routes to the pool */
};

/* Fields of graphs in their pool: pools only ask whether the pool is counted. */
struct tn_pool_graphs {
    tarn_guard guard;       /* immutable */
    uint32_t fork_searches; /* for forked streams that were not joined: graphs/stop.c */
    bool adoption_counted;
    bool is_adopted; /* immutable; the pool was made for a capture without a route */
    /* The capture without a route which the pool was made for, 0: none. Guarded by the DEVICE
     * lock. */
    uint64_t adopted_capture_id;
};

/* Fields of checkpoints in their pool: copies of contents into its memory, and from it. */
struct tn_copies {
    tarn_checkpoint *restored;      /* the last one copied back; NULL: none, or gone */
    struct tn_order restored_order; /* of the stream of those copies */
    uint64_t restored_stamp;        /* the epoch after these copies were enqueued; 0: none were */
    /* The checkpoint taken last; NULL: none, or gone, or copies of others may run, too. */
    tarn_checkpoint *saver;
    /* The order of its copies' stream; none: several streams, and one may still run. */
    struct tn_order saved_order;
    uint64_t saved_stamp;   /* the epoch when the last copies were enqueued; 0: none were */
    uint64_t revived_stamp; /* the epoch of the last restore that revived a block; 0: none */
    uint8_t last_walk_id;   /* the last one which a comparison gave blocks */
};

/* Places which memory has left and where it is still mapped: pools/vacated.h. */
struct tn_vacated {
    struct tn_chunk *first; /* oldest first */
    struct tn_chunk *last;
    uint64_t count;
};

/* What blocks that wait for streams alone depend on. */
struct tn_stream_news {
    uint64_t done_count;  /* fences of the device that are DONE */
    uint64_t proven;      /* the device's proof; see tn_gpu_is_proven */
    uint64_t proof_count; /* proofs by events of the pool's streams */
    bool is_lost;         /* the device */
};

/* Freed blocks which wait for claims. */
struct tn_pending {
    struct tn_block *first; /* oldest first */
    struct tn_block *last;
    /* The last of those which the polls since these news have looked at, and which wait for streams
     * alone, as do all before it; NULL: none. */
    struct tn_block *plain_last;
    struct tn_stream_news news;
    uint64_t ended_bytes;  /* of blocks which a poll has found unused */
    uint64_t unheld_count; /* blocks freed in a capture without a hold */
};

struct tarn_pool {
    _Atomic uint64_t magic; /* TN_POOL_MAGIC; 0 in a recycled record */
    tarn_pool *next;        /* of the device, guarded by the DEVICE lock; links recycled records */
    tarn_device *device;    /* immutable; by a mere handle: tn_pool_device */
    /* Fields which allocations and replays read share the cache line of magic. A recycled record
     * gets all of them anew, and they are never cleared: calls read them before they know whether
     * their handle is stale. */
    const struct tn_rounding *rounding; /* the device's, immutable; NULL: multiples of 512 bytes */
    _Atomic(struct tn_arena_table *) arena_table; /* NULL: none yet */
    struct tn_replays *_Atomic replays;           /* changed under its lock: see claims/replays.h */
    /* The stream id of its own last ordered replay; 0: none; written under the lock of its record;
     * also reset under the pool's lock when a single graph is left. */
    atomic_uint_fast64_t replay_stream_id;
    uint8_t replay_order;   /* tarn_replay_order; immutable */
    atomic_bool in_host;    /* Immutable: its memory is the host's. */
    atomic_bool released;   /* the handle is given up */
    atomic_bool is_default; /* immutable */
    bool share_captured;    /* Immutable: work outside captures may take free memory of graphs. */
    atomic_uchar ending;    /* enum tn_ending: P34; pools/pool_lock.h changes it */
    char name[32];          /* immutable */
    struct tn_pool_limit limit;
    struct tn_pool_memory memory;
    struct tn_pool_places places;

    struct tn_segment_list segments;
    struct tn_chunk_table chunks;
    struct tn_block_store store;
    struct tn_vacated vacated;

    struct tn_pending pending;
    struct tn_bodies bodies;
    struct tn_holds holds;
    struct tn_watches watches;
    struct tn_claims claims;
    struct tn_copies copies;
    struct tn_pool_graphs graphs;

    struct tn_replays *first_replays; /* immutable; merged_into leads from here to replays */

    /* From here on fields are kept in recycled records, too: the fields which tn_pool_lock touches,
     * and idle memory, as every arena. A thread that found a pool by an address may reach the lock
     * when the pool has gone. */
    struct tn_lock lock; /* rank POOL */
    struct tn_pins pins; /* calls which use the pool; closed when the pool goes */
    struct tn_arenas arenas;
    struct tn_pool_counters counters;
    struct tn_arena idle;
    struct tn_arena_table *tables; /* all tables which the record has had; guarded by lock */
#if TARN_DEBUG_CHECKS
    uint64_t unlock_count;     /* since the last check: observe/pool_check.h */
    uint64_t last_check_count; /* things looked at by the last check */
#endif
};

_Static_assert(offsetof(struct tarn_pool, name) <= 64, "a cache line");

/* The device of a pool which may be gone, or of the pool which has its record now. */
static inline tarn_device *tn_pool_device(const tarn_pool *pool)
{
    return __atomic_load_n(&pool->device, __ATOMIC_RELAXED);
}

#define TN_POOL_MAGIC 0x54506f6cULL

/* The next of all arenas of a pool. The lock is held. */
static inline struct tn_arena *tn_arena_next(const struct tn_arena *arena)
{
    return arena->in[TN_ARENAS_ALL].next;
}

/* A walk over the arenas used last, which passes by those without a FREE block of some size. The lock
 * is held, and no arena comes or goes meanwhile. */
struct tn_arena_walk {
    struct tn_arena *next;
    unsigned left; /* arenas to look at, of which next is the first */
    uint8_t gives; /* the least that an arena gives: P40 */
};

/* of: the pool; NULL: a walk over none. */
static inline struct tn_arena_walk tn_arena_walk_begin(const tarn_pool *of, uint64_t bytes,
                                                       unsigned count)
{
    TN_ASSERT(bytes > 0);
    if (of == NULL)
        return (struct tn_arena_walk){NULL, 0, 0};
    return (struct tn_arena_walk){of->arenas.lists.first[TN_ARENAS_ALL],
                                  (unsigned)tn_min(count, of->arenas.count), /* P14 */
                                  (uint8_t)tn_log2_floor(bytes)};
}

/* NULL: no more. */
static inline struct tn_arena *tn_arena_walk_next(struct tn_arena_walk *walk)
{
    struct tn_arena *arena = walk->next;
    unsigned left = walk->left;

    TN_ASSERT(left == 0 || arena != NULL);
    while (left > 0 && arena->gives < walk->gives) {
        arena = tn_arena_next(arena);
        left -= 1;
    }
    if (left == 0)
        arena = NULL;
    else
        left -= 1;
    walk->next = arena != NULL ? tn_arena_next(arena) : NULL;
    walk->left = left;
    return arena;
}

/* All segments of a pool, those which are dormant last. The lock is held. */
static inline struct tn_segment *tn_pool_first_segment(const tarn_pool *pool)
{
    return pool->segments.first != NULL ? pool->segments.first : pool->segments.dormant.first;
}

static inline struct tn_segment *tn_pool_next_segment(const tarn_pool *pool,
                                                      const struct tn_segment *segment)
{
    return segment->next != NULL || segment->dormant != NULL ? segment->next
                                                             : pool->segments.dormant.first;
}

/* Present values of the counters, both kinds together. The lock is held. */

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

/* The bytes which the pool's own limit leaves to map; UINT64_MAX: no limit. */
static inline uint64_t tn_pool_limit_room(const tarn_pool *pool)
{
    uint64_t limit = pool->limit.bytes;

    return limit != 0 ? limit - tn_min(limit, tn_pool_mapped_bytes(pool)) : UINT64_MAX;
}

/* Chunks mapped for good, and how many of them were unmapped again. */
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

/* Whether blocks of the pool are lone: pools/lone.h. */
static inline bool tn_pool_is_lone(const tarn_pool *pool)
{
    return pool->device->lone_alignment != 0 && !pool->memory.properties.registered;
}

/* Settings of a new pool, checked. */
struct tn_pool_settings {
    const char *name;     /* NULL: none */
    uint64_t limit_bytes; /* 0: none */
    bool is_default;      /* in_host: the default pool of the host */
    bool is_adopted;
    bool share_captured; /* work outside captures may take free memory held by graphs */
    tarn_replay_order replay_order;
    tarn_guard guard;
    struct tn_memory_properties properties;
    uint64_t peer_mask;
};

static inline tarn_location tn_pool_location(const tarn_pool *pool)
{
    if (!pool->in_host)
        return TARN_LOCATION_DEVICE;
    return pool->memory.properties.registered ? TARN_LOCATION_REGISTERED : TARN_LOCATION_HOST;
}

/* Where its memory is counted against a limit, and where memory waits that is mapped nowhere. */
static inline struct tn_budget *tn_pool_budget(const tarn_pool *pool)
{
    return pool->in_host ? &pool->device->host.budget : &pool->device->budget;
}

static inline struct tn_memory_cache *tn_pool_cache(const tarn_pool *pool)
{
    if (pool->memory.properties.registered)
        return &pool->device->host.ready;
    return pool->in_host ? &pool->device->host.cache : &pool->device->cache;
}

/* A new pool of the device, in its list. HOST_MEMORY. */
TARN_MUST_CHECK tarn_status tn_pool_create(tarn_device *device,
                                           const struct tn_pool_settings *settings,
                                           tarn_pool **pool);

/* Makes an arena the pool's, of this order. The pool's idle memory is also an arena, without an
 * order. */
void tn_pool_init_arena(tarn_pool *pool, struct tn_arena *arena, struct tn_heaps *heaps,
                        struct tn_order order);

/* Ends an arena of the pool, which is locked. */
void tn_pool_end_arena(tarn_pool *pool, struct tn_arena *arena);

/* Recycles the record of a pool which has gone. */
void tn_pool_recycle(tarn_pool *pool);

/* BUSY, whose sentence names the claims on the pool, or TARN_OK. The lock is held. */
TARN_MUST_CHECK tarn_status tn_pool_check_unclaimed(const tarn_pool *pool);

/* Whether the statistics count the pool: an adopted pool counts from its first block on. The pool's
 * lock is held. */
static inline bool tn_pool_is_counted(const tarn_pool *pool)
{
    return !pool->graphs.is_adopted || pool->counters.alloc_count > 0;
}

/* Keeps the pool for a call. The caller has a lock without which the pool does not go: ROUTES, if a
 * route leads to the pool; DEVICE; the pool's own. Or another object of the caller keeps the
 * pool. */
static inline void tn_pool_pin(tarn_pool *pool)
{
    tn_pins_add(&pool->pins);
}

/* tn_pool_pin if nothing keeps the pool; the caller then checks again how it found the pool. False:
 * the pool is gone. */
static inline bool tn_pool_try_pin(tarn_pool *pool)
{
    return tn_pins_try(&pool->pins);
}

/* Whether only holds and calls under way claim the pool. The lock is held. */
static inline bool tn_pool_is_unused(const tarn_pool *pool)
{
    return tn_pool_live_count(pool) == 0 && pool->claims.route_count == 0 &&
           pool->claims.capture_count == 0 && pool->claims.graph_count == 0 &&
           pool->claims.checkpoint_count == 0 && pool->watches.kept_count == 0;
}

/* Whether only holds keep the pool: holds of newly destroyed graphs go by themselves. The lock is
 * held. */
static inline bool tn_pool_is_only_held(const tarn_pool *pool)
{
    return tn_pool_is_unused(pool) && tn_pins_count(&pool->pins) == 0;
}

/* tn_pool_check_unclaimed without a sentence. */
static inline bool tn_pool_is_unclaimed(const tarn_pool *pool)
{
    return tn_pool_is_only_held(pool) && pool->holds.count == 0;
}

/* Writes to the history of the pool's device, where it keeps one; the operands: base/note.h. */
static inline void tn_pool_note(tarn_pool *pool, enum tn_note note,
                                const uint64_t operands[TN_NOTE_OPERANDS_MAX])
{
    tn_note_write(tn_device_ring(pool->device), note, pool->holds.pool_serial, operands);
}

/* The writer of the arena's events comes and goes. */
static inline void tn_pool_note_arena(tarn_pool *pool, const struct tn_arena *arena)
{
    tn_pool_note(pool, TN_NOTE_ARENA_BEGUN,
                 TN_OPERANDS(tn_arena_history(arena)->log.id, arena->order.stream_id,
                             arena->order.capture_id));
}

/* The lock is in pools/pool_lock.c.
 *
 * Stops all activity in the pool, and brings its counters up to date. Drops the numbers which
 * arenas had set aside for blocks: a later block has a higher number than any before. */
void tn_pool_lock(tarn_pool *pool);
void tn_pool_unlock(tarn_pool *pool);

/* For assertions: this thread has the pool's lock. */
static inline bool tn_pool_is_locked(const tarn_pool *pool)
{
    return tn_lock_is_held(&pool->lock);
}

/* Lets all arenas but one go on by themselves, and stops them again. The pool stays locked;
 * meanwhile the memory and the counters of the others are unknown. */
void tn_pool_resume_others(tarn_pool *pool, const struct tn_arena *but);
void tn_pool_stop_others(tarn_pool *pool, const struct tn_arena *but);

/* The description of a block in reports. */
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
