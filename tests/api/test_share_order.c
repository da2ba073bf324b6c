// SPDX-License-Identifier: Apache-2.0
/* Blocks that two processes hand on by their streams: neither waits for its work. */
#include "support/gate.h"
#include "support/partner.h"
#include "support/world.h"

static struct test_partner partner;
static struct {
    tarn_pool *pool; /* shared */
    tarn_listener *listener;
    tarn_connection *connection;
} with;
static struct test_gate gate;

#define LONG_NS UINT64_C(10000000000)

enum { WORDS = 1024 };

static void open_all(void)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    int64_t deadline = test_deadline();
    tarn_status status = TARN_ERR_BUSY;
    char name[56];

    test_partner_begin(&partner);
    test_world_open();
    options.name = "shared";
    options.flags = TARN_POOL_SHARED;
    with.pool = test_pool_with(&options);
    OK(tarn_listener_create(world.device, NULL, &with.listener));
    OK(tarn_listener_name(with.listener, name));
    ck_assert_int_eq(test_partner_connect(&partner, name), TARN_OK);
    while (status == TARN_ERR_BUSY && test_pause(deadline)) {
        OK(tarn_listener_progress(with.listener));
        status = tarn_listener_accept(with.listener, &with.connection);
    }
    ck_assert_int_eq(status, TARN_OK);
}

static void close_all(void)
{
    int64_t deadline = test_deadline();

    if (partner.pid != 0) {
        while (test_partner_disconnect(&partner) == TARN_ERR_BUSY && test_pause(deadline))
            continue;
        test_partner_end(&partner);
    }
    while (tarn_connection_destroy(with.connection) == TARN_ERR_BUSY && test_pause(deadline))
        continue;
    OK(tarn_listener_destroy(with.listener));
    OK(tarn_pool_destroy(with.pool));
    test_world_close();
}

SUITE("shares between streams of two processes")
GROUP(orders, open_all, close_all)

static void *open_there(const tarn_share *share)
{
    void *there;

    ck_assert_int_eq(test_partner_open_on(&partner, share, LONG_NS, &there), TARN_OK);
    return there;
}

static uint64_t collect(void)
{
    uint64_t ended;

    OK(tarn_share_collect(world.device, &ended));
    return ended;
}

static void collect_until_ended(void)
{
    int64_t deadline = test_deadline();

    while (collect() == 0 && test_pause(deadline))
        continue;
}

static void *filled_later(uint32_t value, tarn_share *share)
{
    void *block = test_alloc(with.pool, WORDS * sizeof value, world.stream);

    test_fill(world.stream, block, value, WORDS);
    OK(tarn_share_block_on(with.connection, block, world.stream, share));
    return block;
}

/* The producer's work is not done when the consumer's is given to its stream. */
TEST(orders, work_of_the_consumer_comes_behind_work_of_the_producer)
{
    tarn_share share;
    void *block;
    void *there;

    test_gate_close(&gate, world.stream);
    block = filled_later(7, &share);
    there = open_there(&share);
    test_partner_fill_later(&partner, there, 9, WORDS);
    ck_assert_int_eq(test_partner_close_on(&partner, there), TARN_OK);
    OK(tarn_free(block));
    ck_assert_uint_eq(collect(), 0);
    test_gate_open(&gate);
    collect_until_ended();
    ck_assert_int_eq(test_state_of(with.pool, block), TARN_EXTENT_FREE);
    test_expect_words(world.stream, block, 9, WORDS); /* the consumer wrote last */
}

TEST(orders, an_open_without_a_stream_waits_for_the_work_before_the_share)
{
    tarn_share share;
    void *block;
    void *there;

    test_gate_close(&gate, world.stream);
    block = filled_later(7, &share);
    ck_assert_int_eq(test_partner_open(&partner, &share, 1000000, &there), TARN_ERR_BUSY);
    test_gate_open(&gate);
    ck_assert_int_eq(test_partner_open(&partner, &share, LONG_NS, &there), TARN_OK);
    ck_assert(test_partner_finds(&partner, there, 7, WORDS));
    ck_assert_int_eq(test_partner_close(&partner, there), TARN_OK);
    OK(tarn_free(block));
}

/* Nobody in the consumer does anything more. */
TEST(orders, a_stream_of_the_consumer_ends_the_lease)
{
    tarn_share share;
    void *block = filled_later(7, &share);
    void *there = open_there(&share);

    test_partner_hold(&partner);
    ck_assert_int_eq(test_partner_close_on(&partner, there), TARN_OK);
    ck_assert_int_eq(test_partner_close_on(&partner, there), TARN_ERR_NOT_OURS);
    ck_assert_int_eq(test_partner_open_on(&partner, &share, 0, &there), TARN_ERR_STALE);
    OK(tarn_free(block));
    ck_assert_int_eq(test_partner_disconnect(&partner), TARN_ERR_BUSY);
    ck_assert_uint_eq(collect(), 0);
    ck_assert_int_eq(test_state_of(with.pool, block), TARN_EXTENT_PENDING);
    test_partner_go_on(&partner);
    collect_until_ended();
    ck_assert_ptr_eq(test_alloc(with.pool, WORDS * sizeof(uint32_t), world.stream), block);
    OK(tarn_free(block));
}

