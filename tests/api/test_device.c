// SPDX-License-Identifier: Apache-2.0
/* An open device: its users, what it says of itself, what keeps it open, its limit. */
#include <stdlib.h>

#include "support/world.h"

SUITE("devices")
GROUP(open, test_world_open, test_world_close, .name = "an open device")

TEST(open, a_device_says_what_it_is)
{
    tarn_device_info info;

    memset(&info, 0xa5, sizeof info);
    info.size = sizeof info;
    OK(tarn_device_describe(world.device, &info));
    ck_assert_uint_eq(info.size, sizeof info);
    ck_assert_int_eq(info.ordinal, 0);
    ck_assert_int_ge(info.driver_version, 12040);
    ck_assert_uint_eq(info.total_bytes, 8192 * MIB);
    ck_assert_uint_gt(strlen(info.name), 0);
    ck_assert_str_eq(info.driver, getenv("TARN_DRIVER"));
    ck_assert(info.simulated);
}

TEST(open, a_device_is_shared_and_counted)
{
    tarn_device *again = NULL;
    void *address = NULL;

    OK(tarn_device_open(0, NULL, &again));
    ck_assert_ptr_eq(again, world.device);
    address = test_malloc(512);
    OK(tarn_device_close(again)); /* not the last use: a live block does not matter */
    OK(tarn_free(address));
}

TEST(open, a_closed_device_is_no_handle_any_more)
{
    tarn_device *device = world.device;
    tarn_stats stats = TARN_STATS_INIT;
    void *address = UNTOUCHED;

    OK(tarn_pool_destroy(world.pool));
    OK(tarn_device_close(device));
    test_same_ledger(&world.ledger);
    test_world_abandon();
    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_device_close(device));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_device_stats(device, &stats));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_malloc(device, 1, world.stream, &address));
    ck_assert_untouched(address);
}

TEST(open, a_device_opened_again_is_as_new)
{
    void *address = test_malloc(4 * MIB);

    OK(tarn_free(address));
    OK(tarn_pool_destroy(world.pool));
    OK(tarn_device_close(world.device));
    OK(tarn_device_open(0, NULL, &world.device));
    OK(tarn_device_default_pool(world.device, &world.default_pool));
    ck_assert_uint_eq(test_device_stats().mapped_bytes, 0);
    ck_assert_uint_eq(test_device_stats().mapped_peak_bytes, 0);
    ck_assert_uint_eq(test_device_stats().pool_count, 1);
    world.pool = test_pool("test");
    OK(tarn_free(test_malloc(512)));
}

TEST(open, what_is_not_a_device_is_refused)
{
    uint64_t zeros[512] = {0};
    tarn_device *const foreign[] = {NULL, (tarn_device *)(void *)world.pool,
                                    (tarn_device *)(void *)zeros};
    tarn_device_info info = {.size = sizeof info, .ordinal = -7};
    tarn_stats stats = {.size = sizeof stats, .pool_count = 77};
    tarn_pool *pool = UNTOUCHED;

    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_device_close(foreign[i]));
        REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_device_describe(foreign[i], &info));
        REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_device_stats(foreign[i], &stats));
        REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_device_default_pool(foreign[i], &pool));
        REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_pool_create(foreign[i], NULL, &pool));
    }
    ck_assert_int_eq(info.ordinal, -7);
    ck_assert_uint_eq(stats.pool_count, 77);
    ck_assert_untouched(pool);
}

TEST(open, outputs_of_a_wrong_size_are_refused_and_untouched)
{
    tarn_device_info info = {.size = sizeof info - 1, .ordinal = -7};
    tarn_stats stats = {.size = 0, .pool_count = 77};

    REFUSE(TARN_ERR_INVALID_ARGUMENT, "info", tarn_device_describe(world.device, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "size", tarn_device_describe(world.device, &info));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "stats", tarn_device_stats(world.device, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "size", tarn_device_stats(world.device, &stats));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "pool", tarn_device_default_pool(world.device, NULL));
    ck_assert_int_eq(info.ordinal, -7);
    ck_assert_uint_eq(stats.pool_count, 77);
}

TEST(open, a_device_in_use_is_busy_and_the_sentence_counts)
{
    tarn_capture *capture = NULL;
    tarn_checkpoint *checkpoint = NULL;
    tarn_graph *graph = NULL;
    void *address = test_malloc(512);
    tarn_route *route;

    REFUSE(TARN_ERR_BUSY, "1 private pools", tarn_device_close(world.device));
    route = test_route(world.pool, tarn_filter_thread, NULL);
    REFUSE(TARN_ERR_BUSY, "1 private pools", tarn_device_close(world.device));
    OK(tarn_end_allocate_to_pool(route));
    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    REFUSE(TARN_ERR_BUSY, "in use", tarn_device_close(world.device));
    OK(tarn_capture_end(capture, &graph));
    REFUSE(TARN_ERR_BUSY, "in use", tarn_device_close(world.device));
    OK(tarn_graph_destroy(graph));
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, NULL, &checkpoint));
    REFUSE(TARN_ERR_BUSY, "in use", tarn_device_close(world.device));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_pool_destroy(world.pool));
    world.pool = NULL;
    REFUSE(TARN_ERR_BUSY, "1 live blocks", tarn_device_close(world.device));
    OK(tarn_free(address));
    world.pool = test_pool("test");
}

TEST(open, a_device_closes_right_after_the_last_graph_of_a_released_pool)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;

    for (int round = 0; round < 50; round++) {
        OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
        test_fill(world.stream, test_malloc(512), 1, 1);
        OK(tarn_capture_abort(capture));
        OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
        OK(tarn_free(test_malloc(512)));
        OK(tarn_capture_end(capture, &graph));
        OK(tarn_pool_release(world.pool));
        OK(tarn_graph_destroy(graph));
        OK(tarn_device_close(world.device));
        test_same_ledger(&world.ledger);
        OK(tarn_device_open(0, NULL, &world.device));
        OK(tarn_device_default_pool(world.device, &world.default_pool));
        world.pool = test_pool("test");
    }
}

