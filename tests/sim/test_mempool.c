// SPDX-License-Identifier: Apache-2.0
/* test_mempool.c -- the driver's pools: who may have memory that is being freed, and when it goes. */
#include <string.h>

#include "sim_test.h"

#define CHUNK (32 * MIB)

static tn_cu_mempool pool;

static void start_pool(void)
{
    tn_cu_pool_props props = {
        .type = TN_CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
    start_context();
    OK(cu.cuMemPoolCreate(&pool, &props));
}

static void keep_all(void)
{
    uint64_t threshold = UINT64_MAX;
    OK(cu.cuMemPoolSetAttribute(pool, TN_CU_POOL_ATTR_RELEASE_THRESHOLD, &threshold));
}

static uint64_t attribute(tn_cu_pool_attribute which)
{
    uint64_t value;
    OK(cu.cuMemPoolGetAttribute(pool, which, &value));
    return value;
}

static tn_cu_deviceptr get(size_t bytes, tn_cu_stream stream)
{
    tn_cu_deviceptr address = 0;
    OK(cu.cuMemAllocFromPoolAsync(&address, bytes, pool, stream));
    return address;
}

static size_t free_bytes(void)
{
    size_t free_now;
    size_t total;
    OK(cu.cuMemGetInfo(&free_now, &total));
    return free_now;
}

GROUP(own, start_pool, .name = "own pool")

/* SH2: what the pool has of the device is whole chunks under what is in use. */
TEST(own, a_pool_has_the_chunks_that_its_allocations_lie_in)
{
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    size_t before = free_bytes();
    tn_cu_deviceptr first = get(20 * MIB, stream);
    tn_cu_deviceptr across = get(20 * MIB, stream);
    tn_cu_deviceptr third = get(30 * MIB, stream);
    ck_assert_uint_eq(across, first + 20 * MIB);
    ck_assert_uint_eq(attribute(TN_CU_POOL_ATTR_RESERVED_CURRENT), 3 * CHUNK);
    ck_assert_uint_eq(free_bytes(), before - 3 * CHUNK);
    OK(cu.cuMemFreeAsync(first, stream));
    OK(cu.cuMemFreeAsync(third, stream));
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(attribute(TN_CU_POOL_ATTR_RESERVED_CURRENT), 2 * CHUNK);
    ck_assert_uint_eq(free_bytes(), before - 2 * CHUNK);
    memset((void *)across, 1, 20 * MIB);
    OK(cu.cuMemFreeAsync(across, stream));
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(free_bytes(), before);
    ck_assert_uint_eq(ledger().async_allocations, 0);
}

TEST(own, freed_memory_is_for_its_own_stream_at_once)
{
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_stream other = new_stream(TN_CU_STREAM_NON_BLOCKING);
    keep_all();
    tn_cu_deviceptr first = get(CHUNK, stream);
    sim.tarn_sim_hold_work();
    OK(cu.cuMemsetD8Async(first, 1, CHUNK, stream));
    OK(cu.cuMemFreeAsync(first, stream));
    tn_cu_deviceptr theirs = get(CHUNK, other);
    ck_assert_uint_ne(theirs, first);
    ck_assert_uint_eq(get(CHUNK, stream), first);
    sim.tarn_sim_resume_work();
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuMemFreeAsync(first, stream));
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(get(CHUNK, other), first);
}

TEST(own, a_stream_that_waits_for_the_free_may_have_the_memory)
{
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_stream middle = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_stream last = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event event = new_event();
    tn_cu_event second = new_event();
    keep_all();
    tn_cu_deviceptr address = get(CHUNK, stream);
    sim.tarn_sim_hold_work();
    OK(cu.cuMemsetD8Async(address, 1, CHUNK, stream));
    OK(cu.cuEventRecord(second, stream)); /* before the free's moment is not after it */
    OK(cu.cuMemsetD8Async(address, 2, CHUNK, stream));
    OK(cu.cuMemFreeAsync(address, stream));
    OK(cu.cuEventRecord(event, stream));
    OK(cu.cuStreamWaitEvent(last, second, 0));
    tn_cu_deviceptr fresh = get(CHUNK, last);
    ck_assert_uint_ne(fresh, address);
    OK(cu.cuStreamWaitEvent(middle, event, 0));
    OK(cu.cuEventRecord(second, middle));
    OK(cu.cuStreamWaitEvent(last, second, 0));
    ck_assert_uint_eq(get(CHUNK, last), address);
    sim.tarn_sim_resume_work();
    OK(cu.cuStreamSynchronize(last));
}

