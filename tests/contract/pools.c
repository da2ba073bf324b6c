// SPDX-License-Identifier: Apache-2.0
/* pools.c -- the driver's stream-ordered allocator: its pools, what they keep, and what they give
 * back.
 *
 * A pool takes memory of the device in blocks of 32 MiB and shows how much it has and how much of
 * it is in use; the cases show both beside what the device says is free. */
#include <string.h>

#include "contract/contract.h"

#define BLOCK (32 * MIB)

static tn_cu_pool_props pool_props(void)
{
    tn_cu_pool_props props;
    memset(&props, 0, sizeof props);
    props.type = TN_CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = TN_CU_MEM_LOCATION_TYPE_DEVICE;
    return props;
}

static tn_cu_mempool make_pool(void)
{
    tn_cu_mempool pool;
    tn_cu_pool_props props = pool_props();
    SET_UP(cuMemPoolCreate(&pool, &props));
    return pool;
}

static uint64_t pool_value(tn_cu_mempool pool, tn_cu_pool_attribute attribute)
{
    uint64_t value = 0;
    SET_UP(cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

static void set_threshold(tn_cu_mempool pool, uint64_t bytes)
{
    SET_UP(cuMemPoolSetAttribute(pool, TN_CU_POOL_ATTR_RELEASE_THRESHOLD, &bytes));
}

/* A pool and a stream, and the memory that was free before. */
struct bench {
    tn_cu_mempool pool;
    tn_cu_stream stream;
    size_t free_bytes;
};

static struct bench bench_make(uint64_t threshold)
{
    struct bench bench;
    bench.stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    bench.pool = make_pool();
    set_threshold(bench.pool, threshold);
    bench.free_bytes = contract_free_bytes();
    return bench;
}

static void bench_end(struct bench bench)
{
    SET_UP(cuStreamSynchronize(bench.stream));
    SET_UP(cuMemPoolDestroy(bench.pool));
    SET_UP(cuStreamDestroy(bench.stream));
}

static tn_cu_deviceptr take(const struct bench *bench, size_t bytes)
{
    tn_cu_deviceptr address = 0;
    SET_UP(cuMemAllocFromPoolAsync(&address, bytes, bench->pool, bench->stream));
    return address;
}

static void give(const struct bench *bench, tn_cu_deviceptr address)
{
    SET_UP(cuMemFreeAsync(address, bench->stream));
}

/* Shows what a pool has, and that the device says the same. */
static void pool_is(const struct bench *bench, const char *when, size_t reserved, size_t used)
{
    STATE("%s", when);
    HOLDS(pool_value(bench->pool, TN_CU_POOL_ATTR_RESERVED_CURRENT) == reserved, "it has %zu MiB",
          reserved / MIB);
    HOLDS(pool_value(bench->pool, TN_CU_POOL_ATTR_USED_CURRENT) == used, "%zu bytes are in use",
          used);
    HOLDS(bench->free_bytes - contract_free_bytes() == reserved, "the device has as much less");
}

/* -- Which pool -- */

CASE_BODY(default_pool)
{
    tn_cu_mempool pool = NULL;
    tn_cu_mempool current = NULL;
    GIVES(SUCCESS, cuDeviceGetDefaultMemPool(&pool, 0));
    GIVES(SUCCESS, cuDeviceGetMemPool(&current, 0));
    HOLDS(pool != NULL && pool == current, "a device begins with its default pool");
    STATE("device 99");
    GIVES(INVALID_DEVICE, cuDeviceGetDefaultMemPool(&pool, 99));
    GIVES(INVALID_VALUE, cuDeviceGetMemPool(&pool, 99));
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuDeviceGetDefaultMemPool(NULL, 0));
    GIVES(INVALID_VALUE, cuDeviceGetMemPool(NULL, 0));
    STATE("destroyed");
    GIVES(INVALID_VALUE, cuMemPoolDestroy(current));
}

CASE_BODY(current_pool)
{
    tn_cu_mempool normal;
    tn_cu_mempool current = NULL;
    struct bench bench = bench_make(0);
    tn_cu_deviceptr address = 0;
    tn_cu_mempool of = NULL;
    SET_UP(cuDeviceGetDefaultMemPool(&normal, 0));
    GIVES(SUCCESS, cuDeviceSetMemPool(0, bench.pool));
    GIVES(SUCCESS, cuDeviceGetMemPool(&current, 0));
    HOLDS(current == bench.pool, "it is the device's");
    GIVES(SUCCESS, cuMemAllocAsync(&address, 1000, bench.stream));
    SET_UP(cuPointerGetAttribute(&of, TN_CU_POINTER_MEMPOOL_HANDLE, address));
    HOLDS(of == bench.pool, "memory comes from it");
    GIVES(SUCCESS, cuMemFreeAsync(address, bench.stream));
    STATE("no pool");
    GIVES(INVALID_VALUE, cuDeviceSetMemPool(0, NULL));
    STATE("device 99");
    GIVES(INVALID_VALUE, cuDeviceSetMemPool(99, bench.pool));
    SET_UP(cuStreamSynchronize(bench.stream));
    SET_UP(cuMemPoolDestroy(bench.pool));
    GIVES(SUCCESS, cuDeviceGetMemPool(&current, 0));
    HOLDS(current == normal, "when it is destroyed the default pool is the device's again");
    SET_UP(cuStreamDestroy(bench.stream));
}

/* -- Making pools -- */

static void make(const char *what, const tn_cu_pool_props *props, tn_cu_result expected)
{
    tn_cu_mempool pool = NULL;
    STATE("%s", what);
    if (contract_gives(expected, "cuMemPoolCreate(", cu.cuMemPoolCreate(&pool, props)) ==
        TN_CUDA_SUCCESS)
        GIVES(SUCCESS, cuMemPoolDestroy(pool));
}

CASE_BODY(create)
{
    const tn_cu_pool_props plain = pool_props();
    tn_cu_pool_props props = plain;
    make("of a device", &props, TN_CUDA_SUCCESS);
    props.handle_types = TN_CU_MEM_HANDLE_TYPE_POSIX_FD;
    make("to be exported", &props, TN_CUDA_SUCCESS);
    props = plain;
    props.max_bytes = 10 * MIB;
    make("of 10 MiB at most", &props, TN_CUDA_SUCCESS);
    props = plain;
    props.location.type = TN_CU_MEM_LOCATION_TYPE_HOST;
    make("of the host", &props, TN_CUDA_SUCCESS);
    props.location.type = TN_CU_MEM_LOCATION_TYPE_HOST_NUMA;
    make("of a NUMA node", &props, TN_CUDA_SUCCESS);
    props = plain;
    props.type = TN_CU_MEM_ALLOCATION_TYPE_MANAGED;
    make("managed", &props, TN_CUDA_SUCCESS);
}

CASE_BODY(create_refused)
{
    const tn_cu_pool_props plain = pool_props();
    tn_cu_pool_props props = plain;
    props.type = 0;
    make("no type", &props, TN_CUDA_ERROR_INVALID_VALUE);
    props = plain;
    props.location.type = 0;
    make("no location", &props, TN_CUDA_ERROR_INVALID_VALUE);
    props = plain;
    props.location.id = 99;
    make("device 99", &props, TN_CUDA_ERROR_INVALID_VALUE);
    props = plain;
    props.handle_types = TN_CU_MEM_HANDLE_TYPE_WIN32;
    make("win32", &props, TN_CUDA_ERROR_INVALID_VALUE);
    props = plain;
    props.reserved[0] = 1;
    make("a reserved byte", &props, TN_CUDA_ERROR_INVALID_VALUE);
    make("no properties", NULL, TN_CUDA_ERROR_INVALID_VALUE);
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuMemPoolCreate(NULL, &plain));
}

