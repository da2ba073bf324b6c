// SPDX-License-Identifier: Apache-2.0
/* Shares for whoever comes first, by tokens. */
#include "support/partner.h"
#include "support/world.h"

static struct test_partner partner;
static struct {
    tarn_pool *pool; /* shared */
    tarn_listener *listener;
    tarn_connection *consumer; /* of this process */
} with;

#define LONG_NS UINT64_C(10000000000)
#define NAME_AT 56 /* of the listener, in a share: see src/share/message.h */

static bool permits;

static bool ask(const tarn_peer *peer, void *unused)
{
    (void)peer;
    (void)unused;
    return permits;
}

static void open_with(uint64_t token_ns)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_listener_options listening = TARN_LISTENER_OPTIONS_INIT;

    permits = true;
    test_partner_begin(&partner);
    test_world_open();
    options.flags = TARN_POOL_SHARED;
    with.pool = test_pool_with(&options);
    listening.token_ns = token_ns;
    listening.policy = ask;
    listening.lease_slots = 1;
    OK(tarn_listener_create(world.device, &listening, &with.listener));
}

static void open_all(void)
{
    open_with(0);
}

static void close_all(void)
{
    int64_t deadline = test_deadline();
    tarn_status status = TARN_ERR_BUSY;

    if (with.consumer != NULL)
        OK(tarn_connection_destroy(with.consumer));
    with.consumer = NULL;
    test_partner_end(&partner);
    OK(tarn_listener_destroy(with.listener));
    while (status == TARN_ERR_BUSY && test_pause(deadline)) { /* leases end with connections */
        OK(tarn_share_collect(world.device, NULL));
        status = tarn_pool_destroy(with.pool);
    }
    ck_assert_int_eq(status, TARN_OK);
    test_world_close();
}

SUITE("shares for whoever comes first")
GROUP(tokens, open_all, close_all)

/* Opens with progress of both ends. */
static tarn_status open_here(const tarn_share *share, void **there)
{
    int64_t deadline = test_deadline();
    tarn_status status = TARN_ERR_BUSY;

    while (status == TARN_ERR_BUSY && test_pause(deadline)) {
        OK(tarn_listener_progress(with.listener));
        status = tarn_share_open(with.consumer, share, 0, there);
    }
    return status;
}

static void expect_here(tarn_status expected, const tarn_share *share)
{
    void *there;

    ck_assert_int_eq(open_here(share, &there), expected);
}

TEST(tokens, a_process_that_is_not_connected_opens_an_offer)
{
    void *block = test_alloc(with.pool, 4096, world.stream);
    tarn_share share;
    void *there;

    test_fill(world.stream, block, 7, 1024);
    test_synchronize(world.stream);
    OK(tarn_share_offer(with.listener, block, &share));
    OK(tarn_share_connect(world.device, &share, &with.consumer));
    ck_assert_int_eq(open_here(&share, &there), TARN_OK);
    test_expect_words(world.stream, there, 7, 1024);
    OK(tarn_free(block));
    ck_assert_int_eq(test_state_of(with.pool, block), TARN_EXTENT_PENDING);
    OK(tarn_share_close(with.consumer, there));
    OK(tarn_share_collect(world.device, NULL));
    ck_assert_int_eq(test_state_of(with.pool, block), TARN_EXTENT_FREE);
}

/* The other process is faster. */
TEST(tokens, an_offer_serves_one_process_once)
{
    void *block = test_alloc(with.pool, 4096, world.stream);
    int64_t deadline = test_deadline();
    tarn_status status = TARN_ERR_BUSY;
    tarn_share share;
    char name[56];
    void *there;

    OK(tarn_listener_name(with.listener, name));
    OK(tarn_share_offer(with.listener, block, &share));
    OK(tarn_share_connect(world.device, &share, &with.consumer));
    ck_assert_int_eq(test_partner_connect(&partner, name), TARN_OK);
    while (status == TARN_ERR_BUSY && test_pause(deadline)) {
        OK(tarn_listener_progress(with.listener));
        status = test_partner_open(&partner, &share, 0, &there);
    }
    ck_assert_int_eq(status, TARN_OK);
    expect_here(TARN_ERR_STALE, &share);
    ck_assert_int_eq(test_partner_close(&partner, there), TARN_OK);
    expect_here(TARN_ERR_STALE, &share);
    ck_assert_int_eq(test_partner_disconnect(&partner), TARN_OK);
    OK(tarn_free(block));
}

