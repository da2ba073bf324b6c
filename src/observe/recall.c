// SPDX-License-Identifier: Apache-2.0
/* A block's number is written behind the block's words. Words between two equal readings of the number
 * are the words of this number.
 *
 * Of the log only pages are read that have grown since step 1. An event is behind the cut if the page
 * was taken behind the cut, or if the event stands behind the place of the cut in the page. A page
 * that was left before the cut has no such place: all events of the page come before. Pages taken
 * from the cut to the end of step 3's look at the table must all be there. Writers of other pools
 * have no cut, and write of no block of these pools.
 *
 * Trade-offs: a restore gives a block its number again. Where the log has one, nothing is told. The
 * heads of all pages are read twice: 0.2 ms for 16 MiB. */
#include "observe/recall.h"

#include <stdlib.h>
#include <string.h>

#include "base/contract.h"
#include "base/host.h"
#include "heap/history.h"
#include "heap/sequence.h"

struct tn_recall_page {
    uint64_t serial;
    uint64_t count; /* of words */
};

struct tn_recall_cut {
    const struct tn_ring_page *page;
    uint64_t at;
};

enum { TABLES_IN_PART = TN_RING_FIRST_PART_BYTES / TN_HISTORY_TABLE_BYTES, AHEAD = 24 };

static uint64_t load(const atomic_uint_fast64_t *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
}

/* The entry's block; number 0: the block is being freed. */
static struct tn_recalled_block read_entry(const struct tn_history_entry *entry, uint64_t number,
                                           size_t place)
{
    struct tn_recalled_block block = {
        .number = number,
        .address = load(&entry->address),
        .requested = load(&entry->requested),
        .units = (uint32_t)load(&entry->units),
        .stack = (uint32_t)load(&entry->stack),
        .tag = tn_history_tag(entry, number),
        .place = (uint32_t)place,
    };

    if (load(&entry->number) != number)
        block.number = 0;
    return block;
}

/* Called with each table of these pools. A table of theirs that was given back comes once more, and
 * its entries have no numbers. False: no memory. */
typedef bool (*table_visitor)(struct tn_recall *recall, const struct tn_history_table *table,
                              size_t place, bool is_theirs);

static bool visit_table(struct tn_recall *recall, const struct tn_history_table *table,
                        size_t place, table_visitor visitor)
{
    bool *was_theirs = &recall->were_theirs[place / TN_HISTORY_ENTRIES];
    const uint64_t pool = load(&table->pool);
    const bool is_theirs = pool != 0 && (recall->pool == 0 || pool == recall->pool);

    if (!is_theirs && !*was_theirs)
        return true;
    *was_theirs = is_theirs;
    return visitor(recall, table, place, is_theirs);
}

static bool visit_tables(struct tn_recall *recall, table_visitor visitor)
{
    size_t place = 0;

    for (size_t part = 0; part < recall->part_count; part++) {
        const struct tn_history_table *tables = recall->history->file.parts[part];

        for (size_t i = 0; i < (size_t)TABLES_IN_PART << part; i++) {
            if (!visit_table(recall, &tables[i], place, visitor))
                return false;
            place += TN_HISTORY_ENTRIES;
        }
    }
    TN_ASSERT(place == recall->place_count);
    return true;
}

static bool see(struct tn_recall *recall, const struct tn_history_table *table, size_t place,
                bool is_theirs)
{
    struct tn_recalled_block *next = &recall->seen[recall->count];

    TN_ASSERT(is_theirs);
    (void)is_theirs;
    for (size_t i = 0; i < TN_HISTORY_ENTRIES; i++) {
        const struct tn_history_entry *entry = &table->entries[i];
        const uint64_t number = load(&entry->number);

        __builtin_prefetch(entry + AHEAD);
        if (number != 0) {
            *next = read_entry(entry, number, place + i);
            next += next->number != 0;
        }
    }
    recall->count = (size_t)(next - recall->seen);
    TN_ASSERT(recall->count <= recall->place_count);
    return true;
}

static void see_pages(struct tn_recall *recall)
{
    struct tn_ring *ring = &recall->history->ring;
    const size_t count = tn_ring_reserved(ring);

    recall->lost = load(&ring->pages->lost_in_ring);
    for (size_t i = 0; i < count; i++) {
        __builtin_prefetch(&ring->pages[i + AHEAD < count ? i + AHEAD : i]);
        recall->pages[i].serial = load(&ring->pages[i].serial);
        recall->pages[i].count = load(&ring->pages[i].count);
    }
}

