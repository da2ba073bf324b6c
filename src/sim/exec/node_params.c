// SPDX-License-Identifier: Apache-2.0
/* node_params.c -- parameters of nodes: taken from programs, and given back.
 *
 * How it works. A table has a maker for each type of node that can be added by hand. The calls that
 * give parameters back, or change them, find their node by the same function, which refuses other
 * types. Parameters that are given back point into the node's operation and live as long as the
 * operation.
 *
 * Trade-offs. Copies to and from arrays are refused: the simulator has no arrays. */
#include "sim/exec/node_params.h"

#include <stdlib.h>
#include <string.h>

#include "sim/stream/event.h"
#include "sim/heap/graph_alloc.h"
#include "sim/run/launch.h"
#include "sim/run/words.h"
#include "sim/code/module.h"
#include "sim/run/op_run.h"

#define LAST_NODE_TYPE TN_CU_NODE_CONDITIONAL

/* The context that a description names, or the current context. INVALID_CONTEXT, or the fault by
 * which the context died. */
static tn_cu_result named_context(tn_cu_context handle, struct tn_sim_context **context)
{
    if (handle == NULL)
        return tn_sim_context_current(context);
    tn_cu_result result = tn_sim_context_find(handle, context);
    return result == TN_CUDA_SUCCESS ? tn_sim_context_health(*context) : result;
}

/* -- Made -- */

/* The code that a kernel node names: a function, or a library's kernel, which is a function in a
 * context. */
