// SPDX-License-Identifier: Apache-2.0
/* exec.c -- instantiating and launching graphs.
 *
 * How it works. A launch does the steps of its plan in an order that the edges allow (exec_run.c).
 * A launch is a single piece of its stream's work, unless its steps record events or wait for
 * events. A step that records an event ends a piece, and a step that waits for an event begins a
 * piece. The event's moment is thus a moment of the stream. Sets must name usable memory when the
 * graph is instantiated; after that each launch resolves addresses. Addresses of kernels and copies
 * are resolved by launches alone.
 *
 * Trade-offs. Steps before and behind a step with an event are not run at the same time, even
 * without an edge between them. */
#include "sim/exec/exec.h"

#include <stdlib.h>

#include "sim/stream/capture.h"
#include "sim/core/cost.h"
#include "sim/stream/event.h"
#include "sim/heap/graph_memory.h"
#include "sim/run/op_run.h"

#define PLAIN_FLAGS                                                                                \
    ((uint64_t)(TN_CU_GRAPH_INSTANTIATE_AUTO_FREE_ON_LAUNCH |                                      \
                TN_CU_GRAPH_INSTANTIATE_DEVICE_LAUNCH |                                            \
                TN_CU_GRAPH_INSTANTIATE_USE_NODE_PRIORITY))
#define TOLD_FLAGS (PLAIN_FLAGS & ~(uint64_t)TN_CU_GRAPH_INSTANTIATE_USE_NODE_PRIORITY)
#define KNOWN_FLAGS (PLAIN_FLAGS | TN_CU_GRAPH_INSTANTIATE_UPLOAD)

/* CUgraphInstantiateResult */
enum { INSTANTIATE_SUCCESS = 0, INSTANTIATE_ERROR = 1, INSTANTIATE_INVALID_STRUCTURE = 2 };

/* -- Plans -- */

/* Adds the steps of a launch for the nodes of a graph, in order. Returns false when memory ran
 * out. */
static bool add_steps(struct tn_sim_node_set *steps, const struct tn_sim_graph *graph)
{
    for (size_t i = 0; i < graph->order.count; i++) {
        struct tn_sim_node *node = graph->order.items[i];
        bool ok = node->op->type == TN_CU_NODE_GRAPH ? add_steps(steps, node->bodies[0])
                                                     : tn_sim_node_set_append(steps, node);
        if (!ok)
            return false;
    }
    return true;
}

void tn_sim_plan_release(struct tn_sim_plan *plan)
{
    if (--plan->references > 0)
        return;
    tn_sim_node_set_fini(&plan->steps);
    if (plan->graph != NULL)
        tn_sim_graph_destroy(plan->graph);
    free(plan);
}

/* Asks whether every step depends on the step before. */
static bool is_chain(const struct tn_sim_node_set *steps)
{
    for (size_t i = 1; i < steps->count; i++) {
        const struct tn_sim_node *node = steps->items[i];
        size_t j = 0;
        while (j < node->before.count && node->before.items[j] != steps->items[i - 1])
            j++;
        if (j == node->before.count)
            return false;
    }
    return true;
}

struct tn_sim_plan *tn_sim_plan_create(const struct tn_sim_graph *graph)
{
    struct tn_sim_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL)
        return NULL;
    plan->references = 1;
    plan->graph = tn_sim_graph_copy(graph, true);
    if (plan->graph == NULL || !tn_sim_graph_sort(plan->graph) ||
        !add_steps(&plan->steps, plan->graph)) {
        tn_sim_plan_release(plan);
        return NULL;
    }
    plan->chain = is_chain(&plan->steps);
    return plan;
}

bool tn_sim_exec_own_plan(struct tn_sim_exec *exec)
{
    if (exec->plan->references == 1) /* SE1 */
        return true;
    struct tn_sim_plan *plan = tn_sim_plan_create(exec->plan->graph);
    if (plan == NULL)
        return false;
    tn_sim_plan_release(exec->plan);
    exec->plan = plan;
    return true;
}

/* -- References -- */

static void release(struct tn_sim_exec *exec)
{
    if (--exec->references > 0)
        return;
    tn_sim_exec_space_give(exec);
    if (exec->plan != NULL)
        tn_sim_plan_release(exec->plan);
    tn_sim_point_clear(&exec->last);
    free(exec);
}

struct tn_sim_part tn_sim_part_acquire(const struct tn_sim_part *part)
{
    part->exec->references++;
    part->plan->references++;
    return *part;
}

void tn_sim_part_release(struct tn_sim_part *part)
{
    tn_sim_plan_release(part->plan);
    release(part->exec);
}

/* -- Instantiating -- */

