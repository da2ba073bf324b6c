// SPDX-License-Identifier: Apache-2.0
/* A block given up with an event waits in a list, newest first. Every take, give and trim looks at
 * the list, and frees what is idle. The pool of the host then has the memory: it joins free blocks,
 * and lends chunks to other pools of the host that are short of memory.
 *
 * Trade-offs: all events of the list are asked after. Lists are short: each block comes from a
 * checkpoint that has gone. The blocks are no pending ones of the pool, with uses of streams: their
 * checkpoints have an event behind all copies already, and outlive the streams. */
#include "pools/staging.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/host.h"
#include "driver/idle.h"
#include "pools/allocate.h"
#include "pools/free.h"
#include "pools/lone.h"
#include "pools/pieces.h"
#include "pools/reclaim.h"

/* NULL: nothing was taken yet. */
static tarn_pool *pool_of(tarn_device *device)
{
    return atomic_load(&device->host.pools[TN_HOST_STAGING]);
}

static uint64_t mapped_in(tarn_pool *pool)
{
    uint64_t bytes;

    tn_pool_lock(pool);
    bytes = tn_pool_mapped_bytes(pool);
    tn_pool_unlock(pool);
    return bytes;
}

/* The list of blocks that wait ----------------------------------------------------------------- */

static void forget_used(tarn_device *device, struct tn_staging_block *block)
{
    if (block->used != NULL)
        tn_event_destroy(&device->gpu, block->used);
    block->used = NULL;
}

static bool is_proven(tarn_device *device, const struct tn_staging_block *block)
{
    return tn_gpu_is_lost(&device->gpu) || tn_gpu_is_proven(&device->gpu, block->stamp);
}

/* Whether the device has finished with the block. */
static bool is_idle(tarn_device *device, struct tn_staging_block *block)
{
    if (block->used == NULL)
        return is_proven(device, block);
    if (tn_event_query(&device->gpu, block->used) != TN_EVENT_DONE)
        return false;
    forget_used(device, block);
    return true;
}

/* Waits until the block is idle; another status: the driver refuses the wait. */
static tarn_status await_idle(tarn_device *device, struct tn_staging_block *block)
{
    if (block->used != NULL) {
        block->stamp = tn_event_wait(&device->gpu, block->used) == TN_EVENT_DONE
                           ? 0
                           : tn_gpu_epoch(&device->gpu);
        forget_used(device, block);
    }
    return is_proven(device, block) ? TARN_OK : tn_gpu_wait_idle(&device->gpu);
}

/* Blocks that wait, the newest first, in front of those that wait already. */
static void put(tarn_device *device, struct tn_staging_block *first)
{
    struct tn_staging *staging = &device->host.staging;
    struct tn_staging_block *last = first;

    if (first == NULL)
        return;
    while (last->next != NULL)
        last = last->next;
    tn_lock_acquire(&staging->lock);
    last->next = staging->waiting;
    staging->waiting = first;
    tn_lock_release(&staging->lock);
}

static struct tn_staging_block *pick_all(tarn_device *device)
{
    struct tn_staging *staging = &device->host.staging;
    struct tn_staging_block *first;

    tn_lock_acquire(&staging->lock);
    first = staging->waiting;
    staging->waiting = NULL;
    tn_lock_release(&staging->lock);
    return first;
}

static struct tn_staging_block *pick_oldest(tarn_device *device)
{
    struct tn_staging *staging = &device->host.staging;
    struct tn_staging_block **last = &staging->waiting;
    struct tn_staging_block *picked;

    tn_lock_acquire(&staging->lock);
    while (*last != NULL && (*last)->next != NULL)
        last = &(*last)->next;
    picked = *last;
    *last = NULL;
    tn_lock_release(&staging->lock);
    return picked;
}

/* Frees the block, which is idle and nobody's, with its record. */
static void free_block(tarn_device *device, struct tn_staging_block *staged)
{
    tarn_pool *pool = pool_of(device);
    struct tn_block *block;

    TN_ASSERT(staged->used == NULL && tn_lock_none_held());
    if (staged->is_whole) {
        tn_whole_end(device, staged->address, staged->bytes);
        atomic_fetch_sub(&device->host.staging.whole_bytes, staged->bytes);
        tn_host_free(staged);
        return;
    }
    tn_pool_lock(pool);
    block = tn_lone_find(pool, (uint64_t)(uintptr_t)staged->address);
    TN_ASSERT(block != NULL && block->state == TN_BLOCK_LIVE); /* nobody else frees it */
    tn_pool_free_block(pool, block, false);
    tn_pool_unlock(pool);
    tn_host_free(staged);
}

/* Frees the blocks that are idle by now. */
static void settle(tarn_device *device)
{
    struct tn_staging_block *left = NULL;
    struct tn_staging_block **end = &left;
    struct tn_staging_block *next;

    for (struct tn_staging_block *block = pick_all(device); block != NULL; block = next) {
        next = block->next;
        block->next = NULL;
        if (is_idle(device, block)) {
            free_block(device, block);
        } else {
            *end = block;
            end = &block->next;
        }
    }
    put(device, left);
}

/* Taking and giving ---------------------------------------------------------------------------- */

/* A block that no piece can hold. */
static tarn_status take_whole(tarn_device *device, uint64_t bytes, struct tn_staging_block *made)
{
    tarn_status status;

    made->bytes = tn_round_up(bytes, TN_PAGE_BYTES);
    made->is_whole = true;
    status = tn_whole_make(device, made->bytes, &made->address);
    if (status == TARN_OK)
        atomic_fetch_add(&device->host.staging.whole_bytes, made->bytes);
    return status;
}

