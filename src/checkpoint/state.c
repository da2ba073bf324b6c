// SPDX-License-Identifier: Apache-2.0
/* Taking a checkpoint. Under the pool's lock a take writes the live blocks to an array, in order of
 * address, holds their segments, and enqueues the copies of contents. The memory for contents is
 * taken before, without the lock. If more is live by then than the memory is for, the take gives it
 * back and takes memory anew. From the third time on, it takes twice as much as is live. This ends:
 * the live set would have to double each time, and memory is finite.
 *
 * Trade-offs: taking walks the blocks of the pool's segments. */
#include "checkpoint/state.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "checkpoint/contents.h"
#include "checkpoint/settle.h"
#include "checkpoint/uses.h"
#include "driver/idle.h"
#include "graphs/admit.h"
#include "graphs/replay_visits.h"
#include "pools/arenas.h"
#include "pools/handover.h"
#include "pools/pieces.h"

static atomic_uint_fast64_t last_number; /* of a checkpoint, in the process */
static struct tn_records checkpoint_records =
    TN_RECORDS_INIT_KEEPING(struct tarn_checkpoint, next, pins);

static tarn_status refuse_capture(const tarn_pool *pool)
{
    return tn_fail(TARN_ERR_WRONG_STATE,
                   "a capture is under way in pool '%s'; end or abort it, or end its route, first",
                   pool->name);
}

tarn_status tn_checkpoint_check_routes(tarn_pool *pool)
{
    bool captured = false;
    bool routed;
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_lock_none_held());
    tn_pool_lock(pool);
    routed = pool->claims.route_count > 0;
    tn_pool_unlock(pool);
    if (routed)
        status = tn_capture_find_announced(pool, &captured);
    return captured ? refuse_capture(pool) : status;
}

tarn_status tn_checkpoint_check_pool(const tarn_pool *pool)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    return pool->claims.capture_count == 0 && pool->holds.open_count == 0 ? TARN_OK
                                                                          : refuse_capture(pool);
}

/* Whether checkpoints may be taken and restored on the stream now, and its order. */
static tarn_status find_order(tarn_pool *pool, tarn_stream stream, bool works,
                              struct tn_order *order)
{
    struct tn_stream_state state;
    tarn_status status = tn_stream_look(&pool->device->gpu, stream, TN_STREAM_GRAPH, &state);

    if (status == TARN_OK && (state.order.capture_id != 0 || state.broken))
        status =
            tn_fail(TARN_ERR_WRONG_STATE, "the stream is being captured; checkpoints are taken "
                                          "and restored outside captures");
    if (status == TARN_OK && works && tn_stream_is_legacy(stream) &&
        tn_stream_is_closed(&pool->device->gpu, stream))
        status = tn_fail(TARN_ERR_WRONG_STATE,
                         "a blocking stream is being captured, and work on the legacy default "
                         "stream would break that capture; give another stream");
    if (status == TARN_OK)
        *order = state.order;
    return status;
}

tarn_status tn_checkpoint_check_stream(tarn_pool *pool, tarn_stream stream, bool works,
                                       struct tn_order *order)
{
    struct tn_order found;
    tarn_status status = find_order(pool, stream, works, &found);

    if (status == TARN_OK)
        status = tn_stream_meet(&pool->device->gpu, stream); /* contents may be copied on it */
    if (status == TARN_OK)
        *order = found;
    return status;
}

tarn_status tn_checkpoint_recheck_stream(tarn_pool *pool, tarn_stream stream, bool works,
                                         struct tn_order order)
{
    struct tn_order now = order;
    tarn_status status = find_order(pool, stream, works, &now);

    if (status == TARN_OK && !tn_order_equal(now, order))
        status = tn_fail(TARN_ERR_WRONG_STATE, "the stream was destroyed during the call");
    return status;
}

/* How far a segment is saved. */
struct saving {
    struct tn_saved_block *first; /* of the last run, which has no count yet; NULL: no run */
    /* Its arena's order is the order of the last run; NULL: no such heap is known. */
    const struct tn_heap *heap;
};

/* Ends the segment's last run in front of that block. */
static void end_run(const tarn_checkpoint *checkpoint, const struct saving *saving,
                    const struct tn_saved_block *end)
{
    struct tn_saved_run *run;

    TN_ASSERT(tn_pool_is_locked(checkpoint->pool));
    if (saving->first == NULL)
        return;
    run = &checkpoint->runs[checkpoint->run_count - 1];
    TN_ASSERT(end >= saving->first && run->block_count == 0);
    run->block_count = (uint64_t)(end - saving->first);
    tn_arena_save(checkpoint->pool, run->order, run->block_count);
}

