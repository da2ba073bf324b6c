// SPDX-License-Identifier: Apache-2.0
/* Restoring a checkpoint, in three steps under the pool's lock:
 *
 *   plan     find the blocks to free, the blocks to revive, and addresses without memory (plan.c)
 *   prepare  set records aside, map the holes, enqueue the copies of contents, which the driver
 *            takes whole or not at all. May fail; memory mapped so far is unmapped again.
 *   commit   free and revive. Cannot fail.
 *
 * If the plan finds memory that other streams may use, the restore drops the lock, waits for the
 * device and plans anew. If memory for holes is missing, the ladder looks for some, as for an
 * allocation.
 *
 * Blocks are freed and revived in order of address, and free memory is put in order afterwards. The
 * same calls after the same restore therefore get the same memory, whatever went before, as long as
 * the pool maps the same memory.
 *
 * Trade-offs: putting free memory in order goes through all blocks of the pool where many are free.
 * Blocks that do not come back in their places are revived one by one. */
#include <stddef.h>
#include <stdio.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "base/hot.h"
#include "checkpoint/contents.h"
#include "checkpoint/plan.h"
#include "checkpoint/state.h"
#include "checkpoint/turns.h"
#include "checkpoint/uses.h"
#include "driver/idle.h"
#include "driver/sanitizer.h"
#include "graphs/replay_visits.h"
#include "heap/sequence.h"
#include "pools/arenas.h"
#include "pools/books.h"
#include "pools/free.h"
#include "pools/grow.h"
#include "pools/handover.h"
#include "pools/ladder.h"
#include "pools/proofs.h"
#include "pools/vacated.h"

enum { AHEAD = 8 }; /* blocks: some hundred nanoseconds ahead */

/* The working set of a single attempt. */
struct attempt {
    struct tn_plan *plan;
    struct tn_use *use; /* with contents: the use of them by the plan's stream */
    tarn_delta *delta;
    struct tn_block **freed; /* blocks to be freed, in order of address */
    struct tn_use **uses;    /* of revived blocks, see uses.h */
    bool gives;              /* some of these may get uses, or tags */
    bool undefined;          /* their contents will be */
};

static tarn_status no_memory(void)
{
    return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to restore a checkpoint");
}

static tarn_revived *revived_of(tarn_delta *delta)
{
    return (tarn_revived *)(void *)(delta + 1);
}

static tarn_block *freed_of(const struct tn_plan *plan, tarn_delta *delta)
{
    return (tarn_block *)(void *)(revived_of(delta) + plan->revived_count);
}

/* The delta, with room for all of the plan; one allocation. */
static tarn_delta *make_delta(const struct tn_plan *plan)
{
    size_t bytes = sizeof(tarn_delta) + plan->freed_count * sizeof(tarn_block) +
                   plan->revived_count * sizeof(tarn_revived);
    tarn_delta *delta = tn_host_alloc_unset(1, bytes);

    if (delta == NULL)
        return NULL;
    delta->freed_count = 0; /* so far */
    delta->revived_count = 0;
    delta->revived = revived_of(delta);
    delta->freed = freed_of(plan, delta);
    return delta;
}

/* Lists live blocks without the plan's walk id. False: no memory. */
static bool list_freed(struct attempt *attempt)
{
    const struct tn_plan *plan = attempt->plan;
    size_t count = 0;

    TN_ASSERT(tn_pool_is_locked(plan->pool));
    if (plan->freed_count == 0)
        return true;
    attempt->freed = tn_host_alloc(plan->freed_count, sizeof(struct tn_block *));
    if (attempt->freed == NULL)
        return false;
    for (struct tn_segment *segment = plan->pool->segments.first; segment != NULL;
         segment = segment->next) {
        for (struct tn_block *block = segment->first_block; block != NULL; block = block->next) {
            if (block->state == TN_BLOCK_LIVE && block->walk_id != plan->walk_id) {
                attempt->freed[count] = block;
                count += 1;
            }
        }
    }
    TN_ASSERT(count == plan->freed_count);
    return true;
}

