// SPDX-License-Identifier: Apache-2.0
/* Events are collected from all pages and sorted by the numbers of their blocks. A block is live
 * where it was allocated more often than freed: heap/history.h says why the order does not matter.
 *
 * Lost pages of a writer show as gaps among the places of the others, from place 0 on. */
#include "observe/retell.h"

#include <stdlib.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "heap/history.h"

/* The pages of a writer. */
struct place {
    uint64_t writer;
    uint64_t place;
    uint64_t lost;
};

struct collection {
    struct tn_told_block *entries; /* a free's block has no bytes */
    size_t entry_count;
    size_t entry_capacity;
    struct place *places;
    size_t place_count;
    size_t place_capacity;
};

static bool add(struct collection *all, struct tn_told_block block)
{
    void *entries = all->entries;

    if (!tn_host_grow(&entries, &all->entry_capacity, all->entry_count + 1, sizeof *all->entries))
        return false;
    all->entries = entries;
    all->entries[all->entry_count] = block;
    all->entry_count += 1;
    return true;
}

static bool add_place(struct collection *all, const struct tn_ring_copy *page)
{
    void *places = all->places;

    if (!tn_host_grow(&places, &all->place_capacity, all->place_count + 1, sizeof *all->places))
        return false;
    all->places = places;
    all->places[all->place_count] = (struct place){page->writer, page->place, page->lost};
    all->place_count += 1;
    return true;
}

/* False: no memory. */
static bool add_page(struct collection *all, const struct tn_ring_copy *page)
{
    uint64_t number = page->base;
    bool added = add_place(all, page);

    for (size_t at = 0; added && at < page->word_count; at += tn_ring_words(page->words[at])) {
        const uint64_t *words = &page->words[at];
        struct tn_history_block alloc;

        switch (tn_ring_kind(words[0])) {
        case TN_HISTORY_NUMBER:
            number = tn_ring_value(words[0]);
            break;
        case TN_HISTORY_ALLOC:
            if (tn_ring_words(words[0]) < 2)
                break;
            alloc = tn_history_block_of(words);
            if (alloc.requested > alloc.bytes)
                break; /* no writer's */
            added = add(all, (struct tn_told_block){.sequence = number,
                                                    .address = alloc.address,
                                                    .bytes = alloc.bytes,
                                                    .requested = alloc.requested});
            number += 1;
            break;
        case TN_HISTORY_FREE:
            added = add(all, (struct tn_told_block){.sequence = tn_ring_value(words[0])});
            break;
        default: /* a stamp, or an event of a later version */
            break;
        }
    }
    return added;
}

static int compare_entries(const void *a, const void *b)
{
    const struct tn_told_block *left = a;
    const struct tn_told_block *right = b;

    if (left->sequence != right->sequence)
        return left->sequence < right->sequence ? -1 : 1;
    return (left->bytes < right->bytes) - (left->bytes > right->bytes); /* frees last */
}

static int compare_places(const void *a, const void *b)
{
    const struct place *left = a;
    const struct place *right = b;

    if (left->writer != right->writer)
        return left->writer < right->writer ? -1 : 1;
    return (left->place > right->place) - (left->place < right->place);
}

/* Counts pages and events that are missing, by the heads of the others. */
static void count_lost(struct collection *all, struct tn_told *told)
{
    if (all->place_count > 0)
        qsort(all->places, all->place_count, sizeof *all->places, compare_places);
    for (size_t i = 0; i < all->place_count; i++) {
        const struct place *place = &all->places[i];
        bool first = i == 0 || place[-1].writer != place->writer;
        bool last = i + 1 == all->place_count || place[1].writer != place->writer;

        if (first || place->place > place[-1].place) /* else no writer's */
            told->lost_pages += place->place - (first ? 0 : place[-1].place + 1);
        told->lost_events += last ? place->lost : 0;
    }
}

/* Keeps one entry of each live block, at the beginning of the sorted entries. */
static size_t keep_live(struct collection *all, struct tn_told *told)
{
    size_t kept = 0;

    for (size_t i = 0; i < all->entry_count;) {
        const struct tn_told_block first = all->entries[i];
        size_t allocs = 0;
        size_t frees = 0;

        for (; i < all->entry_count && all->entries[i].sequence == first.sequence; i++) {
            allocs += all->entries[i].bytes > 0;
            frees += all->entries[i].bytes == 0;
        }
        told->unknown_frees += frees > allocs ? frees - allocs : 0;
        if (allocs > frees) {
            TN_ASSERT(kept < i);
            all->entries[kept] = first;
            kept += 1;
        }
    }
    return kept;
}

static bool collect(tn_ring_source source, void *context, size_t page_count, struct collection *all,
                    struct tn_told *told)
{
    for (size_t i = 0; i < page_count; i++) {
        struct tn_ring_copy page;
        enum tn_ring_read read = tn_ring_read(source, context, i, &page);

        if (read == TN_RING_READ && !add_page(all, &page))
            return false;
        told->broken_pages += read == TN_RING_BROKEN;
    }
    return true;
}

tarn_status tn_retell(tn_ring_source source, void *context, size_t page_count, struct tn_told *told)
{
    struct collection all = {.entries = NULL};
    tarn_status status = TARN_OK;

    *told = (struct tn_told){.blocks = NULL};
    if (collect(source, context, page_count, &all, told)) {
        if (all.entry_count > 0)
            qsort(all.entries, all.entry_count, sizeof *all.entries, compare_entries);
        count_lost(&all, told);
        told->event_count = all.entry_count;
        told->count = keep_live(&all, told);
        TN_ASSERT(told->count <= all.entry_count);
        told->blocks = all.entries;
    } else {
        status = tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for the history's %zu events",
                         all.entry_count);
        tn_host_free(all.entries);
    }
    tn_host_free(all.places);
    return status;
}

void tn_told_free(struct tn_told *told)
{
    tn_host_free(told->blocks);
    *told = (struct tn_told){.blocks = NULL};
}
