// SPDX-License-Identifier: Apache-2.0
#include "owners.h"

#include <stdlib.h>

#include "base/host.h"
#include "heap/history.h"

/* A thread's writer, and that of the arena which threads share. */
struct magazine {
    uint64_t writer;
    uint64_t of;
};

struct reading {
    struct owners *owners;
    size_t owner_capacity;
    struct magazine *magazines;
    size_t magazine_count;
    size_t magazine_capacity;
    uint64_t event_count;
};

static bool add_owner(struct reading *reading, struct owner owner)
{
    struct owners *owners = reading->owners;
    void *all = owners->all;

    if (!tn_host_grow(&all, &reading->owner_capacity, owners->count + 1, sizeof owner))
        return false;
    owners->all = all;
    owners->all[owners->count++] = owner;
    return true;
}

static bool add_magazine(struct reading *reading, struct magazine magazine)
{
    void *all = reading->magazines;

    if (!tn_host_grow(&all, &reading->magazine_capacity, reading->magazine_count + 1,
                      sizeof magazine))
        return false;
    reading->magazines = all;
    reading->magazines[reading->magazine_count++] = magazine;
    return true;
}

static bool visit(void *context, const struct tn_told_event *event)
{
    struct reading *reading = context;
    const uint64_t *operands = event->note.operands;

    reading->event_count += 1;
    if (event->kind != TN_HISTORY_NOTE)
        return true;
    if (event->note.note == TN_NOTE_ARENA_BEGUN)
        return add_owner(reading,
                         (struct owner){operands[0], event->note.pool, operands[1], operands[2]});
    if (event->note.note == TN_NOTE_MAGAZINE_BEGUN)
        return add_magazine(reading, (struct magazine){operands[0], operands[1]});
    return true;
}

static int compare_writers(const void *a, const void *b)
{
    const struct owner *left = a;
    const struct owner *right = b;

    return (left->writer > right->writer) - (left->writer < right->writer);
}

static void sort(struct owners *owners)
{
    if (owners->count > 0)
        qsort(owners->all, owners->count, sizeof *owners->all, compare_writers);
}

const struct owner *owners_find(const struct owners *owners, uint64_t writer)
{
    const struct owner wanted = {.writer = writer};

    return owners->count == 0
               ? NULL
               : bsearch(&wanted, owners->all, owners->count, sizeof wanted, compare_writers);
}

static bool add_magazines(struct reading *reading)
{
    const size_t arenas = reading->owners->count;

    for (size_t i = 0; i < reading->magazine_count; i++) {
        const struct owners of = {reading->owners->all, arenas};
        const struct owner *arena = owners_find(&of, reading->magazines[i].of);
        struct owner owner;

        if (arena == NULL)
            continue;
        owner = *arena;
        owner.writer = reading->magazines[i].writer;
        if (!add_owner(reading, owner))
            return false;
    }
    return true;
}

bool owners_read(struct owners *owners, const struct history *history, uint64_t *event_count,
                 uint64_t *broken)
{
    struct reading reading = {.owners = owners};
    bool done;

    *owners = (struct owners){.all = NULL};
    done = tn_told_walk(&history->source, visit, &reading, broken);
    sort(owners);
    done = done && add_magazines(&reading);
    sort(owners);
    tn_host_free(reading.magazines);
    *event_count = reading.event_count;
    if (!done)
        owners_free(owners);
    return done;
}

void owners_free(struct owners *owners)
{
    tn_host_free(owners->all);
    *owners = (struct owners){.all = NULL};
}
