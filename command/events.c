// SPDX-License-Identifier: Apache-2.0
/* The last events are kept in a heap, the earliest on top: a later one takes its place.
 *
 * A free may name its block by the number alone. So the numbers of the blocks that matter are found
 * first, by their allocations. Graphs are replayed often: of an address each graph's last replay is
 * told, and the others would leave no room for what happened to the block. */
#include "events.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/host.h"
#include "heap/history.h"
#include "notes.h"

/* A set of numbers: sorted once all are in it. */
struct numbers {
    uint64_t *all;
    size_t count;
    size_t capacity;
};

struct choosing {
    const struct wanted *wanted;
    const struct owners *owners;
    struct numbers blocks;
    struct numbers pools; /* of the blocks that had the address */
    struct events *events;
    size_t capacity;
    struct tn_told_event *replays; /* the last of each graph */
    size_t replay_count;
    size_t replay_capacity;
    uint32_t *places;   /* by graph, hashed: the index of its replay plus 1; 0: free */
    size_t place_count; /* a power of two, or 0 */
};

static int compare(uint64_t left, uint64_t right)
{
    return (left > right) - (left < right);
}

static int compare_numbers(const void *a, const void *b)
{
    return compare(*(const uint64_t *)a, *(const uint64_t *)b);
}

static bool add_number(struct numbers *numbers, uint64_t number)
{
    void *all = numbers->all;

    if (!tn_host_grow(&all, &numbers->capacity, numbers->count + 1, sizeof number))
        return false;
    numbers->all = all;
    numbers->all[numbers->count++] = number;
    return true;
}

static void sort(struct numbers *numbers)
{
    if (numbers->count > 0)
        qsort(numbers->all, numbers->count, sizeof *numbers->all, compare_numbers);
}

static bool has(const struct numbers *numbers, uint64_t number)
{
    return numbers->count > 0 &&
           bsearch(&number, numbers->all, numbers->count, sizeof number, compare_numbers) != NULL;
}

/* Events of one stamp by writer, whose events have an order of their own. */
static int compare_times(const void *a, const void *b)
{
    const struct tn_told_event *left = a;
    const struct tn_told_event *right = b;

    if (left->since != right->since)
        return compare(left->since, right->since);
    if (left->writer != right->writer)
        return compare(left->writer, right->writer);
    if (left->place != right->place)
        return compare(left->place, right->place);
    return left->at != right->at ? compare(left->at, right->at)
                                 : compare(left->block.sequence, right->block.sequence);
}

static bool covers(const struct tn_told_block *block, uint64_t address)
{
    return address - block->address < block->bytes;
}

static uint64_t pool_of(const struct choosing *choosing, const struct tn_told_event *event)
{
    const struct owner *owner = owners_find(choosing->owners, event->writer);

    return owner != NULL ? owner->pool : 0;
}

/* Notes the numbers of the blocks that matter, and the pools of those that had the address. */
static bool visit_allocation(void *context, const struct tn_told_event *event)
{
    struct choosing *choosing = context;
    const struct wanted *wanted = choosing->wanted;
    const struct tn_told_block *block = &event->block;

    if (event->kind == TN_HISTORY_NOTE || block->bytes == 0 ||
        (event->kind == TN_HISTORY_FREE && !wanted->by_address) ||
        (wanted->by_address && !covers(block, wanted->address)) ||
        (wanted->by_pool && pool_of(choosing, event) != wanted->pool))
        return true;
    return add_number(&choosing->blocks, block->sequence) &&
           (!wanted->by_address || add_number(&choosing->pools, pool_of(choosing, event)));
}

