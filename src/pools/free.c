// SPDX-License-Identifier: Apache-2.0
/* A free looks the address up without a lock, takes the lock of the segment's pool and looks again:
 * only then is the segment known to be this pool's.
 *
 * Trade-offs: the address is looked up twice, and in return a free takes only its pool's lock. */
#include "pools/free.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "claims/body.h"
#include "claims/watch.h"
#include "heap/arena_lock.h"
#include "heap/steady.h"
#include "claims/usable.h"
#include "pools/books.h"
#include "pools/device.h"
#include "pools/loans.h"
#include "pools/lone.h"
#include "pools/pending.h"
#include "pools/pool_lock.h"
#include "vmm/imports.h"

/* The reason why no live block begins at an address inside a segment of the pool. */
static tarn_status explain_address(const tarn_pool *pool, const struct tn_segment *segment,
                                   uint64_t address)
{
    const struct tn_block *block = tn_segment_block_at(segment, address - segment->base);

    TN_ASSERT(tn_pool_is_locked(pool));
    if (block->state == TN_BLOCK_UNMAPPED)
        return tn_fail(TARN_ERR_DOUBLE_FREE,
                       "address 0x%llx of pool '%s' has no memory: its block was freed and the "
                       "memory given back",
                       (unsigned long long)address, pool->name);
    if (block->state != TN_BLOCK_LIVE || tn_block_address(block) == address)
        return tn_fail(TARN_ERR_DOUBLE_FREE,
                       "address 0x%llx of pool '%s' is not live: it was freed before",
                       (unsigned long long)address, pool->name);
    return tn_fail(TARN_ERR_INNER_ADDRESS,
                   "address 0x%llx lies %llu bytes inside block %llu of %llu bytes at 0x%llx; use "
                   "the block's own address",
                   (unsigned long long)address,
                   (unsigned long long)(address - tn_block_address(block)),
                   (unsigned long long)block->sequence, (unsigned long long)block->requested,
                   (unsigned long long)tn_block_address(block));
}

static tarn_status not_ours(uint64_t address)
{
    if (tn_import_is_at(address))
        return tn_fail(
            TARN_ERR_NOT_OURS,
            "address 0x%llx is of another process, which shares the memory there: it can "
            "be closed, by tarn_share_close, and no more",
            (unsigned long long)address);
    return tn_fail(TARN_ERR_NOT_OURS, "address 0x%llx was not handed out by Tarn",
                   (unsigned long long)address);
}

tarn_status tn_pool_lock_segment(uint64_t address, tarn_pool **pool, struct tn_segment **segment)
{
    TN_ASSERT(!tn_lock_held(TN_RANK_POOL));
    for (;;) {
        struct tn_segment *found = tn_address_table_find(address);
        tarn_pool *owner;

        if (found == NULL)
            return not_ours(address);
        owner = atomic_load_explicit(&found->owner, memory_order_acquire);
        if (owner == NULL || atomic_load(&owner->magic) != TN_POOL_MAGIC)
            return not_ours(address); /* the segment is just being taken apart */
        tn_pool_lock(owner);
        if (tn_address_table_find(address) == found &&
            atomic_load_explicit(&found->owner, memory_order_relaxed) == owner) {
            *pool = owner;
            *segment = found;
            return TARN_OK;
        }
        tn_pool_unlock(owner);
    }
}

tarn_status tn_pool_lock_around(uint64_t address, tarn_pool **pool, struct tn_block **block)
{
    struct tn_segment *segment;
    struct tn_block *found;
    tarn_status status = tn_pool_lock_segment(address, pool, &segment);

    TN_ASSERT(status != TARN_OK || tn_pool_is_locked(*pool));
    if (status != TARN_OK)
        return status;
    found = tn_live_find(*pool, address); /* most addresses are blocks' own */
    if (found == NULL)
        found = tn_segment_block_at(segment, address - segment->base);
    if (found->state == TN_BLOCK_LIVE) {
        *block = found;
        return TARN_OK;
    }
    status = tn_fail(TARN_ERR_DOUBLE_FREE, "no live block is at address 0x%llx of pool '%s'",
                     (unsigned long long)address, (*pool)->name);
    tn_pool_unlock(*pool);
    return status;
}

