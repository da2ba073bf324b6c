// SPDX-License-Identifier: Apache-2.0
/* test_words.c -- words that streams wait for and write: in one process, in graphs, and between
 * processes that have mapped the same memory. */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim_test.h"

#define WAIT_32 TN_CU_STREAM_MEM_OP_WAIT_VALUE_32
#define WAIT_64 TN_CU_STREAM_MEM_OP_WAIT_VALUE_64
#define WRITE_32 TN_CU_STREAM_MEM_OP_WRITE_VALUE_32
#define WRITE_64 TN_CU_STREAM_MEM_OP_WRITE_VALUE_64
#define GEQ TN_CU_STREAM_WAIT_VALUE_GEQ
#define EQ TN_CU_STREAM_WAIT_VALUE_EQ
#define AND TN_CU_STREAM_WAIT_VALUE_AND
#define NOR TN_CU_STREAM_WAIT_VALUE_NOR

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
}

static _Atomic(uint32_t) *word_at(tn_cu_deviceptr address)
{
    return (_Atomic(uint32_t) *)(uintptr_t)address;
}

static tn_cu_batch_op word_op(int operation, tn_cu_deviceptr address, uint64_t value,
                              unsigned int flags)
{
    tn_cu_batch_op op = {0};
    op.value.operation = operation;
    op.value.address = address;
    op.value.value = value;
    op.value.flags = flags;
    return op;
}

/* Memory of 2 MiB, all of it zero. */
static tn_cu_deviceptr zeroed(void)
{
    tn_cu_deviceptr address = map_new(2 * MIB).address;
    OK(cu.cuMemsetD8(address, 0, 2 * MIB));
    OK(cu.cuCtxSynchronize());
    return address;
}

GROUP(words, start_context)

TEST(words, a_wait_is_ended_by_the_write_of_another_stream)
{
    tn_cu_deviceptr words = zeroed();
    tn_cu_stream waiting = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_stream writing = new_stream(TN_CU_STREAM_NON_BLOCKING);
    OK(cu.cuStreamWaitValue32(waiting, words, 7, GEQ));
    OK(cu.cuStreamWriteValue32(waiting, words + 64, 1, 0));
    OK(cu.cuStreamWaitValue64(waiting, words + 8, UINT64_C(1) << 40, EQ));
    OK(cu.cuStreamWriteValue64(waiting, words + 64, UINT64_C(5) << 32, 0));
    nap();
    ANSWERS(TN_CUDA_ERROR_NOT_READY, cu.cuStreamQuery(waiting));
    ck_assert_uint_eq(*word_at(words + 64), 0);
    OK(cu.cuStreamWriteValue32(writing, words, 7, 0));
    while (*word_at(words + 64) == 0)
        nap();
    ANSWERS(TN_CUDA_ERROR_NOT_READY, cu.cuStreamQuery(waiting));
    OK(cu.cuStreamWriteValue64(writing, words + 8, UINT64_C(1) << 40, 0));
    OK(cu.cuStreamSynchronize(waiting));
    ck_assert_uint_eq(*word_at(words + 64), 0);
    ck_assert_uint_eq(*word_at(words + 68), 5);
}

/* A word, what is waited for, and whether the word is right. */
static const struct comparison {
    int operation;
    unsigned int flags;
    uint64_t word;
    uint64_t value;
    bool met;
} comparisons[] = {
    {WAIT_32, GEQ, 5, 5, true},
    {WAIT_32, GEQ, 4, 5, false},
    {WAIT_32, GEQ, 3, UINT32_MAX, true}, /* it has wrapped */
    {WAIT_32, GEQ, UINT32_MAX, 3, false},
    {WAIT_32, GEQ, UINT64_C(9) << 32, 1, false}, /* the next word does not count */
    {WAIT_32, EQ, 5, (UINT64_C(1) << 32) + 5, true},
    {WAIT_32, EQ, 6, 5, false},
    {WAIT_32, AND, 6, 2, true},
    {WAIT_32, AND, 6, 9, false},
    {WAIT_32, NOR, UINT32_MAX - 1, 0, true},
    {WAIT_32, NOR, UINT32_MAX - 1, 1, false},
    {WAIT_64, GEQ, UINT64_C(1) << 33, 9, true},
    {WAIT_64, GEQ, 3, UINT64_MAX, true},
    {WAIT_64, GEQ, UINT64_MAX, 3, false},
    {WAIT_64, EQ, UINT64_C(1) << 33, UINT64_C(1) << 33, true},
    {WAIT_64, EQ, UINT64_C(1) << 33, 0, false},
    {WAIT_64, AND, UINT64_C(1) << 33, UINT64_C(3) << 33, true},
    {WAIT_64, AND, UINT64_C(1) << 33, UINT64_C(1) << 34, false},
    {WAIT_64, NOR, UINT64_MAX >> 1, 0, true},
    {WAIT_64, NOR, UINT64_MAX >> 1, UINT64_C(1) << 63, false},
};