static size_t count_parts(struct tn_history *history)
{
    size_t count;

    tn_spin_acquire(&history->tables.lock);
    count = history->file.part_count;
    tn_spin_release(&history->tables.lock);
    return count;
}

bool tn_recall_begin(struct tn_recall *recall, tarn_device *device, uint64_t pool, size_t cut_room)
{
    struct tn_history *history = &device->history;

    TN_ASSERT(history->file.head != NULL);
    *recall = (struct tn_recall){.history = history, .pool = pool, .cut_room = cut_room};
    recall->part_count = count_parts(history);
    for (size_t part = 0; part < recall->part_count; part++)
        recall->place_count += ((size_t)TABLES_IN_PART << part) * TN_HISTORY_ENTRIES;
    recall->seen = tn_host_alloc_unset(recall->place_count + 1, sizeof *recall->seen);
    recall->were_theirs = tn_host_alloc(recall->place_count / TN_HISTORY_ENTRIES + 1, sizeof(bool));
    recall->pages = tn_host_alloc(history->ring.page_count, sizeof *recall->pages);
    recall->cuts = tn_host_alloc(cut_room + TN_RING_SHARED, sizeof *recall->cuts);
    if (recall->seen == NULL || recall->were_theirs == NULL || recall->pages == NULL ||
        recall->cuts == NULL) {
        tn_recall_end(recall);
        return false;
    }
    see_pages(recall);
    return visit_tables(recall, see);
}

void tn_recall_end(struct tn_recall *recall)
{
    tn_host_free(recall->seen);
    tn_host_free(recall->were_theirs);
    tn_host_free(recall->pages);
    tn_host_free(recall->cuts);
    tn_host_free(recall->known.all);
    tn_host_free(recall->freed.all);
    *recall = (struct tn_recall){.history = NULL};
}

void tn_recall_cut(struct tn_recall *recall, const struct tn_ring_writer *writer)
{
    if (writer->page == NULL)
        return;
    TN_ASSERT(recall->cut_count < recall->cut_room + TN_RING_SHARED);
    recall->cuts[recall->cut_count] = (struct tn_recall_cut){writer->page, writer->at};
    recall->cut_count += 1;
}

static uint64_t count_taken(struct tn_ring *ring)
{
    uint64_t count;

    tn_spin_acquire(&ring->lock);
    count = ring->taken;
    tn_spin_release(&ring->lock);
    return count;
}

void tn_recall_cut_others(struct tn_recall *recall)
{
    struct tn_ring *ring = &recall->history->ring;

    for (size_t i = 0; i < TN_RING_SHARED; i++) {
        tn_spin_acquire(&ring->shared[i].lock);
        tn_recall_cut(recall, &ring->shared[i].writer);
        tn_spin_release(&ring->shared[i].lock);
    }
    recall->taken = count_taken(ring);
    recall->highest = load(tn_sequence_counter());
}

static int compare(uint64_t left, uint64_t right)
{
    return (left > right) - (left < right);
}

static int compare_cuts(const void *a, const void *b)
{
    return compare((uintptr_t)((const struct tn_recall_cut *)a)->page,
                   (uintptr_t)((const struct tn_recall_cut *)b)->page);
}

static int compare_numbers(const void *a, const void *b)
{
    return compare(((const struct tn_recalled_block *)a)->number,
                   ((const struct tn_recalled_block *)b)->number);
}

/* Adds to a list; false: no memory. */
static bool add(struct tn_recalled_blocks *list, const struct tn_recalled_block *block)
{
    void *all = list->all;

    if (!tn_host_grow(&all, &list->capacity, list->count + 1, sizeof *list->all))
        return false;
    list->all = all;
    list->all[list->count] = *block;
    list->count += 1;
    return true;
}

static void sort(struct tn_recalled_blocks *list)
{
    if (list->count > 0)
        qsort(list->all, list->count, sizeof *list->all, compare_numbers);
}

static const struct tn_recalled_block *find(const struct tn_recalled_blocks *list, uint64_t number)
{
    const struct tn_recalled_block wanted = {.number = number};

    return list->count > 0
               ? bsearch(&wanted, list->all, list->count, sizeof wanted, compare_numbers)
               : NULL;
}

/* Reads an entry again. seen: the block in step 1; NULL: none. False: no memory. */
static bool see_changed(struct tn_recall *recall, const struct tn_history_entry *entry,
                        uint64_t number, size_t place, struct tn_recalled_block *seen)
{
    if (seen != NULL && !add(&recall->known, seen))
        return false;
    if (seen != NULL)
        seen->number = 0;
    if (number == 0 || number > recall->highest)
        return true;
    if (seen == NULL) {
        TN_ASSERT(recall->count < recall->place_count);
        seen = &recall->seen[recall->count];
        recall->count += 1;
    }
    *seen = read_entry(entry, number, place);
    return true;
}

