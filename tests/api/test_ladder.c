// SPDX-License-Identifier: Apache-2.0
/* The out-of-memory ladder: for each rung a situation in which it alone saves the allocation, and what
 * it cost. The driver's memory is taken by others until no more than a test needs is left. */
#include "support/world.h"

enum { BYTES = 64 << 20 };

static tarn_pool *other;
static void *taken; /* by somebody else, from the driver */

static void make_other(void)
{
    other = test_pool("other");
    taken = NULL;
}

static void open_world(void)
{
    test_world_open();
    make_other();
}

/* Rungs are seen where growth does not move the memory first. */
static void open_still(void)
{
    test_world_open_still();
    make_other();
}

static void close_world(void)
{
    test_linear_free(taken);
    OK(tarn_pool_destroy(other));
    test_world_close();
}

/* Takes the driver's memory but for these bytes. */
static void leave_free(size_t bytes)
{
    taken = test_linear_alloc(test_free_bytes() - bytes);
    ck_assert_uint_eq(test_free_bytes(), bytes);
}

/* Proves idle what is free by now: a trim of a pool of its own waits for the device. */
static void prove_idle(void)
{
    tarn_pool *pool = test_pool("waits");
    uint64_t waits = test_device_stats().idle_waits;

    OK(tarn_free(test_alloc(pool, 4096, world.stream)));
    OK(tarn_pool_trim(pool, NULL));
    ck_assert_uint_eq(test_device_stats().idle_waits, waits + 1);
    OK(tarn_pool_destroy(pool));
}

/* Allocates BYTES from the world's pool on its stream, and says what that cost. */
struct cost {
    void *address;
    uint64_t waits;
    uint64_t retries;
    uint64_t maps;
};

static struct cost allocate(void)
{
    struct test_device_stats before = test_device_stats();
    struct cost cost = {.maps = test_stats(world.pool).map_count};

    cost.address = test_alloc(world.pool, BYTES, world.stream);
    cost.waits = test_device_stats().idle_waits - before.idle_waits;
    cost.retries = test_device_stats().ladder_retries - before.ladder_retries;
    cost.maps = test_stats(world.pool).map_count - cost.maps;
    ck_assert_uint_eq(test_device_stats().out_of_memory_count, before.out_of_memory_count);
    OK(tarn_pool_validate(world.pool));
    return cost;
}

GROUP(rungs, open_world, close_world)

/* Rung 1, which is part of every attempt. */
TEST(rungs, a_finished_use_on_another_stream_is_looked_for_first)
{
    void *block = test_alloc(world.pool, BYTES, world.stream);
    struct cost cost;

    OK(tarn_free_on(block, world.side));
    test_synchronize(world.side);
    leave_free(0);
    cost = allocate();
    ck_assert_ptr_eq(cost.address, block);
    ck_assert_uint_eq(cost.retries + cost.waits + cost.maps, 0);
    OK(tarn_free(cost.address));
}

GROUP(still, open_still, close_world)

/* Rung 2. */
TEST(still, idle_chunks_of_another_stream_are_taken_as_they_are)
{
    void *block = test_alloc(world.pool, BYTES, world.side);
    struct cost cost;

    OK(tarn_free(block));
    prove_idle();
    leave_free(0);
    cost = allocate();
    ck_assert_ptr_eq(cost.address, block);
    ck_assert_uint_eq(cost.retries, 1);
    ck_assert_uint_eq(cost.waits + cost.maps, 0);
    OK(tarn_free(cost.address));
}

/* What a callback of the user knows: a block to free. */
struct hoard {
    void *block;
    int calls;
    size_t wanted_bytes;
};

static bool give_hoard(tarn_device *device, size_t wanted_bytes, void *user)
{
    struct hoard *hoard = user;
    bool has_block = hoard->block != NULL;

    ck_assert_ptr_eq(device, world.device);
    hoard->calls += 1;
    hoard->wanted_bytes = wanted_bytes;
    OK(tarn_free(hoard->block));
    hoard->block = NULL;
    return has_block;
}

