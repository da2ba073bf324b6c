// SPDX-License-Identifier: Apache-2.0
/* Two looks at a stream stand in the hot functions themselves: the look for an idle stream, and the
 * look for a stream in a capture whose arena is remembered. Where these serve, they call nothing
 * but the driver. The other functions go on from the answers of these looks: no question is asked
 * of the driver twice.
 *
 * A free names no stream. Before a free in a pool that has routes, Tarn therefore notices captures
 * that the user has begun for the pool. A block freed in a capture that cannot be noticed waits for
 * the graph, unheld.
 *
 * Trade-offs: an allocation on a default stream asks the driver more, since the fast looks leave
 * default streams out. */
#include "graphs/serve.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/lock.h"
#include "driver/idle.h"
#include "driver/sanitizer.h"
#include "graphs/admit.h"
#include "graphs/broken.h"
#include "graphs/unrouted.h"
#include "heap/steady.h"
#include "pools/allocate.h"
#include "pools/arena_table.h"
#include "pools/entry.h"
#include "pools/free.h"
#include "pools/host_pool.h"
#include "pools/janitor.h"
#include "pools/loans.h"
#include "pools/opening.h"
#include "pools/pending.h"
#include "pools/pieces.h"
#include "pools/proofs.h"
#include "pools/reserve.h"
#include "pools/sweep.h"

/* The driver is asked with locks held. A refusal here comes again from the next step. */
static TN_RARE void close_over(tarn_device *device)
{
    TN_CALL(call);

    if (tn_call_device(&call, device))
        tn_device_close_over(device);
}

/* An allocation outside captures belongs to no capture that has ended by now. */
static TN_ALWAYS_INLINE void see_end(tarn_device *device)
{
    if (TN_UNLIKELY(atomic_load(&device->user_hold_count) > 0))
        close_over(device);
}

/* Takes a free block of the arena, in a capture that the pool knows. */
static TN_APART bool take_and_note_birth(struct tn_arena *arena, const struct tn_steady_key *key,
                                         struct tn_gpu *gpu, const struct tn_request *request,
                                         tarn_stream stream, void **address)
{
    struct tn_place place;

    tn_place_ask(gpu, stream, request->order, &place);
    return tn_steady_allocate_and_note_birth(arena, key, &place, request->requested,
                                             request->alignment, address);
}

/* Takes what the arena of the order has at hand. The default pool's captures are counted, and no
 * arena serves them alone. */
static bool try_arena(tarn_pool *pool, const struct tn_request *request, tarn_stream stream,
                      void **address)
{
    const struct tn_steady_key key = {.order = request->order, .pool = pool};
    struct tn_arena *arena = tn_arena_seek(pool, request->order);

    if (arena == NULL)
        return false;
    if (request->order.capture_id == 0)
        return tn_steady_try_allocate(arena, key, request->requested, request->alignment, address);
    return !pool->is_default &&
           (tn_steady_reissue(arena, key, request->requested, request->alignment, address) ||
            take_and_note_birth(arena, &key, &tn_pool_device(pool)->gpu, request, stream, address));
}

/* Takes bytes that no arena has at hand. route_id: of the route that has led to the pool, and
 * pinned it; 0: none. */
static TN_APART tarn_status pin_and_take(tarn_pool *pool, const struct tn_request *request,
                                         tarn_stream stream, uint64_t route_id, void **address)
{
    bool captured = request->order.capture_id != 0;
    tarn_status status = TARN_OK;
    TN_CALL(call);

    if (!tn_call_allocation(&call, pool, route_id != 0))
        return call.status;
    if (captured && pool->is_default)
        return tn_unrouted_allocate(pool->device, request, stream, address);
    if (captured)
        status = tn_capture_admit(pool, stream, request->order, route_id);
    return status == TARN_OK ? tn_pool_allocate(pool, request, stream, address) : status;
}

