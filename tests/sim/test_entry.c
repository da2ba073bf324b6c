// SPDX-License-Identifier: Apache-2.0
/* test_entry.c -- finding functions, life cycle, contexts, counting and planned faults. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim_test.h"

START_TEST(before_init_only_the_version_is_known)
{
    tn_cu_deviceptr address = 7;
    int version = 0;
    ANSWERS(TN_CUDA_ERROR_NOT_INITIALIZED, cu.cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0));
    ck_assert_uint_eq(address, 7);
    OK(cu.cuDriverGetVersion(&version));
    ck_assert_int_eq(version, 13000);
}
END_TEST

START_TEST(a_function_is_found_by_base_name_and_sufficient_version)
{
    void *function = &cu;
    tn_cu_proc_status status = TN_CU_PROC_FOUND;
    OK(cu.cuGetProcAddress("cuStreamGetCaptureInfo", &function, 12020, 0, &status));
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
END_TEST

START_TEST(errors_have_their_names)
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
END_TEST

START_TEST(the_child_of_a_fork_after_init_gets_not_initialized)
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
END_TEST

START_TEST(the_default_device_is_one_with_eight_gib)
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
END_TEST

START_TEST(without_a_context_calls_that_need_one_say_so)
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
END_TEST

START_TEST(primary_contexts_are_counted_and_leave_a_destroyed_name_behind)
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
END_TEST

START_TEST(the_context_stack_is_the_threads_own)
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
END_TEST

START_TEST(a_planned_fault_strikes_the_nth_call_once)
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
END_TEST

START_TEST(a_fault_for_good_strikes_every_later_call)
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
END_TEST

START_TEST(a_plan_for_an_unknown_function_strikes_nothing)
{
    int count;
    sim.tarn_sim_plan_fault("cuNoSuchFunction", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    OK(cu.cuDeviceGetCount(&count));
    ck_assert_uint_eq(sim.tarn_sim_clear_fault(NULL), 0);
    ck_assert_uint_eq(sim.tarn_sim_call_count("cuNoSuchFunction"), 0);
}
END_TEST

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

START_TEST(a_process_may_exit_and_leave_everything_behind)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        leave_everything_behind();
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
}
END_TEST

static tn_cu_result result_at_exit;

static void ask_at_exit(void)
{
    int count;
    result_at_exit = cu.cuDeviceGetCount(&count);
    _exit(result_at_exit == TN_CUDA_SUCCESS || result_at_exit == TN_CUDA_ERROR_DEINITIALIZED ? 0
                                                                                             : 1);
}

START_TEST(calls_made_while_the_process_exits_are_answered)
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
END_TEST

Suite *entry_suite(void)
{
    Suite *suite = suite_create("entry");
    TCase *bare = tcase_create("not initialised");
    tcase_add_checked_fixture(bare, load_driver, NULL);
    tcase_add_test(bare, before_init_only_the_version_is_known);
    tcase_add_test(bare, a_function_is_found_by_base_name_and_sufficient_version);
    tcase_add_test(bare, errors_have_their_names);
    tcase_add_test(bare, a_process_may_exit_and_leave_everything_behind);
    tcase_add_test(bare, calls_made_while_the_process_exits_are_answered);
    suite_add_tcase(suite, bare);
    TCase *started = tcase_create("initialised");
    tcase_add_checked_fixture(started, start_driver, NULL);
    tcase_add_test(started, the_child_of_a_fork_after_init_gets_not_initialized);
    tcase_add_test(started, the_default_device_is_one_with_eight_gib);
    tcase_add_test(started, without_a_context_calls_that_need_one_say_so);
    tcase_add_test(started, primary_contexts_are_counted_and_leave_a_destroyed_name_behind);
    tcase_add_test(started, the_context_stack_is_the_threads_own);
    tcase_add_test(started, a_planned_fault_strikes_the_nth_call_once);
    tcase_add_test(started, a_fault_for_good_strikes_every_later_call);
    tcase_add_test(started, a_plan_for_an_unknown_function_strikes_nothing);
    suite_add_tcase(suite, started);
    return suite;
}