static struct tn_block *find_unmapped(const struct tn_hole *hole)
{
    struct tn_block *block = hole->segment->first_block;

    while (tn_block_end(block) <= hole->offset)
        block = block->next;
    TN_ASSERT(block->state == TN_BLOCK_UNMAPPED && block->offset <= hole->offset);
    return block;
}

static void unmap_holes(const struct tn_plan *plan, size_t count)
{
    TN_ASSERT(tn_pool_is_locked(plan->pool));
    for (size_t i = count; i-- > 0;)
        tn_heap_unmap_at(plan->pool, plan->holes[i].segment, plan->holes[i].offset,
                         plan->holes[i].bytes);
}

static tarn_status map_holes(const struct tn_plan *plan)
{
    TN_ASSERT(tn_pool_is_locked(plan->pool));
    for (size_t i = 0; i < plan->hole_count; i++) {
        const struct tn_hole *hole = &plan->holes[i];
        tarn_status status =
            tn_heap_map_at(plan->pool, hole->heap, find_unmapped(hole), hole->offset, hole->bytes);

        if (status != TARN_OK) {
            unmap_holes(plan, i);
            return status;
        }
    }
    return TARN_OK;
}

/* The span that begins with the i-th revived block; moves *next behind the span. NULL: none, the
 * block has no place. */
static const struct tn_span *span_at(const struct tn_plan *plan, size_t i, size_t *next)
{
    TN_ASSERT(*next <= plan->span_count);
    if (*next == plan->span_count || plan->spans[*next].begin != i)
        return NULL;
    *next += 1;
    return &plan->spans[*next - 1];
}

static const struct tn_saved_block *saved_at(const struct tn_plan *plan, size_t i)
{
    TN_ASSERT(i < plan->revived_count);
    return &plan->checkpoint->blocks[plan->revived[i]];
}

/* Reserves room for the revived blocks in the indexes of their chunks. False: no memory. */
static bool reserve_places(const struct tn_plan *plan)
{
    struct tn_chunk *chunk = NULL;
    /* The first of the adjacent revived blocks that begin in the chunk. */
    size_t first = 0;
    size_t next = 0;

    for (size_t i = 0; i < plan->revived_count;) {
        const struct tn_span *span = span_at(plan, i, &next);
        const struct tn_saved_block *saved = saved_at(plan, i);
        struct tn_chunk *at = span != NULL
                                  ? span->chunk
                                  : tn_segment_chunk_at(tn_saved_segment(plan->checkpoint, saved),
                                                        tn_saved_offset(saved));

        if (chunk != at) {
            if (chunk != NULL && !tn_live_reserve(chunk, (uint32_t)(i - first)))
                return false;
            chunk = at;
            first = i;
        }
        i = span != NULL ? span->end : i + 1;
    }
    return chunk == NULL || tn_live_reserve(chunk, (uint32_t)(plan->revived_count - first));
}

/* Room for the tags of revived blocks, in whichever of the records that are there now. False: no
 * memory. */
static bool reserve_tags(const struct tn_plan *plan)
{
    return plan->checkpoint->tags == NULL || plan->revived_count == 0 ||
           tn_blocks_add_tags(&plan->pool->store);
}

/* The last step that may fail: on failure no copy was enqueued. */
static tarn_status enqueue(const struct attempt *attempt)
{
    const struct tn_plan *plan = attempt->plan;
    tarn_pool *pool = plan->pool;
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_pool_is_locked(pool));
    if (plan->follows)
        status = tn_stream_wait(&pool->device->gpu, plan->stream, pool->copies.restored->used);
    if (status == TARN_OK && plan->follows_save)
        status = tn_stream_wait(&pool->device->gpu, plan->stream, pool->copies.saver->used);
    if (status == TARN_OK)
        status = tn_settle_prepare(&plan->settlement);
    if (status == TARN_OK && attempt->use != NULL)
        status = tn_contents_load(plan->checkpoint, plan->stream, plan->order, attempt->use);
    return status;
}

