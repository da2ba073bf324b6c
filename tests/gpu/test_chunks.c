// SPDX-License-Identifier: Apache-2.0
/* Chunks on hardware: what the library says is mapped and cached is what the driver says is gone, to the
 * byte, whatever grows, is trimmed, ends or waits. */
#include <unistd.h>

#include "support/world.h"

static size_t free_before; /* before the library took anything */

static void open_world(void)
{
    test_world_open();
    free_before = test_free_bytes();
}

static void close_world(void)
{
    OK(tarn_device_trim(world.device, 0, NULL));
    ck_assert_uint_eq(test_free_bytes(), free_before);
    test_world_close();
}

/* What is mapped and what is cached; both as they should be, and the sum as the driver says. */
static void expect_taken(uint64_t mapped, uint64_t cached)
{
    struct test_device_stats stats = test_device_stats();

    ck_assert_uint_eq(stats.mapped_bytes, mapped);
    ck_assert_uint_eq(stats.cached_bytes, cached);
    ck_assert_uint_eq(free_before - test_free_bytes(), mapped + cached);
}

SUITE("chunks on the GPU")
GROUP(chunks, open_world, close_world)

TEST(chunks, every_byte_is_mapped_cached_or_given_back)
{
    tarn_pool *gone = test_pool("gone");
    void *blocks[4];

    for (int i = 0; i < 4; i++)
        blocks[i] = test_alloc(gone, 16 * MIB, i % 2 == 0 ? world.stream : world.side);
    expect_taken(64 * MIB, 0);
    for (int i = 0; i < 4; i++)
        OK(tarn_free(blocks[i]));
    expect_taken(64 * MIB, 0);
    OK(tarn_pool_trim_to(gone, 40 * MIB, NULL));
    expect_taken(32 * MIB, 0); /* chunks go whole */
    OK(tarn_pool_destroy(gone));
    expect_taken(0, 32 * MIB);
    blocks[0] = test_alloc(world.pool, 16 * MIB, world.stream);
    expect_taken(16 * MIB, 16 * MIB);
    OK(tarn_device_set_cache_limit(world.device, 8 * MIB));
    expect_taken(16 * MIB, 0);
    OK(tarn_device_set_cache_limit(world.device, 256 * MIB));
    OK(tarn_free(blocks[0]));
    OK(tarn_device_trim(world.device, 16 * MIB, NULL));
    expect_taken(16 * MIB, 0);
    OK(tarn_device_trim(world.device, 15 * MIB, NULL));
    expect_taken(0, 0);
}

TEST(chunks, memory_passes_from_pool_to_pool_through_the_cache)
{
    for (uint32_t round = 1; round <= 50; round++) {
        tarn_pool *pool = test_pool("round");
        void *block = test_alloc(pool, 48 * MIB, round % 2 == 0 ? world.stream : world.side);

        test_fill(world.stream, block, round, 12 * MIB);
        OK(tarn_record_stream(block, world.stream));
        if (round % 10 == 0)
            test_expect_words(world.stream, block, round, 12 * MIB);
        OK(tarn_free(block));
        OK(tarn_pool_destroy(pool)); /* under the kernel: it waits */
        expect_taken(0, 48 * MIB);
    }
}

/* A kernel is at work in the memory that is to go. */
TEST(chunks, a_trim_waits_for_the_work_in_what_goes)
{
    void *block = test_alloc(world.pool, 32 * MIB, world.stream);

    test_spin(world.stream, 60);
    test_fill(world.stream, block, 7, 8 * MIB);
    OK(tarn_free(block));
    OK(tarn_pool_trim(world.pool, NULL));
    CU_OK(test_stream_result(world.stream)); /* nothing was lost */
    expect_taken(0, 0);
}

