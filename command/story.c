// SPDX-License-Identifier: Apache-2.0
/* The log is walked once. Events are then grouped by their blocks: a free that names a block by its
 * number alone gets the block's words, and what does not follow from the group's events before is left
 * out, as where pages were overwritten. At last all are sorted by time.
 *
 * A stamp may be 64 words old. So a free by another thread may seem to be older than the allocation, and is
 * moved behind it.
 *
 * Trade-offs: all changes are in memory at once, as their order is known at the end alone. */
#include "story.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/host.h"
#include "heap/history.h"

/* An event of a block. */
struct mention {
    uint64_t block;
    size_t at; /* of its change */
};

struct reading {
    struct story *story;
    const struct history *history;
    const struct owners *owners;
    size_t capacity;
    size_t note_capacity;
    struct mention *mentions;
    size_t mention_count;
    uint64_t first;  /* the time of the first event */
    uint64_t newest; /* the highest number of a block */
};

static int compare(uint64_t left, uint64_t right)
{
    return (left > right) - (left < right);
}

/* Events of one stamp by writer, whose events have an order of their own. */
static int compare_changes(const void *a, const void *b)
{
    const struct change *left = a;
    const struct change *right = b;

    if (left->time != right->time)
        return compare(left->time, right->time);
    if ((left->kind == CHANGE_BEFORE) != (right->kind == CHANGE_BEFORE))
        return left->kind == CHANGE_BEFORE ? -1 : 1;
    if (left->is_moved != right->is_moved)
        return left->is_moved ? 1 : -1;
    if (left->is_moved && left->block != right->block)
        return compare(left->block, right->block);
    if (left->is_moved)
        return compare(left->place, right->place);
    if (left->writer != right->writer)
        return compare(left->writer, right->writer);
    return left->place != right->place ? compare(left->place, right->place)
                                       : compare(left->block, right->block);
}

static int compare_mentions(const void *a, const void *b)
{
    const struct mention *left = a;
    const struct mention *right = b;

    return left->block != right->block ? compare(left->block, right->block)
                                       : compare(left->at, right->at);
}

/* Nothing is done where they are in order, as mostly when the second sort comes. */
static void sort_changes(struct change *all, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (compare_changes(&all[i - 1], &all[i]) <= 0)
            continue;
        qsort(all, count, sizeof *all, compare_changes);
        break;
    }
}

static bool add(struct reading *reading, struct change change)
{
    struct story *story = reading->story;
    void *all = story->all;

    if (!tn_host_grow(&all, &reading->capacity, story->count + 1, sizeof change))
        return false;
    story->all = all;
    story->all[story->count++] = change;
    return true;
}

static bool add_note(struct reading *reading, struct change change,
                     const struct tn_note_words *note)
{
    struct story *story = reading->story;
    void *notes = story->notes;

    if (!tn_host_grow(&notes, &reading->note_capacity, story->note_count + 1, sizeof *note))
        return false;
    story->notes = notes;
    story->notes[story->note_count] = *note;
    change.kind = CHANGE_NOTE;
    change.pool = note->pool;
    change.block = story->note_count;
    story->note_count += 1;
    return add(reading, change);
}

static bool visit(void *context, const struct tn_told_event *event)
{
    struct reading *reading = context;
    const struct owner *owner = owners_find(reading->owners, event->writer);
    const struct tn_told_block *block = &event->block;
    const struct change change = {
        .kind = event->kind == TN_HISTORY_FREE ? CHANGE_FREE : CHANGE_ALLOC,
        .stack = block->stack <= UINT32_MAX ? (uint32_t)block->stack : 0,
        .time = history_time(reading->history, event->since),
        .pool = owner != NULL ? owner->pool : 0,
        .block = block->sequence,
        .address = block->address,
        .bytes = block->bytes,
        .requested = block->requested,
        .writer = event->writer,
        .place = event->place << 16 | event->at,
        .is_restored = event->kind == TN_HISTORY_RESTORED,
    };

    reading->first = tn_min(reading->first, change.time);
    if (event->kind == TN_HISTORY_NOTE)
        return add_note(reading, change, &event->note);
    reading->newest = tn_max(reading->newest, change.block);
    reading->mention_count += 1;
    return add(reading, change);
}

