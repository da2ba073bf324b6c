// SPDX-License-Identifier: Apache-2.0
/* The life of a pool, and of an allocation in it.
 *
 * An allocation reserves what it may need (records, room in the live table), looks for a free block
 * in its arena, then among pending blocks whose uses have ended, then in the pool's idle memory, and
 * grows, down the ladder of ladder.h where there is no memory. Then the block is cut to size, which
 * cannot fail.
 *
 * A free looks the address up without a lock, takes the lock of the segment's pool and looks again:
 * only then is the segment known to be that pool's.
 *
 * Trade-offs: the address is looked up twice, so that a free takes no lock but its pool's. */
#include "pools/pool.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/barrier.h"
#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/host.h"
#include "base/hot.h"
#include "heap/arena_lock.h"
#include "heap/sequence.h"
#include "heap/steady.h"
#include "pools/arenas.h"
#include "pools/await.h"
#include "pools/body.h"
#include "pools/device.h"
#include "pools/grow.h"
#include "pools/handover.h"
#include "pools/ladder.h"
#include "pools/reserve.h"
#include "pools/totals.h"
#include "pools/use.h"
#include "pools/watch.h"

static struct tn_records pool_records = TN_RECORDS_INIT_KEEPING(struct tarn_pool, name, lock);

static TN_APART void await_owners(const tarn_pool *pool, const struct tn_arena *but)
{
    tn_barrier_heavy(); /* its light side: tn_arena_enter */
    for (const struct tn_arena *arena = pool->arenas; arena != NULL; arena = arena->next) {
        if (arena != but)
            tn_arena_await_owner(arena);
    }
}

void tn_pool_stop_others(tarn_pool *pool, const struct tn_arena *but)
{
    bool owned = false;

    for (struct tn_arena *arena = pool->arenas; arena != NULL; arena = arena->next) {
        if (arena != but)
            owned = tn_arena_begin_lock(arena) || owned;
    }
    if (owned)
        await_owners(pool, but);
    for (struct tn_arena *arena = pool->arenas; arena != NULL; arena = arena->next) {
        if (arena != but)
            tn_steady_end(arena); /* P19 */
    }
    tn_counters_collect(pool);
}

/* Whether captures may be under way that what is freed in the arena must be kept for, but for its own, whose
 * hold has all chunks of its blocks. Where a route is open there may be more of them than are known; that of a
 * tarn_capture leads to no other. hold: of the arena's capture; NULL: none. */
static bool may_have_other_captures(const tarn_pool *pool, const struct tn_hold *hold)
{
    uint64_t own = hold != NULL && hold->owned ? 1 : 0;

    return pool->open_hold_count != own || pool->route_count != own;
}

/* What the arena may do by itself once the pool is unlocked. */
static struct tn_steady_terms terms_of(const tarn_pool *pool, const struct tn_arena *arena)
{
    bool captured = tn_arena_is_captured(arena);
    const struct tn_hold *hold = captured ? tn_hold_find(pool, arena->order.capture_id) : NULL;
    struct tn_steady_terms terms = {
        .joins = pool->checkpoint_count > 0,
        .captured = hold != NULL ? &hold->chunks : NULL,
    };

    TN_ASSERT(arena != &pool->idle);
    terms.allocates =
        arena->met && arena->fence == NULL &&
        atomic_load(&pool->magic) != 0 && /* else it is going: who has its handle is told so */
        (!captured || (hold != NULL && pool->bodies == NULL));
    /* The last free of a released pool, which ends it, is the pool's affair. */
    terms.frees =
        terms.allocates && !may_have_other_captures(pool, hold) && !atomic_load(&pool->released);
    return terms;
}

void tn_pool_resume_others(tarn_pool *pool, const struct tn_arena *but)
{
    for (struct tn_arena *arena = pool->arenas; arena != NULL; arena = arena->next) {
        struct tn_steady_terms terms;

        if (arena == but)
            continue;
        terms = terms_of(pool, arena);
        tn_steady_begin(arena, &terms);
        tn_arena_unlock(arena);
    }
}

void tn_pool_lock(tarn_pool *pool)
{
    tn_lock_acquire(&pool->lock);
    if (tn_is_forked())
        return;
    tn_pool_stop_others(pool, NULL);
}

void tn_pool_unlock(tarn_pool *pool)
{
    if (!tn_is_forked())
        tn_pool_resume_others(pool, NULL);
    tn_lock_release(&pool->lock);
}

