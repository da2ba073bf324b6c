// SPDX-License-Identifier: Apache-2.0
/* Shares that are opened and closed by streams. Both ends are in this process. */
#include "share/grant.h"
#include "share/listener.h"
#include "share/opened.h"
#include "support/gate.h"
#include "support/words.h"
#include "unit/unit.h"

static tarn_device *device;
static tarn_pool *pool;
static tn_cu_stream stream;
static tn_cu_stream other;
static tarn_listener *listener;
static tarn_connection *producer;
static tarn_connection *consumer;
static struct test_gate gate;

static void connect_on_device(void)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    char name[56];

    options.flags = TARN_POOL_SHARED;
    OK(tarn_pool_create(device, &options, &pool));
    stream = test_stream();
    other = test_stream();
    OK(tarn_listener_create(device, NULL, &listener));
    OK(tarn_listener_name(listener, name));
    OK(tarn_connection_open(device, name, &consumer));
    OK(tarn_listener_progress(listener));
    OK(tarn_listener_accept(listener, &producer));
}

static void connect_here(void)
{
    device = unit_device();
    connect_on_device();
}

static void connect_without_cache(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    test_start();
    options.import_cache_limit_bytes = TARN_NO_CACHE;
    OK(tarn_device_open(0, &options, &device));
    connect_on_device();
}

SUITE("shares opened by streams")
GROUP(opened, connect_here)
GROUP(unkept, connect_without_cache)

/* The producer's own word comes behind the one that the consumer's stream waits for. */
static void synchronize_both(void)
{
    test_synchronize(other);
    test_synchronize(stream);
}

/* Shares a block behind the work of a stream. */
static void *shared(tn_cu_stream behind, struct tn_share *share)
{
    void *block = unit_alloc(pool, 4096, stream);

    OK(tn_grant_block(producer, (uint64_t)(uintptr_t)block, &behind, share));
    return block;
}

static uint64_t open_on(tn_cu_stream on, const struct tn_share *share)
{
    uint64_t address;

    OK(tn_share_open(consumer, share, &on, &address));
    return address;
}

static void close_all(void)
{
    OK(tarn_connection_destroy(consumer));
    OK(tarn_connection_destroy(producer));
    OK(tarn_listener_destroy(listener));
    OK(tarn_pool_destroy(pool));
    OK(tarn_device_close(device));
}

TEST(opened, a_stream_waits_for_the_work_before_the_share)
{
    struct tn_share share;
    uint64_t address = 7;
    void *block;

    test_gate_close(&gate, stream);
    block = shared(stream, &share);
    ck_assert_int_eq(tn_share_open(consumer, &share, NULL, &address), TARN_ERR_BUSY);
    ck_assert(consumer->consumer.awaits_words);
    ck_assert_uint_eq(address, 7);
    address = open_on(other, &share);
    ck_assert(test_is_at_work(other));
    ck_assert_int_eq(tn_share_open(consumer, &share, NULL, &address), TARN_ERR_BUSY);
    test_gate_open(&gate);
    test_synchronize(other);
    OK(tn_share_open(consumer, &share, NULL, &address));
    for (int i = 0; i < 2; i++)
        OK(tn_share_close(consumer, address, NULL));
    test_synchronize(stream);
    ck_assert_uint_eq(tn_shares_collect(device), 1);
    OK(tarn_free(block));
    close_all();
}

/* A plain close: the stream that opened the share has yet to read the word of its beginning. */
TEST(opened, a_lease_lasts_until_the_consumer_s_stream_has_begun)
{
    struct tn_share share;
    void *block;

    test_gate_close(&gate, stream);
    block = shared(stream, &share);
    OK(tn_share_close(consumer, open_on(other, &share), NULL));
    ck_assert_uint_eq(consumer->consumer.opened_count, 1);
    tn_lock_acquire(&consumer->lock);
    tn_share_poll(consumer, UINT32_MAX);
    tn_lock_release(&consumer->lock);
    ck_assert_uint_eq(consumer->consumer.opened_count, 1);
    test_gate_open(&gate);
    synchronize_both();
    tn_lock_acquire(&consumer->lock);
    tn_share_poll(consumer, UINT32_MAX);
    tn_lock_release(&consumer->lock);
    ck_assert_uint_eq(consumer->consumer.opened_count, 0);
    ck_assert_uint_eq(tn_shares_collect(device), 1);
    OK(tarn_free(block));
    close_all();
}

static struct {
    struct tn_share share;
    test_words_call driver;
} meanwhile;

/* Another thread opens the share and closes it; then the driver refuses the first one's wait. */
static tn_cu_result open_and_close(tn_cu_stream on, unsigned int count, tn_cu_batch_op *ops,
                                   unsigned int flags)
{
    uint64_t address;

    (void)on;
    (void)count;
    (void)ops;
    (void)flags;
    (void)test_words_swap(meanwhile.driver);
    OK(tn_share_open(consumer, &meanwhile.share, &other, &address));
    OK(tn_share_close(consumer, address, NULL));
    test_gate_open(&gate);
    synchronize_both();
    return TN_CUDA_ERROR_OUT_OF_MEMORY;
}

