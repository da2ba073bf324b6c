// SPDX-License-Identifier: Apache-2.0
/* A device's pools are made, end and are released under the DEVICE lock: a list made under this
 * lock shows one moment. A pool's blocks are described under the pool's lock. Segments are visited
 * in the order of their creation, and the driver may grant a later segment a lower address. In this
 * case the descriptions are sorted after the unlock.
 *
 * Trade-offs: memory for the descriptions is taken with the lock held, since only there the number
 * of blocks is known. */
#include "observe/lists.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "pools/pool.h"
#include "pools/visit.h"

struct listing {
    tarn_pool_entry *entries;
    size_t count;
    size_t capacity;
};

bool tn_pool_is_listed(const tarn_pool *pool)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    return atomic_load(&pool->magic) == TN_POOL_MAGIC && tn_pool_is_counted(pool);
}

tarn_pool_kind tn_pool_kind(const tarn_pool *pool)
{
    if (atomic_load(&pool->is_default))
        return TARN_POOL_DEFAULT;
    if (pool->graphs.is_adopted)
        return TARN_POOL_ADOPTED;
    return atomic_load(&pool->released) ? TARN_POOL_RELEASED : TARN_POOL_PRIVATE;
}

static bool list_pool(tarn_pool *pool, void *context)
{
    struct listing *listing = context;
    tarn_pool_entry *entry = &listing->entries[listing->count];

    TN_ASSERT(listing->count < listing->capacity);
    if (!tn_pool_is_listed(pool))
        return false;
    entry->kind = tn_pool_kind(pool);
    entry->pool = tn_pool_handle(pool, entry->kind);
    (void)snprintf(entry->name, sizeof entry->name, "%s", pool->name);
    listing->count += 1;
    return false;
}

tarn_status tn_device_list_pools(tarn_device *device, tarn_pool_list **list)
{
    struct listing listing = {NULL, 0, 0};
    tarn_pool_list *made;

    TN_ASSERT(tn_lock_none_held());
    tn_lock_acquire(&device->lock);
    /* No visit: the lock of the device alone keeps the list. */
    for (const tarn_pool *pool = device->pools; pool != NULL; pool = pool->next)
        listing.capacity += 1;
    made = tn_host_alloc(1, sizeof *made + listing.capacity * sizeof *listing.entries);
    if (made != NULL) {
        listing.entries = (tarn_pool_entry *)(void *)(made + 1);
        (void)tn_device_walk(device, list_pool, &listing);
    }
    tn_lock_release(&device->lock);
    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a list of %zu pools",
                       listing.capacity);
    made->count = listing.count;
    made->pools = listing.entries;
    *list = made;
    return TARN_OK;
}

/* Whether the addresses rise. */
static bool describe_blocks(tarn_pool *pool, tarn_block *blocks)
{
    uint64_t last = 0;
    size_t count = 0;
    bool rising = true;

    TN_ASSERT(tn_pool_is_locked(pool));
    for (struct tn_block *block = tn_live_first(pool->segments.first); block != NULL;
         block = tn_live_next(block)) {
        if (block->state != TN_BLOCK_LIVE)
            continue;
        rising = rising && last < tn_block_address(block);
        last = tn_block_address(block);
        blocks[count] = tn_describe_block(pool, block);
        count += 1;
    }
    TN_ASSERT(count == tn_pool_live_count(pool)); /* P8 */
    return rising;
}

static int compare_addresses(const void *a, const void *b)
{
    uintptr_t left = (uintptr_t)((const tarn_block *)a)->address;
    uintptr_t right = (uintptr_t)((const tarn_block *)b)->address;

    return left < right ? -1 : left > right;
}

tarn_status tn_pool_list_blocks(tarn_pool *pool, tarn_block_list **list)
{
    tarn_block_list *made;
    tarn_block *blocks = NULL;
    bool rising = true;
    size_t count;

    TN_ASSERT(tn_lock_none_held());
    tn_pool_lock(pool);
    count = tn_pool_live_count(pool);
    made = tn_host_alloc(1, sizeof *made + count * sizeof *blocks);
    if (made != NULL) {
        blocks = (tarn_block *)(void *)(made + 1);
        rising = describe_blocks(pool, blocks);
    }
    tn_pool_unlock(pool);
    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a list of %zu blocks", count);
    if (!rising)
        qsort(blocks, count, sizeof *blocks, compare_addresses);
    made->count = count;
    made->blocks = blocks;
    *list = made;
    return TARN_OK;
}
