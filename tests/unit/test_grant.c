// SPDX-License-Identifier: Apache-2.0
/* What ends a lease, and what does not. Both ends are in this process. */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "share/channel.h"
#include "share/grant.h"
#include "share/listener.h"
#include "share/opened.h"
#include "share/receive.h"
#include "unit/unit.h"

static tarn_device *device;
static tarn_pool *pool;
static tn_cu_stream stream;
static tarn_listener *listener;
static tarn_connection *producer;
static tarn_connection *consumer;

static void connect_on_device(void)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    char name[56];

    options.flags = TARN_POOL_SHARED;
    OK(tarn_pool_create(device, &options, &pool));
    stream = test_stream();
    OK(tarn_listener_create(device, NULL, &listener));
    OK(tarn_listener_name(listener, name));
    OK(tarn_connection_open(device, name, &consumer));
    OK(tarn_listener_progress(listener));
    OK(tarn_listener_accept(listener, &producer));
}

static void close_socket(tarn_connection *connection)
{
    tn_lock_acquire(&connection->lock);
    tn_connection_part(connection);
    tn_lock_release(&connection->lock);
}

static void return_slot(uint32_t slot, uint32_t generation)
{
    atomic_store(&consumer->tables.returns[slot], tn_slot_word(generation, TN_SLOT_RETURNED));
}

/* A lease of a block that was freed since. */
static void *leased(struct tn_share *share)
{
    void *block = unit_alloc(pool, 4096, stream);

    OK(tn_grant_block(producer, (uint64_t)(uintptr_t)block, NULL, share));
    OK(tarn_free(block));
    ck_assert_int_eq(unit_block(block)->state, TN_BLOCK_PENDING);
    return block;
}

static size_t count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    size_t count = 0;

    ck_assert_ptr_nonnull(folder);
    while (readdir(folder) != NULL)
        count += 1;
    (void)closedir(folder);
    return count;
}

static size_t count_connections(void)
{
    size_t count = 0;

    for (tarn_connection *connection = tn_connection_next(device, NULL); connection != NULL;
         connection = tn_connection_next(device, connection))
        count += 1;
    return count;
}

static void connect_alone(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    test_start();
    options.overrun_alignment = 16;
    OK(tarn_device_open(0, &options, &device));
    connect_on_device();
}

static void connect_here(void)
{
    device = unit_device();
    connect_on_device();
}

GROUP(alone, connect_alone)

/* A block whose user's address lies behind its own. */
TEST(alone, a_block_that_ends_with_its_pages_is_where_its_user_has_it)
{
    struct tn_share share;
    uint64_t address;
    char *block = unit_alloc(pool, 1000, stream);

    ck_assert_uint_ne((uint64_t)(uintptr_t)block % 512, 0);
    memset(block, 7, 1000); /* the simulated memory is the process's, too */
    OK(tn_grant_block(producer, (uint64_t)(uintptr_t)block, NULL, &share));
    OK(tn_share_open(consumer, &share, NULL, &address));
    ck_assert_uint_eq((uint64_t)(uintptr_t)block % 512, address % 512);
    ck_assert_mem_eq((const void *)(uintptr_t)address, block, 1000);
    OK(tarn_free(block));
    OK(tn_share_close(consumer, address, NULL));
    ck_assert_uint_eq(tn_shares_collect(device), 1);
}

GROUP(grants, connect_here)

/* The end of a socket proves nothing: a process that lives may read the memory. */
TEST(grants, the_end_of_the_socket_ends_no_lease)
{
    struct tn_share share;
    void *block = leased(&share);

    close_socket(consumer);
    ck_assert_uint_eq(tn_shares_collect(device), 0);
    ck_assert_int_eq(producer->state, TN_CONNECTION_PARTED);
    ck_assert_uint_eq(producer->producer.granted_count, 1);
    ck_assert_int_eq(unit_block(block)->state, TN_BLOCK_PENDING);
    OK(tarn_pool_validate(pool));
    return_slot(share.slot, share.generation); /* as its last word in the table */
    ck_assert_uint_eq(tn_shares_collect(device), 1);
    ck_assert_int_ne(unit_block(block)->state, TN_BLOCK_PENDING);
    OK(tarn_pool_validate(pool));
}

