// SPDX-License-Identifier: Apache-2.0
/* Uses and pending blocks.
 *
 * A block freed while captures of its pool are under way may be used in any of them, by any stream there:
 * it waits until they are over. If their graphs then hold its chunks, those go from the arena of a stream
 * to the pool's idle memory, for other captures: not before the stream's own work in them is proven to be
 * over, in what was freed there meanwhile too, which nothing but a wait for the device proves. That move may need records, so it is made at a poll,
 * not in the free. If no graph holds them the stream may have the memory at once.
 *
 * A block whose own stream was retired is of no order any more: the fence of the retirement ends what
 * the stream did with it, as if it were a use, and after that nothing runs in it but recorded uses.
 *
 * The order of a capture's own graph is asked only where an allocation in it finds no free memory and a
 * block waits for nothing else.
 *
 * The end of a capture ends what waited for captures alone, whatever polls would find.
 *
 * Trade-offs: a poll looks at every pending block of the pool. A pool with checkpoints may let a quarter of its memory wait
 * that a poll would have freed. */
#include "pools/use.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "base/thread.h"
#include "pools/arenas.h"
#include "pools/body.h"
#include "pools/device.h"
#include "pools/handover.h"
#include "pools/watch.h"

tarn_status tn_use_make(tarn_device *device, tn_cu_stream stream, struct tn_order order,
                        struct tn_use **use)
{
    struct tn_use *made = tn_host_alloc(1, sizeof *made);
    tarn_status status = TARN_OK;

    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to record a stream's use");
    made->order = order;
    if (order.capture_id != 0) {
        made->handle = stream;
        made->thread = tn_thread_id();
    } else {
        status = tn_streams_note(&device->streams, stream, order.stream_id, &made->stream);
    }
    if (status != TARN_OK) {
        tn_host_free(made);
        return status;
    }
    *use = made;
    return TARN_OK;
}

void tn_use_end(tarn_device *device, struct tn_use *use)
{
    if (use->stream != NULL)
        tn_streams_unnote(&device->streams, use->stream);
    if (use->fence != NULL)
        tn_fence_release(&device->streams, use->fence);
    tn_host_free(use);
}

void tn_block_tangle(struct tn_block *block)
{
    block->tangled = true; /* P18 */
    if (block->state == TN_BLOCK_LIVE)
        tn_live_mark(block); /* P23 */
}

static void add_use(struct tn_block *block, struct tn_use *use)
{
    struct tn_block_cold *cold = tn_block_cold(block);

    use->next = cold->uses;
    cold->uses = use;
    tn_block_tangle(block);
}

/* Whether the block's use says already what there is to note of the order; if so, the calling thread is the
 * one that named its stream last. */
static bool name_again(tarn_device *device, struct tn_use *use, struct tn_order order)
{
    if (!tn_order_equal(use->order, order) || use->fence != NULL)
        return false;
    if (use->stream != NULL)
        return tn_streams_name(&device->streams, use->stream);
    use->thread = tn_thread_id();
    return true;
}

tarn_status tn_use_note(tarn_pool *pool, struct tn_block *block, tn_cu_stream stream,
                        struct tn_order order)
{
    struct tn_use *use;
    tarn_status status;

    TN_ASSERT(block->state == TN_BLOCK_LIVE);
    if (tn_order_equal(tn_block_order(block), order))
        return TARN_OK;
    for (use = tn_block_uses(block); use != NULL; use = use->next) {
        if (name_again(pool->device, use, order))
            return TARN_OK;
    }
    if (!tn_block_add_cold(block))
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to record a stream's use");
    status = tn_use_make(pool->device, stream, order, &use);
    if (status != TARN_OK)
        return status;
    add_use(block, use);
    return TARN_OK;
}

size_t tn_uses_count(const struct tn_block *block)
{
    size_t count = 0;

    for (const struct tn_use *use = tn_block_uses(block); use != NULL; use = use->next)
        count += use->stream != NULL;
    return count;
}

