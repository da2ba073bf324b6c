// SPDX-License-Identifier: Apache-2.0
/* What a history records, as a program sets it. */
#include "support/world.h"

static void open_recorded(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = 256 << 10;
    test_world_open_with(&options);
}

GROUP(settings, open_recorded, test_world_close)
GROUP(unrecorded, test_world_open_unrecorded, test_world_close)

static tarn_history_info look(void)
{
    tarn_history_info info = TARN_HISTORY_INFO_INIT;

    OK(tarn_device_history_info(world.device, &info));
    return info;
}

TEST(settings, they_can_be_asked_for)
{
    tarn_history_settings settings = TARN_HISTORY_SETTINGS_INIT;
    tarn_history_info info = look();

    ck_assert_uint_eq(info.skipped, 0);
    ck_assert(!info.live_stacks_alone);
    for (uint64_t kind = 1; kind <= TARN_HISTORY_ALL; kind <<= 1) {
        settings.skipped = kind;
        settings.live_stacks_alone = kind == TARN_HISTORY_BLOCKS;
        OK(tarn_device_set_history(world.device, &settings));
        info = look();
        ck_assert_uint_eq(info.skipped, kind);
        ck_assert_int_eq(info.live_stacks_alone, kind == TARN_HISTORY_BLOCKS);
    }
}

TEST(settings, a_log_begins_anew)
{
    OK(tarn_free(test_malloc(1000)));
    OK(tarn_device_clear_history(world.device));
    OK(tarn_free(test_malloc(1000)));
    ck_assert_uint_eq(look().pages_overwritten, 0);
}

TEST(settings, bad_input_is_refused_and_changes_nothing)
{
    tarn_history_settings settings = TARN_HISTORY_SETTINGS_INIT;

    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_device_set_history(NULL, &settings));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_device_clear_history(NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "NULL", tarn_device_set_history(world.device, NULL));
    settings.skipped = TARN_HISTORY_ALL + 1;
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "tarn_history_kind",
           tarn_device_set_history(world.device, &settings));
    settings.skipped = TARN_HISTORY_BLOCKS;
    settings.stacks = (tarn_history_stacks)4;
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "tarn_history_stacks",
           tarn_device_set_history(world.device, &settings));
    settings.size = 8;
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "size", tarn_device_set_history(world.device, &settings));
    ck_assert_uint_eq(look().skipped, 0);
}

TEST(unrecorded, without_a_history_there_is_nothing_to_set)
{
    tarn_history_settings settings = TARN_HISTORY_SETTINGS_INIT;

    REFUSE(TARN_ERR_NOT_SUPPORTED, "history", tarn_device_set_history(world.device, &settings));
    REFUSE(TARN_ERR_NOT_SUPPORTED, "history", tarn_device_clear_history(world.device));
}
