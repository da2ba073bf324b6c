// SPDX-License-Identifier: Apache-2.0
/* test_check.c -- the checker reports wrong programs, and only those. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim_test.h"

static void start_checked(void)
{
    setenv("TARN_SIM_CHECK", "1", 1);
    start_context();
}

static uint64_t report_count; /* that there were */

/* Ends hearing; asserts that there was one report, with these parts. */
static void one_report(const char *function, const char *what)
{
    char start[128];
    const char *said = end_hearing();
    snprintf(start, sizeof start, "tarn_sim: %s: ", function);
    ck_assert_msg(strncmp(said, start, strlen(start)) == 0, "\"%s\"", said);
    ck_assert_msg(strstr(said, what) != NULL, "\"%s\"", said);
    report_count += 1;
    ck_assert_uint_eq(sim.tarn_sim_check_count(), report_count);
}

/* Does one wrong thing. */
static void use_destroyed_stream(void)
{
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    OK(cu.cuStreamDestroy(stream));
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE, cu.cuStreamQuery(stream));
}

/* Ends hearing; asserts that there was no report. */
static void silence(void)
{
    ck_assert_str_eq(end_hearing(), "");
    ck_assert_uint_eq(sim.tarn_sim_check_count(), report_count);
}

/* The same of a checker that is there: it reports what is wrong behind that. */
static void no_report(void)
{
    silence();
    begin_hearing();
    use_destroyed_stream();
    one_report("cuStreamQuery", "uses a destroyed stream: 0x");
}

GROUP(handles, start_checked, .name = "handles and mappings")

TEST(handles, a_destroyed_handle_that_is_used_is_reported)
{
    begin_hearing();
    use_destroyed_stream();
    one_report("cuStreamQuery", "uses a destroyed stream: 0x");
}

TEST(handles, a_destroyed_pool_that_is_used_is_reported)
{
    tn_cu_pool_props props = {
        .type = TN_CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE},
    };
    tn_cu_mempool pool;
    OK(cu.cuMemPoolCreate(&pool, &props));
    OK(cu.cuMemPoolDestroy(pool));
    begin_hearing();
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemPoolTrimTo(pool, 0));
    one_report("cuMemPoolTrimTo", "uses a destroyed memory pool: 0x");
}

TEST(handles, an_invented_handle_is_not_a_destroyed_one)
{
    begin_hearing();
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE, cu.cuStreamQuery((tn_cu_stream)0x123456789));
    no_report();
}

TEST(handles, a_mapping_past_a_reservation_is_reported)
{
    tn_cu_deviceptr address = reserve(2 * MIB);
    tn_cu_memhandle handle = physical(4 * MIB);
    begin_hearing();
    cu.cuMemMap(address, 4 * MIB, 0, handle, 0);
    one_report("cuMemMap", "maps past the end of a reservation: 0x");
}

static void abort_at_report(void)
{
    setenv("TARN_SIM_CHECK", "2", 1);
    start_context();
    use_destroyed_stream();
}

GROUP(switches, NULL, .name = "off, and abort")

