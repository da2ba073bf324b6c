// SPDX-License-Identifier: Apache-2.0
/* kernel.c -- what is told of kernels: parameters, names, modules; and libraries, whose kernels
 * belong to no context. */
#include "contract/graph_tools.h"

#include <string.h>

/* A structure of 40 bytes that a kernel takes whole. */
struct block {
    uint64_t to;
    uint32_t values[8];
};

static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    /* Stores the structure's value of a given number where it says. */
    ".visible .entry tarn_contract_struct(.param .align 8 .b8 block[40], .param .u8 number,\n"
    " .param .u64 unused)\n"
    "{\n"
    " .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d<4>;\n"
    " ld.param.u64 %d1, [block]; cvta.to.global.u64 %d1, %d1;\n"
    " ld.param.u8 %r1, [number]; ld.param.u32 %r2, [block+8]; ld.param.u32 %r3, [block+36];\n"
    " setp.eq.u32 %p, %r1, 0; selp.b32 %r3, %r2, %r3, %p;\n"
    " st.global.u32 [%d1], %r3;\n"
    " ret;\n"
    "}\n"
    /* Nothing but parameters of many kinds. */
    ".visible .entry tarn_contract_layout(.param .u8 a, .param .u16 b, .param .f32 c,\n"
    " .param .f64 d, .param .align 16 .b8 e[32], .param .u8 f, .param .align 4 .b8 g[12],\n"
    " .param .u64 .ptr .global .align 16 h, .param .u8 i, .param .align 2 .b8 j[3],\n"
    " .param .b32 k[3], .param .s64 l)\n"
    "{\n"
    " ret;\n"
    "}\n"
    /* Writes through a table of addresses: *table[0] = 5, *table[1] = 6. */
    ".visible .entry tarn_contract_table(.param .u64 table)\n"
    "{\n"
    " .reg .b32 %r<2>; .reg .b64 %d<4>;\n"
    " ld.param.u64 %d1, [table]; cvta.to.global.u64 %d1, %d1;\n"
    " ld.global.u64 %d2, [%d1]; cvta.to.global.u64 %d2, %d2;\n"
    " ld.global.u64 %d3, [%d1+8]; cvta.to.global.u64 %d3, %d3;\n"
    " mov.u32 %r1, 5; st.global.u32 [%d2], %r1; mov.u32 %r1, 6; st.global.u32 [%d3], %r1;\n"
    " ret;\n"
    "}\n";

/* A kernel that is declared, then defined; with a number in another base. */
static const char declared_ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry tarn_contract_declared(.param .u32 a, .param .align 8 .b8 b[0x10]);\n"
    ".visible .entry tarn_contract_declared(.param .u32 a, .param .align 8 .b8 b[0x10])\n"
    "{\n"
    " ret;\n"
    "}\n";

static void struct_twin(const tarn_sim_launch *launch, void *const *params)
{
    struct block block;
    (void)launch;
    memcpy(&block, params[0], sizeof block);
    uint32_t *to = (uint32_t *)(uintptr_t)block.to;
    *to = *(const uint8_t *)params[1] == 0 ? block.values[0] : block.values[7];
}

static void layout_twin(const tarn_sim_launch *launch, void *const *params)
{
    (void)launch;
    (void)params;
}

static void table_twin(const tarn_sim_launch *launch, void *const *params)
{
    uint32_t **table;
    (void)launch;
    memcpy(&table, params[0], sizeof table);
    *table[0] = 5;
    *table[1] = 6;
}

static void register_twins(void)
{
    contract_twin("tarn_contract_struct", struct_twin);
    contract_twin("tarn_contract_layout", layout_twin);
    contract_twin("tarn_contract_table", table_twin);
}

static tn_cu_module load(void)
{
    tn_cu_module module;
    register_twins();
    SET_UP(cuModuleLoadData(&module, ptx));
    return module;
}

