// SPDX-License-Identifier: Apache-2.0
/* A plan goes through the saved blocks in order of address, and beside them through the blocks that
 * exist now.
 *
 * Memory that other streams may use makes the plan ask for a wait. After the wait, stamps tell what
 * it proved where blocks were freed; of live blocks it proved those that existed before the wait. A
 * plan made after a wait therefore asks for another wait only where somebody has freed meanwhile. A
 * block that existed before the wait may have been freed and revived during the wait, with its
 * number: after another restore that revives, stamps count for kept blocks, too.
 *
 * A saved block knows the record that it had. Mostly this is still its record, or stands for its
 * bytes, which are free now. Then the plan reads neither an index nor the neighbouring blocks.
 *
 * A stream without an arena may be gone: its blocks come back to idle memory. The restore's own
 * stream exists, and gets an arena.
 *
 * Trade-offs: a wait for the device instead of events of the streams concerned. */
#include "checkpoint/plan.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "checkpoint/state.h"
#include "checkpoint/turns.h"
#include "claims/watch.h"
#include "graphs/replay_visits.h"
#include "pools/arenas.h"
#include "pools/device.h"
#include "pools/vacated.h"

enum { AHEAD = 16 }; /* saved blocks: some hundred nanoseconds ahead */

static tarn_status no_memory(void)
{
    return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to restore a checkpoint");
}

struct tn_order tn_plan_order(const struct tn_plan *plan, const struct tn_saved_block *saved)
{
    struct tn_order order = tn_saved_order(plan->checkpoint, saved);

    return tn_order_equal(order, TN_ORDER_NONE) ? plan->order : order;
}

struct tn_heap *tn_plan_home(struct tn_plan *plan, const struct tn_saved_block *saved)
{
    struct tn_order order = tn_plan_order(plan, saved);
    enum tn_heap_kind kind = tn_kind_of(tn_saved_bytes(saved));
    struct tn_arena *arena = NULL;

    TN_ASSERT(tn_pool_is_locked(plan->pool));
    if (plan->homes[kind] != NULL && tn_order_equal(order, plan->home_order))
        return plan->homes[kind]; /* blocks of one order often follow each other */
    if (order.capture_id == 0)    /* arenas of captures end with their captures */
        arena = tn_arena_find(plan->pool, order);
    if (arena == NULL)
        arena = &plan->pool->idle;
    plan->home_order = order;
    plan->homes[TN_HEAP_SMALL] = arena->heaps[TN_HEAP_SMALL];
    plan->homes[TN_HEAP_LARGE] = arena->heaps[TN_HEAP_LARGE];
    TN_ASSERT(plan->homes[kind]->kind == kind); /* P20 */
    return plan->homes[kind];
}

/* Makes sure that the restore's own stream has an arena when a block of it comes back. */
static bool make_home(struct tn_plan *plan, const struct tn_saved_block *saved)
{
    TN_ASSERT(tn_pool_is_locked(plan->pool));
    if (plan->is_at_home || !tn_order_equal(tn_plan_order(plan, saved), plan->order))
        return true;
    plan->is_at_home = tn_arena_get(plan->pool, plan->order) != NULL;
    plan->homes[TN_HEAP_SMALL] = NULL; /* a heap looked up before may now be this arena's */
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

    TN_ASSERT(arena != NULL);
    if (chunk->hold_count > 0 && replays_may_run(plan))
        return true;
    if (arena != &plan->pool->idle && arena->order.stream_id == plan->order.stream_id)
        return false;
    return !tn_gpu_is_proven(&plan->pool->device->gpu, chunk->freed_stamp);
}

/* Whether other streams than the plan's have used the block, or get the rest of it beside the block
 * that comes back. */
static bool has_other_users(const struct tn_plan *plan, const struct tn_block *block)
{
    bool others = !tn_block_is_of(block, plan->order) ||
                  !tn_order_equal(block->heap->arena->order, plan->order);

    TN_ASSERT(block->state == TN_BLOCK_LIVE || block->state == TN_BLOCK_PENDING);
    for (const struct tn_use *use = tn_block_uses(block); use != NULL && !others; use = use->next)
        others = !tn_order_equal(use->order, plan->order);
    return others;
}

