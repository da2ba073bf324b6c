// SPDX-License-Identifier: Apache-2.0
/* graph.c -- graphs by hand: nodes and edges, what is asked of them, clones, graphs in graphs. */
#include "contract/graph_tools.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- Create and destroy -- */

CASE_BODY(create)
{
    tn_cu_graph graph = NULL;
    GIVES(INVALID_VALUE, cuGraphCreate(NULL, 0));
    GIVES(INVALID_VALUE, cuGraphCreate(&graph, 1));
    HOLDS(graph == NULL, "no graph was made");
    GIVES(SUCCESS, cuGraphCreate(&graph, 0));
    size_t count = 7;
    GIVES(SUCCESS, cuGraphGetNodes(graph, NULL, &count));
    HOLDS(count == 0, "a new graph is empty");
    GIVES(SUCCESS, cuGraphDestroy(graph));
    GIVES(INVALID_VALUE, cuGraphDestroy(NULL));
}

/* The same calls on a thread without a context. */
struct elsewhere {
    tn_cu_result create, add, instantiate, destroy;
};

static void without_context_body(void *argument)
{
    struct elsewhere *answers = argument;
    tn_cu_graph graph = NULL;
    tn_cu_graphnode node = NULL;
    tn_cu_graphexec exec = NULL;
    cu.cuCtxSetCurrent(NULL);
    answers->create = cu.cuGraphCreate(&graph, 0);
    answers->add = cu.cuGraphAddEmptyNode(&node, graph, NULL, 0);
    answers->instantiate = cu.cuGraphInstantiateWithFlags(&exec, graph, 0);
    answers->destroy = cu.cuGraphDestroy(graph);
}

CASE_BODY(without_context)
{
    struct elsewhere answers;
    contract_elsewhere(without_context_body, &answers);
    contract_gives(TN_CUDA_SUCCESS, "cuGraphCreate(", answers.create);
    contract_gives(TN_CUDA_SUCCESS, "cuGraphAddEmptyNode(", answers.add);
    contract_gives(TN_CUDA_ERROR_INVALID_CONTEXT, "cuGraphInstantiateWithFlags(",
                   answers.instantiate);
    contract_gives(TN_CUDA_SUCCESS, "cuGraphDestroy(", answers.destroy);
}

/* -- Lists of nodes -- */

CASE_BODY(nodes)
{
    tn_cu_graph graph = graph_new();
    tn_cu_graphnode a = graph_empty(graph, NULL);
    tn_cu_graphnode b = graph_empty(graph, a);
    tn_cu_graphnode c = graph_empty(graph, NULL);
    tn_cu_graphnode list[5] = {NULL, NULL, NULL, a, a};
    size_t count = 0;
    GIVES(SUCCESS, cuGraphGetNodes(graph, NULL, &count));
    HOLDS(count == 3, "three nodes");
    count = 2;
    GIVES(SUCCESS, cuGraphGetNodes(graph, list, &count));
    STATE("room for 2 gives %zu", count);
    HOLDS(list[0] == a && list[1] == b && list[2] == NULL, "the first two");
    count = 5;
    GIVES(SUCCESS, cuGraphGetNodes(graph, list, &count));
    STATE("room for 5 gives %zu", count);
    HOLDS(list[0] == a && list[1] == b && list[2] == c, "in the order they were added");
    HOLDS(list[3] == NULL && list[4] == NULL, "the rest is NULL");
    GIVES(INVALID_VALUE, cuGraphGetNodes(NULL, NULL, &count));
    GIVES(INVALID_VALUE, cuGraphGetNodes(graph, list, NULL));
    graph_end(graph, NULL);
}

CASE_BODY(roots)
{
    tn_cu_graph graph = graph_new();
    tn_cu_graphnode a = graph_empty(graph, NULL);
    graph_empty(graph, a);
    tn_cu_graphnode c = graph_empty(graph, NULL);
    tn_cu_graphnode list[4] = {a, a, a, a};
    size_t count = 0;
    GIVES(SUCCESS, cuGraphGetRootNodes(graph, NULL, &count));
    HOLDS(count == 2, "two roots");
    count = 1;
    GIVES(SUCCESS, cuGraphGetRootNodes(graph, list, &count));
    STATE("room for 1 gives %zu", count);
    count = 4;
    GIVES(SUCCESS, cuGraphGetRootNodes(graph, list, &count));
    STATE("room for 4 gives %zu", count);
    HOLDS(list[0] == c && list[1] == a, "the newest first");
    HOLDS(list[2] == NULL && list[3] == NULL, "the rest is NULL");
    GIVES(INVALID_VALUE, cuGraphGetRootNodes(NULL, NULL, &count));
    GIVES(INVALID_VALUE, cuGraphGetRootNodes(graph, list, NULL));
    graph_end(graph, NULL);
}

