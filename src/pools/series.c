// SPDX-License-Identifier: Apache-2.0
/* Pools come to one record of replays under the DEVICE lock. The pools leave the record whose
 * oldest pool is the younger of the two. Short-lived pools, such as pools of adopted captures,
 * therefore leave nothing behind with a long-lived pool, whichever pool is merged into the other.
 *
 * Trade-off: pools which have once shared a capture are kept in order until they go, even when the
 * shared graph is gone. */
#include "pools/series.h"

#include <stddef.h>

#include "base/contract.h"
#include "claims/replays.h"
#include "pools/device.h"

/* The DEVICE lock is held. */
static void merge(tarn_device *device, struct tn_replays *from, struct tn_replays *to)
{
    TN_ASSERT(tn_lock_is_held(&device->lock) && from != to);
    tn_replays_begin_merge(from, to);
    /* No visit, here and below: pools are told apart by their records, unlocked. Those that may be
     * merged are locked. */
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        if (atomic_load(&pool->replays) == from)
            atomic_store(&pool->replays, to);
    }
    tn_replays_end_merge(from, to, tn_gpu_epoch(&device->gpu));
}

static void share(tarn_pool *pool, tarn_pool *other)
{
    struct tn_replays *one = atomic_load(&pool->replays);
    struct tn_replays *another = atomic_load(&other->replays);
    struct tn_replays *older = one;

    TN_ASSERT(pool->device == other->device);
    /* Devices list their pools newest first. */
    for (const tarn_pool *any = pool->device->pools; any != NULL; any = any->next) {
        struct tn_replays *replays = atomic_load(&any->replays);

        if (replays == one || replays == another)
            older = replays;
    }
    merge(pool->device, older == one ? another : one, older);
    TN_ASSERT(atomic_load(&pool->replays) == atomic_load(&other->replays)); /* P17 */
}

/* Whether graphs write memory of the pool that other graphs have: neither the default pool nor memory
 * of the host is held for graphs. */
static bool orders_replays(const tarn_pool *pool)
{
    return !pool->is_default && !pool->in_host;
}

void tn_replays_merge_pools(tarn_pool *pool, uint64_t capture_id, tn_cu_graph graph)
{
    tarn_device *device = pool->device;
    const struct tn_index_keys keys = {.capture_id = capture_id, .graph = graph};
    uint64_t below = UINT64_MAX;
    tarn_pool *other;

    TN_ASSERT(!tn_lock_held(TN_RANK_DEVICE));
    if (!orders_replays(pool))
        return;
    tn_lock_acquire(&device->lock);
    /* No visit: which pools have such a hold is known without their locks. */
    while ((other = tn_pool_index_pool(&device->index, &keys, &below)) != NULL) {
        if (atomic_load(&pool->replays) != atomic_load(&other->replays) && orders_replays(other))
            share(pool, other);
    }
    tn_lock_release(&device->lock);
}
