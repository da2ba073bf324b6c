// SPDX-License-Identifier: Apache-2.0
/* A tool that profiles is told of growths and waits, and of what each pool has mapped. */
#include "support/fake_tool.h"
#include "support/world.h"

static struct fake_tool tool;

static void open_with_tool(void)
{
    fake_tool_use(&tool, NULL);
    test_world_open();
}

static void close_with_tool(void)
{
    test_world_close();
    ck_assert_uint_eq(fake_tool_look(&tool).open_ranges, 0);
    ck_assert_uint_eq(fake_tool_look(&tool).mistakes, 0);
}

GROUP(profiled, open_with_tool, close_with_tool)

static int64_t counted(const char *pool)
{
    int64_t value = -1;

    ck_assert(tool.value(pool, &value));
    return value;
}

TEST(profiled, each_pools_mapped_bytes_are_a_counter)
{
    tarn_pool *other = test_pool("another");
    void *block = test_alloc(world.pool, 3 * MIB, world.stream);
    void *beside = test_alloc(other, 40 * MIB, world.stream);

    ck_assert_int_eq(counted("pool 'test'"), (int64_t)test_stats(world.pool).mapped_bytes);
    ck_assert_int_eq(counted("pool 'another'"), (int64_t)test_stats(other).mapped_bytes);
    OK(tarn_free(block));
    OK(tarn_free(beside));
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_int_eq(counted("pool 'test'"), (int64_t)test_stats(world.pool).mapped_bytes);
    OK(tarn_pool_destroy(other));
    ck_assert_int_eq(counted("pool 'another'"), 0);
}

TEST(profiled, growths_and_waits_are_ranges)
{
    uint64_t waits = tool.count_ranges("tarn: wait for the device");
    void *block = test_alloc(world.pool, 100 * MIB, world.stream);

    ck_assert_uint_gt(tool.count_ranges("tarn: grow"), 0);
    OK(tarn_free(block));
    test_trim_with_a_wait(world.pool);
    ck_assert_uint_gt(tool.count_ranges("tarn: wait for the device"), waits);
    ck_assert_uint_eq(fake_tool_look(&tool).open_ranges, 0);
}

/* The memory stays mapped, and no tool learns of addresses. */
TEST(profiled, steady_allocations_tell_nothing)
{
    struct fake_tool_facts before;

    OK(tarn_free(test_alloc(world.pool, 1000, world.stream)));
    before = fake_tool_look(&tool);
    for (int i = 0; i < 100; i++)
        OK(tarn_free(test_alloc(world.pool, 1000, world.stream)));
    ck_assert_uint_eq(fake_tool_look(&tool).samples, before.samples);
    ck_assert_uint_eq(fake_tool_look(&tool).ranges, before.ranges);
    ck_assert_uint_eq(fake_tool_look(&tool).heaps, 0);
}