/* By block, and the events of one block in the order of time. */
static bool list_mentions(struct reading *reading)
{
    const struct story *story = reading->story;
    size_t count = 0;

    reading->mentions = tn_host_alloc_unset(reading->mention_count + 1, sizeof(struct mention));
    if (reading->mentions == NULL)
        return false;
    for (size_t i = 0; i < story->count; i++) {
        if (story->all[i].kind != CHANGE_NOTE)
            reading->mentions[count++] = (struct mention){story->all[i].block, i};
    }
    TN_ASSERT(count == reading->mention_count);
    qsort(reading->mentions, count, sizeof *reading->mentions, compare_mentions);
    return true;
}

/* The live block with the number; NULL: none. */
static const struct tn_told_block *find_live(const struct tn_told *live, uint64_t number)
{
    size_t begin = 0;
    size_t end = live->count;

    while (begin < end) {
        const size_t middle = begin + (end - begin) / 2;

        if (live->blocks[middle].sequence == number)
            return &live->blocks[middle];
        if (live->blocks[middle].sequence < number)
            begin = middle + 1;
        else
            end = middle;
    }
    return NULL;
}

/* The words that a block's events have in common. */
static struct change find_words(const struct reading *reading, const struct mention *group,
                                size_t count, const struct tn_told_block *live)
{
    const struct change *all = reading->story->all;
    struct change words = {.pool = all[group[0].at].pool};

    for (size_t i = 0; i < count && words.bytes == 0; i++) {
        const struct change *change = &all[group[i].at];

        if (change->bytes > 0)
            words = *change;
    }
    if (words.bytes == 0 && live != NULL)
        words = (struct change){.stack = (uint32_t)live->stack,
                                .address = live->address,
                                .bytes = live->bytes,
                                .requested = live->requested};
    if (live != NULL && live->pool != 0)
        words.pool = live->pool;
    return words;
}

/* The allocation of a block's events; count: the log has lost it. */
static size_t find_allocation(const struct reading *reading, const struct mention *group,
                              size_t count)
{
    size_t i = 0;

    while (i < count && (reading->story->all[group[i].at].kind != CHANGE_ALLOC ||
                         reading->story->all[group[i].at].is_restored))
        i += 1;
    return i;
}

/* Puts a block's allocation first, and what stood before right behind it. */
static void put_first(const struct reading *reading, struct mention *group, size_t allocation)
{
    struct change *all = reading->story->all;
    const struct mention first = group[allocation];

    for (size_t i = allocation; i > 0; i--) {
        group[i] = group[i - 1];
        all[group[i].at].time = all[first.at].time;
        all[group[i].at].is_moved = true;
        all[group[i].at].place = i;
    }
    group[0] = first;
}

static bool add_before(struct reading *reading, uint64_t number, struct change words)
{
    words.kind = CHANGE_BEFORE;
    words.block = number;
    words.time = reading->first;
    words.is_restored = words.is_moved = false;
    return add(reading, words);
}

/* Sees that the events of a block follow from each other. */
static bool read_group(struct reading *reading, struct mention *group, size_t count,
                       const struct tn_told_block *live)
{
    const struct change words = find_words(reading, group, count, live);
    const size_t allocation = find_allocation(reading, group, count);
    uint32_t stack = words.stack;
    bool is_live = false;

    if (allocation < count)
        put_first(reading, group, allocation);
    else if (words.bytes > 0 && reading->story->all[group[0].at].kind == CHANGE_FREE)
        is_live = true; /* before */
    if (is_live && !add_before(reading, group[0].block, words))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct change *change = &reading->story->all[group[i].at];
        const bool becomes = change->kind == CHANGE_ALLOC;

        change->is_lost = words.bytes == 0 || becomes == is_live;
        change->pool = words.pool;
        change->address = words.address;
        change->bytes = words.bytes;
        change->requested = words.requested;
        if (becomes && !change->is_lost)
            stack = change->stack;
        change->stack = stack; /* a free's: of the allocation or restore that it ends */
        reading->story->unknown += words.bytes == 0;
        is_live = becomes;
    }
    return true;
}