/* Makes ready what the record has kept. */
static void renew(tarn_pool *pool)
{
    if (pool->lock.rank != TN_RANK_POOL) /* a new record */
        tn_lock_init(&pool->lock, TN_RANK_POOL);
    tn_lock_acquire(&pool->lock);
    TN_ASSERT(pool->arenas == NULL);
    pool->counters = (struct tn_pool_counters){0};
    tn_pins_open(&pool->pins);
    tn_arena_lock(&pool->idle);
    tn_arenas_init_idle(pool);
    tn_arena_unlock(&pool->idle);
    tn_lock_release(&pool->lock);
}

tarn_status tn_pool_create(tarn_device *device, const struct tn_pool_settings *settings,
                           tarn_pool **pool)
{
    struct tn_replays *replays;
    tarn_pool *made;

    tn_device_bound_released(device);
    made = tn_records_take(&pool_records);
    replays = made != NULL ? tn_replays_make() : NULL;
    if (replays == NULL) {
        if (made != NULL)
            tn_records_give(&pool_records, made);
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a pool");
    }
    __atomic_store_n(&made->device, device, __ATOMIC_RELAXED); /* what is kept comes first */
    made->rounding = device->rounding.any ? &device->rounding : NULL;
    TN_ASSERT(atomic_load(&made->arena_table) == NULL);
    atomic_store(&made->replays, replays);
    atomic_store(&made->replay_stream_id, 0);
    made->replay_order = settings->replay_order;
    atomic_store(&made->released, false);
    atomic_store(&made->is_default, settings->is_default);
    made->share_captured = settings->share_captured;
    made->ending = TN_ENDING_NOT;
    made->first_replays = replays;
    (void)snprintf(made->name, sizeof made->name, "%s",
                   settings->name != NULL ? settings->name : "");
    made->limit_bytes = settings->limit_bytes;
    made->guard = settings->guard;
    made->properties = settings->properties;
    made->peer_mask = settings->peer_mask;
    renew(made);
    tn_lock_acquire(&device->lock);
    made->next = device->pools;
    device->pools = made;
    tn_lock_release(&device->lock);
    atomic_store(&made->magic, TN_POOL_MAGIC);
    *pool = made;
    return TARN_OK;
}

/* Whether nothing but holds and calls under way claims it. */
static bool is_unused(const tarn_pool *pool)
{
    return pool->counters.live_count == 0 && pool->route_count == 0 && pool->capture_count == 0 &&
           pool->graph_count == 0 && pool->checkpoint_count == 0 && pool->kept_count == 0;
}

bool tn_pool_is_only_held(const tarn_pool *pool)
{
    return is_unused(pool) && tn_pins_count(&pool->pins) == 0;
}

bool tn_pool_is_unclaimed(const tarn_pool *pool)
{
    return tn_pool_is_only_held(pool) && pool->hold_count == 0;
}

tarn_status tn_pool_check_unclaimed(const tarn_pool *pool)
{
    if (tn_pool_is_unclaimed(pool))
        return TARN_OK;
    return tn_fail(
        TARN_ERR_BUSY,
        "pool '%s' is in use: %llu live blocks, %llu routes, %llu captures, %llu graphs, "
        "%llu checkpoints, %llu holds of captures and of graphs that are not gone (a launch runs, or the "
        "program has an executable or a clone), %llu blocks that were freed and that graphs keep, "
        "%llu calls under way",
        pool->name, (unsigned long long)pool->counters.live_count,
        (unsigned long long)pool->route_count, (unsigned long long)pool->capture_count,
        (unsigned long long)pool->graph_count, (unsigned long long)pool->checkpoint_count,
        (unsigned long long)pool->hold_count, (unsigned long long)pool->kept_count,
        (unsigned long long)tn_pins_count(&pool->pins));
}

/* A pool whose handle is there takes no lock: whoever gives that up just now sees the pin, or is seen here.
 * The pool may be gone by then, and another in its record, which is looked at once too often. */
void tn_pool_unpin(tarn_pool *pool)
{
    tarn_device *device = pool->device;
    bool last;

    if (tn_is_forked()) /* behind a function of the program's that has forked */
        return;
    if (atomic_load(&pool->released)) {
        tn_pool_lock(pool);
        tn_pins_drop(&pool->pins);
        last = tn_pool_is_unclaimed(pool);
        tn_pool_unlock(pool);
    } else {
        tn_pins_drop(&pool->pins);
        last = atomic_load(&pool->released);
    }
    if (last)
        tn_device_end_released(device);
}

