// SPDX-License-Identifier: Apache-2.0
/* Limits of device, pool and cache, and what changing them at run time does. */
#include <math.h>
#include <stdlib.h>

#include "support/world.h"

/* A device of 256 MiB, with these options. */
static void open_with(tarn_device_options options)
{
    ck_assert_int_eq(setenv("TARN_SIM_MEMORY_MIB", "256", 1), 0);
    test_start();
    world.stream = test_stream();
    world.side = test_stream();
    world.ledger = test_ledger();
    OK(tarn_device_open(0, &options, &world.device));
    OK(tarn_device_default_pool(world.device, &world.default_pool));
    world.pool = test_pool("test");
}

/* What nobody can use but by a limit being kept. */
static void expect_room(size_t bytes)
{
    void *address = UNTOUCHED;

    STATUS(TARN_ERR_LIMIT, tarn_pool_malloc(world.pool, bytes + 1, 0, world.stream, &address));
    ck_assert_untouched(address);
    address = test_alloc(world.pool, bytes, world.stream);
    ck_assert_uint_eq(test_device_stats().mapped_bytes + test_device_stats().cached_bytes, bytes);
    OK(tarn_free(address));
    OK(tarn_device_trim(world.device, 0, NULL));
}

GROUP(own, NULL, .name = "opened by the test")

TEST(own, the_smaller_of_limit_and_fraction_holds)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.limit_bytes = 200 * MIB;
    options.memory_fraction = 0.5;
    open_with(options);
    ck_assert_uint_eq(test_device_stats().limit_bytes, 128 * MIB);
    expect_room(128 * MIB);
    OK(tarn_device_set_limit(world.device, 64 * MIB));
    ck_assert_uint_eq(test_device_stats().limit_bytes, 64 * MIB);
    expect_room(64 * MIB);
    OK(tarn_device_set_memory_fraction(world.device, 0.125));
    expect_room(32 * MIB);
    OK(tarn_device_set_memory_fraction(world.device, 1));
    expect_room(64 * MIB);
    OK(tarn_device_set_limit(world.device, 0));
    ck_assert_uint_eq(test_device_stats().limit_bytes, 256 * MIB);
    OK(tarn_device_set_memory_fraction(world.device, 0));
    ck_assert_uint_eq(test_device_stats().limit_bytes, 0);
    test_world_close();
}

TEST(own, no_limit_is_none)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    open_with(options);
    ck_assert_uint_eq(test_device_stats().limit_bytes, 0);
    OK(tarn_free(test_alloc(world.pool, 250 * MIB, world.stream)));
    test_world_close();
}

TEST(own, wrong_limits_are_refused)
{
    static const double wrong[] = {-0.1, 1.0001, NAN, INFINITY};
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_device *device = UNTOUCHED;

    open_with(options);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        REFUSE(TARN_ERR_INVALID_ARGUMENT, "fraction",
               tarn_device_set_memory_fraction(world.device, wrong[i]));
        options.memory_fraction = wrong[i];
        REFUSE(TARN_ERR_INVALID_ARGUMENT, "memory_fraction",
               tarn_device_open(0, &options, &device));
    }
    ck_assert_untouched(device);
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_device_set_limit(NULL, 1));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_device_set_memory_fraction(NULL, 1));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_device_set_cache_limit(NULL, 1));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_device_set_pinned_cache_limit(NULL, 1));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_pool_set_limit(NULL, 1));
    test_world_close();
}

GROUP(limits, test_world_open, test_world_close)

TEST(limits, a_limit_below_what_is_mapped_stops_growth_alone)
{
    void *kept = test_alloc(world.pool, 64 * MIB, world.stream);
    void *address = UNTOUCHED;

    OK(tarn_device_set_limit(world.device, 32 * MIB));
    test_set_words(world.stream, kept, 3, 16 * MIB);
    REFUSE(TARN_ERR_LIMIT, "32 MiB",
           tarn_pool_malloc(world.pool, 2 * MIB, 0, world.stream, &address));
    ck_assert_untouched(address);
    test_expect_words(world.stream, kept, 3, 16 * MIB);
    OK(tarn_free(kept));
    OK(tarn_free(test_alloc(world.pool, 60 * MIB, world.stream))); /* it is there */
    OK(tarn_device_set_limit(world.device, 0));
    OK(tarn_free(test_alloc(world.pool, 128 * MIB, world.stream)));
}