void tn_uses_save(tarn_pool *pool, const struct tn_block *block, struct tn_known_stream **streams)
{
    size_t count = 0;

    for (const struct tn_use *use = tn_block_uses(block); use != NULL; use = use->next) {
        if (use->stream == NULL)
            continue;
        tn_streams_acquire(&pool->device->streams, use->stream);
        streams[count] = use->stream;
        count += 1;
    }
}

static tarn_status make_again(tarn_device *device, struct tn_known_stream *stream,
                              struct tn_use **uses)
{
    struct tn_use *made = tn_host_alloc(1, sizeof *made);
    bool noted = false;
    tarn_status status;

    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to record a stream's use");
    status = tn_streams_note_again(&device->streams, stream, &noted);
    if (status != TARN_OK || !noted) {
        tn_host_free(made);
        return status;
    }
    made->order = (struct tn_order){stream->id, 0};
    made->stream = stream;
    made->next = *uses;
    *uses = made;
    return TARN_OK;
}

tarn_status tn_uses_make(tarn_device *device, struct tn_known_stream *const *streams, size_t count,
                         struct tn_use **uses)
{
    struct tn_use *made = NULL;

    for (size_t i = 0; i < count; i++) {
        tarn_status status = make_again(device, streams[i], &made);

        if (status != TARN_OK) {
            tn_uses_drop(device, made);
            return status;
        }
    }
    *uses = made;
    return TARN_OK;
}

void tn_uses_drop(tarn_device *device, struct tn_use *uses)
{
    while (uses != NULL) {
        struct tn_use *next = uses->next;

        tn_use_end(device, uses);
        uses = next;
    }
}

void tn_uses_give(struct tn_block *block, struct tn_use *uses)
{
    struct tn_use **link;

    if (uses == NULL)
        return;
    link = &tn_block_cold(block)->uses;
    while (*link != NULL)
        link = &(*link)->next;
    *link = uses;
    tn_block_tangle(block);
}

/* The work of the use is all on its stream: a fence ends it. */
static void join(tarn_device *device, struct tn_use *use)
{
    use->fence = tn_streams_join(&device->streams, use->stream);
    use->stream = NULL;
}

/* Marks what the stream of the use has in a capture that is under way. On another thread than the
 * stream's the capture may just be ending, and the question would crash the driver: there the use has no
 * marks, and lasts as long as the capture. */
static void mark(tarn_pool *pool, struct tn_use *use)
{
    if (use->handle != NULL && use->thread == tn_thread_id() &&
        tn_hold_find(pool, use->order.capture_id) != NULL)
        tn_markers_take(&pool->device->gpu, use->handle, use->order, &use->markers);
}

void tn_uses_forget(tarn_pool *pool, tn_cu_stream handle)
{
    for (struct tn_block *block = tn_live_first(pool->segments); block != NULL;
         block = tn_live_next(block)) {
        for (struct tn_use *use = tn_block_uses(block); use != NULL; use = use->next) {
            if (use->handle == handle)
                use->handle = NULL;
        }
    }
}

tarn_status tn_use_record(tarn_device *device, struct tn_use *use)
{
    TN_ASSERT(use->stream != NULL);
    join(device, use);
    if (tn_fence_flush(&device->streams, use->fence))
        return TARN_OK;
    if (atomic_load(&use->fence->state) == TN_FENCE_OPEN)
        return tn_fail(TARN_ERR_DRIVER, "the stream began to be captured during the call");
    return TARN_ERR_DRIVER; /* with the driver layer's sentence */
}

void tn_use_add(tarn_pool *pool, struct tn_block *block, struct tn_use *use)
{
    struct tn_use **link = &tn_block_cold(block)->uses;

    while (*link != NULL && ((*link)->fence == NULL || !tn_order_equal((*link)->order, use->order)))
        link = &(*link)->next;
    if (*link != NULL) {
        struct tn_use *older = *link;

        *link = older->next;
        tn_use_end(pool->device, older);
    }
    add_use(block, use);
}