/* Gives everything back to driver and host: the pool is off the device's list, nothing claims it,
 * and its memory is proven idle. */
static void dismantle(tarn_pool *pool)
{
    tn_pool_lock(pool);
    /* Its pins are closed: whoever tries one now is refused, and is counted meanwhile. */
    TN_ASSERT(is_unused(pool) && pool->hold_count == 0);
    tn_pending_poll(pool, true);
    for (struct tn_block *block = tn_live_first(pool->segments); block != NULL;
         block = tn_live_next(block)) { /* DISCARDED blocks go with their pool */
        tn_live_remove(block);
        tn_uses_end(pool, block);
        tn_watches_forsake(pool, block);
    }
    tn_pool_unmap_all(pool);
    tn_arenas_fini(pool);
    TN_ASSERT(pool->bodies == NULL); /* P15: each has ended with the hold of its outer capture */
    tn_blocks_fini(&pool->store);
    tn_host_free(pool->chunks);
    tn_pool_unlock(pool);
    tn_lock_acquire(&pool->device->lock);
    tn_totals_keep_events(pool); /* of its end */
    tn_lock_release(&pool->device->lock);
    tn_records_give(&pool_records, pool);
}

/* Takes the pool off its device's list; its lock and the device's are held. */
static void unlist(tarn_pool *pool)
{
    tarn_pool **link = &pool->device->pools;

    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    tn_replays_leave(pool); /* with the list: P17 */
    tn_totals_keep(pool);
    atomic_store(&pool->magic, 0);
}

static bool has_unproven_memory(const tarn_pool *pool)
{
    for (size_t id = 0; id < pool->chunk_ids; id++) {
        if (pool->chunks[id] != NULL &&
            !tn_gpu_is_proven(&pool->device->gpu, pool->chunks[id]->freed_stamp))
            return true;
    }
    return tn_pool_has_pending(pool);
}

bool tn_pool_is_idle(tarn_pool *pool)
{
    tn_pending_poll(pool, false);
    return tn_gpu_is_lost(&pool->device->gpu) || !has_unproven_memory(pool);
}

/* One look at a pool that is to go: unlists it when it may, or says whether the device must be waited
 * for first. One wait is enough: what nothing claims is not used again. */
enum verdict { VERDICT_GONE, VERDICT_WAIT, VERDICT_CLAIMED, VERDICT_STALE };

static enum verdict try_unlist(tarn_pool *pool, bool waited)
{
    enum verdict verdict = VERDICT_GONE;

    tn_lock_acquire(&pool->device->lock);
    tn_pool_lock(pool);
    if (atomic_load(&pool->magic) != TN_POOL_MAGIC)
        verdict = VERDICT_STALE;
    else if (!tn_pool_is_unclaimed(pool))
        verdict = VERDICT_CLAIMED;
    else if (!waited && has_unproven_memory(pool) && !tn_gpu_is_lost(&pool->device->gpu))
        verdict = VERDICT_WAIT;
    else if (!tn_pins_close(&pool->pins)) /* a call has just come in */
        verdict = VERDICT_CLAIMED;
    else
        unlist(pool);
    tn_pool_unlock(pool);
    if (verdict == VERDICT_GONE)
        tn_totals_keep_peaks(pool);
    tn_lock_release(&pool->device->lock);
    return verdict;
}

tarn_status tn_pool_destroy(tarn_pool *pool)
{
    enum verdict verdict;
    tarn_status status = TARN_OK;

    tn_await_holds(pool->device, pool, TN_AWAIT_LAST);
    verdict = try_unlist(pool, false);
    if (verdict == VERDICT_WAIT) {
        status = tn_gpu_wait_idle(&pool->device->gpu);
        if (status != TARN_OK)
            return status;
        verdict = try_unlist(pool, true);
    }
    if (verdict == VERDICT_GONE) {
        dismantle(pool);
        return TARN_OK;
    }
    if (verdict == VERDICT_STALE)
        return tn_fail(TARN_ERR_INVALID_HANDLE, "the pool was destroyed by another thread");
    tn_pool_lock(pool);
    status = tn_pool_check_unclaimed(pool);
    tn_pool_unlock(pool);
    return status != TARN_OK ? status : tn_fail(TARN_ERR_BUSY, "pool '%s' was in use", pool->name);
}

