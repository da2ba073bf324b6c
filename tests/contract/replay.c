// SPDX-License-Identifier: Apache-2.0
/* replay.c -- other memory under the addresses of an executable graph.
 *
 * Addresses are translated when the work runs: whatever is mapped then is what a graph works on,
 * and where nothing is mapped the context is lost. */
#include "contract/graph_tools.h"

#include <string.h>

#define FAR_PLACE 0x4a0000000000u /* a multiple of 32 MiB where nothing is */
#define RESERVED (32 * MIB)
#define SWAPS 50

/* A graph of a set, a kernel, a copy, a kernel, and a copy to the host, over two granules. */
struct pattern {
    tn_cu_stream stream;
    tn_cu_graph graph;
    tn_cu_graphexec exec;
    uint32_t *host; /* four words */
};

static struct pattern pattern_begin(tn_cu_deviceptr address)
{
    struct pattern pattern = {.stream = contract_stream(TN_CU_STREAM_NON_BLOCKING)};
    void *host;
    tn_cu_deviceptr edge = address + 2 * MIB - 8;
    contract_kernels();
    SET_UP(cuMemHostAlloc(&host, 16, 0));
    pattern.host = host;
    SET_UP(cuStreamBeginCapture(pattern.stream, TN_CU_CAPTURE_MODE_RELAXED));
    SET_UP(cuMemsetD32Async(edge, 5, 4, pattern.stream));
    contract_add(pattern.stream, edge + 8, 2);
    SET_UP(cuMemcpyDtoDAsync(address, edge, 16, pattern.stream));
    contract_add(pattern.stream, address + 12, 10);
    SET_UP(cuMemcpyDtoHAsync(host, address, 16, pattern.stream));
    SET_UP(cuStreamEndCapture(pattern.stream, &pattern.graph));
    pattern.exec = graph_exec(pattern.graph);
    return pattern;
}

/* Runs it; whether it did all of its work. */
static bool pattern_right(const struct pattern *pattern)
{
    static const uint32_t right[] = {5, 5, 7, 15};
    memset(pattern->host, 0, sizeof right);
    graph_run(pattern->exec, pattern->stream);
    return memcmp(pattern->host, right, sizeof right) == 0;
}

static void pattern_end(struct pattern *pattern)
{
    graph_end(pattern->graph, pattern->exec);
    SET_UP(cuStreamDestroy(pattern->stream));
    SET_UP(cuMemFreeHost(pattern->host));
}

static void put(tn_cu_deviceptr address, size_t bytes, tn_cu_memhandle handle)
{
    SET_UP(cuMemMap(address, bytes, 0, handle, 0));
    contract_open(address, bytes);
}

/* -- Other memory -- */

CASE_BODY(swapped)
{
    struct contract_mapped memory = contract_map(4 * MIB);
    tn_cu_memhandle handles[2] = {memory.handle, contract_handle(4 * MIB)};
    struct pattern pattern = pattern_begin(memory.address);
    int right = pattern_right(&pattern) ? 1 : 0;
    for (int i = 1; i <= SWAPS; i++) {
        SET_UP(cuMemUnmap(memory.address, memory.bytes));
        put(memory.address, memory.bytes, handles[i % 2]);
        right += pattern_right(&pattern) ? 1 : 0;
    }
    HOLDS(right == SWAPS + 1, "it is right every time");
    pattern_end(&pattern);
    memory.handle = handles[0];
    SET_UP(cuMemRelease(handles[1]));
    contract_unmap(memory);
}

CASE_BODY(split)
{
    struct contract_mapped memory = contract_map(4 * MIB);
    tn_cu_memhandle halves[2] = {contract_handle(2 * MIB), contract_handle(2 * MIB)};
    struct pattern pattern = pattern_begin(memory.address);
    HOLDS(pattern_right(&pattern), "it is right");
    SET_UP(cuMemUnmap(memory.address, memory.bytes));
    put(memory.address, 2 * MIB, halves[0]);
    put(memory.address + 2 * MIB, 2 * MIB, halves[1]);
    HOLDS(pattern_right(&pattern), "it is right on two handles");
    pattern_end(&pattern);
    SET_UP(cuMemRelease(halves[0]));
    SET_UP(cuMemRelease(halves[1]));
    contract_unmap(memory);
}

