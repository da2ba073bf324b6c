// SPDX-License-Identifier: Apache-2.0
/* Pools: their lives, what keeps them, reserve, trim, statistics and layout. */
#include <stdlib.h>

#include "support/world.h"

SUITE("pools")
GROUP(lives, test_world_open, test_world_close)

TEST(lives, a_new_pool_takes_no_device_memory)
{
    tarn_sim_ledger before = test_ledger();
    tarn_pool *pool = test_pool("empty");
    struct test_stats stats = test_stats(pool);

    for (size_t i = 0; i < sizeof stats / sizeof(uint64_t); i++)
        ck_assert_uint_eq(((const uint64_t *)&stats)[i], 0);
    test_same_ledger(&before);
    OK(tarn_pool_destroy(pool));
}

TEST(lives, pools_without_options_or_name_are_made_too)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool = NULL;

    OK(tarn_pool_create(world.device, NULL, &pool));
    OK(tarn_pool_destroy(pool));
    OK(tarn_pool_create(world.device, &options, &pool));
    OK(tarn_pool_destroy(pool));
    options.name = "a name of thirty-one bytes, all";
    ck_assert_uint_eq(strlen(options.name), 31);
    OK(tarn_pool_create(world.device, &options, &pool));
    OK(tarn_pool_destroy(pool));
}

TEST(lives, bad_arguments_of_create_are_refused)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool = UNTOUCHED;

    REFUSE(TARN_ERR_INVALID_ARGUMENT, "pool is NULL", tarn_pool_create(world.device, NULL, NULL));
    options.size -= 1;
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "size of a tarn_pool_options",
           tarn_pool_create(world.device, &options, &pool));
    options.size = sizeof options;
    options.name = "a name that is longer than thirty-one bytes";
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "31 bytes", tarn_pool_create(world.device, &options, &pool));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_pool_create(NULL, NULL, &pool));
    ck_assert_untouched(pool);
}

TEST(lives, what_is_not_a_pool_is_refused)
{
    _Alignas(128) uint64_t zeros[1024] = {0}; /* aligned as a record is */
    tarn_pool *destroyed = test_pool("destroyed");
    tarn_pool *released = test_pool("released");
    tarn_pool *foreign[] = {NULL, (tarn_pool *)(void *)world.device, (tarn_pool *)(void *)zeros,
                            destroyed, released};
    tarn_stats stats = {.size = sizeof stats, .map_count = 77};
    tarn_layout *layout = UNTOUCHED;
    size_t freed = 77;

    OK(tarn_pool_destroy(destroyed));
    OK(tarn_pool_release(released));
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        tarn_pool *pool = foreign[i];

        if (pool != NULL)
            REFUSE(TARN_ERR_INVALID_HANDLE, "pool", tarn_pool_destroy(pool));
        REFUSE(TARN_ERR_INVALID_HANDLE, "pool", tarn_pool_release(pool));
        REFUSE(TARN_ERR_INVALID_HANDLE, "pool", tarn_pool_reserve(pool, MIB, world.stream));
        REFUSE(TARN_ERR_INVALID_HANDLE, "pool", tarn_pool_trim(pool, &freed));
        REFUSE(TARN_ERR_INVALID_HANDLE, "pool", tarn_pool_stats(pool, &stats));
        REFUSE(TARN_ERR_INVALID_HANDLE, "pool", tarn_pool_validate(pool));
        REFUSE(TARN_ERR_INVALID_HANDLE, "pool", tarn_pool_layout(pool, &layout));
    }
    ck_assert_uint_eq(stats.map_count, 77);
    ck_assert_uint_eq(freed, 77);
    ck_assert_untouched(layout);
}

TEST(lives, outputs_that_are_missing_or_of_a_wrong_size_are_refused)
{
    tarn_stats stats = {.size = sizeof stats + 4, .map_count = 77};

    REFUSE(TARN_ERR_INVALID_ARGUMENT, "stats", tarn_pool_stats(world.pool, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "size", tarn_pool_stats(world.pool, &stats));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "layout", tarn_pool_layout(world.pool, NULL));
    ck_assert_uint_eq(stats.map_count, 77);
}

