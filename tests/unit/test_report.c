// SPDX-License-Identifier: Apache-2.0
#include "observe/report.h"
#include "unit/unit.h"

static char text[16384];

static void expect_part(const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "'%s' is not in\n%s", part, text);
}

static tarn_device *device;
static tarn_pool *pool;

static void make_pool(void)
{
    device = unit_device();
    pool = unit_pool_of(device, "it", 0);
    unit_end_turns(pool); /* its counters are written by hand */
}

static size_t write_text(void)
{
    return tn_pool_write_report(pool, TARN_REPORT_TEXT, text, sizeof text);
}

static void set(int id, uint64_t amount)
{
    pool->counters.metrics[id] = (struct tn_metric){.allocated = {amount, 0}};
}

GROUP(report, make_pool)

TEST(report, an_empty_pool_is_a_line_and_a_head)
{
    ck_assert_uint_eq(write_text(), strlen(text));
    ck_assert_str_eq(
        text, "pool 'it' of device 0\n"
              "                               current        peak   allocated       freed\n");
}

TEST(report, amounts_have_eleven_characters_whatever_they_are)
{
    static const struct {
        uint64_t bytes;
        const char *line;
    } cases[] = {
        {1, "live bytes                         1 B         1 B         1 B         0 B\n"},
        {1023, "live bytes                      1023 B"},
        {1536, "live bytes                     1.5 KiB"},
        {MIB, "live bytes                     1.0 MiB"},
        {1000 * GIB, "live bytes                  1000.0 GiB"},
        {UINT64_MAX, "live bytes                    16.0 EiB"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        set(TN_LIVE_BYTES, cases[i].bytes);
        (void)write_text();
        expect_part(cases[i].line);
    }
    set(TN_LIVE_BYTES, 0);
    set(TN_LIVE_BLOCKS, 9999999999);
    (void)write_text();
    expect_part("live blocks                 9999999999");
    set(TN_LIVE_BLOCKS, 12345678901234);
    (void)write_text();
    expect_part("live blocks                  1.235e+13");
    set(TN_LIVE_BLOCKS, 0);
}

TEST(report, sizes_are_told_apart_where_there_are_both)
{
    pool->counters.metrics[TN_LIVE_BLOCKS] = (struct tn_metric){.allocated = {3, 4}};
    (void)write_text();
    expect_part("live blocks                          7           7           7           0\n"
                "  small                              3           3           3           0\n"
                "  large                              4           4           4           0\n");
    pool->counters.metrics[TN_LIVE_BLOCKS] = (struct tn_metric){.allocated = {0, 4}};
    (void)write_text();
    ck_assert_ptr_null(strstr(text, "large"));
    set(TN_LIVE_BLOCKS, 0);
}

TEST(report, a_device_has_its_pools)
{
    size_t length;

    (void)unit_alloc(pool, 1000, test_stream());
    length = tn_device_write_report(device, TARN_REPORT_TEXT, text, sizeof text);
    ck_assert_uint_eq(length, strlen(text));
    expect_part("\nit                                   1.0 KiB         0 B     2.0 MiB\n");
    ck_assert(tn_lock_none_held());
    length = tn_device_write_report(device, TARN_REPORT_JSON, text, sizeof text);
    ck_assert_uint_eq(length, strlen(text));
    expect_part("\"pools\": [{\"pool\": \"it\", \"live_bytes\": 1024, ");
    expect_part("}, {\"pool\": \"default\", \"live_bytes\": 0, ");
    expect_part("}]}\n");
}
