// SPDX-License-Identifier: Apache-2.0
#include "api/call.h"
#include "api/structs.h"
#include "base/checked.h"
#include "base/hot.h"
#include "base/user_code.h"
#include "driver/stream.h"
#include "graphs/serve.h"
#include "heap/steady.h"
#include "observe/segments.h"
#include "pools/free.h"
#include "pools/host_pool.h"
#include "pools/labels.h"
#include "pools/opening.h"
#include "pools/pending.h"
#include "pools/sweep.h"
#include "tarn/host.h"
#include "tarn/memory.h"

static const uint64_t alignment_max = 2 * TN_MIB;

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
    tn_user_code_check();
    *address = NULL;
    return TARN_OK;
}

/* Takes the stack of a public function's caller. Returns the stack of an outer allocation, whose
 * callback allocates: to be put back. */
static uint32_t take_stack(tarn_device *device, uint64_t bytes, const void *caller,
                           const void *frame)
{
    const uint32_t outer = tn_history_stack;

    tn_history_stack =
        tn_stacking_take(&device->history.stacking, bytes, tn_stacking_label(), caller, frame);
    return outer;
}

static TN_APART tarn_status serve_with_stack(tarn_device *device, uint64_t bytes,
                                             tarn_stream stream, void **address, const void *caller)
{
    const uint32_t outer = take_stack(device, bytes, caller, TN_STACK_FRAME_HERE);
    tarn_status status = tn_serve(device, NULL, bytes, TN_BLOCK_BYTES_MIN, stream, address);

    tn_history_stack = outer;
    return tn_leave(status);
}

static TN_APART tarn_status serve_pool_with_stack(tarn_pool *pool, uint64_t bytes,
                                                  uint64_t alignment, tarn_stream stream,
                                                  void **address, const void *caller)
{
    tarn_device *device = tn_pool_device(pool);
    const uint32_t outer = take_stack(device, bytes, caller, TN_STACK_FRAME_HERE);
    tarn_status status = tn_serve(device, pool, bytes, alignment, stream, address);

    tn_history_stack = outer;
    return tn_leave(status);
}

static TN_APART tarn_status serve_aligned_with_stack(tarn_device *device, uint64_t bytes,
                                                     uint64_t alignment, tarn_stream stream,
                                                     void **address, const void *caller)
{
    const uint32_t outer = take_stack(device, bytes, caller, TN_STACK_FRAME_HERE);
    tarn_status status = tn_serve_aligned(device, bytes, alignment, stream, address);

    tn_history_stack = outer;
    return tn_leave(status);
}

TN_HOT tarn_status tarn_malloc(tarn_device *device, size_t bytes, tarn_stream stream,
                               void **address)
{
    if (TN_UNLIKELY(!tn_is_device(device)))
        return tn_bad_handle("device");
    if (TN_UNLIKELY(address == NULL || bytes - 1 >= TN_REQUEST_BYTES_MAX))
        return allocate_nothing(bytes, TN_BLOCK_BYTES_MIN, address);
    if (!tn_stacking_passes(&device->history.stacking, bytes))
        return serve_with_stack(device, bytes, stream, address, TN_STACK_CALLER_HERE);
    return tn_leave(tn_serve(device, NULL, bytes, TN_BLOCK_BYTES_MIN, stream, address));
}

TN_HOT tarn_status tarn_pool_malloc(tarn_pool *pool, size_t bytes, size_t alignment,
                                    tarn_stream stream, void **address)
{
    uint64_t aligned = alignment != 0 ? alignment : TN_BLOCK_BYTES_MIN;

    if (TN_UNLIKELY(!tn_is_pool(pool)))
        return tn_bad_handle("pool");
    if (TN_UNLIKELY(address == NULL || !tn_is_power_of_two(aligned) || aligned > alignment_max ||
                    bytes > TN_REQUEST_BYTES_MAX))
        return refuse_request(aligned, address);
    if (TN_UNLIKELY(bytes == 0))
        return allocate_nothing(bytes, aligned, address);
    aligned = tn_max(aligned, TN_BLOCK_BYTES_MIN);
    if (!tn_stacking_passes(&tn_pool_device(pool)->history.stacking, bytes))
        return serve_pool_with_stack(pool, bytes, aligned, stream, address, TN_STACK_CALLER_HERE);
    return tn_leave(tn_serve(tn_pool_device(pool), pool, bytes, aligned, stream, address));
}

