// SPDX-License-Identifier: Apache-2.0
/* Many threads at once: allocation, pools, captures, polls, and closing. */
#include <pthread.h>
#include <stdatomic.h>

#include "support/world.h"

enum { THREADS = 8, ROUNDS = 60, KEPT = 16 };

/* What a thread needs from the driver is made before it starts. */
struct worker {
    pthread_t thread;
    uint32_t number;
    tn_cu_stream stream;
};
static struct worker workers[THREADS];
static tn_cu_context context;

static void run_workers(void *(*body)(void *))
{
    context = test_context();
    for (uint32_t i = 0; i < THREADS; i++)
        workers[i] = (struct worker){.number = i, .stream = test_stream()};
    for (uint32_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, body, &workers[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(workers[i].thread, NULL), 0);
        test_destroy_stream(workers[i].stream);
    }
}

static size_t size_of(uint32_t seed)
{
    static const size_t sizes[] = {512, 1000, 4096, 70000, MIB, 3 * MIB, 8 * MIB};

    return sizes[seed % (sizeof sizes / sizeof sizes[0])];
}

static void *allocate_and_free(void *argument)
{
    struct worker *worker = argument;
    void *blocks[KEPT] = {NULL};
    tarn_block block;

    test_set_context(context);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t slot = round * 7 % KEPT;
        uint32_t value = worker->number << 16 | slot;

        if (blocks[slot] != NULL) {
            test_expect_words(worker->stream, blocks[slot], value, 64);
            OK(tarn_free(blocks[slot]));
        }
        if (round % 2 == 0)
            OK(tarn_malloc(world.device, size_of(round + worker->number), worker->stream,
                           &blocks[slot]));
        else
            OK(tarn_pool_malloc(world.pool, size_of(round + worker->number), 0, worker->stream,
                                &blocks[slot]));
        test_fill(worker->stream, blocks[slot], value, 64);
        OK(tarn_block_at(blocks[slot], &block));
        if (round % 20 == 19)
            OK(tarn_pool_trim(world.pool, NULL));
    }
    for (int slot = 0; slot < KEPT; slot++)
        OK(tarn_free(blocks[slot]));
    return NULL;
}

GROUP(threads, test_world_open, test_world_close)

TEST(threads, eight_threads_allocate_and_free)
{
    run_workers(allocate_and_free);
    OK(tarn_pool_validate(world.pool));
    OK(tarn_pool_validate(world.default_pool));
    ck_assert_uint_eq(test_device_stats().live_bytes, 0);
    ck_assert_uint_eq(test_stats(world.pool).alloc_count +
                          test_stats(world.default_pool).alloc_count,
                      THREADS * ROUNDS);
}

static _Atomic(void *) handed_over[THREADS];

/* Each thread frees what its neighbour has allocated on a stream of its own, and what that was too slow to free. */
static void *visit_the_neighbour(void *argument)
{
    struct worker *worker = argument;
    uint32_t neighbour = (worker->number + 1) % THREADS;
    void *kept = test_alloc(world.pool, MIB, worker->stream);

    test_set_context(context);
    test_fill(worker->stream, kept, worker->number, 64);
    for (uint32_t round = 0; round < 20 * ROUNDS; round++) {
        void *mine = test_alloc(world.pool, size_of(round / 16), worker->stream);

        if (round % 16 == 0)
            test_fill(worker->stream, mine, round, 64);
        mine = atomic_exchange(&handed_over[worker->number], mine);
        OK(tarn_free(mine));
        OK(tarn_free(atomic_exchange(&handed_over[neighbour], NULL)));
        if (round % 256 == 255)
            OK(tarn_pool_validate(world.pool));
    }
    test_expect_words(worker->stream, kept, worker->number, 64);
    OK(tarn_free(kept));
    return NULL;
}

TEST(threads, blocks_may_be_freed_by_threads_that_use_no_stream)
{
    void *last = NULL;

    run_workers(visit_the_neighbour);
    for (int i = 0; i < THREADS; i++) {
        void *left = atomic_exchange(&handed_over[i], NULL);

        last = left != NULL ? left : last;
        OK(tarn_free(left));
    }
    if (last != NULL)
        STATUS(TARN_ERR_DOUBLE_FREE, tarn_free(last));
    OK(tarn_pool_validate(world.pool));
    ck_assert_uint_eq(test_stats(world.pool).live_count, 0);
    ck_assert_uint_eq(test_stats(world.pool).alloc_count, THREADS * (20 * ROUNDS + 1));
    ck_assert_uint_eq(test_stats(world.pool).free_count, THREADS * (20 * ROUNDS + 1));
}

