// SPDX-License-Identifier: Apache-2.0
/* Pending blocks.
 *
 * A block freed while captures of its pool are under way may be used in any of them, by any stream
 * there. The block waits until these captures are over. If no graph then holds its chunks, the
 * stream may have the memory at once. If a graph holds them, the chunks go from the stream's arena
 * to the pool's idle memory, for other captures. Before this the stream's own work in them must be
 * proven over, including work in memory freed there meanwhile. Only a wait for the device proves
 * this. The move may need records, so a poll makes it, not the free.
 *
 * The order of a capture's own graph is asked only if an allocation in it finds no free memory and
 * a block waits for nothing else.
 *
 * The end of a capture frees the blocks which waited for captures alone, whatever polls would find.
 * A block freed later does not wait for uses in that capture: its free ends them. So the end of a
 * graph, which the driver times, frees no block for captures.
 *
 * Trade-offs: a poll looks at every pending block of the pool where there are news of streams, else
 * at those alone which wait for more than streams. In a pool with checkpoints up to a
 * quarter of the memory may wait which a poll would have freed. */
#include "pools/pending.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/thread.h"
#include "claims/body.h"
#include "claims/watch.h"
#include "claims/usable.h"
#include "pools/arenas.h"
#include "pools/device.h"
#include "pools/handover.h"
#include "pools/loans.h"
#include "pools/proofs.h"

/* Notes where the use's stream is in a capture under way. On other threads than the stream's
 * the capture may just be ending, and the query would crash the driver. There the use gets no
 * frontier, and lasts as long as the capture. */
static void note_frontier(tarn_pool *pool, struct tn_use *use)
{
    TN_ASSERT(use->order.capture_id != 0);
    if (use->handle != NULL && use->thread == tn_thread_id() &&
        tn_hold_find(&pool->holds, use->order.capture_id) != NULL)
        tn_frontier_take(&pool->device->gpu, use->handle, use->order, &use->frontier);
}

uint64_t tn_block_freed_stamp(const tarn_pool *pool, const struct tn_block *block)
{
    return pool->in_host || tn_block_is_of(block, TN_ORDER_NONE) ? 0
                                                                 : tn_gpu_epoch(&pool->device->gpu);
}

void tn_pending_add(tarn_pool *pool, struct tn_block *block, uint64_t proof_stamp,
                    bool graphs_alone)
{
    struct tn_block_cold *cold = tn_block_cold(block);

    TN_ASSERT(tn_pool_is_locked(pool));
    TN_ASSERT(block->state == TN_BLOCK_LIVE || block->state == TN_BLOCK_DISCARDED);
    tn_uses_enter_fences(&pool->device->streams, block);
    for (struct tn_use *use = tn_block_uses(block); use != NULL; use = use->next) {
        if (use->order.capture_id != 0)
            note_frontier(pool, use);
    }
    block->state = TN_BLOCK_PENDING;
    block->heap->pending_count += 1;
    block->graphs_alone = graphs_alone;
    block->ended = false;
    cold->hold_serial = pool->holds.serial;
    cold->proof_stamp = proof_stamp;
    cold->kept_stamp = 0;
    cold->freed_stamp = tn_block_freed_stamp(pool, block);
    cold->pending_stamp = tn_gpu_epoch(&pool->device->gpu);
    cold->pending_previous = pool->pending.last;
    cold->pending_next = NULL;
    if (pool->pending.last != NULL)
        tn_block_cold(pool->pending.last)->pending_next = block;
    else
        pool->pending.first = block;
    pool->pending.last = block;
    pool->pending.unheld_count += block->unheld;
    if (tn_metrics_add_block(pool->counters.metrics, TN_PENDING_BLOCKS, tn_block_bytes(block)))
        pool->counters.unpublished = true;
}

/* Takes the block out of the count of pending blocks. */
static void count_ended(tarn_pool *pool, const struct tn_block *block)
{
    tn_metrics_remove_block(pool->counters.metrics, TN_PENDING_BLOCKS, tn_block_bytes(block));
}

