// SPDX-License-Identifier: Apache-2.0
/* Blocks are sorted by their keys, and runs of one key are added up. */
#include "live.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/host.h"
#include "base/sample.h"
#include "base/stacks.h"

/* More than any writer has: tn_sample_init's limit. */
#define SAMPLE_BYTES_MAX (UINT64_C(1) << 56)

static int compare(uint64_t left, uint64_t right)
{
    return (left > right) - (left < right);
}

static uint64_t key_of(const struct tn_told_block *block, enum live_key key)
{
    switch (key) {
    case LIVE_BY_STACK:
        return block->stack;
    case LIVE_BY_POOL:
        return block->pool;
    default:
        return block->tag;
    }
}

static int compare_blocks(const void *a, const void *b, enum live_key key)
{
    const struct tn_told_block *left = a;
    const struct tn_told_block *right = b;

    return key_of(left, key) != key_of(right, key) ? compare(key_of(left, key), key_of(right, key))
                                                   : compare(left->sequence, right->sequence);
}

static int compare_stacks(const void *a, const void *b)
{
    return compare_blocks(a, b, LIVE_BY_STACK);
}

static int compare_pools(const void *a, const void *b)
{
    return compare_blocks(a, b, LIVE_BY_POOL);
}

static int compare_tags(const void *a, const void *b)
{
    return compare_blocks(a, b, LIVE_BY_TAG);
}

/* Worst first: by what they stand for. */
static int compare_groups(const void *a, const void *b)
{
    const struct live_group *left = a;
    const struct live_group *right = b;

    if (left->estimated_requested != right->estimated_requested)
        return left->estimated_requested < right->estimated_requested ? 1 : -1;
    if (left->bytes != right->bytes)
        return compare(right->bytes, left->bytes);
    return compare(left->key, right->key);
}

double live_weight(uint64_t requested, uint64_t stack, uint64_t sample_bytes,
                   const struct history *history)
{
    if (sample_bytes <= 1 || sample_bytes >= SAMPLE_BYTES_MAX || stack == TN_STACKS_NONE ||
        stack == TN_STACKS_OWN || (history != NULL && history_is_label_alone(history, stack)))
        return 1;
    return tn_sample_weight(tn_max(requested, 1), sample_bytes);
}

static void add(struct live_group *group, const struct tn_told_block *block, uint64_t sample_bytes)
{
    const double weight = live_weight(block->requested, block->stack, sample_bytes, NULL);

    if (group->blocks == 0 || block->sequence < group->oldest)
        group->oldest = block->sequence;
    group->newest = tn_max(group->newest, block->sequence);
    if (block->bytes > group->largest) {
        group->largest = block->bytes;
        group->pool = block->pool;
    }
    group->blocks += 1;
    group->bytes += block->bytes;
    group->requested += block->requested;
    group->estimated_blocks += weight;
    group->estimated_requested += weight * (double)block->requested;
}

bool live_group(struct live_groups *groups, struct tn_told *told, enum live_key key,
                const uint64_t *pool, uint64_t sample_bytes, struct history *history)
{
    int (*const compares[LIVE_KEYS])(const void *, const void *) = {compare_stacks, compare_pools,
                                                                    compare_tags};
    bool is_chosen = false; /* the group's blocks, for stacks */

    TN_ASSERT(key < LIVE_KEYS);
    *groups = (struct live_groups){.all = tn_host_alloc(told->count + 1, sizeof *groups->all)};
    if (groups->all == NULL)
        return false;
    if (told->count > 0)
        qsort(told->blocks, told->count, sizeof *told->blocks, compares[key]);
    for (size_t i = 0; i < told->count; i++) {
        const struct tn_told_block *block = &told->blocks[i];
        const uint64_t block_key = key_of(block, key);

        if (pool != NULL && block->pool != *pool)
            continue;
        if (groups->count == 0 || groups->all[groups->count - 1].key != block_key) {
            groups->all[groups->count++].key = block_key;
            is_chosen = key == LIVE_BY_STACK &&
                        (history == NULL || !history_is_label_alone(history, block_key));
        }
        add(&groups->all[groups->count - 1], block, is_chosen ? sample_bytes : 1);
        add(&groups->total, block, 1);
    }
    TN_ASSERT(groups->count <= told->count);
    if (groups->count > 0)
        qsort(groups->all, groups->count, sizeof *groups->all, compare_groups);
    return true;
}

void live_free(struct live_groups *groups)
{
    tn_host_free(groups->all);
    *groups = (struct live_groups){.all = NULL};
}
