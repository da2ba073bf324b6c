// SPDX-License-Identifier: Apache-2.0
/* Threads that allocate, each on a stream of its own or all on one, and others that free what those have allocated,
 * while one more locks the pool over and over: what is freed is done, counted, and nobody else's before. Each block is marked while it is its owner's; memory
 * of the simulator is the host's, too, and the thread sanitizer sees whether a free comes before the allocation
 * that takes its memory.
 *
 * Each run prints the line that repeats it, but for what the threads make of it: TARN_STRESS_SEED=...
 * TARN_STRESS_OPERATIONS=... */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/world.h"

enum {
    OWNERS = 3,
    VISITORS = 3,
    KEPT = 64,
    QUEUE = 128,
    BYTES_MAX = 64 << 10,
    LARGE = 3 << 20,
    EDGE = 6 << 20
};

/* From one thread to one other. */
struct queue {
    uint64_t *blocks[QUEUE];
    _Alignas(128) atomic_size_t in;
    _Alignas(128) atomic_size_t out;
};

struct worker {
    pthread_t thread;
    uint64_t number;
    uint64_t random;
    tn_cu_stream stream; /* an owner's */
    uint64_t count;      /* of its allocations, or what it has freed */
};

static struct queue queues[OWNERS][VISITORS];
static struct worker owners[OWNERS];
static struct worker visitors[VISITORS];
static tn_cu_context context;
static tarn_pool *pool;
static uint64_t operations;
static atomic_int owners_left;
static atomic_bool over;