static tn_cu_function function_of(tn_cu_module module, const char *name)
{
    tn_cu_function function;
    SET_UP(cuModuleGetFunction(&function, module, name));
    return function;
}

/* A call whose answer is shown, and is right when it is SUCCESS or INVALID_VALUE. */
#define GIVES_EITHER(call) either(#call, cu.call)
static tn_cu_result either(const char *call, tn_cu_result got)
{
    return contract_gives(got == TN_CUDA_SUCCESS ? got : TN_CUDA_ERROR_INVALID_VALUE, call, got);
}

/* -- Parameters -- */

/* Lists a kernel's parameters until the driver says that there are no more. */
static void list_function(tn_cu_function function)
{
    for (size_t i = 0;; i++) {
        size_t offset = 999;
        size_t bytes = 999;
        if (GIVES_EITHER(cuFuncGetParamInfo(function, i, &offset, &bytes)) != TN_CUDA_SUCCESS)
            return;
        STATE("%zu: %zu bytes at %zu", i, bytes, offset);
    }
}

static void parameters(const void *argument)
{
    const char *name = argument;
    tn_cu_module module = load();
    list_function(function_of(module, name));
    SET_UP(cuModuleUnload(module));
}

CASE_BODY(parameters_declared)
{
    tn_cu_module module;
    GIVES(SUCCESS, cuModuleLoadData(&module, declared_ptx));
    list_function(function_of(module, "tarn_contract_declared"));
    SET_UP(cuModuleUnload(module));
}

CASE_BODY(parameters_of_fill)
{
    list_function(contract_kernels()->fill);
}

CASE_BODY(parameter_errors)
{
    tn_cu_function fill = contract_kernels()->fill;
    size_t offset = 999;
    size_t bytes = 999;
    GIVES(INVALID_VALUE, cuFuncGetParamInfo(NULL, 0, &offset, &bytes));
    GIVES(INVALID_VALUE, cuFuncGetParamInfo(fill, 0, NULL, &bytes));
    GIVES(INVALID_VALUE, cuFuncGetParamInfo(fill, 3, &offset, &bytes));
    HOLDS(offset == 999 && bytes == 999, "the answers are untouched");
    GIVES(SUCCESS, cuFuncGetParamInfo(fill, 2, &offset, NULL));
    STATE("at %zu", offset);
    GIVES(INVALID_VALUE, cuFuncGetParamInfo(contract_kernels()->empty, 0, &offset, &bytes));
}

CASE_BODY(structure)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_module module = load();
    tn_cu_function function = function_of(module, "tarn_contract_struct");
    struct block block = {.to = bench.memory.address, .values = {11, 2, 3, 4, 5, 6, 7, 88}};
    uint8_t number = 0;
    uint64_t unused = 0;
    void *params[] = {&block, &number, &unused};
    tn_cu_kernel_node_params got;
    SET_UP(cuGraphDestroy(bench.graph));
    SET_UP(cuStreamBeginCapture(bench.stream, TN_CU_CAPTURE_MODE_RELAXED));
    GIVES(SUCCESS, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, bench.stream, params, NULL));
    block.to += 4;
    number = 1;
    GIVES(SUCCESS, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, bench.stream, params, NULL));
    SET_UP(cuStreamEndCapture(bench.stream, &bench.graph));
    GIVES(SUCCESS, cuGraphKernelNodeGetParams(graph_node(bench.graph, 1), &got));
    HOLDS(memcmp(got.kernel_params[0], &block, sizeof block) == 0, "it is read back whole");
    tn_cu_graphexec exec = graph_exec(bench.graph);
    graph_run(exec, bench.stream);
    STATE("the words are %u and %u", contract_word(bench.memory.address, 0),
          contract_word(bench.memory.address, 1));
    graph_end(NULL, exec);
    graph_bench_end(&bench);
    SET_UP(cuModuleUnload(module));
}

