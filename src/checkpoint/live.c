// SPDX-License-Identifier: Apache-2.0
/* Comparing the live blocks of a pool with what its user expects.
 *
 * Expected addresses are looked up one by one; each block found is marked with the number of this
 * comparison, so that a second look at it is a duplicate, and every live block without the mark is
 * unexpected. */
#include <stddef.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/host.h"
#include "checkpoint/state.h"

struct diff_builder {
    tarn_difference *items;
    size_t capacity;
    size_t count;
};

static bool add(struct diff_builder *diff, tarn_difference_kind kind, tarn_block block,
                size_t expected_bytes)
{
    if (!tn_host_grow((void **)&diff->items, &diff->capacity, diff->count + 1, sizeof *diff->items))
        return false;
    diff->items[diff->count] = (tarn_difference){kind, block, expected_bytes};
    diff->count += 1;
    return true;
}

/* Looks one expected block up; *found counts those that are live. */
static bool check_expected(tarn_pool *pool, const tarn_expected *expected, uint16_t mark,
                           struct tn_live_place *last, uint64_t *found, struct diff_builder *diff)
{
    struct tn_block *block = tn_live_find_near(pool, (uint64_t)(uintptr_t)expected->address, last);
    tarn_block missing;

    if (block == NULL || block->state != TN_BLOCK_LIVE || block->mark == mark) {
        missing =
            (tarn_block){.address = (void *)(uintptr_t)expected->address, .bytes = expected->bytes};
        return add(diff, TARN_DIFFERENCE_MISSING, missing, expected->bytes);
    }
    block->mark = mark;
    *found += 1;
    if (expected->bytes != 0 && expected->bytes != block->requested)
        return add(diff, TARN_DIFFERENCE_SIZE, tn_describe_block(pool, block), expected->bytes);
    return true;
}

static bool find_differences(tarn_pool *pool, const tarn_expected *expected, size_t count,
                             struct diff_builder *diff)
{
    uint16_t mark = tn_next_mark(pool);
    uint64_t found = 0;
    struct tn_live_place last = {NULL, NULL};

    for (size_t i = 0; i < count; i++) {
        if (!check_expected(pool, &expected[i], mark, &last, &found, diff))
            return false;
    }
    if (found == pool->counters.live_count)
        return true; /* nothing is unexpected */
    for (struct tn_block *block = tn_live_first(pool->segments); block != NULL;
         block = tn_live_next(block)) {
        if (block->state == TN_BLOCK_LIVE && block->mark != mark &&
            !add(diff, TARN_DIFFERENCE_UNEXPECTED, tn_describe_block(pool, block), 0))
            return false;
    }
    return true;
}

/* What is missing here may be live in another pool. */
static void look_elsewhere(tarn_pool *pool, tarn_difference *difference)
{
    tarn_pool *other;
    struct tn_block *block;

    if (difference->kind != TARN_DIFFERENCE_MISSING ||
        tn_pool_lock_block((uint64_t)(uintptr_t)difference->block.address, true, &other, &block) !=
            TARN_OK)
        return;
    if (other != pool) {
        difference->kind = TARN_DIFFERENCE_POOL;
        difference->block = tn_describe_block(other, block);
    }
    tn_pool_unlock(other);
}

static int compare_addresses(const void *a, const void *b)
{
    const tarn_difference *x = a;
    const tarn_difference *y = b;
    uintptr_t left = (uintptr_t)x->block.address;
    uintptr_t right = (uintptr_t)y->block.address;

    if (left != right)
        return left < right ? -1 : 1;
    return (int)x->kind - (int)y->kind;
}

tarn_status tn_pool_check_live(tarn_pool *pool, const tarn_expected *expected,
                               size_t expected_count, tarn_live_diff **diff)
{
    struct diff_builder found = {NULL, 0, 0};
    tarn_live_diff *made = tn_host_alloc(1, sizeof *made);
    bool complete;

    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a comparison");
    tn_pool_lock(pool);
    complete = find_differences(pool, expected, expected_count, &found);
    tn_pool_unlock(pool);
    if (!complete) {
        tn_host_free(found.items);
        tn_host_free(made);
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a comparison");
    }
    for (size_t i = 0; i < found.count; i++)
        look_elsewhere(pool, &found.items[i]);
    if (found.count > 1)
        qsort(found.items, found.count, sizeof *found.items, compare_addresses);
    made->count = found.count;
    made->differences = found.items;
    *diff = made;
    return TARN_OK;
}