/* Reads a table again: a block is still there, or has gone, and another may have come. */
static bool see_again(struct tn_recall *recall, const struct tn_history_table *table, size_t place,
                      bool is_theirs)
{
    struct tn_recalled_block *next = &recall->seen[recall->next];
    const struct tn_recalled_block *const end = &recall->seen[recall->seen_count];

    for (size_t i = 0; i < TN_HISTORY_ENTRIES; i++) {
        const struct tn_history_entry *entry = &table->entries[i];
        const uint64_t number = is_theirs ? load(&entry->number) : 0;
        struct tn_recalled_block *seen = NULL;

        __builtin_prefetch(entry + AHEAD);
        if (next < end && next->place == place + i)
            seen = next++;
        if (number != (seen != NULL ? seen->number : 0) &&
            !see_changed(recall, entry, number, place + i, seen))
            return false;
    }
    recall->next = (size_t)(next - recall->seen);
    return true;
}

/* Where the page's events behind the cut begin. */
static uint64_t begin_of(const struct tn_recall *recall, size_t page, uint64_t serial)
{
    const struct tn_recall_cut wanted = {.page = &recall->history->ring.pages[page]};
    const struct tn_recall_cut *cut = NULL;

    if (serial > recall->taken)
        return 0;
    if (recall->cut_count > 0)
        cut = bsearch(&wanted, recall->cuts, recall->cut_count, sizeof wanted, compare_cuts);
    return cut != NULL ? cut->at : TN_RING_WORDS;
}

/* A page's events, one after the other. */
struct reading {
    struct tn_recall *recall;
    uint64_t begin;                              /* of those behind the cut */
    uint64_t next;                               /* number of an allocation */
    struct tn_recalled_block run[TN_RING_WORDS]; /* allocations of the page */
    size_t run_count;
    bool restores; /* there is an event that cannot be told */
};

static struct tn_recalled_block block_of(const uint64_t *words, size_t count, uint64_t number)
{
    const struct tn_history_block block = tn_history_block_of(words);

    return (struct tn_recalled_block){.number = number,
                                      .address = block.address,
                                      .requested = block.requested,
                                      .units = (uint32_t)(block.bytes >> TN_BLOCK_BITS),
                                      .stack = count > 2 ? (uint32_t)words[2] : 0};
}

/* A block that the log says more of than its number. */
static bool add_known(struct reading *reading, const struct tn_recalled_block *block)
{
    return block->number > reading->recall->highest || add(&reading->recall->known, block);
}

static bool add_alloc(struct reading *reading, struct tn_recalled_block block)
{
    block.number = reading->next;
    reading->next += 1;
    reading->run[reading->run_count] = block;
    reading->run_count += 1;
    TN_ASSERT(reading->run_count <= TN_RING_WORDS);
    return block.units == 0 || add_known(reading, &block);
}

static bool add_free(struct reading *reading, size_t at, uint64_t number)
{
    const struct tn_recalled_block block = {.number = number};

    return at < reading->begin || number > reading->recall->highest ||
           add(&reading->recall->freed, &block);
}

/* The allocation in the page with that number; units 0: not known. */
static struct tn_recalled_block find_in_run(const struct reading *reading, uint64_t number)
{
    for (size_t i = reading->run_count; i > 0; i--) {
        if (reading->run[i - 1].number == number)
            return reading->run[i - 1];
    }
    return (struct tn_recalled_block){.number = 0};
}

static bool read_event(struct reading *reading, const uint64_t *words, size_t at)
{
    const size_t count = tn_ring_words(words[0]);
    const uint64_t value = tn_ring_value(words[0]);
    struct tn_recalled_block block;

    switch (tn_ring_kind(words[0])) {
    case TN_HISTORY_NUMBER:
        reading->next = value;
        return true;
    case TN_HISTORY_RESTORED:
        reading->restores = reading->restores || at >= reading->begin;
        return add_alloc(reading, (struct tn_recalled_block){.number = 0});
    case TN_HISTORY_ALLOC:
        block = count > 1 ? block_of(words, count, 0) : (struct tn_recalled_block){.units = 0};
        return add_alloc(reading, block);
    case TN_HISTORY_FREE:
        block = count > 2 ? block_of(words + 1, count - 1, value)
                          : (struct tn_recalled_block){.units = 0};
        return add_free(reading, at, value) && (block.units == 0 || add_known(reading, &block));
    case TN_HISTORY_AGAIN:
        return add_free(reading, at, value) && add_alloc(reading, find_in_run(reading, value));
    default:
        return true;
    }
}

