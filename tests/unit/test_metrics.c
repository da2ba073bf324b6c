// SPDX-License-Identifier: Apache-2.0
/* Where a text is cut into parts, and pools that are not counted. tests/api has what is written. */
#include "observe/metrics.h"

#include "pools/end.h"

#include "unit/one_pool.h"

static char text[256 << 10];
static size_t length;
static size_t part_count;

static tarn_status take_part(const void *bytes, size_t count, void *user)
{
    const char *last = (const char *)bytes + count;

    ck_assert_ptr_eq(user, &length);
    ck_assert(tn_lock_none_held());
    ck_assert_uint_le(count, 4096);
    /* A part of Prometheus' text ends with a line, since no sample is cut. */
    if (text[0] == '#' || length == 0)
        ck_assert(last[-1] == '\n' || *(const char *)bytes == '{');
    memcpy(text + length, bytes, count);
    length += count;
    text[length] = '\0';
    part_count += 1;
    return TARN_OK;
}

static void write_metrics(tarn_metrics_format format)
{
    length = 0;
    part_count = 0;
    OK(tn_device_write_metrics(device, format, 0, take_part, &length));
    ck_assert(tn_lock_none_held());
}

static size_t count_of(const char *word)
{
    size_t count = 0;

    for (const char *at = text; (at = strstr(at, word)) != NULL; at += 1)
        count += 1;
    return count;
}

GROUP(metrics, make_pool, NULL)

TEST(metrics, every_name_is_explained_once_and_its_samples_follow)
{
    const char *line = text;
    char name[64] = "";
    size_t names = 0;

    (void)unit_pool_of(device, "second", 0);
    write_metrics(TARN_METRICS_PROMETHEUS);
    while (*line != '\0') {
        if (strncmp(line, "# HELP ", 7) == 0) {
            (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(line + 7, " "), line + 7);
            names += 1;
        } else {
            const char *at = strncmp(line, "# TYPE ", 7) == 0 ? line + 7 : line;

            ck_assert_msg(strncmp(at, name, strlen(name)) == 0, "%s: %.80s", name, line);
        }
        ck_assert_ptr_nonnull(strchr(line, '\n'));
        line = strchr(line, '\n') + 1;
    }
    ck_assert_uint_eq(count_of("# HELP "), names);
    ck_assert_uint_eq(count_of("# TYPE "), names);
    ck_assert_uint_eq(count_of("tarn_pool_live_bytes{"), 3);
    ck_assert_uint_eq(count_of("pool=\"net\""), count_of("pool=\"second\""));
    ck_assert_uint_eq(count_of("tarn_device_pools{device=\"0\"} 3\n"), 1);
}

TEST(metrics, a_part_ends_with_a_sample_whatever_the_names_are)
{
    char name[32];

    for (size_t bytes = 0; bytes < sizeof name; bytes++) {
        memset(name, '\n', bytes); /* written as two characters */
        name[bytes] = '\0';
        (void)unit_pool_of(device, name, 0);
    }
    write_metrics(TARN_METRICS_PROMETHEUS);
    ck_assert_uint_gt(part_count, 20);
    write_metrics(TARN_METRICS_JSON);
    ck_assert_uint_gt(part_count, 3);
    ck_assert_uint_eq(count_of("\"trims_total\": "), 34);
}

TEST(metrics, an_adopted_pool_counts_from_its_first_block_on)
{
    struct tn_pool_settings settings = {.name = "adopted", .is_adopted = true};
    tarn_pool *adopted;

    OK(tn_pool_create(device, &settings, &adopted));
    write_metrics(TARN_METRICS_PROMETHEUS);
    ck_assert_uint_eq(count_of("pool=\"adopted\""), 0);
    ck_assert_uint_eq(count_of("tarn_device_pools{device=\"0\"} 2\n"), 1);
    (void)unit_alloc(adopted, 512, stream);
    write_metrics(TARN_METRICS_PROMETHEUS);
    ck_assert_uint_gt(count_of("pool=\"adopted\""), 0);
}

TEST(metrics, a_record_that_is_used_again_has_nothing_of_the_pool_before)
{
    tarn_pool *first = unit_pool_of(device, "first", 0);
    tarn_pool *second;

    OK(tarn_free(unit_alloc(first, 4096, stream)));
    write_metrics(TARN_METRICS_PROMETHEUS);
    ck_assert_uint_eq(count_of(" 4096\n"), 1);
    OK(tarn_free(unit_alloc(first, 4096, stream)));
    OK(tn_pool_destroy(first));
    second = unit_pool_of(device, "second", 0);
    ck_assert_ptr_eq(second, first);
    write_metrics(TARN_METRICS_PROMETHEUS);
    ck_assert_uint_eq(count_of("pool=\"first\""), 0);
    ck_assert_uint_eq(count_of("tarn_pool_live_peak_bytes{device=\"0\",pool=\"second\""), 1);
    ck_assert_uint_eq(count_of(" 4096\n"), 0);
}