/* -- Edges -- */

/* a -> b, a -> c, b -> d, c -> d. */
struct diamond {
    tn_cu_graph graph;
    tn_cu_graphnode a, b, c, d;
};

static struct diamond diamond(void)
{
    struct diamond made = {.graph = graph_new()};
    made.a = graph_empty(made.graph, NULL);
    made.b = graph_empty(made.graph, made.a);
    made.c = graph_empty(made.graph, made.a);
    tn_cu_graphnode both[] = {made.b, made.c};
    SET_UP(cuGraphAddEmptyNode(&made.d, made.graph, both, 2));
    return made;
}

static bool has_edge(tn_cu_graph graph, tn_cu_graphnode from, tn_cu_graphnode to)
{
    tn_cu_graphnode sources[GRAPH_MAX_NODES];
    tn_cu_graphnode targets[GRAPH_MAX_NODES];
    tn_cu_edge_data data[GRAPH_MAX_NODES];
    size_t count = GRAPH_MAX_NODES;
    SET_UP(cuGraphGetEdges(graph, sources, targets, data, &count));
    for (size_t i = 0; i < count; i++) {
        if (sources[i] == from && targets[i] == to)
            return true;
    }
    return false;
}

CASE_BODY(edges)
{
    struct diamond made = diamond();
    tn_cu_graphnode from[6] = {NULL};
    tn_cu_graphnode to[6] = {NULL};
    tn_cu_edge_data data[6];
    memset(data, 9, sizeof data);
    size_t count = 0;
    GIVES(SUCCESS, cuGraphGetEdges(made.graph, NULL, NULL, NULL, &count));
    HOLDS(count == 4, "four edges");
    count = 2;
    GIVES(SUCCESS, cuGraphGetEdges(made.graph, from, to, NULL, &count));
    STATE("room for 2 gives %zu", count);
    count = 6;
    from[5] = to[5] = made.a;
    GIVES(SUCCESS, cuGraphGetEdges(made.graph, from, to, data, &count));
    STATE("room for 6 gives %zu", count);
    HOLDS(from[5] == NULL && to[5] == NULL, "the rest is NULL");
    HOLDS(data[0].from_port == 0 && data[0].to_port == 0 && data[0].type == 0, "plain edges");
    HOLDS(has_edge(made.graph, made.a, made.b) && has_edge(made.graph, made.a, made.c) &&
              has_edge(made.graph, made.b, made.d) && has_edge(made.graph, made.c, made.d),
          "the edges that were made");
    count = 6;
    GIVES(INVALID_VALUE, cuGraphGetEdges(made.graph, from, NULL, NULL, &count));
    GIVES(INVALID_VALUE, cuGraphGetEdges(made.graph, NULL, to, NULL, &count));
    GIVES(INVALID_VALUE, cuGraphGetEdges(made.graph, from, to, NULL, NULL));
    GIVES(INVALID_VALUE, cuGraphGetEdges(NULL, NULL, NULL, NULL, &count));
    graph_end(made.graph, NULL);
}

CASE_BODY(neighbours)
{
    struct diamond made = diamond();
    tn_cu_graphnode list[4] = {NULL, NULL, made.a, made.a};
    tn_cu_edge_data data[4];
    memset(data, 9, sizeof data);
    size_t count = 0;
    GIVES(SUCCESS, cuGraphNodeGetDependencies(made.d, NULL, NULL, &count));
    HOLDS(count == 2, "two dependencies");
    count = 4;
    GIVES(SUCCESS, cuGraphNodeGetDependencies(made.d, list, data, &count));
    HOLDS(count == 2 && list[0] == made.b && list[1] == made.c, "they are the two");
    HOLDS(list[2] == NULL && list[3] == NULL, "the rest is NULL");
    HOLDS(data[0].type == 0 && data[1].type == 0, "plain edges");
    count = 1;
    GIVES(SUCCESS, cuGraphNodeGetDependencies(made.d, list, NULL, &count));
    STATE("room for 1 gives %zu", count);
    GIVES(SUCCESS, cuGraphNodeGetDependencies(made.a, NULL, NULL, &count));
    HOLDS(count == 0, "a root has none");
    GIVES(SUCCESS, cuGraphNodeGetDependentNodes(made.a, NULL, NULL, &count));
    HOLDS(count == 2, "two dependents");
    count = 4;
    GIVES(SUCCESS, cuGraphNodeGetDependentNodes(made.a, list, data, &count));
    HOLDS(count == 2 && list[0] == made.b && list[1] == made.c, "they are the two");
    count = 1;
    GIVES(SUCCESS, cuGraphNodeGetDependentNodes(made.a, list, NULL, &count));
    STATE("room for 1 gives %zu", count);
    GIVES(SUCCESS, cuGraphNodeGetDependentNodes(made.d, NULL, NULL, &count));
    HOLDS(count == 0, "a leaf has none");
    graph_end(made.graph, NULL);
}