static tarn_status take(tarn_pool *pool, const struct tn_request *request, tarn_stream stream,
                        uint64_t route_id, void **address)
{
    if (request->order.capture_id == 0)
        see_end(tn_pool_device(pool));
    return try_arena(pool, request, stream, address)
               ? TARN_OK
               : pin_and_take(pool, request, stream, route_id, address);
}

static tarn_status choose_and_take(tarn_device *device, const struct tn_request *request,
                                   tarn_stream stream, void **address)
{
    struct tn_route_choice choice;
    tarn_status status;
    TN_CALL(call);

    /* A filter may be called, and the driver, with the routes locked. */
    if (!tn_call_begin(&call))
        return call.status;
    status = tn_route_choose(device, stream, request->order, &choice);
    if (status != TARN_OK)
        return status;
    if (choice.pool == NULL)
        return take(device->default_pool, request, stream, 0, address);
    status = take(choice.pool, request, stream, choice.id, address);
    if (status == TARN_OK)
        tn_route_remember(device, &choice, request->order);
    tn_pool_unpin(choice.pool);
    return status;
}

/* The name is for tarn_captures; as long as one is open the routes decide. */
static TN_RARE tarn_status refuse_broken(tarn_device *device, const tarn_pool *pool,
                                         const struct tn_request *request)
{
    const struct tn_hold_call what = {pool != NULL ? "tarn_pool_malloc" : "tarn_malloc",
                                      request->requested, false};
    TN_CALL(call);

    return tn_call_device(&call, device) ? tn_broken_refuse(device, request->order.stream_id, what,
                                                            "nothing can be allocated on it")
                                         : call.status;
}

/* Serves on a stream that was looked at. pool NULL: the routes decide. */
static tarn_status serve_state(tarn_device *device, tarn_pool *pool,
                               const struct tn_request *request, tarn_stream stream, bool broken,
                               void **address)
{
    if (TN_UNLIKELY(broken))
        return refuse_broken(device, pool, request);
    return pool != NULL ? take(pool, request, stream, 0, address)
                        : choose_and_take(device, request, stream, address);
}

/* Looks at any stream, and serves. */
static TN_APART tarn_status look_and_serve(tarn_device *device, tarn_pool *pool, uint64_t bytes,
                                           uint64_t alignment, tarn_stream stream, void **address)
{
    const tarn_stream meant = tn_device_stream(device, stream);
    struct tn_stream_state state;
    tarn_status status = tn_stream_look(&device->gpu, meant, TN_STREAM_ORDER, &state);
    const struct tn_request request = {bytes, alignment, state.order};

    return status == TARN_OK ? serve_state(device, pool, &request, meant, state.broken, address)
                             : status;
}

/* Serves by the routes, on a stream with this answer of the driver. arena: the one remembered for
 * the stream's captures, which has not got back a block of this size last; NULL: none. */
static TN_APART tarn_status serve_answer(tarn_device *device, struct tn_arena *arena,
                                         uint64_t bytes, tarn_stream stream,
                                         const struct tn_stream_answer *answer, void **address)
{
    struct tn_stream_state state;
    tarn_status status = tn_stream_finish_look(&device->gpu, stream, answer, &state);
    const struct tn_request request = {bytes, TN_BLOCK_BYTES_MIN, state.order};
    struct tn_steady_key key;

    if (status != TARN_OK)
        return status;
    if (arena != NULL && state.captured && !state.broken) {
        key = tn_routes_steady_key(&device->routes, state.order);
        if (take_and_note_birth(arena, &key, &device->gpu, &request, stream, address))
            return TARN_OK;
    }
    return serve_state(device, NULL, &request, stream, state.broken, address);
}

