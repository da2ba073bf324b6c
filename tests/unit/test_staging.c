// SPDX-License-Identifier: Apache-2.0
/* Page-locked memory for copies of Tarn's own: taken, given up while it is used, and given back. */
#include "pools/staging.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "driver/foreign.h"
#include "driver/idle.h"
#include "pools/opening.h"
#include "pools/pool.h"
#include "support/liar.h"
#include "unit/unit.h"

static tarn_device *device;
static tn_cu_stream stream;

static void open_device(void)
{
    device = unit_device();
    stream = test_stream();
}

static void close_device(void)
{
    if (device != NULL)
        OK(tarn_device_close(device));
}

static struct tn_staging_block *take(uint64_t bytes)
{
    struct tn_staging_block *block = NULL;
    tarn_pool *pool;

    OK(tn_device_host_pool(device, TN_HOST_STAGING, &pool));
    OK(tn_staging_take(pool, bytes, &block));
    ck_assert_uint_ge(block->bytes, bytes);
    memset(block->address, 1, bytes); /* it is there */
    return block;
}

static uint64_t mapped(void)
{
    uint64_t bytes;
    uint64_t cached_bytes;

    tn_staging_usage(device, &bytes, &cached_bytes);
    return bytes;
}

static uint64_t cached(void)
{
    uint64_t bytes;
    uint64_t cached_bytes;

    tn_staging_usage(device, &bytes, &cached_bytes);
    return cached_bytes;
}

static uint64_t taken(void)
{
    return sim.call_count("cuMemCreate");
}

/* An event behind work on the stream, which waits where work is held. */
static tn_cu_event event_behind_work(void)
{
    tn_cu_event event;

    OK(tn_event_create(&device->gpu, stream, &event));
    test_spin(stream, 1);
    ck_assert(tn_event_record(&device->gpu, event, stream));
    return event;
}

SUITE("page-locked memory for copies of Tarn's own")
GROUP(staging, open_device, close_device, .name = "staging")

TEST(staging, what_is_given_up_is_kept_for_the_next_taker)
{
    struct tn_staging_block *block = take(2 * MIB);
    void *address = block->address;
    uint64_t before = taken();

    ck_assert_uint_eq(mapped(), 2 * MIB);
    ck_assert_uint_eq(cached(), 0);
    tn_staging_give(device, block, NULL);
    ck_assert_uint_eq(cached(), 2 * MIB);
    block = take(2 * MIB - 100000);
    ck_assert_ptr_eq(block->address, address);
    tn_staging_give(device, block, NULL);
    ck_assert_uint_eq(taken(), before);
}

TEST(staging, memory_that_the_device_uses_is_not_handed_out)
{
    struct tn_staging_block *first = take(2 * MIB);
    void *address = first->address;
    struct tn_staging_block *second;

    sim.hold_work();
    tn_staging_give(device, first, event_behind_work());
    second = take(2 * MIB);
    ck_assert_ptr_ne(second->address, address);
    sim.resume_work();
    test_synchronize(stream);
    first = take(2 * MIB);
    ck_assert_ptr_eq(first->address, address);
    tn_staging_give(device, first, NULL);
    tn_staging_give(device, second, NULL);
}

/* Of those that wait, some are idle, in the middle of the list, too. */
TEST(staging, a_take_frees_what_is_idle_and_keeps_the_rest_waiting)
{
    struct tn_staging_block *blocks[4];
    void *addresses[4];
    tn_cu_event done;

    for (int i = 0; i < 4; i++) {
        blocks[i] = take(2 * MIB);
        addresses[i] = blocks[i]->address;
    }
    done = event_behind_work();
    test_synchronize(stream);
    sim.hold_work();
    tn_staging_give(device, blocks[0], event_behind_work());
    tn_staging_give(device, blocks[1], event_behind_work());
    tn_staging_give(device, blocks[2], done);
    tn_staging_give(device, blocks[3], event_behind_work());
    blocks[0] = take(2 * MIB);
    ck_assert_ptr_eq(blocks[0]->address, addresses[2]);
    ck_assert_uint_eq(tn_pool_live_count(device->host.pools[TN_HOST_STAGING]), 4);
    sim.resume_work();
    test_synchronize(stream);
    tn_staging_give(device, blocks[0], NULL);
    ck_assert_ptr_null(device->host.staging.waiting);
}

static struct tn_staging_block *used_abroad;
static atomic_bool given_back;