/* An address in memory is not seen by who reads parameters, and works all the same. */
CASE_BODY(table)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_module module = load();
    tn_cu_function function = function_of(module, "tarn_contract_table");
    tn_cu_deviceptr addresses[2] = {bench.memory.address + 4096, bench.memory.address + 8192};
    void *params[] = {&bench.memory.address};
    SET_UP(cuMemcpyHtoD(bench.memory.address, addresses, sizeof addresses));
    SET_UP(cuGraphDestroy(bench.graph));
    SET_UP(cuStreamBeginCapture(bench.stream, TN_CU_CAPTURE_MODE_RELAXED));
    GIVES(SUCCESS, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, bench.stream, params, NULL));
    SET_UP(cuStreamEndCapture(bench.stream, &bench.graph));
    tn_cu_graphexec exec = graph_exec(bench.graph);
    graph_run(exec, bench.stream);
    STATE("the words are %u and %u", contract_word(addresses[0], 0),
          contract_word(addresses[1], 0));
    addresses[0] += 64;
    SET_UP(cuMemcpyHtoD(bench.memory.address, addresses, sizeof addresses));
    graph_run(exec, bench.stream);
    STATE("by another table %u", contract_word(addresses[0], 0));
    graph_end(NULL, exec);
    graph_bench_end(&bench);
    SET_UP(cuModuleUnload(module));
}

/* Packed parameters that are not what the kernel takes. */
CASE_BODY(packed_errors)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_function fill = contract_kernels()->fill;
    unsigned char buffer[64] = {0};
    size_t bytes = 8;
    uint32_t value = 5;
    uint32_t count = 1;
    void *extra[] = {TN_CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, TN_CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, TN_CU_LAUNCH_PARAM_END};
    void *no_size[] = {TN_CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, TN_CU_LAUNCH_PARAM_END};
    void *no_buffer[] = {TN_CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, TN_CU_LAUNCH_PARAM_END};
    void *unknown[] = {(void *)(uintptr_t)77, buffer, TN_CU_LAUNCH_PARAM_END};
    memcpy(buffer, &bench.memory.address, 8);
    memcpy(buffer + 8, &value, 4);
    memcpy(buffer + 12, &count, 4);
    STATE("too few bytes");
    SET_UP(cuStreamBeginCapture(bench.stream, TN_CU_CAPTURE_MODE_RELAXED)); /* it must not run */
    GIVES(SUCCESS, cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, bench.stream, NULL, extra));
    SET_UP(cuGraphDestroy(bench.graph));
    SET_UP(cuStreamEndCapture(bench.stream, &bench.graph));
    STATE("no size");
    GIVES(INVALID_VALUE, cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, bench.stream, NULL, no_size));
    STATE("no buffer");
    GIVES(INVALID_VALUE, cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, bench.stream, NULL, no_buffer));
    STATE("an unknown tag");
    GIVES(INVALID_VALUE, cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, bench.stream, NULL, unknown));
    STATE("neither form");
    GIVES(INVALID_VALUE, cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, bench.stream, NULL, NULL));
    bytes = 64;
    STATE("too many bytes");
    GIVES(LAUNCH_OUT_OF_RESOURCES,
          cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, bench.stream, NULL, extra));
    bytes = 16;
    STATE("as many as there are");
    GIVES(SUCCESS, cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, bench.stream, NULL, extra));
    GIVES(SUCCESS, cuStreamSynchronize(bench.stream));
    STATE("the word is %u", contract_word(bench.memory.address, 0));
    graph_bench_end(&bench);
}

/* -- Names and modules -- */