CASE_BODY(most)
{
    tn_cu_pool_props props = pool_props();
    struct bench bench = {.stream = contract_stream(TN_CU_STREAM_NON_BLOCKING)};
    tn_cu_deviceptr address = 0;
    tn_cu_deviceptr more = 0;
    props.max_bytes = 10 * MIB;
    SET_UP(cuMemPoolCreate(&bench.pool, &props));
    STATE("10 MiB at most, which is a block");
    GIVES(SUCCESS, cuMemAllocFromPoolAsync(&address, 5 * MIB, bench.pool, bench.stream));
    STATE("30 MiB more");
    GIVES(OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&more, 30 * MIB, bench.pool, bench.stream));
    STATE("20 MiB more");
    GIVES(SUCCESS, cuMemAllocFromPoolAsync(&more, 20 * MIB, bench.pool, bench.stream));
    give(&bench, more);
    give(&bench, address);
    bench_end(bench);
}

/* -- Attributes -- */

CASE_BODY(attributes)
{
    tn_cu_mempool pool = make_pool();
    static const struct {
        tn_cu_pool_attribute attribute;
        const char *name;
        uint64_t value;
    } rows[] = {
        {TN_CU_POOL_ATTR_REUSE_FOLLOW_EVENTS, "reuse following events", 1},
        {TN_CU_POOL_ATTR_REUSE_OPPORTUNISTIC, "opportunistic reuse", 1},
        {TN_CU_POOL_ATTR_REUSE_INTERNAL, "reuse with dependencies of its own", 1},
        {TN_CU_POOL_ATTR_RELEASE_THRESHOLD, "release threshold", 0},
        {TN_CU_POOL_ATTR_RESERVED_CURRENT, "reserved", 0},
        {TN_CU_POOL_ATTR_RESERVED_HIGH, "reserved at most", 0},
        {TN_CU_POOL_ATTR_USED_CURRENT, "used", 0},
        {TN_CU_POOL_ATTR_USED_HIGH, "used at most", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t value = 0;
        STATE("%s", rows[i].name);
        GIVES(SUCCESS, cuMemPoolGetAttribute(pool, rows[i].attribute, &value));
        HOLDS(value == rows[i].value, "%llu", (unsigned long long)rows[i].value);
    }
    SET_UP(cuMemPoolDestroy(pool));
}

CASE_BODY(attributes_set)
{
    tn_cu_mempool pool = make_pool();
    uint64_t bytes = 64 * MIB;
    int off = 0;
    uint64_t none = 0;
    uint64_t one = 1;
    for (int i = TN_CU_POOL_ATTR_REUSE_FOLLOW_EVENTS; i <= TN_CU_POOL_ATTR_REUSE_INTERNAL; i++) {
        int value = 7;
        STATE("reuse %d off", i);
        GIVES(SUCCESS, cuMemPoolSetAttribute(pool, (tn_cu_pool_attribute)i, &off));
        SET_UP(cuMemPoolGetAttribute(pool, (tn_cu_pool_attribute)i, &value));
        HOLDS(value == 0, "it is off");
    }
    STATE("the threshold");
    GIVES(SUCCESS, cuMemPoolSetAttribute(pool, TN_CU_POOL_ATTR_RELEASE_THRESHOLD, &bytes));
    HOLDS(pool_value(pool, TN_CU_POOL_ATTR_RELEASE_THRESHOLD) == bytes, "64 MiB");
    STATE("what it has");
    GIVES(INVALID_VALUE, cuMemPoolSetAttribute(pool, TN_CU_POOL_ATTR_RESERVED_CURRENT, &none));
    GIVES(INVALID_VALUE, cuMemPoolSetAttribute(pool, TN_CU_POOL_ATTR_USED_CURRENT, &none));
    STATE("the most it had, to 0");
    GIVES(SUCCESS, cuMemPoolSetAttribute(pool, TN_CU_POOL_ATTR_RESERVED_HIGH, &none));
    GIVES(SUCCESS, cuMemPoolSetAttribute(pool, TN_CU_POOL_ATTR_USED_HIGH, &none));
    STATE("to 1");
    GIVES(INVALID_VALUE, cuMemPoolSetAttribute(pool, TN_CU_POOL_ATTR_RESERVED_HIGH, &one));
    GIVES(INVALID_VALUE, cuMemPoolSetAttribute(pool, TN_CU_POOL_ATTR_USED_HIGH, &one));
    SET_UP(cuMemPoolDestroy(pool));
}

CASE_BODY(attributes_refused)
{
    tn_cu_mempool pool = make_pool();
    uint64_t value = 0;
    STATE("attribute 0");
    GIVES(INVALID_VALUE, cuMemPoolGetAttribute(pool, (tn_cu_pool_attribute)0, &value));
    GIVES(INVALID_VALUE, cuMemPoolSetAttribute(pool, (tn_cu_pool_attribute)0, &value));
    STATE("attribute 99");
    GIVES(INVALID_VALUE, cuMemPoolGetAttribute(pool, (tn_cu_pool_attribute)99, &value));
    GIVES(INVALID_VALUE, cuMemPoolSetAttribute(pool, (tn_cu_pool_attribute)99, &value));
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuMemPoolGetAttribute(pool, TN_CU_POOL_ATTR_RELEASE_THRESHOLD, NULL));
    SET_UP(cuMemPoolDestroy(pool));
}

