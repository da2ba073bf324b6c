// SPDX-License-Identifier: Apache-2.0
#include "api/call.h"
#include "base/checked.h"
#include "base/hot.h"
#include "base/user_code.h"
#include "graphs/admit.h"
#include "graphs/broken.h"
#include "graphs/unrouted.h"
#include "heap/steady.h"
#include "pools/allocate.h"
#include "pools/arena_table.h"
#include "pools/end.h"
#include "pools/free.h"
#include "pools/use.h"
#include "tarn/memory.h"

static const uint64_t alignment_max = 2 * TN_MIB;

/* The driver is asked with locks held. What is refused here is refused again by what comes next. */
static TN_RARE void close_over(tarn_device *device)
{
    TN_CALL(call);

    if (tn_call_device(&call, device))
        tn_device_close_over(device);
}

/* An allocation outside captures is none of those that are over by now. */
static TN_ALWAYS_INLINE void see_end(tarn_device *device)
{
    if (TN_UNLIKELY(atomic_load(&device->user_hold_count) > 0))
        close_over(device);
}

/* In a capture that is known. arena: NULL: it is not. */
static TN_APART bool allocate_known(struct tn_arena *arena, const struct tn_steady_claim *claim,
                                    const struct tn_request *request, void **address)
{
    struct tn_place place;

    if (arena == NULL)
        return false;
    if (tn_steady_allocate_again(arena, *claim, request->requested, request->alignment, address))
        return true;
    tn_place_ask(&tn_pool_device(claim->pool)->gpu, request->stream, request->order, &place);
    return tn_steady_allocate_born(arena, claim, &place, request->requested, request->alignment,
                                   address);
}

static TN_APART tarn_status allocate_in_capture(tarn_pool *pool, const struct tn_request *request,
                                                const struct tn_stream_state *state,
                                                uint64_t route_id, void **address)
{
    tarn_status status;
    TN_CALL(call);

    if (!pool->is_default &&
        allocate_known(tn_arena_seek(pool, request->order),
                       &(struct tn_steady_claim){.order = request->order, .pool = pool}, request,
                       address))
        return TARN_OK;
    if (!tn_call_allocation(&call, pool, route_id != 0))
        return call.status;
    if (pool->is_default)
        return tn_unrouted_allocate(pool->device, request->stream, state, request, address);
    status = tn_capture_admit(pool, request->stream, state, route_id);
    return status == TARN_OK ? tn_pool_allocate(pool, request, address) : status;
}

/* What no arena has at hand. */
static TN_APART tarn_status allocate_slowly(tarn_pool *pool, const struct tn_request *request,
                                            bool routed, void **address)
{
    TN_CALL(call);

    return tn_call_allocation(&call, pool, routed) ? tn_pool_allocate(pool, request, address)
                                                   : call.status;
}

static tarn_status allocate_from(tarn_pool *pool, const struct tn_request *request,
                                 const struct tn_stream_state *state, uint64_t route_id,
                                 void **address)
{
    if (state->order.capture_id != 0)
        return allocate_in_capture(pool, request, state, route_id, address);
    see_end(tn_pool_device(pool));
    return tn_steady_allocate(pool, request->order, request->requested, request->alignment, address)
               ? TARN_OK
               : allocate_slowly(pool, request, route_id != 0, address);
}

static tarn_status allocate_chosen(tarn_device *device, const struct tn_request *request,
                                   const struct tn_stream_state *state, void **address)
{
    struct tn_route_choice choice;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_begin(&call)) /* a filter may be called, and the driver, with the routes locked */
        return call.status;
    status = tn_route_choose(device, request->stream, state, &choice);
    if (status != TARN_OK)
        return status;
    if (choice.pool == NULL)
        return allocate_from(device->default_pool, request, state, 0, address);
    status = allocate_from(choice.pool, request, state, choice.id, address);
    if (status == TARN_OK)
        tn_route_remember(device, &choice, state->order);
    tn_pool_unpin(choice.pool);
    return status;
}