/* Its stream will never write the word. */
TEST(orders, the_death_of_the_consumer_ends_what_its_stream_has_not)
{
    tarn_share share;
    void *block = filled_later(7, &share);
    void *there = open_there(&share);

    test_partner_hold(&partner);
    ck_assert_int_eq(test_partner_close_on(&partner, there), TARN_OK);
    OK(tarn_free(block));
    ck_assert_uint_eq(collect(), 0);
    test_partner_kill(&partner);
    collect_until_ended();
    ck_assert_int_eq(test_state_of(with.pool, block), TARN_EXTENT_FREE);
}

TEST(orders, a_stream_that_is_being_captured_is_refused)
{
    void *block = test_alloc(with.pool, 4096, world.stream);
    tarn_share share;

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    REFUSE(TARN_ERR_WRONG_STATE, "captured",
           tarn_share_block_on(with.connection, block, world.stream, &share));
    test_drop_capture(world.stream);
    OK(tarn_free(block));
}

/* Both ends in this process ---------------------------------------------------------------------- */

static tarn_connection *consumer;

static void open_here(void)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_listener_options listening = TARN_LISTENER_OPTIONS_INIT;
    char name[56];

    test_world_open();
    options.flags = TARN_POOL_SHARED;
    with.pool = test_pool_with(&options);
    listening.lease_slots = 1;
    OK(tarn_listener_create(world.device, &listening, &with.listener));
    OK(tarn_listener_name(with.listener, name));
    OK(tarn_connection_open(world.device, name, &consumer));
    OK(tarn_listener_progress(with.listener));
    OK(tarn_listener_accept(with.listener, &with.connection));
}

static void close_here(void)
{
    OK(tarn_connection_destroy(consumer));
    OK(tarn_connection_destroy(with.connection));
    OK(tarn_listener_destroy(with.listener));
    OK(tarn_pool_destroy(with.pool));
    test_world_close();
}

GROUP(refused, open_here, close_here)

TEST(refused, a_block_that_cannot_be_shared_behind_work)
{
    char *block = test_alloc(with.pool, 4096, world.stream);
    void *private = test_alloc(world.pool, 4096, world.stream);
    tarn_share share;
    tarn_share full;

    STATUS(TARN_ERR_INVALID_HANDLE, tarn_share_block_on(NULL, block, world.stream, &share));
    STATUS(TARN_ERR_INVALID_ARGUMENT,
           tarn_share_block_on(with.connection, block, world.stream, NULL));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_share_block_on(consumer, block, world.stream, &share));
    STATUS(TARN_ERR_NOT_OURS, tarn_share_block_on(with.connection, &share, world.stream, &share));
    STATUS(TARN_ERR_INNER_ADDRESS,
           tarn_share_block_on(with.connection, block + 512, world.stream, &share));
    STATUS(TARN_ERR_WRONG_STATE,
           tarn_share_block_on(with.connection, private, world.stream, &share));
    OK(tarn_free(block));
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_share_block_on(with.connection, block, world.stream, &share));
    block = test_alloc(with.pool, 4096, world.stream);
    OK(tarn_share_block_on(with.connection, block, world.stream, &full));
    STATUS(TARN_ERR_LIMIT, tarn_share_block_on(with.connection, block, world.stream, &share));
    test_synchronize(world.stream);
    OK(tarn_free(private));
    OK(tarn_free(block));
}

TEST(refused, a_share_that_cannot_be_opened_or_closed_by_a_stream)
{
    void *block = test_alloc(with.pool, 4096, world.stream);
    tarn_share share;
    tarn_share damaged;
    void *there;

    OK(tarn_share_block_on(with.connection, block, world.stream, &share));
    damaged = share;
    damaged.bytes[40] ^= 1;
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_share_open_on(NULL, &share, world.stream, 0, &there));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_share_open_on(consumer, NULL, world.stream, 0, &there));
    STATUS(TARN_ERR_INVALID_ARGUMENT,
           tarn_share_open_on(with.connection, &share, world.stream, 0, &there));
    STATUS(TARN_ERR_INVALID_ARGUMENT,
           tarn_share_open_on(consumer, &damaged, world.stream, 0, &there));
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    STATUS(TARN_ERR_WRONG_STATE, tarn_share_open_on(consumer, &share, world.stream, 0, &there));
    test_drop_capture(world.stream);
    OK(tarn_share_open_on(consumer, &share, world.stream, LONG_NS, &there));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_share_close_on(NULL, there, world.stream));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_share_close_on(with.connection, there, world.stream));
    STATUS(TARN_ERR_NOT_OURS, tarn_share_close_on(consumer, block, world.stream));
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    STATUS(TARN_ERR_WRONG_STATE, tarn_share_close_on(consumer, there, world.stream));
    test_drop_capture(world.stream);
    OK(tarn_share_close_on(consumer, there, world.stream));
    test_synchronize(world.stream);
    STATUS(TARN_ERR_STALE, tarn_share_open_on(consumer, &share, world.stream, 0, &there));
    OK(tarn_free(block));
}

TEST(refused, no_memory_for_the_words_of_streams)
{
    void *block = test_alloc(with.pool, 4096, world.stream);
    tarn_share share;
    void *there;

    sim.plan_fault("cuMemCreate", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY,
           tarn_share_block_on(with.connection, block, world.stream, &share));
    OK(tarn_share_block(with.connection, block, &share));
    OK(tarn_share_open(consumer, &share, LONG_NS, &there));
    sim.plan_fault("cuMemCreate", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_share_close_on(consumer, there, world.stream));
    OK(tarn_share_close(consumer, there));
    OK(tarn_free(block));
}
