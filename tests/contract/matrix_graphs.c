// SPDX-License-Identifier: Apache-2.0
/* matrix_graphs.c -- the rows of graphs and user objects. */
#include <string.h>

#include "contract/matrix.h"

#define PAGE ((size_t)4096)

static void make_graph(struct matrix_things *t)
{
    SET_UP(cuGraphCreate(&t->graph, 0));
}

static void drop_graph(struct matrix_things *t)
{
    SET_UP(cuGraphDestroy(t->graph));
}

/* A graph with a node. */
static void make_node(struct matrix_things *t)
{
    make_graph(t);
    SET_UP(cuGraphAddEmptyNode(&t->node, t->graph, NULL, 0));
}

static void make_two_nodes(struct matrix_things *t)
{
    make_node(t);
    SET_UP(cuGraphAddEmptyNode(&t->made_node, t->graph, NULL, 0));
}

static tn_cu_alloc_node_params alloc_params(void)
{
    return (tn_cu_alloc_node_params){
        .pool_props = {.type = TN_CU_MEM_ALLOCATION_TYPE_PINNED,
                       .location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE}},
        .bytes = PAGE,
    };
}

static tn_cu_result add_alloc_node(struct matrix_things *t)
{
    tn_cu_alloc_node_params params = alloc_params();
    tn_cu_result result = cu.cuGraphAddMemAllocNode(&t->node, t->graph, NULL, 0, &params);
    t->address = params.address;
    return result;
}

static void make_alloc_node(struct matrix_things *t)
{
    make_graph(t);
    contract_set_up("cuGraphAddMemAllocNode(", add_alloc_node(t), __FILE__, __LINE__);
}

static tn_cu_result add_node(struct matrix_things *t)
{
    tn_cu_node_params params = {.type = TN_CU_NODE_EMPTY};
    return cu.cuGraphAddNode(&t->node, t->graph, NULL, NULL, 0, &params);
}

static tn_cu_result add_dependency(struct matrix_things *t)
{
    tn_cu_edge_data edge = {0};
    return cu.cuGraphAddDependencies(t->graph, &t->node, &t->made_node, &edge, 1);
}

static tn_cu_result create_conditional(struct matrix_things *t)
{
    tn_cu_conditional handle;
    return cu.cuGraphConditionalHandleCreate(&handle, t->graph, t->context, 0, 0);
}

static tn_cu_result instantiate_with_params(struct matrix_things *t)
{
    tn_cu_instantiate_params params = {0};
    return cu.cuGraphInstantiateWithParams(&t->exec, t->graph, &params);
}

static tn_cu_result update(struct matrix_things *t)
{
    tn_cu_update_result_info info;
    return cu.cuGraphExecUpdate(t->exec, t->graph, &info);
}

static tn_cu_result count_dependencies(struct matrix_things *t)
{
    return cu.cuGraphNodeGetDependencies(t->node, NULL, NULL, &t->bytes);
}

static tn_cu_result count_dependents(struct matrix_things *t)
{
    return cu.cuGraphNodeGetDependentNodes(t->node, NULL, NULL, &t->bytes);
}

/* Names a graph that calls share, with its node of that type. */
static void use(struct matrix_things *t, tn_cu_graphnode_type type, bool with_exec)
{
    const struct matrix_graph *made = matrix_graph(t, type, with_exec);
    t->graph = made->graph;
    t->node = made->node;
    t->exec = made->exec;
}

static void use_kernel(struct matrix_things *t, bool with_exec)
{
    use(t, TN_CU_NODE_KERNEL, with_exec);
    SET_UP(cuGraphKernelNodeGetParams(t->node, &t->params.kernel));
}

static void use_copy(struct matrix_things *t)
{
    use(t, TN_CU_NODE_MEMCPY, true);
    SET_UP(cuGraphMemcpyNodeGetParams(t->node, &t->params.memcpy));
}

static void use_set(struct matrix_things *t)
{
    use(t, TN_CU_NODE_MEMSET, true);
    SET_UP(cuGraphMemsetNodeGetParams(t->node, &t->params.memset));
}

/* A batch as a node has it, as the batch for other nodes. Its operations are the node's own memory,
 * which goes when the node gets others. */
static void use_batch(struct matrix_things *t, bool with_exec)
{
    static tn_cu_batch_op ops[4];
    use(t, TN_CU_NODE_BATCH_MEM_OP, with_exec);
    SET_UP(cuGraphBatchMemOpNodeGetParams(t->node, &t->params.batch));
    if (t->params.batch.count > 4)
        contract_give_up("the batch is larger than this case knows");
    memcpy(ops, t->params.batch.ops, t->params.batch.count * sizeof *ops);
    t->params.batch.ops = ops;
}

