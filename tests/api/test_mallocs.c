// SPDX-License-Identifier: Apache-2.0
/* tarn_malloc_aligned and tarn_calloc: what each adds to tarn_malloc, by the routes and in captures. */
#include <stdlib.h>

#include "support/world.h"

enum { WORDS = 1024, BYTES = WORDS * sizeof(uint32_t), ALIGNMENTS = 22 /* 1 to 2 MiB */ };

static void *aligned(size_t bytes, size_t alignment, tn_cu_stream stream)
{
    void *address = NULL;

    OK(tarn_malloc_aligned(world.device, bytes, alignment, stream, &address));
    ck_assert_ptr_nonnull(address);
    ck_assert_uint_eq((uintptr_t)address % (alignment > 512 ? alignment : 512), 0);
    return address;
}

static uint32_t *zeroed(size_t count, tn_cu_stream stream)
{
    void *address = NULL;

    OK(tarn_calloc(world.device, count, sizeof(uint32_t), stream, &address));
    ck_assert_ptr_nonnull(address);
    return address;
}

/* Blocks of each alignment, all of that pool. */
static void expect_alignments(tarn_pool *pool, tn_cu_stream stream)
{
    void *blocks[ALIGNMENTS + 1];

    blocks[ALIGNMENTS] = aligned(700, 0, stream);
    for (size_t i = 0; i < ALIGNMENTS; i++)
        blocks[i] = aligned(700, (size_t)1 << i, stream);
    for (size_t i = 0; i <= ALIGNMENTS; i++) {
        ck_assert_ptr_eq(test_pool_of(blocks[i]), pool);
        OK(tarn_free(blocks[i]));
    }
    for (size_t i = ALIGNMENTS; i-- > 0;) { /* of what was just freed, which is at hand */
        blocks[i] = aligned(700, (size_t)1 << i, stream);
        ck_assert_ptr_eq(test_pool_of(blocks[i]), pool);
        OK(tarn_free(blocks[i]));
    }
    OK(tarn_pool_validate(pool));
}

GROUP(mallocs, test_world_open, test_world_close)

TEST(mallocs, alignments_are_kept_without_a_route)
{
    expect_alignments(world.default_pool, world.stream);
    expect_alignments(world.default_pool, NULL);
}

TEST(mallocs, alignments_are_kept_by_a_route)
{
    tarn_route *route = test_route(world.pool, tarn_filter_stream, world.stream);

    expect_alignments(world.pool, world.stream);
    expect_alignments(world.default_pool, world.side);
    OK(tarn_end_allocate_to_pool(route));
    expect_alignments(world.default_pool, world.stream);
}

TEST(mallocs, alignments_are_kept_in_a_capture)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    tarn_graph *graph;
    uint32_t *block;

    expect_alignments(world.pool, world.stream);
    block = aligned(BYTES, MIB, world.stream);
    test_fill(world.stream, block, 5, WORDS);
    test_order(world.stream, world.side);
    expect_alignments(world.pool, world.side);
    test_order(world.side, world.stream);
    graph = test_capture_end(capture);
    OK(tarn_graph_replay(graph, world.stream));
    test_expect_words(world.stream, block, 5, WORDS);
    OK(tarn_free(block));
    OK(tarn_graph_destroy(graph));
}

TEST(mallocs, alignments_are_kept_in_an_adopted_capture)
{
    void *block;

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    block = aligned(BYTES, 2 * MIB, world.stream);
    ck_assert_ptr_ne(test_pool_of(block), world.default_pool);
    ck_assert_uint_eq(test_device_stats().adopted_count, 1);
    OK(tarn_free(block));
    test_destroy_graph(test_end_capture(world.stream));
}

TEST(mallocs, bad_arguments_are_refused)
{
    static const size_t alignments[] = {3, 4 * MIB, 2 * MIB + 512, SIZE_MAX};
    void *address = UNTOUCHED;

    for (size_t i = 0; i < sizeof alignments / sizeof alignments[0]; i++)
        REFUSE(TARN_ERR_INVALID_ARGUMENT, "alignment",
               tarn_malloc_aligned(world.device, MIB, alignments[i], world.stream, &address));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "alignment",
           tarn_malloc_aligned(world.device, 0, 3, world.stream, &address));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "bytes",
           tarn_malloc_aligned(world.device, SIZE_MAX, 4096, world.stream, &address));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "address is NULL",
           tarn_malloc_aligned(world.device, MIB, 4096, world.stream, NULL));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device",
           tarn_malloc_aligned(NULL, MIB, 4096, world.stream, &address));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "address is NULL",
           tarn_calloc(world.device, 1, MIB, world.stream, NULL));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_calloc(NULL, 1, MIB, world.stream, &address));
    ck_assert_untouched(address);
}