CASE_BODY(uploaded)
{
    struct contract_mapped memory = contract_map(4 * MIB);
    tn_cu_memhandle other = contract_handle(4 * MIB);
    struct pattern pattern = pattern_begin(memory.address);
    GIVES(SUCCESS, cuGraphUpload(pattern.exec, pattern.stream));
    SET_UP(cuStreamSynchronize(pattern.stream));
    SET_UP(cuMemUnmap(memory.address, memory.bytes));
    put(memory.address, memory.bytes, other);
    HOLDS(pattern_right(&pattern), "it is right");
    pattern_end(&pattern);
    SET_UP(cuMemRelease(other));
    contract_unmap(memory);
}

CASE_BODY(reserved_again)
{
    contract_needs_places();
    tn_cu_memhandle handle = contract_handle(4 * MIB);
    tn_cu_deviceptr address = contract_reserve_at(FAR_PLACE, RESERVED);
    put(address, 4 * MIB, handle);
    struct pattern pattern = pattern_begin(address);
    HOLDS(pattern_right(&pattern), "it is right");
    SET_UP(cuMemUnmap(address, 4 * MIB));
    SET_UP(cuMemAddressFree(address, RESERVED));
    contract_reserve_at(FAR_PLACE, RESERVED);
    put(address, 4 * MIB, handle);
    HOLDS(pattern_right(&pattern), "it is right in a reservation made again");
    SET_UP(cuMemUnmap(address, 4 * MIB));
    SET_UP(cuMemAddressFree(address, RESERVED));
    tn_cu_deviceptr larger = contract_reserve_at(FAR_PLACE - RESERVED, 4 * RESERVED);
    put(address, 4 * MIB, handle);
    HOLDS(pattern_right(&pattern), "it is right inside a larger one");
    pattern_end(&pattern);
    SET_UP(cuMemUnmap(address, 4 * MIB));
    SET_UP(cuMemAddressFree(larger, 4 * RESERVED));
    SET_UP(cuMemRelease(handle));
}

/* The launch waits behind a held kernel while the memory is exchanged. */
CASE_BODY(queued)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_deviceptr word = bench.memory.address;
    tn_cu_memhandle other = contract_handle(2 * MIB);
    graph_fill(bench.graph, NULL, word, 5, 1);
    graph_set(bench.graph, NULL, word + 64, 6, 1);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    struct contract_busy busy = contract_busy_begin();
    SET_UP(cuStreamWaitEvent(bench.stream, busy.done, 0));
    GIVES(SUCCESS, cuGraphLaunch(exec, bench.stream));
    GIVES(SUCCESS, cuMemUnmap(word, bench.memory.bytes));
    put(word, bench.memory.bytes, other);
    HOLDS(contract_busy_runs(&busy), "nothing waited");
    contract_busy_end(&busy);
    GIVES(SUCCESS, cuStreamSynchronize(bench.stream));
    STATE("the new memory has %u and %u", contract_word(word, 0), contract_word(word, 16));
    SET_UP(cuMemUnmap(word, bench.memory.bytes));
    put(word, bench.memory.bytes, bench.memory.handle);
    STATE("the old memory has %u and %u", contract_word(word, 0), contract_word(word, 16));
    graph_end(NULL, exec);
    SET_UP(cuMemRelease(other));
    graph_bench_end(&bench);
}

