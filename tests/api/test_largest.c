// SPDX-License-Identifier: Apache-2.0
/* tarn_device_largest: what it answers can be allocated without a wait, and 2 MiB more cannot. Random states are
 * made of a seed, each in three processes: one takes the answer, one a granule more, and one looks for changes.
 *
 * Each run prints the line that repeats it: TARN_LARGEST_SEED=... */
#include <stdio.h>
#include <stdlib.h>

#include "support/world.h"

enum { BLOCKS = 24, POOLS = 3, STREAMS = 3, STEPS_MIN = 20, STEPS_MAX = 140, MEMORY_MIB = 512 };

/* The driver's last memory, which the answer leaves out. */
#define KEPT ((size_t)4 * MIB)

struct held {
    void *address;
    size_t bytes;
};

static struct {
    uint64_t random;
    tarn_pool *pools[POOLS];
    tn_cu_stream streams[STREAMS];
    struct held blocks[BLOCKS];
    tarn_graph *graphs[2];
    tarn_pool *pool; /* that is asked about */
    tn_cu_stream stream;
    bool by_driver; /* the driver's memory ends first, and not the device's limit */
} state;

/* SplitMix64, by S. Vigna. */
static uint64_t next_random(void)
{
    uint64_t z = state.random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static size_t below(size_t count)
{
    return (size_t)(next_random() % count);
}

static bool chance(size_t of)
{
    return below(of) == 0;
}

static void start(void)
{
    char memory[16];

    (void)snprintf(memory, sizeof memory, "%d", MEMORY_MIB);
    ck_assert_int_eq(setenv("TARN_SIM_MEMORY_MIB", memory, 1), 0);
    test_start();
}

static tn_cu_stream any_stream(void)
{
    return state.streams[below(STREAMS)];
}

static size_t any_bytes(void)
{
    switch (below(6)) {
    case 0:
        return 1 + below(512 << 10);
    case 1:
        return (512 << 10) + below(2 * MIB);
    case 2:
        return (1 + below(16)) * MIB * 2;
    case 3:
        return MIB + below(64 * MIB);
    default:
        return MIB + below(12 * MIB);
    }
}

/* Proves idle what is free by now. */
static void wait_for_device(void)
{
    tarn_pool *pool = test_pool("waits");
    void *block = NULL;

    if (tarn_pool_malloc(pool, 512, 0, world.stream, &block) == TARN_OK)
        OK(tarn_free(block));
    OK(tarn_pool_trim(pool, NULL));
    OK(tarn_pool_destroy(pool));
}

static void make_pool(size_t which)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;

    options.share_captured = chance(3);
    options.exportable = chance(6);
    options.limit_bytes = chance(3) ? (64 + below(256)) * MIB : 0;
    state.pools[which] = test_pool_with(&options);
}

/* Its memory goes to the cache, where it has nothing live. */
static void end_pool(size_t which)
{
    OK(tarn_pool_release(state.pools[which]));
    make_pool(which);
}

static void make_graph(size_t which, tarn_pool *pool)
{
    tarn_capture *capture = NULL;
    void *block = NULL;

    if (state.graphs[which] != NULL) {
        OK(tarn_graph_destroy(state.graphs[which]));
        state.graphs[which] = NULL;
        return;
    }
    OK(tarn_capture_begin(pool, state.streams[0], CAPTURE_MODE(TARN_CAPTURE_RELAXED), &capture));
    if (tarn_pool_malloc(pool, MIB + below(16 * MIB), 0, state.streams[0], &block) == TARN_OK)
        OK(tarn_free(block));
    OK(tarn_capture_end(capture, &state.graphs[which]));
}

static void reserve(tarn_pool *pool)
{
    tarn_status status = tarn_pool_reserve(pool, below(48 * MIB), any_stream());

    ck_assert(status == TARN_OK || status == TARN_ERR_LIMIT || status == TARN_ERR_DEVICE_MEMORY);
}