/* The common case: the routes are those of captures, and the stream is in a capture. */
TN_HOT tarn_status tn_serve_routed(tarn_device *device, uint64_t bytes, tarn_stream stream,
                                   void **address)
{
    struct tn_stream_answer answer;
    struct tn_arena *arena;

    if (TN_UNLIKELY(tn_stream_is_default(stream)))
        return look_and_serve(device, NULL, bytes, TN_BLOCK_BYTES_MIN, stream, address);
    arena = tn_routes_expect_arena(&device->routes, stream, bytes);
    if (tn_stream_ask(&device->gpu, stream, &answer) && TN_LIKELY(arena != NULL)) {
        const struct tn_order order = {tn_stream_captured_id(stream), answer.capture_id};

        if (TN_LIKELY(tn_steady_reissue(arena, tn_routes_steady_key(&device->routes, order), bytes,
                                        TN_BLOCK_BYTES_MIN, address)))
            return TARN_OK;
    }
    return serve_answer(device, arena, bytes, stream, &answer, address);
}

/* Takes bytes that no arena has at hand, for a stream that the fast look has found idle. The
 * function stands apart, and is the last call of its caller: the way at hand keeps no place for the
 * request. */
static TN_APART tarn_status pin_and_allocate(tarn_pool *pool, uint64_t bytes, uint64_t alignment,
                                             tarn_stream stream, uint64_t id, void **address)
{
    const struct tn_request request = {bytes, alignment, {id, 0}};
    TN_CALL(call);

    return tn_call_pool(&call, pool) ? tn_pool_allocate(pool, &request, stream, address)
                                     : call.status;
}

/* Of a pool of the host. */
static TN_APART tarn_status serve_host_pool(tarn_device *device, tarn_pool *pool, uint64_t bytes,
                                            uint64_t alignment, void **address)
{
    if (pool == atomic_load(&device->host.pools[TN_HOST_STAGING]))
        return tn_fail(TARN_ERR_INVALID_HANDLE, "the pool 'staging' is for copies of Tarn's own");
    return tn_host_pool_allocate(pool, bytes, alignment, address);
}

TN_HOT tarn_status tn_serve_pool(tarn_device *device, tarn_pool *pool, uint64_t bytes,
                                 uint64_t alignment, tarn_stream stream, void **address)
{
    struct tn_arena *expected;
    uint64_t id;

    if (TN_UNLIKELY(pool->in_host))
        return serve_host_pool(device, pool, bytes, alignment, address);
    expected = tn_arena_expect(pool, stream);
    if (TN_UNLIKELY(!tn_stream_is_idle(&device->gpu, stream, &id)))
        return look_and_serve(device, pool, bytes, alignment, stream, address);
    see_end(device);
    if (TN_LIKELY(tn_pool_try_allocate(pool, expected, (struct tn_order){id, 0}, bytes, alignment,
                                       address)))
        return TARN_OK;
    return pin_and_allocate(pool, bytes, alignment, stream, id, address);
}

/* Apart from the routed way of most allocations, whose alignment is known. */
tarn_status tn_serve_aligned(tarn_device *device, uint64_t bytes, uint64_t alignment,
                             tarn_stream stream, void **address)
{
    if (!tn_device_is_quiet(device))
        return tn_serve_news(device, NULL, bytes, alignment, stream, address);
    if (tn_route_is_any(&device->routes))
        return look_and_serve(device, NULL, bytes, alignment, stream, address);
    return tn_serve_pool(device, device->default_pool, bytes, alignment, stream, address);
}

tarn_status tn_serve_news(tarn_device *device, tarn_pool *pool, uint64_t bytes, uint64_t alignment,
                          tarn_stream stream, void **address)
{
    tarn_status status;
    TN_CALL(call);

    if (!(pool != NULL ? tn_call_pool(&call, pool) : tn_call_device(&call, device)))
        return call.status;
    status = tn_call_enter(&call);
    if (status != TARN_OK)
        return status;
    if (pool == NULL && !tn_route_is_any(&device->routes))
        pool = device->default_pool;
    if (pool != NULL && pool->in_host)
        return serve_host_pool(device, pool, bytes, alignment, address);
    return look_and_serve(device, pool, bytes, alignment, stream, address);
}