static tn_cu_result find_code(const tn_cu_kernel_node_params *params, struct tn_sim_code **code)
{
    struct tn_sim_context *context;
    *code = tn_sim_find(TN_SIM_KIND_FUNCTION, (uintptr_t)params->func);
    if (*code != NULL)
        return tn_sim_context_health((*code)->object.context);
    tn_cu_result result = named_context(params->ctx, &context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    tn_cu_function named = params->func != NULL ? params->func : (tn_cu_function)params->kern;
    return tn_sim_code_find(named, context, code);
}

tn_cu_result tn_sim_make_kernel(const tn_cu_kernel_node_params *params, struct tn_sim_op **op)
{
    struct tn_sim_code *code;
    tn_cu_result result = find_code(params, &code);
    if (result != TN_CUDA_SUCCESS)
        return result;
    tarn_sim_launch launch = {
        {params->grid_x, params->grid_y, params->grid_z},
        {params->block_x, params->block_y, params->block_z},
        params->shared_bytes,
    };
    if (!tn_sim_launch_possible(&launch))
        return TN_CUDA_ERROR_INVALID_VALUE;
    return tn_sim_launch_make(code, &launch, params->kernel_params, params->extra, op);
}

/* An end of a copy. */
struct end {
    int type;
    uintptr_t base; /* 0: the type does not exist */
    size_t x, y, z, pitch, height;
};

static struct end source_of(const tn_cu_memcpy3d *copy)
{
    uintptr_t base = copy->src_type == TN_CU_MEMORYTYPE_HOST ? (uintptr_t)copy->src_host
                                                             : (uintptr_t)copy->src_device;
    return (struct end){copy->src_type,  base,        copy->src_x,
                        copy->src_y,     copy->src_z, copy->src_pitch,
                        copy->src_height};
}

static struct end target_of(const tn_cu_memcpy3d *copy)
{
    uintptr_t base = copy->dst_type == TN_CU_MEMORYTYPE_HOST ? (uintptr_t)copy->dst_host
                                                             : (uintptr_t)copy->dst_device;
    return (struct end){copy->dst_type,  base,        copy->dst_x,
                        copy->dst_y,     copy->dst_z, copy->dst_pitch,
                        copy->dst_height};
}

/* Asks whether an end's rows and planes lie apart. */
static bool makes_sense(const struct end *end, const tn_cu_memcpy3d *copy)
{
    /* The driver takes unknown types for unified memory. */
    bool known = end->type == TN_CU_MEMORYTYPE_HOST || end->type == TN_CU_MEMORYTYPE_DEVICE ||
                 end->type == TN_CU_MEMORYTYPE_UNIFIED || !tn_sim_strict();
    bool flat = copy->height == 1 && copy->depth == 1;
    return known && end->base != 0 && (flat || end->pitch >= end->x + copy->width) &&
           (copy->depth == 1 || end->height >= end->y + copy->height);
}

static uintptr_t first_byte(const struct end *end)
{
    return end->base + end->x + end->pitch * (end->y + end->height * end->z);
}

static bool in_books(uintptr_t address, int type)
{
    return type == TN_CU_MEMORYTYPE_DEVICE || tn_sim_space_knows(address);
}

tn_cu_result tn_sim_make_copy(const tn_cu_memcpy3d *copy, tn_cu_context handle,
                              struct tn_sim_op **op)
{
    struct tn_sim_context *context;
    struct end from = source_of(copy);
    struct end to = target_of(copy);
    tn_cu_result result = named_context(handle, &context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (copy->width == 0 || copy->height == 0 || copy->depth == 0 || !makes_sense(&from, copy) ||
        !makes_sense(&to, copy))
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_op *made = tn_sim_op_create(TN_CU_NODE_MEMCPY, context);
    if (made == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    made->copy = (struct tn_sim_copy_op){
        .to = first_byte(&to),
        .from = first_byte(&from),
        .bytes = copy->width,
        .to_device = in_books(first_byte(&to), to.type),
        .from_device = in_books(first_byte(&from), from.type),
        .shape = *copy,
    };
    if (!tn_sim_op_valid_in_graph(made)) {
        tn_sim_op_release(made);
        return TN_CUDA_ERROR_INVALID_VALUE;
    }
    *op = made;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_make_set(const tn_cu_memset_node_params *set, tn_cu_context handle,
                             struct tn_sim_op **op)
{
    struct tn_sim_context *context;
    unsigned int width = set->element_bytes;
    if (handle == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = named_context(handle, &context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if ((width != 1 && width != 2 && width != 4) || set->dst % width != 0 || set->width == 0 ||
        set->width > SIZE_MAX / width || set->height == 0 ||
        (set->height > 1 && set->pitch < set->width * width))
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_op *made = tn_sim_op_create(TN_CU_NODE_MEMSET, context);
    if (made == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    made->set = (struct tn_sim_set_op){
        .address = set->dst,
        .value = set->value,
        .width = width,
        .count = set->width,
        .rows = set->height,
        .pitch = set->pitch,
    };
    *op = made;
    return TN_CUDA_SUCCESS;
}

/* No other kind of node asks for its context by name. */
tn_cu_result tn_sim_make_batch(const tn_cu_batch_node_params *batch, struct tn_sim_op **op)
{
    struct tn_sim_context *context;
    if (batch->ctx == NULL || batch->count == 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = named_context(batch->ctx, &context);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_words_check(batch->ops, batch->count, batch->flags);
    if (result != TN_CUDA_SUCCESS)
        return result;
    *op = tn_sim_batch_make(context, batch->ops, batch->count, batch->flags);
    return *op == NULL ? TN_CUDA_ERROR_OUT_OF_MEMORY : TN_CUDA_SUCCESS;
}

static tn_cu_result make_kernel(struct tn_sim_graph *graph, tn_cu_node_params *params,
                                struct tn_sim_op **op)
{
    (void)graph;
    return tn_sim_make_kernel(&params->kernel, op);
}

static tn_cu_result make_copy(struct tn_sim_graph *graph, tn_cu_node_params *params,
                              struct tn_sim_op **op)
{
    (void)graph;
    return tn_sim_make_copy(&params->memcpy.copy, params->memcpy.ctx, op);
}

static tn_cu_result make_set(struct tn_sim_graph *graph, tn_cu_node_params *params,
                             struct tn_sim_op **op)
{
    (void)graph;
    return tn_sim_make_set(&params->memset.set, params->memset.ctx, op);
}

static tn_cu_result make_batch(struct tn_sim_graph *graph, tn_cu_node_params *params,
                               struct tn_sim_op **op)
{
    (void)graph;
    return tn_sim_make_batch(&params->batch, op);
}

/* Makes an operation that needs no context of its own. */
static tn_cu_result make_plain(tn_cu_graphnode_type type, struct tn_sim_op **op)
{
    *op = tn_sim_op_create(type, tn_sim_context_top());
    return *op == NULL ? TN_CUDA_ERROR_OUT_OF_MEMORY : TN_CUDA_SUCCESS;
}

static tn_cu_result make_host(struct tn_sim_graph *graph, tn_cu_node_params *params,
                              struct tn_sim_op **op)
{
    (void)graph;
    if (params->host.function == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = make_plain(TN_CU_NODE_HOST, op);
    if (result == TN_CUDA_SUCCESS)
        (*op)->host =
            (struct tn_sim_host_op){.function = params->host.function, .user = params->host.user};
    return result;
}

/* The caller puts the graph itself into the node (graph_add.c). */
static tn_cu_result make_child(struct tn_sim_graph *graph, tn_cu_node_params *params,
                               struct tn_sim_op **op)
{
    struct tn_sim_graph *child;
    tn_cu_result result = tn_sim_graph_find(params->child.graph, &child);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (params->child.ownership != 0 || child == graph)
        return TN_CUDA_ERROR_INVALID_VALUE;
    /* Addresses and conditions belong to a single graph. */
    if (tn_sim_graph_has_memory(child) || tn_sim_graph_has_condition(child))
        return TN_CUDA_ERROR_NOT_SUPPORTED;
    return make_plain(TN_CU_NODE_GRAPH, op);
}

static tn_cu_result make_empty(struct tn_sim_graph *graph, tn_cu_node_params *params,
                               struct tn_sim_op **op)
{
    (void)graph;
    return make_plain(params->type, op);
}

static tn_cu_result make_event(struct tn_sim_graph *graph, tn_cu_node_params *params,
                               struct tn_sim_op **op)
{
    (void)graph;
    if (params->event == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_event *event = tn_sim_find(TN_SIM_KIND_EVENT, (uintptr_t)params->event);
    if (event == NULL)
        return TN_CUDA_ERROR_INVALID_HANDLE;
    *op = tn_sim_op_create(params->type, event->object.context);
    if (*op == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    tn_sim_event_name(*op, event);
    return TN_CUDA_SUCCESS;
}

static tn_cu_result make_alloc(struct tn_sim_graph *graph, tn_cu_node_params *params,
                               struct tn_sim_op **op)
{
    tn_cu_result result = tn_sim_make_alloc(graph, &params->alloc, op);
    if (result == TN_CUDA_SUCCESS)
        params->alloc.address = (*op)->alloc.params.address;
    return result;
}

static tn_cu_result make_free(struct tn_sim_graph *graph, tn_cu_node_params *params,
                              struct tn_sim_op **op)
{
    return tn_sim_make_free(graph, tn_sim_context_top(), params->free, op);
}

static tn_cu_result make_condition(struct tn_sim_graph *graph, tn_cu_node_params *params,
                                   struct tn_sim_op **op)
{
    return tn_sim_make_condition(graph, &params->conditional, op);
}

/* The maker of an operation for each type of node that can be added. */
static tn_cu_result (*const makers[LAST_NODE_TYPE + 1])(struct tn_sim_graph *, tn_cu_node_params *,
                                                        struct tn_sim_op **) = {
    [TN_CU_NODE_KERNEL] = make_kernel,      [TN_CU_NODE_MEMCPY] = make_copy,
    [TN_CU_NODE_MEMSET] = make_set,         [TN_CU_NODE_HOST] = make_host,
    [TN_CU_NODE_GRAPH] = make_child,        [TN_CU_NODE_EMPTY] = make_empty,
    [TN_CU_NODE_WAIT_EVENT] = make_event,   [TN_CU_NODE_EVENT_RECORD] = make_event,
    [TN_CU_NODE_MEM_ALLOC] = make_alloc,    [TN_CU_NODE_MEM_FREE] = make_free,
    [TN_CU_NODE_BATCH_MEM_OP] = make_batch, [TN_CU_NODE_CONDITIONAL] = make_condition,
};

tn_cu_result tn_sim_make_node(struct tn_sim_graph *graph, tn_cu_node_params *params,
                              struct tn_sim_op **op)
{
    if ((unsigned int)params->type > LAST_NODE_TYPE || params->reserved2 != 0 ||
        params->reserved0[0] != 0 || params->reserved0[1] != 0 || params->reserved0[2] != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (makers[params->type] == NULL)
        return TN_CUDA_ERROR_NOT_SUPPORTED;
    return makers[params->type](graph, params, op);
}

/* -- Given back -- */

/* Finds a node of the given type, for a call that gives its parameters back or takes them: the
 * pointer to these may not be NULL. */
static tn_cu_result find_node(tn_cu_graphnode handle, tn_cu_graphnode_type type, const void *params,
                              struct tn_sim_node **node)
{
    if (params == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_node_find(handle, node);
    if (result != TN_CUDA_SUCCESS)
        return result;
    return (*node)->op->type == type ? TN_CUDA_SUCCESS : TN_CUDA_ERROR_INVALID_VALUE;
}

static tn_cu_result find_op(tn_cu_graphnode handle, tn_cu_graphnode_type type, const void *params,
                            struct tn_sim_op **op)
{
    struct tn_sim_node *node;
    tn_cu_result result = find_node(handle, type, params, &node);
    if (result == TN_CUDA_SUCCESS)
        *op = node->op;
    return result;
}

static tn_cu_context context_handle(const struct tn_sim_op *op)
{
    return op->context == NULL ? NULL : (tn_cu_context)op->context->object.handle;
}

tn_cu_result tn_sim_cuGraphKernelNodeGetParams(tn_cu_graphnode handle,
                                               tn_cu_kernel_node_params *params)
{
    struct tn_sim_op *op;
    tn_cu_result result = find_op(handle, TN_CU_NODE_KERNEL, params, &op);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_kernel_op *kernel = &op->kernel;
    *params = (tn_cu_kernel_node_params){
        .func = (tn_cu_function)kernel->code->handle,
        .grid_x = kernel->launch.grid[0],
        .grid_y = kernel->launch.grid[1],
        .grid_z = kernel->launch.grid[2],
        .block_x = kernel->launch.block[0],
        .block_y = kernel->launch.block[1],
        .block_z = kernel->launch.block[2],
        .shared_bytes = kernel->launch.shared_bytes,
        .kernel_params = kernel->packed ? NULL : kernel->params,
        .extra = kernel->packed ? kernel->extra : NULL,
        .kern = (tn_cu_kernel)kernel->code->kernel,
        .ctx = context_handle(op),
    };
    return TN_CUDA_SUCCESS;
}

/* Describes a copy of a single row that no program has described: by addresses alone. */
static tn_cu_memcpy3d unified(const struct tn_sim_copy_op *copy)
{
    return (tn_cu_memcpy3d){
        .src_type = TN_CU_MEMORYTYPE_UNIFIED,
        .src_device = copy->from,
        .dst_type = TN_CU_MEMORYTYPE_UNIFIED,
        .dst_device = copy->to,
        .width = copy->bytes,
        .height = 1,
        .depth = 1,
    };
}

tn_cu_result tn_sim_cuGraphMemcpyNodeGetParams(tn_cu_graphnode handle, tn_cu_memcpy3d *params)
{
    struct tn_sim_op *op;
    tn_cu_result result = find_op(handle, TN_CU_NODE_MEMCPY, params, &op);
    if (result == TN_CUDA_SUCCESS)
        *params = op->copy.shape.width == 0 ? unified(&op->copy) : op->copy.shape;
    return result;
}

tn_cu_result tn_sim_cuGraphMemsetNodeGetParams(tn_cu_graphnode handle,
                                               tn_cu_memset_node_params *params)
{
    struct tn_sim_op *op;
    tn_cu_result result = find_op(handle, TN_CU_NODE_MEMSET, params, &op);
    if (result != TN_CUDA_SUCCESS)
        return result;
    *params = (tn_cu_memset_node_params){
        .dst = op->set.address,
        .pitch = op->set.pitch,
        .value = op->set.value,
        .element_bytes = (unsigned int)op->set.width,
        .width = op->set.count,
        .height = op->set.rows == 0 ? 1 : op->set.rows,
    };
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuGraphHostNodeGetParams(tn_cu_graphnode handle, tn_cu_host_node_params *params)
{
    struct tn_sim_op *op;
    tn_cu_result result = find_op(handle, TN_CU_NODE_HOST, params, &op);
    if (result == TN_CUDA_SUCCESS)
        *params = (tn_cu_host_node_params){op->host.function, op->host.user};
    return result;
}

tn_cu_result tn_sim_cuGraphChildGraphNodeGetGraph(tn_cu_graphnode handle, tn_cu_graph *graph)
{
    struct tn_sim_node *node;
    tn_cu_result result = find_node(handle, TN_CU_NODE_GRAPH, graph, &node);
    if (result == TN_CUDA_SUCCESS)
        *graph = (tn_cu_graph)node->bodies[0]->object.handle;
    return result;
}

static tn_cu_result get_event(tn_cu_graphnode handle, tn_cu_graphnode_type type, tn_cu_event *event)
{
    struct tn_sim_op *op;
    tn_cu_result result = find_op(handle, type, event, &op);
    if (result == TN_CUDA_SUCCESS)
        *event = (tn_cu_event)op->event->object.handle;
    return result;
}

tn_cu_result tn_sim_cuGraphEventRecordNodeGetEvent(tn_cu_graphnode handle, tn_cu_event *event)
{
    return get_event(handle, TN_CU_NODE_EVENT_RECORD, event);
}

tn_cu_result tn_sim_cuGraphEventWaitNodeGetEvent(tn_cu_graphnode handle, tn_cu_event *event)
{
    return get_event(handle, TN_CU_NODE_WAIT_EVENT, event);
}

tn_cu_result tn_sim_cuGraphMemAllocNodeGetParams(tn_cu_graphnode handle,
                                                 tn_cu_alloc_node_params *params)
{
    struct tn_sim_op *op;
    tn_cu_result result = find_op(handle, TN_CU_NODE_MEM_ALLOC, params, &op);
    if (result == TN_CUDA_SUCCESS)
        *params = op->alloc.params;
    return result;
}

tn_cu_result tn_sim_cuGraphMemFreeNodeGetParams(tn_cu_graphnode handle, tn_cu_deviceptr *address)
{
    struct tn_sim_op *op;
    tn_cu_result result = find_op(handle, TN_CU_NODE_MEM_FREE, address, &op);
    if (result == TN_CUDA_SUCCESS)
        *address = op->alloc.block->span.start;
    return result;
}

tn_cu_result tn_sim_cuGraphBatchMemOpNodeGetParams(tn_cu_graphnode handle,
                                                   tn_cu_batch_node_params *params)
{
    struct tn_sim_op *op;
    tn_cu_result result = find_op(handle, TN_CU_NODE_BATCH_MEM_OP, params, &op);
    if (result != TN_CUDA_SUCCESS)
        return result;
    *params = (tn_cu_batch_node_params){
        .ctx = context_handle(op),
        .count = op->batch.count,
        .ops = op->batch.ops,
        .flags = op->batch.flags,
    };
    return TN_CUDA_SUCCESS;
}

/* -- Changed -- */

tn_cu_result tn_sim_cuGraphKernelNodeSetParams(tn_cu_graphnode handle,
                                               const tn_cu_kernel_node_params *params)
{
    struct tn_sim_node *node;
    struct tn_sim_op *op;
    tn_cu_result result = find_node(handle, TN_CU_NODE_KERNEL, params, &node);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_make_kernel(params, &op);
    if (result != TN_CUDA_SUCCESS)
        return result;
    op->kernel.together = node->op->kernel.together;
    tn_sim_op_release(node->op);
    node->op = op;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuGraphBatchMemOpNodeSetParams(tn_cu_graphnode handle,
                                                   const tn_cu_batch_node_params *params)
{
    struct tn_sim_node *node;
    struct tn_sim_op *op;
    tn_cu_result result = find_node(handle, TN_CU_NODE_BATCH_MEM_OP, params, &node);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_make_batch(params, &op);
    if (result != TN_CUDA_SUCCESS)
        return result;
    tn_sim_op_release(node->op);
    node->op = op;
    return TN_CUDA_SUCCESS;
}
