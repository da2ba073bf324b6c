// SPDX-License-Identifier: Apache-2.0
/* words.c -- words that streams wait for and write, alone and in batches; also in memory that
 * another process has mapped, and whose writer dies. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "contract/contract.h"

#define WAIT_32 TN_CU_STREAM_MEM_OP_WAIT_VALUE_32
#define WAIT_64 TN_CU_STREAM_MEM_OP_WAIT_VALUE_64
#define WRITE_32 TN_CU_STREAM_MEM_OP_WRITE_VALUE_32
#define WRITE_64 TN_CU_STREAM_MEM_OP_WRITE_VALUE_64
#define FLUSH TN_CU_STREAM_WAIT_VALUE_FLUSH
#define MOST_EVENTS 4096

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

/* Long enough for a stream to do what it can. */
static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

struct bench {
    struct contract_mapped mapped; /* zeroes */
    tn_cu_deviceptr words;
    tn_cu_stream waiting;
    tn_cu_stream writing;
};

static struct bench bench_begin(void)
{
    struct bench bench = {.mapped = contract_map(2 * MIB)};
    bench.words = bench.mapped.address;
    bench.waiting = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    bench.writing = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    SET_UP(cuMemsetD8(bench.words, 0, 2 * MIB));
    SET_UP(cuStreamSynchronize(NULL));
    return bench;
}

static void bench_end(struct bench *bench)
{
    SET_UP(cuStreamSynchronize(bench->waiting));
    SET_UP(cuStreamSynchronize(bench->writing));
    SET_UP(cuStreamDestroy(bench->waiting));
    SET_UP(cuStreamDestroy(bench->writing));
    contract_unmap(bench->mapped);
}

/* Shows whether the waiting stream has come to an end. */
static void show_waiting(const struct bench *bench)
{
    nap();
    SHOWS(cuStreamQuery(bench->waiting));
}

CASE_BODY(wait_ends)
{
    struct bench bench = bench_begin();
    GIVES(SUCCESS, cuStreamWaitValue32(bench.waiting, bench.words, 1, 0));
    GIVES(SUCCESS, cuStreamWriteValue32(bench.waiting, bench.words + 64, 9, 0));
    show_waiting(&bench);
    HOLDS(contract_word(bench.words, 16) == 0, "what comes behind the wait is not done");
    GIVES(SUCCESS, cuStreamWriteValue32(bench.writing, bench.words, 1, 0));
    GIVES(SUCCESS, cuStreamSynchronize(bench.waiting));
    HOLDS(contract_word(bench.words, 16) == 9, "what comes behind the wait is done");
    GIVES(SUCCESS, cuStreamWaitValue64(bench.waiting, bench.words + 8, UINT64_C(1) << 40, 0));
    show_waiting(&bench);
    GIVES(SUCCESS, cuStreamWriteValue64(bench.writing, bench.words + 8, UINT64_C(1) << 40, 0));
    GIVES(SUCCESS, cuStreamSynchronize(bench.waiting));
    bench_end(&bench);
}

CASE_BODY(wait_for_a_processor)
{
    void *host;
    tn_cu_deviceptr address;
    struct bench bench = bench_begin();
    SET_UP(cuMemHostAlloc(&host, 4096, TN_CU_MEMHOSTALLOC_DEVICEMAP));
    SET_UP(cuMemHostGetDevicePointer(&address, host, 0));
    _Atomic(uint32_t) *word = host;
    *word = 0;
    GIVES(SUCCESS, cuStreamWaitValue32(bench.waiting, address, 1, 0));
    show_waiting(&bench);
    *word = 1;
    GIVES(SUCCESS, cuStreamSynchronize(bench.waiting));
    bench_end(&bench);
    SET_UP(cuMemFreeHost(host));
}