/* Each thread frees what its neighbour has allocated, on streams of both. */
static void *free_the_neighbours(void *argument)
{
    struct worker *worker = argument;
    uint32_t neighbour = (worker->number + 1) % THREADS;

    test_set_context(context);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        void *mine = test_alloc(world.pool, size_of(round), worker->stream);
        void *theirs;

        test_fill(worker->stream, mine, round, 64);
        OK(tarn_record_stream(mine, world.side));
        mine = atomic_exchange(&handed_over[worker->number], mine);
        OK(tarn_free(mine));
        theirs = atomic_exchange(&handed_over[neighbour], NULL);
        OK(tarn_free_on(theirs, worker->stream));
    }
    return NULL;
}

TEST(threads, blocks_may_be_freed_by_any_thread)
{
    run_workers(free_the_neighbours);
    for (int i = 0; i < THREADS; i++)
        OK(tarn_free(handed_over[i]));
    OK(tarn_pool_validate(world.pool));
    ck_assert_uint_eq(test_stats(world.pool).live_count, 0);
    ck_assert_uint_eq(test_stats(world.pool).alloc_count, test_stats(world.pool).free_count);
}

/* Streams come and go on every thread, while others free what was allocated on them, record streams of
 * their own for it, and look for memory. */
static void *come_and_go(void *argument)
{
    struct worker *worker = argument;
    uint32_t neighbour = (worker->number + 1) % THREADS;

    test_set_context(context);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        tn_cu_stream stream = test_stream();
        void *mine = test_alloc(world.pool, size_of(round), stream);
        void *theirs;

        test_fill(stream, mine, round, 64);
        if (round % 2 == 0)
            OK(tarn_record_stream(mine, worker->stream));
        mine = atomic_exchange(&handed_over[worker->number], mine);
        theirs = atomic_exchange(&handed_over[neighbour], NULL);
        if (theirs != NULL && round % 3 == 0)
            OK(tarn_record_stream(theirs, stream));
        if (round % 4 != 0)
            OK(tarn_stream_retire(world.device, stream));
        OK(tarn_free(theirs));
        OK(tarn_free(mine));
        if (round % 4 == 0)
            OK(tarn_stream_retire(world.device, stream));
        test_destroy_stream(stream);
        if (round % 20 == 19)
            OK(tarn_pool_trim(world.pool, NULL));
    }
    OK(tarn_stream_retire(world.device, worker->stream));
    return NULL;
}

TEST(threads, streams_come_and_go_on_eight_threads)
{
    run_workers(come_and_go);
    for (int i = 0; i < THREADS; i++)
        OK(tarn_free(atomic_exchange(&handed_over[i], NULL)));
    OK(tarn_pool_validate(world.pool));
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_eq(test_stats(world.pool).live_count, 0);
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 0);
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
}

static void *capture_and_replay(void *argument)
{
    struct worker *worker = argument;
    tarn_pool *pool;

    test_set_context(context);
    pool = test_pool("of a thread");
    for (uint32_t round = 0; round < 10; round++) {
        tarn_capture *capture = NULL;
        tarn_graph *graph = NULL;
        void *block = NULL;
        void *temporary = NULL;

        OK(tarn_capture_begin(pool, worker->stream, CAPTURE_MODE(TARN_CAPTURE_THREAD_LOCAL),
                              &capture));
        OK(tarn_malloc(world.device, MIB, worker->stream, &block));
        OK(tarn_malloc(world.device, 4 * MIB, worker->stream, &temporary));
        test_fill(worker->stream, temporary, worker->number, 64);
        test_copy(worker->stream, block, temporary, 256);
        OK(tarn_free(temporary));
        if (round % 4 == 3) {
            OK(tarn_capture_abort(capture));
        } else {
            OK(tarn_capture_end(capture, &graph));
            OK(tarn_graph_replay(graph, worker->stream));
            test_expect_words(worker->stream, block, worker->number, 64);
            OK(tarn_graph_destroy(graph));
        }
        OK(tarn_free(block));
    }
    OK(tarn_pool_validate(pool));
    OK(tarn_pool_release(pool));
    return NULL;
}