/* What a hostile consumer may write. */
TEST(grants, a_return_of_another_generation_or_state_says_nothing)
{
    struct tn_share share;
    void *block = leased(&share);

    return_slot(share.slot, share.generation + 1);
    ck_assert_uint_eq(tn_shares_collect(device), 0);
    return_slot(share.slot, share.generation - 1);
    ck_assert_uint_eq(tn_shares_collect(device), 0);
    atomic_store(&consumer->tables.returns[share.slot], UINT64_MAX);
    ck_assert_uint_eq(tn_shares_collect(device), 0);
    atomic_store(&consumer->tables.returns[share.slot + 1],
                 tn_slot_word(share.generation, TN_SLOT_RETURNED)); /* a slot that nobody had */
    ck_assert_uint_eq(tn_shares_collect(device), 0);
    ck_assert_int_eq(unit_block(block)->state, TN_BLOCK_PENDING);
    return_slot(share.slot, share.generation);
    ck_assert_uint_eq(tn_shares_collect(device), 1);
}

TEST(grants, a_slot_has_another_generation_for_each_lease)
{
    struct tn_share first;
    struct tn_share second;

    (void)leased(&first);
    return_slot(first.slot, first.generation);
    ck_assert_uint_eq(tn_shares_collect(device), 1);
    (void)leased(&second);
    ck_assert_uint_eq(second.slot, first.slot);
    ck_assert_uint_eq(second.generation, first.generation + 1);
    ck_assert_uint_eq(tn_shares_collect(device), 0); /* the old return is still there */
    return_slot(second.slot, second.generation);
    ck_assert_uint_eq(tn_shares_collect(device), 1);
}

TEST(grants, a_slot_whose_generations_are_exhausted_is_not_used_again)
{
    struct tn_share share;

    (void)leased(&share);
    return_slot(share.slot, share.generation);
    ck_assert_uint_eq(tn_shares_collect(device), 1);
    producer->producer.leases[share.slot].generation = TN_SHARE_GENERATION_MAX - 1;
    (void)leased(&share);
    ck_assert_uint_eq(share.generation, TN_SHARE_GENERATION_MAX);
    return_slot(share.slot, share.generation);
    ck_assert_uint_eq(tn_shares_collect(device), 1);
    (void)leased(&share);
    ck_assert_uint_eq(share.generation, 1);
    return_slot(share.slot, share.generation);
    ck_assert_uint_eq(tn_shares_collect(device), 1);
}

TEST(grants, a_block_has_as_many_leases_as_shares_and_waits_for_all)
{
    struct tn_share shares[3];
    void *block = unit_alloc(pool, 4096, stream);

    for (size_t i = 0; i < 3; i++)
        OK(tn_grant_block(producer, (uint64_t)(uintptr_t)block, NULL, &shares[i]));
    OK(tarn_free(block));
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(unit_block(block)->state, TN_BLOCK_PENDING);
        OK(tarn_pool_validate(pool));
        return_slot(shares[i].slot, shares[i].generation);
        ck_assert_uint_eq(tn_shares_collect(device), 1);
    }
    ck_assert_int_ne(unit_block(block)->state, TN_BLOCK_PENDING);
}

/* L3: a lease that could not be had leaves no watch. */
TEST(grants, a_lease_without_host_memory_changes_nothing)
{
    void *block = unit_alloc(pool, 4096, stream);
    struct tn_share share;
    tarn_status status = TARN_ERR_HOST_MEMORY;
    uint64_t refused = 0;

    for (uint64_t nth = 1; status != TARN_OK; nth++) {
        (void)tn_host_plan_fault(nth, false);
        status = tn_grant_block(producer, (uint64_t)(uintptr_t)block, NULL, &share);
        refused += tn_host_plan_fault(0, false);
        ck_assert(status == TARN_OK || status == TARN_ERR_HOST_MEMORY);
        ck_assert_uint_eq(pool->watches.count, status == TARN_OK);
        OK(tarn_pool_validate(pool));
    }
    ck_assert_uint_gt(refused, 0);
    return_slot(share.slot, share.generation);
    ck_assert_uint_eq(tn_shares_collect(device), 1);
}

