// SPDX-License-Identifier: Apache-2.0
/* Other devices that may use all memory of a device. */
#include <stdlib.h>

#include "support/partner.h"
#include "support/world.h"

static void open_three_devices(void)
{
    ck_assert_int_eq(setenv("TARN_SIM_DEVICES", "3", 1), 0);
    test_world_open();
}

SUITE("peers of a device")
GROUP(peers, open_three_devices, test_world_close)

static int access_of(int ordinal, const void *address)
{
    return (int)test_access(ordinal, address);
}

#define EXPECT_ACCESS(ordinal, address)                                                            \
    ck_assert_int_eq(access_of(ordinal, address), TN_CU_MEM_ACCESS_READWRITE)
#define EXPECT_NO_ACCESS(ordinal, address)                                                         \
    ck_assert_int_eq(access_of(ordinal, address), TN_CU_MEM_ACCESS_NONE)

TEST(peers, every_pool_is_reached_those_that_come_too)
{
    tarn_pool *other = test_pool("other");
    tarn_pool *later;
    void *blocks[4];

    blocks[0] = test_alloc(world.pool, 6 * MIB, world.stream);
    blocks[1] = test_alloc(other, 6 * MIB, world.stream);
    OK(tarn_malloc(world.device, 4 * MIB, world.stream, &blocks[2]));
    OK(tarn_device_add_peer(world.device, 1));
    later = test_pool("later");
    blocks[3] = test_alloc(later, 40 * MIB, world.side);
    for (int i = 0; i < 4; i++) {
        EXPECT_ACCESS(1, blocks[i]);
        EXPECT_ACCESS(0, blocks[i]);
        EXPECT_NO_ACCESS(2, blocks[i]);
    }
    for (int i = 0; i < 4; i++)
        OK(tarn_free(blocks[i]));
    OK(tarn_pool_destroy(later));
    OK(tarn_pool_destroy(other));
}

TEST(peers, growth_behind_the_call_has_the_peer)
{
    void *first = test_alloc(world.pool, MIB, world.stream);
    void *second;

    OK(tarn_device_add_peer(world.device, 2));
    second = test_alloc(world.pool, 64 * MIB, world.side);
    EXPECT_ACCESS(2, first);
    EXPECT_ACCESS(2, second);
    OK(tarn_free(first));
    OK(tarn_free(second));
}

TEST(peers, memory_mapped_anew_for_a_restore_has_the_peer)
{
    tarn_checkpoint *checkpoint = NULL;
    void *address = test_alloc(world.pool, 32 * MIB, world.stream);

    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, world.stream, &checkpoint));
    OK(tarn_free(address));
    OK(tarn_pool_trim(world.pool, NULL));
    OK(tarn_device_add_peer(world.device, 2));
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    EXPECT_ACCESS(2, address);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(address));
}

/* Each call of the driver in turn, in pools of which one has the peer for itself. */
TEST(peers, a_peer_is_added_to_all_or_to_none)
{
    tarn_pool *has = test_pool("has");
    void *with = test_alloc(has, 6 * MIB, world.stream);
    void *blocks[2] = {test_alloc(world.pool, 6 * MIB, world.stream), NULL};
    uint64_t calls = 0;

    OK(tarn_malloc(world.device, 6 * MIB, world.stream, &blocks[1]));
    OK(tarn_pool_add_peer(has, 1));
    for (bool added = false; !added; calls++) {
        tarn_status status;

        sim.plan_fault("cuMemSetAccess", calls + 1, 0, TN_CUDA_ERROR_UNKNOWN);
        status = tarn_device_add_peer(world.device, 1);
        added = sim.clear_fault(NULL) == 0;
        ck_assert_int_eq(status, added ? TARN_OK : TARN_ERR_DRIVER);
        EXPECT_ACCESS(1, with);
        for (int i = 0; i < 2 && !added; i++)
            EXPECT_NO_ACCESS(1, blocks[i]);
        if (!added) {
            tarn_pool *later = test_pool("later");
            void *block = test_alloc(later, MIB, world.stream);

            EXPECT_NO_ACCESS(1, block); /* the device has no peer */
            OK(tarn_free(block));
            OK(tarn_pool_destroy(later));
        }
    }
    ck_assert_uint_ge(calls, 4);
    EXPECT_ACCESS(1, blocks[0]);
    EXPECT_ACCESS(1, blocks[1]);
    OK(tarn_free(with));
    OK(tarn_free(blocks[0]));
    OK(tarn_free(blocks[1]));
    OK(tarn_pool_destroy(has));
}

TEST(peers, a_peer_that_has_all_costs_no_call)
{
    void *address = test_alloc(world.pool, 6 * MIB, world.stream);
    uint64_t before;

    OK(tarn_device_add_peer(world.device, 1));
    before = sim.call_count("cuMemSetAccess");
    OK(tarn_device_add_peer(world.device, 1));
    OK(tarn_device_add_peer(world.device, 0)); /* itself */
    OK(tarn_pool_add_peer(world.pool, 1));
    ck_assert_uint_eq(sim.call_count("cuMemSetAccess"), before);
    OK(tarn_free(address));
}

TEST(peers, what_is_no_peer_is_refused)
{
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "device 3", tarn_device_add_peer(world.device, 3));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "device -1", tarn_device_add_peer(world.device, -1));
    sim.plan_fault("cuDeviceCanAccessPeer", 1, 0, TN_CUDA_SUCCESS); /* answers no */
    STATUS(TARN_ERR_NOT_SUPPORTED, tarn_device_add_peer(world.device, 1));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "device 1 cannot use memory of device 0"));
    sim.plan_fault("cuDeviceCanAccessPeer", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_device_add_peer(world.device, 1));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_device_add_peer(NULL, 1));
}

TEST(peers, the_peers_go_with_the_last_user_of_the_device)
{
    tn_cu_context mine = test_context();
    tarn_device *other;
    tn_cu_stream there;
    void *block;

    test_set_context(test_retain(1));
    there = test_stream();
    OK(tarn_device_open(1, NULL, &other));
    OK(tarn_device_add_peer(other, 0));
    OK(tarn_device_close(other));
    OK(tarn_device_open(1, NULL, &other));
    OK(tarn_malloc(other, MIB, there, &block));
    EXPECT_ACCESS(1, block);
    EXPECT_NO_ACCESS(0, block);
    OK(tarn_free(block));
    OK(tarn_device_close(other));
    test_destroy_stream(there);
    test_set_context(mine);
    test_release(1);
}