CASE_BODY(neighbour_errors)
{
    tn_cu_graph graph = graph_new();
    tn_cu_graphnode node = graph_empty(graph, NULL);
    tn_cu_graphnode_type type;
    size_t count = 0;
    GIVES(INVALID_VALUE, cuGraphNodeGetDependencies(NULL, NULL, NULL, &count));
    GIVES(INVALID_VALUE, cuGraphNodeGetDependencies(node, NULL, NULL, NULL));
    GIVES(INVALID_VALUE, cuGraphNodeGetDependentNodes(NULL, NULL, NULL, &count));
    GIVES(INVALID_VALUE, cuGraphNodeGetDependentNodes(node, NULL, NULL, NULL));
    GIVES(INVALID_VALUE, cuGraphNodeGetType(NULL, &type));
    GIVES(INVALID_VALUE, cuGraphNodeGetType(node, NULL));
    graph_end(graph, NULL);
}

CASE_BODY(add_dependencies)
{
    tn_cu_graph graph = graph_new();
    tn_cu_graph other = graph_new();
    tn_cu_graphnode a = graph_empty(graph, NULL);
    tn_cu_graphnode b = graph_empty(graph, NULL);
    tn_cu_graphnode stranger = graph_empty(other, NULL);
    GIVES(SUCCESS, cuGraphAddDependencies(graph, &a, &b, NULL, 1));
    HOLDS(has_edge(graph, a, b), "the edge is there");
    GIVES(INVALID_VALUE, cuGraphAddDependencies(graph, &a, &b, NULL, 1));
    HOLDS(graph_edge_count(graph) == 1, "an edge is there once");
    GIVES(SUCCESS, cuGraphAddDependencies(graph, NULL, NULL, NULL, 0));
    GIVES(INVALID_VALUE, cuGraphAddDependencies(graph, &a, &a, NULL, 1));
    GIVES(INVALID_VALUE, cuGraphAddDependencies(graph, &a, &stranger, NULL, 1));
    GIVES(INVALID_VALUE, cuGraphAddDependencies(graph, NULL, &b, NULL, 1));
    GIVES(INVALID_VALUE, cuGraphAddDependencies(NULL, &a, &b, NULL, 1));
    STATE("%zu edges", graph_edge_count(graph));
    graph_end(graph, NULL);
    graph_end(other, NULL);
}

CASE_BODY(cycle)
{
    tn_cu_graphexec exec = NULL;
    tn_cu_graph graph = graph_new();
    tn_cu_graphnode a = graph_empty(graph, NULL);
    tn_cu_graphnode b = graph_empty(graph, a);
    tn_cu_graphnode c = graph_empty(graph, b);
    GIVES(SUCCESS, cuGraphAddDependencies(graph, &c, &a, NULL, 1));
    STATE("%zu edges", graph_edge_count(graph));
    GIVES(INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph, 0));
    GIVES(SUCCESS, cuGraphDestroy(graph));
}