static bool read_groups(struct reading *reading, const struct tn_told *live)
{
    size_t count;

    for (size_t i = 0; i < reading->mention_count; i += count) {
        const uint64_t number = reading->mentions[i].block;

        for (count = 1; i + count < reading->mention_count; count++) {
            if (reading->mentions[i + count].block != number)
                break;
        }
        if (!read_group(reading, reading->mentions + i, count, find_live(live, number)))
            return false;
    }
    return true;
}

static bool is_mentioned(const struct reading *reading, uint64_t number)
{
    size_t begin = 0;
    size_t end = reading->mention_count;

    while (begin < end) {
        const size_t middle = begin + (end - begin) / 2;

        if (reading->mentions[middle].block < number)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin < reading->mention_count && reading->mentions[begin].block == number;
}

/* What the table alone has; but for blocks that came behind the reading of the log. */
static bool add_live(struct reading *reading, const struct tn_told *live)
{
    for (size_t i = 0; i < live->count; i++) {
        const struct tn_told_block *block = &live->blocks[i];
        const struct change words = {.stack = (uint32_t)block->stack,
                                     .pool = block->pool,
                                     .address = block->address,
                                     .bytes = block->bytes,
                                     .requested = block->requested};

        if (is_mentioned(reading, block->sequence) ||
            (reading->newest > 0 && block->sequence > reading->newest))
            continue;
        if (!add_before(reading, block->sequence, words))
            return false;
    }
    return true;
}

static void sort(struct story *story)
{
    size_t count = 0;

    for (size_t i = 0; i < story->count; i++) {
        if (!story->all[i].is_lost)
            story->all[count++] = story->all[i];
    }
    story->count = count;
    sort_changes(story->all, count);
}

bool story_read(struct story *story, const struct history *history, const struct owners *owners,
                const struct tn_told *live)
{
    struct reading reading = {
        .story = story, .history = history, .owners = owners, .first = UINT64_MAX};
    uint64_t broken;
    bool done;

    *story = (struct story){.all = NULL};
    done = tn_told_walk(&history->source, visit, &reading, &broken);
    if (reading.first == UINT64_MAX)
        reading.first = history->reader.head.began;
    if (done) /* a block's events come in the order of time, then */
        sort_changes(story->all, story->count);
    done =
        done && list_mentions(&reading) && read_groups(&reading, live) && add_live(&reading, live);
    tn_host_free(reading.mentions);
    if (!done)
        story_free(story);
    sort(story);
    return done;
}

void story_free(struct story *story)
{
    tn_host_free(story->all);
    tn_host_free(story->notes);
    *story = (struct story){.all = NULL};
}

/* They are in the order of their numbers. */
static struct sum *sum_of(struct sums *sums, uint64_t pool)
{
    void *all = sums->all;
    size_t at = 0;

    for (size_t end = sums->count; at < end;) {
        const size_t middle = at + (end - at) / 2;

        if (sums->all[middle].pool < pool)
            at = middle + 1;
        else
            end = middle;
    }
    if (at < sums->count && sums->all[at].pool == pool)
        return &sums->all[at];
    if (!tn_host_grow(&all, &sums->capacity, sums->count + 1, sizeof *sums->all))
        return NULL;
    sums->all = all;
    for (size_t i = sums->count; i > at; i--)
        sums->all[i] = sums->all[i - 1];
    sums->all[at] = (struct sum){.pool = pool};
    sums->count += 1;
    return &sums->all[at];
}

struct sum *sums_add(struct sums *sums, const struct change *change)
{
    struct sum *sum = sum_of(sums, change->pool);

    if (sum == NULL || change->kind == CHANGE_NOTE)
        return sum;
    if (change->kind == CHANGE_FREE) {
        sum->blocks -= tn_min(sum->blocks, 1); /* a foreign file may have any order */
        sum->bytes -= tn_min(sum->bytes, change->bytes);
        sum->requested -= tn_min(sum->requested, change->requested);
    } else {
        sum->blocks += 1;
        sum->bytes += change->bytes;
        sum->requested += change->requested;
    }
    return sum;
}

void sums_free(struct sums *sums)
{
    tn_host_free(sums->all);
    *sums = (struct sums){.all = NULL};
}