TEST(mallocs, a_product_that_overflows_is_refused)
{
    static const size_t products[][2] = {
        {SIZE_MAX, 2},
        {2, SIZE_MAX},
        {(size_t)1 << 32, (size_t)1 << 32},       /* 0 */
        {((size_t)1 << 32) + 1, (size_t)1 << 32}, /* 4 GiB */
        {SIZE_MAX / 3 + 1, 3},                    /* 2 */
    };
    void *address = UNTOUCHED;

    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++)
        REFUSE(TARN_ERR_INVALID_ARGUMENT, "count times bytes",
               tarn_calloc(world.device, products[i][0], products[i][1], world.stream, &address));
    REFUSE(
        TARN_ERR_INVALID_ARGUMENT, "bytes", /* more than any device holds */
        tarn_calloc(world.device, (size_t)1 << 20, ((size_t)1 << 20) + 1, world.stream, &address));
    ck_assert_untouched(address);
}

TEST(mallocs, nothing_asked_for_is_nothing_given)
{
    static const size_t nothing[][2] = {{0, 0}, {0, 4}, {4, 0}, {0, SIZE_MAX}};
    struct test_picture before = test_picture();
    void *address;

    for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++) {
        address = UNTOUCHED;
        OK(tarn_calloc(world.device, nothing[i][0], nothing[i][1], world.stream, &address));
        ck_assert_ptr_null(address);
    }
    address = UNTOUCHED;
    OK(tarn_malloc_aligned(world.device, 0, 4096, world.stream, &address));
    ck_assert_ptr_null(address);
    test_same_picture(&before);
}

/* The same memory, dirty. */
TEST(mallocs, memory_is_zero_behind_the_work_that_wrote_it)
{
    tn_cu_stream streams[] = {world.stream, NULL, TN_CU_STREAM_PER_THREAD};

    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
        uint32_t *block = zeroed(WORDS, streams[i]);
        uint32_t *again;

        test_expect_words(streams[i], block, 0, WORDS);
        test_spin(streams[i], 2);
        test_set_words(streams[i], block, 7, WORDS);
        OK(tarn_free(block));
        again = zeroed(WORDS, streams[i]);
        ck_assert_ptr_eq(again, block);
        test_expect_words(streams[i], again, 0, WORDS);
        OK(tarn_free(again));
    }
}

/* Bytes behind the last are another's, or nobody's. */
TEST(mallocs, as_many_bytes_are_zeroed_as_were_asked_for)
{
    uint64_t calls;
    unsigned char bytes[16];
    void *block = test_malloc(sizeof bytes);
    void *again = NULL;

    test_set_words(world.stream, block, 0x01010101, sizeof bytes / 4);
    OK(tarn_free(block));
    calls = sim.call_count("cuMemsetD8Async");
    OK(tarn_calloc(world.device, 13, 1, world.stream, &again));
    ck_assert_uint_eq(sim.call_count("cuMemsetD8Async"), calls + 1);
    ck_assert_ptr_eq(again, block);
    test_read_bytes(world.stream, bytes, block, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        ck_assert_uint_eq(bytes[i], i < 13 ? 0 : 1);
    OK(tarn_free(again));
}

TEST(mallocs, zeros_come_from_the_routes_pool)
{
    tarn_route *route = test_route(world.pool, tarn_filter_stream, world.stream);
    uint32_t *routed = zeroed(WORDS, world.stream);
    uint32_t *other = zeroed(WORDS, world.side);

    ck_assert_ptr_eq(test_pool_of(routed), world.pool);
    ck_assert_ptr_eq(test_pool_of(other), world.default_pool);
    OK(tarn_end_allocate_to_pool(route));
    OK(tarn_free(routed));
    OK(tarn_free(other));
}

/* The section adds to the zeros, which each replay writes anew. */
TEST(mallocs, a_replay_zeroes_the_memory_again)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    tarn_driver_graph nodes = NULL;
    tarn_graph *graph;
    uint32_t *block = zeroed(WORDS, world.stream);

    ck_assert_ptr_eq(test_pool_of(block), world.pool);
    test_add(world.stream, block, 3, WORDS);
    graph = test_capture_end(capture);
    OK(tarn_graph_driver_handles(graph, &nodes, NULL));
    ck_assert_uint_eq(test_node_count(nodes), 2);
    for (int replay = 0; replay < 2; replay++) {
        test_set_words(world.stream, block, 99, WORDS);
        OK(tarn_graph_replay(graph, world.stream));
        test_expect_words(world.stream, block, 3, WORDS);
        OK(tarn_graph_replay(graph, world.stream));
        test_expect_words(world.stream, block, 3, WORDS);
    }
    OK(tarn_free(block));
    OK(tarn_graph_destroy(graph));
}

