// SPDX-License-Identifier: Apache-2.0
/* Leaks as text, of results that are made by hand. */
#include <unistd.h>

#include "observe/leaks.h"
#include "unit/unit.h"

SUITE("reports of leaks")

GROUP(report, NULL)

enum { TEXT_BYTES = 4096 };

static const char *report(const tarn_leaks *leaks, tarn_report_format format)
{
    static char text[TEXT_BYTES];
    const size_t length = tn_leaks_write_report(leaks, format, NULL, 0);

    ck_assert_uint_lt(length, sizeof text);
    ck_assert_uint_eq(tn_leaks_write_report(leaks, format, text, sizeof text), length);
    ck_assert_uint_eq(strlen(text), length);
    return text;
}

TEST(report, a_device_without_live_blocks_is_one_line)
{
    const tarn_leaks leaks = {.device = 3};

    ck_assert_str_eq(report(&leaks, TARN_REPORT_TEXT), "device 3: no block is live\n");
    ck_assert_str_eq(
        report(&leaks, TARN_REPORT_JSON),
        "{\"device\": 3, \"sample_bytes\": 0, \"last_number\": 0, "
        "\"live\": {\"blocks\": 0, \"bytes\": 0}, \"in_graphs\": {\"blocks\": 0, \"bytes\": 0}, "
        "\"discarded\": {\"blocks\": 0, \"bytes\": 0}, \"contents\": {\"blocks\": 0, \"bytes\": "
        "0}, \"leaks\": [], \"modules\": []}\n");
}

TEST(report, contents_of_checkpoints_are_told_beside_no_live_block)
{
    const tarn_leaks leaks = {.contents = {1, 1 << 20}};

    ck_assert_str_eq(report(&leaks, TARN_REPORT_TEXT),
                     "device 0: no block is live; beside them contents of checkpoints: 1 block, "
                     "1.0 MiB\n");
}

static const unsigned char build_id[] = {0x00, 0x1f, 0xab};
static const tarn_leak_module modules[] = {
    {0x1000, 0x2000, 0x400, "/some/old.so", build_id, sizeof build_id},
    {0x1800, 0x2000, 0x100, "/other/new.so", NULL, 0},
};
static const tarn_leak_pool pools[] = {{7, "weights", {2, 2048}}, {1, "default", {1, 100}}};

/* Addresses where nothing is: the loader knows no function. */
static const uint64_t frames[] = {0x1801, 0x1800, 0x3000};
static const char *const interpreted[] = {"train.py:7 step"};

static const tarn_leak places[] = {
    {.stack = 8,
     .label = "layer 3",
     .interpreted = interpreted,
     .interpreted_count = 1,
     .frames = frames,
     .frame_count = 3,
     .live = {3, 2148},
     .block_bytes = 2560,
     .estimated = {30, UINT64_C(5) << 40},
     .oldest = 4,
     .newest = 9,
     .in_graphs = {1, 100},
     .discarded = {2, 2048},
     .pools = pools,
     .pool_count = 2},
    {.label = "",
     .live = {1, 1023},
     .block_bytes = 1024,
     .oldest = 5,
     .newest = 5,
     .pools = &pools[1],
     .pool_count = 1},
    {.stack = 1,
     .label = "",
     .live = {1, 10},
     .block_bytes = 512,
     .oldest = 6,
     .newest = 6,
     .pools = pools,
     .pool_count = 1},
};

static tarn_leaks some_leaks(void)
{
    return (tarn_leaks){.device = 0,
                        .live = {5, 3181},
                        .in_graphs = {1, 100},
                        .discarded = {2, 2048},
                        .contents = {1, 512},
                        .sample_bytes = 1 << 20,
                        .last_number = 12,
                        .count = 3,
                        .leaks = places,
                        .module_count = 2,
                        .modules = modules};
}

TEST(report, text_has_places_frames_and_modules)
{
    const tarn_leaks leaks = some_leaks();

    ck_assert_str_eq(
        report(&leaks, TARN_REPORT_TEXT),
        "device 0: 5 blocks, 3.1 KiB, live in 3 places; the last allocation has number 12; in "
        "memory of graphs: 1 block, 100 B; of aborted captures: 2 blocks, 2.0 KiB; beside them "
        "contents of checkpoints: 1 block, 512 B\n"
        "3 blocks, 2.1 KiB, numbers 4 to 9, pools 'weights' (2 blocks, 2.0 KiB), 'default' (1 "
        "block, 100 B); stand for: 30 blocks, 5.0 TiB; in memory of graphs: 1 block, 100 B; of "
        "aborted captures: 2 blocks, 2.0 KiB\n"
        "    label 'layer 3'\n"
        "    train.py:7 step\n"
        "    new.so+0x100\n"
        "    old.so+0xbff\n"
        "    0x2fff\n"
        "1 block, 10 B, number 6, pool 'weights'\n"
        "    the history had no room for the stack\n"
        "1 block, 1023 B, no stack was taken\n"
        "old.so is /some/old.so, build id 001fab\n"
        "new.so is /other/new.so\n");
}

