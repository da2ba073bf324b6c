// SPDX-License-Identifier: Apache-2.0
/* What a device says of its history. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "support/world.h"

static void open_with(tarn_history_stacks stacks)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = 256 << 10;
    options.history_stacks = stacks;
    options.history_sample_bytes = 1 << 20;
    test_world_open_with(&options);
}

static void open_plain(void)
{
    open_with(TARN_HISTORY_NO_STACKS);
}

static void open_sampled(void)
{
    open_with(TARN_HISTORY_CALLERS);
}

GROUP(plain, open_plain, test_world_close)
GROUP(sampled, open_sampled, test_world_close)
GROUP(unrecorded, test_world_open_unrecorded, test_world_close)

static tarn_history_info look(void)
{
    tarn_history_info info = TARN_HISTORY_INFO_INIT;

    OK(tarn_device_history_info(world.device, &info));
    return info;
}

static uint64_t in_statistics(void)
{
    tarn_stats stats = TARN_STATS_INIT;

    OK(tarn_device_stats(world.device, &stats));
    return stats.history_bytes;
}

/* The file has its parts, behind a page of its own; the statistics have the same number. */
static void expect_file(const tarn_history_info *info)
{
    const size_t bytes = 4096 + info->log_bytes + info->range_bytes + info->stack_bytes +
                         info->module_bytes + info->table_bytes;
    struct stat what;

    ck_assert_uint_eq(in_statistics(), bytes);
    if (info->path[0] == '\0') /* the machine has no folder for it */
        return;
    ck_assert_int_eq(stat(info->path, &what), 0);
    ck_assert_uint_eq((uint64_t)what.st_size, bytes);
}

TEST(plain, a_history_has_a_file_of_these_parts)
{
    const tarn_history_info before = look();
    tarn_history_info info;
    void *block = test_alloc(world.pool, 1000, world.stream);

    ck_assert(before.is_kept);
    ck_assert_uint_eq(before.log_bytes, 256 << 10);
    ck_assert_uint_eq(before.pages, 64);
    ck_assert_int_eq(before.stacks, TARN_HISTORY_NO_STACKS);
    ck_assert_uint_eq(before.sample_bytes, 0);
    info = look();
    ck_assert_uint_gt(info.pages_begun, before.pages_begun);
    ck_assert_uint_gt(info.table_bytes, 0);
    ck_assert_uint_eq(info.pages_overwritten + info.events_lost + info.stacks_lost, 0);
    expect_file(&info);
    OK(tarn_free(block));
}

TEST(sampled, stacks_are_counted_once_each)
{
    const tarn_history_info before = look();
    tarn_history_info info;

    ck_assert_int_eq(before.stacks, TARN_HISTORY_CALLERS);
    ck_assert_uint_eq(before.sample_bytes, 1 << 20);
    ck_assert_uint_gt(before.module_bytes, 0);
    expect_file(&before);
    for (int i = 0; i < 3; i++) {
        OK(tarn_label_set("one"));
        OK(tarn_free(test_alloc(world.pool, 1, world.stream)));
    }
    OK(tarn_label_set(NULL));
    info = look();
    ck_assert_uint_eq(info.stack_count, before.stack_count + 2); /* the title, and its stack */
    ck_assert_uint_gt(info.stack_bytes_used, before.stack_bytes_used);
    ck_assert_uint_le(info.stack_bytes_used, info.stack_bytes);
}

TEST(plain, what_is_lost_is_counted)
{
    tarn_history_info info;
    char name[1001];

    for (int i = 0; i < 20000; i++)
        OK(tarn_free(test_malloc((size_t)(i % 7 + 1) * 1000)));
    info = look();
    ck_assert_uint_gt(info.pages_overwritten, 0);
    ck_assert_uint_le(info.pages_overwritten, info.pages_begun - info.pages + 1);
    for (int i = 0; i < 200; i++) {
        uint64_t range;

        (void)snprintf(name, sizeof name, "%d%-900s", i, "");
        OK(tarn_range_begin(world.device, name, &range));
        OK(tarn_range_end(world.device, range));
    }
    info = look();
    ck_assert_uint_gt(info.stacks_lost, 0);
    ck_assert_uint_eq(info.ranges_begun, 200);
    ck_assert_uint_eq(info.range_pages_overwritten, 0);
}

TEST(unrecorded, a_device_without_a_history_says_so)
{
    tarn_history_info info = {.size = sizeof info, .pages = 77, .path = "x"};

    OK(tarn_device_history_info(world.device, &info));
    ck_assert(!info.is_kept);
    ck_assert_uint_eq(info.pages + info.log_bytes + info.table_bytes, 0);
    ck_assert_str_eq(info.path, "");
    ck_assert_uint_eq(in_statistics(), 0);
}

TEST(plain, bad_input_is_refused)
{
    tarn_history_info info = {.size = 16};

    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_device_history_info(NULL, &info));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "NULL", tarn_device_history_info(world.device, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "size", tarn_device_history_info(world.device, &info));
}