/* Rung 3. */
TEST(rungs, a_callback_frees_what_is_needed)
{
    void *block = test_alloc(world.pool, BYTES, world.stream);
    struct hoard empty = {0};
    struct hoard full = {.block = block};
    struct hoard spared = {.block = test_alloc(world.pool, BYTES, world.stream)};
    struct cost cost;

    OK(tarn_device_add_free_callback(world.device, give_hoard, &empty));
    OK(tarn_device_add_free_callback(world.device, give_hoard, &full));
    OK(tarn_device_add_free_callback(world.device, give_hoard, &spared));
    leave_free(0);
    cost = allocate();
    ck_assert_ptr_eq(cost.address, block);
    ck_assert_uint_eq(cost.retries, 1);
    ck_assert_uint_eq(cost.waits + cost.maps, 0);
    ck_assert_int_eq(empty.calls, 1);
    ck_assert_int_eq(full.calls, 1);
    ck_assert_uint_eq(full.wanted_bytes, BYTES);
    ck_assert_int_eq(spared.calls, 0);
    OK(tarn_device_remove_free_callback(world.device, give_hoard, &empty));
    OK(tarn_device_remove_free_callback(world.device, give_hoard, &full));
    OK(tarn_device_remove_free_callback(world.device, give_hoard, &spared));
    OK(tarn_free(cost.address));
    OK(tarn_free(spared.block));
}

/* Of a pool with a route: gives it up, and then a block. */
struct quitter {
    tarn_pool *pool;
    tarn_route *route;
    void *block;
};

static bool accept_all(tarn_stream stream, void *user)
{
    (void)stream;
    (void)user;
    return true;
}

static bool quit(tarn_device *device, size_t wanted_bytes, void *user)
{
    struct quitter *quitter = user;

    ck_assert_ptr_eq(device, world.device);
    ck_assert_uint_eq(wanted_bytes, BYTES);
    OK(tarn_end_allocate_to_pool(quitter->route));
    REFUSE(TARN_ERR_BUSY, "calls under way", tarn_pool_destroy(quitter->pool));
    OK(tarn_pool_release(quitter->pool));
    OK(tarn_free(quitter->block));
    return true;
}

TEST(rungs, a_callback_that_gives_up_the_pool_leaves_it_to_the_allocation)
{
    struct quitter quitter = {test_pool("routed"), NULL,
                              test_alloc(world.pool, BYTES, world.stream)};
    uint64_t pools = test_device_stats().pool_count;
    tarn_block block;
    void *address;

    quitter.route = test_route(quitter.pool, accept_all, NULL);
    OK(tarn_device_add_free_callback(world.device, quit, &quitter));
    leave_free(0);
    address = test_malloc(BYTES);
    OK(tarn_device_remove_free_callback(world.device, quit, &quitter));
    ck_assert_uint_eq(test_device_stats().pool_count, pools);
    OK(tarn_block_at(address, &block));
    ck_assert_ptr_eq(block.address, address);
    OK(tarn_free(address));
    OK(tarn_device_trim(world.device, 0, NULL)); /* waits for the device */
    ck_assert_uint_eq(test_device_stats().pool_count, pools - 1);
}

/* Rung 4: four cached chunks of other sizes, of a pool that is gone. */
TEST(rungs, cached_chunks_of_other_sizes_are_given_back)
{
    tarn_pool *gone = test_pool("gone");
    void *quarters[4];
    struct cost cost;

    for (int i = 0; i < 4; i++)
        quarters[i] = test_alloc(gone, BYTES / 4, world.stream);
    for (int i = 0; i < 4; i++)
        OK(tarn_free(quarters[i]));
    OK(tarn_pool_destroy(gone));
    ck_assert_uint_eq(test_device_stats().cached_bytes, BYTES);
    leave_free(0);
    cost = allocate();
    ck_assert_uint_eq(cost.retries, 1);
    ck_assert_uint_eq(cost.waits, 0);
    ck_assert_uint_eq(test_device_stats().cached_bytes, 0);
    OK(tarn_free(cost.address));
}