/* Reads what was written since step 1. */
static enum tn_recall_answer read_log(struct tn_recall *recall)
{
    struct tn_ring *ring = &recall->history->ring;
    struct reading reading = {.recall = recall};
    const size_t count = tn_ring_reserved(ring);
    uint64_t read = 0; /* pages taken from the cut to the end, and read */

    for (size_t i = 0; i < count; i++) {
        const uint64_t serial = load(&ring->pages[i].serial);
        struct tn_ring_copy copy;

        __builtin_prefetch(&ring->pages[i + AHEAD < count ? i + AHEAD : i]);
        if (serial == recall->pages[i].serial &&
            load(&ring->pages[i].count) == recall->pages[i].count)
            continue;
        if (tn_ring_read(tn_ring_from_memory, ring, i, &copy) != TN_RING_READ)
            continue; /* overwritten now */
        read += copy.serial > recall->taken && copy.serial <= recall->taken_at_end;
        reading.begin = begin_of(recall, i, copy.serial);
        reading.next = copy.base;
        reading.run_count = 0;
        for (size_t at = 0; at < copy.word_count; at += tn_ring_words(copy.words[at])) {
            if (!read_event(&reading, &copy.words[at], at))
                return TN_RECALL_NO_MEMORY;
        }
    }
    if (reading.restores || recall->taken_at_end - recall->taken != read ||
        load(&ring->pages->lost_in_ring) != recall->lost)
        return TN_RECALL_LOST;
    for (size_t i = 0; i < recall->cut_count; i++) { /* was a page overwritten behind its cut? */
        if (load(&recall->cuts[i].page->serial) - 1 >= recall->taken)
            return TN_RECALL_LOST;
    }
    return TN_RECALL_DONE;
}

/* Puts the blocks of the table that were live at the cut side by side. */
static void join(struct tn_recall *recall)
{
    size_t count = 0;

    for (size_t i = 0; i < recall->count; i++) {
        if (recall->seen[i].number != 0)
            recall->seen[count++] = recall->seen[i];
    }
    TN_ASSERT(count <= recall->count);
    recall->count = count;
}

/* How many of the freed blocks the table still had when it was read: their entries go last. */
static size_t count_there(const struct tn_recall *recall, const struct tn_recalled_blocks *unknown)
{
    size_t count = 0;

    for (size_t i = 0; unknown->count > 0 && i < recall->count; i++)
        count += find(unknown, recall->seen[i].number) != NULL;
    return count;
}

/* Adds the blocks that were freed behind the cut; some of them twice. */
static enum tn_recall_answer add_freed(struct tn_recall *recall)
{
    struct tn_recalled_blocks unknown = {.all = NULL};
    enum tn_recall_answer answer = TN_RECALL_DONE;
    const size_t from_table = recall->count;

    sort(&recall->known);
    sort(&recall->freed);
    for (size_t i = 0; i < recall->freed.count && answer == TN_RECALL_DONE; i++) {
        const struct tn_recalled_block *block = find(&recall->known, recall->freed.all[i].number);

        if (block == NULL)
            answer = add(&unknown, &recall->freed.all[i]) ? answer : TN_RECALL_NO_MEMORY;
        else if (recall->count == recall->place_count)
            answer = TN_RECALL_LOST;
        else
            recall->seen[recall->count++] = *block;
    }
    TN_ASSERT(recall->count >= from_table);
    if (answer == TN_RECALL_DONE && count_there(recall, &unknown) != unknown.count)
        answer = TN_RECALL_LOST;
    tn_host_free(unknown.all);
    return answer;
}

enum tn_recall_answer tn_recall_find(struct tn_recall *recall)
{
    enum tn_recall_answer answer;

    if (recall->cut_count > 0)
        qsort(recall->cuts, recall->cut_count, sizeof *recall->cuts, compare_cuts);
    if (count_parts(recall->history) != recall->part_count)
        return TN_RECALL_LOST;
    recall->seen_count = recall->count;
    if (!visit_tables(recall, see_again))
        return TN_RECALL_NO_MEMORY;
    recall->taken_at_end = count_taken(&recall->history->ring);
    answer = read_log(recall);
    if (answer != TN_RECALL_DONE)
        return answer;
    if (tn_ring_skips(&recall->history->ring, TN_RING_SKIPS_OWN))
        return TN_RECALL_LOST;
    join(recall);
    return add_freed(recall);
}