tarn_status tn_serve_host_routed(tarn_device *device, uint64_t bytes, void **address)
{
    struct tn_route_choice choice;
    tarn_pool *pool = NULL;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_route_choose(device, NULL, TN_ORDER_HOST, &choice);
    if (status == TARN_OK && choice.pool == NULL)
        status = tn_device_host_pool(device, tn_host_pool_kind(device, bytes), &pool);
    if (status != TARN_OK)
        return status;
    if (choice.pool == NULL)
        return tn_host_pool_allocate(pool, bytes, TN_BLOCK_BYTES_MIN, address);
    status = tn_host_pool_allocate_routed(choice.pool, bytes, address);
    tn_pool_unpin(choice.pool);
    return status;
}

/* Pieces that are ready are there for all pools of the device. */
static tarn_status reserve_pieces(tarn_pool *pool, uint64_t bytes)
{
    uint64_t room;

    tn_pool_lock(pool);
    room = tn_pool_limit_room(pool);
    tn_pool_unlock(pool);
    if (bytes > room)
        return tn_fail(TARN_ERR_LIMIT,
                       "pool '%s' may have %llu bytes more by its limit, and %llu are to be ready",
                       pool->name, (unsigned long long)room, (unsigned long long)bytes);
    return tn_pieces_provide(pool->device, bytes);
}

tarn_status tn_serve_reserve(tarn_pool *pool, uint64_t bytes, tarn_stream stream)
{
    struct tn_stream_state state;
    tarn_status status;

    if (tn_pool_has_pieces(pool))
        return reserve_pieces(pool, bytes);
    if (pool->in_host)
        return tn_pool_reserve(pool, bytes, NULL, TN_ORDER_HOST);
    stream = tn_device_stream(pool->device, stream);
    status = tn_stream_look(&pool->device->gpu, stream, TN_STREAM_GRAPH, &state);
    if (status != TARN_OK)
        return status;
    if (state.broken)
        return tn_broken_refuse(pool->device, state.order.stream_id,
                                (struct tn_hold_call){"tarn_pool_reserve", bytes, false},
                                "nothing can be reserved on it");
    if (pool->is_default && state.captured)
        return tn_fail(TARN_ERR_UNROUTED, "the stream is being captured, and the default pool "
                                          "does not serve captures");
    return tn_pool_reserve(pool, bytes, stream, state.order);
}

/* Gives a capture that is told to use a block a hold in the block's pool: blocks freed meanwhile
 * are kept for the graph. The default pool serves captures only where the device allows it. No lock
 * may be held. The pool is pinned, for the block's own capture may be aborted meanwhile. */
static tarn_status admit_use(tarn_pool *pool, tarn_stream stream, struct tn_order order)
{
    tarn_status status = TARN_OK;

    if (!pool->is_default || pool->in_host || pool->device->unrouted == TARN_UNROUTED_ALLOW)
        status = tn_capture_admit(pool, stream, order, 0);
    return status == TARN_ERR_CAPTURE_BROKEN ? TARN_OK
                                             : status; /* it is over: no use of it is left */
}

/* The stream's capture is broken, and nothing says which capture it is. Unlocks the pool. */
static TN_RARE tarn_status refuse_use(tarn_pool *pool, const struct tn_block *block,
                                      uint64_t stream_id, const char *name)
{
    const struct tn_hold_call call = {name, block->requested, false};
    tarn_device *device = pool->device;

    tn_pool_unlock(pool);
    return tn_broken_refuse(device, stream_id, call, "no use on it can be noted");
}

/* A use that the caller has told: the stream, as the call has looked at it. */
struct told_use {
    tarn_stream stream;
    struct tn_order order;
};

/* Locks the pool of the LIVE block to be recorded. Programs name memory of the host by any address
 * in it, as parts of a larger buffer. */
static tarn_status lock_to_note(uint64_t address, bool frees, tarn_pool **pool,
                                struct tn_block **block)
{
    tarn_status status = tn_pool_lock_block(address, true, pool, block);

