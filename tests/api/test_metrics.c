// SPDX-License-Identifier: Apache-2.0
/* Metrics as text: what they say, peaks since a scrape, and what is refused. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/world.h"

/* A text that is being written. */
static struct {
    char bytes[1 << 20];
    size_t count;
    size_t parts;
    size_t parts_most; /* the writer refuses the next; 0: it takes all */
} text;

static tarn_status take_part(const void *bytes, size_t count, void *user)
{
    (void)user;
    ck_assert_uint_le(count, 4096);
    ck_assert_uint_gt(count, 0);
    if (text.parts_most > 0 && text.parts == text.parts_most)
        return TARN_ERR_LIMIT;
    text.parts += 1;
    ck_assert_uint_lt(text.count + count, sizeof text.bytes);
    memcpy(text.bytes + text.count, bytes, count);
    text.count += count;
    text.bytes[text.count] = '\0';
    return TARN_OK;
}

static void scrape(int scraper, tarn_metrics_format format)
{
    text.count = 0;
    text.parts = 0;
    OK(tarn_device_write_metrics(world.device, format, scraper, take_part, NULL));
}

static void expect_in(const char *part)
{
    ck_assert_msg(strstr(text.bytes, part) != NULL, "'%s' is not in\n%s", part, text.bytes);
}

/* The sample's value; there is one. */
static uint64_t sample(const char *name, const char *pool)
{
    char start[128];
    const char *line;
    const char *found = NULL;
    int length = pool == NULL ? snprintf(start, sizeof start, "\ntarn_device_%s{", name)
                              : snprintf(start, sizeof start,
                                         "\ntarn_pool_%s{device=\"0\",pool=\"%s\"", name, pool);

    ck_assert_int_lt(length, (int)sizeof start);
    for (line = text.bytes; (line = strstr(line, start)) != NULL; line += 1) {
        ck_assert_msg(found == NULL, "%s is there twice", start);
        found = line;
    }
    ck_assert_msg(found != NULL, "%s is not in\n%s", start + 1, text.bytes);
    return strtoull(strstr(found, "} ") + 2, NULL, 10);
}

static uint64_t scraped(int scraper, const char *name, const char *pool)
{
    scrape(scraper, TARN_METRICS_PROMETHEUS);
    return sample(name, pool);
}

static void free_all(void *const *blocks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        OK(tarn_free(blocks[i]));
}

GROUP(metrics, test_world_open, test_world_close)

TEST(metrics, they_are_those_of_the_statistics)
{
    tarn_stats stats = TARN_STATS_INIT;
    void *blocks[] = {test_alloc(world.pool, 1000, world.stream),
                      test_alloc(world.pool, 3 * MIB, world.stream), test_malloc(100)};

    scrape(0, TARN_METRICS_PROMETHEUS);
    OK(tarn_pool_stats(world.pool, &stats));
    ck_assert_uint_eq(sample("live_blocks", "test"), 2);
    ck_assert_uint_eq(sample("live_bytes", "test"), stats.live_bytes.all.current);
    ck_assert_uint_eq(sample("requested_bytes", "test"), 1000 + 3 * MIB);
    ck_assert_uint_eq(sample("mapped_bytes", "test"), stats.mapped_bytes.all.current);
    ck_assert_uint_eq(sample("allocations_total", "test"), 2);
    ck_assert_uint_eq(sample("maps_total", "test"), stats.map_count);
    ck_assert_uint_eq(sample("growths_total", "test"), stats.growth_count);
    ck_assert_uint_eq(sample("arenas", "test"), 1);
    ck_assert_uint_eq(sample("live_blocks", "default"), 1);
    OK(tarn_device_stats(world.device, &stats));
    ck_assert_uint_eq(sample("mapped_bytes", NULL), stats.mapped_bytes.all.current);
    ck_assert_uint_eq(sample("memory_bytes", NULL), stats.total_bytes);
    ck_assert_uint_eq(sample("address_bytes", NULL), stats.reserved_bytes);
    ck_assert_uint_eq(sample("creates_total", NULL), stats.create_calls);
    ck_assert_uint_eq(sample("host_bytes", NULL), stats.host_bytes.current);
    ck_assert_uint_eq(sample("history_bytes", NULL), stats.history_bytes);
    ck_assert_uint_eq(sample("import_bytes", NULL), stats.import_bytes);
    ck_assert_uint_eq(sample("pools", NULL), 2);
    ck_assert_uint_eq(sample("lost", NULL), 0);
    free_all(blocks, 3);
}

