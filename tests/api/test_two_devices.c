// SPDX-License-Identifier: Apache-2.0
/* Two devices side by side: what is mapped, cached, limited and trimmed on one does not touch the
 * other, and each address is freed on its own. */
#include <stdlib.h>

#include "support/world.h"

enum { COUNT = 2, WORDS = 1024 };

/* The world's is the first. Each has 256 MiB. */
static struct side {
    tarn_device *device;
    tarn_pool *pool;
    tn_cu_context context;
    tn_cu_stream stream;
} sides[COUNT];

/* All that can be seen of a device. */
struct figures {
    struct test_device_stats device;
    struct test_stats pool;
    size_t free_bytes; /* as the driver says */
};

static void make_current(int i)
{
    test_set_context(sides[i].context);
}

static struct test_device_stats stats_of(int i)
{
    tarn_stats stats = TARN_STATS_INIT;

    OK(tarn_device_stats(sides[i].device, &stats));
    return test_device_stats_in(&stats);
}

static struct figures figures_of(int i)
{
    tn_cu_context before = test_context();
    struct figures figures = {.device = stats_of(i), .pool = test_stats(sides[i].pool)};

    make_current(i);
    figures.free_bytes = test_free_bytes();
    test_set_context(before);
    return figures;
}

static void expect_figures(int i, const struct figures *before)
{
    struct figures now = figures_of(i);

    ck_assert_mem_eq(&now.device, &before->device, sizeof now.device);
    ck_assert_mem_eq(&now.pool, &before->pool, sizeof now.pool);
    ck_assert_uint_eq(now.free_bytes, before->free_bytes);
}

static tarn_pool *make_pool(int i, const char *name)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool = NULL;

    options.name = name;
    OK(tarn_pool_create(sides[i].device, &options, &pool));
    return pool;
}

static void *alloc_on(int i, size_t bytes)
{
    return test_alloc(sides[i].pool, bytes, sides[i].stream);
}

static void leave_free(int i, size_t bytes)
{
    OK(tarn_free(alloc_on(i, bytes)));
}

/* A pool that ends leaves its memory in its device's cache. */
static void leave_cached(int i, size_t bytes)
{
    tarn_pool *pool = make_pool(i, "ends");

    OK(tarn_free(test_alloc(pool, bytes, sides[i].stream)));
    OK(tarn_pool_destroy(pool));
    ck_assert_uint_eq(stats_of(i).cached_bytes, bytes);
}

static void open_two_devices(void)
{
    ck_assert_int_eq(setenv("TARN_SIM_DEVICES", "2", 1), 0);
    ck_assert_int_eq(setenv("TARN_SIM_MEMORY_MIB", "256", 1), 0);
    test_world_open();
    sides[0] = (struct side){world.device, world.pool, test_context(), world.stream};
    sides[1].context = test_retain(1);
    make_current(1);
    sides[1].stream = test_stream();
    OK(tarn_device_open(1, NULL, &sides[1].device));
    sides[1].pool = make_pool(1, "second");
    make_current(0);
}

static void close_two_devices(void)
{
    OK(tarn_pool_validate(sides[0].pool));
    OK(tarn_pool_validate(sides[1].pool));
    OK(tarn_pool_destroy(sides[1].pool));
    OK(tarn_device_close(sides[1].device));
    make_current(1);
    test_destroy_stream(sides[1].stream);
    make_current(0);
    test_release(1);
    test_world_close();
}

GROUP(two, open_two_devices, close_two_devices, .name = "two devices")

/* Whichever context is current. */
TEST(two, memory_is_mapped_on_the_device_of_its_pool)
{
    void *blocks[COUNT];

    for (int i = 0; i < COUNT; i++) {
        struct figures own = figures_of(i);
        struct figures others = figures_of(1 - i);

        blocks[i] = alloc_on(i, 64 * MIB);
        ck_assert_uint_eq(stats_of(i).mapped_bytes, 64 * MIB);
        ck_assert_uint_eq(figures_of(i).free_bytes, own.free_bytes - 64 * MIB);
        ck_assert_uint_ne(test_access(i, blocks[i]), 0);
        ck_assert_uint_eq(test_access(1 - i, blocks[i]), 0);
        expect_figures(1 - i, &others);
        make_current(i);
        test_set_words(sides[i].stream, blocks[i], 3 + (uint32_t)i, WORDS);
        test_expect_words(sides[i].stream, blocks[i], 3 + (uint32_t)i, WORDS);
        make_current(0);
    }
    for (int i = 0; i < COUNT; i++)
        OK(tarn_free(blocks[i]));
}