static tarn_status take_of_pool(tarn_pool *pool, uint64_t bytes, struct tn_staging_block *made)
{
    const struct tn_request request = {tn_round_up(bytes, TN_BLOCK_BYTES_MIN), TN_BLOCK_BYTES_MIN,
                                       TN_ORDER_HOST};
    const uint32_t outer = tn_stacking_begin_own(&pool->device->history.stacking);
    tarn_status status = tn_pool_allocate(pool, &request, NULL, &made->address);

    tn_history_stack = outer;
    made->bytes = request.requested;
    return status;
}

tarn_status tn_staging_take(tarn_pool *pool, uint64_t bytes, struct tn_staging_block **block)
{
    tarn_device *device = pool->device;
    struct tn_staging_block *made;
    tarn_status status;

    TN_ASSERT(bytes > 0 && tn_lock_none_held());
    TN_ASSERT(pool == pool_of(device));
    settle(device);
    made = tn_host_alloc(1, sizeof *made);
    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a record of page-locked memory");
    made->mapped = mapped_in(pool);
    status = tn_pool_has_pieces(pool) && bytes > TN_PIECE_BYTES ? take_whole(device, bytes, made)
                                                                : take_of_pool(pool, bytes, made);
    if (status != TARN_OK) {
        tn_host_free(made);
        return status;
    }
    atomic_fetch_add(&device->host.staging.used_bytes, made->bytes);
    *block = made;
    return TARN_OK;
}

void tn_staging_give(tarn_device *device, struct tn_staging_block *block, tn_cu_event used)
{
    struct tn_staging *staging = &device->host.staging;

    TN_ASSERT(atomic_load(&staging->used_bytes) >= block->bytes && block->next == NULL);
    if (tn_is_forked())
        return;
    block->used = used;
    block->stamp = 0;
    atomic_fetch_sub(&staging->used_bytes, block->bytes);
    if (used != NULL)
        put(device, block);
    else
        free_block(device, block);
    tn_staging_trim(device, atomic_load(&staging->limit_bytes));
}

void tn_staging_undo(tarn_device *device, struct tn_staging_block *block)
{
    struct tn_staging *staging = &device->host.staging;
    const uint64_t mapped = block->mapped;

    TN_ASSERT(atomic_load(&staging->used_bytes) >= block->bytes && block->used == NULL);
    if (tn_is_forked()) /* in a function of the program's: nothing is given back */
        return;
    atomic_fetch_sub(&staging->used_bytes, block->bytes);
    free_block(device, block);
    tn_pool_shrink(pool_of(device), tn_max(mapped, atomic_load(&staging->used_bytes)));
}

void tn_staging_drop(tarn_device *device, struct tn_staging_block *block)
{
    struct tn_staging *staging = &device->host.staging;

    TN_ASSERT(atomic_load(&staging->used_bytes) >= block->bytes && block->used == NULL);
    if (tn_is_forked())
        return;
    block->stamp = tn_gpu_epoch(&device->gpu);
    atomic_fetch_sub(&staging->used_bytes, block->bytes);
    if (await_idle(device, block) == TARN_OK)
        free_block(device, block);
    else
        put(device, block);
    tn_staging_trim(device, atomic_load(&staging->limit_bytes));
}

/* Whether more than keep_bytes are mapped that nobody has. */
static bool is_above(tarn_device *device, uint64_t keep_bytes)
{
    uint64_t bytes;
    uint64_t cached_bytes;

    tn_staging_usage(device, &bytes, &cached_bytes);
    return cached_bytes > keep_bytes;
}

void tn_staging_trim(tarn_device *device, uint64_t keep_bytes)
{
    struct tn_staging *staging = &device->host.staging;
    tarn_pool *pool = pool_of(device);
    struct tn_staging_block *block;

    if (pool == NULL)
        return;
    settle(device);
    if (!is_above(device, keep_bytes))
        return;
    /* As many as wait now: others may give up blocks meanwhile, and trim, too. */
    while ((block = pick_oldest(device)) != NULL) {
        if (await_idle(device, block) != TARN_OK) {
            put(device, block);
            break;
        }
        free_block(device, block);
        tn_pool_shrink(pool, atomic_load(&staging->used_bytes) + keep_bytes);
        if (!is_above(device, keep_bytes))
            return;
    }
    tn_pool_shrink(pool, atomic_load(&staging->used_bytes) + keep_bytes);
}

void tn_staging_set_limit(tarn_device *device, uint64_t bytes)
{
    atomic_store(&device->host.staging.limit_bytes, bytes);
    tn_staging_trim(device, bytes);
}

void tn_staging_usage(tarn_device *device, uint64_t *bytes, uint64_t *cached_bytes)
{
    const struct tn_staging *staging = &device->host.staging;
    tarn_pool *pool = pool_of(device);

    TN_ASSERT(tn_lock_none_held());
    *bytes = (pool != NULL ? mapped_in(pool) : 0) + atomic_load(&staging->whole_bytes);
    *cached_bytes = *bytes - tn_min(*bytes, atomic_load(&staging->used_bytes));
}

void tn_staging_end(tarn_device *device)
{
    struct tn_staging_block *block;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held() && atomic_load(&device->host.staging.used_bytes) == 0);
    while ((block = pick_oldest(device)) != NULL) {
        status = await_idle(device, block);
        (void)status; /* a refusal: the memory goes all the same */
        free_block(device, block);
    }
}