TEST(own, waiting_for_a_stream_that_waited_is_enough)
{
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_stream middle = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_stream last = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event event = new_event();
    tn_cu_deviceptr address = get(CHUNK, stream);
    OK(cu.cuMemFreeAsync(address, stream));
    OK(cu.cuEventRecord(event, stream));
    OK(cu.cuStreamSynchronize(last));
    ck_assert_uint_eq(attribute(TN_CU_POOL_ATTR_RESERVED_CURRENT), CHUNK);
    OK(cu.cuStreamWaitEvent(middle, event, 0));
    OK(cu.cuEventRecord(event, middle));
    OK(cu.cuStreamWaitEvent(last, event, 0));
    OK(cu.cuStreamSynchronize(last));
    ck_assert_uint_eq(attribute(TN_CU_POOL_ATTR_RESERVED_CURRENT), 0);
}

TEST(own, without_other_memory_the_stream_is_made_to_wait)
{
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_stream other = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_deviceptr address = get(CHUNK, stream);
    tn_cu_deviceptr rest;
    OK(cu.cuMemAlloc(&rest, free_bytes()));
    sim.tarn_sim_hold_work();
    OK(cu.cuMemsetD8Async(address, 1, CHUNK, stream));
    OK(cu.cuMemFreeAsync(address, stream));
    ck_assert_uint_eq(get(CHUNK, other), address);
    ANSWERS(TN_CUDA_ERROR_NOT_READY, cu.cuStreamQuery(other));
    sim.tarn_sim_resume_work();
    OK(cu.cuStreamSynchronize(other));
    int no = 0;
    OK(cu.cuMemPoolSetAttribute(pool, TN_CU_POOL_ATTR_REUSE_INTERNAL, &no));
    sim.tarn_sim_hold_work();
    OK(cu.cuMemsetD8Async(address, 1, CHUNK, other));
    OK(cu.cuMemFreeAsync(address, other));
    tn_cu_deviceptr none;
    ANSWERS(TN_CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAllocFromPoolAsync(&none, CHUNK, pool, stream));
    sim.tarn_sim_resume_work();
}

TEST(own, what_pools_keep_is_given_up_before_an_allocation_fails)
{
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    size_t before = free_bytes();
    keep_all();
    tn_cu_deviceptr address = get(CHUNK, stream);
    OK(cu.cuMemFreeAsync(address, stream));
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(free_bytes(), before - CHUNK);
    OK(cu.cuMemAlloc(&address, before));
    ck_assert_uint_eq(attribute(TN_CU_POOL_ATTR_RESERVED_CURRENT), 0);
    OK(cu.cuMemFree(address));
}

TEST(own, a_destroyed_pool_lives_until_its_last_memory_is_free)
{
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    size_t before = free_bytes();
    ck_assert_uint_eq(ledger().pools, 1);
    tn_cu_deviceptr address = get(100, stream);
    OK(cu.cuMemPoolDestroy(pool));
    ck_assert_uint_eq(ledger().pools, 0);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemPoolTrimTo(pool, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemPoolDestroy(pool));
    OK(cu.cuMemsetD8Async(address, 1, 100, stream));
    OK(cu.cuMemFreeAsync(address, stream));
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(free_bytes(), before);
}

TEST(own, memory_is_used_up_to_its_free_and_not_after)
{
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    keep_all();
    tn_cu_deviceptr address = get(4096, stream);
    sim.tarn_sim_hold_work();
    OK(cu.cuMemsetD8Async(address, 1, 4096, stream));
    OK(cu.cuMemFreeAsync(address, stream));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD8Async(address, 1, 4096, stream));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemFreeAsync(address, stream));
    sim.tarn_sim_resume_work();
    OK(cu.cuStreamSynchronize(stream)); /* the work before the free was right */
}

TEST(own, linear_memory_can_be_freed_in_the_order_of_a_stream)
{
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tarn_sim_ledger before = ledger();
    size_t free_before = free_bytes();
    tn_cu_deviceptr address;
    OK(cu.cuMemAlloc(&address, 4 * MIB));
    sim.tarn_sim_hold_work();
    OK(cu.cuMemsetD8Async(address, 1, 4 * MIB, stream));
    OK(cu.cuMemFreeAsync(address, stream));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemFree(address));
    ck_assert_uint_eq(free_bytes(), free_before - 4 * MIB);
    sim.tarn_sim_resume_work();
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(free_bytes(), free_before);
    tarn_sim_ledger after = ledger();
    same_ledger(&before, &after);
}
