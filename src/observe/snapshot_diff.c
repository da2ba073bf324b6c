// SPDX-License-Identifier: Apache-2.0
/* Each block of a snapshot is an item: 1 for the second snapshot, -1 for the first. Sorting brings
 * items of one stack, pool and size together, and their sum is the change. A block of both snapshots
 * adds 0.
 *
 * Trade-offs: stacks are compared by a hash of 64 bits over their frames. Two different stacks have
 * equal hashes once in 2^64. */
#include "observe/snapshot_diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "base/text.h"

struct item {
    uint64_t hash; /* of the stack's frames; 0: there are none */
    uint64_t pool;
    uint64_t block_bytes;
    int64_t blocks;
    const struct tn_snapshot *snapshot; /* that has the stack, and the pool's name */
    const tarn_snapshot_pool *told;
    uint32_t stack;
};

struct items {
    struct item *all;
    size_t count;
};

static uint64_t hash_of(const struct tn_snapshot *snapshot, uint32_t id)
{
    struct tn_stack stack;
    uint64_t hash = 0;

    tn_snapshot_stack_read(&snapshot->stacks, id, &stack);
    for (size_t i = 0; i < stack.count; i++) {
        hash = (hash ^ stack.frames[i]) * TN_GOLDEN;
        hash ^= hash >> 32;
    }
    return hash;
}

/* Whether the block's user has not freed it. */
static bool is_kept(const tarn_snapshot_block *block)
{
    return block->state == TARN_EXTENT_LIVE || block->state == TARN_EXTENT_DISCARDED;
}

static void add_items(struct items *items, const struct tn_snapshot *snapshot, int64_t sign)
{
    for (size_t i = 0; i < snapshot->read.segment_count; i++) {
        const tarn_snapshot_segment *segment = &snapshot->read.segments[i];

        for (size_t k = 0; k < segment->block_count; k++) {
            const tarn_snapshot_block *block = &segment->blocks[k];
            const uint32_t stack = tn_snapshot_stack_of(snapshot, block);

            if (!is_kept(block))
                continue;
            items->all[items->count] = (struct item){.hash = hash_of(snapshot, stack),
                                                     .pool = segment->pool->number,
                                                     .block_bytes = block->block_bytes,
                                                     .blocks = sign,
                                                     .snapshot = snapshot,
                                                     .told = segment->pool,
                                                     .stack = stack};
            items->count += 1;
        }
    }
}

static int compare(uint64_t left, uint64_t right)
{
    return (left > right) - (left < right);
}

static int compare_items(const void *a, const void *b)
{
    const struct item *left = a;
    const struct item *right = b;

    if (left->hash != right->hash)
        return compare(left->hash, right->hash);
    if (left->pool != right->pool)
        return compare(left->pool, right->pool);
    return compare(left->block_bytes, right->block_bytes);
}

static int64_t bytes_of(const struct item *item)
{
    return item->blocks * (int64_t)item->block_bytes;
}

/* The largest growth comes first. */
static int compare_growths(const void *a, const void *b)
{
    const int64_t left = bytes_of(a);
    const int64_t right = bytes_of(b);

    return left != right ? (left < right) - (left > right) : compare_items(a, b);
}

/* Sums up items of one stack, pool and size, and drops sums of 0. */
static void sum_up(struct items *items)
{
    size_t count = 0;

    if (items->count > 0)
        qsort(items->all, items->count, sizeof *items->all, compare_items);
    for (size_t i = 0; i < items->count;) {
        struct item sum = items->all[i];

        for (i += 1; i < items->count && compare_items(&sum, &items->all[i]) == 0; i++)
            sum.blocks += items->all[i].blocks;
        if (sum.blocks != 0)
            items->all[count++] = sum;
    }
    TN_ASSERT(count <= items->count);
    items->count = count;
    if (count > 0)
        qsort(items->all, count, sizeof *items->all, compare_growths);
}

