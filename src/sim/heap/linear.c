// SPDX-License-Identifier: Apache-2.0
/* linear.c -- cuMemAlloc, cuMemFree and the amount of memory.
 *
 * How it works. A context has a heap of blocks of 2 MiB, out of which allocations of up to that
 * size are cut; a larger allocation has a block of its own, whose rest is nobody's. A block goes
 * back to the device with its last allocation. Allocating waits for nothing; freeing waits for all
 * work of the context, and looks its pointer up again after the wait.
 *
 * Trade-offs. Memory freed by cuMemFreeAsync goes back to the device when somebody next asks for
 * memory or for its amount. This is later than the moment from which the memory is free, but
 * nothing can tell. */
#include "sim/heap/linear.h"

#include <stdlib.h>

#include "sim/stream/capture.h"
#include "sim/core/cost.h"
#include "sim/heap/graph_memory.h"
#include "sim/heap/mempool.h"
#include "sim/memory/physical.h"

/* Gives back memory that cuMemFreeAsync freed in a context, once its moment has passed. */
static void note_wait(struct tn_sim_context *context)
{
    if (context->linear == NULL)
        return;
    if (context->linear->pending) {
        tn_sim_heap_note_wait(context->linear, NULL);
        tn_sim_heap_unite(context->linear);
    }
    tn_sim_heap_trim(context->linear, 0);
}

tn_cu_result tn_sim_cuMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    struct tn_sim_context *context;
    tn_cu_result result = tn_sim_context_current(&context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    note_wait(context);
    tn_sim_pools_bury();
    tn_sim_backings_collect();
    const struct tn_sim_store *store = &tn_sim_devices[context->device].store;
    if (free_bytes != NULL)
        *free_bytes = tn_sim_store_left(store);
    if (total_bytes != NULL)
        *total_bytes = store->total_bytes;
    return TN_CUDA_SUCCESS;
}

struct tn_sim_linear *tn_sim_linear_record(struct tn_sim_piece *piece, size_t bytes)
{
    struct tn_sim_linear *linear = calloc(1, sizeof *linear);
    if (linear == NULL)
        return NULL;
    linear->span = (struct tn_sim_span){.start = piece->span.start, .bytes = bytes};
    linear->piece = piece;
    linear->device = piece->block->heap->device;
    linear->buffer_id = tn_sim_space_next_id();
    if (!tn_sim_index_add(&tn_sim_linears, &linear->span)) {
        free(linear);
        return NULL;
    }
    return linear;
}

struct tn_sim_linear *tn_sim_linear_at(uintptr_t address)
{
    struct tn_sim_linear *linear = tn_sim_index_find(&tn_sim_linears, address);
    return linear == NULL || linear->span.start != address ? NULL : linear;
}

void tn_sim_linear_forget(struct tn_sim_linear *linear)
{
    tn_sim_index_remove(&tn_sim_linears, &linear->span);
    free(linear);
}

void tn_sim_linear_drop(struct tn_sim_linear *linear, const struct tn_sim_point *from)
{
    struct tn_sim_context *context = linear->context;
    tn_sim.ledger.linear_allocations--;
    tn_sim.ledger.linear_bytes -= linear->span.bytes;
    tn_sim_piece_give(linear->piece, from);
    tn_sim_linear_forget(linear);
    note_wait(context);
}

/* Finds or gets room for an allocation; NULL when no room is left. */
static struct tn_sim_piece *room(struct tn_sim_context *context, size_t bytes)
{
    if (context->linear == NULL)
        context->linear = tn_sim_heap_create(context->device, TN_SIM_GRANULE, 0);
    struct tn_sim_heap *heap = context->linear;
    if (heap == NULL || bytes == 0)
        return NULL;
    note_wait(context);
    struct tn_sim_piece *piece = tn_sim_heap_take(heap, bytes, NULL);
    if (piece == NULL && tn_sim_pools_reclaim(context->device))
        piece = tn_sim_heap_take(heap, bytes, NULL);
    return piece;
}

tn_cu_result tn_sim_cuMemAlloc(tn_cu_deviceptr *address, size_t bytes)
{
    if (address == NULL || bytes == 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_context *context;
    tn_cu_result result = tn_sim_context_current(&context);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_piece *piece = room(context, tn_sim_piece_bytes(bytes));
    *address = 0;
    if (piece == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    struct tn_sim_linear *linear = tn_sim_linear_record(piece, bytes);
    if (linear == NULL) {
        tn_sim_piece_give(piece, NULL);
        note_wait(context);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    linear->context = context;
    tn_sim.ledger.linear_allocations++;
    tn_sim.ledger.linear_bytes += bytes;
    tn_sim_charge(bytes);
    *address = linear->span.start;
    return TN_CUDA_SUCCESS;
}

/* Frees an allocation of a graph. */
static tn_cu_result free_of_graph(tn_cu_deviceptr address)
{
    const struct tn_sim_graph_block *block = tn_sim_graph_block_at(address);
    const struct tn_sim_context *context =
        &tn_sim_devices[tn_sim_graph_block_device(block)].context;
    tn_sim_streams_wait_all(context);
    tn_cu_result result = tn_sim_graph_memory_free(address, NULL);
    return result == TN_CUDA_SUCCESS ? context->fault : result;
}

tn_cu_result tn_sim_cuMemFree(tn_cu_deviceptr address)
{
    tn_cu_result result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (address == 0)
        return TN_CUDA_SUCCESS;
    if (tn_sim_graph_block_at(address) != NULL)
        return free_of_graph(address);
    struct tn_sim_linear *linear = tn_sim_linear_at(address);
    if (linear == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (linear->pool != NULL) { /* without a wait */
        tn_sim_pool_drop(linear, NULL);
        return TN_CUDA_SUCCESS;
    }
    struct tn_sim_context *context = linear->context;
    tn_sim_streams_wait_all(context);
    linear = tn_sim_linear_at(address);
    if (linear == NULL || linear->context != context) /* another context's by now */
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_sim_charge(linear->span.bytes);
    tn_sim_linear_drop(linear, NULL);
    return context->fault;
}

void tn_sim_linear_free_all(struct tn_sim_context *context)
{
    for (size_t i = tn_sim_linears.count; i > 0; i--) {
        struct tn_sim_linear *linear = (struct tn_sim_linear *)tn_sim_linears.items[i - 1];
        if (linear->context == context)
            tn_sim_linear_drop(linear, NULL);
    }
    tn_sim_heap_destroy(context->linear);
    context->linear = NULL;
}
