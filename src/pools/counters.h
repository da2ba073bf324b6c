// SPDX-License-Identifier: Apache-2.0
/* counters.h -- numbers which rise and fall, each for small and large.
 *
 * A block is small or large by its size, whatever heap its chunks belong to now. A chunk or a
 * segment is small or large by the heap for which it was made.
 *
 * In the steady state an arena counts under its own lock. Locking the pool adds the arenas'
 * counters up (pools/pool_lock.c). A reset by the caller does not change the numbers, but the base
 * from which they count. The device's sums therefore do not depend on resets of a pool.
 *
 *   P35  while nobody has a pool's lock, the published peaks of the pool are its peaks, but for
 *        what arenas awake have not added up; or the device's list of pools UNPUBLISHED has it
 *
 * The device has the sums of what is published: whoever ends a pool asks the pools whose peaks have
 * changed since somebody asked, and no others.
 *
 * Locking: the owner's lock. */
#ifndef TARN_POOLS_COUNTERS_H
#define TARN_POOLS_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/contract.h"
#include "base/spin.h"
#include "heap/arena.h"
#include "heap/tally.h"
#include "tarn/metrics.h"
#include "tarn/types.h"

/* The counted amounts. Behind each count of blocks stands the count of their bytes. */
enum tn_metric_id {
    TN_LIVE_BLOCKS,
    TN_LIVE_BYTES,
    TN_LIVE_REQUESTED,
    /* LIVE, PENDING or DISCARDED. Except the peaks, computed from these on demand: see
     * tn_counters_complete. */
    TN_ACTIVE_BLOCKS,
    TN_ACTIVE_BYTES,
    TN_PENDING_BLOCKS,
    TN_PENDING_BYTES,
    TN_DISCARDED_BLOCKS,
    TN_DISCARDED_BYTES,
    TN_CHUNKS, /* mapped for good: a growth which is undone does not count */
    TN_CHUNK_BYTES,
    TN_SEGMENTS,
    TN_SEGMENT_BYTES,
    TN_OWN_SEGMENTS, /* made for a single block which the heap's next segment would not have held */
    TN_METRICS
};

enum { TN_ALL_KINDS = TN_HEAP_KINDS };

struct tn_metric {
    uint64_t allocated[TN_HEAP_KINDS]; /* total; never decreases */
    uint64_t freed[TN_HEAP_KINDS];
    uint64_t peak[TN_HEAP_KINDS + 1];       /* since the reset; the last: of both kinds together */
    uint64_t allocated_base[TN_HEAP_KINDS]; /* at the last reset of the totals */
    uint64_t freed_base[TN_HEAP_KINDS];
    uint64_t
        recent; /* the peak of both kinds since any scrape; unknown for some: pools/scrapes.h */
};

static inline uint64_t tn_metric_current(const struct tn_metric *metric, enum tn_heap_kind kind)
{
    return metric->allocated[kind] - metric->freed[kind];
}

static inline uint64_t tn_metric_all(const struct tn_metric *metric)
{
    return tn_metric_current(metric, TN_HEAP_SMALL) + tn_metric_current(metric, TN_HEAP_LARGE);
}

/* Totals, whatever was reset. */
static inline uint64_t tn_metric_added(const struct tn_metric *metric)
{
    return metric->allocated[TN_HEAP_SMALL] + metric->allocated[TN_HEAP_LARGE];
}

static inline uint64_t tn_metric_removed(const struct tn_metric *metric)
{
    return metric->freed[TN_HEAP_SMALL] + metric->freed[TN_HEAP_LARGE];
}

/* kind: one of both, or TN_ALL_KINDS. */
static inline void tn_metric_raise(struct tn_metric *metric, int kind, uint64_t least)
{
    if (metric->peak[kind] < least)
        metric->peak[kind] = least;
}

static inline void tn_metric_raise_recent(struct tn_metric *metric, uint64_t least)
{
    if (metric->recent < least)
        metric->recent = least;
}

/* Returns whether the peak of both kinds or of this one has risen. */
static inline bool tn_metric_add(struct tn_metric *metric, enum tn_heap_kind kind, uint64_t amount)
{
    uint64_t own;
    uint64_t all;
    bool risen;

    metric->allocated[kind] += amount;
    own = tn_metric_current(metric, kind);
    all = tn_metric_all(metric);
    risen = metric->peak[kind] < own || metric->peak[TN_ALL_KINDS] < all;
    tn_metric_raise(metric, (int)kind, own);
    tn_metric_raise(metric, TN_ALL_KINDS, all);
    tn_metric_raise_recent(metric, all);
    return risen;
}

static inline void tn_metric_remove(struct tn_metric *metric, enum tn_heap_kind kind,
                                    uint64_t amount)
{
    TN_ASSERT(tn_metric_current(metric, kind) >= amount); /* P8 */
    metric->freed[kind] += amount;
}

/* Blocks which became live, or no longer are. Their peaks are found when the pool is next
 * locked. */
static inline void tn_metrics_add_live(struct tn_metric *metrics, enum tn_heap_kind kind,
                                       const struct tn_tally *more)
{
    TN_ASSERT(more->requested <= more->bytes);
    metrics[TN_LIVE_BLOCKS].allocated[kind] += more->count;
    metrics[TN_LIVE_BYTES].allocated[kind] += more->bytes;
    metrics[TN_LIVE_REQUESTED].allocated[kind] += more->requested;
}

