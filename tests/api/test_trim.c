// SPDX-License-Identifier: Apache-2.0
/* Giving memory back: which goes first, how much, what stays; and addresses. */
#include "support/world.h"

static size_t trim_to(tarn_pool *pool, size_t keep)
{
    size_t freed = 7777;

    OK(tarn_pool_trim_to(pool, keep, &freed));
    OK(tarn_pool_validate(pool));
    return freed;
}

static size_t trim_device(size_t keep)
{
    size_t freed = 7777;
    uint64_t before = test_device_stats().mapped_bytes + test_device_stats().cached_bytes;

    OK(tarn_device_trim(world.device, keep, &freed));
    ck_assert_uint_eq(test_device_stats().mapped_bytes + test_device_stats().cached_bytes,
                      before - freed);
    return freed;
}

/* Blocks of one chunk each, in order of address. */
static void fill(void *blocks[], size_t count, size_t bytes)
{
    for (size_t i = 0; i < count; i++)
        blocks[i] = test_alloc(world.pool, bytes, world.stream);
}

GROUP(pools, test_world_open, test_world_close)

TEST(pools, a_trim_stops_at_its_target)
{
    void *blocks[4];

    fill(blocks, 4, 2 * MIB);
    for (size_t i = 0; i < 4; i++)
        OK(tarn_free(blocks[i]));
    ck_assert_uint_eq(trim_to(world.pool, 9 * MIB), 0);
    ck_assert_uint_eq(trim_to(world.pool, 5 * MIB), 4 * MIB);
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 4 * MIB);
    ck_assert_uint_eq(trim_to(world.pool, 4 * MIB), 0);
    ck_assert_uint_eq(trim_to(world.pool, 0), 4 * MIB);
}

TEST(pools, the_highest_addresses_go_first)
{
    void *blocks[4];

    fill(blocks, 4, 2 * MIB);
    for (size_t i = 0; i < 4; i++)
        OK(tarn_free(blocks[i]));
    ck_assert_uint_eq(trim_to(world.pool, 4 * MIB), 4 * MIB);
    ck_assert_int_eq(test_state_of(world.pool, blocks[0]), TARN_EXTENT_FREE);
    ck_assert_int_eq(test_state_of(world.pool, blocks[1]), TARN_EXTENT_FREE);
    ck_assert_int_eq(test_state_of(world.pool, blocks[2]), TARN_EXTENT_UNMAPPED);
    ck_assert_int_eq(test_state_of(world.pool, blocks[3]), TARN_EXTENT_UNMAPPED);
}

GROUP(still, test_world_open_still, test_world_close, .name = "memory that does not move")

/* Mapped ahead for another stream, 2 MiB for small blocks among it; below in address, never used. */
TEST(still, what_was_mapped_ahead_goes_before_what_was_used)
{
    void *used;

    OK(tarn_pool_reserve(world.pool, 64 * MIB, world.side));
    used = test_alloc(world.pool, 66 * MIB, world.stream);
    OK(tarn_free(used));
    ck_assert_uint_eq(trim_to(world.pool, test_stats(world.pool).mapped_bytes - 66 * MIB),
                      66 * MIB);
    ck_assert_int_eq(test_state_of(world.pool, used), TARN_EXTENT_FREE);
    ck_assert_uint_eq(test_device_stats().idle_waits, 0); /* it never was in use */
}

TEST(pools, holes_are_made_and_filled_again)
{
    void *blocks[5];
    void *again;

    fill(blocks, 5, 2 * MIB);
    OK(tarn_free(blocks[1]));
    OK(tarn_free(blocks[3]));
    ck_assert_uint_eq(trim_to(world.pool, 0), 4 * MIB);
    ck_assert_int_eq(test_state_of(world.pool, blocks[1]), TARN_EXTENT_UNMAPPED);
    ck_assert_int_eq(test_state_of(world.pool, blocks[3]), TARN_EXTENT_UNMAPPED);
    OK(tarn_free(blocks[2])); /* between two holes */
    ck_assert_uint_eq(trim_to(world.pool, 0), 2 * MIB);
    again = test_alloc(world.pool, 6 * MIB, world.stream);
    ck_assert_uint_ge((uintptr_t)again, (uintptr_t)blocks[0]);
    test_set_words(world.stream, again, 4, 6 * MIB / 4);
    test_expect_words(world.stream, again, 4, 6 * MIB / 4);
    OK(tarn_pool_validate(world.pool));
    OK(tarn_free(again));
    OK(tarn_free(blocks[0]));
    OK(tarn_free(blocks[4]));
}

TEST(pools, a_trim_to_what_is_there_waits_for_nothing)
{
    OK(tarn_free(test_alloc(world.pool, 32 * MIB, world.stream)));
    ck_assert_uint_eq(trim_to(world.pool, 32 * MIB), 0);
    ck_assert_uint_eq(test_device_stats().idle_waits, 0);
    ck_assert_uint_eq(trim_to(world.pool, 0), 32 * MIB);
    ck_assert_uint_eq(test_device_stats().idle_waits, 1);
}

