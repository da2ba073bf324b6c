// SPDX-License-Identifier: Apache-2.0
/* When nothing claims a pool and its memory is proven idle, the pool is taken off its device's
 * list. From then on nobody finds the pool, and it is taken apart. */
#include "pools/end.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/host.h"
#include "claims/watch.h"
#include "driver/idle.h"
#include "heap/arena_lock.h"
#include "pools/arenas.h"
#include "pools/device.h"
#include "pools/grow.h"
#include "pools/pending.h"
#include "pools/pool_lock.h"
#include "pools/totals.h"
#include "pools/trackers.h"

/* Gives chunks to the cache or the driver, and records to the host. The pool is off the device's
 * list, nothing claims it, and its memory is proven idle. */
static void dismantle(tarn_pool *pool)
{
    TN_ASSERT(tn_lock_none_held() && atomic_load(&pool->magic) == 0);
    tn_pool_lock(pool);
    /* Its pins are closed: a thread that tries a pin now is refused, but counts meanwhile. */
    TN_ASSERT(tn_pool_is_unused(pool) && pool->holds.count == 0);
    tn_pending_poll(pool, true);
    for (struct tn_block *block = tn_live_first(pool->segments.first); block != NULL;
         block = tn_live_next(block)) { /* DISCARDED blocks go with their pool */
        tn_live_remove(block);
        tn_uses_end(&pool->device->streams, block);
        tn_watches_forsake(&pool->watches, block);
    }
    tn_pool_unmap_all(pool);
    TN_ASSERT(tn_pool_mapped_bytes(pool) == 0 && pool->pending.first == NULL);
    tn_arenas_fini(pool);
    /* P15: each body has ended with the hold of its outer capture. */
    TN_ASSERT(pool->bodies.first == NULL);
    tn_blocks_fini(&pool->store);
    tn_host_free(pool->chunks.by_id);
    tn_chunk_set_free(&pool->chunks.free_ids);
    tn_pool_unlock(pool);
    tn_lock_acquire(&pool->device->lock);
    tn_totals_keep_events(pool); /* events of its end */
    tn_lock_release(&pool->device->lock);
    tn_pool_recycle(pool);
}

/* Takes the pool off its device's list; its lock and the device's are held. */
static void unlist(tarn_pool *pool)
{
    static const enum tn_pool_list left[] = {TN_POOLS_WAITING, TN_POOLS_HELD, TN_POOLS_OPEN,
                                             TN_POOLS_STRAYS, TN_POOLS_ADOPTING};

    TN_ASSERT(tn_pool_is_locked(pool) && tn_lock_is_held(&pool->device->lock));
    TN_ASSERT(tn_pool_is_unused(pool) && pool->holds.count == 0);
    if (pool->places.previous != NULL)
        pool->places.previous->next = pool->next;
    else
        pool->device->pools = pool->next;
    if (pool->next != NULL)
        pool->next->places.previous = pool->places.previous;
    tn_ending_put(pool, TN_ENDING_NOT);
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        if (pool->places.listed[left[i]])
            tn_pool_list(pool, left[i], false);
    }
    tn_replays_leave(&pool->device->gpu, pool->first_replays); /* with the list: P17 */
    tn_totals_keep(pool);
    atomic_store(&pool->magic, 0);
}

static bool has_unproven_memory(const tarn_pool *pool)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    for (size_t id = 0; id < pool->chunks.ids; id++) {
        if (pool->chunks.by_id[id] != NULL &&
            !tn_gpu_is_proven(&pool->device->gpu, pool->chunks.by_id[id]->freed_stamp))
            return true;
    }
    return tn_pool_has_pending(pool);
}

bool tn_pool_is_idle(tarn_pool *pool)
{
    tn_pending_poll(pool, false);
    return tn_gpu_is_lost(&pool->device->gpu) || !has_unproven_memory(pool);
}

/* The result of a look at a pool which is to go: unlisted, or the device must be waited for first.
 * A single wait is enough: an unclaimed pool is not used again. */
enum verdict { VERDICT_GONE, VERDICT_WAIT, VERDICT_CLAIMED, VERDICT_STALE };

static enum verdict try_unlist(tarn_pool *pool, bool now, bool waited)
{
    enum verdict verdict = VERDICT_GONE;

    tn_lock_acquire(&pool->device->lock);
    tn_pool_lock(pool);
    if (atomic_load(&pool->magic) != TN_POOL_MAGIC ||
        (atomic_load(&pool->ending) == TN_ENDING_NOW) != now)
        verdict = VERDICT_STALE;
    else if (!tn_pool_is_unclaimed(pool))
        verdict = VERDICT_CLAIMED;
    else if (!waited && has_unproven_memory(pool) && !tn_gpu_is_lost(&pool->device->gpu))
        verdict = VERDICT_WAIT;
    else if (!tn_pins_close(&pool->pins)) /* a call has just come in */
        verdict = VERDICT_CLAIMED;
    else
        unlist(pool);
    tn_pool_unlock(pool);
    if (verdict == VERDICT_GONE)
        tn_totals_keep_peaks(pool);
    tn_lock_release(&pool->device->lock);
    return verdict;
}

/* now: the caller has set the pool's ending. */
static tarn_status end(tarn_pool *pool, bool now)
{
    enum verdict verdict;
    tarn_status status = TARN_OK;

    TN_ASSERT(!tn_lock_held(TN_RANK_DEVICE));
    verdict = try_unlist(pool, now, false);
    if (verdict == VERDICT_WAIT) {
        status = tn_gpu_wait_idle(&pool->device->gpu);
        if (status != TARN_OK)
            return status;
        verdict = try_unlist(pool, now, true);
    }
    if (verdict == VERDICT_GONE) {
        if (!tn_trackers_defer_end(pool))
            dismantle(pool);
        return TARN_OK;
    }
    TN_ASSERT(!now || verdict != VERDICT_STALE);
    if (verdict == VERDICT_STALE)
        return tn_fail(TARN_ERR_INVALID_HANDLE, "the pool was destroyed by another thread");
    tn_pool_lock(pool);
    status = tn_pool_check_unclaimed(pool);
    tn_pool_unlock(pool);
    return status != TARN_OK ? status : tn_fail(TARN_ERR_BUSY, "pool '%s' was in use", pool->name);
}

void tn_pools_end_told(tarn_device *device, bool all)
{
    tarn_pool *left = NULL;
    tarn_pool *pool = tn_is_forked() ? NULL : tn_trackers_take_ending(device);

    TN_ASSERT(tn_lock_none_held());
    while (pool != NULL) {
        const bool is_told = tn_trackers_note_end(pool);

        if (tn_is_forked())
            return;
        if (is_told) {
            dismantle(pool);
        } else if (all) {
            (void)tn_trackers_await(device, UINT64_MAX);
            tn_trackers_put_ending(pool);
        } else {
            pool->next = left;
            left = pool;
        }
        pool = tn_trackers_take_ending(device);
    }
    while (left != NULL) {
        tarn_pool *next = left->next;

        tn_trackers_put_ending(left);
        left = next;
    }
}

tarn_status tn_pool_destroy(tarn_pool *pool)
{
    return end(pool, false);
}

tarn_status tn_pool_end_now(tarn_pool *pool)
{
    return end(pool, true);
}