CASE_BODY(edge_data)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graphnode a = graph_fill(bench.graph, NULL, bench.memory.address, 1, 4);
    tn_cu_graphnode b = graph_fill(bench.graph, NULL, bench.memory.address + 64, 1, 4);
    tn_cu_edge_data programmatic = {.from_port = 1, .type = 1};
    tn_cu_graphnode from = NULL;
    tn_cu_graphnode to = NULL;
    tn_cu_edge_data data = {0};
    size_t count = 1;
    GIVES(SUCCESS, cuGraphAddDependencies(bench.graph, &a, &b, &programmatic, 1));
    GIVES(LOSSY_QUERY, cuGraphGetEdges(bench.graph, &from, &to, NULL, &count));
    count = 1;
    GIVES(SUCCESS, cuGraphGetEdges(bench.graph, &from, &to, &data, &count));
    HOLDS(from == a && to == b && data.from_port == 1 && data.type == 1, "the edge as it was made");
    count = 1;
    GIVES(LOSSY_QUERY, cuGraphNodeGetDependencies(b, &from, NULL, &count));
    count = 1;
    GIVES(SUCCESS, cuGraphNodeGetDependencies(b, &from, &data, &count));
    HOLDS(from == a && data.type == 1, "the dependency as it was made");
    count = 1;
    GIVES(LOSSY_QUERY, cuGraphNodeGetDependentNodes(a, &to, NULL, &count));
    count = 1;
    GIVES(SUCCESS, cuGraphNodeGetDependentNodes(a, &to, &data, &count));
    HOLDS(to == b && data.type == 1, "the dependent as it was made");
    GIVES(SUCCESS, cuGraphGetEdges(bench.graph, NULL, NULL, NULL, &count));
    HOLDS(count == 1, "counting loses nothing");
    graph_bench_end(&bench);
}

CASE_BODY(edge_data_errors)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graphnode a = graph_fill(bench.graph, NULL, bench.memory.address, 1, 4);
    tn_cu_graphnode b = graph_fill(bench.graph, NULL, bench.memory.address + 64, 1, 4);
    tn_cu_graphnode c = graph_empty(bench.graph, NULL);
    tn_cu_edge_data type = {.type = 9};
    tn_cu_edge_data reserved = {.reserved = {1}};
    tn_cu_edge_data port = {.from_port = 9};
    tn_cu_edge_data programmatic = {.from_port = 1, .type = 1};
    GIVES(INVALID_VALUE, cuGraphAddDependencies(bench.graph, &a, &b, &type, 1));
    GIVES(INVALID_VALUE, cuGraphAddDependencies(bench.graph, &a, &b, &reserved, 1));
    GIVES(INVALID_VALUE, cuGraphAddDependencies(bench.graph, &a, &b, &port, 1));
    GIVES(INVALID_VALUE, cuGraphAddDependencies(bench.graph, &c, &b, &programmatic, 1));
    STATE("%zu edges", graph_edge_count(bench.graph));
    graph_bench_end(&bench);
}

/* -- Adding and removing nodes -- */

CASE_BODY(add_errors)
{
    tn_cu_graph graph = graph_new();
    tn_cu_graph other = graph_new();
    tn_cu_graphnode node = NULL;
    tn_cu_graphnode a = graph_empty(graph, NULL);
    tn_cu_graphnode twice[] = {a, a};
    tn_cu_graphnode stranger = graph_empty(other, NULL);
    tn_cu_graphnode none = NULL;
    GIVES(INVALID_VALUE, cuGraphAddEmptyNode(NULL, graph, NULL, 0));
    GIVES(INVALID_VALUE, cuGraphAddEmptyNode(&node, NULL, NULL, 0));
    GIVES(INVALID_VALUE, cuGraphAddEmptyNode(&node, graph, NULL, 1));
    GIVES(INVALID_VALUE, cuGraphAddEmptyNode(&node, graph, &none, 1));
    GIVES(INVALID_VALUE, cuGraphAddEmptyNode(&node, graph, twice, 2));
    GIVES(INVALID_VALUE, cuGraphAddEmptyNode(&node, graph, &stranger, 1));
    STATE("%zu nodes", graph_node_count(graph));
    graph_end(graph, NULL);
    graph_end(other, NULL);
}

CASE_BODY(destroy_node)
{
    struct diamond made = diamond();
    GIVES(SUCCESS, cuGraphDestroyNode(made.b));
    STATE("%zu nodes, %zu edges", graph_node_count(made.graph), graph_edge_count(made.graph));
    HOLDS(has_edge(made.graph, made.a, made.c) && has_edge(made.graph, made.c, made.d),
          "the edges of the others are left");
    GIVES(SUCCESS, cuGraphDestroyNode(made.a));
    size_t count = 7;
    GIVES(SUCCESS, cuGraphGetRootNodes(made.graph, NULL, &count));
    HOLDS(count == 1, "what depended on it is a root");
    GIVES(INVALID_VALUE, cuGraphDestroyNode(NULL));
    graph_end(made.graph, NULL);
}