TEST(pools, trimmed_memory_goes_to_the_driver)
{
    tarn_sim_ledger before = test_ledger();

    OK(tarn_free(test_alloc(world.pool, 32 * MIB, world.stream)));
    ck_assert_uint_eq(trim_to(world.pool, 0), 32 * MIB);
    ck_assert_uint_eq(test_device_stats().cached_bytes, 0);
    test_same_ledger(&before);
}

GROUP(devices, test_world_open, test_world_close)

TEST(devices, a_device_gives_its_cache_first_and_then_its_pools)
{
    tarn_pool *gone = test_pool("gone");
    void *kept = test_malloc(32 * MIB);
    tarn_sim_ledger before = test_ledger();

    OK(tarn_free(test_alloc(gone, 16 * MIB, world.stream)));
    OK(tarn_pool_destroy(gone));
    OK(tarn_free(test_alloc(world.pool, 64 * MIB, world.stream)));
    ck_assert_uint_eq(trim_device(112 * MIB), 0);
    ck_assert_uint_eq(trim_device(98 * MIB), 16 * MIB);
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 64 * MIB);
    ck_assert_uint_eq(trim_device(95 * MIB), 32 * MIB); /* one chunk */
    ck_assert_uint_eq(trim_device(32 * MIB), 32 * MIB);
    test_same_ledger(&before);
    OK(tarn_free(kept));
    ck_assert_uint_eq(trim_device(0), 32 * MIB);
    ck_assert_uint_eq(trim_device(0), 0);
}

TEST(devices, a_device_trim_takes_the_newest_pools_first)
{
    tarn_pool *second = test_pool("second");

    OK(tarn_free(test_malloc(16 * MIB)));
    OK(tarn_free(test_alloc(world.pool, 16 * MIB, world.stream)));
    OK(tarn_free(test_alloc(second, 16 * MIB, world.stream)));
    ck_assert_uint_eq(trim_device(32 * MIB), 16 * MIB);
    ck_assert_uint_eq(test_stats(second).mapped_bytes, 0);
    ck_assert_uint_eq(trim_device(16 * MIB), 16 * MIB);
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
    ck_assert_uint_eq(test_stats(world.default_pool).mapped_bytes, 16 * MIB);
    OK(tarn_pool_destroy(second));
}

/* Streams come and go; what they leave behind does not grow. */
TEST(pools, arenas_without_memory_go)
{
    void *kept = test_alloc(world.pool, 2 * MIB, world.stream);

    for (int i = 0; i < 20; i++) {
        tn_cu_stream stream = test_stream();

        OK(tarn_free(test_alloc(world.pool, 2 * MIB, stream)));
        test_destroy_stream(stream);
    }
    ck_assert_uint_eq(test_stats(world.pool).arena_count, 21);
    (void)trim_to(world.pool, 0);
    ck_assert_uint_eq(test_stats(world.pool).arena_count, 1);
    OK(tarn_free(kept));
    (void)trim_to(world.pool, 0);
    ck_assert_uint_eq(test_stats(world.pool).arena_count, 0);
    OK(tarn_free(test_alloc(world.pool, 2 * MIB, world.stream)));
}

TEST(pools, a_device_that_cannot_be_waited_for_says_so)
{
    size_t freed = 77;

    OK(tarn_free(test_alloc(world.pool, 16 * MIB, world.stream)));
    sim.plan_fault("cuMemFree", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    REFUSE(TARN_ERR_DRIVER, "cuMemFree", tarn_pool_trim_to(world.pool, 0, &freed));
    sim.plan_fault("cuMemFree", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    REFUSE(TARN_ERR_DRIVER, "cuMemFree", tarn_device_trim(world.device, 0, &freed));
    ck_assert_uint_eq(freed, 77);
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_pool_trim_to(NULL, 0, &freed));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_device_trim(NULL, 0, &freed));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_device_collect(NULL));
}

TEST(pools, what_the_driver_does_not_take_back_poisons)
{
    OK(tarn_free(test_alloc(world.pool, 16 * MIB, world.stream)));
    sim.plan_fault("cuMemRelease", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_POISONED, tarn_pool_trim_to(world.pool, 0, NULL));
    STATUS(TARN_ERR_POISONED, tarn_pool_trim(world.pool, NULL));
    STATUS(TARN_ERR_POISONED, tarn_device_trim(world.device, 0, NULL));
    STATUS(TARN_ERR_POISONED, tarn_device_collect(world.device));
    test_world_abandon();
}

