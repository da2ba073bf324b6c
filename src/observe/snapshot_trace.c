// SPDX-License-Identifier: Apache-2.0
/* An event has the pool and stream of its writer, an arena, which a note names. A block's free by
 * another writer has the pool and stream of its allocation. Where a note or an allocation is
 * overwritten, the snapshot's segment at the address tells, if there is one. */
#include "observe/snapshot_trace.h"

#include <stdlib.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "heap/history.h"
#include "observe/retell.h"
#include "observe/told_ranges.h"

/* Pool and stream of a writer, or of a block. */
struct owner {
    uint64_t key; /* a writer, or a block's number */
    uint64_t pool;
    uint64_t stream_id;
    const struct tn_told_block *block; /* as it was allocated; NULL: of a writer */
};

struct owners {
    struct owner *all; /* by their keys */
    size_t count;
};

struct tracing {
    const struct tn_told *told;
    const struct tn_snapshot *snapshot;
    struct owners writers;
    struct owners blocks;
    struct owners streams; /* by ids; stream_id is the handle */
    uint64_t default_pool; /* its number */
    uint64_t last_pool;    /* that was asked for; its answer */
    bool last_is_of_host;
    struct tn_titles titles;
    struct tn_trace_range *ranges;
    size_t range_count;
    struct tn_trace_event *events;
    size_t count;
};

static int compare_keys(const void *a, const void *b)
{
    uint64_t left = ((const struct owner *)a)->key;
    uint64_t right = ((const struct owner *)b)->key;

    return (left > right) - (left < right);
}

static const struct owner *find(const struct owners *owners, uint64_t key)
{
    const struct owner wanted = {.key = key};

    return owners->count > 0
               ? bsearch(&wanted, owners->all, owners->count, sizeof wanted, compare_keys)
               : NULL;
}

static void add(struct owners *owners, struct owner owner)
{
    owners->all[owners->count] = owner;
    owners->count += 1;
}

static void sort(struct owners *owners)
{
    if (owners->count > 0)
        qsort(owners->all, owners->count, sizeof *owners->all, compare_keys);
}

/* Writers by the notes of arenas; then magazines, by their arenas. */
static void find_writers(struct tracing *tracing)
{
    struct owners *writers = &tracing->writers;
    size_t arenas;

    for (size_t i = 0; i < tracing->told->event_count; i++) {
        const struct tn_told_event *event = &tracing->told->events[i];

        if (event->kind == TN_HISTORY_NOTE && event->note.note == TN_NOTE_ARENA_BEGUN)
            add(writers, (struct owner){.key = event->note.operands[0],
                                        .pool = event->note.pool,
                                        .stream_id = event->note.operands[1]});
    }
    sort(writers);
    arenas = writers->count;
    for (size_t i = 0; i < tracing->told->event_count; i++) {
        const struct tn_told_event *event = &tracing->told->events[i];
        const struct owners of = {writers->all, arenas};
        const struct owner *arena;

        if (event->kind != TN_HISTORY_NOTE || event->note.note != TN_NOTE_MAGAZINE_BEGUN)
            continue;
        arena = find(&of, event->note.operands[1]);
        if (arena != NULL)
            add(writers, (struct owner){.key = event->note.operands[0],
                                        .pool = arena->pool,
                                        .stream_id = arena->stream_id});
    }
    sort(writers);
}

/* The segment of the snapshot at the address; NULL: none. */
static const tarn_snapshot_segment *segment_at(const tarn_snapshot *snapshot, uint64_t address)
{
    size_t begin = 0;
    size_t end = snapshot->segment_count;

    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        const tarn_snapshot_segment *segment = &snapshot->segments[middle];

        if (address < (uintptr_t)segment->address)
            end = middle;
        else if (address - (uintptr_t)segment->address >= segment->bytes)
            begin = middle + 1;
        else
            return segment;
    }
    return NULL;
}

/* Handles of streams, as far as the snapshot has handles. */
static void find_streams(struct tracing *tracing)
{
    const tarn_snapshot *snapshot = &tracing->snapshot->read;

    for (size_t i = 0; i < snapshot->segment_count; i++) {
        const tarn_snapshot_segment *segment = &snapshot->segments[i];

        if (segment->stream_id != 0)
            add(&tracing->streams,
                (struct owner){.key = segment->stream_id, .stream_id = (uintptr_t)segment->stream});
    }
    sort(&tracing->streams);
}

static struct owner owner_of(const struct tracing *tracing, const struct tn_told_event *event)
{
    const tarn_snapshot_segment *segment;
    const struct owner *owner = NULL;

    if (event->kind == TN_HISTORY_FREE)
        owner = find(&tracing->blocks, event->block.sequence);
    if (owner == NULL)
        owner = find(&tracing->writers, event->writer);
    if (owner != NULL)
        return *owner;
    segment = segment_at(&tracing->snapshot->read, event->block.address);
    return segment == NULL
               ? (struct owner){.key = 0}
               : (struct owner){.pool = segment->pool->number, .stream_id = segment->stream_id};
}