/* The first allocation of a device in page-locked memory. */
static TN_RARE tarn_status make_host_pool(tarn_device *device, enum tn_host_pool kind,
                                          tarn_pool **pool)
{
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    status = tn_call_enter(&call);
    return status == TARN_OK ? tn_device_host_pool(device, kind, pool) : status;
}

/* While routes are open. */
static TN_APART tarn_status host_malloc_routed(tarn_device *device, uint64_t bytes, void **address,
                                               const void *caller, const void *frame)
{
    const uint32_t outer = tn_history_stack;
    tarn_status status;

    if (!tn_stacking_passes(&device->history.stacking, bytes))
        (void)take_stack(device, bytes, caller, frame);
    tn_stacking_own.caller = caller;
    status = tn_serve_host_routed(device, bytes, address);
    tn_history_stack = outer;
    return tn_leave(status);
}

TN_HOT tarn_status tarn_host_malloc(tarn_device *device, size_t bytes, void **address)
{
    tarn_pool *pool;
    tarn_status status;
    enum tn_host_pool kind;

    if (TN_UNLIKELY(!tn_is_device(device)))
        return tn_bad_handle("device");
    if (TN_UNLIKELY(address == NULL || bytes - 1 >= TN_REQUEST_BYTES_MAX))
        return allocate_nothing(bytes, TN_BLOCK_BYTES_MIN, address);
    if (TN_UNLIKELY(tn_route_is_any(&device->routes)))
        return host_malloc_routed(device, bytes, address, TN_STACK_CALLER_HERE,
                                  TN_STACK_FRAME_HERE);
    kind = tn_host_pool_kind(device, bytes);
    pool = atomic_load_explicit(&device->host.pools[kind], memory_order_acquire);
    if (TN_UNLIKELY(pool == NULL)) {
        status = make_host_pool(device, kind, &pool);
        if (status != TARN_OK)
            return tn_leave(status);
    }
    if (!tn_stacking_passes(&device->history.stacking, bytes))
        return serve_pool_with_stack(pool, bytes, TN_BLOCK_BYTES_MIN, NULL, address,
                                     TN_STACK_CALLER_HERE);
    if (TN_UNLIKELY(!tn_device_is_quiet(device)))
        return tn_leave(tn_serve_news(device, pool, bytes, TN_BLOCK_BYTES_MIN, NULL, address));
    return tn_leave(tn_host_pool_allocate(pool, bytes, TN_BLOCK_BYTES_MIN, address));
}

tarn_status tarn_malloc_aligned(tarn_device *device, size_t bytes, size_t alignment,
                                tarn_stream stream, void **address)
{
    uint64_t aligned = alignment != 0 ? alignment : TN_BLOCK_BYTES_MIN;

    if (!tn_is_device(device))
        return tn_bad_handle("device");
    if (address == NULL || !tn_is_power_of_two(aligned) || aligned > alignment_max ||
        bytes > TN_REQUEST_BYTES_MAX)
        return refuse_request(aligned, address);
    if (bytes == 0)
        return allocate_nothing(bytes, aligned, address);
    if (!tn_stacking_passes(&device->history.stacking, bytes))
        return serve_aligned_with_stack(device, bytes, tn_max(aligned, TN_BLOCK_BYTES_MIN), stream,
                                        address, TN_STACK_CALLER_HERE);
    if (aligned <= TN_BLOCK_BYTES_MIN)
        return tn_leave(tn_serve(device, NULL, bytes, TN_BLOCK_BYTES_MIN, stream, address));
    return tn_leave(tn_serve_aligned(device, bytes, aligned, stream, address));
}

/* A label for this allocation alone: not for those that its callbacks make. */
static TN_APART tarn_status serve_labeled(tarn_device *device, tarn_pool *pool, uint64_t bytes,
                                          uint64_t alignment, tarn_stream stream,
                                          struct tn_label *label, void **address,
                                          const void *caller)
{
    const uint32_t outer = tn_history_stack;
    tarn_status status;

    tn_history_stack =
        tn_stacking_take(&device->history.stacking, bytes, label, caller, TN_STACK_FRAME_HERE);
    status = pool != NULL ? tn_serve(device, pool, bytes, alignment, stream, address)
                          : tn_serve_aligned(device, bytes, alignment, stream, address);
    tn_history_stack = outer;
    return tn_leave(status);
}