static void unlink_pending(tarn_pool *pool, struct tn_block *block)
{
    const struct tn_block_cold *cold = tn_block_cold(block);

    TN_ASSERT(block->state == TN_BLOCK_PENDING);
    TN_ASSERT(!block->ended || pool->pending.ended_bytes >= tn_block_bytes(block));
    if (cold->pending_previous != NULL)
        tn_block_cold(cold->pending_previous)->pending_next = cold->pending_next;
    else
        pool->pending.first = cold->pending_next;
    if (cold->pending_next != NULL)
        tn_block_cold(cold->pending_next)->pending_previous = cold->pending_previous;
    else
        pool->pending.last = cold->pending_previous;
    if (pool->pending.plain_last == block)
        pool->pending.plain_last = cold->pending_previous;
    if (block->ended)
        pool->pending.ended_bytes -= tn_block_bytes(block);
    else
        count_ended(pool, block);
    TN_ASSERT(pool->pending.unheld_count >= block->unheld);
    pool->pending.unheld_count -= block->unheld;
    block->unheld = false;
    block->heap->pending_count -= 1;
}

void tn_pending_remove(tarn_pool *pool, struct tn_block *block)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    unlink_pending(pool, block);
    tn_uses_end(&pool->device->streams, block);
    tn_watches_break(&pool->watches, block);
    TN_ASSERT(tn_block_uses(block) == NULL && tn_block_watches(block) == NULL);
}

/* Whether the capture goes on. A body's capture is part of a capture which goes on. */
static bool capture_goes_on(const tarn_pool *pool, uint64_t capture_id)
{
    return tn_hold_find(&pool->holds, capture_id) != NULL ||
           tn_body_find(&pool->bodies, capture_id) != NULL;
}

/* The work of the use is in a graph, and the hold of its capture keeps the memory. But while the
 * block's own capture goes on, it would write the memory again, and nothing in either graph orders
 * the two. */
bool tn_capture_use_has_ended(const tarn_pool *pool, const struct tn_block *block,
                              const struct tn_use *use)
{
    TN_ASSERT(tn_pool_is_locked(pool) && use->order.capture_id != 0);
    if (pool->in_host) /* no hold keeps chunks: the block itself is the graph's input */
        return !tn_holds_have(&pool->holds, use->order.capture_id, NULL);
    return !capture_goes_on(pool, use->order.capture_id) &&
           !capture_goes_on(pool, tn_block_order(block).capture_id);
}

static bool use_has_ended(tarn_pool *pool, const struct tn_block *block, const struct tn_use *use)
{
    if (use->order.capture_id != 0)
        return tn_gpu_is_lost(&pool->device->gpu) || tn_capture_use_has_ended(pool, block, use);
    return tn_fence_is_done(&pool->device->streams, use->fence);
}

/* Ends the uses which are over; true: none is left. */
static bool uses_have_ended(tarn_pool *pool, struct tn_block *block, bool force)
{
    struct tn_use **link = &tn_block_cold(block)->uses;

    while (block->may_have_claims && *link != NULL) {
        struct tn_use *use = *link;

        if (force || use_has_ended(pool, block, use)) {
            *link = use->next;
            tn_use_end(&pool->device->streams, use);
        } else {
            link = &use->next;
        }
    }
    return tn_block_uses(block) == NULL;
}

void tn_captured_uses_end(tarn_pool *pool, struct tn_block *block)
{
    struct tn_use **link = block->may_have_claims ? &tn_block_cold(block)->uses : NULL;

    TN_ASSERT(tn_pool_is_locked(pool));
    TN_ASSERT(block->state == TN_BLOCK_LIVE || block->state == TN_BLOCK_DISCARDED);
    while (link != NULL && *link != NULL) {
        struct tn_use *use = *link;

        if (use->order.capture_id != 0 && tn_capture_use_has_ended(pool, block, use)) {
            *link = use->next;
            tn_use_end(&pool->device->streams, use);
        } else {
            link = &use->next;
        }
    }
}

bool tn_block_is_held(const struct tn_block *block)
{
    const struct tn_chunk *chunk = NULL;

    for (uint64_t offset = block->offset; offset < tn_block_end(block);
         offset = tn_chunk_end(chunk)) {
        chunk = tn_segment_chunk_at(block->segment, offset);
        if (chunk->hold_count > 0)
            return true;
    }
    return false;
}

/* Adoption needs the pool's handle. */
bool tn_pending_awaits_adoption(const tarn_pool *pool, const struct tn_block *block)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    return block->unheld && !(atomic_load(&pool->released) && tn_pool_is_unclaimed(pool));
}

bool tn_pending_moves(const tarn_pool *pool, const struct tn_block *block)
{
    const struct tn_arena *arena = block->heap->arena;

    TN_ASSERT(tn_pool_is_locked(pool) && block->state == TN_BLOCK_PENDING);
    return block->captured_free && arena != &pool->idle && !tn_arena_is_captured(arena) &&
           tn_block_is_held(block);
}

