// SPDX-License-Identifier: Apache-2.0
/* Allocations in captures that no route catches: adopted, refused, allowed. */
#include <pthread.h>
#include <time.h>

#include "support/world.h"

static void open_world(tarn_unrouted unrouted)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.unrouted = unrouted;
    test_world_open_with(&options);
}

/* The world's, once more. */
static void open_device(tarn_unrouted unrouted)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.unrouted = unrouted;
    OK(tarn_device_open(0, &options, &world.device));
    OK(tarn_device_default_pool(world.device, &world.default_pool));
    world.pool = test_pool("test");
}

static void open_refusing(void)
{
    open_world(TARN_UNROUTED_REFUSE);
}

static void open_allowing(void)
{
    open_world(TARN_UNROUTED_ALLOW);
}

/* With the pools their memory goes: what the driver has given is what the world's two map and what is cached. */
static void expect_no_other_memory(void)
{
    struct test_device_stats stats = test_device_stats();
    uint64_t mapped = test_stats(world.default_pool).mapped_bytes;

    if (world.pool != NULL)
        mapped += test_stats(world.pool).mapped_bytes;
    ck_assert_uint_eq(stats.mapped_bytes, mapped);
    ck_assert_uint_eq(test_ledger().mapped_bytes, world.ledger.mapped_bytes + mapped);
    ck_assert_uint_eq(test_ledger().handle_bytes,
                      world.ledger.handle_bytes + mapped + stats.cached_bytes);
}

static void await_pool_count(uint64_t count)
{
    int64_t deadline = test_deadline();

    while (test_device_stats().pool_count != count && test_pause(deadline))
        OK(tarn_device_trim(world.device, 0, NULL)); /* a proof that its memory is idle */
    ck_assert_uint_eq(test_device_stats().pool_count, count);
    if (count == 2)
        expect_no_other_memory();
}

static void begin(void)
{
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
}

GROUP(adopt, test_world_open, test_world_close)

TEST(adopt, a_capture_without_a_route_gets_a_pool_of_its_own)
{
    void *first;
    void *second;
    tn_cu_graph graph;

    begin();
    first = test_malloc(4 * MIB);
    second = test_malloc(512);
    ck_assert_ptr_ne(test_pool_of(first), world.default_pool);
    ck_assert_ptr_ne(test_pool_of(first), world.pool);
    ck_assert_ptr_eq(test_pool_of(first), test_pool_of(second));
    ck_assert_uint_eq(test_device_stats().adopted_count, 1);
    ck_assert_uint_eq(test_device_stats().unrouted_count, 2);
    ck_assert_uint_eq(test_device_stats().pool_count, 3);
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_fill(world.stream, first, 5, 4);
    test_copy(world.stream, second, first, 4);
    graph = test_end_capture(world.stream);
    test_launch_once(graph, world.stream);
    ck_assert_uint_eq(test_read(world.stream, second), 5);
    OK(tarn_free(first));
    OK(tarn_free(second));
    test_destroy_graph(graph);
    await_pool_count(2);
    ck_assert_uint_eq(test_device_stats().mapped_bytes, 0);
}

TEST(adopt, who_names_the_default_pool_is_adopted_too)
{
    void *block = NULL;

    begin();
    OK(tarn_pool_malloc(world.default_pool, MIB, 0, world.stream, &block));
    ck_assert_ptr_ne(test_pool_of(block), world.default_pool);
    ck_assert_uint_eq(test_stats(world.default_pool).alloc_count, 0);
    OK(tarn_free(block));
    test_destroy_graph(test_end_capture(world.stream));
    await_pool_count(2);
}

TEST(adopt, adopted_memory_is_the_graphs_as_long_as_any_part_of_it_is_there)
{
    tn_cu_graphexec exec;
    tn_cu_graph graph;
    tn_cu_graph clone;
    char *block;

    begin();
    block = test_malloc(8 * MIB);
    test_fill(world.stream, block, 7, 4);
    OK(tarn_free(block));
    graph = test_end_capture(world.stream);
    clone = test_clone(graph);
    exec = test_instantiate(graph);
    test_destroy_graph(graph);
    for (int part = 0; part < 2; part++) {
        for (int i = 0; i < 8; i++) {
            char *other = test_malloc(4 * MIB);

            ck_assert(other + 4 * MIB <= block || other >= block + 8 * MIB);
            OK(tarn_free(other));
        }
        if (part == 0) {
            test_destroy_graph(clone);
            test_launch(exec, world.stream);
            ck_assert_uint_eq(test_read(world.stream, block), 7);
        }
        ck_assert_uint_eq(test_device_stats().pool_count, 3);
    }
    test_destroy_exec(exec);
    await_pool_count(2);
}

