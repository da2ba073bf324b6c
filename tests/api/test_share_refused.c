// SPDX-License-Identifier: Apache-2.0
/* What the calls of share.h refuse. Both ends of the connection are in this process. */
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/world.h"

static struct {
    tarn_pool *pool; /* shared */
    tarn_listener *listener;
    char name[56];
    tarn_connection *producer;
    tarn_connection *consumer;
    void *block;
    tarn_share share;
    void *opened; /* the block, as the consumer has it */
} with;

static void listen_here(const tarn_listener_options *options)
{
    OK(tarn_listener_create(world.device, options, &with.listener));
    OK(tarn_listener_name(with.listener, with.name));
}

static void connect_here(void)
{
    OK(tarn_connection_open(world.device, with.name, &with.consumer));
    OK(tarn_listener_progress(with.listener));
    OK(tarn_listener_accept(with.listener, &with.producer));
}

static tarn_pool *shared_pool(void)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;

    options.name = "shared";
    options.flags = TARN_POOL_SHARED;
    return test_pool_with(&options);
}

static void share_here(void)
{
    OK(tarn_share_block(with.producer, with.block, &with.share));
    OK(tarn_share_open(with.consumer, &with.share, 0, &with.opened));
}

static void open_all(void)
{
    test_world_open();
    with.pool = shared_pool();
    with.block = test_alloc(with.pool, MIB, world.stream);
    listen_here(NULL);
    connect_here();
}

static void close_all(void)
{
    OK(tarn_connection_destroy(with.consumer));
    OK(tarn_connection_destroy(with.producer));
    OK(tarn_listener_destroy(with.listener));
    OK(tarn_free(with.block));
    OK(tarn_pool_destroy(with.pool));
    test_world_close();
}

SUITE("refusals of sharing")
GROUP(calls, open_all, close_all)

#define GONE(kind, call) REFUSE(TARN_ERR_INVALID_HANDLE, kind, call)

static void refuse_listener(tarn_listener *listener)
{
    tarn_connection *connection = UNTOUCHED;
    char name[56];
    int descriptor = -7;

    GONE("listener", tarn_listener_name(listener, name));
    GONE("listener", tarn_listener_descriptor(listener, &descriptor));
    GONE("listener", tarn_listener_progress(listener));
    GONE("listener", tarn_listener_accept(listener, &connection));
    ck_assert_untouched(connection);
    ck_assert_int_eq(descriptor, -7);
}

static void refuse_connection(tarn_connection *connection)
{
    tarn_connection_info info = TARN_CONNECTION_INFO_INIT;
    void *address = UNTOUCHED;
    tarn_share share;

    GONE("connection", tarn_connection_describe(connection, &info));
    GONE("connection", tarn_share_block(connection, with.block, &share));
    GONE("connection", tarn_share_open(connection, &with.share, 0, &address));
    GONE("connection", tarn_share_close(connection, address));
    ck_assert_untouched(address);
}

TEST(calls, handles_that_are_gone_or_never_were)
{
    tarn_listener *listener;
    tarn_connection *connection;
    tarn_device *none = NULL;

    OK(tarn_listener_create(world.device, NULL, &listener));
    OK(tarn_listener_destroy(listener));
    OK(tarn_listener_destroy(NULL));
    GONE("listener", tarn_listener_destroy(listener));
    refuse_listener(listener);
    refuse_listener(NULL);
    OK(tarn_connection_open(world.device, with.name, &connection));
    OK(tarn_connection_destroy(connection));
    OK(tarn_connection_destroy(NULL));
    GONE("connection", tarn_connection_destroy(connection));
    refuse_connection(connection);
    refuse_connection(NULL);
    GONE("device", tarn_listener_create(none, NULL, &listener));
    GONE("device", tarn_connection_open(none, with.name, &connection));
    GONE("device", tarn_share_collect(none, NULL));
}