TEST(opened, a_share_that_was_closed_meanwhile_is_returned)
{
    uint64_t address = 7;
    void *block;

    test_gate_close(&gate, stream);
    block = shared(stream, &meanwhile.share);
    meanwhile.driver = test_words_swap(open_and_close);
    ck_assert_int_eq(tn_share_open(consumer, &meanwhile.share, &other, &address),
                     TARN_ERR_DEVICE_MEMORY);
    ck_assert_uint_eq(consumer->consumer.opened_count, 0);
    STATUS(TARN_ERR_STALE, tn_share_open(consumer, &meanwhile.share, &other, &address));
    OK(tarn_free(block));
    ck_assert_uint_eq(tn_shares_collect(device), 1);
    close_all();
}

/* L6: nothing of the stream's is left when the slot is used again. */
TEST(opened, a_lease_lasts_until_the_producer_s_stream_has_come_there)
{
    struct tn_share share;
    void *block;

    test_gate_close(&gate, stream);
    block = shared(stream, &share);
    OK(tn_share_close(consumer, open_on(other, &share), NULL));
    tn_handoff_finish(&consumer->handoff, share.slot, share.generation); /* as a hostile one may */
    ck_assert_uint_eq(tn_shares_collect(device), 0);
    STATUS(TARN_ERR_BUSY, tarn_connection_destroy(producer));
    test_gate_open(&gate);
    test_synchronize(stream);
    ck_assert_uint_eq(tn_shares_collect(device), 1);
    OK(tarn_free(block));
    test_synchronize(other);
    close_all();
}

TEST(opened, a_close_by_a_stream_ends_the_lease_without_the_consumer)
{
    struct tn_share share;
    void *block = shared(stream, &share);
    uint64_t address = open_on(other, &share);

    test_gate_close(&gate, other);
    OK(tn_share_close(consumer, address, &other));
    STATUS(TARN_ERR_NOT_OURS, tn_share_close(consumer, address, &other));
    STATUS(TARN_ERR_STALE, tn_share_open(consumer, &share, NULL, &address));
    OK(tarn_free(block));
    ck_assert_uint_eq(tn_shares_collect(device), 0);
    STATUS(TARN_ERR_BUSY, tarn_connection_destroy(consumer)); /* its memory is used */
    ck_assert_int_eq(unit_block(block)->state, TN_BLOCK_PENDING);
    test_gate_open(&gate);
    synchronize_both();
    ck_assert_uint_eq(tn_grant_collect(producer), 1);
    ck_assert_int_ne(unit_block(block)->state, TN_BLOCK_PENDING);
    ck_assert_uint_eq(consumer->consumer.opened_count, 1); /* it has not looked */
    close_all();
}

TEST(opened, a_slot_serves_again_before_the_consumer_has_looked)
{
    struct tn_share shares[2];
    uint64_t address;

    for (uint32_t i = 0; i < 2; i++) {
        void *block = shared(stream, &shares[i]);

        address = open_on(other, &shares[i]);
        test_gate_close(&gate, other);
        OK(tn_share_close(consumer, address, &other));
        test_gate_open(&gate);
        synchronize_both();
        OK(tarn_free(block));
        ck_assert_uint_eq(tn_grant_collect(producer), 1);
        ck_assert_uint_eq(consumer->consumer.opened_count, 1);
    }
    ck_assert_uint_eq(shares[0].slot, shares[1].slot);
    ck_assert_uint_eq(shares[0].generation + 1, shares[1].generation);
    close_all();
}

/* A producer that says the lease is over, and grants the next one. */
TEST(opened, a_slot_is_not_opened_while_a_stream_uses_its_former_lease)
{
    struct tn_share share;
    struct tn_share next;
    uint64_t address;
    void *block = shared(stream, &share);

    address = open_on(other, &share);
    test_gate_close(&gate, other);
    OK(tn_share_close(consumer, address, &other));
    next = share;
    next.generation += 1;
    atomic_store(&producer->tables.grants[share.slot].word,
                 tn_slot_word(next.generation, TN_SLOT_GRANTED));
    ck_assert_int_eq(tn_share_open(consumer, &next, &other, &address), TARN_ERR_BUSY);
    ck_assert(consumer->consumer.awaits_words);
    test_gate_open(&gate);
    synchronize_both();
    OK(tn_share_open(consumer, &next, &stream, &address));
    tn_handoff_finish(&consumer->handoff, next.slot, next.generation); /* nobody else would */
    test_synchronize(stream);
    OK(tn_share_close(consumer, address, NULL));
    OK(tarn_free(block));
    ck_assert_uint_eq(tn_shares_collect(device), 1);
    close_all();
}