CASE_BODY(new_contents)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_deviceptr word = bench.memory.address;
    tn_cu_memhandle other = contract_handle(2 * MIB);
    graph_add(bench.graph, NULL, word, 1);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    graph_run(exec, bench.stream);
    graph_run(exec, bench.stream);
    STATE("the word is %u", contract_word(word, 0));
    SET_UP(cuMemUnmap(word, bench.memory.bytes));
    put(word, bench.memory.bytes, other);
    SET_UP(cuMemsetD32Async(word, 100, 1, bench.stream));
    graph_run(exec, bench.stream);
    STATE("in other memory %u", contract_word(word, 0));
    SET_UP(cuMemUnmap(word, bench.memory.bytes));
    put(word, bench.memory.bytes, bench.memory.handle);
    graph_run(exec, bench.stream);
    STATE("in the first again %u", contract_word(word, 0));
    graph_end(NULL, exec);
    SET_UP(cuMemRelease(other));
    graph_bench_end(&bench);
}

/* Ordinary memory of the host, which a node names by its address. */
CASE_BODY(host_memory)
{
    struct graph_bench bench = graph_bench_begin();
    uint32_t words[2] = {5, 0};
    tn_cu_deviceptr word = bench.memory.address;
    SET_UP(cuGraphDestroy(bench.graph));
    SET_UP(cuStreamBeginCapture(bench.stream, TN_CU_CAPTURE_MODE_RELAXED));
    GIVES(SUCCESS, cuMemcpyHtoDAsync(word, &words[0], 4, bench.stream));
    contract_add(bench.stream, word, 1);
    GIVES(SUCCESS, cuMemcpyDtoHAsync(&words[1], word, 4, bench.stream));
    words[0] = 10;
    SET_UP(cuStreamEndCapture(bench.stream, &bench.graph));
    tn_cu_graphexec exec = graph_exec(bench.graph);
    graph_run(exec, bench.stream);
    STATE("the word is %u", words[1]);
    words[0] = 20;
    graph_run(exec, bench.stream);
    STATE("the word is %u", words[1]);
    graph_end(NULL, exec);
    graph_bench_end(&bench);
}

/* -- Instantiating and changing while the memory is away -- */

/* What a graph of one node does, and how the memory under it is. */
enum node_kind { KERNEL_NODE, SET_NODE, COPY_TO_NODE, COPY_FROM_NODE };
enum memory_state { UNMAPPED, NO_ACCESS, READ_ONLY };

struct absent {
    enum node_kind node;
    enum memory_state state;
    tn_cu_result instantiate;
};

static void take_away(const struct graph_bench *bench, enum memory_state state)
{
    tn_cu_deviceptr address = bench->memory.address;
    if (state == UNMAPPED)
        SET_UP(cuMemUnmap(address, bench->memory.bytes));
    else
        contract_access(address, bench->memory.bytes,
                        state == NO_ACCESS ? TN_CU_MEM_ACCESS_NONE : TN_CU_MEM_ACCESS_READ);
}

static void give_back(const struct graph_bench *bench, enum memory_state state)
{
    if (state == UNMAPPED)
        put(bench->memory.address, bench->memory.bytes, bench->memory.handle);
    else
        contract_access(bench->memory.address, bench->memory.bytes, TN_CU_MEM_ACCESS_READWRITE);
}

/* Adds a node that works on `word`, and on memory elsewhere if it needs any. */
static void add_kind(const struct graph_bench *bench, enum node_kind kind,
                     const struct contract_mapped *elsewhere)
{
    tn_cu_deviceptr word = bench->memory.address;
    if (kind == KERNEL_NODE)
        graph_fill(bench->graph, NULL, word, 5, 1);
    else if (kind == SET_NODE)
        graph_set(bench->graph, NULL, word, 5, 1);
    else if (kind == COPY_TO_NODE)
        graph_copy(bench->graph, NULL, word, elsewhere->address, 1);
    else
        graph_copy(bench->graph, NULL, elsewhere->address, word, 1);
}

static void instantiate_absent(const void *argument)
{
    const struct absent *absent = argument;
    struct graph_bench bench = graph_bench_begin();
    struct contract_mapped elsewhere = contract_map(2 * MIB);
    tn_cu_graphexec exec = NULL;
    add_kind(&bench, absent->node, &elsewhere);
    take_away(&bench, absent->state);
    contract_gives(absent->instantiate, "cuGraphInstantiateWithFlags(",
                   cu.cuGraphInstantiateWithFlags(&exec, bench.graph, 0));
    give_back(&bench, absent->state);
    graph_end(NULL, exec);
    contract_unmap(elsewhere);
    graph_bench_end(&bench);
}