CASE_BODY(names)
{
    tn_cu_module module = load();
    tn_cu_function function = function_of(module, "tarn_contract_table");
    tn_cu_module got = NULL;
    const char *name = NULL;
    GIVES(SUCCESS, cuFuncGetName(&name, function));
    STATE("%s", name == NULL ? "no name" : name);
    GIVES(SUCCESS, cuFuncGetModule(&got, function));
    HOLDS(got == module, "its module");
    HOLDS(function_of(module, "tarn_contract_table") == function, "the same function every time");
    GIVES(INVALID_VALUE, cuFuncGetName(NULL, function));
    GIVES(INVALID_VALUE, cuFuncGetName(&name, NULL));
    GIVES(INVALID_VALUE, cuFuncGetModule(NULL, function));
    SET_UP(cuModuleUnload(module));
}

CASE_BODY(module_errors)
{
    tn_cu_module module = load();
    tn_cu_module other = NULL;
    tn_cu_function function = NULL;
    GIVES(INVALID_VALUE, cuModuleLoadData(NULL, ptx));
    GIVES(INVALID_VALUE, cuModuleLoadData(&other, NULL));
    GIVES(INVALID_IMAGE, cuModuleLoadData(&other, "this is no image of a module at all"));
    GIVES(INVALID_PTX, cuModuleLoadData(&other, ".version 7.0\n.target sm_70\n.entry {"));
    HOLDS(other == NULL, "nothing was loaded");
    GIVES(NOT_FOUND, cuModuleGetFunction(&function, module, "tarn_contract_none"));
    GIVES(INVALID_VALUE, cuModuleGetFunction(NULL, module, "tarn_contract_table"));
    GIVES(INVALID_VALUE, cuModuleGetFunction(&function, module, NULL));
    GIVES(INVALID_HANDLE, cuModuleGetFunction(&function, NULL, "tarn_contract_table"));
    GIVES(INVALID_HANDLE, cuModuleUnload(NULL));
    GIVES(SUCCESS, cuModuleUnload(module));
}

CASE_BODY(same_text_twice)
{
    tn_cu_module one = load();
    tn_cu_module two = load();
    HOLDS(one != two, "two modules");
    HOLDS(function_of(one, "tarn_contract_table") != function_of(two, "tarn_contract_table"),
          "with functions of their own");
    SET_UP(cuModuleUnload(one));
    const char *name = NULL;
    GIVES(SUCCESS, cuFuncGetName(&name, function_of(two, "tarn_contract_table")));
    SET_UP(cuModuleUnload(two));
}

/* -- Libraries -- */

