// SPDX-License-Identifier: Apache-2.0
/* How far each writer has come, the cut, is read first; then the table, then the log. A block's entry
 * in the table tells whether the block was live at some time behind the cut. The log has what happened
 * to the block behind the cut:
 *
 *     allocated for the first time   not live at the cut
 *     freed more often than restored live at the cut; if the reverse, not live
 *     nothing, or both as often      as the table says
 *
 * The events of a block are brought together by sorting. */
#include "observe/retell.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "base/ring_file.h"
#include "heap/history.h"
#include "observe/told_tables.h"

struct page_of {
    uint64_t serial;
    uint64_t writer;
    uint64_t place;
    size_t count;
};

struct pages {
    struct page_of *all;
    size_t count;
    size_t capacity;
};

struct events {
    struct tn_told_event *all;
    size_t count;
    size_t capacity;
    tn_told_visit visit; /* NULL: they are kept */
    void *context;
};

/* Room for one more in an array; false: no memory. */
static bool grow(void **array, size_t *capacity, size_t count, size_t size)
{
    return tn_host_grow(array, capacity, count + 1, size);
}

static bool add_event(struct events *events, const struct tn_told_event *event)
{
    void *all = events->all;

    if (events->visit != NULL)
        return events->visit(events->context, event);
    if (!grow(&all, &events->capacity, events->count, sizeof *events->all))
        return false;
    events->all = all;
    events->all[events->count] = *event;
    events->count += 1;
    return true;
}

static bool add_page(struct pages *pages, const struct tn_ring_copy *copy)
{
    void *all = pages->all;

    if (!grow(&all, &pages->capacity, pages->count, sizeof *pages->all))
        return false;
    pages->all = all;
    pages->all[pages->count] =
        (struct page_of){copy->serial, copy->writer, copy->place, copy->word_count};
    pages->count += 1;
    return true;
}

static int compare(uint64_t left, uint64_t right)
{
    return (left > right) - (left < right);
}

static int compare_pages(const void *a, const void *b)
{
    const struct page_of *left = a;
    const struct page_of *right = b;

    return left->writer != right->writer ? compare(left->writer, right->writer)
                                         : compare(left->place, right->place);
}

static int compare_events(const void *a, const void *b)
{
    const struct tn_told_event *left = a;
    const struct tn_told_event *right = b;

    if (left->writer != right->writer)
        return compare(left->writer, right->writer);
    if (left->place != right->place)
        return compare(left->place, right->place);
    /* Of the two events in one, the block that is freed has the lower number. */
    return left->at != right->at ? compare(left->at, right->at)
                                 : compare(left->block.sequence, right->block.sequence);
}

static int compare_times(const void *a, const void *b)
{
    const struct tn_told_event *left = a;
    const struct tn_told_event *right = b;

    return left->since != right->since ? compare(left->since, right->since) : compare_events(a, b);
}

static int compare_mentions(const void *a, const void *b)
{
    return compare(((const struct tn_mention *)a)->block.sequence,
                   ((const struct tn_mention *)b)->block.sequence);
}

/* The words of an allocation; bytes 0: no writer's. */
static struct tn_told_block block_of(uint64_t sequence, const uint64_t words[2])
{
    struct tn_history_block block = tn_history_block_of(words);

    if (block.requested > block.bytes)
        block = (struct tn_history_block){.bytes = 0};
    return (struct tn_told_block){.sequence = sequence,
                                  .address = block.address,
                                  .bytes = block.bytes,
                                  .requested = block.requested};
}

/* The allocations of a page behind the last number that stands between. */
struct run {
    uint64_t begin; /* the first one's number */
    size_t count;
    struct tn_told_block blocks[TN_RING_WORDS];
};

static void begin_run(struct run *run, uint64_t number)
{
    run->begin = number;
    run->count = 0;
}

/* The next allocation of the run: these are its words; its number is filled in. */
static struct tn_told_block *add_to_run(struct run *run, struct tn_told_block block)
{
    struct tn_told_block *added = &run->blocks[run->count];

    TN_ASSERT(run->count < TN_RING_WORDS); /* each has a word */
    *added = block;
    added->sequence = run->begin + run->count;
    run->count += 1;
    return added;
}

