// SPDX-License-Identifier: Apache-2.0
/* Ranges of the program's time. */
#include <string.h>

#include "support/written.h"

static void open_recorded(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = 256 << 10;
    test_world_open_with(&options);
}

GROUP(ranges, open_recorded, test_world_close)
GROUP(unrecorded, test_world_open_unrecorded, test_world_close)

TEST(ranges, bad_input_is_refused)
{
    uint64_t range = 77;
    char name[1002];

    memset(name, 'x', sizeof name);
    name[1001] = '\0';
    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_range_begin(NULL, "name", &range));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_range_end(NULL, 0));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "name", tarn_range_begin(world.device, NULL, &range));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "range", tarn_range_begin(world.device, "name", NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "1000 bytes", tarn_range_begin(world.device, name, &range));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "UTF-8", tarn_range_begin(world.device, "\xff", &range));
    ck_assert_uint_eq(range, 77);
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "no such range", tarn_range_end(world.device, 77));
    OK(tarn_range_end(world.device, 0));
}

TEST(unrecorded, without_a_history_nothing_is_noted)
{
    uint64_t range = 77;

    OK(tarn_range_begin(world.device, "name", &range));
    ck_assert_uint_eq(range, 0);
    OK(tarn_range_end(world.device, range));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "no such range", tarn_range_end(world.device, 77));
}

TEST(ranges, a_snapshot_is_written_with_them)
{
    tarn_snapshot *snapshot;
    uint64_t step;
    uint64_t open;

    OK(tarn_range_begin(world.device, "the step", &step));
    OK(tarn_range_begin(world.device, "open", &open));
    OK(tarn_range_end(world.device, step));
    OK(tarn_snapshot_take(world.device, NULL, &snapshot));
    OK(tarn_range_end(world.device, open)); /* too late */
    OK(tarn_snapshot_add_history(snapshot, world.device));
    OK(tarn_snapshot_add_history(snapshot, world.device)); /* in place of the first */
    written_count = 0;
    OK(tarn_snapshot_write_pytorch(snapshot, take_text, NULL));
    ck_assert_uint_eq(count_of("the step"), 2);
    ck_assert_uint_eq(count_of("open"), 1);
    ck_assert_uint_eq(count_of("START"), 1); /* a word, then named by its number */
    ck_assert_uint_eq(count_of("END"), 1);
    tarn_snapshot_destroy(snapshot);
}