/* Copies as calls make them, of memory that goes before the graph is instantiated. */
enum copy_call { COPY_HTOD, COPY_DTOH, COPY_DTOD, COPY_ANY };

static void instantiate_captured(const void *argument)
{
    const enum copy_call *call = argument;
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graphexec exec = NULL;
    uint32_t *host = graph_flag();
    tn_cu_deviceptr word = bench.memory.address;
    SET_UP(cuGraphDestroy(bench.graph));
    SET_UP(cuStreamBeginCapture(bench.stream, TN_CU_CAPTURE_MODE_RELAXED));
    if (*call == COPY_HTOD)
        SET_UP(cuMemcpyHtoDAsync(word, host, 4, bench.stream));
    else if (*call == COPY_DTOH)
        SET_UP(cuMemcpyDtoHAsync(host, word, 4, bench.stream));
    else if (*call == COPY_DTOD)
        SET_UP(cuMemcpyDtoDAsync(word + 64, word, 4, bench.stream));
    else
        SET_UP(cuMemcpyAsync(word + 64, word, 4, bench.stream));
    SET_UP(cuStreamEndCapture(bench.stream, &bench.graph));
    take_away(&bench, UNMAPPED);
    GIVES(SUCCESS, cuGraphInstantiateWithFlags(&exec, bench.graph, 0));
    give_back(&bench, UNMAPPED);
    graph_end(NULL, exec);
    SET_UP(cuMemFreeHost(host));
    graph_bench_end(&bench);
}

/* An update that leads to memory that is away. */
static void update_to_absent(const void *argument)
{
    const enum node_kind *kind = argument;
    struct graph_bench bench = graph_bench_begin();
    struct contract_mapped elsewhere = contract_map(2 * MIB);
    struct graph_bench other = bench;
    tn_cu_update_result_info info = {.result = 99};
    other.graph = graph_new();
    other.memory = elsewhere;
    add_kind(&other, *kind, &elsewhere);
    tn_cu_graphexec exec = graph_exec(other.graph);
    add_kind(&bench, *kind, &elsewhere);
    take_away(&bench, UNMAPPED);
    contract_gives(*kind == SET_NODE ? TN_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE : TN_CUDA_SUCCESS,
                   "cuGraphExecUpdate(", cu.cuGraphExecUpdate(exec, bench.graph, &info));
    STATE("update result %d", info.result);
    give_back(&bench, UNMAPPED);
    graph_end(other.graph, exec);
    contract_unmap(elsewhere);
    graph_bench_end(&bench);
}

CASE_BODY(change_absent)
{
    struct graph_bench bench = graph_bench_begin();
    struct contract_mapped elsewhere = contract_map(2 * MIB);
    tn_cu_deviceptr word = elsewhere.address;
    tn_cu_deviceptr away = bench.memory.address;
    struct graph_words words;
    tn_cu_graphnode kernel = graph_fill(bench.graph, NULL, word, 5, 1);
    tn_cu_graphnode set = graph_set(bench.graph, NULL, word + 64, 6, 1);
    tn_cu_graphnode copy = graph_copy(bench.graph, set, word + 128, word + 64, 1);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    take_away(&bench, UNMAPPED);
    tn_cu_memset_node_params set_params = graph_set_params(away, 7, 1);
    GIVES(INVALID_VALUE,
          cuGraphExecMemsetNodeSetParams(exec, set, &set_params, contract_current()));
    tn_cu_memcpy3d copy_params = graph_copy_params(away, word, 1);
    GIVES(INVALID_VALUE,
          cuGraphExecMemcpyNodeSetParams(exec, copy, &copy_params, contract_current()));
    copy_params = graph_copy_params(word, away, 1);
    GIVES(INVALID_VALUE,
          cuGraphExecMemcpyNodeSetParams(exec, copy, &copy_params, contract_current()));
    tn_cu_kernel_node_params kernel_params = graph_fill_params(&words, away, 7, 1);
    GIVES(SUCCESS, cuGraphExecKernelNodeSetParams(exec, kernel, &kernel_params));
    give_back(&bench, UNMAPPED);
    graph_run(exec, bench.stream);
    STATE("the words are %u %u %u", contract_word(away, 0), contract_word(word + 64, 0),
          contract_word(word + 128, 0));
    graph_end(NULL, exec);
    contract_unmap(elsewhere);
    graph_bench_end(&bench);
}