TEST(lives, the_default_pool_is_neither_destroyed_nor_released)
{
    REFUSE(TARN_ERR_WRONG_STATE, "default pool", tarn_pool_destroy(world.default_pool));
    REFUSE(TARN_ERR_WRONG_STATE, "default pool", tarn_pool_release(world.default_pool));
}

TEST(lives, a_pool_with_a_live_block_is_busy)
{
    void *address = test_alloc(world.pool, MIB, world.stream);

    REFUSE(TARN_ERR_BUSY, "'test' is in use: 1 live blocks, 0 routes, 0 captures, 0 graphs, 0 ",
           tarn_pool_destroy(world.pool));
    OK(tarn_free(address));
}

TEST(lives, a_pool_with_a_route_is_busy)
{
    tarn_route *route = test_route(world.pool, tarn_filter_thread, NULL);

    REFUSE(TARN_ERR_BUSY, "1 routes", tarn_pool_destroy(world.pool));
    OK(tarn_end_allocate_to_pool(route));
}

TEST(lives, a_pool_with_a_capture_or_graph_is_busy)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;

    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    REFUSE(TARN_ERR_BUSY, "1 captures", tarn_pool_destroy(world.pool));
    OK(tarn_capture_end(capture, &graph));
    REFUSE(TARN_ERR_BUSY, "1 graphs", tarn_pool_destroy(world.pool));
    OK(tarn_graph_destroy(graph));
}

TEST(lives, a_pool_with_a_checkpoint_is_busy)
{
    tarn_checkpoint *checkpoint = NULL;

    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, NULL, &checkpoint));
    REFUSE(TARN_ERR_BUSY, "1 checkpoints", tarn_pool_destroy(world.pool));
    OK(tarn_checkpoint_destroy(checkpoint));
}

TEST(lives, a_pool_is_busy_while_a_launch_of_a_destroyed_graph_runs)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    void *address;

    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    address = test_malloc(MIB);
    test_fill(world.stream, address, 1, 4);
    OK(tarn_free(address));
    OK(tarn_capture_end(capture, &graph));
    sim.hold_work();
    OK(tarn_graph_replay(graph, world.stream));
    OK(tarn_graph_destroy(graph));
    REFUSE(TARN_ERR_BUSY, "1 holds", tarn_pool_destroy(world.pool));
    sim.resume_work();
}

TEST(lives, destroy_waits_for_the_work_on_freed_memory)
{
    tarn_pool *pool = test_pool("waits");
    void *address = test_alloc(pool, 4 * MIB, world.stream);

    test_spin(world.stream, 30);
    test_fill(world.stream, address, 3, MIB);
    OK(tarn_free(address));
    OK(tarn_pool_destroy(pool));
    ck_assert_int_eq(test_stream_result(world.stream), TN_CUDA_SUCCESS);
    ck_assert_uint_eq(test_device_stats().mapped_bytes, 0);
}

TEST(lives, a_released_pool_goes_with_its_last_block)
{
    tarn_pool *pool = test_pool("released");
    void *first = test_alloc(pool, 4 * MIB, world.stream);
    void *second = test_alloc(pool, 512, world.stream);

    OK(tarn_pool_release(pool));
    ck_assert_uint_eq(test_device_stats().pool_count, 3);
    test_fill(world.stream, first, 7, MIB);
    test_expect_words(world.stream, first, 7, MIB);
    OK(tarn_free(first));
    ck_assert_uint_eq(test_device_stats().pool_count, 3);
    OK(tarn_free(second));
    OK(tarn_device_trim(world.device, 0, NULL)); /* proves that its memory is idle */
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
    ck_assert_uint_eq(test_device_stats().mapped_bytes, 0);
}

