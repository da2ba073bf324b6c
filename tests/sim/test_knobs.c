// SPDX-License-Identifier: Apache-2.0
/* test_knobs.c -- settings, by the environment and by the program, right and wrong. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim_test.h"

/* Loads and initialises the driver with one setting in the environment. Returns what it says. */
static const char *start_with(const char *name, const char *value)
{
    setenv(name, value, 1);
    begin_hearing();
    load_driver();
    OK(cu.cuInit(0));
    return end_hearing();
}

static void says(const char *said, const char *part)
{
    ck_assert_msg(strstr(said, part) != NULL, "\"%s\" is not in \"%s\"", part, said);
}

GROUP(settings, NULL)

TEST(settings, memory_and_devices_are_as_many_as_asked_for)
{
    int count;
    size_t bytes;
    setenv("TARN_SIM_DEVICES", "3", 1);
    ck_assert_str_eq(start_with("TARN_SIM_MEMORY_MIB", "65"), "");
    OK(cu.cuDeviceGetCount(&count));
    ck_assert_int_eq(count, 3);
    OK(cu.cuDeviceTotalMem(&bytes, 2));
    ck_assert_uint_eq(bytes, 64 * MIB);
}

static const struct {
    const char *name;
    const char *value;
} wrong[] = {
    {"TARN_SIM_DEVICES", "17"},
    {"TARN_SIM_DEVICES", "1x"},
    {"TARN_SIM_MEMORY_MIB", "much"},
    {"TARN_SIM_STRICT", "yes"},
    {"TARN_SIM_CHECK", "3"},
    {"TARN_SIM_POISON", "2"},
    {"TARN_SIM_COSTS", "nosuchcosts"},
    {"TARN_SIM_COSTS_SLEEP", "2"},
    {"TARN_SIM_FAULT", "cuMemCreate:0:OUT_OF_MEMORY"},
    {"TARN_SIM_FAULT", "cuNoSuch:1:OUT_OF_MEMORY"},
    {"TARN_SIM_FAULT", "cuMemCreate:1:NO_SUCH_ERROR"},
    {"TARN_SIM_FAULT", "cuMemCreate:1:OUT_OF_MEMORY:never"},
    {"TARN_SIM_FAULT", "cuMemCreate:1"},
    {"TARN_SIM_FAULT", "cuMemCreate:-1:OUT_OF_MEMORY"},
    {"TARN_SIM_FAULT", "cuMemCreate:18446744073709551616:OUT_OF_MEMORY"},
    {"TARN_SIM_HINTS", "refused:x"},
    {"TARN_SIM_DRIVER_VERSION", "11080"},
    {"TARN_SIM_MISSING", "cuNoSuch"},
    {"TARN_SIM_DESTRUCTOR_US", "10000001"},
    {"TARN_SIM_LEDGER", "2"},
    {"TARN_SIM_GONE", "2"},
    {"TARN_SIM_WORK", "later"},
};

TEST_LOOP(settings, a_wrong_value_is_reported_and_the_default_stands, 0,
          sizeof wrong / sizeof wrong[0])
{
    int count;
    size_t bytes;
    const char *said = start_with(wrong[_i].name, wrong[_i].value);
    says(said, wrong[_i].name);
    says(said, "is of no effect: it may be ");
    OK(cu.cuDeviceGetCount(&count));
    ck_assert_int_eq(count, 1);
    OK(cu.cuDeviceTotalMem(&bytes, 0));
    ck_assert_uint_eq(bytes, 8192 * MIB);
    physical(2 * MIB);
}

TEST(settings, a_misspelt_setting_is_reported)
{
    says(start_with("TARN_SIM_DEVISES", "2"), "there is no such setting");
}

TEST(settings, an_empty_setting_is_none)
{
    ck_assert_str_eq(start_with("TARN_SIM_DEVICES", ""), "");
}