/* -- Taking and giving -- */

CASE_BODY(packing)
{
    struct bench bench = bench_make(0);
    static const size_t sizes[] = {1, 512, 513, 1000, MIB, 3 * MIB};
    static const size_t offsets[] = {0, 512, 1024, 2048, 3072, 3072 + MIB};
    tn_cu_deviceptr addresses[6];
    size_t used = 0;
    for (size_t i = 0; i < 6; i++) {
        addresses[i] = take(&bench, sizes[i]);
        used += sizes[i];
        HOLDS(addresses[i] - addresses[0] == offsets[i], "%zu bytes lie at %zu", sizes[i],
              offsets[i]);
    }
    pool_is(&bench, "in one block", BLOCK, used);
    for (size_t i = 0; i < 6; i++)
        give(&bench, addresses[i]);
    pool_is(&bench, "freed", BLOCK, 0);
    GIVES(SUCCESS, cuStreamSynchronize(bench.stream));
    pool_is(&bench, "waited for", 0, 0);
    HOLDS(pool_value(bench.pool, TN_CU_POOL_ATTR_USED_HIGH) == used, "the most is remembered");
    HOLDS(pool_value(bench.pool, TN_CU_POOL_ATTR_RESERVED_HIGH) == BLOCK, "of blocks too");
    bench_end(bench);
}