static void take_step(void)
{
    struct held *held = &state.blocks[below(BLOCKS)];
    tarn_pool *pool = state.pools[below(POOLS)];

    if (chance(12)) {
        make_graph(below(2), pool);
    } else if (chance(24)) {
        reserve(pool);
    } else if (chance(24)) {
        OK(tarn_pool_trim_to(pool, below(64 * MIB), NULL));
    } else if (chance(24)) {
        end_pool(below(POOLS));
    } else if (chance(32)) {
        OK(tarn_stream_retire(world.device, any_stream()));
    } else if (chance(16)) {
        test_wait_for_all();
        wait_for_device();
    } else if (held->address == NULL) {
        held->bytes = any_bytes();
        if (tarn_pool_malloc(pool, held->bytes, 0, any_stream(), &held->address) != TARN_OK)
            held->address = NULL;
    } else {
        OK(chance(4) ? tarn_free_on(held->address, any_stream()) : tarn_free(held->address));
        held->address = NULL;
    }
}

static size_t ask(tarn_pool *pool, tn_cu_stream stream)
{
    size_t bytes = 77;

    OK(tarn_device_largest(world.device, pool, stream, &bytes));
    return bytes;
}

/* Until nothing more can be found without a wait: a question records events, which the next one finds done. */
static void settle(void)
{
    for (int i = 0; i < 4; i++) {
        (void)ask(state.pool, state.stream);
        OK(tarn_device_collect(world.device));
        test_wait_for_all();
    }
    test_await_destructors((uint64_t)(state.graphs[0] != NULL) + (state.graphs[1] != NULL));
}

/* No more than a few chunks can be made: free memory counts, in pools and cache. */
static void leave_little(void)
{
    struct test_device_stats stats = test_device_stats();

    if (test_free_bytes() < 16 * MIB)
        return;
    OK(tarn_device_set_limit(world.device,
                             stats.mapped_bytes + stats.cached_bytes + below(4) * 2 * MIB));
    state.by_driver = false;
}

/* While there is a tracker, no memory moves. */
static void hear_nothing(tarn_device *device, const tarn_tracked *what, void *user)
{
    (void)device;
    (void)what;
    (void)user;
}

static void make_state(uint64_t seed)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    state.random = seed;
    if (chance(4))
        options.move_limit_bytes = chance(2) ? TARN_NO_MOVES : 32 * MIB;
    if (chance(3))
        options.cache_limit_bytes = chance(2) ? TARN_NO_CACHE : 64 * MIB;
    state.by_driver = chance(3);
    if (!state.by_driver)
        options.limit_bytes = chance(2) ? (MEMORY_MIB - 64) * MIB : (80 + below(200)) * MIB;
    test_world_open_with(&options);
    if (chance(4))
        OK(tarn_device_add_tracker(world.device, hear_nothing, NULL, TARN_TRACKED_ALL));
    state.streams[0] = world.stream;
    state.streams[1] = world.side;
    state.streams[2] = test_stream();
    for (size_t i = 0; i < POOLS; i++)
        make_pool(i);
    for (size_t left = STEPS_MIN + below(STEPS_MAX - STEPS_MIN); left > 0; left--)
        take_step();
    state.pool = state.pools[below(POOLS)];
    state.stream = any_stream();
    settle();
    if (chance(2))
        leave_little();
    if (chance(2)) { /* work that nobody waits for, and blocks that wait for it */
        test_hold_until_waited();
        for (size_t i = 0; i < BLOCKS; i++) {
            if (state.blocks[i].address == NULL || !chance(3))
                continue;
            test_fill(state.streams[2], state.blocks[i].address, 7, 64);
            OK(tarn_free_on(state.blocks[i].address, state.streams[2]));
            state.blocks[i].address = NULL;
        }
    }
}