/* False: no memory. */
static bool begin_run(tarn_checkpoint *checkpoint, struct saving *saving,
                      struct tn_segment *segment, struct tn_order order,
                      struct tn_saved_block *first)
{
    end_run(checkpoint, saving, first);
    saving->first = NULL;
    if (!tn_host_grow((void **)&checkpoint->runs, &checkpoint->run_capacity,
                      checkpoint->run_count + 1, sizeof *checkpoint->runs))
        return false;
    checkpoint->runs[checkpoint->run_count] = (struct tn_saved_run){segment, order, 0};
    checkpoint->run_count += 1;
    saving->first = first;
    return true;
}

/* Saves a block that may not belong to the last run: goes on with this run, or begins another, and
 * saves the block's uses. *use_count: their number; false: no memory. */
static bool save_unlike(tarn_checkpoint *checkpoint, const struct tn_block *block,
                        struct tn_saved_block *saved, struct saving *saving, uint32_t *use_count)
{
    struct tn_order order = tn_block_order(block);

    TN_ASSERT(block->state == TN_BLOCK_LIVE);
    if ((saving->first == NULL ||
         !tn_order_equal(order, checkpoint->runs[checkpoint->run_count - 1].order)) &&
        !begin_run(checkpoint, saving, block->segment, order, saved))
        return false;
    saving->heap = block->own_order ? block->heap : NULL;
    if (!block->may_have_claims)
        return true;
    if (!tn_saved_uses_add(checkpoint, block))
        return false;
    *use_count = (uint32_t)tn_uses_count(block);
    return true;
}

/* False: no memory. */
static bool save_segment(tarn_checkpoint *checkpoint, struct tn_segment *segment)
{
    struct tn_saved_block *const first = &checkpoint->blocks[checkpoint->block_count];
    struct tn_saved_block *saved = first;
    struct saving saving = {NULL, NULL};
    struct tn_block_step step = tn_block_step_by(1);
    uint32_t run = 0; /* of the blocks, from the first on */
    bool done = true;

    TN_ASSERT(tn_pool_is_locked(checkpoint->pool));
    for (struct tn_block *block = segment->first_block; block != NULL;
         block = tn_block_next(block, &step)) {
        uint32_t use_count = 0;

        if (block->state != TN_BLOCK_LIVE)
            continue;
        if (block->heap != saving.heap || !block->own_order || block->may_have_claims) {
            done = save_unlike(checkpoint, block, saved, &saving, &use_count);
            if (!done)
                break;
            run = (uint32_t)checkpoint->run_count - 1;
        }
        saved->block = block;
        saved->requested = block->requested;
        saved->sequence = block->sequence;
        saved->place = (uint32_t)(block->offset >> TN_BLOCK_BITS);
        saved->units = block->units;
        saved->run = run;
        saved->use_count = use_count;
        saved += 1;
    }
    end_run(checkpoint, &saving, saved);
    if (saved > first)
        segment->checkpoint_count += 1; /* C2 */
    checkpoint->block_count += (size_t)(saved - first);
    TN_ASSERT(checkpoint->block_count <= tn_pool_live_count(checkpoint->pool)); /* P8 */
    return done;
}

/* False: no memory. */
static bool save_tags(tarn_checkpoint *checkpoint)
{
    const struct tn_saved_block *blocks = checkpoint->blocks;
    size_t i = 0;

    TN_ASSERT(tn_pool_is_locked(checkpoint->pool) && checkpoint->tags == NULL);
    if (!checkpoint->pool->store.tagged)
        return true;
    while (i < checkpoint->block_count && tn_block_tag(blocks[i].block) == 0)
        i += 1;
    if (i == checkpoint->block_count)
        return true;
    checkpoint->tags = tn_host_alloc(checkpoint->block_count, sizeof *checkpoint->tags);
    if (checkpoint->tags == NULL)
        return false;
    for (; i < checkpoint->block_count; i++)
        checkpoint->tags[i] = tn_block_tag(blocks[i].block);
    return true;
}