static void use_batch_in_new_graph(struct matrix_things *t)
{
    use_batch(t, false);
    make_graph(t);
}

static void make_exec(struct matrix_things *t)
{
    use(t, TN_CU_NODE_KERNEL, false);
    SET_UP(cuGraphInstantiateWithFlags(&t->exec, t->graph, 0));
}

static void drop_exec(struct matrix_things *t)
{
    SET_UP(cuGraphExecDestroy(t->exec));
}

/* A graph of a child graph; no capture makes one. */
static void make_child(struct matrix_things *t)
{
    tn_cu_graph child = matrix_graph(t, TN_CU_NODE_KERNEL, false)->graph;
    make_graph(t);
    SET_UP(cuGraphAddChildGraphNode(&t->node, t->graph, NULL, 0, child));
}

static tn_cu_result add_child(struct matrix_things *t)
{
    return cu.cuGraphAddChildGraphNode(&t->node, t->graph, NULL, 0,
                                       t->graphs[TN_CU_NODE_KERNEL].graph);
}

/* The graph of the capture under way. */
static tn_cu_graph captured_graph(struct matrix_things *t)
{
    tn_cu_capture_status status;
    tn_cu_graph graph = NULL;
    cu.cuStreamGetCaptureInfo(t->stream, &status, NULL, &graph, NULL, NULL, NULL);
    return graph;
}