/* -- Clones -- */

CASE_BODY(clone)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graphnode node = graph_fill(bench.graph, NULL, bench.memory.address, 5, 4);
    graph_add(bench.graph, node, bench.memory.address, 2);
    tn_cu_graph copy = NULL;
    GIVES(SUCCESS, cuGraphClone(&copy, bench.graph));
    HOLDS(copy != bench.graph && graph_node(copy, 0) != node, "it has nodes of its own");
    graph_empty(bench.graph, NULL);
    HOLDS(graph_node_count(copy) == 2 && graph_edge_count(copy) == 1, "later nodes are not in it");
    SET_UP(cuGraphDestroy(bench.graph));
    bench.graph = NULL;
    tn_cu_graphexec exec = graph_exec(copy);
    graph_run(exec, bench.stream);
    HOLDS(contract_word(bench.memory.address, 0) == 7, "it runs without the original");
    GIVES(INVALID_VALUE, cuGraphClone(NULL, copy));
    GIVES(INVALID_VALUE, cuGraphClone(&copy, NULL));
    graph_end(copy, exec);
    graph_bench_end(&bench);
}

/* -- Graphs in graphs -- */

CASE_BODY(child)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graph inner = graph_new();
    tn_cu_graph embedded = NULL;
    tn_cu_graph again = NULL;
    tn_cu_graphnode node = NULL;
    tn_cu_deviceptr word = bench.memory.address;
    tn_cu_graphnode first = graph_fill(inner, NULL, word, 5, 1);
    graph_add(inner, first, word, 2);
    GIVES(SUCCESS, cuGraphAddChildGraphNode(&node, bench.graph, NULL, 0, inner));
    HOLDS(graph_type(node) == TN_CU_NODE_GRAPH, "a node of type 4");
    GIVES(SUCCESS, cuGraphChildGraphNodeGetGraph(node, &embedded));
    GIVES(SUCCESS, cuGraphChildGraphNodeGetGraph(node, &again));
    HOLDS(embedded != inner && embedded == again, "a clone is embedded");
    HOLDS(graph_node_count(embedded) == 2 && graph_edge_count(embedded) == 1, "it can be walked");
    HOLDS(graph_type(graph_node(embedded, 0)) == TN_CU_NODE_KERNEL, "down to its kernels");
    graph_empty(inner, NULL);
    HOLDS(graph_node_count(embedded) == 2, "later nodes of the original are not in it");
    SET_UP(cuGraphDestroy(inner));
    graph_add(bench.graph, node, word, 10);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    graph_run(exec, bench.stream);
    HOLDS(contract_word(word, 0) == 17, "it runs in its place");
    graph_end(NULL, exec);
    graph_bench_end(&bench);
}

CASE_BODY(child_grows)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graph inner = graph_new();
    tn_cu_graph embedded = NULL;
    tn_cu_graphnode node = NULL;
    tn_cu_graphnode first = graph_fill(inner, NULL, bench.memory.address, 5, 1);
    SET_UP(cuGraphAddChildGraphNode(&node, bench.graph, NULL, 0, inner));
    SET_UP(cuGraphChildGraphNodeGetGraph(node, &embedded));
    struct graph_words words;
    tn_cu_kernel_node_params params = graph_add_params(&words, bench.memory.address, 2);
    tn_cu_graphnode last = graph_node(embedded, 0);
    HOLDS(last != first, "the clone has nodes of its own");
    GIVES(SUCCESS, cuGraphAddKernelNode(&node, embedded, &last, 1, &params));
    tn_cu_graphexec exec = graph_exec(bench.graph);
    graph_run(exec, bench.stream);
    STATE("the word is %u", contract_word(bench.memory.address, 0));
    graph_end(inner, exec);
    graph_bench_end(&bench);
}

CASE_BODY(child_nested)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graph inner = graph_new();
    tn_cu_graph middle = graph_new();
    tn_cu_graph walked = NULL;
    tn_cu_graphnode node = NULL;
    graph_fill(inner, NULL, bench.memory.address, 5, 1);
    SET_UP(cuGraphAddChildGraphNode(&node, middle, NULL, 0, inner));
    GIVES(SUCCESS, cuGraphAddChildGraphNode(&node, bench.graph, NULL, 0, middle));
    GIVES(SUCCESS, cuGraphChildGraphNodeGetGraph(node, &walked));
    GIVES(SUCCESS, cuGraphChildGraphNodeGetGraph(graph_node(walked, 0), &walked));
    HOLDS(graph_type(graph_node(walked, 0)) == TN_CU_NODE_KERNEL, "the kernel is found");
    graph_end(inner, NULL);
    graph_end(middle, NULL);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    graph_run(exec, bench.stream);
    HOLDS(contract_word(bench.memory.address, 0) == 5, "it runs");
    graph_end(NULL, exec);
    graph_bench_end(&bench);
}