uint64_t tn_block_freed_stamp(const tarn_pool *pool, const struct tn_block *block)
{
    return tn_block_is_of(block, TN_ORDER_NONE) ? 0 : tn_gpu_epoch(&pool->device->gpu);
}

void tn_pending_add(tarn_pool *pool, struct tn_block *block, uint64_t proof_stamp,
                    bool graphs_alone)
{
    struct tn_block_cold *cold = tn_block_cold(block);

    for (struct tn_use *use = tn_block_uses(block); use != NULL; use = use->next) {
        if (use->stream != NULL)
            join(pool->device, use);
        else if (use->order.capture_id != 0)
            mark(pool, use);
    }
    block->state = TN_BLOCK_PENDING;
    block->graphs_alone = graphs_alone;
    block->ended = false;
    cold->hold_serial = pool->hold_serial;
    cold->proof_stamp = proof_stamp;
    cold->kept_stamp = 0;
    cold->freed_stamp = tn_block_freed_stamp(pool, block);
    cold->pending_stamp = tn_gpu_epoch(&pool->device->gpu);
    cold->pending_previous = pool->pending_last;
    cold->pending_next = NULL;
    if (pool->pending_last != NULL)
        tn_block_cold(pool->pending_last)->pending_next = block;
    else
        pool->pending_first = block;
    pool->pending_last = block;
    pool->counters.pending_bytes += tn_block_bytes(block);
    pool->counters.pending_count += 1;
    pool->unheld_count += block->unheld;
    tn_metrics_add_block(pool->counters.metrics, TN_PENDING_BLOCKS, tn_block_bytes(block));
}

/* It counts as pending no more. */
static void count_ended(tarn_pool *pool, const struct tn_block *block)
{
    pool->counters.pending_bytes -= tn_block_bytes(block);
    pool->counters.pending_count -= 1;
    tn_metrics_remove_block(pool->counters.metrics, TN_PENDING_BLOCKS, tn_block_bytes(block));
}

static void unlink_pending(tarn_pool *pool, struct tn_block *block)
{
    const struct tn_block_cold *cold = tn_block_cold(block);

    if (cold->pending_previous != NULL)
        tn_block_cold(cold->pending_previous)->pending_next = cold->pending_next;
    else
        pool->pending_first = cold->pending_next;
    if (cold->pending_next != NULL)
        tn_block_cold(cold->pending_next)->pending_previous = cold->pending_previous;
    else
        pool->pending_last = cold->pending_previous;
    if (block->ended)
        pool->ended_bytes -= tn_block_bytes(block);
    else
        count_ended(pool, block);
    pool->unheld_count -= block->unheld;
    block->unheld = false;
}

static void drop_fence(tarn_pool *pool, struct tn_block *block)
{
    struct tn_fence *fence = tn_block_fence(block);

    if (fence == NULL)
        return;
    tn_block_cold(block)->fence = NULL;
    tn_fence_release(&pool->device->streams, fence);
}

void tn_block_retire(tarn_pool *pool, struct tn_block *block, struct tn_fence *fence)
{
    struct tn_block_cold *cold = tn_block_cold(block);

    TN_ASSERT(block->state == TN_BLOCK_LIVE || block->state == TN_BLOCK_PENDING);
    TN_ASSERT(tn_block_fence(block) == NULL);
    tn_fence_acquire(&pool->device->streams, fence);
    cold->fence = fence;
    cold->order = TN_ORDER_NONE;
    block->own_order = false;
    tn_block_tangle(block);
    cold->freed_stamp = 0; /* the fence proves what the stream did */
    cold->proof_stamp = 0;
}

bool tn_block_settle(tarn_pool *pool, struct tn_block *block)
{
    const struct tn_fence *fence = tn_block_fence(block);

    if (fence != NULL && !tn_fence_is_done(&pool->device->streams, fence))
        return false;
    drop_fence(pool, block);
    return true;
}