static void *trim_all(void *argument)
{
    tn_staging_trim(device, 0);
    atomic_store(&given_back, true);
    return argument;
}

static void *drop_one(void *argument)
{
    tn_staging_drop(device, used_abroad);
    atomic_store(&given_back, true);
    return argument;
}

TEST(staging, what_streams_of_another_context_copy_from_is_waited_for)
{
    tn_cu_context own = test_context();
    tn_cu_context context = test_make_context();
    tn_cu_stream foreign = test_stream();
    void *memory = test_linear_alloc(MIB);

    test_set_context(own);
    tn_staging_set_limit(device, 0);
    OK(tn_stream_meet(&device->gpu, foreign));
    for (int how = 0; how < 2; how++) {
        tn_cu_event event = NULL;
        pthread_t thread;

        used_abroad = take(MIB);
        sim.hold_work();
        OK(tn_stream_download(&device->gpu, used_abroad->address, (uint64_t)(uintptr_t)memory, MIB,
                              foreign));
        if (how == 0) {
            tn_staging_set_limit(device, 8 * MIB); /* no wait in the give itself */
            OK(tn_event_create(&device->gpu, foreign, &event));
            ck_assert(tn_event_record(&device->gpu, event, foreign));
            tn_staging_give(device, used_abroad, event);
        }
        atomic_store(&given_back, false);
        ck_assert_int_eq(pthread_create(&thread, NULL, how == 0 ? trim_all : drop_one, NULL), 0);
        (void)nanosleep(&(struct timespec){0, 20000000}, NULL);
        ck_assert(!atomic_load(&given_back));
        ck_assert_uint_eq(mapped(), 2 * MIB);
        sim.resume_work();
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        tn_staging_set_limit(device, 0);
        ck_assert_uint_eq(mapped(), 0);
    }
    test_linear_free(memory);
    test_end_context(context);
}

static void *resume_later(void *argument)
{
    (void)nanosleep(&(struct timespec){0, 20000000}, NULL);
    sim.resume_work();
    return argument;
}

