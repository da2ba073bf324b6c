// SPDX-License-Identifier: Apache-2.0
/* What users of memory shared between processes live through, with PyTorch's CUDA IPC as the
 * measure: counts, limbo, collection, deaths, descriptors and addresses. Each test is one story.
 *
 * The consumers are processes of their own, forked before the driver is used. */
#include <dirent.h>
#include <stdio.h>
#include <sys/mman.h>

#include "support/partner.h"
#include "support/world.h"

enum { CONSUMERS = 2, MANY = 10001, SLOTS = 16 };

#define LONG_NS UINT64_C(10000000000)

static struct {
    struct test_partner consumers[CONSUMERS];
    tarn_connection *connections[CONSUMERS];
    tarn_pool *pool; /* shared */
    tarn_listener *listener;
} with;

/* In memory of all processes: what a producer that is a child tells. */
static struct produced {
    char name[56];
    uint32_t value;
    tarn_share shares[2];
} * produced;

static tarn_pool *shared_pool(tarn_device *device)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool;

    options.name = "shared";
    options.flags = TARN_POOL_SHARED;
    OK(tarn_pool_create(device, &options, &pool));
    return pool;
}

static tarn_connection *accept_one(void)
{
    int64_t deadline = test_deadline();
    tarn_connection *connection = NULL;
    tarn_status status = TARN_ERR_BUSY;

    while (status == TARN_ERR_BUSY && test_pause(deadline)) {
        OK(tarn_listener_progress(with.listener));
        status = tarn_listener_accept(with.listener, &connection);
    }
    ck_assert_int_eq(status, TARN_OK);
    return connection;
}

static void open_all(void)
{
    tarn_listener_options options = TARN_LISTENER_OPTIONS_INIT;
    char name[56];

    produced =
        mmap(NULL, sizeof *produced, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(produced, MAP_FAILED);
    for (int i = 0; i < CONSUMERS; i++)
        test_partner_begin(&with.consumers[i]);
    test_world_open();
    with.pool = shared_pool(world.device);
    options.lease_slots = SLOTS;
    OK(tarn_listener_create(world.device, &options, &with.listener));
    OK(tarn_listener_name(with.listener, name));
    for (int i = 0; i < CONSUMERS; i++) {
        ck_assert_int_eq(test_partner_connect(&with.consumers[i], name), TARN_OK);
        with.connections[i] = accept_one();
    }
}

static void close_all(void)
{
    int64_t deadline = test_deadline();

    for (int i = 0; i < CONSUMERS; i++) {
        if (with.consumers[i].pid == 0)
            continue;
        ck_assert_int_eq(test_partner_disconnect(&with.consumers[i]), TARN_OK);
        test_partner_end(&with.consumers[i]);
    }
    for (int i = 0; i < CONSUMERS; i++) {
        while (tarn_connection_destroy(with.connections[i]) == TARN_ERR_BUSY &&
               test_pause(deadline))
            continue;
    }
    OK(tarn_listener_destroy(with.listener));
    OK(tarn_pool_destroy(with.pool));
    test_world_close();
}

static void *filled(size_t words, uint32_t value)
{
    void *address = test_alloc(with.pool, words * sizeof value, world.stream);

    test_fill(world.stream, address, value, words);
    test_synchronize(world.stream);
    return address;
}

static tarn_share share_with(int consumer, void *block)
{
    tarn_share share;

    OK(tarn_share_block(with.connections[consumer], block, &share));
    return share;
}

static void *open_at(int consumer, const tarn_share *share)
{
    void *there = NULL;

    ck_assert_int_eq(test_partner_open(&with.consumers[consumer], share, LONG_NS, &there), TARN_OK);
    return there;
}

static void close_at(int consumer, void *there)
{
    ck_assert_int_eq(test_partner_close(&with.consumers[consumer], there), TARN_OK);
}

static uint64_t collect(void)
{
    uint64_t ended = UINT64_MAX;

    OK(tarn_share_collect(world.device, &ended));
    return ended;
}

static tarn_connection_info describe(int consumer)
{
    tarn_connection_info info = TARN_CONNECTION_INFO_INIT;

    OK(tarn_connection_describe(with.connections[consumer], &info));
    return info;
}

static uint64_t count_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    uint64_t count = 0;

    ck_assert_ptr_nonnull(folder);
    while (readdir(folder) != NULL)
        count += 1;
    (void)closedir(folder);
    return count;
}

SUITE("what users of shared memory live through")
GROUP(counts, open_all, close_all, .timeout = 240)