TEST(calls, arguments_out_of_their_range)
{
    tarn_listener_options options = TARN_LISTENER_OPTIONS_INIT;
    tarn_pool_options made = TARN_POOL_OPTIONS_INIT;
    tarn_connection_info info = TARN_CONNECTION_INFO_INIT;
    tarn_pool *pool = UNTOUCHED;
    tarn_listener *listener = UNTOUCHED;
    tarn_connection *connection = UNTOUCHED;
    void *address = UNTOUCHED;
    char name[80];

#define BAD(word, call) REFUSE(TARN_ERR_INVALID_ARGUMENT, word, call)
    memset(name, 'x', sizeof name);
    name[56] = '\0';
    made.flags = TARN_POOL_SHARED << 1;
    BAD("flags", tarn_pool_create(world.device, &made, &pool));
    BAD("NULL", tarn_listener_create(world.device, NULL, NULL));
    options.name = name;
    BAD("55", tarn_listener_create(world.device, &options, &listener));
    options.name = "";
    BAD("name", tarn_listener_create(world.device, &options, &listener));
    options.name = NULL;
    options.lease_slots = 65537;
    BAD("lease_slots", tarn_listener_create(world.device, &options, &listener));
    options.lease_slots = 0;
    options.chunk_slots = 16385;
    BAD("chunk_slots", tarn_listener_create(world.device, &options, &listener));
    options.size = 3;
    BAD("size", tarn_listener_create(world.device, &options, &listener));
    BAD("NULL", tarn_listener_name(with.listener, NULL));
    BAD("NULL", tarn_listener_descriptor(with.listener, NULL));
    BAD("NULL", tarn_listener_accept(with.listener, NULL));
    BAD("NULL", tarn_connection_open(world.device, NULL, &connection));
    BAD("NULL", tarn_connection_open(world.device, with.name, NULL));
    BAD("name", tarn_connection_open(world.device, name, &connection));
    BAD("NULL", tarn_connection_describe(with.producer, NULL));
    info.size = 3;
    BAD("size", tarn_connection_describe(with.producer, &info));
    BAD("NULL", tarn_share_block(with.producer, with.block, NULL));
    BAD("consumer", tarn_share_block(with.consumer, with.block, &with.share));
    BAD("NULL", tarn_share_open(with.consumer, NULL, 0, &address));
    BAD("NULL", tarn_share_open(with.consumer, &with.share, 0, NULL));
    BAD("producer", tarn_share_open(with.producer, &with.share, 0, &address));
    BAD("no share", tarn_share_open(with.consumer, &with.share, 0, &address));
    BAD("producer", tarn_share_close(with.producer, with.block));
    REFUSE(TARN_ERR_NOT_OURS, "no share", tarn_share_close(with.consumer, with.block));
    ck_assert_untouched(listener);
    ck_assert_untouched(connection);
    ck_assert_untouched(address);
}

TEST(calls, pools_of_the_host_are_not_shared)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool = UNTOUCHED;

    options.flags = TARN_POOL_SHARED;
    for (options.location = TARN_LOCATION_HOST; options.location <= TARN_LOCATION_REGISTERED;
         options.location++)
        REFUSE(TARN_ERR_NOT_SUPPORTED, "host", tarn_pool_create(world.device, &options, &pool));
    ck_assert_untouched(pool);
}

TEST(calls, blocks_that_cannot_be_shared)
{
    void *other = test_alloc(world.pool, MIB, world.stream);
    void *freed = test_alloc(with.pool, MIB, world.stream);
    tarn_share share;

    OK(tarn_free(freed));
    REFUSE(TARN_ERR_WRONG_STATE, "was not made to be shared",
           tarn_share_block(with.producer, other, &share));
    REFUSE(TARN_ERR_NOT_OURS, "not handed out", tarn_share_block(with.producer, &share, &share));
    REFUSE(TARN_ERR_INNER_ADDRESS, "inside",
           tarn_share_block(with.producer, (char *)with.block + 64, &share));
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed", tarn_share_block(with.producer, freed, &share));
    OK(tarn_free(other));
}