/* On a stream that was looked at. pool: NULL where the routes decide. */
static tarn_status allocate_looked(tarn_device *device, tarn_pool *pool, uint64_t bytes,
                                   uint64_t alignment, tarn_stream stream,
                                   const struct tn_stream_state *state, void **address)
{
    const struct tn_request request = {bytes, alignment, state->order, stream};

    if (state
            ->broken) { /* the name is for tarn_captures, and as long as one is open the routes decide */
        const struct tn_hold_call what = {pool != NULL ? "tarn_alloc" : "tarn_malloc", bytes,
                                          false};
        TN_CALL(call);

        return tn_call_device(&call, device)
                   ? tn_broken_refuse(device, stream, what, "nothing can be allocated on it")
                   : call.status;
    }
    return pool != NULL ? allocate_from(pool, &request, state, 0, address)
                        : allocate_chosen(device, &request, state, address);
}

/* On any stream. */
static TN_APART tarn_status allocate_looking(tarn_device *device, tarn_pool *pool, uint64_t bytes,
                                             uint64_t alignment, tarn_stream stream, void **address)
{
    struct tn_stream_state state;
    tarn_status status = tn_stream_look_for_capture(&device->gpu, stream, &state);

    return status == TARN_OK
               ? allocate_looked(device, pool, bytes, alignment, stream, &state, address)
               : status;
}

/* On a stream of which the driver has answered so. */
static TN_APART tarn_status allocate_after(tarn_device *device, uint64_t bytes, tarn_stream stream,
                                           const struct tn_stream_answer *answer, void **address)
{
    struct tn_stream_state state;
    tarn_status status = tn_stream_look_after(&device->gpu, stream, answer, &state);

    return status == TARN_OK
               ? allocate_looked(device, NULL, bytes, TN_BLOCK_BYTES_MIN, stream, &state, address)
               : status;
}

/* On a stream that is not being captured; what its arena has at hand does not serve. */
static TN_APART tarn_status allocate_more(tarn_pool *pool, uint64_t bytes, uint64_t alignment,
                                          tarn_stream stream, uint64_t stream_id, void **address)
{
    const struct tn_request request = {bytes, alignment, {stream_id, 0}, stream};

    return allocate_slowly(pool, &request, false, address);
}

/* On a stream whose captures' arena is remembered, and what was freed last does not serve. */
static TN_APART tarn_status allocate_born(tarn_device *device, struct tn_arena *arena,
                                          uint64_t bytes, tarn_stream stream,
                                          const struct tn_stream_answer *answer, void **address)
{
    const struct tn_order order = {tn_stream_captured_id(stream), answer->capture_id};
    const struct tn_steady_claim claim = tn_steady_claim_routed(&device->routes, order);
    struct tn_place place;

    tn_place_ask(&device->gpu, stream, order, &place);
    if (tn_steady_allocate_born(arena, &claim, &place, bytes, TN_BLOCK_BYTES_MIN, address))
        return TARN_OK;
    return allocate_after(device, bytes, stream, answer, address);
}

/* While routes are open: mostly those of captures, and the stream is in one. */
static TN_APART TN_HOT tarn_status allocate_routed(tarn_device *device, uint64_t bytes,
                                                   tarn_stream stream, void **address)
{
    struct tn_stream_answer answer;
    struct tn_arena *arena;

    if (TN_UNLIKELY(tn_stream_is_default(stream)))
        return allocate_looking(device, NULL, bytes, TN_BLOCK_BYTES_MIN, stream, address);
    arena = tn_steady_expect_routed(&device->routes, stream, bytes);
    tn_stream_ask(&device->gpu, stream, &answer);
    if (tn_stream_is_in_capture(&answer) && TN_LIKELY(arena != NULL)) {
        const struct tn_order order = {tn_stream_captured_id(stream), answer.capture_id};

        if (TN_LIKELY(tn_steady_allocate_again(arena,
                                               tn_steady_claim_routed(&device->routes, order),
                                               bytes, TN_BLOCK_BYTES_MIN, address)))
            return TARN_OK;
        return allocate_born(device, arena, bytes, stream, &answer, address);
    }
    return allocate_after(device, bytes, stream, &answer, address);
}