TEST(counts, a_block_that_two_consumers_have_is_free_after_both)
{
    void *block = filled(1024, 5);
    tarn_share shares[CONSUMERS];
    void *there[CONSUMERS];

    for (int i = 0; i < CONSUMERS; i++) {
        shares[i] = share_with(i, block);
        there[i] = open_at(i, &shares[i]);
        ck_assert(test_partner_finds(&with.consumers[i], there[i], 5, 1024));
    }
    OK(tarn_free(block));
    close_at(0, there[0]);
    ck_assert_uint_eq(collect(), 1);
    ck_assert_int_eq(test_state_of(with.pool, block), TARN_EXTENT_PENDING);
    ck_assert(test_partner_finds(&with.consumers[1], there[1], 5, 1024));
    close_at(1, there[1]);
    ck_assert_uint_eq(collect(), 1);
    ck_assert_int_eq(test_state_of(with.pool, block), TARN_EXTENT_FREE);
}

TEST(counts, a_block_sent_twice_counts_twice)
{
    void *block = filled(1024, 5);
    tarn_share first = share_with(0, block);
    tarn_share second = share_with(0, block);
    void *there = open_at(0, &first);

    ck_assert_ptr_eq(open_at(0, &second), there);
    OK(tarn_free(block));
    ck_assert_uint_eq(describe(0).limbo_count, 2);
    close_at(0, there);
    ck_assert_uint_eq(collect(), 1);
    ck_assert_int_eq(test_state_of(with.pool, block), TARN_EXTENT_PENDING);
    close_at(0, there);
    ck_assert_uint_eq(collect(), 1);
    ck_assert_int_eq(test_state_of(with.pool, block), TARN_EXTENT_FREE);
}

TEST(counts, a_share_opened_twice_is_one_mapping_and_is_closed_twice)
{
    void *block = filled(1024, 5);
    tarn_share share = share_with(0, block);
    void *there = open_at(0, &share);

    ck_assert_ptr_eq(open_at(0, &share), there);
    ck_assert_uint_eq(test_partner_stats(&with.consumers[0]).import_count, 1);
    OK(tarn_free(block));
    close_at(0, there);
    ck_assert_uint_eq(collect(), 0);
    close_at(0, there);
    ck_assert_uint_eq(collect(), 1);
    ck_assert_int_eq(test_partner_close(&with.consumers[0], there), TARN_ERR_NOT_OURS);
}

TEST(counts, a_collection_says_whether_anything_was_freed)
{
    void *block = filled(1024, 5);
    tarn_share share = share_with(0, block);

    ck_assert_uint_eq(collect(), 0);
    close_at(0, open_at(0, &share));
    ck_assert_uint_eq(collect(), 1);
    ck_assert_uint_eq(collect(), 0);
    OK(tarn_free(block));
}

/* The ladder of an allocation collects what limbo has. */
TEST(counts, memory_that_runs_out_comes_from_limbo)
{
    void *block = filled(8 * MIB, 5);
    tarn_share share = share_with(0, block);
    void *there = open_at(0, &share);
    void *again;

    OK(tarn_pool_set_limit(with.pool, test_stats(with.pool).mapped_bytes));
    OK(tarn_free(block));
    STATUS(TARN_ERR_LIMIT, tarn_pool_malloc(with.pool, 32 * MIB, 0, world.stream, &again));
    close_at(0, there);
    OK(tarn_pool_malloc(with.pool, 32 * MIB, 0, world.stream, &again));
    ck_assert_ptr_eq(again, block);
    OK(tarn_free(again));
}

/* PyTorch's counters are 10,000 to a file; here places come back. */
TEST(counts, ten_thousand_shares_pass_by_few_places)
{
    void *block = filled(64, 5);

    for (int i = 0; i < MANY; i++) {
        tarn_share share = share_with(0, block);
        void *there = open_at(0, &share);

        close_at(0, there);
    }
    (void)collect();
    ck_assert_uint_eq(describe(0).lease_count, 0);
    ck_assert_uint_eq(describe(0).chunk_count, 1);
    OK(tarn_free(block));
}

TEST(counts, full_places_are_refused_until_one_is_returned)
{
    void *block = filled(64, 5);
    tarn_share shares[SLOTS];
    tarn_share more;
    void *there = NULL;

    for (int i = 0; i < SLOTS; i++) {
        shares[i] = share_with(0, block);
        there = open_at(0, &shares[i]);
    }
    REFUSE(TARN_ERR_LIMIT, "16 leases", tarn_share_block(with.connections[0], block, &more));
    OK(tarn_share_block(with.connections[1], block, &more)); /* another's places */
    close_at(0, there);
    OK(tarn_share_block(with.connections[0], block, &more)); /* without a collection */
    close_at(0, open_at(0, &more));
    for (int i = 1; i < SLOTS; i++)
        close_at(0, there);
    ck_assert_uint_eq(describe(1).lease_count, 1);
    OK(tarn_free(block));
}

