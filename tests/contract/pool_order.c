// SPDX-License-Identifier: Apache-2.0
/* pool_order.c -- who gets memory that a stream has freed, where it lies, and when it goes back. */
#include "contract/contract.h"

#define BLOCK (32 * MIB)

/* A pool that keeps everything, and two streams. */
struct bench {
    tn_cu_mempool pool;
    tn_cu_stream stream;
    tn_cu_stream other;
};

static void set_threshold(const struct bench *bench, uint64_t bytes)
{
    SET_UP(cuMemPoolSetAttribute(bench->pool, TN_CU_POOL_ATTR_RELEASE_THRESHOLD, &bytes));
}

static struct bench bench_begin(uint64_t threshold, size_t most)
{
    tn_cu_pool_props props = {
        .type = TN_CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
        .max_bytes = most,
    };
    struct bench bench;
    contract_kernels();
    SET_UP(cuMemPoolCreate(&bench.pool, &props));
    bench.stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    bench.other = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    set_threshold(&bench, threshold);
    return bench;
}

static void bench_end(struct bench bench)
{
    SET_UP(cuStreamSynchronize(bench.stream));
    SET_UP(cuStreamSynchronize(bench.other));
    SET_UP(cuStreamDestroy(bench.stream));
    SET_UP(cuStreamDestroy(bench.other));
    SET_UP(cuMemPoolDestroy(bench.pool));
}

static tn_cu_deviceptr take_on(const struct bench *bench, size_t bytes, tn_cu_stream stream)
{
    tn_cu_deviceptr address = 0;
    SET_UP(cuMemAllocFromPoolAsync(&address, bytes, bench->pool, stream));
    return address;
}

static tn_cu_deviceptr take(const struct bench *bench, size_t bytes)
{
    return take_on(bench, bytes, bench->stream);
}

static void give(const struct bench *bench, tn_cu_deviceptr address)
{
    SET_UP(cuMemFreeAsync(address, bench->stream));
}

/* Shows how many blocks a pool has. */
static void has(const struct bench *bench, size_t blocks, const char *when)
{
    uint64_t reserved = 0;
    SET_UP(cuMemPoolGetAttribute(bench->pool, TN_CU_POOL_ATTR_RESERVED_CURRENT, &reserved));
    HOLDS(reserved == blocks * BLOCK, "%s: %zu blocks", when, blocks);
}

/* -- Where -- */

CASE_BODY(fit)
{
    struct bench bench = bench_begin(UINT64_MAX, 0);
    tn_cu_deviceptr at[8];
    for (size_t i = 0; i < 8; i++)
        at[i] = take(&bench, i == 1 ? 3 * MIB : MIB);
    give(&bench, at[1]);
    give(&bench, at[5]);
    give(&bench, at[3]);
    HOLDS(take(&bench, MIB) == at[5], "1 MiB goes to the older hole of 1 MiB");
    HOLDS(take(&bench, MIB) == at[3], "the next to the younger one");
    HOLDS(take(&bench, MIB) == at[1], "the third to the hole of 3 MiB");
    HOLDS(take(&bench, 2 * MIB) == at[1] + MIB, "2 MiB to the rest of it");
    bench_end(bench);
}

CASE_BODY(head)
{
    struct bench bench = bench_begin(UINT64_MAX, 0);
    tn_cu_deviceptr head = take(&bench, BLOCK);
    tn_cu_deviceptr stays = take(&bench, 20 * MIB);
    HOLDS(stays == head + BLOCK, "blocks lie side by side");
    give(&bench, head);
    SET_UP(cuStreamSynchronize(bench.stream));
    SET_UP(cuMemPoolTrimTo(bench.pool, 0));
    has(&bench, 1, "the first block is given back");
    HOLDS(take(&bench, 4 * MIB) == head, "the smaller gap is filled, without memory as it is");
    has(&bench, 2, "it gets a block");
    HOLDS(take(&bench, 40 * MIB) == stays + 20 * MIB, "what does not fit goes behind");
    has(&bench, 3, "a block is shared");
    bench_end(bench);
}

