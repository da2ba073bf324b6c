// SPDX-License-Identifier: Apache-2.0
/* conditional.c -- conditional nodes: bodies that run, run again, or do not.
 *
 * A launch begins with the condition's default value; a kernel changes it. On the simulator the
 * kernel's twin does so through tarn_sim_set_conditional. */
#include "contract/graph_tools.h"

#include <dlfcn.h>
#include <string.h>

/* A conditional node of `size` bodies behind no other, on a handle of its own. */
struct conditional {
    tn_cu_conditional handle;
    tn_cu_graphnode node;
    tn_cu_graph bodies[4];
};

static struct conditional conditional(tn_cu_graph graph, tn_cu_conditional_type type,
                                      unsigned int size, unsigned int value)
{
    struct conditional made = {0};
    SET_UP(cuGraphConditionalHandleCreate(&made.handle, graph, contract_current(), value,
                                          TN_CU_GRAPH_COND_ASSIGN_DEFAULT));
    tn_cu_node_params params = {
        .type = TN_CU_NODE_CONDITIONAL,
        .conditional = {.handle = made.handle,
                        .type = type,
                        .size = size,
                        .bodies = NULL,
                        .ctx = contract_current()},
    };
    GIVES(SUCCESS, cuGraphAddNode(&made.node, graph, NULL, NULL, 0, &params));
    if (params.conditional.bodies == NULL)
        contract_give_up("no bodies");
    for (unsigned int i = 0; i < size; i++)
        made.bodies[i] = params.conditional.bodies[i];
    return made;
}

/* Instantiates, runs twice, and shows a word. */
static void show(struct graph_bench *bench)
{
    tn_cu_graphexec exec = NULL;
    GIVES(SUCCESS, cuGraphInstantiateWithFlags(&exec, bench->graph, 0));
    if (exec == NULL)
        return;
    graph_run(exec, bench->stream);
    STATE("the word is %u", contract_word(bench->memory.address, 0));
    graph_run(exec, bench->stream);
    STATE("after another launch %u", contract_word(bench->memory.address, 0));
    graph_end(NULL, exec);
}

CASE_BODY(handle)
{
    tn_cu_graph graph = graph_new();
    tn_cu_conditional made = 0;
    GIVES(INVALID_VALUE, cuGraphConditionalHandleCreate(NULL, graph, contract_current(), 1, 1));
    GIVES(INVALID_VALUE, cuGraphConditionalHandleCreate(&made, NULL, contract_current(), 1, 1));
    GIVES(INVALID_VALUE, cuGraphConditionalHandleCreate(&made, graph, contract_current(), 1, 2));
    GIVES(SUCCESS, cuGraphConditionalHandleCreate(&made, graph, contract_current(), 1, 0));
    GIVES(INVALID_CONTEXT, cuGraphConditionalHandleCreate(&made, graph, NULL, 1, 1));
    graph_end(graph, NULL);
}

/* A handle that no node uses. */
CASE_BODY(handle_unused)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_conditional made = 0;
    tn_cu_graphexec exec = NULL;
    graph_add(bench.graph, NULL, bench.memory.address, 1);
    SET_UP(cuGraphConditionalHandleCreate(&made, bench.graph, contract_current(), 1, 1));
    GIVES(INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, bench.graph, 0));
    graph_bench_end(&bench);
}

CASE_BODY(handle_used_twice)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graphnode node = NULL;
    struct conditional made = conditional(bench.graph, TN_CU_GRAPH_COND_IF, 1, 1);
    tn_cu_node_params params = {
        .type = TN_CU_NODE_CONDITIONAL,
        .conditional = {.handle = made.handle, .size = 1, .ctx = contract_current()},
    };
    GIVES(INVALID_VALUE, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &params));
    graph_bench_end(&bench);
}

static void if_runs(const void *argument)
{
    const unsigned int *value = argument;
    struct graph_bench bench = graph_bench_begin();
    struct conditional made = conditional(bench.graph, TN_CU_GRAPH_COND_IF, 1, *value);
    HOLDS(graph_type(made.node) == TN_CU_NODE_CONDITIONAL, "a node of type 13");
    HOLDS(graph_node_count(made.bodies[0]) == 0, "its body begins empty");
    graph_add(made.bodies[0], NULL, bench.memory.address, 5);
    show(&bench);
    graph_bench_end(&bench);
}

