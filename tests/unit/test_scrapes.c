// SPDX-License-Identifier: Apache-2.0
#include "pools/scrapes.h"

#include "pools/counters.h"
#include "unit/unit.h"

static struct tn_scraper scrapers[TARN_SCRAPERS];
static struct tn_pool_scrape scrapes[TARN_SCRAPERS];
static struct tn_metric metrics[TN_METRICS];

static void clear(void)
{
    memset(scrapers, 0, sizeof scrapers);
    memset(scrapes, 0, sizeof scrapes);
    memset(metrics, 0, sizeof metrics);
}

static void rise_and_fall(enum tn_metric_id id, uint64_t amount)
{
    (void)tn_metric_add(&metrics[id], TN_HEAP_SMALL, amount / 2);
    (void)tn_metric_add(&metrics[id], TN_HEAP_LARGE, amount - amount / 2);
    tn_metric_remove(&metrics[id], TN_HEAP_LARGE, amount - amount / 2);
    tn_metric_remove(&metrics[id], TN_HEAP_SMALL, amount / 2);
}

/* A scrape of the pool's pending bytes. */
static uint64_t scrape(int scraper, bool whole)
{
    OK(tn_scrape_begin(&scrapers[scraper], scraper));
    tn_scrape_peaks(scrapes, metrics, scrapers, scraper);
    tn_scrape_end(&scrapers[scraper], whole);
    ck_assert_uint_eq(scrapes[scraper].number, scrapers[scraper].number);
    return scrapes[scraper].peaks[TN_SCRAPED_PENDING];
}

static uint64_t scrape_mapped(int scraper, bool whole)
{
    OK(tn_scrape_begin(&scrapers[scraper], scraper));
    tn_scrape_mapped(scrapers, &metrics[TN_CHUNK_BYTES], scraper);
    tn_scrape_end(&scrapers[scraper], whole);
    return scrapers[scraper].peak;
}

GROUP(scrapes, clear, NULL)

TEST(scrapes, each_scraper_has_the_peak_since_its_own_last_scrape)
{
    rise_and_fall(TN_PENDING_BYTES, 10);
    ck_assert_uint_eq(scrape(0, true), 10);
    rise_and_fall(TN_PENDING_BYTES, 7);
    ck_assert_uint_eq(scrape(0, true), 7);
    ck_assert_uint_eq(scrape(0, true), 0);
    rise_and_fall(TN_PENDING_BYTES, 3);
    ck_assert_uint_eq(scrape(1, true), 10);
    ck_assert_uint_eq(scrape(0, true), 3);
    ck_assert_uint_eq(scrape(1, true), 0);
    ck_assert_uint_eq(scrape(TARN_SCRAPERS - 1, true), 10);
}

TEST(scrapes, what_is_there_is_part_of_the_next_peak)
{
    (void)tn_metric_add(&metrics[TN_PENDING_BYTES], TN_HEAP_SMALL, 5);
    ck_assert_uint_eq(scrape(0, true), 5);
    tn_metric_remove(&metrics[TN_PENDING_BYTES], TN_HEAP_SMALL, 4);
    ck_assert_uint_eq(scrape(0, true), 5);
    ck_assert_uint_eq(scrape(0, true), 1);
}

TEST(scrapes, each_metric_has_its_own_peak)
{
    rise_and_fall(TN_PENDING_BYTES, 1);
    rise_and_fall(TN_LIVE_BYTES, 2);
    rise_and_fall(TN_CHUNK_BYTES, 3);
    ck_assert_uint_eq(scrape(0, true), 1);
    ck_assert_uint_eq(scrapes[0].peaks[TN_SCRAPED_LIVE], 2);
    ck_assert_uint_eq(scrapes[0].peaks[TN_SCRAPED_MAPPED], 3);
}

TEST(scrapes, peaks_of_scrapes_that_failed_come_again)
{
    rise_and_fall(TN_PENDING_BYTES, 10);
    ck_assert_uint_eq(scrape(0, false), 10);
    rise_and_fall(TN_PENDING_BYTES, 4);
    ck_assert_uint_eq(scrape(0, false), 10);
    rise_and_fall(TN_PENDING_BYTES, 12);
    ck_assert_uint_eq(scrape(0, false), 12);
    ck_assert_uint_eq(scrape(0, true), 12);
    ck_assert_uint_eq(scrape(0, true), 0);
}

/* A pool that the failed scrape has not seen has no peaks of it. */
TEST(scrapes, values_of_an_older_scrape_do_not_come_again)
{
    rise_and_fall(TN_PENDING_BYTES, 10);
    ck_assert_uint_eq(scrape(0, true), 10);
    OK(tn_scrape_begin(&scrapers[0], 0));
    tn_scrape_end(&scrapers[0], false);
    ck_assert_uint_eq(scrape(0, true), 0);
}

TEST(scrapes, the_devices_peak_is_kept_in_the_same_way)
{
    rise_and_fall(TN_CHUNK_BYTES, 10);
    ck_assert_uint_eq(scrape_mapped(0, false), 10);
    rise_and_fall(TN_CHUNK_BYTES, 4);
    ck_assert_uint_eq(scrape_mapped(0, true), 10);
    rise_and_fall(TN_CHUNK_BYTES, 3);
    ck_assert_uint_eq(scrape_mapped(0, true), 3);
    ck_assert_uint_eq(scrape_mapped(1, true), 10);
}

TEST(scrapes, a_scraper_is_busy_until_its_end)
{
    OK(tn_scrape_begin(&scrapers[1], 1));
    STATUS(TARN_ERR_BUSY, tn_scrape_begin(&scrapers[1], 1));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "scraper 1"));
    ck_assert_uint_eq(scrapers[1].number, 1);
    OK(tn_scrape_begin(&scrapers[0], 0));
    tn_scrape_end(&scrapers[1], true);
    OK(tn_scrape_begin(&scrapers[1], 1));
}

CONTRACT_TEST(scrapes, who_is_not_busy_takes_no_peaks)
{
    tn_scrape_peaks(scrapes, metrics, scrapers, 0);
}