TEST(metrics, counters_rise_whatever_is_reset)
{
    OK(tarn_free(test_alloc(world.pool, 1000, world.stream)));
    OK(tarn_device_reset_totals(world.device));
    ck_assert_uint_eq(scraped(0, "growths_total", "test"), 1);
    ck_assert_uint_ge(sample("creates_total", NULL), 1);
    ck_assert_uint_eq(sample("frees_total", "test"), 1);
}

TEST(metrics, memory_that_is_not_tarns_is_told_to_the_byte)
{
    void *block = test_alloc(world.pool, 8 * MIB, world.stream);
    const uint64_t before = scraped(0, "other_bytes", NULL);
    void *foreign = test_linear_alloc(6 * MIB);
    tarn_pool *passing = test_pool("passing");

    ck_assert_uint_eq(scraped(0, "other_bytes", NULL), before + 6 * MIB);
    ck_assert_uint_eq(sample("memory_bytes", NULL),
                      sample("free_bytes", NULL) + sample("mapped_bytes", NULL) +
                          sample("cached_bytes", NULL) + sample("other_bytes", NULL));
    OK(tarn_free(test_alloc(passing, 64 * MIB, world.stream))); /* Tarn's does not count */
    ck_assert_uint_eq(scraped(0, "other_bytes", NULL), before + 6 * MIB);
    OK(tarn_pool_destroy(passing));
    ck_assert_uint_gt(scraped(0, "cached_bytes", NULL), 0);
    ck_assert_uint_eq(sample("other_bytes", NULL), before + 6 * MIB);
    test_linear_free(foreign);
    ck_assert_uint_eq(scraped(0, "other_bytes", NULL), before);
    OK(tarn_free(block));
}

TEST(metrics, what_the_driver_does_not_tell_is_left_out)
{
    sim.plan_fault("cuMemGetInfo", 1, 1, TN_CUDA_ERROR_NOT_PERMITTED);
    scrape(0, TARN_METRICS_PROMETHEUS);
    ck_assert_ptr_null(strstr(text.bytes, "tarn_device_free_bytes"));
    ck_assert_ptr_null(strstr(text.bytes, "tarn_device_other_bytes"));
    ck_assert_uint_gt(sample("memory_bytes", NULL), 0);
    scrape(0, TARN_METRICS_JSON);
    expect_in("\"free_bytes\": null, \"other_bytes\": null, ");
    (void)sim.clear_fault(NULL);
}

TEST(metrics, a_peak_is_the_highest_value_since_the_scrapers_last_scrape)
{
    void *block = test_alloc(world.pool, 8 * MIB, world.stream);

    OK(tarn_free(block));
    ck_assert_uint_eq(scraped(0, "live_peak_bytes", "test"), 8 * MIB);
    ck_assert_uint_eq(sample("live_bytes", "test"), 0);
    ck_assert_uint_eq(scraped(0, "live_peak_bytes", "test"), 0);
    block = test_alloc(world.pool, 2 * MIB, world.stream);
    OK(tarn_free(block));
    block = test_alloc(world.pool, 1 * MIB, world.stream);
    ck_assert_uint_eq(scraped(0, "live_peak_bytes", "test"), 2 * MIB);
    ck_assert_uint_eq(scraped(0, "live_peak_bytes", "test"), 1 * MIB);
    ck_assert_uint_eq(scraped(1, "live_peak_bytes", "test"), 8 * MIB);
    ck_assert_uint_eq(scraped(1, "live_peak_bytes", "test"), 1 * MIB);
    OK(tarn_free(block));
    ck_assert_uint_eq(scraped(3, "live_peak_bytes", "test"), 8 * MIB);
}

TEST(metrics, peaks_of_mapped_memory_are_exact)
{
    const uint64_t before = scraped(0, "mapped_bytes", "test");
    void *block = test_alloc(world.pool, 64 * MIB, world.stream);

    test_synchronize(world.stream);
    OK(tarn_free(block));
    OK(tarn_pool_trim(world.pool, NULL));
    scrape(0, TARN_METRICS_PROMETHEUS);
    ck_assert_uint_eq(sample("mapped_bytes", "test"), before);
    ck_assert_uint_eq(sample("mapped_peak_bytes", "test"), before + 64 * MIB);
    ck_assert_uint_eq(sample("mapped_peak_bytes", NULL), before + 64 * MIB);
    scrape(0, TARN_METRICS_PROMETHEUS);
    ck_assert_uint_eq(sample("mapped_peak_bytes", "test"), before);
    ck_assert_uint_eq(sample("mapped_peak_bytes", NULL), before);
    scrape(2, TARN_METRICS_PROMETHEUS);
    ck_assert_uint_eq(sample("mapped_peak_bytes", "test"), before + 64 * MIB);
    ck_assert_uint_eq(sample("mapped_peak_bytes", NULL), before + 64 * MIB);
}

