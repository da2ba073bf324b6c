// SPDX-License-Identifier: Apache-2.0
/* dot.c -- cuGraphDebugDotPrint: a graph as a file for people and for Graphviz.
 *
 * How it works. Every node is a box with its type, its place, and with a kernel its name and launch
 * shape; flags add handles. Child graphs and bodies follow as clusters.
 *
 * Trade-offs. The driver has many flags, each for a kind of detail. Here any flag adds all details.
 * The file is written without giving up the lock. */
#include <stdio.h>

#include "sim/code/module.h"
#include "sim/exec/node_params.h"

static const char *const type_names[] = {
    [TN_CU_NODE_KERNEL] = "KERNEL",
    [TN_CU_NODE_MEMCPY] = "MEMCPY",
    [TN_CU_NODE_MEMSET] = "MEMSET",
    [TN_CU_NODE_HOST] = "HOST",
    [TN_CU_NODE_GRAPH] = "GRAPH",
    [TN_CU_NODE_EMPTY] = "EMPTY",
    [TN_CU_NODE_WAIT_EVENT] = "WAIT_EVENT",
    [TN_CU_NODE_EVENT_RECORD] = "EVENT_RECORD",
    [TN_CU_NODE_MEM_ALLOC] = "MEM_ALLOC",
    [TN_CU_NODE_MEM_FREE] = "MEM_FREE",
    [TN_CU_NODE_BATCH_MEM_OP] = "BATCH_MEM_OP",
    [TN_CU_NODE_CONDITIONAL] = "CONDITIONAL",
};

/* A file being written. */
struct printing {
    FILE *file;
    bool detailed;
};

static void print_node(const struct printing *printing, const struct tn_sim_node *node)
{
    fprintf(printing->file, "\"%#zx\" [shape=box label=\"%zu %s", (size_t)node->object.handle,
            node->index, type_names[node->op->type]);
    if (node->op->type == TN_CU_NODE_KERNEL) {
        const tarn_sim_launch *launch = &node->op->kernel.launch;
        fprintf(printing->file, "\\n%s\\n<<<%u,%u,%u; %u,%u,%u; %u>>>",
                node->op->kernel.code->entry.name, launch->grid[0], launch->grid[1],
                launch->grid[2], launch->block[0], launch->block[1], launch->block[2],
                launch->shared_bytes);
    }
    if (printing->detailed)
        fprintf(printing->file, "\\n%#zx", (size_t)node->object.handle);
    fprintf(printing->file, "\"];\n");
    for (size_t i = 0; i < node->before.count; i++)
        fprintf(printing->file, "\"%#zx\" -> \"%#zx\";\n",
                (size_t)node->before.items[i]->object.handle, (size_t)node->object.handle);
}

static void print_graph(const struct printing *printing, const struct tn_sim_graph *graph)
{
    fprintf(printing->file, "subgraph \"cluster_%#zx\" {\n", (size_t)graph->object.handle);
    for (size_t i = 0; i < graph->nodes.count; i++)
        print_node(printing, graph->nodes.items[i]);
    fprintf(printing->file, "}\n");
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct tn_sim_node *node = graph->nodes.items[i];
        for (size_t j = 0; j < node->body_count; j++)
            print_graph(printing, node->bodies[j]);
    }
}

tn_cu_result tn_sim_cuGraphDebugDotPrint(tn_cu_graph handle, const char *path, unsigned int flags)
{
    struct tn_sim_graph *graph;
    if (path == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_graph_find(handle, &graph);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct printing printing = {.file = fopen(path, "w"), .detailed = flags != 0};
    if (printing.file == NULL)
        return TN_CUDA_ERROR_OPERATING_SYSTEM;
    fprintf(printing.file, "digraph dot {\n");
    print_graph(&printing, graph);
    fprintf(printing.file, "}\n");
    bool written = ferror(printing.file) == 0;
    return fclose(printing.file) == 0 && written ? TN_CUDA_SUCCESS : TN_CUDA_ERROR_OPERATING_SYSTEM;
}