/* What is waited for, and words that it meets and does not. */
static const struct comparison {
    const char *what;
    int operation;
    unsigned int flags;
    uint64_t value;
    uint64_t unmet;
    uint64_t met;
} comparisons[] = {
    {"at least", WAIT_32, TN_CU_STREAM_WAIT_VALUE_GEQ, 5, 4, 5},
    {"at least, wrapped", WAIT_32, TN_CU_STREAM_WAIT_VALUE_GEQ, 3, UINT32_MAX, 4},
    {"equal", WAIT_32, TN_CU_STREAM_WAIT_VALUE_EQ, 5, 6, 5},
    {"a bit of", WAIT_32, TN_CU_STREAM_WAIT_VALUE_AND, 9, 6, 8},
    {"a bit in neither", WAIT_32, TN_CU_STREAM_WAIT_VALUE_NOR, 1, UINT32_MAX - 1, 7},
    {"at least, 64 bits", WAIT_64, TN_CU_STREAM_WAIT_VALUE_GEQ, UINT64_C(1) << 40, 5,
     UINT64_C(1) << 41},
    {"equal, 64 bits", WAIT_64, TN_CU_STREAM_WAIT_VALUE_EQ, UINT64_C(1) << 40, 0,
     UINT64_C(1) << 40},
    {"a bit of, 64 bits", WAIT_64, TN_CU_STREAM_WAIT_VALUE_AND, UINT64_C(3) << 40, 3,
     UINT64_C(1) << 40},
    {"a bit in neither, 64 bits", WAIT_64, TN_CU_STREAM_WAIT_VALUE_NOR, UINT64_C(1) << 63,
     UINT64_MAX >> 1, 7},
};

CASE_BODY(comparing)
{
    struct bench bench = bench_begin();
    for (size_t i = 0; i < sizeof comparisons / sizeof comparisons[0]; i++) {
        const struct comparison *row = &comparisons[i];
        tn_cu_batch_op op = word_op(row->operation, bench.words, row->value, row->flags);
        STATE("%s", row->what);
        SET_UP(cuStreamWriteValue64(bench.writing, bench.words, row->unmet, 0));
        SET_UP(cuStreamSynchronize(bench.writing));
        GIVES(SUCCESS, cuStreamBatchMemOp(bench.waiting, 1, &op, 0));
        show_waiting(&bench);
        SET_UP(cuStreamWriteValue64(bench.writing, bench.words, row->met, 0));
        GIVES(SUCCESS, cuStreamSynchronize(bench.waiting));
    }
    bench_end(&bench);
}

CASE_BODY(batch_order)
{
    struct bench bench = bench_begin();
    tn_cu_batch_op ops[] = {
        word_op(WRITE_32, bench.words, 1, 0),
        word_op(WAIT_32, bench.words + 4, 1, TN_CU_STREAM_WAIT_VALUE_EQ),
        word_op(WRITE_32, bench.words, 2, 0),
        word_op(WRITE_64, bench.words + 8, 3, 0),
    };
    GIVES(SUCCESS, cuStreamBatchMemOp(bench.waiting, 4, ops, 0));
    show_waiting(&bench);
    HOLDS(contract_word(bench.words, 0) == 1, "the first write is done, and no other");
    GIVES(SUCCESS, cuStreamWriteValue32(bench.writing, bench.words + 4, 1, 0));
    GIVES(SUCCESS, cuStreamSynchronize(bench.waiting));
    HOLDS(contract_word(bench.words, 0) == 2 && contract_word(bench.words, 2) == 3,
          "all writes are done");
    bench_end(&bench);
}

