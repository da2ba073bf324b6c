// SPDX-License-Identifier: Apache-2.0
/* What the memory of a pool is made of, and which devices may use it. */
#include <stdlib.h>
#include <unistd.h>

#include "support/world.h"

static void open_three_devices(void)
{
    ck_assert_int_eq(setenv("TARN_SIM_DEVICES", "3", 1), 0);
    test_world_open();
}

GROUP(kinds, test_world_open, test_world_close)

TEST(kinds, memory_is_plain_unless_asked_otherwise)
{
    void *address = test_alloc(world.pool, MIB, world.stream);
    struct test_properties prop = test_properties(address);

    ck_assert_int_eq(prop.handle_types, 0);
    ck_assert_int_eq(prop.rdma, 0);
    OK(tarn_free(address));
}

TEST(kinds, memory_of_an_exportable_pool_can_be_exported)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool;
    void *address;
    void *imported;
    int descriptor;

    options.exportable = true;
    pool = test_pool_with(&options);
    address = test_alloc(pool, 4 * MIB, world.stream);
    ck_assert_int_eq(test_properties(address).handle_types, TN_CU_MEM_HANDLE_TYPE_POSIX_FD);
    descriptor = test_export(address);
    ck_assert_int_ge(descriptor, 0);
    imported = test_import(descriptor, 4 * MIB);
    ck_assert_int_eq(close(descriptor), 0);
    test_fill(world.stream, address, 7, MIB);
    test_expect_words(world.stream, imported, 7, MIB);
    test_end_import(imported, 4 * MIB);
    OK(tarn_free(address));
    OK(tarn_pool_destroy(pool));
}

/* Another process may have it mapped: nobody else may be given it. */
TEST(kinds, memory_that_may_have_been_exported_is_not_used_again)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_sim_ledger before = test_ledger();
    tarn_pool *pool;

    options.exportable = true;
    pool = test_pool_with(&options);
    OK(tarn_free(test_alloc(pool, 4 * MIB, world.stream)));
    OK(tarn_pool_destroy(pool));
    ck_assert_uint_eq(test_device_stats().cached_bytes, 0);
    test_same_ledger(&before);
}

TEST(kinds, memory_for_rdma_says_so)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool;
    void *address;

    options.gpu_direct_rdma = true;
    pool = test_pool_with(&options);
    address = test_alloc(pool, 4 * MIB, world.stream);
    ck_assert_int_eq(test_properties(address).rdma, 1);
    OK(tarn_free(address));
    OK(tarn_pool_destroy(pool));
}

/* Freed by a pool that ended, and of the very size: what differs is what it is made of. */
TEST(kinds, cached_memory_serves_only_pools_of_its_kind)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool;
    void *address;

    options.gpu_direct_rdma = true;
    pool = test_pool_with(&options);
    OK(tarn_free(test_alloc(pool, 4 * MIB, world.stream)));
    OK(tarn_pool_destroy(pool));
    ck_assert_uint_eq(test_device_stats().cached_bytes, 4 * MIB);
    address = test_alloc(world.pool, 4 * MIB, world.stream);
    ck_assert_int_eq(test_properties(address).rdma, 0);
    ck_assert_uint_eq(test_device_stats().cached_bytes, 4 * MIB);
    OK(tarn_free(address));
    pool = test_pool_with(&options);
    address = test_alloc(pool, 4 * MIB, world.stream);
    ck_assert_int_eq(test_properties(address).rdma, 1);
    ck_assert_uint_eq(test_device_stats().cached_bytes, 0);
    OK(tarn_free(address));
    OK(tarn_pool_destroy(pool));
}

/* The driver answers the question, with no. */
TEST(kinds, what_the_device_cannot_do_is_refused)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool = UNTOUCHED;

    options.exportable = true;
    sim.plan_fault("cuDeviceGetAttribute", 1, 0, TN_CUDA_SUCCESS);
    STATUS(TARN_ERR_NOT_SUPPORTED, tarn_pool_create(world.device, &options, &pool));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "file descriptors"));
    options.exportable = false;
    options.gpu_direct_rdma = true;
    sim.plan_fault("cuDeviceGetAttribute", 1, 0, TN_CUDA_SUCCESS);
    STATUS(TARN_ERR_NOT_SUPPORTED, tarn_pool_create(world.device, &options, &pool));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "RDMA"));
    sim.plan_fault("cuDeviceGetAttribute", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_pool_create(world.device, &options, &pool));
    ck_assert_untouched(pool);
}

