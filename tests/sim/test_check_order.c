// SPDX-License-Identifier: Apache-2.0
/* test_check_order.c -- memory with two addresses: what is unordered is reported, what is ordered by
 * a stream, an event, a graph, a wait or the legacy stream is not. */
#include <stdatomic.h>
#include <time.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_test.h"

static struct mapped first; /* one memory at two addresses */
static tn_cu_deviceptr second;
static tn_cu_stream a;
static tn_cu_stream b;
static struct kernels kernels;
static unsigned char bytes[512];

static atomic_int ended;

static void end_twin(const tarn_sim_launch *launch, void *const *params)
{
    (void)launch;
    (void)params;
    atomic_store(&ended, 1);
}

static void start_mapped(void)
{
    setenv("TARN_SIM_CHECK", "1", 1);
    start_context();
    first = map_new(2 * MIB);
    second = reserve(2 * MIB);
    kernels = load_kernels();
    ck_assert_int_eq(sim.tarn_sim_register_kernel("test_add", end_twin), 0);
    a = new_stream(TN_CU_STREAM_NON_BLOCKING);
    b = new_stream(TN_CU_STREAM_NON_BLOCKING);
}

static void give_second_address(void)
{
    OK(cu.cuMemMap(second, 2 * MIB, 0, first.handle, 0));
    OK(give_access(second, 2 * MIB, TN_CU_MEM_ACCESS_READWRITE));
}

static void start_aliased(void)
{
    start_mapped();
    give_second_address();
    OK(cu.cuMemsetD8Async(first.address, 0, 2 * MIB, a));
    OK(cu.cuStreamSynchronize(a));
    begin_hearing();
}

/* Waits until what is on the stream has ended, in a way that the checker knows nothing of: what comes next
 * is not ordered behind it, and does not meet it either, for the bytes are this program's. */