void tn_uses_end(tarn_pool *pool, struct tn_block *block)
{
    drop_fence(pool, block);
    if (tn_block_uses(block) == NULL)
        return;
    tn_uses_drop(pool->device, tn_block_uses(block));
    tn_block_cold(block)->uses = NULL;
}

void tn_pending_remove(tarn_pool *pool, struct tn_block *block)
{
    unlink_pending(pool, block);
    tn_uses_end(pool, block);
    tn_watches_break(pool, block);
}

/* A body's capture is part of one that goes on. */
static bool capture_goes_on(const tarn_pool *pool, uint64_t capture_id)
{
    return tn_hold_find(pool, capture_id) != NULL || tn_body_find(pool, capture_id) != NULL;
}

/* The work of the use is in a graph: the hold of its capture keeps the memory. But while the block's own capture goes
 * on that would write it again, with nothing in either graph that orders the two. */
bool tn_use_has_ended_captured(const tarn_pool *pool, const struct tn_block *block,
                               const struct tn_use *use)
{
    return !capture_goes_on(pool, use->order.capture_id) &&
           !capture_goes_on(pool, tn_block_order(block).capture_id);
}

static bool use_has_ended(tarn_pool *pool, const struct tn_block *block, const struct tn_use *use)
{
    if (use->order.capture_id != 0)
        return tn_gpu_is_lost(&pool->device->gpu) || tn_use_has_ended_captured(pool, block, use);
    return tn_fence_is_done(&pool->device->streams, use->fence);
}

/* Ends the uses that are over; true when none is left. */
static bool uses_have_ended(tarn_pool *pool, struct tn_block *block, bool force)
{
    struct tn_use **link = &tn_block_cold(block)->uses;

    while (block->tangled && *link != NULL) {
        struct tn_use *use = *link;

        if (force || use_has_ended(pool, block, use)) {
            *link = use->next;
            tn_use_end(pool->device, use);
        } else {
            link = &use->next;
        }
    }
    return tn_block_uses(block) == NULL;
}

static bool is_held(const struct tn_block *block)
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

/* Not without the pool's handle. */
bool tn_pending_awaits_adoption(const tarn_pool *pool, const struct tn_block *block)
{
    return block->unheld && !(atomic_load(&pool->released) && tn_pool_is_unclaimed(pool));
}

bool tn_pending_moves(const tarn_pool *pool, const struct tn_block *block)
{
    const struct tn_arena *arena = block->heap->arena;

    return block->captured_free && arena != &pool->idle && !tn_arena_is_captured(arena) &&
           is_held(block);
}

/* Whether a block freed beside captures may become FREE; *moves says whether its chunks must go to the
 * idle memory then. */
static bool captures_let_go(tarn_pool *pool, const struct tn_block *block, bool force, bool *moves)
{
    *moves = false;
    if (!block->captured_free)
        return true;
    if (!force && (tn_pending_awaits_adoption(pool, block) ||
                   tn_holds_are_open(pool, tn_block_cold(block)->hold_serial)))
        return false;
    *moves = tn_pending_moves(pool, block);
    return !*moves ||
           ((force || (tn_gpu_is_proven(&pool->device->gpu, tn_block_cold(block)->freed_stamp) &&
                       tn_give_up_is_proven(pool, block))) &&
            tn_blocks_reserve(&pool->store, 2));
}

/* Whether nothing can run in the PENDING block any more. */
static bool has_ended(tarn_pool *pool, struct tn_block *block, bool force)
{
    bool uses_ended;

    if (tn_block_watches(block) != NULL)
        return false; /* kept */
    uses_ended = uses_have_ended(pool, block, force);
    if (force) {
        drop_fence(pool, block);
        return true;
    }
    return uses_ended && tn_block_settle(pool, block) &&
           (tn_block_cold(block)->proof_stamp == 0 ||
            tn_gpu_is_proven(&pool->device->gpu, tn_block_cold(block)->proof_stamp)) &&
           tn_gpu_is_proven(&pool->device->gpu, tn_block_cold(block)->kept_stamp);
}

