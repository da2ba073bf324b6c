// SPDX-License-Identifier: Apache-2.0
/* The one arena of a pool in memory of the host: what is freed there is idle without a proof. */
#include "pools/arena_table.h"
#include "pools/host_pool.h"
#include "pools/opening.h"
#include "pools/route.h"
#include "support/liar.h"
#include "unit/unit.h"

static tarn_device *device;
static tarn_pool *pool;

static void open_pool(void)
{
    device = unit_device();
    OK(tn_device_host_pool(device, TN_HOST_MAPPED, &pool));
}

static void *allocate(uint64_t bytes)
{
    void *address = NULL;

    OK(tn_host_pool_allocate(pool, bytes, TN_BLOCK_BYTES_MIN, &address));
    return address;
}

static const struct tn_chunk *chunk_of(const void *address)
{
    return tn_address_table_chunk((uint64_t)(uintptr_t)address);
}

SUITE("pools of the host")
GROUP(host, open_pool, NULL, .name = "host")

TEST(host, the_pool_is_made_once_and_its_memory_is_the_hosts)
{
    tarn_pool *again = NULL;
    void *address = allocate(4 * TN_MIB);

    OK(tn_device_host_pool(device, TN_HOST_MAPPED, &again));
    ck_assert_ptr_eq(again, pool);
    ck_assert(pool->in_host && chunk_of(address)->memory->properties.host);
    ck_assert_uint_eq(atomic_load(&device->host.budget.charged_bytes),
                      tn_device_mapped_bytes(device, true));
    ck_assert_uint_eq(atomic_load(&device->budget.charged_bytes), 0);
    OK(tarn_free(address));
}

TEST(host, all_blocks_are_of_one_arena_and_freed_memory_is_proven_idle)
{
    void *first = allocate(4 * TN_MIB);
    void *second = allocate(4096);
    const struct tn_arena *arena = tn_arena_seek(pool, TN_ORDER_HOST);

    ck_assert_ptr_nonnull(arena);
    ck_assert_ptr_eq(atomic_load(&chunk_of(first)->arena), arena);
    ck_assert_ptr_eq(atomic_load(&chunk_of(second)->arena), arena);
    ck_assert_uint_eq(pool->arenas.count, 1);
    OK(tarn_free(first));
    OK(tarn_free(second));
    tn_pool_lock(pool);
    ck_assert_uint_eq(chunk_of(first)->freed_stamp, 0);
    ck_assert_uint_eq(chunk_of(second)->freed_stamp, 0);
    tn_pool_unlock(pool);
}

TEST(host, the_steady_state_goes_on_beside_a_capture)
{
    void *address = allocate(4096);
    struct tn_arena *arena = tn_arena_seek(pool, TN_ORDER_HOST);

    ck_assert_int_ne(arena->frees, TN_NOT_STEADY);
    pool->holds.open_count += 1; /* as for a capture that uses a block */
    tn_pool_lock(pool);
    tn_pool_unlock(pool);
    OK(tarn_free(address));
    address = allocate(4096);
    ck_assert_int_ne(arena->frees, TN_NOT_STEADY);
    pool->holds.open_count -= 1;
    OK(tarn_free(address));
}

/* A capture that uses a block has a hold in the pool, too. */
TEST(host, the_pool_takes_no_part_in_the_order_of_replays)
{
    tarn_pool *own = unit_pool(device);
    tn_cu_stream stream = test_stream();
    void *address = allocate(4096);
    tarn_capture *capture;

    OK(tarn_capture_begin(own, stream, NULL, &capture));
    OK(tarn_record_stream(address, stream));
    ck_assert_uint_eq(pool->holds.open_count, 1);
    ck_assert_ptr_ne(atomic_load(&pool->replays), atomic_load(&own->replays));
    OK(tarn_capture_abort(capture));
    OK(tarn_free(address));
    test_destroy_stream(stream);
    OK(tarn_pool_destroy(own));
}

TEST(host, where_nothing_can_be_registered_one_pool_serves_all)
{
    const struct tn_driver *honest = device->gpu.driver;
    const struct tn_driver lacking =
        test_lacking_attribute(honest, TN_CU_ATTR_HOST_POINTER_FOR_REGISTERED);
    tarn_pool *small = NULL;

    device->gpu.driver = &lacking;
    OK(tn_device_host_pool(device, TN_HOST_PIECES, &small));
    device->gpu.driver = honest;
    ck_assert_ptr_eq(small, pool);
    OK(tarn_device_close(device)); /* which ends the pool once */
}

/* A route holds its pool: the handle may be gone. */
TEST(host, a_routed_allocation_asks_for_no_handle)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *released = NULL;
    tarn_route *route = NULL;
    void *address = NULL;

    options.location = TARN_LOCATION_HOST;
    OK(tarn_pool_create(device, &options, &released));
    OK(tn_route_begin(device, released, tarn_filter_thread, NULL, &route));
    OK(tarn_pool_release(released));
    STATUS(TARN_ERR_INVALID_HANDLE,
           tn_host_pool_allocate(released, 4096, TN_BLOCK_BYTES_MIN, &address));
    OK(tn_host_pool_allocate_routed(released, 4096, &address));
    ck_assert_ptr_eq(atomic_load(&chunk_of(address)->arena),
                     tn_arena_seek(released, TN_ORDER_HOST));
    OK(tarn_free(address));
    ck_assert(tn_route_end(device, route));
}
