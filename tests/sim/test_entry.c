// SPDX-License-Identifier: Apache-2.0
/* test_entry.c -- finding functions, life cycle, contexts, counting and planned faults. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim_test.h"

GROUP(bare, load_driver, .name = "not initialised")

TEST(bare, before_init_only_the_version_is_known)
{
    tn_cu_deviceptr address = 7;
    int version = 0;
    ANSWERS(TN_CUDA_ERROR_NOT_INITIALIZED, cu.cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0));
    ck_assert_uint_eq(address, 7);
    OK(cu.cuDriverGetVersion(&version));
    ck_assert_int_eq(version, 13000);
}

TEST(bare, a_function_is_found_by_base_name_and_sufficient_version)
{
    void *function = &cu;
    tn_cu_proc_status status = TN_CU_PROC_FOUND;
    OK(cu.cuGetProcAddress("cuStreamGetCaptureInfo", &function, 10000, 0, &status));
    ck_assert_ptr_null(function);
    ck_assert_int_eq(status, TN_CU_PROC_VERSION_NOT_SUFFICIENT);
    OK(cu.cuGetProcAddress("cuStreamGetCaptureInfo", &function, 12030, 0, &status));
    ck_assert_ptr_nonnull(function);
    ck_assert_int_eq(status, TN_CU_PROC_FOUND);
    OK(cu.cuGetProcAddress("cuMemAlloc_v2", &function, 13000, 0, &status));
    ck_assert_ptr_null(function);
    ck_assert_int_eq(status, TN_CU_PROC_SYMBOL_NOT_FOUND);
    function = &cu;
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuGetProcAddress("cuMemAlloc", &function, 99990, 0, &status));
    ck_assert_ptr_eq(function, &cu);
}

/* The function of a name in a version and a flavour; there must be one. */
static void *look_up(const char *name, int version, uint64_t flags)
{
    void *function = NULL;
    tn_cu_proc_status status;
    OK(cu.cuGetProcAddress(name, &function, version, flags, &status));
    ck_assert_int_eq(status, TN_CU_PROC_FOUND);
    ck_assert_ptr_nonnull(function);
    return function;
}

TEST(bare, the_version_asked_for_selects_the_signature)
{
    static const struct {
        const char *name;
        int versions[4]; /* each with a function of its own */
    } rows[] = {
        {"cuStreamGetCaptureInfo", {10010, 11030, 12030}},
        {"cuStreamBeginCapture", {10000, 10010}},
        {"cuGraphGetEdges", {10000, 12030}},
        {"cuGraphKernelNodeGetParams", {10000, 12000}},
        {"cuGraphExecUpdate", {10020, 12000}},
        {"cuCtxGetDevice", {2000, 13000}},
        {"cuEventElapsedTime", {2000, 12080}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int *versions = rows[i].versions;
        for (size_t j = 0; versions[j] != 0; j++) {
            void *function = look_up(rows[i].name, versions[j], 0);
            if (j > 0)
                ck_assert_ptr_ne(function, look_up(rows[i].name, versions[j] - 10, 0));
            if (versions[j + 1] != 0)
                ck_assert_ptr_eq(function, look_up(rows[i].name, versions[j + 1] - 10, 0));
        }
    }
}

TEST(bare, flags_select_the_default_stream)
{
    void *function = &cu;
    ck_assert_ptr_eq(look_up("cuEventRecord", 13000, 0), look_up("cuEventRecord", 13000, 1));
    ck_assert_ptr_ne(look_up("cuEventRecord", 13000, 0), look_up("cuEventRecord", 13000, 2));
    ck_assert_ptr_eq(look_up("cuMemCreate", 13000, 0), look_up("cuMemCreate", 13000, 2));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuGetProcAddress("cuMemCreate", &function, 13000, 4, NULL));
    ck_assert_ptr_eq(function, &cu);
    tn_cu_proc_status status;
    OK(cu.cuGetProcAddress("cuEventRecord", &function, 6050, 2, &status));
    ck_assert_int_eq(status, TN_CU_PROC_VERSION_NOT_SUFFICIENT);
}

TEST(bare, the_oldest_look_up_says_not_found)
{
    tn_cu_result (*old)(const char *, void **, int, uint64_t);
    void *function = look_up("cuGetProcAddress", 11030, 0);
    memcpy(&old, &function, sizeof function);
    function = &cu;
    ANSWERS(TN_CUDA_ERROR_NOT_FOUND, old("cuNoSuchFunction", &function, 12000, 0));
    ck_assert_ptr_eq(function, &cu);
    OK(old("cuMemCreate", &function, 12000, 0));
    ck_assert_ptr_eq(function, look_up("cuMemCreate", 12000, 0));
}