static bool live_may_be_in_use(const struct tn_plan *plan, const struct tn_block *block)
{
    return has_other_users(plan, block) && block->sequence > plan->idle_sequence;
}

/* The same for a kept block. Another restore may have revived it under its number, in memory that
 * others have used meanwhile. */
static bool kept_may_be_in_use(const struct tn_plan *plan, const struct tn_block *block)
{
    const struct tn_chunk *chunk;

    TN_ASSERT(block->state == TN_BLOCK_LIVE);
    if (live_may_be_in_use(plan, block))
        return true;
    if (tn_gpu_is_proven(&plan->pool->device->gpu, plan->pool->copies.revived_stamp) ||
        !has_other_users(plan, block))
        return false;
    for (uint64_t at = block->offset; at < tn_block_end(block); at = tn_chunk_end(chunk)) {
        chunk = tn_segment_chunk_at(block->segment, at);
        if (chunk_may_be_in_use(plan, chunk))
            return true;
    }
    return false;
}

static bool pending_may_be_in_use(const struct tn_plan *plan, const struct tn_block *block)
{
    TN_ASSERT(block->state == TN_BLOCK_PENDING);
    return has_other_users(plan, block) &&
           !tn_gpu_is_proven(&plan->pool->device->gpu, tn_block_cold(block)->pending_stamp);
}

/* Whether graphs that kept the PENDING block may still run: a replay is no use of a block. */
static bool graphs_may_use(const struct tn_plan *plan, const struct tn_block *block)
{
    TN_ASSERT(block->state == TN_BLOCK_PENDING);
    return !tn_gpu_is_proven(&plan->pool->device->gpu, tn_block_cold(block)->kept_stamp);
}

/* Plans the freed blocks that concern anybody else. Blocks that their watches keep stay as they
 * are. */
static tarn_status plan_freed(struct tn_plan *plan)
{
    TN_ASSERT(tn_pool_is_locked(plan->pool));
    TN_ASSERT(plan->walk_id != 0);
    for (struct tn_block *block = tn_live_first(plan->pool->segments.first); block != NULL;
         block = tn_live_next(block)) {
        if (block->state != TN_BLOCK_LIVE || block->walk_id == plan->walk_id)
            continue;
        if (!tn_plan_visit_watchers(plan, block, false))
            return no_memory();
        tn_settle_plan_live(&plan->settlement, block);
    }
    return TARN_OK;
}

/* Whether blocks may have claims, or lie in memory of other orders. */
static bool has_shared_blocks(const struct tn_plan *plan)
{
    return plan->watched || atomic_load(&plan->pool->device->streams.known_count) > 0 ||
           plan->pool->arenas.count > 1 ||
           plan->pool->idle.heaps[TN_HEAP_SMALL]->mapped_bytes > 0 ||
           plan->pool->idle.heaps[TN_HEAP_LARGE]->mapped_bytes > 0;
}

static void plan_settlement(struct tn_plan *plan)
{
    TN_ASSERT(tn_pool_is_locked(plan->pool));
    plan->settlement = (struct tn_settlement){
        .pool = plan->pool,
        .stream = plan->stream,
        .order = plan->order,
        .by_events = tn_plan_can_wait(plan),
        .all = true,
        .idle_sequence = plan->idle_sequence,
        .walk_id = tn_next_walk_id(plan->pool),
    };
    tn_settle_plan(&plan->settlement);
}