TEST(settings, a_program_can_set_what_the_environment_can_until_init)
{
    int count;
    setenv("TARN_SIM_DEVICES", "2", 1);
    load_driver();
    ck_assert_int_eq(sim.tarn_sim_configure("TARN_SIM_DEVICES", "4"), 0);
    ck_assert_int_eq(sim.tarn_sim_configure("MEMORY_MIB", "64"), 0);
    begin_hearing();
    ck_assert_int_eq(sim.tarn_sim_configure("DEVICES", "x"), -1);
    ck_assert_int_eq(sim.tarn_sim_configure("NOTHING", "1"), -1);
    ck_assert_int_eq(sim.tarn_sim_configure(NULL, "1"), -1);
    OK(cu.cuInit(0));
    ck_assert_int_eq(sim.tarn_sim_configure("DEVICES", "1"), -1);
    says(end_hearing(), "the driver is initialised");
    OK(cu.cuDeviceGetCount(&count));
    ck_assert_int_eq(count, 4);
}

GROUP(effects, NULL)

TEST(effects, faults_are_planned_by_the_environment_several_at_once)
{
    tn_cu_deviceptr address;
    tn_cu_memhandle handle;
    int count;
    tn_cu_allocation_prop prop = device_prop(0);
    const char *last = NULL;
    start_with("TARN_SIM_FAULT", "cuMemCreate:2:OUT_OF_MEMORY,"
                                 "cuMemAddressReserve:1:CUDA_ERROR_NOT_SUPPORTED:always,"
                                 "cuDeviceGetCount:1:999");
    OK(cu.cuMemCreate(&handle, 2 * MIB, &prop, 0));
    ANSWERS(TN_CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemCreate(&handle, 2 * MIB, &prop, 0));
    OK(cu.cuMemCreate(&handle, 2 * MIB, &prop, 0));
    ANSWERS(TN_CUDA_ERROR_UNKNOWN, cu.cuDeviceGetCount(&count));
    for (int i = 0; i < 3; i++)
        ANSWERS(TN_CUDA_ERROR_NOT_SUPPORTED, cu.cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0));
    ck_assert_uint_eq(sim.tarn_sim_clear_fault(&last), 5);
    ck_assert_str_eq(last, "cuMemAddressReserve");
    OK(cu.cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0));
}

TEST(effects, a_plan_for_any_function_is_a_star)
{
    int count;
    setenv("TARN_SIM_FAULT", "*:2:UNKNOWN", 1);
    load_driver();
    OK(cu.cuInit(0));
    ANSWERS(TN_CUDA_ERROR_UNKNOWN, cu.cuDeviceGetCount(&count));
    OK(cu.cuDeviceGetCount(&count));
}

TEST_LOOP(effects, hints_can_be_moved_and_refused, 0, 2)
{
    const tn_cu_deviceptr hint = 0x480000000000;
    tn_cu_deviceptr address;
    if (_i == 0) {
        start_with("TARN_SIM_HINTS", "moved");
        OK(cu.cuMemAddressReserve(&address, 64 * MIB, 0, hint, 0));
        ck_assert_uint_ne(address, hint);
    } else {
        start_with("TARN_SIM_HINTS", "refused:32");
        ANSWERS(TN_CUDA_ERROR_OUT_OF_MEMORY,
                cu.cuMemAddressReserve(&address, 64 * MIB, 0, hint, 0));
        OK(cu.cuMemAddressReserve(&address, 32 * MIB, 0, hint, 0));
    }
}

/* What cuGetProcAddress says of a function, asked for as it was introduced. */
static bool found(const char *name, int version)
{
    void *function = NULL;
    tn_cu_proc_status status;
    OK(cu.cuGetProcAddress(name, &function, version, 0, &status));
    ck_assert_int_eq(status, function != NULL ? TN_CU_PROC_FOUND : TN_CU_PROC_SYMBOL_NOT_FOUND);
    return function != NULL;
}