tarn_status tn_pool_lock_block(uint64_t address, bool live_only, tarn_pool **pool,
                               struct tn_block **block)
{
    struct tn_segment *segment;
    struct tn_block *found;
    tarn_status status = tn_pool_lock_segment(address, pool, &segment);

    if (status != TARN_OK)
        return status;
    found = tn_lone_find(*pool, address);
    if (found != NULL && (found->state == TN_BLOCK_LIVE || !live_only)) {
        TN_ASSERT(tn_pool_is_lone(*pool) || tn_block_address(found) == address);
        *block = found;
        return TARN_OK;
    }
    status = explain_address(*pool, segment, address);
    tn_pool_unlock(*pool);
    return status;
}

/* Whether the free must wait for the work of the block's own, retired stream. */
static bool waits_for_retired(tarn_pool *pool, struct tn_block *block)
{
    if (tn_pool_defers(pool))
        return tn_block_fence(block) != NULL; /* whatever a poll has found */
    return !tn_block_end_fences(&pool->device->streams, block);
}

/* The open hold of the block's capture, or, if this capture is a body's, of a capture around it.
 * NULL: not open, or the block is of no capture. */
static const struct tn_hold *find_open_hold(const tarn_pool *pool, const struct tn_block *block)
{
    uint64_t capture_id = tn_block_order(block).capture_id;

    TN_ASSERT(tn_pool_is_locked(pool));
    while (capture_id != 0) {
        const struct tn_hold *hold = tn_hold_find(&pool->holds, capture_id);
        const struct tn_body *body = hold == NULL ? tn_body_find(&pool->bodies, capture_id) : NULL;

        if (body == NULL)
            return hold;
        capture_id = body->outer_id;
    }
    return NULL;
}

static bool has_use_outside(const struct tn_block *block)
{
    const struct tn_use *use = tn_block_uses(block);

    while (use != NULL && use->stream == NULL)
        use = use->next;
    return use != NULL;
}

static bool has_captured_use(const struct tn_block *block)
{
    const struct tn_use *use = tn_block_uses(block);

    while (use != NULL && use->order.capture_id == 0)
        use = use->next;
    return use != NULL;
}

/* P26: whether, apart from its recorded uses, only graphs which hold the block's memory have
 * touched it. During the block's own capture nothing has run in the memory. Later its user may have
 * given the block to any stream: only tarn_free_on names the last use. Copies of checkpoints'
 * contents are no recorded use, and graphs which watch the block do not hold it. */
static bool is_graphs_alone(const tarn_pool *pool, const struct tn_block *block, bool told)
{
    const struct tn_gpu *gpu = &pool->device->gpu;
    const struct tn_hold *hold;

    if (tn_block_order(block).capture_id == 0 || tn_block_watches(block) != NULL)
        return false;
    hold = find_open_hold(pool, block);
    if (hold != NULL && tn_hold_goes_on(hold))
        return true;
    return told && has_use_outside(block) && tn_gpu_is_proven(gpu, pool->copies.saved_stamp) &&
           tn_gpu_is_proven(gpu, pool->copies.restored_stamp);
}

/* The block waits for an event of the stream that allocated it. */
static void count_unasked(const tarn_pool *pool, const struct tn_block *block)
{
    struct tn_arena *user = tn_block_user(pool, block);

    TN_ASSERT(!tn_block_next_use_follows(block));
    if (user != NULL)
        tn_arena_fall(user, tn_block_bytes(block));
}

/* From now on the block's heap counts: its memory goes to whom its chunks belong to (P2). */
static void settle_heap(struct tn_block *block)
{
    struct tn_heap *owner = tn_block_owner(block);

    TN_ASSERT(tn_block_may_be_of(block, owner));
    if (block->heap != owner)
        tn_block_pass(block, owner);
}

