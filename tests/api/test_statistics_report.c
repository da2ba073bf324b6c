// SPDX-License-Identifier: Apache-2.0
/* Statistics as text, and what is refused. */
#include <stdlib.h>

#include "support/world.h"

/* The report of the pool, or of the device; the caller's to free. */
static char *report_of(tarn_pool *pool, tarn_report_format format)
{
    size_t length = 0;
    size_t again = 0;
    char *text;

    if (pool != NULL)
        OK(tarn_pool_report(pool, format, NULL, 0, &length));
    else
        OK(tarn_device_report(world.device, format, NULL, 0, &length));
    text = malloc(length + 1);
    if (pool != NULL)
        OK(tarn_pool_report(pool, format, text, length + 1, &again));
    else
        OK(tarn_device_report(world.device, format, text, length + 1, &again));
    ck_assert_uint_eq(again, length);
    ck_assert_uint_eq(strlen(text), length);
    return text;
}

static void expect_in(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "'%s' is not in\n%s", part, text);
}

GROUP(reports, test_world_open, test_world_close)

TEST(reports, a_report_for_people_has_the_numbers_and_leaves_out_nothing_but_zeros)
{
    void *small = test_alloc(world.pool, 1000, world.stream);
    void *large = test_alloc(world.pool, 3 * MIB, world.stream);
    char *text = report_of(world.pool, TARN_REPORT_TEXT);

    expect_in(text, "pool 'test' of device 0\n");
    expect_in(text, "live blocks                          2           2           2           0\n");
    expect_in(text, "  small                              1           1           1           0\n");
    expect_in(text, "live bytes                     3.0 MiB     3.0 MiB     3.0 MiB         0 B\n");
    expect_in(text, "  small                        1.0 KiB");
    expect_in(text, "chunks mapped                              2\n");
    ck_assert_ptr_null(strstr(text, "pending"));
    free(text);
    text = report_of(NULL, TARN_REPORT_TEXT);
    expect_in(text, "device 0: ");
    expect_in(text, "\npool                                    live     pending      mapped\n");
    expect_in(text, "\ntest                                 3.0 MiB         0 B     6.0 MiB\n");
    expect_in(text, "\ndefault                                  0 B         0 B         0 B\n");
    expect_in(text, "\nhost memory, process");
    free(text);
    OK(tarn_free(small));
    OK(tarn_free(large));
}

/* Whether brackets match, outside strings. */
static void expect_closed(const char *text)
{
    int depth = 0;
    bool quoted = false;

    for (; *text != '\0'; text++) {
        quoted = quoted != (*text == '"');
        if (!quoted && (*text == '{' || *text == '['))
            depth += 1;
        if (!quoted && (*text == '}' || *text == ']'))
            depth -= 1;
        ck_assert_int_ge(depth, 0);
        ck_assert((unsigned char)*text < 0x7f);
    }
    ck_assert_int_eq(depth, 0);
    ck_assert(!quoted);
}

TEST(reports, a_report_as_json_has_every_field_under_its_name)
{
    tarn_pool *odd = test_pool("o\"d\\d\n\xe9");
    void *small = test_alloc(odd, 1000, world.stream);
    char *text = report_of(odd, TARN_REPORT_JSON);

    expect_closed(text);
    expect_in(text, "{\"pool\": \"o\\u0022d\\u005cd\\u000a\\u00e9\", \"device\": 0, ");
    expect_in(text, "\"live_bytes\": {\"all\": {\"current\": 1024, \"peak\": 1024, \"allocated\": "
                    "1024, \"freed\": 0}, \"small\": {\"current\": 1024, ");
    expect_in(text, "\"inactive_bytes\": {\"all\": 2096128, \"small\": 2096128, \"large\": 0}");
    expect_in(text, "\"trim_count\": 0");
    ck_assert_ptr_null(strstr(text, "idle_waits"));
    free(text);
    text = report_of(NULL, TARN_REPORT_JSON);
    expect_closed(text);
    expect_in(text, "{\"device\": 0, \"name\": \"");
    expect_in(text, "\"idle_waits\": 0");
    expect_in(text, "\"host_bytes\": {\"current\": ");
    expect_in(text,
              "\"pools\": [{\"pool\": \"o\\u0022d\\u005cd\\u000a\\u00e9\", \"live_bytes\": 1024, "
              "\"requested_bytes\": 1000, \"pending_bytes\": 0, \"mapped_bytes\": 2097152}, ");
    free(text);
    OK(tarn_free(small));
    OK(tarn_pool_destroy(odd));
}

TEST(reports, a_report_that_does_not_fit_is_cut)
{
    char whole[8192];
    char part[101];
    size_t length = 0;
    size_t again = 0;

    OK(tarn_pool_report(world.pool, TARN_REPORT_JSON, whole, sizeof whole, &length));
    ck_assert_uint_gt(length, 1000);
    for (size_t capacity = 1; capacity <= 100; capacity++) {
        memset(part, 'x', sizeof part);
        OK(tarn_pool_report(world.pool, TARN_REPORT_JSON, part, capacity, &again));
        ck_assert_uint_eq(again, length);
        ck_assert_uint_eq(strlen(part), capacity - 1);
        ck_assert_mem_eq(part, whole, capacity - 1);
        ck_assert(part[capacity] == 'x');
    }
    OK(tarn_pool_report(world.pool, TARN_REPORT_TEXT, NULL, 0, NULL));
}

TEST(reports, wrong_handles_and_arguments_are_refused)
{
    tarn_stats stats = TARN_STATS_INIT;
    tarn_stats other = {.size = 8};
    char buffer[8] = "";
    size_t length = 77;

    STATUS(TARN_ERR_INVALID_HANDLE, tarn_pool_stats(NULL, &stats));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_device_stats(NULL, &stats));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_pool_reset_peaks(NULL));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_pool_reset_totals((tarn_pool *)(void *)world.device));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_device_reset_peaks((tarn_device *)(void *)world.pool));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_device_reset_totals(NULL));
    STATUS(TARN_ERR_INVALID_HANDLE,
           tarn_pool_report(NULL, TARN_REPORT_TEXT, buffer, sizeof buffer, &length));
    STATUS(TARN_ERR_INVALID_HANDLE,
           tarn_device_report(NULL, TARN_REPORT_TEXT, buffer, sizeof buffer, &length));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "stats", tarn_pool_stats(world.pool, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "size", tarn_pool_stats(world.pool, &other));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "stats", tarn_device_stats(world.device, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "size", tarn_device_stats(world.device, &other));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "buffer",
           tarn_pool_report(world.pool, TARN_REPORT_TEXT, NULL, 8, &length));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "format",
           tarn_pool_report(world.pool, (tarn_report_format)2, buffer, sizeof buffer, &length));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "buffer",
           tarn_device_report(world.device, TARN_REPORT_JSON, NULL, 8, &length));
    REFUSE(
        TARN_ERR_INVALID_ARGUMENT, "format",
        tarn_device_report(world.device, (tarn_report_format)-1, buffer, sizeof buffer, &length));
    ck_assert_uint_eq(length, 77);
    ck_assert_str_eq(buffer, "");
}
