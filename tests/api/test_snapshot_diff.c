// SPDX-License-Identifier: Apache-2.0
/* Diffs of snapshots, and their traces: without a history, and each status. tests/unit has the rest. */
#include "support/world.h"

GROUP(refused, test_world_open, test_world_close)

TEST(refused, without_a_history_a_diff_is_by_pool_and_size)
{
    tarn_snapshot *before;
    tarn_snapshot *after;
    tarn_snapshot_diff *diff;
    void *blocks[2];
    char text[10];
    size_t length;

    OK(tarn_snapshot_take(world.device, NULL, &before));
    blocks[0] = test_alloc(world.pool, 1000, world.stream);
    blocks[1] = test_malloc(1000);
    OK(tarn_snapshot_take(world.device, NULL, &after));
    OK(tarn_snapshot_compare(before, after, &diff));
    ck_assert_uint_eq(diff->count, 2);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(diff->changes[i].block_bytes, 1024);
        ck_assert_int_eq(diff->changes[i].blocks, 1);
        OK(tarn_free(blocks[i]));
    }
    ck_assert_uint_ne(diff->changes[0].pool, diff->changes[1].pool);
    OK(tarn_snapshot_diff_report(diff, TARN_REPORT_TEXT, text, sizeof text, &length));
    ck_assert_uint_gt(length, sizeof text);
    ck_assert_str_eq(text, "+2048 byt");
    tarn_snapshot_destroy(before);
    tarn_snapshot_destroy(after);
    tarn_snapshot_diff_destroy(diff);
}

TEST(refused, what_is_wrong_is_refused)
{
    tarn_snapshot *snapshot;
    tarn_snapshot other;
    tarn_snapshot_diff *diff = NULL;
    char text[10];

    OK(tarn_snapshot_take(world.device, NULL, &snapshot));
    other = *snapshot;
    other.device = snapshot->device + 1;
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_snapshot_compare(NULL, snapshot, &diff));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_snapshot_compare(snapshot, NULL, &diff));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_snapshot_compare(snapshot, snapshot, NULL));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_snapshot_compare(snapshot, &other, &diff));
    ck_assert_ptr_null(diff);
    STATUS(TARN_ERR_INVALID_ARGUMENT,
           tarn_snapshot_diff_report(NULL, TARN_REPORT_TEXT, text, sizeof text, NULL));
    OK(tarn_snapshot_compare(snapshot, snapshot, &diff));
    STATUS(TARN_ERR_INVALID_ARGUMENT,
           tarn_snapshot_diff_report(diff, TARN_REPORT_TEXT, NULL, sizeof text, NULL));
    STATUS(TARN_ERR_INVALID_ARGUMENT,
           tarn_snapshot_diff_report(diff, (tarn_report_format)7, text, sizeof text, NULL));
    tarn_snapshot_diff_destroy(diff);
    tarn_snapshot_destroy(snapshot);
}

static tarn_status take_all(const void *bytes, size_t count, void *user)
{
    (void)bytes;
    *(size_t *)user += count;
    return TARN_OK;
}

static tarn_status refuse(const void *bytes, size_t count, void *user)
{
    (void)bytes;
    (void)count;
    (void)user;
    return TARN_ERR_LIMIT;
}

TEST(refused, a_trace_needs_events_a_name_and_a_writer)
{
    tarn_snapshot *snapshot;
    size_t count = 0;

    OK(tarn_snapshot_take(world.device, NULL, &snapshot));
    STATUS(TARN_ERR_INVALID_ARGUMENT,
           tarn_snapshot_write_trace(snapshot, "name", take_all, &count)); /* no events */
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_snapshot_write_trace(NULL, "name", take_all, &count));
    tarn_snapshot_destroy(snapshot);
    ck_assert_uint_eq(count, 0);
}

static void open_with_history(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = 1 << 20;
    test_world_open_with(&options);
}

GROUP(traced, open_with_history, test_world_close)

TEST(traced, a_trace_is_written_or_refused)
{
    static const char *const wrong[] = {NULL, "", "a name of thirty-two characters.", "\n",
                                        "\xc3\xa4"};
    tarn_snapshot *snapshot;
    void *block = test_alloc(world.pool, 1000, world.stream);
    size_t count = 0;

    OK(tarn_snapshot_take(world.device, NULL, &snapshot));
    OK(tarn_snapshot_add_history(snapshot, world.device));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        STATUS(TARN_ERR_INVALID_ARGUMENT,
               tarn_snapshot_write_trace(snapshot, wrong[i], take_all, &count));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_snapshot_write_trace(snapshot, "name", NULL, &count));
    STATUS(TARN_ERR_LIMIT, tarn_snapshot_write_trace(snapshot, "name", refuse, NULL));
    ck_assert_uint_eq(count, 0);
    OK(tarn_snapshot_write_trace(snapshot, "a name of thirty-one characters", take_all, &count));
    ck_assert_uint_gt(count, 64);
    tarn_snapshot_destroy(snapshot);
    OK(tarn_free(block));
}