/* A late return or open names an older generation. */
TEST(counts, a_late_share_is_stale_and_harms_nobody)
{
    void *blocks[2] = {filled(64, 5), filled(64, 6)};
    tarn_share old = share_with(0, blocks[0]);
    tarn_share next;
    void *there;

    close_at(0, open_at(0, &old));
    ck_assert_uint_eq(collect(), 1);
    next = share_with(0, blocks[1]); /* the same place */
    ck_assert_int_eq(test_partner_open(&with.consumers[0], &old, 0, &there), TARN_ERR_STALE);
    there = open_at(0, &next);
    ck_assert(test_partner_finds(&with.consumers[0], there, 6, 64));
    close_at(0, there);
    OK(tarn_free(blocks[0]));
    OK(tarn_free(blocks[1]));
}

GROUP(places, open_all, close_all, .timeout = 120)

TEST(places, blocks_of_one_chunk_lie_where_they_do_in_it)
{
    void *blocks[SLOTS];
    void *there[SLOTS];

    for (uint32_t i = 0; i < SLOTS; i++) {
        tarn_share share;

        blocks[i] = filled(1000 + i, i);
        share = share_with(0, blocks[i]);
        there[i] = open_at(0, &share);
    }
    ck_assert_uint_eq(test_partner_stats(&with.consumers[0]).import_count, 1);
    for (uint32_t i = 0; i < SLOTS; i++) {
        ck_assert_int_eq((char *)there[i] - (char *)there[0],
                         (char *)blocks[i] - (char *)blocks[0]);
        ck_assert(test_partner_finds(&with.consumers[0], there[i], i, 1000 + i));
        close_at(0, there[i]);
        OK(tarn_free(blocks[i]));
    }
}

TEST(places, a_block_of_several_chunks_is_one_range)
{
    void *block = filled(20 * MIB, 5);
    tarn_share share = share_with(0, block);
    void *there = open_at(0, &share);

    ck_assert_uint_gt(describe(0).chunk_count, 1);
    ck_assert(test_partner_finds(&with.consumers[0], there, 5, 20 * MIB));
    ck_assert_uint_eq(test_partner_stats(&with.consumers[0]).import_count, 1);
    close_at(0, there);
    OK(tarn_free(block));
}

/* And not 9/8 of a GPU's memory for each. */
TEST(places, an_import_takes_its_own_bytes_of_addresses)
{
    void *block = filled(MIB, 5);
    tarn_share share = share_with(0, block);
    void *there = open_at(0, &share);
    tarn_stats stats = test_partner_stats(&with.consumers[0]);
    tarn_connection_info info = test_partner_describe(&with.consumers[0]);

    ck_assert_uint_eq(stats.import_bytes, describe(0).chunk_bytes);
    ck_assert_uint_eq(stats.import_unused_bytes, 0);
    ck_assert_uint_eq(info.mapped_bytes, stats.import_bytes);
    ck_assert_uint_eq(info.chunk_bytes, stats.import_bytes);
    ck_assert_uint_eq(info.chunk_count, 1);
    ck_assert_uint_eq(stats.mapped_bytes.all.current, 0);
    close_at(0, there);
    stats = test_partner_stats(&with.consumers[0]);
    ck_assert_uint_eq(stats.import_unused_bytes, stats.import_bytes);
    OK(tarn_free(block));
}

/* A descriptor lives as long as its way to the other process takes. */
TEST(places, no_descriptor_stays_open)
{
    void *first = filled(64, 5);
    tarn_share share = share_with(0, first);
    void *large = filled(40 * MIB, 5); /* the simulator has a file of its own for each chunk */
    uint64_t before;

    close_at(0, open_at(0, &share));
    before = count_files();
    share = share_with(0, large);
    close_at(0, open_at(0, &share));
    ck_assert_uint_gt(describe(0).chunk_count, 2);
    ck_assert_uint_eq(count_files(), before);
    OK(tarn_free(first));
    OK(tarn_free(large));
}