TEST(two, addresses_are_freed_on_the_device_that_they_are_of)
{
    enum { BLOCKS = 16 };
    void *blocks[BLOCKS];

    for (int n = 0; n < BLOCKS; n++) {
        blocks[n] = alloc_on(n % COUNT, (size_t)(n + 1) * 4096);
        ck_assert_ptr_eq(test_pool_of(blocks[n]), sides[n % COUNT].pool);
    }
    for (int n = BLOCKS - 1; n >= 0; n--) { /* the other device is current */
        struct figures others = figures_of(1 - n % COUNT);
        uint64_t live_bytes = stats_of(n % COUNT).live_bytes;

        make_current(1 - n % COUNT);
        OK(tarn_free(blocks[n]));
        STATUS(TARN_ERR_DOUBLE_FREE, tarn_free(blocks[n]));
        make_current(0);
        ck_assert_uint_eq(stats_of(n % COUNT).live_bytes, live_bytes - (uint64_t)(n + 1) * 4096);
        expect_figures(1 - n % COUNT, &others);
    }
}

TEST(two, a_limit_is_its_devices_alone)
{
    void *blocks[COUNT];
    void *address = UNTOUCHED;

    OK(tarn_device_set_limit(sides[0].device, 32 * MIB));
    ck_assert_uint_eq(stats_of(0).limit_bytes, 32 * MIB);
    ck_assert_uint_ne(stats_of(1).limit_bytes, 32 * MIB);
    blocks[1] = alloc_on(1, 96 * MIB);
    blocks[0] = alloc_on(0, 32 * MIB); /* all that it may have, whatever the other has */
    STATUS(TARN_ERR_LIMIT, tarn_pool_malloc(sides[0].pool, 2 * MIB, 0, sides[0].stream, &address));
    ck_assert_untouched(address);
    OK(tarn_device_set_memory_fraction(sides[1].device, 0.5));
    STATUS(TARN_ERR_LIMIT, tarn_pool_malloc(sides[1].pool, 64 * MIB, 0, sides[1].stream, &address));
    ck_assert_untouched(address);
    OK(tarn_device_set_limit(sides[0].device, 0));
    OK(tarn_free(alloc_on(0, 160 * MIB)));
    OK(tarn_free(blocks[0]));
    OK(tarn_free(blocks[1]));
}

TEST(two, a_cache_serves_its_device_alone)
{
    struct figures first;
    struct figures second;
    void *address;

    leave_cached(1, 64 * MIB);
    first = figures_of(0);
    second = figures_of(1);
    address = alloc_on(0, 64 * MIB);
    ck_assert_uint_eq(figures_of(0).free_bytes, first.free_bytes - 64 * MIB);
    expect_figures(1, &second);
    OK(tarn_free(address));
    OK(tarn_device_set_cache_limit(sides[0].device, TARN_NO_CACHE));
    expect_figures(1, &second);
    first = figures_of(0);
    address = alloc_on(1, 64 * MIB);
    ck_assert_uint_eq(stats_of(1).cached_bytes, 0);
    ck_assert_uint_eq(figures_of(1).free_bytes, second.free_bytes);
    expect_figures(0, &first);
    OK(tarn_free(address));
}

TEST(two, a_trim_is_of_its_device_alone)
{
    struct figures first;
    struct figures second;
    size_t freed = 0;

    for (int i = 0; i < COUNT; i++) {
        leave_free(i, 32 * MIB);
        leave_cached(i, 64 * MIB);
    }
    first = figures_of(0);
    second = figures_of(1);
    OK(tarn_device_trim(sides[1].device, 0, &freed));
    ck_assert_uint_eq(freed, 96 * MIB);
    ck_assert_uint_eq(figures_of(1).free_bytes, second.free_bytes + 96 * MIB);
    expect_figures(0, &first);
    second = figures_of(1);
    OK(tarn_pool_trim(sides[0].pool, &freed));
    ck_assert_uint_eq(freed, 32 * MIB);
    ck_assert_uint_eq(stats_of(0).cached_bytes, 64 * MIB);
    expect_figures(1, &second);
}