/* Asks whether a node may be in the body of a conditional node. */
static bool allowed_in_body(tn_cu_graphnode_type type)
{
    switch (type) {
    case TN_CU_NODE_KERNEL:
    case TN_CU_NODE_MEMCPY:
    case TN_CU_NODE_MEMSET:
    case TN_CU_NODE_GRAPH:
    case TN_CU_NODE_EMPTY:
    case TN_CU_NODE_CONDITIONAL:
        return true;
    default:
        return false;
    }
}

/* Asks whether a graph has a node that prevents its instantiation. */
static bool has_bad_node(const struct tn_sim_graph *graph, bool in_body)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct tn_sim_node *node = graph->nodes.items[i];
        /* The driver checks nothing of copies here, although it does when they are set. */
        if ((node->op->type == TN_CU_NODE_MEMSET && !tn_sim_op_valid_in_graph(node->op)) ||
            (in_body && !allowed_in_body(node->op->type)))
            return true;
        bool inside = in_body || node->op->type == TN_CU_NODE_CONDITIONAL;
        for (size_t j = 0; j < node->body_count; j++) {
            if (has_bad_node(node->bodies[j], inside))
                return true;
        }
    }
    return false;
}

/* Asks whether every handle of a condition made for a graph, or for a graph in it, has its node. */
static bool conditions_used(const struct tn_sim_graph *graph)
{
    const struct tn_sim_conditional *conditional = graph->conditionals;
    while (conditional != NULL && conditional->used)
        conditional = conditional->next;
    if (conditional != NULL)
        return false;
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct tn_sim_node *node = graph->nodes.items[i];
        for (size_t j = 0; j < node->body_count; j++) {
            if (!conditions_used(node->bodies[j]))
                return false;
        }
    }
    return true;
}

static bool has_cycle(const struct tn_sim_graph *graph)
{
    if (graph->order.count < graph->nodes.count)
        return true;
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct tn_sim_node *node = graph->nodes.items[i];
        for (size_t j = 0; j < node->body_count; j++) {
            if (has_cycle(node->bodies[j]))
                return true;
        }
    }
    return false;
}

/* Makes an executable graph of nodes that are all good. If the graph's structure prevents this,
 * stores the reason in *why. */
