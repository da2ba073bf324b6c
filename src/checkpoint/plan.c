// SPDX-License-Identifier: Apache-2.0
/* Planning a restore: the saved blocks are gone through in order of address, and with them the blocks
 * that are there now.
 *
 * Memory that other streams may be using makes the plan ask for a wait. What the wait proved is told by
 * stamps, where blocks were freed; of live blocks, those that were there before it. So a plan made after
 * a wait asks for another one only where somebody has freed meanwhile.
 *
 * A stream that has no arena any more may be gone: its blocks come back to idle memory. The restore's
 * own stream is there, and gets one.
 *
 * Trade-offs: a wait for the device instead of events of the streams concerned. */
#include "checkpoint/plan.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/host.h"
#include "graphs/replay.h"
#include "pools/device.h"
#include "pools/handover.h"

static tarn_status no_memory(void)
{
    return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to restore a checkpoint");
}

static enum tn_heap_kind kind_of(const struct tn_saved_block *saved)
{
    return saved->bytes <= TN_SMALL_BYTES_MAX ? TN_HEAP_SMALL : TN_HEAP_LARGE;
}

struct tn_order tn_plan_order(const struct tn_plan *plan, const struct tn_saved_block *saved)
{
    return tn_order_equal(saved->order, TN_ORDER_NONE) ? plan->order : saved->order;
}

struct tn_heap *tn_plan_home(struct tn_plan *plan, const struct tn_saved_block *saved)
{
    struct tn_order order = tn_plan_order(plan, saved);
    enum tn_heap_kind kind = kind_of(saved);
    struct tn_arena *arena = NULL;

    if (plan->homes[kind] != NULL && tn_order_equal(order, plan->home_order))
        return plan->homes[kind]; /* blocks of one order often follow each other */
    if (order.capture_id == 0)    /* those of captures end with them */
        arena = tn_arena_find(plan->pool, order);
    if (arena == NULL)
        arena = &plan->pool->idle;
    plan->home_order = order;
    plan->homes[TN_HEAP_SMALL] = &arena->heaps[TN_HEAP_SMALL];
    plan->homes[TN_HEAP_LARGE] = &arena->heaps[TN_HEAP_LARGE];
    return plan->homes[kind];
}

/* Makes sure that the restore's own stream has an arena when a block of it comes back. */
static bool make_home(struct tn_plan *plan, const struct tn_saved_block *saved)
{
    if (plan->is_at_home || !tn_order_equal(tn_plan_order(plan, saved), plan->order))
        return true;
    plan->is_at_home = tn_arena_get(plan->pool, plan->order) != NULL;
    plan->homes[TN_HEAP_SMALL] = NULL; /* what was looked up before may be this one's */
    plan->homes[TN_HEAP_LARGE] = NULL;
    return plan->is_at_home;
}

/* Whether replays of the pool's graphs may run, unordered with the stream. */
static bool replays_may_run(const struct tn_plan *plan)
{
    return !tn_replays_precede(plan->pool, plan->order.stream_id);
}

/* Whether the last use of the chunk's free memory may still run, unordered with the stream. */
static bool chunk_may_be_in_use(const struct tn_plan *plan, const struct tn_chunk *chunk)
{
    const struct tn_arena *arena = chunk->heap->arena;

    if (chunk->hold_count > 0 && replays_may_run(plan))
        return true;
    if (arena != &plan->pool->idle && arena->order.stream_id == plan->order.stream_id)
        return false;
    return !tn_gpu_is_proven(&plan->pool->device->gpu, chunk->freed_stamp);
}

/* Whether streams other than the plan's have used the block. */
static bool has_other_users(const struct tn_plan *plan, const struct tn_block *block)
{
    bool others = !tn_order_equal(tn_block_order(block), plan->order);

    for (const struct tn_use *use = tn_block_uses(block); use != NULL && !others; use = use->next)
        others = !tn_order_equal(use->order, plan->order);
    return others;
}

static bool live_may_be_in_use(const struct tn_plan *plan, const struct tn_block *block)
{
    return has_other_users(plan, block) && block->sequence > plan->idle_sequence;
}

static bool pending_may_be_in_use(const struct tn_plan *plan, const struct tn_block *block)
{
    return has_other_users(plan, block) &&
           !tn_gpu_is_proven(&plan->pool->device->gpu, tn_block_cold(block)->pending_stamp);
}

static bool add_hole(struct tn_plan *plan, const struct tn_block *unmapped, struct tn_heap *heap,
                     uint64_t begin, uint64_t end)
{
    uint64_t from = tn_max(tn_round_down(begin, TN_PAGE_BYTES), unmapped->offset);
    uint64_t to = tn_min(tn_round_up(end, TN_PAGE_BYTES), tn_block_end(unmapped));
    struct tn_hole *last = plan->hole_count > 0 ? &plan->holes[plan->hole_count - 1] : NULL;

    if (last != NULL && last->segment == unmapped->segment)
        from = tn_max(from, last->offset + last->bytes); /* C5 */
    if (from >= to)
        return true;
    if (!tn_host_grow((void **)&plan->holes, &plan->hole_capacity, plan->hole_count + 1,
                      sizeof *plan->holes))
        return false;
    plan->holes[plan->hole_count] = (struct tn_hole){unmapped->segment, heap, from, to - from};
    plan->hole_count += 1;
    plan->hole_bytes += to - from;
    plan->record_count += 2 + 2 * (size_t)((to - from) / TN_PAGE_BYTES);
    return true;
}