TEST(report, estimates_are_told_where_stacks_are_sampled)
{
    tarn_leaks leaks = some_leaks();

    ck_assert_ptr_nonnull(strstr(report(&leaks, TARN_REPORT_TEXT), "stand for: "));
    leaks.sample_bytes = 1;
    ck_assert_ptr_null(strstr(report(&leaks, TARN_REPORT_TEXT), "stand for: "));
    ck_assert_ptr_nonnull(strstr(report(&leaks, TARN_REPORT_TEXT),
                                 "1 block, 1023 B, number 5, pool 'default'\n    no stack\n"));
}

/* Nothing stands for them. */
TEST(report, blocks_without_a_stack_are_places_where_no_block_has_one)
{
    tarn_leaks leaks = some_leaks();

    leaks.leaks = &places[1];
    leaks.count = 1;
    ck_assert_ptr_nonnull(strstr(report(&leaks, TARN_REPORT_TEXT), "    no stack\n"));
    ck_assert_ptr_null(strstr(report(&leaks, TARN_REPORT_TEXT), "no stack was taken"));
}

TEST(report, json_has_all_members)
{
    const tarn_leaks leaks = some_leaks();
    const char *json = report(&leaks, TARN_REPORT_JSON);
    static const char *const parts[] = {
        "{\"device\": 0, \"sample_bytes\": 1048576, \"last_number\": 12, \"live\": {\"blocks\": 5, "
        "\"bytes\": 3181}, \"in_graphs\": {\"blocks\": 1, \"bytes\": 100}, \"discarded\": "
        "{\"blocks\": 2, \"bytes\": 2048}, \"contents\": {\"blocks\": 1, \"bytes\": 512}, "
        "\"leaks\": [{",
        "{\"stack\": 8, \"block_bytes\": 2560, \"oldest\": 4, \"newest\": 9, \"live\": "
        "{\"blocks\": 3, \"bytes\": 2148}, \"estimated\": {\"blocks\": 30, \"bytes\": "
        "5497558138880}, \"in_graphs\": {\"blocks\": 1, \"bytes\": 100}, \"discarded\": "
        "{\"blocks\": 2, \"bytes\": 2048}, \"label\": \"layer 3\", \"interpreted\": "
        "[\"train.py:7 step\"], \"frames\": [{\"address\": 6145, \"module\": 1, "
        "\"offset\": 256}, {\"address\": 6144, \"module\": 0, \"offset\": 3071}, {\"address\": "
        "12288}], \"pools\": [{\"number\": 7, \"name\": "
        "\"weights\", \"live\": {\"blocks\": 2, \"bytes\": 2048}}, {\"number\": 1, \"name\": "
        "\"default\", \"live\": {\"blocks\": 1, \"bytes\": 100}}]}, {\"stack\": 0, ",
        "\"modules\": [{\"start\": 4096, \"end\": 8192, \"offset\": 1024, \"path\": "
        "\"/some/old.so\", \"build_id\": \"001fab\"}, {\"start\": 6144, \"end\": 8192, \"offset\": "
        "256, \"path\": \"/other/new.so\", \"build_id\": \"\"}]}\n",
    };

    for (size_t i = 0; i < 3; i++)
        ck_assert_msg(strstr(json, parts[i]) != NULL, "%s is not in %s", parts[i], json);
}

TEST(report, what_does_not_fit_is_cut)
{
    const tarn_leaks leaks = {.device = 0};
    char text[8];

    ck_assert_uint_eq(tn_leaks_write_report(&leaks, TARN_REPORT_TEXT, text, sizeof text), 27);
    ck_assert_str_eq(text, "device ");
}

/* The name of a function of the C library, whose symbols are dynamic. */
TEST(report, the_loader_tells_the_function)
{
    const uint64_t frame = (uint64_t)(uintptr_t)&getppid + 2;
    const tarn_leak_module module = {frame - 2, frame + 100, 0x40, "/lib/libc.so", NULL, 0};
    const tarn_leak place = {.stack = 8,
                             .label = "",
                             .frames = &frame,
                             .frame_count = 1,
                             .live = {1, 1},
                             .pools = pools,
                             .pool_count = 1};
    tarn_leaks leaks = {.live = {1, 1}, .count = 1, .leaks = &place, .modules = &module};

    leaks.module_count = 1;
    ck_assert_ptr_nonnull(strstr(report(&leaks, TARN_REPORT_TEXT), "    libc.so+0x41 getppid\n"));
    ck_assert_ptr_nonnull(strstr(report(&leaks, TARN_REPORT_JSON), "\"function\": \"getppid\"}"));
}