CASE_BODY(update_absent)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_deviceptr word = bench.memory.address;
    tn_cu_update_result_info info = {.result = 99};
    tn_cu_graphnode node = graph_fill(bench.graph, NULL, word, 5, 1);
    node = graph_set(bench.graph, node, word + 64, 6, 1);
    graph_copy(bench.graph, node, word + 128, word + 64, 1);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    take_away(&bench, UNMAPPED);
    GIVES(SUCCESS, cuGraphExecUpdate(exec, bench.graph, &info));
    STATE("update result %d", info.result);
    give_back(&bench, UNMAPPED);
    graph_run(exec, bench.stream);
    STATE("the words are %u %u", contract_word(word, 0), contract_word(word + 128, 0));
    graph_end(NULL, exec);
    graph_bench_end(&bench);
}

/* -- Faults -- */

struct fault {
    enum node_kind node;
    enum memory_state state;
    tn_cu_result result;
};

/* What a program can still do in a context that has faulted. */
static void after_fault(tn_cu_result fault, const struct graph_bench *bench, tn_cu_graphexec exec)
{
    tn_cu_deviceptr address = 0;
    tn_cu_stream stream = NULL;
    tn_cu_event event = NULL;
    size_t free_bytes;
    size_t total_bytes;
    tn_cu_memhandle handle = 0;
    tn_cu_allocation_prop prop = contract_prop(0);
    contract_gives(fault, "cuCtxSynchronize(", cu.cuCtxSynchronize());
    contract_gives(fault, "cuMemAlloc(", cu.cuMemAlloc(&address, 4096));
    contract_gives(fault, "cuMemGetInfo(", cu.cuMemGetInfo(&free_bytes, &total_bytes));
    contract_gives(fault, "cuStreamCreate(", cu.cuStreamCreate(&stream, 0));
    contract_gives(fault, "cuEventCreate(", cu.cuEventCreate(&event, 0));
    contract_gives(fault, "cuGraphLaunch(", cu.cuGraphLaunch(exec, bench->stream));
    contract_gives(fault, "cuStreamDestroy(", cu.cuStreamDestroy(bench->stream));
    GIVES(SUCCESS, cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0));
    GIVES(SUCCESS, cuMemCreate(&handle, 2 * MIB, &prop, 0));
    GIVES(SUCCESS, cuMemMap(address, 2 * MIB, 0, handle, 0));
    contract_gives(TN_CUDA_SUCCESS, "cuMemSetAccess(",
                   contract_access(address, 2 * MIB, TN_CU_MEM_ACCESS_READWRITE));
    GIVES(SUCCESS, cuMemUnmap(address, 2 * MIB));
    GIVES(SUCCESS, cuMemRelease(handle));
    GIVES(SUCCESS, cuMemAddressFree(address, 2 * MIB));
}

static void launch_absent(const void *argument)
{
    const struct fault *fault = argument;
    struct graph_bench bench = graph_bench_begin();
    struct contract_mapped elsewhere = contract_map(2 * MIB);
    add_kind(&bench, fault->node, &elsewhere);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    take_away(&bench, fault->state);
    GIVES(SUCCESS, cuGraphLaunch(exec, bench.stream));
    contract_gives(fault->result, "cuStreamSynchronize(", cu.cuStreamSynchronize(bench.stream));
    after_fault(fault->result, &bench, exec);
}