/* The block freed with that number, allocated again: two events. */
static bool add_again(struct events *events, struct run *run, struct tn_told_event event,
                      uint64_t freed)
{
    bool is_known = freed >= run->begin && freed - run->begin < run->count &&
                    run->blocks[freed - run->begin].bytes > 0;
    bool added;

    event.kind = TN_HISTORY_FREE;
    event.block =
        is_known ? run->blocks[freed - run->begin] : (struct tn_told_block){.sequence = freed};
    added = add_event(events, &event);
    event.kind = TN_HISTORY_ALLOC;
    event.block = *add_to_run(run, event.block);
    return added && (!is_known || add_event(events, &event));
}

static bool add_page_events(struct events *events, const struct tn_ring_copy *page, struct run *run)
{
    uint64_t stamp = 0;
    bool added = true;

    begin_run(run, page->base);

    for (size_t at = 0; added && at < page->word_count; at += tn_ring_words(page->words[at])) {
        const uint64_t *words = &page->words[at];
        struct tn_told_event event = {.writer = page->writer,
                                      .place = page->place,
                                      .at = at,
                                      .kind = tn_ring_kind(words[0]),
                                      .since = stamp};

        switch (event.kind) {
        case TN_RING_STAMP:
            stamp = tn_ring_value(words[0]);
            break;
        case TN_HISTORY_NUMBER:
            begin_run(run, tn_ring_value(words[0]));
            break;
        case TN_HISTORY_ALLOC:
        case TN_HISTORY_RESTORED:
            if (tn_ring_words(words[0]) >= 2)
                event.block = block_of(0, words);
            if (tn_ring_words(words[0]) >= 3)
                event.block.stack = words[2];
            event.block = *add_to_run(run, event.block);
            if (event.block.bytes > 0)
                added = add_event(events, &event);
            break;
        case TN_HISTORY_FREE:
            event.block.sequence = tn_ring_value(words[0]);
            if (tn_ring_words(words[0]) >= 3)
                event.block = block_of(event.block.sequence, words + 1);
            if (tn_ring_words(words[0]) >= 4)
                event.block.stack = words[3];
            added = add_event(events, &event);
            break;
        case TN_HISTORY_AGAIN:
            added = add_again(events, run, event, tn_ring_value(words[0]));
            break;
        case TN_HISTORY_NOTE:
            if (tn_note_read(words, &event.note))
                added = add_event(events, &event);
            break;
        default: /* an event of a later version */
            break;
        }
    }
    return added;
}

/* Reads all pages; events NULL: heads alone; pages NULL: no heads are kept. */
static bool read_log(const struct tn_told_source *source, struct pages *pages,
                     struct events *events, uint64_t *broken)
{
    struct run run;

    for (size_t i = 0; i < source->page_count; i++) {
        struct tn_ring_copy copy;
        enum tn_ring_read read = tn_ring_read(source->read, source->context, i, &copy);

        *broken += read == TN_RING_BROKEN;
        if (read != TN_RING_READ)
            continue;
        if ((pages != NULL && !add_page(pages, &copy)) ||
            (events != NULL && !add_page_events(events, &copy, &run)))
            return false;
    }
    if (pages != NULL && pages->count > 0)
        qsort(pages->all, pages->count, sizeof *pages->all, compare_pages);
    if (events != NULL && events->count > 0)
        qsort(events->all, events->count, sizeof *events->all, compare_events);
    return true;
}

/* The end of each writer in the sorted pages. */
static bool cut_at(const struct pages *pages, struct tn_told_cuts *cut)
{
    cut->count = 0;
    cut->cuts = tn_host_alloc(pages->count + 1, sizeof *cut->cuts);
    for (size_t i = 0; i < pages->count && cut->cuts != NULL; i++) {
        const struct page_of *page = &pages->all[i];

        if (i + 1 < pages->count && page[1].writer == page->writer)
            continue;
        cut->cuts[cut->count] = (struct tn_told_cut){page->writer, page->place, page->count};
        cut->count += 1;
    }
    return cut->cuts != NULL;
}