/* SplitMix64, by S. Vigna. */
static uint64_t next_random(struct worker *worker)
{
    uint64_t z = worker->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static bool send(struct queue *queue, uint64_t *block)
{
    size_t in = atomic_load_explicit(&queue->in, memory_order_relaxed);

    if (in - atomic_load_explicit(&queue->out, memory_order_acquire) == QUEUE)
        return false;
    queue->blocks[in % QUEUE] = block;
    atomic_store_explicit(&queue->in, in + 1, memory_order_release);
    return true;
}

static uint64_t *receive(struct queue *queue)
{
    size_t out = atomic_load_explicit(&queue->out, memory_order_relaxed);
    uint64_t *block;

    if (atomic_load_explicit(&queue->in, memory_order_acquire) == out)
        return NULL;
    block = queue->blocks[out % QUEUE];
    atomic_store_explicit(&queue->out, out + 1, memory_order_release);
    return block;
}

/* The first word says whose block it is, and the second where it is. */
static void mark(uint64_t *block, const struct worker *owner)
{
    block[0] = owner->number;
    block[1] = (uint64_t)(uintptr_t)block;
}

static void give(uint64_t *block, uint64_t owner)
{
    ck_assert_uint_eq(block[0], owner);
    ck_assert_uint_eq(block[1], (uint64_t)(uintptr_t)block);
    block[0] = UINT64_MAX;
    OK(tarn_free(block));
}

static uint64_t *take(struct worker *owner)
{
    uint64_t random = next_random(owner);
    void *block = NULL;
    size_t bytes = random % 4 == 0 ? 4096 : 1 + (size_t)(random >> 8) % BYTES_MAX;

    if (random % 256 == 1)
        bytes = LARGE;
    if (random % 256 == 2)
        bytes = EDGE; /* above what magazines have */
    OK(tarn_pool_malloc(pool, bytes < 16 ? 16 : bytes, 0, owner->stream, &block));
    return block;
}

/* Most blocks go to visitors; where those are behind, the owner frees itself. */
static void *own(void *argument)
{
    struct worker *owner = argument;
    uint64_t *kept[KEPT] = {NULL};

    test_set_context(context);
    for (uint64_t i = 0; i < operations; i++) {
        uint64_t random = next_random(owner);
        size_t slot = random % KEPT;

        if (kept[slot] != NULL &&
            ((random >> 16) % 8 == 0 ||
             !send(&queues[owner->number][(random >> 24) % VISITORS], kept[slot])))
            give(kept[slot], owner->number);
        kept[slot] = take(owner);
        mark(kept[slot], owner);
        owner->count += 1;
    }
    for (size_t slot = 0; slot < KEPT; slot++) {
        if (kept[slot] != NULL)
            give(kept[slot], owner->number);
    }
    atomic_fetch_sub(&owners_left, 1);
    return NULL;
}

static void *come(void *argument)
{
    struct worker *visitor = argument;

    for (bool last = false;;) {
        bool idle = true;

        for (uint64_t owner = 0; owner < OWNERS; owner++) {
            uint64_t *block = receive(&queues[owner][visitor->number]);

            if (block == NULL)
                continue;
            idle = false;
            visitor->count += 1;
            give(block, owner);
        }
        if (idle && last)
            return NULL;
        last = atomic_load(&owners_left) == 0;
        if (idle)
            (void)sched_yield();
    }
}

/* What is counted is never less than what is there. */
static void *look(void *unused)
{
    (void)unused;
    for (int i = 0; !atomic_load(&over); i++) {
        struct test_stats stats = test_stats(pool);

        ck_assert_uint_eq(stats.alloc_count - stats.free_count, stats.live_count);
        ck_assert_uint_le(stats.live_count, OWNERS * (KEPT + VISITORS * (QUEUE + 1) + 1));
        ck_assert_uint_ge(stats.live_peak_bytes, stats.live_bytes);
        if (i % 4 == 0)
            OK(tarn_pool_validate(pool));
        if (i % 16 == 0)
            OK(tarn_pool_trim(pool, NULL));
        (void)nanosleep(&(struct timespec){0, 200000}, NULL);
    }
    return NULL;
}

GROUP(visits, test_world_open, test_world_close, .name = "threads that free for others",
      .timeout = 600)

TEST_LOOP(visits, what_visitors_free_is_freed_once, 0, 2)
{
    uint64_t seed = test_seed("TARN_STRESS_SEED", 7919);
    const bool share = _i == 1; /* one stream */
    uint64_t freed = 0;
    struct test_stats stats;
    pthread_t looker;

    operations = test_setting("TARN_STRESS_OPERATIONS", 1000000) / 5;
    (void)fprintf(stderr, "to repeat: TARN_STRESS_SEED=%llu TARN_STRESS_OPERATIONS=%llu\n",
                  (unsigned long long)seed, (unsigned long long)(operations * 5));
    pool = world.pool;
    context = test_context();
    atomic_store(&owners_left, OWNERS);
    for (uint64_t i = 0; i < OWNERS; i++) {
        owners[i] = (struct worker){.number = i,
                                    .random = seed + i,
                                    .stream = share && i > 0 ? owners[0].stream : test_stream()};
        ck_assert_int_eq(pthread_create(&owners[i].thread, NULL, own, &owners[i]), 0);
    }
    for (uint64_t i = 0; i < VISITORS; i++) {
        visitors[i] = (struct worker){.number = i};
        ck_assert_int_eq(pthread_create(&visitors[i].thread, NULL, come, &visitors[i]), 0);
    }
    ck_assert_int_eq(pthread_create(&looker, NULL, look, NULL), 0);
    for (int i = 0; i < OWNERS; i++) {
        ck_assert_int_eq(pthread_join(owners[i].thread, NULL), 0);
        if (!share || i == OWNERS - 1)
            test_destroy_stream(owners[i].stream);
    }
    for (int i = 0; i < VISITORS; i++) {
        ck_assert_int_eq(pthread_join(visitors[i].thread, NULL), 0);
        freed += visitors[i].count;
    }
    atomic_store(&over, true);
    ck_assert_int_eq(pthread_join(looker, NULL), 0);
    stats = test_stats(pool);
    ck_assert_uint_eq(stats.live_count, 0);
    ck_assert_uint_eq(stats.live_bytes, 0);
    ck_assert_uint_eq(stats.alloc_count, OWNERS * operations);
    ck_assert_uint_eq(stats.free_count, OWNERS * operations);
    ck_assert_uint_gt(freed, operations / 4); /* or this tests something else */
    OK(tarn_pool_validate(pool));
    OK(tarn_pool_trim(pool, NULL));
    ck_assert_uint_eq(test_stats(pool).mapped_bytes, 0);
}
