// SPDX-License-Identifier: Apache-2.0
/* Restoring a checkpoint, in three steps under the pool's lock:
 *
 *   plan     compare the live set with the saved one by sequence number; find what must be freed,
 *            what revived, which addresses there have no memory, and whether memory to be written
 *            may still be in use on another stream. Changes nothing.
 *   prepare  set records aside, map the holes, enqueue the copies of contents. May fail; what was
 *            mapped is unmapped again, after a wait for the device where copies are under way.
 *   commit   free and revive. Cannot fail.
 *
 * Where the plan finds memory that other streams may be using, the lock is dropped, the device waited
 * for once, and the plan made anew.
 *
 * Trade-offs: a wait for the device instead of events of the streams concerned. A copy that the
 * driver refuses half-way leaves bytes of both moments; the live set is then as before, and the
 * restore can be repeated. */
#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "checkpoint/contents.h"
#include "pools/grow.h"
#include "pools/reclaim.h"

/* Addresses that must be mapped before blocks there can be revived. */
struct hole {
    struct tn_segment *segment;
    struct tn_heap *heap;
    uint64_t offset;
    uint64_t bytes;
};

struct plan {
    tarn_checkpoint *checkpoint; /* immutable, as the next three */
    tarn_pool *pool;
    tarn_stream stream;
    struct tn_order order;
    uint64_t mark;      /* kept blocks carry it */
    size_t freed_count; /* live now, not then */
    size_t *revived;    /* indices of saved blocks that are not live now */
    size_t revived_capacity;
    size_t revived_count;
    struct hole *holes;
    size_t hole_capacity;
    size_t hole_count;
    size_t record_count; /* that prepare and commit may take */
    bool needs_wait;
    bool left_copies; /* prepare failed with copies under way, into holes that stay mapped */
};

static tarn_status no_memory(void)
{
    return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to restore a checkpoint");
}

/* The heap that a revived block's chunks belong to: its own order's, or the idle memory where that
 * order was in a capture that is over. The idle memory too while anything holds chunks: what is free
 * around the block may be captured, which no order's own heap may hand out. NULL: no memory for an
 * arena. */
static struct tn_heap *home_of(tarn_pool *pool, const struct tn_saved_block *saved)
{
    enum tn_heap_kind kind = saved->bytes <= TN_SMALL_BYTES_MAX ? TN_HEAP_SMALL : TN_HEAP_LARGE;
    bool may_be_captured = saved->order.capture_id != 0 || pool->hold_count > 0;
    struct tn_arena *arena = may_be_captured ? &pool->idle : tn_arena_get(pool, saved->order);

    return arena != NULL ? &arena->heaps[kind] : NULL;
}

/* Whether all replays of the pool's graphs are ordered before the plan's stream. */
static bool follows_replays(const struct plan *plan)
{
    tarn_pool *pool = plan->pool;

    if (atomic_load(&pool->orders_replays))
        return atomic_load(&pool->replay_stream_id) == plan->order.stream_id;
    return !atomic_load(&pool->replayed);
}

/* Whether the last use of the chunk's free memory may still run, unordered with the stream. */
static bool chunk_may_be_in_use(const struct plan *plan, const struct tn_chunk *chunk)
{
    const struct tn_arena *arena = chunk->heap->arena;

    if (chunk->hold_count > 0 && !follows_replays(plan))
        return true;
    if (arena != &plan->pool->idle && arena->order.stream_id == plan->order.stream_id)
        return false;
    return !tn_gpu_is_proven(&plan->pool->device->gpu, chunk->freed_stamp);
}

static bool block_may_be_in_use(const struct plan *plan, const struct tn_block *block)
{
    return block->uses != NULL || block->order.stream_id != plan->order.stream_id;
}