TEST(staging, what_cannot_be_waited_for_is_kept_and_not_handed_out)
{
    struct tn_staging_block *block = take(2 * MIB);
    void *address = block->address;
    struct tn_staging_block *next;
    pthread_t thread;
    uint64_t waits;

    sim.plan_fault("cuMemFree", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    tn_staging_drop(device, block);
    tn_staging_trim(device, 0);
    (void)sim.clear_fault(NULL);
    ck_assert_uint_eq(cached(), 2 * MIB);
    next = take(2 * MIB);
    ck_assert_ptr_ne(next->address, address);
    OK(tn_gpu_wait_idle(&device->gpu)); /* proves it */
    block = take(2 * MIB);
    ck_assert_ptr_eq(block->address, address);
    sim.hold_work();
    tn_staging_give(device, block, event_behind_work());
    tn_staging_give(device, next, NULL);
    waits = atomic_load(&device->gpu.calls[TN_CALL_WAIT]);
    sim.plan_fault("cuEventSynchronize", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    ck_assert_int_eq(pthread_create(&thread, NULL, resume_later, NULL), 0);
    tn_staging_trim(device, 0);
    ck_assert_uint_eq(sim.clear_fault(NULL), 1);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(atomic_load(&device->gpu.calls[TN_CALL_WAIT]), waits + 1);
    ck_assert_uint_eq(mapped(), 0);
}

TEST(staging, what_is_kept_has_a_limit)
{
    struct tn_staging_block *blocks[4];

    for (int i = 0; i < 4; i++)
        blocks[i] = take(100 * MIB);
    ck_assert_uint_eq(atomic_load(&device->host.staging.used_bytes), 400 * MIB);
    ck_assert_uint_eq(mapped(), 400 * MIB);
    ck_assert_uint_eq(cached(), 0);
    for (int i = 0; i < 4; i++)
        tn_staging_give(device, blocks[i], NULL);
    ck_assert_uint_eq(atomic_load(&device->host.staging.used_bytes), 0);
    ck_assert_uint_le(cached(), 256 * MIB);
    ck_assert_uint_ge(cached(), 128 * MIB);
    ck_assert_uint_eq(cached(), mapped());
    blocks[0] = take(10 * MIB);
    tn_staging_trim(device, 0);
    ck_assert_uint_lt(mapped(), 100 * MIB); /* the chunks of the block that is left */
    ck_assert_uint_ge(mapped(), 10 * MIB);
    tn_staging_set_limit(device, 0);
    tn_staging_give(device, blocks[0], NULL);
    ck_assert_uint_eq(mapped(), 0);
}

TEST(staging, captures_are_left_alone)
{
    struct tn_staging_block *block;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
    block = take(MIB);
    tn_staging_drop(device, block);
    tn_staging_trim(device, 0);
    ck_assert_uint_eq(mapped(), 0);
    ck_assert_int_eq(test_capture_status(stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_destroy_graph(test_end_capture(stream));
}

TEST(staging, an_undone_take_leaves_the_driver_as_it_was)
{
    struct tn_staging_block *block = take(4 * MIB);
    uint64_t before = test_ledger().handles;

    tn_staging_undo(device, take(8 * MIB));
    ck_assert_uint_eq(test_ledger().handles, before);
    tn_staging_give(device, block, NULL);
    tn_staging_undo(device, take(2 * MIB)); /* of what was kept */
    ck_assert_uint_eq(mapped(), 4 * MIB);
}

TEST(staging, what_cannot_be_had_is_a_failure)
{
    struct tn_staging_block *block = NULL;
    tarn_status status;
    uint64_t nth = 0;
    tarn_pool *pool;

    OK(tn_device_host_pool(device, TN_HOST_STAGING, &pool));
    sim.plan_fault("cuMemCreate", 1, 1, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_HOST_MEMORY, tn_staging_take(pool, MIB, &block));
    unit_expect_sentence("page-locked");
    sim.plan_fault("cuMemCreate", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_staging_take(pool, MIB, &block));
    (void)sim.clear_fault(NULL);
    ck_assert_ptr_null(block);
    do {
        nth += 1;
        (void)tn_host_plan_fault(nth, false);
        status = tn_staging_take(pool, MIB, &block);
        (void)tn_host_plan_fault(0, false);
        ck_assert_uint_eq(atomic_load(&device->host.staging.used_bytes),
                          status == TARN_OK ? MIB : 0);
    } while (status == TARN_ERR_HOST_MEMORY);
    OK(status);
    ck_assert_uint_gt(nth, 2);
    tn_staging_give(device, block, NULL);
}

/* Without memory of the host that can be mapped it is registered. */
TEST(staging, a_device_that_maps_no_memory_of_the_host_has_registered_memory)
{
    const struct tn_driver *honest = device->gpu.driver;
    const struct tn_driver lacking =
        test_lacking_attribute(honest, TN_CU_ATTR_HOST_NUMA_VMM_SUPPORTED);
    struct tn_staging_block *block;

    device->gpu.driver = &lacking;
    block = take(MIB);
    device->gpu.driver = honest;
    ck_assert_uint_eq(test_ledger().host_registrations, 1);
    ck_assert_uint_eq(mapped(), 16 * MIB);
    tn_staging_give(device, block, NULL);
    tn_staging_trim(device, 0);
    ck_assert_uint_eq(mapped(), 0);
}

/* Above a piece there is one registration, which goes when the device has finished with it. */
TEST(staging, registered_memory_above_a_piece_is_a_registration_of_its_own)
{
    const struct tn_driver *honest = device->gpu.driver;
    const struct tn_driver lacking =
        test_lacking_attribute(honest, TN_CU_ATTR_HOST_NUMA_VMM_SUPPORTED);
    struct tn_staging_block *large;
    struct tn_staging_block *small;
    struct tn_staging_block *none = NULL;
    tarn_pool *pool;

    device->gpu.driver = &lacking;
    large = take(33 * MIB);
    device->gpu.driver = honest;
    ck_assert_uint_eq(large->bytes, 34 * MIB);
    ck_assert_uint_eq(test_ledger().host_registrations, 1);
    ck_assert_uint_eq(mapped(), 34 * MIB);
    ck_assert_uint_eq(cached(), 0);
    small = take(16 * MIB);
    ck_assert_uint_eq(test_ledger().host_registrations, 2);
    ck_assert_uint_eq(mapped(), 50 * MIB);
    sim.hold_work();
    tn_staging_give(device, large, event_behind_work());
    ck_assert_uint_eq(test_ledger().host_registrations, 2);
    sim.resume_work();
    test_synchronize(stream);
    tn_staging_give(device, small, NULL); /* looks at those that wait */
    ck_assert_uint_eq(test_ledger().host_registrations, 1);
    ck_assert_uint_eq(mapped(), 16 * MIB);
    large = take(20 * MIB);
    tn_staging_undo(device, large);
    ck_assert_uint_eq(test_ledger().host_registrations, 1);
    OK(tn_device_host_pool(device, TN_HOST_STAGING, &pool));
    atomic_store(&device->host.budget.limit_bytes, 40 * MIB);
    STATUS(TARN_ERR_LIMIT, tn_staging_take(pool, 32 * MIB, &none));
    ck_assert_ptr_null(none);
    tn_staging_trim(device, 0);
    ck_assert_uint_eq(mapped(), 0);
}

/* Whether the driver refuses the registration, or the host its records. */
TEST(staging, a_refused_registration_of_its_own_leaves_nothing)
{
    const struct tn_driver *honest = device->gpu.driver;
    const struct tn_driver lacking =
        test_lacking_attribute(honest, TN_CU_ATTR_HOST_NUMA_VMM_SUPPORTED);
    struct tn_staging_block *block = NULL;
    tarn_pool *pool;
    uint64_t charged;
    uint64_t nth = 0;
    tarn_status status;

    device->gpu.driver = &lacking;
    OK(tn_device_host_pool(device, TN_HOST_STAGING, &pool));
    device->gpu.driver = honest;
    charged = atomic_load(&device->host.budget.charged_bytes);
    sim.plan_fault("cuMemHostRegister", 1, 1, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_HOST_MEMORY, tn_staging_take(pool, 33 * MIB, &block));
    sim.plan_fault("cuMemHostRegister", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_staging_take(pool, 33 * MIB, &block));
    (void)sim.clear_fault(NULL);
    do {
        ck_assert_ptr_null(block);
        ck_assert_uint_eq(atomic_load(&device->host.budget.charged_bytes), charged);
        ck_assert_uint_eq(test_ledger().host_registrations, 0);
        ck_assert_uint_eq(mapped(), 0);
        ck_assert_uint_eq(atomic_load(&device->host.staging.used_bytes), 0);
        nth += 1;
        (void)tn_host_plan_fault(nth, false);
        status = tn_staging_take(pool, 33 * MIB, &block);
        (void)tn_host_plan_fault(0, false);
    } while (status == TARN_ERR_HOST_MEMORY);
    OK(status);
    ck_assert_uint_gt(nth, 1);
    tn_staging_give(device, block, NULL);
    ck_assert_uint_eq(test_ledger().host_registrations, 0);
    ck_assert_uint_eq(atomic_load(&device->host.budget.charged_bytes), charged);
}

TEST(staging, nobody_else_allocates_from_the_pool)
{
    struct tn_staging_block *block = take(MIB);
    void *address = NULL;
    tarn_pool *pool;

    OK(tn_device_host_pool(device, TN_HOST_STAGING, &pool));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_pool_malloc(pool, 512, 0, stream, &address));
    ck_assert_ptr_null(address);
    tn_staging_give(device, block, NULL);
}

/* The close waits for what waits. */
TEST(staging, a_block_in_use_ends_with_the_device)
{
    tn_cu_event event;

    OK(tn_event_create(&device->gpu, stream, &event));
    test_spin(stream, 1000);
    ck_assert(tn_event_record(&device->gpu, event, stream));
    tn_staging_give(device, take(MIB), event);
    OK(tarn_device_close(device));
    device = NULL;
}

enum { TAKES = 50 };

static void *take_and_give(void *argument)
{
    for (int i = 0; i < TAKES; i++) {
        struct tn_staging_block *block = take(MIB);
        tn_cu_event event = NULL;

        if (i % 2 == 0) {
            OK(tn_event_create(&device->gpu, stream, &event));
            ck_assert(tn_event_record(&device->gpu, event, stream));
        }
        tn_staging_give(device, block, event);
        if (i % 8 == 0)
            tn_staging_trim(device, 0);
    }
    return argument;
}

/* The first takes make the pool at a time. */
TEST(staging, threads_share_it)
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_and_give, NULL), 0);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    test_synchronize(stream);
    tn_staging_trim(device, 0);
    ck_assert_uint_eq(mapped(), 0);
    ck_assert_uint_eq(atomic_load(&device->host.staging.used_bytes), 0);
    OK(tarn_pool_validate(device->host.pools[TN_HOST_STAGING]));
}
