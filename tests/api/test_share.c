// SPDX-License-Identifier: Apache-2.0
/* Blocks shared with another process: leased, opened, closed, and their memory afterwards. */
#include <poll.h>

#include "support/partner.h"
#include "support/world.h"

static struct test_partner partner;
static struct {
    tarn_pool *pool; /* shared */
    tarn_listener *listener;
    tarn_connection *connection;
} with;

#define LONG_NS UINT64_C(10000000000)

static void connect_partner(void)
{
    char name[56];
    int64_t deadline = test_deadline();
    tarn_status status = TARN_ERR_BUSY;

    OK(tarn_listener_name(with.listener, name));
    ck_assert_int_eq(test_partner_connect(&partner, name), TARN_OK);
    while (status == TARN_ERR_BUSY && test_pause(deadline)) {
        OK(tarn_listener_progress(with.listener));
        status = tarn_listener_accept(with.listener, &with.connection);
    }
    ck_assert_int_eq(status, TARN_OK);
}

static void open_all(void)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;

    test_partner_begin(&partner);
    test_world_open();
    options.name = "shared";
    options.flags = TARN_POOL_SHARED;
    with.pool = test_pool_with(&options);
    OK(tarn_listener_create(world.device, NULL, &with.listener));
    connect_partner();
}

static void close_all(void)
{
    int64_t deadline = test_deadline();

    if (partner.pid != 0) {
        (void)test_partner_disconnect(&partner);
        test_partner_end(&partner);
    }
    while (tarn_connection_destroy(with.connection) == TARN_ERR_BUSY && test_pause(deadline))
        continue;
    OK(tarn_listener_destroy(with.listener));
    OK(tarn_pool_destroy(with.pool));
    test_world_close();
}

/* A block with the value in its words, ready to be read. */
static void *filled(size_t words, uint32_t value)
{
    void *address = test_alloc(with.pool, words * sizeof value, world.stream);

    test_fill(world.stream, address, value, words);
    test_synchronize(world.stream);
    return address;
}

static tarn_connection_info describe(void)
{
    tarn_connection_info info = TARN_CONNECTION_INFO_INIT;

    OK(tarn_connection_describe(with.connection, &info));
    return info;
}

SUITE("sharing with another process")
GROUP(shares, open_all, close_all)

TEST(shares, a_block_is_the_same_memory_in_both_processes)
{
    void *block = filled(1024, 7);
    void *there;
    tarn_share share;

    OK(tarn_share_block(with.connection, block, &share));
    ck_assert_int_eq(test_partner_open(&partner, &share, LONG_NS, &there), TARN_OK);
    ck_assert(test_partner_finds(&partner, there, 7, 1024));
    test_partner_fill(&partner, there, 9, 1024);
    test_expect_words(world.stream, block, 9, 1024);
    ck_assert_int_eq(test_partner_close(&partner, there), TARN_OK);
    OK(tarn_free(block));
    OK(tarn_share_collect(world.device, NULL));
    ck_assert_uint_eq(describe().lease_count, 0);
}

/* L3 */
TEST(shares, a_freed_block_waits_until_its_lease_is_returned)
{
    void *block = filled(1024, 7);
    void *there;
    uint64_t ended = 0;
    tarn_share share;

    OK(tarn_share_block(with.connection, block, &share));
    ck_assert_int_eq(test_partner_open(&partner, &share, LONG_NS, &there), TARN_OK);
    OK(tarn_free(block));
    OK(tarn_share_collect(world.device, &ended));
    ck_assert_uint_eq(ended, 0);
    ck_assert_uint_eq(describe().limbo_count, 1);
    ck_assert_int_eq(test_state_of(with.pool, block), TARN_EXTENT_PENDING);
    ck_assert(test_partner_finds(&partner, there, 7, 1024));
    ck_assert_int_eq(test_partner_close(&partner, there), TARN_OK);
    OK(tarn_share_collect(world.device, &ended));
    ck_assert_uint_eq(ended, 1);
    ck_assert_int_eq(test_state_of(with.pool, block), TARN_EXTENT_FREE);
    ck_assert_ptr_eq(test_alloc(with.pool, 4096, world.stream), block);
    OK(tarn_free(block));
}