/* No more than is needed of it. */
TEST(rungs, the_cache_keeps_what_is_not_needed)
{
    tarn_pool *gone = test_pool("gone");
    void *address = test_alloc(gone, BYTES, world.stream);

    OK(tarn_free(address));
    address = test_alloc(gone, BYTES + BYTES / 2, world.stream);
    OK(tarn_free(address));
    OK(tarn_pool_destroy(gone));
    ck_assert_uint_gt(test_device_stats().cached_bytes, BYTES);
    leave_free(0);
    address = test_alloc(world.pool, 2 * MIB, world.stream);
    ck_assert_uint_gt(test_device_stats().cached_bytes, 0);
    OK(tarn_free(address));
}

/* Rung 5. */
TEST(rungs, idle_chunks_of_another_pool_are_given_back)
{
    struct cost cost;

    OK(tarn_free(test_alloc(other, BYTES, world.side)));
    prove_idle();
    leave_free(0);
    cost = allocate();
    ck_assert_uint_eq(cost.waits, 0);
    ck_assert_uint_eq(cost.retries, 1);
    ck_assert_uint_eq(test_stats(other).mapped_bytes, 0);
    OK(tarn_free(cost.address));
}

/* Rungs 5 and 7: no pool has a piece that is large enough, but together they have. */
TEST(rungs, idle_chunks_of_several_pools_are_put_together)
{
    void *kept = test_alloc(world.pool, BYTES / 2, world.side);
    void *split = test_alloc(world.pool, BYTES / 2, world.side);
    void *edge = test_alloc(world.pool, 2 * MIB, world.side);
    struct cost cost;

    OK(tarn_free(test_alloc(other, BYTES / 2, world.side)));
    OK(tarn_free(split));
    prove_idle();
    leave_free(0);
    cost = allocate();
    ck_assert_uint_eq(cost.waits, 0);
    ck_assert_uint_eq(test_stats(other).mapped_bytes, 0);
    OK(tarn_free(cost.address));
    OK(tarn_free(kept));
    OK(tarn_free(edge));
}

/* Rung 6: 62 MiB are one chunk of 64, or five. */
TEST(rungs, growth_takes_no_more_than_it_must)
{
    void *address = NULL;

    leave_free(62 * MIB);
    address = test_alloc(world.pool, 62 * MIB, world.stream);
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 62 * MIB);
    ck_assert_uint_eq(test_device_stats().idle_waits, 0);
    ck_assert_uint_eq(test_device_stats().ladder_retries, 1);
    OK(tarn_free(address));
}

/* Rung 8, for each of the rungs that it is followed by. Those before it have helped nobody but for the frugal growth,
 * which is tried once, as a retry. */
enum { RETRIES_BEFORE_A_WAIT = 1 };

/* What the other stream writes 7 to when the GPU gets to it; and whether it has, with no wait of the test's own. */
static void fill_elsewhere(void *block)
{
    test_hold_until_waited();
    test_fill(world.side, block, 7, 64);
    ck_assert_uint_ne(*(volatile uint32_t *)block, 7);
}

static void expect_filled(const void *block)
{
    for (int i = 0; i < 64; i++)
        ck_assert_uint_eq(((const volatile uint32_t *)block)[i], 7);
}

TEST(still, a_wait_proves_what_other_streams_freed)
{
    void *block = test_alloc(world.pool, BYTES, world.side);
    struct cost cost;

    fill_elsewhere(block);
    OK(tarn_free(block));
    leave_free(0);
    cost = allocate();
    expect_filled(block);
    ck_assert_ptr_eq(cost.address, block);
    ck_assert_uint_eq(cost.waits, 1);
    ck_assert_uint_eq(cost.retries,
                      RETRIES_BEFORE_A_WAIT + 2); /* behind the wait, and idle chunks */
    ck_assert_uint_eq(cost.maps, 0);
    OK(tarn_free(cost.address));
}