TEST(adopt, a_live_block_keeps_an_adopted_pool_when_the_graph_is_gone)
{
    tn_cu_graph graph;
    void *block;

    begin();
    block = test_malloc(MIB);
    test_fill(world.stream, block, 9, 1);
    graph = test_end_capture(world.stream);
    test_launch_once(graph, world.stream);
    test_destroy_graph(graph);
    test_await_destructors(0);
    ck_assert_uint_eq(test_device_stats().pool_count, 3);
    ck_assert_uint_eq(test_read(world.stream, block), 9);
    OK(tarn_free(block));
    await_pool_count(2);
}

TEST(adopt, an_adopted_pool_has_no_handle)
{
    tarn_stats stats = TARN_STATS_INIT;
    tarn_pool *pool;
    void *block;
    void *other = UNTOUCHED;

    begin();
    block = test_malloc(MIB);
    pool = test_pool_of(block);
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool", tarn_pool_malloc(pool, MIB, 0, world.stream, &other));
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool", tarn_pool_stats(pool, &stats));
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool", tarn_pool_destroy(pool));
    REFUSE(TARN_ERR_BUSY, "2 private pools", tarn_device_close(world.device));
    ck_assert_untouched(other);
    OK(tarn_free(block));
    test_destroy_graph(test_end_capture(world.stream));
    await_pool_count(2);
}

TEST(adopt, streams_of_one_capture_share_their_adopted_pool)
{
    void *mine;
    void *forked = NULL;
    void *next = NULL;

    begin();
    mine = test_malloc(MIB);
    OK(tarn_free(mine));
    test_order(world.stream, world.side);
    OK(tarn_malloc(world.device, MIB, world.side, &forked));
    ck_assert_ptr_ne(forked, mine); /* its own order's alone */
    ck_assert_ptr_eq(test_malloc(MIB), mine);
    ck_assert_ptr_eq(test_pool_of(mine), test_pool_of(forked));
    OK(tarn_free(forked));
    OK(tarn_malloc(world.device, MIB, world.side, &next));
    ck_assert_ptr_eq(next, forked);
    OK(tarn_free(next));
    OK(tarn_free(mine));
    test_order(world.side, world.stream);
    ck_assert_uint_eq(test_device_stats().adopted_count, 1);
    test_destroy_graph(test_end_capture(world.stream));
    await_pool_count(2);
}

TEST(adopt, each_capture_is_adopted_for_itself)
{
    void *blocks[2] = {NULL, NULL};
    tn_cu_stream streams[2] = {world.stream, world.side};

    for (int i = 0; i < 2; i++) {
        test_begin_capture(streams[i], TN_CU_CAPTURE_MODE_RELAXED);
        OK(tarn_malloc(world.device, MIB, streams[i], &blocks[i]));
    }
    ck_assert_ptr_ne(test_pool_of(blocks[0]), test_pool_of(blocks[1]));
    ck_assert_uint_eq(test_device_stats().adopted_count, 2);
    for (int i = 0; i < 2; i++) {
        OK(tarn_free(blocks[i]));
        test_destroy_graph(test_end_capture(streams[i]));
    }
    await_pool_count(2);
    begin(); /* the next one of the stream, again */
    OK(tarn_free(test_malloc(MIB)));
    ck_assert_uint_eq(test_device_stats().adopted_count, 3);
    test_destroy_graph(test_end_capture(world.stream));
    await_pool_count(2);
}

static void allocate_many(void *unused)
{
    (void)unused;
    for (int i = 0; i < 50; i++)
        OK(tarn_free(test_malloc(4096)));
}

static void *run_allocations(void *unused)
{
    allocate_many(unused);
    return NULL;
}

TEST(adopt, threads_that_allocate_in_one_capture_at_once_get_one_pool)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];

    for (int round = 0; round < 10; round++) {
        uint64_t adopted = test_device_stats().adopted_count;

        test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
        for (int i = 0; i < THREADS; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, run_allocations, NULL), 0);
        for (int i = 0; i < THREADS; i++)
            (void)pthread_join(threads[i], NULL);
        ck_assert_uint_eq(test_device_stats().adopted_count, adopted + 1);
        ck_assert_uint_eq(test_device_stats().pool_count, 3);
        test_destroy_graph(test_end_capture(world.stream));
        await_pool_count(2);
    }
}