TEST(bare, errors_have_their_names)
{
    const char *text = NULL;
    OK(cu.cuGetErrorName(TN_CUDA_ERROR_OUT_OF_MEMORY, &text));
    ck_assert_str_eq(text, "CUDA_ERROR_OUT_OF_MEMORY");
    OK(cu.cuGetErrorName(TN_CUDA_SUCCESS, &text));
    ck_assert_str_eq(text, "CUDA_SUCCESS");
    OK(cu.cuGetErrorString(TN_CUDA_ERROR_NOT_READY, &text));
    ck_assert_ptr_nonnull(text);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuGetErrorName((tn_cu_result)12345, &text));
    ck_assert_ptr_null(text);
}

GROUP(initialised, start_driver)

TEST(initialised, the_child_of_a_fork_after_init_gets_not_initialized)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        int count;
        bool refused = cu.cuInit(0) == TN_CUDA_ERROR_NOT_INITIALIZED &&
                       cu.cuDeviceGetCount(&count) == TN_CUDA_ERROR_NOT_INITIALIZED;
        _exit(refused ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(initialised, the_default_device_is_one_with_eight_gib)
{
    int count;
    int value;
    size_t bytes;
    char name[64];
    OK(cu.cuDeviceGetCount(&count));
    ck_assert_int_eq(count, 1);
    OK(cu.cuDeviceTotalMem(&bytes, 0));
    ck_assert_uint_eq(bytes, 8192 * MIB);
    OK(cu.cuDeviceGetName(name, sizeof name, 0));
    ck_assert_str_eq(name, "Tarn simulated GPU");
    OK(cu.cuDeviceGetAttribute(&value, TN_CU_ATTR_VMM_SUPPORTED, 0));
    ck_assert_int_eq(value, 1);
    ANSWERS(TN_CUDA_ERROR_INVALID_DEVICE, cu.cuDeviceGet(&value, 1));
}

TEST(initialised, without_a_context_calls_that_need_one_say_so)
{
    size_t free_bytes;
    size_t total_bytes;
    tn_cu_event event;
    tn_cu_stream stream;
    tn_cu_deviceptr address;
    unsigned long long id;
    ANSWERS(TN_CUDA_ERROR_INVALID_CONTEXT, cu.cuMemGetInfo(&free_bytes, &total_bytes));
    ANSWERS(TN_CUDA_ERROR_INVALID_CONTEXT, cu.cuEventCreate(&event, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_CONTEXT, cu.cuStreamCreate(&stream, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_CONTEXT, cu.cuMemAlloc(&address, 1));
    ANSWERS(TN_CUDA_ERROR_INVALID_CONTEXT, cu.cuStreamGetId(TN_CU_STREAM_PER_THREAD, &id));
    ANSWERS(TN_CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxSynchronize());
}

TEST(initialised, primary_contexts_are_counted_and_leave_a_destroyed_name_behind)
{
    tn_cu_context context;
    tn_cu_context current;
    size_t bytes;
    unsigned int flags;
    int active;
    tn_cu_stream stream;
    ANSWERS(TN_CUDA_ERROR_INVALID_CONTEXT, cu.cuDevicePrimaryCtxRelease(0));
    ANSWERS(TN_CUDA_ERROR_INVALID_DEVICE, cu.cuDevicePrimaryCtxRetain(&context, 99));
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxPushCurrent(context));
    struct mapped mapped = map_new(2 * MIB);
    *(volatile uint32_t *)mapped.address = 11;
    OK(cu.cuStreamCreate(&stream, 0));
    OK(cu.cuMemAlloc(&(tn_cu_deviceptr){0}, 5));
    OK(cu.cuDevicePrimaryCtxRelease(0));
    OK(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
    ck_assert_int_eq(active, 0);
    OK(cu.cuCtxGetCurrent(&current));
    ck_assert_ptr_eq(current, context);
    ANSWERS(TN_CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuMemGetInfo(&bytes, &bytes));
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE, cu.cuStreamQuery(stream));
    tarn_sim_ledger now = ledger();
    ck_assert_uint_eq(now.streams + now.linear_allocations + now.primary_retains, 0);
    ck_assert_uint_eq(now.mappings, 1);
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    ck_assert_uint_eq(*(volatile uint32_t *)mapped.address, 11);
    OK(cu.cuMemGetInfo(&bytes, &bytes));
    unmap_all(mapped);
}

TEST(initialised, the_context_stack_is_the_threads_own)
{
    tn_cu_context context;
    tn_cu_context popped;
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxPopCurrent(&popped));
    ANSWERS(TN_CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxPushCurrent((tn_cu_context)0x1234));
    OK(cu.cuCtxPushCurrent(context));
    OK(cu.cuCtxPushCurrent(context));
    ck_assert_uint_eq(ledger().context_stack_entries, 2);
    OK(cu.cuCtxPopCurrent(&popped));
    ck_assert_ptr_eq(popped, context);
    OK(cu.cuCtxSetCurrent(NULL));
    OK(cu.cuCtxGetCurrent(&popped));
    ck_assert_ptr_null(popped);
    ck_assert_uint_eq(ledger().context_stack_entries, 0);
}

TEST(initialised, the_per_thread_flavour_takes_the_threads_own_stream)
{
    tn_cu_context context;
    tn_cu_stream blocking;
    tn_cu_capture_status status;
    tn_pfn_cuStreamBeginCapture begin;
    tn_pfn_cuMemcpyHtoD copy;
    tn_pfn_cuStreamIsCapturing is_capturing;
    tn_cu_deviceptr address;
    tn_cu_graph graph;
    uint32_t word = 5;
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxSetCurrent(context));
    OK(cu.cuMemAlloc(&address, sizeof word));
    void *function = look_up("cuStreamBeginCapture", 13000, 2);
    memcpy(&begin, &function, sizeof function);
    function = look_up("cuMemcpyHtoD", 13000, 2);
    memcpy(&copy, &function, sizeof function);
    function = look_up("cuStreamIsCapturing", 13000, 2);
    memcpy(&is_capturing, &function, sizeof function);
    /* A blocking stream that captures bars the legacy stream, and not the thread's own. */
    OK(cu.cuStreamCreate(&blocking, 0));
    OK(cu.cuStreamBeginCapture(blocking, TN_CU_CAPTURE_MODE_RELAXED));
    OK(copy(address, &word, sizeof word));
    ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cu.cuMemcpyHtoD(address, &word, sizeof word));
    ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(blocking, &graph));
    OK(begin(NULL, TN_CU_CAPTURE_MODE_RELAXED));
    OK(is_capturing(NULL, &status));
    ck_assert_int_eq(status, TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(cu.cuStreamIsCapturing(TN_CU_STREAM_PER_THREAD, &status));
    ck_assert_int_eq(status, TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(cu.cuStreamEndCapture(TN_CU_STREAM_PER_THREAD, &graph));
}

TEST(initialised, old_signatures_work)
{
    tn_cu_context context;
    tn_cu_graph graph;
    tn_cu_graph of_capture;
    const tn_cu_graphnode *nodes;
    uint64_t id = 0;
    uint64_t newest_id;
    size_t count;
    tn_cu_capture_status status;
    tn_cu_result (*begin)(tn_cu_stream);
    tn_cu_result (*first)(tn_cu_stream, tn_cu_capture_status *, uint64_t *);
    tn_cu_result (*second)(tn_cu_stream, tn_cu_capture_status *, uint64_t *, tn_cu_graph *,
                           const tn_cu_graphnode **, size_t *);
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxSetCurrent(context));
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    void *function = look_up("cuStreamBeginCapture", 10000, 0);
    memcpy(&begin, &function, sizeof function);
    function = look_up("cuStreamGetCaptureInfo", 10010, 0);
    memcpy(&first, &function, sizeof function);
    function = look_up("cuStreamGetCaptureInfo", 12020, 0);
    memcpy(&second, &function, sizeof function);
    OK(begin(stream));
    OK(first(stream, &status, &id));
    ck_assert_int_eq(status, TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(second(stream, &status, &newest_id, &of_capture, &nodes, &count));
    ck_assert_uint_eq(newest_id, id);
    ck_assert_uint_eq(count, 0);
    /* It began globally: an unsafe call ends it. */
    ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuMemAlloc(&(tn_cu_deviceptr){0}, 1));
    ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(stream, &graph));
}