static bool add_hole(struct plan *plan, const struct tn_block *unmapped, struct tn_heap *heap,
                     uint64_t begin, uint64_t end)
{
    uint64_t from = tn_max(tn_round_down(begin, TN_PAGE_BYTES), unmapped->offset);
    uint64_t to = tn_min(tn_round_up(end, TN_PAGE_BYTES), tn_block_end(unmapped));
    struct hole *last = plan->hole_count > 0 ? &plan->holes[plan->hole_count - 1] : NULL;

    if (last != NULL && last->segment == unmapped->segment)
        from = tn_max(from, last->offset + last->bytes);
    if (from >= to)
        return true;
    if (!tn_host_grow((void **)&plan->holes, &plan->hole_capacity, plan->hole_count + 1,
                      sizeof *plan->holes))
        return false;
    plan->holes[plan->hole_count] = (struct hole){unmapped->segment, heap, from, to - from};
    plan->hole_count += 1;
    plan->record_count += 2 + 2 * (size_t)((to - from) / TN_PAGE_BYTES);
    return true;
}

/* Looks at what lies where a block is to be revived; *cursor is a block at or below it. */
static tarn_status plan_range(struct plan *plan, const struct tn_saved_block *saved,
                              struct tn_block **cursor)
{
    uint64_t end = saved->offset + saved->bytes;
    struct tn_heap *heap = home_of(plan->pool, saved);
    struct tn_block *block = *cursor;

    if (heap == NULL)
        return no_memory();
    while (tn_block_end(block) <= saved->offset)
        block = block->next;
    *cursor = block;
    plan->record_count += 2;
    for (; block != NULL && block->offset < end; block = block->next) {
        if (block->state == TN_BLOCK_DISCARDED)
            return tn_fail(TARN_ERR_WRONG_STATE,
                           "block %llu of an aborted capture lies where the checkpoint has block "
                           "%llu; free it first",
                           (unsigned long long)block->sequence,
                           (unsigned long long)saved->sequence);
        if (block->state == TN_BLOCK_UNMAPPED && !add_hole(plan, block, heap, saved->offset, end))
            return no_memory();
        if (block->state == TN_BLOCK_PENDING)
            plan->needs_wait = true;
        if (block->state == TN_BLOCK_LIVE && block_may_be_in_use(plan, block))
            plan->needs_wait = true;
    }
    for (uint64_t at = saved->offset; at < end;) {
        struct tn_chunk *chunk = tn_segment_chunk_at(saved->segment, at);

        if (chunk == NULL) {
            at = tn_round_down(at, TN_PAGE_BYTES) + TN_PAGE_BYTES;
            continue;
        }
        if (chunk->heap != heap)
            plan->record_count += 2;
        if (chunk_may_be_in_use(plan, chunk))
            plan->needs_wait = true;
        at = tn_chunk_end(chunk);
    }
    return TARN_OK;
}

/* Compares the live set with the saved one. */
static tarn_status plan_blocks(struct plan *plan)
{
    const tarn_checkpoint *checkpoint = plan->checkpoint;
    struct tn_block *cursor = NULL;
    size_t kept_count = 0;
    tarn_status status = TARN_OK;

    for (size_t i = 0; i < checkpoint->block_count && status == TARN_OK; i++) {
        const struct tn_saved_block *saved = &checkpoint->blocks[i];
        struct tn_block *block =
            tn_live_find(&plan->pool->live, saved->segment->base + saved->offset);

        if (block != NULL && block->state == TN_BLOCK_LIVE && block->sequence == saved->sequence) {
            block->mark = plan->mark;
            kept_count += 1;
            if (checkpoint->contents != NULL && block_may_be_in_use(plan, block))
                plan->needs_wait = true;
            continue;
        }
        if (!tn_host_grow((void **)&plan->revived, &plan->revived_capacity,
                          plan->revived_count + 1, sizeof *plan->revived))
            return no_memory();
        plan->revived[plan->revived_count] = i;
        plan->revived_count += 1;
        if (cursor == NULL || cursor->segment != saved->segment)
            cursor = saved->segment->first_block;
        status = plan_range(plan, saved, &cursor);
    }
    plan->freed_count = plan->pool->counters.live_count - kept_count;
    if (checkpoint->contents != NULL && checkpoint->block_count > 0 && !follows_replays(plan))
        plan->needs_wait = true;
    return status;
}

