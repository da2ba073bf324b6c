// SPDX-License-Identifier: Apache-2.0
/* Uses and pending blocks.
 *
 * A stream handle is used at the free to record the event: its user promised that the stream lives
 * until then. When the stream is being captured at that moment an event would become part of the
 * capture, so the use stays NOTED and is tried again at the next poll.
 *
 * A block freed while a capture of its pool is under way may be used by that capture's graph at
 * every replay: its chunks become captured and go to the pool's idle memory. That move may need
 * records, so it is made at the next poll, not in the free.
 *
 * Trade-offs: an event for each use and free; one event could cover all frees of a stream. The poll
 * asks after every pending block of a stream until one is not done. */
#include "pools/use.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "pools/device.h"

tarn_status tn_use_make(struct tn_gpu *gpu, tn_cu_stream stream, struct tn_order order,
                        struct tn_use **use)
{
    struct tn_use *made = tn_host_alloc(1, sizeof *made);
    tarn_status status;

    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to record a stream's use");
    made->stream = stream;
    made->order = order;
    made->state = TN_USE_NOTED;
    if (order.capture_id == 0) {
        status = tn_event_create(gpu, stream, &made->event);
        if (status != TARN_OK) {
            tn_host_free(made);
            return status;
        }
    }
    *use = made;
    return TARN_OK;
}

void tn_use_end(struct tn_gpu *gpu, struct tn_use *use)
{
    if (use->event != NULL)
        tn_event_destroy(gpu, use->event);
    tn_host_free(use);
}

tarn_status tn_use_note(tarn_pool *pool, struct tn_block *block, tn_cu_stream stream,
                        struct tn_order order)
{
    struct tn_use *use;
    tarn_status status;

    TN_ASSERT(block->state == TN_BLOCK_LIVE);
    if (tn_order_equal(block->order, order))
        return TARN_OK;
    for (use = block->uses; use != NULL; use = use->next) {
        if (tn_order_equal(use->order, order))
            return TARN_OK;
    }
    status = tn_use_make(&pool->device->gpu, stream, order, &use);
    if (status != TARN_OK)
        return status;
    use->next = block->uses;
    block->uses = use;
    return TARN_OK;
}

void tn_use_add_recorded(struct tn_block *block, struct tn_use *use)
{
    use->state = TN_USE_RECORDED;
    use->next = block->uses;
    block->uses = use;
}

/* Records the end of a use outside captures, if its stream can take an event now. */
static void try_record(struct tn_gpu *gpu, struct tn_use *use)
{
    if (use->order.capture_id != 0 || tn_stream_is_closed(gpu, use->stream))
        return;
    if (tn_event_record(gpu, use->event, use->stream)) {
        use->state = TN_USE_RECORDED;
    } else {
        use->state = TN_USE_UNKNOWN;
        use->stamp = tn_gpu_epoch(gpu);
    }
}

void tn_pending_add(tarn_pool *pool, struct tn_block *block)
{
    struct tn_gpu *gpu = &pool->device->gpu;

    for (struct tn_use *use = block->uses; use != NULL; use = use->next) {
        if (use->state == TN_USE_NOTED)
            try_record(gpu, use);
    }
    block->state = TN_BLOCK_PENDING;
    block->freed_stamp = tn_gpu_epoch(gpu);
    block->list_previous = pool->pending_last;
    block->list_next = NULL;
    if (pool->pending_last != NULL)
        pool->pending_last->list_next = block;
    else
        pool->pending_first = block;
    pool->pending_last = block;
    pool->counters.pending_bytes += block->bytes;
    pool->counters.pending_count += 1;
}

static void unlink_pending(tarn_pool *pool, struct tn_block *block)
{
    if (block->list_previous != NULL)
        block->list_previous->list_next = block->list_next;
    else
        pool->pending_first = block->list_next;
    if (block->list_next != NULL)
        block->list_next->list_previous = block->list_previous;
    else
        pool->pending_last = block->list_previous;
    pool->counters.pending_bytes -= block->bytes;
    pool->counters.pending_count -= 1;
}

void tn_pending_remove(tarn_pool *pool, struct tn_block *block)
{
    unlink_pending(pool, block);
    while (block->uses != NULL) {
        struct tn_use *next = block->uses->next;

        tn_use_end(&pool->device->gpu, block->uses);
        block->uses = next;
    }
}

static bool use_has_ended(tarn_pool *pool, struct tn_use *use, uint64_t *busy_stream)
{
    struct tn_gpu *gpu = &pool->device->gpu;
    enum tn_event_answer answer;

    if (tn_gpu_is_lost(gpu))
        return true;
    if (use->order.capture_id != 0)
        return tn_hold_find(pool, use->order.capture_id) == NULL;
    if (use->state == TN_USE_NOTED)
        try_record(gpu, use);
    if (use->state == TN_USE_UNKNOWN)
        return tn_gpu_is_proven(gpu, use->stamp);
    if (use->state == TN_USE_NOTED || use->order.stream_id == *busy_stream)
        return false;
    answer = tn_event_query(gpu, use->event);
    if (answer == TN_EVENT_NOT_YET)
        *busy_stream = use->order.stream_id;
    if (answer == TN_EVENT_UNKNOWN) {
        use->state = TN_USE_UNKNOWN;
        use->stamp = tn_gpu_epoch(gpu);
    }
    return answer == TN_EVENT_DONE;
}

/* Ends the uses that are over; true when none is left. */
static bool uses_have_ended(tarn_pool *pool, struct tn_block *block, bool force,
                            uint64_t *busy_stream)
{
    struct tn_use **link = &block->uses;

    while (*link != NULL) {
        struct tn_use *use = *link;

        if (force || use_has_ended(pool, use, busy_stream)) {
            *link = use->next;
            tn_use_end(&pool->device->gpu, use);
        } else {
            link = &use->next;
        }
    }
    return block->uses == NULL;
}

void tn_pending_poll(tarn_pool *pool, bool force)
{
    struct tn_block *next;
    uint64_t busy_stream = 0;

    for (struct tn_block *block = pool->pending_first; block != NULL; block = next) {
        next = block->list_next;
        if (!uses_have_ended(pool, block, force, &busy_stream))
            continue;
        if (!force && block->proof_stamp != 0 &&
            !tn_gpu_is_proven(&pool->device->gpu, block->proof_stamp))
            continue;
        if (block->captured_free && !tn_blocks_reserve(&pool->store, 2))
            continue; /* its chunks cannot change hands yet */
        unlink_pending(pool, block);
        if (block->captured_free)
            tn_heap_give_up(pool, block);
        tn_block_count_freed(block, block->freed_stamp); /* the uses that came later have ended */
        tn_heap_put(pool, block);
    }
}
