// SPDX-License-Identifier: Apache-2.0
/* The hash is a chain: each call is mixed with the hash of the calls before. 64 bits are no proof
 * against somebody with a wish for two equal hashes, and need not be: ranks are one program. */
#include "share/diary.h"

#include <stdio.h>

#include "base/checked.h"
#include "base/contract.h"

/* The end of splitmix64 (Steele, Lea and Flood, 2014). */
static uint64_t mix(uint64_t word)
{
    word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
    return word ^ word >> 31;
}

void tn_diary_init(struct tn_diary *diary)
{
    diary->count = 0;
    diary->hash = 0;
}

void tn_diary_add(struct tn_diary *diary, struct tn_diary_entry entry)
{
    const uint64_t words[] = {entry.kind, entry.bytes, entry.offset, entry.id};
    uint64_t hash = diary->hash;

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        hash = mix(hash + TN_GOLDEN + words[i]);
    entry.hash = hash;
    diary->kept[diary->count % TN_DIARY_KEPT] = entry;
    diary->count++;
    diary->hash = hash;
}

uint64_t tn_diary_oldest(const struct tn_diary *diary)
{
    return diary->count < TN_DIARY_KEPT ? 0 : diary->count - TN_DIARY_KEPT + 1;
}

bool tn_diary_hash_of(const struct tn_diary *diary, uint64_t count, uint64_t *hash)
{
    if (count > diary->count || count < tn_diary_oldest(diary))
        return false;
    *hash = count == 0 ? 0 : diary->kept[(count - 1) % TN_DIARY_KEPT].hash;
    return true;
}

const struct tn_diary_entry *tn_diary_at(const struct tn_diary *diary, uint64_t index)
{
    TN_ASSERT(index < diary->count && index + TN_DIARY_KEPT >= diary->count);
    return &diary->kept[index % TN_DIARY_KEPT];
}

void tn_diary_say(const struct tn_diary_entry *entry, char *text, size_t bytes)
{
    const char *what = entry->kind == TN_DIARY_ALLOCATION ? "allocates"
                       : entry->kind == TN_DIARY_FREE     ? "frees"
                       : entry->kind == TN_DIARY_GROWTH   ? "reserves"
                                                          : "has made no call";

    if (entry->kind == 0)
        (void)snprintf(text, bytes, "%s", what);
    else if (entry->id != 0)
        (void)snprintf(text, bytes, "%s %llu bytes at offset %llu, id %llu", what,
                       (unsigned long long)entry->bytes, (unsigned long long)entry->offset,
                       (unsigned long long)entry->id);
    else
        (void)snprintf(text, bytes, "%s %llu bytes at offset %llu", what,
                       (unsigned long long)entry->bytes, (unsigned long long)entry->offset);
}