/* Writes what the block is now, and enters it in the books of its chunks. Reads none of it back: a load of two
 * bytes that were just written one by one waits until they have reached the cache. */
static inline void enter(struct tn_chunk *chunk, struct tn_block *block, bool own_order,
                         bool tangled)
{
    TN_ASSERT(block->state == TN_BLOCK_FREE);
    block->state = TN_BLOCK_LIVE;
    block->own_order = own_order;
    block->tangled = tangled;
    block->misplaced = false; /* P20 */
    tn_live_insert_in(chunk, block, own_order && !tangled);
    if (tn_block_end(block) <= tn_chunk_end(chunk))
        chunk->used_bytes += tn_block_bytes(block);
    else
        tn_block_count_used(block);
}

static inline void count_live(tarn_pool *pool, enum tn_heap_kind kind, const struct tn_tally *more)
{
    struct tn_pool_counters *counters = &pool->counters;

    counters->live_count += more->count;
    counters->live_bytes += more->bytes;
    counters->requested_bytes += more->requested;
    tn_metrics_add_live(counters->metrics, kind, more);
    counters->risen = true;
}

void tn_pool_enter_live(tarn_pool *pool, struct tn_block *block)
{
    uint64_t bytes = tn_block_bytes(block);

    enter(tn_block_chunk_at(block, block->offset), block, block->own_order, block->tangled);
    count_live(pool, tn_kind_of(bytes), &(struct tn_tally){1, bytes, block->requested});
}

void tn_pool_revive(struct tn_chunk *chunk, struct tn_block *block, uint64_t requested,
                    uint64_t sequence, struct tn_tally *tally)
{
    TN_ASSERT(chunk->heap == block->heap &&
              tn_kind_of(tn_block_bytes(block)) == block->heap->kind); /* P20 */
    tn_bins_remove(&block->heap->bins, block);
    block->requested = requested;
    block->sequence = sequence;
    enter(chunk, block, true, false); /* P18 */
    tally->count += 1;
    tally->bytes += tn_block_bytes(block);
    tally->requested += requested;
}

void tn_pool_count_live(tarn_pool *pool, const struct tn_tally tallies[TN_HEAP_KINDS])
{
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
        if (tallies[kind].count > 0)
            count_live(pool, (enum tn_heap_kind)kind, &tallies[kind]);
    }
}

/* A LIVE block is so no more. */
static void count_not_live(struct tn_pool_counters *counters, const struct tn_block *block)
{
    uint64_t bytes = tn_block_bytes(block);

    counters->live_count -= 1;
    counters->live_bytes -= bytes;
    counters->requested_bytes -= block->requested;
    tn_metrics_remove_live(counters->metrics, tn_kind_of(bytes),
                           &(struct tn_tally){1, bytes, block->requested});
}

void tn_pool_leave_live(tarn_pool *pool, struct tn_block *block)
{
    struct tn_pool_counters *counters = &pool->counters;

    if (block->state == TN_BLOCK_DISCARDED) {
        counters->discarded_count -= 1;
        tn_metrics_remove_block(counters->metrics, TN_DISCARDED_BLOCKS, tn_block_bytes(block));
    } else {
        count_not_live(counters, block);
    }
    tn_live_remove(block);
}

/* The block of an order in a capture was allocated just now. */
static void enter_birth(tarn_pool *pool, const struct tn_block *block,
                        const struct tn_request *request)
{
    struct tn_births *births = block->heap->arena->births;
    struct tn_place place;

    if (births->lost)
        return;
    tn_place_ask(&pool->device->gpu, request->stream, request->order, &place);
    tn_births_enter(births, &place,
                    &(struct tn_birth){.address = tn_block_address(block),
                                       .requested = block->requested,
                                       .sequence = block->sequence});
}

/* Cuts a block out of a FREE one, at an address in it, and makes it live. hold: that of the order's
 * capture, or NULL; there is room for the birth. */
