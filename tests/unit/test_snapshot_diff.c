// SPDX-License-Identifier: Apache-2.0
/* What grew from one snapshot to another. */
#include "observe/snapshot_diff.h"

#include "base/host.h"
#include "unit/unit.h"

SUITE("diffs of snapshots")

static void open_world(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = 1 << 20;
    options.history_stacks = TARN_HISTORY_CALLERS;
    test_world_open_with(&options);
}

GROUP(compared, open_world, .end = test_world_close)

enum { MOST = 32 };

static void *blocks[MOST];
static size_t block_count;

static __attribute__((noinline)) void grow(tarn_pool *pool, size_t bytes)
{
    OK(tarn_pool_malloc(pool, bytes, 0, world.stream, &blocks[block_count]));
    block_count += 1;
    __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void grow_elsewhere(tarn_pool *pool, size_t bytes)
{
    OK(tarn_pool_malloc(pool, bytes, 0, world.stream, &blocks[block_count]));
    block_count += 1;
    __asm__ volatile("" ::: "memory");
}

static void free_from(size_t first)
{
    for (size_t i = first; i < block_count; i++)
        OK(tarn_free(blocks[i]));
    block_count = first;
}

static tarn_snapshot *take(void)
{
    tarn_snapshot *snapshot;

    OK(tarn_snapshot_take(world.device, NULL, &snapshot));
    return snapshot;
}

static tarn_snapshot_diff *compare(tarn_snapshot *before, tarn_snapshot *after)
{
    tarn_snapshot_diff *diff;

    OK(tarn_snapshot_compare(before, after, &diff));
    tarn_snapshot_destroy(before);
    tarn_snapshot_destroy(after);
    return diff;
}

TEST(compared, equal_snapshots_have_no_changes)
{
    tarn_snapshot_diff *diff;

    grow(world.pool, 1000);
    diff = compare(take(), take());
    ck_assert_uint_eq(diff->count, 0);
    ck_assert_int_eq(diff->bytes, 0);
    ck_assert_int_eq(diff->blocks, 0);
    tarn_snapshot_diff_destroy(diff);
    tarn_snapshot_diff_destroy(NULL);
    free_from(0);
}

TEST(compared, a_change_has_the_label_of_its_allocations)
{
    tarn_snapshot *before = take();
    tarn_snapshot_diff *diff;
    char text[400];

    OK(tarn_label_set("layer 3"));
    grow(world.pool, 1000);
    OK(tarn_label_set(NULL));
    grow(world.pool, 1000);
    diff = compare(before, take());
    ck_assert_uint_eq(diff->count, 2);
    for (size_t i = 0; i < 2; i++)
        ck_assert_uint_eq(diff->changes[i].frame_count, 1);
    ck_assert_int_ne(diff->changes[0].label[0] == '\0', diff->changes[1].label[0] == '\0');
    OK(tarn_snapshot_diff_report(diff, TARN_REPORT_TEXT, text, sizeof text, NULL));
    ck_assert_ptr_nonnull(strstr(text, "    label 'layer 3'\n"));
    OK(tarn_snapshot_diff_report(diff, TARN_REPORT_JSON, text, sizeof text, NULL));
    ck_assert_ptr_nonnull(strstr(text, "\"label\":\"layer 3\""));
    tarn_snapshot_diff_destroy(diff);
    free_from(0);
}

TEST(compared, changes_are_by_stack_pool_and_size_and_the_largest_growth_comes_first)
{
    tarn_snapshot *before;
    tarn_snapshot_diff *diff;

    for (int i = 0; i < 3; i++)
        grow(world.pool, 50000);
    before = take();
    free_from(0); /* 3 of 50,176 bytes fewer */
    for (int i = 0; i < 4; i++)
        grow(world.pool, 1000);
    for (int i = 0; i < 2; i++)
        grow_elsewhere(world.pool, 1000);
    grow(world.default_pool, 9000);
    grow(world.pool, 9000);
    diff = compare(before, take());
    ck_assert_uint_eq(diff->count, 5);
    ck_assert_uint_eq(diff->changes[0].block_bytes, 9216);
    ck_assert_uint_eq(diff->changes[1].block_bytes, 9216);
    ck_assert_uint_ne(diff->changes[0].pool, diff->changes[1].pool);
    ck_assert_uint_eq(diff->changes[2].block_bytes, 1024);
    ck_assert_int_eq(diff->changes[2].blocks, 4);
    ck_assert_int_eq(diff->changes[2].bytes, 4096);
    ck_assert_str_eq(diff->changes[2].pool_name, "test");
    ck_assert_int_eq(diff->changes[3].blocks, 2);
    ck_assert_uint_eq(diff->changes[2].frame_count, 1);
    ck_assert_uint_eq(diff->changes[3].frame_count, 1);
    ck_assert_uint_ne(diff->changes[2].frames[0], diff->changes[3].frames[0]);
    ck_assert_int_eq(diff->changes[4].blocks, -3);
    ck_assert_uint_eq(diff->changes[4].block_bytes, 50176);
    ck_assert_int_eq(diff->blocks, 4 + 2 + 2 - 3);
    ck_assert_int_eq(diff->bytes, 6 * 1024 + 2 * 9216 - 3 * 50176);
    tarn_snapshot_diff_destroy(diff);
    free_from(0);
}

/* The same number of blocks of one stack and size is no change, whichever blocks they are. */
TEST(compared, blocks_that_take_the_place_of_others_are_no_change)
{
    tarn_snapshot *before;
    tarn_snapshot_diff *diff;

    for (int i = 0; i < 5; i++)
        grow(world.pool, 3000);
    before = take();
    free_from(0);
    for (int i = 0; i < 5; i++)
        grow(world.pool, 3000);
    diff = compare(before, take());
    ck_assert_uint_eq(diff->count, 0);
    tarn_snapshot_diff_destroy(diff);
    free_from(0);
}

/* Its user has freed it. */
TEST(compared, a_pending_block_is_gone)
{
    tarn_snapshot *before;
    tarn_snapshot_diff *diff;

    grow(world.pool, 3000);
    before = take();
    sim.hold_work();
    test_spin(world.side, 1);
    OK(tarn_free_on(blocks[0], world.side));
    diff = compare(before, take());
    ck_assert_uint_eq(diff->count, 1);
    ck_assert_int_eq(diff->changes[0].blocks, -1);
    tarn_snapshot_diff_destroy(diff);
    sim.resume_work();
    block_count = 0;
}

TEST(compared, a_report_has_sums_changes_and_frames)
{
    tarn_snapshot *before = take();
    tarn_snapshot_diff *diff;
    char text[2048];
    char shorter[10];
    size_t length = 0;

    grow(world.pool, 1000);
    diff = compare(before, take());
    OK(tarn_snapshot_diff_report(diff, TARN_REPORT_TEXT, text, sizeof text, &length));
    ck_assert_uint_eq(length, strlen(text));
    ck_assert_ptr_eq(strstr(text, "+1024 bytes in +1 blocks\n"), text);
    ck_assert_ptr_nonnull(strstr(text, "+1024 bytes: +1 blocks of 1024 bytes in pool "));
    ck_assert_ptr_nonnull(strstr(text, "'test'\n    unit_snapshot_diff+0x"));
    OK(tarn_snapshot_diff_report(diff, TARN_REPORT_TEXT, shorter, sizeof shorter, &length));
    ck_assert_uint_eq(length, strlen(text));
    ck_assert_str_eq(shorter, "+1024 byt");
    OK(tarn_snapshot_diff_report(diff, TARN_REPORT_JSON, text, sizeof text, NULL));
    ck_assert_ptr_eq(strstr(text, "{\"bytes\":1024,\"blocks\":1,\"changes\":[{\"bytes\":1024,"),
                     text);
    ck_assert_ptr_nonnull(strstr(text, "\"pool_name\":\"test\",\"label\":\"\",\"interpreted\":[],"
                                       "\"frames\":[{\"function\":\"unit_"));
    tarn_snapshot_diff_destroy(diff);
    free_from(0);
}

TEST(compared, no_memory_makes_no_diff)
{
    tarn_snapshot *snapshot;
    tarn_snapshot_diff *diff = NULL;

    grow(world.pool, 1000);
    snapshot = take();
    for (uint64_t nth = 1; nth <= 3; nth++) {
        (void)tn_host_plan_fault(nth, false);
        STATUS(TARN_ERR_HOST_MEMORY, tarn_snapshot_compare(snapshot, snapshot, &diff));
        ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
        ck_assert_ptr_null(diff);
    }
    tarn_snapshot_destroy(snapshot);
    free_from(0);
}