static bool may_be_of(const struct tn_block *block, uint64_t serial)
{
    return block->unheld && (serial == 0 || serial > tn_block_cold(block)->hold_serial);
}

uint64_t tn_pending_count_unheld(const tarn_pool *pool, uint64_t serial)
{
    uint64_t count = 0;

    if (pool->unheld_count == 0)
        return 0;
    for (const struct tn_block *block = pool->pending_first; block != NULL;
         block = tn_block_cold(block)->pending_next)
        count += may_be_of(block, serial);
    return count;
}

void tn_pending_hold(tarn_pool *pool, uint64_t serial, struct tn_hold *hold)
{
    for (struct tn_block *block = pool->pending_first; block != NULL;
         block = tn_block_cold(block)->pending_next) {
        if (!may_be_of(block, serial))
            continue;
        tn_hold_add(hold, block);
        block->unheld = false;
        pool->unheld_count -= 1;
    }
}

bool tn_pool_has_pending(const tarn_pool *pool)
{
    return pool->pending_first != NULL || pool->retired_count > 0;
}

static void count_freed(struct tn_block *block)
{
    uint64_t freed_stamp = tn_block_cold(block)->freed_stamp;

    tn_block_count_freed(block, freed_stamp, block->graphs_alone ? 0 : freed_stamp);
}

/* Whether captures get the memory of the PENDING block. That of retired streams is anyone's. */
static bool serves_captures(const tarn_pool *pool, const struct tn_block *block)
{
    return !tn_block_is_of(block, TN_ORDER_NONE) &&
           (tn_arena_serves_captures(block->heap->arena) || tn_pending_moves(pool, block));
}

/* keeps: what may serve captures stays as it is. */
static void poll(tarn_pool *pool, bool force, bool keeps)
{
    struct tn_block *next;

    if (!tn_pool_has_pending(pool))
        return;
    tn_streams_poll(&pool->device->streams);
    tn_arenas_end_retired(pool, false);
    for (struct tn_block *block = pool->pending_first; block != NULL; block = next) {
        bool moves;

        next = tn_block_cold(block)->pending_next;
        if ((keeps && serves_captures(pool, block)) || !has_ended(pool, block, force))
            continue;
        if (!captures_let_go(pool, block, force, &moves))
            continue;
        unlink_pending(pool, block);
        if (moves)
            tn_heap_give_up(pool, block);
        count_freed(block); /* what its uses did has ended */
        tn_heap_put(&pool->store, block);
    }
}

void tn_pending_poll(tarn_pool *pool, bool force)
{
    poll(pool, force, false);
}

bool tn_pool_defers(const tarn_pool *pool)
{
    enum { MOST_MIB = 256 }; /* or a quarter of what is mapped */

    return pool->checkpoint_count > 0 &&
           pool->counters.pending_bytes + pool->ended_bytes <=
               tn_max(MOST_MIB * TN_MIB, pool->counters.mapped_bytes / 4);
}

void tn_pending_poll_to_use(tarn_pool *pool, bool captured)
{
    if (!tn_pool_defers(pool))
        poll(pool, false, false);
    else if (!captured)
        poll(pool, false, true);
}

/* Whether nothing can run in the PENDING block any more; its uses stay with it, for whoever settles it is to find the
 * same whether it was polled or not. */
