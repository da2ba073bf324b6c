// SPDX-License-Identifier: Apache-2.0
/* test_cost.c -- what calls cost, and the account of it. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim_test.h"

static const char costs_text[] = "# made up\n"
                                 "cuEventRecord 100\n"
                                 "cuMemCreate 2M:1000 4M:2000 # a comment\n"
                                 "cuMemMap 0\n"
                                 "cuMemSetAccess call:7 2M:10 6M:50\n"
                                 "cuMemUnmap 0:3 2M:20\n"
                                 "cuMemRelease 0:5 2M:400\n"
                                 "cuMemAddressReserve 0\n"
                                 "cuMemAddressFree 0\n"
                                 "cuLaunchHostFunc 2000000\n"
                                 "cuMemHostRegister 4K:1000000 8K:2000000 stalls\n"
                                 "cuMemHostUnregister 20000000\n"
                                 "* 1\n";

static void start_with_costs(void)
{
    tn_cu_context context;
    const char *path = file_with(costs_text);
    load_driver();
    ck_assert_int_eq(sim.tarn_sim_configure("TARN_SIM_COSTS", path), 0);
    unlink(path);
    OK(cu.cuInit(0));
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxSetCurrent(context));
    sim.tarn_sim_reset_account();
}

static tarn_sim_cost cost_of(const char *function)
{
    tarn_sim_cost cost;
    sim.tarn_sim_read_account(function, &cost);
    return cost;
}

GROUP(charged, start_with_costs, .name = "with costs")

TEST(charged, a_call_costs_what_its_line_says_and_other_calls_what_the_star_says)
{
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event event = new_event();
    OK(cu.cuEventRecord(event, stream));
    OK(cu.cuEventRecord(event, stream));
    ck_assert_uint_eq(cost_of("cuEventRecord").calls, 2);
    ck_assert_uint_eq(cost_of("cuEventRecord").ns, 200);
    ck_assert_uint_eq(cost_of("cuStreamCreate").ns, 1);
    ck_assert_uint_eq(cost_of(NULL).calls, 4);
    ck_assert_uint_eq(cost_of(NULL).ns, 202);
    ck_assert_uint_eq(cost_of("cuNoSuchFunction").calls, 0);
    sim.tarn_sim_reset_account();
    ck_assert_uint_eq(cost_of(NULL).calls + cost_of(NULL).ns, 0);
}

static tn_cu_memhandle create(size_t bytes, uint64_t expected_ns)
{
    sim.tarn_sim_reset_account();
    tn_cu_memhandle handle = physical(bytes);
    ck_assert_uint_eq(cost_of("cuMemCreate").ns, expected_ns);
    return handle;
}

TEST(charged, sizes_between_two_points_are_interpolated_and_those_beyond_go_on)
{
    tn_cu_deviceptr address = reserve(6 * MIB);
    tn_cu_memhandle handle = create(6 * MIB, 3000);
    create(4 * MIB, 2000);
    create(2 * MIB, 1000);
    OK(cu.cuMemMap(address, 6 * MIB, 0, handle, 0));
    sim.tarn_sim_reset_account();
    OK(give_access(address, 6 * MIB, TN_CU_MEM_ACCESS_READWRITE));
    ck_assert_uint_eq(cost_of("cuMemSetAccess").ns, 7 + 50);
    OK(give_access(address, 6 * MIB, TN_CU_MEM_ACCESS_READ));
    ck_assert_uint_eq(cost_of("cuMemSetAccess").ns, 2 * (7 + 50));
}

TEST(charged, a_call_over_several_mappings_costs_each_and_itself_once)
{
    tn_cu_deviceptr address = reserve(6 * MIB);
    tn_cu_memhandle handles[3];
    for (size_t i = 0; i < 3; i++) {
        handles[i] = physical(2 * MIB);
        OK(cu.cuMemMap(address + i * 2 * MIB, 2 * MIB, 0, handles[i], 0));
    }
    sim.tarn_sim_reset_account();
    OK(give_access(address, 6 * MIB, TN_CU_MEM_ACCESS_READWRITE));
    ck_assert_uint_eq(cost_of("cuMemSetAccess").ns, 7 + 3 * 10);
    OK(cu.cuMemUnmap(address, 6 * MIB));
    ck_assert_uint_eq(cost_of("cuMemUnmap").ns, 3 * 20);
}

TEST(charged, whoever_gives_memory_up_last_pays_for_its_release)
{
    struct mapped mapped = map_new(2 * MIB);
    tn_cu_memhandle unmapped = physical(2 * MIB);
    sim.tarn_sim_reset_account();
    OK(cu.cuMemRelease(unmapped));
    ck_assert_uint_eq(cost_of("cuMemRelease").ns, 400);
    OK(cu.cuMemRelease(mapped.handle));
    ck_assert_uint_eq(cost_of("cuMemRelease").ns, 405);
    OK(cu.cuMemUnmap(mapped.address, mapped.bytes));
    ck_assert_uint_eq(cost_of("cuMemUnmap").ns, 420);
}

TEST(charged, failed_calls_are_counted_and_planned_faults_are_not)
{
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemRelease(0));
    ck_assert_uint_eq(cost_of("cuMemRelease").calls, 1);
    ck_assert_uint_eq(cost_of("cuMemRelease").ns, 5);
    sim.tarn_sim_plan_fault("cuMemRelease", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    ANSWERS(TN_CUDA_ERROR_UNKNOWN, cu.cuMemRelease(0));
    ck_assert_uint_eq(cost_of("cuMemRelease").calls, 1);
}

static tn_cu_result count_devices(void *ns)
{
    int count;
    tn_cu_result result = cu.cuDeviceGetCount(&count);
    *(uint64_t *)ns = sim.tarn_sim_thread_ns();
    return result;
}

TEST(charged, each_thread_has_its_own_time)
{
    uint64_t theirs = 0;
    uint64_t before = sim.tarn_sim_thread_ns();
    OK(elsewhere(count_devices, &theirs));
    ck_assert_uint_eq(theirs, 1);
    ck_assert_uint_eq(sim.tarn_sim_thread_ns(), before);
    sim.tarn_sim_reset_account();
    ck_assert_uint_eq(sim.tarn_sim_thread_ns(), before);
}

TEST(charged, the_longest_time_that_others_are_stalled_is_kept)
{
    static char memory[3 * 4096];
    ck_assert_uint_eq(sim.tarn_sim_longest_stall_ns(), 0);
    OK(cu.cuMemHostRegister(memory, 2 * 4096, 0));
    ck_assert_uint_eq(cost_of("cuMemHostRegister").ns, 2000000);
    ck_assert_uint_eq(sim.tarn_sim_longest_stall_ns(), 2000000);
    OK(cu.cuMemHostRegister(memory + 2 * 4096, 4096, 0));
    physical(4 * MIB); /* longer than the second, and stalls nobody */
    ck_assert_uint_eq(sim.tarn_sim_longest_stall_ns(), 2000000);
    sim.tarn_sim_reset_account();
    ck_assert_uint_eq(sim.tarn_sim_longest_stall_ns(), 0);
}