static tarn_status make_plan(struct plan *plan)
{
    tarn_status status = tn_checkpoint_check_pool(plan->pool);

    plan->mark = tn_next_mark();
    plan->revived_count = 0;
    plan->hole_count = 0;
    plan->record_count = 0;
    plan->needs_wait = false;
    return status == TARN_OK ? plan_blocks(plan) : status;
}

/* The plan with the pool's lock held; the lock is free again on failure. */
static tarn_status plan_and_lock(struct plan *plan)
{
    tarn_status status;

    tn_lock_acquire(&plan->pool->lock);
    status = make_plan(plan);
    if (status == TARN_OK && plan->needs_wait) {
        tn_lock_release(&plan->pool->lock);
        status = tn_gpu_wait_idle(&plan->pool->device->gpu);
        if (status != TARN_OK)
            return status;
        tn_lock_acquire(&plan->pool->lock);
        status = make_plan(plan); /* what the wait proved is idle, whoever used it */
    }
    if (status != TARN_OK)
        tn_lock_release(&plan->pool->lock);
    return status;
}

/* The delta, with room for all of the plan; one allocation. */
static tarn_delta *make_delta(const struct plan *plan)
{
    size_t bytes = sizeof(tarn_delta) + plan->freed_count * sizeof(tarn_block) +
                   plan->revived_count * sizeof(tarn_revived);
    tarn_delta *delta = tn_host_alloc(1, bytes);
    tarn_revived *revived;

    if (delta == NULL)
        return NULL;
    revived = (tarn_revived *)(void *)(delta + 1);
    delta->revived = revived;
    delta->freed = (tarn_block *)(void *)(revived + plan->revived_count);
    return delta;
}

static struct tn_block *find_unmapped(const struct hole *hole)
{
    struct tn_block *block = hole->segment->first_block;

    while (tn_block_end(block) <= hole->offset)
        block = block->next;
    return block;
}

static void unmap_holes(struct plan *plan, size_t count)
{
    for (size_t i = count; i-- > 0;)
        tn_heap_unmap_at(plan->pool, plan->holes[i].segment, plan->holes[i].offset,
                         plan->holes[i].bytes);
}

static tarn_status map_holes(struct plan *plan)
{
    for (size_t i = 0; i < plan->hole_count; i++) {
        const struct hole *hole = &plan->holes[i];
        tarn_status status = tn_heap_map_at(plan->pool, hole->heap, find_unmapped(hole),
                                            hole->offset, hole->bytes);

        if (status != TARN_OK) {
            unmap_holes(plan, i);
            return status;
        }
    }
    return TARN_OK;
}

/* Copies into the holes may be under way: whoever would unmap them must wait for the device. */
static void keep_holes(struct plan *plan)
{
    uint64_t stamp = tn_gpu_epoch(&plan->pool->device->gpu);

    for (size_t i = 0; i < plan->hole_count; i++) {
        const struct hole *hole = &plan->holes[i];

        for (uint64_t at = hole->offset; at < hole->offset + hole->bytes;) {
            struct tn_chunk *chunk = tn_segment_chunk_at(hole->segment, at);

            chunk->freed_stamp = stamp;
            at = tn_chunk_end(chunk);
        }
    }
    plan->left_copies = true;
}

static tarn_status prepare(struct plan *plan, struct tn_use *use)
{
    tarn_status status;

    if (!tn_blocks_reserve(&plan->pool->store, plan->record_count) ||
        !tn_live_reserve(&plan->pool->live, plan->revived_count))
        return no_memory();
    status = map_holes(plan);
    if (status == TARN_OK && use != NULL) {
        status = tn_contents_load(plan->checkpoint, plan->stream, plan->order, use);
        if (status != TARN_OK)
            keep_holes(plan);
    }
    return status;
}

/* Frees what is live without the plan's mark. */
static void free_unsaved(struct plan *plan, tarn_block *freed)
{
    struct tn_live_table *live = &plan->pool->live;
    size_t count = 0;

    if (plan->freed_count == 0)
        return;
    /* A removal moves later entries of its run back, so the same slot is looked at again. */
    for (size_t i = 0; i < live->capacity; i++) {
        struct tn_block *block = live->slots[i];

        while (block != NULL && block->state == TN_BLOCK_LIVE && block->mark != plan->mark) {
            freed[count] = tn_describe_block(plan->pool, block);
            count += 1;
            tn_pool_free_block(plan->pool, block);
            block = live->slots[i];
        }
    }
    TN_ASSERT(count == plan->freed_count);
}