/* Its ladder takes nothing from the other device, which is full of free memory. */
TEST(two, a_device_that_is_full_leaves_the_other_alone)
{
    struct figures first;
    void *address = UNTOUCHED;
    void *block = alloc_on(1, 200 * MIB);

    leave_free(0, 32 * MIB);
    leave_cached(0, 128 * MIB);
    first = figures_of(0);
    STATUS(TARN_ERR_DEVICE_MEMORY,
           tarn_pool_malloc(sides[1].pool, 128 * MIB, 0, sides[1].stream, &address));
    ck_assert_untouched(address);
    ck_assert_uint_eq(stats_of(1).out_of_memory_count, 1);
    expect_figures(0, &first);
    OK(tarn_free(block));
}

/* Captures under way on both: each graph holds memory of its own device. */
TEST(two, a_graph_holds_memory_of_its_device_alone)
{
    tarn_capture *captures[COUNT];
    tarn_graph *graphs[COUNT];
    struct figures before;
    void *block;

    for (int i = 0; i < COUNT; i++) {
        make_current(i);
        captures[i] = test_capture_on(sides[i].pool, sides[i].stream, TARN_CAPTURE_RELAXED);
    }
    for (int i = 0; i < COUNT; i++) {
        block = NULL;
        make_current(i);
        OK(tarn_malloc(sides[i].device, 4 * MIB, sides[i].stream, &block));
        ck_assert_ptr_eq(test_pool_of(block), sides[i].pool);
        test_set_words(sides[i].stream, block, 7, WORDS);
        OK(tarn_free(block));
    }
    for (int i = 0; i < COUNT; i++) {
        graphs[i] = test_capture_end(captures[i]);
        ck_assert_uint_eq(test_stats(sides[i].pool).captured_bytes, 4 * MIB);
    }
    before = figures_of(1);
    OK(tarn_graph_destroy(graphs[0]));
    test_await_destructors(1);
    ck_assert_uint_eq(test_stats(sides[0].pool).captured_bytes, 0);
    expect_figures(1, &before);
    OK(tarn_graph_replay(graphs[1], sides[1].stream));
    test_synchronize(sides[1].stream);
    OK(tarn_graph_destroy(graphs[1]));
    make_current(0);
}

TEST(two, graphs_of_two_devices_are_not_compared)
{
    tarn_graph_diff *diff = UNTOUCHED;
    tarn_graph *graphs[COUNT];

    for (int i = 0; i < COUNT; i++) {
        make_current(i);
        test_begin_capture(sides[i].stream, TN_CU_CAPTURE_MODE_RELAXED);
        OK(tarn_graph_adopt(sides[i].pool, test_end_capture(sides[i].stream), &graphs[i]));
    }
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_graph_compare(graphs[0], graphs[1], &diff));
    ck_assert_untouched(diff);
    for (int i = 0; i < COUNT; i++) { /* whichever context is current */
        make_current(1 - i);
        OK(tarn_graph_compare(graphs[i], graphs[i], &diff));
        ck_assert(diff->equal);
        tarn_graph_diff_destroy(diff);
        OK(tarn_graph_destroy(graphs[i]));
    }
    make_current(0);
}

TEST(two, a_device_closes_beside_another_one)
{
    struct figures first;
    void *block = alloc_on(0, 32 * MIB);

    leave_free(1, 32 * MIB);
    first = figures_of(0);
    OK(tarn_pool_destroy(sides[1].pool));
    OK(tarn_device_close(sides[1].device));
    expect_figures(0, &first);
    OK(tarn_free(block));
    OK(tarn_device_open(1, NULL, &sides[1].device));
    sides[1].pool = make_pool(1, "again");
    ck_assert_uint_eq(stats_of(1).mapped_bytes, 0);
}