TEST(lives, a_released_pool_goes_at_once_when_nothing_keeps_it)
{
    tarn_pool *pool = test_pool("released");

    OK(tarn_free(test_alloc(pool, 4 * MIB, world.stream)));
    OK(tarn_pool_release(pool));
    OK(tarn_device_trim(world.device, 0, NULL)); /* proves that its memory is idle */
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
    ck_assert_uint_eq(test_device_stats().mapped_bytes, 0);
}

TEST(lives, a_released_pool_goes_with_its_route)
{
    tarn_pool *pool = test_pool("released");
    void *address;
    tarn_route *route = test_route(pool, tarn_filter_thread, NULL);

    OK(tarn_pool_release(pool));
    address = test_malloc(MIB); /* the route works as before */
    ck_assert_uint_eq(test_stats(world.default_pool).live_count, 0);
    OK(tarn_free(address));
    ck_assert_uint_eq(test_device_stats().pool_count, 3);
    OK(tarn_end_allocate_to_pool(route));
    OK(tarn_device_trim(world.device, 0, NULL)); /* proves that its memory is idle */
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
}

TEST(lives, a_released_pool_goes_with_its_graph)
{
    tarn_pool *pool = test_pool("released");
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    void *address;
    void *output = test_malloc(512);

    OK(tarn_capture_begin(pool, world.stream, NULL, &capture));
    address = test_malloc(MIB);
    test_fill(world.stream, address, 6, 1);
    test_copy(world.stream, output, address, 4);
    OK(tarn_free(address));
    OK(tarn_pool_release(pool)); /* in the middle of the capture */
    OK(tarn_capture_end(capture, &graph));
    OK(tarn_graph_replay(graph, world.stream));
    ck_assert_uint_eq(test_read(world.stream, output), 6);
    OK(tarn_graph_destroy(graph));
    test_await_destructors(0);
    OK(tarn_device_trim(world.device, 0, NULL)); /* proves that its memory is idle */
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
    OK(tarn_free(output));
}

TEST(lives, a_released_pool_goes_with_its_aborted_capture)
{
    tarn_pool *pool = test_pool("released");
    tarn_capture *capture = NULL;

    OK(tarn_capture_begin(pool, world.stream, NULL, &capture));
    OK(tarn_pool_release(pool));
    OK(tarn_capture_abort(capture));
    test_await_destructors(0);
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
}

TEST(lives, a_released_pool_goes_with_its_checkpoint)
{
    tarn_pool *pool = test_pool("released");
    tarn_checkpoint *checkpoint = NULL;
    tarn_delta *delta = NULL;
    void *address = test_alloc(pool, MIB, world.stream);

    OK(tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, NULL, &checkpoint));
    OK(tarn_pool_release(pool));
    OK(tarn_free(address));
    ck_assert_uint_eq(test_device_stats().pool_count, 3);
    OK(tarn_checkpoint_restore(checkpoint, world.stream, &delta)); /* works as before */
    ck_assert_uint_eq(delta->revived_count, 1);
    tarn_delta_destroy(delta);
    OK(tarn_free(address));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_device_trim(world.device, 0, NULL)); /* proves that its memory is idle */
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
}

GROUP(memory, test_world_open, test_world_close)

TEST(memory, a_reservation_serves_allocations_without_mapping)
{
    static const size_t sizes[] = {64 * MIB, 4 * MIB, MIB};
    void *blocks[64];

    OK(tarn_pool_reserve(world.pool, 64 * MIB, world.stream));
    ck_assert_uint_ge(test_stats(world.pool).mapped_bytes, 64 * MIB);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t mapped = test_stats(world.pool).map_count;
        size_t count = 64 * MIB / sizes[i];

        for (size_t block = 0; block < count; block++)
            blocks[block] = test_alloc(world.pool, sizes[i], world.stream);
        if (sizes[i] > MIB) /* small blocks have memory of their own, a part of it reserved */
            ck_assert_uint_eq(test_stats(world.pool).map_count, mapped);
        for (size_t block = 0; block < count; block++)
            OK(tarn_free(blocks[block]));
    }
}

