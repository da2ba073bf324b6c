// SPDX-License-Identifier: Apache-2.0
#include "pools/scrapes.h"

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"

static const enum tn_metric_id scraped[TN_SCRAPED_PEAKS] = {
    [TN_SCRAPED_LIVE] = TN_LIVE_BYTES,
    [TN_SCRAPED_PENDING] = TN_PENDING_BYTES,
    [TN_SCRAPED_MAPPED] = TN_CHUNK_BYTES,
};

tarn_status tn_scrape_begin(struct tn_scraper *scraper, int number)
{
    TN_ASSERT(number >= 0 && number < TARN_SCRAPERS);
    if (atomic_exchange(&scraper->is_busy, true))
        return tn_fail(TARN_ERR_BUSY, "a scrape of scraper %d is not over", number);
    scraper->number += 1;
    return TARN_OK;
}

void tn_scrape_end(struct tn_scraper *scraper, bool whole)
{
    TN_ASSERT(atomic_load(&scraper->is_busy));
    scraper->failed = !whole;
    atomic_store(&scraper->is_busy, false);
}

/* Ends the register's time, for every scraper. Returns its peak. */
static uint64_t begin_anew(struct tn_metric *metric)
{
    const uint64_t now = tn_metric_all(metric);
    const uint64_t most = tn_max(metric->recent, now);

    metric->recent = now;
    return most;
}

void tn_scrape_peaks(struct tn_pool_scrape scrapes[TARN_SCRAPERS], struct tn_metric *metrics,
                     const struct tn_scraper *scrapers, int scraper)
{
    struct tn_pool_scrape *own = &scrapes[scraper];
    const bool again = tn_scrape_is_again(&scrapers[scraper], own->number);

    TN_ASSERT(atomic_load(&scrapers[scraper].is_busy));
    for (int id = 0; id < TN_SCRAPED_PEAKS; id++) {
        struct tn_metric *metric = &metrics[scraped[id]];
        const uint64_t most = begin_anew(metric);

        for (int other = 0; other < TARN_SCRAPERS; other++)
            scrapes[other].since[id] = tn_max(scrapes[other].since[id], most);
        own->peaks[id] = again ? tn_max(own->peaks[id], own->since[id]) : own->since[id];
        own->since[id] = tn_metric_all(metric);
        TN_ASSERT(own->peaks[id] >= own->since[id]);
    }
    own->number = scrapers[scraper].number;
}

void tn_scrape_mapped(struct tn_scraper scrapers[TARN_SCRAPERS], struct tn_metric *mapped,
                      int scraper)
{
    struct tn_scraper *own = &scrapers[scraper];
    const uint64_t most = begin_anew(mapped);

    TN_ASSERT(atomic_load(&own->is_busy));
    for (int other = 0; other < TARN_SCRAPERS; other++)
        scrapers[other].since = tn_max(scrapers[other].since, most);
    own->peak = own->failed ? tn_max(own->peak, own->since) : own->since;
    own->since = tn_metric_all(mapped);
}