/* Whether a block freed beside captures may become FREE; *moves: whether its chunks must then go to
 * the idle memory. */
static bool captures_let_go(tarn_pool *pool, const struct tn_block *block, bool force, bool *moves)
{
    *moves = false;
    if (!block->captured_free)
        return true;
    if (!force && (tn_pending_awaits_adoption(pool, block) ||
                   tn_holds_are_open(&pool->holds, tn_block_cold(block)->hold_serial)))
        return false;
    *moves = tn_pending_moves(pool, block);
    return !*moves ||
           ((force || (tn_gpu_is_proven(&pool->device->gpu, tn_block_cold(block)->freed_stamp) &&
                       tn_give_up_is_proven(pool, block))) &&
            tn_blocks_reserve(&pool->store, 2));
}

/* Whether the work of the block's own order, which the next user does not follow, is proven over.
 * */
static bool own_work_is_proven(const tarn_pool *pool, const struct tn_block *block)
{
    uint64_t stamp = tn_block_cold(block)->proof_stamp;

    TN_ASSERT(block->state == TN_BLOCK_PENDING);
    return stamp == 0 || tn_pool_has_proven(pool, tn_block_user(pool, block), stamp);
}

/* Whether no work can run in the PENDING block any more. */
static bool has_ended(tarn_pool *pool, struct tn_block *block, bool force)
{
    bool uses_ended;

    TN_ASSERT(block->state == TN_BLOCK_PENDING);
    if (tn_block_watches(block) != NULL)
        return false; /* kept */
    uses_ended = uses_have_ended(pool, block, force);
    if (force) {
        tn_block_drop_fence(&pool->device->streams, block);
        return true;
    }
    return uses_ended && tn_block_end_fences(&pool->device->streams, block) &&
           own_work_is_proven(pool, block) &&
           tn_gpu_is_proven(&pool->device->gpu, tn_block_cold(block)->kept_stamp);
}

static bool may_be_of(const struct tn_block *block, uint64_t serial)
{
    TN_ASSERT(block->state == TN_BLOCK_PENDING);
    return block->unheld && (serial == 0 || serial > tn_block_cold(block)->hold_serial);
}

uint64_t tn_pending_count_unheld(const tarn_pool *pool, uint64_t serial)
{
    uint64_t count = 0;

    TN_ASSERT(tn_pool_is_locked(pool));
    if (pool->pending.unheld_count == 0)
        return 0;
    for (const struct tn_block *block = pool->pending.first; block != NULL;
         block = tn_block_cold(block)->pending_next)
        count += may_be_of(block, serial);
    TN_ASSERT(count <= pool->pending.unheld_count); /* P8 */
    return count;
}

void tn_pending_hold(tarn_pool *pool, uint64_t serial, struct tn_hold *hold)
{
    TN_ASSERT(tn_pool_is_locked(pool) && hold->open);
    for (struct tn_block *block = pool->pending.first; block != NULL;
         block = tn_block_cold(block)->pending_next) {
        if (!may_be_of(block, serial))
            continue;
        tn_hold_add(hold, block);
        block->unheld = false;
        TN_ASSERT(pool->pending.unheld_count > 0);
        pool->pending.unheld_count -= 1;
    }
}

bool tn_pool_has_pending(const tarn_pool *pool)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    return pool->pending.first != NULL || pool->arenas.retired_count > 0;
}

/* All work in the block is over, but for work of the order which gets the memory. */
static void count_freed(struct tn_block *block)
{
    uint64_t freed_stamp = tn_block_next_use_follows(block) ? tn_block_cold(block)->freed_stamp : 0;

    if (freed_stamp != 0)
        tn_arena_fall(block->heap->arena, tn_block_bytes(block));
    tn_block_count_freed(block, freed_stamp, block->graphs_alone ? 0 : freed_stamp);
}

/* Whether captures get the memory of the PENDING block. Memory of retired streams is anyone's. */
static bool serves_captures(const tarn_pool *pool, const struct tn_block *block)
{
    return !tn_block_is_of(block, TN_ORDER_NONE) &&
           (tn_arena_serves_captures(block->heap->arena) || tn_pending_moves(pool, block));
}