static tarn_status prepare(struct attempt *attempt)
{
    struct tn_plan *plan = attempt->plan;
    tarn_status status;

    TN_ASSERT(tn_pool_is_locked(plan->pool));
    TN_ASSERT(attempt->delta == NULL && attempt->freed == NULL);
    attempt->delta = make_delta(plan);
    if (attempt->delta == NULL || !list_freed(attempt) ||
        !tn_blocks_reserve(&plan->pool->store, plan->record_count + 2 * plan->settlement.count +
                                                   2 * plan->pool->chunks.count) ||
        (plan->needs_cold && !tn_blocks_add_cold(&plan->pool->store)))
        return no_memory();
    status =
        tn_saved_uses_make(plan->checkpoint, plan->revived, plan->revived_count, &attempt->uses);
    if (status == TARN_OK)
        status = map_holes(plan);
    if (status == TARN_OK && !(reserve_places(plan) && reserve_tags(plan))) {
        unmap_holes(plan, plan->hole_count);
        status = no_memory();
    }
    if (status != TARN_OK)
        return status;
    status = enqueue(attempt);
    if (status != TARN_OK)
        unmap_holes(plan, plan->hole_count);
    return status;
}

/* Makes PENDING blocks over the range FREE: the plan has waited for their uses, where needed. */
static void end_pending(tarn_pool *pool, struct tn_block *block, uint64_t end)
{
    struct tn_block *next;

    for (; block != NULL && block->offset < end; block = next) {
        next = block->next;
        if (block->state != TN_BLOCK_PENDING)
            continue;
        tn_pending_remove(pool, block);
        tn_block_count_freed(block, tn_gpu_epoch(&pool->device->gpu),
                             tn_gpu_epoch(&pool->device->gpu));
        next = tn_heap_put(&pool->store, block)->next;
    }
}

/* The block over the run's first byte. The search begins at `below`, or, if NULL, at the segment's
 * first block. */
static struct tn_block *find_over(const struct tn_run *run, struct tn_block *below)
{
    struct tn_block *block = below != NULL ? below : run->segment->first_block;

    while (tn_block_end(block) <= run->begin)
        block = block->next;
    TN_ASSERT(block->segment == run->segment && block->offset <= run->begin);
    return block;
}

/* Whether a graph may write around the run's block when the block is live. below: as above. */
static bool goes_to_captures(const struct tn_run *place, struct tn_block *below)
{
    struct tn_run run = *place;

    tn_run_close(&run, find_over(place, below));
    return tn_run_is_held(&run);
}

/* Makes all blocks over the saved block's bytes FREE, carves the block out again and makes it live.
 * below: a live block of the segment at a lower address, or NULL. */
static struct tn_block *revive(struct tn_plan *plan, const struct tn_saved_block *saved,
                               struct tn_block *below)
{
    tarn_pool *pool = plan->pool;
    struct tn_heap *heap = tn_plan_home(plan, saved);
    struct tn_run run = {tn_saved_segment(plan->checkpoint, saved), tn_saved_offset(saved),
                         tn_saved_end(saved)};
    struct tn_block *block;

    end_pending(pool, find_over(&run, below), run.end);
    if (pool->holds.count > 0 && goes_to_captures(&run, below))
        heap = pool->idle.heaps[heap->kind]; /* no order's own heap may hand the block out */
    tn_heap_take_over(pool, heap, find_over(&run, below), run.begin, run.end);
    block = tn_heap_carve(&pool->store, find_over(&run, below), run.begin, tn_saved_bytes(saved));
    block->requested = saved->requested;
    block->sequence = saved->sequence;
    tn_block_set_order(block, tn_plan_order(plan, saved));
    tn_pool_enter_live(pool, block, true);
    TN_ASSERT(block->offset == run.begin && tn_block_end(block) == run.end);
    return block;
}