/* Blocks by their allocations. */
static void find_blocks(struct tracing *tracing)
{
    for (size_t i = 0; i < tracing->told->event_count; i++) {
        const struct tn_told_event *event = &tracing->told->events[i];
        struct owner owner;

        if (event->kind != TN_HISTORY_ALLOC)
            continue;
        owner = owner_of(tracing, event);
        owner.key = event->block.sequence;
        owner.block = &event->block;
        add(&tracing->blocks, owner);
    }
    sort(&tracing->blocks);
}

static void put(struct tracing *tracing, enum tn_trace_action action, uint64_t address,
                uint64_t bytes, const struct owner *owner, uint64_t time, const char *text)
{
    const struct owner *stream = find(&tracing->streams, owner->stream_id);

    tracing->events[tracing->count] = (struct tn_trace_event){
        .action = action,
        .address = address,
        .bytes = bytes,
        .stream = stream != NULL ? stream->stream_id : owner->stream_id,
        .pool = owner->pool == tracing->default_pool ? 0 : owner->pool,
        .time_us = (tracing->snapshot->clock_offset + time) / 1000,
        .text = text,
    };
    tracing->count += 1;
}

static void put_annotation(struct tracing *tracing, const struct tn_told_event *event)
{
    const uint64_t *operands = event->note.operands;
    const struct owner *known = find(&tracing->blocks, operands[0]);
    const tarn_snapshot_segment *segment = segment_at(&tracing->snapshot->read, operands[1]);
    struct owner owner = {.pool = event->note.pool};

    if (known != NULL)
        owner = *known;
    else if (segment != NULL)
        owner.stream_id = segment->stream_id;
    put(tracing, TN_TRACE_ANNOTATE, operands[1], owner.block != NULL ? owner.block->requested : 0,
        &owner, event->since, tn_titles_text(&tracing->titles, operands[2]));
}

static void put_use(struct tracing *tracing, const struct tn_note_words *note, uint64_t time)
{
    const struct owner owner = {.pool = note->pool, .stream_id = note->operands[1]};

    put(tracing, TN_TRACE_USE, 0, 0, &owner, time, "");
    tracing->events[tracing->count - 1].number = note->operands[0];
}

static void put_note(struct tracing *tracing, const struct tn_told_event *event)
{
    const struct tn_note_words *note = &event->note;
    const struct owner owner = {.pool = note->pool};

    if (note->note == TN_NOTE_MAPPED)
        put(tracing, TN_TRACE_SEGMENT_MAP, note->operands[0], note->operands[1], &owner,
            event->since, "");
    else if (note->note == TN_NOTE_MOVED)
        put(tracing, TN_TRACE_SEGMENT_MAP, note->operands[1], note->operands[2], &owner,
            event->since, "");
    else if (note->note == TN_NOTE_UNMAPPED)
        put(tracing, TN_TRACE_SEGMENT_UNMAP, note->operands[0], note->operands[1], &owner,
            event->since, "");
    else if (note->note == TN_NOTE_OUT_OF_MEMORY)
        put(tracing, TN_TRACE_OOM, note->operands[1], note->operands[0], &owner, event->since, "");
    else if (note->note == TN_NOTE_SNAPSHOT)
        put(tracing, TN_TRACE_SNAPSHOT, 0, 0, &owner, event->since, "");
    else if (note->note == TN_NOTE_ANNOTATED)
        put_annotation(tracing, event);
    else if (note->note == TN_NOTE_STREAM_USED && note->operands[2] == 0) /* outside captures */
        put_use(tracing, note, event->since);
}

/* Whether the pool's memory is the host's. The traces are of the device. */
static bool is_of_host(struct tracing *tracing, uint64_t pool)
{
    const tarn_snapshot *snapshot = &tracing->snapshot->read;

    if (pool == tracing->last_pool)
        return tracing->last_is_of_host;
    tracing->last_pool = pool;
    tracing->last_is_of_host = false;
    for (size_t i = 0; i < snapshot->pool_count; i++) {
        if (snapshot->pools[i].number == pool)
            tracing->last_is_of_host = snapshot->pools[i].location != TARN_LOCATION_DEVICE;
    }
    return tracing->last_is_of_host;
}

static void put_event(struct tracing *tracing, const struct tn_told_event *event)
{
    const struct tn_told_block *block = &event->block;
    const struct owner owner = owner_of(tracing, event);
    const char *label;

    if (is_of_host(tracing, event->kind == TN_HISTORY_NOTE ? event->note.pool : owner.pool))
        return;
    if (event->kind == TN_HISTORY_NOTE) {
        put_note(tracing, event);
        return;
    }
    if (block->bytes == 0 && owner.block != NULL)
        block = owner.block;
    if (block->bytes == 0)
        return; /* not known */
    label = tn_titles_label(&tracing->titles, block->stack);
    if (event->kind != TN_HISTORY_FREE) {
        put(tracing, TN_TRACE_ALLOC, block->address, block->requested, &owner, event->since, label);
        tracing->events[tracing->count - 1].stack = (uint32_t)block->stack;
        tracing->events[tracing->count - 1].number = event->block.sequence;
        tracing->events[tracing->count - 1].is_restored = event->kind == TN_HISTORY_RESTORED;
        return;
    }
    put(tracing, TN_TRACE_FREE_REQUESTED, block->address, block->requested, &owner, event->since,
        label);
    tracing->events[tracing->count - 1].number = event->block.sequence;
    put(tracing, TN_TRACE_FREE_COMPLETED, block->address, block->requested, &owner, event->since,
        label);
}