/* Where no routes are asked: from the default pool, too. */
static TN_APART TN_HOT tarn_status allocate_unrouted(tarn_device *device, tarn_pool *pool,
                                                     uint64_t bytes, uint64_t alignment,
                                                     tarn_stream stream, void **address)
{
    uint64_t id;

    if (TN_UNLIKELY(!tn_stream_is_idle(&device->gpu, stream, &id)))
        return allocate_looking(device, pool, bytes, alignment, stream, address);
    see_end(device);
    if (TN_LIKELY(tn_steady_allocate(pool, (struct tn_order){id, 0}, bytes, alignment, address)))
        return TARN_OK;
    return allocate_more(pool, bytes, alignment, stream, id, address);
}

/* pool: NULL where the routes decide. */
static TN_APART tarn_status allocate_after_news(tarn_device *device, tarn_pool *pool,
                                                uint64_t bytes, uint64_t alignment,
                                                tarn_stream stream, void **address)
{
    tarn_status status;
    TN_CALL(call);

    if (!(pool != NULL ? tn_call_pool(&call, pool) : tn_call_device(&call, device)))
        return call.status;
    status = tn_enter_device(device);
    if (status != TARN_OK)
        return status;
    if (pool == NULL && !tn_route_is_any(&device->routes))
        pool = device->default_pool;
    return allocate_looking(device, pool, bytes, alignment, stream, address);
}

/* Why a request is not one. */
static TN_RARE tarn_status refuse_request(uint64_t alignment, void *const *address)
{
    if (tn_is_forked())
        return tn_fork_refuse();
    tn_user_code_check();
    if (address == NULL)
        return tn_bad_argument("address is NULL: there is nowhere to put the result");
    if (!tn_is_power_of_two(alignment) || alignment > alignment_max)
        return tn_bad_argument("the alignment must be a power of two up to 2 MiB");
    return tn_bad_argument("no device holds as many bytes as asked for");
}

static TN_RARE tarn_status allocate_nothing(uint64_t bytes, uint64_t alignment, void **address)
{
    if (bytes != 0 || address == NULL || tn_is_forked())
        return refuse_request(alignment, address);
    *address = NULL;
    return TARN_OK;
}

TN_HOT tarn_status tarn_malloc(tarn_device *device, size_t bytes, tarn_stream stream,
                               void **address)
{
    if (TN_UNLIKELY(!tn_is_device(device)))
        return tn_bad_handle("device");
    if (TN_UNLIKELY(address == NULL || bytes - 1 >= TN_REQUEST_BYTES_MAX))
        return allocate_nothing(bytes, TN_BLOCK_BYTES_MIN, address);
    if (TN_UNLIKELY(!tn_device_is_quiet(device)))
        return tn_leave(
            allocate_after_news(device, NULL, bytes, TN_BLOCK_BYTES_MIN, stream, address));
    if (tn_route_is_any(&device->routes))
        return tn_leave(allocate_routed(device, bytes, stream, address));
    return tn_leave(allocate_unrouted(device, device->default_pool, bytes, TN_BLOCK_BYTES_MIN,
                                      stream, address));
}

TN_HOT tarn_status tarn_alloc(tarn_pool *pool, size_t bytes, size_t alignment, tarn_stream stream,
                              void **address)
{
    uint64_t aligned = alignment != 0 ? alignment : TN_BLOCK_BYTES_MIN;
    tarn_device *device;

    if (TN_UNLIKELY(!tn_is_pool(pool)))
        return tn_bad_handle("pool");
    if (TN_UNLIKELY(address == NULL || !tn_is_power_of_two(aligned) || aligned > alignment_max ||
                    bytes > TN_REQUEST_BYTES_MAX))
        return refuse_request(aligned, address);
    if (TN_UNLIKELY(bytes == 0))
        return allocate_nothing(bytes, aligned, address);
    aligned = tn_max(aligned, TN_BLOCK_BYTES_MIN);
    device = tn_pool_device(pool);
    if (TN_UNLIKELY(!tn_device_is_quiet(device)))
        return tn_leave(allocate_after_news(device, pool, bytes, aligned, stream, address));
    return tn_leave(allocate_unrouted(device, pool, bytes, aligned, stream, address));
}

