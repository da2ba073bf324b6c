// SPDX-License-Identifier: Apache-2.0
/* Trade-offs: an arena which has run out of records keeps up to 256 KiB of them. */
#include "heap/provision.h"

#include "base/contract.h"
#include "heap/arena_lock.h"

enum {
    /* A slab's part has twice as many records, so threads rarely write to the same cache line. */
    RECORDS_FEW = 16,
    RECORDS_KEPT_MAX = 2048, /* 128 KiB; the pool gets records back above twice as many */
};

static size_t kept_after(uint8_t exhaustions)
{
    return (size_t)RECORDS_FEW << exhaustions;
}

/* How many records are set aside for an arena at a time, and left in it. An arena that runs out of
 * records has swings of this size in its number of blocks: from then on it keeps twice as many, and
 * seldom runs out again. */
static size_t records_kept(const struct tn_arena *arena)
{
    return kept_after(arena->exhaustions);
}

bool tn_provision_take(struct tn_arena *arena)
{
    struct tn_block_store *store = arena->parent_store;

    /* A caller with another purpose takes records along, and need not return for them soon. */
    if (arena->store.spare_count >= RECORDS_FEW)
        return true;
    if (!tn_blocks_reserve(store, 2 * (size_t)RECORDS_FEW))
        return arena->store.spare_count >= TN_RECORDS_FOR_CUT;
    if (arena->store.spare_count < TN_RECORDS_FOR_CUT && records_kept(arena) < RECORDS_KEPT_MAX)
        arena->exhaustions += 1;
    TN_ASSERT(records_kept(arena) <= RECORDS_KEPT_MAX);
    tn_blocks_move(store, &arena->store, records_kept(arena));
    return true;
}

bool tn_provision_expect(struct tn_arena *arena, size_t count)
{
    struct tn_block_store *store = arena->parent_store;
    size_t spare_count = arena->store.spare_count;
    uint8_t exhaustions = arena->exhaustions;

    while (kept_after(exhaustions) < count && kept_after(exhaustions) < RECORDS_KEPT_MAX)
        exhaustions += 1;
    count = kept_after(exhaustions);
    if (spare_count < count) {
        if (!tn_blocks_reserve(store, count - spare_count))
            return false;
        tn_blocks_move(store, &arena->store, count - spare_count);
    }
    arena->exhaustions = exhaustions;
    TN_ASSERT(arena->store.spare_count >= count);
    return true;
}

void tn_provision_level(struct tn_arena *arena)
{
    size_t count = arena->store.spare_count;

    if (count > 2 * records_kept(arena))
        tn_blocks_move(&arena->store, arena->parent_store, count - records_kept(arena));
}