static void if_else(const void *argument)
{
    const unsigned int *value = argument;
    struct graph_bench bench = graph_bench_begin();
    struct conditional made = conditional(bench.graph, TN_CU_GRAPH_COND_IF, 2, *value);
    graph_add(made.bodies[0], NULL, bench.memory.address, 5);
    graph_add(made.bodies[1], NULL, bench.memory.address, 100);
    show(&bench);
    graph_bench_end(&bench);
}

CASE_BODY(while_never)
{
    struct graph_bench bench = graph_bench_begin();
    struct conditional made = conditional(bench.graph, TN_CU_GRAPH_COND_WHILE, 1, 0);
    graph_add(made.bodies[0], NULL, bench.memory.address, 5);
    show(&bench);
    graph_bench_end(&bench);
}

static void switch_picks(const void *argument)
{
    const unsigned int *value = argument;
    struct graph_bench bench = graph_bench_begin();
    struct conditional made = conditional(bench.graph, TN_CU_GRAPH_COND_SWITCH, 3, *value);
    graph_add(made.bodies[0], NULL, bench.memory.address, 1);
    graph_add(made.bodies[1], NULL, bench.memory.address, 10);
    graph_add(made.bodies[2], NULL, bench.memory.address, 100);
    show(&bench);
    graph_bench_end(&bench);
}

/* -- Conditions that kernels set -- */

/* Counts in a word, and sets the condition to 1 while the count is below a limit, else to 0. */
static const char count_ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);\n"
    ".visible .entry tarn_contract_count(.param .u64 condition, .param .u64 address,\n"
    " .param .u32 limit)\n"
    "{\n"
    " .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d<3>;\n"
    " ld.param.u64 %d1, [condition]; ld.param.u64 %d2, [address]; ld.param.u32 %r1, [limit];\n"
    " cvta.to.global.u64 %d2, %d2;\n"
    " ld.global.u32 %r2, [%d2]; add.u32 %r2, %r2, 1; st.global.u32 [%d2], %r2;\n"
    " setp.lt.u32 %p, %r2, %r1; selp.u32 %r3, 1, 0, %p;\n"
    " { .param .b64 handle; .param .b32 value;\n"
    "  st.param.b64 [handle], %d1; st.param.b32 [value], %r3;\n"
    "  call.uni cudaGraphSetConditional, (handle, value); }\n"
    " ret;\n"
    "}\n";

static void count_twin(const tarn_sim_launch *launch, void *const *params)
{
    int (*set_condition)(uint64_t, unsigned int);
    void *found = dlsym(contract_library, "tarn_sim_set_conditional");
    uint64_t condition;
    uint32_t *word;
    uint32_t limit;
    (void)launch;
    memcpy(&condition, params[0], sizeof condition);
    memcpy(&word, params[1], sizeof word);
    memcpy(&limit, params[2], sizeof limit);
    *word += 1;
    if (found == NULL)
        return;
    memcpy(&set_condition, &found, sizeof set_condition);
    set_condition(condition, *word < limit ? 1 : 0);
}

/* Adds a node that counts in a word, and the condition's handle to it. */
static tn_cu_graphnode add_count(tn_cu_graph graph, tn_cu_conditional condition,
                                 tn_cu_deviceptr address, uint32_t limit)
{
    static tn_cu_function function;
    struct graph_words words;
    tn_cu_graphnode node;
    tn_cu_kernel_node_params kernel = graph_add_params(&words, 0, 0);
    void *params[] = {&condition, &address, &limit};
    if (function == NULL) {
        tn_cu_module module;
        contract_twin("tarn_contract_count", count_twin);
        SET_UP(cuModuleLoadData(&module, count_ptx));
        SET_UP(cuModuleGetFunction(&function, module, "tarn_contract_count"));
    }
    kernel.func = function;
    kernel.kernel_params = params;
    SET_UP(cuGraphAddKernelNode(&node, graph, NULL, 0, &kernel));
    return node;
}

CASE_BODY(while_counts)
{
    struct graph_bench bench = graph_bench_begin();
    struct conditional made = conditional(bench.graph, TN_CU_GRAPH_COND_WHILE, 1, 1);
    add_count(made.bodies[0], made.handle, bench.memory.address, 5);
    show(&bench);
    graph_bench_end(&bench);
}