/* -- Who -- */

CASE_BODY(busy_other)
{
    struct bench bench = bench_begin(UINT64_MAX, 0);
    tn_cu_deviceptr address = take(&bench, BLOCK);
    struct contract_busy busy = contract_busy_begin();
    GIVES(SUCCESS, cuMemFreeAsync(address, busy.stream));
    HOLDS(take_on(&bench, BLOCK, bench.other) != address, "another stream gets other memory");
    HOLDS(take_on(&bench, BLOCK, busy.stream) == address, "the stream itself has it again");
    HOLDS(contract_busy_runs(&busy), "while its kernel runs");
    contract_busy_end(&busy);
    has(&bench, 2, "in all");
    bench_end(bench);
}

CASE_BODY(follows)
{
    struct bench bench = bench_begin(UINT64_MAX, 0);
    tn_cu_event event = contract_event();
    tn_cu_deviceptr address = take(&bench, BLOCK);
    struct contract_busy busy = contract_busy_begin();
    SET_UP(cuMemFreeAsync(address, busy.stream));
    SET_UP(cuEventRecord(event, busy.stream));
    SET_UP(cuStreamWaitEvent(bench.other, event, 0));
    HOLDS(take_on(&bench, BLOCK, bench.other) == address, "who waits for the free has it");
    HOLDS(contract_busy_runs(&busy), "while the kernel before it runs");
    contract_busy_end(&busy);
    SET_UP(cuEventDestroy(event));
    bench_end(bench);
}

CASE_BODY(follows_not)
{
    struct bench bench = bench_begin(UINT64_MAX, 0);
    tn_cu_event event = contract_event();
    int no = 0;
    SET_UP(cuMemPoolSetAttribute(bench.pool, TN_CU_POOL_ATTR_REUSE_FOLLOW_EVENTS, &no));
    tn_cu_deviceptr address = take(&bench, BLOCK);
    struct contract_busy busy = contract_busy_begin();
    SET_UP(cuMemFreeAsync(address, busy.stream));
    SET_UP(cuEventRecord(event, busy.stream));
    SET_UP(cuStreamWaitEvent(bench.other, event, 0));
    HOLDS(take_on(&bench, BLOCK, bench.other) != address, "who waits for the free has it not");
    contract_busy_end(&busy);
    SET_UP(cuEventDestroy(event));
    bench_end(bench);
}

CASE_BODY(opportunistic)
{
    struct bench bench = bench_begin(UINT64_MAX, 0);
    int no = 0;
    SET_UP(cuMemPoolSetAttribute(bench.pool, TN_CU_POOL_ATTR_REUSE_OPPORTUNISTIC, &no));
    tn_cu_deviceptr address = take(&bench, BLOCK);
    give(&bench, address);
    SET_UP(cuStreamSynchronize(bench.stream));
    HOLDS(take_on(&bench, BLOCK, bench.other) == address,
          "what was waited for is everyone's without opportunism, too");
    bench_end(bench);
}

CASE_BODY(internal)
{
    struct bench bench = bench_begin(UINT64_MAX, BLOCK);
    tn_cu_deviceptr again = 0;
    tn_cu_deviceptr address = take(&bench, BLOCK);
    struct contract_busy busy = contract_busy_begin();
    SET_UP(cuMemFreeAsync(address, busy.stream));
    GIVES(SUCCESS, cuMemAllocFromPoolAsync(&again, BLOCK, bench.pool, bench.other));
    HOLDS(again == address, "a full pool gives memory that is not free yet");
    HOLDS(contract_busy_runs(&busy), "without waiting");
    GIVES(NOT_READY, cuStreamQuery(bench.other));
    contract_busy_end(&busy);
    GIVES(SUCCESS, cuStreamSynchronize(bench.other));
    bench_end(bench);
}