TEST(initialised, a_planned_fault_strikes_the_nth_call_once)
{
    tn_cu_deviceptr address;
    const char *last = NULL;
    sim.tarn_sim_plan_fault("cuMemAddressReserve", 2, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    OK(cu.cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0));
    uint64_t calls = sim.tarn_sim_call_count("cuMemAddressReserve");
    ANSWERS(TN_CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0));
    ck_assert_uint_eq(sim.tarn_sim_call_count("cuMemAddressReserve"), calls + 1);
    ck_assert_uint_eq(ledger().reservations, 1);
    OK(cu.cuMemAddressFree(address, 2 * MIB));
    OK(cu.cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0));
    ck_assert_uint_eq(sim.tarn_sim_clear_fault(&last), 1);
    ck_assert_str_eq(last, "cuMemAddressReserve");
}

TEST(initialised, a_fault_for_good_strikes_every_later_call)
{
    int count;
    size_t bytes;
    const char *last = NULL;
    sim.tarn_sim_plan_fault(NULL, 2, 1, TN_CUDA_ERROR_UNKNOWN);
    OK(cu.cuDeviceGetCount(&count));
    ANSWERS(TN_CUDA_ERROR_UNKNOWN, cu.cuDeviceGetCount(&count));
    ANSWERS(TN_CUDA_ERROR_UNKNOWN, cu.cuDeviceTotalMem(&bytes, 0));
    OK(cu.cuGetErrorName(TN_CUDA_SUCCESS, &last));
    ck_assert_uint_eq(sim.tarn_sim_clear_fault(&last), 2);
    ck_assert_str_eq(last, "cuDeviceTotalMem");
    OK(cu.cuDeviceTotalMem(&bytes, 0));
    ck_assert_uint_eq(sim.tarn_sim_clear_fault(&last), 0);
    ck_assert_ptr_null(last);
}

