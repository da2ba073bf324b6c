// SPDX-License-Identifier: Apache-2.0
/* update.c -- cuGraphExecUpdate: what may differ between the graph of an executable graph and the
 * one it is updated from.
 *
 * As seen, each node's like is looked for from the ends of the graphs, the nodes without dependents,
 * newest first, and back along the dependencies. */
#include "contract/graph_tools.h"

/* The bench's graph with an executable graph of it, and another graph to update from. */
struct pair {
    struct graph_bench bench;
    tn_cu_graphexec exec;
    tn_cu_graph from;
    tn_cu_deviceptr word;   /* the bench's mapped memory */
    tn_cu_deviceptr linear; /* cuMemAlloc memory, 4 KiB */
};

static struct pair pair_begin(void)
{
    struct pair pair = {.bench = graph_bench_begin(), .from = graph_new()};
    pair.word = pair.bench.memory.address;
    SET_UP(cuMemAlloc(&pair.linear, 4096));
    SET_UP(cuMemsetD32Async(pair.linear, 0, 1024, pair.bench.stream));
    SET_UP(cuStreamSynchronize(pair.bench.stream));
    return pair;
}

static void pair_end(struct pair *pair)
{
    graph_end(pair->from, pair->exec);
    SET_UP(cuMemFree(pair->linear));
    graph_bench_end(&pair->bench);
}

/* Which node the driver names, in words. */
static const char *whose(const struct pair *pair, tn_cu_graphnode node)
{
    static char text[32];
    tn_cu_graph graphs[2] = {pair->bench.graph, pair->from};
    if (node == NULL)
        return "none";
    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; j < graph_node_count(graphs[i]); j++) {
            if (graph_node(graphs[i], j) == node) {
                snprintf(text, sizeof text, "%zu of the %s", j, i == 0 ? "old" : "new");
                return text;
            }
        }
    }
    return "another";
}

/* Updates, and shows what the driver says of it. Unless there is one already, the executable graph
 * is of the bench's graph as it is. */
static void update(struct pair *pair, tn_cu_result expected)
{
    tn_cu_update_result_info info = {.result = 99};
    if (pair->exec == NULL)
        pair->exec = graph_exec(pair->bench.graph);
    contract_gives(expected, "cuGraphExecUpdate(",
                   cu.cuGraphExecUpdate(pair->exec, pair->from, &info));
    STATE("update result %d, node %s, from node %s", info.result, whose(pair, info.node),
          whose(pair, info.from_node));
}

static void run_and_show(const struct pair *pair, tn_cu_deviceptr address)
{
    graph_run(pair->exec, pair->bench.stream);
    STATE("the word is %u", contract_word(address, 0));
}

static void update_run_end(struct pair *pair, tn_cu_result expected, tn_cu_deviceptr shown)
{
    update(pair, expected);
    run_and_show(pair, shown);
    pair_end(pair);
}

CASE_BODY(kernel_pointer)
{
    struct pair pair = pair_begin();
    tn_cu_graphnode node = graph_fill(pair.bench.graph, NULL, pair.word, 5, 1);
    tn_cu_graphnode from = graph_fill(pair.from, NULL, pair.word + 64, 6, 1);
    update(&pair, TN_CUDA_SUCCESS);
    run_and_show(&pair, pair.word + 64);
    struct graph_words words;
    tn_cu_kernel_node_params params = graph_fill_params(&words, pair.linear, 7, 1);
    SET_UP(cuGraphKernelNodeSetParams(from, &params));
    update(&pair, TN_CUDA_SUCCESS);
    run_and_show(&pair, pair.linear);
    SET_UP(cuGraphKernelNodeGetParams(node, &params));
    HOLDS(*(uint32_t *)params.kernel_params[1] == 5, "the template is as it was");
    pair_end(&pair);
}

