// SPDX-License-Identifier: Apache-2.0
/* Each watched block knows its pool, so the end of a watch finds the lock for each of its blocks.
 * The pool may have gone meanwhile, with another pool in its record:
 *
 *     ends a watch                           frees the block, ends its pool
 *     reads the pool of the block
 *                                            tells the watch, sets the pool of the block to NULL
 *                                            the pool goes, its record is recycled
 *     locks the record, still a pool's lock
 *     reads the pool again: NULL, done
 *
 * Trade-offs: a thread that ends a watch locks a pool once for each of its blocks. */
#include "pools/watches.h"

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "claims/use.h"
#include "pools/device.h"
#include "pools/free.h"
#include "pools/janitor.h"

static tarn_status no_memory(void)
{
    return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to watch a block");
}

tarn_status tn_watch_init(struct tn_watch *watch, tarn_pool *replayer, bool keeps, size_t capacity,
                          _Atomic uint64_t *word, uint64_t fresh, uint64_t stale)
{
    *watch = (struct tn_watch){.gpu = &replayer->device->gpu,
                               .replayer = replayer,
                               .replays = &replayer->replays,
                               .keeps = keeps,
                               .word = word,
                               .fresh = fresh,
                               .stale = stale,
                               .capacity = capacity};
    if (capacity == 0)
        return TARN_OK;
    watch->blocks = tn_host_alloc(capacity, sizeof *watch->blocks);
    return watch->blocks != NULL ? TARN_OK : no_memory();
}

/* Adds the block which begins there now; its pool is locked. */
static tarn_status add_block(struct tn_watched *watched, tarn_pool *pool, struct tn_block *block,
                             uint64_t sequence)
{
    TN_ASSERT(tn_pool_is_locked(pool) && block->state == TN_BLOCK_LIVE);
    if (!tn_block_add_cold(block))
        return no_memory();
    if (block->sequence != sequence) {
        tn_watched_tell(watched);
        return TARN_OK;
    }
    tn_watched_link(watched, block);
    atomic_store(&watched->pool, pool);
    pool->watches.count += 1;
    tn_block_note_claims(block);
    TN_ASSERT(tn_block_watches(block) == watched);
    return TARN_OK;
}

tarn_status tn_watch_add(struct tn_watch *watch, uint64_t address, uint64_t sequence)
{
    struct tn_watched *watched = &watch->blocks[watch->count];
    struct tn_block *block;
    tarn_pool *pool;
    tarn_status status = TARN_OK;

    TN_ASSERT(watch->count < watch->capacity);
    watched->watch = watch;
    if (tn_pool_lock_block(address, true, &pool, &block) == TARN_OK) {
        if (&pool->device->gpu == watch->gpu)
            status = add_block(watched, pool, block, sequence);
        tn_pool_unlock(pool);
    } else {
        tn_watched_tell(watched);
    }
    watch->count += status == TARN_OK;
    TN_ASSERT(watch->count <= watch->capacity);
    return status;
}

/* The PENDING block's last watch is gone. */
static void end_keeping(tarn_pool *pool, const struct tn_block *block)
{
    TN_ASSERT(block->state == TN_BLOCK_PENDING && pool->watches.kept_count > 0);
    (void)block;
    pool->watches.kept_count -= 1;
}

/* Takes the block off the watch. The pool is locked, and is still the block's. Returns whether a
 * released pool may go. */
static bool unlink_watched(tarn_pool *pool, struct tn_watched *watched)
{
    const struct tn_block *block = watched->block;

    TN_ASSERT(tn_pool_is_locked(pool) && pool->watches.count > 0);
    tn_watched_unlink(watched);
    tn_watches_note_left(&pool->watches, watched->watch);
    atomic_store(&watched->pool, NULL);
    if (block->state == TN_BLOCK_PENDING && !watched->watch->is_lease)
        tn_block_cold(block)->kept_stamp = tn_gpu_epoch(&pool->device->gpu); /* of launches */
    if (block->state != TN_BLOCK_PENDING || tn_block_watches(block) != NULL)
        return false;
    end_keeping(pool, block);
    return atomic_load(&pool->released) && tn_pool_is_unclaimed(pool);
}

static void end_watched(struct tn_watched *watched)
{
    tarn_pool *pool = atomic_load(&watched->pool);
    tarn_device *device = NULL;

    if (pool == NULL)
        return;
    tn_pool_lock(pool);
    if (atomic_load(&watched->pool) == pool && unlink_watched(pool, watched))
        device = pool->device;
    tn_pool_unlock(pool);
    if (device != NULL)
        tn_device_end_released(device);
    TN_ASSERT(atomic_load(&watched->pool) == NULL);
}

void tn_watch_drop(struct tn_watch *watch)
{
    for (size_t i = 0; i < watch->count; i++)
        TN_ASSERT(atomic_load(&watch->blocks[i].pool) == NULL);
    tn_host_free(watch->blocks);
    *watch = (struct tn_watch){.keeps = false};
}

void tn_watch_end(struct tn_watch *watch)
{
    TN_ASSERT(tn_lock_none_held());
    for (size_t i = 0; i < watch->count; i++)
        end_watched(&watch->blocks[i]);
    tn_host_free(watch->blocks);
    *watch = (struct tn_watch){.keeps = false};
}