static bool add_hole(struct tn_plan *plan, const struct tn_block *unmapped, struct tn_heap *heap,
                     uint64_t begin, uint64_t end)
{
    uint64_t from = tn_max(tn_round_down(begin, TN_PAGE_BYTES), unmapped->offset);
    uint64_t to = tn_min(tn_round_up(end, TN_PAGE_BYTES), tn_block_end(unmapped));
    struct tn_hole *last = plan->hole_count > 0 ? &plan->holes[plan->hole_count - 1] : NULL;

    TN_ASSERT(unmapped->state == TN_BLOCK_UNMAPPED);
    if (last != NULL && last->segment == unmapped->segment) {
        from = tn_max(from, last->offset + last->bytes); /* C5 */
        plan->needs_cold = plan->needs_cold || last->heap != heap;
    }
    if (from >= to)
        return true;
    if (!tn_host_grow((void **)&plan->holes, &plan->hole_capacity, plan->hole_count + 1,
                      sizeof *plan->holes))
        return false;
    TN_ASSERT(from % TN_PAGE_BYTES == 0 && to % TN_PAGE_BYTES == 0);
    plan->needs_wait =
        plan->needs_wait || tn_vacated_is_used(plan->pool, unmapped->segment, from, to - from);
    plan->holes[plan->hole_count] = (struct tn_hole){unmapped->segment, heap, from, to - from};
    plan->hole_count += 1;
    plan->hole_bytes += to - from;
    plan->record_count += 2 + 2 * (size_t)((to - from) / TN_PAGE_BYTES);
    return true;
}

/* Looks at a block in the place of a block to revive. */
static tarn_status plan_block(struct tn_plan *plan, const struct tn_saved_block *saved,
                              const struct tn_block *block)
{
    if (plan->watched && (block->state == TN_BLOCK_LIVE || block->state == TN_BLOCK_PENDING) &&
        !tn_plan_visit_watchers(plan, block, true))
        return no_memory();
    switch (block->state) {
    case TN_BLOCK_DISCARDED:
        return tn_fail(TARN_ERR_WRONG_STATE,
                       "block %llu of an aborted capture lies where the checkpoint has block %llu; "
                       "free it first",
                       (unsigned long long)block->sequence, (unsigned long long)saved->sequence);
    case TN_BLOCK_UNMAPPED:
        if (!add_hole(plan, block, tn_plan_home(plan, saved), tn_saved_offset(saved),
                      tn_saved_end(saved)))
            return no_memory();
        break;
    case TN_BLOCK_PENDING:
        /* A block revived here could be freed before the graph has a hold of its memory. */
        if (block->unheld)
            return tn_fail(
                TARN_ERR_WRONG_STATE,
                "block %llu was freed in a capture of the program's own and lies where the checkpoint has "
                "block %llu; adopt the capture's graph first (tarn_graph_adopt)",
                (unsigned long long)block->sequence, (unsigned long long)saved->sequence);
        if (tn_block_is_leased(block))
            return tn_fail(TARN_ERR_BUSY,
                           "block %llu was freed, and another process has a lease of it, where the "
                           "checkpoint has block %llu",
                           (unsigned long long)block->sequence,
                           (unsigned long long)saved->sequence);
        plan->needs_wait =
            plan->needs_wait || pending_may_be_in_use(plan, block) || graphs_may_use(plan, block);
        break;
    case TN_BLOCK_LIVE: /* not live at the take, or no block could come here */
        plan->needs_wait = plan->needs_wait || live_may_be_in_use(plan, block);
        break;
    case TN_BLOCK_FREE:
        break; /* its chunks tell */
    }
    return TARN_OK;
}

/* Blocks with this home come back in the run. To revive one of them moves memory of the others: all
 * memory that changes its owner must be proven idle. inside: a block over some of the run. */
static void plan_reach(struct tn_plan *plan, const struct tn_run *run,
                       const struct tn_block *inside, const struct tn_arena *home)
{
    const struct tn_reach before = plan->reach;
    struct tn_reach *reach = &plan->reach;
    struct tn_run changed = *run;
    const struct tn_arena *heir;

    TN_ASSERT(run->begin < run->end);
    *reach = (struct tn_reach){*run, home, plan->pool->holds.count > 0 && tn_run_is_held(run)};
    if (before.run.segment == run->segment && run->begin < before.run.end &&
        before.run.begin < run->end) {
        *reach = (struct tn_reach){
            .run = {run->segment, tn_min(run->begin, before.run.begin),
                    tn_max(run->end, before.run.end)},
            .home = before.home == home ? home : NULL,
            .held = reach->held || before.held,
        };
        if (reach->home != before.home || reach->held != before.held) {
            changed = reach->run;
            tn_run_close(&changed, inside);
        }
    }
    TN_ASSERT(reach->run.begin <= run->begin && run->end <= reach->run.end);
    heir = reach->held ? &plan->pool->idle : reach->home;
    plan->needs_wait = plan->needs_wait || !tn_handover_is_proven(plan->pool, &changed, inside,
                                                                  heir, plan->idle_sequence);
}