/* Memory that the capture freed dirty, on a forked stream, through a route. */
TEST(mallocs, a_capture_of_the_programs_own_has_zeros_too)
{
    tarn_route *route = test_route(world.pool, tarn_filter_capture, world.stream);
    tarn_graph *graph = NULL;
    tn_cu_graph captured;
    uint32_t *dirty;
    uint32_t *block;

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    test_order(world.stream, world.side);
    dirty = zeroed(WORDS, world.side);
    test_fill(world.side, dirty, 8, WORDS);
    OK(tarn_free(dirty));
    block = zeroed(WORDS, world.side);
    ck_assert_ptr_eq(block, dirty);
    test_add(world.side, block, 1, WORDS);
    test_order(world.side, world.stream);
    captured = test_end_capture(world.stream);
    OK(tarn_end_allocate_to_pool(route));
    OK(tarn_graph_adopt(world.pool, captured, &graph));
    for (int replay = 0; replay < 2; replay++) {
        OK(tarn_graph_replay(graph, world.stream));
        test_expect_words(world.stream, block, 1, WORDS);
    }
    OK(tarn_free(block));
    OK(tarn_graph_destroy(graph));
}

/* The stream of a call whose callback gives this memory back, and begins a capture of the stream. */
static void *spare;

static bool begin_a_capture(tarn_device *device, size_t wanted_bytes, void *user)
{
    (void)device;
    (void)wanted_bytes;
    (void)user;
    if (spare == NULL)
        return false;
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tarn_free(spare));
    spare = NULL;
    return true;
}

/* The set would be a node of a graph that may never run. */
TEST(mallocs, a_capture_that_begins_in_a_callback_gets_no_zeros)
{
    void *address = UNTOUCHED;
    tn_cu_graph captured;

    spare = test_malloc(64 * MIB);
    OK(tarn_device_set_limit(world.device, test_device_stats().mapped_bytes));
    OK(tarn_device_add_free_callback(world.device, begin_a_capture, NULL));
    STATUS(TARN_ERR_WRONG_STATE, tarn_calloc(world.device, 1, 64 * MIB, world.stream, &address));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "a callback of this call"));
    ck_assert_untouched(address);
    ck_assert_ptr_null(spare);
    ck_assert_uint_eq(test_stats(world.default_pool).live_count, 0);
    captured = test_end_capture(world.stream);
    ck_assert_uint_eq(test_node_count(captured), 0);
    test_destroy_graph(captured);
    OK(tarn_device_remove_free_callback(world.device, begin_a_capture, NULL));
    address = zeroed(WORDS, world.stream);
    test_expect_words(world.stream, address, 0, WORDS);
    OK(tarn_free(address));
    OK(tarn_pool_validate(world.default_pool));
}