/* Gives a block that is live again its tag and its uses. */
static TN_APART void give_back(struct attempt *attempt, size_t i,
                               const struct tn_saved_block *saved, struct tn_block *block)
{
    const struct tn_plan *plan = attempt->plan;
    uint64_t tag = tn_saved_tag(plan->checkpoint, saved);
    bool has_tag = true;

    /* Its record may have a tag that was set after the take. */
    if (plan->pool->store.tagged)
        has_tag = tn_block_set_tag(&plan->pool->store, block, tag);
    TN_ASSERT(has_tag); /* there is room: prepare */
    revived_of(attempt->delta)[i].block.tag = tag;
    if (attempt->uses != NULL) {
        tn_uses_give(block, attempt->uses[i]);
        attempt->uses[i] = NULL;
    }
}

/* Reports a block that is live again. Reads the saved block, which the plan has read last, and not
 * the block's record. base: where the block's segment begins. */
static inline void finish_revival(struct attempt *attempt, size_t i,
                                  const struct tn_saved_block *saved, uint64_t base)
{
    revived_of(attempt->delta)[i] = (tarn_revived){
        .block = {.address = (void *)(uintptr_t)(base + tn_saved_offset(saved)),
                  .bytes = saved->requested,
                  .block_bytes = tn_saved_bytes(saved),
                  .sequence = saved->sequence,
                  .pool = attempt->plan->pool},
        .undefined = attempt->undefined,
    };
    TN_ASSERT(saved->block->state == TN_BLOCK_LIVE);
    if (TN_UNLIKELY(attempt->gives))
        give_back(attempt, i, saved, saved->block);
}

static inline void revive_span(struct attempt *attempt, const struct tn_span *span,
                               struct tn_tally *tally)
{
    const struct tn_plan *plan = attempt->plan;
    const struct tn_saved_block *blocks = plan->checkpoint->blocks;
    const size_t *revived = plan->revived;
    const size_t count = plan->revived_count;
    struct tn_chunk *chunk = span->chunk;
    const uint64_t base = atomic_load_explicit(&chunk->segment, memory_order_relaxed)->base;

    TN_ASSERT(span->end <= count);
    for (size_t i = span->begin; i < span->end; i++) {
        const struct tn_saved_block *saved = &blocks[revived[i]];

        if (i + AHEAD < count)
            __builtin_prefetch(blocks[revived[i + AHEAD]].block, 1);
        tn_pool_revive(chunk, saved->block, saved->requested, saved->sequence, tally);
        finish_revival(attempt, i, saved, base);
    }
}

/* Revives the blocks that come back in their places, before anything beside them changes. */
static TN_APART void revive_in_place(struct attempt *attempt)
{
    const struct tn_plan *plan = attempt->plan;
    struct tn_tally tallies[TN_HEAP_KINDS] = {{0}};

    for (size_t i = 0; i < plan->span_count; i++) {
        const struct tn_heap *heap = plan->spans[i].chunk->heap;

        revive_span(attempt, &plan->spans[i], &tallies[heap->kind]);
    }
    tn_pool_count_live(plan->pool, tallies);
}

static void free_others(const struct attempt *attempt)
{
    const struct tn_plan *plan = attempt->plan;
    tarn_block *freed = freed_of(plan, attempt->delta);

    TN_ASSERT(tn_pool_is_locked(plan->pool));
    for (size_t i = 0; i < plan->freed_count; i++) {
        freed[i] = tn_describe_block(plan->pool, attempt->freed[i]);
        tn_pool_free_block(plan->pool, attempt->freed[i], false);
    }
}

