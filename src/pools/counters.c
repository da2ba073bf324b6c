// SPDX-License-Identifier: Apache-2.0
/* Adds the arenas' counters to their pool's.
 *
 * Trade-offs: the arenas' peaks may have been at different times. Their sum is therefore never
 * below the pool's own peak, and may be above. An exact peak would need a line of memory which all
 * threads write. */
#include "pools/counters.h"

#include "base/checked.h"
#include "base/contract.h"
#include "base/lock.h"
#include "heap/provision.h"
#include "heap/steady.h"

/* Counts how far the arena's live bytes have fallen, with what is not counted in them yet. */
static void collect_fall(struct tn_arena *arena)
{
    const struct tn_arena_counters *counters = &arena->counters;
    uint64_t most = tn_max(arena->fallen_bytes, (uint64_t)counters->live_peak_bytes);

    TN_ASSERT(counters->live_peak_bytes >= 0 && counters->live_peak_bytes >= counters->live_bytes);
    arena->fallen_bytes = (uint64_t)((int64_t)most - counters->live_bytes);
}

struct collected {
    struct tn_heap_counters kinds[TN_HEAP_KINDS]; /* of all arenas */
    /* Sum of the peaks of each arena's kinds together. */
    uint64_t peak_bytes;
};

static void collect_heap(struct collected *collected, struct tn_heap *heap)
{
    struct tn_heap_counters *sum = &collected->kinds[heap->kind];

    tn_tally_add(&sum->allocated, &heap->counters.allocated);
    tn_tally_add(&sum->freed, &heap->counters.freed);
    tn_tally_add(&sum->peak, &heap->counters.peak);
    heap->arena->unasked_bytes += heap->counters.freed.bytes;
    heap->counters = (struct tn_heap_counters){.allocated = {0}};
}

/* Raises live peaks to these bytes, blocks and requested bytes, which were there at about the same
 * time. */
static bool raise_live(struct tn_metric *metrics, int kind, const struct tn_tally *most)
{
    TN_ASSERT(kind <= TN_ALL_KINDS);
    if (most->bytes <= metrics[TN_LIVE_BYTES].peak[kind])
        return false;
    metrics[TN_LIVE_BYTES].peak[kind] = most->bytes;
    tn_metric_raise(&metrics[TN_LIVE_BLOCKS], kind, most->count);
    tn_metric_raise(&metrics[TN_LIVE_REQUESTED], kind, most->requested);
    return true;
}

static bool raise_active(struct tn_metric *metrics, int kind, uint64_t count, uint64_t bytes)
{
    if (bytes <= metrics[TN_ACTIVE_BYTES].peak[kind])
        return false;
    metrics[TN_ACTIVE_BYTES].peak[kind] = bytes;
    tn_metric_raise(&metrics[TN_ACTIVE_BLOCKS], kind, count);
    return true;
}

/* PENDING and DISCARDED blocks or bytes. */
static uint64_t waiting(const struct tn_metric *metrics, enum tn_heap_kind kind, bool in_bytes)
{
    return tn_metric_current(&metrics[TN_PENDING_BLOCKS + in_bytes], kind) +
           tn_metric_current(&metrics[TN_DISCARDED_BLOCKS + in_bytes], kind);
}

/* The live amounts when the pool's lock was released, plus the arenas' peaks since then. PENDING
 * and DISCARDED amounts have not changed meanwhile. Returns whether any peak has risen. */