TEST_LOOP(words, a_wait_compares_as_its_flags_say, 0,
          (int)(sizeof comparisons / sizeof comparisons[0]))
{
    const struct comparison *row = &comparisons[_i];
    tn_cu_deviceptr words = zeroed();
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_batch_op op = word_op(row->operation, words, row->value, row->flags);
    *(_Atomic(uint64_t) *)(uintptr_t)words = row->word;
    OK(cu.cuStreamBatchMemOp(stream, 1, &op, 0));
    if (row->met) {
        OK(cu.cuStreamSynchronize(stream));
        return;
    }
    nap();
    ANSWERS(TN_CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
}

TEST(words, a_wait_in_page_locked_memory_is_ended_by_a_processor)
{
    void *host;
    tn_cu_deviceptr address;
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    OK(cu.cuMemHostAlloc(&host, 4096, 0));
    OK(cu.cuMemHostGetDevicePointer(&address, host, 0));
    *word_at(address) = 0;
    OK(cu.cuStreamWaitValue32(stream, address, 1, GEQ));
    nap();
    ANSWERS(TN_CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
    *word_at(address) = 1;
    OK(cu.cuStreamSynchronize(stream));
}

TEST(words, a_batch_is_done_in_its_order)
{
    tn_cu_deviceptr words = zeroed();
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_stream other = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_batch_op ops[] = {
        word_op(WRITE_32, words, 1, 0),
        word_op(WAIT_32, words + 4, 1, EQ),
        {.barrier = {TN_CU_STREAM_MEM_OP_BARRIER, TN_CU_STREAM_MEMORY_BARRIER_TYPE_SYS}},
        word_op(WRITE_32, words, 2, 0),
        word_op(WRITE_64, words + 8, 3, 0),
    };
    OK(cu.cuStreamBatchMemOp(stream, 5, ops, 0));
    OK(cu.cuStreamWaitValue32(other, words, 1, EQ));
    OK(cu.cuStreamSynchronize(other));
    nap();
    ck_assert_uint_eq(*word_at(words), 1);
    ck_assert_uint_eq(*word_at(words + 8), 0);
    OK(cu.cuStreamWriteValue32(other, words + 4, 1, 0));
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(*word_at(words), 2);
    ck_assert_uint_eq(*word_at(words + 4), 1);
    ck_assert_uint_eq(*word_at(words + 8), 3);
}

TEST(words, batches_without_sense_are_refused)
{
    static tn_cu_batch_op many[256];
    tn_cu_deviceptr words = zeroed();
    for (size_t i = 0; i < 256; i++)
        many[i] = word_op(WRITE_32, words, i, 0);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuStreamBatchMemOp(NULL, 256, many, 0));
    OK(cu.cuStreamBatchMemOp(NULL, 0, many, 0)); /* nothing is done */
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuStreamBatchMemOp(NULL, 1, many, 1));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuStreamBatchMemOp(NULL, 1, NULL, 0));
    OK(cu.cuStreamBatchMemOp(NULL, 255, many, 0));
    tn_cu_batch_op wrong[] = {
        word_op(0, words, 1, 0),
        word_op(7, words, 1, 0),
        word_op(WRITE_32, words + 2, 1, 0),
        word_op(WRITE_64, words + 4, 1, 0),
        word_op(WAIT_64, words + 4, 1, GEQ),
        word_op(WAIT_32, 0, 1, GEQ),
        word_op(WAIT_32, words, 1, 4),
        word_op(WRITE_32, words, 1, TN_CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER),
        word_op(WRITE_32, words + 2 * MIB, 1, 0),
        word_op(WAIT_32, words + 2 * MIB, 1, GEQ),
        {.barrier = {TN_CU_STREAM_MEM_OP_BARRIER, 2}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        tn_cu_batch_op both[] = {many[7], wrong[i]};
        ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuStreamBatchMemOp(NULL, 2, both, 0));
    }
    tn_cu_batch_op flush = {.barrier = {TN_CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES, 0}};
    ANSWERS(TN_CUDA_ERROR_NOT_SUPPORTED, cu.cuStreamBatchMemOp(NULL, 1, &flush, 0));
    ANSWERS(TN_CUDA_ERROR_NOT_SUPPORTED,
            cu.cuStreamWaitValue32(NULL, words, 1, TN_CU_STREAM_WAIT_VALUE_FLUSH));
    OK(cu.cuStreamSynchronize(NULL));
    ck_assert_uint_eq(*word_at(words), 254);
}