/* Lets go of the segments, arenas and streams; the pool's lock is held. */
static void forget_state(tarn_checkpoint *checkpoint)
{
    struct tn_segment *last = NULL;

    TN_ASSERT(tn_pool_is_locked(checkpoint->pool));
    for (size_t i = 0; i < checkpoint->run_count; i++) {
        const struct tn_saved_run *run = &checkpoint->runs[i];

        if (run->block_count == 0)
            continue;
        if (run->segment != last) {
            last = run->segment;
            TN_ASSERT(last->checkpoint_count > 0); /* C2 */
            last->checkpoint_count -= 1;
        }
        tn_arena_forget(checkpoint->pool, run->order, run->block_count);
    }
    tn_saved_uses_forget(checkpoint);
    tn_host_free(checkpoint->runs);
    checkpoint->runs = NULL;
    checkpoint->run_capacity = 0;
    checkpoint->run_count = 0;
    tn_host_free(checkpoint->tags);
    checkpoint->tags = NULL;
    tn_host_free(checkpoint->blocks);
    checkpoint->blocks = NULL;
    checkpoint->block_count = 0;
    checkpoint->live_bytes = 0;
}

/* The stream on which a take settles the pool. */
struct settling {
    tarn_stream stream;
    struct tn_order order;
    bool by_events;
};

/* Brings the pool's free memory into the same form as each restore of the checkpoint. The pool's
 * lock is held. */
static tarn_status settle_pool(tarn_pool *pool, const struct settling *on)
{
    struct tn_settlement settlement = {
        .pool = pool,
        .stream = on->stream,
        .order = on->order,
        .by_events = on->by_events,
        .walk_id = tn_next_walk_id(pool),
    };
    const struct tn_visit visit = {.visitor = &settlement,
                                   .stream = on->stream,
                                   .stream_id = on->order.stream_id,
                                   .by_events = on->by_events};
    tarn_status status;

    TN_ASSERT(tn_pool_is_locked(pool));
    tn_settle_plan(&settlement);
    if (!tn_blocks_reserve(&pool->store, 2 * settlement.count + 2 * pool->chunks.count))
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a checkpoint");
    status = tn_settle_prepare(&settlement);
    if (status != TARN_OK)
        return status;
    tn_settle_commit(&settlement);
    if (settlement.serves_captures)
        tn_replays_follow(pool, &visit);
    tn_idle_sort(pool);
    tn_pool_sort_free(pool);
    return TARN_OK;
}

/* Saves the live set; the pool's lock is held.
 *   WRONG_STATE, HOST_MEMORY, DEVICE_LOST, DRIVER: nothing is saved */
static tarn_status save_state(tarn_checkpoint *checkpoint, const struct settling *on)
{
    tarn_pool *pool = checkpoint->pool;
    bool saved = true;
    tarn_status status = tn_checkpoint_check_pool(pool);

    TN_ASSERT(tn_pool_is_locked(pool));
    TN_ASSERT(checkpoint->block_count == 0 && checkpoint->run_count == 0);
    if (status == TARN_OK)
        status = settle_pool(pool, on);
    if (status != TARN_OK)
        return status;
    if (tn_pool_live_count(pool) > 0) {
        checkpoint->blocks =
            tn_host_alloc_unset(tn_pool_live_count(pool), sizeof *checkpoint->blocks);
        saved = checkpoint->blocks != NULL;
        for (struct tn_segment *segment = pool->segments.first; segment != NULL && saved;
             segment = segment->next)
            saved = save_segment(checkpoint, segment); /* C1: segments and blocks are in order */
        saved = saved && save_tags(checkpoint);
    }
    checkpoint->live_bytes = tn_pool_live_bytes(pool);                        /* P8 */
    TN_ASSERT(!saved || checkpoint->block_count == tn_pool_live_count(pool)); /* P8 */
    if (saved)
        return TARN_OK;
    status = tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a checkpoint of %llu blocks",
                     (unsigned long long)tn_pool_live_count(pool));
    forget_state(checkpoint);
    return status;
}

static tarn_status take_state(tarn_checkpoint *checkpoint, const struct settling *on)
{
    tarn_pool *pool = checkpoint->pool;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    tn_pool_lock(pool);
    status = save_state(checkpoint, on);
    if (status == TARN_OK)
        pool->claims.checkpoint_count += 1;
    tn_pool_unlock(pool);
    return status;
}

/* Measures the live blocks, in number and bytes. */
static tarn_status measure(tarn_pool *pool, struct tn_tally *live)
{
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    tn_pool_lock(pool);
    status = tn_checkpoint_check_pool(pool);
    *live = (struct tn_tally){.count = tn_pool_live_count(pool), .bytes = tn_pool_live_bytes(pool)};
    tn_pool_unlock(pool);
    return status;
}

/* Whether the copies of the last restore may still run, unordered with the take's copies, which
 * must follow them. The pool's lock is held. */