static uint64_t number_of_default(const tarn_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->pool_count; i++) {
        if (snapshot->pools[i].kind == TARN_POOL_DEFAULT &&
            snapshot->pools[i].location == TARN_LOCATION_DEVICE)
            return snapshot->pools[i].number;
    }
    return 0;
}

/* False: no memory. */
static bool trace(struct tracing *tracing)
{
    const size_t most = tracing->told->event_count + 1;

    tracing->writers.all = tn_host_alloc(most, sizeof *tracing->writers.all);
    tracing->blocks.all = tn_host_alloc(most, sizeof *tracing->blocks.all);
    tracing->streams.all =
        tn_host_alloc(tracing->snapshot->read.segment_count + 1, sizeof *tracing->streams.all);
    tracing->events = tn_host_alloc(2 * most, sizeof *tracing->events);
    if (tracing->writers.all == NULL || tracing->blocks.all == NULL ||
        tracing->streams.all == NULL || tracing->events == NULL)
        return false;
    tracing->default_pool = number_of_default(&tracing->snapshot->read);
    find_writers(tracing);
    find_streams(tracing);
    find_blocks(tracing);
    for (size_t i = 0; i < tracing->told->event_count; i++) {
        if (tracing->told->events[i].since <= tracing->snapshot->taken)
            put_event(tracing, &tracing->told->events[i]);
    }
    TN_ASSERT(tracing->count <= 2 * most);
    return !tracing->titles.short_of_memory;
}

/* Adds the ranges up to the snapshot's moment. HOST_MEMORY */
static tarn_status trace_ranges(struct tracing *tracing, struct tn_ring *ring)
{
    struct tn_told_ranges told;
    tarn_status status = tn_retell_ranges(tn_ring_from_memory, ring, ring->page_count, &told);

    if (status != TARN_OK)
        return status;
    tracing->ranges = tn_host_alloc(told.count + 1, sizeof *tracing->ranges);
    for (size_t i = 0; i < told.count && tracing->ranges != NULL; i++) {
        const struct tn_told_range *range = &told.all[i];

        if (range->time > tracing->snapshot->taken)
            continue;
        tracing->ranges[tracing->range_count] = (struct tn_trace_range){
            .ends = range->ends,
            .time_us = (tracing->snapshot->clock_offset + range->time) / 1000,
            .name = tn_titles_text(&tracing->titles, range->title),
        };
        tracing->range_count += 1;
    }
    TN_ASSERT(tracing->range_count <= told.count);
    tn_told_ranges_free(&told);
    if (tracing->ranges == NULL || tracing->titles.short_of_memory)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a snapshot's ranges");
    return TARN_OK;
}

tarn_status tn_snapshot_trace(tarn_device *device, struct tn_snapshot *snapshot)
{
    struct tn_history *history = &device->history;
    const struct tn_scroll_reader reader = tn_stacking_reader(&history->stacking);
    struct tracing tracing = {.snapshot = snapshot};
    struct tn_told told;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    if (history->file.head == NULL)
        return tn_fail(TARN_ERR_NOT_SUPPORTED,
                       "the device keeps no history: it was opened with TARN_NO_HISTORY");
    status = tn_retell(&(struct tn_told_source){.read = tn_ring_from_own_file,
                                                .context = &history->file,
                                                .page_count = tn_ring_reserved(&history->ring),
                                                .area_bytes = tn_ring_area_offset(
                                                    history->file.head, TN_RING_AREAS),
                                                .part_count = 0},
                       NULL, &told);
    if (status != TARN_OK)
        return status;
    tn_told_sort_by_time(&told);
    tracing.told = &told;
    tracing.titles = tn_titles_new(&reader);
    status = trace_ranges(&tracing, &history->ranges.ring);
    if (status == TARN_OK &&
        (!trace(&tracing) || !tn_snapshot_stacks_copy(&snapshot->stacks, device)))
        status = tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a snapshot's %zu events",
                         told.event_count);
    if (status == TARN_OK) {
        tn_host_free(snapshot->events);
        tn_host_free(snapshot->ranges);
        snapshot->ranges = tracing.ranges;
        snapshot->range_count = tracing.range_count;
        tn_titles_free(&snapshot->titles);
        snapshot->titles = tracing.titles;
        snapshot->events = tracing.events;
        snapshot->event_count = tracing.count;
    } else {
        tn_host_free(tracing.events);
        tn_host_free(tracing.ranges);
        tn_titles_free(&tracing.titles);
    }
    tn_host_free(tracing.writers.all);
    tn_host_free(tracing.blocks.all);
    tn_host_free(tracing.streams.all);
    tn_told_free(&told);
    return status;
}