/* What a hostile producer may write: the consumer stays in its mappings. */
TEST(grants, a_consumer_believes_no_grant_beyond_its_chunks)
{
    static const struct {
        uint64_t offset;
        uint64_t bytes;
        unsigned first;
        unsigned count;
    } bad[] = {
        {0, 4096, TN_SHARE_CHUNKS_MAX, 1},
        {0, 4096, UINT32_MAX, 1},
        {0, 4096, 0, 0},
        {0, 4096, 0, TN_IMPORT_RUN_MAX + 1},
        {UINT64_MAX, 4096, 0, 1},
        {1 << 30, 4096, 0, 1},
        {0, UINT64_MAX, 0, 1},
    };
    void *block = unit_alloc(pool, 4096, stream);
    struct tn_share share;
    struct tn_grant *grant;
    uint64_t address = 7;

    OK(tn_grant_block(producer, (uint64_t)(uintptr_t)block, NULL, &share));
    tn_lock_acquire(&consumer->lock);
    tn_receive_messages(consumer);
    tn_lock_release(&consumer->lock);
    grant = &producer->tables.grants[share.slot];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct tn_share same = share;

        same.bytes = bad[i].bytes;
        atomic_store(&grant->offset, bad[i].offset);
        atomic_store(&grant->bytes, bad[i].bytes);
        atomic_store(&grant->first_chunk, bad[i].first);
        atomic_store(&grant->chunk_count, bad[i].count);
        ck_assert_int_eq(tn_share_open(consumer, &same, NULL, &address), TARN_ERR_PEER_LOST);
        ck_assert_uint_eq(address, 7);
        ck_assert_int_eq(consumer->state, TN_CONNECTION_READY);
    }
}

TEST(grants, a_share_that_has_no_host_memory_may_be_opened_again)
{
    void *block = unit_alloc(pool, 4096, stream);
    struct tn_share share;
    tarn_status status = TARN_ERR_HOST_MEMORY;
    uint64_t address = 7;
    uint64_t refused = 0;

    OK(tn_grant_block(producer, (uint64_t)(uintptr_t)block, NULL, &share));
    tn_lock_acquire(&consumer->lock);
    tn_receive_messages(consumer);
    tn_lock_release(&consumer->lock);
    for (uint64_t nth = 1; status != TARN_OK; nth++) {
        (void)tn_host_plan_fault(nth, false);
        status = tn_share_open(consumer, &share, NULL, &address);
        refused += tn_host_plan_fault(0, false);
        ck_assert(status == TARN_OK || (status == TARN_ERR_HOST_MEMORY && address == 7));
    }
    ck_assert_uint_gt(refused, 0);
    ck_assert_uint_ne(address, 7);
    OK(tn_share_close(consumer, address, NULL));
    ck_assert_uint_eq(tn_shares_collect(device), 1);
}

TEST(grants, the_end_of_the_consumer_returns_what_it_never_opened)
{
    struct tn_share shares[3];
    uint64_t address;

    for (size_t i = 0; i < 3; i++)
        (void)leased(&shares[i]);
    OK(tn_share_open(consumer, &shares[1], NULL, &address));
    OK(tn_share_close(consumer, address, NULL));
    ck_assert_uint_eq(tn_shares_collect(device), 1);
    OK(tarn_connection_destroy(consumer));
    ck_assert_uint_eq(tn_shares_collect(device), 2);
    OK(tarn_connection_destroy(producer));
}

/* Whose messages never end, were they all to be taken. */
TEST(grants, a_round_of_the_consumer_takes_some_messages_of_many)
{
    enum { BLOCKS = 40 };
    struct tn_share shares[BLOCKS];
    tarn_pool *pools[BLOCKS];
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    uint64_t address;
    int calls = 1;

    options.flags = TARN_POOL_SHARED;
    for (size_t i = 0; i < BLOCKS; i++) { /* each in a chunk of its own, and each chunk a message */
        OK(tarn_pool_create(device, &options, &pools[i]));
        OK(tn_grant_block(producer, (uint64_t)(uintptr_t)unit_alloc(pools[i], 4096, stream), NULL,
                          &shares[i]));
    }
    while (tn_share_open(consumer, &shares[BLOCKS - 1], NULL, &address) == TARN_ERR_BUSY)
        calls += 1;
    ck_assert_int_eq(calls, 3); /* 16, 16, and what is left */
    OK(tn_share_close(consumer, address, NULL));
    OK(tarn_connection_destroy(consumer));
    OK(tarn_connection_destroy(producer));
}