TEST(mallocs, a_refused_set_frees_the_block)
{
    void *address = UNTOUCHED;

    for (int captured = 0; captured < 2; captured++) {
        tarn_capture *capture = captured ? test_capture_begin(TARN_CAPTURE_GLOBAL) : NULL;
        tarn_pool *pool = captured ? world.pool : world.default_pool;
        tarn_graph *graph;

        sim.plan_fault("cuMemsetD8Async", 1, 0, TN_CUDA_ERROR_UNKNOWN);
        STATUS(TARN_ERR_DRIVER, tarn_calloc(world.device, 1, MIB, world.stream, &address));
        ck_assert_ptr_nonnull(strstr(tarn_last_error(), "zeroing memory"));
        ck_assert_ptr_nonnull(strstr(tarn_last_error(), "cuMemsetD8Async"));
        ck_assert_untouched(address);
        ck_assert_uint_eq(test_stats(pool).live_count, 0);
        ck_assert_uint_eq(test_stats(pool).live_bytes, 0);
        OK(tarn_pool_validate(pool));
        sim.plan_fault("cuMemsetD8Async", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
        STATUS(TARN_ERR_DEVICE_MEMORY, tarn_calloc(world.device, 1, MIB, world.stream, &address));
        ck_assert_untouched(address);
        ck_assert_uint_eq(test_stats(pool).live_count, 0);
        address = zeroed(WORDS, world.stream);
        if (captured) {
            graph = test_capture_end(capture);
            OK(tarn_graph_replay(graph, world.stream));
            test_expect_words(world.stream, address, 0, WORDS);
            OK(tarn_graph_destroy(graph));
        }
        OK(tarn_free(address));
        address = UNTOUCHED;
    }
}

/* As any work there would be. */
TEST(mallocs, a_set_on_the_legacy_stream_beside_a_blocking_streams_capture_is_refused)
{
    tn_cu_stream blocking = test_blocking_stream();
    void *address = UNTOUCHED;

    test_begin_capture(blocking, TN_CU_CAPTURE_MODE_RELAXED);
    STATUS(TARN_ERR_DRIVER, tarn_calloc(world.device, 1, MIB, NULL, &address));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "default stream"));
    ck_assert_untouched(address);
    ck_assert_uint_eq(test_stats(world.default_pool).live_count, 0);
    ck_assert_int_eq(test_capture_status(blocking), TN_CU_CAPTURE_STATUS_INVALIDATED);
    test_end_broken_capture(blocking);
    test_destroy_stream(blocking);
}

TEST(mallocs, nothing_is_allocated_in_a_broken_capture)
{
    void *address = UNTOUCHED;

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    test_break_capture();
    REFUSE(TARN_ERR_CAPTURE_BROKEN, "invalidated",
           tarn_malloc_aligned(world.device, MIB, 4096, world.stream, &address));
    REFUSE(TARN_ERR_CAPTURE_BROKEN, "invalidated",
           tarn_malloc_labeled(world.device, NULL, MIB, 0, world.stream, "label", &address));
    REFUSE(TARN_ERR_CAPTURE_BROKEN, "invalidated",
           tarn_calloc(world.device, 1, MIB, world.stream, &address));
    ck_assert_untouched(address);
    test_end_broken_capture(world.stream);
}

TEST(mallocs, what_the_driver_has_not_is_refused)
{
    void *address = UNTOUCHED;

    sim.plan_fault("cuMemMap", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_malloc_aligned(world.device, MIB, 4096, world.stream, &address));
    sim.plan_fault("cuMemMap", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER,
           tarn_malloc_labeled(world.device, NULL, MIB, 0, world.stream, "label", &address));
    sim.plan_fault("cuMemCreate", 1, 1, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY,
           tarn_malloc_labeled(world.device, NULL, MIB, 0, world.stream, "label", &address));
    STATUS(TARN_ERR_DEVICE_MEMORY,
           tarn_malloc_aligned(world.device, MIB, 4096, world.stream, &address));
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_calloc(world.device, 1, MIB, world.stream, &address));
    ck_assert_uint_gt(sim.clear_fault(NULL), 0);
    OK(tarn_device_set_limit(world.device, 2 * MIB));
    STATUS(TARN_ERR_LIMIT,
           tarn_malloc_aligned(world.device, 64 * MIB, 4096, world.stream, &address));
    STATUS(TARN_ERR_LIMIT,
           tarn_malloc_labeled(world.device, NULL, 64 * MIB, 0, world.stream, "label", &address));
    STATUS(TARN_ERR_LIMIT, tarn_calloc(world.device, 64, MIB, world.stream, &address));
    OK(tarn_device_set_limit(world.device, 0));
    ck_assert_untouched(address);
    ck_assert_uint_eq(test_stats(world.default_pool).live_count, 0);
}

GROUP(full, NULL)

TEST(full, a_device_without_addresses_has_no_room)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    void *address = UNTOUCHED;

    options.region_bytes = GIB;
    test_world_open_with(&options);
    sim.set_hints(2, GIB / 2);
    STATUS(TARN_ERR_ADDRESS_SPACE,
           tarn_malloc_aligned(world.device, GIB + 1, 4096, world.stream, &address));
    STATUS(TARN_ERR_ADDRESS_SPACE,
           tarn_malloc_labeled(world.device, NULL, GIB + 1, 0, world.stream, "label", &address));
    STATUS(TARN_ERR_ADDRESS_SPACE, tarn_calloc(world.device, 1, GIB + 1, world.stream, &address));
    STATUS(TARN_ERR_ADDRESS_SPACE, tarn_host_malloc(world.device, GIB + 1, &address));
    ck_assert_untouched(address);
    sim.set_hints(0, 0);
    test_world_close();
}