TEST(places, memory_of_a_pool_that_ends_goes_from_the_consumer)
{
    tarn_pool *kept = with.pool;
    void *block;
    tarn_share share;

    with.pool = shared_pool(world.device);
    block = filled(MIB, 5);
    share = share_with(0, block);
    close_at(0, open_at(0, &share));
    OK(tarn_free(block));
    ck_assert_uint_eq(collect(), 1);
    ck_assert_uint_gt(test_partner_stats(&with.consumers[0]).import_bytes, 0);
    OK(tarn_pool_destroy(with.pool));
    ck_assert_uint_eq(collect(), 0);
    ck_assert_uint_eq(describe(0).chunk_count, 0);
    ck_assert_int_eq(test_partner_collect(&with.consumers[0]), TARN_OK);
    ck_assert_uint_eq(test_partner_stats(&with.consumers[0]).import_bytes, 0);
    ck_assert_uint_eq(test_partner_describe(&with.consumers[0]).chunk_count, 0);
    with.pool = kept;
}

/* As text, through what knows nothing of descriptors. */
TEST(places, a_share_is_bytes_that_any_channel_carries)
{
    void *block = filled(64, 5);
    tarn_share share = share_with(0, block);
    char text[2 * sizeof share.bytes + 1];
    tarn_share read;
    void *there;

    for (size_t i = 0; i < sizeof share.bytes; i++)
        (void)snprintf(&text[2 * i], 3, "%02x", share.bytes[i]);
    for (size_t i = 0; i < sizeof read.bytes; i++) {
        unsigned byte;

        ck_assert_int_eq(sscanf(&text[2 * i], "%2x", &byte), 1);
        read.bytes[i] = (unsigned char)byte;
    }
    there = open_at(0, &read);
    ck_assert(test_partner_finds(&with.consumers[0], there, 5, 64));
    close_at(0, there);
    OK(tarn_free(block));
}

GROUP(deaths, open_all, close_all, .timeout = 120)

/* PyTorch's counter of a killed consumer stays for ever. */
TEST(deaths, a_killed_consumer_keeps_nothing_from_the_living)
{
    void *block = filled(1024, 5);
    tarn_share shares[CONSUMERS] = {share_with(0, block), share_with(1, block)};
    void *there[CONSUMERS] = {open_at(0, &shares[0]), open_at(1, &shares[1])};
    int64_t deadline = test_deadline();
    uint64_t ended = 0;

    OK(tarn_free(block));
    test_partner_kill(&with.consumers[0]);
    (void)there[0];
    while (ended == 0 && test_pause(deadline))
        ended = collect();
    ck_assert_uint_eq(ended, 1);
    ck_assert_int_eq(test_state_of(with.pool, block), TARN_EXTENT_PENDING);
    ck_assert(test_partner_finds(&with.consumers[1], there[1], 5, 1024));
    close_at(1, there[1]);
    ck_assert_uint_eq(collect(), 1);
    ck_assert_int_eq(test_state_of(with.pool, block), TARN_EXTENT_FREE);
}

/* A child that produces: it makes a pool, a listener, and tells its name. */
static struct {
    tarn_pool *pool;
    tarn_listener *listener;
    tarn_connection *connection;
    void *blocks[2];
} child;

static tarn_status listen_there(tarn_device *device, tn_cu_stream stream, void *shared)
{
    struct produced *to = shared;

    child.pool = shared_pool(device);
    for (int i = 0; i < 2; i++) {
        child.blocks[i] = test_alloc(child.pool, 1024 * sizeof to->value, stream);
        test_fill(stream, child.blocks[i], to->value, 1024);
    }
    test_synchronize(stream);
    OK(tarn_listener_create(device, NULL, &child.listener));
    return tarn_listener_name(child.listener, to->name);
}

static tarn_status share_there(tarn_device *device, tn_cu_stream stream, void *shared)
{
    struct produced *to = shared;
    int64_t deadline = test_deadline();
    tarn_status status = TARN_ERR_BUSY;

    (void)device;
    (void)stream;
    while (status == TARN_ERR_BUSY && test_pause(deadline)) {
        OK(tarn_listener_progress(child.listener));
        status = tarn_listener_accept(child.listener, &child.connection);
    }
    for (int i = 0; i < 2 && status == TARN_OK; i++)
        status = tarn_share_block(child.connection, child.blocks[i], &to->shares[i]);
    return status;
}