/* Whether the block waits for streams alone. This does not change while it is PENDING. */
static bool is_plain_wait(const struct tn_block *block)
{
    TN_ASSERT(block->state == TN_BLOCK_PENDING);
    if (block->captured_free || tn_block_watches(block) != NULL)
        return false;
    for (const struct tn_use *use = tn_block_uses(block); use != NULL; use = use->next) {
        if (use->order.capture_id != 0)
            return false;
    }
    return true;
}

/* The oldest block behind those which wait for streams alone. */
static struct tn_block *first_behind_plain(const tarn_pool *pool)
{
    const struct tn_block *last = pool->pending.plain_last;

    return last != NULL ? tn_block_cold(last)->pending_next : pool->pending.first;
}

static struct tn_stream_news news_of(const tarn_pool *pool)
{
    return (struct tn_stream_news){
        .done_count = atomic_load(&pool->device->streams.done_count),
        .proven = atomic_load(&pool->device->gpu.proven),
        .proof_count = pool->arenas.proof_count,
        .is_lost = tn_gpu_is_lost(&pool->device->gpu),
    };
}

/* Where a poll begins. Blocks which wait for streams alone, and which a poll has looked at, need
 * another look only when there are news. */
static struct tn_block *first_to_poll(tarn_pool *pool, bool force)
{
    struct tn_pending *pending = &pool->pending;
    struct tn_stream_news news = news_of(pool);

    if (force || news.done_count != pending->news.done_count ||
        news.proven != pending->news.proven || news.proof_count != pending->news.proof_count ||
        news.is_lost != pending->news.is_lost)
        pending->plain_last = NULL;
    pending->news = news;
    return first_behind_plain(pool);
}

/* keeps: leaves blocks which may serve captures. */
static void poll(tarn_pool *pool, bool force, bool keeps)
{
    struct tn_block *next;
    bool all_plain = !keeps;

    TN_ASSERT(!(force && keeps));
    if (!tn_pool_has_pending(pool))
        return;
    tn_streams_poll(&pool->device->streams);
    tn_arenas_end_retired(pool, false);
    for (struct tn_block *block = first_to_poll(pool, force); block != NULL; block = next) {
        bool moves;

        next = tn_block_cold(block)->pending_next;
        if ((keeps && serves_captures(pool, block)) || !has_ended(pool, block, force) ||
            !captures_let_go(pool, block, force, &moves)) {
            all_plain = all_plain && is_plain_wait(block);
            if (all_plain)
                pool->pending.plain_last = block;
            continue;
        }
        if (moves)
            tn_heap_give_up(pool, block);
        unlink_pending(pool, block);
        tn_usable_settle(&pool->device->gpu, block);
        count_freed(block); /* the work of its uses has ended */
        tn_heap_put(&pool->store, block);
    }
}

void tn_pending_poll(tarn_pool *pool, bool force)
{
    poll(pool, force, false);
}

bool tn_pool_defers(const tarn_pool *pool)
{
    enum { MOST_MIB = 256 }; /* or a quarter of the mapped bytes */

    TN_ASSERT(tn_pool_is_locked(pool));
    return pool->claims.checkpoint_count > 0 &&
           tn_pool_pending_bytes(pool) + pool->pending.ended_bytes <=
               tn_max(MOST_MIB * TN_MIB, tn_pool_mapped_bytes(pool) / 4);
}

void tn_pending_poll_to_use(tarn_pool *pool, bool captured)
{
    if (!tn_pool_defers(pool))
        poll(pool, false, false);
    else if (!captured)
        poll(pool, false, true);
}

/* Whether no work can run in the PENDING block any more. Its uses stay: a settling restore or take
 * must find the same uses, with or without polls before. */
static bool would_end(tarn_pool *pool, const struct tn_block *block)
{
    const struct tn_block_cold *cold = tn_block_cold(block);
    const struct tn_fence *fence = tn_block_fence(block);
    const struct tn_use *use = tn_block_uses(block);

    TN_ASSERT(block->state == TN_BLOCK_PENDING && !block->ended);
    while (use != NULL && use_has_ended(pool, block, use))
        use = use->next;
    return use == NULL && tn_block_watches(block) == NULL && !tn_pending_moves(pool, block) &&
           !tn_pending_awaits_adoption(pool, block) &&
           !(block->captured_free && tn_holds_are_open(&pool->holds, cold->hold_serial)) &&
           (fence == NULL || tn_fence_is_done(&pool->device->streams, fence)) &&
           own_work_is_proven(pool, block) &&
           tn_gpu_is_proven(&pool->device->gpu, cold->kept_stamp);
}