static bool raise_peaks(struct tn_metric *metrics, const struct collected *collected)
{
    struct tn_tally all = {0, 0, 0};
    uint64_t all_bytes = tn_metric_all(&metrics[TN_LIVE_BYTES]) + collected->peak_bytes;
    uint64_t all_waiting = 0;
    uint64_t all_waiting_bytes = 0;
    bool risen = false;

    for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
        struct tn_tally most = collected->kinds[kind].peak;
        uint64_t count = waiting(metrics, kind, false);
        uint64_t bytes = waiting(metrics, kind, true);

        most.count += tn_metric_current(&metrics[TN_LIVE_BLOCKS], kind);
        most.bytes += tn_metric_current(&metrics[TN_LIVE_BYTES], kind);
        most.requested += tn_metric_current(&metrics[TN_LIVE_REQUESTED], kind);
        risen = raise_live(metrics, kind, &most) || risen;
        risen = raise_active(metrics, kind, most.count + count, most.bytes + bytes) || risen;
        tn_tally_add(&all, &most);
        all_waiting += count;
        all_waiting_bytes += bytes;
    }
    all.bytes = all_bytes;
    tn_metric_raise_recent(&metrics[TN_LIVE_BYTES], all_bytes);
    risen = raise_live(metrics, TN_ALL_KINDS, &all) || risen;
    return raise_active(metrics, TN_ALL_KINDS, all.count + all_waiting,
                        all.bytes + all_waiting_bytes) ||
           risen;
}

static void add_collected(struct tn_pool_counters *counters, enum tn_heap_kind kind,
                          const struct tn_heap_counters *own)
{
    tn_metrics_add_live(counters->metrics, kind, &own->allocated);
    tn_metrics_remove_live(counters->metrics, kind, &own->freed);
    counters->alloc_count += own->allocated.count;
    counters->free_count += own->freed.count;
}

void tn_counters_collect(struct tn_pool_counters *counters, struct tn_arena *awake)
{
    struct collected collected = {.peak_bytes = 0};

    for (struct tn_arena *arena = awake; arena != NULL; arena = arena->in[TN_ARENAS_AWAKE].next) {
        bool used = false;

        tn_provision_level(arena);
        TN_ASSERT(arena->sequence <= arena->sequences_end);
        arena->sequences_end = arena->sequence;
        for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
            struct tn_heap *heap = arena->heaps[kind];

            if ((heap->counters.allocated.count | heap->counters.freed.count) != 0) {
                used = true;
                collect_heap(&collected, heap);
            }
        }
        arena->unused_locks = used ? 0 : arena->unused_locks + 1;
        collect_fall(arena);
        collected.peak_bytes += (uint64_t)arena->counters.live_peak_bytes;
        arena->counters = (struct tn_arena_counters){0};
    }
    if (counters->risen || collected.kinds[TN_HEAP_SMALL].allocated.count +
                                   collected.kinds[TN_HEAP_LARGE].allocated.count >
                               0)
        counters->unpublished = raise_peaks(counters->metrics, &collected) || counters->unpublished;
    counters->risen = false;
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
        const struct tn_heap_counters *own = &collected.kinds[kind];

        if ((own->allocated.count | own->freed.count) != 0)
            add_collected(counters, (enum tn_heap_kind)kind, own);
    }
}

void tn_counters_publish(struct tn_pool_counters *counters)
{
    struct tn_peak_sums *sums = counters->sums;

    counters->unpublished = false;
    if (sums == NULL)
        return;
    tn_lock_acquire_spin(&sums->lock, TN_RANK_COUNTS);
    for (int id = 0; id < TN_CHUNKS; id++) {
        for (int kind = 0; kind <= TN_ALL_KINDS; kind++) {
            uint64_t peak = counters->metrics[id].peak[kind];

            sums->peaks[id][kind] += peak - counters->published[id][kind]; /* P35 */
            counters->published[id][kind] = peak;
        }
    }
    tn_lock_release_spin(&sums->lock, TN_RANK_COUNTS);
}

void tn_counters_complete(struct tn_pool_counters *counters)
{
    struct tn_metric *metrics = counters->metrics;

    for (int in_bytes = 0; in_bytes < 2; in_bytes++) {
        struct tn_metric *active = &metrics[TN_ACTIVE_BLOCKS + in_bytes];
        const struct tn_metric *live = &metrics[TN_LIVE_BLOCKS + in_bytes];

        for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
            uint64_t current = tn_metric_current(live, kind) + waiting(metrics, kind, in_bytes);

            active->allocated[kind] = live->allocated[kind];
            active->freed[kind] = live->allocated[kind] - current;
        }
    }
}