/* What was opened is another process's: no call of blocks knows it, and it cannot be shared on. */
TEST(calls, memory_that_was_opened_is_no_block_of_this_process)
{
    tarn_block block;
    tarn_share again;

    share_here();
    REFUSE(TARN_ERR_NOT_OURS, "another process", tarn_free(with.opened));
    REFUSE(TARN_ERR_NOT_OURS, "another process", tarn_block_at(with.opened, &block));
    REFUSE(TARN_ERR_NOT_OURS, "another process", tarn_record_stream(with.opened, world.side));
    REFUSE(TARN_ERR_NOT_OURS, "another process",
           tarn_share_block(with.producer, with.opened, &again));
    OK(tarn_share_close(with.consumer, with.opened));
    OK(tarn_share_collect(world.device, NULL));
}

TEST(calls, ends_while_leases_are_out)
{
    share_here();
    REFUSE(TARN_ERR_BUSY, "open", tarn_connection_destroy(with.consumer));
    REFUSE(TARN_ERR_BUSY, "leases", tarn_connection_destroy(with.producer));
    OK(tarn_share_close(with.consumer, with.opened));
    REFUSE(TARN_ERR_STALE, "over", tarn_share_open(with.consumer, &with.share, 0, &with.opened));
    OK(tarn_share_collect(world.device, NULL));
    REFUSE(TARN_ERR_STALE, "over", tarn_share_open(with.consumer, &with.share, 0, &with.opened));
    REFUSE(TARN_ERR_BUSY, "not accepted", tarn_listener_accept(with.listener, &with.producer));
}

TEST(calls, a_device_with_listeners_does_not_close)
{
    tarn_device *again;

    OK(tarn_device_open(0, NULL, &again));
    OK(tarn_device_close(again));
    OK(tarn_free(with.block));
    OK(tarn_pool_destroy(with.pool));
    OK(tarn_pool_destroy(world.pool));
    STATUS(TARN_ERR_BUSY, tarn_device_close(world.device));
    world.pool = test_pool("again");
    with.pool = shared_pool();
    with.block = test_alloc(with.pool, MIB, world.stream);
}

TEST(calls, shares_that_are_damaged_or_for_others)
{
    tarn_connection *other;
    tarn_share damaged;
    void *address = UNTOUCHED;

    share_here();
    damaged = with.share;
    damaged.bytes[20] ^= 1;
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "damaged",
           tarn_share_open(with.consumer, &damaged, 0, &address));
    damaged.bytes[4] ^= 2; /* the version */
    REFUSE(TARN_ERR_NOT_SUPPORTED, "version",
           tarn_share_open(with.consumer, &damaged, 0, &address));
    OK(tarn_connection_open(world.device, with.name, &other));
    REFUSE(TARN_ERR_BUSY, "greeted", tarn_share_open(other, &with.share, 1000, &address));
    OK(tarn_listener_progress(with.listener));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "another connection",
           tarn_share_open(other, &with.share, 1000, &address));
    OK(tarn_connection_destroy(other));
    ck_assert_untouched(address);
    OK(tarn_share_close(with.consumer, with.opened));
    OK(tarn_share_collect(world.device, NULL));
}

TEST(calls, each_end_hears_that_the_other_has_parted)
{
    tarn_connection_info info = TARN_CONNECTION_INFO_INIT;
    tarn_share share;

    OK(tarn_connection_destroy(with.consumer));
    OK(tarn_listener_progress(with.listener));
    OK(tarn_connection_describe(with.producer, &info));
    ck_assert_int_eq(info.state, TARN_CONNECTION_PARTED);
    REFUSE(TARN_ERR_PEER_LOST, "over", tarn_share_block(with.producer, with.block, &share));
    OK(tarn_connection_destroy(with.producer));
    connect_here();
    OK(tarn_share_block(with.producer, with.block, &with.share));
    OK(tarn_share_open(with.consumer, &with.share, 0, &with.opened));
    OK(tarn_share_close(with.consumer, with.opened));
    OK(tarn_connection_destroy(with.producer));
    OK(tarn_share_collect(world.device, NULL));
    REFUSE(TARN_ERR_PEER_LOST, "over",
           tarn_share_open(with.consumer, &with.share, 0, &with.opened));
    OK(tarn_connection_destroy(with.consumer));
    connect_here();
}

