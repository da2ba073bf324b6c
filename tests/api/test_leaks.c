// SPDX-License-Identifier: Apache-2.0
/* Which blocks are live, and where they were allocated. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/world.h"

static void open_with_stacks(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    (void)unsetenv("TARN_CONF"); /* which comes before the options */
    options.history_bytes = 1 * MIB;
    options.history_stacks = TARN_HISTORY_CALLERS;
    test_world_open_with(&options);
}

static void open_plain(void)
{
    (void)unsetenv("TARN_CONF");
    test_world_open_unrecorded();
}

GROUP(stacks, open_with_stacks, test_world_close)
GROUP(plain, open_plain, test_world_close)

static tarn_leaks *find(tarn_pool *pool)
{
    tarn_leaks *leaks = NULL;

    OK(tarn_leaks_find(world.device, pool, &leaks));
    ck_assert_int_eq(leaks->device, 0);
    return leaks;
}

/* The text of a result; the caller's to free. */
static char *report_of(const tarn_leaks *leaks, tarn_report_format format)
{
    size_t length = 0;
    size_t again = 0;
    char *text;

    OK(tarn_leaks_report(leaks, format, NULL, 0, &length));
    text = malloc(length + 1);
    ck_assert_ptr_nonnull(text);
    OK(tarn_leaks_report(leaks, format, text, length + 1, &again));
    ck_assert_uint_eq(again, length);
    ck_assert_uint_eq(strlen(text), length);
    return text;
}

static void expect_report(const tarn_leaks *leaks, tarn_report_format format, const char *part)
{
    char *text = report_of(leaks, format);

    ck_assert_msg(strstr(text, part) != NULL, "'%s' is not in\n%s", part, text);
    free(text);
}

TEST(stacks, each_call_that_leaks_is_a_place)
{
    void *blocks[5];
    tarn_leaks *leaks;

    for (size_t i = 0; i < 3; i++)
        OK(tarn_malloc(world.device, MIB, world.stream, &blocks[i]));
    OK(tarn_pool_malloc(world.pool, 2 * MIB, 0, world.stream, &blocks[3]));
    OK(tarn_calloc(world.device, 2, 100, world.stream, &blocks[4]));
    leaks = find(NULL);
    ck_assert_uint_eq(leaks->live.blocks, 5);
    ck_assert_uint_eq(leaks->live.bytes, 5 * MIB + 200);
    ck_assert_uint_eq(leaks->count, 3);
    ck_assert_uint_eq(leaks->leaks[0].live.bytes, 3 * MIB);
    ck_assert_uint_eq(leaks->leaks[1].live.bytes, 2 * MIB);
    ck_assert_uint_eq(leaks->leaks[2].live.bytes, 200);
    ck_assert_uint_eq(leaks->leaks[2].block_bytes, 512);
    for (size_t i = 0; i < 3; i++)
        ck_assert_uint_eq(leaks->leaks[i].frame_count, 1);
    ck_assert_uint_eq(leaks->module_count, 1);
    expect_report(leaks, TARN_REPORT_TEXT, "device 0: 5 blocks, 5.0 MiB, live in 3 places;");
    expect_report(leaks, TARN_REPORT_TEXT, "1 block, 2.0 MiB, number ");
    expect_report(leaks, TARN_REPORT_TEXT, ", pool 'test'\n    api_leaks+0x");
    expect_report(leaks, TARN_REPORT_JSON, "\"name\": \"test\"");
    tarn_leaks_destroy(leaks);
    leaks = find(world.pool);
    ck_assert_uint_eq(leaks->live.bytes, 2 * MIB);
    tarn_leaks_destroy(leaks);
    for (size_t i = 0; i < 5; i++)
        OK(tarn_free(blocks[i]));
    leaks = find(NULL);
    ck_assert_uint_eq(leaks->count, 0);
    expect_report(leaks, TARN_REPORT_TEXT, "device 0: no block is live\n");
    tarn_leaks_destroy(leaks);
}

/* The result is the caller's, whatever becomes of the device. */
TEST(stacks, a_result_outlives_its_device)
{
    void *block = test_malloc(MIB);
    tarn_leaks *leaks = find(NULL);

    OK(tarn_free(block));
    test_world_close();
    expect_report(leaks, TARN_REPORT_TEXT, "1 block, 1.0 MiB, number ");
    tarn_leaks_destroy(leaks);
    open_with_stacks();
}

TEST(stacks, what_a_released_pool_has_is_told)
{
    tarn_pool *pool = test_pool("released");
    void *block = test_alloc(pool, MIB, world.stream);
    tarn_leaks *leaks;

    OK(tarn_pool_release(pool));
    leaks = find(NULL);
    ck_assert_uint_eq(leaks->count, 1);
    ck_assert_str_eq(leaks->leaks[0].pools[0].name, "released");
    tarn_leaks_destroy(leaks);
    OK(tarn_free(block));
}

