// SPDX-License-Identifier: Apache-2.0
/* Comparing the live blocks of a pool with the blocks that its user expects.
 *
 * Where the expected addresses are in order, each is the address of the next block; other addresses
 * are looked up. Each block found gets the walk id of this comparison. A block with this walk id
 * that is found again is a duplicate, and a live block without the walk id is unexpected. */
#include <stddef.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "base/hot.h"
#include "checkpoint/settle.h"
#include "checkpoint/state.h"
#include "pools/free.h"
#include "pools/lone.h"

enum {
    SEARCHES_MAX = 8, /* look-ups before the next try to follow the blocks */
};

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

/* Compares an expected block with the block at its address, or NULL; *found counts live ones. */
static bool check_expected(tarn_pool *pool, const tarn_expected *expected, struct tn_block *block,
                           uint8_t walk_id, uint64_t *found, struct diff_builder *diff)
{
    tarn_block missing;

    TN_ASSERT(tn_pool_is_locked(pool));
    TN_ASSERT(walk_id != 0);
    if (expected->address == NULL && expected->bytes == 0)
        return true; /* as an allocation of 0 bytes was answered */
    if (block == NULL || block->state != TN_BLOCK_LIVE || block->walk_id == walk_id) {
        missing =
            (tarn_block){.address = (void *)(uintptr_t)expected->address, .bytes = expected->bytes};
        return add(diff, TARN_DIFFERENCE_MISSING, missing, expected->bytes);
    }
    block->walk_id = walk_id;
    *found += 1;
    if (expected->bytes != 0 && expected->bytes != block->requested)
        return add(diff, TARN_DIFFERENCE_SIZE, tn_describe_block(pool, block), expected->bytes);
    return true;
}

static uint64_t address_of(const tarn_expected *expected)
{
    return (uint64_t)(uintptr_t)expected->address;
}

/* The live block behind `block`, or behind the free memory after it; NULL: something else follows.
 */
static inline struct tn_block *live_behind(const struct tn_block *block, struct tn_block_step *step)
{
    struct tn_block *next = tn_block_next(block, step);

    if (TN_LIKELY(next != NULL && next->state == TN_BLOCK_LIVE))
        return next;
    if (next != NULL)
        next = next->next;
    return next != NULL && next->state == TN_BLOCK_LIVE ? next : NULL;
}

/* Follows the blocks behind *near as long as they are the expected ones. Returns their number, and
 * in *near the last. The loop is the whole time of most comparisons, so it lies by itself. */
static TN_APART TN_ALIGNED size_t follow(const tarn_expected *expected, size_t count,
                                         uint8_t walk_id, struct tn_block **near)
{
    struct tn_block *block = *near;
    uint64_t base = block->segment->base;
    struct tn_block_step step = tn_block_step_by(1);
    size_t i;

    for (i = 0; i < count; i++) {
        struct tn_block *next = live_behind(block, &step);

        if (TN_UNLIKELY(next == NULL || base + next->offset != address_of(&expected[i]) ||
                        next->walk_id == walk_id ||
                        (expected[i].bytes != next->requested && expected[i].bytes != 0)))
            break;
        next->walk_id = walk_id;
        block = next;
    }
    *near = block;
    return i;
}

static bool find_expected(tarn_pool *pool, const tarn_expected *expected, size_t count,
                          uint8_t walk_id, uint64_t *found, struct diff_builder *diff)
{
    struct tn_live_place last = {NULL, NULL};
    size_t searches = 1; /* doubled each time that no block follows */
    size_t i = 0;

    TN_ASSERT(tn_pool_is_locked(pool));
    while (i < count) {
        struct tn_block *block = NULL;
        size_t end = i + tn_min(count - i, searches);
        size_t followed = 0;

        for (; i < end; i++) {
            block = tn_pool_is_lone(pool)
                        ? tn_lone_find(pool, address_of(&expected[i]))
                        : tn_live_find_near(pool, address_of(&expected[i]), &last);
            if (!check_expected(pool, &expected[i], block, walk_id, found, diff))
                return false;
        }
        if (block != NULL)
            followed = follow(&expected[i], count - i, walk_id, &block);
        *found += followed;
        i += followed;
        searches = followed > 0 ? 1 : tn_min(2 * searches, SEARCHES_MAX);
    }
    return true;
}

static bool find_differences(tarn_pool *pool, const tarn_expected *expected, size_t count,
                             struct diff_builder *diff)
{
    uint8_t walk_id = tn_next_walk_id(pool);
    uint64_t found = 0;

    if (!find_expected(pool, expected, count, walk_id, &found, diff))
        return false;
    TN_ASSERT(found <= tn_pool_live_count(pool)); /* P8 */
    if (found == tn_pool_live_count(pool))
        return true; /* nothing is unexpected */
    for (struct tn_block *block = tn_live_first(pool->segments.first); block != NULL;
         block = tn_live_next(block)) {
        if (block->state == TN_BLOCK_LIVE && block->walk_id != walk_id &&
            !add(diff, TARN_DIFFERENCE_UNEXPECTED, tn_describe_block(pool, block), 0))
            return false;
    }
    return true;
}

/* A block that is missing here may be live in another pool. */
static void find_elsewhere(tarn_pool *pool, tarn_difference *difference)
{
    tarn_pool *other;
    struct tn_block *block;

    TN_ASSERT(tn_lock_none_held());
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

    TN_ASSERT(tn_lock_none_held());
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
        find_elsewhere(pool, &found.items[i]);
    if (found.count > 1)
        qsort(found.items, found.count, sizeof *found.items, compare_addresses);
    made->count = found.count;
    made->differences = found.items;
    *diff = made;
    return TARN_OK;
}
