// SPDX-License-Identifier: Apache-2.0
/* An allocation reserves records and room in the live index, and looks for a free block: in its
 * arena, among pending blocks whose uses have ended, and in the pool's idle memory. Without such a
 * block the heap grows, down the ladder of ladder.h where memory is short. Then the block is cut to
 * size, which cannot fail. */
#include "pools/allocate.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "claims/body.h"
#include "driver/sanitizer.h"
#include "driver/stream.h"
#include "heap/arena_lock.h"
#include "heap/provision.h"
#include "heap/sequence.h"
#include "heap/steady.h"
#include "pools/arena_table.h"
#include "pools/arenas.h"
#include "pools/books.h"
#include "pools/device.h"
#include "pools/grow.h"
#include "pools/handover.h"
#include "pools/ladder.h"
#include "pools/loans.h"
#include "pools/lone.h"
#include "pools/pending.h"
#include "pools/proofs.h"
#include "pools/reserve.h"

struct attempt {
    const struct tn_request *request;
    tn_cu_stream stream;
    bool *met; /* see tn_arena_meet */
};

/* Enters the birth of a block which an order in a capture has just allocated. */
static void enter_birth(tarn_pool *pool, const struct tn_block *block, tn_cu_stream stream)
{
    struct tn_births *births = block->heap->arena->births;
    struct tn_place place;

    TN_ASSERT(block->state == TN_BLOCK_LIVE && tn_block_order(block).capture_id != 0);
    if (births->lost)
        return;
    tn_place_ask(&pool->device->gpu, stream, tn_block_order(block), &place);
    tn_births_enter(births, &place,
                    &(struct tn_birth){.address = tn_block_address(block),
                                       .requested = block->requested,
                                       .sequence = block->sequence});
}

/* Cuts a block out of a FREE block, at an address in it, and makes it live. Returns it. hold: of the order's
 * capture, or NULL. Room for the birth is reserved. */
static struct tn_block *commit_allocation(tarn_pool *pool, struct tn_block *block,
                                          const struct attempt *attempt, struct tn_hold *hold,
                                          uint64_t start, uint64_t bytes)
{
    TN_ASSERT(block->state == TN_BLOCK_FREE && start >= tn_block_address(block));
    TN_ASSERT(start + bytes <= tn_block_address(block) + tn_block_bytes(block));
    TN_ASSERT((hold != NULL) == (attempt->request->order.capture_id != 0));
    block = tn_heap_carve(&pool->store, block, start - block->segment->base, bytes);
    block->requested = attempt->request->requested;
    tn_block_set_order(block, attempt->request->order);
    block->sequence = tn_next_sequence();
    block->heap->arena->sequence = block->sequence + 1; /* it has set none aside: it is locked */
    block->heap->arena->sequences_end = block->sequence + 1;
    tn_pool_enter_live(pool, block, false);
    if (hold != NULL) {
        tn_hold_add(hold, block);
        enter_birth(pool, block, attempt->stream);
    }
    if (hold != NULL && pool->bodies.first != NULL)
        tn_bodies_hold(&pool->bodies, &pool->holds, hold->capture_id, block);
    tn_arena_rise(block->heap->arena, bytes);
    pool->counters.alloc_count += 1;
    TN_ASSERT(tn_block_address(block) == start && tn_block_is_of(block, attempt->request->order));
    return block;
}

/* Grows the heap. Outside captures the first attempt then asks its stream, whose handle is valid
 * now: places which memory has left wait for an event. */
static tarn_status grow(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes, bool frugal,
                        bool first, tn_cu_stream stream)
{
    tarn_status status = tn_heap_grow(pool, heap, bytes, frugal);

    if (status == TARN_OK && first && !pool->in_host && !tn_arena_is_captured(heap->arena) &&
        pool->vacated.count > 0)
        tn_proofs_ask(pool, heap->arena, stream);
    return status;
}

enum { RECORDS_FOR_ALLOCATION = 4 }; /* two for chunks that change hands, two for the cut */

/* Where a tool is told of blocks, 512 bytes or more lie between two of them, which no kernel may use. */
static uint64_t bytes_for(const tarn_pool *pool, const struct tn_request *request)
{
    const bool apart = tn_gpu_is_linear(&pool->device->gpu) && !pool->in_host;

    if (tn_pool_is_lone(pool))
        return tn_lone_bytes(request->requested, request->alignment);
    return tn_block_bytes_for(pool->rounding,
                              request->requested + (apart ? TN_BLOCK_BYTES_MIN : 0));
}