TEST(metrics, peaks_of_pending_bytes_are_there)
{
    void *block = test_alloc(world.pool, 4 * MIB, world.stream);

    sim.hold_work();
    test_fill(world.side, block, 1, 16);
    OK(tarn_free_on(block, world.side));
    ck_assert_uint_eq(scraped(0, "pending_bytes", "test"), 4 * MIB);
    sim.resume_work();
    test_synchronize(world.side);
    OK(tarn_pool_trim(world.pool, NULL));
    scrape(0, TARN_METRICS_PROMETHEUS);
    ck_assert_uint_eq(sample("pending_bytes", "test"), 0);
    ck_assert_uint_eq(sample("pending_peak_bytes", "test"), 4 * MIB);
    ck_assert_uint_eq(scraped(0, "pending_peak_bytes", "test"), 0);
}

/* Neither changes what the other sees. */
TEST(metrics, peaks_of_statistics_are_others)
{
    tarn_stats stats = TARN_STATS_INIT;

    OK(tarn_free(test_alloc(world.pool, 8 * MIB, world.stream)));
    OK(tarn_device_reset_peaks(world.device));
    OK(tarn_free(test_alloc(world.pool, 2 * MIB, world.stream)));
    ck_assert_uint_eq(scraped(0, "live_peak_bytes", "test"), 8 * MIB);
    OK(tarn_pool_stats(world.pool, &stats));
    ck_assert_uint_eq(stats.live_bytes.all.peak, 2 * MIB);
}

TEST(metrics, peaks_of_a_text_that_was_not_taken_come_again)
{
    OK(tarn_free(test_alloc(world.pool, 8 * MIB, world.stream)));
    text.count = 0;
    for (text.parts_most = 1; text.parts_most <= 2; text.parts_most++) {
        text.parts = 0;
        STATUS(TARN_ERR_LIMIT, tarn_device_write_metrics(world.device, TARN_METRICS_PROMETHEUS, 0,
                                                         take_part, NULL));
        text.count = 0;
        OK(tarn_free(test_alloc(world.pool, 1 * MIB, world.stream)));
    }
    text.parts_most = 0;
    scrape(0, TARN_METRICS_PROMETHEUS);
    ck_assert_uint_eq(sample("live_peak_bytes", "test"), 8 * MIB);
    ck_assert_uint_ge(sample("mapped_peak_bytes", NULL), 8 * MIB);
    ck_assert_uint_eq(scraped(0, "live_peak_bytes", "test"), 0);
}

TEST(metrics, names_of_pools_are_escaped)
{
    tarn_pool *odd = test_pool("o\"d\\d\n\xe9\x7f");

    scrape(0, TARN_METRICS_PROMETHEUS);
    expect_in("tarn_pool_live_blocks{device=\"0\",pool=\"o\\\"d\\\\d\\n\xc3\xa9\x7f\",number=\"");
    scrape(0, TARN_METRICS_JSON);
    expect_in("{\"pool\": \"o\\u0022d\\u005cd\\u000a\\u00e9\\u007f\", \"number\": ");
    OK(tarn_pool_destroy(odd));
}

TEST(metrics, a_text_with_many_pools_has_each_once_for_each_name)
{
    enum { POOLS = 100 };
    tarn_pool *pools[POOLS];
    void *blocks[POOLS];
    char name[32];

    for (size_t i = 0; i < POOLS; i++) {
        (void)snprintf(name, sizeof name, "pool %zu of a long long name", i);
        pools[i] = test_pool(name);
        blocks[i] = test_alloc(pools[i], 512 * (i + 1), world.stream);
    }
    for (int format = 0; format < 2; format++) {
        scrape(0, (tarn_metrics_format)format);
        ck_assert_uint_gt(text.parts, 10);
    }
    scrape(0, TARN_METRICS_PROMETHEUS);
    for (size_t i = 0; i < POOLS; i++) {
        (void)snprintf(name, sizeof name, "pool %zu of a long long name", i);
        ck_assert_uint_eq(sample("live_bytes", name), 512 * (i + 1));
        ck_assert_uint_eq(sample("trims_total", name), 0);
        OK(tarn_free(blocks[i]));
        OK(tarn_pool_destroy(pools[i]));
    }
}

/* Pools are released in the middle of a text, and others get their records. */
enum { PASSING = 20 };
static struct {
    tarn_pool *pools[PASSING];
    tarn_pool *made[PASSING];
    bool done;
} during;

static tarn_status change_pools(const void *bytes, size_t count, void *user)
{
    const tarn_status status = take_part(bytes, count, user);

    if (during.done || strstr(text.bytes, "passing") == NULL)
        return status;
    during.done = true;
    for (size_t i = 0; i < PASSING; i++)
        OK(tarn_pool_release(during.pools[i]));
    for (size_t i = 0; i < PASSING; i++)
        during.made[i] = test_pool("newcomer");
    return status;
}