void tn_pending_collect(tarn_pool *pool)
{
    tn_pending_poll_to_use(pool, false);
    for (struct tn_block *block = pool->pending.first; block != NULL;
         block = tn_block_cold(block)->pending_next) {
        if (block->ended || !would_end(pool, block))
            continue;
        block->ended = true;
        count_ended(pool, block);
        pool->pending.ended_bytes += tn_block_bytes(block);
    }
}

void tn_pending_free(tarn_pool *pool, struct tn_block *block)
{
    uint64_t stamp = tn_gpu_epoch(&pool->device->gpu);
    bool moves = tn_pending_moves(pool, block);

    TN_ASSERT(block->state == TN_BLOCK_PENDING && tn_block_watches(block) == NULL);
    TN_ASSERT(tn_pool_is_locked(pool));
    if (moves)
        tn_heap_give_up(pool, block);
    unlink_pending(pool, block);
    tn_usable_settle(&pool->device->gpu, block);
    tn_uses_end(&pool->device->streams, block);
    /* Users of the block may still run, before the caller's stream. */
    tn_arena_fall(block->heap->arena, tn_block_bytes(block));
    tn_block_count_freed(block, stamp, stamp);
    tn_heap_put(&pool->store, block);
}

/* Whether the PENDING block waits for captures alone. Results of polls and waits for other claims
 * do not count. */
static bool waits_for_captures(const struct tn_block *block)
{
    const struct tn_block_cold *cold = tn_block_cold(block);

    TN_ASSERT(block->state == TN_BLOCK_PENDING);
    if (tn_block_watches(block) != NULL || tn_block_fence(block) != NULL ||
        cold->proof_stamp != 0 || cold->kept_stamp != 0)
        return false;
    for (const struct tn_use *use = tn_block_uses(block); use != NULL; use = use->next) {
        if (use->order.capture_id == 0)
            return false;
    }
    return true;
}

void tn_pending_end_captured(tarn_pool *pool)
{
    struct tn_block *next;

    TN_ASSERT(tn_pool_is_locked(pool));
    for (struct tn_block *block = first_behind_plain(pool); block != NULL; block = next) {
        bool moves;

        next = tn_block_cold(block)->pending_next;
        if (!waits_for_captures(block) || !uses_have_ended(pool, block, false) ||
            !captures_let_go(pool, block, false, &moves) || moves)
            continue;
        unlink_pending(pool, block);
        tn_usable_settle(&pool->device->gpu, block);
        count_freed(block);
        tn_heap_put(&pool->store, block);
    }
}

/* Whether the block waits only for uses in the capture of its own order. */
static bool waits_in_capture(const struct tn_block *block, const struct tn_arena *arena)
{
    if (block->heap->arena != arena || !tn_order_equal(tn_block_order(block), arena->order) ||
        block->captured_free || tn_block_cold(block)->proof_stamp != 0 ||
        tn_block_cold(block)->kept_stamp != 0 || tn_block_watches(block) != NULL)
        return false;
    for (const struct tn_use *use = tn_block_uses(block); use != NULL; use = use->next) {
        if (use->order.capture_id != arena->order.capture_id || !use->frontier.known)
            return false;
    }
    return true;
}

static bool comes_before(const struct tn_block *block, const struct tn_ancestry *ancestry)
{
    for (const struct tn_use *use = tn_block_uses(block); use != NULL; use = use->next) {
        if (!tn_ancestry_covers(ancestry, &use->frontier))
            return false;
    }
    return true;
}

void tn_pending_poll_capture(tarn_pool *pool, struct tn_arena *arena, tn_cu_stream stream)
{
    struct tn_ancestry *ancestry = &tn_arena_heaps(arena)->ancestry;
    struct tn_block *next;
    bool walked = false;

    TN_ASSERT(arena->order.capture_id != 0);
    TN_ASSERT(tn_pool_is_locked(pool) && arena->pool == pool);
    for (struct tn_block *block = first_behind_plain(pool); block != NULL; block = next) {
        next = tn_block_cold(block)->pending_next;
        if (!waits_in_capture(block, arena))
            continue;
        if (!walked && !tn_ancestry_refresh(ancestry, &pool->device->gpu, stream, arena->order))
            return;
        walked = true;
        if (!comes_before(block, ancestry))
            continue;
        tn_pending_remove(pool, block);
        count_freed(block);
        tn_heap_put(&pool->store, block);
    }
}