CASE_BODY(refused)
{
    struct bench bench = bench_begin();
    static tn_cu_batch_op many[256];
    tn_cu_batch_op barrier = {.barrier = {TN_CU_STREAM_MEM_OP_BARRIER, 0}};
    tn_cu_batch_op flush = {.barrier = {TN_CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES, 0}};
    for (size_t i = 0; i < 256; i++)
        many[i] = word_op(WRITE_32, bench.words, i, 0);
    STATE("255 operations");
    SHOWS(cuStreamBatchMemOp(bench.writing, 255, many, 0));
    STATE("256");
    SHOWS(cuStreamBatchMemOp(bench.writing, 256, many, 0));
    STATE("none");
    SHOWS(cuStreamBatchMemOp(bench.writing, 0, many, 0));
    STATE("flags 1");
    SHOWS(cuStreamBatchMemOp(bench.writing, 1, many, 1));
    STATE("a barrier");
    SHOWS(cuStreamBatchMemOp(bench.writing, 1, &barrier, 0));
    barrier.barrier.flags = 2;
    STATE("one of type 2");
    SHOWS(cuStreamBatchMemOp(bench.writing, 1, &barrier, 0));
    STATE("a flush");
    SHOWS(cuStreamBatchMemOp(bench.writing, 1, &flush, 0));
    STATE("a wait that flushes");
    SHOWS(cuStreamWaitValue32(bench.writing, bench.words, 0, FLUSH));
    STATE("wait flags 4");
    SHOWS(cuStreamWaitValue32(bench.writing, bench.words, 0, 4));
    STATE("write flags 1");
    SHOWS(cuStreamWriteValue32(bench.writing, bench.words, 0, 1));
    STATE("off a word");
    SHOWS(cuStreamWaitValue32(bench.writing, bench.words + 2, 0, 0));
    SHOWS(cuStreamWaitValue64(bench.writing, bench.words + 4, 0, 0));
    SHOWS(cuStreamWriteValue64(bench.writing, bench.words + 4, 0, 0));
    STATE("address 0");
    SHOWS(cuStreamWaitValue32(bench.writing, 0, 0, 0));
    STATE("behind the memory");
    SHOWS(cuStreamWaitValue32(bench.writing, bench.words + 2 * MIB, 0, 0));
    many[1].operation = 7;
    STATE("the second operation is unknown");
    SHOWS(cuStreamBatchMemOp(bench.writing, 2, many, 0));
    bench_end(&bench);
}

CASE_BODY(replayed)
{
    struct bench bench = bench_begin();
    tn_cu_graph graph;
    tn_cu_graphexec exec;
    tn_cu_batch_op steps[] = {word_op(WAIT_32, bench.words, 1, TN_CU_STREAM_WAIT_VALUE_EQ),
                              word_op(WRITE_32, bench.words, 0, 0)};
    SET_UP(cuStreamBeginCapture(bench.waiting, TN_CU_CAPTURE_MODE_GLOBAL));
    GIVES(SUCCESS, cuStreamBatchMemOp(bench.waiting, 2, steps, 0));
    GIVES(SUCCESS, cuStreamEndCapture(bench.waiting, &graph));
    GIVES(SUCCESS, cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 3; i++) {
        GIVES(SUCCESS, cuGraphLaunch(exec, bench.waiting));
        show_waiting(&bench);
        GIVES(SUCCESS, cuStreamWriteValue32(bench.writing, bench.words, 1, 0));
        GIVES(SUCCESS, cuStreamSynchronize(bench.waiting));
    }
    SET_UP(cuGraphExecDestroy(exec));
    SET_UP(cuGraphDestroy(graph));
    bench_end(&bench);
}

