// SPDX-License-Identifier: Apache-2.0
/* What all models of the process hold together, when several share a device: a table of ranges in
 * order of address, behind a lock. A range enters it after the library gave it and leaves it before
 * the library gets it back, so that two ranges of the table never overlap. */
#include "model/state.h"

#include <pthread.h>

enum { RANGES_MAX = 8192 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range ranges[RANGES_MAX];
static size_t range_count;

/* The first range that ends behind the address. */
static size_t place(uintptr_t address)
{
    size_t low = 0;
    size_t high = range_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (ranges[middle].high <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void shared_add(struct model *m, struct range range)
{
    size_t at;

    if (m->owns_device)
        return; /* alone: its own blocks are all */
    pthread_mutex_lock(&lock);
    at = place(range.low);
    EXPECT(m, range_count < RANGES_MAX, "the models hold too many blocks");
    EXPECT(m, at == range_count || !overlap(ranges[at], range),
           "a block at %#zx overlaps one of another thread at %#zx", (size_t)range.low,
           (size_t)ranges[at].low);
    memmove(&ranges[at + 1], &ranges[at], (range_count - at) * sizeof ranges[0]);
    ranges[at] = range;
    range_count += 1;
    pthread_mutex_unlock(&lock);
}

void shared_remove(struct model *m, struct range range)
{
    size_t at;

    if (m->owns_device)
        return;
    pthread_mutex_lock(&lock);
    at = place(range.low);
    EXPECT(m, at < range_count && ranges[at].low == range.low, "a block is missing in the table");
    range_count -= 1;
    memmove(&ranges[at], &ranges[at + 1], (range_count - at) * sizeof ranges[0]);
    pthread_mutex_unlock(&lock);
}