TEST(memory, a_reservation_counts_the_free_memory_that_is_there)
{
    uint64_t mapped;

    OK(tarn_pool_reserve(world.pool, 64 * MIB, world.stream));
    mapped = test_stats(world.pool).mapped_bytes;
    OK(tarn_pool_reserve(world.pool, 64 * MIB, world.stream));
    OK(tarn_pool_reserve(world.pool, 32 * MIB, world.stream));
    OK(tarn_pool_reserve(world.pool, 0, world.stream));
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, mapped);
}

TEST(memory, a_reservation_on_a_capturing_stream_serves_the_capture)
{
    tarn_capture *capture = NULL;
    uint64_t mapped;
    void *address;

    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    OK(tarn_pool_reserve(world.pool, 32 * MIB, world.stream));
    mapped = test_stats(world.pool).map_count;
    address = test_malloc(32 * MIB);
    ck_assert_uint_eq(test_stats(world.pool).map_count, mapped);
    REFUSE(TARN_ERR_UNROUTED, "default pool",
           tarn_pool_reserve(world.default_pool, MIB, world.stream));
    OK(tarn_free(address));
    OK(tarn_capture_abort(capture));
}

GROUP(own, NULL, .name = "in a world of its own")

TEST(own, a_reservation_that_does_not_fit_is_refused)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *limited = NULL;

    ck_assert_int_eq(setenv("TARN_SIM_MEMORY_MIB", "128", 1), 0);
    test_world_open();
    REFUSE(TARN_ERR_DEVICE_MEMORY, "no ", tarn_pool_reserve(world.pool, 256 * MIB, world.stream));
    options.limit_bytes = 32 * MIB;
    OK(tarn_pool_create(world.device, &options, &limited));
    REFUSE(TARN_ERR_LIMIT, "32 MiB", tarn_pool_reserve(limited, 64 * MIB, world.stream));
    OK(tarn_pool_destroy(limited));
    test_world_close();
}

TEST(memory, a_refused_call_of_the_driver_ends_a_reservation)
{
    sim.plan_fault("cuMemMap", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_pool_reserve(world.pool, MIB, world.stream));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "cuMemMap"));
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
    OK(tarn_pool_validate(world.pool));
}

TEST(memory, a_pool_maps_no_more_than_its_limit)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool = NULL;
    void *address = UNTOUCHED;
    void *held;

    options.limit_bytes = 16 * MIB;
    options.name = "limited";
    OK(tarn_pool_create(world.device, &options, &pool));
    REFUSE(TARN_ERR_LIMIT, "'limited'",
           tarn_pool_malloc(pool, 64 * MIB, 0, world.stream, &address));
    ck_assert_untouched(address);
    held = test_alloc(pool, 8 * MIB, world.stream);
    REFUSE(TARN_ERR_LIMIT, "16 MiB", tarn_pool_malloc(pool, 16 * MIB, 0, world.stream, &address));
    ck_assert_untouched(address);
    OK(tarn_free(held));
    held = test_alloc(pool, 16 * MIB, world.stream); /* in the place of what was freed */
    ck_assert_uint_le(test_stats(pool).mapped_peak_bytes, 16 * MIB);
    OK(tarn_free(held));
    OK(tarn_pool_destroy(pool));
}

TEST(memory, trim_gives_exactly_the_bytes_back)
{
    size_t before = test_free_bytes();
    void *kept = test_alloc(world.pool, 4 * MIB, world.stream);
    void *freed[8];
    size_t given = 0;
    size_t free_bytes;
    uint64_t mapped;

    for (int i = 0; i < 8; i++)
        freed[i] = test_alloc(world.pool, (size_t)(i + 1) * MIB + 512, world.stream);
    mapped = test_stats(world.pool).mapped_bytes;
    ck_assert_uint_eq(before - test_free_bytes(), mapped);
    for (int i = 0; i < 8; i++)
        OK(tarn_free(freed[i]));
    free_bytes = test_free_bytes();
    OK(tarn_pool_trim(world.pool, &given));
    ck_assert_uint_gt(given, 32 * MIB);
    ck_assert_uint_eq(test_free_bytes() - free_bytes, given);
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, mapped - given);
    OK(tarn_pool_validate(world.pool));
    test_fill(world.stream, kept, 1, MIB); /* addresses of live blocks do not change */
    test_expect_words(world.stream, kept, 1, MIB);
    OK(tarn_pool_trim(world.pool, &given));
    ck_assert_uint_eq(given, 0);
    OK(tarn_free(kept));
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_eq(test_free_bytes(), before);
}