TEST(rungs, a_wait_ends_uses_on_other_streams)
{
    void *block = test_alloc(world.pool, BYTES, world.stream);
    struct cost cost;

    fill_elsewhere(block);
    OK(tarn_free_on(block, world.side));
    leave_free(0);
    cost = allocate();
    expect_filled(block);
    ck_assert_ptr_eq(cost.address, block);
    ck_assert_uint_eq(cost.waits, 1);
    ck_assert_uint_eq(cost.retries, RETRIES_BEFORE_A_WAIT + 1);
    ck_assert_uint_eq(cost.maps, 0);
    OK(tarn_free(cost.address));
}

TEST(rungs, a_wait_proves_what_other_pools_have_free)
{
    void *block = test_alloc(other, BYTES, world.stream);
    void *beside = test_linear_alloc(4096); /* the block's memory goes with it */
    struct cost cost;

    fill_elsewhere(block);
    test_copy(world.side, beside, block, 256);
    OK(tarn_free_on(block, world.side));
    leave_free(0);
    cost = allocate();
    expect_filled(beside);
    ck_assert_uint_eq(cost.waits, 1);
    ck_assert_uint_eq(cost.retries,
                      RETRIES_BEFORE_A_WAIT + 2); /* behind the wait, and what it unmapped */
    ck_assert_uint_eq(test_stats(other).mapped_bytes, 0);
    OK(tarn_free(cost.address));
    test_linear_free(beside);
}

TEST(rungs, a_reserve_goes_down_the_ladder_too)
{
    OK(tarn_free(test_alloc(other, 2 * (size_t)BYTES, world.side)));
    leave_free(0);
    OK(tarn_pool_reserve(world.pool, BYTES, world.stream));
    ck_assert_uint_ge(test_stats(world.pool).mapped_bytes, BYTES);
}

/* All rungs, in the strictest mode. */
TEST(rungs, the_ladder_breaks_no_capture)
{
    tarn_capture *capture;
    tarn_graph *graph;
    void *block;

    OK(tarn_free(test_alloc(other, BYTES, world.side)));
    leave_free(0);
    test_begin_capture(world.side, TN_CU_CAPTURE_MODE_GLOBAL);
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    block = test_malloc(BYTES);
    test_fill(world.stream, block, 7, 64);
    OK(tarn_free(block));
    ck_assert_uint_eq(test_device_stats().idle_waits, 1);
    graph = test_capture_end(capture);
    test_destroy_graph(test_end_capture(world.side));
    OK(tarn_graph_replay(graph, world.stream));
    test_synchronize(world.stream);
    OK(tarn_graph_destroy(graph));
}

/* Memory of a graph that is there is no rung's. */
TEST(rungs, memory_of_graphs_is_not_taken)
{
    void *address = UNTOUCHED;
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    void *block = test_malloc(BYTES);
    tarn_graph *graph;

    test_spin(world.stream, 50);
    OK(tarn_free(block));
    graph = test_capture_end(capture);
    leave_free(0);
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_pool_malloc(other, BYTES, 0, world.side, &address));
    ck_assert_untouched(address);
    ck_assert_uint_eq(test_stats(world.pool).captured_bytes, BYTES);
    OK(tarn_graph_replay(graph, world.stream));
    OK(tarn_graph_destroy(graph));
    OK(tarn_pool_malloc(other, BYTES, 0, world.side, &address)); /* it goes with the launch */
    OK(tarn_free(address));
}

TEST(rungs, a_request_that_no_device_can_serve_disturbs_nobody)
{
    void *address = UNTOUCHED;
    struct hoard hoard = {.block = test_alloc(world.pool, 4096, world.stream)};

    OK(tarn_free(test_alloc(other, BYTES, world.side)));
    prove_idle();
    OK(tarn_device_add_free_callback(world.device, give_hoard, &hoard));
    STATUS(TARN_ERR_DEVICE_MEMORY,
           tarn_pool_malloc(world.pool, 9 * GIB, 0, world.stream, &address));
    ck_assert_untouched(address);
    ck_assert_int_eq(hoard.calls, 0);
    ck_assert_uint_eq(test_stats(other).mapped_bytes, BYTES);
    ck_assert_uint_eq(test_device_stats().idle_waits, 1); /* the one before */
    ck_assert_uint_eq(test_device_stats().ladder_retries, 0);
    ck_assert_uint_eq(test_device_stats().out_of_memory_count, 1);
    OK(tarn_device_remove_free_callback(world.device, give_hoard, &hoard));
    OK(tarn_free(hoard.block));
}

