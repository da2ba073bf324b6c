// SPDX-License-Identifier: Apache-2.0
#include "base/word_set.h"

#include "base/host.h"

enum { CAPACITY_MIN = 256 };

bool tn_word_set_reserve(struct tn_word_set *set)
{
    struct tn_word_set bigger = {.count = set->count,
                                 .capacity = tn_max(2 * set->capacity, CAPACITY_MIN)};

    if (2 * (set->count + 1) <= set->capacity)
        return true;
    bigger.table = tn_host_alloc(bigger.capacity, sizeof *bigger.table);
    if (bigger.table == NULL)
        return false;
    for (size_t i = 0; i < set->capacity; i++) {
        if (set->table[i] != 0)
            *tn_word_set_place(&bigger, set->table[i]) = set->table[i];
    }
    tn_host_free(set->table);
    *set = bigger;
    return true;
}

void tn_word_set_drop(struct tn_word_set *set)
{
    tn_host_free(set->table);
    *set = (struct tn_word_set){.table = NULL};
}
