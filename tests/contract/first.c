// SPDX-License-Identifier: Apache-2.0
/* first.c -- what holds before cuInit, how functions are found, and what forking does. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contract/contract.h"

CASE_BODY(before_init)
{
    tn_cu_deviceptr address = 7;
    int version = 0;
    GIVES(NOT_INITIALIZED, cuMemAddressReserve(&address, 64 * MIB, 0, 0, 0));
    HOLDS(address == 7, "the address is untouched");
    GIVES(SUCCESS, cuDriverGetVersion(&version));
    HOLDS(version >= 12040, "the version is 12.4 or later");
}

CASE_BODY(before_init_others)
{
    tn_cu_allocation_prop prop = contract_prop(0);
    tn_cu_capture_mode mode = TN_CU_CAPTURE_MODE_RELAXED;
    tn_cu_context context;
    tn_cu_device device;
    tn_cu_deviceptr address;
    tn_cu_graph graph;
    tn_cu_event event;
    tn_cu_stream stream;
    tn_cu_memhandle handle;
    tn_cu_mempool pool;
    uint64_t value;
    size_t bytes;
    int count;
    GIVES(NOT_INITIALIZED, cuDeviceGet(&device, 0));
    GIVES(NOT_INITIALIZED, cuDeviceGetCount(&count));
    GIVES(NOT_INITIALIZED, cuDeviceGetAttribute(&count, TN_CU_ATTR_WARP_SIZE, 0));
    GIVES(NOT_INITIALIZED, cuDeviceTotalMem(&bytes, 0));
    GIVES(NOT_INITIALIZED, cuDevicePrimaryCtxRetain(&context, 0));
    GIVES(NOT_INITIALIZED, cuDevicePrimaryCtxRelease(0));
    GIVES(NOT_INITIALIZED, cuCtxGetCurrent(&context));
    GIVES(NOT_INITIALIZED, cuCtxSetCurrent(NULL));
    GIVES(NOT_INITIALIZED, cuCtxSynchronize());
    GIVES(NOT_INITIALIZED, cuMemGetInfo(&bytes, &bytes));
    GIVES(NOT_INITIALIZED, cuMemCreate(&handle, 2 * MIB, &prop, 0));
    GIVES(NOT_INITIALIZED, cuMemRelease(0));
    GIVES(NOT_INITIALIZED, cuMemGetAllocationGranularity(&bytes, &prop, 0));
    GIVES(NOT_INITIALIZED, cuMemAlloc(&address, 8));
    GIVES(NOT_INITIALIZED, cuMemFree(0));
    GIVES(NOT_INITIALIZED, cuPointerGetAttribute(&value, TN_CU_POINTER_MAPPED, 0));
    GIVES(NOT_INITIALIZED, cuStreamCreate(&stream, 0));
    GIVES(NOT_INITIALIZED, cuEventCreate(&event, 0));
    GIVES(NOT_INITIALIZED, cuGraphCreate(&graph, 0));
    GIVES(NOT_INITIALIZED, cuDeviceGetDefaultMemPool(&pool, 0));
    GIVES(NOT_INITIALIZED, cuThreadExchangeStreamCaptureMode(&mode));
}

CASE_BODY(before_init_errors)
{
    const char *text = NULL;
    GIVES(SUCCESS, cuGetErrorName(TN_CUDA_ERROR_NOT_INITIALIZED, &text));
    HOLDS(text != NULL && strcmp(text, "CUDA_ERROR_NOT_INITIALIZED") == 0, "its name");
}

CASE_BODY(init_flags)
{
    int count = 0;
    GIVES(INVALID_VALUE, cuInit(1));
    GIVES(NOT_INITIALIZED, cuDeviceGetCount(&count));
}

/* -- Looking functions up -- */

/* Looks up, and shows what comes of it. */
static void *find(tn_cu_result expected, const char *name, int version, tn_cu_proc_status status)
{
    void *function = NULL;
    tn_cu_proc_status got = (tn_cu_proc_status)77;
    STATE("%s of %d", name, version);
    if (contract_gives(expected, "cuGetProcAddress(",
                       cu.cuGetProcAddress(name, &function, version,
                                           TN_CU_GET_PROC_ADDRESS_LEGACY_STREAM, &got)) !=
        TN_CUDA_SUCCESS) {
        HOLDS(function == NULL && (int)got == 77, "both answers are untouched");
        return NULL;
    }
    HOLDS(got == status, "status %d", (int)got);
    HOLDS((function != NULL) == (status == TN_CU_PROC_FOUND), "%s",
          function == NULL ? "NULL" : "a function");
    return function;
}