TEST(threads, eight_threads_capture_at_once)
{
    run_workers(capture_and_replay);
    for (int i = 0; i < 1000 && test_device_stats().pool_count > 2; i++)
        test_await_destructors(0);
    OK(tarn_device_trim(world.device, 0, NULL)); /* proves that its memory is idle */
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
    ck_assert_uint_eq(test_device_stats().route_count, 0);
}

/* Growth, recorded streams, polls and trims, none of which may break another thread's capture. */
static void *disturb(void *argument)
{
    struct worker *worker = argument;

    test_set_context(context);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        void *address =
            test_alloc(world.default_pool, size_of(round) + round * 4096, worker->stream);

        OK(tarn_record_stream(address, world.side));
        OK(tarn_free(address));
        if (round % 10 == 9)
            OK(tarn_pool_trim(world.default_pool, NULL));
    }
    return NULL;
}

TEST(threads, other_threads_break_no_global_capture)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    void *block;

    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    block = test_malloc(MIB);
    test_fill(world.stream, block, 3, 64);
    run_workers(disturb);
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(tarn_capture_end(capture, &graph));
    OK(tarn_graph_replay(graph, world.stream));
    test_expect_words(world.stream, block, 3, 64);
    OK(tarn_free(block));
    OK(tarn_graph_destroy(graph));
}

static void *checkpoint_and_restore(void *argument)
{
    struct worker *worker = argument;
    tarn_checkpoint *checkpoint = NULL;
    tarn_pool *pool;
    void *block;

    test_set_context(context);
    pool = test_pool("of a thread");
    block = test_alloc(pool, MIB, worker->stream);
    test_fill(worker->stream, block, worker->number, 64);
    OK(tarn_checkpoint_take(pool, TARN_CONTENTS_DEVICE, worker->stream, &checkpoint));
    for (int round = 0; round < 10; round++) {
        test_fill(worker->stream, block, 0xdead, 64);
        OK(tarn_free(block));
        OK(tarn_checkpoint_restore(checkpoint, worker->stream, NULL));
        test_expect_words(worker->stream, block, worker->number, 64);
    }
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(block));
    OK(tarn_pool_destroy(pool));
    return NULL;
}

TEST(threads, eight_threads_restore_their_checkpoints)
{
    run_workers(checkpoint_and_restore);
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
    ck_assert_uint_eq(test_stats(world.default_pool).live_count, 0);
}

static void *open_and_close(void *argument)
{
    struct worker *worker = argument;

    test_set_context(context);
    for (int round = 0; round < 20; round++) {
        tarn_device *device = NULL;
        void *address = NULL;
        tarn_status status;

        OK(tarn_device_open(0, NULL, &device));
        OK(tarn_malloc(device, 4096, worker->stream, &address));
        OK(tarn_free(address));
        do
            status = tarn_device_close(device);
        while (status == TARN_ERR_BUSY); /* ours is the last use, and another's block is live */
        OK(status);
    }
    return NULL;
}

GROUP(own, NULL, .name = "without a world")

TEST(own, eight_threads_open_and_close_the_device)
{
    test_start();
    world.ledger = test_ledger();
    run_workers(open_and_close);
    test_same_ledger(&world.ledger);
}

/* Pools end while other threads ask after addresses in them. */
static _Atomic(void *) shown[THREADS];

static void *end_pools(void *argument)
{
    struct worker *worker = argument;

    test_set_context(context);
    for (int round = 0; round < ROUNDS / 4; round++) {
        tarn_pool *pool = test_pool("passing");
        void *block = test_alloc(pool, 4096, worker->stream);

        atomic_store(&shown[worker->number], block);
        for (int i = 0; i < THREADS; i++) {
            tarn_block described = {.pool = pool};
            tarn_status status = tarn_block_at(atomic_load(&shown[i]), &described);

            ck_assert_msg(status == TARN_OK || status == TARN_ERR_NOT_OURS ||
                              status == TARN_ERR_DOUBLE_FREE,
                          "%s", tarn_last_error());
            ck_assert(i != (int)worker->number ||
                      (status == TARN_OK && described.pool == pool && described.address == block));
        }
        OK(tarn_free(block));
        OK(tarn_pool_destroy(pool));
    }
    return NULL;
}

TEST(threads, addresses_may_be_asked_after_while_their_pools_end)
{
    run_workers(end_pools);
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
}