CASE_BODY(reset_after_fault)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_context context = NULL;
    graph_fill(bench.graph, NULL, bench.memory.address, 5, 1);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    take_away(&bench, UNMAPPED);
    SET_UP(cuGraphLaunch(exec, bench.stream));
    GIVES(ILLEGAL_ADDRESS, cuStreamSynchronize(bench.stream));
    GIVES(SUCCESS, cuGraphExecDestroy(exec));
    GIVES(SUCCESS, cuGraphDestroy(bench.graph));
    GIVES(SUCCESS, cuDevicePrimaryCtxReset(0));
    GIVES(ILLEGAL_ADDRESS, cuDevicePrimaryCtxRetain(&context, 0));
}

/* -- Memory that goes while a kernel runs -- */

static const char late_ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry tarn_contract_late(.param .u64 flag, .param .u64 nanoseconds,\n"
    " .param .u64 address, .param .u32 value)\n"
    "{\n"
    " .reg .pred %p; .reg .b32 %r<3>; .reg .b64 %d<6>;\n"
    " ld.param.u64 %d1, [flag]; ld.param.u64 %d3, [nanoseconds]; cvta.to.global.u64 %d1, %d1;\n"
    " ld.param.u64 %d2, [address]; ld.param.u32 %r2, [value]; cvta.to.global.u64 %d2, %d2;\n"
    " mov.u64 %d4, %globaltimer;\n"
    "loop: ld.volatile.global.u32 %r1, [%d1]; setp.ne.u32 %p, %r1, 0; @%p bra done;\n"
    " mov.u64 %d5, %globaltimer; sub.u64 %d5, %d5, %d4;\n"
    " setp.lt.u64 %p, %d5, %d3; @%p bra loop;\n"
    "done: st.global.u32 [%d2], %r2; ret;\n"
    "}\n";

static void late_twin(const tarn_sim_launch *launch, void *const *params)
{
    uint32_t *address;
    (void)launch;
    contract_hold_twin(launch, params);
    memcpy(&address, params[2], sizeof address);
    memcpy(address, params[3], sizeof *address);
}

/* Launches a kernel that waits for *flag, then stores 9 at an address. */
static tn_cu_result late(tn_cu_stream stream, uint32_t *flag, tn_cu_deviceptr address)
{
    tn_cu_module module;
    tn_cu_function function;
    uint64_t limit = 500000000; /* nanoseconds */
    uint32_t value = 9;
    void *params[] = {(void *)&flag, &limit, &address, &value};
    contract_twin("tarn_contract_late", late_twin);
    SET_UP(cuModuleLoadData(&module, late_ptx));
    SET_UP(cuModuleGetFunction(&function, module, "tarn_contract_late"));
    return cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

CASE_BODY(unmapped_while_running)
{
    struct graph_bench bench = graph_bench_begin();
    uint32_t *flag = graph_flag();
    tn_cu_event done = contract_event();
    contract_gives(TN_CUDA_SUCCESS, "cuLaunchKernel(",
                   late(bench.stream, flag, bench.memory.address));
    SET_UP(cuEventRecord(done, bench.stream));
    GIVES(SUCCESS, cuMemUnmap(bench.memory.address, bench.memory.bytes));
    GIVES(NOT_READY, cuEventQuery(done));
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    GIVES(ILLEGAL_ADDRESS, cuStreamSynchronize(bench.stream));
}

CASE_BODY(remapped_while_running)
{
    struct graph_bench bench = graph_bench_begin();
    uint32_t *flag = graph_flag();
    tn_cu_deviceptr word = bench.memory.address;
    tn_cu_memhandle other = contract_handle(2 * MIB);
    contract_gives(TN_CUDA_SUCCESS, "cuLaunchKernel(", late(bench.stream, flag, word));
    GIVES(SUCCESS, cuMemUnmap(word, bench.memory.bytes));
    put(word, bench.memory.bytes, other);
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    GIVES(SUCCESS, cuStreamSynchronize(bench.stream));
    STATE("the new memory has %u", contract_word(word, 0));
    SET_UP(cuMemUnmap(word, bench.memory.bytes));
    put(word, bench.memory.bytes, bench.memory.handle);
    STATE("the old memory has %u", contract_word(word, 0));
    SET_UP(cuMemRelease(other));
    SET_UP(cuMemFreeHost(flag));
    graph_bench_end(&bench);
}

/* -- The table -- */

static const struct absent kernel_unmapped = {KERNEL_NODE, UNMAPPED, TN_CUDA_SUCCESS};
static const struct absent kernel_no_access = {KERNEL_NODE, NO_ACCESS, TN_CUDA_SUCCESS};
static const struct absent set_unmapped = {SET_NODE, UNMAPPED, TN_CUDA_ERROR_INVALID_VALUE};
static const struct absent set_no_access = {SET_NODE, NO_ACCESS, TN_CUDA_ERROR_INVALID_VALUE};
static const struct absent set_read_only = {SET_NODE, READ_ONLY, TN_CUDA_ERROR_INVALID_VALUE};
static const struct absent to_unmapped = {COPY_TO_NODE, UNMAPPED, TN_CUDA_SUCCESS};
static const struct absent to_no_access = {COPY_TO_NODE, NO_ACCESS, TN_CUDA_SUCCESS};
static const struct absent to_read_only = {COPY_TO_NODE, READ_ONLY, TN_CUDA_SUCCESS};
static const struct absent from_unmapped = {COPY_FROM_NODE, UNMAPPED, TN_CUDA_SUCCESS};
static const struct absent from_no_access = {COPY_FROM_NODE, NO_ACCESS, TN_CUDA_SUCCESS};
static const struct absent from_read_only = {COPY_FROM_NODE, READ_ONLY, TN_CUDA_SUCCESS};

static const enum copy_call htod = COPY_HTOD;
static const enum copy_call dtoh = COPY_DTOH;
static const enum copy_call dtod = COPY_DTOD;
static const enum copy_call any_copy = COPY_ANY;

static const enum node_kind kernel_node = KERNEL_NODE;
static const enum node_kind set_node = SET_NODE;
static const enum node_kind copy_to_node = COPY_TO_NODE;
static const enum node_kind copy_from_node = COPY_FROM_NODE;

static const struct fault kernel_away = {KERNEL_NODE, UNMAPPED, TN_CUDA_ERROR_ILLEGAL_ADDRESS};
static const struct fault kernel_barred = {KERNEL_NODE, NO_ACCESS, TN_CUDA_ERROR_ILLEGAL_ADDRESS};
static const struct fault kernel_reading = {KERNEL_NODE, READ_ONLY, TN_CUDA_ERROR_ILLEGAL_ADDRESS};
static const struct fault set_away = {SET_NODE, UNMAPPED, TN_CUDA_ERROR_LAUNCH_FAILED};
static const struct fault set_barred = {SET_NODE, NO_ACCESS, TN_CUDA_ERROR_LAUNCH_FAILED};
static const struct fault set_reading = {SET_NODE, READ_ONLY, TN_CUDA_ERROR_LAUNCH_FAILED};
static const struct fault copy_away = {COPY_TO_NODE, UNMAPPED, TN_CUDA_ERROR_ILLEGAL_ADDRESS};
static const struct fault copy_from_away = {COPY_FROM_NODE, UNMAPPED,
                                            TN_CUDA_ERROR_ILLEGAL_ADDRESS};

#define ABSENT_CASE(name, sentence, row)                                                           \
    {                                                                                              \
        "instantiate-" name, sentence, instantiate_absent, row, false                              \
    }
#define FAULT_CASE(name, sentence, row)                                                            \
    {                                                                                              \
        "launch-" name, sentence, launch_absent, row, true                                         \
    }

static const struct contract_case cases[] = {
    CASE("swapped", "A graph works on whatever is mapped when it runs.", swapped),
    CASE("split", "A graph does not see how many handles its memory has.", split),
    CASE("uploaded", "An upload fixes no memory.", uploaded),
    CASE("reserved-again", "A graph's addresses can be given back and had again.", reserved_again),
    CASE("queued", "A queued graph works on what is mapped when its turn comes.", queued),
    CASE("new-contents", "Contents stay with the memory, not with the address.", new_contents),
    CASE("host-memory", "A graph reads and writes the host's memory at every launch.", host_memory),
    ABSENT_CASE("kernel-unmapped", "A kernel's memory need not be there when instantiating.",
                &kernel_unmapped),
    ABSENT_CASE("kernel-no-access", "A kernel's access is not checked when instantiating.",
                &kernel_no_access),
    ABSENT_CASE("set-unmapped", "A set's memory must be there when instantiating.", &set_unmapped),
    ABSENT_CASE("set-no-access", "A set's memory needs access when instantiating.", &set_no_access),
    ABSENT_CASE("set-read-only", "A set's memory must be writable when instantiating.",
                &set_read_only),
    ABSENT_CASE("copy-to-unmapped", "A copy's target need not be there when instantiating.",
                &to_unmapped),
    ABSENT_CASE("copy-to-no-access", "A copy's target needs no access when instantiating.",
                &to_no_access),
    ABSENT_CASE("copy-to-read-only", "A copy's target may be read-only when instantiating.",
                &to_read_only),
    ABSENT_CASE("copy-from-unmapped", "A copy's source need not be there when instantiating.",
                &from_unmapped),
    ABSENT_CASE("copy-from-no-access", "A copy's source needs no access when instantiating.",
                &from_no_access),
    ABSENT_CASE("copy-from-read-only", "A copy's source may be read-only when instantiating.",
                &from_read_only),
    {"instantiate-captured-htod", "Nor need the target of a captured copy be there.",
     instantiate_captured, &htod, false},
    {"instantiate-captured-dtoh", "Nor need the source of a captured copy be there.",
     instantiate_captured, &dtoh, false},
    {"instantiate-captured-dtod", "Nor need both, of a copy on the device.", instantiate_captured,
     &dtod, false},
    {"instantiate-captured-any", "Nor need both, of a copy of any kind.", instantiate_captured,
     &any_copy, false},
    {"update-to-absent-kernel", "An update may lead a kernel to memory that is away.",
     update_to_absent, &kernel_node, false},
    {"update-to-absent-set", "An update may not lead a set to memory that is away.",
     update_to_absent, &set_node, false},
    {"update-to-absent-target", "An update may lead a copy to a target that is away.",
     update_to_absent, &copy_to_node, false},
    {"update-to-absent-source", "An update may lead a copy to a source that is away.",
     update_to_absent, &copy_from_node, false},
    CASE("change-absent", "Sets and copies are not changed to memory that is away, kernels are.",
         change_absent),
    CASE("update-absent", "An update without a change works while the memory is away.",
         update_absent),
    CASE("remapped-while-running", "A running kernel stores to what is mapped by then.",
         remapped_while_running),
    FAULT_CASE("kernel-unmapped", "A kernel without its memory loses the context.", &kernel_away),
    FAULT_CASE("kernel-no-access", "A kernel without access loses the context.", &kernel_barred),
    FAULT_CASE("kernel-read-only", "A kernel that writes to read-only memory loses the context.",
               &kernel_reading),
    FAULT_CASE("set-unmapped", "A set without its memory loses the context.", &set_away),
    FAULT_CASE("set-no-access", "A set without access loses the context.", &set_barred),
    FAULT_CASE("set-read-only", "A set of read-only memory loses the context.", &set_reading),
    FAULT_CASE("copy-to-unmapped", "A copy without its target loses the context.", &copy_away),
    FAULT_CASE("copy-from-unmapped", "A copy without its source loses the context.",
               &copy_from_away),
    CASE_ALONE("reset-after-fault", "A context that has faulted is not mended by a reset.",
               reset_after_fault),
    CASE_ALONE("unmapped-while-running", "Unmapping waits for no kernel, which then faults.",
               unmapped_while_running),
};
const struct contract_group contract_replay = CONTRACT_GROUP("replay", START_CONTEXT, cases);