/* Limits ---------------------------------------------------------------------------------------- */

GROUP(limits, test_world_open, test_world_close)

TEST(limits, a_connection_has_so_many_leases_and_no_more)
{
    tarn_listener_options options = TARN_LISTENER_OPTIONS_INIT;
    tarn_share shares[3];
    void *there[2];

    options.lease_slots = 2;
    with.pool = shared_pool();
    with.block = test_alloc(with.pool, MIB, world.stream);
    listen_here(&options);
    connect_here();
    for (size_t i = 0; i < 2; i++) {
        OK(tarn_share_block(with.producer, with.block, &shares[i]));
        OK(tarn_share_open(with.consumer, &shares[i], 0, &there[i]));
    }
    REFUSE(TARN_ERR_LIMIT, "2 leases", tarn_share_block(with.producer, with.block, &shares[2]));
    OK(tarn_share_close(with.consumer, there[0]));
    OK(tarn_share_block(with.producer, with.block, &shares[2])); /* which collects */
    OK(tarn_share_open(with.consumer, &shares[2], 0, &there[0]));
    OK(tarn_share_close(with.consumer, there[0]));
    OK(tarn_share_close(with.consumer, there[1]));
    close_all();
    test_world_open();
}

/* Each block is in a chunk of its own, and each chunk is a message that the consumer does not read. */
TEST(limits, a_consumer_that_reads_nothing_is_sent_no_more)
{
    enum { MOST = 1000 };
    static tarn_pool *pools[MOST];
    static void *blocks[MOST];
    static tarn_share shares[MOST];
    tarn_status status = TARN_OK;
    size_t count = 0;
    void *there;

    with.pool = shared_pool();
    with.block = test_alloc(with.pool, MIB, world.stream);
    listen_here(NULL);
    connect_here();
    while (status == TARN_OK && count < MOST) {
        pools[count] = shared_pool();
        blocks[count] = test_alloc(pools[count], MIB, world.stream);
        status = tarn_share_block(with.producer, blocks[count], &shares[count]);
        count += 1;
    }
    STATUS(TARN_ERR_BUSY, tarn_share_block(with.producer, blocks[count - 1], &shares[count - 1]));
    for (size_t i = 0; i < count; i++) {
        if (i == count - 1)
            OK(tarn_share_block(with.producer, blocks[i], &shares[i]));
        OK(tarn_share_open(with.consumer, &shares[i], 0, &there));
        OK(tarn_share_close(with.consumer, there));
    }
    OK(tarn_share_collect(world.device, NULL));
    for (size_t i = 0; i < count; i++) {
        OK(tarn_free(blocks[i]));
        OK(tarn_pool_destroy(pools[i]));
    }
    close_all();
    test_world_open();
}

static void set_descriptors(rlim_t count)
{
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = count != 0 ? count : limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* The first one that is free: no process has one above. */
static rlim_t next_descriptor(void)
{
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);

    ck_assert_int_ge(next, 0);
    (void)close(next);
    return (rlim_t)next;
}

TEST(limits, a_process_without_descriptors_is_told_so)
{
    tarn_listener *listener = UNTOUCHED;
    tarn_connection *connection = UNTOUCHED;
    tarn_connection *waiting;
    tarn_status created;
    tarn_status opened;
    tarn_status progressed;
    rlim_t next;

    with.pool = shared_pool();
    with.block = test_alloc(with.pool, MIB, world.stream);
    listen_here(NULL);
    connect_here();
    OK(tarn_connection_open(world.device, with.name, &waiting));
    next = next_descriptor();
    for (rlim_t more = 0; more < 2; more++) {
        set_descriptors(next + more);
        created = tarn_listener_create(world.device, NULL, &listener);
        opened = tarn_connection_open(world.device, with.name, &connection);
        progressed = more == 0 ? tarn_listener_progress(with.listener) : TARN_ERR_LIMIT;
        set_descriptors(0); /* the suite's own notes need one */
        ck_assert_int_eq(created, TARN_ERR_LIMIT);
        ck_assert_int_eq(opened, TARN_ERR_LIMIT);
        ck_assert_int_eq(progressed, TARN_ERR_LIMIT);
        test_note_status("tarn_listener_create(", created, tarn_last_error());
        test_note_status("tarn_connection_open(", opened, tarn_last_error());
        test_note_status("tarn_listener_progress(", progressed, tarn_last_error());
    }
    OK(tarn_listener_progress(with.listener));
    OK(tarn_connection_destroy(waiting));
    close_all();
    test_world_open();
}

