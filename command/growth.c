// SPDX-License-Identifier: Apache-2.0
/* Entries are sorted by their keys, and runs of one key are added up. */
#include "growth.h"

#include <stdlib.h>
#include <string.h>

#include "base/contract.h"
#include "base/host.h"

bool growth_add(struct growths *growths, enum growth_side side, const char *key, uint64_t number,
                uint64_t blocks, uint64_t bytes)
{
    const size_t key_bytes = strlen(key) + 1;
    struct growth growth = {.number = number, .side = side};
    void *all = growths->all;

    TN_ASSERT(side < GROWTH_SIDES);
    growth.blocks[side] = blocks;
    growth.bytes[side] = bytes;
    growth.key = tn_host_alloc(key_bytes, 1);
    if (growth.key == NULL)
        return false;
    memcpy(growth.key, key, key_bytes);
    if (!tn_host_grow(&all, &growths->capacity, growths->count + 1, sizeof growth)) {
        tn_host_free(growth.key);
        return false;
    }
    growths->all = all;
    growths->all[growths->count++] = growth;
    return true;
}

/* Of one key the side after comes last. */
static int compare_keys(const void *a, const void *b)
{
    const struct growth *left = a;
    const struct growth *right = b;
    const int keys = strcmp(left->key, right->key);

    return keys != 0 ? keys : (left->side > right->side) - (left->side < right->side);
}

int64_t growth_bytes(const struct growth *growth)
{
    const uint64_t before = growth->bytes[GROWTH_BEFORE];
    const uint64_t after = growth->bytes[GROWTH_AFTER];

    if (after >= before)
        return after - before > INT64_MAX ? INT64_MAX : (int64_t)(after - before);
    return before - after > INT64_MAX ? -INT64_MAX : -(int64_t)(before - after);
}

static int compare_growth(const void *a, const void *b)
{
    const int64_t left = growth_bytes(a);
    const int64_t right = growth_bytes(b);

    return left != right ? (left < right) - (left > right) : compare_keys(a, b);
}

/* Adds the second to the first, which has the same key. */
static void merge(struct growth *growth, struct growth *other)
{
    TN_ASSERT(strcmp(growth->key, other->key) == 0);
    for (int side = GROWTH_BEFORE; side < GROWTH_SIDES; side++) {
        growth->blocks[side] += other->blocks[side];
        growth->bytes[side] += other->bytes[side];
    }
    growth->number = other->number;
    growth->side = other->side;
    tn_host_free(other->key);
}

void growth_finish(struct growths *growths)
{
    size_t count = 0;

    if (growths->count == 0)
        return;
    qsort(growths->all, growths->count, sizeof *growths->all, compare_keys);
    for (size_t i = 0; i < growths->count; i++) {
        if (count > 0 && strcmp(growths->all[count - 1].key, growths->all[i].key) == 0)
            merge(&growths->all[count - 1], &growths->all[i]);
        else
            growths->all[count++] = growths->all[i];
    }
    growths->count = count;
    qsort(growths->all, growths->count, sizeof *growths->all, compare_growth);
}

void growth_free(struct growths *growths)
{
    for (size_t i = 0; i < growths->count; i++)
        tn_host_free(growths->all[i].key);
    tn_host_free(growths->all);
    *growths = (struct growths){.all = NULL};
}