TEST(adopt, an_adopted_capture_that_breaks_leaves_its_blocks_to_their_user)
{
    void *other = UNTOUCHED;
    void *block;

    begin();
    block = test_malloc(MIB);
    test_break_capture();
    REFUSE(TARN_ERR_CAPTURE_BROKEN, "invalidated",
           tarn_malloc(world.device, MIB, world.stream, &other));
    ck_assert_untouched(other);
    test_end_broken_capture(world.stream);
    test_await_destructors(0);
    ck_assert_ptr_ne(test_pool_of(block), world.default_pool);
    OK(tarn_free(block));
    await_pool_count(2);
}

TEST(adopt, an_adopted_capture_whose_stream_is_destroyed_is_gone)
{
    tn_cu_stream stream = test_stream();
    void *block = NULL;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
    OK(tarn_malloc(world.device, MIB, stream, &block));
    test_destroy_stream(stream);
    ck_assert_uint_ge(test_device_stats().mapped_bytes, MIB); /* its user's */
    OK(tarn_free(block));
    await_pool_count(2);
    ck_assert_uint_eq(test_device_stats().mapped_bytes, 0);
    ck_assert_uint_eq(test_ledger().captures, world.ledger.captures);
}

TEST(adopt, an_adopted_graph_may_be_handed_over)
{
    tarn_graph *graph = NULL;
    void *block;

    begin();
    block = test_malloc(MIB);
    test_fill(world.stream, block, 3, 1);
    OK(tarn_graph_adopt(world.pool, test_end_capture(world.stream), &graph));
    OK(tarn_graph_replay(graph, world.stream));
    ck_assert_uint_eq(test_read(world.stream, block), 3);
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(block));
    await_pool_count(2);
}

static const struct {
    const char *call;
    tn_cu_result result;
    tarn_status status;
} refusals[] = {
    {"cuUserObjectCreate", TN_CUDA_ERROR_UNKNOWN, TARN_ERR_DRIVER},
    {"cuGraphRetainUserObject", TN_CUDA_ERROR_UNKNOWN, TARN_ERR_DRIVER},
    {"cuStreamGetCaptureInfo", TN_CUDA_ERROR_UNKNOWN, TARN_ERR_DRIVER},
    {"cuMemMap", TN_CUDA_ERROR_UNKNOWN, TARN_ERR_DRIVER},
};

TEST(adopt, an_adoption_that_the_driver_refuses_can_be_tried_again)
{
    void *block = UNTOUCHED;

    begin();
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        sim.plan_fault(refusals[i].call, 1, 0, refusals[i].result);
        STATUS(refusals[i].status, tarn_malloc(world.device, MIB, world.stream, &block));
        ck_assert_ptr_nonnull(strstr(tarn_last_error(), refusals[i].call));
        ck_assert_untouched(block);
        ck_assert_uint_eq(test_device_stats().unrouted_count, 0);
        ck_assert_uint_eq(test_device_stats().live_bytes, 0);
        if (i < 3) /* no pool stays without a hold of its capture */
            await_pool_count(2);
    }
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(tarn_malloc(world.device, MIB, world.stream, &block));
    OK(tarn_free(block));
    ck_assert_uint_eq(test_device_stats().adopted_count, 1);
    test_destroy_graph(test_end_capture(world.stream));
    await_pool_count(2);
}

TEST(adopt, an_adopted_allocation_that_finds_no_memory_changes_nothing)
{
    struct test_device_stats before;
    struct test_device_stats after;
    void *block = UNTOUCHED;

    begin();
    before = test_device_stats();
    OK(tarn_device_set_limit(world.device, 2 * MIB));
    STATUS(TARN_ERR_LIMIT, tarn_malloc(world.device, 64 * MIB, world.stream, &block));
    ck_assert_untouched(block);
    OK(tarn_device_set_limit(world.device, 0));
    after = test_device_stats();
    ck_assert_uint_eq(after.pool_count, before.pool_count);
    ck_assert_uint_eq(after.adopted_count, before.adopted_count);
    ck_assert_uint_eq(after.unrouted_count, before.unrouted_count);
    OK(tarn_malloc(world.device, 64 * MIB, world.stream, &block));
    ck_assert_uint_eq(test_device_stats().adopted_count, before.adopted_count + 1);
    OK(tarn_free(block));
    test_destroy_graph(test_end_capture(world.stream));
    await_pool_count(before.pool_count);
}