/* Whether the event is behind the cut. *at: the place of the last search; events come in order. */
static bool is_behind(const struct tn_told_cuts *cut, size_t *at, const struct tn_told_event *event)
{
    const struct tn_told_cut *own;

    while (*at < cut->count && cut->cuts[*at].writer < event->writer)
        *at += 1;
    own = &cut->cuts[*at];
    if (*at == cut->count || own->writer != event->writer)
        return true; /* a writer that came later */
    return event->place != own->place ? event->place > own->place : event->at >= own->at;
}

/* How often the event, which is behind the cut, has its block freed. */
static int frees_by(const struct tn_told_event *event)
{
    return (event->kind == TN_HISTORY_FREE) - (event->kind == TN_HISTORY_RESTORED);
}

static bool mention_events(struct tn_mentions *mentions, const struct tn_told *told)
{
    bool added = true;
    size_t at = 0;

    for (size_t i = 0; i < told->event_count && added; i++) {
        const struct tn_told_event *event = &told->events[i];
        struct tn_mention mention = {.block = event->block};

        if (event->kind == TN_HISTORY_NOTE)
            continue;
        if (is_behind(&told->cut, &at, event)) {
            mention.begins = event->kind == TN_HISTORY_ALLOC;
            mention.frees = frees_by(event);
        }
        added = tn_mentions_add(mentions, &mention);
    }
    return added;
}

/* Counts the pages that are missing: a page's serial says how many were taken up to then. Pages that
 * were cleared are not missing. */
static void count_lost_pages(const struct pages *pages, uint64_t cleared, struct tn_told *told)
{
    uint64_t taken = cleared;
    uint64_t seen = 0;

    for (size_t i = 0; i < pages->count; i++) {
        taken = tn_max(taken, pages->all[i].serial);
        seen += pages->all[i].serial > cleared;
    }
    told->lost_pages = taken - cleared > seen ? taken - cleared - seen : 0;
}

/* The blocks that were live at the cut, by all mentions of each. */
static bool tell_blocks(struct tn_mentions *mentions, struct tn_told *told)
{
    told->blocks = tn_host_alloc(mentions->count + 1, sizeof *told->blocks);
    if (told->blocks == NULL)
        return false;
    if (mentions->count > 0)
        qsort(mentions->all, mentions->count, sizeof *mentions->all, compare_mentions);
    for (size_t i = 0; i < mentions->count;) {
        struct tn_mention known = mentions->all[i];

        for (i += 1; i < mentions->count && mentions->all[i].block.sequence == known.block.sequence;
             i++) {
            const struct tn_mention *more = &mentions->all[i];

            known.in_table = known.in_table || more->in_table;
            known.begins = known.begins || more->begins;
            known.frees += more->frees;
            if (known.block.bytes == 0 || (more->in_table && more->block.bytes > 0))
                known.block = more->block;
        }
        if (known.begins || known.frees < 0 || (known.frees == 0 && !known.in_table))
            continue;
        told->lost_blocks += known.block.bytes == 0;
        if (known.block.bytes == 0)
            continue;
        told->blocks[told->count] = known.block;
        told->count += 1;
    }
    TN_ASSERT(told->count <= mentions->count);
    return true;
}

static int compare_places(const void *a, const void *b)
{
    const struct tn_told_block *left = *(struct tn_told_block *const *)a;
    const struct tn_told_block *right = *(struct tn_told_block *const *)b;

    return left->address != right->address ? compare(left->address, right->address)
                                           : compare(left->sequence, right->sequence);
}

/* Of blocks that overlap, the older is taken out. Writers are read in turn: a cut may be in front of
 * a free, and behind the next allocation of the same memory, by another writer. */
static bool take_overlapped_out(struct tn_told *told)
{
    struct tn_told_block **all = tn_host_alloc(told->count + 1, sizeof(struct tn_told_block *));
    struct tn_told_block *last = NULL;
    size_t kept = 0;

    if (all == NULL)
        return false;
    for (size_t i = 0; i < told->count; i++)
        all[i] = &told->blocks[i];
    if (told->count > 0)
        qsort(all, told->count, sizeof all[0], compare_places);
    for (size_t i = 0; i < told->count; i++) {
        bool overlaps = last != NULL && all[i]->address - last->address < last->bytes;

        if (overlaps && all[i]->sequence < last->sequence) {
            all[i]->bytes = 0;
            continue;
        }
        if (overlaps)
            last->bytes = 0;
        last = all[i];
    }
    tn_host_free(all);
    for (size_t i = 0; i < told->count; i++) {
        if (told->blocks[i].bytes > 0)
            told->blocks[kept++] = told->blocks[i];
    }
    TN_ASSERT(kept <= told->count);
    told->count = kept;
    return true;
}