/* A pool's own limit is not helped by what others give. */
TEST(rungs, a_limited_pool_takes_from_itself_alone)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *limited;
    void *address;

    options.limit_bytes = BYTES;
    OK(tarn_pool_create(world.device, &options, &limited));
    OK(tarn_free(test_alloc(other, BYTES, world.side)));
    OK(tarn_free(test_alloc(limited, BYTES / 2, world.side)));
    prove_idle();
    address = test_alloc(limited, BYTES, world.stream);
    ck_assert_uint_eq(test_stats(limited).mapped_bytes, BYTES);
    ck_assert_uint_eq(test_stats(other).mapped_bytes, BYTES);
    ck_assert_uint_eq(test_device_stats().idle_waits, 1); /* the one before */
    STATUS(TARN_ERR_LIMIT, tarn_pool_malloc(limited, 512, 0, world.stream, &address));
    ck_assert_uint_eq(test_stats(other).mapped_bytes, BYTES);
    OK(tarn_free(address));
    OK(tarn_pool_destroy(limited));
}

/* What it has free counts: a growth for the rest stays within its limit, so that it may take from others. */
TEST(rungs, a_limited_pool_takes_from_others_what_it_may_still_map)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *limited;
    void *first;
    void *second;

    options.limit_bytes = 12 * MIB;
    OK(tarn_pool_create(world.device, &options, &limited));
    OK(tarn_pool_reserve(limited, 8 * MIB, world.stream));
    first = test_alloc(limited, 4 * MIB, world.stream);
    OK(tarn_free(test_alloc(other, BYTES, world.side)));
    prove_idle();
    leave_free(0);
    second = test_alloc(limited, 8 * MIB, world.stream); /* 4 MiB are free there */
    ck_assert_uint_eq(test_stats(limited).mapped_bytes, 12 * MIB);
    ck_assert_uint_lt(test_stats(other).mapped_bytes, BYTES);
    OK(tarn_free(second));
    OK(tarn_free(first));
    OK(tarn_pool_destroy(limited));
}

/* Uses and destroys as many streams as are to vanish, in a pool at its limit. */
static void let_streams_vanish(tarn_pool *pool, int count)
{
    for (int i = 0; i < count; i++) {
        tn_cu_stream stream = test_stream();

        OK(tarn_free(test_alloc(pool, 4096, stream)));
        test_destroy_stream(stream);
    }
}

/* _i: whether the pool has a checkpoint, whose blocks come back to their stream. */
TEST_LOOP(rungs, streams_that_vanish_leave_no_arenas, 0, 2)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_checkpoint *checkpoint = NULL;
    tarn_pool *limited;
    void *block;

    options.limit_bytes = 16 * MIB;
    limited = test_pool_with(&options);
    block = test_alloc(limited, 8 * MIB, world.stream);
    if (_i == 1)
        OK(tarn_checkpoint_take(limited, TARN_CONTENTS_NONE, NULL, &checkpoint));
    OK(tarn_free(block));
    let_streams_vanish(limited, 200);
    ck_assert_uint_le(test_stats(limited).arena_count, 16);
    if (_i == 1) {
        OK(tarn_checkpoint_restore(checkpoint, world.side, NULL));
        OK(tarn_free(block));
        ck_assert_ptr_eq(test_alloc(limited, 8 * MIB, world.stream), block);
        OK(tarn_free(block));
        OK(tarn_checkpoint_destroy(checkpoint));
    }
    OK(tarn_pool_destroy(limited));
}

TEST(rungs, streams_that_vanish_leave_no_arenas_where_other_pools_take_their_memory)
{
    let_streams_vanish(other, 1);
    prove_idle();
    leave_free(0);
    OK(tarn_free(test_alloc(world.pool, 4096, world.stream)));
    ck_assert_uint_eq(test_stats(other).mapped_bytes, 0);
    ck_assert_uint_eq(test_stats(other).arena_count, 0);
}