GROUP(refuse, open_refusing, test_world_close)
TEST(refuse, an_unrouted_allocation_on_a_capturing_stream_is_refused)
{
    void *address = UNTOUCHED;

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    REFUSE(TARN_ERR_UNROUTED, "tarn_begin_allocate_to_pool",
           tarn_malloc(world.device, 512, world.stream, &address));
    REFUSE(TARN_ERR_UNROUTED, "tarn_begin_allocate_to_pool",
           tarn_malloc_aligned(world.device, 512, 4096, world.stream, &address));
    REFUSE(TARN_ERR_UNROUTED, "tarn_begin_allocate_to_pool",
           tarn_malloc_labeled(world.device, NULL, 512, 0, world.stream, "label", &address));
    REFUSE(TARN_ERR_UNROUTED, "tarn_begin_allocate_to_pool",
           tarn_calloc(world.device, 1, 512, world.stream, &address));
    REFUSE(TARN_ERR_UNROUTED, "outlive",
           tarn_pool_malloc(world.default_pool, 512, 0, world.stream, &address));
    ck_assert_untouched(address);
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_destroy_graph(test_end_capture(world.stream));
}

TEST(adopt, a_reserve_in_the_default_pool_for_a_capture_is_refused)
{
    begin();
    REFUSE(TARN_ERR_UNROUTED, "default pool",
           tarn_pool_reserve(world.default_pool, MIB, world.stream));
    test_destroy_graph(test_end_capture(world.stream));
}

TEST_ALSO(refuse, a_reserve_in_the_default_pool_for_a_capture_is_refused)

GROUP(allow, open_allowing, test_world_close)

TEST(allow, an_allowed_allocation_is_ordinary_memory)
{
    tn_cu_graph graph;
    void *block;

    OK(tarn_free(
        test_alloc(world.pool, 512, world.stream))); /* the stream is known outside captures */
    begin();
    block = test_malloc(MIB);
    ck_assert_ptr_eq(test_pool_of(block), world.default_pool);
    ck_assert_uint_eq(test_device_stats().unrouted_count, 1);
    ck_assert_uint_eq(test_device_stats().adopted_count, 0);
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
    test_fill(world.stream, block, 4, 1);
    graph = test_end_capture(world.stream);
    test_launch_once(graph, world.stream);
    ck_assert_uint_eq(test_read(world.stream, block), 4);
    OK(tarn_free(test_alloc(world.pool, 512, world.stream))); /* and is seen there again */
    ck_assert_uint_eq(test_stats(world.default_pool).captured_bytes, 0);
    ck_assert_uint_eq(test_stats(world.default_pool).capture_count, 0);
    OK(tarn_free(block));
    OK(tarn_pool_trim(world.default_pool, NULL)); /* though the graph is there */
    ck_assert_uint_eq(test_stats(world.default_pool).mapped_bytes, 0);
    OK(tarn_pool_validate(world.default_pool));
    test_destroy_graph(graph);
}

TEST(allow, what_an_allowed_capture_frees_waits_for_its_end)
{
    void *kept;
    char *block;
    char *other;
    tn_cu_graph graph;

    OK(tarn_free(test_malloc(512))); /* the stream is known outside captures */
    begin();
    block = test_malloc(8 * MIB);
    OK(tarn_free(block));
    ck_assert_ptr_eq(test_malloc(8 * MIB), block); /* the capture itself need not wait */
    OK(tarn_free(block));
    other = test_alloc(world.default_pool, 8 * MIB, world.side);
    ck_assert(other + 8 * MIB <= block || other >= block + 8 * MIB);
    OK(tarn_pool_trim(world.default_pool, NULL)); /* a wait proves nothing of a capture */
    kept = test_malloc(8 * MIB);
    ck_assert_ptr_eq(kept, block);
    OK(tarn_free(kept));
    graph = test_end_capture(world.stream);
    OK(tarn_free(test_malloc(512))); /* the stream is seen outside again */
    ck_assert_uint_eq(test_stats(world.default_pool).capture_count, 0);
    OK(tarn_pool_validate(world.default_pool));
    OK(tarn_free(other));
    OK(tarn_pool_trim(world.default_pool, NULL));
    ck_assert_uint_eq(test_stats(world.default_pool).mapped_bytes, 0);
    test_destroy_graph(graph);
}