TEST(switches, a_report_can_abort)
{
    int status;
    begin_hearing();
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        abort_at_report();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    end_hearing();
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

TEST(switches, without_the_checker_nothing_is_reported)
{
    start_context();
    begin_hearing();
    use_destroyed_stream();
    silence();
}

static tn_cu_stream stream;
static unsigned char bytes[4096];

static void read_back(tn_cu_deviceptr address, size_t count)
{
    OK(cu.cuMemcpyDtoHAsync(bytes, address, count, stream));
    OK(cu.cuStreamSynchronize(stream));
}

static void set(tn_cu_deviceptr address, size_t count)
{
    OK(cu.cuMemsetD8Async(address, 1, count, stream));
    OK(cu.cuStreamSynchronize(stream));
}

static void start_memory(void)
{
    start_checked();
    stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
}

/* The same of a checker that knows what was written: it reports a read of new memory behind that. */
static void no_report_of_memory(void)
{
    struct mapped fresh = map_new(2 * MIB);
    silence();
    begin_hearing();
    read_back(fresh.address, 1);
    one_report("cuMemcpyDtoHAsync", "reads memory that was never written: 0x");
}

GROUP(memory, start_memory)

TEST(memory, reading_memory_that_was_never_written_is_reported)
{
    struct mapped mapped = map_new(2 * MIB);
    set(mapped.address, 1024);
    begin_hearing();
    read_back(mapped.address, 1024);
    no_report_of_memory();
    begin_hearing();
    read_back(mapped.address, 1025);
    one_report("cuMemcpyDtoHAsync", "reads memory that was never written: 0x");
}

TEST(memory, a_report_names_the_first_unwritten_byte)
{
    char where[64];
    struct mapped mapped = map_new(2 * MIB);
    set(mapped.address, 512);
    snprintf(where, sizeof where, "0x%llx\n", (unsigned long long)mapped.address + 512);
    begin_hearing();
    read_back(mapped.address + 8, 1024);
    one_report("cuMemcpyDtoHAsync", where);
}

TEST(memory, linear_memory_is_watched_too_and_forgotten_when_freed)
{
    tn_cu_deviceptr address;
    OK(cu.cuMemAlloc(&address, 4096));
    set(address, 4096);
    begin_hearing();
    read_back(address, 4096);
    no_report_of_memory();
    OK(cu.cuMemFree(address));
    OK(cu.cuMemAlloc(&address, 4096));
    begin_hearing();
    read_back(address, 4096);
    one_report("cuMemcpyDtoHAsync", "reads memory that was never written");
}

TEST(memory, what_was_written_moves_with_the_memory)
{
    struct mapped mapped = map_new(2 * MIB);
    tn_cu_deviceptr elsewhere_address = reserve(2 * MIB);
    set(mapped.address, 2 * MIB);
    OK(cu.cuMemUnmap(mapped.address, mapped.bytes));
    OK(cu.cuMemMap(elsewhere_address, mapped.bytes, 0, mapped.handle, 0));
    OK(give_access(elsewhere_address, mapped.bytes, TN_CU_MEM_ACCESS_READWRITE));
    begin_hearing();
    read_back(elsewhere_address, 4096);
    no_report_of_memory();
}

TEST(memory, a_copy_on_the_device_reads_its_source)
{
    struct mapped from = map_new(2 * MIB);
    struct mapped to = map_new(2 * MIB);
    begin_hearing();
    OK(cu.cuMemcpyDtoDAsync(to.address, from.address, 512, stream));
    OK(cu.cuStreamSynchronize(stream));
    one_report("cuMemcpyDtoDAsync", "reads memory that was never written");
}

TEST(memory, a_copy_from_the_host_writes)
{
    struct mapped mapped = map_new(2 * MIB);
    begin_hearing();
    OK(cu.cuMemcpyHtoD(mapped.address, bytes, sizeof bytes));
    read_back(mapped.address, sizeof bytes);
    no_report_of_memory();
}

TEST(memory, a_replay_is_checked_in_the_name_of_the_call_that_was_captured)
{
    tn_cu_graph graph;
    tn_cu_graphexec exec;
    struct mapped mapped = map_new(2 * MIB);
    OK(cu.cuStreamBeginCapture(stream, TN_CU_CAPTURE_MODE_RELAXED));
    OK(cu.cuMemcpyDtoDAsync(mapped.address, mapped.address + MIB, 512, stream));
    OK(cu.cuStreamEndCapture(stream, &graph));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    begin_hearing();
    OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuStreamSynchronize(stream));
    one_report("cuMemcpyDtoDAsync", "reads memory that was never written");
}

/* test_fill writes count words at address; test_add reads and writes one word. */
static size_t fill_ranges(const tarn_sim_launch *launch, void *const *params,
                          tarn_sim_range *ranges, size_t most)
{
    uint64_t address;
    uint32_t count;
    (void)launch;
    (void)most;
    memcpy(&address, params[0], sizeof address);
    memcpy(&count, params[2], sizeof count);
    ranges[0] = (tarn_sim_range){address, (uint64_t)count * 4, TARN_SIM_WRITES};
    return 1;
}

static size_t add_ranges(const tarn_sim_launch *launch, void *const *params, tarn_sim_range *ranges,
                         size_t most)
{
    uint64_t address;
    (void)launch;
    (void)most;
    memcpy(&address, params[0], sizeof address);
    ranges[0] = (tarn_sim_range){address, 4, TARN_SIM_READS | TARN_SIM_WRITES};
    return 1;
}

static void launch_add(const struct kernels *kernels, tn_cu_deviceptr address)
{
    uint32_t amount = 1;
    void *params[] = {&address, &amount};
    OK(cu.cuLaunchKernel(kernels->add, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    OK(cu.cuStreamSynchronize(stream));
}

TEST(memory, a_kernel_that_declares_its_ranges_is_checked)
{
    struct kernels kernels = load_kernels();
    struct mapped mapped = map_new(2 * MIB);
    ck_assert_int_eq(sim.tarn_sim_register_kernel_ranges("test_fill", fill_ranges), 0);
    ck_assert_int_eq(sim.tarn_sim_register_kernel_ranges("test_add", add_ranges), 0);
    OK(launch_fill(&kernels, stream, mapped.address, 1, 128));
    begin_hearing();
    launch_add(&kernels, mapped.address + 256);
    read_back(mapped.address, 512);
    no_report_of_memory();
    begin_hearing();
    launch_add(&kernels, mapped.address + 512);
    one_report("cuLaunchKernel", "reads memory that was never written");
}

TEST(memory, a_kernel_that_declares_nothing_may_have_written_anything)
{
    struct kernels kernels = load_kernels();
    struct mapped mapped = map_new(2 * MIB);
    OK(launch_fill(&kernels, stream, mapped.address, 1, 1));
    begin_hearing();
    read_back(mapped.address + MIB, 512);
    no_report_of_memory();
    struct mapped fresh = map_new(2 * MIB);
    begin_hearing();
    read_back(fresh.address, 512);
    one_report("cuMemcpyDtoHAsync", "reads memory that was never written");
}

TEST(memory, ranges_need_a_name_and_a_function)
{
    ck_assert_int_eq(sim.tarn_sim_register_kernel_ranges(NULL, add_ranges), -1);
    ck_assert_int_eq(sim.tarn_sim_register_kernel_ranges("test_add", NULL), -1);
}