TEST(limits, the_limit_of_a_pool_changes_at_run_time)
{
    void *kept = test_alloc(world.pool, 8 * MIB, world.stream);
    void *more = UNTOUCHED;

    OK(tarn_pool_set_limit(world.pool, 4 * MIB));
    REFUSE(TARN_ERR_LIMIT, "may map 4 MiB",
           tarn_pool_malloc(world.pool, 2 * MIB, 0, world.stream, &more));
    ck_assert_untouched(more);
    OK(tarn_pool_set_limit(world.pool, 12 * MIB));
    more = test_alloc(world.pool, 4 * MIB, world.stream);
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 12 * MIB);
    OK(tarn_free(more));
    OK(tarn_pool_set_limit(world.pool, 0));
    more = test_alloc(world.pool, 64 * MIB, world.stream);
    OK(tarn_free(more));
    OK(tarn_free(kept));
}

/* Memory ahead is an offer, and a limit of what is needed does not forbid it. */
TEST(limits, growth_ahead_stays_within_the_limit)
{
    void *large = test_alloc(world.pool, 128 * MIB, world.stream);
    void *small[2];

    OK(tarn_pool_set_limit(world.pool, 132 * MIB)); /* ahead it would be 16 MiB */
    small[0] = test_alloc(world.pool, 2 * MIB, world.stream);
    small[1] = test_alloc(world.pool, 2 * MIB, world.stream);
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 132 * MIB);
    OK(tarn_free(small[0]));
    OK(tarn_free(small[1]));
    OK(tarn_free(large));
}

/* What waits in the cache counts, and goes before anybody is refused. */
TEST(limits, cached_memory_gives_way_to_the_limit)
{
    tarn_pool *gone = test_pool("gone");
    void *address;

    OK(tarn_free(test_alloc(gone, 64 * MIB, world.stream)));
    OK(tarn_pool_destroy(gone));
    ck_assert_uint_eq(test_device_stats().cached_bytes, 64 * MIB);
    OK(tarn_device_set_limit(world.device, 66 * MIB));
    address = test_alloc(world.pool, 30 * MIB, world.stream);
    ck_assert_uint_le(test_device_stats().cached_bytes, 36 * MIB);
    OK(tarn_free(address));
}

GROUP(cache, test_world_open, test_world_close)

TEST(cache, a_pool_that_ends_leaves_its_memory_to_the_next)
{
    tarn_pool *first = test_pool("first");
    tarn_pool *second = test_pool("second");
    uint64_t created;
    void *address;

    OK(tarn_free(test_alloc(first, 48 * MIB, world.stream)));
    OK(tarn_pool_destroy(first));
    ck_assert_uint_eq(test_device_stats().mapped_bytes, 0);
    ck_assert_uint_eq(test_device_stats().cached_bytes, 48 * MIB);
    ck_assert_uint_eq(test_device_stats().cached_count, 2);
    created = sim.call_count("cuMemCreate");
    address = test_alloc(second, 48 * MIB, world.stream);
    ck_assert_uint_eq(sim.call_count("cuMemCreate"), created);
    ck_assert_uint_eq(test_device_stats().cached_bytes, 0);
    ck_assert_uint_eq(test_device_stats().mapped_bytes, 48 * MIB);
    OK(tarn_free(address));
    OK(tarn_pool_destroy(second));
}

TEST(cache, the_cache_keeps_no_more_than_its_limit)
{
    tarn_pool *pool = test_pool("short");

    OK(tarn_device_set_cache_limit(world.device, 40 * MIB));
    OK(tarn_free(test_alloc(pool, 60 * MIB, world.stream))); /* 32, 16, 8 and 4 */
    OK(tarn_pool_destroy(pool));
    ck_assert_uint_le(test_device_stats().cached_bytes, 40 * MIB);
    ck_assert_uint_gt(test_device_stats().cached_bytes, 0);
    OK(tarn_device_set_cache_limit(world.device, 4 * MIB));
    ck_assert_uint_le(test_device_stats().cached_bytes, 4 * MIB);
    OK(tarn_device_set_cache_limit(world.device, TARN_NO_CACHE));
    ck_assert_uint_eq(test_device_stats().cached_bytes, 0);
    pool = test_pool("none");
    OK(tarn_free(test_alloc(pool, 60 * MIB, world.stream)));
    OK(tarn_pool_destroy(pool));
    ck_assert_uint_eq(test_device_stats().cached_bytes, 0);
    OK(tarn_device_set_cache_limit(world.device, 0)); /* the default */
    pool = test_pool("all");
    OK(tarn_free(test_alloc(pool, 60 * MIB, world.stream)));
    OK(tarn_pool_destroy(pool));
    ck_assert_uint_ge(test_device_stats().cached_bytes, 60 * MIB);
}