TEST(plain, a_device_without_a_history_tells_pools_and_sizes)
{
    void *blocks[3];
    tarn_leaks *leaks;

    blocks[0] = test_malloc(MIB);
    blocks[1] = test_malloc(MIB);
    blocks[2] = test_alloc(world.pool, MIB, world.stream);
    leaks = find(NULL);
    ck_assert_uint_eq(leaks->count, 2);
    ck_assert_uint_eq(leaks->leaks[0].live.blocks, 2);
    expect_report(leaks, TARN_REPORT_TEXT, ", pool 'default'\n    no stack\n");
    tarn_leaks_destroy(leaks);
    for (size_t i = 0; i < 3; i++)
        OK(tarn_free(blocks[i]));
}

/* Allocations that others make meanwhile are told or not, and each that was there before is. */
static void allocate_much(void *argument)
{
    for (int i = 0; i < 200; i++)
        OK(tarn_free(test_alloc(argument, (size_t)(i % 20 + 1) * 4096, world.side)));
}

TEST(stacks, looks_disturb_nobody)
{
    void *block = test_malloc(MIB);

    for (int i = 0; i < 20; i++) {
        tarn_leaks *leaks;

        test_elsewhere(allocate_much, world.pool);
        leaks = find(NULL);
        ck_assert_uint_eq(leaks->live.blocks, 1);
        tarn_leaks_destroy(leaks);
    }
    OK(tarn_pool_validate(world.pool));
    OK(tarn_free(block));
}

TEST(plain, no_output_and_no_handle_are_refused)
{
    tarn_leaks *leaks = UNTOUCHED;
    tarn_pool *gone = test_pool("gone");
    char text[4];
    size_t length = 77;

    OK(tarn_pool_destroy(gone));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "leaks", tarn_leaks_find(world.device, NULL, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "leaks", tarn_leaks_find(world.device, world.pool, NULL));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_leaks_find(NULL, NULL, &leaks));
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool", tarn_leaks_find(world.device, gone, &leaks));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "leaks",
           tarn_leaks_report(NULL, TARN_REPORT_TEXT, text, sizeof text, NULL));
    ck_assert_untouched(leaks);
    leaks = find(NULL);
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "buffer",
           tarn_leaks_report(leaks, TARN_REPORT_TEXT, NULL, 4, &length));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "format",
           tarn_leaks_report(leaks, (tarn_report_format)2, text, sizeof text, &length));
    ck_assert_uint_eq(length, 77);
    OK(tarn_leaks_report(leaks, TARN_REPORT_TEXT, text, sizeof text, NULL));
    ck_assert_str_eq(text, "dev");
    tarn_leaks_destroy(leaks);
    tarn_leaks_destroy(NULL);
}

static void open_two(void)
{
    ck_assert_int_eq(setenv("TARN_SIM_DEVICES", "2", 1), 0);
    test_world_open();
}

GROUP(devices, open_two, test_world_close)

TEST(devices, a_pool_of_another_device_is_refused)
{
    tarn_leaks *leaks = UNTOUCHED;
    tarn_device *device = NULL;

    OK(tarn_device_open(1, NULL, &device));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "another device",
           tarn_leaks_find(device, world.pool, &leaks));
    ck_assert_untouched(leaks);
    OK(tarn_leaks_find(device, NULL, &leaks));
    ck_assert_int_eq(leaks->device, 1);
    ck_assert_uint_eq(leaks->count, 0);
    tarn_leaks_destroy(leaks);
    OK(tarn_device_close(device));
}

/* TARN_LEAKS -------------------------------------------------------------------------------- */

static char path[] = "/tmp/tarn-api-leaks-XXXXXX";

static void open_asked(void)
{
    const int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    (void)close(fd);
    ck_assert_int_eq(setenv("TARN_LEAKS", path, 1), 0);
    test_world_open();
}

static void close_asked(void)
{
    test_world_close();
    (void)unlink(path);
}

GROUP(asked, open_asked, close_asked)

TEST(asked, a_close_that_is_refused_for_a_block_tells_the_block)
{
    void *block = test_malloc(3 * MIB);
    char text[4096] = "";
    FILE *file;

    STATUS(TARN_ERR_BUSY, tarn_device_close(world.device));
    file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_gt(fread(text, 1, sizeof text - 1, file), 0);
    (void)fclose(file);
    ck_assert_msg(strstr(text, "tarn: not closed: device 0: 1 block, 3.0 MiB, live in 1 place;"),
                  "%s", text);
    ck_assert_msg(strstr(text, "    api_leaks+0x") != NULL, "%s", text);
    OK(tarn_free(block));
}