TEST(memory, trim_waits_for_freed_memory_that_is_in_use)
{
    void *address = test_alloc(world.pool, 8 * MIB, world.stream);
    size_t given = 0;

    test_spin(world.stream, 30);
    test_fill(world.stream, address, 1, 2 * MIB);
    OK(tarn_free(address));
    OK(tarn_pool_trim(world.pool, &given));
    ck_assert_uint_ge(given, 8 * MIB);
    ck_assert_int_eq(test_stream_result(world.stream), TN_CUDA_SUCCESS);
}

TEST(memory, trim_breaks_no_capture_and_keeps_what_graphs_hold)
{
    tarn_pool *other = test_pool("other");
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    void *address;
    size_t given = 0;

    OK(tarn_free(test_alloc(other, 8 * MIB, world.side)));
    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    address = test_malloc(8 * MIB);
    test_fill(world.stream, address, 4, 1);
    OK(tarn_free(address));
    OK(tarn_pool_trim(other, &given)); /* waits for the device */
    ck_assert_uint_ge(given, 8 * MIB);
    OK(tarn_pool_trim(world.pool, &given));
    ck_assert_uint_eq(given, 0);
    OK(tarn_capture_end(capture, &graph));
    OK(tarn_pool_trim(world.pool, &given));
    ck_assert_uint_eq(given, 0);
    ck_assert_uint_ge(test_stats(world.pool).captured_bytes, 8 * MIB);
    OK(tarn_graph_replay(graph, world.stream));
    ck_assert_uint_eq(test_read(world.stream, address), 4);
    OK(tarn_graph_destroy(graph));
    OK(tarn_pool_destroy(other));
}

TEST(memory, stats_count_what_happens)
{
    void *first = test_alloc(world.pool, 1000, world.stream);
    void *second = test_alloc(world.pool, 3 * MIB, world.side);
    struct test_stats stats = test_stats(world.pool);

    ck_assert_uint_eq(stats.live_count, 2);
    ck_assert_uint_eq(stats.live_bytes, 1024 + 3 * MIB);
    ck_assert_uint_eq(stats.requested_bytes, 1000 + 3 * MIB);
    ck_assert_uint_eq(stats.alloc_count, 2);
    ck_assert_uint_eq(stats.free_count, 0);
    ck_assert_uint_eq(stats.arena_count, 2);
    ck_assert_uint_ge(stats.segment_count, 2);
    ck_assert_uint_ge(stats.chunk_count, 2);
    ck_assert_uint_eq(stats.map_count, stats.chunk_count);
    ck_assert_uint_eq(stats.unmap_count, 0);
    OK(tarn_free(first));
    OK(tarn_free(second));
    OK(tarn_pool_trim(world.pool, NULL));
    stats = test_stats(world.pool);
    ck_assert_uint_eq(stats.live_bytes, 0);
    ck_assert_uint_eq(stats.live_peak_bytes, 1024 + 3 * MIB);
    ck_assert_uint_eq(stats.requested_bytes, 0);
    ck_assert_uint_eq(stats.free_count, 2);
    ck_assert_uint_eq(stats.mapped_bytes, 0);
    ck_assert_uint_ge(stats.mapped_peak_bytes, 3 * MIB);
    ck_assert_uint_eq(stats.chunk_count, 0);
    ck_assert_uint_eq(stats.segment_count, 0);
    ck_assert_uint_eq(stats.unmap_count, stats.map_count);
}