GROUP(peers, open_three_devices, test_world_close)

TEST(peers, peers_have_access_and_others_have_not)
{
    const int peers[] = {2, 0};
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool;
    void *address;

    options.peers = peers;
    options.peer_count = 2;
    pool = test_pool_with(&options);
    address = test_alloc(pool, 70 * MIB, world.stream);
    for (size_t at = 0; at < 70 * MIB; at += 2 * MIB) {
        ck_assert_uint_eq(test_access(0, (char *)address + at), TN_CU_MEM_ACCESS_READWRITE);
        ck_assert_uint_eq(test_access(1, (char *)address + at), TN_CU_MEM_ACCESS_NONE);
        ck_assert_uint_eq(test_access(2, (char *)address + at), TN_CU_MEM_ACCESS_READWRITE);
    }
    OK(tarn_free(address));
    OK(tarn_pool_destroy(pool));
}

/* One call of the driver for a chunk, however many may use it. */
TEST(peers, all_rights_are_given_at_once)
{
    const int peers[] = {1, 2};
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool;
    uint64_t before = sim.call_count("cuMemSetAccess");
    void *address;

    options.peers = peers;
    options.peer_count = 2;
    pool = test_pool_with(&options);
    address = test_alloc(pool, 32 * MIB, world.stream);
    ck_assert_uint_eq(sim.call_count("cuMemSetAccess"), before + 1);
    OK(tarn_free(address));
    OK(tarn_pool_destroy(pool));
}

TEST(peers, a_peer_added_later_reaches_what_is_there_and_what_comes)
{
    void *first = test_alloc(world.pool, 6 * MIB, world.stream);
    void *hole = test_alloc(world.pool, 32 * MIB, world.side);
    void *second;

    OK(tarn_free(hole));
    OK(tarn_pool_trim(world.pool, NULL));
    OK(tarn_pool_add_peer(world.pool, 1));
    ck_assert_uint_eq(test_access(1, first), TN_CU_MEM_ACCESS_READWRITE);
    ck_assert_uint_eq(test_access(1, (char *)first + 5 * MIB), TN_CU_MEM_ACCESS_READWRITE);
    ck_assert_uint_eq(test_access(0, first), TN_CU_MEM_ACCESS_READWRITE);
    ck_assert_uint_eq(test_access(2, first), TN_CU_MEM_ACCESS_NONE);
    second = test_alloc(world.pool, 64 * MIB, world.side);
    ck_assert_uint_eq(test_access(1, second), TN_CU_MEM_ACCESS_READWRITE);
    OK(tarn_pool_add_peer(world.pool, 2));
    ck_assert_uint_eq(test_access(1, first), TN_CU_MEM_ACCESS_READWRITE);
    ck_assert_uint_eq(test_access(2, second), TN_CU_MEM_ACCESS_READWRITE);
    OK(tarn_free(first));
    OK(tarn_free(second));
}

TEST(peers, a_peer_that_has_access_costs_no_call)
{
    void *address = test_alloc(world.pool, 6 * MIB, world.stream);
    uint64_t before;

    OK(tarn_pool_add_peer(world.pool, 1));
    before = sim.call_count("cuMemSetAccess");
    OK(tarn_pool_add_peer(world.pool, 1));
    OK(tarn_pool_add_peer(world.pool, 0)); /* its own */
    ck_assert_uint_eq(sim.call_count("cuMemSetAccess"), before);
    OK(tarn_free(address));
}

