// SPDX-License-Identifier: Apache-2.0
/* Two devices of one host: kernels of one read and write the memory of the other's pool. Skipped where
 * there is one device, or where they cannot reach each other. */
#include <stdio.h>
#include <unistd.h>

#include "support/world.h"

static struct {
    tn_cu_context here;
    tn_cu_context there; /* of device 1 */
    tn_cu_stream stream; /* there */
} peer;

static void enter_peer(void)
{
    test_set_context(peer.there);
    test_use_kernels_here();
}

static void leave_peer(void)
{
    test_synchronize(peer.stream);
    test_set_context(peer.here);
    test_use_kernels_here();
}

static void skip_without_peers(void)
{
    int count = 0;
    int can = 0;

    test_start();
    CU_OK(cu.cuDeviceGetCount(&count));
    if (count > 1)
        CU_OK(cu.cuDeviceCanAccessPeer(&can, 1, 0));
    if (can)
        return;
    (void)fprintf(stderr, "skipped: no second device that reaches the first\n");
    _exit(77);
}

static void open_both(void)
{
    skip_without_peers();
    peer.here = test_context();
    peer.there = test_retain(1);
    enter_peer();
    peer.stream = test_stream();
    leave_peer();
    test_world_open();
}

static void close_both(void)
{
    test_world_close(); /* the peer's context stays, with its kernels */
    test_set_context(peer.there);
    test_destroy_stream(peer.stream);
    test_set_context(peer.here);
}

/* A kernel of the peer adds one to every word; both devices see it. */
static void expect_shared(void *block, size_t words)
{
    test_fill(world.stream, block, 41, words);
    test_synchronize(world.stream);
    enter_peer();
    test_add(peer.stream, block, 1, words);
    test_expect_words(peer.stream, block, 42, words);
    leave_peer();
    test_expect_words(world.stream, block, 42, words);
}

SUITE("peers on the GPU")
GROUP(peers, open_both, close_both)

TEST(peers, a_peer_named_at_creation_reads_and_writes)
{
    const int peers[] = {1};
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool = NULL;
    void *block;

    options.peers = peers;
    options.peer_count = 1;
    OK(tarn_pool_create(world.device, &options, &pool));
    block = test_alloc(pool, 70 * MIB, world.stream);
    expect_shared(block, 70 * MIB / 4);
    OK(tarn_free(block));
    OK(tarn_pool_destroy(pool));
}

TEST(peers, a_peer_added_later_reaches_what_is_mapped_and_what_comes)
{
    void *before = test_alloc(world.pool, 38 * MIB, world.stream);
    void *after;

    OK(tarn_pool_add_peer(world.pool, 1));
    expect_shared(before, 38 * MIB / 4);
    after = test_alloc(world.pool, 70 * MIB, world.stream);
    expect_shared(after, 70 * MIB / 4);
    ck_assert_uint_eq(test_access(1, before), TN_CU_MEM_ACCESS_READWRITE);
    ck_assert_uint_eq(test_access(0, before), TN_CU_MEM_ACCESS_READWRITE);
    OK(tarn_free(before));
    OK(tarn_free(after));
}

TEST(peers, a_peer_of_the_device_reaches_every_pool)
{
    void *before = test_alloc(world.pool, 38 * MIB, world.stream);
    tarn_pool *later;
    void *after;

    OK(tarn_device_add_peer(world.device, 1));
    expect_shared(before, 38 * MIB / 4);
    later = test_pool("later");
    after = test_alloc(later, 38 * MIB, world.stream);
    expect_shared(after, 38 * MIB / 4);
    OK(tarn_free(before));
    OK(tarn_free(after));
    OK(tarn_pool_destroy(later));
}

TEST(peers, access_is_added_while_a_kernel_runs)
{
    void *block = test_alloc(world.pool, 32 * MIB, world.stream);

    test_spin(world.stream, 60);
    test_fill(world.stream, block, 5, 8 * MIB);
    OK(tarn_pool_add_peer(world.pool, 1));
    test_expect_words(world.stream, block, 5, 8 * MIB);
    expect_shared(block, 8 * MIB);
    OK(tarn_free(block));
}

TEST(peers, cached_memory_has_the_rights_of_its_new_pool)
{
    tarn_pool *shared = test_pool("shared");
    void *block;

    OK(tarn_pool_add_peer(shared, 1));
    OK(tarn_free(test_alloc(shared, 4 * MIB, world.stream)));
    OK(tarn_pool_destroy(shared));
    block = test_alloc(world.pool, 4 * MIB, world.stream);
    ck_assert_uint_eq(test_device_stats().cached_bytes, 0);
    ck_assert_uint_eq(test_access(1, block), TN_CU_MEM_ACCESS_NONE);
    OK(tarn_pool_add_peer(world.pool, 1));
    expect_shared(block, MIB);
    OK(tarn_free(block));
}

/* Each device has a pool that the other may use. */
TEST(peers, two_devices_use_each_other)
{
    const int first[] = {0};
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_device *device = NULL;
    tarn_pool *pool = NULL;
    void *block = NULL;

    options.peers = first;
    options.peer_count = 1;
    OK(tarn_device_open(1, NULL, &device));
    OK(tarn_pool_create(device, &options, &pool));
    OK(tarn_pool_malloc(pool, 4 * MIB, 0, peer.stream, &block));
    enter_peer();
    test_fill(peer.stream, block, 8, MIB);
    leave_peer();
    test_add(world.stream, block, 1, MIB);
    test_expect_words(world.stream, block, 9, MIB);
    OK(tarn_record_stream(block, world.stream));
    OK(tarn_free(block));
    OK(tarn_pool_destroy(pool));
    OK(tarn_device_close(device));
}