TEST(tokens, an_offer_whose_block_was_freed_is_stale)
{
    void *block = test_alloc(with.pool, 4096, world.stream);
    tarn_share share;

    OK(tarn_share_offer(with.listener, block, &share));
    OK(tarn_share_connect(world.device, &share, &with.consumer));
    OK(tarn_free(block));
    ck_assert_ptr_eq(test_alloc(with.pool, 4096, world.stream), block); /* another one */
    expect_here(TARN_ERR_STALE, &share);
    OK(tarn_free(block));
    OK(tarn_share_collect(world.device, NULL));
}

/* L8 */
TEST(tokens, an_offer_is_over_behind_its_time)
{
    void *block = test_alloc(with.pool, 4096, world.stream);
    tarn_listener_options listening = TARN_LISTENER_OPTIONS_INIT;
    tarn_share share;

    OK(tarn_listener_destroy(with.listener));
    listening.token_ns = 1;
    OK(tarn_listener_create(world.device, &listening, &with.listener));
    OK(tarn_share_offer(with.listener, block, &share));
    OK(tarn_share_connect(world.device, &share, &with.consumer));
    expect_here(TARN_ERR_STALE, &share);
    OK(tarn_free(block));
}

TEST(tokens, the_policy_decides_who_comes_first)
{
    void *block = test_alloc(with.pool, 4096, world.stream);
    tarn_share share;

    OK(tarn_share_offer(with.listener, block, &share));
    permits = false;
    OK(tarn_share_connect(world.device, &share, &with.consumer));
    expect_here(TARN_ERR_NOT_PERMITTED, &share);
    OK(tarn_free(block));
}

TEST(tokens, an_offer_that_finds_no_lease_is_told_so)
{
    void *blocks[2];
    tarn_share shares[2];
    void *there;

    for (size_t i = 0; i < 2; i++) {
        blocks[i] = test_alloc(with.pool, 4096, world.stream);
        OK(tarn_share_offer(with.listener, blocks[i], &shares[i]));
    }
    OK(tarn_share_connect(world.device, &shares[0], &with.consumer));
    ck_assert_int_eq(open_here(&shares[0], &there), TARN_OK);
    expect_here(TARN_ERR_LIMIT, &shares[1]);
    OK(tarn_share_close(with.consumer, there));
    for (size_t i = 0; i < 2; i++)
        OK(tarn_free(blocks[i]));
}

TEST(tokens, what_cannot_be_offered)
{
    char *block = test_alloc(with.pool, 4096, world.stream);
    void *private = test_alloc(world.pool, 4096, world.stream);
    tarn_share share;
    tarn_share damaged;
    tarn_connection *none;

    STATUS(TARN_ERR_INVALID_HANDLE, tarn_share_offer(NULL, block, &share));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_share_offer(with.listener, block, NULL));
    STATUS(TARN_ERR_NOT_OURS, tarn_share_offer(with.listener, &share, &share));
    STATUS(TARN_ERR_INNER_ADDRESS, tarn_share_offer(with.listener, block + 512, &share));
    STATUS(TARN_ERR_WRONG_STATE, tarn_share_offer(with.listener, private, &share));
    OK(tarn_share_offer(with.listener, block, &share));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_share_connect(NULL, &share, &none));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_share_connect(world.device, NULL, &none));
    damaged = share;
    damaged.bytes[NAME_AT] ^= 1;
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_share_connect(world.device, &damaged, &none));
    damaged = share;
    damaged.bytes[4] ^= 64; /* its version */
    STATUS(TARN_ERR_NOT_SUPPORTED, tarn_share_connect(world.device, &damaged, &none));
    OK(tarn_free(private));
    OK(tarn_free(block));
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_share_offer(with.listener, block, &share));
    OK(tarn_listener_destroy(with.listener));
    STATUS(TARN_ERR_PEER_LOST, tarn_share_connect(world.device, &share, &none));
    OK(tarn_listener_create(world.device, NULL, &with.listener));
}