static uint64_t seed_of(int number)
{
    uint64_t seed = test_seed("TARN_LARGEST_SEED", (uint64_t)number + 1);

    printf("TARN_LARGEST_SEED=%llu\n", (unsigned long long)seed);
    (void)fflush(stdout);
    return seed;
}

SUITE("the largest allocation")
GROUP(largest, start, test_world_abandon)

enum { SEEDS = 200 };

TEST_LOOP(largest, what_is_answered_can_be_allocated_without_a_wait, 0, SEEDS)
{
    uint64_t waits;
    size_t bytes;
    void *address = NULL;

    make_state(seed_of(_i));
    waits = test_device_stats().idle_waits;
    bytes = ask(state.pool, state.stream);
    if (bytes > 0)
        OK(tarn_pool_malloc(state.pool, bytes, 0, state.stream, &address));
    ck_assert_msg(test_device_stats().idle_waits == waits, "%zu bytes need a wait", bytes);
    OK(tarn_pool_validate(state.pool));
}

TEST_LOOP(largest, more_than_is_answered_cannot_be_allocated_without_a_wait, 0, SEEDS)
{
    uint64_t waits;
    size_t bytes;
    void *address = NULL;
    tarn_status status;

    make_state(seed_of(_i));
    waits = test_device_stats().idle_waits;
    bytes = ask(state.pool, state.stream);
    status = tarn_pool_malloc(state.pool, bytes + 2 * MIB + (state.by_driver ? KEPT : 0), 0,
                              state.stream, &address);
    ck_assert_msg(status != TARN_OK || test_device_stats().idle_waits > waits,
                  "more than %zu bytes need no wait", bytes);
}

/* -- What it looks at -------------------------------------------------------------------------------- */

GROUP(answers, test_world_open, test_world_close)

TEST(answers, the_drivers_memory_is_counted_except_for_its_last)
{
    void *address;

    ck_assert_uint_eq(ask(world.pool, world.stream),
                      (test_free_bytes() - KEPT) / (2 * MIB) * (2 * MIB));
    OK(tarn_pool_set_limit(world.pool, 6 * MIB));
    ck_assert_uint_eq(ask(world.pool, world.stream), 6 * MIB);
    address = test_alloc(world.pool, 6 * MIB, world.stream);
    ck_assert_uint_eq(ask(world.pool, world.stream), 0);
    OK(tarn_free(address));
    ck_assert_uint_eq(ask(world.pool, world.stream), 6 * MIB);
}

TEST(answers, small_memory_serves_small_requests)
{
    void *blocks[64];
    size_t bytes;

    for (size_t i = 0; i < 64; i++)
        blocks[i] = test_alloc(world.pool, 32 << 10, world.stream);
    OK(tarn_pool_set_limit(world.pool, test_stats(world.pool).mapped_bytes));
    for (size_t i = 8; i < 40; i++)
        OK(tarn_free(blocks[i]));
    bytes = ask(world.pool, world.stream);
    ck_assert_uint_eq(bytes, 512 << 10); /* of 1 MiB: larger blocks have chunks of their own */
    blocks[8] = test_alloc(world.pool, bytes, world.stream);
    OK(tarn_free(blocks[8]));
    for (size_t i = 0; i < 64; i++) {
        if (i < 8 || i >= 40)
            OK(tarn_free(blocks[i]));
    }
}

/* Takes all that may be taken, so that the free memory alone is left. */
static void limit_to_mapped(void)
{
    OK(tarn_device_set_limit(world.device, test_device_stats().mapped_bytes));
}

TEST(answers, another_pool_gives_what_is_known_to_be_idle)
{
    tarn_pool *other = test_pool("other");

    OK(tarn_device_set_cache_limit(world.device, TARN_NO_CACHE));
    OK(tarn_free(test_alloc(other, 32 * MIB, world.side)));
    OK(tarn_free(test_alloc(world.pool, 512, world.stream)));
    limit_to_mapped();
    ck_assert_uint_le(ask(world.pool, world.stream), 2 * MIB);
    OK(tarn_pool_trim(world.pool, NULL)); /* waits */
    limit_to_mapped();
    ck_assert_uint_eq(ask(world.pool, world.stream), 32 * MIB);
    OK(tarn_pool_destroy(other));
}