/* Finds a FREE block for the attempt, or grows the heap by one; *start: an address in it. */
static tarn_status find_or_grow(tarn_pool *pool, struct tn_heap *heap,
                                const struct attempt *attempt, bool first, bool frugal,
                                struct tn_block **found, uint64_t *start)
{
    const struct tn_request *request = attempt->request;
    const uint64_t capture_id = request->order.capture_id;
    const uint64_t room = bytes_for(pool, request) + request->alignment - TN_BLOCK_BYTES_MIN;
    struct tn_arena *arena = heap->arena;
    struct tn_block *block = tn_heap_find(pool, heap, room);

    if (block == NULL && capture_id == 0)
        tn_proofs_poll(pool); /* also for what is pending */
    if (block == NULL && tn_pool_has_pending(pool)) {
        tn_pending_poll_to_use(pool, capture_id != 0);
        if (capture_id != 0 && !pool->device->no_record_stream_reuse)
            tn_pending_poll_capture(pool, arena, attempt->stream);
        if (!tn_blocks_reserve(&pool->store, RECORDS_FOR_ALLOCATION))
            return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a block's records");
        block = tn_heap_find(pool, heap, room);
    }
    if (block == NULL && tn_reserved_return(pool, heap))
        block = tn_heap_find(pool, heap, room);
    if (block == NULL && capture_id == 0)
        block = tn_heap_borrow(pool, heap, room);
    if (block == NULL) {
        tarn_status status = grow(pool, heap, room, frugal, first, attempt->stream);

        if (status != TARN_OK)
            return status;
        block = tn_heap_find(pool, heap, room);
    }
    TN_ASSERT(block != NULL);
    *found = block;
    *start = tn_round_up(tn_block_address(block), request->alignment);
    return TARN_OK;
}

static tarn_status try_allocate(tarn_pool *pool, const void *context, bool frugal, void **address)
{
    const struct attempt *attempt = context;
    const struct tn_request *request = attempt->request;
    uint64_t bytes = bytes_for(pool, request);
    uint64_t capture_id = request->order.capture_id;
    struct tn_hold *hold = capture_id != 0 ? tn_hold_find(&pool->holds, capture_id) : NULL;
    /* Later a function of the program may have destroyed the stream: the handle may be another's. */
    bool first = !*attempt->met;
    struct tn_arena *arena;
    struct tn_heap *heap;
    struct tn_block *block;
    uint64_t start;
    tarn_status status;

    TN_ASSERT(tn_pool_is_locked(pool));
    TN_ASSERT(pool->in_host == tn_order_equal(request->order, TN_ORDER_HOST));
    if (capture_id != 0 && hold == NULL)
        return tn_fail(TARN_ERR_CAPTURE_BROKEN, "the capture of this stream ended during the call");
    arena = tn_arena_get(pool, request->order);
    if (arena == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for an arena");
    if (pool->in_host)
        arena->met = true; /* of no stream */
    status = tn_arena_meet(arena, attempt->stream, attempt->met);
    if (status != TARN_OK)
        return status;
    if (first && capture_id == 0 && !tn_stream_is_default(attempt->stream))
        tn_arena_name(pool, arena, attempt->stream);
    if (!tn_provision_take(arena) || !tn_blocks_reserve(&pool->store, RECORDS_FOR_ALLOCATION))
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a block's records");
    if (first && !pool->in_host && tn_arena_unasked_left(arena) == 0)
        tn_proofs_ask(pool, arena, attempt->stream);
    heap = arena->heaps[tn_kind_of(bytes)];
    status = tn_pool_is_lone(pool)
                 ? tn_lone_grow(pool, heap, bytes, request->alignment, attempt->stream,
                                first && capture_id == 0, &block, &start)
                 : find_or_grow(pool, heap, attempt, first, frugal, &block, &start);
    if (status != TARN_OK)
        return status;
    TN_ASSERT(block != NULL);
    if (hold != NULL)
        hold->births_lost = !tn_births_provide(&arena->births, &hold->births) || hold->births_lost;
    if (!tn_live_reserve(tn_address_table_chunk(start), 1))
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a block's records");
    block = commit_allocation(pool, block, attempt, hold, start, bytes);
    *address = (void *)(uintptr_t)tn_lone_address(pool, block);
    TN_ASSERT(start % request->alignment == 0);
    return TARN_OK;
}

tarn_status tn_pool_allocate(tarn_pool *pool, const struct tn_request *request, tn_cu_stream stream,
                             void **address)
{
    bool met = false;
    const struct attempt attempt = {request, stream, &met};

    TN_ASSERT(tn_lock_none_held());
    TN_ASSERT(request->requested > 0 && (request->alignment & (request->alignment - 1)) == 0);
    if (pool->in_host != tn_order_equal(request->order, TN_ORDER_HOST))
        return tn_fail(TARN_ERR_INVALID_HANDLE,
                       "the pool was destroyed during the call, and its record is another's");
    return tn_ladder_run(pool, try_allocate, &attempt, request->requested, address);
}