tarn_status tarn_malloc_labeled(tarn_device *device, tarn_pool *pool, size_t bytes,
                                size_t alignment, tarn_stream stream, const char *label,
                                void **address)
{
    uint64_t aligned = alignment != 0 ? alignment : TN_BLOCK_BYTES_MIN;
    struct tn_label own;
    tarn_status status;

    if (!tn_is_device(device))
        return tn_bad_handle("device");
    if (pool != NULL && !tn_is_pool(pool))
        return tn_bad_handle("pool");
    if (pool != NULL && tn_pool_device(pool) != device)
        return tn_bad_argument("the pool is of another device");
    if (address == NULL || !tn_is_power_of_two(aligned) || aligned > alignment_max ||
        bytes > TN_REQUEST_BYTES_MAX)
        return refuse_request(aligned, address);
    own.stacking = 0;
    status = tn_label_make_title(&own.title, label);
    if (status != TARN_OK)
        return status;
    if (bytes == 0)
        return allocate_nothing(bytes, aligned, address);
    return serve_labeled(device, pool, bytes, tn_max(aligned, TN_BLOCK_BYTES_MIN), stream,
                         label != NULL ? &own : tn_stacking_label(), address, TN_STACK_CALLER_HERE);
}

/* Looks at the stream again, for callbacks of the program's may have run since: a set that slips
 * into a capture begun there would not run, and nothing would order a set on another stream. */
static tarn_status check_order(struct tn_gpu *gpu, tarn_stream stream, struct tn_order order)
{
    struct tn_stream_state now;
    tarn_status status = tn_stream_look(gpu, stream, TN_STREAM_ORDER, &now);

    if (status == TARN_OK && !tn_order_equal(now.order, order))
        status = tn_fail(TARN_ERR_WRONG_STATE,
                         "a callback of this call has begun or ended a capture of the stream, or "
                         "destroyed the stream; call again");
    return status;
}

static tarn_status serve_zeros(tarn_device *device, uint64_t bytes, tarn_stream stream, void **made,
                               const void *caller, const void *frame)
{
    const uint32_t outer = tn_history_stack;
    tarn_status status;

    if (!tn_stacking_passes(&device->history.stacking, bytes))
        (void)take_stack(device, bytes, caller, frame);
    tn_stacking_own.caller = caller;
    status = tn_serve(device, NULL, bytes, TN_BLOCK_BYTES_MIN, stream, made);
    tn_history_stack = outer;
    return status;
}

/* The caller has begun a call: the thread is not cancelled between the two. */
static tarn_status allocate_zeros(tarn_device *device, uint64_t bytes, tarn_stream stream,
                                  void **address, const void *caller, const void *frame)
{
    struct tn_stream_state state;
    void *made;
    tarn_status freed;
    tarn_status status = tn_stream_look(&device->gpu, stream, TN_STREAM_ORDER, &state);

    if (status == TARN_OK)
        status = serve_zeros(device, bytes, stream, &made, caller, frame);
    if (status != TARN_OK)
        return status;
    status = check_order(&device->gpu, stream, state.order);
    if (status == TARN_OK)
        status = tn_stream_zero(&device->gpu, (uint64_t)(uintptr_t)made, bytes, stream);
    if (status == TARN_OK) {
        *address = made;
        return TARN_OK;
    }
    freed = tn_serve_undo(made);
    (void)freed; /* refused: another thread's restore has freed the block */
    return status;
}

tarn_status tarn_calloc(tarn_device *device, size_t count, size_t bytes, tarn_stream stream,
                        void **address)
{
    size_t total;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (__builtin_mul_overflow(count, bytes, &total))
        return tn_bad_argument("count times bytes is more than a size can be");
    if (address == NULL || total > TN_REQUEST_BYTES_MAX)
        return refuse_request(TN_BLOCK_BYTES_MIN, address);
    if (total == 0)
        return allocate_nothing(total, TN_BLOCK_BYTES_MIN, address);
    return tn_leave(allocate_zeros(device, total, tn_device_stream(device, stream), address,
                                   TN_STACK_CALLER_HERE, TN_STACK_FRAME_HERE));
}

/* What is not an arena's affair alone. */
static TN_APART tarn_status begin_and_free(void *address)
{
    TN_CALL(call);

    return tn_call_begin(&call) ? tn_serve_free(address) : call.status;
}

