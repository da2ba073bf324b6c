// SPDX-License-Identifier: Apache-2.0
/* Each use of a PENDING block has a fence. If an event stands for the fence, the stream waits for
 * the event; a use of the stream itself needs nothing. Other fences, and uses that only a proof
 * ends, make a restore wait for the device. A take waits for nothing: then the block stays as it
 * is, whatever the driver would say of it.
 *
 * After a restore its caller orders the next user of the memory, on another stream, behind the
 * restore's stream. After a take the caller has promised no such thing. A take therefore leaves
 * memory of another stream's own PENDING, and has the replays of captures that get memory come
 * behind its stream.
 *
 * Trade-offs: the stream waits for an event once more where uses of several streams take turns. */
#include "checkpoint/settle.h"

#include <stddef.h>

#include "base/contract.h"
#include "claims/watch.h"
#include "pools/arenas.h"
#include "pools/device.h"
#include "pools/handover.h"

void tn_walk_ids_prepare(tarn_pool *pool, uint8_t count)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    if (pool->copies.last_walk_id <= UINT8_MAX - count)
        return;
    for (struct tn_segment *segment = pool->segments.first; segment != NULL;
         segment = segment->next) {
        for (struct tn_block *block = segment->first_block; block != NULL; block = block->next)
            block->walk_id = 0;
    }
    pool->copies.last_walk_id = 0;
}

uint8_t tn_next_walk_id(tarn_pool *pool)
{
    tn_walk_ids_prepare(pool, 1);
    pool->copies.last_walk_id += 1;
    return pool->copies.last_walk_id;
}

/* The fate of a block: the worst that any of its uses demands. */
enum fate { GOES, NEEDS_WAIT, STAYS };

static enum fate worse(enum fate a, enum fate b)
{
    return a > b ? a : b;
}

static enum fate fate_by_fence(const struct tn_settlement *settlement, struct tn_fence *fence)
{
    struct tn_streams *streams = &settlement->pool->device->streams;

    TN_ASSERT(tn_pool_is_locked(settlement->pool));
    if (tn_fence_is_done(streams, fence))
        return GOES;
    return settlement->by_events && tn_fence_flush(streams, fence) ? GOES : NEEDS_WAIT;
}

static bool is_own(const struct tn_settlement *settlement, struct tn_order order)
{
    return tn_order_equal(order, settlement->order);
}

static enum fate fate_by_use(const struct tn_settlement *settlement, const struct tn_block *block,
                             const struct tn_use *use)
{
    if (use->order.capture_id != 0)
        return tn_capture_use_has_ended(settlement->pool, block, use) ? GOES : STAYS;
    if (is_own(settlement, use->order))
        return GOES;
    if (use->fence != NULL)
        return fate_by_fence(settlement, use->fence);
    /* A LIVE block's fence is made when the block is freed. */
    if (block->sequence <= settlement->idle_sequence)
        return GOES;
    return settlement->by_events &&
                   tn_streams_can_record(&settlement->pool->device->streams, use->stream)
               ? GOES
               : NEEDS_WAIT;
}

static enum fate fate_by_uses(const struct tn_settlement *settlement, const struct tn_block *block)
{
    struct tn_fence *fence = tn_block_fence(block);
    enum fate fate = fence != NULL ? fate_by_fence(settlement, fence) : GOES;

    TN_ASSERT(block->state == TN_BLOCK_LIVE || block->state == TN_BLOCK_PENDING);
    for (const struct tn_use *use = tn_block_uses(block); use != NULL; use = use->next)
        fate = worse(fate, fate_by_use(settlement, block, use));
    return fate;
}

static bool is_proven(const struct tn_settlement *settlement, uint64_t stamp)
{
    return tn_gpu_is_proven(&settlement->pool->device->gpu, stamp);
}