TEST(chunks, holes_are_filled_with_other_memory)
{
    enum { COUNT = 8 };
    void *blocks[COUNT];

    for (uint32_t i = 0; i < COUNT; i++) {
        blocks[i] = test_alloc(world.pool, 2 * MIB, world.stream);
        test_fill(world.stream, blocks[i], i, MIB / 2);
    }
    for (int i = 1; i < COUNT; i += 2)
        OK(tarn_free(blocks[i]));
    OK(tarn_pool_trim(world.pool, NULL));
    expect_taken(COUNT * MIB, 0);
    for (uint32_t i = 1; i < COUNT; i += 2) {
        blocks[i] = test_alloc(world.pool, 2 * MIB, world.stream);
        test_fill(world.stream, blocks[i], i + 100, MIB / 2);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        test_expect_words(world.stream, blocks[i], i % 2 == 0 ? i : i + 100, MIB / 2);
        OK(tarn_free(blocks[i]));
    }
}

/* What is written at the one address stands at the other. */
TEST(chunks, a_chunk_of_an_exportable_pool_is_exported)
{
    void *imported;
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool;
    void *block;
    int descriptor;

    options.exportable = true;
    pool = test_pool_with(&options);
    block = test_alloc(pool, 4 * MIB, world.stream);
    ck_assert_int_ne(test_properties(block).handle_types, 0);
    descriptor = test_export(block);
    ck_assert_int_ge(descriptor, 0);
    imported = test_import(descriptor, 4 * MIB);
    ck_assert_int_eq(close(descriptor), 0);
    ck_assert_ptr_ne(imported, block);
    test_fill(world.stream, block, 7, MIB);
    test_expect_words(world.stream, imported, 7, MIB);
    test_fill(world.stream, imported, 8, MIB);
    test_expect_words(world.stream, block, 8, MIB);
    test_end_import(imported, 4 * MIB);
    OK(tarn_free(block));
    OK(tarn_pool_destroy(pool));
    expect_taken(0, 0); /* such memory is not cached */
}

TEST(chunks, memory_for_rdma_is_made_where_the_device_can)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool = NULL;
    tarn_status status;
    void *block;

    options.gpu_direct_rdma = true;
    status = tarn_pool_create(world.device, &options, &pool);
    if (status == TARN_ERR_NOT_SUPPORTED)
        return;
    OK(status);
    block = test_alloc(pool, 4 * MIB, world.stream);
    ck_assert(test_properties(block).rdma);
    test_fill(world.stream, block, 3, MIB);
    test_expect_words(world.stream, block, 3, MIB);
    OK(tarn_free(block));
    OK(tarn_pool_destroy(pool));
    expect_taken(0, 4 * MIB);
    OK(tarn_free(test_alloc(world.pool, 4 * MIB, world.stream)));
    expect_taken(4 * MIB, 4 * MIB); /* of another kind */
}

TEST(chunks, limits_are_kept_to_the_byte)
{
    tarn_device_info info = TARN_DEVICE_INFO_INIT;
    void *block = test_alloc(world.pool, 32 * MIB, world.stream);
    void *more = UNTOUCHED;

    OK(tarn_pool_set_limit(world.pool, 40 * MIB));
    STATUS(TARN_ERR_LIMIT, tarn_pool_malloc(world.pool, 9 * MIB, 0, world.stream, &more));
    expect_taken(32 * MIB, 0);
    more = test_alloc(world.pool, 8 * MIB, world.stream);
    expect_taken(40 * MIB, 0);
    OK(tarn_free(more));
    OK(tarn_pool_set_limit(world.pool, 0));
    OK(tarn_device_describe(world.device, &info));
    OK(tarn_device_set_memory_fraction(world.device,
                                       64.0 * (double)MIB / (double)info.total_bytes));
    STATUS(TARN_ERR_LIMIT, tarn_malloc(world.device, 40 * MIB, world.stream, &more));
    OK(tarn_device_set_memory_fraction(world.device, 1));
    OK(tarn_free(block));
}

TEST(chunks, a_gibibyte_goes_and_comes_in_eight_chunks)
{
    void *block = test_alloc(world.pool, GIB, world.stream);

    expect_taken(GIB, 0);
    ck_assert_uint_eq(test_stats(world.pool).chunk_count, 8);
    test_fill(world.stream, block, 1, GIB / 4);
    OK(tarn_free(block));
    OK(tarn_pool_trim(world.pool, NULL));
    expect_taken(0, 0);
}
