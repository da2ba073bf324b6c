// SPDX-License-Identifier: Apache-2.0
/* scrapes.h -- peaks and numbers of pools, taken at times by programs that watch a device.
 *
 * A scraper is one such program, by its number. Each has peaks of its own: the highest values since
 * its last scrape. A metric has one register of recent peaks (pools/counters.h), for all scrapers. A
 * scrape adds the register to what every scraper has, and begins it anew. So a peak costs the same
 * for any number of scrapers.
 *
 * A scrape takes the values of all pools, each at its moment, and keeps them beside the pool while
 * they are written. Where that fails, the next scrape of the scraper has these peaks, too.
 *
 * Locking: the owner's, which is the pool's lock or COUNTS; values and number also belong to the
 * scraper which is busy. */
#ifndef TARN_POOLS_SCRAPES_H
#define TARN_POOLS_SCRAPES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pools/counters.h"

/* A scraper of a device. */
struct tn_scraper {
    atomic_bool is_busy;
    bool failed;     /* its last scrape, which was not written whole */
    uint64_t number; /* of its last scrape; 0: none yet */
    /* of the device's mapped bytes, as in tn_pool_scrape; guarded by COUNTS */
    uint64_t since;
    uint64_t peak;
};

/* Begins a scrape: the scraper is busy. BUSY: it was. */
TARN_MUST_CHECK tarn_status tn_scrape_begin(struct tn_scraper *scraper, int number);

/* Ends it. whole: all was written. */
void tn_scrape_end(struct tn_scraper *scraper, bool whole);

/* Whether the last scrape failed, and took the values of a scrape with this number. */
static inline bool tn_scrape_is_again(const struct tn_scraper *scraper, uint64_t number)
{
    return scraper->failed && number != 0 && number + 1 == scraper->number;
}

/* Takes the peaks of a pool for its device's scraper. The pool's lock is held. */
void tn_scrape_peaks(struct tn_pool_scrape scrapes[TARN_SCRAPERS], struct tn_metric *metrics,
                     const struct tn_scraper *scrapers, int scraper);

/* Takes the peak of the device's mapped bytes. COUNTS is held. */
void tn_scrape_mapped(struct tn_scraper scrapers[TARN_SCRAPERS], struct tn_metric *mapped,
                      int scraper);

#endif