CASE_BODY(kernel_function)
{
    struct pair pair = pair_begin();
    graph_fill(pair.bench.graph, NULL, pair.word, 5, 1);
    graph_add(pair.from, NULL, pair.word, 1);
    update_run_end(&pair, TN_CUDA_SUCCESS, pair.word);
}

CASE_BODY(kernel_shape)
{
    struct pair pair = pair_begin();
    struct graph_words words;
    tn_cu_graphnode node = NULL;
    graph_fill(pair.bench.graph, NULL, pair.word, 5, 1);
    tn_cu_kernel_node_params params = graph_fill_params(&words, pair.word, 6, 1);
    params.grid_x = 2;
    params.block_x = 32;
    SET_UP(cuGraphAddKernelNode(&node, pair.from, NULL, 0, &params));
    update_run_end(&pair, TN_CUDA_SUCCESS, pair.word);
}

CASE_BODY(set_pointer)
{
    struct pair pair = pair_begin();
    graph_set(pair.bench.graph, NULL, pair.word, 5, 1);
    graph_set(pair.from, NULL, pair.word + 64, 6, 1);
    update_run_end(&pair, TN_CUDA_SUCCESS, pair.word + 64);
}

CASE_BODY(set_other_memory)
{
    struct pair pair = pair_begin();
    graph_set(pair.bench.graph, NULL, pair.word, 5, 1);
    graph_set(pair.from, NULL, pair.linear, 6, 1);
    update_run_end(&pair, TN_CUDA_SUCCESS, pair.linear);
}

CASE_BODY(set_width)
{
    struct pair pair = pair_begin();
    graph_set(pair.bench.graph, NULL, pair.word, 5, 1);
    graph_set(pair.from, NULL, pair.word, 6, 16);
    update_run_end(&pair, TN_CUDA_SUCCESS, pair.word + 60);
}