TEST(limits, names_that_are_taken_or_lead_nowhere)
{
    tarn_listener_options options = TARN_LISTENER_OPTIONS_INIT;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    tarn_listener *listener = UNTOUCHED;
    tarn_connection *connection = UNTOUCHED;
    tarn_connection *waiting[100];
    size_t count = 0;
    char name[56];
    int stream = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    listen_here(NULL);
    options.name = with.name;
    REFUSE(TARN_ERR_BUSY, "taken", tarn_listener_create(world.device, &options, &listener));
    options.name = "/nowhere/at/all";
    REFUSE(TARN_ERR_NOT_SUPPORTED, "nowhere",
           tarn_listener_create(world.device, &options, &listener));
    REFUSE(TARN_ERR_PEER_LOST, "nobody",
           tarn_connection_open(world.device, "/nowhere/at/all", &connection));
    /* A socket of another kind. */
    (void)snprintf(name, sizeof name, "@tarn-stream-%d", (int)getpid());
    memcpy(address.sun_path, name, strlen(name));
    address.sun_path[0] = '\0';
    ck_assert_int_eq(bind(stream, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))),
                     0);
    ck_assert_int_eq(listen(stream, 1), 0);
    REFUSE(TARN_ERR_PEER_LOST, name, tarn_connection_open(world.device, name, &connection));
    ck_assert_int_eq(close(stream), 0);
    while (tarn_connection_open(world.device, with.name, &waiting[count]) == TARN_OK) {
        count += 1;
        ck_assert_uint_lt(count, 100);
    }
    REFUSE(TARN_ERR_BUSY, "wait", tarn_connection_open(world.device, with.name, &connection));
    while (count > 0)
        OK(tarn_connection_destroy(waiting[--count]));
    OK(tarn_listener_destroy(with.listener));
    ck_assert_untouched(listener);
    ck_assert_untouched(connection);
}

static bool say_no(const tarn_peer *peer, void *user)
{
    *(int *)user += 1;
    STATUS(TARN_ERR_BUSY, tarn_listener_destroy(with.listener)); /* this call uses it */
    ck_assert_int_eq(peer->pid, (int)getpid());
    ck_assert_uint_eq(peer->uid, geteuid());
    return false;
}

TEST(limits, a_process_that_the_policy_refuses_has_nothing)
{
    tarn_listener_options options = TARN_LISTENER_OPTIONS_INIT;
    tarn_connection *refused;
    tarn_connection_info info = TARN_CONNECTION_INFO_INIT;
    tarn_listener *usual;
    struct pollfd ready = {.events = POLLIN};
    void *address = UNTOUCHED;
    int asked = 0;

    with.pool = shared_pool();
    with.block = test_alloc(with.pool, MIB, world.stream);
    listen_here(NULL);
    connect_here();
    share_here();
    usual = with.listener;

    options.policy = say_no;
    options.user = &asked;
    listen_here(&options);
    OK(tarn_listener_descriptor(with.listener, &ready.fd));
    ck_assert_int_eq(poll(&ready, 1, 0), 0);
    OK(tarn_connection_open(world.device, with.name, &refused));
    ck_assert_int_eq(poll(&ready, 1, 0), 1);
    OK(tarn_listener_progress(with.listener));
    ck_assert_int_eq(asked, 1);
    OK(tarn_share_collect(world.device, NULL));
    OK(tarn_connection_describe(refused, &info));
    ck_assert_int_eq(info.state, TARN_CONNECTION_PARTED);
    STATUS(TARN_ERR_BUSY, tarn_listener_accept(with.listener, &with.producer));
    REFUSE(TARN_ERR_NOT_PERMITTED, "policy", tarn_share_open(refused, &with.share, 0, &address));
    ck_assert_untouched(address);
    OK(tarn_connection_destroy(refused));
    OK(tarn_listener_destroy(with.listener));
    with.listener = usual;
    OK(tarn_share_close(with.consumer, with.opened));
    close_all();
    test_world_open();
}