CASE_BODY(internal_not)
{
    struct bench bench = bench_begin(UINT64_MAX, BLOCK);
    tn_cu_deviceptr again = 0;
    int no = 0;
    SET_UP(cuMemPoolSetAttribute(bench.pool, TN_CU_POOL_ATTR_REUSE_INTERNAL, &no));
    tn_cu_deviceptr address = take(&bench, BLOCK);
    struct contract_busy busy = contract_busy_begin();
    SET_UP(cuMemFreeAsync(address, busy.stream));
    GIVES(OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&again, BLOCK, bench.pool, bench.other));
    contract_busy_end(&busy);
    bench_end(bench);
}

/* -- When -- */

CASE_BODY(waits_that_count)
{
    struct bench bench = bench_begin(0, 0);
    tn_cu_event event = contract_event();
    give(&bench, take(&bench, MIB));
    SET_UP(cuStreamSynchronize(bench.other));
    has(&bench, 1, "after a wait for another stream");
    SET_UP(cuStreamQuery(bench.stream));
    has(&bench, 1, "after a query");
    SET_UP(cuStreamSynchronize(bench.stream));
    has(&bench, 0, "after a wait for the stream");
    give(&bench, take(&bench, MIB));
    SET_UP(cuEventRecord(event, bench.stream));
    SET_UP(cuEventSynchronize(event));
    has(&bench, 0, "after a wait for an event");
    tn_cu_deviceptr address = take(&bench, MIB);
    SET_UP(cuEventRecord(event, bench.stream));
    give(&bench, address);
    SET_UP(cuEventSynchronize(event));
    has(&bench, 1, "after a wait for an event before the free");
    SET_UP(cuCtxSynchronize());
    has(&bench, 0, "after a wait for the context");
    SET_UP(cuEventDestroy(event));
    bench_end(bench);
}

CASE_BODY(wait_for_waiter)
{
    struct bench bench = bench_begin(0, 0);
    tn_cu_event event = contract_event();
    give(&bench, take(&bench, MIB));
    SET_UP(cuEventRecord(event, bench.stream));
    SET_UP(cuStreamWaitEvent(bench.other, event, 0));
    SET_UP(cuStreamSynchronize(bench.other));
    has(&bench, 0, "after a wait for a stream that waited");
    SET_UP(cuEventDestroy(event));
    bench_end(bench);
}

CASE_BODY(other_waits)
{
    struct bench bench = bench_begin(0, 0);
    tn_cu_deviceptr linear;
    void *host;
    give(&bench, take(&bench, MIB));
    SET_UP(cuMemAlloc(&linear, 512));
    SET_UP(cuMemFree(linear));
    has(&bench, 1, "after cuMemFree has waited");
    SET_UP(cuMemHostAlloc(&host, 8, 0));
    SET_UP(cuMemFreeHost(host));
    has(&bench, 1, "after cuMemFreeHost has waited");
    bench_end(bench);
}

CASE_BODY(legacy_wait)
{
    struct bench bench = bench_begin(0, 0);
    tn_cu_stream blocking = contract_stream(TN_CU_STREAM_DEFAULT);
    tn_cu_deviceptr address = take_on(&bench, MIB, blocking);
    SET_UP(cuMemFreeAsync(address, blocking));
    SET_UP(cuStreamSynchronize(NULL));
    has(&bench, 0, "after a wait for the legacy stream");
    SET_UP(cuStreamSynchronize(blocking));
    SET_UP(cuStreamDestroy(blocking));
    bench_end(bench);
}

CASE_BODY(two_pools)
{
    struct bench bench = bench_begin(0, 0);
    struct bench second = bench_begin(0, 0);
    give(&bench, take(&bench, MIB));
    SET_UP(cuMemFreeAsync(take_on(&second, MIB, bench.stream), bench.stream));
    SET_UP(cuStreamSynchronize(bench.stream));
    has(&bench, 0, "the first");
    has(&second, 0, "the second");
    bench_end(second);
    bench_end(bench);
}