/* The last close speaks for all. */
TEST(opened, a_share_that_is_open_twice_is_returned_behind_both_streams)
{
    struct tn_share share;
    void *block = shared(stream, &share);
    uint64_t address = open_on(other, &share);

    ck_assert_uint_eq(open_on(stream, &share), address);
    test_gate_close(&gate, other);
    OK(tn_share_close(consumer, address, &other));
    ck_assert_uint_eq(tn_shares_collect(device), 0);
    OK(tn_share_close(consumer, address, &stream));
    test_gate_linger();
    ck_assert_uint_eq(tn_shares_collect(device), 0);
    test_gate_open(&gate);
    test_synchronize(stream);
    ck_assert_uint_eq(tn_shares_collect(device), 1);
    OK(tarn_free(block));
    close_all();
}

TEST(opened, a_close_without_a_stream_waits_for_closes_with_one)
{
    struct tn_share share;
    void *block = shared(stream, &share);
    uint64_t address = open_on(other, &share);

    (void)open_on(other, &share);
    test_gate_close(&gate, other);
    OK(tn_share_close(consumer, address, &other));
    OK(tn_share_close(consumer, address, NULL));
    ck_assert_uint_eq(tn_shares_collect(device), 0);
    test_gate_open(&gate);
    synchronize_both();
    (void)tn_shares_collect(device); /* the consumer's look comes behind the producer's */
    ck_assert_uint_eq(consumer->consumer.opened_count, 0);
    (void)tn_shares_collect(device);
    ck_assert_uint_eq(producer->producer.granted_count, 0);
    OK(tarn_free(block));
    close_all();
}

/* The producer has made no words: its consumer tells it by the table. */
TEST(opened, a_share_without_a_stream_may_be_closed_by_one)
{
    void *block = unit_alloc(pool, 4096, stream);
    struct tn_share share;
    uint64_t address;

    OK(tn_grant_block(producer, (uint64_t)(uintptr_t)block, NULL, &share));
    OK(tn_share_open(consumer, &share, NULL, &address));
    test_gate_close(&gate, other);
    OK(tn_share_close(consumer, address, &other));
    ck_assert_uint_eq(consumer->handoff.both.address, 0);
    ck_assert_uint_eq(tn_shares_collect(device), 0);
    test_gate_open(&gate);
    synchronize_both();
    (void)tn_shares_collect(device);
    (void)tn_shares_collect(device); /* whoever was served first */
    ck_assert_uint_eq(producer->producer.granted_count, 0);
    OK(tarn_free(block));
    close_all();
}

/* Whatever the driver refuses, the share is as it was. */
TEST(opened, a_stream_that_gets_no_word_changes_nothing)
{
    struct tn_share share;
    void *block = shared(stream, &share);
    tarn_share sealed;
    uint64_t address = 7;

    sim.plan_fault("cuStreamBatchMemOp", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_share_block_on(producer, block, stream, &sealed));
    ck_assert_uint_eq(producer->producer.granted_count, 1);
    ck_assert_uint_eq(pool->watches.count, 1);
    test_gate_close(&gate, stream);
    OK(tn_grant_block(producer, (uint64_t)(uintptr_t)block, &stream, &share));
    sim.plan_fault("cuStreamBatchMemOp", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_int_eq(tn_share_open(consumer, &share, &other, &address), TARN_ERR_DEVICE_MEMORY);
    ck_assert_uint_eq(address, 7);
    ck_assert_uint_eq(consumer->consumer.opened_count, 0);
    ck_assert_uint_eq(tn_shares_collect(device), 0); /* the lease is not returned */
    test_gate_open(&gate);
    address = open_on(other, &share);
    sim.plan_fault("cuStreamBatchMemOp", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_int_eq(tn_share_close(consumer, address, &other), TARN_ERR_DEVICE_MEMORY);
    ck_assert_uint_eq(consumer->consumer.opened_count, 1);
    OK(tn_share_close(consumer, address, &other));
    synchronize_both();
    OK(tarn_free(block));
    ck_assert_uint_eq(tn_shares_collect(device), 1);
    OK(tarn_connection_destroy(consumer)); /* returns the first */
    OK(tarn_connection_destroy(producer));
    OK(tarn_listener_destroy(listener));
    OK(tarn_pool_destroy(pool));
    OK(tarn_device_close(device));
}

/* Opens a share and closes it; returns how many mappings are left. */
static uint64_t count_left(void)
{
    struct tn_share share;
    void *block = shared(stream, &share);
    uint64_t address = open_on(other, &share);

    synchronize_both();
    OK(tn_share_close(consumer, address, NULL));
    OK(tarn_free(block));
    return atomic_load(&device->imports.mapped_count);
}

TEST(opened, a_mapping_stays_for_the_next_share)
{
    ck_assert_uint_eq(count_left(), 1);
    close_all();
}

TEST(unkept, a_mapping_goes_with_its_last_share)
{
    ck_assert_uint_eq(count_left(), 0);
    close_all();
}