CASE_BODY(look_up)
{
    find(TN_CUDA_SUCCESS, "cuMemAlloc", 12000, TN_CU_PROC_FOUND);
    find(TN_CUDA_SUCCESS, "cuMemAlloc_v2", 12000, TN_CU_PROC_SYMBOL_NOT_FOUND);
    find(TN_CUDA_SUCCESS, "cuNoSuchFunction", 12000, TN_CU_PROC_SYMBOL_NOT_FOUND);
    find(TN_CUDA_SUCCESS, "cuFuncGetParamCount", 13000, TN_CU_PROC_SYMBOL_NOT_FOUND);
    find(TN_CUDA_SUCCESS, "cuGraphNodeGetParams", 13000, TN_CU_PROC_SYMBOL_NOT_FOUND);
    find(TN_CUDA_SUCCESS, "cuMemCreate", 10010, TN_CU_PROC_VERSION_NOT_SUFFICIENT);
    find(TN_CUDA_SUCCESS, "cuMemCreate", 10020, TN_CU_PROC_FOUND);
    find(TN_CUDA_ERROR_INVALID_VALUE, "cuMemCreate", 99990, TN_CU_PROC_FOUND);
}

CASE_BODY(look_up_versions)
{
    static const struct {
        const char *name;
        int older;
        int newer;
    } rows[] = {
        {"cuStreamGetCaptureInfo", 10010, 11030},
        {"cuStreamGetCaptureInfo", 11030, 12030},
        {"cuGraphGetEdges", 10000, 12030},
        {"cuStreamBeginCapture", 10000, 10010},
        {"cuGraphKernelNodeGetParams", 11080, 12000},
        {"cuGraphExecUpdate", 11080, 12000},
        {"cuEventElapsedTime", 12040, 12080},
        {"cuCtxGetDevice", 12040, 13000},
        {"cuMemcpyBatchAsync", 12080, 13000},
        {"cuCtxCreate", 12040, 13000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *older = find(TN_CUDA_SUCCESS, rows[i].name, rows[i].older, TN_CU_PROC_FOUND);
        void *newer = find(TN_CUDA_SUCCESS, rows[i].name, rows[i].newer, TN_CU_PROC_FOUND);
        HOLDS(older != newer, "two functions");
    }
    void *same = find(TN_CUDA_SUCCESS, "cuStreamGetCaptureInfo", 12030, TN_CU_PROC_FOUND);
    HOLDS(same == find(TN_CUDA_SUCCESS, "cuStreamGetCaptureInfo", 13000, TN_CU_PROC_FOUND),
          "one function");
    find(TN_CUDA_SUCCESS, "cuStreamGetCaptureInfo", 10000, TN_CU_PROC_VERSION_NOT_SUFFICIENT);
}

CASE_BODY(look_up_flags)
{
    void *function = NULL;
    tn_cu_proc_status status;
    STATE("flags 8");
    GIVES(INVALID_VALUE, cuGetProcAddress("cuInit", &function, 12000, 8, &status));
    STATE("no status");
    GIVES(SUCCESS, cuGetProcAddress("cuInit", &function, 12000, 0, NULL));
}

CASE_BODY(look_up_threads)
{
    void *legacy = NULL;
    void *own = NULL;
    void *normal = NULL;
    GIVES(SUCCESS, cuGetProcAddress("cuStreamSynchronize", &normal, 12000,
                                    TN_CU_GET_PROC_ADDRESS_DEFAULT, NULL));
    GIVES(SUCCESS, cuGetProcAddress("cuStreamSynchronize", &legacy, 12000,
                                    TN_CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL));
    GIVES(SUCCESS, cuGetProcAddress("cuStreamSynchronize", &own, 12000,
                                    TN_CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
    HOLDS(normal == legacy, "by default NULL means the legacy stream");
    HOLDS(own != legacy, "or else the thread's");
}

/* -- Forking -- */

#define ANSWERS 5
static const char *const fork_calls[ANSWERS] = {"cuInit(", "cuDeviceGetCount(",
                                                "cuMemAddressReserve(", "cuCtxGetCurrent(",
                                                "cuDriverGetVersion("};

/* Forks, and gets the child's answers. */
static void fork_and_ask(tn_cu_result answers[ANSWERS])
{
    int ends[2];
    if (pipe(ends) != 0)
        contract_give_up("no pipe");
    pid_t pid = fork();
    if (pid == 0) {
        int count = 0;
        tn_cu_deviceptr address;
        tn_cu_context context;
        answers[0] = cu.cuInit(0);
        answers[1] = cu.cuDeviceGetCount(&count);
        answers[2] = cu.cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0);
        answers[3] = cu.cuCtxGetCurrent(&context);
        answers[4] = cu.cuDriverGetVersion(&count);
        size_t bytes = ANSWERS * sizeof answers[0];
        _exit(write(ends[1], answers, bytes) == (ssize_t)bytes ? 0 : 1);
    }
    close(ends[1]);
    ssize_t got = read(ends[0], answers, ANSWERS * sizeof answers[0]);
    close(ends[0]);
    waitpid(pid, NULL, 0);
    if (got != (ssize_t)(ANSWERS * sizeof answers[0]))
        contract_give_up("the child did not answer");
}

CASE_BODY(fork_after)
{
    tn_cu_result answers[ANSWERS];
    int count = 0;
    SET_UP(cuInit(0));
    fork_and_ask(answers);
    STATE("in the child");
    for (int i = 0; i < ANSWERS; i++)
        contract_gives(i == 4 ? TN_CUDA_SUCCESS : TN_CUDA_ERROR_NOT_INITIALIZED, fork_calls[i],
                       answers[i]);
    STATE("in the parent");
    GIVES(SUCCESS, cuDeviceGetCount(&count));
}

CASE_BODY(fork_before)
{
    tn_cu_result answers[ANSWERS];
    fork_and_ask(answers);
    STATE("in the child");
    for (int i = 0; i < ANSWERS; i++)
        contract_gives(TN_CUDA_SUCCESS, fork_calls[i], answers[i]);
    STATE("in the parent");
    GIVES(SUCCESS, cuInit(0));
}

/* -- The tools of the other cases, used once each -- */

CASE_BODY(tools)
{
    struct contract_mapped mapped = contract_map(2 * MIB);
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    struct contract_busy busy = contract_busy_begin();
    HOLDS(contract_busy_runs(&busy), "the held kernel runs");
    contract_busy_end(&busy);
    contract_fill(stream, mapped.address, 5, 1000);
    contract_add(stream, mapped.address + 4, 2);
    contract_copy(stream, mapped.address + 8000, mapped.address, 1000);
    GIVES(SUCCESS, cuStreamSynchronize(stream));
    HOLDS(contract_word(mapped.address, 999) == 5, "filled");
    HOLDS(contract_word(mapped.address, 2001) == 7, "added and copied");
    SET_UP(cuStreamDestroy(stream));
    contract_unmap(mapped);
}

static const struct contract_case tool_cases[] = {
    CASE("tools", "A kernel runs until it is told to end; kernels fill, add and copy.", tools),
};
const struct contract_group contract_tools = CONTRACT_GROUP("tools", START_CONTEXT, tool_cases);

static const struct contract_case cases[] = {
    CASE("before-init", "Before cuInit only the version can be asked for.", before_init),
    CASE("before-init-others", "Every other call says that the driver is not initialised.",
         before_init_others),
    CASE("before-init-errors", "Errors have their names before cuInit.", before_init_errors),
    CASE("init-flags", "cuInit takes no flags, and does nothing then.", init_flags),
    CASE("look-up", "Functions are found by their names without a suffix.", look_up),
    CASE("look-up-versions", "The version chooses between forms of a function.", look_up_versions),
    CASE("look-up-flags", "Unknown flags are refused; the status need not be asked for.",
         look_up_flags),
    CASE("look-up-threads", "What NULL means as a stream is chosen with the function.",
         look_up_threads),
    CASE_ALONE("fork-before", "A child that was forked before cuInit has a driver.", fork_before),
    CASE_ALONE("fork-after", "A child that was forked after cuInit has none.", fork_after),
};
const struct contract_group contract_first = CONTRACT_GROUP("first", START_NOTHING, cases);