TEST(initialised, a_plan_for_an_unknown_function_strikes_nothing)
{
    int count;
    sim.tarn_sim_plan_fault("cuNoSuchFunction", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    OK(cu.cuDeviceGetCount(&count));
    ck_assert_uint_eq(sim.tarn_sim_clear_fault(NULL), 0);
    ck_assert_uint_eq(sim.tarn_sim_call_count("cuNoSuchFunction"), 0);
}

static void do_nothing(void *unused)
{
    (void)unused;
}

/* Leaves one of everything behind, work that will never run included, and exits. */
static void leave_everything_behind(void)
{
    tn_cu_context context;
    tn_cu_graph graph;
    tn_cu_graphexec exec;
    tn_cu_userobject object;
    OK(cu.cuInit(0));
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxSetCurrent(context));
    map_new(2 * MIB);
    tn_cu_stream stream = new_stream(TN_CU_STREAM_DEFAULT);
    OK(cu.cuStreamBeginCapture(stream, TN_CU_CAPTURE_MODE_RELAXED));
    OK(cu.cuLaunchHostFunc(stream, do_nothing, NULL));
    OK(cu.cuStreamEndCapture(stream, &graph));
    OK(cu.cuUserObjectCreate(&object, NULL, do_nothing, 1, 1));
    OK(cu.cuGraphRetainUserObject(graph, object, 1, 0));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    sim.tarn_sim_hold_work();
    OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuLaunchHostFunc(NULL, do_nothing, NULL));
    OK(cu.cuEventRecord(new_event(), NULL));
    OK(cu.cuStreamBeginCapture(stream, TN_CU_CAPTURE_MODE_RELAXED));
    exit(EXIT_SUCCESS);
}

TEST(bare, a_process_may_exit_and_leave_everything_behind)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        leave_everything_behind();
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
}

static tn_cu_result result_at_exit;

static void ask_at_exit(void)
{
    int count;
    result_at_exit = cu.cuDeviceGetCount(&count);
    _exit(result_at_exit == TN_CUDA_SUCCESS || result_at_exit == TN_CUDA_ERROR_DEINITIALIZED ? 0
                                                                                             : 1);
}

TEST(bare, calls_made_while_the_process_exits_are_answered)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        OK(cu.cuInit(0));
        atexit(ask_at_exit);
        exit(1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Every number that CUDA 13.0 knows is an attribute, and no other. */
TEST(bare, a_device_has_every_attribute)
{
    int value = 7;
    start_driver();
    for (int i = 1; i <= 147; i++)
        OK(cu.cuDeviceGetAttribute(&value, (tn_cu_device_attribute)i, 0));
    value = 7;
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuDeviceGetAttribute(&value, (tn_cu_device_attribute)0, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuDeviceGetAttribute(&value, (tn_cu_device_attribute)148, 0));
    ck_assert_int_eq(value, 7);
}

/* Parameters that ask for nothing are none. */
TEST(bare, a_context_is_made_with_parameters_that_ask_for_nothing)
{
    struct {
        void *affinities;
        int count;
        void *client;
    } params = {NULL, 0, NULL};
    tn_cu_result (*create)(tn_cu_context *, void *, unsigned int, tn_cu_device);
    tn_cu_context context = NULL;
    tn_cu_context current = NULL;
    void *found = NULL;
    start_driver();
    OK(cu.cuGetProcAddress("cuCtxCreate", &found, 12050, 0, NULL));
    memcpy(&create, &found, sizeof create);
    OK(create(&context, &params, 0, 0));
    OK(cu.cuCtxGetCurrent(&current));
    ck_assert_ptr_eq(current, context);
    OK(cu.cuCtxDestroy(context));
    params.count = -1;
    OK(create(&context, &params, 0, 0));
    OK(cu.cuCtxDestroy(context));
    params.count = 1;
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, create(&context, &params, 0, 0));
    params.affinities = (int[]){0, 8};
    ANSWERS(TN_CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, create(&context, &params, 3, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_DEVICE, create(&context, &params, 0, 99));
}