/* Mostly few blocks. */
static void revive_elsewhere(struct attempt *attempt)
{
    struct tn_plan *plan = attempt->plan;
    const tarn_checkpoint *checkpoint = plan->checkpoint;
    size_t next = 0;

    for (size_t i = 0; i < plan->revived_count; i++) {
        const struct tn_span *span = span_at(plan, i, &next);
        struct tn_saved_block *saved;
        struct tn_block *below = NULL;

        if (span != NULL) {
            i = span->end - 1;
            continue;
        }
        saved = &checkpoint->blocks[plan->revived[i]];
        if (i > 0)
            below = saved_at(plan, i - 1)->block;
        if (below != NULL && below->segment != tn_saved_segment(checkpoint, saved))
            below = NULL;
        saved->block = revive(plan, saved, below);
        finish_revival(attempt, i, saved, tn_saved_segment(checkpoint, saved)->base);
    }
}

static void commit(struct attempt *attempt)
{
    struct tn_plan *plan = attempt->plan;

    TN_ASSERT(tn_pool_is_locked(plan->pool));
    TN_ASSERT(!plan->needs_wait);
    attempt->gives =
        plan->pool->store.tagged || plan->checkpoint->tags != NULL || attempt->uses != NULL;
    attempt->undefined = plan->checkpoint->contents == NULL;
    revive_in_place(attempt);
    free_others(attempt);
    revive_elsewhere(attempt);
    attempt->delta->freed_count = plan->freed_count;
    attempt->delta->revived_count = plan->revived_count;
    if (plan->revived_count > 0)
        plan->pool->copies.revived_stamp = tn_gpu_epoch(&plan->pool->device->gpu);
    tn_settle_commit(&plan->settlement);
    tn_vacated_forget_proven(plan->pool);
    tn_proofs_settle(plan->pool, plan->settlement.order);
    tn_idle_sort(plan->pool);
    tn_pool_sort_free(plan->pool);
}

/* Carries a plan out under the pool's lock, in the restore's turn. */
static tarn_status carry_out_in_turn(const struct attempt *with, void **result)
{
    struct attempt attempt = *with;
    tarn_status status = prepare(&attempt);

    if (status == TARN_OK)
        commit(&attempt);
    tn_saved_uses_drop(attempt.plan->checkpoint, attempt.plan->revived_count, attempt.uses);
    tn_host_free(attempt.freed);
    if (status != TARN_OK)
        tn_host_free(attempt.delta);
    else
        *result = attempt.delta;
    return status;
}

/* Carries the plan out, with a turn among the replays of graphs that watch blocks which it changes.
 * BUSY with needs_wait set in the plan: nothing was done. */
static tarn_status carry_out(const struct attempt *attempt, void **result)
{
    struct tn_plan *plan = attempt->plan;
    tarn_status status = tn_checkpoint_recheck_stream(
        plan->pool, plan->stream, plan->checkpoint->contents != NULL, plan->order);

    TN_ASSERT(tn_pool_is_locked(plan->pool));
    if (status == TARN_OK)
        status = tn_plan_visit(plan);
    if (status == TARN_OK && plan->needs_wait)
        return TARN_ERR_BUSY;
    if (status != TARN_OK)
        return status;
    status = carry_out_in_turn(attempt, result);
    tn_plan_leave_visits(plan, status == TARN_OK && attempt->use != NULL);
    return status;
}

/* A single try under the pool's lock. BUSY with needs_wait set in the plan: nothing was done. */
static tarn_status try_restore(tarn_pool *pool, const void *request, bool frugal, void **result)
{
    const struct attempt *attempt = request;
    tarn_status status = tn_plan_make(attempt->plan);

    (void)pool;
    (void)frugal; /* a try maps no more than the missing memory */
    return status == TARN_OK ? carry_out(attempt, result) : status;
}

/* Plans, and carries the plan out if no memory is missing; *planned: the plan was not carried out,
 * and nothing was done. */
static tarn_status restore_in_place(const struct attempt *attempt, void **result, bool *planned)
{
    struct tn_plan *plan = attempt->plan;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    tn_pool_lock(plan->pool);
    status = tn_plan_make(plan);
    *planned = status == TARN_OK && (plan->needs_wait || plan->hole_count > 0);
    if (status == TARN_OK && !*planned) {
        status = carry_out(attempt, result);
        *planned = plan->needs_wait;
    }
    tn_pool_unlock(plan->pool);
    return status;
}

