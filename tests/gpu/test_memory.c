// SPDX-License-Identifier: Apache-2.0
/* Memory on hardware: what the statistics say is what the driver says, and blocks are real. */
#include "support/world.h"

GROUP(memory, test_world_open, test_world_close, .timeout = 120)

TEST(memory, mapped_bytes_are_what_the_driver_counts_to_the_byte)
{
    enum { COUNT = 24 };
    void *blocks[COUNT];
    size_t before = test_free_bytes();

    for (int i = 0; i < COUNT; i++) {
        blocks[i] = test_alloc(i % 2 == 0 ? world.pool : world.default_pool,
                               (size_t)(i * i) * 300000 + 1, world.stream);
        ck_assert_uint_eq(before - test_free_bytes(), test_device_stats().mapped_bytes);
    }
    ck_assert_uint_eq(test_device_stats().mapped_peak_bytes, test_device_stats().mapped_bytes);
    for (int i = 0; i < COUNT; i++) {
        size_t given = 0;
        size_t free_bytes;

        OK(tarn_free(blocks[i]));
        free_bytes = test_free_bytes();
        OK(tarn_pool_trim(world.pool, &given));
        ck_assert_uint_eq(test_free_bytes() - free_bytes, given);
        ck_assert_uint_eq(before - test_free_bytes(), test_device_stats().mapped_bytes);
    }
    OK(tarn_pool_trim(world.default_pool, NULL));
    ck_assert_uint_eq(test_free_bytes(), before);
    ck_assert_uint_eq(test_device_stats().mapped_bytes, 0);
}

TEST(memory, a_reservation_maps_ahead_and_allocations_map_nothing)
{
    void *blocks[16];
    size_t free_bytes;

    OK(tarn_pool_reserve(world.pool, 256 * MIB, world.stream));
    free_bytes = test_free_bytes();
    for (int i = 0; i < 16; i++)
        blocks[i] = test_alloc(world.pool, 16 * MIB, world.stream);
    ck_assert_uint_eq(test_free_bytes(), free_bytes);
    for (uint32_t i = 0; i < 16; i++)
        test_fill(world.stream, blocks[i], i, 4 * MIB);
    for (uint32_t i = 0; i < 16; i++) {
        test_expect_words(world.stream, blocks[i], i, 4 * MIB);
        OK(tarn_free(blocks[i]));
    }
}

TEST(memory, every_byte_of_a_block_across_chunks_is_its_own)
{
    static const size_t sizes[] = {2 * MIB + 4, 33 * MIB, 70 * MIB + 512, 300 * MIB, 1024};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    void *blocks[COUNT];

    for (uint32_t i = 0; i < COUNT; i++) {
        blocks[i] = test_malloc(sizes[i]);
        test_fill(world.stream, blocks[i], i + 1, sizes[i] / 4);
    }
    for (uint32_t i = 0; i < COUNT; i++)
        test_expect_words(world.stream, blocks[i], i + 1, sizes[i] / 4);
    for (int i = 0; i < COUNT; i++)
        OK(tarn_free(blocks[i]));
}

TEST(memory, all_kinds_of_streams_are_served)
{
    tn_cu_stream blocking = test_blocking_stream();
    tn_cu_stream streams[] = {NULL, TN_CU_STREAM_LEGACY, TN_CU_STREAM_PER_THREAD, blocking};

    for (uint32_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
        void *address = NULL;

        OK(tarn_malloc(world.device, MIB, streams[i], &address));
        test_fill(streams[i], address, i, MIB / 4);
        test_expect_words(streams[i], address, i, MIB / 4);
        OK(tarn_record_stream(address, world.side));
        OK(tarn_free(address));
    }
    OK(tarn_pool_trim(world.default_pool, NULL));
    test_destroy_stream(blocking);
}

TEST(memory, more_than_the_device_has_is_refused_and_harms_nothing)
{
    tarn_device_info info = TARN_DEVICE_INFO_INIT;
    void *kept = test_malloc(MIB);
    void *address = UNTOUCHED;
    size_t before;

    test_fill(world.stream, kept, 6, MIB / 4);
    test_synchronize(world.stream); /* the first launch may load the kernel */
    before = test_free_bytes();
    OK(tarn_device_describe(world.device, &info));
    STATUS(TARN_ERR_DEVICE_MEMORY,
           tarn_malloc(world.device, info.total_bytes + GIB, world.stream, &address));
    ck_assert_untouched(address);
    ck_assert_uint_ge(test_free_bytes(), before);
    OK(tarn_pool_validate(world.default_pool));
    test_expect_words(world.stream, kept, 6, MIB / 4);
    OK(tarn_free(kept));
}

TEST(memory, the_callers_context_is_left_as_it_was)
{
    tn_cu_context mine = test_context();
    void *address = NULL;

    test_set_context(NULL);
    OK(tarn_malloc(world.device, 64 * MIB, world.stream, &address));
    ck_assert_ptr_null(test_context());
    OK(tarn_free_on(address, NULL));
    ck_assert_ptr_null(test_context());
    OK(tarn_pool_trim(world.default_pool, NULL));
    ck_assert_ptr_null(test_context());
    test_set_context(mine);
}
