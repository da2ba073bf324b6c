// SPDX-License-Identifier: Apache-2.0
#include "observe/told_ranges.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/host.h"
#include "pools/ranges.h"

struct reading {
    struct tn_told_ranges *told;
    size_t capacity;
};

static int compare_events(const void *a, const void *b)
{
    const struct tn_told_range *left = a;
    const struct tn_told_range *right = b;

    if (left->place != right->place)
        return left->place < right->place ? -1 : 1;
    return (left->at > right->at) - (left->at < right->at);
}

/* False: no memory. */
static bool add_page(struct reading *reading, const struct tn_ring_copy *page)
{
    struct tn_told_ranges *told = reading->told;
    uint64_t time = 0;

    if (!tn_host_grow((void **)&told->all, &reading->capacity, told->count + page->word_count,
                      sizeof *told->all))
        return false;
    for (size_t at = 0; at < page->word_count; at += tn_ring_words(page->words[at])) {
        const uint64_t *words = &page->words[at];
        const unsigned kind = tn_ring_kind(words[0]);

        if (kind == TN_RING_STAMP)
            time = tn_ring_value(words[0]);
        if ((kind != TN_RANGE_BEGUN && kind != TN_RANGE_ENDED) || tn_ring_words(words[0]) < 2)
            continue;
        told->all[told->count] = (struct tn_told_range){.ends = kind == TN_RANGE_ENDED,
                                                        .range = words[1],
                                                        .title = (uint32_t)words[1],
                                                        .thread = tn_ring_value(words[0]),
                                                        .time = time,
                                                        .place = page->place,
                                                        .at = at};
        told->count += 1;
    }
    TN_ASSERT(told->count <= reading->capacity);
    return true;
}

tarn_status tn_retell_ranges(tn_ring_source read, void *context, size_t page_count,
                             struct tn_told_ranges *told)
{
    struct reading reading = {.told = told};
    uint64_t taken = 0;
    uint64_t pages = 0;
    uint64_t cleared;

    *told = (struct tn_told_ranges){.all = NULL};
    for (size_t i = 0; i < page_count; i++) {
        struct tn_ring_copy copy;

        if (tn_ring_read(read, context, i, &copy) != TN_RING_READ)
            continue;
        taken = tn_max(taken, copy.serial);
        pages += 1;
        if (!add_page(&reading, &copy)) {
            tn_told_ranges_free(told);
            return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a history's ranges");
        }
    }
    cleared = tn_ring_cleared(read, context);
    told->lost_pages = taken > cleared + pages ? taken - cleared - pages : 0;
    if (told->count > 0)
        qsort(told->all, told->count, sizeof *told->all, compare_events);
    return TARN_OK;
}

void tn_told_ranges_free(struct tn_told_ranges *told)
{
    tn_host_free(told->all);
    *told = (struct tn_told_ranges){.all = NULL};
}