/* Whether the saved block comes back within the reach of the last look, to where all of the reach
 * goes. */
static bool is_in_reach(const struct tn_plan *plan, const struct tn_saved_block *saved,
                        const struct tn_arena *home)
{
    const struct tn_reach *reach = &plan->reach;

    return reach->run.segment == tn_saved_segment(plan->checkpoint, saved) &&
           reach->run.begin <= tn_saved_offset(saved) && tn_saved_end(saved) <= reach->run.end &&
           (reach->home == home || reach->home == NULL);
}

/* Looks at the memory where a block is to be revived; *cursor is a block at or below this place. */
static tarn_status plan_range(struct tn_plan *plan, const struct tn_saved_block *saved,
                              struct tn_block **cursor)
{
    uint64_t end = tn_saved_end(saved);
    struct tn_run run = {tn_saved_segment(plan->checkpoint, saved), tn_saved_offset(saved), end};
    struct tn_block *block = *cursor;
    struct tn_heap *home;

    TN_ASSERT(block->segment == run.segment && block->offset <= run.begin);
    if (!make_home(plan, saved))
        return no_memory();
    home = tn_plan_home(plan, saved);
    plan->needs_cold =
        plan->needs_cold || !tn_order_equal(home->arena->order, tn_plan_order(plan, saved));
    while (tn_block_end(block) <= run.begin)
        block = block->next;
    *cursor = block;
    plan->record_count += 2;
    for (; block != NULL && block->offset < end; block = block->next) {
        tarn_status status = plan_block(plan, saved, block);

        if (status != TARN_OK)
            return status;
    }
    for (uint64_t at = run.begin; at < end;) {
        struct tn_chunk *chunk = tn_segment_chunk_at(run.segment, at);

        if (chunk == NULL) {
            at = tn_round_down(at, TN_PAGE_BYTES) + TN_PAGE_BYTES;
            continue;
        }
        plan->needs_cold = plan->needs_cold || chunk->heap != home;
        /* the chunk may change hands, also for the blocks revived before */
        plan->record_count += 2;
        plan->needs_wait = plan->needs_wait || chunk_may_be_in_use(plan, chunk);
        at = tn_chunk_end(chunk);
    }
    if (!is_in_reach(plan, saved, home->arena)) {
        tn_run_close(&run, *cursor);
        plan_reach(plan, &run, *cursor, home->arena);
    }
    return TARN_OK;
}

/* Whether the block's former record has exactly its bytes, FREE now. A spare record has no
 * bytes. */
static bool is_its_place(const tarn_checkpoint *checkpoint, const struct tn_saved_block *saved,
                         const struct tn_block *block)
{
    return block->state == TN_BLOCK_FREE && block->segment == tn_saved_segment(checkpoint, saved) &&
           block->offset == tn_saved_offset(saved) && block->units == saved->units;
}

/* Whether the block comes back in its place, to the same chunk and the same heap as the last block
 * that did. */
static bool is_place_as_before(const struct tn_plan *plan, const struct tn_saved_block *saved)
{
    return saved->run == plan->seen_run && tn_saved_offset(saved) >= plan->seen_begin &&
           tn_saved_end(saved) <= plan->seen_end;
}

/* Looks whether a block can come back in its place without concern to any other block. *chunk: the
 * chunk that it begins in; NULL: it cannot come back so. False: no memory. */
static bool plan_place(struct tn_plan *plan, const struct tn_saved_block *saved,
                       struct tn_chunk **chunk)
{
    const struct tn_block *block = saved->block;
    struct tn_chunk *last = NULL;
    struct tn_run run = {block->segment, block->offset, tn_block_end(block)};