/* The ladder's sentence, with the purpose of the memory. */
static tarn_status no_room(const struct tn_plan *plan)
{
    char why[512];

    (void)snprintf(why, sizeof why, "%s", tarn_last_error());
    return tn_fail(
        TARN_ERR_DEVICE_MEMORY,
        "%llu MiB of memory for blocks of the checkpoint that were given back are missing; "
        "%s",
        (unsigned long long)(plan->hole_bytes / TN_MIB), why);
}

/* Tries until no other stream uses the memory. A try that met a launch does not count: the
 * launching thread may not be running at the moment, and several waits for the device may pass
 * before its turn comes. */
static tarn_status run(struct tn_plan *plan, struct tn_use *use, void **delta)
{
    enum { WAITS_MAX = 8 };
    const struct attempt attempt = {.plan = plan, .use = use};
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_lock_none_held());
    for (int waits = 0; waits <= WAITS_MAX; waits += !plan->meets_launch) {
        uint64_t sequence;
        bool planned;

        status = restore_in_place(&attempt, delta, &planned);
        if (!planned)
            return status;
        if (!plan->needs_wait)
            status = tn_ladder_run(plan->pool, try_restore, &attempt, plan->hole_bytes, delta);
        if (status == TARN_ERR_DEVICE_MEMORY && plan->hole_bytes > 0)
            return no_room(plan);
        if (!plan->needs_wait)
            return status;
        tn_pool_lock(plan->pool); /* later blocks have higher numbers */
        sequence = tn_next_sequence();
        tn_pool_unlock(plan->pool);
        status = tn_gpu_wait_idle(&plan->pool->device->gpu);
        if (status != TARN_OK)
            return status;
        plan->idle_sequence = sequence;
        /* Its thread is on its way, and no other launch begins. */
        if (plan->meets_launch)
            (void)sched_yield();
    }
    return tn_fail(TARN_ERR_BUSY,
                   "other threads keep freeing or restoring memory of pool '%s' that the "
                   "checkpoint needs, on other streams",
                   plan->pool->name);
}

tarn_status tn_checkpoint_restore(tarn_checkpoint *checkpoint, tarn_stream stream,
                                  tarn_delta **delta)
{
    struct tn_plan plan = {.checkpoint = checkpoint, .pool = checkpoint->pool, .stream = stream};
    struct tn_use *use = NULL;
    void *made = NULL;
    tarn_status status = tn_checkpoint_check_routes(plan.pool);

    TN_ASSERT(tn_lock_none_held());
    if (status == TARN_OK)
        status = tn_checkpoint_check_stream(plan.pool, stream, checkpoint->contents != NULL,
                                            &plan.order);
    if (status == TARN_OK && checkpoint->contents != NULL)
        status = tn_contents_prepare(checkpoint, stream);
    if (status == TARN_OK && tn_gpu_is_linear(&plan.pool->device->gpu))
        status = tn_gpu_wait_idle(&plan.pool->device->gpu); /* freed bytes are not usable at once */
    if (status == TARN_OK && checkpoint->contents != NULL)
        status = tn_use_make(&plan.pool->device->streams, stream, plan.order, &use);
    if (status != TARN_OK)
        return status;
    status = run(&plan, use, &made);
    if (plan.awaits)
        tn_replays_end_awaited(plan.pool->device);
    if (use != NULL && status == TARN_OK)
        tn_contents_add_use(checkpoint, use);
    else if (use != NULL)
        tn_use_end(&plan.pool->device->streams, use);
    tn_plan_fini(&plan);
    if (status == TARN_OK)
        tn_pool_note(plan.pool, TN_NOTE_CHECKPOINT_RESTORED, TN_OPERANDS(checkpoint->number));
    if (status == TARN_OK && delta != NULL)
        *delta = made;
    else
        tn_host_free(made);
    return status;
}