CASE_BODY(stream_gone)
{
    struct bench bench = bench_begin(0, 0);
    tn_cu_stream gone = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_deviceptr address = take_on(&bench, BLOCK, gone);
    SET_UP(cuMemFreeAsync(address, gone));
    has(&bench, 1, "freed");
    SET_UP(cuStreamDestroy(gone));
    has(&bench, 0, "the stream is destroyed");
    HOLDS(take_on(&bench, BLOCK, bench.other) == address, "another one has its addresses");
    SET_UP(cuMemFreeAsync(address, bench.other));
    bench_end(bench);
}

CASE_BODY(high)
{
    struct bench bench = bench_begin(0, 0);
    uint64_t high = 0;
    give(&bench, take(&bench, 3 * MIB));
    SET_UP(cuStreamSynchronize(bench.stream));
    tn_cu_deviceptr address = take(&bench, MIB);
    SET_UP(cuMemPoolGetAttribute(bench.pool, TN_CU_POOL_ATTR_USED_HIGH, &high));
    HOLDS(high == 3 * MIB, "3 MiB at most");
    high = 0;
    GIVES(SUCCESS, cuMemPoolSetAttribute(bench.pool, TN_CU_POOL_ATTR_USED_HIGH, &high));
    SET_UP(cuMemPoolGetAttribute(bench.pool, TN_CU_POOL_ATTR_USED_HIGH, &high));
    HOLDS(high == MIB, "now as much as is used");
    give(&bench, address);
    bench_end(bench);
}

CASE_BODY(context_gone)
{
    struct bench bench = bench_begin(0, 0);
    tn_cu_context context;
    unsigned int mapped = 0;
    tn_cu_deviceptr address = take(&bench, MIB);
    SET_UP(cuStreamSynchronize(bench.stream));
    GIVES(SUCCESS, cuDevicePrimaryCtxReset(0));
    SET_UP(cuDevicePrimaryCtxRetain(&context, 0));
    SET_UP(cuCtxSetCurrent(context));
    bench.stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    GIVES(SUCCESS, cuPointerGetAttribute(&mapped, TN_CU_POINTER_MAPPED, address));
    HOLDS(mapped == 1, "the memory is there");
    GIVES(SUCCESS, cuMemsetD8Async(address, 1, MIB, bench.stream));
    GIVES(SUCCESS, cuMemFreeAsync(address, bench.stream));
    GIVES(SUCCESS, cuStreamSynchronize(bench.stream));
    GIVES(SUCCESS, cuMemPoolDestroy(bench.pool));
}

static const struct contract_case cases[] = {
    CASE("fit", "The smallest hole that fits is taken, of equals the oldest.", fit),
    CASE("head", "Addresses are chosen before it is seen whether they have memory.", head),
    CASE("busy-other", "What a busy stream freed is its own at once.", busy_other),
    CASE("follows", "Who waits for a free may have the memory before.", follows),
    CASE("follows-not", "Unless the pool is told not to follow events.", follows_not),
    CASE("opportunistic", "Memory that was waited for is free for every stream.", opportunistic),
    CASE("internal", "A pool without room makes the stream wait for what is being freed.",
         internal),
    CASE("internal-not", "Unless the pool is told not to.", internal_not),
    CASE("waits-that-count", "Waiting for the free gives memory back.", waits_that_count),
    CASE("wait-for-waiter", "So does waiting for a stream that waited for it.", wait_for_waiter),
    CASE("other-waits", "Frees that wait for the device give nothing back.", other_waits),
    CASE("legacy-wait", "A wait for the legacy stream is one for the blocking streams.",
         legacy_wait),
    CASE("two-pools", "One wait gives back the memory of all pools.", two_pools),
    CASE("stream-gone", "Destroying a stream gives back what it freed.", stream_gone),
    CASE("high", "The most that was used can be counted anew.", high),
    CASE_ALONE("context-gone", "Pools and their memory outlive the context.", context_gone),
};
const struct contract_group contract_pool_order =
    CONTRACT_GROUP("pool_order", START_CONTEXT, cases);
