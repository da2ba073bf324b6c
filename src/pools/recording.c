// SPDX-License-Identifier: Apache-2.0
/* The ring has a word of the events that are skipped: a bit for each note, and one for its writers'
 * own. A kind of the API's is some of these bits. */
#include "pools/recording.h"

#include "heap/magazine.h"
#include "pools/pool.h"
#include "pools/visit.h"
#include "tarn/history.h"

/* The notes from the first to the last. */
static uint64_t notes(enum tn_note first, enum tn_note last)
{
    TN_ASSERT(first <= last);
    return (tn_note_bit(last) << 1) - tn_note_bit(first);
}

/* The ring's bits of a kind; 0: a kind without any. */
static uint64_t bits_of(uint64_t kind)
{
    switch (kind) {
    case TARN_HISTORY_BLOCKS:
        return TN_RING_SKIPS_OWN;
    case TARN_HISTORY_MEMORY:
        return notes(TN_NOTE_SEGMENT_RESERVED, TN_NOTE_UNMAPPED);
    case TARN_HISTORY_POOLS:
        return notes(TN_NOTE_POOL_CREATED, TN_NOTE_ROUTE_ENDED);
    case TARN_HISTORY_GRAPHS:
        return notes(TN_NOTE_CAPTURE_BEGUN, TN_NOTE_CHECKPOINT_DROPPED);
    case TARN_HISTORY_STREAMS:
        return notes(TN_NOTE_STREAM_USED, TN_NOTE_FENCE_DONE);
    case TARN_HISTORY_PRESSURE:
        return notes(TN_NOTE_RUNG, TN_NOTE_TRIMMED);
    case TARN_HISTORY_SNAPSHOTS:
        return tn_note_bit(TN_NOTE_SNAPSHOT);
    case TARN_HISTORY_ANNOTATIONS:
        return tn_note_bit(TN_NOTE_ANNOTATED);
    case TARN_HISTORY_SHARES:
        return notes(TN_NOTE_SHARED, TN_NOTE_IMPORT_UNMAPPED);
    default:
        return 0;
    }
}

/* The writers of a pool's arenas take new pages with their next events. */
static bool leave_pages(tarn_pool *pool, void *context)
{
    (void)context;
    if (tn_history_is_kept(tn_arena_history(&pool->idle)))
        tn_history_leave(tn_arena_history(&pool->idle));
    for (struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_ALL]; arena != NULL;
         arena = tn_arena_next(arena)) {
        if (!tn_history_is_kept(tn_arena_history(arena)))
            continue;
        tn_history_leave(tn_arena_history(arena));
        if (arena->divided)
            tn_magazines_leave_pages(tn_arena_magazines(arena));
    }
    return false;
}

void tn_recording_set(tarn_device *device, const struct tn_recording *recording)
{
    struct tn_ring *ring = &device->history.ring;
    uint64_t skipped = recording->logs_stacks ? 0 : TN_HISTORY_SKIPS_STACKS;
    uint64_t before;

    TN_ASSERT(tn_device_ring(device) != NULL);
    for (uint64_t kind = 1; kind <= TARN_HISTORY_ALL; kind <<= 1)
        skipped |= (recording->skipped & kind) != 0 ? bits_of(kind) : 0;
    if ((skipped & ~atomic_load(&ring->skipped) & TN_RING_SKIPS_OWN) != 0)
        (void)tn_device_visit(device, leave_pages, NULL); /* frees that wait are written */
    else if ((~skipped & atomic_load(&ring->skipped) & TN_RING_SKIPS_OWN) != 0)
        tn_ring_distrust(ring); /* frees of blocks that the log does not have repeat their words */
    before = atomic_exchange(&ring->skipped, skipped);
    atomic_store(&device->history.ranges.skipped, (recording->skipped & TARN_HISTORY_RANGES) != 0);
    tn_stacking_set_level(&device->history.stacking, recording->level);
    if ((skipped & ~before & TN_RING_SKIPS_OWN) != 0)
        (void)tn_device_visit(device, leave_pages, NULL);
    if ((before & ~skipped & TN_RING_SKIPS_OWN) != 0)
        tn_ring_forget(ring); /* blocks of the time between are in the table alone */
}

struct tn_recording tn_recording_get(const tarn_device *device)
{
    const struct tn_history *history = &device->history;
    const uint64_t skipped = atomic_load(&history->ring.skipped);
    struct tn_recording recording = {
        .skipped = atomic_load(&history->ranges.skipped) ? TARN_HISTORY_RANGES : 0,
        .level = (enum tn_stack_level)atomic_load(&history->stacking.level),
        .logs_stacks = (skipped & TN_HISTORY_SKIPS_STACKS) == 0,
    };

    for (uint64_t kind = 1; kind <= TARN_HISTORY_ALL; kind <<= 1)
        recording.skipped |= (skipped & bits_of(kind)) != 0 ? kind : 0;
    TN_ASSERT((recording.skipped & ~(uint64_t)TARN_HISTORY_ALL) == 0);
    return recording;
}

void tn_recording_clear(tarn_device *device)
{
    TN_ASSERT(tn_device_ring(device) != NULL);
    (void)tn_device_visit(device, leave_pages, NULL);
    tn_ring_clear(&device->history.ring);
    tn_ranges_clear(&device->history.ranges);
}
