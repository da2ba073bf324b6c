// SPDX-License-Identifier: Apache-2.0
/* Threads that allocate page-locked memory, write to it at once, copy from it on streams of their own
 * and free it, or hand it to each other; one of them captures. What a thread has written is there until
 * its free, and what a copy has read is what was written. The thread sanitizer sees whether memory
 * is handed out before a thread has done with it. TARN_STRESS_OPERATIONS is how many a thread makes. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "support/world.h"

enum {
    THREADS = 6,
    OPERATIONS = 4000,
    BYTES_MAX = 96 << 10,
    LARGE = 3 << 20,
    DRAINED = 32, /* operations between two looks at what was copied */
    SHARED = 8,
};

struct worker {
    pthread_t thread;
    uint64_t random;
    uint64_t number;
    tn_cu_stream stream;
    tarn_pool *pools[3]; /* NULL: the default one; of the host; registered */
    uint64_t *results;   /* a block of the host's, one word for each copy */
    uint64_t expected[DRAINED];
    size_t copy_count;
};

static struct worker workers[THREADS];
static _Atomic(uint64_t *) shared[SHARED]; /* blocks that anyone may free; NULL: none */
static tn_cu_context context;
static uint64_t operations;

/* SplitMix64, by S. Vigna. */
static uint64_t next_random(struct worker *worker)
{
    uint64_t z = worker->random += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static uint64_t *allocate(struct worker *worker, uint64_t value)
{
    tarn_pool *pool = worker->pools[next_random(worker) % 3];
    size_t bytes = next_random(worker) % 64 == 0 ? LARGE : 16 + next_random(worker) % BYTES_MAX;
    void *address = NULL;
    uint64_t *words;

    if (pool == NULL)
        OK(tarn_host_malloc(world.device, bytes, &address));
    else
        OK(tarn_pool_malloc(pool, bytes, 0, NULL, &address));
    words = address;
    words[0] = value;
    words[1] = ~value;
    return words;
}

static void expect_whole(const uint64_t *words)
{
    ck_assert_uint_eq(words[0], ~words[1]);
}

static void drain(struct worker *worker)
{
    test_synchronize(worker->stream);
    for (size_t i = 0; i < worker->copy_count; i++)
        ck_assert_uint_eq(worker->results[i], worker->expected[i]);
    worker->copy_count = 0;
}

static void copy_and_free(struct worker *worker, uint64_t value)
{
    uint64_t *words = allocate(worker, value);

    worker->expected[worker->copy_count] = value;
    test_copy(worker->stream, &worker->results[worker->copy_count], words, sizeof *words);
    worker->copy_count += 1;
    OK(tarn_free_on(words, worker->stream));
    if (worker->copy_count == DRAINED)
        drain(worker);
}

/* Leaves a block for another thread, and frees what another has left there. */
static void pass_on(struct worker *worker, uint64_t value)
{
    uint64_t *words =
        atomic_exchange(&shared[next_random(worker) % SHARED], allocate(worker, value));

    if (words == NULL)
        return;
    expect_whole(words);
    OK(tarn_free(words));
}

/* A graph that reads a block which was freed in its capture. */
static void capture(struct worker *worker, uint64_t value)
{
    tarn_capture *capture = test_capture_on(world.pool, worker->stream, TARN_CAPTURE_RELAXED);
    uint64_t *words = allocate(worker, value);
    tarn_graph *graph;

    test_copy(worker->stream, worker->results, words, sizeof *words);
    OK(tarn_free_on(words, worker->stream));
    graph = test_capture_end(capture);
    OK(tarn_graph_replay(graph, worker->stream));
    test_synchronize(worker->stream);
    ck_assert_uint_eq(worker->results[0], value);
    OK(tarn_graph_destroy(graph));
}

static void *work(void *argument)
{
    struct worker *worker = argument;

    test_set_context(context);
    for (uint64_t i = 0; i < operations; i++) {
        uint64_t value = worker->number << 32 | i;
        uint64_t *words;

        switch (next_random(worker) % 4) {
        case 0:
            copy_and_free(worker, value);
            break;
        case 1:
            pass_on(worker, value);
            break;
        default:
            words = allocate(worker, value);
            expect_whole(words);
            OK(tarn_free(words));
            break;
        }
        if (worker->number == 0 && i % 64 == 0) {
            drain(worker);
            capture(worker, value);
        }
    }
    drain(worker);
    return NULL;
}

SUITE("threads and page-locked memory")
GROUP(threads, test_world_open, test_world_close, .name = "threads and page-locked memory",
      .timeout = 600)

TEST(threads, a_block_is_one_threads_alone_until_its_copies_are_done)
{
    static const tarn_location locations[] = {TARN_LOCATION_HOST, TARN_LOCATION_REGISTERED};
    const char *text = getenv("TARN_STRESS_OPERATIONS");
    tarn_pool *pools[3] = {NULL};

    operations = text != NULL ? strtoull(text, NULL, 10) / 10 : OPERATIONS;
    context = test_context();
    for (int i = 0; i < 2; i++) {
        tarn_pool_options options = TARN_POOL_OPTIONS_INIT;

        options.location = locations[i];
        pools[i + 1] = test_pool_with(&options);
    }
    for (uint64_t i = 0; i < THREADS; i++) {
        void *address = NULL;

        OK(tarn_host_malloc(world.device, DRAINED * sizeof(uint64_t), &address));
        workers[i] = (struct worker){.number = i, .random = i + 1, .stream = test_stream()};
        workers[i].results = address;
        memcpy(workers[i].pools, pools, sizeof pools);
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(workers[i].thread, NULL), 0);
        OK(tarn_free(workers[i].results));
        OK(tarn_stream_retire(world.device, workers[i].stream));
        test_destroy_stream(workers[i].stream);
    }
    for (int i = 0; i < SHARED; i++) {
        if (atomic_load(&shared[i]) != NULL)
            OK(tarn_free(atomic_load(&shared[i])));
    }
    test_await_destructors(0);
    OK(tarn_device_collect(world.device));
    for (int i = 1; i < 3; i++) {
        OK(tarn_pool_validate(pools[i]));
        OK(tarn_pool_trim(pools[i], NULL));
        ck_assert_uint_eq(test_stats(pools[i]).mapped_bytes, 0);
        OK(tarn_pool_destroy(pools[i]));
    }
}