static void nothing(void *unused)
{
    (void)unused;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

GROUP(others, NULL)

TEST(others, costs_can_really_be_spent)
{
    tn_cu_context context;
    load_driver();
    ck_assert_int_eq(sim.tarn_sim_configure("COSTS", file_with(costs_text)), 0);
    ck_assert_int_eq(sim.tarn_sim_configure("COSTS_SLEEP", "1"), 0);
    OK(cu.cuInit(0));
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxSetCurrent(context));
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    uint64_t began = now_ns();
    OK(cu.cuLaunchHostFunc(stream, nothing, NULL));
    ck_assert_uint_ge(now_ns() - began, 2000000);
}

/* The first of two threads is in a call that takes its time; the second makes another meanwhile. */
static tn_cu_context stalled_context;
static char stalling_memory[4096];
static atomic_bool is_stalling;

static void *stall(void *function)
{
    OK(cu.cuCtxSetCurrent(stalled_context));
    atomic_store(&is_stalling, true);
    if (function == NULL)
        OK(cu.cuMemHostUnregister(stalling_memory));
    else
        OK(cu.cuMemHostRegister(stalling_memory, sizeof stalling_memory, 0));
    return NULL;
}

/* How long a short call of this thread takes that begins while the other thread is in its own. */
static uint64_t time_beside(void *function)
{
    const struct timespec a_moment = {0, 5000000};
    pthread_t thread;
    int count;
    atomic_store(&is_stalling, false);
    ck_assert_int_eq(pthread_create(&thread, NULL, stall, function), 0);
    while (!atomic_load(&is_stalling))
        sched_yield();
    nanosleep(&a_moment, NULL);
    uint64_t began = now_ns();
    OK(cu.cuDeviceGetCount(&count));
    uint64_t took = now_ns() - began;
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    return took;
}