static void make_object(struct matrix_things *t)
{
    SET_UP(
        cuUserObjectCreate(&t->object, t, matrix_nothing, 1, TN_CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
}

static void make_graph_with_object(struct matrix_things *t)
{
    make_object(t);
    make_graph(t);
    SET_UP(cuGraphRetainUserObject(t->graph, t->object, 1, 0));
}

static void drop_object(struct matrix_things *t)
{
    SET_UP(cuUserObjectRelease(t->object, 1));
}

static void use_kernel_in_new_graph(struct matrix_things *t)
{
    use_kernel(t, false);
    make_graph(t);
}

// clang-format off
#define ROWS(X)                                                                                    \
    X(cuGraphCreate, false, FREE, , cu.cuGraphCreate(&t->graph, 0), if (done) drop_graph(t))       \
    X(cuGraphDestroy, false, FREE, make_graph(t), cu.cuGraphDestroy(t->graph),                     \
      if (!done) drop_graph(t))                                                                    \
    X(cuGraphClone, false, FREE, (void)matrix_graph(t, TN_CU_NODE_KERNEL, false),                  \
      cu.cuGraphClone(&t->graph, t->graphs[TN_CU_NODE_KERNEL].graph), if (done) drop_graph(t))     \
    X(cuGraphAddNode, false, FREE, make_graph(t), add_node(t), drop_graph(t))                      \
    X(cuGraphAddEmptyNode, false, FREE, make_graph(t),                                             \
      cu.cuGraphAddEmptyNode(&t->node, t->graph, NULL, 0), drop_graph(t))                          \
    X(cuGraphAddKernelNode, false, FREE, use_kernel_in_new_graph(t),                               \
      cu.cuGraphAddKernelNode(&t->node, t->graph, NULL, 0, &t->params.kernel), drop_graph(t))      \
    X(cuGraphAddChildGraphNode, false, FREE, make_child(t), add_child(t), drop_graph(t))           \
    X(cuGraphAddMemAllocNode, false, FREE, make_graph(t), add_alloc_node(t), drop_graph(t))        \
    X(cuGraphAddMemFreeNode, false, FREE, make_alloc_node(t),                                      \
      cu.cuGraphAddMemFreeNode(&t->made_node, t->graph, &t->node, 1, t->address), drop_graph(t))   \
    X(cuGraphAddDependencies, false, FREE, make_two_nodes(t), add_dependency(t), drop_graph(t))    \
    X(cuGraphDestroyNode, false, FREE, make_node(t), cu.cuGraphDestroyNode(t->node),               \
      drop_graph(t))                                                                               \
    X(cuGraphConditionalHandleCreate, false, FREE, make_graph(t), create_conditional(t),           \
      drop_graph(t))                                                                               \
    X(cuGraphInstantiateWithFlags, false, UNSAFE, use(t, TN_CU_NODE_KERNEL, false),                \
      cu.cuGraphInstantiateWithFlags(&t->exec, t->graph, 0), if (done) drop_exec(t))               \
    X(cuGraphInstantiateWithParams, false, UNSAFE, use(t, TN_CU_NODE_KERNEL, false),               \
      instantiate_with_params(t), if (done) drop_exec(t))                                          \
    X(cuGraphExecDestroy, false, UNSAFE, make_exec(t), cu.cuGraphExecDestroy(t->exec),             \
      if (!done) drop_exec(t))                                                                     \
    X(cuGraphExecGetFlags, false, FREE, use(t, TN_CU_NODE_KERNEL, true),                           \
      cu.cuGraphExecGetFlags(t->exec, (uint64_t *)&t->word), )                                     \
    X(cuGraphExecUpdate, false, FREE, use(t, TN_CU_NODE_KERNEL, true), update(t), )                \
    X(cuGraphGetNodes, false, FREE, use(t, TN_CU_NODE_KERNEL, false),                              \
      cu.cuGraphGetNodes(t->graph, NULL, &t->bytes), )                                             \
    X(cuGraphGetRootNodes, false, FREE, use(t, TN_CU_NODE_KERNEL, false),                          \
      cu.cuGraphGetRootNodes(t->graph, NULL, &t->bytes), )                                         \
    X(cuGraphGetEdges, false, FREE, use(t, TN_CU_NODE_KERNEL, false),                              \
      cu.cuGraphGetEdges(t->graph, NULL, NULL, NULL, &t->bytes), )                                 \
    X(cuGraphNodeGetType, false, FREE, use(t, TN_CU_NODE_KERNEL, false),                           \
      cu.cuGraphNodeGetType(t->node, (tn_cu_graphnode_type *)&t->number), )                        \
    X(cuGraphNodeGetDependencies, false, FREE, use(t, TN_CU_NODE_KERNEL, false),                   \
      count_dependencies(t), )                                                                     \
    X(cuGraphNodeGetDependentNodes, false, FREE, use(t, TN_CU_NODE_KERNEL, false),                 \
      count_dependents(t), )                                                                       \
    X(cuGraphNodeSetEnabled, false, FREE, use(t, TN_CU_NODE_KERNEL, true),                         \
      cu.cuGraphNodeSetEnabled(t->exec, t->node, 1), )                                             \
    X(cuGraphNodeGetEnabled, false, FREE, use(t, TN_CU_NODE_KERNEL, true),                         \
      cu.cuGraphNodeGetEnabled(t->exec, t->node, (unsigned int *)&t->number), )                    \
    X(cuGraphKernelNodeGetParams, false, FREE, use(t, TN_CU_NODE_KERNEL, false),                   \
      cu.cuGraphKernelNodeGetParams(t->node, &t->params.kernel), )                                 \
    X(cuGraphKernelNodeSetParams, false, FREE, use_kernel(t, false),                               \
      cu.cuGraphKernelNodeSetParams(t->node, &t->params.kernel), )                                 \
    X(cuGraphExecKernelNodeSetParams, false, FREE, use_kernel(t, true),                            \
      cu.cuGraphExecKernelNodeSetParams(t->exec, t->node, &t->params.kernel), )                    \
    X(cuGraphMemcpyNodeGetParams, false, FREE, use(t, TN_CU_NODE_MEMCPY, false),                   \
      cu.cuGraphMemcpyNodeGetParams(t->node, &t->params.memcpy), )                                 \
    X(cuGraphExecMemcpyNodeSetParams, false, FREE, use_copy(t),                                    \
      cu.cuGraphExecMemcpyNodeSetParams(t->exec, t->node, &t->params.memcpy, t->context), )        \
    X(cuGraphMemsetNodeGetParams, false, FREE, use(t, TN_CU_NODE_MEMSET, false),                   \
      cu.cuGraphMemsetNodeGetParams(t->node, &t->params.memset), )                                 \
    X(cuGraphExecMemsetNodeSetParams, false, FREE, use_set(t),                                     \
      cu.cuGraphExecMemsetNodeSetParams(t->exec, t->node, &t->params.memset, t->context), )        \
    X(cuGraphHostNodeGetParams, false, FREE, use(t, TN_CU_NODE_HOST, false),                       \
      cu.cuGraphHostNodeGetParams(t->node, &t->params.host), )                                     \
    X(cuGraphChildGraphNodeGetGraph, false, FREE, make_child(t),                                   \
      cu.cuGraphChildGraphNodeGetGraph(t->node, (tn_cu_graph *)&t->pointer), drop_graph(t))        \
    X(cuGraphEventRecordNodeGetEvent, false, FREE, use(t, TN_CU_NODE_EVENT_RECORD, false),         \
      cu.cuGraphEventRecordNodeGetEvent(t->node, &t->event), )                                     \
    X(cuGraphEventWaitNodeGetEvent, false, FREE, use(t, TN_CU_NODE_WAIT_EVENT, false),             \
      cu.cuGraphEventWaitNodeGetEvent(t->node, &t->event), )                                       \
    X(cuGraphMemAllocNodeGetParams, false, FREE, use(t, TN_CU_NODE_MEM_ALLOC, false),              \
      cu.cuGraphMemAllocNodeGetParams(t->node, &t->params.alloc), )                                \
    X(cuGraphMemFreeNodeGetParams, false, FREE, use(t, TN_CU_NODE_MEM_FREE, false),                \
      cu.cuGraphMemFreeNodeGetParams(t->node, &t->address), )                                      \
    X(cuGraphBatchMemOpNodeGetParams, false, FREE, use(t, TN_CU_NODE_BATCH_MEM_OP, false),         \
      cu.cuGraphBatchMemOpNodeGetParams(t->node, &t->params.batch), )                              \
    X(cuGraphAddBatchMemOpNode, false, FREE, use_batch_in_new_graph(t),                            \
      cu.cuGraphAddBatchMemOpNode(&t->node, t->graph, NULL, 0, &t->params.batch), drop_graph(t))   \
    X(cuGraphBatchMemOpNodeSetParams, false, FREE, use_batch(t, false),                            \
      cu.cuGraphBatchMemOpNodeSetParams(t->node, &t->params.batch), )                              \
    X(cuGraphExecBatchMemOpNodeSetParams, false, FREE, use_batch(t, true),                         \
      cu.cuGraphExecBatchMemOpNodeSetParams(t->exec, t->node, &t->params.batch), )                 \
    X(cuGraphDebugDotPrint, false, FREE, use(t, TN_CU_NODE_KERNEL, false),                         \
      cu.cuGraphDebugDotPrint(t->graph, "/dev/null", 0), )                                         \
                                                                                                   \
    X(cuUserObjectCreate, false, FREE, ,                                                           \
      cu.cuUserObjectCreate(&t->object, t, matrix_nothing, 1,                                      \
                            TN_CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),                                 \
      if (done) drop_object(t))                                                                    \
    X(cuUserObjectRetain, false, FREE, make_object(t), cu.cuUserObjectRetain(t->object, 1),        \
      SET_UP(cuUserObjectRelease(t->object, done ? 2 : 1)))                                        \
    X(cuUserObjectRelease, false, FREE, make_object(t), cu.cuUserObjectRelease(t->object, 1),      \
      if (!done) drop_object(t))                                                                   \
    X(cuGraphRetainUserObject, false, FREE, make_object(t); make_graph(t),                         \
      cu.cuGraphRetainUserObject(t->graph, t->object, 1, 0),                                       \
      drop_graph(t); drop_object(t))                                                               \
    X(cuGraphReleaseUserObject, false, FREE, make_graph_with_object(t),                            \
      cu.cuGraphReleaseUserObject(t->graph, t->object, 1),                                         \
      drop_graph(t); drop_object(t))

/* The graph is that of the capture under way; elsewhere it is another one. */
#define CAPTURED_ROWS(X)                                                                           \
    X(cuGraphDestroy_captured, false, FREE_GIVING(ILLEGAL_STATE), LEFT_OUT, LEFT_OUT, LEFT_OUT, ,  \
      cu.cuGraphDestroy(captured_graph(t)), )                                                      \
    X(cuGraphGetNodes_captured, false, FREE, LEFT_OUT, LEFT_OUT, LEFT_OUT, ,                       \
      cu.cuGraphGetNodes(captured_graph(t), NULL, &t->bytes), )                                    \
    X(cuGraphAddEmptyNode_captured, false, NODE(EMPTY), LEFT_OUT, LEFT_OUT, LEFT_OUT, ,            \
      cu.cuGraphAddEmptyNode(&t->node, captured_graph(t), NULL, 0), )                              \
    X(cuGraphClone_captured, false, FREE, LEFT_OUT, LEFT_OUT, LEFT_OUT, ,                          \
      cu.cuGraphClone(&t->graph, captured_graph(t)), if (done) drop_graph(t))                      \
    X(cuGraphInstantiateWithFlags_captured, false, UNSAFE, LEFT_OUT, LEFT_OUT, LEFT_OUT, ,         \
      cu.cuGraphInstantiateWithFlags(&t->exec, captured_graph(t), 0), if (done) drop_exec(t))      \
    X(cuGraphRetainUserObject_captured, false, FREE, LEFT_OUT, LEFT_OUT, LEFT_OUT, make_object(t), \
      cu.cuGraphRetainUserObject(captured_graph(t), t->object, 1, 0), drop_object(t))
// clang-format on

ROWS(MATRIX_DEFINE)
CAPTURED_ROWS(MATRIX_DEFINE_STREAM)
static const struct matrix_row rows[] = {ROWS(MATRIX_ENTRY) CAPTURED_ROWS(MATRIX_ENTRY_STREAM)};
const struct matrix_table matrix_graphs = {rows, sizeof rows / sizeof rows[0]};