static bool restore_may_run(const tarn_pool *pool, const struct settling *on)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    return !tn_order_equal(pool->copies.restored_order, on->order) &&
           !tn_gpu_is_proven(&pool->device->gpu, pool->copies.restored_stamp);
}

static bool restore_has_event(const tarn_pool *pool)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    return pool->copies.restored != NULL && pool->copies.restored->used != NULL;
}

/* Puts the take's stream behind the last restore. *follows false: the take must wait for the
 * device. */
static tarn_status follow_restore(const tarn_pool *pool, const struct settling *on, bool *follows)
{
    bool runs = restore_may_run(pool, on);

    *follows = !runs || restore_has_event(pool);
    return runs && *follows
               ? tn_stream_wait(&pool->device->gpu, on->stream, pool->copies.restored->used)
               : TARN_OK;
}

/* Saves the live set and its contents in the room that was taken. *done: false if the room is too
 * small or, when it is to be exact, too large; then nothing is saved. */
static tarn_status save_in_room(tarn_checkpoint *checkpoint, const struct settling *on,
                                const struct tn_tally *exact, bool *done)
{
    tarn_pool *pool = checkpoint->pool;
    bool follows = true;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    tn_pool_lock(pool);
    status = save_state(checkpoint, on);
    *done = status == TARN_OK && tn_contents_fit(checkpoint) &&
            (exact == NULL ||
             (checkpoint->block_count == exact->count && checkpoint->live_bytes == exact->bytes));
    if (*done && checkpoint->block_count > 0)
        status = follow_restore(pool, on, &follows);
    *done = *done && follows;
    if (*done && status == TARN_OK && checkpoint->block_count > 0)
        status = tn_contents_save(checkpoint, on->stream);
    if (status != TARN_OK || !*done)
        forget_state(checkpoint);
    tn_pool_unlock(pool);
    return status;
}

/* Waits for the device if the take cannot follow the last restore in another way. */
static tarn_status await_restore(tarn_pool *pool, const struct settling *on)
{
    bool waits;

    TN_ASSERT(tn_lock_none_held());
    tn_pool_lock(pool);
    waits = restore_may_run(pool, on) && !restore_has_event(pool);
    tn_pool_unlock(pool);
    return waits ? tn_gpu_wait_idle(&pool->device->gpu) : TARN_OK;
}

/* A single try: the live set may change as long as the pool is not locked. */
static tarn_status try_with_contents(tarn_checkpoint *checkpoint, const struct settling *on,
                                     unsigned tries, bool *done)
{
    struct tn_tally room;
    tarn_status status = await_restore(checkpoint->pool, on);

    TN_ASSERT(checkpoint->contents == NULL);
    if (status == TARN_OK)
        status = measure(checkpoint->pool, &room);
    if (tries > 1) {
        room.count *= 2;
        room.bytes *= 2;
    }
    if (status == TARN_OK && room.count > 0)
        status = tn_contents_take_room(checkpoint, room.count, room.bytes, on->stream, on->order);
    if (status != TARN_OK)
        return status;
    status = tn_checkpoint_recheck_stream(checkpoint->pool, on->stream, true, on->order);
    if (status == TARN_OK)
        status = save_in_room(checkpoint, on, tries == 0 ? &room : NULL, done);
    if (checkpoint->block_count == 0) /* nothing is saved, or nothing is live */
        tn_contents_drop_room(checkpoint, status == TARN_OK || !*done);
    return status;
}

static void count_checkpoint(tarn_pool *pool, int change)
{
    tn_pool_lock(pool);
    TN_ASSERT(change > 0 || pool->claims.checkpoint_count > 0);
    pool->claims.checkpoint_count += (uint64_t)(int64_t)change;
    tn_pool_unlock(pool);
}

/* The pool lives on meanwhile, also when a callback frees its last block. */
static tarn_status take_with_contents(tarn_checkpoint *checkpoint, const struct settling *on)
{
    bool done = false;
    tarn_status status = TARN_OK;

    count_checkpoint(checkpoint->pool, 1);
    for (unsigned tries = 0; status == TARN_OK && !done; tries++)
        status = try_with_contents(checkpoint, on, tries, &done);
    if (status != TARN_OK)
        count_checkpoint(checkpoint->pool, -1);
    return status;
}

/* Lets go of everything, and has the pool forget the checkpoint. */
static void release_state(tarn_checkpoint *checkpoint)
{
    tarn_pool *pool = checkpoint->pool;

    tn_pool_lock(pool);
    forget_state(checkpoint);
    TN_ASSERT(pool->claims.checkpoint_count > 0);
    pool->claims.checkpoint_count -= 1;
    tn_pool_unlock(pool);
}