static bool copy_cut(struct tn_told_cuts *to, const struct tn_told_cuts *from)
{
    to->cuts = tn_host_alloc(from->count + 1, sizeof *to->cuts);
    if (to->cuts == NULL)
        return false;
    if (from->count > 0)
        memcpy(to->cuts, from->cuts, from->count * sizeof *to->cuts);
    to->count = from->count;
    return true;
}

/* The cut of a walk, and what is found behind it. */
struct behind {
    const struct tn_told_cuts *cut;
    struct tn_mentions *mentions;
};

static bool mention_behind(void *context, const struct tn_told_event *event)
{
    const struct behind *behind = context;
    struct tn_mention mention = {.block = event->block};
    size_t begin = 0;
    size_t end = behind->cut->count;

    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;

        if (behind->cut->cuts[middle].writer < event->writer)
            begin = middle + 1;
        else
            end = middle;
    }
    if (event->kind == TN_HISTORY_NOTE || !is_behind(behind->cut, &begin, event))
        return true;
    mention.begins = event->kind == TN_HISTORY_ALLOC;
    mention.frees = frees_by(event);
    return tn_mentions_add(behind->mentions, &mention);
}

/* cut NULL: when the reading begins. with_events false: none are told. */
static bool retell(const struct tn_told_source *source, const struct tn_told_cuts *cut,
                   bool with_events, struct tn_mentions *mentions, struct pages *pages,
                   struct tn_told *told)
{
    struct behind behind = {&told->cut, mentions};
    struct events events = {.visit = with_events ? NULL : mention_behind, .context = &behind};
    uint64_t broken = 0;
    bool done = cut != NULL ? copy_cut(&told->cut, cut)
                            : read_log(source, pages, NULL, &broken) && cut_at(pages, &told->cut);

    pages->count = 0;
    done = done && tn_told_read_tables(source, mentions, &told->unread_parts) &&
           read_log(source, pages, &events, &told->broken_pages);
    told->events = events.all;
    told->event_count = events.count;
    if (!done)
        return false;
    count_lost_pages(pages, tn_ring_cleared(source->read, source->context), told);
    told->lost_events = tn_ring_lost(source->read, source->context);
    return mention_events(mentions, told) && tell_blocks(mentions, told) &&
           take_overlapped_out(told);
}

static tarn_status tell(const struct tn_told_source *source, const struct tn_told_cuts *cut,
                        bool with_events, struct tn_told *told)
{
    struct tn_mentions mentions = {.all = NULL};
    struct pages pages = {.all = NULL};
    tarn_status status = TARN_OK;

    *told = (struct tn_told){.blocks = NULL};
    if (!retell(source, cut, with_events, &mentions, &pages, told)) {
        status = tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for the history's %zu events",
                         told->event_count);
        tn_told_free(told);
    }
    tn_host_free(mentions.all);
    tn_host_free(pages.all);
    return status;
}

tarn_status tn_retell(const struct tn_told_source *source, const struct tn_told_cuts *cut,
                      struct tn_told *told)
{
    return tell(source, cut, true, told);
}

tarn_status tn_retell_blocks(const struct tn_told_source *source, struct tn_told *told)
{
    return tell(source, NULL, false, told);
}

bool tn_told_walk(const struct tn_told_source *source, tn_told_visit visit, void *context,
                  uint64_t *broken)
{
    struct events events = {.visit = visit, .context = context};

    *broken = 0;
    return read_log(source, NULL, &events, broken);
}

void tn_told_sort_by_time(struct tn_told *told)
{
    if (told->event_count > 0)
        qsort(told->events, told->event_count, sizeof *told->events, compare_times);
}

void tn_told_free(struct tn_told *told)
{
    tn_host_free(told->blocks);
    tn_host_free(told->events);
    tn_host_free(told->cut.cuts);
    *told = (struct tn_told){.blocks = NULL};
}