/* The arrays and the chunk of a connection: a shortage that passes does not end it. */
TEST(grants, a_consumer_without_host_memory_takes_the_message_later)
{
    char name[56];

    OK(tarn_listener_name(listener, name));
    for (uint64_t nth = 1; nth <= 4; nth++) {
        tarn_connection *other;
        size_t before;

        OK(tarn_connection_open(device, name, &other));
        OK(tn_connection_claim(other, 0));
        OK(tn_listener_progress(listener)); /* which does not serve this end */
        tn_connection_yield(other);
        (void)tn_host_plan_fault(nth, false);
        tn_lock_acquire(&other->lock);
        tn_receive_messages(other);
        ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
        ck_assert_int_eq(other->state, TN_CONNECTION_GREETING);
        ck_assert_ptr_null(other->consumer.heads);
        tn_lock_release(&other->lock);
        STATUS(TARN_ERR_NOT_OURS, tarn_share_close(other, listener));
        before = count_descriptors();
        OK(tarn_share_collect(device, NULL));
        ck_assert_int_eq(other->state, TN_CONNECTION_READY);
        ck_assert_uint_eq(count_descriptors(), before - 2); /* of the tables */
        OK(tarn_connection_destroy(other));
    }
}

TEST(grants, a_chunk_that_finds_no_host_memory_comes_again)
{
    struct tn_share share;
    void *block = unit_alloc(pool, 4096, stream);
    tarn_status status = TARN_ERR_HOST_MEMORY;
    uint64_t refused = 0;
    uint64_t address;

    OK(tn_grant_block(producer, (uint64_t)(uintptr_t)block, NULL, &share));
    for (uint64_t nth = 1; status != TARN_OK; nth++) {
        (void)tn_host_plan_fault(nth, false);
        status = tn_share_open(consumer, &share, NULL, &address);
        refused += tn_host_plan_fault(0, false);
        ck_assert(status == TARN_OK || status == TARN_ERR_HOST_MEMORY);
        ck_assert_int_eq(consumer->state, TN_CONNECTION_READY);
    }
    ck_assert_uint_gt(refused, 1);
    OK(tn_share_close(consumer, address, NULL));
}