static void let_end(tn_cu_stream stream)
{
    uint64_t unused = 0;
    void *params[] = {&unused, &unused};
    atomic_store(&ended, 0);
    OK(cu.cuLaunchKernel(kernels.add, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    while (atomic_load(&ended) == 0)
        (void)nanosleep(&(struct timespec){0, 100000}, NULL);
}

static void write_on(tn_cu_stream stream, tn_cu_deviceptr address)
{
    tn_cu_capture_status status;
    OK(cu.cuMemsetD8Async(address, 1, sizeof bytes, stream));
    OK(cu.cuStreamIsCapturing(stream, &status));
    if (status == TN_CU_CAPTURE_STATUS_NONE)
        let_end(stream);
}

/* Does not wait for the host's sake. */
static void read_on(tn_cu_stream stream, tn_cu_deviceptr address)
{
    OK(cu.cuMemcpyDtoDAsync(first.address + MIB, address, sizeof bytes, stream));
}

/* Ends hearing, and asserts how many reports there have been. */
static const char *expect_reports(uint64_t expected)
{
    const char *said = end_hearing();
    ck_assert_msg(sim.tarn_sim_check_count() == expected, "%s", said);
    return said;
}

static void end_all(void)
{
    OK(cu.cuStreamSynchronize(a));
    OK(cu.cuStreamSynchronize(b));
}

/* Lets everything end, and asserts how many reports there were. Where there were none, the checker has to be one that
 * hears: two writes on streams of their own, at the end of the memory, are unordered. */
static const char *reports(uint64_t expected)
{
    tn_cu_stream streams[2];
    const char *said;
    end_all();
    said = expect_reports(expected);
    if (expected > 0)
        return said;
    begin_hearing();
    for (int i = 0; i < 2; i++) {
        streams[i] = new_stream(TN_CU_STREAM_NON_BLOCKING);
        write_on(streams[i], (i == 0 ? first.address : second) + 2 * MIB - sizeof bytes);
    }
    for (int i = 0; i < 2; i++)
        OK(cu.cuStreamSynchronize(streams[i]));
    return expect_reports(1);
}

SUITE("check order")
GROUP(aliases, start_aliased)

TEST(aliases, a_write_and_a_read_on_two_streams_are_reported)
{
    write_on(a, first.address);
    read_on(b, second);
    const char *said = reports(1);
    ck_assert_msg(strstr(said, "is not ordered behind ") != NULL, "%s", said);
    ck_assert_msg(strstr(said, "the same memory at another address: 0x") != NULL, "%s", said);
}

TEST(aliases, two_writes_are_reported_also_after_the_first_has_ended)
{
    write_on(a, first.address);
    /* Another stream is waited for: that says nothing of this one. */
    OK(cu.cuStreamSynchronize(b));
    write_on(b, second + 256);
    reports(1);
}

TEST(aliases, two_reads_are_not)
{
    read_on(a, first.address);
    OK(cu.cuMemcpyDtoHAsync(bytes, second, sizeof bytes, b));
    reports(0);
}

TEST(aliases, other_bytes_are_not)
{
    write_on(a, first.address);
    write_on(b, second + sizeof bytes);
    reports(0);
}

TEST(aliases, one_address_is_not)
{
    write_on(a, first.address);
    write_on(b, first.address);
    reports(0);
}

TEST(aliases, one_stream_orders)
{
    write_on(a, first.address);
    read_on(a, second);
    write_on(a, second);
    reports(0);
}

TEST_LOOP(aliases, an_event_orders_and_only_what_is_before_it, 0, 2)
{
    tn_cu_event event = new_event();
    write_on(a, first.address);
    OK(cu.cuEventRecord(event, a));
    OK(cu.cuStreamWaitEvent(b, event, 0));
    write_on(b, second);
    if (_i == 1)
        write_on(a, first.address);
    reports((uint64_t)_i);
}

GROUP(late, start_mapped, .name = "second address given late")

/* Nothing is kept of order before that; what an event says of it counts all the same. */
TEST(late, an_event_orders_what_was_queued_before_memory_had_two_addresses)
{
    tn_cu_event event = new_event();
    sim.tarn_sim_hold_work();
    OK(cu.cuMemsetD8Async(first.address, 0, 2 * MIB, a));
    give_second_address();
    OK(cu.cuEventRecord(event, a));
    OK(cu.cuStreamWaitEvent(b, event, 0));
    OK(cu.cuMemsetD8Async(second, 1, sizeof bytes, b));
    begin_hearing();
    sim.tarn_sim_resume_work();
    reports(0);
}

TEST(aliases, order_goes_through_a_third_stream)
{
    tn_cu_event event = new_event();
    tn_cu_event next = new_event();
    tn_cu_stream between = new_stream(TN_CU_STREAM_NON_BLOCKING);
    write_on(a, first.address);
    OK(cu.cuEventRecord(event, a));
    OK(cu.cuStreamWaitEvent(between, event, 0));
    OK(cu.cuEventRecord(next, between));
    OK(cu.cuStreamWaitEvent(b, next, 0));
    write_on(b, second);
    reports(0);
}

static void wait_for_stream(void)
{
    OK(cu.cuStreamSynchronize(a));
}

static void poll_stream(void)
{
    while (cu.cuStreamQuery(a) == TN_CUDA_ERROR_NOT_READY)
        continue;
}

static void wait_for_event(void)
{
    tn_cu_event event = new_event();
    OK(cu.cuEventRecord(event, a));
    OK(cu.cuEventSynchronize(event));
}

static void poll_event(void)
{
    tn_cu_event event = new_event();
    OK(cu.cuEventRecord(event, a));
    while (cu.cuEventQuery(event) == TN_CUDA_ERROR_NOT_READY)
        continue;
}

static void wait_for_context(void)
{
    OK(cu.cuCtxSynchronize());
}

static volatile int told;

static void tell(void *unused)
{
    (void)unused;
    __atomic_store_n(&told, 1, __ATOMIC_RELEASE);
}

static void be_told(void)
{
    OK(cu.cuLaunchHostFunc(a, tell, NULL));
    while (__atomic_load_n(&told, __ATOMIC_ACQUIRE) == 0)
        continue;
}

static void (*const waits[])(void) = {wait_for_stream, poll_stream,      wait_for_event,
                                      poll_event,      wait_for_context, be_told};

TEST_LOOP(aliases, what_the_program_has_waited_for_orders, 0, sizeof waits / sizeof waits[0])
{
    write_on(a, first.address);
    waits[_i]();
    write_on(b, second);
    reports(0);
}

TEST(aliases, the_legacy_stream_orders_blocking_streams)
{
    tn_cu_stream blocking = new_stream(TN_CU_STREAM_DEFAULT);
    tn_cu_event event = new_event();
    write_on(NULL, first.address);
    write_on(blocking, second);
    write_on(NULL, first.address);
    /* A mark of a blocking stream comes after the legacy stream's work, too. */
    OK(cu.cuEventRecord(event, blocking));
    OK(cu.cuStreamWaitEvent(b, event, 0));
    write_on(b, second);
    reports(0);
}

TEST_LOOP(aliases, launches_of_a_graph_are_compared_with_other_work, 0, 2)
{
    tn_cu_graph graph;
    tn_cu_graphexec exec;
    OK(cu.cuStreamBeginCapture(a, TN_CU_CAPTURE_MODE_RELAXED));
    write_on(a, first.address);
    read_on(a, second);
    OK(cu.cuStreamEndCapture(a, &graph));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphLaunch(exec, a));
    OK(cu.cuGraphLaunch(exec, b)); /* the launches of one graph are ordered */
    let_end(b);
    if (_i == 1)
        write_on(new_stream(TN_CU_STREAM_NON_BLOCKING), second);
    OK(cu.cuCtxSynchronize());
    if (_i == 0)
        reports(0);
    else
        ck_assert_uint_ge(sim.tarn_sim_check_count(), 1);
}

TEST(aliases, memory_that_was_given_back_is_forgotten)
{
    write_on(a, first.address);
    OK(cu.cuStreamSynchronize(a));
    OK(cu.cuMemUnmap(second, 2 * MIB));
    unmap_all(first);
    first = map_new(2 * MIB);
    OK(cu.cuMemMap(second, 2 * MIB, 0, first.handle, 0));
    OK(give_access(second, 2 * MIB, TN_CU_MEM_ACCESS_READWRITE));
    write_on(b, second);
    reports(0);
}
