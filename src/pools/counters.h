// SPDX-License-Identifier: Apache-2.0
/* counters.h -- numbers that rise and fall, each for small and large.
 *
 * A block is small or large by its size, whatever heap its chunks belong to now; a chunk and a segment by the
 * heap that they were made for.
 *
 * What happens in the steady state is written by the arena that it happens in, under its own lock, and
 * added up when the pool is locked (pools/pool_lock.c). What the caller resets is not the numbers but
 * what they are counted from, so that the device's sums do not depend on what is reset in a pool.
 *
 * Locking: that of the owner. */
#ifndef TARN_POOLS_COUNTERS_H
#define TARN_POOLS_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/contract.h"
#include "heap/arena.h"
#include "heap/tally.h"
#include "tarn/types.h"

/* What is counted so. Behind a count of blocks is that of their bytes. */
enum tn_metric_id {
    TN_LIVE_BLOCKS,
    TN_LIVE_BYTES,
    TN_LIVE_REQUESTED,
    TN_ACTIVE_BLOCKS, /* LIVE, PENDING or DISCARDED; but for the peaks it is reckoned from them when it is
                         asked for: see tn_counters_complete */
    TN_ACTIVE_BYTES,
    TN_PENDING_BLOCKS,
    TN_PENDING_BYTES,
    TN_DISCARDED_BLOCKS,
    TN_DISCARDED_BYTES,
    TN_CHUNKS, /* mapped for good: a growth that is undone does not count */
    TN_CHUNK_BYTES,
    TN_SEGMENTS,
    TN_SEGMENT_BYTES,
    TN_OWN_SEGMENTS, /* made for one block that the heap's next segment would not have held */
    TN_METRICS
};

enum { TN_ALL_KINDS = TN_HEAP_KINDS };

struct tn_metric {
    uint64_t allocated[TN_HEAP_KINDS]; /* all in all: never less */
    uint64_t freed[TN_HEAP_KINDS];
    uint64_t peak[TN_HEAP_KINDS + 1];       /* since it was reset; last of both kinds at one time */
    uint64_t allocated_base[TN_HEAP_KINDS]; /* at the last reset of the totals */
    uint64_t freed_base[TN_HEAP_KINDS];
};

static inline uint64_t tn_metric_current(const struct tn_metric *metric, enum tn_heap_kind kind)
{
    return metric->allocated[kind] - metric->freed[kind];
}

static inline uint64_t tn_metric_all(const struct tn_metric *metric)
{
    return tn_metric_current(metric, TN_HEAP_SMALL) + tn_metric_current(metric, TN_HEAP_LARGE);
}

/* All in all, whatever was reset. */
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

static inline void tn_metric_add(struct tn_metric *metric, enum tn_heap_kind kind, uint64_t amount)
{
    metric->allocated[kind] += amount;
    tn_metric_raise(metric, (int)kind, tn_metric_current(metric, kind));
    tn_metric_raise(metric, TN_ALL_KINDS, tn_metric_all(metric));
}

static inline void tn_metric_remove(struct tn_metric *metric, enum tn_heap_kind kind,
                                    uint64_t amount)
{
    TN_ASSERT(tn_metric_current(metric, kind) >= amount); /* P8 */
    metric->freed[kind] += amount;
}

/* Blocks that became live, or are so no more. Their peaks are found when the pool is locked next. */
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

/* A block, and its bytes. */
static inline void tn_metrics_add_block(struct tn_metric *metrics, enum tn_metric_id blocks,
                                        uint64_t bytes)
{
    tn_metric_add(&metrics[blocks], tn_kind_of(bytes), 1);
    tn_metric_add(&metrics[blocks + 1], tn_kind_of(bytes), bytes);
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

/* What happens to a pool. */
enum tn_event_id {
    TN_GROWTHS,    /* a heap was given more memory */
    TN_CHUNK_MAPS, /* calls of the driver, those for a growth that is then undone included */
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
    uint64_t count; /* all in all */
    uint64_t base;  /* at the last reset of the totals */
};

struct tn_pool_counters {
    struct tn_metric metrics[TN_METRICS];
    /* Calls that allocated, and calls that freed. No metric gives either: a restore makes blocks live that no call
     * has allocated, and ends blocks that no call has freed. */
    uint64_t alloc_count;
    uint64_t free_count;
    bool risen; /* blocks became live since it was locked: their peaks have not been looked at */
    struct tn_event events[TN_EVENTS];
};

/* Adds what happened in the pool's arenas, from the first one on, since the last time to its counters; the pool's lock is
 * held, and no block is loose. Blocks' records and numbers that arenas had set aside are levelled, and dropped. */
void tn_counters_collect(struct tn_pool_counters *counters, struct tn_arena *arenas);

/* Reckons what is active; the pool's lock is held. */
void tn_counters_complete(struct tn_pool_counters *counters);

#endif