static size_t count_frames(const struct items *items)
{
    struct tn_stack stack;
    size_t count = 0;

    for (size_t i = 0; i < items->count; i++) {
        tn_snapshot_stack_read(&items->all[i].snapshot->stacks, items->all[i].stack, &stack);
        count += stack.count;
    }
    return count;
}

/* Where the frames of the next change go. */
struct room {
    uint64_t *frames;
    const char **interpreted;
};

static void describe(const struct item *item, struct tn_titles *titles, struct room *room,
                     tarn_snapshot_change *change)
{
    struct tn_stack stack;

    tn_snapshot_stack_read(&item->snapshot->stacks, item->stack, &stack);
    *change = (tarn_snapshot_change){.label = "",
                                     .interpreted = room->interpreted,
                                     .frames = stack.count > 0 ? room->frames : NULL,
                                     .pool = item->pool,
                                     .block_bytes = item->block_bytes,
                                     .blocks = item->blocks,
                                     .bytes = bytes_of(item)};
    memcpy(change->pool_name, item->told->name, sizeof change->pool_name);
    for (size_t i = 0; i < stack.count; i++) {
        const uint64_t frame = stack.frames[i];

        if (tn_stack_title_of(frame, TN_STACK_LABEL) != 0)
            change->label = tn_titles_text(titles, (uint32_t)frame);
        else if ((frame & TN_STACK_TITLE) != 0)
            room->interpreted[change->interpreted_count++] =
                tn_titles_text(titles, (uint32_t)frame);
        else
            room->frames[change->frame_count++] = frame;
    }
    room->frames += change->frame_count;
    room->interpreted += change->interpreted_count;
}

static struct tn_titles titles_of(const struct tn_snapshot *snapshot)
{
    const struct tn_scroll_reader reader = tn_snapshot_stacks_reader(&snapshot->stacks);

    return tn_titles_new(&reader);
}

/* NULL: no memory. */
static struct tn_snapshot_diff *make(const struct items *items, const struct tn_snapshot *before,
                                     const struct tn_snapshot *after)
{
    const size_t frame_count = count_frames(items);
    tarn_snapshot_change *changes;
    struct tn_snapshot_diff *made =
        tn_host_alloc(1, sizeof *made + items->count * sizeof *changes +
                             frame_count * (sizeof(uint64_t) + sizeof(char *)));
    struct room room;

    if (made == NULL)
        return NULL;
    if (!tn_naming_begin(&made->naming, &after->stacks.modules)) {
        tn_host_free(made);
        return NULL;
    }
    made->titles[0] = titles_of(before);
    made->titles[1] = titles_of(after);
    changes = (tarn_snapshot_change *)(void *)(made + 1);
    room.frames = (uint64_t *)(void *)(changes + items->count);
    room.interpreted = (const char **)(void *)(room.frames + frame_count);
    for (size_t i = 0; i < items->count; i++) {
        const bool is_after = items->all[i].snapshot == after;

        describe(&items->all[i], &made->titles[is_after], &room, &changes[i]);
        made->read.blocks += changes[i].blocks;
        made->read.bytes += changes[i].bytes;
    }
    made->read.count = items->count;
    made->read.changes = changes;
    return made;
}

tarn_status tn_snapshot_compare(const struct tn_snapshot *before, const struct tn_snapshot *after,
                                tarn_snapshot_diff **diff)
{
    const size_t most = before->read.block_count + after->read.block_count;
    struct items items = {.all = tn_host_alloc_unset(most + 1, sizeof *items.all)};
    struct tn_snapshot_diff *made = NULL;

    TN_ASSERT(before->read.device == after->read.device);
    if (items.all != NULL) {
        add_items(&items, before, -1);
        add_items(&items, after, 1);
        TN_ASSERT(items.count <= most);
        sum_up(&items);
        made = make(&items, before, after);
        tn_host_free(items.all);
    }
    if (made != NULL && (made->titles[0].short_of_memory || made->titles[1].short_of_memory)) {
        tn_snapshot_diff_drop(made);
        made = NULL;
    }
    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY,
                       "no host memory to compare snapshots of %zu and %zu blocks",
                       before->read.block_count, after->read.block_count);
    *diff = &made->read;
    return TARN_OK;
}