/* The four steps of a word with one writer, who waits for 0 and writes 1, and one reader, who waits
 * for 1 and writes 0. */
static void capture_steps(tn_cu_stream stream, tn_cu_deviceptr word, uint32_t from, uint32_t to)
{
    tn_cu_batch_op ops[] = {word_op(WAIT_32, word, from, EQ), word_op(WRITE_32, word, to, 0)};
    OK(cu.cuStreamBatchMemOp(stream, 2, ops, 0));
}

TEST(words, a_graph_with_waits_and_writes_is_replayed_again_and_again)
{
    tn_cu_graph graphs[2];
    tn_cu_graphexec execs[2];
    tn_cu_stream streams[2];
    tn_cu_deviceptr words = zeroed();
    struct kernels kernels = load_kernels();
    uint32_t one = 1;
    for (uint32_t side = 0; side < 2; side++) {
        tn_cu_deviceptr count = words + 64 + 4 * side;
        void *params[] = {&count, &one};
        streams[side] = new_stream(TN_CU_STREAM_NON_BLOCKING);
        OK(cu.cuStreamBeginCapture(streams[side], TN_CU_CAPTURE_MODE_GLOBAL));
        for (int i = 0; i < 3; i++) {
            capture_steps(streams[side], words, side, 1 - side);
            OK(cu.cuLaunchKernel(kernels.add, 1, 1, 1, 1, 1, 1, 0, streams[side], params, NULL));
        }
        OK(cu.cuStreamEndCapture(streams[side], &graphs[side]));
        OK(cu.cuGraphInstantiateWithFlags(&execs[side], graphs[side], 0));
    }
    for (int i = 0; i < 100; i++) {
        OK(cu.cuGraphLaunch(execs[0], streams[0]));
        OK(cu.cuGraphLaunch(execs[1], streams[1]));
    }
    OK(cu.cuStreamSynchronize(streams[0]));
    OK(cu.cuStreamSynchronize(streams[1]));
    ck_assert_uint_eq(*word_at(words), 0);
    ck_assert_uint_eq(*word_at(words + 64), 300);
    ck_assert_uint_eq(*word_at(words + 68), 300);
    OK(cu.cuGraphLaunch(execs[1], streams[1]));
    nap();
    ANSWERS(TN_CUDA_ERROR_NOT_READY, cu.cuStreamQuery(streams[1]));
    OK(cu.cuGraphLaunch(execs[0], streams[0]));
    OK(cu.cuStreamSynchronize(streams[1]));
}

/* The graph has written the given word. */
static void replay_writes(tn_cu_graphexec exec, tn_cu_deviceptr word, uint32_t value)
{
    OK(cu.cuGraphLaunch(exec, NULL));
    OK(cu.cuStreamSynchronize(NULL));
    ck_assert_uint_eq(*word_at(word), value);
}