static TN_APART TN_HOT tarn_status finish_free(void *address, struct tn_steady_rest rest)
{
    if (TN_LIKELY(tn_steady_finish_free((uint64_t)(uintptr_t)address, false, rest)))
        return TARN_OK;
    if (address == NULL)
        return tn_call_nothing();
    return tn_leave(begin_and_free(address));
}

/* While the thread is in a function of the program's, or has left one by a jump. */
static TN_APART tarn_status check_and_free(void *address)
{
    struct tn_steady_rest rest;

    tn_user_code_check();
    return tn_steady_try_free((uint64_t)(uintptr_t)address, false, &rest)
               ? TARN_OK
               : finish_free(address, rest);
}

TN_HOT tarn_status tarn_free(void *address)
{
    struct tn_steady_rest rest;

    if (TN_UNLIKELY(tn_user_code_innermost != NULL))
        return check_and_free(address);
    /* NULL is nobody's, and looked at with the rest of those. */
    if (TN_LIKELY(tn_steady_try_free((uint64_t)(uintptr_t)address, false, &rest)))
        return TARN_OK;
    return finish_free(address, rest);
}

static TN_APART tarn_status begin_and_free_use(void *address, tarn_stream stream)
{
    TN_CALL(call);

    if (address == NULL)
        return tn_call_nothing();
    if (!tn_call_begin(&call))
        return call.status;
    return tn_leave(tn_serve_free_on(address, stream));
}

TN_HOT tarn_status tarn_free_on(void *address, tarn_stream stream)
{
    if (TN_LIKELY(tn_user_code_innermost == NULL) && tn_serve_free_own(address, stream))
        return TARN_OK;
    return begin_and_free_use(address, stream);
}

tarn_status tarn_record_stream(void *address, tarn_stream stream)
{
    TN_CALL(call);

    if (address == NULL)
        return tn_call_nothing();
    if (!tn_call_begin(&call))
        return call.status;
    return tn_leave(tn_serve_use(address, stream, "tarn_record_stream"));
}

tarn_status tarn_stream_retire(tarn_device *device, tarn_stream stream)
{
    struct tn_stream_state state;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    stream = tn_device_stream(device, stream);
    if (tn_stream_is_legacy(stream))
        return tn_bad_argument(
            "the legacy default stream is never destroyed, so it is not retired");
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_stream_look(&device->gpu, stream, TN_STREAM_GRAPH, &state);
    if (status == TARN_OK && state.captured)
        status = tn_fail(TARN_ERR_WRONG_STATE, "the stream is being captured; end or abort the "
                                               "capture before the stream is retired");
    if (status == TARN_OK)
        status = tn_device_retire_stream(device, stream, state.order.stream_id);
    return tn_leave(status);
}

tarn_status tarn_block_set_tag(void *address, uint64_t tag)
{
    tarn_pool *pool;
    struct tn_block *block;
    tarn_status status;
    TN_CALL(call);

    if (address == NULL)
        return tn_call_nothing();
    if (!tn_call_begin(&call))
        return call.status;
    status = tn_pool_lock_block((uint64_t)(uintptr_t)address, true, &pool, &block);
    if (status != TARN_OK)
        return status;
    if (!tn_block_set_tag(&pool->store, block, tag))
        status = tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a block's tag");
    tn_pool_unlock(pool);
    return tn_leave(status);
}

tarn_status tarn_block_at(const void *address, tarn_block *block)
{
    tarn_pool *pool;
    struct tn_block *found;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_begin(&call))
        return call.status;
    if (block == NULL)
        return tn_bad_argument("block is NULL: there is nowhere to put the result");
    status = tn_pool_lock_around((uint64_t)(uintptr_t)address, &pool, &found);
    if (status != TARN_OK)
        return status;
    *block = tn_describe_block(pool, found);
    tn_pool_unlock(pool);
    return tn_leave(TARN_OK);
}

tarn_status tarn_segment_at(const void *address, tarn_segment *segment)
{
    tarn_segment known;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_begin(&call))
        return call.status;
    status = tn_sized_check(TN_SEGMENT, segment);
    if (status == TARN_OK)
        status = tn_segment_describe((uint64_t)(uintptr_t)address, &known);
    if (status == TARN_OK)
        tn_sized_write(TN_SEGMENT, segment, &known);
    return tn_leave(status);
}