CASE_BODY(changed)
{
    struct bench bench = bench_begin();
    tn_cu_graph graph;
    tn_cu_graphexec exec;
    tn_cu_graphnode node;
    tn_cu_batch_op ops[] = {word_op(WRITE_32, bench.words, 1, 0),
                            word_op(WRITE_32, bench.words + 4, 1, 0)};
    tn_cu_batch_node_params params = {.ctx = contract_current(), .count = 2, .ops = ops};
    SET_UP(cuGraphCreate(&graph, 0));
    GIVES(SUCCESS, cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &params));
    SET_UP(cuGraphInstantiateWithFlags(&exec, graph, 0));
    STATE("another value");
    ops[1].value.value = 2;
    GIVES(SUCCESS, cuGraphExecBatchMemOpNodeSetParams(exec, node, &params));
    SET_UP(cuGraphLaunch(exec, bench.writing));
    SET_UP(cuStreamSynchronize(bench.writing));
    HOLDS(contract_word(bench.words, 1) == 2, "it is written");
    STATE("another count");
    params.count = 1;
    SHOWS(cuGraphExecBatchMemOpNodeSetParams(exec, node, &params));
    STATE("another operation");
    params.count = 2;
    ops[0] = word_op(WAIT_32, bench.words, 1, 0);
    SHOWS(cuGraphExecBatchMemOpNodeSetParams(exec, node, &params));
    STATE("the node itself");
    SHOWS(cuGraphBatchMemOpNodeSetParams(node, &params));
    STATE("without a context");
    params.ctx = NULL;
    SHOWS(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &params));
    SET_UP(cuGraphExecDestroy(exec));
    SET_UP(cuGraphDestroy(graph));
    bench_end(&bench);
}

CASE_BODY(destroyed)
{
    struct bench bench = bench_begin();
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    SET_UP(cuStreamWaitValue32(stream, bench.words, 1, TN_CU_STREAM_WAIT_VALUE_EQ));
    SET_UP(cuStreamWriteValue32(stream, bench.words + 4, 1, 0));
    GIVES(SUCCESS, cuStreamDestroy(stream));
    STATE("another stream goes on");
    GIVES(SUCCESS, cuMemsetD32Async(bench.words + 8, 1, 1, bench.writing));
    GIVES(SUCCESS, cuStreamSynchronize(bench.writing));
    HOLDS(contract_word(bench.words, 1) == 0, "the wait goes on");
    SET_UP(cuStreamWriteValue32(bench.writing, bench.words, 1, 0));
    SET_UP(cuStreamWaitValue32(bench.writing, bench.words + 4, 1, 0));
    GIVES(SUCCESS, cuStreamSynchronize(bench.writing));
    bench_end(&bench);
}

CASE_BODY(interprocess_events)
{
    static tn_cu_event events[MOST_EVENTS];
    tn_cu_event more = NULL;
    unsigned int flags = TN_CU_EVENT_DISABLE_TIMING | TN_CU_EVENT_INTERPROCESS;
    for (size_t i = 0; i < MOST_EVENTS; i++)
        SET_UP(cuEventCreate(&events[i], flags));
    GIVES(OUT_OF_MEMORY, cuEventCreate(&more, flags));
    GIVES(SUCCESS, cuEventDestroy(events[0]));
    GIVES(SUCCESS, cuEventCreate(&events[0], flags));
    for (size_t i = 0; i < MOST_EVENTS; i++)
        SET_UP(cuEventDestroy(events[i]));
}

/* -- Another process -- */

/* Page-locked memory, as a file. */
static tn_cu_memhandle make_host_memory(int *file)
{
    tn_cu_memhandle handle;
    tn_cu_allocation_prop prop = contract_prop(0);
    prop.location = (tn_cu_location){.type = TN_CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0};
    prop.requested_handle_types = TN_CU_MEM_HANDLE_TYPE_POSIX_FD;
    SET_UP(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    SET_UP(cuMemExportToShareableHandle(file, handle, TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 0));
    return handle;
}

/* Maps it for the device and for processors. */
static tn_cu_deviceptr map_host_memory(tn_cu_memhandle handle)
{
    tn_cu_deviceptr address = 0;
    tn_cu_access_desc access[] = {
        {.location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE}, .flags = TN_CU_MEM_ACCESS_READWRITE},
        {.location = {.type = TN_CU_MEM_LOCATION_TYPE_HOST_NUMA},
         .flags = TN_CU_MEM_ACCESS_READWRITE},
    };
    SET_UP(cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0));
    SET_UP(cuMemMap(address, 2 * MIB, 0, handle, 0));
    SET_UP(cuMemSetAccess(address, 2 * MIB, access, 2));
    return address;
}

