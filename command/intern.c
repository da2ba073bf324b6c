// SPDX-License-Identifier: Apache-2.0
/* An open hash table, at most half full. The hash is FNV-1a. */
#include "intern.h"

#include <string.h>

#include "base/contract.h"
#include "base/host.h"

enum { TABLE_MIN = 64 };

static uint64_t hash_of(const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return hash ^ hash >> 32;
}

/* The place of the text in the table, or where it goes. */
static size_t place_of(const struct intern *intern, const char *text)
{
    size_t at = hash_of(text) & (intern->table_size - 1);

    while (intern->table[at] != 0 && strcmp(intern->all[intern->table[at] - 1], text) != 0)
        at = (at + 1) & (intern->table_size - 1);
    return at;
}

static bool grow_table(struct intern *intern)
{
    struct intern larger = *intern;

    if (intern->count * 2 < intern->table_size)
        return true;
    larger.table_size = intern->table_size > 0 ? intern->table_size * 2 : TABLE_MIN;
    larger.table = tn_host_alloc(larger.table_size, sizeof *larger.table);
    if (larger.table == NULL)
        return false;
    for (size_t i = 0; i < intern->count; i++)
        larger.table[place_of(&larger, intern->all[i])] = (uint32_t)i + 1;
    tn_host_free(intern->table);
    *intern = larger;
    return true;
}

int64_t intern_add(struct intern *intern, const char *text, bool *is_new)
{
    const size_t bytes = strlen(text) + 1;
    void *all = intern->all;
    char *copy;
    size_t at;

    if (is_new != NULL)
        *is_new = false;
    if (intern->count >= UINT32_MAX - 1 || !grow_table(intern))
        return INTERN_NONE;
    at = place_of(intern, text);
    if (intern->table[at] != 0)
        return intern->table[at] - 1;
    if (!tn_host_grow(&all, &intern->capacity, intern->count + 1, sizeof *intern->all))
        return INTERN_NONE;
    intern->all = all;
    copy = tn_host_alloc_unset(bytes, 1);
    if (copy == NULL)
        return INTERN_NONE;
    memcpy(copy, text, bytes);
    intern->all[intern->count++] = copy;
    intern->table[at] = (uint32_t)intern->count;
    TN_ASSERT(intern->count * 2 <= intern->table_size + 1);
    if (is_new != NULL)
        *is_new = true;
    return (int64_t)intern->count - 1;
}

void intern_free(struct intern *intern)
{
    for (size_t i = 0; i < intern->count; i++)
        tn_host_free(intern->all[i]);
    tn_host_free(intern->all);
    tn_host_free(intern->table);
    *intern = (struct intern){.all = NULL};
}