/* The driver ------------------------------------------------------------------------------------ */

TEST(calls, a_driver_that_refuses)
{
    tarn_listener *listener = UNTOUCHED;
    void *address = UNTOUCHED;
    tarn_share share;

    sim.plan_fault("cuDeviceGetAttribute", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    REFUSE(TARN_ERR_DRIVER, "cuDeviceGetAttribute",
           tarn_listener_create(world.device, NULL, &listener));
    sim.plan_fault("cuMemExportToShareableHandle", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    REFUSE(TARN_ERR_DRIVER, "cuMemExportToShareableHandle",
           tarn_share_block(with.producer, with.block, &share));
    OK(tarn_share_block(with.producer, with.block, &with.share));
    sim.plan_fault("cuMemAddressReserve", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_ADDRESS_SPACE, tarn_share_open(with.consumer, &with.share, 0, &address));
    sim.plan_fault("cuMemMap", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_share_open(with.consumer, &with.share, 0, &address));
    sim.plan_fault("cuMemMap", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_share_open(with.consumer, &with.share, 0, &address));
    ck_assert_untouched(address);
    OK(tarn_share_open(with.consumer, &with.share, 0, &address));
    OK(tarn_share_close(with.consumer, address));
    OK(tarn_share_collect(world.device, NULL));
}

static void refuse_all(tarn_status status)
{
    tarn_listener *listener = UNTOUCHED;
    tarn_connection *connection = UNTOUCHED;
    void *address = UNTOUCHED;
    tarn_share share;

    STATUS(status, tarn_listener_create(world.device, NULL, &listener));
    STATUS(status, tarn_listener_progress(with.listener));
    STATUS(status, tarn_connection_open(world.device, with.name, &connection));
    STATUS(status, tarn_share_block(with.producer, with.block, &share));
    STATUS(status, tarn_share_open(with.consumer, &with.share, 0, &address));
    ck_assert_untouched(listener);
    ck_assert_untouched(connection);
    ck_assert_untouched(address);
}

GROUP(lost, open_all)

/* What was opened is closed, and what was leased is had back. */
static void release_all(void)
{
    OK(tarn_share_close(with.consumer, with.opened));
    OK(tarn_connection_destroy(with.consumer));
    OK(tarn_connection_destroy(with.producer));
    OK(tarn_listener_destroy(with.listener));
    OK(tarn_free(with.block));
}

TEST(lost, a_lost_device_shares_nothing_and_lets_go)
{
    void *address = NULL;

    share_here();
    test_fill(world.stream, (char *)with.block + 64 * GIB, 1, 1);
    ck_assert_int_eq(test_stream_result(world.stream), TN_CUDA_ERROR_ILLEGAL_ADDRESS);
    STATUS(TARN_ERR_DEVICE_LOST, tarn_malloc(world.device, 64 * MIB, world.stream, &address));
    refuse_all(TARN_ERR_DEVICE_LOST);
    release_all();
}

TEST(lost, a_poisoned_device_shares_nothing_and_lets_go)
{
    share_here();
    OK(tarn_free(test_alloc(world.pool, MIB, world.stream)));
    sim.plan_fault("cuMemUnmap", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    TARN_IGNORE(tarn_pool_trim(world.pool, NULL));
    refuse_all(TARN_ERR_POISONED);
    release_all();
}