/* Looks at a block where one is to be revived. */
static tarn_status plan_block(struct tn_plan *plan, const struct tn_saved_block *saved,
                              const struct tn_block *block)
{
    switch (block->state) {
    case TN_BLOCK_DISCARDED:
        return tn_fail(TARN_ERR_WRONG_STATE,
                       "block %llu of an aborted capture lies where the checkpoint has block %llu; "
                       "free it first",
                       (unsigned long long)block->sequence, (unsigned long long)saved->sequence);
    case TN_BLOCK_UNMAPPED:
        if (!add_hole(plan, block, tn_plan_home(plan, saved), saved->offset,
                      saved->offset + saved->bytes))
            return no_memory();
        break;
    case TN_BLOCK_PENDING:
        plan->needs_wait = plan->needs_wait || pending_may_be_in_use(plan, block);
        break;
    case TN_BLOCK_LIVE: /* not then, or no block could come here */
        plan->needs_wait = plan->needs_wait || live_may_be_in_use(plan, block);
        break;
    case TN_BLOCK_FREE:
        break; /* its chunks tell */
    }
    return TARN_OK;
}

static struct tn_block *block_at(struct tn_block *block, uint64_t offset)
{
    while (tn_block_end(block) <= offset)
        block = block->next;
    return block;
}

/* Looks at what lies where a block is to be revived; *cursor is a block at or below it. */
static tarn_status plan_range(struct tn_plan *plan, const struct tn_saved_block *saved,
                              struct tn_block **cursor)
{
    uint64_t end = saved->offset + saved->bytes;
    struct tn_block *block = *cursor;
    struct tn_heap *home;

    if (!make_home(plan, saved))
        return no_memory();
    while (tn_block_end(block) <= saved->offset)
        block = block->next;
    *cursor = block;
    plan->record_count += 2;
    for (; block != NULL && block->offset < end; block = block->next) {
        tarn_status status = plan_block(plan, saved, block);

        if (status != TARN_OK)
            return status;
    }
    for (uint64_t at = saved->offset; at < end;) {
        struct tn_chunk *chunk = tn_segment_chunk_at(saved->segment, at);

        if (chunk == NULL) {
            at = tn_round_down(at, TN_PAGE_BYTES) + TN_PAGE_BYTES;
            continue;
        }
        home = tn_plan_home(plan, saved);
        plan->record_count += 2; /* it may change hands, also for the blocks revived before */
        plan->needs_wait = plan->needs_wait || chunk_may_be_in_use(plan, chunk) ||
                           !tn_handover_is_proven(plan->pool, chunk, block_at(*cursor, at), home,
                                                  plan->idle_sequence);
        at = tn_chunk_end(chunk);
    }
    return TARN_OK;
}

static tarn_status plan_blocks(struct tn_plan *plan)
{
    const tarn_checkpoint *checkpoint = plan->checkpoint;
    bool writes = checkpoint->contents != NULL;
    struct tn_block *cursor = NULL;
    size_t kept_count = 0;
    struct tn_live_place last = {NULL, NULL};
    tarn_status status = TARN_OK;

    for (size_t i = 0; i < checkpoint->block_count && status == TARN_OK; i++) {
        const struct tn_saved_block *saved = &checkpoint->blocks[i];
        struct tn_block *block =
            tn_live_find_near(plan->pool, saved->segment->base + saved->offset, &last);

        if (block != NULL && block->state == TN_BLOCK_LIVE && block->sequence == saved->sequence) {
            block->mark = plan->mark;
            kept_count += 1;
            plan->needs_wait = plan->needs_wait || (writes && live_may_be_in_use(plan, block));
            continue;
        }
        if (plan->revived_count == plan->revived_capacity &&
            !tn_host_grow((void **)&plan->revived, &plan->revived_capacity, plan->revived_count + 1,
                          sizeof *plan->revived))
            return no_memory();
        plan->revived[plan->revived_count] = i; /* C5 */
        plan->revived_count += 1;
        if (cursor == NULL || cursor->segment != saved->segment)
            cursor = saved->segment->first_block;
        status = plan_range(plan, saved, &cursor);
    }
    plan->freed_count = plan->pool->counters.live_count - kept_count;
    plan->needs_wait = plan->needs_wait || (writes && replays_may_run(plan));
    return status;
}

tarn_status tn_plan_make(struct tn_plan *plan)
{
    tarn_status status = tn_checkpoint_check_pool(plan->pool);

    plan->mark = tn_next_mark(plan->pool);
    plan->revived_count = 0;
    plan->hole_count = 0;
    plan->hole_bytes = 0;
    plan->record_count = 0;
    plan->needs_wait = false;
    plan->is_at_home = false;
    plan->homes[TN_HEAP_SMALL] = NULL;
    plan->homes[TN_HEAP_LARGE] = NULL;
    return status == TARN_OK ? plan_blocks(plan) : status;
}

void tn_plan_fini(struct tn_plan *plan)
{
    tn_host_free(plan->revived);
    tn_host_free(plan->holes);
}