static bool has_pending(tarn_pool *pool)
{
    bool pending;

    tn_pool_lock(pool);
    pending = tn_pool_has_pending(pool);
    tn_pool_unlock(pool);
    return pending;
}

/* The stream's order if the stream may wait for events; else none, and pending blocks stay pending.
 */
static void try_order(tarn_pool *pool, tarn_stream stream, struct tn_order *order)
{
    struct tn_order found = TN_ORDER_NONE;

    if (tn_checkpoint_check_stream(pool, stream, true, &found) == TARN_OK)
        *order = found;
}

tarn_status tn_checkpoint_take(tarn_pool *pool, tarn_contents contents, tarn_stream stream,
                               tarn_checkpoint **checkpoint)
{
    struct settling on = {.stream = stream};
    tarn_checkpoint *made;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    if (pool->is_default)
        return tn_fail(TARN_ERR_WRONG_STATE, "the default pool serves everyone: restoring it would "
                                             "free the blocks of others; use a private pool");
    if (tn_pool_has_pieces(pool))
        return tn_fail(TARN_ERR_NOT_SUPPORTED,
                       "pool '%s' has registered memory, which a checkpoint cannot keep at its "
                       "addresses",
                       pool->name);
    status = tn_checkpoint_check_routes(pool);
    if (status == TARN_OK && contents != TARN_CONTENTS_NONE)
        status = tn_checkpoint_check_stream(pool, stream, true, &on.order);
    else if (status == TARN_OK && has_pending(pool))
        try_order(pool, stream, &on.order);
    on.by_events = on.order.stream_id != 0;
    if (status != TARN_OK)
        return status;
    made = tn_records_take(&checkpoint_records);
    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a checkpoint");
    made->pool = pool;
    made->kind = contents;
    status = contents == TARN_CONTENTS_NONE ? take_state(made, &on) : take_with_contents(made, &on);
    if (status != TARN_OK) {
        tn_records_give(&checkpoint_records, made);
        return status;
    }
    made->number = atomic_fetch_add_explicit(&last_number, 1, memory_order_relaxed) + 1;
    tn_pool_note(pool, TN_NOTE_CHECKPOINT_TAKEN, TN_OPERANDS(made->number, made->block_count));
    tn_pins_open(&made->pins);
    atomic_store(&made->magic, TN_CHECKPOINT_MAGIC);
    *checkpoint = made;
    return TARN_OK;
}

tarn_status tn_checkpoint_verify(tarn_checkpoint *checkpoint, tarn_stream stream)
{
    struct tn_order order;
    tarn_status status = tn_checkpoint_check_stream(checkpoint->pool, stream, true, &order);

    TN_ASSERT(tn_lock_none_held());
    if (status != TARN_OK)
        return status;
    if (checkpoint->kind == TARN_CONTENTS_NONE)
        return tn_fail(TARN_ERR_WRONG_STATE,
                       "the checkpoint was taken without contents: it has no bytes to verify");
    return tn_contents_verify(checkpoint, stream, order);
}

/* The event behind a checkpoint's copies goes with the checkpoint. */
static void forget_copies(const tarn_checkpoint *checkpoint)
{
    tarn_pool *pool = checkpoint->pool;

    tn_pool_lock(pool);
    if (pool->copies.restored == checkpoint)
        pool->copies.restored = NULL;
    if (pool->copies.saver == checkpoint)
        pool->copies.saver = NULL;
    tn_pool_unlock(pool);
}

tarn_status tn_checkpoint_close(tarn_checkpoint *checkpoint)
{
    if (tn_pins_close(&checkpoint->pins))
        return TARN_OK;
    return tn_fail(
        TARN_ERR_BUSY,
        "the checkpoint is in use: %llu calls with it are under way, of other threads or "
        "around this callback",
        (unsigned long long)tn_pins_count(&checkpoint->pins));
}

void tn_checkpoint_destroy(tarn_checkpoint *checkpoint)
{
    TN_ASSERT(tn_lock_none_held());
    atomic_store(&checkpoint->magic, 0);
    forget_copies(checkpoint);
    tn_contents_drop(checkpoint);
    tn_pool_note(checkpoint->pool, TN_NOTE_CHECKPOINT_DROPPED, TN_OPERANDS(checkpoint->number));
    release_state(checkpoint); /* the pool may go then */
    tn_records_give(&checkpoint_records, checkpoint);
}