TEST(effects, an_older_driver_lacks_what_is_newer)
{
    int version;
    load_driver();
    ck_assert_int_eq(sim.tarn_sim_configure("DRIVER_VERSION", "12020"), 0);
    OK(cu.cuDriverGetVersion(&version));
    ck_assert_int_eq(version, 12020);
    ck_assert(found("cuMemCreate", 10020));
    ck_assert(!found("cuFuncGetParamInfo", 12020));
    ck_assert(found("cuStreamGetId", 12000));
    void *function = &cu;
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuGetProcAddress("cuMemCreate", &function, 12030, 0, NULL));
}

TEST(effects, functions_can_be_missing)
{
    load_driver();
    ck_assert_int_eq(sim.tarn_sim_configure("MISSING", "cuStreamGetId, cuMemMap"), 0);
    ck_assert(!found("cuStreamGetId", 13000));
    ck_assert(!found("cuMemMap", 13000));
    ck_assert(found("cuMemUnmap", 13000));
}

TEST_LOOP(effects, fresh_memory_can_be_zero, 0, 2)
{
    setenv("TARN_SIM_POISON", _i == 0 ? "0" : "1", 1);
    start_context();
    struct mapped mapped = map_new(2 * MIB);
    if (_i == 0)
        ck_assert_uint_eq(*(volatile unsigned char *)mapped.address, 0);
    else
        ck_assert_uint_ne(*(volatile unsigned char *)mapped.address, 0);
}

/* Runs a program in a child that ends by exit. Returns what it said on stderr. */
static const char *child_says(void (*body)(void), int expected)
{
    int status;
    begin_hearing();
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        body();
        exit(EXIT_SUCCESS);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    const char *said = end_hearing();
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == expected, "%s", said);
    return said;
}

static void leave_a_handle(void)
{
    setenv("TARN_SIM_LEDGER", "1", 1);
    load_driver();
    OK(cu.cuInit(0));
    physical(4 * MIB);
}

TEST(effects, what_is_outstanding_at_exit_can_be_printed)
{
    ck_assert_str_eq(child_says(leave_a_handle, EXIT_SUCCESS),
                     "tarn_sim: at exit: handles 1\ntarn_sim: at exit: handle_bytes 4194304\n");
}

static void ask_at_exit(void)
{
    int count;
    _exit(cu.cuDeviceGetCount(&count) == TN_CUDA_ERROR_DEINITIALIZED ? 3 : 4);
}

static void ask_a_driver_that_stays(void)
{
    setenv("TARN_SIM_GONE", "0", 1);
    atexit(ask_at_exit);
    load_driver();
    OK(cu.cuInit(0));
}

static void ask_a_driver_that_is_gone(void)
{
    setenv("TARN_SIM_GONE", "1", 1);
    atexit(ask_at_exit);
    load_driver();
    OK(cu.cuInit(0));
}

TEST(effects, the_driver_can_be_gone_for_early_exit_handlers)
{
    child_says(ask_a_driver_that_stays, 4);
    child_says(ask_a_driver_that_is_gone, 3);
}

TEST(effects, a_lax_driver_gives_handles_out_again_and_ids_never)
{
    tn_cu_context context;
    unsigned long long first_id;
    unsigned long long second_id;
    load_lax_driver();
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxSetCurrent(context));
    tn_cu_memhandle handle = physical(2 * MIB);
    OK(cu.cuMemRelease(handle));
    ck_assert_uint_eq(physical(4 * MIB), handle);
    OK(cu.cuMemRelease(handle));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemRelease(handle));
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    OK(cu.cuStreamGetId(stream, &first_id));
    OK(cu.cuStreamDestroy(stream));
    ck_assert_ptr_eq(new_stream(TN_CU_STREAM_NON_BLOCKING), stream);
    OK(cu.cuStreamGetId(stream, &second_id));
    ck_assert_uint_gt(second_id, first_id);
}

TEST(effects, a_strict_driver_never_gives_a_handle_out_again)
{
    start_driver();
    tn_cu_memhandle handle = physical(2 * MIB);
    OK(cu.cuMemRelease(handle));
    ck_assert_uint_ne(physical(2 * MIB), handle); /* SS1 */
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemRelease(handle));
}