static void set_descriptors(rlim_t count)
{
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = count != 0 ? count : limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST(grants, a_chunk_that_finds_no_descriptor_comes_again)
{
    struct tn_share share;
    void *block = unit_alloc(pool, 4096, stream);
    tarn_status status;
    uint64_t address;
    int next;

    OK(tn_grant_block(producer, (uint64_t)(uintptr_t)block, NULL, &share));
    next = dup(0);
    ck_assert_int_eq(close(next), 0);
    set_descriptors((rlim_t)next);
    status = tn_share_open(consumer, &share, NULL, &address);
    set_descriptors(0);
    ck_assert_int_eq(status, TARN_ERR_LIMIT);
    ck_assert_int_eq(consumer->state, TN_CONNECTION_READY);
    OK(tn_share_open(consumer, &share, NULL, &address));
    OK(tn_share_close(consumer, address, NULL));
}

TEST(grants, a_listener_that_could_not_be_made_leaves_no_path)
{
    tarn_listener_options options = TARN_LISTENER_OPTIONS_INIT;
    tarn_listener *other;
    tarn_status status = TARN_ERR_HOST_MEMORY;
    uint64_t refused = 0;
    char path[56];

    (void)snprintf(path, sizeof path, "/tmp/tarn-grant-%d", (int)getpid());
    options.name = path;
    for (uint64_t nth = 1; status != TARN_OK; nth++) {
        (void)tn_host_plan_fault(nth, false);
        status = tn_listener_create(device, &options, &other);
        refused += tn_host_plan_fault(0, false);
        ck_assert(status == TARN_OK || status == TARN_ERR_HOST_MEMORY);
        ck_assert_int_eq(access(path, F_OK), status == TARN_OK ? 0 : -1);
    }
    ck_assert_uint_gt(refused, 0);
    STATUS(TARN_ERR_BUSY, tarn_listener_create(device, &options, &other));
    ck_assert_int_eq(access(path, F_OK), 0); /* the path is the other's */
    OK(tarn_listener_destroy(other));
    ck_assert_int_eq(access(path, F_OK), -1);
}

/* A hostile consumer that never says HELLO, again and again. */
TEST(grants, a_listener_has_64_connections_that_have_not_greeted)
{
    enum { SILENT = 64, MORE = 3 };
    struct tn_message message;
    int none[TN_SHARE_DESCRIPTORS_MAX];
    int silent[SILENT + MORE];
    tarn_connection *greeting;
    char name[56];

    OK(tarn_listener_name(listener, name));
    for (size_t i = 0; i < SILENT + MORE; i++) {
        OK(tn_channel_connect(name, &silent[i]));
        OK(tarn_listener_progress(listener));
    }
    ck_assert_uint_eq(count_connections(), 2 + SILENT);
    STATUS(TARN_ERR_BUSY, tn_channel_receive(silent[SILENT - 1], &message, none));
    for (size_t i = SILENT; i < SILENT + MORE; i++) {
        OK(tn_channel_receive(silent[i], &message, none));
        ck_assert_uint_eq(message.kind, TN_MESSAGE_REFUSAL);
        ck_assert_uint_eq(message.refusal, TN_REFUSAL_LIMIT);
    }
    tn_channel_close(&silent[0]);
    OK(tarn_listener_progress(listener));
    OK(tarn_connection_open(device, name, &greeting));
    OK(tarn_listener_progress(listener));
    ck_assert_int_eq(greeting->state, TN_CONNECTION_READY);
    OK(tarn_connection_destroy(greeting));
    for (size_t i = 1; i < SILENT + MORE; i++)
        tn_channel_close(&silent[i]);
    OK(tarn_listener_progress(listener));
    ck_assert_uint_eq(count_connections(), 2);
}

/* A hostile consumer sends what only a producer may. */
TEST(grants, descriptors_that_a_consumer_sends_are_closed)
{
    const struct tn_message chunk = {.magic = TN_MESSAGE_MAGIC,
                                     .version = TN_SHARE_VERSION,
                                     .kind = TN_MESSAGE_CHUNK,
                                     .connection_id = producer->id,
                                     .generation = 1,
                                     .bytes = 2 * TN_MIB};
    size_t before = count_descriptors();
    int sent = 0;

    OK(tn_channel_send(consumer->channel, &chunk, &sent));
    ck_assert_uint_eq(tn_shares_collect(device), 0);
    ck_assert_int_eq(producer->state, TN_CONNECTION_PARTED);
    ck_assert_int_eq(consumer->state, TN_CONNECTION_PARTED); /* a later look of its own */
    ck_assert_uint_eq(count_descriptors(), before - 2);      /* both sockets */
}

/* Threads that end the same -------------------------------------------------------------------- */

enum { THREADS = 3, ROUNDS = 300 };

static tarn_connection *ended;
static atomic_uint times_ended;

static void *go_on(void *unused)
{
    for (int i = 0; i < 3; i++)
        OK(tarn_listener_progress(listener));
    return unused;
}

static void *end_it(void *unused)
{
    tarn_status status;

    do {
        status = tarn_connection_destroy(ended);
    } while (status == TARN_ERR_BUSY);
    ck_assert(status == TARN_OK || status == TARN_ERR_INVALID_HANDLE);
    atomic_fetch_add(&times_ended, status == TARN_OK);
    return unused;
}

static void run_all(void *(*function)(void *))
{
    pthread_t threads[THREADS];

    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, function, NULL), 0);
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}

TEST(grants, a_connection_ends_once_whoever_serves_it)
{
    char name[56];
    tarn_connection *others[4];

    OK(tarn_listener_name(listener, name));
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < 4; i++)
            OK(tarn_connection_open(device, name, &others[i]));
        OK(tarn_listener_progress(listener));
        for (size_t i = 0; i < 4; i++)
            OK(tarn_connection_destroy(others[i]));
        run_all(go_on);
        OK(tarn_listener_progress(listener));
        ck_assert_uint_eq(count_connections(), 2);
    }
}

/* Another thread serves the connection while the listener is destroyed. */
TEST(grants, a_connection_that_outlives_its_listener_unaccepted_ends_later)
{
    tarn_connection *other;
    tarn_connection *served;
    char name[56];

    OK(tarn_listener_name(listener, name));
    OK(tarn_connection_open(device, name, &other));
    OK(tarn_listener_progress(listener));
    served = tn_connection_next(device, NULL);
    ck_assert(served->is_producer && served != producer);
    OK(tarn_listener_destroy(listener));
    ck_assert_uint_eq(count_connections(), 4);
    tn_pins_drop(&served->pins);
    OK(tarn_share_collect(device, NULL));
    ck_assert_uint_eq(count_connections(), 3);
    OK(tarn_connection_destroy(other));
    OK(tarn_connection_destroy(consumer));
    OK(tarn_connection_destroy(producer)); /* it was accepted, and stays until here */
}