/* A device with regions of 1 GiB. */
static void open_small_regions(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    test_start();
    world.stream = test_stream();
    world.side = test_stream();
    world.ledger = test_ledger();
    options.region_bytes = GIB;
    OK(tarn_device_open(0, &options, &world.device));
    OK(tarn_device_default_pool(world.device, &world.default_pool));
    world.pool = test_pool("test");
}

GROUP(regions, open_small_regions, test_world_close)

TEST(regions, regions_are_added_and_the_empty_ones_given_back)
{
    void *large[3];

    for (size_t i = 0; i < 3; i++)
        large[i] = test_alloc(world.pool, 1000 * MIB, world.stream);
    ck_assert_uint_eq(test_device_stats().reserved_bytes, 3 * GIB);
    test_set_words(world.stream, large[2], 5, MIB);
    OK(tarn_free(large[0]));
    OK(tarn_free(large[1]));
    (void)trim_to(world.pool, 0);
    ck_assert_uint_eq(test_device_stats().reserved_bytes, 2 * GIB); /* the first one stays */
    test_expect_words(world.stream, large[2], 5, MIB);
    large[0] = test_alloc(world.pool, 1000 * MIB, world.stream);
    ck_assert_uint_eq(test_device_stats().reserved_bytes, 2 * GIB);
    OK(tarn_free(large[0]));
    OK(tarn_free(large[2]));
    ck_assert_uint_gt(trim_device(0), 0);
    ck_assert_uint_eq(test_device_stats().reserved_bytes, GIB);
    STATUS(TARN_ERR_NOT_OURS, tarn_free(large[2]));
}

TEST(regions, a_block_larger_than_a_region_has_one_of_its_own)
{
    void *huge = test_alloc(world.pool, 3 * GIB, world.stream);

    ck_assert_uint_eq(test_device_stats().reserved_bytes, 5 * GIB);
    test_set_words(world.stream, (char *)huge + 3 * GIB - 4, 6, 1);
    test_expect_words(world.stream, (char *)huge + 3 * GIB - 4, 6, 1);
    OK(tarn_free(huge));
    (void)trim_device(0);
    ck_assert_uint_eq(test_device_stats().reserved_bytes, GIB);
}

TEST(regions, a_region_with_a_checkpoint_stays)
{
    void *first = test_alloc(world.pool, 1000 * MIB, world.stream);
    void *second = test_alloc(world.pool, 1000 * MIB, world.stream);
    tarn_checkpoint *checkpoint = NULL;

    OK(tarn_free(first));
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, world.stream, &checkpoint));
    OK(tarn_free(second));
    (void)trim_device(0);
    ck_assert_uint_eq(test_device_stats().mapped_bytes, 0);
    ck_assert_uint_eq(test_device_stats().reserved_bytes, 2 * GIB);
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    test_set_words(world.stream, second, 8, MIB);
    test_expect_words(world.stream, second, 8, MIB);
    OK(tarn_free(second));
    OK(tarn_checkpoint_destroy(checkpoint));
    (void)trim_device(0);
    ck_assert_uint_eq(test_device_stats().reserved_bytes, GIB);
}

/* Neither memory nor host is short, only addresses. */
TEST(regions, running_out_of_addresses_changes_nothing)
{
    void *kept = test_alloc(world.pool, 1000 * MIB, world.stream);
    void *address = UNTOUCHED;

    sim.set_hints(2, 0);
    REFUSE(TARN_ERR_ADDRESS_SPACE, "addresses",
           tarn_pool_malloc(world.pool, 1000 * MIB, 0, world.stream, &address));
    ck_assert_untouched(address);
    REFUSE(TARN_ERR_ADDRESS_SPACE, "addresses",
           tarn_pool_reserve(world.pool, 1000 * MIB, world.side));
    sim.set_hints(0, 0);
    OK(tarn_free(test_alloc(world.pool, 1000 * MIB, world.stream)));
    OK(tarn_free(kept));
}

/* Free memory of other pools, which nobody uses any more, gives up its addresses. */
TEST(regions, addresses_of_other_pools_free_memory_serve_who_needs_some)
{
    tarn_pool *other = test_pool("other");
    void *blocks[2] = {test_alloc(world.pool, 600 * MIB, world.stream),
                       test_alloc(other, 2 * MIB, world.stream)};
    void *address = NULL;

    sim.set_hints(2, 0);
    OK(tarn_free(blocks[0]));
    STATUS(TARN_ERR_ADDRESS_SPACE, tarn_pool_malloc(other, 600 * MIB, 0, world.stream, &address));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "a trim"));
    OK(tarn_free(blocks[1]));
    OK(tarn_pool_trim(other, NULL)); /* waits for the device, which proves all of it idle */
    address = test_alloc(other, 600 * MIB, world.stream);
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
    sim.set_hints(0, 0);
    OK(tarn_free(address));
    OK(tarn_pool_destroy(other));
}