static inline void tn_metrics_remove_live(struct tn_metric *metrics, enum tn_heap_kind kind,
                                          const struct tn_tally *less)
{
    TN_ASSERT(tn_metric_current(&metrics[TN_LIVE_BLOCKS], kind) >= less->count); /* P8 */
    TN_ASSERT(tn_metric_current(&metrics[TN_LIVE_BYTES], kind) >= less->bytes);
    metrics[TN_LIVE_BLOCKS].freed[kind] += less->count;
    metrics[TN_LIVE_BYTES].freed[kind] += less->bytes;
    metrics[TN_LIVE_REQUESTED].freed[kind] += less->requested;
}

/* A block and its bytes. Returns whether any peak has risen. */
static inline bool tn_metrics_add_block(struct tn_metric *metrics, enum tn_metric_id blocks,
                                        uint64_t bytes)
{
    bool count_risen = tn_metric_add(&metrics[blocks], tn_kind_of(bytes), 1);

    return tn_metric_add(&metrics[blocks + 1], tn_kind_of(bytes), bytes) || count_risen;
}

static inline void tn_metrics_remove_block(struct tn_metric *metrics, enum tn_metric_id blocks,
                                           uint64_t bytes)
{
    tn_metric_remove(&metrics[blocks], tn_kind_of(bytes), 1);
    tn_metric_remove(&metrics[blocks + 1], tn_kind_of(bytes), bytes);
}

static inline void tn_metric_reset_peak(struct tn_metric *metric)
{
    metric->peak[TN_HEAP_SMALL] = tn_metric_current(metric, TN_HEAP_SMALL);
    metric->peak[TN_HEAP_LARGE] = tn_metric_current(metric, TN_HEAP_LARGE);
    metric->peak[TN_ALL_KINDS] = tn_metric_all(metric);
}

static inline void tn_metric_reset_totals(struct tn_metric *metric)
{
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
        metric->allocated_base[kind] = metric->allocated[kind];
        metric->freed_base[kind] = metric->freed[kind];
    }
}

/* Events of a pool. */
enum tn_event_id {
    TN_GROWTHS,    /* a heap got more memory */
    TN_CHUNK_MAPS, /* calls of the driver, including calls for a growth which is then undone */
    TN_CHUNK_UNMAPS,
    TN_CHUNK_CREATES, /* chunks from the driver */
    TN_CHUNK_RELEASES,
    TN_CACHE_HITS, /* chunks from the cache */
    TN_LADDER_RETRIES,
    TN_OUT_OF_MEMORY,
    TN_TRIMS,
    TN_EVENTS
};

struct tn_event {
    uint64_t count; /* total */
    uint64_t base;  /* at the last reset of the totals */
};

/* Peaks of metrics up to TN_CHUNKS. */
typedef uint64_t tn_peaks[TN_CHUNKS][TN_ALL_KINDS + 1];

/* The sums of the peaks which the pools of a device have published. */
struct tn_peak_sums {
    struct tn_spin lock; /* rank COUNTS */
    tn_peaks peaks;
};

/* Peaks since a scrape. */
enum tn_scraped_peak {
    TN_SCRAPED_LIVE, /* bytes of live blocks */
    TN_SCRAPED_PENDING,
    TN_SCRAPED_MAPPED,
    TN_SCRAPED_PEAKS
};

enum { TN_SCRAPED_VALUES = 28 }; /* room for what is taken of a pool, its peaks included */

/* What a scraper has of a pool: pools/scrapes.h. */
struct tn_pool_scrape {
    /* the most that other scrapes found since this scraper's */
    uint64_t since[TN_SCRAPED_PEAKS];
    uint64_t number; /* of the scrape that took the following; 0: none did */
    uint64_t peaks[TN_SCRAPED_PEAKS];
    uint64_t values[TN_SCRAPED_VALUES];
};

struct tn_pool_counters {
    struct tn_metric metrics[TN_METRICS];
    struct tn_peak_sums *sums; /* of the device; NULL: the pool has left it */
    tn_peaks published;        /* P35: the pool's part of the sums */
    bool unpublished;          /* a peak differs */
    /* Calls which allocated, and calls which freed. Metrics differ: a restore makes blocks live
     * which no call has allocated, and ends blocks which no call has freed. */
    uint64_t alloc_count;
    uint64_t free_count;
    bool risen; /* blocks became live since the lock was taken: their peaks are not found yet */
    struct tn_event events[TN_EVENTS];
    struct tn_pool_scrape scrapes[TARN_SCRAPERS];
    uint64_t tool_counter; /* of mapped bytes, for a tool; 0: none; immutable */
};

/* Adds the arenas' counts since the last call to the pool's counters. awake: the first of
 * those awake. The pool's lock is held, and no block is loose. Also levels the arenas' spare
 * records, drops the numbers which they set aside for blocks, and counts unused locks. */
void tn_counters_collect(struct tn_pool_counters *counters, struct tn_arena *awake);

/* Publishes the peaks. The pool's lock is held, and the lock of the sums taken. */
void tn_counters_publish(struct tn_pool_counters *counters);

/* Computes the active amounts; the pool's lock is held. */
void tn_counters_complete(struct tn_pool_counters *counters);

#endif