/* Frees a locked block and unlocks its pool, which may go with it when its handle was given up. */
static void free_and_unlock(tarn_pool *pool, struct tn_block *block, bool held, bool told)
{
    tarn_device *device = pool->device;
    bool last;

    if (held)
        tn_pool_free_block(pool, block, told);
    else
        tn_pool_free_unheld(pool, block);
    last = atomic_load(&pool->released) && tn_pool_is_unclaimed(pool);
    if (last)
        tn_pool_pin(device->default_pool); /* the device may be closed when the pool has gone */
    tn_pool_unlock(pool);
    if (!last)
        return;
    tn_device_end_released(device);
    tn_device_unpin(device);
}

/* Finds a block to be freed and locks its pool, as tn_pool_lock_block, and sees to it that a capture
 * that the user has begun for the pool is known by then; else *held is false. A DISCARDED block does not keep
 * its pool, which is pinned meanwhile. */
static tarn_status lock_to_free(void *address, tarn_pool **pool, struct tn_block **block,
                                bool *held)
{
    tarn_status status = tn_pool_lock_block((uint64_t)(uintptr_t)address, false, pool, block);

    *held = true;
    if (status != TARN_OK || (*pool)->route_count == 0)
        return status;
    tn_pool_pin(*pool);
    tn_pool_unlock(*pool);
    *held = tn_capture_notice(*pool);
    tn_pool_unpin(*pool);
    return tn_pool_lock_block((uint64_t)(uintptr_t)address, false, pool, block);
}

/* What is not an arena's affair alone. told: the caller has named the last use. */
static TN_APART tarn_status free_locked(void *address, bool told)
{
    tarn_pool *pool;
    struct tn_block *block;
    bool held;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_begin(&call))
        return call.status;
    status = lock_to_free(address, &pool, &block, &held);
    if (status == TARN_OK)
        free_and_unlock(pool, block, held, told);
    return status;
}

static TN_APART TN_HOT tarn_status free_rest(void *address, struct tn_steady_rest rest)
{
    if (TN_LIKELY(tn_steady_free_rest((uint64_t)(uintptr_t)address, rest)))
        return TARN_OK;
    if (address == NULL)
        return tn_call_nothing();
    return tn_leave(free_locked(address, false));
}

/* While the thread is in a function of the program's, or has left one by a jump. */
static TN_APART tarn_status free_inside(void *address)
{
    struct tn_steady_rest rest;

    tn_user_code_check();
    return tn_steady_free_at_once((uint64_t)(uintptr_t)address, &rest) ? TARN_OK
                                                                       : free_rest(address, rest);
}

TN_HOT tarn_status tarn_free(void *address)
{
    struct tn_steady_rest rest;

    if (TN_UNLIKELY(tn_user_code_innermost != NULL))
        return free_inside(address);
    /* NULL is nobody's, and looked at with the rest of those. */
    if (TN_LIKELY(tn_steady_free_at_once((uint64_t)(uintptr_t)address, &rest)))
        return TARN_OK;
    return free_rest(address, rest);
}

/* A capture that is told to use a block has a hold in its pool, so that what is freed meanwhile is kept
 * for the graph. The default pool serves captures only where that is allowed. No lock may be held; the pool is
 * pinned, for the block's own capture may be aborted meanwhile. */
static tarn_status admit_use(tarn_pool *pool, tarn_stream stream,
                             const struct tn_stream_state *state)
{
    tarn_status status = TARN_OK;

    if (!pool->is_default || pool->device->unrouted == TARN_UNROUTED_ALLOW)
        status = tn_capture_admit(pool, stream, state, 0);
    return status == TARN_ERR_CAPTURE_BROKEN ? TARN_OK
                                             : status; /* it is over: no use of it is left */
}

/* The stream's capture is broken, and nothing says which stream it is. Unlocks the pool. */
static TN_RARE tarn_status refuse_use(tarn_pool *pool, const struct tn_block *block,
                                      tarn_stream stream, const char *name)
{
    const struct tn_hold_call call = {name, block->requested, false};
    tarn_device *device = pool->device;

    tn_pool_unlock(pool);
    return tn_broken_refuse(device, stream, call, "no use on it can be noted");
}