static void commit_allocation(tarn_pool *pool, struct tn_block *block,
                              const struct tn_request *request, struct tn_hold *hold,
                              uint64_t start, uint64_t bytes)
{
    block = tn_heap_carve(&pool->store, block, start - block->segment->base, bytes);
    block->requested = request->requested;
    tn_block_set_order(block, request->order);
    block->sequence = tn_next_sequence();
    block->heap->arena->sequence = block->sequence + 1; /* it has set none aside: it is locked */
    block->heap->arena->sequences_end = block->sequence + 1;
    tn_pool_enter_live(pool, block);
    if (hold != NULL) {
        tn_hold_add(hold, block);
        enter_birth(pool, block, request);
    }
    if (hold != NULL && pool->bodies != NULL)
        tn_bodies_hold(pool, hold->capture_id, block);
    pool->counters.alloc_count += 1;
}

enum { RECORDS_FOR_ALLOCATION = 4 }; /* two for chunks that change hands, two for the cut */

/* met: see tn_arena_meet. */
static tarn_status try_allocate(tarn_pool *pool, const struct tn_request *request, bool frugal,
                                bool *met, void **address)
{
    uint64_t bytes = tn_block_bytes_for(pool->rounding, request->requested);
    uint64_t room = bytes + request->alignment - TN_BLOCK_BYTES_MIN;
    uint64_t capture_id = request->order.capture_id;
    struct tn_hold *hold = capture_id != 0 ? tn_hold_find(pool, capture_id) : NULL;
    struct tn_arena *arena;
    struct tn_heap *heap;
    struct tn_block *block;
    uint64_t start;
    tarn_status status;

    if (capture_id != 0 && hold == NULL)
        return tn_fail(TARN_ERR_CAPTURE_BROKEN, "the capture of this stream ended during the call");
    arena = tn_arena_get(pool, request->order);
    if (arena == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for an arena");
    status = tn_arena_meet(arena, request->stream, met);
    if (status != TARN_OK)
        return status;
    if (!tn_steady_provide(arena) || !tn_blocks_reserve(&pool->store, RECORDS_FOR_ALLOCATION))
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a block's records");
    heap = &arena->heaps[tn_kind_of(bytes)];
    block = tn_heap_find(pool, heap, room);
    if (block == NULL && tn_pool_has_pending(pool)) {
        tn_pending_poll_to_use(pool, capture_id != 0);
        if (capture_id != 0 && !pool->device->no_record_stream_reuse)
            tn_pending_poll_capture(pool, arena, request->stream);
        if (!tn_blocks_reserve(&pool->store, RECORDS_FOR_ALLOCATION))
            return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a block's records");
        block = tn_heap_find(pool, heap, room);
    }
    if (block == NULL && tn_reserved_return(pool, heap))
        block = tn_heap_find(pool, heap, room);
    if (block == NULL) {
        status = tn_heap_grow(pool, heap, room, frugal);
        if (status != TARN_OK)
            return status;
        block = tn_heap_find(pool, heap, room);
    }
    TN_ASSERT(block != NULL);
    if (hold != NULL)
        hold->births_lost = !tn_births_provide(&arena->births, &hold->births) || hold->births_lost;
    start = tn_round_up(tn_block_address(block), request->alignment);
    if (!tn_live_reserve(tn_address_table_chunk(start), 1))
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a block's records");
    commit_allocation(pool, block, request, hold, start, bytes);
    *address = (void *)(uintptr_t)start;
    return TARN_OK;
}

struct attempts {
    const struct tn_request *request;
    bool *met;
};

static tarn_status attempt_allocation(tarn_pool *pool, const void *request, bool frugal,
                                      void **result)
{
    const struct attempts *attempts = request;

    return try_allocate(pool, attempts->request, frugal, attempts->met, result);
}

tarn_status tn_pool_allocate(tarn_pool *pool, const struct tn_request *request, void **address)
{
    bool met = false;
    const struct attempts attempts = {request, &met};

    return tn_ladder_run(pool, attempt_allocation, &attempts, request->requested, address);
}

/* Why no live block starts at an address that a segment of the pool contains. */
static tarn_status explain_address(const tarn_pool *pool, const struct tn_segment *segment,
                                   uint64_t address)
{
    const struct tn_block *block = segment->first_block;

    while (tn_block_end(block) <= address - segment->base)
        block = block->next;
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
    return tn_fail(TARN_ERR_NOT_OURS, "address 0x%llx was not handed out by Tarn",
                   (unsigned long long)address);
}

tarn_status tn_pool_lock_segment(uint64_t address, tarn_pool **pool, struct tn_segment **segment)
{
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

tarn_status tn_pool_lock_block(uint64_t address, bool live_only, tarn_pool **pool,
                               struct tn_block **block)
{
    struct tn_segment *segment;
    struct tn_block *found;
    tarn_status status = tn_pool_lock_segment(address, pool, &segment);

    if (status != TARN_OK)
        return status;
    found = tn_live_find(*pool, address);
    if (found != NULL && (found->state == TN_BLOCK_LIVE || !live_only)) {
        *block = found;
        return TARN_OK;
    }
    status = explain_address(*pool, segment, address);
    tn_pool_unlock(*pool);
    return status;
}

/* Whether the work of the block's own stream, which was retired, is to end first. */
static bool waits_for_retired(tarn_pool *pool, struct tn_block *block)
{
    if (tn_pool_defers(pool))
        return tn_block_fence(block) != NULL; /* whatever a poll has found */
    return !tn_block_settle(pool, block);
}

/* The hold of the capture that the block was allocated in, or of the one that this is a body's part of, while that is
 * open; NULL: it is not, or the block is of no capture. */
static const struct tn_hold *find_open_hold(const tarn_pool *pool, const struct tn_block *block)
{
    uint64_t capture_id = tn_block_order(block).capture_id;

    while (capture_id != 0) {
        const struct tn_hold *hold = tn_hold_find(pool, capture_id);
        const struct tn_body *body = hold == NULL ? tn_body_find(pool, capture_id) : NULL;

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

/* P26: whether all that has touched the block's memory, but for its recorded uses, is graphs that hold it. In its own
 * capture nothing has run in it. Behind that its user may have given it to any stream: only who names the last use
 * (tarn_free_on) has said which. Copies of checkpoints' contents are nobody's recorded use, and graphs that watch the
 * block do not hold it. */
static bool is_graphs_alone(const tarn_pool *pool, const struct tn_block *block, bool told)
{
    const struct tn_gpu *gpu = &pool->device->gpu;
    const struct tn_hold *hold;

    if (tn_block_order(block).capture_id == 0 || tn_block_watches(block) != NULL)
        return false;
    hold = find_open_hold(pool, block);
    if (hold != NULL && tn_hold_goes_on(hold))
        return true;
    return told && has_use_outside(block) && tn_gpu_is_proven(gpu, pool->saved_stamp) &&
           tn_gpu_is_proven(gpu, pool->restored_stamp);
}

static void free_block(tarn_pool *pool, struct tn_block *block, bool unheld, bool told)
{
    bool graphs_alone = is_graphs_alone(pool, block, told);
    bool kept = tn_watches_tell(pool, block);
    uint64_t freed_stamp;
    uint64_t proof_stamp;

    tn_pool_leave_live(pool, block);
    pool->counters.free_count += 1;
    /* What a capture did with memory that is not of its own order there nobody knows before its end. */
    block->captured_free = tn_holds_add_freed(pool, block) &&
                           !(tn_arena_is_captured(block->heap->arena) &&
                             tn_order_equal(tn_block_order(block), block->heap->arena->order));
    block->unheld = unheld;
    block->captured_free = block->captured_free || unheld;
    proof_stamp = tn_block_is_in_order(block) ? 0 : tn_gpu_epoch(&pool->device->gpu);
    if (kept || tn_block_uses(block) != NULL || waits_for_retired(pool, block) ||
        block->captured_free || proof_stamp != 0) {
        tn_pending_add(pool, block, proof_stamp, graphs_alone);
        return;
    }
    freed_stamp = tn_block_freed_stamp(pool, block);
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

void tn_pool_discard(tarn_pool *pool, uint64_t capture_id)
{
    for (struct tn_block *block = tn_live_first(pool->segments); block != NULL;
         block = tn_live_next(block)) {
        uint64_t of = tn_block_order(block).capture_id;

        if (block->state != TN_BLOCK_LIVE ||
            (of != capture_id && !tn_body_is_within(pool, of, capture_id)))
            continue;
        block->state = TN_BLOCK_DISCARDED;
        tn_live_mark(block); /* P23 */
        pool->counters.discarded_count += 1;
        count_not_live(&pool->counters, block);
        tn_metrics_add_block(pool->counters.metrics, TN_DISCARDED_BLOCKS, tn_block_bytes(block));
    }
}