TEST(words, nodes_of_batches_are_added_and_changed)
{
    tn_cu_graph graph;
    tn_cu_graphnode node;
    tn_cu_graphexec exec;
    tn_cu_deviceptr words = zeroed();
    tn_cu_batch_op ops[] = {word_op(WAIT_32, words, 0, EQ), word_op(WRITE_32, words + 4, 1, 0)};
    tn_cu_batch_node_params params = {.count = 2, .ops = ops};
    tn_cu_batch_node_params got;
    OK(cu.cuGraphCreate(&graph, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, /* the context is named */
            cu.cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &params));
    OK(cu.cuCtxGetCurrent(&params.ctx));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, NULL));
    params.flags = 1;
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &params));
    params.flags = 0;
    OK(cu.cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &params));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    replay_writes(exec, words + 4, 1);
    ops[1].value.value = 2;
    OK(cu.cuGraphExecBatchMemOpNodeSetParams(exec, node, &params));
    replay_writes(exec, words + 4, 2);
    OK(cu.cuGraphBatchMemOpNodeGetParams(node, &got));
    ck_assert_uint_eq(got.count, 2);
    ck_assert_uint_eq(got.ops[1].value.value, 1);
    ops[1].value.value = 3;
    OK(cu.cuGraphBatchMemOpNodeSetParams(node, &params));
    OK(cu.cuGraphBatchMemOpNodeGetParams(node, &got));
    ck_assert_uint_eq(got.ops[1].value.value, 3);
    replay_writes(exec, words + 4, 2);
    /* How many there are, and what each is, stays in an executable graph. */
    params.count = 1;
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuGraphExecBatchMemOpNodeSetParams(exec, node, &params));
    params.count = 2;
    ops[0] = word_op(WRITE_32, words, 0, 0);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuGraphExecBatchMemOpNodeSetParams(exec, node, &params));
    replay_writes(exec, words + 4, 2);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuGraphBatchMemOpNodeSetParams(node, NULL));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuGraphExecBatchMemOpNodeSetParams(exec, node, NULL));
}

TEST(words, memory_that_goes_under_a_wait_is_a_fault)
{
    struct mapped mapped = map_new(2 * MIB);
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    OK(cu.cuStreamWaitValue32(stream, mapped.address, 1, EQ));
    nap();
    OK(cu.cuMemUnmap(mapped.address, mapped.bytes));
    ANSWERS(TN_CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuStreamSynchronize(stream));
}

TEST(words, a_stream_with_an_endless_wait_is_destroyed_and_others_go_on)
{
    tn_cu_deviceptr words = zeroed();
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    OK(cu.cuStreamWaitValue32(stream, words, 1, EQ));
    OK(cu.cuStreamWriteValue32(stream, words + 4, 1, 0));
    OK(cu.cuStreamDestroy(stream));
    stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    OK(cu.cuMemsetD32Async(words + 8, 5, 1, stream));
    OK(cu.cuStreamSynchronize(stream));
    nap();
    ck_assert_uint_eq(*word_at(words + 4), 0);
    OK(cu.cuStreamWriteValue32(stream, words, 1, 0));
    OK(cu.cuStreamWaitValue32(stream, words + 4, 1, EQ));
    OK(cu.cuStreamSynchronize(stream));
}

/* The process must end: the group's time is limited. */
TEST_WITH(words, a_process_ends_with_a_wait_that_does_not, 0, 1, .status = 3)
{
    tn_cu_deviceptr words = zeroed();
    OK(cu.cuStreamWaitValue32(new_stream(TN_CU_STREAM_NON_BLOCKING), words, 1, EQ));
    nap();
    exit(3);
}

TEST(words, events_for_other_processes_are_few)
{
    static tn_cu_event events[4096];
    unsigned int flags = TN_CU_EVENT_DISABLE_TIMING | TN_CU_EVENT_INTERPROCESS;
    tn_cu_event more;
    for (size_t i = 0; i < 4096; i++)
        OK(cu.cuEventCreate(&events[i], flags));
    ANSWERS(TN_CUDA_ERROR_OUT_OF_MEMORY, cu.cuEventCreate(&more, flags));
    OK(cu.cuEventCreate(&more, TN_CU_EVENT_DISABLE_TIMING));
    OK(cu.cuEventDestroy(more));
    ANSWERS(TN_CUDA_ERROR_OUT_OF_MEMORY, cu.cuEventCreate(&more, flags));
    OK(cu.cuEventDestroy(events[17]));
    OK(cu.cuEventCreate(&more, flags));
}

/* -- Between processes -- */