    TN_ASSERT(block->state == TN_BLOCK_FREE);
    if (!make_home(plan, saved))
        return false;
    if (plan->pool->holds.count > 0 || block->heap != tn_plan_home(plan, saved) ||
        !tn_order_equal(block->heap->arena->order, tn_plan_order(plan, saved)))
        return true;
    *chunk = tn_segment_chunk_at(block->segment, block->offset);
    for (uint64_t at = block->offset; at < tn_block_end(block); at = tn_chunk_end(last)) {
        last = tn_segment_chunk_at(block->segment, at);
        plan->needs_wait = plan->needs_wait || chunk_may_be_in_use(plan, last);
        run.begin = tn_min(run.begin, last->offset);
        run.end = tn_chunk_end(last);
    }
    TN_ASSERT(last->heap == block->heap); /* P2 */
    plan_reach(plan, &run, block, block->heap->arena);
    plan->seen_run = saved->run;
    plan->seen_chunk = last;
    plan->seen_begin = last->offset;
    plan->seen_end = tn_chunk_end(last);
    return true;
}

/* Adds the next revived block, which begins in the chunk, in its place. False: no memory. */
static inline bool add_place(struct tn_plan *plan, struct tn_chunk *chunk)
{
    struct tn_span *last = plan->span_count > 0 ? &plan->spans[plan->span_count - 1] : NULL;

    TN_ASSERT(chunk->heap != NULL);
    if (last != NULL && last->chunk == chunk && last->end == plan->revived_count) {
        last->end += 1;
        return true;
    }
    if (!tn_host_grow((void **)&plan->spans, &plan->span_capacity, plan->span_count + 1,
                      sizeof *plan->spans))
        return false;
    plan->spans[plan->span_count] =
        (struct tn_span){plan->revived_count, plan->revived_count + 1, chunk};
    plan->span_count += 1;
    return true;
}

/* Enters a saved block that is not live now. is_free: the record that it had has exactly its bytes,
 * which are FREE. *cursor is a block at or below it, or of another segment, or NULL. */
static tarn_status plan_revival(struct tn_plan *plan, size_t index, bool is_free,
                                struct tn_block **cursor)
{
    const struct tn_saved_block *saved = &plan->checkpoint->blocks[index];
    struct tn_chunk *chunk = NULL;
    const struct tn_segment *segment;

    TN_ASSERT(plan->revived_count < plan->checkpoint->block_count);
    if (plan->revived == NULL) {
        plan->revived = tn_host_alloc_unset(plan->checkpoint->block_count, sizeof *plan->revived);
        if (plan->revived == NULL)
            return no_memory();
    }
    if (is_free && is_place_as_before(plan, saved))
        chunk = plan->seen_chunk;
    else if (is_free && !plan_place(plan, saved, &chunk))
        return no_memory();
    if (chunk != NULL && !add_place(plan, chunk))
        return no_memory();
    TN_ASSERT(plan->revived_count == 0 || plan->revived[plan->revived_count - 1] < index); /* C5 */
    plan->revived[plan->revived_count] = index;
    plan->revived_count += 1;
    if (chunk != NULL)
        return TARN_OK;
    segment = tn_saved_segment(plan->checkpoint, saved);
    if (*cursor == NULL || (*cursor)->segment != segment)
        *cursor = segment->first_block;
    return plan_range(plan, saved, cursor);
}

static bool is_live_as(const struct tn_block *block, const struct tn_saved_block *saved)
{
    return block->state == TN_BLOCK_LIVE && block->sequence == saved->sequence;
}

/* Finds the saved block if it is live now in another record than it had, which another restore may
 * have given it; else NULL. */
static struct tn_block *find_elsewhere(const struct tn_plan *plan, struct tn_saved_block *saved,
                                       struct tn_live_place *last)
{
    struct tn_block *block =
        tn_live_find_near(plan->pool, tn_saved_address(plan->checkpoint, saved), last);

    if (block == NULL || !is_live_as(block, saved))
        return NULL;
    saved->block = block;
    return block;
}

/* Mapped memory coalesces with free memory beside it: then no block has its own place any more. */
static void give_up_places(struct tn_plan *plan)
{
    plan->span_count = 0;
    plan->record_count += 2 * plan->revived_count;
}