/* Events of pools that say what may still use a block. */
static bool is_of_graphs(enum tn_note note)
{
    switch (note) {
    case TN_NOTE_POOL_DESTROYED:
    case TN_NOTE_CAPTURE_BEGUN:
    case TN_NOTE_CAPTURE_ENDED:
    case TN_NOTE_CAPTURE_ABORTED:
    case TN_NOTE_GRAPH_MADE:
    case TN_NOTE_GRAPH_UPDATED:
    case TN_NOTE_GRAPH_REPLAYED:
    case TN_NOTE_GRAPH_DESTROYED:
    case TN_NOTE_HOLD_TAKEN:
    case TN_NOTE_HOLD_DROPPED:
    case TN_NOTE_CHECKPOINT_TAKEN:
    case TN_NOTE_CHECKPOINT_RESTORED:
        return true;
    default:
        return false;
    }
}

static bool is_note_wanted(const struct choosing *choosing, const struct tn_note_words *note)
{
    const struct wanted *wanted = choosing->wanted;

    if (wanted->by_pool && note->pool != wanted->pool)
        return false;
    if (!wanted->by_address)
        return true;
    if (note->note == TN_NOTE_STREAM_USED || note->note == TN_NOTE_ANNOTATED)
        return has(&choosing->blocks, note->operands[0]);
    return note_has_address(note, wanted->address) ||
           (is_of_graphs(note->note) && note->pool != 0 && has(&choosing->pools, note->pool));
}

static bool is_wanted(const struct choosing *choosing, const struct tn_told_event *event)
{
    const struct wanted *wanted = choosing->wanted;

    if (event->kind == TN_HISTORY_NOTE)
        return is_note_wanted(choosing, &event->note);
    if (!wanted->by_pool && !wanted->by_address)
        return true;
    if (has(&choosing->blocks, event->block.sequence))
        return true;
    return !wanted->by_address && pool_of(choosing, event) == wanted->pool;
}

static void swap(struct tn_told_event *a, struct tn_told_event *b)
{
    struct tn_told_event other = *a;

    *a = *b;
    *b = other;
}

static void rise(struct tn_told_event *heap, size_t at)
{
    for (; at > 0 && compare_times(&heap[at], &heap[(at - 1) / 2]) < 0; at = (at - 1) / 2)
        swap(&heap[at], &heap[(at - 1) / 2]);
}

static void sink(struct tn_told_event *heap, size_t count)
{
    for (size_t at = 0, child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && compare_times(&heap[child + 1], &heap[child]) < 0)
            child += 1;
        if (compare_times(&heap[at], &heap[child]) <= 0)
            return;
        swap(&heap[at], &heap[child]);
    }
}

static bool keep(struct choosing *choosing, const struct tn_told_event *event)
{
    struct events *events = choosing->events;
    void *all = events->all;

    TN_ASSERT(events->count <= choosing->wanted->most);
    events->matching += 1;
    if (choosing->wanted->most == 0)
        return true;
    if (events->count == choosing->wanted->most) {
        if (compare_times(event, &events->all[0]) > 0) {
            events->all[0] = *event;
            sink(events->all, events->count);
        }
        return true;
    }
    if (!tn_host_grow(&all, &choosing->capacity, events->count + 1, sizeof *event))
        return false;
    events->all = all;
    events->all[events->count] = *event;
    rise(events->all, events->count);
    events->count += 1;
    return true;
}

static uint64_t graph_of(const struct tn_told_event *replay)
{
    return replay->note.operands[0];
}

/* The place of the graph, or the free place where it would be. Some place is free. */
static uint32_t *place_of(const struct choosing *choosing, uint64_t graph)
{
    const size_t mask = choosing->place_count - 1;
    size_t at = (size_t)(graph * TN_GOLDEN >> 32) & mask;

    TN_ASSERT(choosing->place_count > choosing->replay_count);
    while (choosing->places[at] != 0 &&
           graph_of(&choosing->replays[choosing->places[at] - 1]) != graph)
        at = (at + 1) & mask;
    return &choosing->places[at];
}

