// SPDX-License-Identifier: Apache-2.0
#include "observe/told_tables.h"

#include <stddef.h>

#include "base/host.h"
#include "base/ring_file.h"
#include "heap/history.h"

bool tn_mentions_add(struct tn_mentions *mentions, const struct tn_mention *mention)
{
    void *all = mentions->all;

    if (!tn_host_grow(&all, &mentions->capacity, mentions->count + 1, sizeof *mentions->all))
        return false;
    mentions->all = all;
    mentions->all[mentions->count] = *mention;
    mentions->count += 1;
    return true;
}

/* The tag and the annotations of an entry's block: the words are the block's where its number stands before and
 * behind them. False: they cannot be read. */
static bool read_noted(const struct tn_told_source *source, size_t offset,
                       struct tn_told_block *block)
{
    uint64_t number;
    uint64_t tag;
    uint64_t titles;
    const size_t at = offset + offsetof(struct tn_history_entry, noted);
    const size_t tag_at = offset + offsetof(struct tn_history_entry, tag);
    const size_t titles_at = offset + offsetof(struct tn_history_entry, titles);

    if (!source->read(source->context, at, &number, sizeof number))
        return false;
    if (number != block->sequence)
        return true;
    if (!source->read(source->context, tag_at, &tag, sizeof tag) ||
        !source->read(source->context, titles_at, &titles, sizeof titles) ||
        !source->read(source->context, at, &number, sizeof number))
        return false;
    if (number == block->sequence) {
        block->tag = tag;
        block->annotations[0] = (uint32_t)titles;
        block->annotations[1] = (uint32_t)(titles >> 32);
    }
    return true;
}

/* An entry of the table; *readable: whether it can be read. */
static bool read_entry(const struct tn_told_source *source, size_t offset,
                       struct tn_mentions *mentions, bool *readable)
{
    enum { NUMBER, ADDRESS, REQUESTED, UNITS, STACK, WORDS };
    uint64_t words[WORDS];
    uint64_t number;
    struct tn_mention mention = {.in_table = true};

    *readable = source->read(source->context, offset, &number, sizeof number);
    if (!*readable || number == 0)
        return true;
    *readable = source->read(source->context, offset, words, sizeof words) &&
                source->read(source->context, offset, words, sizeof words[NUMBER]);
    if (!*readable || words[NUMBER] != number) /* else the log has its free */
        return true;
    if (words[UNITS] == 0 || words[UNITS] > UINT32_MAX ||
        words[REQUESTED] > words[UNITS] << TN_BLOCK_BITS)
        return true; /* no writer's */
    mention.block = (struct tn_told_block){.sequence = number,
                                           .address = words[ADDRESS],
                                           .bytes = words[UNITS] << TN_BLOCK_BITS,
                                           .requested = words[REQUESTED],
                                           .stack = words[STACK]};
    *readable = read_noted(source, offset, &mention.block);
    return tn_mentions_add(mentions, &mention);
}

/* Entries of a table have one pool. */
static void name_pool(const struct tn_told_source *source, size_t offset,
                      struct tn_mentions *mentions, size_t first)
{
    uint64_t pool = 0;

    if (first == mentions->count ||
        !source->read(source->context, offset + offsetof(struct tn_history_table, pool), &pool,
                      sizeof pool))
        return;
    for (size_t i = first; i < mentions->count; i++)
        mentions->all[i].block.pool = pool;
}

bool tn_told_read_tables(const struct tn_told_source *source, struct tn_mentions *mentions,
                         uint64_t *unread_parts)
{
    for (size_t part = 0; part < source->part_count; part++) {
        const size_t begin = source->page_count * TN_RING_PAGE_BYTES + source->area_bytes +
                             tn_ring_part_offset(part);
        size_t first = mentions->count; /* of the table's */
        bool readable = true;

        for (size_t at = 0; readable && at < tn_ring_part_bytes(part);
             at += sizeof(struct tn_history_entry)) {
            if (at % TN_HISTORY_TABLE_BYTES ==
                TN_HISTORY_TABLE_BYTES - sizeof(struct tn_history_entry)) {
                name_pool(source, begin + at / TN_HISTORY_TABLE_BYTES * TN_HISTORY_TABLE_BYTES,
                          mentions, first);
                first = mentions->count;
            } else if (!read_entry(source, begin + at, mentions, &readable)) {
                return false;
            }
        }
        *unread_parts += !readable;
    }
    return true;
}