CASE_BODY(child_errors)
{
    tn_cu_graph graph = graph_new();
    tn_cu_graph inner = graph_new();
    tn_cu_graph got = NULL;
    tn_cu_graphnode node = graph_empty(graph, NULL);
    GIVES(INVALID_VALUE, cuGraphChildGraphNodeGetGraph(node, &got));
    GIVES(INVALID_VALUE, cuGraphChildGraphNodeGetGraph(NULL, &got));
    GIVES(INVALID_VALUE, cuGraphAddChildGraphNode(&node, graph, NULL, 0, NULL));
    GIVES(INVALID_VALUE, cuGraphAddChildGraphNode(NULL, graph, NULL, 0, inner));
    GIVES(INVALID_VALUE, cuGraphAddChildGraphNode(&node, NULL, NULL, 0, inner));
    GIVES(SUCCESS, cuGraphAddChildGraphNode(&node, graph, NULL, 0, inner));
    GIVES(INVALID_VALUE, cuGraphChildGraphNodeGetGraph(node, NULL));
    graph_end(graph, NULL);
    graph_end(inner, NULL);
}

/* -- For people -- */

CASE_BODY(dot)
{
    struct graph_bench bench = graph_bench_begin();
    char path[] = "/tmp/tarn-contract-XXXXXX";
    char head[8] = "";
    int fd = mkstemp(path);
    if (fd < 0)
        contract_give_up("no file");
    graph_fill(bench.graph, NULL, bench.memory.address, 5, 1);
    GIVES(SUCCESS, cuGraphDebugDotPrint(bench.graph, path, 0));
    bool digraph = read(fd, head, 7) == 7 && memcmp(head, "digraph", 7) == 0;
    HOLDS(digraph, "it begins with digraph");
    GIVES(SUCCESS, cuGraphDebugDotPrint(bench.graph, path, 1));
    GIVES(OPERATING_SYSTEM, cuGraphDebugDotPrint(bench.graph, "/nonexistent/tarn.dot", 0));
    GIVES(INVALID_VALUE, cuGraphDebugDotPrint(bench.graph, NULL, 0));
    GIVES(INVALID_VALUE, cuGraphDebugDotPrint(NULL, path, 0));
    close(fd);
    unlink(path);
    graph_bench_end(&bench);
}

static const struct contract_case cases[] = {
    CASE("create", "A graph begins empty; there are no flags.", create),
    CASE("without-context", "Graphs are made without a context, but not instantiated.",
         without_context),
    CASE("nodes", "Nodes are listed as they were added; a short array gets the first.", nodes),
    CASE("roots", "Root nodes are those without dependencies.", roots),
    CASE("edges", "Edges are listed as pairs; a short array gets the first.", edges),
    CASE("neighbours", "A node's dependencies and dependents are listed.", neighbours),
    CASE("neighbour-errors", "Questions need a node and a place for the answer.", neighbour_errors),
    CASE("add-dependencies", "Edges are added once, between nodes of one graph.", add_dependencies),
    CASE("cycle", "A cycle is found when the graph is instantiated.", cycle),
    CASE("edge-data", "An edge with data is not told without its data.", edge_data),
    CASE("edge-data-errors", "An edge's data must make sense for its ends.", edge_data_errors),
    CASE("add-errors", "A node comes behind nodes of its own graph, each named once.", add_errors),
    CASE("destroy-node", "A node goes with its edges.", destroy_node),
    CASE("clone", "A clone is a graph of its own.", clone),
    CASE("child", "A graph in a graph is a clone, which can be walked.", child),
    CASE("child-grows", "A node can be added to the embedded clone.", child_grows),
    CASE("child-nested", "Graphs nest.", child_nested),
    CASE("child-errors", "Only a child node has a graph.", child_errors),
    CASE("dot", "A graph is printed to a file that can be written.", dot),
};
const struct contract_group contract_graph = CONTRACT_GROUP("graph", START_CONTEXT, cases);