/* Keeps half of the places free. */
static bool provide_places(struct choosing *choosing)
{
    enum { FIRST_PLACES = 64 };
    const size_t count = choosing->place_count > 0 ? 2 * choosing->place_count : FIRST_PLACES;
    uint32_t *places;

    if (choosing->replay_count < choosing->place_count / 2)
        return true;
    places = choosing->replay_count < UINT32_MAX / 4 ? tn_host_alloc(count, sizeof *places) : NULL;
    if (places == NULL)
        return false;
    tn_host_free(choosing->places);
    choosing->places = places;
    choosing->place_count = count;
    for (size_t i = 0; i < choosing->replay_count; i++)
        *place_of(choosing, graph_of(&choosing->replays[i])) = (uint32_t)i + 1;
    return true;
}

static bool keep_replay(struct choosing *choosing, const struct tn_told_event *event)
{
    void *replays = choosing->replays;
    uint32_t *place;

    if (!provide_places(choosing))
        return false;
    place = place_of(choosing, graph_of(event));
    if (*place != 0) {
        struct tn_told_event *last = &choosing->replays[*place - 1];

        if (compare_times(event, last) > 0)
            *last = *event;
        return true;
    }
    if (!tn_host_grow(&replays, &choosing->replay_capacity, choosing->replay_count + 1,
                      sizeof *event))
        return false;
    choosing->replays = replays;
    choosing->replays[choosing->replay_count++] = *event;
    *place = (uint32_t)choosing->replay_count;
    return true;
}

static bool visit_all(void *context, const struct tn_told_event *event)
{
    struct choosing *choosing = context;

    if (!is_wanted(choosing, event))
        return true;
    if (choosing->wanted->by_address && event->kind == TN_HISTORY_NOTE &&
        event->note.note == TN_NOTE_GRAPH_REPLAYED)
        return keep_replay(choosing, event);
    return keep(choosing, event);
}

/* What the log has lost, and the table has. */
static bool add_live(struct choosing *choosing, const struct tn_told *live)
{
    const struct wanted *wanted = choosing->wanted;
    bool added = true;

    for (size_t i = 0; added && i < live->count; i++) {
        const struct tn_told_block *block = &live->blocks[i];

        if ((wanted->by_address && !covers(block, wanted->address)) ||
            (wanted->by_pool && block->pool != wanted->pool))
            continue;
        added = add_number(&choosing->blocks, block->sequence) &&
                (!wanted->by_address || add_number(&choosing->pools, block->pool));
    }
    return added;
}

static bool choose(struct choosing *choosing, const struct history *history,
                   const struct tn_told *live)
{
    uint64_t broken;
    bool done = true;

    if (choosing->wanted->by_pool || choosing->wanted->by_address)
        done = add_live(choosing, live) &&
               tn_told_walk(&history->source, visit_allocation, choosing, &broken);
    sort(&choosing->blocks);
    sort(&choosing->pools);
    done = done && tn_told_walk(&history->source, visit_all, choosing, &broken);
    for (size_t i = 0; done && i < choosing->replay_count; i++)
        done = keep(choosing, &choosing->replays[i]);
    return done;
}

bool events_read(struct events *events, const struct history *history, const struct owners *owners,
                 const struct wanted *wanted, const struct tn_told *live)
{
    struct choosing choosing = {.wanted = wanted, .owners = owners, .events = events};
    bool done;

    *events = (struct events){.all = NULL};
    done = choose(&choosing, history, live);
    if (events->count > 0)
        qsort(events->all, events->count, sizeof *events->all, compare_times);
    TN_ASSERT(events->count <= events->matching && events->count <= wanted->most);
    tn_host_free(choosing.blocks.all);
    tn_host_free(choosing.pools.all);
    tn_host_free(choosing.replays);
    tn_host_free(choosing.places);
    if (!done)
        events_free(events);
    return done;
}

void events_free(struct events *events)
{
    tn_host_free(events->all);
    *events = (struct events){.all = NULL};
}