/* A kernel before the node sets the condition against its default value. */
static void set_before(const void *argument)
{
    const unsigned int *value = argument;
    struct graph_bench bench = graph_bench_begin();
    struct conditional made = conditional(bench.graph, TN_CU_GRAPH_COND_IF, 1, *value);
    tn_cu_deviceptr count = bench.memory.address + 64;
    tn_cu_graphnode node = add_count(bench.graph, made.handle, count, 2);
    SET_UP(cuGraphAddDependencies(bench.graph, &node, &made.node, NULL, 1));
    graph_add(made.bodies[0], NULL, bench.memory.address, 5);
    show(&bench);
    graph_bench_end(&bench);
}

CASE_BODY(no_default)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_conditional handle_made = 0;
    tn_cu_graphnode node = NULL;
    SET_UP(cuGraphConditionalHandleCreate(&handle_made, bench.graph, contract_current(), 1, 0));
    tn_cu_node_params params = {
        .type = TN_CU_NODE_CONDITIONAL,
        .conditional = {.handle = handle_made, .size = 1, .ctx = contract_current()},
    };
    SET_UP(cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &params));
    tn_cu_graphnode count = add_count(bench.graph, handle_made, bench.memory.address + 64, 100);
    SET_UP(cuGraphAddDependencies(bench.graph, &count, &node, NULL, 1));
    graph_add(params.conditional.bodies[0], NULL, bench.memory.address, 5);
    show(&bench);
    graph_bench_end(&bench);
}

/* -- Bodies -- */

CASE_BODY(body_captured)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graph got = NULL;
    struct conditional made = conditional(bench.graph, TN_CU_GRAPH_COND_IF, 1, 1);
    GIVES(SUCCESS, cuStreamBeginCaptureToGraph(bench.stream, made.bodies[0], NULL, NULL, 0,
                                               TN_CU_CAPTURE_MODE_RELAXED));
    SET_UP(cuMemsetD32Async(bench.memory.address, 5, 1, bench.stream));
    contract_set_up("cuLaunchKernel(", contract_add(bench.stream, bench.memory.address, 2),
                    __FILE__, __LINE__);
    GIVES(SUCCESS, cuStreamEndCapture(bench.stream, &got));
    HOLDS(got == made.bodies[0], "the capture ends with the body");
    STATE("%zu nodes in the body", graph_node_count(made.bodies[0]));
    show(&bench);
    graph_bench_end(&bench);
}

/* What a body may hold. */
CASE_BODY(body_nodes)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_deviceptr word = bench.memory.address;
    struct conditional made = conditional(bench.graph, TN_CU_GRAPH_COND_IF, 1, 1);
    tn_cu_graph inner = graph_new();
    tn_cu_graphnode node = graph_set(made.bodies[0], NULL, word + 64, 3, 1);
    node = graph_copy(made.bodies[0], node, word, word + 64, 1);
    node = graph_empty(made.bodies[0], node);
    graph_add(inner, NULL, word, 4);
    GIVES(SUCCESS, cuGraphAddChildGraphNode(&node, made.bodies[0], &node, 1, inner));
    show(&bench);
    graph_end(inner, NULL);
    graph_bench_end(&bench);
}

CASE_BODY(body_nested)
{
    struct graph_bench bench = graph_bench_begin();
    struct conditional outer = conditional(bench.graph, TN_CU_GRAPH_COND_IF, 1, 1);
    struct conditional inner = conditional(outer.bodies[0], TN_CU_GRAPH_COND_IF, 1, 1);
    graph_add(inner.bodies[0], NULL, bench.memory.address, 5);
    show(&bench);
    graph_bench_end(&bench);
}

CASE_BODY(body_alloc)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graphexec exec = NULL;
    tn_cu_graph got = NULL;
    tn_cu_deviceptr address = 0;
    struct conditional made = conditional(bench.graph, TN_CU_GRAPH_COND_IF, 1, 1);
    SET_UP(cuStreamBeginCaptureToGraph(bench.stream, made.bodies[0], NULL, NULL, 0,
                                       TN_CU_CAPTURE_MODE_RELAXED));
    GIVES(SUCCESS, cuMemAllocAsync(&address, 4096, bench.stream));
    GIVES(SUCCESS, cuStreamEndCapture(bench.stream, &got));
    GIVES(INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, bench.graph, 0));
    graph_bench_end(&bench);
}

