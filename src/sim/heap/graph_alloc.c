// SPDX-License-Identifier: Apache-2.0
/* graph_alloc.c -- checks the allocations and frees of graphs, and makes them operations.
 *
 * How it works. A block is made together with the operation that allocates the block
 * (graph_memory.c): its address is known before any launch. */
#include "sim/heap/graph_alloc.h"

#include <stdlib.h>
#include <string.h>

#include "sim/stream/capture.h"

/* Fills in the devices that may use a block, from the description of an allocation. */
static tn_cu_result grant(struct tn_sim_graph_block *block, const tn_cu_alloc_node_params *params)
{
    for (size_t i = 0; i < params->access_count; i++) {
        const tn_cu_access_desc *access = &params->access[i];
        if (access->location.type != TN_CU_MEM_LOCATION_TYPE_DEVICE ||
            !tn_sim_device_exists(access->location.id))
            return TN_CUDA_ERROR_INVALID_VALUE;
        block->access[access->location.id] = access->flags == TN_CU_MEM_ACCESS_READWRITE;
    }
    return TN_CUDA_SUCCESS;
}

/* Copies the arrays of an allocation's description, which the program may change later. */
static tn_cu_result keep_params(struct tn_sim_alloc_op *alloc,
                                const tn_cu_alloc_node_params *params)
{
    alloc->params = *params;
    alloc->params.access = NULL;
    alloc->params.address = alloc->block->span.start;
    if (params->access_count == 0)
        return TN_CUDA_SUCCESS;
    tn_cu_access_desc *access = calloc(params->access_count, sizeof *access);
    if (access == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(access, params->access, params->access_count * sizeof *access);
    alloc->params.access = access;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_make_alloc(struct tn_sim_graph *graph, const tn_cu_alloc_node_params *params,
                               struct tn_sim_op **op)
{
    const tn_cu_pool_props *props = &params->pool_props;
    if (params->bytes == 0 || props->type != TN_CU_MEM_ALLOCATION_TYPE_PINNED ||
        props->location.type != TN_CU_MEM_LOCATION_TYPE_DEVICE ||
        !tn_sim_device_exists(props->location.id) ||
        (params->access_count > 0 && params->access == NULL))
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (props->handle_types != TN_CU_MEM_HANDLE_TYPE_NONE)
        return TN_CUDA_ERROR_NOT_SUPPORTED;
    struct tn_sim_op *made =
        tn_sim_op_create(TN_CU_NODE_MEM_ALLOC, &tn_sim_devices[props->location.id].context);
    if (made == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    struct tn_sim_alloc_op *alloc = &made->alloc;
    tn_cu_result result = TN_CUDA_ERROR_OUT_OF_MEMORY;
    struct tn_sim_graph_block *block =
        tn_sim_graph_block_create(&graph->memory, props->location.id, params->bytes);
    if (block != NULL) {
        tn_sim_graph_block_name(made, block);
        result = grant(block, params);
    }
    if (result == TN_CUDA_SUCCESS)
        result = keep_params(alloc, params);
    if (result != TN_CUDA_SUCCESS) {
        tn_sim_op_release(made);
        return result;
    }
    *op = made;
    return TN_CUDA_SUCCESS;
}

static bool frees(const struct tn_sim_graph *graph, const struct tn_sim_graph_block *block)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct tn_sim_op *op = graph->nodes.items[i]->op;
        if (op->type == TN_CU_NODE_MEM_FREE && op->alloc.block == block)
            return true;
    }
    return false;
}

tn_cu_result tn_sim_make_free(const struct tn_sim_graph *graph, struct tn_sim_context *context,
                              uintptr_t address, struct tn_sim_op **op)
{
    struct tn_sim_graph_block *block = tn_sim_graph_block_at(address);
    if (block == NULL || block->span.start != address || frees(graph, block))
        return TN_CUDA_ERROR_INVALID_VALUE;
    *op = tn_sim_op_create(TN_CU_NODE_MEM_FREE, context);
    if (*op == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    tn_sim_graph_block_name(*op, tn_sim_graph_block_acquire(block));
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_capture_allocate(struct tn_sim_stream *stream,
                                     const tn_cu_alloc_node_params *params,
                                     tn_cu_deviceptr *address)
{
    struct tn_sim_op *op;
    tn_cu_result result = tn_sim_make_alloc(stream->capture->graph, params, &op);
    if (result != TN_CUDA_SUCCESS)
        return result;
    tn_cu_deviceptr made = op->alloc.params.address;
    result = tn_sim_stream_submit(stream, op);
    if (result == TN_CUDA_SUCCESS)
        *address = made;
    return result;
}

tn_cu_result tn_sim_capture_free(struct tn_sim_stream *stream, tn_cu_deviceptr address)
{
    struct tn_sim_op *op;
    tn_cu_result result =
        tn_sim_make_free(stream->capture->graph, stream->object.context, address, &op);
    return result == TN_CUDA_SUCCESS ? tn_sim_stream_submit(stream, op) : result;
}