/* Each call of the driver in turn: no chunk may keep what another was refused. */
TEST(peers, a_peer_is_added_whole_or_not_at_all)
{
    void *blocks[3] = {test_alloc(world.pool, 6 * MIB, world.stream),
                       test_alloc(world.pool, 6 * MIB, world.side),
                       test_alloc(world.pool, MIB, world.side)};
    uint64_t chunks = test_stats(world.pool).chunk_count;

    ck_assert_uint_ge(chunks, 5);
    for (uint64_t nth = 1; nth <= chunks; nth++) {
        sim.plan_fault("cuMemSetAccess", nth, 0, TN_CUDA_ERROR_UNKNOWN);
        STATUS(TARN_ERR_DRIVER, tarn_pool_add_peer(world.pool, 1));
        ck_assert_uint_eq(sim.clear_fault(NULL), 1);
        for (int i = 0; i < 3; i++)
            ck_assert_uint_eq(test_access(1, blocks[i]), TN_CU_MEM_ACCESS_NONE);
        ck_assert_uint_eq(test_access(1, (char *)blocks[0] + 5 * MIB), TN_CU_MEM_ACCESS_NONE);
    }
    OK(tarn_pool_add_peer(world.pool, 1));
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(test_access(1, blocks[i]), TN_CU_MEM_ACCESS_READWRITE);
        OK(tarn_free(blocks[i]));
    }
}

TEST(peers, cached_memory_has_the_rights_of_its_new_pool)
{
    const int peers[] = {1};
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool;
    void *address;

    options.peers = peers;
    options.peer_count = 1;
    pool = test_pool_with(&options);
    OK(tarn_free(test_alloc(pool, 4 * MIB, world.stream)));
    OK(tarn_pool_destroy(pool));
    address = test_alloc(world.pool, 4 * MIB, world.stream);
    ck_assert_uint_eq(test_device_stats().cached_bytes, 0);
    ck_assert_uint_eq(test_access(1, address), TN_CU_MEM_ACCESS_NONE);
    OK(tarn_free(address));
}

TEST(peers, memory_mapped_anew_for_a_restore_has_all_rights)
{
    tarn_checkpoint *checkpoint = NULL;
    void *address = test_alloc(world.pool, 32 * MIB, world.stream);

    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, world.stream, &checkpoint));
    OK(tarn_free(address));
    OK(tarn_pool_trim(world.pool, NULL));
    OK(tarn_pool_add_peer(world.pool, 2));
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    ck_assert_uint_eq(test_access(2, address), TN_CU_MEM_ACCESS_READWRITE);
    ck_assert_uint_eq(test_access(1, address), TN_CU_MEM_ACCESS_NONE);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(address));
}

TEST(peers, what_is_no_peer_is_refused)
{
    const int wrong[] = {1, 3};
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool = UNTOUCHED;

    REFUSE(TARN_ERR_INVALID_ARGUMENT, "device 3", tarn_pool_add_peer(world.pool, 3));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "device -1", tarn_pool_add_peer(world.pool, -1));
    options.peers = wrong;
    options.peer_count = 2;
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "device 3", tarn_pool_create(world.device, &options, &pool));
    options.peers = NULL;
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "peers is NULL",
           tarn_pool_create(world.device, &options, &pool));
    sim.plan_fault("cuDeviceCanAccessPeer", 1, 0, TN_CUDA_SUCCESS); /* answers no */
    STATUS(TARN_ERR_NOT_SUPPORTED, tarn_pool_add_peer(world.pool, 1));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "device 1 cannot use memory of device 0"));
    sim.plan_fault("cuDeviceCanAccessPeer", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_pool_add_peer(world.pool, 1));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_pool_add_peer(NULL, 1));
    ck_assert_untouched(pool);
}

/* The work of another device, in memory of this one. */
TEST(peers, a_kernel_of_a_peer_writes_the_memory)
{
    void *address = test_alloc(world.pool, 4 * MIB, world.stream);
    tn_cu_context mine = test_context();
    tn_cu_stream there;

    OK(tarn_pool_add_peer(world.pool, 1));
    test_set_context(test_retain(1));
    there = test_stream();
    test_set_words(there, address, 9, MIB);
    test_synchronize(there);
    test_destroy_stream(there);
    test_set_context(mine);
    test_release(1);
    test_expect_words(world.stream, address, 9, MIB);
    OK(tarn_free(address));
}