CASE_BODY(body_host)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graphexec exec = NULL;
    tn_cu_graphnode node = NULL;
    struct conditional made = conditional(bench.graph, TN_CU_GRAPH_COND_IF, 1, 1);
    tn_cu_node_params params = {.type = TN_CU_NODE_HOST, .host = {.function = graph_nothing}};
    GIVES(SUCCESS, cuGraphAddNode(&node, made.bodies[0], NULL, NULL, 0, &params));
    GIVES(INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, bench.graph, 0));
    graph_bench_end(&bench);
}

CASE_BODY(clone)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graph copy = NULL;
    struct conditional made = conditional(bench.graph, TN_CU_GRAPH_COND_IF, 1, 1);
    graph_add(made.bodies[0], NULL, bench.memory.address, 5);
    GIVES(NOT_SUPPORTED, cuGraphClone(&copy, bench.graph));
    graph_bench_end(&bench);
}

CASE_BODY(errors)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graphnode node = NULL;
    tn_cu_graph got = NULL;
    tn_cu_conditional made = 0;
    SET_UP(cuGraphConditionalHandleCreate(&made, bench.graph, contract_current(), 1, 1));
    tn_cu_node_params good = {
        .type = TN_CU_NODE_CONDITIONAL,
        .conditional = {.handle = made, .size = 1, .ctx = contract_current()},
    };
    tn_cu_node_params bad = good;
    bad.conditional.size = 0;
    GIVES(INVALID_VALUE, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &bad));
    bad = good;
    bad.conditional.size = 3;
    GIVES(INVALID_VALUE, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &bad));
    bad = good;
    bad.conditional.type = TN_CU_GRAPH_COND_WHILE;
    bad.conditional.size = 2;
    GIVES(INVALID_VALUE, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &bad));
    bad = good;
    bad.conditional.type = 9;
    GIVES(INVALID_VALUE, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &bad));
    STATE("%zu nodes", graph_node_count(bench.graph));
    GIVES(SUCCESS, cuGraphAddNode(&node, bench.graph, NULL, NULL, 0, &good));
    GIVES(INVALID_VALUE, cuGraphChildGraphNodeGetGraph(node, &got));
    graph_bench_end(&bench);
}

static const unsigned int zero = 0;
static const unsigned int one = 1;
static const unsigned int two = 2;
static const unsigned int three = 3;

static const struct contract_case cases[] = {
    CASE("handle", "A condition belongs to a graph; it may have a default value.", handle),
    CASE("handle-unused", "With a condition that no node uses a graph is not instantiated.",
         handle_unused),
    CASE("handle-used-twice", "A condition serves one node.", handle_used_twice),
    {"if-1", "The body of an IF runs when the condition is not 0.", if_runs, &one, false},
    {"if-0", "The body of an IF does not run when the condition is 0.", if_runs, &zero, false},
    {"if-else-1", "Of an IF with two bodies the first runs when the condition is not 0.", if_else,
     &one, false},
    {"if-else-0", "Of an IF with two bodies the second runs when the condition is 0.", if_else,
     &zero, false},
    CASE("while-0", "The body of a WHILE does not run when the condition is 0.", while_never),
    {"switch-0", "A SWITCH runs the body of the condition's number.", switch_picks, &zero, false},
    {"switch-2", "A SWITCH runs the body of the condition's number.", switch_picks, &two, false},
    {"switch-3", "A SWITCH runs no body when there is none of that number.", switch_picks, &three,
     false},
    CASE("while-counts", "The body of a WHILE runs until a kernel says that it is enough.",
         while_counts),
    {"set-before-1", "A kernel sets the condition of a node behind it.", set_before, &one, false},
    {"set-before-0", "A kernel sets the condition of a node behind it.", set_before, &zero, false},
    CASE("no-default", "A condition without a default is set by kernels alone.", no_default),
    CASE("body-captured", "A body can be captured.", body_captured),
    CASE("body-nodes", "A body holds sets, copies, empty nodes and graphs.", body_nodes),
    CASE("body-nested", "Conditional nodes nest.", body_nested),
    CASE("body-alloc", "With an allocation in a body a graph is not instantiated.", body_alloc),
    CASE("body-host", "With a host function in a body a graph is not instantiated.", body_host),
    CASE("clone", "A graph with a conditional node is not cloned.", clone),
    CASE("errors", "A conditional node has as many bodies as its type can have.", errors),
};
const struct contract_group contract_conditional =
    CONTRACT_GROUP("conditional", START_CONTEXT, cases);