/* Notes that the stream uses the block at the address, and leaves its pool locked. name: of the call. */
static tarn_status note_use(void *address, tarn_stream stream, const char *name, tarn_pool **pool,
                            struct tn_block **block)
{
    uint64_t at = (uint64_t)(uintptr_t)address;
    struct tn_stream_state state;
    tarn_status status = tn_pool_lock_block(at, true, pool, block);

    if (status != TARN_OK)
        return status;
    status = tn_gpu_check(&(*pool)->device->gpu);
    if (status == TARN_OK)
        status = tn_stream_look(&(*pool)->device->gpu, stream, &state);
    if (status == TARN_OK && state.broken)
        return refuse_use(*pool, *block, stream, name);
    if (status == TARN_OK && state.order.capture_id != 0) {
        tn_pool_pin(*pool);
        tn_pool_unlock(*pool);
        status = admit_use(*pool, stream, &state);
        tn_pool_unpin(*pool);
        if (status == TARN_OK)
            status = tn_pool_lock_block(at, true, pool, block);
        if (status != TARN_OK)
            return status;
    }
    if (status == TARN_OK)
        status = tn_use_note(*pool, *block, stream, state.order);
    if (status != TARN_OK)
        tn_pool_unlock(*pool);
    return status;
}

tarn_status tarn_free_on(void *address, tarn_stream stream)
{
    tarn_pool *pool;
    struct tn_block *block;
    tarn_status status;
    TN_CALL(call);

    if (address == NULL)
        return tn_call_nothing();
    if (!tn_call_begin(&call))
        return call.status;
    status = note_use(address, stream, "tarn_free_on", &pool, &block);
    if (status == TARN_OK) {
        tn_pool_unlock(pool);
        status = free_locked(address, true);
    }
    return tn_leave(status);
}

tarn_status tarn_record_stream(void *address, tarn_stream stream)
{
    tarn_pool *pool;
    struct tn_block *block;
    tarn_status status;
    TN_CALL(call);

    if (address == NULL)
        return tn_call_nothing();
    if (!tn_call_begin(&call))
        return call.status;
    status = note_use(address, stream, "tarn_record_stream", &pool, &block);
    if (status == TARN_OK)
        tn_pool_unlock(pool);
    return tn_leave(status);
}

tarn_status tarn_stream_retire(tarn_device *device, tarn_stream stream)
{
    struct tn_stream_state state;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (tn_stream_is_legacy(stream))
        return tn_bad_argument(
            "the legacy default stream is never destroyed, so it is not retired");
    status = tn_enter_device(device);
    if (status == TARN_OK)
        status = tn_stream_look(&device->gpu, stream, &state);
    if (status == TARN_OK && (state.order.capture_id != 0 || state.broken))
        status = tn_fail(TARN_ERR_WRONG_STATE, "the stream is being captured; end or abort the "
                                               "capture before the stream is retired");
    if (status == TARN_OK)
        status = tn_device_retire_stream(device, stream, state.order.stream_id);
    return tn_leave(status);
}

tarn_status tarn_block_at(const void *address, tarn_block *block)
{
    tarn_pool *pool;
    struct tn_segment *segment;
    struct tn_block *found;
    uint64_t offset;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_begin(&call))
        return call.status;
    if (block == NULL)
        return tn_bad_argument("block is NULL: there is nowhere to put the result");
    status = tn_pool_lock_segment((uint64_t)(uintptr_t)address, &pool, &segment);
    if (status != TARN_OK)
        return status;
    offset = (uint64_t)(uintptr_t)address - segment->base;
    for (found = segment->first_block; tn_block_end(found) <= offset;)
        found = found->next;
    if (found->state == TN_BLOCK_LIVE)
        *block = tn_describe_block(pool, found);
    else
        status = tn_fail(TARN_ERR_DOUBLE_FREE, "no live block is at address 0x%llx of pool '%s'",
                         (unsigned long long)(uintptr_t)address, pool->name);
    tn_pool_unlock(pool);
    return tn_leave(status);
}