/* Memory for words, of the host or of the device, as a file. */
static int shared_file(bool on_host)
{
    tn_cu_memhandle handle;
    int file = -1;
    tn_cu_allocation_prop prop = device_prop(0);
    if (on_host)
        prop.location = (tn_cu_location){.type = TN_CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0};
    prop.requested_handle_types = TN_CU_MEM_HANDLE_TYPE_POSIX_FD;
    OK(cu.cuMemCreate(&handle, 2 * MIB, &prop, 0));
    OK(cu.cuMemExportToShareableHandle(&file, handle, TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 0));
    return file;
}

static tn_cu_deviceptr map_file(int file)
{
    tn_cu_memhandle handle;
    tn_cu_deviceptr address = reserve(2 * MIB);
    OK(cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file,
                                         TN_CU_MEM_HANDLE_TYPE_POSIX_FD));
    OK(cu.cuMemMap(address, 2 * MIB, 0, handle, 0));
    OK(give_access(address, 2 * MIB, TN_CU_MEM_ACCESS_READWRITE));
    return address;
}

/* A file of zeroes, made by a process that is gone. */
static int file_of_another(bool on_host)
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    pid_t child = fork();
    if (child == 0) {
        start_context();
        int file = shared_file(on_host);
        OK(cu.cuMemsetD8(map_file(file), 0, 2 * MIB));
        OK(cu.cuCtxSynchronize());
        send_file(ends[1], file);
        _exit(0);
    }
    int file = receive_file(ends[0]);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    close(ends[0]);
    close(ends[1]);
    return file;
}

#define PROCESSES 8
#define ROUNDS 50

/* One of the processes: writes its round into everybody's words, and waits for theirs in its own.
 * Exits with 0 when what they wrote before is there in each round. */
static void meet(int file, unsigned int rank)
{
    start_context();
    tn_cu_deviceptr pad = map_file(file);
    tn_cu_deviceptr data = pad + MIB;
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        tn_cu_batch_op ops[2 * PROCESSES];
        unsigned int count = 0;
        OK(cu.cuMemsetD32Async(data + 4 * rank, round, 1, stream));
        for (unsigned int peer = 0; peer < PROCESSES; peer++)
            ops[count++] = word_op(WRITE_32, pad + 256 * peer + 4 * rank, round, 0);
        for (unsigned int peer = 0; peer < PROCESSES; peer++)
            ops[count++] = word_op(WAIT_32, pad + 256 * rank + 4 * peer, round, GEQ);
        OK(cu.cuStreamBatchMemOp(stream, count, ops, 0));
        OK(cu.cuStreamSynchronize(stream));
        for (unsigned int peer = 0; peer < PROCESSES; peer++)
            ck_assert_uint_ge(*word_at(data + 4 * peer), round);
    }
    _exit(0);
}

GROUP(processes, load_driver)

TEST_LOOP(processes, many_meet_by_words_in_memory_that_all_have_mapped, 0, 2)
{
    int file = file_of_another(_i == 0);
    pid_t children[PROCESSES];
    for (unsigned int rank = 0; rank < PROCESSES; rank++) {
        children[rank] = fork();
        if (children[rank] == 0)
            meet(file, rank);
    }
    for (unsigned int rank = 0; rank < PROCESSES; rank++) {
        int status = -1;
        ck_assert_int_eq(waitpid(children[rank], &status, 0), children[rank]);
        ck_assert_int_eq(status, 0);
    }
}

TEST(processes, the_wait_for_a_dead_writer_ends_by_a_survivors_processor)
{
    int file = file_of_another(true);
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        start_context();
        tn_cu_deviceptr theirs = map_file(file);
        OK(cu.cuStreamWriteValue32(NULL, theirs, 1, 0));
        OK(cu.cuStreamSynchronize(NULL));
        ck_assert_int_eq(write(ends[1], "x", 1), 1);
        pause();
    }
    char byte;
    start_context();
    tn_cu_deviceptr words = map_file(file);
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    OK(cu.cuStreamWaitValue32(stream, words, 1, GEQ));
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuStreamWaitValue32(stream, words, 2, GEQ));
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    nap();
    ANSWERS(TN_CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
    *word_at(words) = 2;
    OK(cu.cuStreamSynchronize(stream));
}