    if (status != TARN_ERR_INNER_ADDRESS || frees ||
        tn_pool_lock_around(address, pool, block) != TARN_OK)
        return status;
    if ((*pool)->in_host)
        return TARN_OK;
    tn_pool_unlock(*pool);
    return tn_pool_lock_block(address, true, pool, block); /* for its sentence */
}

/* Admits the capture of a use in the block of the locked pool. Leaves the pool locked, or unlocked
 * where the use is refused. noted: the use is new: a refusal takes it back. */
static tarn_status admit_noted(uint64_t at, bool frees, const struct told_use *told, bool noted,
                               tarn_pool **pool, struct tn_block **block)
{
    tarn_pool *const of = *pool;
    tarn_status refused;
    tarn_status status;

    tn_pool_pin(of);
    tn_pool_unlock(of);
    refused = admit_use(of, told->stream, told->order);
    tn_pool_unpin(of);
    if (refused != TARN_OK && !noted)
        return refused;
    status = lock_to_note(at, frees, pool, block);
    if (refused == TARN_OK || status != TARN_OK)
        return refused == TARN_OK ? status : refused;
    tn_use_withdraw(&of->device->streams, *block, told->order);
    tn_pool_unlock(*pool);
    return refused;
}

static tarn_status note_use(void *address, tarn_stream stream, const char *name, bool frees,
                            struct told_use *told)
{
    uint64_t at = (uint64_t)(uintptr_t)address;
    const struct tn_use *before;
    struct tn_stream_state state;
    struct tn_block *block;
    tarn_pool *pool;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    status = lock_to_note(at, frees, &pool, &block);
    if (status != TARN_OK)
        return status;
    stream = tn_device_stream(pool->device, stream);
    status = tn_gpu_check(&pool->device->gpu);
    if (status == TARN_OK)
        status = tn_stream_look(&pool->device->gpu, stream, TN_STREAM_GRAPH, &state);
    if (status == TARN_OK && state.broken)
        return refuse_use(pool, block, state.order.stream_id, name);
    before = status == TARN_OK ? tn_block_uses(block) : NULL;
    if (status == TARN_OK)
        status = tn_use_note(&pool->device->streams, block, stream, state.order);
    if (status == TARN_OK && state.captured) {
        bool noted = tn_block_uses(block) != before;

        status =
            admit_noted(at, frees, &(struct told_use){stream, state.order}, noted, &pool, &block);
        if (status != TARN_OK)
            return status;
    }
    if (status == TARN_OK)
        tn_pool_note(pool, TN_NOTE_STREAM_USED,
                     TN_OPERANDS(block->sequence, state.order.stream_id, state.order.capture_id));
    tn_pool_unlock(pool);
    if (status == TARN_OK)
        *told = (struct told_use){stream, state.order};
    return status;
}

tarn_status tn_serve_use(void *address, tarn_stream stream, const char *name)
{
    struct told_use told;

    return note_use(address, stream, name, false, &told);
}

/* The arena which the block's stream allocates from, if the last use is on this stream; else
 * NULL. */
static struct tn_arena *arena_told(const tarn_pool *pool, const struct tn_block *block,
                                   const struct told_use *told)
{
    return told != NULL && tn_block_is_of(block, told->order) ? tn_block_user(pool, block) : NULL;
}

/* Frees a locked block and unlocks its pool, which may end with the block if its handle was given
 * up. */
static void free_and_unlock(tarn_pool *pool, struct tn_block *block, bool held,
                            const struct told_use *told)
{
    tarn_device *device = pool->device;
    struct tn_arena *arena = arena_told(pool, block, told);
    bool last;

    if (held)
        tn_pool_free_block(pool, block, told != NULL);
    else
        tn_pool_free_unheld(pool, block);
    if (arena != NULL && (int64_t)arena->fallen_bytes >= tn_arena_asks_below_peak(arena))
        tn_proofs_ask(pool, arena, told->stream);
    last = atomic_load(&pool->released) && tn_pool_is_unclaimed(pool);
    if (last)
        tn_pool_pin(device->default_pool); /* the device may be closed when the pool has gone */
    tn_pool_unlock(pool);
    if (!last)
        return;
    tn_device_end_released(device);
    tn_device_unpin(device);
}