CASE_BODY(blocks)
{
    struct bench bench = bench_make(0);
    tn_cu_deviceptr first = take(&bench, 20 * MIB);
    tn_cu_deviceptr second = take(&bench, 20 * MIB);
    HOLDS(second - first == 20 * MIB, "an allocation lies in two blocks");
    pool_is(&bench, "20 and 20", 2 * BLOCK, 40 * MIB);
    tn_cu_deviceptr third = take(&bench, 100 * MIB);
    HOLDS(third - first == 40 * MIB, "and in four");
    pool_is(&bench, "and 100", 5 * BLOCK, 140 * MIB);
    give(&bench, second);
    give(&bench, third);
    SET_UP(cuStreamSynchronize(bench.stream));
    pool_is(&bench, "the first 20 left", BLOCK, 20 * MIB);
    give(&bench, first);
    SET_UP(cuStreamSynchronize(bench.stream));
    pool_is(&bench, "none left", 0, 0);
    bench_end(bench);
}

CASE_BODY(threshold)
{
    struct bench bench = bench_make(64 * MIB);
    tn_cu_deviceptr addresses[] = {take(&bench, MIB), take(&bench, 40 * MIB),
                                   take(&bench, 40 * MIB)};
    pool_is(&bench, "1, 40 and 40", 3 * BLOCK, 81 * MIB);
    for (size_t i = 0; i < 3; i++)
        give(&bench, addresses[i]);
    SET_UP(cuStreamSynchronize(bench.stream));
    pool_is(&bench, "freed, and 64 MiB are kept", 2 * BLOCK, 0);
    GIVES(SUCCESS, cuMemPoolTrimTo(bench.pool, 33 * MIB));
    pool_is(&bench, "trimmed to 33 MiB", 2 * BLOCK, 0);
    GIVES(SUCCESS, cuMemPoolTrimTo(bench.pool, 1));
    pool_is(&bench, "trimmed to 1 byte", BLOCK, 0);
    GIVES(SUCCESS, cuMemPoolTrimTo(bench.pool, 0));
    pool_is(&bench, "trimmed to nothing", 0, 0);
    bench_end(bench);
}