static uint64_t bytes_in(const tarn_layout *layout, tarn_extent_state state)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < layout->extent_count; i++)
        bytes += layout->extents[i].state == state ? layout->extents[i].bytes : 0;
    return bytes;
}

TEST(memory, the_layout_tiles_the_segments_and_agrees_with_the_stats)
{
    void *live = test_alloc(world.pool, 5 * MIB, world.stream);
    void *freed = test_alloc(world.pool, 3 * MIB, world.stream);
    void *pending = test_alloc(world.pool, 2 * MIB, world.stream);
    void *small = test_alloc(world.pool, 700, world.stream);
    tarn_layout *layout = NULL;
    struct test_stats stats;
    tarn_block block;
    bool found = false;

    sim.hold_work();
    test_spin(world.side, 1);
    OK(tarn_free_on(pending, world.side));
    OK(tarn_free(freed));
    OK(tarn_block_at(live, &block));
    stats = test_stats(world.pool);
    OK(tarn_pool_layout(world.pool, &layout));
    ck_assert_uint_eq(layout->segment_count, stats.segment_count);
    for (size_t i = 0; i < layout->extent_count; i++) {
        const tarn_extent *extent = &layout->extents[i];
        const tarn_extent *before = i > 0 ? extent - 1 : NULL;

        if (before != NULL && before->segment_index == extent->segment_index)
            ck_assert_ptr_eq((char *)before->address + before->bytes, extent->address);
        else if (before != NULL)
            ck_assert_uint_gt(extent->segment_index, before->segment_index);
        ck_assert_uint_eq(extent->sequence != 0, extent->state == TARN_EXTENT_LIVE);
        if (extent->address == live) {
            ck_assert_uint_eq(extent->bytes, 5 * MIB);
            ck_assert_uint_eq(extent->sequence, block.sequence);
            found = true;
        }
    }
    ck_assert(found);
    ck_assert_uint_eq(bytes_in(layout, TARN_EXTENT_LIVE), stats.live_bytes);
    ck_assert_uint_eq(bytes_in(layout, TARN_EXTENT_PENDING), stats.pending_bytes);
    ck_assert_uint_eq(bytes_in(layout, TARN_EXTENT_PENDING), 2 * MIB);
    ck_assert_uint_eq(bytes_in(layout, TARN_EXTENT_DISCARDED), 0);
    ck_assert_uint_eq(bytes_in(layout, TARN_EXTENT_LIVE) + bytes_in(layout, TARN_EXTENT_PENDING) +
                          bytes_in(layout, TARN_EXTENT_FREE),
                      stats.mapped_bytes);
    ck_assert_uint_gt(bytes_in(layout, TARN_EXTENT_UNMAPPED), 0);
    tarn_layout_destroy(layout);
    sim.resume_work();
    OK(tarn_free(live));
    OK(tarn_free(small));
}

TEST(memory, the_layout_of_an_empty_pool_is_empty)
{
    tarn_layout *layout = NULL;

    OK(tarn_pool_layout(world.pool, &layout));
    ck_assert_uint_eq(layout->extent_count, 0);
    ck_assert_uint_eq(layout->segment_count, 0);
    tarn_layout_destroy(layout);
}

TEST(memory, the_same_calls_give_the_same_layout)
{
    tarn_pool *pool = test_pool("first");
    uintptr_t first[3];
    size_t sizes[3] = {700, 5 * MIB, 40 * MIB};

    for (int round = 0; round < 2; round++) {
        void *blocks[3];

        for (int i = 0; i < 3; i++) {
            blocks[i] = test_alloc(pool, sizes[i], world.stream);
            if (round == 0)
                first[i] = (uintptr_t)blocks[i];
            ck_assert_uint_eq((uintptr_t)blocks[i], first[i]);
        }
        for (int i = 0; i < 3; i++)
            OK(tarn_free(blocks[i]));
        OK(tarn_pool_destroy(pool));
        pool = test_pool("second");
    }
    OK(tarn_pool_destroy(pool));
}