static tn_cu_library load_library(void)
{
    tn_cu_library library;
    register_twins();
    SET_UP(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    return library;
}

static tn_cu_kernel kernel_of(tn_cu_library library, const char *name)
{
    tn_cu_kernel kernel;
    SET_UP(cuLibraryGetKernel(&kernel, library, name));
    return kernel;
}

CASE_BODY(library)
{
    tn_cu_library loaded = NULL;
    tn_cu_kernel kernel = NULL;
    tn_cu_function function = NULL;
    tn_cu_function again = NULL;
    const char *name = NULL;
    GIVES(SUCCESS, cuLibraryLoadData(&loaded, ptx, NULL, NULL, 0, NULL, NULL, 0));
    GIVES(SUCCESS, cuLibraryGetKernel(&kernel, loaded, "tarn_contract_struct"));
    HOLDS(kernel_of(loaded, "tarn_contract_struct") == kernel, "the same kernel every time");
    GIVES(SUCCESS, cuKernelGetName(&name, kernel));
    STATE("%s", name == NULL ? "no name" : name);
    GIVES(SUCCESS, cuKernelGetFunction(&function, kernel));
    GIVES(SUCCESS, cuKernelGetFunction(&again, kernel));
    HOLDS(function == again && function != NULL, "the same function every time");
    HOLDS((void *)function != (void *)kernel, "which is not the kernel");
    GIVES(SUCCESS, cuFuncGetName(&name, function));
    STATE("%s", name == NULL ? "no name" : name);
    tn_cu_module module = NULL;
    GIVES(SUCCESS, cuFuncGetModule(&module, function));
    HOLDS(module != NULL && function_of(module, "tarn_contract_struct") == function,
          "in a module of its own");
    for (size_t i = 0; i < 4; i++) {
        size_t offset = 999;
        size_t bytes = 999;
        if (GIVES_EITHER(cuKernelGetParamInfo(kernel, i, &offset, &bytes)) == TN_CUDA_SUCCESS)
            STATE("%zu: %zu bytes at %zu", i, bytes, offset);
    }
    list_function(function);
    GIVES(SUCCESS, cuLibraryUnload(loaded));
}

CASE_BODY(library_errors)
{
    tn_cu_library loaded = load_library();
    tn_cu_library other = NULL;
    tn_cu_kernel kernel = NULL;
    tn_cu_function function = NULL;
    const char *name = NULL;
    size_t offset;
    GIVES(INVALID_VALUE, cuLibraryLoadData(NULL, ptx, NULL, NULL, 0, NULL, NULL, 0));
    GIVES(INVALID_VALUE, cuLibraryLoadData(&other, NULL, NULL, NULL, 0, NULL, NULL, 0));
    GIVES(INVALID_VALUE, cuLibraryGetKernel(NULL, loaded, "tarn_contract_table"));
    GIVES(INVALID_VALUE, cuLibraryGetKernel(&kernel, loaded, NULL));
    GIVES(NOT_FOUND, cuLibraryGetKernel(&kernel, loaded, "tarn_contract_none"));
    GIVES(INVALID_HANDLE, cuLibraryGetKernel(&kernel, NULL, "tarn_contract_table"));
    GIVES(INVALID_HANDLE, cuLibraryUnload(NULL));
    GIVES(INVALID_VALUE, cuKernelGetName(&name, NULL));
    GIVES(INVALID_HANDLE, cuKernelGetFunction(&function, NULL));
    GIVES(INVALID_VALUE, cuKernelGetParamInfo(NULL, 0, &offset, NULL));
    kernel = kernel_of(loaded, "tarn_contract_table");
    GIVES(INVALID_VALUE, cuKernelGetName(NULL, kernel));
    GIVES(INVALID_VALUE, cuKernelGetFunction(NULL, kernel));
    GIVES(INVALID_VALUE, cuKernelGetParamInfo(kernel, 0, NULL, NULL));
    GIVES(SUCCESS, cuKernelGetParamInfo(kernel, 0, &offset, NULL));
    GIVES(INVALID_VALUE, cuKernelGetParamInfo(kernel, 1, &offset, NULL));
    SET_UP(cuLibraryUnload(loaded));
}

CASE_BODY(library_options)
{
    tn_cu_library loaded = NULL;
    int option = 7; /* CU_JIT_OPTIMIZATION_LEVEL */
    void *value = (void *)(uintptr_t)4;
    GIVES(SUCCESS, cuLibraryLoadData(&loaded, ptx, &option, &value, 1, NULL, NULL, 0));
    GIVES(SUCCESS, cuLibraryUnload(loaded));
}

CASE_BODY(library_bad_code)
{
    tn_cu_library other = NULL;
    tn_cu_kernel kernel = NULL;
    GIVES(SUCCESS, cuLibraryLoadData(&other, "this is no image of a module at all", NULL, NULL, 0,
                                     NULL, NULL, 0));
    GIVES(INVALID_IMAGE, cuLibraryGetKernel(&kernel, other, "tarn_contract_table"));
    GIVES(SUCCESS, cuLibraryUnload(other));
    GIVES(SUCCESS, cuLibraryLoadData(&other, ".version 7.0\n.target sm_70\n.entry {", NULL, NULL, 0,
                                     NULL, NULL, 0));
    GIVES(INVALID_PTX, cuLibraryGetKernel(&kernel, other, "tarn_contract_table"));
    GIVES(SUCCESS, cuLibraryUnload(other));
}

/* A kernel of a library passes for a function where it is launched, and nowhere else. */
CASE_BODY(kernel_cast)
{
    tn_cu_library loaded = load_library();
    tn_cu_function cast = (tn_cu_function)(void *)kernel_of(loaded, "tarn_contract_struct");
    size_t offset;
    GIVES(INVALID_HANDLE, cuFuncGetParamInfo(cast, 0, &offset, NULL));
    const char *name = NULL;
    tn_cu_module module = NULL;
    GIVES(INVALID_HANDLE, cuFuncGetName(&name, cast));
    GIVES(INVALID_HANDLE, cuFuncGetModule(&module, cast));
    SET_UP(cuLibraryUnload(loaded));
}

CASE_BODY(kernel_launched)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_library loaded = load_library();
    tn_cu_kernel kernel = kernel_of(loaded, "tarn_contract_struct");
    tn_cu_function function = NULL;
    tn_cu_kernel_node_params got;
    struct block block = {.to = bench.memory.address, .values = {11}};
    uint8_t number = 0;
    uint64_t unused = 0;
    void *params[] = {&block, &number, &unused};
    SET_UP(cuKernelGetFunction(&function, kernel));
    GIVES(SUCCESS, cuLaunchKernel((tn_cu_function)(void *)kernel, 1, 1, 1, 1, 1, 1, 0, bench.stream,
                                  params, NULL));
    GIVES(SUCCESS, cuStreamSynchronize(bench.stream));
    STATE("the word is %u", contract_word(bench.memory.address, 0));
    SET_UP(cuGraphDestroy(bench.graph));
    SET_UP(cuStreamBeginCapture(bench.stream, TN_CU_CAPTURE_MODE_RELAXED));
    block.values[0] = 22;
    GIVES(SUCCESS, cuLaunchKernel((tn_cu_function)(void *)kernel, 1, 1, 1, 1, 1, 1, 0, bench.stream,
                                  params, NULL));
    GIVES(SUCCESS, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, bench.stream, params, NULL));
    SET_UP(cuStreamEndCapture(bench.stream, &bench.graph));
    for (size_t i = 0; i < 2; i++) {
        STATE(i == 0 ? "launched as a kernel" : "launched as its function");
        GIVES(SUCCESS, cuGraphKernelNodeGetParams(graph_node(bench.graph, i), &got));
        STATE("func is %s, kern is %s", got.func == function ? "the function" : "another",
              got.kern == kernel ? "the kernel"
              : got.kern == NULL ? "NULL"
                                 : "another");
    }
    tn_cu_graphexec exec = graph_exec(bench.graph);
    graph_run(exec, bench.stream);
    STATE("the word is %u", contract_word(bench.memory.address, 0));
    graph_end(NULL, exec);
    graph_bench_end(&bench);
    SET_UP(cuLibraryUnload(loaded));
}