TEST(own, a_device_may_be_opened_without_a_cache)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_sim_ledger before;
    tarn_pool *pool;

    options.cache_limit_bytes = TARN_NO_CACHE;
    open_with(options);
    before = test_ledger();
    pool = test_pool("gone");
    OK(tarn_free(test_alloc(pool, 60 * MIB, world.stream)));
    OK(tarn_pool_destroy(pool));
    test_same_ledger(&before);
    test_world_close();
}

/* Takes a checkpoint in page-locked memory, and destroys it. */
static void pass_through_host_memory(void)
{
    tarn_checkpoint *checkpoint;

    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_HOST, world.stream, &checkpoint));
    test_synchronize(world.stream);
    OK(tarn_checkpoint_destroy(checkpoint));
}

static uint64_t pinned_bytes(void)
{
    tarn_stats stats = TARN_STATS_INIT;

    OK(tarn_device_stats(world.device, &stats));
    return stats.pinned_bytes;
}

TEST(own, page_locked_memory_is_kept_up_to_its_limit)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    uint64_t created;
    void *block;

    options.pinned_cache_limit_bytes = 4 * MIB;
    open_with(options);
    block = test_alloc(world.pool, 8 * MIB, world.stream);
    pass_through_host_memory();
    ck_assert_uint_le(pinned_bytes(), 4 * MIB);
    OK(tarn_device_set_pinned_cache_limit(world.device, 16 * MIB));
    pass_through_host_memory();
    ck_assert_uint_gt(pinned_bytes(), 8 * MIB);
    created = sim.call_count("cuMemCreate");
    pass_through_host_memory();
    ck_assert_uint_eq(sim.call_count("cuMemCreate"), created);
    OK(tarn_device_set_pinned_cache_limit(world.device, 8 * MIB)); /* with the table it is more */
    ck_assert_uint_le(pinned_bytes(), 8 * MIB);
    pass_through_host_memory();
    ck_assert_uint_le(pinned_bytes(), 8 * MIB);
    OK(tarn_device_set_pinned_cache_limit(world.device, 16 * MIB));
    pass_through_host_memory();
    OK(tarn_device_set_pinned_cache_limit(world.device, TARN_NO_CACHE));
    ck_assert_uint_eq(pinned_bytes(), 0);
    ck_assert_uint_eq(test_ledger().host_allocations, 0);    /* the driver's own functions for it */
    OK(tarn_device_set_pinned_cache_limit(world.device, 0)); /* the default */
    pass_through_host_memory();
    ck_assert_uint_gt(pinned_bytes(), 8 * MIB);
    OK(tarn_free(block));
    test_world_close();
}

TEST(cache, memory_that_the_driver_does_not_take_back_poisons)
{
    tarn_pool *pool = test_pool("gone");

    OK(tarn_free(test_alloc(pool, 4 * MIB, world.stream)));
    OK(tarn_pool_destroy(pool));
    sim.plan_fault("cuMemRelease", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_POISONED, tarn_device_set_cache_limit(world.device, TARN_NO_CACHE));
    ck_assert_uint_eq(test_device_stats().cached_bytes, 0);
    test_world_abandon();
}

TEST(cache, page_locked_memory_that_the_driver_does_not_take_back_poisons)
{
    void *block = test_alloc(world.pool, 4 * MIB, world.stream);

    pass_through_host_memory();
    OK(tarn_free(block));
    sim.plan_fault("cuMemUnmap", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_POISONED, tarn_device_set_pinned_cache_limit(world.device, TARN_NO_CACHE));
    test_world_abandon();
}

/* The chunk may still be where it was: nobody may be given it. */
TEST(cache, memory_that_the_driver_did_not_unmap_is_not_cached)
{
    tarn_pool *pool = test_pool("gone");

    OK(tarn_free(test_alloc(pool, 4 * MIB, world.stream)));
    sim.plan_fault("cuMemUnmap", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    OK(tarn_pool_destroy(pool));
    ck_assert_uint_eq(test_device_stats().cached_bytes, 0);
    STATUS(TARN_ERR_POISONED, tarn_device_trim(world.device, 0, NULL));
    test_world_abandon();
}