static void add_set(tn_cu_graph graph, tn_cu_memset_node_params set)
{
    tn_cu_graphnode node = NULL;
    tn_cu_node_params params = {
        .type = TN_CU_NODE_MEMSET,
        .memset = {.set = set, .ctx = contract_current()},
    };
    SET_UP(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
}

CASE_BODY(set_rows)
{
    struct pair pair = pair_begin();
    tn_cu_memset_node_params set = graph_set_params(pair.word, 5, 2);
    set.height = 2;
    set.pitch = 512;
    add_set(pair.bench.graph, set);
    set.height = 3;
    add_set(pair.from, set);
    update_run_end(&pair, TN_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, pair.word + 512);
}

CASE_BODY(copy_within)
{
    struct pair pair = pair_begin();
    graph_copy(pair.bench.graph, NULL, pair.word + 64, pair.word, 1);
    graph_copy(pair.from, NULL, pair.word + 128, pair.word, 1);
    SET_UP(cuMemsetD32Async(pair.word, 5, 1, pair.bench.stream));
    update_run_end(&pair, TN_CUDA_SUCCESS, pair.word + 128);
}

CASE_BODY(copy_linear)
{
    struct pair pair = pair_begin();
    graph_copy(pair.bench.graph, NULL, pair.linear + 64, pair.linear, 1);
    graph_copy(pair.from, NULL, pair.linear + 128, pair.linear, 1);
    SET_UP(cuMemsetD32Async(pair.linear, 5, 1, pair.bench.stream));
    update_run_end(&pair, TN_CUDA_SUCCESS, pair.linear + 128);
}

CASE_BODY(copy_across)
{
    struct pair pair = pair_begin();
    graph_copy(pair.bench.graph, NULL, pair.word + 64, pair.word, 1);
    graph_copy(pair.from, NULL, pair.linear, pair.word, 1);
    SET_UP(cuMemsetD32Async(pair.word, 5, 1, pair.bench.stream));
    update(&pair, TN_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    run_and_show(&pair, pair.word + 64);
    HOLDS(contract_word(pair.linear, 0) == 0, "nothing of it was taken over");
    pair_end(&pair);
}

CASE_BODY(copy_across_back)
{
    struct pair pair = pair_begin();
    graph_copy(pair.bench.graph, NULL, pair.linear + 64, pair.linear, 1);
    graph_copy(pair.from, NULL, pair.word + 64, pair.word, 1);
    SET_UP(cuMemsetD32Async(pair.linear, 5, 1, pair.bench.stream));
    update_run_end(&pair, TN_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, pair.linear + 64);
}

CASE_BODY(copy_width)
{
    struct pair pair = pair_begin();
    graph_copy(pair.bench.graph, NULL, pair.word + 64, pair.word, 1);
    graph_copy(pair.from, NULL, pair.word + 64, pair.word, 2);
    SET_UP(cuMemsetD32Async(pair.word, 5, 2, pair.bench.stream));
    update_run_end(&pair, TN_CUDA_SUCCESS, pair.word + 68);
}

CASE_BODY(fewer)
{
    struct pair pair = pair_begin();
    tn_cu_graphnode node = graph_fill(pair.bench.graph, NULL, pair.word, 5, 1);
    graph_add(pair.bench.graph, node, pair.word, 1);
    graph_fill(pair.from, NULL, pair.word, 7, 1);
    update_run_end(&pair, TN_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, pair.word);
}

CASE_BODY(more)
{
    struct pair pair = pair_begin();
    graph_fill(pair.bench.graph, NULL, pair.word, 5, 1);
    tn_cu_graphnode node = graph_fill(pair.from, NULL, pair.word, 7, 1);
    graph_add(pair.from, node, pair.word, 1);
    update_run_end(&pair, TN_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, pair.word);
}

CASE_BODY(other_edges)
{
    struct pair pair = pair_begin();
    tn_cu_graphnode node = graph_fill(pair.bench.graph, NULL, pair.word, 5, 1);
    graph_add(pair.bench.graph, node, pair.word, 1);
    graph_fill(pair.from, NULL, pair.word, 7, 1);
    graph_add(pair.from, NULL, pair.word, 1);
    update_run_end(&pair, TN_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, pair.word);
}

CASE_BODY(other_type)
{
    struct pair pair = pair_begin();
    graph_fill(pair.bench.graph, NULL, pair.word, 5, 1);
    graph_set(pair.from, NULL, pair.word, 7, 1);
    update_run_end(&pair, TN_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, pair.word);
}

static void count_one(void *user)
{
    *(int *)user += 1;
}

static void count_ten(void *user)
{
    *(int *)user += 10;
}

CASE_BODY(host)
{
    struct pair pair = pair_begin();
    int first = 0;
    int second = 0;
    graph_host(pair.bench.graph, NULL, count_one, &first);
    graph_host(pair.from, NULL, count_ten, &second);
    update(&pair, TN_CUDA_SUCCESS);
    graph_run(pair.exec, pair.bench.stream);
    STATE("counts %d and %d", first, second);
    pair_end(&pair);
}

CASE_BODY(event)
{
    struct pair pair = pair_begin();
    tn_cu_event events[2] = {contract_event(), contract_event()};
    tn_cu_graphnode node = NULL;
    tn_cu_node_params params = {.type = TN_CU_NODE_EVENT_RECORD, .event = events[0]};
    SET_UP(cuGraphAddNode(&node, pair.bench.graph, NULL, NULL, 0, &params));
    params.event = events[1];
    SET_UP(cuGraphAddNode(&node, pair.from, NULL, NULL, 0, &params));
    update(&pair, TN_CUDA_SUCCESS);
    pair_end(&pair);
    SET_UP(cuEventDestroy(events[0]));
    SET_UP(cuEventDestroy(events[1]));
}

/* A kernel captured from a launch of all blocks at once, or of any number. */
static tn_cu_graph captured_fill(const struct pair *pair, uint32_t value, bool cooperative)
{
    tn_cu_stream stream = pair->bench.stream;
    tn_cu_graph graph = NULL;
    struct graph_words words;
    tn_cu_kernel_node_params fill = graph_fill_params(&words, pair->bench.memory.address, value, 1);
    SET_UP(cuStreamBeginCapture(stream, TN_CU_CAPTURE_MODE_RELAXED));
    if (cooperative)
        SET_UP(
            cuLaunchCooperativeKernel(fill.func, 1, 1, 1, 1, 1, 1, 0, stream, fill.kernel_params));
    else
        SET_UP(cuLaunchKernel(fill.func, 1, 1, 1, 1, 1, 1, 0, stream, fill.kernel_params, NULL));
    SET_UP(cuStreamEndCapture(stream, &graph));
    return graph;
}

static void cooperative(const void *argument)
{
    const unsigned int *first = argument;
    struct pair pair = pair_begin();
    SET_UP(cuGraphDestroy(pair.bench.graph));
    SET_UP(cuGraphDestroy(pair.from));
    pair.bench.graph = captured_fill(&pair, 5, *first != 0);
    pair.from = captured_fill(&pair, 6, *first == 0);
    update_run_end(&pair, TN_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, pair.word);
}

CASE_BODY(copy_kind)
{
    struct pair pair = pair_begin();
    uint32_t *host = graph_flag();
    graph_copy(pair.bench.graph, NULL, pair.word + 64, pair.word, 1);
    SET_UP(cuGraphDestroy(pair.from));
    SET_UP(cuStreamBeginCapture(pair.bench.stream, TN_CU_CAPTURE_MODE_RELAXED));
    SET_UP(cuMemcpyHtoDAsync(pair.word + 64, host, 4, pair.bench.stream));
    SET_UP(cuStreamEndCapture(pair.bench.stream, &pair.from));
    update(&pair, TN_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    pair_end(&pair);
    SET_UP(cuMemFreeHost(host));
}

/* A node whose body adds to a word when the condition is not 0. */
static void add_condition(tn_cu_graph graph, tn_cu_conditional_type type, unsigned int value,
                          tn_cu_deviceptr address, uint32_t amount)
{
    tn_cu_conditional handle;
    tn_cu_graphnode node;
    SET_UP(cuGraphConditionalHandleCreate(&handle, graph, contract_current(), value,
                                          TN_CU_GRAPH_COND_ASSIGN_DEFAULT));
    tn_cu_node_params params = {
        .type = TN_CU_NODE_CONDITIONAL,
        .conditional = {.handle = handle, .type = type, .size = 1, .ctx = contract_current()},
    };
    SET_UP(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    graph_add(params.conditional.bodies[0], NULL, address, amount);
}

CASE_BODY(condition_body)
{
    struct pair pair = pair_begin();
    add_condition(pair.bench.graph, TN_CU_GRAPH_COND_IF, 1, pair.word, 5);
    add_condition(pair.from, TN_CU_GRAPH_COND_IF, 1, pair.word, 7);
    update_run_end(&pair, TN_CUDA_SUCCESS, pair.word);
}

CASE_BODY(condition_type)
{
    struct pair pair = pair_begin();
    add_condition(pair.bench.graph, TN_CU_GRAPH_COND_IF, 1, pair.word, 5);
    add_condition(pair.from, TN_CU_GRAPH_COND_SWITCH, 1, pair.word, 7);
    update_run_end(&pair, TN_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, pair.word);
}

CASE_BODY(alloc_bytes)
{
    struct pair pair = pair_begin();
    tn_cu_deviceptr addresses[2];
    graph_alloc(pair.bench.graph, NULL, 4096, &addresses[0]);
    pair.exec = graph_exec(pair.bench.graph);
    graph_alloc(pair.from, NULL, 8192, &addresses[1]);
    update(&pair, TN_CUDA_SUCCESS);
    graph_run(pair.exec, pair.bench.stream);
    for (int i = 0; i < 2; i++) {
        tn_cu_deviceptr base;
        size_t bytes = 0;
        tn_cu_result result = cu.cuMemGetAddressRange(&base, &bytes, addresses[i]);
        STATE("the %s address: %s, %zu bytes", i == 0 ? "old" : "new", contract_result_name(result),
              bytes);
    }
    STATE("freed: %s and %s", contract_result_name(cu.cuMemFree(addresses[0])),
          contract_result_name(cu.cuMemFree(addresses[1])));
    pair_end(&pair);
}

/* In a child graph, whose topology counts like the graph's own. */
static void child(const void *argument)
{
    const unsigned int *extra_nodes = argument;
    struct pair pair = pair_begin();
    tn_cu_graph first = graph_new();
    tn_cu_graph second = graph_new();
    tn_cu_graphnode node = NULL;
    graph_fill(first, NULL, pair.word, 5, 1);
    SET_UP(cuGraphAddChildGraphNode(&node, pair.bench.graph, NULL, 0, first));
    node = graph_fill(second, NULL, pair.word, 6, 1);
    for (unsigned int i = 0; i < *extra_nodes; i++)
        node = graph_add(second, node, pair.word, 1);
    SET_UP(cuGraphAddChildGraphNode(&node, pair.from, NULL, 0, second));
    update(&pair, *extra_nodes == 0 ? TN_CUDA_SUCCESS : TN_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    run_and_show(&pair, pair.word);
    graph_end(first, NULL);
    graph_end(second, NULL);
    pair_end(&pair);
}

/* Twins of nodes are found by the order in which they were made. */
CASE_BODY(order_of_making)
{
    struct pair pair = pair_begin();
    graph_fill(pair.bench.graph, NULL, pair.word, 5, 1);
    graph_set(pair.bench.graph, NULL, pair.word + 64, 5, 1);
    graph_set(pair.from, NULL, pair.word + 64, 6, 1);
    graph_fill(pair.from, NULL, pair.word, 6, 1);
    update(&pair, TN_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    run_and_show(&pair, pair.word);
    STATE("and %u", contract_word(pair.word + 64, 0));
    pair_end(&pair);
}

/* The same among the dependents of one node. */
CASE_BODY(order_of_branches)
{
    struct pair pair = pair_begin();
    tn_cu_graphnode root = graph_empty(pair.bench.graph, NULL);
    graph_fill(pair.bench.graph, root, pair.word, 5, 1);
    graph_set(pair.bench.graph, root, pair.word + 64, 5, 1);
    graph_copy(pair.bench.graph, root, pair.word + 128, pair.word, 1);
    root = graph_empty(pair.from, NULL);
    graph_set(pair.from, root, pair.word + 64, 6, 1);
    graph_copy(pair.from, root, pair.word + 128, pair.word, 1);
    graph_fill(pair.from, root, pair.word, 6, 1);
    update(&pair, TN_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    pair_end(&pair);
}

/* Roots in another order, but with the same ends. */
CASE_BODY(like_nodes)
{
    struct pair pair = pair_begin();
    tn_cu_graphnode add = graph_add(pair.bench.graph, NULL, pair.word, 1);
    graph_fill(pair.bench.graph, NULL, pair.word + 64, 5, 1);
    graph_copy(pair.bench.graph, add, pair.word + 128, pair.word, 1);
    graph_fill(pair.from, NULL, pair.word + 64, 6, 1);
    add = graph_add(pair.from, NULL, pair.word, 2);
    graph_copy(pair.from, add, pair.word + 128, pair.word, 1);
    update_run_end(&pair, TN_CUDA_SUCCESS, pair.word + 64);
}

CASE_BODY(errors)
{
    struct pair pair = pair_begin();
    tn_cu_update_result_info info = {.result = 99};
    graph_fill(pair.bench.graph, NULL, pair.word, 5, 1);
    pair.exec = graph_exec(pair.bench.graph);
    GIVES(INVALID_VALUE, cuGraphExecUpdate(NULL, pair.bench.graph, &info));
    GIVES(INVALID_VALUE, cuGraphExecUpdate(pair.exec, NULL, &info));
    GIVES(SUCCESS, cuGraphExecUpdate(pair.exec, pair.bench.graph, NULL));
    GIVES(SUCCESS, cuGraphExecUpdate(pair.exec, pair.bench.graph, &info));
    STATE("update result %d", info.result);
    pair_end(&pair);
}

CASE_BODY(while_running)
{
    struct pair pair = pair_begin();
    struct contract_busy busy = contract_busy_begin();
    SET_UP(cuStreamWaitEvent(pair.bench.stream, busy.done, 0));
    graph_fill(pair.bench.graph, NULL, pair.word, 5, 1);
    pair.exec = graph_exec(pair.bench.graph);
    graph_fill(pair.from, NULL, pair.word + 64, 6, 1);
    SET_UP(cuGraphLaunch(pair.exec, pair.bench.stream));
    update(&pair, TN_CUDA_SUCCESS);
    HOLDS(contract_busy_runs(&busy), "it waits for nothing");
    contract_busy_end(&busy);
    SET_UP(cuStreamSynchronize(pair.bench.stream));
    STATE("the launch before: %u and %u", contract_word(pair.word, 0),
          contract_word(pair.word + 64, 0));
    run_and_show(&pair, pair.word + 64);
    pair_end(&pair);
}

static const unsigned int zero = 0;
static const unsigned int one = 1;

static const struct contract_case cases[] = {
    CASE("kernel-pointer", "A kernel's arguments may change.", kernel_pointer),
    CASE("kernel-function", "A kernel's function may change.", kernel_function),
    CASE("kernel-shape", "A kernel's shape may change.", kernel_shape),
    CASE("set-pointer", "A set's address and value may change.", set_pointer),
    CASE("set-other-memory", "A set may go from mapped to allocated memory.", set_other_memory),
    CASE("set-width", "A set of one row may change its width.", set_width),
    CASE("set-rows", "A set of rows keeps its shape.", set_rows),
    CASE("copy-within", "A copy may change within mapped memory.", copy_within),
    CASE("copy-linear", "A copy may change within allocated memory.", copy_linear),
    CASE("copy-across", "A copy may not go from mapped to allocated memory.", copy_across),
    CASE("copy-across-back", "A copy may not go from allocated to mapped memory.",
         copy_across_back),
    CASE("copy-width", "A copy may change its width.", copy_width),
    CASE("fewer", "Nodes may not go.", fewer),
    CASE("more", "Nodes may not come.", more),
    CASE("other-edges", "Edges may not change.", other_edges),
    CASE("other-type", "A node keeps its type.", other_type),
    CASE("host", "A host function and its argument may change.", host),
    CASE("event", "An event may change.", event),
    {"cooperative-no-more", "A kernel of all blocks at once stays one.", cooperative, &one, false},
    {"cooperative-now", "A kernel does not become one of all blocks at once.", cooperative, &zero,
     false},
    CASE("copy-kind", "A copy does not change between host and device.", copy_kind),
    CASE("condition-body", "The body of a conditional node may change.", condition_body),
    CASE("condition-type", "The type of a conditional node may not change.", condition_type),
    CASE("alloc-bytes", "The size of an allocation may change.", alloc_bytes),
    {"child", "Nodes of a child graph may change.", child, &zero, false},
    {"child-topology", "Nodes of a child graph may not come.", child, &one, false},
    CASE("order-of-making", "Nodes made in another order do not find their like.", order_of_making),
    CASE("order-of-branches", "Nor do dependents of one node.", order_of_branches),
    CASE("like-nodes",
         "Likes are found from the ends of the graphs, so roots may be in another order.",
         like_nodes),
    CASE("errors", "An update needs both graphs, but no place for its result.", errors),
    CASE("while-running", "A launch under way is not touched by an update.", while_running),
};
const struct contract_group contract_update = CONTRACT_GROUP("update", START_CONTEXT, cases);