/* By a node's `kern`, with `func` NULL. */
CASE_BODY(kernel_in_node)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_library loaded = load_library();
    tn_cu_kernel kernel = kernel_of(loaded, "tarn_contract_struct");
    tn_cu_graphnode node = NULL;
    tn_cu_kernel_node_params got;
    struct graph_words words;
    struct block block = {.to = bench.memory.address, .values = {11}};
    uint8_t number = 0;
    uint64_t unused = 0;
    void *params[] = {&block, &number, &unused};
    tn_cu_kernel_node_params node_params = graph_add_params(&words, 0, 0);
    node_params.func = NULL;
    node_params.kern = kernel;
    node_params.kernel_params = params;
    GIVES(SUCCESS, cuGraphAddKernelNode(&node, bench.graph, NULL, 0, &node_params));
    GIVES(SUCCESS, cuGraphKernelNodeGetParams(node, &got));
    HOLDS(got.kern == kernel && got.func != NULL, "both are named");
    tn_cu_graphexec exec = graph_exec(bench.graph);
    graph_run(exec, bench.stream);
    STATE("the word is %u", contract_word(bench.memory.address, 0));
    graph_end(NULL, exec);
    graph_bench_end(&bench);
    SET_UP(cuLibraryUnload(loaded));
}

/* The same calls on a thread without a context. */
struct elsewhere {
    tn_cu_result load, kernel, name, info, function, unload;
};