TEST(open, closing_waits_for_the_work_on_freed_memory)
{
    void *address = test_malloc(4 * MIB);

    test_spin(world.stream, 30);
    test_fill(world.stream, address, 3, MIB);
    OK(tarn_free(address));
    OK(tarn_pool_destroy(world.pool));
    OK(tarn_device_close(world.device)); /* unmapped too early, the kernel would fault */
    ck_assert_int_eq(test_stream_result(world.stream), TN_CUDA_SUCCESS);
    test_same_ledger(&world.ledger);
    test_world_abandon();
}

TEST(open, device_stats_are_the_sums_over_its_pools)
{
    void *one = test_malloc(1000);
    void *two = test_alloc(world.pool, 3 * MIB + 1, world.stream);
    struct test_device_stats stats = test_device_stats();
    struct test_stats first = test_stats(world.default_pool);
    struct test_stats second = test_stats(world.pool);
    tarn_route *route;

    ck_assert_uint_eq(stats.mapped_bytes, first.mapped_bytes + second.mapped_bytes);
    ck_assert_uint_eq(stats.mapped_peak_bytes, stats.mapped_bytes);
    ck_assert_uint_eq(stats.live_bytes, 1024 + 3 * MIB + 512);
    ck_assert_uint_eq(stats.requested_bytes, 1000 + 3 * MIB + 1);
    ck_assert_uint_eq(stats.pool_count, 2);
    ck_assert_uint_eq(stats.route_count, 0);
    route = test_route(world.pool, tarn_filter_thread, NULL);
    ck_assert_uint_eq(test_device_stats().route_count, 1);
    OK(tarn_end_allocate_to_pool(route));
    OK(tarn_free(one));
    OK(tarn_free(two));
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_eq(test_device_stats().mapped_peak_bytes, stats.mapped_peak_bytes);
    ck_assert_uint_lt(test_device_stats().mapped_bytes, stats.mapped_bytes);
    ck_assert_uint_ge(test_device_stats().idle_waits, 1); /* the trim waited */
}

TEST(open, the_default_pool_is_always_the_same)
{
    tarn_pool *again = NULL;

    OK(tarn_device_default_pool(world.device, &again));
    ck_assert_ptr_eq(again, world.default_pool);
    ck_assert_ptr_ne(again, world.pool);
}

GROUP(own, NULL, .name = "opened by the test")

TEST(own, a_device_maps_no_more_than_its_limit)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_device *device = NULL;
    void *address = UNTOUCHED;
    void *half = NULL;

    test_start();
    world.stream = test_stream();
    options.limit_bytes = 16 * MIB;
    OK(tarn_device_open(0, &options, &device));
    REFUSE(TARN_ERR_LIMIT, "16 MiB", tarn_malloc(device, 17 * MIB, world.stream, &address));
    ck_assert_untouched(address);
    OK(tarn_malloc(device, 8 * MIB, world.stream, &half));
    world.device = device;
    OK(tarn_device_default_pool(device, &world.default_pool));
    REFUSE(TARN_ERR_LIMIT, "8 MiB", tarn_malloc(device, 16 * MIB, world.stream, &address));
    ck_assert_untouched(address);
    OK(tarn_free(half));
    OK(tarn_malloc(device, 16 * MIB, world.stream, &address));
    OK(tarn_free(address));
    OK(tarn_device_close(device));
}

TEST(own, two_devices_have_their_own_memory)
{
    tarn_device_info info = TARN_DEVICE_INFO_INIT;
    tarn_stats stats = TARN_STATS_INIT;
    tarn_device *second = NULL;
    tarn_pool *pool = NULL;
    tn_cu_context mine;
    tn_cu_stream there;
    void *address = NULL;
    tarn_block block;
    tarn_route *route = UNTOUCHED;

    ck_assert_int_eq(setenv("TARN_SIM_DEVICES", "2", 1), 0);
    test_world_open();
    mine = test_context();
    OK(tarn_device_open(1, NULL, &second));
    ck_assert_ptr_ne(second, world.device);
    OK(tarn_device_describe(second, &info));
    ck_assert_int_eq(info.ordinal, 1);
    test_set_context(test_retain(1));
    there = test_stream();
    test_set_context(mine);
    OK(tarn_pool_create(second, NULL, &pool));
    OK(tarn_pool_malloc(pool, MIB, 0, there,
                        &address)); /* with the first device's context current */
    ck_assert_ptr_eq(test_context(), mine);
    ck_assert_uint_eq(test_device_stats().mapped_bytes, 0);
    OK(tarn_device_stats(second, &stats));
    ck_assert_uint_ge(stats.mapped_bytes.all.current, MIB);
    OK(tarn_block_at(address, &block));
    ck_assert_ptr_eq(block.pool, pool);

    REFUSE(TARN_ERR_INVALID_ARGUMENT, "another device",
           tarn_begin_allocate_to_pool(world.device, pool, tarn_filter_thread, NULL, &route));
    ck_assert_untouched(route);

    test_set_words(there, address, 5, MIB / 4);
    OK(tarn_record_stream(address, world.stream));
    test_expect_words(there, address, 5, MIB / 4);
    OK(tarn_free(address));
    OK(tarn_pool_destroy(pool));
    OK(tarn_device_close(second));
    ck_assert_ptr_eq(test_context(), mine);
    test_destroy_stream(there);
    test_release(1);
    test_world_close();
}