TEST(others, a_call_that_stalls_keeps_the_calls_of_other_threads_waiting)
{
    load_driver();
    ck_assert_int_eq(
        sim.tarn_sim_configure("COSTS", file_with("cuMemHostRegister stalls 400000000\n"
                                                  "cuMemHostUnregister 400000000\n")),
        0);
    ck_assert_int_eq(sim.tarn_sim_configure("COSTS_SLEEP", "1"), 0);
    OK(cu.cuInit(0));
    OK(cu.cuDevicePrimaryCtxRetain(&stalled_context, 0));
    ck_assert_uint_ge(time_beside(stalling_memory), 200000000);
    ck_assert_uint_lt(time_beside(NULL), 200000000);
}

TEST(others, without_costs_calls_are_counted_and_cost_nothing)
{
    int count;
    load_driver();
    OK(cu.cuInit(0));
    OK(cu.cuDeviceGetCount(&count));
    ck_assert_uint_eq(cost_of("cuDeviceGetCount").calls, 1);
    ck_assert_uint_eq(cost_of(NULL).ns, 0);
}

TEST(others, the_figures_of_the_h200_come_with_the_simulator)
{
    setenv("TARN_SIM_COSTS", "h200", 1);
    start_context();
    struct mapped mapped = map_new(64 * MIB);
    unmap_all(mapped);
    /* A chunk of 64 MiB takes tens of microseconds, not seconds and not nothing. */
    uint64_t up = cost_of("cuMemCreate").ns + cost_of("cuMemMap").ns + cost_of("cuMemSetAccess").ns;
    ck_assert_uint_ge(up, 10000);
    ck_assert_uint_le(up, 100000);
}

/* Each is refused with its line's number. */
static const char *const wrong_files[] = {
    "cuMemCreate 1\ncuNoSuchFunction 5\n", "cuMemCreate 1\ncuMemMap\n",
    "cuMemCreate 1\ncuMemMap 5 x\n",       "cuMemCreate 1\ncuMemMap 2M:5 1M:6\n",
    "cuMemCreate 1\ncuMemMap 2Q:5\n",      "cuMemCreate 1\ncuMemMap -5\n",
    "cuMemCreate 1\ncuMemCreate 2\n",      "cuMemCreate 1\ncuMemMap call:x\n",
    "cuMemCreate 1\ncuMemMap inf\n",       "cuMemCreate 1\ncuMemMap 5.1e20\n",
    "cuMemCreate 1\ncuMemMap 1e30:5\n",    "cuMemCreate 1\ncuMemMap 0.3:5\n",
    "cuMemCreate 1\ncuMemMap nan:5\n",     "cuMemCreate 1\ncuMemMap call:1e19\n",
};

TEST_LOOP(others, a_file_with_an_error_is_refused_whole, 0,
          sizeof wrong_files / sizeof wrong_files[0])
{
    load_driver();
    begin_hearing();
    int answer = sim.tarn_sim_configure("COSTS", file_with(wrong_files[_i]));
    const char *said = end_hearing();
    ck_assert_int_eq(answer, -1);
    ck_assert_msg(strstr(said, ":2: not understood") != NULL, "%s", said);
    OK(cu.cuInit(0));
    physical(2 * MIB);
    ck_assert_uint_eq(cost_of("cuMemCreate").ns, 0);
}

/* Beyond the last point costs go on, and no further than a number holds. */
TEST(others, a_cost_stays_what_a_number_can_hold)
{
    load_driver();
    ck_assert_int_eq(
        sim.tarn_sim_configure("COSTS", file_with("cuMemCreate 0:0 2M:1000000000000000000\n")), 0);
    OK(cu.cuInit(0));
    physical(1024 * MIB);
    ck_assert_uint_eq(cost_of("cuMemCreate").ns, 1000000000000000000u);
}

TEST(others, the_account_is_written_when_the_process_exits)
{
    char path[64];
    char line[128] = "";
    snprintf(path, sizeof path, "%s", file_with(""));
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        setenv("TARN_SIM_ACCOUNT", path, 1);
        setenv("TARN_SIM_COSTS", file_with(costs_text), 1);
        load_driver();
        OK(cu.cuInit(0));
        physical(2 * MIB);
        exit(EXIT_SUCCESS);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file) != NULL && strstr(line, "cuMemCreate") == NULL)
        continue;
    fclose(file);
    unlink(path);
    ck_assert_str_eq(line, "cuMemCreate 1 1000\n");
}