/* The fate of the PENDING block by its needs besides its uses. */
static enum fate fate_by_proofs(const struct tn_settlement *settlement,
                                const struct tn_block *block)
{
    const struct tn_block_cold *cold = tn_block_cold(block);
    bool own = is_own(settlement, tn_block_order(block));

    TN_ASSERT(block->state == TN_BLOCK_PENDING);
    if (tn_block_watches(block) != NULL || tn_pending_awaits_adoption(settlement->pool, block))
        return STAYS;
    if (!is_proven(settlement, cold->kept_stamp) ||
        (!own && cold->proof_stamp != 0 && !is_proven(settlement, cold->proof_stamp)))
        return NEEDS_WAIT;
    if (tn_pending_moves(settlement->pool, block) &&
        !is_own(settlement, block->heap->arena->order) &&
        !(is_proven(settlement, cold->freed_stamp) &&
          tn_give_up_is_proven(settlement->pool, block)))
        return NEEDS_WAIT;
    return GOES;
}

/* Whether the memory goes to the settlement's stream, or to captures. */
static bool serves_caller(const struct tn_settlement *settlement, const struct tn_block *block)
{
    return tn_arena_serves_captures(block->heap->arena) ||
           tn_pending_moves(settlement->pool, block) ||
           is_own(settlement, block->heap->arena->order);
}

/* False after a restore's wait: blocks that others freed meanwhile stay as they are. */
static bool may_wait(const struct tn_settlement *settlement)
{
    return settlement->all && settlement->idle_sequence == 0;
}

/* Whether others may still use the block when the stream comes to it. */
static bool may_be_used(const struct tn_settlement *settlement, const struct tn_block *block)
{
    const struct tn_streams *streams = &settlement->pool->device->streams;
    const struct tn_fence *fence = tn_block_fence(block);
    bool used = fence != NULL && !tn_fence_is_done(streams, fence);

    for (const struct tn_use *use = tn_block_uses(block); use != NULL && !used; use = use->next)
        used = use->fence != NULL && !tn_fence_is_done(streams, use->fence);
    return used;
}

static void decide(struct tn_settlement *settlement, struct tn_block *block, enum fate fate)
{
    TN_ASSERT(block->state == TN_BLOCK_LIVE || block->state == TN_BLOCK_PENDING);
    TN_ASSERT(settlement->walk_id != 0);
    if (fate == NEEDS_WAIT && may_wait(settlement))
        settlement->needs_wait = true;
    block->walk_id = 0;
    if (fate != GOES || (!settlement->all && !serves_caller(settlement, block)))
        return;
    block->walk_id = settlement->walk_id;
    settlement->count += 1;
    if (!is_own(settlement, block->heap->arena->order) && may_be_used(settlement, block))
        settlement->serves_captures = true;
}

void tn_settle_plan_live(struct tn_settlement *settlement, struct tn_block *block)
{
    enum fate fate;

    TN_ASSERT(block->state == TN_BLOCK_LIVE);
    if (tn_block_uses(block) == NULL && tn_block_fence(block) == NULL &&
        tn_block_next_use_follows(block))
        return; /* its free makes it FREE at once */
    fate = fate_by_uses(settlement, block);
    if (!tn_block_next_use_follows(block) && !is_own(settlement, tn_block_order(block)) &&
        block->sequence > settlement->idle_sequence)
        fate = worse(fate, NEEDS_WAIT);
    decide(settlement, block, fate);
}

/* The arenas of retired streams: all of them end, or none. */
static void plan_retired(struct tn_settlement *settlement)
{
    const tarn_pool *pool = settlement->pool;
    enum fate fate = GOES;

    for (const struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_RETIRED]; arena != NULL;
         arena = arena->in[TN_ARENAS_RETIRED].next) {
        fate = worse(fate, fate_by_fence(settlement, arena->fence));
        settlement->serves_captures =
            settlement->serves_captures ||
            !tn_fence_is_done(&settlement->pool->device->streams, arena->fence);
    }
    settlement->ends_retired = fate == GOES && pool->arenas.retired_count > 0;
    if (fate == NEEDS_WAIT && may_wait(settlement))
        settlement->needs_wait = true;
}