CASE_BODY(trim_in_use)
{
    struct bench bench = bench_make(UINT64_MAX);
    tn_cu_deviceptr address = take(&bench, MIB);
    give(&bench, address);
    GIVES(SUCCESS, cuMemPoolTrimTo(bench.pool, 0));
    pool_is(&bench, "freed and not waited for", BLOCK, 0);
    SET_UP(cuStreamSynchronize(bench.stream));
    pool_is(&bench, "waited for", BLOCK, 0);
    GIVES(SUCCESS, cuMemPoolTrimTo(bench.pool, 0));
    pool_is(&bench, "trimmed", 0, 0);
    bench_end(bench);
}

CASE_BODY(reuse)
{
    struct bench bench = bench_make(UINT64_MAX);
    tn_cu_stream other = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_deviceptr address = take(&bench, BLOCK);
    tn_cu_deviceptr again = 0;
    give(&bench, address);
    again = take(&bench, BLOCK);
    HOLDS(again == address, "the same stream has it again at once");
    give(&bench, again);
    SET_UP(cuStreamSynchronize(bench.stream));
    GIVES(SUCCESS, cuMemAllocFromPoolAsync(&again, BLOCK, bench.pool, other));
    HOLDS(again == address, "another has it when the first is done");
    GIVES(SUCCESS, cuMemFreeAsync(again, other));
    SET_UP(cuStreamSynchronize(other));
    SET_UP(cuStreamDestroy(other));
    bench_end(bench);
}

CASE_BODY(pool_gone)
{
    struct bench bench = bench_make(0);
    tn_cu_deviceptr address = take(&bench, MIB);
    GIVES(SUCCESS, cuMemPoolDestroy(bench.pool));
    HOLDS(bench.free_bytes - contract_free_bytes() == BLOCK, "its memory stays");
    GIVES(SUCCESS, cuMemsetD8Async(address, 1, MIB, bench.stream));
    GIVES(SUCCESS, cuMemFreeAsync(address, bench.stream));
    GIVES(SUCCESS, cuStreamSynchronize(bench.stream));
    HOLDS(bench.free_bytes == contract_free_bytes(), "and goes with the last allocation");
    SET_UP(cuStreamDestroy(bench.stream));
}

CASE_BODY(used_after)
{
    struct bench bench = bench_make(UINT64_MAX);
    tn_cu_deviceptr address = take(&bench, MIB);
    give(&bench, address);
    GIVES(INVALID_VALUE, cuMemsetD8Async(address, 1, 8, bench.stream));
    STATE("freed twice");
    GIVES(INVALID_VALUE, cuMemFreeAsync(address, bench.stream));
    GIVES(INVALID_VALUE, cuMemFree(address));
    bench_end(bench);
}

CASE_BODY(other_stream_frees)
{
    struct bench bench = bench_make(0);
    tn_cu_stream other = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_deviceptr address = take(&bench, MIB);
    GIVES(SUCCESS, cuMemFreeAsync(address, other));
    GIVES(SUCCESS, cuStreamSynchronize(other));
    pool_is(&bench, "freed on another stream", 0, 0);
    SET_UP(cuStreamDestroy(other));
    bench_end(bench);
}

CASE_BODY(linear_frees)
{
    struct bench bench = bench_make(0);
    tn_cu_deviceptr address = take(&bench, MIB);
    SET_UP(cuStreamSynchronize(bench.stream));
    GIVES(SUCCESS, cuMemFree(address));
    STATE("twice");
    GIVES(INVALID_VALUE, cuMemFree(address));
    GIVES(INVALID_VALUE, cuMemFreeAsync(address, bench.stream));
    bench_end(bench);
}