/* Which an allocation without memory enters. */
TEST(grants, the_ladder_serves_connections_whose_listener_is_gone)
{
    struct tn_share share;
    void *block = leased(&share);
    struct tn_callback *callback;

    OK(tarn_listener_destroy(listener));
    return_slot(share.slot, share.generation);
    callback = tn_callbacks_enter(&device->free_callbacks, 0);
    ck_assert_ptr_nonnull(callback);
    ck_assert(((tarn_free_callback)callback->function)(device, 4096, callback->user));
    tn_callbacks_leave(&device->free_callbacks, callback);
    ck_assert_int_ne(unit_block(block)->state, TN_BLOCK_PENDING);
    ck_assert_ptr_null(tn_callbacks_enter(&device->free_callbacks, callback->id));
    OK(tarn_connection_destroy(consumer));
    OK(tarn_connection_destroy(producer));
}

static void *shared;
static struct tn_share share_got;
static tarn_status share_status;

static void *share_it(void *unused)
{
    tarn_share sealed;

    share_status = tarn_share_block(ended, shared, &sealed);
    if (share_status == TARN_OK)
        OK(tn_share_check(&sealed, &share_got));
    return unused;
}

/* Waits for as long as the other thread needs to come between. */
static void linger(int steps)
{
    for (atomic_int i = 0; i < steps; i++)
        continue;
}

/* L3: no watch is left on a lease that is gone. */
TEST(grants, a_connection_that_gets_a_lease_does_not_end)
{
    tarn_connection *other;
    char name[56];

    shared = unit_alloc(pool, 4096, stream);
    OK(tarn_listener_name(listener, name));
    for (int round = 0; round < 2 * ROUNDS; round++) {
        pthread_t thread;
        tarn_status status;
        uint64_t address;

        OK(tarn_connection_open(device, name, &other));
        OK(tarn_listener_progress(listener));
        OK(tarn_listener_accept(listener, &ended));
        ck_assert_int_eq(pthread_create(&thread, NULL, share_it, NULL), 0);
        linger(round * 40);
        status = tarn_connection_destroy(ended);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert(status == TARN_OK || status == TARN_ERR_BUSY);
        ck_assert(status != TARN_OK || share_status == TARN_ERR_INVALID_HANDLE);
        if (share_status == TARN_OK) {
            OK(tn_share_open(other, &share_got, NULL, &address));
            OK(tn_share_close(other, address, NULL));
        }
        if (status != TARN_OK)
            OK(tarn_connection_destroy(ended));
        ck_assert_uint_eq(pool->watches.count, 0);
        OK(tarn_connection_destroy(other));
    }
}

static size_t seen_by_policy;

static bool look(const tarn_peer *peer, void *unused)
{
    (void)peer;
    (void)unused;
    seen_by_policy = count_connections();
    OK(tarn_share_collect(device, NULL)); /* as another thread may meanwhile */
    return seen_by_policy < 4;
}

TEST(grants, nobody_meets_a_connection_before_the_policy_has_agreed)
{
    tarn_listener_options options = TARN_LISTENER_OPTIONS_INIT;
    tarn_listener *other;
    tarn_connection *connections[2];
    char name[56];

    options.policy = look;
    OK(tarn_listener_create(device, &options, &other));
    OK(tarn_listener_name(other, name));
    for (size_t i = 0; i < 2; i++) {
        OK(tarn_connection_open(device, name, &connections[i]));
        OK(tarn_listener_progress(other));
        ck_assert_uint_eq(seen_by_policy, 3 + 2 * i); /* its own end is not among them */
    }
    OK(tarn_listener_destroy(other));
    for (size_t i = 0; i < 2; i++)
        OK(tarn_connection_destroy(connections[i]));
}

TEST(grants, a_connection_ends_once_whoever_destroys_it)
{
    char name[56];

    OK(tarn_listener_name(listener, name));
    for (int round = 0; round < ROUNDS; round++) {
        OK(tarn_connection_open(device, name, &ended));
        atomic_store(&times_ended, 0);
        run_all(end_it);
        ck_assert_uint_eq(atomic_load(&times_ended), 1);
        OK(tarn_listener_progress(listener));
    }
}