static bool follows(const tarn_checkpoint *checkpoint, const struct tn_saved_block *saved,
                    const struct tn_saved_block *before)
{
    const struct tn_segment *segment = tn_saved_segment(checkpoint, saved);
    const struct tn_segment *segment_before = tn_saved_segment(checkpoint, before);

    return segment == segment_before ? saved->place > before->place
                                     : segment->index > segment_before->index;
}

static tarn_status plan_blocks(struct tn_plan *plan)
{
    const tarn_checkpoint *checkpoint = plan->checkpoint;
    struct tn_saved_block *const blocks = checkpoint->blocks;
    const size_t count = checkpoint->block_count;
    const uint8_t walk_id = plan->walk_id;
    const bool writes = checkpoint->contents != NULL;
    struct tn_block *cursor = NULL;
    size_t kept_count = 0;
    struct tn_live_place last = {NULL, NULL};
    tarn_status status = TARN_OK;

    for (size_t i = 0; i < count && status == TARN_OK; i++) {
        struct tn_saved_block *saved = &blocks[i];
        struct tn_block *block = saved->block;
        bool is_free = false;

        TN_ASSERT(i == 0 || follows(checkpoint, saved, saved - 1)); /* C1 */
        if (i + AHEAD < count)
            __builtin_prefetch(saved[AHEAD].block, 1);
        if (!is_live_as(block, saved)) {
            is_free = is_its_place(checkpoint, saved, block);
            block = is_free ? NULL : find_elsewhere(plan, saved, &last);
        }
        if (block == NULL) {
            status = plan_revival(plan, i, is_free, &cursor);
            continue;
        }
        block->walk_id = walk_id;
        kept_count += 1;
        if (!writes)
            continue;
        plan->needs_wait = plan->needs_wait || kept_may_be_in_use(plan, block);
        if (plan->watched && !tn_plan_visit_watchers(plan, block, true))
            status = no_memory();
    }
    if (plan->hole_count > 0)
        give_up_places(plan);
    plan->freed_count = tn_pool_live_count(plan->pool) - kept_count;
    plan->needs_wait = plan->needs_wait || (writes && replays_may_run(plan));
    if (status == TARN_OK && plan->freed_count > 0 && has_shared_blocks(plan))
        status = plan_freed(plan);
    plan->needs_wait = plan->needs_wait || plan->settlement.needs_wait;
    if (writes || plan->revived_count + plan->freed_count > 0) {
        plan->needs_wait =
            plan->needs_wait ||
            !tn_gpu_is_proven(&plan->pool->device->gpu, plan->pool->watches.unwatched_stamp);
        tn_plan_follow_copies(plan);
    }
    return status;
}

tarn_status tn_plan_make(struct tn_plan *plan)
{
    tarn_status status = tn_checkpoint_check_pool(plan->pool);

    TN_ASSERT(tn_pool_is_locked(plan->pool));
    tn_walk_ids_prepare(plan->pool, 2); /* the settlement's, and the plan's */
    plan_settlement(plan);
    plan->walk_id = tn_next_walk_id(plan->pool);
    plan->revived_count = 0;
    plan->span_count = 0;
    plan->hole_count = 0;
    plan->hole_bytes = 0;
    plan->record_count = 0;
    plan->visit_count = 0;
    plan->watched = plan->pool->watches.count > 0;
    plan->needs_cold = plan->checkpoint->stream_count > 0;
    plan->needs_wait = false;
    plan->meets_launch = false;
    plan->follows = false;
    plan->follows_save = false;
    plan->is_at_home = false;
    plan->reach.run.segment = NULL;
    plan->seen_end = 0;
    plan->homes[TN_HEAP_SMALL] = NULL;
    plan->homes[TN_HEAP_LARGE] = NULL;
    return status == TARN_OK ? plan_blocks(plan) : status;
}

void tn_plan_fini(struct tn_plan *plan)
{
    tn_host_free(plan->revived);
    tn_host_free(plan->spans);
    tn_host_free(plan->holes);
    tn_host_free((void *)plan->visits);
}