static tn_cu_result create(struct tn_sim_graph *graph, struct tn_sim_context *context,
                           uint64_t flags, struct tn_sim_exec **made, int *why)
{
    struct tn_sim_exec *exec = calloc(1, sizeof *exec);
    if (exec == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    exec->references = 1;
    exec->plan = tn_sim_plan_create(graph);
    if (exec->plan == NULL) {
        release(exec);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (has_cycle(exec->plan->graph)) {
        *why = INSTANTIATE_INVALID_STRUCTURE;
        release(exec);
        return TN_CUDA_ERROR_INVALID_VALUE;
    }
    if (!tn_sim_register(&exec->object, TN_SIM_KIND_EXEC, context)) {
        release(exec);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!tn_sim_exec_space_take(exec)) {
        tn_sim_unregister(&exec->object);
        release(exec);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    exec->flags = flags & TOLD_FLAGS;
    exec->memory = graph->memory;
    if (exec->memory != NULL) {
        exec->memory->references++;
        exec->memory->instantiated = true;
    }
    tn_sim.ledger.graph_execs++;
    tn_sim_charge(exec->plan->steps.count);
    *made = exec;
    return TN_CUDA_SUCCESS;
}

static tn_cu_result instantiate(tn_cu_graph handle, uint64_t flags, struct tn_sim_exec **exec,
                                int *why)
{
    struct tn_sim_graph *graph;
    struct tn_sim_context *context;
    tn_cu_result result = tn_sim_graph_find(handle, &graph);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_context_current(&context);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (graph->memory != NULL && graph->memory->instantiated) /* SE2 */
        return TN_CUDA_ERROR_NOT_SUPPORTED;
    if (has_bad_node(graph, false) || !conditions_used(graph))
        return TN_CUDA_ERROR_INVALID_VALUE;
    return create(graph, context, flags, exec, why);
}

tn_cu_result tn_sim_cuGraphInstantiateWithFlags(tn_cu_graphexec *handle, tn_cu_graph graph,
                                                unsigned long long flags)
{
    struct tn_sim_exec *exec;
    int why;
    if (handle == NULL || (flags & ~PLAIN_FLAGS) != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = instantiate(graph, flags, &exec, &why);
    if (result == TN_CUDA_SUCCESS)
        *handle = (tn_cu_graphexec)exec->object.handle;
    return result;
}

static void destroy(struct tn_sim_exec *exec)
{
    tn_sim_unregister(&exec->object);
    tn_sim.ledger.graph_execs--;
    if (exec->memory != NULL) {
        exec->memory->instantiated = false;
        tn_sim_graph_memory_release(exec->memory);
        exec->memory = NULL;
    }
    release(exec);
}

tn_cu_result tn_sim_cuGraphInstantiateWithParams(tn_cu_graphexec *handle, tn_cu_graph graph,
                                                 tn_cu_instantiate_params *params)
{
    struct tn_sim_exec *exec;
    struct tn_sim_stream *stream;
    int why = INSTANTIATE_ERROR;
    if (handle == NULL || params == NULL || (params->flags & ~KNOWN_FLAGS) != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    params->failed_node = NULL;
    bool upload = (params->flags & TN_CU_GRAPH_INSTANTIATE_UPLOAD) != 0;
    tn_cu_result result =
        upload ? tn_sim_stream_find(params->upload_stream, &stream) : TN_CUDA_SUCCESS;
    if (result == TN_CUDA_SUCCESS)
        result = instantiate(graph, params->flags, &exec, &why);
    if (result == TN_CUDA_SUCCESS && upload) {
        result = tn_sim_exec_memory_attach(exec);
        if (result != TN_CUDA_SUCCESS)
            destroy(exec);
    }
    if (result == TN_CUDA_SUCCESS) {
        params->result = INSTANTIATE_SUCCESS;
        *handle = (tn_cu_graphexec)exec->object.handle;
        return TN_CUDA_SUCCESS;
    }
    params->result = why; /* which node failed the driver does not say */
    return result;
}

tn_cu_result tn_sim_exec_find(tn_cu_graphexec handle, struct tn_sim_exec **exec)
{
    if (handle == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    *exec = tn_sim_find(TN_SIM_KIND_EXEC, (uintptr_t)handle);
    return *exec == NULL ? TN_CUDA_ERROR_INVALID_HANDLE : TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuGraphExecDestroy(tn_cu_graphexec handle)
{
    struct tn_sim_exec *exec;
    tn_cu_result result = tn_sim_exec_find(handle, &exec);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS)
        return result;
    tn_sim_charge(exec->plan->steps.count);
    destroy(exec);
    return TN_CUDA_SUCCESS; /* also in a context that has faulted */
}

tn_cu_result tn_sim_cuGraphExecGetFlags(tn_cu_graphexec handle, uint64_t *flags)
{
    struct tn_sim_exec *exec;
    if (flags == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_exec_find(handle, &exec);
    if (result == TN_CUDA_SUCCESS)
        *flags = exec->flags;
    return result;
}

/* -- Launching -- */

/* Queues the steps of a launch, in as many parts as its events make. */
static tn_cu_result push(struct tn_sim_exec *exec, struct tn_sim_stream *stream)
{
    const struct tn_sim_node_set *steps = &exec->plan->steps;
    struct tn_sim_part part = {.exec = exec, .plan = exec->plan, .last = &exec->last};
    const struct tn_sim_point *after = NULL;
    for (size_t i = 0; i < steps->count; i++) {
        const struct tn_sim_op *op = steps->items[i]->op;
        bool waits = op->type == TN_CU_NODE_WAIT_EVENT;
        bool records = op->type == TN_CU_NODE_EVENT_RECORD;
        if (!waits && !records)
            continue;
        part.end = records ? i + 1 : i;
        tn_cu_result result = tn_sim_queue_push(stream, NULL, &part, after);
        if (result == TN_CUDA_SUCCESS && records)
            result = tn_sim_event_replayed(op->event, stream);
        if (result != TN_CUDA_SUCCESS)
            return result;
        after = waits ? &op->event->point : NULL;
        part.first = part.end;
    }
    part.end = steps->count;
    return tn_sim_queue_push(stream, NULL, &part, after);
}

tn_cu_result tn_sim_cuGraphLaunch(tn_cu_graphexec handle, tn_cu_stream stream_handle)
{
    struct tn_sim_exec *exec;
    struct tn_sim_stream *stream;
    tn_cu_result result = tn_sim_exec_find(handle, &exec);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_stream_find_idle(stream_handle, &stream);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_context_health(exec->object.context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    result = tn_sim_exec_memory_ready(exec);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_exec_memory_claim(exec, stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    tn_sim_charge(exec->last.stream == NULL ? exec->plan->steps.count : 0);
    result = push(exec, stream);
    if (result == TN_CUDA_SUCCESS)
        tn_sim_exec_memory_launch(exec, stream);
    tn_sim_exec_memory_unclaim(exec);
    return result;
}

tn_cu_result tn_sim_cuGraphUpload(tn_cu_graphexec handle, tn_cu_stream stream_handle)
{
    struct tn_sim_exec *exec;
    struct tn_sim_stream *stream;
    tn_cu_result result = tn_sim_exec_find(handle, &exec);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_stream_find_idle(stream_handle, &stream);
    return result == TN_CUDA_SUCCESS ? tn_sim_exec_memory_attach(exec) : result;
}