/* Whoever waits for the end of the process has its memory soon, and not before. */
TEST(shares, the_death_of_the_consumer_ends_its_leases)
{
    void *block = filled(1024, 7);
    void *there;
    uint64_t ended = 0;
    int64_t deadline = test_deadline();
    tarn_share share;

    OK(tarn_share_block(with.connection, block, &share));
    ck_assert_int_eq(test_partner_open(&partner, &share, LONG_NS, &there), TARN_OK);
    OK(tarn_free(block));
    test_partner_kill(&partner);
    while (ended == 0 && test_pause(deadline))
        OK(tarn_share_collect(world.device, &ended));
    ck_assert_uint_eq(ended, 1);
    ck_assert_int_eq(describe().state, TARN_CONNECTION_GONE);
    ck_assert_int_eq(test_state_of(with.pool, block), TARN_EXTENT_FREE);
    block = filled(1, 1);
    STATUS(TARN_ERR_PEER_LOST, tarn_share_block(with.connection, block, &share));
    OK(tarn_free(block));
}

static bool is_readable(int descriptor)
{
    struct pollfd asked = {.fd = descriptor, .events = POLLIN};

    return poll(&asked, 1, 0) == 1;
}

TEST(shares, the_descriptor_tells_of_a_death_until_progress_has_heard)
{
    int64_t deadline = test_deadline();
    int descriptor;

    OK(tarn_listener_descriptor(with.listener, &descriptor));
    OK(tarn_listener_progress(with.listener));
    ck_assert(!is_readable(descriptor));
    test_partner_kill(&partner);
    while (!is_readable(descriptor) && test_pause(deadline))
        continue;
    while (describe().state != TARN_CONNECTION_GONE && test_pause(deadline))
        continue;
    ck_assert(is_readable(descriptor));
    OK(tarn_listener_progress(with.listener));
    ck_assert(!is_readable(descriptor));
}

/* L4, L5: an id leads to other memory only once the first is gone, and each open to its own block. */
TEST(shares, a_chunk_that_is_gone_makes_room_for_another_one)
{
    for (uint32_t round = 1; round <= 3; round++) {
        void *blocks[2];
        void *there[2];
        tarn_share shares[2];

        for (uint32_t i = 0; i < 2; i++) {
            blocks[i] = filled(MIB, 10 * round + i);
            OK(tarn_share_block(with.connection, blocks[i], &shares[i]));
            ck_assert_int_eq(test_partner_open(&partner, &shares[i], LONG_NS, &there[i]), TARN_OK);
        }
        for (uint32_t i = 0; i < 2; i++) {
            ck_assert(test_partner_finds(&partner, there[i], 10 * round + i, MIB));
            ck_assert_int_eq(test_partner_close(&partner, there[i]), TARN_OK);
            OK(tarn_free(blocks[i]));
        }
        OK(tarn_share_collect(world.device, NULL));
        OK(tarn_pool_trim(with.pool, NULL)); /* its memory goes */
    }
}

/* The consumer reads the memory still: nothing may come back there. */
TEST(shares, a_restore_does_not_take_memory_that_is_leased)
{
    void *block = filled(MIB, 3);
    tarn_checkpoint *checkpoint;
    tarn_share share;
    void *there;

    OK(tarn_checkpoint_take(with.pool, TARN_CONTENTS_NONE, world.stream, &checkpoint));
    OK(tarn_share_block(with.connection, block, &share));
    ck_assert_int_eq(test_partner_open(&partner, &share, LONG_NS, &there), TARN_OK);
    OK(tarn_free(block));
    REFUSE(TARN_ERR_BUSY, "lease", tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    ck_assert(test_partner_finds(&partner, there, 3, MIB));
    ck_assert_int_eq(test_partner_close(&partner, there), TARN_OK);
    OK(tarn_share_collect(world.device, NULL));
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(block));
}