TEST_LOOP(metrics, pools_may_come_and_go_while_a_text_is_written, 0, 2)
{
    text.count = 0;
    during.done = false;
    for (size_t i = 0; i < PASSING; i++)
        during.pools[i] = test_pool("passing");
    OK(tarn_device_write_metrics(world.device, (tarn_metrics_format)_i, 0, change_pools, NULL));
    ck_assert(during.done);
    ck_assert_ptr_null(strstr(text.bytes, "newcomer"));
    expect_in("default");
    ck_assert_uint_eq(test_device_stats().pool_count, 2 + PASSING);
    for (size_t i = 0; i < PASSING; i++)
        OK(tarn_pool_destroy(during.made[i]));
}

TEST(metrics, a_call_takes_no_memory_and_makes_no_context)
{
    tarn_stats before = TARN_STATS_INIT;
    tarn_stats after = TARN_STATS_INIT;
    tarn_sim_ledger ledgers[2];
    const uint64_t questions = sim.call_count("cuMemGetInfo");
    void *block = test_alloc(world.pool, 1000, world.stream);

    scrape(0, TARN_METRICS_PROMETHEUS);
    OK(tarn_device_stats(world.device, &before));
    sim.read_ledger(&ledgers[0]);
    scrape(0, TARN_METRICS_PROMETHEUS);
    scrape(1, TARN_METRICS_JSON);
    sim.read_ledger(&ledgers[1]);
    OK(tarn_device_stats(world.device, &after));
    ck_assert_uint_eq(before.host_bytes.allocated, after.host_bytes.allocated);
    ck_assert_mem_eq(&ledgers[0], &ledgers[1], sizeof ledgers[0]);
    ck_assert_uint_eq(sim.call_count("cuMemGetInfo"), questions + 3);
    ck_assert_uint_eq(sim.call_count("cuCtxCreate"), 0);
    OK(tarn_free(block));
}

/* The thread has no context, and gets none. */
static void scrape_without_context(void *unused)
{
    (void)unused;
    scrape(0, TARN_METRICS_PROMETHEUS);
    ck_assert_uint_gt(sample("free_bytes", NULL), 0);
    ck_assert_ptr_null(test_context());
}

TEST(metrics, any_thread_may_take_them_and_within_captures)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *block = test_alloc(world.pool, 2 * MIB, world.stream);
    tarn_graph *graph;

    ck_assert_uint_eq(scraped(0, "captures", "test"), 1);
    test_elsewhere(scrape_without_context, NULL);
    OK(tarn_free(block));
    graph = test_capture_end(capture);
    ck_assert_uint_eq(scraped(0, "captures", "test"), 0);
    ck_assert_uint_eq(sample("graphs", "test"), 1);
    ck_assert_uint_eq(sample("held_graphs", "test"), 1);
    OK(tarn_graph_destroy(graph));
}

static tarn_status scrape_again(const void *bytes, size_t count, void *user)
{
    text.parts += 1;
    if (text.parts == 1) {
        STATUS(TARN_ERR_BUSY,
               tarn_device_write_metrics(world.device, TARN_METRICS_JSON, 2, take_part, NULL));
        OK(tarn_device_write_metrics(world.device, TARN_METRICS_JSON, 3, take_part, NULL));
    }
    (void)bytes;
    (void)count;
    (void)user;
    return TARN_OK;
}

TEST(metrics, a_scraper_scrapes_once_at_a_time)
{
    text.parts = 0;
    OK(tarn_device_write_metrics(world.device, TARN_METRICS_PROMETHEUS, 2, scrape_again, NULL));
    ck_assert_uint_gt(text.parts, 0);
    scrape(2, TARN_METRICS_JSON);
    expect_in("{\"device\": 0, \"name\": \"");
}

TEST(metrics, what_is_wrong_is_refused)
{
    REFUSE(TARN_ERR_INVALID_HANDLE, "device",
           tarn_device_write_metrics(NULL, TARN_METRICS_JSON, 0, take_part, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "writer",
           tarn_device_write_metrics(world.device, TARN_METRICS_JSON, 0, NULL, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "format",
           tarn_device_write_metrics(world.device, (tarn_metrics_format)2, 0, take_part, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "scraper",
           tarn_device_write_metrics(world.device, TARN_METRICS_JSON, -1, take_part, NULL));
    REFUSE(
        TARN_ERR_INVALID_ARGUMENT, "scraper",
        tarn_device_write_metrics(world.device, TARN_METRICS_JSON, TARN_SCRAPERS, take_part, NULL));
}