static void free_block(tarn_pool *pool, struct tn_block *block, bool unheld, bool told)
{
    bool graphs_alone = is_graphs_alone(pool, block, told);
    bool kept = tn_watches_tell(&pool->watches, block);
    uint64_t freed_stamp;
    uint64_t proof_stamp;

    TN_ASSERT(tn_pool_is_locked(pool) && !(unheld && told));
    settle_heap(block);
    if (block->heap->arena != &pool->idle)
        tn_arena_wake_to_use(pool, block->heap->arena); /* the next frees may go without the lock */
    tn_pool_leave_live(pool, block);
    TN_ASSERT(tn_live_find(pool, tn_block_address(block)) == NULL); /* P5 */
    pool->counters.free_count += 1;
    /* If memory is not of its own order in a capture, nobody knows before the capture's end how the
     * capture used it. */
    block->captured_free = !pool->in_host && tn_holds_add_freed(&pool->holds, block) &&
                           !(tn_arena_is_captured(block->heap->arena) &&
                             tn_order_equal(tn_block_order(block), block->heap->arena->order));
    block->unheld = unheld;
    block->captured_free = block->captured_free || unheld;
    tn_usable_end(&pool->device->gpu, block,
                  kept || block->captured_free || has_captured_use(block) ||
                      tn_block_is_held(block));
    proof_stamp = tn_block_next_use_follows(block) ? 0 : tn_gpu_epoch(&pool->device->gpu);
    /* Else the end of any graph would free the block, whenever the driver tells this end. */
    tn_captured_uses_end(pool, block);
    if (kept || tn_block_uses(block) != NULL || waits_for_retired(pool, block) ||
        block->captured_free || proof_stamp != 0) {
        if (proof_stamp != 0)
            count_unasked(pool, block);
        tn_pending_add(pool, block, proof_stamp, graphs_alone);
        return;
    }
    freed_stamp = tn_block_freed_stamp(pool, block);
    tn_arena_fall(block->heap->arena, tn_block_bytes(block));
    tn_block_count_freed(block, freed_stamp, graphs_alone ? 0 : freed_stamp);
    (void)tn_heap_put(&pool->store, block);
}

void tn_pool_free_block(tarn_pool *pool, struct tn_block *block, bool told)
{
    free_block(pool, block, false, told);
}

void tn_pool_free_unheld(tarn_pool *pool, struct tn_block *block)
{
    free_block(pool, block, true, false);
}

/* Whether the block is LIVE, and of the capture or of a body within. */
static bool is_of(const tarn_pool *pool, const struct tn_block *block, uint64_t capture_id)
{
    uint64_t of = tn_block_order(block).capture_id;

    return block->state == TN_BLOCK_LIVE &&
           (of == capture_id || tn_body_is_within(&pool->bodies, of, capture_id));
}

static void discard_all(tarn_pool *pool, uint64_t capture_id)
{
    for (struct tn_block *block = tn_live_first(pool->segments.first); block != NULL;
         block = tn_live_next(block)) {
        if (is_of(pool, block, capture_id))
            tn_pool_discard_live(pool, block);
    }
}

/* Discards the blocks whose births the holds of `born` have; false: births are missing. */
static bool discard_born(tarn_pool *pool, uint64_t born, uint64_t capture_id)
{
    struct tn_hold *hold = tn_pool_index_first(pool->holds.index, TN_BY_CAPTURE, pool, born);
    bool has_all = hold != NULL;

    for (; hold != NULL;
         hold = tn_pool_index_next(pool->holds.index, &hold->entries[TN_BY_CAPTURE])) {
        has_all = has_all && !hold->births_lost;
        for (const struct tn_births *births = hold->births; births != NULL; births = births->next) {
            has_all = has_all && !births->lost;
            for (size_t i = 0; i < births->count; i++) {
                struct tn_block *block = tn_live_find(pool, births->items[i].address);

                if (block != NULL && is_of(pool, block, capture_id))
                    tn_pool_discard_live(pool, block);
            }
        }
    }
    return has_all;
}

/* By births: beside any number of other blocks this costs what the capture has allocated. */
void tn_pool_discard(tarn_pool *pool, uint64_t capture_id)
{
    bool has_all;

    TN_ASSERT(tn_pool_is_locked(pool) && capture_id != 0);
    has_all = discard_born(pool, capture_id, capture_id);
    for (const struct tn_body *body = pool->bodies.first; body != NULL; body = body->next) {
        if (tn_body_is_within(&pool->bodies, body->capture_id, capture_id))
            has_all = discard_born(pool, body->capture_id, capture_id) && has_all;
    }
    if (!has_all)
        discard_all(pool, capture_id);
}