static bool would_end(tarn_pool *pool, const struct tn_block *block)
{
    const struct tn_block_cold *cold = tn_block_cold(block);
    const struct tn_fence *fence = tn_block_fence(block);
    const struct tn_use *use = tn_block_uses(block);

    while (use != NULL && use_has_ended(pool, block, use))
        use = use->next;
    return use == NULL && tn_block_watches(block) == NULL && !tn_pending_moves(pool, block) &&
           !tn_pending_awaits_adoption(pool, block) &&
           !(block->captured_free && tn_holds_are_open(pool, cold->hold_serial)) &&
           (fence == NULL || tn_fence_is_done(&pool->device->streams, fence)) &&
           (cold->proof_stamp == 0 || tn_gpu_is_proven(&pool->device->gpu, cold->proof_stamp)) &&
           tn_gpu_is_proven(&pool->device->gpu, cold->kept_stamp);
}

void tn_pending_collect(tarn_pool *pool)
{
    tn_pending_poll_to_use(pool, false);
    for (struct tn_block *block = pool->pending_first; block != NULL;
         block = tn_block_cold(block)->pending_next) {
        if (block->ended || !would_end(pool, block))
            continue;
        block->ended = true;
        count_ended(pool, block);
        pool->ended_bytes += tn_block_bytes(block);
    }
}

void tn_pending_free(tarn_pool *pool, struct tn_block *block)
{
    uint64_t stamp = tn_gpu_epoch(&pool->device->gpu);
    bool moves = tn_pending_moves(pool, block);

    TN_ASSERT(block->state == TN_BLOCK_PENDING && tn_block_watches(block) == NULL);
    unlink_pending(pool, block);
    tn_uses_end(pool, block);
    if (moves)
        tn_heap_give_up(pool, block);
    /* What used it may run still, before the caller's stream. */
    tn_block_count_freed(block, stamp, stamp);
    tn_heap_put(&pool->store, block);
}

/* Whether the PENDING block waits for captures alone. What polls and waits have found of others does not count. */
static bool waits_for_captures(const struct tn_block *block)
{
    const struct tn_block_cold *cold = tn_block_cold(block);

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

    for (struct tn_block *block = pool->pending_first; block != NULL; block = next) {
        bool moves;

        next = tn_block_cold(block)->pending_next;
        if (!waits_for_captures(block) || !uses_have_ended(pool, block, false) ||
            !captures_let_go(pool, block, false, &moves) || moves)
            continue;
        unlink_pending(pool, block);
        count_freed(block);
        tn_heap_put(&pool->store, block);
    }
}

/* Whether the block waits for nothing but uses in the capture of its own order. */
static bool waits_in_capture(const struct tn_block *block, const struct tn_arena *arena)
{
    if (block->heap->arena != arena || !tn_order_equal(tn_block_order(block), arena->order) ||
        block->captured_free || tn_block_cold(block)->proof_stamp != 0 ||
        tn_block_cold(block)->kept_stamp != 0 || tn_block_watches(block) != NULL)
        return false;
    for (const struct tn_use *use = tn_block_uses(block); use != NULL; use = use->next) {
        if (use->order.capture_id != arena->order.capture_id || !use->markers.known)
            return false;
    }
    return true;
}

static bool comes_before(const struct tn_block *block, const struct tn_ancestry *ancestry)
{
    for (const struct tn_use *use = tn_block_uses(block); use != NULL; use = use->next) {
        if (!tn_ancestry_covers(ancestry, &use->markers))
            return false;
    }
    return true;
}

void tn_pending_poll_capture(tarn_pool *pool, struct tn_arena *arena, tn_cu_stream stream)
{
    struct tn_block *next;
    bool walked = false;

    TN_ASSERT(arena->order.capture_id != 0);
    for (struct tn_block *block = pool->pending_first; block != NULL; block = next) {
        next = tn_block_cold(block)->pending_next;
        if (!waits_in_capture(block, arena))
            continue;
        if (!walked &&
            !tn_ancestry_refresh(&arena->ancestry, &pool->device->gpu, stream, arena->order))
            return;
        walked = true;
        if (!comes_before(block, &arena->ancestry))
            continue;
        tn_pending_remove(pool, block);
        count_freed(block);
        tn_heap_put(&pool->store, block);
    }
}