TEST(answers, no_pool_means_the_one_that_the_routes_choose)
{
    tarn_pool *routed = test_pool("routed");
    tarn_route *route;

    OK(tarn_pool_set_limit(routed, 4 * MIB));
    ck_assert_uint_gt(ask(NULL, world.stream), 4 * MIB);
    route = test_route(routed, tarn_filter_thread, NULL);
    ck_assert_uint_eq(ask(NULL, world.stream), 4 * MIB);
    ck_assert_uint_gt(ask(world.pool, world.stream), 4 * MIB);
    OK(tarn_end_allocate_to_pool(route));
    OK(tarn_pool_destroy(routed));
}

TEST(answers, sizes_are_rounded_down_to_what_a_request_takes)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_device *device;
    tarn_pool *pool;
    void *address;
    size_t bytes = 77;

    OK(tarn_pool_destroy(world.pool));
    OK(tarn_device_close(world.device));
    for (size_t i = 0; i < TARN_ROUNDUP_SIZES; i++)
        options.roundup_power2_divisions[i] = 2;
    OK(tarn_device_open(0, &options, &device));
    OK(tarn_pool_create(device, NULL, &pool));
    OK(tarn_pool_set_limit(pool, 14 * MIB));
    OK(tarn_device_largest(device, pool, world.stream, &bytes));
    ck_assert_uint_eq(bytes, 12 * MIB); /* the next size is 16 MiB */
    OK(tarn_pool_malloc(pool, bytes, 0, world.stream, &address));
    OK(tarn_free(address));
    OK(tarn_pool_destroy(pool));
    OK(tarn_device_close(device));
    test_world_abandon();
}

TEST(answers, asking_changes_nothing)
{
    void *kept = test_alloc(world.pool, 3 * MIB, world.stream);
    struct test_picture before;

    OK(tarn_free(test_alloc(world.pool, 12 * MIB, world.side)));
    OK(tarn_free(test_alloc(world.pool, 20 * MIB, world.stream)));
    before = test_picture();
    ck_assert_uint_gt(ask(world.pool, world.stream), 0);
    ck_assert_uint_gt(ask(world.pool, world.side), 0);
    ck_assert_uint_gt(ask(NULL, (tn_cu_stream)2), 0);
    ck_assert_uint_gt(ask(NULL, NULL), 0);
    test_same_picture(&before);
    OK(tarn_free(kept));
}

TEST(answers, what_cannot_be_asked_is_refused)
{
    tarn_pool *gone = test_pool("gone");
    tarn_capture *capture;
    size_t bytes = 77;

    OK(tarn_pool_destroy(gone));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device",
           tarn_device_largest(NULL, NULL, world.stream, &bytes));
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool",
           tarn_device_largest(world.device, gone, world.stream, &bytes));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "bytes is NULL",
           tarn_device_largest(world.device, world.pool, world.stream, NULL));
    sim.plan_fault("cuStreamGetId", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_device_largest(world.device, NULL, world.stream, &bytes));
    ck_assert_uint_eq(sim.clear_fault(NULL), 1);
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    REFUSE(TARN_ERR_WRONG_STATE, "captured",
           tarn_device_largest(world.device, world.pool, world.stream, &bytes));
    REFUSE(TARN_ERR_WRONG_STATE, "captured",
           tarn_device_largest(world.device, NULL, world.stream, &bytes));
    ck_assert_uint_gt(ask(world.pool, world.side), 0); /* beside the capture, which goes on */
    OK(tarn_graph_destroy(test_capture_end(capture)));
    test_await_destructors(0);
    ck_assert_uint_eq(bytes, 77);
}