CASE_BODY(linear_memory)
{
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_deviceptr address = 0;
    size_t before = contract_free_bytes();
    SET_UP(cuMemAlloc(&address, 4 * MIB));
    GIVES(SUCCESS, cuMemFreeAsync(address, stream));
    GIVES(SUCCESS, cuStreamSynchronize(stream));
    HOLDS(before == contract_free_bytes(), "it comes back");
    STATE("twice");
    GIVES(INVALID_VALUE, cuMemFreeAsync(address, stream));
    SET_UP(cuStreamDestroy(stream));
}

/* -- What is refused -- */

CASE_BODY(alloc_refused)
{
    struct bench bench = bench_make(0);
    tn_cu_deviceptr address = 7;
    STATE("no byte");
    GIVES(SUCCESS, cuMemAllocAsync(&address, 0, bench.stream));
    HOLDS(address == 0, "address 0");
    GIVES(SUCCESS, cuMemAllocFromPoolAsync(&address, 0, bench.pool, bench.stream));
    HOLDS(address == 0, "address 0");
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuMemAllocAsync(NULL, 8, bench.stream));
    GIVES(INVALID_VALUE, cuMemAllocFromPoolAsync(NULL, 8, bench.pool, bench.stream));
    STATE("no pool");
    GIVES(INVALID_VALUE, cuMemAllocFromPoolAsync(&address, 8, NULL, bench.stream));
    STATE("2^50 bytes");
    GIVES(OUT_OF_MEMORY, cuMemAllocAsync(&address, (size_t)1 << 50, bench.stream));
    GIVES(OUT_OF_MEMORY,
          cuMemAllocFromPoolAsync(&address, (size_t)1 << 50, bench.pool, bench.stream));
    bench_end(bench);
}

CASE_BODY(free_refused)
{
    struct contract_mapped mapped = contract_map(2 * MIB);
    struct bench bench = bench_make(0);
    tn_cu_deviceptr address = take(&bench, MIB);
    int local;
    STATE("address 0");
    GIVES(SUCCESS, cuMemFreeAsync(0, bench.stream));
    STATE("the middle");
    GIVES(INVALID_VALUE, cuMemFreeAsync(address + 512, bench.stream));
    STATE("a mapping");
    GIVES(INVALID_VALUE, cuMemFreeAsync(mapped.address, bench.stream));
    STATE("memory of the process");
    GIVES(INVALID_VALUE, cuMemFreeAsync((uintptr_t)&local, bench.stream));
    give(&bench, address);
    bench_end(bench);
    contract_unmap(mapped);
}

static const struct contract_case cases[] = {
    CASE("default", "Each device has a pool that cannot be destroyed.", default_pool),
    CASE("current", "A device's pool can be changed.", current_pool),
    CASE("create", "Pools of which kinds can be made.", create),
    CASE("create-refused", "Pools of other kinds are refused.", create_refused),
    CASE("most", "A pool has no more blocks than it may.", most),
    CASE("attributes", "What a new pool says of itself.", attributes),
    CASE("attributes-set", "What of that can be set.", attributes_set),
    CASE("attributes-refused", "Unknown attributes are refused.", attributes_refused),
    CASE("packing", "Small allocations lie side by side, in steps of 512 bytes.", packing),
    CASE("blocks", "A pool takes blocks of 32 MiB and gives them back when it is waited for.",
         blocks),
    CASE("threshold", "A pool keeps as much as its threshold says, until it is trimmed.",
         threshold),
    CASE("trim-in-use", "What was not waited for is not trimmed.", trim_in_use),
    CASE("reuse", "Memory is used again in the order of streams.", reuse),
    CASE("pool-gone", "Memory outlives its pool.", pool_gone),
    CASE("used-after", "Freed memory is refused at once.", used_after),
    CASE("other-stream-frees", "Any stream may free.", other_stream_frees),
    CASE("linear-frees", "cuMemFree takes memory of a pool.", linear_frees),
    CASE("linear-memory", "cuMemFreeAsync takes linear memory.", linear_memory),
    CASE("alloc-refused", "No byte is address 0; too much cannot be had.", alloc_refused),
    CASE("free-refused", "Only whole allocations are freed.", free_refused),
};
const struct contract_group contract_pools = CONTRACT_GROUP("pools", START_CONTEXT, cases);