static void without_context_body(void *argument)
{
    struct elsewhere *answers = argument;
    tn_cu_library loaded = NULL;
    tn_cu_kernel kernel = NULL;
    tn_cu_function function = NULL;
    const char *name;
    size_t offset;
    cu.cuCtxSetCurrent(NULL);
    answers->load = cu.cuLibraryLoadData(&loaded, ptx, NULL, NULL, 0, NULL, NULL, 0);
    answers->kernel = cu.cuLibraryGetKernel(&kernel, loaded, "tarn_contract_table");
    answers->name = cu.cuKernelGetName(&name, kernel);
    answers->info = cu.cuKernelGetParamInfo(kernel, 0, &offset, NULL);
    answers->function = cu.cuKernelGetFunction(&function, kernel);
    answers->unload = cu.cuLibraryUnload(loaded);
}

CASE_BODY(library_without_context)
{
    struct elsewhere answers;
    register_twins();
    contract_elsewhere(without_context_body, &answers);
    contract_gives(TN_CUDA_SUCCESS, "cuLibraryLoadData(", answers.load);
    contract_gives(TN_CUDA_SUCCESS, "cuLibraryGetKernel(", answers.kernel);
    contract_gives(TN_CUDA_SUCCESS, "cuKernelGetName(", answers.name);
    contract_gives(TN_CUDA_ERROR_INVALID_CONTEXT, "cuKernelGetParamInfo(", answers.info);
    contract_gives(TN_CUDA_ERROR_INVALID_CONTEXT, "cuKernelGetFunction(", answers.function);
    contract_gives(TN_CUDA_SUCCESS, "cuLibraryUnload(", answers.unload);
}

static const struct contract_case cases[] = {
    CASE("parameters", "Parameters are told one by one, until there are no more.",
         parameters_of_fill),
    {"parameters-struct", "A structure is one parameter.", parameters, "tarn_contract_struct",
     false},
    CASE("parameters-declared", "A kernel may be declared before it is defined.",
         parameters_declared),
    {"parameters-layout", "Parameters lie at the next place that their alignment allows.",
     parameters, "tarn_contract_layout", false},
    CASE("parameter-errors", "A parameter's place is asked of a function, by its number.",
         parameter_errors),
    CASE("structure", "A structure is taken by value and read back whole.", structure),
    CASE("packed-errors", "Packed parameters are not more than the kernel's.", packed_errors),
    CASE("table", "Addresses in memory are followed when the kernel runs.", table),
    CASE("names", "A function tells its name and its module.", names),
    CASE("module-errors", "A module is PTX that compiles; its functions have names.",
         module_errors),
    CASE("same-text-twice", "A text loaded twice makes two modules.", same_text_twice),
    CASE("library", "A library's kernel tells its name, its parameters and its function.", library),
    CASE("library-errors", "Libraries and kernels are asked by handles.", library_errors),
    CASE("library-options", "A library is loaded with options.", library_options),
    CASE("library-bad-code",
         "What is wrong with a library's code is found when a kernel is asked for.",
         library_bad_code),
    CASE("kernel-cast", "A kernel is no function when it is asked about.", kernel_cast),
    CASE("kernel-launched", "A kernel can be launched; its node names its function too.",
         kernel_launched),
    CASE("kernel-in-node", "A node can be given a kernel instead of a function.", kernel_in_node),
    CASE("library-without-context", "Libraries need no context, but their functions do.",
         library_without_context),
};
const struct contract_group contract_kernel = CONTRACT_GROUP("kernel", START_CONTEXT, cases);