/* Makes all blocks over the saved one's bytes FREE, carves it out again and makes it live. */
static struct tn_block *revive(struct plan *plan, const struct tn_saved_block *saved,
                               struct tn_block *cursor)
{
    tarn_pool *pool = plan->pool;
    struct tn_heap *heap = home_of(pool, saved); /* there: the plan has made its arena */
    uint64_t end = saved->offset + saved->bytes;
    struct tn_block *block = cursor;
    struct tn_block *next;

    while (tn_block_end(block) <= saved->offset)
        block = block->next;
    for (; block != NULL && block->offset < end; block = next) {
        next = block->next;
        if (block->state != TN_BLOCK_PENDING)
            continue;
        tn_pending_remove(pool, block);
        tn_block_count_freed(block, tn_gpu_epoch(&pool->device->gpu));
        next = tn_heap_put(pool, block)->next;
    }
    tn_heap_take_over(pool, heap, cursor, saved->offset, end);
    for (block = cursor; tn_block_end(block) <= saved->offset;)
        block = block->next;
    block = tn_heap_carve(pool, block, saved->offset, saved->bytes);
    block->requested = saved->requested;
    block->sequence = saved->sequence;
    block->order = saved->order;
    tn_pool_enter_live(pool, block);
    return block;
}

static void commit(struct plan *plan, tarn_delta *delta)
{
    tarn_revived *revived = (tarn_revived *)(void *)(delta + 1);
    struct tn_block *last = NULL;

    free_unsaved(plan, (tarn_block *)(void *)(revived + plan->revived_count));
    for (size_t i = 0; i < plan->revived_count; i++) {
        const struct tn_saved_block *saved = &plan->checkpoint->blocks[plan->revived[i]];

        if (last == NULL || last->segment != saved->segment)
            last = saved->segment->first_block;
        last = revive(plan, saved, last);
        revived[i] = (tarn_revived){
            .block = tn_describe_block(plan->pool, last),
            .undefined = plan->checkpoint->contents == NULL,
        };
    }
    delta->freed_count = plan->freed_count;
    delta->revived_count = plan->revived_count;
}

static tarn_status run(struct plan *plan, struct tn_use *use, tarn_delta **delta)
{
    tarn_delta *made;
    tarn_status status = plan_and_lock(plan);

    if (status != TARN_OK)
        return status;
    made = make_delta(plan);
    status = made != NULL ? prepare(plan, use) : no_memory();
    if (status == TARN_OK)
        commit(plan, made);
    tn_lock_release(&plan->pool->lock);
    if (status != TARN_OK) {
        uint64_t freed = 0;

        if (plan->left_copies && tn_gpu_wait_idle(&plan->pool->device->gpu) == TARN_OK &&
            tn_pool_trim(plan->pool, false, &freed) != TARN_OK)
            TN_ASSERT(false); /* without a wait it cannot fail */
        tn_host_free(made);
        return status;
    }
    if (delta != NULL)
        *delta = made;
    else
        tn_host_free(made);
    return TARN_OK;
}

tarn_status tn_checkpoint_restore(tarn_checkpoint *checkpoint, tarn_stream stream,
                                  tarn_delta **delta)
{
    struct plan plan = {.checkpoint = checkpoint, .pool = checkpoint->pool, .stream = stream};
    struct tn_use *use = NULL;
    tarn_status status = tn_checkpoint_look(plan.pool, stream, &plan.order);

    if (status == TARN_OK && checkpoint->contents != NULL)
        status = tn_use_make(&plan.pool->device->gpu, stream, plan.order, &use);
    if (status != TARN_OK)
        return status;
    status = run(&plan, use, delta);
    if (use != NULL && status == TARN_OK)
        tn_contents_add_use(checkpoint, use);
    else if (use != NULL)
        tn_use_end(&plan.pool->device->gpu, use);
    tn_host_free(plan.revived);
    tn_host_free(plan.holes);
    return status;
}
