// SPDX-License-Identifier: Apache-2.0
/* stream_alloc.c -- cuMemAllocAsync and cuMemFreeAsync: memory in the order of streams.
 *
 * How it works. An allocation exists at once: its addresses are backed when the call returns. The
 * order of streams decides which freed memory the allocation may get. Memory freed by the same
 * stream is good, whether or not the work before the free is done. Memory freed by another stream
 * is good when the work before the free is done, or when the allocating stream waits for this work
 * already. If no other memory is left, the stream is made to wait. A free remembers the moment in
 * the order of its stream. Until this moment the memory stays as it is, for the work before the
 * free.
 *
 * Trade-offs. The use of an allocation on another stream without a wait is not noticed. */
#include "sim/stream/capture.h"
#include "sim/heap/graph_alloc.h"
#include "sim/heap/mempool.h"

/* Finds memory for an allocation of a stream; NULL when no memory is left. */
static struct tn_sim_piece *room(struct tn_sim_pool *pool, size_t bytes,
                                 struct tn_sim_stream *stream)
{
    struct tn_sim_heap *heap = pool->heap;
    if (bytes == 0)
        return NULL;
    struct tn_sim_piece *piece = tn_sim_heap_take(heap, bytes, stream);
    if (piece == NULL && pool->internal_dependencies != 0)
        piece = tn_sim_heap_take_later(heap, bytes, stream);
    if (piece == NULL && tn_sim_pools_reclaim(pool->device))
        piece = tn_sim_heap_take(heap, bytes, stream);
    return piece;
}

static tn_cu_result allocate(tn_cu_deviceptr *address, size_t bytes, struct tn_sim_pool *pool,
                             struct tn_sim_stream *stream)
{
    struct tn_sim_piece *piece = room(pool, tn_sim_piece_bytes(bytes), stream);
    struct tn_sim_linear *linear = piece == NULL ? NULL : tn_sim_linear_record(piece, bytes);
    if (linear == NULL) {
        if (piece != NULL)
            tn_sim_piece_give(piece, NULL);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    linear->pool = pool;
    pool->live++;
    pool->used += bytes;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    if (pool->heap->reserved_bytes > pool->reserved_high)
        pool->reserved_high = pool->heap->reserved_bytes;
    tn_sim.ledger.async_allocations++;
    tn_sim.ledger.async_bytes += bytes;
    *address = linear->span.start;
    return TN_CUDA_SUCCESS;
}

/* Makes the allocation a node of the graph, which will have memory of its own. */
static tn_cu_result allocate_in_capture(tn_cu_deviceptr *address, size_t bytes,
                                        const struct tn_sim_pool *pool,
                                        struct tn_sim_stream *stream)
{
    tn_cu_alloc_node_params params = {
        .pool_props = {.type = TN_CU_MEM_ALLOCATION_TYPE_PINNED,
                       .location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = pool->device}},
        .bytes = bytes,
    };
    return tn_sim_capture_allocate(stream, &params, address);
}

tn_cu_result tn_sim_cuMemAllocFromPoolAsync(tn_cu_deviceptr *address, size_t bytes,
                                            tn_cu_mempool handle, tn_cu_stream stream_handle)
{
    struct tn_sim_stream *stream;
    struct tn_sim_pool *pool = tn_sim_pool_find(handle);
    if (address == NULL || pool == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_stream_admit(stream_handle, &stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (bytes == 0) {
        *address = 0;
        return TN_CUDA_SUCCESS;
    }
    if (stream->capture != NULL)
        return allocate_in_capture(address, bytes, pool, stream);
    result = tn_sim_capture_unsafe();
    return result == TN_CUDA_SUCCESS ? allocate(address, bytes, pool, stream) : result;
}

tn_cu_result tn_sim_cuMemAllocAsync(tn_cu_deviceptr *address, size_t bytes, tn_cu_stream handle)
{
    struct tn_sim_stream *stream;
    tn_cu_result result = tn_sim_stream_find(handle, &stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    const struct tn_sim_pool *pool = tn_sim_pool_current(stream->object.context->device);
    if (pool == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    return tn_sim_cuMemAllocFromPoolAsync(address, bytes, (tn_cu_mempool)pool->object.handle,
                                          handle);
}

tn_cu_result tn_sim_cuMemFreeAsync(tn_cu_deviceptr address, tn_cu_stream handle)
{
    struct tn_sim_stream *stream;
    tn_cu_result result = tn_sim_stream_admit(handle, &stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (address == 0)
        return TN_CUDA_SUCCESS;
    if (stream->capture != NULL)
        return tn_sim_capture_free(stream, address);
    result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (tn_sim_graph_block_at(address) != NULL)
        return tn_sim_graph_memory_free(address, stream);
    struct tn_sim_linear *linear = tn_sim_linear_at(address);
    if (linear == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_point now = {0};
    result = tn_sim_queue_step(stream, &now);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (linear->pool != NULL)
        tn_sim_pool_drop(linear, &now);
    else
        tn_sim_linear_drop(linear, &now);
    tn_sim_point_clear(&now);
    return TN_CUDA_SUCCESS;
}