void tn_settle_plan(struct tn_settlement *settlement)
{
    TN_ASSERT(tn_pool_is_locked(settlement->pool));
    settlement->needs_wait = false;
    settlement->serves_captures = false;
    settlement->count = 0;
    plan_retired(settlement);
    for (struct tn_block *block = settlement->pool->pending.first; block != NULL;
         block = tn_block_cold(block)->pending_next)
        decide(settlement, block,
               worse(fate_by_uses(settlement, block), fate_by_proofs(settlement, block)));
}

/* Puts the stream behind the fence. *last: the fence before, which the stream is behind already. */
static bool follow(const struct tn_settlement *settlement, const struct tn_fence *fence,
                   const struct tn_fence **last)
{
    if (fence == NULL || fence == *last)
        return true;
    *last = fence;
    return tn_fence_follow(&settlement->pool->device->streams, fence, settlement->stream);
}

static bool follow_uses(const struct tn_settlement *settlement, const struct tn_block *block,
                        const struct tn_fence **last)
{
    bool follows = follow(settlement, tn_block_fence(block), last);

    for (const struct tn_use *use = tn_block_uses(block); use != NULL && follows; use = use->next) {
        if (!is_own(settlement, use->order))
            follows = follow(settlement, use->fence, last);
    }
    return follows;
}

tarn_status tn_settle_prepare(const struct tn_settlement *settlement)
{
    tarn_pool *pool = settlement->pool;
    const struct tn_fence *last = NULL;
    bool follows = true;

    TN_ASSERT(tn_pool_is_locked(pool));
    for (const struct tn_arena *arena =
             settlement->ends_retired ? pool->arenas.lists.first[TN_ARENAS_RETIRED] : NULL;
         arena != NULL && follows; arena = arena->in[TN_ARENAS_RETIRED].next)
        follows = follow(settlement, arena->fence, &last);
    for (const struct tn_block *block = pool->pending.first; block != NULL && follows;
         block = tn_block_cold(block)->pending_next) {
        if (block->walk_id == settlement->walk_id)
            follows = follow_uses(settlement, block, &last);
    }
    if (follows)
        return TARN_OK;
    return tn_gpu_is_lost(&pool->device->gpu) ? TARN_ERR_DEVICE_LOST : TARN_ERR_DRIVER;
}

/* Whether the block was LIVE at the plan, and the stream is not behind its uses yet. */
static bool may_be_in_use(const struct tn_settlement *settlement, const struct tn_block *block,
                          const struct tn_fence **last)
{
    TN_ASSERT(block->state == TN_BLOCK_PENDING);
    if (block->sequence <= settlement->idle_sequence)
        return false;
    for (const struct tn_use *use = tn_block_uses(block); use != NULL; use = use->next) {
        if (use->fence != NULL && !is_own(settlement, use->order))
            (void)tn_fence_flush(&settlement->pool->device->streams, use->fence);
    }
    return !follow_uses(settlement, block, last);
}

void tn_settle_commit(const struct tn_settlement *settlement)
{
    tarn_pool *pool = settlement->pool;
    const struct tn_fence *last = NULL;
    struct tn_block *next;

    TN_ASSERT(tn_pool_is_locked(pool));
    TN_ASSERT(!settlement->needs_wait);
    if (settlement->ends_retired)
        tn_arenas_end_retired(pool, true);
    for (struct tn_block *block = settlement->count > 0 ? pool->pending.first : NULL; block != NULL;
         block = next) {
        next = tn_block_cold(block)->pending_next; /* C8 */
        if (block->walk_id == settlement->walk_id && tn_block_watches(block) == NULL &&
            !may_be_in_use(settlement, block, &last))
            tn_pending_free(pool, block);
    }
}