/* Writes the word that it is told, by its stream, until nobody tells it any. */
int contract_helper_writer(int socket)
{
    tn_cu_memhandle handle;
    tn_cu_context context;
    uint32_t value;
    int file = contract_receive_fd(socket);
    SET_UP(cuInit(0));
    SET_UP(cuDevicePrimaryCtxRetain(&context, 0));
    SET_UP(cuCtxSetCurrent(context));
    SET_UP(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file,
                                          TN_CU_MEM_HANDLE_TYPE_POSIX_FD));
    tn_cu_deviceptr word = map_host_memory(handle);
    for (;;) {
        contract_receive(socket, &value, sizeof value);
        SET_UP(cuStreamWriteValue32(NULL, word, value, 0));
        SET_UP(cuStreamSynchronize(NULL));
        contract_send(socket, &value, sizeof value);
    }
}

static void tell(const struct contract_process *other, uint32_t value)
{
    contract_send(other->socket, &value, sizeof value);
    contract_receive(other->socket, &value, sizeof value);
}

CASE_BODY(dead_writer)
{
    int file = -1;
    tn_cu_memhandle handle = make_host_memory(&file);
    tn_cu_deviceptr address = map_host_memory(handle);
    _Atomic(uint32_t) *word = (_Atomic(uint32_t) *)(uintptr_t)address;
    struct bench bench = bench_begin();
    *word = 0;
    struct contract_process other = contract_process_start("writer");
    contract_send_fd(other.socket, file);
    close(file);
    STATE("the other process writes");
    GIVES(SUCCESS, cuStreamWaitValue32(bench.waiting, address, 1, 0));
    show_waiting(&bench);
    tell(&other, 1);
    GIVES(SUCCESS, cuStreamSynchronize(bench.waiting));
    STATE("it is dead");
    GIVES(SUCCESS, cuStreamWaitValue32(bench.waiting, address, 2, 0));
    kill(other.pid, SIGKILL);
    close(other.socket);
    while (waitpid(other.pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    show_waiting(&bench);
    STATE("this process' processor writes");
    *word = 2;
    GIVES(SUCCESS, cuStreamSynchronize(bench.waiting));
    STATE("another stream of this process writes");
    GIVES(SUCCESS, cuStreamWaitValue32(bench.waiting, address, 3, 0));
    GIVES(SUCCESS, cuStreamWriteValue32(bench.writing, address, 3, 0));
    GIVES(SUCCESS, cuStreamSynchronize(bench.waiting));
    bench_end(&bench);
    SET_UP(cuMemUnmap(address, 2 * MIB));
    SET_UP(cuMemAddressFree(address, 2 * MIB));
    SET_UP(cuMemRelease(handle));
}

static const struct contract_case cases[] = {
    CASE("wait-ends", "The write of a stream ends the wait of another.", wait_ends),
    CASE("wait-for-a-processor", "A processor's write in page-locked memory ends a wait.",
         wait_for_a_processor),
    CASE("comparing", "A wait compares as its flags say.", comparing),
    CASE("batch-order", "A batch is done in its order.", batch_order),
    CASE("refused", "What a batch may not have.", refused),
    CASE("replayed", "A graph waits and writes at each replay.", replayed),
    CASE("changed", "What may change in the node of a batch.", changed),
    CASE("destroyed", "A stream may be destroyed while it waits for a word.", destroyed),
    CASE("interprocess-events", "A process has few events for others.", interprocess_events),
    CASE("dead-writer", "The wait for a dead writer lasts until a survivor writes.", dead_writer),
};
const struct contract_group contract_words = CONTRACT_GROUP("words", START_CONTEXT, cases);