/* A stream with a fill and an event behind it, by a driver that works as said. */
struct paced {
    struct kernels kernels;
    tn_cu_stream stream;
    tn_cu_event event;
    tn_cu_deviceptr word;
};

static struct paced queue_at(const char *when)
{
    struct paced paced;
    setenv("TARN_SIM_WORK", when, 1);
    start_context();
    paced.kernels = load_kernels();
    paced.stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    paced.event = new_event();
    paced.word = map_new(2 * MIB).address;
    OK(launch_fill(&paced.kernels, paced.stream, paced.word, 7, 1));
    OK(cu.cuEventRecord(paced.event, paced.stream));
    return paced;
}

static void pause_for_workers(void)
{
    (void)nanosleep(&(struct timespec){0, 20000000}, NULL);
}

TEST_LOOP(effects, work_that_is_awaited_is_done_by_no_call_but_a_wait_and_then_all_of_it, 0, 3)
{
    struct paced paced = queue_at("awaited");
    tn_cu_stream other = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event event = new_event();
    OK(launch_fill(&paced.kernels, other, paced.word + 4, 8, 1));
    OK(cu.cuEventRecord(event, other));
    pause_for_workers();
    ANSWERS(TN_CUDA_ERROR_NOT_READY, cu.cuEventQuery(paced.event));
    ANSWERS(TN_CUDA_ERROR_NOT_READY, cu.cuStreamQuery(other));
    if (_i == 0)
        OK(cu.cuStreamSynchronize(paced.stream));
    else if (_i == 1)
        OK(cu.cuEventSynchronize(event));
    else
        OK(cu.cuCtxSynchronize());
    OK(cu.cuEventQuery(paced.event));
    OK(cu.cuEventQuery(event));
    OK(launch_fill(&paced.kernels, other, paced.word + 4, 9, 1));
    pause_for_workers();
    ANSWERS(TN_CUDA_ERROR_NOT_READY, cu.cuStreamQuery(other));
}

TEST(effects, work_at_once_is_done_when_the_call_returns)
{
    struct paced paced = queue_at("at-once");
    for (int i = 0; i < 200; i++) {
        OK(cu.cuEventQuery(paced.event));
        OK(launch_fill(&paced.kernels, paced.stream, paced.word, 8, 1));
        OK(cu.cuEventRecord(paced.event, paced.stream));
    }
    OK(cu.cuStreamQuery(paced.stream));
    sim.tarn_sim_hold_work();
    OK(launch_fill(&paced.kernels, paced.stream, paced.word, 8, 1));
    ANSWERS(TN_CUDA_ERROR_NOT_READY,
            cu.cuStreamQuery(paced.stream)); /* nobody waits for what is held */
    sim.tarn_sim_resume_work();
    OK(cu.cuStreamQuery(paced.stream));
}

static void count_destructor(void *count)
{
    atomic_fetch_add((atomic_int *)count, 1);
}

TEST_LOOP(effects, destructors_run_before_the_call_returns_unless_work_is_done_beside, 0, 2)
{
    static atomic_int count;
    struct paced paced = queue_at(_i == 0 ? "awaited" : "at-once");
    for (int i = 0; i < 200; i++) {
        tn_cu_graph graph;
        tn_cu_graphexec exec;
        tn_cu_userobject object;
        OK(cu.cuGraphCreate(&graph, 0));
        OK(cu.cuUserObjectCreate(&object, &count, count_destructor, 1,
                                 TN_CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
        OK(cu.cuGraphRetainUserObject(graph, object, 1, TN_CU_GRAPH_USER_OBJECT_MOVE));
        OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
        OK(cu.cuGraphDestroy(graph));
        OK(cu.cuGraphLaunch(exec, paced.stream));
        OK(cu.cuGraphExecDestroy(exec));
        if (_i == 0)
            ck_assert_int_eq(atomic_load(&count), i); /* the launch is under way */
        OK(cu.cuStreamSynchronize(paced.stream));
        ck_assert_int_eq(atomic_load(&count), i + 1);
    }
}