void tn_snapshot_diff_drop(struct tn_snapshot_diff *diff)
{
    if (diff != NULL) {
        tn_naming_end(&diff->naming);
        tn_titles_free(&diff->titles[0]);
        tn_titles_free(&diff->titles[1]);
    }
    tn_host_free(diff);
}

static void put_text(struct tn_text *text, const struct tn_snapshot_diff *diff)
{
    struct tn_frame_name name;

    tn_put(text, "%+lld bytes in %+lld blocks\n", (long long)diff->read.bytes,
           (long long)diff->read.blocks);
    for (size_t i = 0; i < diff->read.count; i++) {
        const tarn_snapshot_change *change = &diff->read.changes[i];

        tn_put(text, "%+lld bytes: %+lld blocks of %zu bytes in pool %llu '%s'\n",
               (long long)change->bytes, (long long)change->blocks, change->block_bytes,
               (unsigned long long)change->pool, change->pool_name);
        if (change->label[0] != '\0')
            tn_put(text, "    label '%s'\n", change->label);
        for (size_t k = 0; k < change->interpreted_count; k++)
            tn_put(text, "    %s\n", change->interpreted[k]);
        for (size_t k = 0; k < change->frame_count; k++) {
            tn_name_frame(&diff->naming, change->frames[k], &name);
            tn_put(text, "    %s (%s+0x%llx)\n", name.function, name.path,
                   (unsigned long long)name.offset);
        }
    }
}

static void put_json_frames(struct tn_text *text, const struct tn_snapshot_diff *diff,
                            const tarn_snapshot_change *change)
{
    struct tn_frame_name name;

    for (size_t k = 0; k < change->frame_count; k++) {
        tn_name_frame(&diff->naming, change->frames[k], &name);
        tn_put(text, "%s{\"function\":", k > 0 ? "," : "");
        tn_put_string(text, name.function);
        tn_put(text, ",\"module\":");
        tn_put_string(text, name.path);
        tn_put(text, ",\"offset\":%llu}", (unsigned long long)name.offset);
    }
}

static void put_json(struct tn_text *text, const struct tn_snapshot_diff *diff)
{
    tn_put(text, "{\"bytes\":%lld,\"blocks\":%lld,\"changes\":[", (long long)diff->read.bytes,
           (long long)diff->read.blocks);
    for (size_t i = 0; i < diff->read.count; i++) {
        const tarn_snapshot_change *change = &diff->read.changes[i];

        tn_put(text, "%s{\"bytes\":%lld,\"blocks\":%lld,\"block_bytes\":%zu,\"pool\":%llu,",
               i > 0 ? "," : "", (long long)change->bytes, (long long)change->blocks,
               change->block_bytes, (unsigned long long)change->pool);
        tn_put(text, "\"pool_name\":");
        tn_put_string(text, change->pool_name);
        tn_put(text, ",\"label\":");
        tn_put_string(text, change->label);
        tn_put(text, ",\"interpreted\":[");
        for (size_t k = 0; k < change->interpreted_count; k++) {
            tn_put(text, k > 0 ? "," : "");
            tn_put_string(text, change->interpreted[k]);
        }
        tn_put(text, "],\"frames\":[");
        put_json_frames(text, diff, change);
        tn_put(text, "]}");
    }
    tn_put(text, "]}\n");
}

size_t tn_snapshot_diff_write(const struct tn_snapshot_diff *diff, tarn_report_format format,
                              char *buffer, size_t capacity)
{
    struct tn_text text = {buffer, capacity, 0};

    TN_ASSERT(buffer != NULL || capacity == 0);
    if (format == TARN_REPORT_JSON)
        put_json(&text, diff);
    else
        put_text(&text, diff);
    return text.length;
}