/* Where a tool is told of blocks (driver/sanitizer.h), work that was enqueued before a free may use the
 * block: the device finishes it first. A free goes on where the driver refuses to wait. */
static TN_RARE tarn_status await_work(uint64_t address, tarn_pool **pool, struct tn_block **block)
{
    tarn_pool *const of = *pool;
    tarn_status waited;

    tn_pool_pin(of);
    tn_pool_unlock(of);
    waited = tn_gpu_wait_idle(&of->device->gpu);
    (void)waited;
    tn_pool_unpin(of);
    return tn_pool_lock_block(address, false, pool, block);
}

/* Finds a block to free and locks its pool, as tn_pool_lock_block, after the pool has noticed
 * captures that the user has begun for it; *held is false where this failed. A DISCARDED block does
 * not keep its pool, which is pinned meanwhile. */
static tarn_status lock_to_free(uint64_t address, tarn_pool **pool, struct tn_block **block,
                                bool *held)
{
    tarn_status status = tn_pool_lock_block(address, false, pool, block);

    *held = true;
    if (status == TARN_OK && tn_gpu_is_linear(&(*pool)->device->gpu))
        status = await_work(address, pool, block);
    if (status != TARN_OK || (*pool)->claims.route_count == 0)
        return status;
    tn_pool_pin(*pool);
    tn_pool_unlock(*pool);
    *held = tn_capture_notice(*pool);
    tn_pool_unpin(*pool);
    return tn_pool_lock_block(address, false, pool, block);
}

static tarn_status serve_free(void *address, const struct told_use *told)
{
    tarn_pool *pool;
    struct tn_block *block;
    bool held;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    status = lock_to_free((uint64_t)(uintptr_t)address, &pool, &block, &held);
    if (status == TARN_OK)
        free_and_unlock(pool, block, held, told);
    return status;
}

tarn_status tn_serve_free(void *address)
{
    return serve_free(address, NULL);
}

tarn_status tn_serve_free_on(void *address, tarn_stream stream)
{
    struct told_use told;
    tarn_status status = note_use(address, stream, "tarn_free_on", true, &told);

    return status == TARN_OK ? serve_free(address, &told) : status;
}

tarn_status tn_serve_undo(void *address)
{
    tarn_pool *pool;
    struct tn_block *block;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    status = tn_pool_lock_block((uint64_t)(uintptr_t)address, false, &pool, &block);
    if (status == TARN_OK)
        free_and_unlock(pool, block, true, NULL);
    return status;
}

/* Whether the stream is the one that the arena's allocations named. A stream destroyed without a
 * word may have left its handle, and thereby its arena, to this stream. A block that is put into
 * that arena is safe: nobody allocates there any more, since no other stream gets the old one's id.
 * Whoever takes the arena's memory has the whole device proven idle first, this stream included. */
static TN_ALWAYS_INLINE bool is_own(uint64_t address, tarn_stream stream)
{
    const struct tn_chunk *chunk = tn_address_table_chunk(address);
    const struct tn_arena *arena =
        chunk != NULL ? atomic_load_explicit(&chunk->arena, memory_order_acquire) : NULL;

    return TN_LIKELY(arena != NULL) &&
           TN_LIKELY(atomic_load_explicit(&arena->stream, memory_order_relaxed) ==
                     (uintptr_t)stream);
}

TN_HOT bool tn_serve_free_own(void *address, tarn_stream stream)
{
    uint64_t at = (uint64_t)(uintptr_t)address;

    return is_own(at, stream) && tn_stream_is_plain(stream) && tn_steady_free(at);
}