TEST(allow, an_allowed_capture_delays_nobody_elses_frees)
{
    void *block;
    void *other = test_alloc(world.default_pool, 8 * MIB, world.side);

    begin();
    block = test_malloc(MIB);
    OK(tarn_free(other));
    ck_assert_uint_eq(test_stats(world.default_pool).pending_count, 0);
    ck_assert_ptr_eq(test_alloc(world.default_pool, 8 * MIB, world.side), other);
    OK(tarn_free(other));
    OK(tarn_free(block));
    OK(tarn_pool_validate(world.default_pool));
    test_destroy_graph(test_end_capture(world.stream));
}

TEST(allow, the_end_of_an_allowed_capture_shows_when_its_graph_goes)
{
    int64_t deadline = test_deadline();

    begin();
    OK(tarn_free(test_malloc(MIB)));
    ck_assert_uint_eq(test_stats(world.default_pool).capture_count, 1);
    test_destroy_graph(test_end_capture(world.stream));
    while (test_stats(world.default_pool).capture_count > 0 && test_pause(deadline))
        continue;
    ck_assert_uint_eq(test_stats(world.default_pool).capture_count, 0);
}

TEST(allow, an_allowed_graph_keeps_no_device_open)
{
    tn_cu_graph graph;

    for (int round = 0; round < 40; round++) { /* more than a slab of records */
        begin();
        OK(tarn_free(test_malloc(MIB)));
        graph = test_end_capture(world.stream);
        OK(tarn_pool_destroy(world.pool));
        OK(tarn_device_close(world.device));
        test_destroy_graph(graph); /* whose user object speaks of what is gone */
        open_device(TARN_UNROUTED_ALLOW);
    }
}

/* Nothing but the free says so: no route has a stream, and nothing was allocated. */
TEST(adopt, a_block_freed_on_a_capturing_stream_is_held_for_its_graph)
{
    char *block = test_alloc(world.pool, 8 * MIB, world.stream);
    tn_cu_graph graph;
    tarn_route *route = test_route(world.pool, tarn_filter_thread, NULL);

    begin();
    test_fill(world.stream, block, 2, 1);
    OK(tarn_free_on(block, world.stream));
    ck_assert_uint_eq(test_stats(world.pool).capture_count, 1);
    graph = test_end_capture(world.stream);
    OK(tarn_end_allocate_to_pool(route));
    ck_assert_uint_ge(test_stats(world.pool).captured_bytes, 8 * MIB);
    OK(tarn_pool_trim(world.pool, NULL));
    for (int i = 0; i < 8; i++) {
        char *other = test_alloc(world.pool, 4 * MIB, world.stream);

        ck_assert(other + 4 * MIB <= block || other >= block + 8 * MIB);
        OK(tarn_free(other));
    }
    test_launch_once(graph, world.stream);
    ck_assert_uint_eq(test_read(world.stream, block), 2);
    test_destroy_graph(graph);
}

TEST(adopt, a_use_that_the_driver_gives_no_hold_is_refused)
{
    void *block = test_alloc(world.pool, MIB, world.stream);

    begin();
    sim.plan_fault("cuUserObjectCreate", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_free_on(block, world.stream));
    sim.plan_fault("cuGraphRetainUserObject", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_record_stream(block, world.stream));
    ck_assert_uint_eq(test_stats(world.pool).live_count, 1);
    OK(tarn_free_on(block, world.stream));
    test_destroy_graph(test_end_capture(world.stream));
}

TEST(allow, a_block_of_the_default_pool_freed_on_an_allowed_capture_waits_for_its_end)
{
    void *block = test_alloc(world.default_pool, 8 * MIB, world.stream);

    begin();
    OK(tarn_free_on(block, world.stream));
    OK(tarn_device_trim(world.device, 0, NULL));
    ck_assert_uint_eq(test_stats(world.default_pool).pending_count, 1);
    test_destroy_graph(test_end_capture(world.stream));
    ck_assert_ptr_eq(test_alloc(world.default_pool, 8 * MIB, world.stream), block);
    OK(tarn_free(block));
}

TEST(adopt, an_unknown_choice_is_refused)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_device *device = UNTOUCHED;

    options.unrouted = (tarn_unrouted)3;
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "unrouted", tarn_device_open(0, &options, &device));
    options.unrouted = (tarn_unrouted)-1;
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "unrouted", tarn_device_open(0, &options, &device));
    ck_assert_untouched(device);
}