/* PyTorch's consumer waits for ever for the event of a killed producer. */
TEST(deaths, a_killed_producer_leaves_its_memory_and_hangs_nobody)
{
    int64_t deadline = test_deadline();
    tarn_connection_info info = TARN_CONNECTION_INFO_INIT;
    tarn_connection *connection;
    void *here;
    void *other;

    produced->value = 77;
    ck_assert_int_eq(test_partner_run(&with.consumers[1], listen_there, produced), TARN_OK);
    OK(tarn_connection_open(world.device, produced->name, &connection));
    ck_assert_int_eq(test_partner_run(&with.consumers[1], share_there, produced), TARN_OK);
    OK(tarn_share_open(connection, &produced->shares[0], LONG_NS, &here));
    test_partner_kill(&with.consumers[1]);
    while (info.state != TARN_CONNECTION_GONE && test_pause(deadline))
        OK(tarn_connection_describe(connection, &info));
    ck_assert_int_eq(info.state, TARN_CONNECTION_GONE);
    test_expect_words(world.stream, here, 77, 1024);
    test_fill(world.stream, here, 78, 1024);
    test_expect_words(world.stream, here, 78, 1024);
    REFUSE(TARN_ERR_PEER_LOST, "is gone",
           tarn_share_open(connection, &produced->shares[1], LONG_NS, &other));
    OK(tarn_share_close(connection, here));
    OK(tarn_connection_destroy(connection));
    ck_assert_uint_eq(collect(), 0);
}

/* The memory stays, and what is read there does not change any more. */
TEST(deaths, graphs_learn_of_the_death_of_their_producer)
{
    tarn_graph *graphs[2];
    int64_t deadline = test_deadline();
    tarn_connection *connection;
    void *output = test_alloc(world.default_pool, 4096, world.stream);
    void *here;

    produced->value = 77;
    ck_assert_int_eq(test_partner_run(&with.consumers[1], listen_there, produced), TARN_OK);
    OK(tarn_connection_open(world.device, produced->name, &connection));
    ck_assert_int_eq(test_partner_run(&with.consumers[1], share_there, produced), TARN_OK);
    OK(tarn_share_open(connection, &produced->shares[0], LONG_NS, &here));
    for (int i = 0; i < 2; i++) {
        tarn_capture *capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);

        test_copy(world.stream, output, here, 4096);
        graphs[i] = test_capture_end(capture);
        OK(tarn_graph_guard(graphs[i], i == 0 ? TARN_GUARD_REFUSE : TARN_GUARD_KEEP, NULL));
    }
    OK(tarn_graph_check(graphs[0]));
    test_partner_kill(&with.consumers[1]);
    while (tarn_graph_check(graphs[0]) == TARN_OK && test_pause(deadline))
        (void)collect();
    REFUSE(TARN_ERR_STALE, "the other process is gone", tarn_graph_check(graphs[0]));
    OK(tarn_graph_replay(graphs[1], world.stream));
    test_expect_words(world.stream, output, 77, 1024);
    OK(tarn_graph_destroy(graphs[0]));
    OK(tarn_graph_destroy(graphs[1]));
    OK(tarn_share_close(connection, here));
    OK(tarn_connection_destroy(connection));
    OK(tarn_free(output));
}

/* As PyTorch's, which is an error, too. */
TEST(deaths, memory_of_another_process_is_not_shared_on_nor_freed)
{
    tarn_connection *connection;
    tarn_share share;
    void *here;

    produced->value = 77;
    ck_assert_int_eq(test_partner_run(&with.consumers[1], listen_there, produced), TARN_OK);
    OK(tarn_connection_open(world.device, produced->name, &connection));
    ck_assert_int_eq(test_partner_run(&with.consumers[1], share_there, produced), TARN_OK);
    OK(tarn_share_open(connection, &produced->shares[0], LONG_NS, &here));
    REFUSE(TARN_ERR_NOT_OURS, "another process",
           tarn_share_block(with.connections[0], here, &share));
    REFUSE(TARN_ERR_NOT_OURS, "another process", tarn_free(here));
    test_expect_words(world.stream, here, 77, 1024);
    OK(tarn_share_close(connection, here));
    OK(tarn_connection_destroy(connection));
    test_partner_kill(&with.consumers[1]);
}

/* What a producer that ends orderly leaves behind is nobody's to collect. */
TEST(deaths, a_listener_that_ended_leaves_leases_to_be_collected)
{
    void *block = filled(1024, 5);
    tarn_share share = share_with(0, block);
    void *there = open_at(0, &share);

    OK(tarn_listener_destroy(with.listener));
    with.listener = NULL;
    OK(tarn_free(block));
    ck_assert_uint_eq(collect(), 0);
    close_at(0, there);
    ck_assert_uint_eq(collect(), 1);
    ck_assert_int_eq(test_state_of(with.pool, block), TARN_EXTENT_FREE);
}
